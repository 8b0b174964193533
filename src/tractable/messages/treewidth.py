r"""Treewidth: the exact value for small graphs, bounds from both sides for large ones.

Definition.  The least width of a tree decomposition: 1 for a tree, 2 for a cycle, $n - 1$ for $K_n$.
Exact.       $T(S \cup \{v\}) = \min_v \max(T(S), |Q(S, v)|)$ over sets $S$ of eliminated vertices, where
             $Q(S, v)$ are the vertices outside that $v$ reaches through $S$. If it reaches $u$, then
             $Q(S \cup \{u\}, v) = Q(S, v) \cup Q(S, u) \setminus \{u, v\}$, else it stays the same:
             $O(2^n n)$ steps, NP-hard.
Upper bound. The width of a greedy elimination order.
Lower bound. Contract a vertex of least degree into its neighbour with the fewest common neighbours; the
             largest least degree on the way bounds the treewidth of a minor from below, hence that of $G$.
Cost.        20 vertices exactly: about a second; bounds of 1000 vertices: well below a second.
References.  Bodlaender, Fomin, Koster, Kratsch and Thilikos (2006); Gogate and Dechter (2004).
"""

from collections.abc import Iterable

import numpy as np

from tractable.core.checks import check_count
from tractable.messages.elimination import elimination_order
from tractable.messages.tree_decomposition import neighbours

__all__ = ["exact_treewidth", "treewidth_bounds"]

MOST_VERTICES = 22


def exact_treewidth(num: int, edges: Iterable[tuple[int, int]]) -> int:
    """The treewidth of the graph on 0, ..., num - 1, by dynamic programming over sets of vertices.

    >>> exact_treewidth(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    2
    """
    check_count("num", num, 1, MOST_VERTICES)
    degrees = _reached(num, _checked(num, edges))
    sets = np.arange(1 << num, dtype=np.uint32)
    widths, counts = np.full(1 << num, num, np.int8), np.bitwise_count(sets)
    widths[0] = 0
    for count in range(num):
        gone = sets[counts == count]
        for v in range(num):
            before = gone[gone >> v & 1 == 0]
            after = before | np.uint32(1 << v)
            widths[after] = np.minimum(widths[after], np.maximum(widths[before], degrees[v, before]))
    return int(widths[-1])


def treewidth_bounds(num: int, edges: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """A lower and an upper bound on the treewidth; where they agree it is known.

    >>> treewidth_bounds(4, [(0, 1), (1, 2), (2, 3)])
    (1, 1)
    """
    pairs = _checked(num, edges)
    upper = min(elimination_order(pairs, [2] * num, rule).treewidth for rule in ("min_fill", "min_degree"))
    return _contraction_degree(num, pairs), upper


def _reached(num: int, edges: list[tuple[int, int]]) -> np.ndarray:
    """For each vertex and each set of vertices, how many others the vertex reaches through the set."""
    found = np.zeros((num, 1 << num), np.uint32)
    for u, v in edges:
        found[u, 0] |= np.uint32(1 << v)
        found[v, 0] |= np.uint32(1 << u)
    for u in range(num):  # the sets of vertices before `u` are there; those with `u` follow
        half = 1 << u
        for v in range(num):
            own = found[v, :half]
            grown = np.where(own >> u & 1, own | found[u, :half], own)
            found[v, half : 2 * half] = grown & ~np.uint32(1 << u | 1 << v)
    return np.stack([np.bitwise_count(row) for row in found]).astype(np.int8, copy=False)


def _contraction_degree(num: int, edges: list[tuple[int, int]]) -> int:
    near, bound = neighbours(num, edges), 0
    while near:
        v = min(near, key=lambda w: (len(near[w]), w))
        bound = max(bound, len(near[v]))
        around = near.pop(v)
        for u in around:
            near[u].discard(v)
        if around:
            into = min(around, key=lambda w: (len(near[w] & around), w))
            for u in around - {into} - near[into]:
                near[u].add(into)
                near[into].add(u)
    return bound


def _checked(num: int, edges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    pairs = [(int(u), int(v)) for u, v in edges]
    for u, v in pairs:
        check_count("edges", u, 0, num - 1)
        check_count("edges", v, 0, num - 1)
    return [(u, v) for u, v in pairs if u != v]
