r"""Columns of data as states and codes, and the counts of their combinations.

Counts.      $N(x) = \sum_n w_n [x_n = x]$, so that the empirical distribution is
             $\tilde P(x) = N(x) / \sum_x N(x)$.
Cost.        One sort per column, then linear in the rows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_length, check_nonnegative
from tractable.core.types import Float, Int
from tractable.distributions.table_axes import TableAxes, table_axes

__all__ = ["as_weights", "column_codes", "tabulate"]

_MOST_CELLS = 2**27  # 1 GB of counts


def column_codes(
    name: str, column: Any, states: Sequence[Any] | None = None
) -> tuple[tuple[Any, ...], Int[np.ndarray, " rows"]]:
    """The states of a discrete column and the position of each row among them.

    States are the categories of a categorical column, else the distinct values in sorted order (in the order
    of their first appearance where they do not compare). A value outside given `states` is an error.
    """
    if states is None and hasattr(column, "cat"):
        states = list(column.cat.categories)
    values = np.asarray(column)
    check(
        values.ndim == 1 and values.size > 0, name, "a column with at least one row", f"shape {values.shape}"
    )
    missing = np.asarray(column.isna()) if hasattr(column, "isna") else _missing(values)
    if missing.any():
        fix = "Drop or name those rows."
        check(False, name, "without missing values", f"one in row {int(missing.argmax())}", fix)
    if states is None:
        try:
            distinct, codes = np.unique(values, return_inverse=True)
            return tuple(distinct.tolist()), codes
        except TypeError:  # mixed types have no order
            states = list(dict.fromkeys(values.tolist()))
    return tuple(states), _look_up(name, values.tolist(), tuple(states))


def tabulate(
    data: Mapping[str, Any] | Any, weights: Any = None, states: Mapping[str, Sequence[Any]] | None = None
) -> tuple[TableAxes, Float[np.ndarray, "..."]]:
    """Axes and weighted counts of combinations in `data`, a mapping from names to columns or a DataFrame."""
    columns = {str(name): data[name] for name in data}
    check(len(columns) > 0, "data", "a mapping with at least one column", "none")
    known = states or {}
    unknown = [name for name in known if name not in columns]
    check(not unknown, "states", f"given for columns among {tuple(columns)}", unknown)
    coded = {name: column_codes(name, column, known.get(name)) for name, column in columns.items()}
    first = next(iter(coded))
    for name, (_, codes) in coded.items():
        check_length(name, codes, first, coded[first][1])
    shape = tuple(len(found) for found, _ in coded.values())
    few = math.prod(shape) <= _MOST_CELLS
    check(few, "data", f"columns with at most {_MOST_CELLS} joint states", f"{shape}", "Bin or drop columns.")
    axes = table_axes(coded, shape, [found for found, _ in coded.values()])
    flat = np.ravel_multi_index([codes for _, codes in coded.values()], shape)
    counts = np.bincount(flat, as_weights(weights, coded[first][1]), minlength=math.prod(shape))
    return axes, counts.reshape(shape).astype(float)


def _look_up(name: str, values: list[Any], states: tuple[Any, ...]) -> Int[np.ndarray, " rows"]:
    place = {state: i for i, state in enumerate(states)}
    unknown = [row for row, value in enumerate(values) if value not in place]
    if unknown:
        check(False, name, f"one of its states {states}", f"{values[unknown[0]]!r} in row {unknown[0]}")
    return np.array([place[value] for value in values])


def _missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "OM":
        return np.array([value is None or bool(value != value) for value in values.tolist()])
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)


def as_weights(weights: Any, rows: np.ndarray) -> np.ndarray | None:
    """Weights of rows: finite, zero or positive, not all zero; None for rows that count once."""
    if weights is None:
        return None
    values = np.asarray(weights, float)
    check_length("weights", values, "data", rows)
    check_nonnegative("weights", values)
    check(values.sum() > 0, "weights", "positive for at least one row", "zero for all")
    return values
