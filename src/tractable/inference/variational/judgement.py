r"""What a fitted approximation says of itself: draws with importance weights, and a verdict.

Draws.       Those of the approximation and of stretched versions of it, with the weights of the mixture of
             all (`inference.weighted.second_look`): expectations and their errors are importance-weighted,
             and what stands for the posterior is resampled by the weights.
Verdict.     Good where the approximation misses next to nothing of the mass and its own weights have a light
             tail; "not certified" where that cannot be said.
Cost.        That of the second look.
References.  Yao, Vehtari, Simpson and Gelman (2018), "Yes, but did it work?".
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.checks import check_count
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, PyTree, Scalar, Shape
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior, as_one_chain
from tractable.inference.target import rebuilt
from tractable.inference.trust.chain_report import ChainReport
from tractable.inference.trust.evidence import Evidence
from tractable.inference.variational.families import VariationalFamily
from tractable.inference.weighted.importance import flattened
from tractable.inference.weighted.second_look import SecondLook
from tractable.inference.weighted.weights import resample, weighted_mean

__all__ = ["JudgedDraws", "structured_draws"]


class JudgedDraws(Ended, Posterior):
    """What a fitted approximation with weighted draws can say of itself; a subclass adds how it was found."""

    family: VariationalFamily
    rebuild: Rebuild
    elbo: Scalar
    look: SecondLook
    num_steps: Any
    code: Any

    @property
    def k_hat(self) -> Scalar:
        r"""The tail shape of the weights $p/q$ of the approximation's own draws."""
        return self.look.k_hat

    @property
    def draws(self) -> Float[Array, "n d"]:
        """Draws of the real vector, of the approximation and of stretched versions, that judged it."""
        return self.look.draws

    @property
    def log_weights(self) -> Float[Array, " n"]:
        """With which the `draws` stand for the posterior."""
        return self.look.log_weights

    def _chains(self) -> PyTree:
        return as_one_chain(self.resample(jr.key(0), self.draws.shape[0]))

    def _weighted_draws(self) -> tuple[PyTree, Any]:
        return rebuilt(self.rebuild, self.draws), self.log_weights

    def _examined(self, probs: Any) -> ChainReport:
        """Quantiles of resampled draws; means with the errors of the weighted ones."""
        found, mean = super()._examined(probs), self.expectation(flattened)
        return dataclasses.replace(found, mean=np.asarray(mean.value), mcse=np.asarray(mean.standard_error))

    def expectation(self, function: Callable[[PyTree], Any]) -> Estimate:
        """The mean of `function(draw)` under the posterior, by importance weights, with its error."""
        return _weighted(function, self.rebuild, self.draws, self.log_weights)

    @property
    def log_evidence(self) -> Evidence:
        """The importance estimate, with the approximation and stretched versions of it as proposals."""
        found = self.look.log_evidence
        return self._evidence(found.value, found.standard_error, "importance sampling", self.code)

    @property
    def q(self) -> VariationalFamily:
        """The approximation, over the free numbers."""
        return self.family

    @property
    def efficiency(self) -> float:
        """The effective sample size of the approximation's own draws as a share of their number."""
        return self.look.efficiency

    @property
    def verdict(self) -> Verdict:
        """What the weights say about the approximation, and how the search for it ended."""
        found = self.look.verdict
        return Verdict(found.ok, f"{found.sentence} {self.status.sentence}", found.numbers)

    def sample(self, key: Key, shape: Shape | int = ()) -> PyTree:
        """Draws of `family` with the structure of `start`, with leading axes `shape`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return structured_draws(self.family, self.rebuild, key, shape)

    def resample(self, key: Key, num_draws: int) -> PyTree:
        """Draws corrected by their importance weights, from those that judged the answer."""
        chosen = resample(key, self.log_weights, check_count("num_draws", num_draws))
        return rebuilt(self.rebuild, self.draws[chosen])


@program
def structured_draws(family: VariationalFamily, rebuild: Rebuild, key: Key, shape: Shape) -> PyTree:
    """Draws of the family in the space of the start, with leading axes `shape`."""
    noise = jr.normal(key, (*shape, family.noise_dim))
    points = jax.vmap(family.forward)(noise.reshape((-1, family.noise_dim)))
    draws = rebuilt(rebuild, points)
    return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), draws)


@program
def _weighted(function: Callable, rebuild: Rebuild, draws: Array, log_weights: Array) -> Estimate:
    values = jax.vmap(lambda free: jnp.asarray(function(rebuild(free)[0]), float))(draws)
    return weighted_mean(values, log_weights)
