r"""What trees see of a table: columns by rank, checked targets, and an order of rows of their own.

Ranks.       $x_{ij}$ is replaced by its number among the distinct values of column $j$: what is made of ranks
             alone is the same for columns in other units.
Order.       A hash of ranks and targets orders rows; it depends on their contents alone.
Cost.        One sort for each column.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tractable.core.rows import Rows
from tractable.core.types import Int, Values

__all__ = [
    "Columns",
    "Distinct",
    "Sample",
    "canonical_order",
    "code_columns",
    "copy_groups",
    "distinct_rows",
    "sample_of",
]


class Columns(NamedTuple):
    """Columns by rank: `codes[j, i]` numbers the distinct values of column `j` (-1: missing)."""

    codes: np.ndarray
    values: np.ndarray  # the distinct values of all columns, one after the other
    starts: np.ndarray  # where each column begins in `values`


class Sample(NamedTuple):
    """Checked training rows: what is needed beside the columns."""

    labels: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    num_values: int

    def take(self, index: Values) -> "Sample":
        """Some of the rows, or all of them in another order."""
        return self._replace(
            labels=self.labels[index], targets=self.targets[index], weights=self.weights[index]
        )


def code_columns(rows: np.ndarray) -> Columns:
    """Each column by the ranks of its distinct values."""
    codes, values = np.empty(rows.shape[::-1], np.int32), []
    for j, column in enumerate(np.ascontiguousarray(rows.T)):
        order = np.argsort(column)
        ordered = column[order]
        present = len(ordered) - int(np.isnan(ordered).sum())  # missing entries come last
        new = np.ones(present, bool)
        new[1:] = ordered[1:present] != ordered[: max(present - 1, 0)]
        codes[j, order[:present]] = np.cumsum(new) - 1
        codes[j, order[present:]] = -1
        values.append(ordered[:present][new])
    starts = np.cumsum([0, *map(len, values)])
    return Columns(codes, np.concatenate(values), starts)


def sample_of(
    X: Any, y: Any, weights: Any, criterion: str, num_classes: int | None
) -> tuple[np.ndarray, Sample]:
    """Checked rows with their targets; for classes the targets are not used, for numbers the labels.

    Rows of weight zero stay: they are absent from the tree alone.
    """
    target = "number" if criterion == "variance" else "class"
    rows = Rows.of(X, y, weights, target=target, gaps=True, num_classes=num_classes, absent="keep")
    targets = np.asarray(rows.y, float)
    if criterion == "variance":
        return rows.X, Sample(np.zeros(rows.num_rows, np.int32), targets, rows.weights, 1)
    return rows.X, Sample(rows.y.astype(np.int32), targets, rows.weights, rows.num_classes)


def canonical_order(columns: Columns, targets: np.ndarray) -> Int[Values, " n"]:
    """An order of rows that depends on the ranks of their contents alone, by a hash; equal rows come next to
    each other."""
    ranks = np.unique(targets, return_inverse=True)[1].reshape(-1).astype(np.uint64)
    mixed = (ranks + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for codes in columns.codes:
        mixed = (mixed ^ codes.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return np.argsort(mixed, kind="stable")


class Distinct(NamedTuple):
    """A table in an order of its own, in which copies of a row are one row with the sum of their weights."""

    rows: Rows
    columns: Columns
    places: np.ndarray  # of each row of the table that came, among the distinct ones


def distinct_rows(rows: Rows) -> Distinct:
    """The distinct rows: the same for copies as for weights, and whatever order the rows came in."""
    columns, targets = code_columns(rows.X), np.asarray(rows.y, float)
    order = canonical_order(columns, targets)
    group = copy_groups(columns, targets, order)
    first = order[np.flatnonzero(np.diff(group, prepend=-1))]
    weights = np.bincount(group, rows.weights[order])
    places = np.empty(len(order), np.int64)
    places[order] = group
    columns = columns._replace(codes=np.ascontiguousarray(columns.codes[:, first]))
    return Distinct(replace(rows.take(first), weights=weights, is_weighted=True), columns, places)


def copy_groups(columns: Columns, targets: np.ndarray, order: np.ndarray) -> Int[Values, " n"]:
    """The number of each distinct row, in an order that puts copies next to each other."""
    codes, ordered = columns.codes[:, order], targets[order]
    new = (codes[:, 1:] != codes[:, :-1]).any(0) | (ordered[1:] != ordered[:-1])
    return np.cumsum(np.concatenate([[False], new]))
