r"""The plan of `rounds`: components found, each kind planned once, and where every table goes.

Kinds.       Components that are equal up to the order of their variables share one plan (`rounds_component`):
             a network in a plate of $10^5$ rows is planned like one network.
Routes.      A factor goes to the bag that the first of its variables to go leaves, and so does a message;
             within a chain, to a level or to two neighbouring ones.
Cost.        Array operations in the number of factors; Python in the size of each kind. Refused above the
             budget (`TooLarge`) before anything is compiled.
References.  Koller and Friedman (2009) section 10.4.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tractable.core.checks import to_device
from tractable.core.chunks import bucket_size
from tractable.messages.cost import BUDGET, Budget, Cost, require_fit
from tractable.messages.rounds import Feed, Group, Paths, Placed, Rounds
from tractable.messages.rounds_component import Component, plan_component

__all__ = ["plan_rounds"]

FIX = "Raise it, observe more variables, or approximate: messages.loopy, Gibbs sampling."


def plan_rounds(
    scopes: Sequence[np.ndarray],
    sizes: np.ndarray,
    budget: Budget = BUDGET,
    fix: Callable[[np.ndarray], str] = lambda variables: FIX,
) -> Rounds:
    """A plan for tables whose row `i` is a factor of the variables `scopes[...][i]` (distinct, axes in that
    order); `sizes[v]` is the number of states of variable `v`. `fix` says what to do with a component that
    is too large, given its variables.

    >>> import jax.numpy as jnp
    >>> from tractable.messages.rounds import log_total
    >>> rounds = plan_rounds([np.array([[0], [1]]), np.array([[0, 1]])], np.array([2, 2]))
    >>> single = jnp.log(jnp.array([[0.5, 0.5], [1.0, 1.0]]))
    >>> pair = jnp.log(jnp.array([[[0.9, 0.1], [0.4, 0.6]]]))
    >>> round(float(log_total(rounds, [single, pair])), 6)
    0.0
    """
    sizes = np.asarray(sizes, np.int64)
    layout = _Layout(sizes)
    costs = []
    for members, component in _kinds(scopes, sizes):
        if not component.cost.fits(budget):
            require_fit(component.cost, budget, fix(members[0]))
        costs += [(component.cost, len(members))]
        layout.add(members, component)
    if costs and not _together(costs).fits(budget):
        require_fit(_together(costs), budget, fix(np.arange(sizes.size)))
    return layout.finish([np.asarray(rows, np.int64) for rows in scopes])


def _together(costs: list[tuple[Cost, int]]) -> Cost:
    """The cost of so many components of each kind."""
    return Cost(
        max(cost.treewidth for cost, _ in costs),
        sum(num * cost.num_cells for cost, num in costs),
        max(cost.largest_table for cost, _ in costs),
        sum(num * cost.predicted_bytes for cost, num in costs),
        sum(num * cost.predicted_seconds for cost, num in costs),
    )


# --- kinds of components -------------------------------------------------------------------------------


def _kinds(scopes: Sequence[np.ndarray], sizes: np.ndarray) -> Iterator[tuple[np.ndarray, Component]]:
    """The variables of all components of each kind (components, variables), and the plan of one of them."""
    cliques = _distinct(scopes)
    label, rank = _components(cliques, sizes.size)
    single = np.bincount(label)[label] == 1
    for size in np.unique(sizes[single]):
        alone = np.flatnonzero(single & (sizes == size))[:, None]
        yield alone, plan_component(np.array([size]), [np.zeros((1, 1), np.int64)])
    for members, local in _alike(cliques, label, rank, sizes):
        yield members, plan_component(sizes[members[0]], local)


def _distinct(scopes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The sets of two or more variables that share a factor, by their number."""
    by_length = defaultdict(list)
    for rows in scopes:
        if rows.shape[1] > 1 and len(rows):
            by_length[rows.shape[1]].append(np.sort(rows, 1))
    return [np.unique(np.concatenate(by_length[k]), axis=0) for k in sorted(by_length)]


def _components(cliques: list[np.ndarray], num: int) -> tuple[np.ndarray, np.ndarray]:
    """The component of each variable, and its rank within it."""
    if not cliques:
        return np.arange(num), np.zeros(num, np.int64)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = np.concatenate([np.stack([rows[:, :-1], rows[:, 1:]], 2).reshape(-1, 2) for rows in cliques])
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(num, num))
    label = connected_components(graph.tocsr(), directed=False)[1]
    order = np.argsort(label, kind="stable")
    counts = np.bincount(label)
    rank = np.empty(num, np.int64)
    rank[order] = np.arange(num) - np.repeat(np.cumsum(counts) - counts, counts)
    return label.astype(np.int64), rank


