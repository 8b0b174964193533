r"""The tree of maximal bags that an elimination order leaves.

Tree.        The bag of $v$, itself and its neighbours when it goes, hangs from the bag of the first of these
             neighbours to go, and is merged with it where that bag is contained in it.
Cost.        $O(\sum_v d_v \log d_v)$ for vertices that have $d_v$ neighbours when they go.
References.  Koller and Friedman (2009) section 10.4; Blair and Peyton (1993), chordal graphs.
"""

from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["Bags", "bag_tree"]


class Bags(NamedTuple):
    """Maximal bags of an order: `variables[start[b] : start[b + 1]]` are those of bag `b`.

    Variables stand in a bag from the last to go to the first, so that the `separator[b]` variables
    that it shares with its `parent` (-1: a root) lead; children come before parents; `bucket[v]` is
    the bag that `v` leaves.
    """

    order: np.ndarray
    start: np.ndarray
    variables: np.ndarray
    parent: np.ndarray
    separator: np.ndarray
    bucket: np.ndarray


def bag_tree(order: np.ndarray, starts: np.ndarray, kept: np.ndarray) -> Bags:
    """The bags of an order; `kept[starts[i] : starts[i + 1]]` are the neighbours of `order[i]` as it goes."""
    num = order.size
    place = np.empty(num, np.int64)
    place[order] = np.arange(num)
    times = place[kept].tolist()
    later = [sorted(times[low:high]) for low, high in pairwise(starts.tolist())]
    head, last, taken = list(range(num)), [-1] * num, [False] * num  # of each bag by the first to leave it
    for i, near in enumerate(later):  # children come before parents: the bag of `i` is settled by now
        last[head[i]] = i
        if near and not taken[near[0]] and len(near) == len(later[near[0]]) + 1:
            head[near[0]], taken[near[0]] = head[i], True
    ends = [i for i in range(num) if last[head[i]] == i]
    number = {head[i]: b for b, i in enumerate(ends)}
    rows = [[*reversed(later[head[i]]), head[i]] for i in ends]
    bucket = np.empty(num, np.int64)
    bucket[order] = [number[h] for h in head]
    return Bags(
        order,
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        order[np.fromiter(chain.from_iterable(rows), np.int64)],
        np.array([number[head[later[i][0]]] if later[i] else -1 for i in ends], np.int64),
        np.array([len(later[i]) for i in ends], np.int64),
        bucket,
    )
