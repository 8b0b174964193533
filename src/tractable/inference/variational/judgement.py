r"""What the importance weights of its draws say about an approximation.

Verdict.     Log-weights of draws from an approximation are Pareto-smoothed; their tail shape judges it.
Cost.        One sort of the weights.
References.  Yao, Vehtari, Simpson and Gelman (2018), "Yes, but did it work?".
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import Rebuild
from tractable.core.checks import check_count
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, PyTree, Scalar, Shape
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior, as_one_chain
from tractable.inference.target import rebuilt
from tractable.inference.trust.evidence import Evidence
from tractable.inference.variational.families import VariationalFamily
from tractable.inference.weighted.pareto import k_threshold, k_verdict, smooth
from tractable.inference.weighted.weights import effective_sample_size, log_mean_weight, resample

__all__ = ["JudgedDraws", "efficiency", "judge_weights", "structured_draws", "weights_verdict"]

_NEARLY_EQUAL = 0.95  # the share of the draws that nearly equal weights are worth


class JudgedDraws(Ended, Posterior):
    """What a fitted approximation with weighted draws can say of itself; a subclass adds how it was found."""

    family: VariationalFamily
    rebuild: Rebuild
    elbo: Scalar
    k_hat: Scalar
    draws: Float[Array, "n d"]  # of the real vector, with which the answer was judged
    log_weights: Float[Array, " n"]  # Pareto-smoothed where k_hat is finite
    num_steps: Any
    code: Any

    def _chains(self) -> PyTree:
        return as_one_chain(rebuilt(self.rebuild, self.draws))

    @property
    def log_evidence(self) -> Evidence:
        r"""$\log\frac1n\sum_i w_i$: the importance estimate with the approximation as proposal."""
        logs, k_hat = self.log_weights, self.k_hat
        known = not bool(jnp.isnan(k_hat))  # else some weight is not a number, and neither is their mean
        found = log_mean_weight(logs) if known else Estimate(k_hat, k_hat)
        return self._evidence(found.value, found.standard_error, "importance sampling", self.code)

    @property
    def q(self) -> VariationalFamily:
        """The approximation, over the free numbers."""
        return self.family

    @property
    def efficiency(self) -> float:
        """The effective sample size of the weighted draws as a share of their number."""
        return efficiency(self.log_weights, self.k_hat)

    @property
    def verdict(self) -> Verdict:
        """What the weights say about the approximation, and how the search for it ended."""
        found = weights_verdict(self.log_weights, self.k_hat)
        return Verdict(found.ok, f"{found.sentence} {self.status.sentence}", found.numbers)

    def sample(self, key: Key, shape: Shape | int = ()) -> PyTree:
        """Draws of `family` with the structure of `start`, with leading axes `shape`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return structured_draws(self.family, self.rebuild, key, shape)

    def resample(self, key: Key, num_draws: int) -> PyTree:
        """Draws corrected by their smoothed importance weights, from those that judged the answer."""
        chosen = resample(key, self.log_weights, check_count("num_draws", num_draws))
        return rebuilt(self.rebuild, self.draws[chosen])


def judge_weights(log_weights: Float[Array, " n"]) -> tuple[Float[Array, " n"], Scalar]:
    """The smoothed log-weights and `k_hat`; weights that cannot be smoothed stay, with a `k_hat` of NaN."""
    usable = bool(jnp.all(log_weights < jnp.inf) & jnp.any(log_weights > -jnp.inf))  # NaN compares false
    if not usable:
        return log_weights, jnp.full((), jnp.nan, log_weights.dtype)
    smoothed = smooth(log_weights)
    return smoothed.log_weights, smoothed.k_hat


def efficiency(log_weights: Float[Array, " n"], k_hat: Scalar) -> float:
    """The effective sample size of the weights as a share of the draws; NaN where they are not numbers."""
    if bool(jnp.isnan(k_hat)):
        return float("nan")
    return float(effective_sample_size(log_weights)) / log_weights.shape[0]


def weights_verdict(log_weights: Float[Array, " n"], k_hat: Scalar) -> Verdict:
    """What the weights say about the approximation.

    The shape of a tail does not depend on its size: weights of $1 \\pm 0.05$ may have a heavy one. Where the
    weights are nearly equal all the same, both are said.
    """
    num_draws, worth = log_weights.shape[0], efficiency(log_weights, k_hat)
    if float(k_hat) > k_threshold(num_draws) and worth >= _NEARLY_EQUAL:
        said = (
            f"Close: the weights are nearly equal (the draws are worth {worth:.1%} of their number), though "
            "the shape of their small tail is heavy: what was never drawn is not judged."
        )
        return Verdict(True, said, {"k_hat": k_hat, "efficiency": worth})
    return k_verdict(float(k_hat), num_draws)


@program
def structured_draws(family: VariationalFamily, rebuild: Rebuild, key: Key, shape: Shape) -> PyTree:
    """Draws of the family in the space of the start, with leading axes `shape`."""
    noise = jr.normal(key, (*shape, family.noise_dim))
    points = jax.vmap(family.forward)(noise.reshape((-1, family.noise_dim)))
    draws = rebuilt(rebuild, points)
    return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), draws)
