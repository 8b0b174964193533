r"""Colours of elements such that those which share a unit differ: what passes through its values together.

Greedy.      Elements with many values first, each the first colour that no neighbour has: as few replays as
             an element has neighbours at most, and two colours along a chain, three in one of second order.
Cost.        Linear in the pairs of elements that share a unit.
References.  Welsh and Powell (1967); Curtis, Powell and Reid (1974), derivatives by coloured columns.
"""

from collections.abc import Sequence
from typing import no_type_check

import numpy as np

from tractable.core.types import Shape

__all__ = ["colour_elements", "count_digits"]


def colour_elements(scopes: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """The colour of each element; the members of each row of `scopes` differ. -1: in no scope.

    >>> colour_elements([np.array([[0, 1], [1, 2], [2, 3]])], np.full(5, 2)).tolist()
    [0, 1, 0, 1, -1]
    """
    colours = np.full(sizes.size, -1, np.int64)
    for rows in scopes:
        colours[rows] = 0
    several = [rows for rows in scopes if rows.shape[1] > 1]
    if several:
        from scipy.sparse import csr_array

        pairs = [rows[:, [i, j]] for rows in several for i in range(rows.shape[1]) for j in range(i)]
        first, second = np.concatenate(pairs).T
        joined = csr_array((np.ones(first.size, bool), (first, second)), shape=(sizes.size, sizes.size))
        joined = (joined + joined.T).tocsr()
        touched = np.flatnonzero(np.diff(joined.indptr))
        order = touched[np.argsort(-sizes[touched], kind="stable")]
        _greedy(order.tolist(), joined.indptr.tolist(), joined.indices.tolist(), colours)
    return colours


@no_type_check
def _greedy(order, starts, near, colours):
    taken = [-1] * len(colours)
    for v in order:
        used = {taken[u] for u in near[starts[v] : starts[v + 1]]}
        colour = 0
        while colour in used:
            colour += 1
        taken[v] = colour
    colours[order] = [taken[v] for v in order]


def count_digits(colours: np.ndarray, sizes: np.ndarray) -> Shape:
    """The largest number of values among the elements of each colour."""
    top = np.zeros(int(colours.max(initial=-1)) + 1, np.int64)
    inside = colours >= 0
    np.maximum.at(top, colours[inside], sizes[inside])
    return tuple(top.tolist())
