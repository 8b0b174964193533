"""The rows of a regression as checked arrays: errors by name, absent rows gone.

Cost.        One pass over the rows; no copy unless a weight is zero.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_length, offender

__all__ = ["check_entries", "check_nonnegative", "regression_rows"]


def regression_rows(X: Any, y: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d), targets (n,) or (n, k) and positive weights as checked float64; weight zero is absent."""
    rows, targets = np.asarray(X, float), np.asarray(y, float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    check(rows.ndim == 2, "X", "rows of shape (n, d), or a vector", f"shape {rows.shape}")
    check(targets.ndim in (1, 2), "y", "one target (or a row of them) per row", f"shape {targets.shape}")
    check(rows.shape[0] > 0, "X", "at least one row", "none")
    check_length("y", targets, "X", rows)
    check_entries("X", rows)
    check_entries("y", targets)
    if weights is None:
        return rows, targets, np.ones(len(rows))
    count = np.asarray(weights, float)
    check(
        count.shape == (len(rows),),
        "weights",
        f"of shape ({len(rows)},), one per row",
        f"shape {count.shape}",
    )
    check_nonnegative("weights", count)
    keep = count > 0
    check(bool(keep.any()), "weights", "positive for at least one row", "zeros")
    return (rows, targets, count) if keep.all() else (rows[keep], targets[keep], count[keep])


def check_entries(name: str, values: np.ndarray) -> None:
    """Refuse NaN and infinity, naming the first entry and its column."""
    if not np.isfinite(values.sum()):  # one pass without temporaries; a finite sum has only finite terms
        good = np.isfinite(values)
        if not good.all():
            where = int(np.argwhere(~good)[0][-1])
            column = f" (column {where})" if values.ndim == 2 else ""
            check(False, name, "finite", offender(values, good) + column, "Impute or drop missing entries.")


def check_nonnegative(name: str, values: np.ndarray) -> None:
    """Refuse negative and infinite values, naming the first."""
    good = (values >= 0) & np.isfinite(values)
    if not good.all():
        check(False, name, "zero or positive, and finite", offender(values, good))
