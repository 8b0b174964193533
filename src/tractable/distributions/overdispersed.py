r"""Counts that vary more than their simple models: the negative binomial and the beta-binomial.

Models.      A Poisson whose rate is a gamma draw; a binomial whose probability is a beta draw.
Precision.   Masses are in saddle-point form, as in `counts`.
Cost.        Elementwise, whatever the range of the counts. The beta-binomial's distribution function is a
             quadrature of 768 incomplete beta integrals, right to $10^{-12}$; an entropy takes some 2,000
             masses.
References.  Johnson, Kemp and Kotz (2005), "Univariate discrete distributions".
"""

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import digamma

from tractable.core.module import field
from tractable.core.numerics import log1mexp, logit, sigmoid
from tractable.core.support import Support, counts, integer_range, positive, unit_interval
from tractable.core.types import Array, Float
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_beta_order, log_beta_tails
from tractable.distributions.samplers import (
    binomial_draw,
    log_gamma_draw,
    log_odds_draw,
    poisson_draw,
    whole,
)
from tractable.distributions.special import log_binomial, log_choose
from tractable.distributions.sums import entropy_of_counts
from tractable.distributions.tailed import Counts, check_success_possible

__all__ = ["BetaBinomial", "NegativeBinomial"]


class NegativeBinomial(Counts, ExponentialFamily):
    r"""$P(k) = \frac{\Gamma(k + r)}{k!\,\Gamma(r)}\mu^r(1 - \mu)^k$: failures before $r$ = `total` successes,
    $\mu$ = `probs`.

    `total` may be any positive number: the law is a Poisson whose rate is a draw of Gamma($r$, $\mu/(1 -
    \mu)$). An exponential family for a given `total`.
    """

    total: Float[Array, "..."] = field(support=positive)
    probs: Float[Array, "..."] = field(support=unit_interval)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_success_possible(self.probs)

    def _log_prob(self, x):
        share = jnp.log(self.total) - jnp.log(self.total + x)
        return share + log_binomial(self.total, x, self.probs, 1 - self.probs)

    def _sample(self, key, n):
        key_rate, key_count = jr.split(key)
        dtype = jnp.result_type(self.total, self.probs)
        log_rate = log_gamma_draw(key_rate, self.total, n, dtype) - logit(self.probs)
        return whole(poisson_draw(key_count, jnp.exp(log_rate), n))

    def _mean(self):
        return self.total * (1 - self.probs) / self.probs

    def _variance(self):
        return self.total * (1 - self.probs) / self.probs**2

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        mean, deviation = self._mean(), jnp.sqrt(self._variance())
        last = mean + 50 * deviation + 50 / self.probs  # the tail falls by a factor 1 - probs at least
        return entropy_of_counts(log_prob, mean, deviation, jnp.ceil(last))

    def _mode(self):
        peak = (self.total - 1) * (1 - self.probs) / self.probs
        tie = (peak == jnp.floor(peak)) & (peak > 0) | (self.total == 1) & (self.probs == 0)
        return jnp.where(tie, jnp.nan, jnp.maximum(jnp.floor(peak), 0.0))

    def _tails(self, k):
        return log_beta_tails(self.total, k + 1, self.probs, 1 - self.probs)

    @property
    def natural(self):
        return (jnp.log1p(-self.probs),)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return log_choose(self.total, x) + jnp.log(self.total) - jnp.log(self.total + x)

    def log_normaliser(self, natural):
        return -self.total * log1mexp(-natural[0])

    def from_natural(self, natural):
        return NegativeBinomial(self.total, -jnp.expm1(natural[0]))

    def from_stats(self, mean_stats):
        return NegativeBinomial(self.total, self.total / (self.total + mean_stats[0]))


class BetaBinomial(Counts):
    r"""$P(k) = \binom{n}{k} B(k + a, n - k + b)/B(a, b)$ with $n$ = `total`: a binomial with $\mu \sim$
    `Beta(a, b)`."""

    total: Float[Array, "..."] = field(support=counts)
    a: Float[Array, "..."] = field(support=positive)
    b: Float[Array, "..."] = field(support=positive)

    @property
    def support(self) -> Support:
        return integer_range(0, self.total)

    @property
    def _greatest(self):
        return self.total

    def _log_prob(self, x):
        # binomial terms at one common probability, whose powers cancel: each is small where the mass is large
        others, alpha, beta = self.total - x, x + self.a, self.total - x + self.b
        u, v = alpha / (alpha + beta), beta / (alpha + beta)
        terms = log_binomial(x, others, u, v) + log_binomial(self.a + 0 * u, self.b + 0 * u, u, v)
        ratio = jnp.log(1 / alpha + 1 / beta) - jnp.log(1 / self.a + 1 / self.b)
        return terms - log_binomial(alpha, beta, u, v) + ratio

    def _sample(self, key, n):
        key_probs, key_count = jr.split(key)
        log_odds = log_odds_draw(key_probs, self.a, self.b, n)
        return whole(binomial_draw(key_count, self.total, sigmoid(log_odds), sigmoid(-log_odds), n))

    def _mean(self):
        return self.total * (self.a / (self.a + self.b))

    def _variance(self):
        size = self.a + self.b
        return self.total * (self.a / size) * (self.b / size) * (size + self.total) / (size + 1)

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        return entropy_of_counts(log_prob, self._mean(), jnp.sqrt(self._variance()), self.total)

    def _tails(self, k):
        # of n uniform numbers k + 1 lie below p where the (k + 1)-th, a draw of Beta(k + 1, n - k), does
        k, n, a, b = jnp.broadcast_arrays(k, self.total, self.a, self.b)
        lower = digamma(k + 1) - digamma(n - k) < digamma(a) - digamma(b)  # by the mean log-odds of the two
        pairs = [(a, b), (b, a), (k + 1, n - k), (n - k, k + 1)]
        smaller = log_beta_order(*(jnp.where(lower, *pair) for pair in pairs))
        other = log1mexp(jnp.where(smaller < 0, -smaller, jnp.inf))
        return jnp.where(lower, smaller, other), jnp.where(lower, other, smaller)
