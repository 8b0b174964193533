r"""Rows of class-conditional models: checked entries, classes and weights; shares and posteriors of classes.

Identity.    $p(c \mid x) = p(x, c) / \sum_{c'} p(x, c')$ in logarithms; a row that no class allows has none.
Cost.        One pass over the entries.
"""

import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, offender
from tractable.core.types import ArrayLike
from tractable.supervised.generative.counts import additive_smoothing

__all__ = ["checked_rows", "class_shares", "log_posterior", "training_rows"]


def log_posterior(scores: np.ndarray) -> np.ndarray:
    r"""$s_c - \log\sum_{c'} e^{s_{c'}}$ in each row; a row of $-\infty$ has no posterior and is an error."""
    top = scores.max(1, keepdims=True)
    if np.isneginf(top).any():
        row = int(np.flatnonzero(np.isneginf(top[:, 0]))[0])
        fix = "Smooth the counts, so that what a class never showed is not impossible."
        check(False, "X", "possible in at least one class", f"row {row}", fix, ImpossibleEvidence)
    shifted = scores - top
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def class_shares(
    totals: np.ndarray, smoothing: float | int | None, given: ArrayLike | None = None
) -> np.ndarray:
    """The probability of each class: its smoothed share of the weight, or what is given."""
    if smoothing is not None:
        return additive_smoothing(totals, smoothing)
    probs = np.asarray(given, float)
    ok = probs.shape == totals.shape and bool((probs >= 0).all()) and abs(probs.sum() - 1) <= 1e-6
    check(ok, "class_probs", f"{len(totals)} probabilities that sum to 1", np.asarray(given).tolist())
    return probs / probs.sum()


def checked_rows(X: ArrayLike, num_columns: int | None = None, *, missing: bool = True) -> np.ndarray:
    """`X` as rows of finite numbers, with NaN for missing entries if they are allowed; errors name the
    column."""
    rows = np.asarray(X, float)
    wanted = f"of shape (n, {'d' if num_columns is None else num_columns})"
    check(rows.ndim == 2 and num_columns in (None, rows.shape[1]), "X", wanted, f"shape {rows.shape}")
    bad = np.isinf(rows) if missing else ~np.isfinite(rows)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        must = "finite, or NaN where missing" if missing else "finite"
        check(False, "X", must, f"{rows[row, column]} in column {column}, row {row}")
    return rows


def training_rows(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    num_classes: int | None = None,
    num_columns: int | None = None,
    *,
    missing: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, codes of classes and positive weights; rows of weight zero are gone.

    Without `num_classes` the largest code says how many classes there are.
    """
    rows, labels = checked_rows(X, num_columns, missing=missing), np.asarray(y)
    check(labels.shape == (len(rows),), "y", f"one class per row ({len(rows)},)", f"shape {labels.shape}")
    check(len(rows) > 0, "X", "at least one row", "none")
    whole = labels.dtype.kind in "iub" or (labels.dtype.kind == "f" and bool((labels % 1 == 0).all()))
    check(whole, "y", "codes 0, 1, ... of classes", f"dtype {labels.dtype}", "See `label_codes`.")
    ok = (labels >= 0) & (labels < (np.inf if num_classes is None else num_classes))
    if not ok.all():
        last = "..." if num_classes is None else f"{num_classes - 1}"
        check(False, "y", f"codes from 0 to {last}", offender(labels, ok))
    counts = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
    check(counts.shape == labels.shape, "weights", f"one per row ({len(rows)},)", f"shape {counts.shape}")
    ok = np.isfinite(counts) & (counts >= 0)
    if not ok.all():
        check(False, "weights", "zero or positive, and finite", offender(counts, ok))
    keep = counts > 0
    check(bool(keep.any()), "weights", "positive for at least one row", "zeros")
    labels = labels.astype(np.int64)
    return (rows, labels, counts) if keep.all() else (rows[keep], labels[keep], counts[keep])
