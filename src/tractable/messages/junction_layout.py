r"""A junction tree as index arrays, laid out for one pattern of evidence.

Layout.      The axes of a bag run from the last variable to be eliminated to the first. Its separator is
             then the block of leading axes, so a message up is a sum over contiguous blocks, and the
             separator of a child is a subsequence of its parent's axes.
Strides.     An operand of a bag (a factor, a likelihood, a message) is known by its stride along each axis of
             the table; 0 where it lacks the axis. Axes of one state are left out.
Cost.        Linear in the variables of all bags.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tractable.messages.cost import Cost

__all__ = ["Layout", "Operand", "Plan", "Step"]

FEW_OPERANDS, FEW_CELLS = 48, 20_000  # up to here a pass by NumPy takes less than a millisecond
BYTES = 8


class Plan(NamedTuple):
    """A junction tree as index arrays; `x_start` delimits the rows of `x`. Children come before parents."""

    bag_start: np.ndarray
    bag_variables: np.ndarray
    parent: np.ndarray
    separator: np.ndarray  # how many leading variables of the bag its parent shares
    child_start: np.ndarray
    children: np.ndarray
    factor_start: np.ndarray  # of the factors of each bag
    factors: np.ndarray
    scope_start: np.ndarray
    scope_variables: np.ndarray
    sizes: np.ndarray


class Operand(NamedTuple):
    """What is multiplied into a table: the number of a factor, variable or bag, and its strides in bytes."""

    number: int
    strides: tuple[int, ...]


class Step(NamedTuple):
    """One bag for the passes by arrays: the live axes of its table and everything that meets it."""

    variables: tuple[int, ...]
    shape: tuple[int, ...]
    num_shared: int  # leading axes that the parent has too
    parent: int
    summed: tuple[int, ...]  # axes of the parent that the message down leaves out
    factors: tuple[Operand, ...]
    own: tuple[Operand, ...]  # variables whose likelihoods go here
    children: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """A plan, the number of states of each variable that evidence leaves, and the predicted cost."""

    plan: Plan
    sizes: np.ndarray
    cost: Cost

    @property
    def is_small(self) -> bool:
        """Whether NumPy answers before numba is compiled, and about as fast ever after."""
        operands = self.plan.factors.size + self.plan.parent.size
        return operands <= FEW_OPERANDS and self.cost.num_cells <= FEW_CELLS

    @cached_property
    def offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the table and the message of each bag start."""
        plan = self.plan
        if not plan.parent.size:
            return np.zeros(1, np.int64), np.zeros(1, np.int64)
        numbers, lengths = self.sizes[plan.bag_variables], np.diff(plan.bag_start)
        place = np.arange(numbers.size) - np.repeat(plan.bag_start[:-1], lengths)
        shared = np.where(place < np.repeat(plan.separator, lengths), numbers, 1)
        tables, messages = (np.multiply.reduceat(each, plan.bag_start[:-1]) for each in (numbers, shared))
        return np.append(0, np.cumsum(tables)), np.append(0, np.cumsum(messages))

    @cached_property
    def scope_strides(self) -> np.ndarray:
        """The stride of each axis of each factor: clamped states move the factor by state times stride."""
        strides = np.ones(self.plan.scope_variables.size, np.int64)
        for low, high in zip(self.plan.scope_start[:-1].tolist(), self.plan.scope_start[1:].tolist()):
            for k in range(high - 2, low - 1, -1):
                strides[k] = strides[k + 1] * self.plan.sizes[self.plan.scope_variables[k + 1]]
        return strides

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The bags, one by one, children first."""
        plan, sizes = self.plan, self.sizes.tolist()
        whole = _rows(plan.bag_start, plan.bag_variables)
        live = [[v for v in row if sizes[v] > 1] for row in whole]
        shared = [[v for v in row[:cut] if sizes[v] > 1] for row, cut in zip(whole, plan.separator.tolist())]
        factors, children = _rows(plan.factor_start, plan.factors), _rows(plan.child_start, plan.children)
        scopes = _rows(plan.scope_start, plan.scope_variables)
        strides = _rows(plan.scope_start, self.scope_strides)
        found = []
        for b, parent in enumerate(plan.parent.tolist()):
            axes = live[b]
            above = [] if parent < 0 else live[parent]
            found.append(
                Step(
                    variables=tuple(axes),
                    shape=tuple(sizes[v] for v in axes),
                    num_shared=len(shared[b]),
                    parent=parent,
                    summed=tuple(k for k, v in enumerate(above) if v not in shared[b]),
                    factors=tuple(_operand(f, axes, scopes[f], strides[f]) for f in factors[b]),
                    own=tuple(_operand(v, axes, [v], [1]) for v in whole[b][len(whole[b]) - _own(plan, b) :]),
                    children=tuple(
                        _operand(c, axes, shared[c], _running([sizes[v] for v in shared[c]]))
                        for c in children[b]
                    ),
                )
            )
        return tuple(found)

    @cached_property
    def homes(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """For each variable its smallest table, bag `b` or its separator as `-b - 1`, and the axes to sum."""
        best: list[tuple[float, int, tuple[int, ...]]] = [(np.inf, 0, ())] * self.sizes.size
        for b, step in enumerate(self.steps):
            for low, high, home in ((0, step.num_shared, -b - 1), (step.num_shared, len(step.shape), b)):
                end = step.num_shared if home < 0 else len(step.shape)
                cells = float(np.prod(step.shape[:end]))
                for k in range(low, high):
                    if cells < best[step.variables[k]][0]:
                        others = tuple(i for i in range(end) if i != k)
                        best[step.variables[k]] = cells, home, others
        return tuple((home, others) for _, home, others in best)


def _own(plan: Plan, b: int) -> int:
    """How many variables leave in bag `b`."""
    return int(plan.bag_start[b + 1] - plan.bag_start[b] - plan.separator[b])


def _rows(start: np.ndarray, numbers: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in np.split(numbers, start[1:-1])] if start.size > 1 else []


def _running(sizes: list[int]) -> list[int]:
    """The strides of a contiguous table."""
    strides = [1] * len(sizes)
    for k in range(len(sizes) - 2, -1, -1):
        strides[k] = strides[k + 1] * sizes[k + 1]
    return strides


def _operand(number: int, axes: list[int], held: list[int], strides: list[int]) -> Operand:
    stride_of = dict(zip(held, strides))
    return Operand(number, tuple(BYTES * stride_of.get(v, 0) for v in axes))
