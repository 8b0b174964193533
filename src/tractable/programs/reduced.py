r"""The density of a program with its exact parts integrated out, and the way back from it.

Density.     $\log p(\phi, y) = \log \sum_z \int p(\phi, x, z, y)\,dx$ of the remaining latents $\phi$:
             sites that touch no eliminated latent count as they are, those that touch discrete latents go
             through `discrete_block`, those that touch Gaussian ones through `gaussian_block`.
Way back.    Given $\phi$, exact draws of $z$ and of $x$ from their conditional distributions, and then all
             that the program computes of them.
Cost.        A few runs of the program per evaluation; linear in the length of chains and the size of
             plates.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar
from tractable.programs.structure import Structure, touched
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["Reduced", "reduce"]


class Reduced(Module):
    """The log-density of the remaining latents by name; the data of the program are its leaves."""

    bound: Program
    discrete: Any  # a `DiscretePart`, or None
    gaussian: Any  # a `GaussianPart` or a `ScaledPart`, or None
    conjugate: tuple[Any, ...]  # of `ConjugatePart`
    plain: tuple[str, ...] = field(static=True)
    nested: Any = None  # a `LaplacePart`: its value is not exact, and `nested` weighs its draws

    def __call__(self, remaining: Mapping[str, Array]) -> Scalar:
        parts = [part.log_evidence(self.bound, remaining) for part in self.parts]
        return sum(parts, start=self._of_plain(remaining))

    @property
    def parts(self) -> tuple[Any, ...]:
        """What integrates latents, each some of them."""
        every = (self.discrete, self.gaussian, *self.conjugate, self.nested)
        return tuple(part for part in every if part is not None)

    def restored(self, key: Key, remaining: Mapping[str, Array]) -> dict[str, Any]:
        """All latents and all that is computed of them, with exact draws of the eliminated ones."""
        values = dict(remaining)
        given = self.nested is not None and set(self.nested.names) <= set(remaining)
        parts = [part for part in self.parts if not (given and part is self.nested)]
        for part, own in zip(parts, jr.split(key, max(len(parts), 1))):
            values |= part.draw(own, self.bound, remaining)
        return self.bound.trace(values).of_kind("latent", "deterministic")

    def _of_plain(self, remaining: Mapping[str, Array]) -> Scalar:
        if not self.plain:
            return jnp.zeros(())
        sites = self.bound.trace(self.filled(remaining)).sites
        return sum((sites[name].log_probs.sum() for name in self.plain), start=jnp.zeros(()))

    def filled(self, remaining: Mapping[str, Array]) -> dict[str, Any]:
        """The remaining latents, with some value of those that were eliminated: nobody looks at them."""
        held = [part.placeholders for part in self.parts]
        return {**remaining, **{name: value for part in held for name, value in part.items()}}


def reduce(bound: Program, facts: Facts, structure: Structure, start: Mapping[str, Array]) -> Reduced:
    """The density of the remaining latents, after planning how to integrate the others; `start` has some
    value of each."""
    others = {name: placeholder(facts, name) for name in structure.eliminated}
    given = (bound, facts, structure, others, start)
    discrete = gaussian = None
    if structure.discrete:
        from tractable.programs.discrete_part import discrete_part

        discrete = discrete_part(*given)
    if structure.gaussian:
        from tractable.programs.gaussian_part import gaussian_part

        gaussian = gaussian_part(*given)
        if structure.scale is not None:
            from tractable.programs.scaled_part import ScaledPart

            count = sum(facts.sites[name].size for name in gaussian.counted)
            gaussian = ScaledPart(gaussian, structure.scale, facts.sites[structure.scale].shape, count)
    conjugate = ()
    if structure.conjugate:
        from tractable.programs.conjugate_part import conjugate_part

        conjugate = tuple(
            conjugate_part(facts, name, places, others) for name, places in structure.conjugate.items()
        )
    nested = None
    if structure.nested:
        from tractable.programs.laplace_part import laplace_part

        nested = laplace_part(bound, facts, structure.nested, others, start)
    apart = {*touched(facts, structure.eliminated)}
    known = [s.name for s in facts.of_kind("latent", "observed", "factor")]
    plain = tuple(name for name in known if name not in apart)
    return Reduced(bound, discrete, gaussian, conjugate, plain, nested)


def placeholder(facts: Facts, name: str) -> Array:
    """Some value of a latent that was eliminated."""
    site = facts.sites[name]
    if site.is_discrete:
        return jnp.full(site.shape, (site.ends or (0, 0))[0])
    assert site.support is not None
    return jnp.asarray(site.support.interior(np.zeros(site.shape)))
