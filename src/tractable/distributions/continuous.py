r"""Densities on the whole line: normal, Cauchy, Laplace, logistic, Gumbel, and Student's t.

Models.      Location-scale families, each stated by its standard member; Student's t has a file of its own.
Cost.        Elementwise.
References.  Johnson, Kotz and Balakrishnan (1994, 1995), "Continuous univariate distributions".
"""

import math

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr, ndtri

from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_sigmoid, sigmoid
from tractable.core.support import positive, real
from tractable.core.types import Array, Float
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.location_scale import LocationScale
from tractable.distributions.special import log1p_square, log_ndtr
from tractable.distributions.student import StudentT

__all__ = ["Cauchy", "Gumbel", "Laplace", "LocationScale", "Logistic", "Normal", "StudentT"]

_EULER = 0.5772156649015329


class Normal(LocationScale, ExponentialFamily):
    r"""$p(x) = (2\pi\sigma^2)^{-1/2} \exp\{-(x - \mu)^2 / 2\sigma^2\}$ with $\mu$ = `loc`, $\sigma$ =
    `scale`.

    The quantile is $\mu + \sigma\sqrt2\,\mathrm{erf}^{-1}(2p - 1)$; maximum likelihood is `from_stats` of the
    averages of $x$ and $x^2$.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        return -0.5 * z**2 - 0.5 * math.log(2 * math.pi)

    def _standard_sample(self, key, n, dtype):
        return jr.normal(key, n, dtype)

    def _standard_moments(self):
        return 0.0, 1.0, 0.5 + 0.5 * math.log(2 * math.pi)

    def _standard_cdf(self, z):
        return ndtr(z)

    def _standard_log_cdf(self, z):
        return log_ndtr(z)

    def _standard_icdf(self, p):
        return ndtri(p)

    @property
    def natural(self):
        return self.loc / self.scale**2, -0.5 / self.scale**2

    def stats(self, x):
        return x, x**2

    def log_base(self, x):
        return jnp.full_like(x, -0.5 * math.log(2 * math.pi))

    def log_normaliser(self, natural):
        return -(natural[0] ** 2) / (4 * natural[1]) - 0.5 * jnp.log(-2 * natural[1])

    def from_natural(self, natural):
        variance = -0.5 / natural[1]
        return Normal(natural[0] * variance, jnp.sqrt(variance))

    def from_stats(self, mean_stats):
        return Normal(mean_stats[0], jnp.sqrt(mean_stats[1] - mean_stats[0] ** 2))


class Cauchy(LocationScale):
    r"""$p(x) = \frac{1}{\pi\gamma}\big(1 + (x - x_0)^2/\gamma^2\big)^{-1}$ with $\gamma$ = `scale`.

    It has no mean (NaN).
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        return -math.log(math.pi) - log1p_square(z)

    def _standard_sample(self, key, n, dtype):
        return jr.cauchy(key, n, dtype)

    def _standard_moments(self):
        return jnp.nan, jnp.nan, math.log(4 * math.pi)

    def _standard_cdf(self, z):
        return jnp.arctan2(jnp.ones_like(z), -z) / math.pi

    def _standard_log_cdf(self, z):
        distance = jnp.where(z > 0, z, -z)  # unlike the absolute value it has a slope at zero
        tail = jnp.arctan2(jnp.ones_like(z), distance) / math.pi
        return jnp.where(z > 0, jnp.log1p(-tail), jnp.log(tail))

    def _standard_icdf(self, p):
        centre = jnp.abs(p - 0.5) < 0.25
        tail = jnp.where(centre, 0.25, jnp.minimum(p, 1 - p))
        middle = jnp.tan(math.pi * (jnp.where(centre, p, 0.5) - 0.5))
        return jnp.where(centre, middle, jnp.sign(p - 0.5) / jnp.tan(math.pi * tail))


class Laplace(LocationScale, ExponentialFamily):
    r"""$p(x) = \frac{1}{2b} e^{-|x - \mu|/b}$ with $b$ = `scale`; an exponential family for a given `loc`."""

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        return -jnp.abs(z) - math.log(2)

    def _standard_sample(self, key, n, dtype):
        return jr.laplace(key, n, dtype)

    def _standard_moments(self):
        return 0.0, 2.0, 1 + math.log(2)

    def _standard_log_cdf(self, z):
        log_tail = jnp.where(z > 0, -z, z) - math.log(2)
        return jnp.where(z > 0, jnp.log1p(-jnp.exp(log_tail)), log_tail)

    def _standard_icdf(self, p):
        lower = p < 0.5
        tail = jnp.log(2 * jnp.where(lower, p, 1 - p))
        return jnp.where(lower, tail, -tail)

    @property
    def natural(self):
        return (-1 / self.scale,)

    def stats(self, x):
        return (jnp.abs(x - self.loc),)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return math.log(2) - jnp.log(-natural[0])

    def from_natural(self, natural):
        return Laplace(self.loc, -1 / natural[0])

    def from_stats(self, mean_stats):
        return Laplace(self.loc, mean_stats[0])


class Logistic(LocationScale):
    r"""$p(x) = \frac{1}{s}\sigma(z)\sigma(-z)$ with $z = (x - \mu)/s$, $s$ = `scale` and $\sigma$ the
    sigmoid, its cdf."""

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        return log_sigmoid(z) + log_sigmoid(-z)

    def _standard_sample(self, key, n, dtype):
        return jr.logistic(key, n, dtype)

    def _standard_moments(self):
        return 0.0, math.pi**2 / 3, 2.0

    def _standard_cdf(self, z):
        return sigmoid(z)

    def _standard_log_cdf(self, z):
        return log_sigmoid(z)

    def _standard_icdf(self, p):
        return jnp.log(p) - jnp.log1p(-p)


class Gumbel(LocationScale):
    r"""$p(x) = \frac{1}{\beta} e^{-z - e^{-z}}$ with $z = (x - \mu)/\beta$, $\beta$ = `scale`: the law of a
    maximum.

    Its cdf is $e^{-e^{-z}}$, so that a draw is $\mu - \beta\log(-\log u)$.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        return -z - jnp.exp(-z)

    def _standard_sample(self, key, n, dtype):
        return jr.gumbel(key, n, dtype)

    def _standard_moments(self):
        return _EULER, math.pi**2 / 6, 1 + _EULER

    def _standard_log_cdf(self, z):
        return -jnp.exp(-z)

    def _standard_survival(self, z):
        return -jnp.expm1(-jnp.exp(-z))

    def _standard_log_survival(self, z):
        far = z > 40
        return jnp.where(far, -z, log1mexp(jnp.exp(-jnp.where(far, 0.0, z))))

    def _standard_icdf(self, p):
        return -jnp.log(-jnp.log(p))

    def _standard_inverse_survival(self, q):
        return -jnp.log(-jnp.log1p(-q))
