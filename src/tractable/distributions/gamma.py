r"""The gamma distribution and its relatives: sums of waiting times, their inverses, sums of squares.

Models.      $x \sim \mathrm{Gamma}(a, \beta)$; $1/x \sim \mathrm{InverseGamma}(a, \beta)$; $\chi^2_\nu =
             \mathrm{Gamma}(\nu/2, 1/2)$.
Boundary.    Zero belongs to the gamma's support: there the log-density is its limit, finite at $a = 1$.
Cost.        Elementwise. A quantile takes about six evaluations of the distribution function.
References.  Minka (2002), "Estimating a gamma distribution".
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, ndtri, polygamma

from tractable.core.module import field
from tractable.core.numerics import log_gamma
from tractable.core.support import Support, nonnegative, positive
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_gamma_tails
from tractable.distributions.quantile import invert_tails
from tractable.distributions.samplers import gamma_draw, log_gamma_draw
from tractable.distributions.special import (
    digamma_minus_log,
    inverse_digamma,
    log_poisson,
    once,
    power_log,
    stirling_error,
)

__all__ = ["ChiSquared", "Gamma", "InverseGamma"]


class Gamma(Univariate, ExponentialFamily):
    r"""$p(x) = \beta^a x^{a-1} e^{-\beta x} / \Gamma(a)$ with $a$ = `concentration`, $\beta$ = `rate`."""

    concentration: Float[Array, "..."] = field(support=positive)
    rate: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return nonnegative

    def _log_prob(self, x):
        rate = self.rate
        return _by_size(
            self.concentration,
            lambda a: once(a * jnp.log(rate) - log_gamma(a)) + power_log(a - 1, x) - rate * x,
            lambda a: log_poisson(a - 1, rate * x) + jnp.log(rate),
        )

    def _sample(self, key, n):
        dtype = jnp.result_type(self.concentration, self.rate)
        return gamma_draw(key, self.concentration, n, dtype) / self.rate

    def _mean(self):
        return self.concentration / self.rate

    def _variance(self):
        return self.concentration / self.rate**2

    def _entropy(self):
        return _gamma_entropy(self.concentration, 1.0) - jnp.log(self.rate)

    def _mode(self):
        return jnp.maximum(self.concentration - 1, 0.0) / self.rate

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        return log_gamma_tails(*_matched(self.concentration, self.rate * x))[0]

    def _log_survival(self, x):
        return log_gamma_tails(*_matched(self.concentration, self.rate * x))[1]

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, p, q):
        return _gamma_quantile(self.concentration, p, q) / self.rate

    @property
    def natural(self):
        return self.concentration - 1, -self.rate

    def stats(self, x):
        return jnp.log(x), x

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        a = natural[0] + 1
        return log_gamma(a) - a * jnp.log(-natural[1])

    def from_natural(self, natural):
        return Gamma(natural[0] + 1, -natural[1])

    def from_stats(self, mean_stats):
        a = _concentration(jnp.log(mean_stats[1]) - mean_stats[0])
        return Gamma(a, a / mean_stats[1])


class InverseGamma(Univariate, ExponentialFamily):
    r"""$p(x) = \frac{s^a}{\Gamma(a)} x^{-a-1} e^{-s/x}$ with $a$ = `concentration`, $s$ = `scale`: $1/x \sim$
    `Gamma(a, s)`.

    The mean is infinite for $a \le 1$, the variance for $a \le 2$.
    """

    concentration: Float[Array, "..."] = field(support=positive)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return positive

    def _log_prob(self, x):
        scale = self.scale
        return _by_size(
            self.concentration,
            lambda a: once(a * jnp.log(scale) - log_gamma(a)) - (a + 1) * jnp.log(x) - scale / x,
            lambda a: log_poisson(a, scale / x) + jnp.log(a) - jnp.log(x),
        )

    def _sample(self, key, n):
        dtype = jnp.result_type(self.concentration, self.scale)
        return self.scale * jnp.exp(-log_gamma_draw(key, self.concentration, n, dtype))

    def _mean(self):
        finite = self.concentration > 1
        return jnp.where(finite, self.scale / jnp.where(finite, self.concentration - 1, 1.0), jnp.inf)

    def _variance(self):
        finite = self.concentration > 2
        a = jnp.where(finite, self.concentration, 3.0)
        return jnp.where(finite, self.scale**2 / ((a - 1) ** 2 * (a - 2)), jnp.inf)

    def _entropy(self):
        return _gamma_entropy(self.concentration, -1.0) + jnp.log(self.scale)

    def _mode(self):
        return self.scale / (self.concentration + 1)

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        return log_gamma_tails(*_matched(self.concentration, self.scale / x))[1]

    def _log_survival(self, x):
        return log_gamma_tails(*_matched(self.concentration, self.scale / x))[0]

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, p, q):
        return self.scale / _gamma_quantile(self.concentration, q, p)

    @property
    def natural(self):
        return -self.concentration - 1, -self.scale

    def stats(self, x):
        return jnp.log(x), 1 / x

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        a = -natural[0] - 1
        return log_gamma(a) - a * jnp.log(-natural[1])

    def from_natural(self, natural):
        return InverseGamma(-natural[0] - 1, -natural[1])

    def from_stats(self, mean_stats):
        a = _concentration(jnp.log(mean_stats[1]) + mean_stats[0])
        return InverseGamma(a, a / mean_stats[1])


class ChiSquared(Univariate, ExponentialFamily):
    r"""$p(x) = \frac{1}{2^{\nu/2}\Gamma(\nu/2)} x^{\nu/2-1} e^{-x/2}$ with $\nu$ = `degrees`: a sum of $\nu$
    squared standard normals."""

    degrees: Float[Array, "..."] = field(support=positive)

    @property
    def support(self) -> Support:
        return nonnegative

    @property
    def _gamma(self) -> Gamma:
        return Gamma(self.degrees / 2, jnp.full_like(self.degrees, 0.5))

    def _log_prob(self, x):
        return self._gamma._log_prob(x)

    def _sample(self, key, n):
        return self._gamma._sample(key, n)

    def _mean(self):
        return self.degrees

    def _variance(self):
        return 2 * self.degrees

    def _entropy(self):
        return self._gamma._entropy()

    def _mode(self):
        return self._gamma._mode()

    def _cdf(self, x):
        return self._gamma._cdf(x)

    def _survival(self, x):
        return self._gamma._survival(x)

    def _log_cdf(self, x):
        return self._gamma._log_cdf(x)

    def _log_survival(self, x):
        return self._gamma._log_survival(x)

    def _icdf(self, p):
        return self._gamma._icdf(p)

    def _inverse_survival(self, q):
        return self._gamma._inverse_survival(q)

    def _at_shares(self, p, q):
        return self._gamma._at_shares(p, q)

    @property
    def natural(self):
        return (self.degrees / 2 - 1,)

    def stats(self, x):
        return (jnp.log(x),)

    def log_base(self, x):
        return -x / 2

    def log_normaliser(self, natural):
        a = natural[0] + 1
        return log_gamma(a) + a * math.log(2)

    def from_natural(self, natural):
        return ChiSquared(2 * (natural[0] + 1))

    def from_stats(self, mean_stats):
        return ChiSquared(2 * inverse_digamma(mean_stats[0] - math.log(2)))


def _by_size(
    concentration: Array, textbook: Callable[[Array], Array], large: Callable[[Array], Array]
) -> Array:
    """The textbook form, or where the concentration is large the one whose large terms do not cancel.

    The second costs several times the first and is computed only where some concentration asks for it.
    """
    moderate = concentration < 20
    near = textbook(jnp.where(moderate, concentration, 1.0))

    def mixed():
        return jnp.where(moderate, near, large(jnp.where(moderate, 20.0, concentration)))

    return jax.lax.cond(jnp.all(moderate), lambda: near, mixed)


def _matched(a: Array, x: Array) -> tuple[Array, Array]:
    return jnp.broadcast_to(a, x.shape), x


def _gamma_entropy(a: Array, sign: float) -> Array:
    """Entropy of a standard gamma (`sign` 1) or inverse gamma (-1): a + log Gamma(a) + (sign - a) psi(a),
    rearranged so that no terms of size a log a are left to cancel."""
    rest = stirling_error(a) + (sign - a) * digamma_minus_log(a) + 0.5 * math.log(2 * math.pi)
    return (sign - 0.5) * jnp.log(a) + rest


def _gamma_quantile(a: Array, p: Array, q: Array) -> Array:
    a = jnp.broadcast_to(a, p.shape)
    normal = jnp.where(p < q, ndtri(p), -ndtri(q))
    cube = 1 - 1 / (9 * a) + normal / (3 * jnp.sqrt(a))
    near_zero = (jnp.log(p) + log_gamma(a + 1)) / a
    middle = jnp.log(a) + 3 * jnp.log(jnp.maximum(cube, 0.1))
    start = jnp.where((cube < 0.3) | (a < 0.5), jnp.minimum(near_zero, middle), middle)
    return jnp.exp(invert_tails(_log_tails, _log_slope, (a,), p, q, start))


def _log_tails(y: Array, a: Array) -> tuple[Array, Array]:
    return log_gamma_tails(a, jnp.exp(y))


def _log_slope(y: Array, a: Array) -> Array:
    return log_poisson(a, jnp.exp(y)) + jnp.log(a)


def _concentration(gap: Array) -> Array:
    """The a with log a - psi(a) = gap > 0, by Newton's method on 1/a (Minka 2002)."""
    a = (3 - gap + jnp.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(6):
        slope = a**2 * (1 / a - polygamma(1, a))
        a = 1 / (1 / a + (jnp.log(a) - digamma(a) - gap) / slope)
    return a
