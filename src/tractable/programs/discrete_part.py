r"""The discrete latents of a program: the log-densities of sites that they touch, and the sum over them.

Factors.     A run of the program with values of the discrete latents gives the log-density of each unit of
             each site; which element each unit depends on is read off the jaxpr of that run.
Cost.        The plan is made on the host; an evaluation is that of `discrete_block`.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar
from tractable.messages.cost import TooLarge
from tractable.programs.dependence import dependence
from tractable.programs.discrete_block import DiscretePlan, draw, log_evidence, plan_discrete
from tractable.programs.structure import Structure, touched
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["DiscretePart", "discrete_part"]


class DiscretePart(Module):
    """Latents `names` with least values `lows`; `sites` are those that they touch."""

    plan: DiscretePlan
    others: dict[str, Array]  # values of Gaussian latents, which no site here depends on
    names: tuple[str, ...] = field(static=True)
    lows: tuple[int, ...] = field(static=True)
    sites: tuple[str, ...] = field(static=True)

    @property
    def placeholders(self) -> dict[str, Array]:
        parts = zip(self.names, self.plan.shapes, self.lows)
        return {name: jnp.full(shape, low) for name, shape, low in parts}

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        r"""$\log \sum_z \prod_s p(x_s \mid z)$ over the touched sites."""
        return log_evidence(self.plan, self._factors, bound, remaining)

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """All discrete latents, by their joint distribution given the rest."""
        found = draw(self.plan, self._factors, key, bound, remaining)
        return {name: states + low for name, states, low in zip(self.names, found, self.lows)}

    def _factors(self, assignment: Any, bound: Program, remaining: Mapping[str, Array]) -> list[Array]:
        return log_factors(self.names, self.lows, self.sites, self.others, assignment, bound, remaining)


def discrete_part(
    bound: Program,
    facts: Facts,
    structure: Structure,
    placeholders: Mapping[str, Array],
    start: Mapping[str, Array],
) -> DiscretePart:
    """The plan for the discrete latents of a program; `start` has some value of each remaining latent."""
    names, sites = structure.discrete, tuple(touched(facts, structure.discrete))
    ends = [facts.sites[name].ends or (0, 0) for name in names]
    lows = tuple(low for low, _ in ends)
    shapes = {name: facts.sites[name].shape for name in names}
    others = {name: value for name, value in placeholders.items() if name not in names}
    assignment = [jnp.zeros(shapes[name], int) for name in names]

    def factors(assignment: Any, bound: Program, start: Mapping[str, Array]) -> list[Array]:
        return log_factors(names, lows, sites, others, assignment, bound, start)

    arrays, rebuilt = bound.divided()
    given = (assignment, arrays, dict(start))
    closed = jax.make_jaxpr(lambda a, data, s: factors(a, rebuilt(data), s))(*given)
    # of the remaining latents nothing is known: they may decide on choices
    values = [*assignment, *jax.tree.leaves(arrays), *(None for _ in start)]
    moving = [i < len(names) for i in range(len(values))]
    found = dependence(closed, moving, values)
    units = [int(np.prod(var.aval.shape)) for var in closed.jaxpr.outvars]
    total = sum(int(np.prod(shapes[name])) for name in names)
    scopes = [_matrix(pattern, count, total) for pattern, count in zip(found, units)]
    cards = [high - low + 1 for low, high in ends]
    try:
        plan = plan_discrete([shapes[name] for name in names], cards, scopes, names=names, sites=sites)
    except TooLarge as error:
        lines = ", ".join(f"{name} at {facts.sites[name].line}" for name in (*names, *sites))
        raise TooLarge(f"{error} ({lines})") from error
    return DiscretePart(plan, others, names, lows, sites)


def log_factors(
    names: tuple[str, ...],
    lows: tuple[int, ...],
    sites: tuple[str, ...],
    others: Mapping[str, Array],
    assignment: Any,
    bound: Program,
    remaining: Mapping[str, Array],
) -> list[Array]:
    """The log-density of each unit of the sites, flat, at these values of the discrete latents."""
    values = {name: part + low for name, part, low in zip(names, assignment, lows)}
    found = bound.trace({**remaining, **others, **values}).sites
    return [found[name].log_probs.reshape(-1) for name in sites]


def _matrix(pattern: Any, num_units: int, num_elements: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((num_units, num_elements), dtype=bool) if pattern is None else pattern
