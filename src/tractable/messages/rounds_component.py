r"""One component of a factor graph: a tree of bags, or, if it is long and narrow, a chain of levels.

Levels.      Variables at the same distance from an end of the component; every factor lies within two
             neighbouring levels, so the joint states of levels form a chain: a Markov chain of any order, a
             ring, a ladder, coupled chains. Leaves are summed out first where that makes levels smaller.
Bags.        Otherwise the maximal bags of the best elimination order (`elimination.best_order`).
Cost.        $\sum_l K_l K_{l+1}$ cells for levels with $K_l$ joint states, in a loop that compiles once; the
             cells of the bags, in as many rounds as the tree is high. Chosen by what is predicted.
References.  Cuthill and McKee (1969), level structures; Miller and Reif (1985), leaves raked in parallel.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tractable.messages.cost import Cost
from tractable.messages.elimination import best_order

__all__ = ["Component", "plan_component"]

FEW = 16  # variables up to which a tree of bags compiles as fast as a loop
MANY = 400  # variables from which only the quickest rule of elimination is tried
MOST_RAKES = 2
MOST_STATES = 4096  # of a level: a table of two levels is the square of it
QUICK = 30.0  # cells per variable and pair of states up to which no better plan than a chain is looked for
FEW_ROUNDS = 12
SECONDS_PER_CELL = 5e-9


class Bag(NamedTuple):
    """Variables with those shared with the parent first; `height` is above that of all children."""

    variables: list[int]
    num_shared: int
    height: int


class Component(NamedTuple):
    """Bags to be summed, then a chain of levels (none: the bags are all). `bucket[v]` is the bag that `v`
    leaves (-1: a level), `place[v]` says when it goes: before all that go later, levels in their order."""

    bags: list[Bag]
    levels: list[list[int]]
    bucket: np.ndarray
    place: np.ndarray
    cost: Cost


def plan_component(sizes: np.ndarray, cliques: Sequence[np.ndarray]) -> Component:
    """The cheaper of the two plans for one connected component, whose factors are rows of `cliques`.

    >>> path = np.stack([np.arange(99), np.arange(1, 100)], 1)
    >>> plan = plan_component(np.full(100, 3), [path])
    >>> len(plan.bags), len(plan.levels), int(plan.cost.num_cells)
    (0, 100, 891)
    """
    chain = _narrow(sizes, cliques) if sizes.size > FEW else None
    if chain is not None and (_is_path(chain) or (sizes.size > MANY and _is_quick(chain, sizes))):
        return chain
    tree = _tree(sizes, cliques)
    if chain is None:
        return tree
    rounds = max(bag.height for bag in tree.bags)
    dear = QUICK if rounds > FEW_ROUNDS else 1.0
    return chain if chain.cost.num_cells <= dear * tree.cost.num_cells else tree


def _is_path(chain: Component) -> bool:
    return not chain.bags and all(len(level) == 1 for level in chain.levels)


def _is_quick(chain: Component, sizes: np.ndarray) -> bool:
    """Whether the chain is so cheap that no better order is looked for, which would take longer."""
    return chain.cost.num_cells <= QUICK * sizes.size * float(sizes.max()) ** 2


def _tree(sizes: np.ndarray, cliques: Sequence[np.ndarray]) -> Component:
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in cliques])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([rows.reshape(-1) for rows in cliques])
    order, bags = best_order(starts, flat, sizes, "best" if sizes.size <= MANY else "min_degree")
    rows = np.split(bags.variables, bags.start[1:-1])
    heights = np.zeros(len(rows), np.int64)
    for child, parent in enumerate(bags.parent.tolist()):  # children come before parents
        if parent >= 0:
            heights[parent] = max(heights[parent], heights[child] + 1)
    listed = [Bag(r.tolist(), int(s), int(h)) for r, s, h in zip(rows, bags.separator, heights)]
    place = np.empty(sizes.size, np.int64)
    place[bags.order] = np.arange(sizes.size)
    cost = _cost(order.treewidth, order.num_cells, order.cost.largest_table)
    return Component(listed, [], bags.bucket, place, cost)


def _narrow(sizes: np.ndarray, cliques: Sequence[np.ndarray]) -> Component | None:
    """The chain of levels with the fewest cells after no, one or two rakes of leaves; None if too wide."""
    near, inside = _graph(sizes.size, cliques), np.ones(sizes.size, bool)
    raked: list[tuple[np.ndarray, np.ndarray]] = []
    found: list[Component] = []
    for rake in range(MOST_RAKES + 1):
        plan = _chain(sizes, near, inside, raked)
        found += [plan] if plan is not None else []
        if plan is not None and _is_path(plan):
            break
        degrees = near @ inside.astype(np.int64)
        leaves = np.flatnonzero(inside & (degrees == 1))
        if rake == MOST_RAKES or not leaves.size or inside.sum() - leaves.size < FEW:
            break
        raked.append((leaves, (near @ np.where(inside, np.arange(sizes.size), 0))[leaves]))
        inside = inside.copy()
        inside[leaves] = False
    return min(found, key=lambda plan: plan.cost.num_cells, default=None)


def _chain(sizes: np.ndarray, near, inside: np.ndarray, raked: list) -> Component | None:
    """The levels of what is inside, and the bags of the leaves that were raked before."""
    distance = _distances(near, inside)
    members = np.flatnonzero(inside)
    depth = distance[members]
    logs = np.bincount(depth, np.log(sizes[members]))
    if len(logs) < FEW // 2 or logs.max() > math.log(MOST_STATES):
        return None
    order = np.argsort(depth, kind="stable")
    levels = [rows.tolist() for rows in np.split(members[order], np.cumsum(np.bincount(depth))[:-1])]
    bags = [
        Bag([int(other), int(leaf)], 1, height)
        for height, (leaves, others) in enumerate(raked)
        for leaf, other in zip(leaves, others)
    ]
    bucket, place = np.full(sizes.size, -1), np.where(inside, len(raked) + distance, 0)
    for number, bag in enumerate(bags):
        bucket[bag.variables[1]], place[bag.variables[1]] = number, bag.height
    cells = np.exp(logs[:-1] + logs[1:])
    total = float(cells.sum()) + sum(math.prod(sizes[bag.variables]) for bag in bags)
    width = max(len(a) + len(b) for a, b in pairwise(levels)) - 1
    cost = _cost(width, float(round(total)), float(cells.max()))
    return Component(bags, levels, bucket, place, cost)


def _cost(width: int, cells: float, largest: float) -> Cost:
    """Compiled, a component takes no time or memory but for its cells, and for their gradient."""
    return Cost(width, cells, largest, 24.0 * cells, SECONDS_PER_CELL * cells)


def _graph(num: int, cliques: Sequence[np.ndarray]):
    """Who shares a factor with whom."""
    from scipy.sparse import csr_array

    pairs = [
        rows[:, [i, j]]
        for rows in cliques
        for i in range(rows.shape[1])
        for j in range(rows.shape[1])
        if i != j
    ]
    first, second = np.concatenate(pairs).T
    near = csr_array((np.ones(first.size, np.int64), (first, second)), shape=(num, num))
    near.data[:] = 1  # a pair that two factors share is one edge
    return near


def _distances(near, inside: np.ndarray) -> np.ndarray:
    """The distance of each vertex inside from one end of the graph; zero outside."""
    from scipy.sparse.csgraph import dijkstra

    members = np.flatnonzero(inside)
    graph = near[members][:, members]
    end = 0
    for _ in range(2):  # the farthest of the farthest is an end of what is long
        steps = dijkstra(graph, unweighted=True, indices=end)
        end = int(steps.argmax())
    distance = np.zeros(inside.size, np.int64)
    distance[members] = dijkstra(graph, unweighted=True, indices=end)
    return distance
