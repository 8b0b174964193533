r"""Gaussian latents whose every spread is a multiple of one unknown: that unknown is integrated with them.

Model.       All spreads of a Gaussian part are $c\sqrt{v}$ with $v \sim$ InverseGamma, or $c/\sqrt{r}$ with
             $r \sim$ Gamma. Then $\log p(y \mid v) = C - \frac n2 \log v - \frac{Q}{2v}$ with $n$ given
             numbers: the normal-inverse-gamma family.
Constants.   $Q$ from the values at $v = 1$ and $v = 4$: $Q = \frac83(\ell(4) - \ell(1) + n \log 2)$.
Cost.        Two integrals of the Gaussian part.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import jax.random as jr

from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.distributions.conjugate import add_statistics
from tractable.distributions.gamma import Gamma
from tractable.programs.gaussian_part import GaussianPart
from tractable.programs.trace import Program

__all__ = ["ScaledPart"]


class ScaledPart(Module):
    """A Gaussian part and the variance or precision `name` of all its sites; `count` numbers are given."""

    gaussian: GaussianPart
    name: str = field(static=True)
    shape: Shape = field(static=True)
    count: int = field(static=True)

    @property
    def placeholders(self) -> dict[str, Array]:
        return {**self.gaussian.placeholders, self.name: jnp.ones(self.shape)}

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        """The integral over the Gaussian latents and their common scale."""
        prior, after, constant = self._updated(bound, remaining)
        ratio = after.log_normaliser(after.natural) - prior.log_normaliser(prior.natural)
        return jnp.sum(ratio) + constant

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """The scale, and then the Gaussian latents given it."""
        own, rest = jr.split(key)
        value = self._updated(bound, remaining)[1].sample(own).reshape(self.shape)
        return {self.name: value, **self.gaussian.draw(rest, bound, {**remaining, self.name: value})}

    def _updated(self, bound: Program, remaining: Mapping[str, Array]) -> tuple[Any, Any, Scalar]:
        values = {**remaining, **self.gaussian.others, **self.placeholders}
        prior: Any = bound.trace(values).sites[self.name].distribution
        precise = isinstance(prior, Gamma)

        def at(variance: float) -> Scalar:
            value = jnp.full(self.shape, 1 / variance if precise else variance)
            return self.gaussian.log_evidence(bound, {**remaining, self.name: value})

        one = at(1.0)
        square = 8 / 3 * (at(4.0) - one + self.count * jnp.log(2.0))
        power = 0.5 * self.count if precise else -0.5 * self.count  # of the statistic log v, or log r
        sums = [jnp.full(jnp.shape(each), part) for each, part in zip(prior.natural, (power, -0.5 * square))]
        return prior, add_statistics(prior, sums), one + 0.5 * square
