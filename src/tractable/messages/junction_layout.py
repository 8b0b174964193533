r"""A junction tree as a list of steps, each one operation on many small tables or on one large one.

Layout.      The axes of a bag run from the last variable to be eliminated to the first. Its separator is
             then the block of leading axes, so a message up is a sum over contiguous blocks, and the
             separator of a child is a subsequence of its parent's axes.
Steps.       The small bags of one depth make a step; a large one makes its own. Where each cell meets its
             factors, its children and its parent is worked out once (messages.junction_links).
Cost.        Linear in the cells of the small bags and in the variables of the large ones.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tractable.messages.cost import Cost
from tractable.messages.junction_links import LARGE_TABLE, LARGE_TREE, Link, link_large, places

__all__ = ["Group", "Layout", "Plan", "Round", "Step"]

MOST_GROWTH = 500.0  # the log of the sums that messages with maximum one may grow to; exp(709) is too large
JOIN_CELLS = 2048  # a gather of more cells costs more than one call
GROUP_CELLS = 4096  # 32 kB: the product of a group stays in the nearest cache


class Plan(NamedTuple):
    """A junction tree in lists by bag, children before parents; factors and sizes as they were given."""

    bags: list[list[int]]
    parents: list[int]
    num_shared: list[int]  # how many leading variables of the bag its parent has too
    factors: list[list[int]]  # of each bag
    scopes: tuple[tuple[int, ...], ...]
    buckets: list[int]  # the bag that each variable leaves
    sizes: np.ndarray


class Round(NamedTuple):
    """At most one factor of each small bag: its number for each cell, and the factor that this is."""

    cells: Any  # a slice, or an array of places
    index: np.ndarray
    factor: np.ndarray


class Group(NamedTuple):
    """Factors of a large bag that are multiplied with each other first, since their product is small."""

    factors: list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]  # number, start, shape, strides in bytes
    link: Link


class Step(NamedTuple):
    """Bags whose messages are made together, and how their cells meet their own and other messages."""

    bags: list[int]
    parents: list[int]  # of each bag; -1 for a root
    own: Link  # cells of the tables to their own messages
    starts: np.ndarray  # of the cells of each message, within the step
    bag_starts: np.ndarray  # of the messages of each bag, within the step
    above: list[Link]  # cells of the parents to these messages
    below: list[Link]  # cells of these tables to the messages of their children
    groups: list[Group]  # the factors of a large table
    is_root: bool
    grows: bool  # whether messages may by now have grown so much that they have to be scaled


@dataclass(frozen=True, eq=False)
class Layout:
    """A plan, the number of states of each variable that evidence leaves, and the predicted cost."""

    plan: Plan
    sizes: np.ndarray
    cost: Cost

    @cached_property
    def live(self) -> list[list[int]]:
        """The variables of each bag that have more than one state."""
        return [[v for v in bag if self._states[v] > 1] for bag in self.plan.bags]

    @cached_property
    def shared(self) -> list[list[int]]:
        """Those of them that lead, and belong to the parent too."""
        cuts = zip(self.plan.bags, self.plan.num_shared)
        return [[v for v in bag[:cut] if self._states[v] > 1] for bag, cut in cuts]

    @cached_property
    def cells(self) -> list[slice]:
        """The cells of each bag: those of small bags before those of large ones, step by step."""
        return self._slices([self.size(bag) for bag in self.live])

    @cached_property
    def messages(self) -> list[slice]:
        """The message of each bag."""
        return self._slices([self.size(bag) for bag in self.shared])

    @cached_property
    def num_cells(self) -> tuple[int, int]:
        """The cells of all bags, and those of all messages."""
        return max((s.stop for s in self.cells), default=0), max((s.stop for s in self.messages), default=0)

    @cached_property
    def num_small(self) -> int:
        """The cells of all small bags."""
        sizes = zip(self.live, self._is_large)
        return sum(self.size(bag) for bag, is_large in sizes if not is_large)

    @cached_property
    def steps(self) -> list[Step]:
        """The steps from the leaves to the roots."""
        steps, step_of, growth = [], {}, [0.0] * (len(self.live) + 1)
        for number, bags in enumerate(self._batches):
            step_of |= dict.fromkeys(bags, number)
            for b in bags:
                growth[b] += math.log(self.size(self.live[b]) / self.size(self.shared[b]))
            grows = max(growth[b] for b in bags) > MOST_GROWTH
            for b in bags:
                growth[self.plan.parents[b]] += 0.0 if grows else growth[b]
            steps.append(self._step(bags, grows))
        below: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for bag, parent in enumerate(self.plan.parents):
            if parent >= 0:
                below[step_of[parent], step_of[bag]][parent].append(bag)
        for (upper, lower), children in below.items():
            links = self._links(children, steps[lower])
            steps[upper].below.extend(links)
            steps[lower].above.extend(_joined(links))
        return steps

    @cached_property
    def rounds(self) -> list[Round]:
        """The factors of small bags; the first round covers all cells, with one past the last number."""
        small = [b for bags in self._batches if not self._is_large[bags[0]] for b in bags]
        most = max((len(self.plan.factors[b]) for b in small), default=0)
        start, last = self.factor_starts, len(self.plan.scopes)
        found = []
        for r in range(max(most, 1)):
            index, factor, cells = [], [], []
            for b in small:
                own, count = self.plan.factors[b], self.cells[b].stop - self.cells[b].start
                if r < len(own):
                    f = own[r]
                    index.append(start[f] + self._places(b, self.scope_strides[f]))
                elif r == 0:
                    f = last
                    index.append(np.full(count, start[last]))
                else:
                    continue
                factor.append(np.full(count, f))
                cells.append(np.arange(self.cells[b].start, self.cells[b].stop))
            if index:
                whole = slice(0, self.num_small) if r == 0 else np.concatenate(cells)
                found.append(Round(whole, np.concatenate(index), np.concatenate(factor)))
        return found

    @cached_property
    def scope_strides(self) -> list[dict[int, int]]:
        """The stride of each axis of each factor."""
        sizes = self.plan.sizes.tolist()
        return [self._running(scope, sizes) for scope in self.plan.scopes]

    def shifts(self, clamped: Mapping[int, int]) -> np.ndarray:
        """How far the clamped states move each factor: state times stride; nothing past the last."""
        states = np.zeros(self.sizes.size)
        states[list(clamped)] = list(clamped.values())
        factor, variable, stride = self._scope_axes
        return np.bincount(factor, states[variable] * stride, len(self.plan.scopes) + 1).astype(np.int64)

    @cached_property
    def _scope_axes(self) -> np.ndarray:
        """The factor, the variable and the stride of every axis of all factors."""
        axes = [(f, v, stride) for f, each in enumerate(self.scope_strides) for v, stride in each.items()]
        return np.array(axes, np.int64).reshape(-1, 3).T

    @cached_property
    def factor_homes(self) -> np.ndarray:
        """The bag of each factor; one past the last for a factor without variables."""
        homes = np.full(len(self.plan.scopes), len(self.live))
        for b, factors in enumerate(self.plan.factors):
            homes[factors] = b
        return homes

    @cached_property
    def state_ends(self) -> list[int]:
        """Where the states of each variable start in a list of all; the last entry is the end."""
        return list(itertools.accumulate(self.plan.sizes.tolist(), initial=0))

    @cached_property
    def single(self) -> list[int]:
        """The variables with one state."""
        return np.flatnonzero(self.sizes == 1).tolist()

    @cached_property
    def homes(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[tuple[int, bool, Link]]]:
        """Where marginals are summed from: by index (cells and states) from tables and messages, or by link.

        A variable is read from the smallest bag or separator that holds it; single states from none.
        """
        best: dict[int, tuple[int, int, bool]] = {}
        for b, (live, shared) in enumerate(zip(self.live, self.shared)):
            for names, is_bag in ((live[len(shared) :], True), (shared, False)):
                size = self.size(live if is_bag else shared)
                for v in names:
                    best[v] = min(best.get(v, (size + 1, 0, False)), (size, b, is_bag), key=lambda e: e[0])
        start = self.state_ends
        batched: list[tuple[list, list]] = [([], []), ([], [])]
        single = []
        for v, (size, b, is_bag) in best.items():
            axes, cells = (self.live[b], self.cells[b]) if is_bag else (self.shared[b], self.messages[b])
            shape, strides = [self._states[u] for u in axes], [int(u == v) for u in axes]
            if size >= self._large_from:
                block = slice(start[v], start[v] + self._states[v])
                single.append((v, is_bag, link_large(cells, block, shape, strides)))
            else:
                batched[is_bag][0].append(np.arange(cells.start, cells.stop))
                batched[is_bag][1].append(start[v] + places(shape, strides))
        joined = [tuple(np.concatenate([np.zeros(0, np.int64), *part]) for part in pair) for pair in batched]
        return [(cells, states) for cells, states in joined], single

    @cached_property
    def _batches(self) -> list[list[int]]:
        """The bags of each step: by depth from below, the small ones with many children first."""
        num = len(self.plan.parents)
        depth, num_children = [0] * num, [0] * num
        for b in range(num - 1, -1, -1):
            if self.plan.parents[b] >= 0:
                depth[b] = depth[self.plan.parents[b]] + 1
                num_children[self.plan.parents[b]] += 1
        levels: dict[int, list[int]] = defaultdict(list)
        for b in range(num):
            levels[depth[b]].append(b)
        batches = []
        for level in sorted(levels, reverse=True):
            small = [b for b in levels[level] if not self._is_large[b]]
            batches += [sorted(small, key=lambda b: -num_children[b])] if small else []
            batches += [[b] for b in levels[level] if self._is_large[b]]
        return batches

    def _slices(self, counts: list[int]) -> list[slice]:
        found, at = [slice(0, 0)] * len(counts), 0
        for large in (False, True):
            for bags in self._batches:
                for b in bags if self._is_large[bags[0]] is large else ():
                    found[b] = slice(at, at + counts[b])
                    at += counts[b]
        return found

    def size(self, variables: Iterable[int]) -> int:
        """The number of their joint states."""
        return math.prod([self._states[v] for v in variables])

    @cached_property
    def _is_large(self) -> list[bool]:
        return [self.size(bag) >= self._large_from for bag in self.live]

    @cached_property
    def _large_from(self) -> float:
        """Cells from which a table is large; compiled loops pay only for trees with many cells."""
        return float(LARGE_TABLE) if self.cost.num_cells >= LARGE_TREE else np.inf

    @cached_property
    def _states(self) -> list[int]:
        return self.sizes.tolist()

    def _step(self, bags: list[int], grows: bool) -> Step:
        num_own = np.array([self.size(self.shared[b]) for b in bags], np.int64)
        num_cells = np.array([self.size(self.live[b]) for b in bags], np.int64)
        blocks = np.repeat(num_cells // num_own, num_own)
        cells = slice(self.cells[bags[0]].start, self.cells[bags[-1]].stop)
        block = slice(self.messages[bags[0]].start, self.messages[bags[-1]].stop)
        if self._is_large[bags[0]]:
            own = link_large(cells, block, [int(num_own[0]), int(blocks[0])], [1, 0])
            groups = self._groups(bags[0])
        else:
            own, groups = Link(cells, block, np.repeat(np.arange(blocks.size), blocks)), []
        parents = [self.plan.parents[b] for b in bags]
        starts, bag_starts = (np.append(0, np.cumsum(each))[:-1] for each in (blocks, num_own))
        return Step(bags, parents, own, starts, bag_starts, [], [], groups, parents[0] < 0, grows)

    def _links(self, children: dict[int, list[int]], lower: Step) -> list[Link]:
        """How tables meet the messages of their children in one step: a round for each next child."""
        found, rounds = [], defaultdict(list)
        for parent, bags in children.items():
            for r, bag in enumerate(bags):
                strides = self._running(self.shared[bag], self._states)
                if self._is_large[parent] or self._is_large[bag]:
                    axes = self.live[parent]
                    shape, steps = [self._states[v] for v in axes], [strides.get(v, 0) for v in axes]
                    found.append(link_large(self.cells[parent], self.messages[bag], shape, steps))
                else:
                    at = self.messages[bag].start - lower.own.block.start
                    rounds[r].append((self.cells[parent], at + self._places(parent, strides)))
        for each in rounds.values():
            each.sort(key=lambda entry: entry[0].start)
            slices, index = [cells for cells, _ in each], np.concatenate([places for _, places in each])
            whole = slice(slices[0].start, slices[-1].stop)
            if whole.stop - whole.start != index.size:
                whole = np.concatenate([np.arange(cells.start, cells.stop) for cells in slices])
            found.append(Link(whole, lower.own.block, index))
        return found

    def _groups(self, b: int) -> list[Group]:
        """Factors join a group as long as its product stays small beside the table."""
        limit = min(GROUP_CELLS, self.size(self.live[b]) // 8)
        parts: list[tuple[list[int], set[int]]] = []
        for f in self.plan.factors[b]:
            held = {v for v in self.plan.scopes[f] if self._states[v] > 1}
            if parts and self.size(parts[-1][1] | held) <= limit:
                parts[-1] = ([*parts[-1][0], f], parts[-1][1] | held)
            else:
                parts.append(([f], held))
        found = []
        for factors, held in parts:
            axes = [v for v in self.live[b] if v in held]
            own = [(f, self.factor_starts[f], *self._view(f, axes)) for f in factors]
            strides = self._running(axes, self._states)
            shape = [self._states[v] for v in self.live[b]]
            steps = [strides.get(v, 0) for v in self.live[b]]
            found.append(Group(own, link_large(self.cells[b], slice(0, self.size(axes)), shape, steps)))
        return found

    def _view(self, f: int, onto: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of a factor with its axes in the order of `onto`, and its strides in bytes."""
        strides = self.scope_strides[f]
        shape = tuple(self._states[v] if v in strides else 1 for v in onto)
        return shape, tuple(8 * strides.get(v, 0) for v in onto)

    def _places(self, b: int, strides: dict[int, int]) -> np.ndarray:
        axes = self.live[b]
        return places([self._states[v] for v in axes], [strides.get(v, 0) for v in axes])

    @cached_property
    def factor_starts(self) -> list[int]:
        """Where each factor starts among the numbers of all; the last entry is past them."""
        sizes = self.plan.sizes.tolist()
        counts = [math.prod([sizes[v] for v in scope]) for scope in self.plan.scopes]
        return list(itertools.accumulate(counts, initial=0))

    @staticmethod
    def _running(variables: Sequence[int], sizes: list[int]) -> dict[int, int]:
        """The strides of a contiguous table."""
        strides, stride = {}, 1
        for v in reversed(variables):
            strides[v] = stride
            stride *= sizes[v]
        return strides


def _joined(links: list[Link]) -> list[Link]:
    """Short ones by index as one: sums may take all children of a step together, products may not."""
    short = [link for link in links if link.index is not None and link.index.size < JOIN_CELLS]
    if len(short) < 2:
        return links
    cells, index = (np.concatenate(parts) for parts in zip(*[(np.r_[x.cells], x.index) for x in short]))
    return [
        Link(cells, short[0].block, index),
        *(x for x in links if x.index is None or x.index.size >= JOIN_CELLS),
    ]
