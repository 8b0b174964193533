r"""Junction trees: exact marginals, evidence, maxima and draws of discrete models, planned once.

Model.       $p(x) = \frac1Z \prod_f f(x_f)$ over variables $0, 1, \dots$ with finitely many states.
Identity.    After a pass to the roots and one back, $p(x) = \prod_b \beta_b(x_b) / \prod_s \beta_s(x_s)$:
             every bag and separator of the tree holds its marginal.
Plan.        Bags, separators, axes and the assignment of factors are index arrays; new numbers and new
             evidence reuse them. Clamped variables leave the tables; what is left is planned anew where its
             tables are large.
Cost.        Known beforehand (`cost`); refused above a limit of memory. See messages.elimination.
References.  Lauritzen and Spiegelhalter (1988); Jensen, Lauritzen and Olesen (1990); Koller and Friedman
             (2009) chapter 10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tractable.messages.cost import BUDGET, Budget, Cost, TooLarge, cost_of_bags, require_fit
from tractable.messages.elimination import (
    Order,
    bags_of_order,
    best_order,
    count_factor_cells,
    index_scopes,
)
from tractable.messages.elimination_bags import Bags
from tractable.messages.evidence import Evidence
from tractable.messages.junction_layout import Layout, Plan
from tractable.messages.junction_links import LARGE_TREE
from tractable.messages.junction_passes import multiply_small
from tractable.messages.junction_potentials import Potentials, as_evidence, load_tables
from tractable.messages.junction_queries import Calibrated
from tractable.messages.tree_decomposition import TreeDecomposition

__all__ = ["Calibrated", "JunctionTree", "TooLarge", "junction_tree"]

REPLAN_FROM = 20_000  # cells from which a new plan for evidence costs less than it can save
MOST_PLANS = 32


class JunctionTree:
    """A tree of bags for a set of scopes; `calibrate` it with tables and evidence as often as you like.

    `bags[b]` lists variables with the separator to `parents[b]` (-1: a root) first; `factor_bags[f]` is the
    bag that factor `f` is multiplied into (-1 for a factor without variables).
    """

    def __init__(self, scopes: Sequence[Sequence[int]], order: Order, bags: Bags, sizes: np.ndarray):
        self.scopes = tuple(tuple(int(v) for v in scope) for scope in scopes)
        self.order, self._bags, self.sizes = order, bags, sizes
        self._indexed = index_scopes(self.scopes, sizes)
        self.plan, self.factor_bags = _plan(self.scopes, bags, sizes)
        self._shapes = [tuple(int(sizes[v]) for v in scope) for scope in self.scopes]
        self._whole = Layout(self.plan, sizes, order.cost)
        self._plans: dict[tuple[int, ...], Layout] = {}  # by the variables that are clamped

    @property
    def bags(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each bag; children come before parents."""
        return tuple(map(tuple, self.plan.bags))

    @property
    def parents(self) -> tuple[int, ...]:
        """The parent of each bag; -1 for the root of each component."""
        return tuple(self.plan.parents)

    @property
    def separators(self) -> tuple[tuple[int, ...], ...]:
        """What each bag shares with its parent."""
        return tuple(bag[:shared] for bag, shared in zip(self.bags, self.plan.num_shared))

    @property
    def decomposition(self) -> TreeDecomposition:
        """The bags and the edges between them, as sets."""
        edges = tuple((b, p) for b, p in enumerate(self.parents) if p >= 0)
        return TreeDecomposition(tuple(map(frozenset, self.bags)), edges)

    @property
    def treewidth(self) -> int:
        """The size of the largest bag less one."""
        return self.order.treewidth

    def __repr__(self) -> str:
        return f"JunctionTree({len(self.scopes)} factors, {len(self.plan.bags)} bags, {self.order.cost})"

    def cost(self, evidence: Iterable[int] = ()) -> Cost:
        """The predicted cost of a calibration when the variables of `evidence` are clamped."""
        return self._layout_for(tuple(sorted({int(v) for v in evidence}))).cost

    def load(self, tables: Sequence[Any]) -> Potentials:
        """Check log tables and lay them out once, for many calibrations; multiplied if the tree is small."""
        found = load_tables(tables, self._shapes)
        if self.order.num_cells >= LARGE_TREE:
            return found
        base = np.empty(self._whole.num_cells[0])
        multiply_small(self._whole, found.linear, None, base, np.multiply)
        return replace(found, base=base)

    def calibrate(
        self,
        tables: Sequence[Any] | Potentials,
        evidence: Evidence | Mapping[int, Any] | None = None,
        budget: Budget = BUDGET,
    ) -> Calibrated:
        """Answers for log tables (axes as in the scopes; -inf is impossible) and evidence.

        `evidence[v]` is a state, or an array of likelihoods. Raises `TooLarge` if the prediction is above
        the budget.

        >>> tree = junction_tree([(0,), (0, 1)], [2, 2])
        >>> tables = [np.log([0.2, 0.8]), np.log([[0.9, 0.1], [0.5, 0.5]])]
        >>> found = tree.calibrate(tables, {1: 1})
        >>> round(float(np.exp(found.log_total)), 6), found.marginal(0).round(6).tolist()
        (0.42, [0.047619, 0.952381])
        """
        given = as_evidence(evidence, self.sizes)
        layout = self._layout_for(tuple(sorted(given.hard)))
        require_fit(layout.cost, budget)
        potentials = tables if isinstance(tables, Potentials) else load_tables(tables, self._shapes)
        return Calibrated(layout, potentials, given)

    def _layout_for(self, clamped: tuple[int, ...]) -> Layout:
        """This tree; where its tables are large, without the clamped variables, or planned anew for the rest.

        In a small tree a state that was observed is a likelihood like any other: one layout serves all.
        """
        if not clamped or self.order.num_cells < LARGE_TREE:
            return self._whole
        if clamped not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[clamped] = self._new_layout(clamped)
        return self._plans[clamped]

    def _new_layout(self, clamped: tuple[int, ...]) -> Layout:
        starts, flat, sizes = self._indexed
        factors, sizes = (count_factor_cells(starts, flat, sizes), len(self.scopes)), sizes.copy()
        sizes[list(clamped)] = 1
        cost = cost_of_bags(self._bags, sizes, *factors)
        if cost.num_cells > REPLAN_FROM:
            order, bags = best_order(starts, flat, sizes, "best")
            if order.num_cells < cost.num_cells:
                plan = _plan(self.scopes, bags, self.sizes, sizes)[0]
                return Layout(plan, sizes, cost_of_bags(bags, sizes, *factors))
        return Layout(self.plan, sizes, cost)


