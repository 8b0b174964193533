r"""Rows of discrete data as whole numbers: coded once, grouped where they repeat, counted by packed codes.

Counts.      $N(x_S) = \sum_n w_n [x_{n,S} = x_S]$ for any set $S$ of variables. The codes of a row pack into
             one number, $((c_1 k_2 + c_2) k_3 + c_3) \cdots$, and counting is one pass over these numbers.
Cost.        Linear in the rows (by hashing, not by sorting); a million rows of ten columns code in a second.
References.  Moore and Lee (1998), on counts as the cost of learning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tractable.core.checks import check, check_length
from tractable.core.types import Float, Int
from tractable.distributions.table_axes import TableAxes, as_names
from tractable.distributions.tables import JointTable
from tractable.distributions.tabulation import as_weights, column_codes

__all__ = ["CodedRows", "coded_rows"]

_LARGEST = 2**62  # packed codes are 64-bit numbers
_MOST_CELLS = 2**27
_FEW_STATES = 20  # as many distinct values as this are states whatever they look like


@dataclass(frozen=True)
class CodedRows:
    """Columns as positions among their states; -1 is a missing value."""

    axes: TableAxes
    columns: Int[np.ndarray, "columns rows"]
    weights: Float[np.ndarray, " rows"]

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of states of each variable."""
        return self.axes.shape

    @property
    def num_rows(self) -> int:
        return self.columns.shape[1]

    @cached_property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.weights.sum())

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """The variables with a missing value in some row."""
        return tuple(name for name, column in zip(self.names, self.columns) if (column < 0).any())

    def complete(self) -> "CodedRows":
        """These rows, if none has a missing value."""
        if self.missing:
            name = self.missing[0]
            row = int((self.columns[self.axes.position(name)] < 0).argmax())
            fix = "Drop or fill those rows, or learn with `fit_network_em`."
            check(False, name, "without missing values", f"one in row {row}", fix)
        return self

    def counts(self, names: Sequence[str]) -> Float[np.ndarray, "..."]:
        """The weighted counts of the joint states of `names`, one axis per name, zeros included."""
        picked = [self.axes.position(name) for name in names]
        shape = tuple(self.sizes[i] for i in picked)
        few = math.prod(shape) <= _MOST_CELLS
        check(few, "names", f"variables with at most {_MOST_CELLS} joint states", f"{tuple(names)}: {shape}")
        flat, span = _pack(self.columns[picked], shape, self.num_rows)
        return np.bincount(flat, self.weights, minlength=span).reshape(shape)

    def cell_counts(self, positions: Sequence[int]) -> Float[np.ndarray, " cells"]:
        """The counts of the joint states that occur, in some order: what scores need, however many states."""
        flat, span = _pack(self.columns[list(positions)], [self.sizes[i] for i in positions], self.num_rows)
        if span > 4 * self.num_rows + 1024:
            _, flat = np.unique(flat, return_inverse=True)
        counts = np.bincount(flat, self.weights)
        return counts[counts > 0]

    def distinct(self) -> "CodedRows":
        """Each distinct row of positive weight once, with the sum of its weights: the same counts."""
        flat, _ = _pack(self.columns + 1, [size + 1 for size in self.sizes], self.num_rows)
        _, first, place = np.unique(flat, return_index=True, return_inverse=True)
        weights = np.bincount(place, self.weights)
        kept = weights > 0
        return CodedRows(self.axes, self.columns[:, first[kept]], weights[kept])

    def strata(self, positions: Sequence[int]) -> tuple[Int[np.ndarray, " rows"], int]:
        """The joint states of some columns numbered as they occur: one number per row, and how many."""
        flat, _ = _pack(self.columns[list(positions)], [self.sizes[i] for i in positions], self.num_rows)
        distinct, place = np.unique(flat, return_inverse=True)
        return place, len(distinct)

    def select(self, names: Sequence[str]) -> "CodedRows":
        """The columns `names`, in that order."""
        picked = [self.axes.position(name) for name in names]
        return CodedRows(self.axes.select(names), self.columns[picked], self.weights)


