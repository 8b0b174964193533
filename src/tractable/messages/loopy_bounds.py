r"""How far loopy beliefs can be from the marginals: exact answers where they are cheap, else bounds.

Region.      Let $R$ hold $x$, with $\partial R$ the variables outside that share a factor with it. Then
             $p(x) = \sum_s p(\partial R = s)\,p(x \mid s)$ is an average of what the region says, so
             $\min_s p(x \mid s) \le p(x) \le \max_s p(x \mid s)$ over the boundary states that are possible
             there. A larger region gives tighter bounds, and the whole component the marginal itself.
Growth.      The neighbour that leaves the smallest table over $x$ and the boundary joins the region, as long
             as that table has few cells.
Cost.        A junction tree where its predicted cost is small; else, for each variable, a sum whose tables
             have at most $2^{14}$ cells.
References.  Mooij and Kappen (2008), bounds by propagating boxes; Dobrushin (1968), on boundaries.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tractable.messages.cost import Budget, TooLarge
from tractable.messages.junction import junction_tree
from tractable.messages.semirings import SumProduct
from tractable.messages.variable_elimination import sum_out

__all__ = ["MarginalBounds"]

_CHEAP = Budget(max_bytes=5e7, max_seconds=0.5)
_CELLS = 2**14
_MOST_VARIABLES = 500  # for which a junction tree is planned
_MOST_REGIONS = 64  # variables for which bounds are found when not asked for by name


@dataclass(frozen=True)
class MarginalBounds:
    """Bounds of the marginals of a product of log tables, evidence about one variable among them."""

    scopes: Sequence[tuple[int, ...]]
    tables: Sequence[Any]
    sizes: tuple[int, ...]

    @cached_property
    def exact(self) -> list[np.ndarray] | None:
        """The marginals themselves, where a junction tree is cheap."""
        if len(self.sizes) > _MOST_VARIABLES:
            return None
        tree = junction_tree(self.scopes, self.sizes)
        if not tree.order.cost.fits(_CHEAP):
            return None
        found = tree.calibrate(self.tables)
        return [np.asarray(found.marginal(v)) for v in range(len(self.sizes))]

    def bounds(self, variable: int) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that each state of a variable can have."""
        if self.exact is not None:
            return self.exact[variable], self.exact[variable]
        table = self._region(variable)
        logs = table.reshape(len(table), -1)
        totals = np.asarray(SumProduct().total(logs, (0,)))
        possible = totals > -np.inf
        if not possible.any():
            return np.zeros(len(table)), np.ones(len(table))
        shares = np.exp(logs[:, possible] - totals[None, possible])
        return shares.min(1), shares.max(1)

    def largest_error(self, beliefs: Sequence[np.ndarray]) -> float:
        """What the beliefs can be off by at most; one, which says nothing, for many variables."""
        if self.exact is None and len(self.sizes) > _MOST_REGIONS:
            return 1.0
        ends = [self.bounds(v) for v in range(len(beliefs))]
        return float(max(np.maximum(b - low, high - b).max() for b, (low, high) in zip(beliefs, ends)))

    @cached_property
    def _touching(self) -> list[list[int]]:
        """The factors of each variable."""
        touching: list[list[int]] = [[] for _ in self.sizes]
        for factor, scope in enumerate(self.scopes):
            for v in scope:
                touching[v].append(factor)
        return touching

    def _region(self, variable: int) -> np.ndarray:
        """The log sum of the largest region around a variable, its own axis first, then the boundary's."""
        inside, table = {variable}, self._summed({variable}, variable)
        while boundary := self._boundary(inside):
            grown = min(({*inside, v} for v in boundary), key=lambda region: self._cells(region, variable))
            if self._cells(grown, variable) > _CELLS:
                break
            try:
                table = self._summed(grown, variable)
            except TooLarge:
                break
            inside = grown
        return table

    def _boundary(self, inside: set[int]) -> list[int]:
        near = {v for i in inside for factor in self._touching[i] for v in self.scopes[factor]}
        return sorted(near - inside)

    def _cells(self, inside: set[int], variable: int) -> int:
        return math.prod(self.sizes[v] for v in (variable, *self._boundary(inside)))

    def _summed(self, inside: set[int], variable: int) -> np.ndarray:
        boundary = self._boundary(inside)
        place = {v: i for i, v in enumerate([variable, *boundary, *sorted(inside - {variable})])}
        alone = {f for v in boundary for f in self._touching[v] if len(self.scopes[f]) == 1}
        used = sorted({f for v in inside for f in self._touching[v]} | alone)
        scopes = [tuple(place[v] for v in self.scopes[f]) for f in used]
        sizes = [self.sizes[v] for v in place]
        budget = Budget(8 * 16 * _CELLS, 1.0)
        tables = [self.tables[f] for f in used]
        return sum_out(scopes, tables, sizes, keep=range(1 + len(boundary)), budget=budget).log_table
