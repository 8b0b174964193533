r"""Counts of several kinds: the multinomial, and the Dirichlet-multinomial whose probabilities are Dirichlet.

Model.       $n$ independent trials with $k$ outcomes; in the second, their probabilities are drawn before.
Identity.    Poisson counts given their sum are multinomial; negative binomial counts given their sum are
             Dirichlet-multinomial. In these forms a total of $10^8$ costs no digits, and an entropy is a sum
             over the values of single counts.
Cost.        $O(k)$ for a mass, a draw and an entropy, whatever the total.
References.  Johnson, Kotz and Balakrishnan (1997) chapter 35.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import gammaln

from tractable.core.checks import as_float, check
from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_softmax, safe_log, softmax
from tractable.core.support import Support, counts, log_weights, positive, simplex
from tractable.core.types import Array, ArrayLike, Float, Scalar, Shape
from tractable.distributions.atoms import one_of_probs_or_logits
from tractable.distributions.base import Distribution
from tractable.distributions.counting import log_shares, sample_multinomial
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.leading_axes import units
from tractable.distributions.samplers import whole
from tractable.distributions.special import log_binomial, log_poisson
from tractable.distributions.sums import sum_over_counts
from tractable.distributions.supports import CountVector

__all__ = ["DirichletMultinomial", "Multinomial", "categorical_covariance", "check_categories"]


class Multinomial(ExponentialFamily):
    r"""$p(m) = n! \prod_k \mu_k^{m_k} / m_k!$ for counts $m$ that sum to $n$ = `total`, with $\mu$ = `probs`.

    Give `probs` or `logits` (unnormalised log-weights, $-\infty$ for an impossible category); `logits` are
    stored. As an exponential family its total is fixed.

    >>> float(Multinomial(2, jnp.array([0.25, 0.75])).prob(jnp.array([1, 1])))
    0.375
    """

    total: Float[Array, "..."] = field(support=counts)
    logits: Float[Array, "... k"] = field(support=log_weights)

    def __init__(self, total: ArrayLike, probs: ArrayLike | None = None, *, logits: ArrayLike | None = None):
        self.total = as_float("total", total)
        self.logits = one_of_probs_or_logits(probs, logits, simplex, safe_log)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_categories("logits", self.logits)

    @property
    def unit_shape(self) -> Shape:
        return self.logits.shape[-1:]

    @property
    def support(self) -> Support:
        return CountVector(self.total)

    @property
    def probs(self) -> Array:
        """The probability of each category."""
        return softmax(self.logits)

    @property
    def covariance(self) -> Array:
        r"""$n\,(\mathrm{diag}(\mu) - \mu\mu^\top)$."""
        return units(self, type(self)._covariance)

    @property
    def natural(self):
        return (self.logits,)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return gammaln(self.total + 1) - gammaln(x + 1).sum()

    def log_normaliser(self, natural):
        return self.total * jax.nn.logsumexp(natural[0])

    def from_natural(self, natural) -> "Multinomial":
        return Multinomial(self.total, logits=natural[0])

    def from_stats(self, mean_stats) -> "Multinomial":
        return Multinomial(self.total, mean_stats[0] / self.total)

    def _log_prob(self, x):
        log_rate = safe_log(self.total) + log_softmax(self.logits)
        return _poisson(x, log_rate).sum() - log_poisson(self.total, self.total)

    def _sample(self, key, n):
        precise = softmax(self.logits.astype(jnp.result_type(float)))
        rows = jnp.broadcast_to(precise, (n, precise.size))
        return whole(sample_multinomial(key, self.total.astype(precise.dtype), rows))

    def _mean(self):
        return self.total * self.probs

    def _variance(self):
        return jnp.diag(self._covariance())

    def _covariance(self):
        return self.total * categorical_covariance(self.probs)

    def _entropy(self):
        n, log_probs = self.total, log_softmax(self.logits)
        hit, miss = safe_log(n) + log_probs, safe_log(n) + log1mexp(-log_probs)
        constant = -log_poisson(n, n)

        def term(m):
            own = _poisson(m, hit)
            return _expected(constant + own + _poisson(n - m, miss), own)

        # By Bernstein's inequality the mass further than this from the mean is below 1e-30.
        mean, deviation = self._mean(), jnp.sqrt(self._variance())
        low, high = jnp.floor(mean - 12 * deviation - 50), jnp.ceil(mean + 12 * deviation + 50)
        ends = jnp.maximum(low, 0.0), jnp.minimum(high, n)
        return -constant - sum_over_counts(jax.vmap(term), *ends, mean, deviation).sum()


class DirichletMultinomial(Distribution):
    r"""$p(m) = c \prod_k \Gamma(m_k + \alpha_k) / \{m_k!\,\Gamma(\alpha_k)\}$ for counts that sum to `total`.

    $c = n!\,\Gamma(A) / \Gamma(n + A)$ with $n$ = `total`, $\alpha$ = `concentration`, $A = \sum_k \alpha_k$:
    multinomial counts whose probabilities are Dirichlet.
    """

    total: Float[Array, "..."] = field(support=counts)
    concentration: Float[Array, "... k"] = field(support=positive, rank=1)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_categories("concentration", self.concentration)

    @property
    def unit_shape(self) -> Shape:
        return self.concentration.shape[-1:]

    @property
    def support(self) -> Support:
        return CountVector(self.total)

    @property
    def covariance(self) -> Array:
        r"""$n \frac{n + A}{1 + A} (\mathrm{diag}(\mu) - \mu\mu^\top)$ with $\mu = \alpha / A$."""
        return units(self, type(self)._covariance)

    def _log_prob(self, x):
        return self._constant() + self._factor(x, self.concentration).sum()

    def _constant(self) -> Scalar:
        return -self._factor(self.total, self.concentration.sum())

    def _factor(self, m: Array, a: Array) -> Array:
        """The log-mass of a negative binomial count; its probability makes the expected sum `total`."""
        n, size = self.total, self.concentration.sum()
        return log_binomial(m, a, n / (n + size), size / (n + size)) - jnp.log1p(m / a)

    def _sample(self, key, n):
        key_shares, key_counts = jr.split(key)
        shares = jnp.exp(log_shares(key_shares, self.concentration.astype(jnp.result_type(float)), n))
        return whole(sample_multinomial(key_counts, self.total.astype(shares.dtype), shares))

    def _mean(self):
        return self.total * self.concentration / self.concentration.sum()

    def _variance(self):
        return jnp.diag(self._covariance())

    def _covariance(self):
        n, size = self.total, self.concentration.sum()
        return n * (n + size) / (1 + size) * categorical_covariance(self.concentration / size)

    def _entropy(self):
        n, a = self.total, self.concentration
        constant = self._constant()
        others = (1 - jnp.eye(a.size, dtype=a.dtype)) @ a  # not a.sum() - a, which cancels

        def term(m):
            own = self._factor(m, a)
            return _expected(constant + own + self._factor(n - m, others), own)

        ends, deviation = (jnp.zeros_like(a), jnp.full_like(a, n)), jnp.sqrt(self._variance())
        return -constant - sum_over_counts(jax.vmap(term), *ends, self._mean(), deviation).sum()


def check_categories(name: str, x: Array) -> None:
    """Check that there are two or more categories."""
    check(x.shape[-1] >= 2, name, "at least two entries along its last axis", f"shape {x.shape}")


def categorical_covariance(p: Array) -> Array:
    r"""$\mathrm{diag}(p) - pp^\top$, the covariance of one draw as a one-hot vector."""
    return jnp.diag(p * (1 - p)) - (jnp.outer(p, p) - jnp.diag(p**2))


def _poisson(m: Array, log_rate: Array) -> Array:
    """The Poisson log-mass; a rate below the smallest float is known by its logarithm."""
    tiny = log_rate < -600
    below = jnp.where(m > 0, m * jnp.where(m > 0, log_rate, 0.0), 0.0) - gammaln(m + 1)
    return jnp.where(tiny, below, log_poisson(m, jnp.exp(jnp.where(tiny, 0.0, log_rate))))


def _expected(log_mass: Array, value: Array) -> Array:
    """Mass times value; an impossible count contributes nothing even where its value is infinite."""
    possible = log_mass > -jnp.inf
    return jnp.where(possible, jnp.exp(log_mass) * jnp.where(possible, value, 0.0), 0.0)
