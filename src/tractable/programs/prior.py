r"""The remaining latents of a program before data: their draws, their density, and what the data add.

Identity.    $\log p(\phi, y) = \log p(\phi) + \log p(y \mid \phi)$: the second part is the reduced density
             less the log-densities of the remaining sites, which must depend on each other alone.
Cost.        One run of the program per draw.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.programs.reduced import Reduced
from tractable.programs.trace import Program

__all__ = ["Likelihood", "Prior"]


class Prior(Module):
    """Draws of latents `names`, with values `given` for those that have no prior."""

    bound: Program
    names: tuple[str, ...] = field(static=True)
    given: dict[str, Array]
    others: dict[str, Array]  # some values of latents that were eliminated

    def sample(self, key: Key, shape: Shape) -> dict[str, Array]:
        """Draws with leading axes `shape`."""

        def one(key: Key) -> dict[str, Array]:
            sites = self.bound.trace(self.given, key=key).sites
            return self.bound.free_of(sites, self.names)

        if not shape:
            return one(key)
        # one after the other: loops of rejection, side by side, would go on until the last of them ends
        found = jax.lax.map(one, jr.split(key, math.prod(shape)))
        return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), found)

    def log_prob(self, x: Mapping[str, Array]) -> Scalar:
        r"""$\log p(\phi)$."""
        sites = self.bound.trace({**x, **self.others}).sites
        return sum((sites[name].log_probs.sum() for name in self.names), start=jnp.zeros(()))

    def check_proper(self, method: str) -> None:
        """Refuse a method that begins at the prior where there is none."""
        fix = "Give them priors, or choose another method."
        check(not self.given, "method", "other than one that draws from the prior", method, fix)


class Likelihood(Module):
    r"""$\log p(y \mid \phi)$ with all else integrated out."""

    reduced: Reduced
    prior: Prior

    def __call__(self, x: Mapping[str, Array]) -> Scalar:
        return self.reduced(x) - self.prior.log_prob(x)
