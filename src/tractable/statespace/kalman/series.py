r"""Readings as models of series take them: one series or many, of any lengths, with gaps.

Shapes.      One series is `(times,)` for one reading per time, or `(times, m)`; many are `(series, times,
             m)` or a list of series, which are filled up with gaps behind their ends.
Gaps.        NaN is missing; an infinity is an error that names its time.
Groups.      Series with the same gaps share their covariances; where nearly all have gaps of their own they
             go together in blocks of bounded memory.
Cost.        One pass over the readings.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check

__all__ = ["Readings", "groups", "padded", "readings"]

_MOST = 4_000_000  # numbers in one kind of matrix of a block


class Readings(NamedTuple):
    """Readings `(T, N, m)`, times first; `single` says that one series was given."""

    values: np.ndarray
    lengths: np.ndarray
    single: bool

    def shaped(self, leaf: np.ndarray) -> np.ndarray:
        """What has times and series in front, as it was asked for: series first, or without an axis for
        them."""
        return leaf[:, 0] if self.single else np.swapaxes(leaf, 0, 1)


def readings(y: Any, size: int, name: str = "y") -> Readings:
    """The readings of one series or of many."""
    if (
        isinstance(y, list | tuple)
        and len(y) > 0
        and all(np.ndim(one) > 0 for one in y)
        and not _flat(y, size)
    ):
        table, single = padded(y, size, name), False
        lengths = np.array([len(one) for one in y])
    else:
        table, single = _table(y, size, name)
        lengths = np.full(len(table), table.shape[1])
    check(table.size > 0, name, "of at least one time", f"shape {table.shape[0 if not single else 1 :]}")
    _check_finite(name, table, single)
    return Readings(np.ascontiguousarray(np.swapaxes(table, 0, 1)), lengths, single)


def padded(series: Any, size: int, name: str = "y") -> np.ndarray:
    """Series of any lengths as one array `(series, times, m)`, with gaps behind their ends."""
    parts = [_table(one, size, f"{name}[{i}]")[0][0] for i, one in enumerate(series)]
    whole = np.full((len(parts), max(map(len, parts)), size), np.nan)
    for row, part in zip(whole, parts):
        row[: len(part)] = part
    return whole


def groups(seen: np.ndarray, dim: int, *, apart: bool = False) -> Iterator[np.ndarray]:
    """Indices of series that are worked on together, from what is seen `(T, N, m)`; `apart` asks for the
    same gaps within each group."""
    times, num = seen.shape[:2]
    if (seen == seen[:, :1]).all():
        yield np.arange(num)
        return
    marks = np.packbits(np.swapaxes(seen, 0, 1).reshape(num, -1), axis=1)
    _, which = np.unique(marks, axis=0, return_inverse=True)
    which = which.reshape(-1)
    distinct = int(which.max()) + 1
    if apart or 4 * distinct <= num:
        order = np.argsort(which, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
        return
    block = max(1, _MOST // (times * dim * dim))
    for start in range(0, num, block):
        yield np.arange(start, min(start + block, num))


def _flat(y: Any, size: int) -> bool:
    """Whether a list is one series of readings, each a short list."""
    return all(np.ndim(one) == 1 and len(one) == size for one in y) and size > 1


def _table(y: Any, size: int, name: str) -> tuple[np.ndarray, bool]:
    """An array as `(series, times, m)`, and whether it was one series."""
    try:
        table = np.asarray(y, float)
    except (ValueError, TypeError) as error:
        raise TypeError(f"`{name}` must be an array of numbers; got {type(y).__name__}. {error}") from error
    if table.ndim == 1 and size == 1:
        return table[None, :, None], True
    fits = table.ndim in (2, 3) and table.shape[-1] == size
    must = f"of shape (times, {size}), or (series, times, {size}) for many"
    check(fits, name, must, f"shape {table.shape}", "A gap is NaN.")
    return (table[None], True) if table.ndim == 2 else (table, False)


def _check_finite(name: str, table: np.ndarray, single: bool) -> None:
    bad = np.isinf(table)
    if bad.any():
        series, time, entry = (int(i) for i in np.argwhere(bad)[0])
        where = f"time {time}" if single else f"time {time} of series {series}"
        check(False, name, "finite, or NaN where it is missing", f"{table[series, time, entry]} at {where}")
