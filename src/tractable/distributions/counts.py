r"""Distributions of counts: binomial, Poisson, geometric, negative binomial, beta-binomial.

Models.      Successes in $n$ trials; events at a rate; failures before the first, or the $r$-th, success; successes in
             $n$ trials whose probability is a draw of a beta.
Precision.   Masses are in saddle-point form: relative error near $10^{-14}$ in the logarithm at a total or rate of $10^8$.
Entropy.     Sums of $-P\log P$. Where the standard deviation $s$ passes 16 they run over every $\lceil s/16\rceil$-th number:
             for a function that smooth the sum is the trapezoidal rule, whose error is far below rounding.
Used by.     Regression of counts, distributions.conjugate, topic and text models.
Cost.        Elementwise; 513 masses for an entropy. The beta-binomial's cdf, quantile and entropy, and the entropy of
             a negative binomial of total below 30, are sums that grow with the range of the counts.
References.  Loader (2000); Johnson, Kemp and Kotz (2005), "Univariate discrete distributions".
"""

from abc import abstractmethod

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtri

from tractable.core.checks import check, is_concrete
from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_factorial, logit, sigmoid, softplus
from tractable.core.support import Support, counts, extended_real, integer_range, nonnegative, positive, unit_interval
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.atoms import one_of_probs_or_logits
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_beta_tails, log_gamma_tails
from tractable.distributions.quantile import invert_counts
from tractable.distributions.samplers import binomial_draw, log_gamma_draw, poisson_draw
from tractable.distributions.special import log_binomial, log_choose, log_poisson
from tractable.distributions.sums import entropy_of_window, entropy_until_negligible, log_sums_of_ratios

__all__ = ["BetaBinomial", "Binomial", "Counts", "Geometric", "NegativeBinomial", "Poisson"]


class Counts(Univariate):
    """A distribution on whole numbers from zero, known by the logarithms of its two tails."""

    @abstractmethod
    def _tails(self, k: Array) -> tuple[Array, Array]:
        """log P(X <= k) and log P(X > k) for k below the greatest number."""

    @property
    def support(self) -> Support:
        return counts

    def _cdf(self, x):
        return jnp.exp(self._tails(x)[0])

    def _survival(self, x):
        return jnp.exp(self._tails(x)[1])

    def _log_cdf(self, x):
        return self._tails(x)[0]

    def _log_survival(self, x):
        return self._tails(x)[1]

    def _icdf(self, p):
        return self._solve(p, 1 - p, (0.0, 4 * float(jnp.finfo(p.dtype).eps)))

    def _inverse_survival(self, q):
        return self._solve(1 - q, q, (4 * float(jnp.finfo(q.dtype).eps), 0.0))

    def _solve(self, p, q, rounding):
        normal = jnp.where(p < q, ndtri(p), -ndtri(q))
        start = self._mean() + jnp.sqrt(self._variance()) * normal
        return invert_counts(self._tails, p, q, rounding, getattr(self.support, "high"), start)


class Binomial(Counts, ExponentialFamily):
    r"""$P(k) = \binom{n}{k}\mu^k(1 - \mu)^{n-k}$ with $n$ = `total`: `Binomial(n, mu)` or `Binomial(n, logits=...)`.

    An exponential family for a given `total`.
    """

    total: Float[Array, "..."] = field(support=counts)
    logits: Float[Array, "..."] = field(support=extended_real)

    def __init__(self, total: ArrayLike, probs: ArrayLike | None = None, *, logits: ArrayLike | None = None):
        self.total = total
        self.logits = one_of_probs_or_logits(probs, logits, unit_interval, logit)

    @property
    def probs(self) -> Array:
        r"""$\mu$, the probability of a success."""
        return sigmoid(self.logits)

    @property
    def support(self) -> Support:
        return integer_range(0, self.total)

    def _log_prob(self, x):
        return log_binomial(x, self.total - x, self.probs, sigmoid(-self.logits))

    def _sample(self, key, n):
        return binomial_draw(key, self.total, self.probs, sigmoid(-self.logits), n).astype(int)

    def _mean(self):
        return self.total * self.probs

    def _variance(self):
        return self.total * self.probs * sigmoid(-self.logits)

    def _entropy(self):
        return entropy_of_window(self._aligned_log_prob, self._mean(), self._variance(), self.total)

    def _aligned_log_prob(self, k):
        return self._aligned(k.ndim)._log_prob(k)

    def _mode(self):
        peak = (self.total + 1) * self.probs
        tie = (peak == jnp.floor(peak)) & (peak > 0) & (peak <= self.total)
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
        return log_poisson(x, self.rate)

    def _sample(self, key, n):
        return poisson_draw(key, self.rate, n).astype(int)

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
        _check_possible(self.probs)

    def _log_prob(self, x):
        return jnp.log(self.probs) + _times(x, jnp.log1p(-self.probs))

    def _sample(self, key, n):
        waited = jr.exponential(key, n, self.probs.dtype) / -jnp.log1p(-self.probs)
        return jnp.floor(waited).astype(int)

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