def coded_rows(
    data: Any, states: Mapping[str, Sequence[Any]] | None = None, weights: Any = None
) -> CodedRows:
    """Rows from a DataFrame, a mapping from names to columns, a two-dimensional array or a `JointTable`.

    Columns of an array are called `x0`, `x1`, ...; a joint table is one row per cell with its probability as
    weight. States are those given, else the categories or the sorted values of the column, which must repeat:
    continuous columns are refused. A variable with given states but no column is hidden: it is missing.

    >>> coded_rows({"a": ["no", "yes", "yes"]}).counts(["a"]).tolist()
    [1.0, 2.0]
    """
    if isinstance(data, CodedRows):
        check(states is None and weights is None, "states, weights", "left out for coded rows", "given")
        return data
    if isinstance(data, JointTable):
        places = np.indices(data.axes.shape).reshape(len(data.names), -1)
        return CodedRows(data.axes, places, np.asarray(data.probs, float).reshape(-1))
    columns, known = _columns(data), dict(states or {})
    coded = {name: _code(name, column, known.get(name)) for name, column in columns.items()}
    rows = len(next(iter(coded.values()))[1])
    for name, (_, codes) in coded.items():
        check_length(name, codes, next(iter(coded)), coded[next(iter(coded))][1])
    hidden = {name: (tuple(found), np.full(rows, -1)) for name, found in known.items() if name not in coded}
    coded |= hidden
    axes = TableAxes(as_names(coded), tuple(found for found, _ in coded.values()))
    counted = as_weights(weights, next(iter(coded.values()))[1])
    counted = np.ones(rows) if counted is None else counted
    return CodedRows(axes, np.stack([codes for _, codes in coded.values()]), counted)


def _columns(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping) or hasattr(data, "iloc"):
        columns = {str(name): data[name] for name in data}
    else:
        values = np.asarray(data)
        must = "a DataFrame, a mapping from names to columns or an array with one column per variable"
        check(values.ndim == 2, "frame", must, f"{type(data).__name__} of shape {values.shape}")
        columns = {f"x{i}": values[:, i] for i in range(values.shape[1])}
    check(len(columns) > 0, "frame", "a table with at least one column", "none")
    return columns


def _code(name: str, column: Any, states: Sequence[Any] | None) -> tuple[tuple[Any, ...], np.ndarray]:
    """Distinct values by hashing, then `column_codes` on those alone."""
    import pandas as pd

    if states is None and hasattr(column, "cat"):
        states = list(column.cat.categories)
    values = column if hasattr(column, "isna") else np.asarray(column)
    one = np.ndim(values) == 1 and len(values) > 0
    check(one, name, "a column with at least one row", f"shape {np.shape(values)}")
    place, found = pd.factorize(values)
    found = np.asarray(found)
    plain = [value.item() if isinstance(value, np.generic) else value for value in found]
    if states is not None:
        known = tuple(s.item() if isinstance(s, np.generic) else s for s in states)
        unknown = [i for i, value in enumerate(plain) if value not in known]
        if unknown:
            row = int((place == unknown[0]).argmax())
            check(False, name, f"one of its states {known}", f"{plain[unknown[0]]!r} in row {row}")
        states = known
    fix = f"Give its states: `states={{{name!r}: [...]}}`."
    check(len(found) > 0 or states is not None, name, "a column with some value", "missing in all rows", fix)
    if len(found) == 0:
        return tuple(states or ()), np.full(len(values), -1)
    if states is None:
        _check_discrete(name, found, int((place >= 0).sum()))
    ordered, codes = column_codes(name, found, states)
    return ordered, np.where(place < 0, -1, codes[place])


def _check_discrete(name: str, found: np.ndarray, num_values: int) -> None:
    """Refuse measurements, dates and identifiers: each value a state of its own, nothing would be learnt, and
    every structure without edges would be the best."""
    dates = found.dtype.kind in "mM"
    measured = dates or (found.dtype.kind == "f" and bool((found != np.round(found)).any()))
    most = max(2, min(num_values // 4, _FEW_STATES)) if measured else max(num_values // 2, _FEW_STATES)
    if len(found) > most:
        kind = "dates" if dates else "fractions" if measured else "values"
        got = f"{len(found)} different {kind} in {num_values} rows"
        fix = (
            f"Cut it into intervals (`pandas.cut(frame[{name!r}], 5)`), leave it out, give its states "
            f"(`states={{{name!r}: [...]}}`), or use `fit_gaussian_network` for continuous columns."
        )
        check(False, name, "a discrete column, whose states repeat", got, fix)


def _pack(columns: np.ndarray, sizes: Sequence[int], num_rows: int) -> tuple[Int[np.ndarray, " rows"], int]:
    """One number per row, and one more than the largest it can be; compressed where it would overflow."""
    flat, span = np.zeros(num_rows, np.int64), 1
    for column, size in zip(columns, sizes):
        if span * size > _LARGEST:
            distinct, flat = np.unique(flat, return_inverse=True)
            span = len(distinct)
        flat, span = flat * size + column, span * size
    return flat, span
