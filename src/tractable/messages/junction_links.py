r"""Multiply a table by a smaller one, and sum it onto a smaller one: the two primitives of the passes.

Link.        Says which cell of a block of numbers every cell of a block of tables meets.
Small.       By index: one gather, or one count with weights, for many tables at once.
Large.       By strides, through compiled loops. Which of both it is depends on the size of the table alone.
Cost.        One pass over the tables; 10 nanoseconds per cell by index, one by strides.
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
    """Cells of tables, the block of numbers that they meet, and where: `index` in it, or `axes`."""

    cells: Any  # a slice, or an array of places
    block: slice
    index: np.ndarray | None
    axes: tuple[np.ndarray, ...] = ()  # lengths and strides, at least two of each


def link_large(cells: slice, block: slice, shape: Sequence[int], strides: Sequence[int]) -> Link:
    """A link by strides for one large table; axes merge where the operand runs on or lacks both."""
    dims, steps = [1], [0]
    for n, stride in zip(shape, strides):
        if n == 1:
            continue
        if dims[-1] > 1 and steps[-1] == stride * n:
            dims[-1] *= n
            steps[-1] = stride
        else:
            dims.append(n)
            steps.append(stride)
    first = 1 if len(dims) > 2 else 0  # two axes at least
    dims, steps = ([1, 1], [0, 0]) if len(dims) == 1 else (dims[first:], steps[first:])
    return Link(cells, block, None, (np.array(dims, np.int64), np.array(steps, np.int64)))


def places(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The place of each cell of a table of this shape in an operand with these strides."""
    found = np.zeros(1, np.int64)
    for n, stride in zip(shape, strides):
        found = np.add.outer(found, stride * np.arange(n)).ravel()
    return found


def spread(link: Link, block: np.ndarray, tables: np.ndarray, ufunc: np.ufunc | None) -> None:
    """Multiply (or add, or set for None) the numbers of the block into the cells that meet them."""
    if link.index is not None:
        values, cells = block.take(link.index), tables[link.cells]
        np.multiply(cells, values, out=cells) if ufunc is np.multiply else np.add(cells, values, out=cells)
        if not isinstance(link.cells, slice):  # a copy
            tables[link.cells] = cells
        return
    _loops().apply_operand(_CODES[ufunc], tables[link.cells], block, *link.axes)


def total(link: Link, tables: np.ndarray) -> np.ndarray:
    """The sums of the cells of the tables that meet each of the numbers."""
    num = link.block.stop - link.block.start
    if link.index is not None:
        return np.bincount(link.index, tables[link.cells], num)
    out = np.zeros(num)
    _loops().sum_into(tables[link.cells], out, *link.axes)
    return out


def reduce_blocks(link: Link, starts: np.ndarray, tables: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
    """Sums or maxima of the contiguous blocks of cells that meet each of the numbers."""
    if link.index is not None:
        return ufunc.reduceat(tables[link.cells], starts)
    if ufunc is np.add:
        return total(link, tables)
    rows = tables[link.cells].reshape(link.block.stop - link.block.start, -1)
    found = rows[:, 0].copy()
    if rows.shape[1] > 16:
        return ufunc.reduce(rows, axis=1)
    for column in range(1, rows.shape[1]):  # few columns: one long operation for each
        ufunc(found, rows[:, column], out=found)
    return found


@cache
def _loops() -> ModuleType:
    """The compiled loops; numba takes half a second to import, and as long again to load what it compiled."""
    return import_module("tractable.messages.table_loops")
