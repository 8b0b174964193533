r"""A conjugate latent of a program: its natural parameters with what its children add.

Identity.    $\log \int p(\theta) \prod_c p(x_c \mid \theta)\,d\theta = A(\eta + \sum_c s_c) - A(\eta) +
             \sum_c b_c$ for each unit, and $\theta \mid x$ is the member with $\eta + \sum_c s_c$.
Cost.        One run of the program; linear in the units of the children.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field, plates
from tractable.core.types import Array, Int, Key, Scalar, Shape
from tractable.distributions.base import Univariate
from tractable.distributions.conjugate import add_statistics
from tractable.distributions.expfam import per_unit
from tractable.programs.conjugacy import added, reference
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["ConjugatePart", "conjugate_part"]


class ConjugatePart(Module):
    """The latent `name`; `places` says for each of the `children` on which unit each of its units rests."""

    others: dict[str, Array]  # values of other eliminated latents, which no site here depends on
    places: tuple[Int[Array, " _units"], ...]
    family: type = field(static=True)
    name: str = field(static=True)
    shape: Shape = field(static=True)
    children: tuple[str, ...] = field(static=True)

    @property
    def placeholders(self) -> dict[str, Array]:
        return {self.name: reference(self.family, self.shape)}

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        """The integral of the latent's density times those of its children."""
        prior, posterior, rest = self._updated(bound, remaining)
        return (_log_normaliser(posterior) - _log_normaliser(prior)).sum() + rest

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """The latent given the rest."""
        return {self.name: self._updated(bound, remaining)[1].sample(key)}

    def _updated(self, bound: Program, remaining: Mapping[str, Array]) -> tuple[Any, Any, Scalar]:
        sites = bound.trace({**remaining, **self.others, **self.placeholders}).sites
        own = sites[self.name]
        prior: Any = own.distribution
        units = int(np.prod(plates(prior)))
        parts = [added(own, sites[child], place, units) for child, place in zip(self.children, self.places)]
        shapes = [np.shape(each) for each in prior.natural] if not isinstance(prior, Univariate) else None
        shape = plates(prior) if shapes is None else shapes[0]
        sums = [jnp.stack(each).sum(0).reshape(shape) for each in zip(*(part[0] for part in parts))]
        rest = sum((part[1] for part in parts), start=jnp.zeros(()))
        return prior, add_statistics(prior, sums), rest


def conjugate_part(
    facts: Facts, name: str, places: Mapping[str, np.ndarray], others: Mapping[str, Array]
) -> ConjugatePart:
    """The plan for one conjugate latent."""
    site = facts.sites[name]
    assert site.family is not None
    arrays = tuple(jax.device_put(each.astype(np.int32)) for each in places.values())
    held = {other: value for other, value in others.items() if other != name}
    return ConjugatePart(held, arrays, site.family, name, site.shape, tuple(places))


def _log_normaliser(member: Any) -> Array:
    return per_unit((member,), lambda unit: unit.log_normaliser(unit.natural))