def _alike(
    cliques: list[np.ndarray], label: np.ndarray, rank: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Components of several variables, those that are equal by rank together, and the factors of one."""
    if not cliques:
        return
    num, widths = int(label.max()) + 1, [c.shape[1] for c in cliques]
    counts = np.stack([np.bincount(c, minlength=num) for c in (label, *(label[c[:, 0]] for c in cliques))], 1)
    several = np.flatnonzero(counts[:, 0] > 1)
    order = np.argsort(label, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts[:, 0])])
    sorted_cliques = [c[np.lexsort((*rank[c].T[::-1], label[c[:, 0]]))] for c in cliques]
    begins = [np.concatenate([[0], np.cumsum(counts[:, 1 + i])]) for i in range(len(cliques))]
    shapes, which = np.unique(counts[several], axis=0, return_inverse=True)
    for number, shape in enumerate(shapes):
        own = several[which.reshape(-1) == number]
        members = order[starts[own][:, None] + np.arange(shape[0])]
        parts = [
            rank[rows[begin[own][:, None] + np.arange(count)]].reshape(len(own), -1)
            for rows, begin, count in zip(sorted_cliques, begins, shape[1:])
        ]
        first, kind = np.zeros(1, np.int64), np.zeros(len(own), np.int64)
        if len(own) > 1:
            together = np.concatenate([sizes[members], *parts], 1)
            _, first, kind = np.unique(together, axis=0, return_index=True, return_inverse=True)
        for k, one in enumerate(first):
            local = [part[one].reshape(-1, w) for part, w in zip(parts, widths) if part.shape[1]]
            yield members[kind.reshape(-1) == k], local


# --- where every table goes ----------------------------------------------------------------------------


@dataclass
class _Batch:
    """Bags of one group while it grows: their variables and numbers, and their chains and steps."""

    variables: list[np.ndarray] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)
    chains: list[np.ndarray] = field(default_factory=list)
    steps: list[np.ndarray] = field(default_factory=list)


class _Layout:
    """Bags of all components by group: (summed later, height, chain class, sizes, shared)."""

    def __init__(self, sizes: np.ndarray):
        self.sizes, self.num_bags = sizes, 0
        self.batches: dict[tuple, _Batch] = defaultdict(_Batch)
        self.bucket, self.pair, self.place, self.level = (np.full(sizes.size, -1) for _ in range(4))
        self.lengths: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)  # of chains, by class

    def add(self, members: np.ndarray, plan: Component) -> None:
        """All components of one kind."""
        num_levels = len(plan.levels)
        each = len(plan.bags) + 2 * num_levels
        first = self.num_bags + each * np.arange(len(members))
        self.num_bags += each * len(members)
        self.place[members] = plan.place[None, :]
        self.bucket[members] = first[:, None] + plan.bucket[None, :]
        for number, bag in enumerate(plan.bags):
            sizes = tuple(self.sizes[members[0, bag.variables]].tolist())
            batch = self.batches[0, bag.height, (), sizes, bag.num_shared]
            batch.variables.append(members[:, bag.variables])
            batch.numbers.append(first + number)
        if num_levels:
            self._add_chains(members, plan, first + len(plan.bags))

    def _add_chains(self, members: np.ndarray, plan: Component, first: np.ndarray) -> None:
        states = [math.prod(self.sizes[members[0, level]].tolist()) for level in plan.levels]
        kind = (max(states), bucket_size(len(plan.levels)))
        begun = sum(map(len, self.lengths[kind]))
        chains = np.arange(begun, begun + len(members))
        self.lengths[kind].append(np.full(len(members), len(plan.levels)))
        sizes = [tuple(self.sizes[members[0, level]].tolist()) for level in plan.levels]
        alike: dict[tuple, list[int]] = defaultdict(list)
        for step, own in enumerate(sizes):
            alike[own, ()].append(step)
        for step, both in enumerate(pairwise(sizes)):
            alike[both].append(step)
        for (one, other), steps in alike.items():
            self._lay(kind, members, plan.levels, one, other, np.array(steps), first, chains)

    def _lay(self, kind, members, levels, one, other, steps, first, chains) -> None:
        """The nodes of these steps, or (`other`) their pairs with the next level."""
        local = [levels[step] + (levels[step + 1] if other else []) for step in steps.tolist()]
        variables = members[:, np.array(local)]  # (chains, steps, variables)
        numbers = first[:, None] + 2 * steps[None, :] + bool(other)
        own = variables[:, :, : len(one)]
        if other:
            self.pair[own] = numbers[:, :, None]
        else:
            self.bucket[own], self.level[own] = numbers[:, :, None], steps[None, :, None]
        batch = self.batches[1, 0, kind, one + other, len(one) if other else 0]
        batch.variables.append(variables.reshape(-1, variables.shape[2]))
        batch.numbers.append(numbers.reshape(-1))
        batch.chains.append(np.repeat(chains, len(steps)))
        batch.steps.append(np.tile(steps, len(chains)))

    def finish(self, scopes: list[np.ndarray]) -> Rounds:
        """Groups in the order in which they are made, with what comes into them."""
        keys = sorted(self.batches)
        variables, group_of, row_of = [], np.full(self.num_bags, -1), np.full(self.num_bags, -1)
        placed: dict[tuple, list[list[Placed]]] = defaultdict(lambda: [[], []])
        for number, key in enumerate(keys):
            batch = self.batches[key]
            numbers = np.concatenate(batch.numbers)
            order = np.argsort(numbers)  # component by component
            variables.append(np.concatenate(batch.variables)[order])
            group_of[numbers[order]], row_of[numbers[order]] = number, np.arange(len(order))
            if key[0]:
                chains, steps = (np.concatenate(part)[order] for part in (batch.chains, batch.steps))
                placed[key[2]][key[4] > 0].append(Placed(number, _index(chains), _index(steps)))
        shared = [rows[:, : key[4]] if not key[0] else rows[:, :0] for rows, key in zip(variables, keys)]
        feeds = self._feeds([*scopes, *shared], variables, group_of, row_of)
        groups = tuple(
            Group(_index(rows), key[3], key[4], not key[0], tuple(feeds[number]))
            for number, (rows, key) in enumerate(zip(variables, keys))
        )
        slots = np.empty(self.sizes.size, np.int64)
        kinds, counts = np.unique(self.sizes, return_counts=True)
        for size in kinds:
            slots[self.sizes == size] = np.arange((self.sizes == size).sum())
        paths = tuple(self._paths(kind, nodes, pairs) for kind, (nodes, pairs) in placed.items())
        return Rounds(groups, paths, tuple(zip(kinds.tolist(), counts.tolist())), _index(slots))

    def _paths(self, kind: tuple[int, int], nodes: list[Placed], pairs: list[Placed]) -> Paths:
        lengths = np.concatenate(self.lengths[kind])
        longest = int(lengths.max()) if (lengths == lengths[0]).all() else kind[1]
        even = longest == lengths.min() and len(nodes) == len(pairs) == 1
        if even:  # equal chains of equal levels lie in order already
            nodes, pairs = ([Placed(part.group, None, None) for part in parts] for parts in (nodes, pairs))
        shape = (len(lengths), longest, kind[0])
        return Paths(shape, tuple(nodes), tuple(pairs), None if longest == lengths.min() else _index(lengths))

    def _feeds(self, scopes, variables, group_of, row_of) -> dict[int, list[Feed]]:
        feeds: dict[int, list[Feed]] = defaultdict(list)
        for source, rows in enumerate(scopes):
            if not rows.size:
                continue
            bag = self._bag_of(rows)
            for group in np.unique(group_of[bag]):
                mine = np.flatnonzero(group_of[bag] == group)
                targets = row_of[bag[mine]]
                axes = (variables[group][targets][:, None, :] == rows[mine][:, :, None]).argmax(2)
                patterns, which = np.unique(axes, axis=0, return_inverse=True)
                for number, pattern in enumerate(patterns):
                    own = np.flatnonzero(which.reshape(-1) == number)
                    feeds[int(group)].append(
                        Feed(
                            source,
                            tuple(pattern.tolist()),
                            _unless_all(mine[own], len(rows)),
                            _unless_all(targets[own], len(variables[group])),
                        )
                    )
        return feeds

    def _bag_of(self, rows: np.ndarray) -> np.ndarray:
        """The bag where the first of the variables goes; in a chain, that of its level, or of two."""
        first = rows[np.arange(len(rows)), self.place[rows].argmin(1)]
        level = self.level[rows]
        spans = (level.min(1) >= 0) & (level.min(1) < level.max(1))
        return np.where(spans, self.pair[first], self.bucket[first])


def _index(values: np.ndarray) -> Any:
    return to_device(np.ascontiguousarray(values, np.int32))


def _unless_all(values: np.ndarray, num: int) -> Any:
    """None where the values are 0, 1, ... to the last."""
    return None if len(values) == num and np.array_equal(values, np.arange(num)) else _index(values)
