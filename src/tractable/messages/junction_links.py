r"""Multiply a table by a smaller one, and sum it onto a smaller one: the two primitives of the passes.

Link.        Says which cell of a block of numbers every cell of a block of tables meets.
Small.       By index: one gather, or one count with weights, for many tables at once.
Large.       By strides, through compiled loops. Which of both it is depends on the size of the table alone.
Cost.        One pass over the tables; a few nanoseconds per cell by index, half of one by strides.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LARGE_TABLE", "LARGE_TREE", "Link", "link_large", "places", "reduce_blocks", "spread", "total"]

LARGE_TREE = 100_000  # cells from which a tree is worth the time that loops take to compile, once
LARGE_TABLE = 1024  # cells from which a table of such a tree has a step of its own
_CODES = {None: 0, np.multiply: 1, np.add: 2}


class Link(NamedTuple):
    """Cells of tables, the block of numbers that they meet, and where: `index` in it, or by `tiles`."""

    cells: Any  # a slice, or an array of places
    block: slice
    index: np.ndarray | None
    tiles: tuple[Any, ...] = ()  # the last arguments of the loops in messages.table_loops


def link_large(cells: slice, block: slice, shape: Sequence[int], strides: Sequence[int]) -> Link:
    """A link by strides for one large table; axes merge where the operand runs on or lacks both."""
    axes = [(1, 0), (1, 0)]
    for n, stride in zip(shape, strides):
        last, before = axes[-1]
        if last > 1 and before == stride * n:
            axes[-1] = last * n, stride
        elif n > 1:
            axes.append((n, stride))
    *outer, inner, innermost = axes
    starts = places([n for n, _ in outer], [stride for _, stride in outer])
    return Link(cells, block, None, (starts.astype(np.uint64), *map(np.uint64, (*inner, *innermost))))


def places(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The place of each cell of a table of this shape in an operand with these strides."""
    found = np.zeros(1, np.int64)
    for n, stride in zip(shape, strides):
        found = np.add.outer(found, stride * np.arange(n)).ravel()
    return found


def spread(link: Link, block: np.ndarray, tables: np.ndarray, ufunc: np.ufunc | None) -> None:
    """Multiply (or add, or set for None) the numbers of the block into the cells that meet them."""
    if link.index is None:
        _loops().apply_operand(_CODES[ufunc], tables[link.cells], block, *link.tiles)
        return
    values, cells = block.take(link.index), tables[link.cells]
    np.multiply(cells, values, out=cells) if ufunc is np.multiply else np.add(cells, values, out=cells)
    if not isinstance(link.cells, slice):  # a copy
        tables[link.cells] = cells


def total(link: Link, tables: np.ndarray, out: np.ndarray) -> None:
    """Add to each of the numbers `out` the sum of the cells of the tables that meet it."""
    if link.index is None:
        _loops().sum_into(tables[link.cells], out, *link.tiles)
    else:
        out += np.bincount(link.index, tables[link.cells], out.size)


def reduce_blocks(
    link: Link, starts: np.ndarray, tables: np.ndarray, ufunc: np.ufunc, out: np.ndarray
) -> None:
    """Sums or maxima of the contiguous blocks of cells that meet each of the numbers."""
    if link.index is not None:
        ufunc.reduceat(tables[link.cells], starts, out=out)
    elif ufunc is np.add:
        out[...] = 0.0
        total(link, tables, out)
    else:
        rows = tables[link.cells].reshape(out.size, -1)
        if rows.shape[1] > 16:
            ufunc.reduce(rows, axis=1, out=out)
            return
        out[...] = rows[:, 0]
        for column in rows.T[1:]:  # few columns: one long operation for each
            ufunc(out, column, out=out)


@cache
def _loops() -> ModuleType:
    """The compiled loops; numba takes half a second to import, and as long again to load what it compiled."""
    return import_module("tractable.messages.table_loops")