def junction_tree(
    scopes: Sequence[Sequence[int]],
    sizes: Sequence[int] | np.ndarray,
    order: Iterable[int] | Order | str | None = None,
) -> JunctionTree:
    """The tree of maximal bags of an elimination order: an order, a rule, or by default the best found.

    >>> tree = junction_tree([(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)], [2] * 5)
    >>> sorted(sorted(bag) for bag in tree.bags), tree.treewidth
    ([[0, 1], [1, 2, 3], [3, 4]], 2)
    """
    starts, flat, counts = index_scopes(scopes, sizes)
    if order is None or isinstance(order, str):
        return JunctionTree(scopes, *best_order(starts, flat, counts, order or "best"), counts)
    given = order.order if isinstance(order, Order) else order
    bags = bags_of_order(starts, flat, counts, given)
    cost = cost_of_bags(bags, counts, count_factor_cells(starts, flat, counts), len(scopes))
    return JunctionTree(scopes, Order(tuple(bags.order.tolist()), cost, "given"), bags, counts)


def _plan(
    scopes: tuple[tuple[int, ...], ...], bags: Bags, sizes: np.ndarray, left: np.ndarray | None = None
) -> tuple[Plan, tuple[int, ...]]:
    """Index arrays; each factor goes to the bag that the first of its variables to be eliminated leaves.

    `left` are the sizes that the bags were planned for: variables with one state count as gone.
    """
    left = sizes if left is None else left
    position = np.empty(sizes.size, np.int64)
    position[bags.order] = np.arange(sizes.size)
    homes = []
    for scope in scopes:
        live = [v for v in scope if left[v] > 1] or list(scope[:1])
        homes.append(int(bags.bucket[min(live, key=position.__getitem__)]) if live else -1)
    rows = np.split(bags.variables, bags.start[1:-1]) if bags.parent.size else []
    factors: list[list[int]] = [[] for _ in rows]
    for factor, home in enumerate(homes):
        if home >= 0:
            factors[home].append(factor)
    plan = Plan(
        [row.tolist() for row in rows], bags.parent.tolist(), bags.separator.tolist(), factors, scopes,
        bags.bucket.tolist(), sizes,
    )  # fmt: skip
    return plan, tuple(homes)
