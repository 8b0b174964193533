r"""Vertex elimination of small graphs on Python's integers as sets: nothing to compile.

Step.        Take the vertex of least score, note its neighbours, join them to each other, remove it.
Scores.      As in messages.elimination_loops, of which this is the twin for few vertices: the same order.
Cost.        Milliseconds for 60 vertices; the loops take a quarter of that after seconds of compilation.
References.  Kjaerulff (1990), triangulation of graphs; Koller and Friedman (2009) section 9.4.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

__all__ = ["DEGREE", "FEW", "FILL", "GIVEN", "WEIGHT", "eliminate_vertices"]

FILL, DEGREE, WEIGHT, GIVEN = 0, 1, 2, 3
FEW = 64


def eliminate_vertices(
    scope_start: np.ndarray,
    scope_variables: np.ndarray,
    sizes: np.ndarray,
    rule: int,
    rank: np.ndarray,
    given: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An order, and the neighbours of each vertex when it goes (starts and vertices).

    Equal scores go to the lighter table, then to the lower `rank`; by the rule `GIVEN`, `given` is the order.
    """
    near = _linked(scope_start.tolist(), scope_variables.tolist(), sizes.tolist())
    log_sizes, ranks, chosen = np.log2(sizes).tolist(), rank.tolist(), given.tolist()
    scores: list[tuple[float, float]] = [(0.0, 0.0)] * sizes.size
    left, stale, order, kept = (1 << sizes.size) - 1, (1 << sizes.size) - 1, [], []
    for step in range(sizes.size):
        if rule != GIVEN:
            for v in _members(stale):
                scores[v] = _score(near, log_sizes, rule, v)
        v = chosen[step] if rule == GIVEN else _least(left, scores, ranks)
        around = list(_members(near[v]))
        left ^= 1 << v
        stale, added = near[v], False
        for u in around:
            joined = (near[u] | near[v]) & ~(1 << u | 1 << v)
            added |= joined != near[u] & ~(1 << v)
            near[u] = joined
        if added and rule == FILL:
            for u in around:
                stale |= near[u]
        order.append(v)
        kept.append(around)
    starts = np.cumsum([0, *map(len, kept)], dtype=np.int64)
    return np.array(order, np.int64), starts, np.array([u for row in kept for u in row], np.int64)


def _linked(starts: list[int], variables: list[int], sizes: list[int]) -> list[int]:
    """The neighbours of each vertex in the graph that joins every scope; single states join nothing."""
    near = [0] * len(sizes)
    for low, high in pairwise(starts):
        scope = [v for v in variables[low:high] if sizes[v] > 1]
        every = sum(1 << v for v in scope)
        for v in scope:
            near[v] |= every & ~(1 << v)
    return near


def _score(near: list[int], log_sizes: list[float], rule: int, v: int) -> tuple[float, float]:
    """What the rule counts for a vertex, and the log-size of its table."""
    around = list(_members(near[v]))
    weight = log_sizes[v]
    for u in around:
        weight += log_sizes[u]
    if rule == FILL:
        joined = sum((near[u] & near[v]).bit_count() for u in around)
        return (len(around) * (len(around) - 1) - joined) / 2, weight
    return float(len(around)) if rule == DEGREE else weight, weight


def _least(left: int, scores: list[tuple[float, float]], ranks: list[int]) -> int:
    best = -1
    for v in _members(left):
        if best < 0 or scores[v][0] < scores[best][0]:
            best = v
        elif scores[v][0] == scores[best][0]:
            gap = scores[v][1] - scores[best][1]
            if gap < -1e-9 or (gap < 1e-9 and ranks[v] < ranks[best]):
                best = v
    return best


def _members(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
