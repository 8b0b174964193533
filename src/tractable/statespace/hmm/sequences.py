r"""Sequences of different lengths in one table: their rows lie one after the other.

Forms.       One array is one sequence; a list is one sequence per entry; `(rows, lengths)` is rows one after
             the other (as hmmlearn has them) or, with one axis more, sequences padded to one length;
             `(rows, mask)` is the same with a mask of the rows that were observed; an array with one axis
             more holds sequences of one length.
Missing.     A row of NaN was not observed; its time passes. Trailing rows that a mask leaves out are no part
             of the sequence.
Weights.     One per sequence: two is the sequence twice.
Cost.        One copy of the rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import check, check_count, check_nonnegative
from tractable.core.module import HostResult, field
from tractable.core.sums import sum_parts
from tractable.messages.chain_rows import Room

__all__ = ["SequenceChunks", "Sequences", "as_sequences"]


class Sequences(HostResult):
    """Rows of all sequences, where each begins, how often it counts, and what came with each row: `inputs`
    (n, p) for the emissions, `controls` (n,) that choose the transition into a row.

    >>> Sequences.of([[0, 1, 1], [1, 0]], 0).starts.tolist()
    [0, 3, 5]
    """

    reiterable: ClassVar[bool] = True

    rows: Any = field(show=False)
    starts: Any
    weights: Any
    inputs: Any = field(show=False, default=None)
    controls: Any = field(show=False, default=None)
    room: Room | None = field(static=True, show=False, default=None)

    @staticmethod
    def of(data: Any, row_ndim: int, *, weights: Any = None, inputs: Any = None,
           controls: Any = None) -> "Sequences":  # fmt: skip
        """Sequences in any of the forms above; `row_ndim` is 0 where a row is a number, 1 where a vector."""
        return as_sequences(data, row_ndim, weights=weights, inputs=inputs, controls=controls)

    @property
    def num_sequences(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each sequence."""
        return np.diff(self.starts)

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of each row: that of its sequence."""
        return np.repeat(self.weights, self.lengths)

    @property
    def missing(self) -> np.ndarray:
        """Which rows were not observed at all."""
        rows = np.asarray(self.rows)
        if rows.dtype.kind != "f":
            return np.zeros(len(rows), bool)
        return np.asarray(np.isnan(rows).reshape(len(rows), -1).all(1))

    def split(self, values: Any) -> list[np.ndarray]:
        """What belongs to rows, cut into sequences."""
        return np.split(np.asarray(values), self.starts[1:-1])

    def part(self, first: int, stop: int) -> "Sequences":
        """Some of the sequences."""
        a, b = int(self.starts[first]), int(self.starts[stop])
        inputs, controls = (None if each is None else each[a:b] for each in (self.inputs, self.controls))
        starts, weights = self.starts[first : stop + 1] - a, self.weights[first:stop]
        return Sequences(self.rows[a:b], starts, weights, inputs, controls)

    def counted(self) -> "Sequences":
        """Without sequences of weight zero (those that fill up a chunk), as long as any are left."""
        kept = np.asarray(self.weights) > 0
        if kept.all() or not kept.any():
            return self
        rows, starts = np.repeat(kept, self.lengths), np.append(0, np.cumsum(self.lengths[kept]))
        beside = (None if each is None else np.asarray(each)[rows] for each in (self.inputs, self.controls))
        inputs, controls = beside
        return Sequences(
            np.asarray(self.rows)[rows], starts, np.asarray(self.weights)[kept], inputs, controls
        )

    def total(self, function: Callable[[Any, Any], Any]) -> Any:
        """`function` of all sequences and their weights."""
        return function(self, self.weights)

    def chunks(self, size: int) -> "SequenceChunks":
        """The same, `size` sequences at a time."""
        return SequenceChunks(self, check_count("size", size))


class SequenceChunks:
    """Sequences that are added up a few at a time."""

    reiterable = True

    def __init__(self, whole: Sequences, size: int):
        self.whole, self.size = whole, size

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for first in range(0, self.whole.num_sequences, self.size):
            part = self.whole.part(first, min(first + self.size, self.whole.num_sequences))
            yield part, part.weights

    def total(self, function: Callable[[Any, Any], Any]) -> Any:
        """The sum of `function(sequences, weights)` over the parts, without loss."""
        return sum_parts(function, self).value


def as_sequences(
    data: Any, row_ndim: int, *, weights: Any = None, inputs: Any = None, controls: Any = None
) -> Sequences:
    """Data in any of the forms of this file as one table; weights, inputs and controls come alike."""
    if isinstance(data, Sequences):
        if weights is None or weights is data.weights:
            return data
        each = _weights(weights, data.starts)
        return Sequences(data.rows, data.starts, each, data.inputs, data.controls, data.room)
    rows, lengths = _rows_and_lengths(data, row_ndim)
    check(len(lengths) > 0, "sequences", "at least one", "none")
    empty = np.flatnonzero(lengths == 0)
    check(not len(empty), "sequences", "of at least one row each", f"none in sequence {empty[:1]}")
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    _check_rows(rows, starts)
    given = None if inputs is None else _beside("inputs", inputs, len(rows), 1)
    chosen = None if controls is None else _beside("controls", controls, len(rows), 0)
    return Sequences(rows, starts, _weights(weights, starts), given, chosen, Room())


def _rows_and_lengths(data: Any, row_ndim: int) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(data, tuple):
        must = "a pair (rows, lengths) or (rows, mask) where it is a tuple; sequences come in a list"
        check(len(data) == 2, "sequences", must, f"{len(data)} entries")
        return _from_pair(data[0], data[1], row_ndim)
    if isinstance(data, list) and data and np.ndim(data[0]) == row_ndim + 1:
        parts = [np.asarray(each) for each in data]
        shapes = {part.shape[1:] for part in parts}
        must = "arrays of rows of one length"
        fine = len(shapes) == 1 and all(part.ndim == row_ndim + 1 for part in parts)
        check(fine, "sequences", must, sorted({part.shape for part in parts}))
        return np.concatenate(parts), np.array([len(part) for part in parts])
    rows = np.asarray(data)
    if rows.ndim == row_ndim + 2:
        return rows.reshape((-1, *rows.shape[2:])), np.full(rows.shape[0], rows.shape[1])
    fix = "One column: `rows[:, None]`." if rows.ndim == row_ndim else ""
    words = "numbers, one per row" if row_ndim == 0 else "a matrix, one row per time"
    check(rows.ndim == row_ndim + 1, "sequences", f"{words} (or several: a list)", f"shape {rows.shape}", fix)
    return rows, np.array([len(rows)])


def _from_pair(rows: Any, second: Any, row_ndim: int) -> tuple[np.ndarray, np.ndarray]:
    rows, second = np.asarray(rows), np.asarray(second)
    if second.dtype.kind == "b":
        wanted = rows.shape[:2]
        check(second.shape == wanted, "mask", f"of shape {wanted}", f"shape {second.shape}")
        lengths = second.shape[1] - second[:, ::-1].argmax(1)
        lengths = np.where(second.any(1), lengths, second.shape[1])
        if not second.all():
            rows = np.where(second.reshape(second.shape + (1,) * row_ndim), rows.astype(float), np.nan)
    else:
        lengths = second.astype(np.int64)
        whole = second.ndim == 1 and bool((lengths == second).all() and (lengths >= 0).all())
        check(whole, "lengths", "whole numbers, one per sequence", second)
    if rows.ndim == row_ndim + 1:
        total = int(lengths.sum())
        check(
            total == len(rows), "lengths", f"numbers that add up to the {len(rows)} rows", f"a sum of {total}"
        )
        return rows, lengths
    fine = rows.ndim == row_ndim + 2 and len(lengths) == len(rows) and lengths.max(initial=0) <= rows.shape[1]
    must = "rows one after the other, or sequences padded to one length"
    check(fine, "sequences", must, f"shape {rows.shape} beside {len(lengths)} lengths")
    kept = np.arange(rows.shape[1])[None] < lengths[:, None]
    return rows[kept], lengths


def _check_rows(rows: np.ndarray, starts: np.ndarray) -> None:
    check(rows.dtype.kind in "fiub", "sequences", "numbers", f"dtype {rows.dtype}", error=TypeError)
    if rows.dtype.kind == "f":
        bad = np.isinf(rows).reshape(len(rows), -1).any(1)
        if bad.any():
            at = int(bad.argmax())
            s = int(np.searchsorted(starts, at, side="right")) - 1
            check(
                False,
                "sequences",
                "finite, or NaN where missing",
                f"{rows[at]} at time {at - starts[s]} of sequence {s}",
            )


def _beside(name: str, data: Any, num_rows: int, ndim: int) -> np.ndarray:
    values = _rows_and_lengths(data, ndim)[0] if not isinstance(data, np.ndarray) else data
    if values.ndim == ndim + 2:
        values = values.reshape((-1, *values.shape[2:]))
    check(len(values) == num_rows, name, f"one per row ({num_rows})", len(values))
    return values


def _weights(weights: Any, starts: np.ndarray) -> np.ndarray:
    count = len(starts) - 1
    values = np.ones(count) if weights is None else np.asarray(weights, float)
    check(values.shape == (count,), "weights", f"one per sequence ({count})", f"shape {values.shape}")
    check_nonnegative("weights", values)
    return values
