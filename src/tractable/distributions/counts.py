r"""Distributions of counts: binomial, Poisson, geometric; with the negative binomial and the beta-binomial.

Models.      Successes in $n$ trials; events at a rate; failures before the first success. Those of more
             variance are in `overdispersed` and are offered here too.
Precision.   Masses are in saddle-point form: their logarithms are right to $10^{-13}$ at a total or rate of
             $10^8$.
Entropy.     A sum of $-P\log P$ over 513 whole numbers, every $h$-th where the standard deviation is above
             16: see `sums`.
Cost.        Elementwise; 513 masses for an entropy.
References.  Loader (2000), "Fast and accurate computation of binomial probabilities".
"""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float
from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_factorial, sigmoid, softplus
from tractable.core.support import Support, counts, extended_real, integer_range, nonnegative, unit_interval
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.atoms import log_odds, one_of_probs_or_logits
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_beta_tails, log_gamma_tails
from tractable.distributions.overdispersed import BetaBinomial, NegativeBinomial
from tractable.distributions.samplers import binomial_draw, poisson_draw, whole
from tractable.distributions.special import log_binomial_count, log_choose, log_poisson_count
from tractable.distributions.sums import entropy_of_window
from tractable.distributions.tailed import Counts, check_success_possible

__all__ = ["BetaBinomial", "Binomial", "Counts", "Geometric", "NegativeBinomial", "Poisson"]


class Binomial(Counts, ExponentialFamily):
    r"""$P(k) = \binom{n}{k}\mu^k(1 - \mu)^{n-k}$ with $n$ = `total`: `Binomial(n, mu)` or `Binomial(n,
    logits=...)`.

    An exponential family for a given `total`.
    """

    total: Float[Array, "..."] = field(support=counts)
    logits: Float[Array, "..."] = field(support=extended_real)

    def __init__(
        self,
        total: ArrayLike | Sequence,
        probs: ArrayLike | Sequence | None = None,
        *,
        logits: ArrayLike | Sequence | None = None,
    ):
        self.total = as_float("total", total)
        self.logits = one_of_probs_or_logits(probs, logits, unit_interval, log_odds)

    @property
    def probs(self) -> Array:
        r"""$\mu$, the probability of a success."""
        return sigmoid(self.logits)

    @property
    def support(self) -> Support:
        return integer_range(0, self.total)

    @property
    def _greatest(self):
        return self.total

    def _log_prob(self, x):
        return log_binomial_count(x, self.total, self.logits)

    def _sample(self, key, n):
        return whole(binomial_draw(key, self.total, self.probs, sigmoid(-self.logits), n))

    def _mean(self):
        return self.total * self.probs

    def _variance(self):
        return self.total * self.probs * sigmoid(-self.logits)

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        return entropy_of_window(log_prob, self._mean(), self._variance(), self.total)

    def _mode(self):
        peak = (self.total + 1) * self.probs
        near = jnp.abs(peak - jnp.round(peak)) <= 8 * jnp.finfo(peak.dtype).eps * peak
        tie = near & (jnp.round(peak) > 0) & (jnp.round(peak) <= self.total)
        return jnp.where(tie, jnp.nan, jnp.minimum(jnp.floor(peak), self.total))

    def _tails(self, k):
        return log_beta_tails(self.total - k, k + 1, sigmoid(-self.logits), self.probs)

    @property
    def natural(self):
        return (self.logits,)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return log_choose(x, self.total - x)

    def log_normaliser(self, natural):
        return self.total * softplus(natural[0])

    def from_natural(self, natural):
        return Binomial(self.total, logits=natural[0])

    def from_stats(self, mean_stats):
        return Binomial(self.total, mean_stats[0] / self.total)


class Poisson(Counts, ExponentialFamily):
    r"""$P(k) = \lambda^k e^{-\lambda}/k!$ with $\lambda$ = `rate`; at rate zero the count is zero."""

    rate: Float[Array, "..."] = field(support=nonnegative)

    def _log_prob(self, x):
        return log_poisson_count(x, self.rate)

    def _sample(self, key, n):
        return whole(poisson_draw(key, self.rate, n))

    def _mean(self):
        return self.rate

    def _variance(self):
        return self.rate

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        return entropy_of_window(log_prob, self.rate, self.rate, jnp.full_like(self.rate, jnp.inf))

    def _mode(self):
        whole = self.rate == jnp.floor(self.rate)
        return jnp.where(whole & (self.rate > 0), jnp.nan, jnp.floor(self.rate))

    def _tails(self, k):
        return log_gamma_tails(k + 1, jnp.broadcast_to(self.rate, k.shape))[::-1]

    @property
    def natural(self):
        return (jnp.log(self.rate),)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return -log_factorial(x)

    def log_normaliser(self, natural):
        return jnp.exp(natural[0])

    def from_natural(self, natural):
        return Poisson(jnp.exp(natural[0]))

    def from_stats(self, mean_stats):
        return Poisson(mean_stats[0])


class Geometric(Counts, ExponentialFamily):
    r"""$P(k) = \mu(1 - \mu)^k$: failures before the first success, $\mu$ = `probs` $> 0$."""

    probs: Float[Array, "..."] = field(support=unit_interval)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_success_possible(self.probs)

    def _log_prob(self, x):
        return jnp.log(self.probs) + _times(x, jnp.log1p(-self.probs))

    def _sample(self, key, n):
        waited = jr.exponential(key, n, self.probs.dtype) / -jnp.log1p(-self.probs)
        return whole(jnp.floor(waited))

    def _mean(self):
        return (1 - self.probs) / self.probs

    def _variance(self):
        return (1 - self.probs) / self.probs**2

    def _entropy(self):
        return -jnp.log(self.probs) - _times(self._mean(), jnp.log1p(-self.probs))

    def _mode(self):
        return jnp.zeros_like(self.probs)

    def _tails(self, k):
        beyond = (k + 1) * jnp.log1p(-self.probs)
        return log1mexp(-beyond), beyond

    @property
    def natural(self):
        return (jnp.log1p(-self.probs),)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return -log1mexp(-natural[0])

    def from_natural(self, natural):
        return Geometric(-jnp.expm1(natural[0]))

    def from_stats(self, mean_stats):
        return Geometric(1 / (1 + mean_stats[0]))


def _times(k: Array, logarithm: Array) -> Array:
    """k log p with 0 log 0 = 0."""
    return jnp.where(k == 0, 0.0, k * jnp.where(k == 0, 0.0, logarithm))