class NegativeBinomial(Counts, ExponentialFamily):
    r"""$P(k) = \frac{\Gamma(k + r)}{k!\,\Gamma(r)}\mu^r(1 - \mu)^k$: failures before $r$ = `total` successes, $\mu$ = `probs`.

    `total` may be any positive number: the law is a Poisson whose rate is a draw of Gamma($r$, $\mu/(1 - \mu)$). An
    exponential family for a given `total`.
    """

    total: Float[Array, "..."] = field(support=positive)
    probs: Float[Array, "..."] = field(support=unit_interval)

    def __check_init__(self) -> None:
        super().__check_init__()
        _check_possible(self.probs)

    def _log_prob(self, x):
        share = jnp.log(self.total) - jnp.log(self.total + x)
        return share + log_binomial(self.total, x, self.probs, 1 - self.probs)

    def _sample(self, key, n):
        key_rate, key_count = jr.split(key)
        dtype = jnp.result_type(self.total, self.probs)
        log_rate = log_gamma_draw(key_rate, self.total, n, dtype) - logit(self.probs)
        return poisson_draw(key_count, jnp.exp(log_rate), n).astype(int)

    def _mean(self):
        return self.total * (1 - self.probs) / self.probs

    def _variance(self):
        return self.total * (1 - self.probs) / self.probs**2

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        smooth = self.total > 30
        return entropy_until_negligible(log_prob, self._mean(), self._variance(), smooth)

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
    r"""$P(k) = \binom{n}{k} B(k + a, n - k + b)/B(a, b)$ with $n$ = `total`: a binomial with $\mu \sim$ `Beta(a, b)`."""

    total: Float[Array, "..."] = field(support=counts)
    a: Float[Array, "..."] = field(support=positive)
    b: Float[Array, "..."] = field(support=positive)

    @property
    def support(self) -> Support:
        return integer_range(0, self.total)

    def _log_prob(self, x):
        # binomial terms at one common probability, whose powers cancel: each is small where the mass is large
        others, alpha, beta = self.total - x, x + self.a, self.total - x + self.b
        u, v = alpha / (alpha + beta), beta / (alpha + beta)
        terms = log_binomial(x, others, u, v) + log_binomial(self.a + 0 * u, self.b + 0 * u, u, v)
        ratio = jnp.log(1 / alpha + 1 / beta) - jnp.log(1 / self.a + 1 / self.b)
        return terms - log_binomial(alpha, beta, u, v) + ratio

    def _sample(self, key, n):
        key_probs, key_count = jr.split(key)
        keys = jr.split(key_probs)
        dtype = jnp.result_type(self.a, self.b)
        log_odds = log_gamma_draw(keys[0], self.a, n, dtype) - log_gamma_draw(keys[1], self.b, n, dtype)
        return binomial_draw(key_count, self.total, sigmoid(log_odds), sigmoid(-log_odds), n).astype(int)

    def _mean(self):
        return self.total * (self.a / (self.a + self.b))

    def _variance(self):
        size = self.a + self.b
        return self.total * (self.a / size) * (self.b / size) * (size + self.total) / (size + 1)

    def _entropy(self):
        def log_prob(k):
            return self._aligned(k.ndim)._log_prob(k)

        never = jnp.zeros(self.total.shape, bool)
        return entropy_until_negligible(log_prob, self._mean(), self._variance(), never, self.total)

    def _tails(self, k):
        k, n, a, b = jnp.broadcast_arrays(k, self.total, self.a, self.b)
        lower = k < self._mean()
        # downwards from k: P(j - 1)/P(j); upwards from k + 1: P(j + 1)/P(j), which is the same mirrored
        j, first, second = jnp.where(lower, k, n - k - 1), jnp.where(lower, a, b), jnp.where(lower, b, a)

        def ratio(i):
            at = j - i
            return at * (n - at + second) / ((n - at + 1) * (at - 1 + first))

        at = jnp.where(lower, k, k + 1)
        smaller = BetaBinomial(n, a, b)._log_prob(at) + log_sums_of_ratios(ratio, j)
        other = log1mexp(jnp.where(smaller < 0, -smaller, jnp.inf))
        return jnp.where(lower, smaller, other), jnp.where(lower, other, smaller)


def _check_possible(probs: Array) -> None:
    if is_concrete(probs):
        check(bool((probs > 0).all()), "probs", "positive", "0.0", "A success must be possible.")


def _times(k: Array, logarithm: Array) -> Array:
    """k log p with 0 log 0 = 0."""
    return jnp.where(k == 0, 0.0, k * jnp.where(k == 0, 0.0, logarithm))
