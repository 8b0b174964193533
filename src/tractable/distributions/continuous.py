r"""Densities on the whole line: a standard density moved by `loc` and stretched by `scale`.

Model.       $x = \mu + \sigma z$ with $z$ of a standard density $f$: $p(x) = f((x - \mu)/\sigma)/\sigma$.
Used by.     Likelihoods and priors everywhere; distributions.truncated, mixture, divergence.
Cost.        Elementwise. Student's quantile solves for it with about six evaluations of the distribution function.
References.  Johnson, Kotz and Balakrishnan (1994, 1995), "Continuous univariate distributions".
"""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr, ndtri

from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_sigmoid, sigmoid
from tractable.core.support import Support, positive, real
from tractable.core.types import Array, Float, Key, Shape
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_beta_tails
from tractable.distributions.quantile import invert_tails
from tractable.distributions.samplers import log_gamma_draw
from tractable.distributions.special import log1p_square, log_beta, log_ndtr

__all__ = ["Cauchy", "Gumbel", "Laplace", "LocationScale", "Logistic", "Normal", "StudentT"]

_EULER = 0.5772156649015329


class LocationScale(Univariate):
    """A standard density under the map $z \\mapsto$ `loc` + `scale` z; a family states the standard member.

    The standard member is symmetric about zero unless a family overrides the two functions of the upper tail.
    """

    loc: eqx.AbstractVar[Array]
    scale: eqx.AbstractVar[Array]

    @property
    def support(self) -> Support:
        return real

    @abstractmethod
    def _standard_log_prob(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_sample(self, key: Key, n: Shape, dtype) -> Array: ...

    @abstractmethod
    def _standard_log_cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_icdf(self, p: Array) -> Array: ...

    @abstractmethod
    def _standard_moments(self) -> tuple[Array | float, Array | float, Array | float]:
        """Mean, variance and entropy of the standard member."""

    def _standard_cdf(self, z: Array) -> Array:
        return jnp.exp(self._standard_log_cdf(z))

    def _standard_log_survival(self, z: Array) -> Array:
        return self._standard_log_cdf(-z)

    def _standard_survival(self, z: Array) -> Array:
        return self._standard_cdf(-z)

    def _standard_inverse_survival(self, q: Array) -> Array:
        return -self._standard_icdf(q)

    def _log_prob(self, x):
        return self._standard_log_prob((x - self.loc) / self.scale) - jnp.log(self.scale)

    def _sample(self, key, n):
        dtype = jnp.result_type(self.loc, self.scale)
        return self.loc + self.scale * self._standard_sample(key, n, dtype)

    def _mean(self):
        return self.loc + self.scale * self._standard_moments()[0]

    def _variance(self):
        return self.scale**2 * self._standard_moments()[1]

    def _entropy(self):
        return jnp.log(self.scale) + self._standard_moments()[2]

    def _mode(self):
        return self.loc

    def _cdf(self, x):
        return self._standard_cdf((x - self.loc) / self.scale)

    def _survival(self, x):
        return self._standard_survival((x - self.loc) / self.scale)

    def _log_cdf(self, x):
        return self._standard_log_cdf((x - self.loc) / self.scale)

    def _log_survival(self, x):
        return self._standard_log_survival((x - self.loc) / self.scale)

    def _icdf(self, p):
        return self.loc + self.scale * self._standard_icdf(p)

    def _inverse_survival(self, q):
        return self.loc + self.scale * self._standard_inverse_survival(q)


class Normal(LocationScale, ExponentialFamily):
    r"""$p(x) = (2\pi\sigma^2)^{-1/2} \exp\{-(x - \mu)^2 / 2\sigma^2\}$ with $\mu$ = `loc`, $\sigma$ = `scale`.

    The quantile is $\mu + \sigma\sqrt2\,\mathrm{erf}^{-1}(2p - 1)$; maximum likelihood is `from_stats` of the averages of
    $x$ and $x^2$.
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


class StudentT(LocationScale):
    r"""$p(x) = \frac{1}{\sigma\sqrt\nu B(\nu/2, 1/2)} \big(1 + \frac{(x - \mu)^2}{\nu\sigma^2}\big)^{-(\nu + 1)/2}$ with
    $\nu$ = `degrees`. The mean is NaN for $\nu \le 1$; the variance is infinite for $1 < \nu \le 2$ and NaN below."""

    degrees: Float[Array, "..."] = field(support=positive)
    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        nu = self.degrees
        normaliser = 0.5 * jnp.log(nu) + log_beta(nu / 2, 0.5)
        return -normaliser - 0.5 * (nu + 1) * log1p_square(z / jnp.sqrt(nu))

    def _standard_sample(self, key, n, dtype):
        key_normal, key_gamma = jr.split(key)
        log_chi = log_gamma_draw(key_gamma, self.degrees / 2, n, dtype) - jnp.log(self.degrees / 2)
        return jr.normal(key_normal, n, dtype) * jnp.exp(-0.5 * log_chi)

    def _standard_moments(self):
        nu = self.degrees
        mean = jnp.where(nu > 1, 0.0, jnp.nan)
        variance = jnp.where(nu > 2, nu / jnp.where(nu > 2, nu - 2, 1.0), jnp.where(nu > 1, jnp.inf, jnp.nan))
        # psi((nu + 1)/2) - psi(nu/2) is the slope of -log B(., 1/2): its digits survive at 1e8 degrees
        slope = jax.jvp(lambda a: log_beta(a, 0.5), (nu / 2,), (jnp.ones_like(nu),))[1]
        return mean, variance, -0.5 * (nu + 1) * slope + 0.5 * jnp.log(nu) + log_beta(nu / 2, 0.5)

    def _standard_log_cdf(self, z):
        _, beyond = _student_tails(jnp.log(jnp.where(z == 0, 1.0, jnp.abs(z))), self.degrees)
        log_tail = jnp.where(z == 0, 0.0, beyond) - math.log(2)  # P(Z < -|z|)
        return jnp.where(z > 0, log1mexp(-log_tail), log_tail)

    def _standard_icdf(self, p):
        return jnp.where(p < 0.5, -1.0, 1.0) * self._distance(jnp.abs(2 * p - 1), 2 * jnp.minimum(p, 1 - p))

    def _standard_inverse_survival(self, q):
        return -self._standard_icdf(q)

    def _distance(self, within, beyond):
        """The distance from zero that holds the mass `within`."""
        inner = within > 0
        p, q = jnp.where(inner, within, 0.5), jnp.where(inner, beyond, 0.5)
        degrees = jnp.broadcast_to(self.degrees, p.shape)
        start = jnp.log(-ndtri(q / 2))
        y = invert_tails(_student_tails, _student_log_slope, (degrees,), p, q, start)
        return jnp.where(inner, jnp.exp(y), 0.0)


class Cauchy(LocationScale):
    r"""$p(x) = \frac{1}{\pi\gamma}\big(1 + (x - x_0)^2/\gamma^2\big)^{-1}$ with $\gamma$ = `scale`; it has no mean (NaN)."""

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
        tail = jnp.arctan2(jnp.ones_like(z), jnp.abs(z)) / math.pi
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
        log_tail = -jnp.abs(z) - math.log(2)
        return jnp.where(z > 0, jnp.log1p(-jnp.exp(log_tail)), log_tail)

    def _standard_icdf(self, p):
        return jnp.where(p < 0.5, jnp.log(2 * jnp.minimum(p, 0.5)), -jnp.log(2 * jnp.minimum(1 - p, 0.5)))

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
    r"""$p(x) = \frac{1}{s}\sigma(z)\sigma(-z)$ with $z = (x - \mu)/s$, $s$ = `scale` and $\sigma$ the sigmoid, its cdf."""

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
    r"""$p(x) = \frac{1}{\beta} e^{-z - e^{-z}}$ with $z = (x - \mu)/\beta$, $\beta$ = `scale`: the law of a maximum.

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
        return log1mexp(jnp.exp(-z))

    def _standard_icdf(self, p):
        return -jnp.log(-jnp.log(p))

    def _standard_inverse_survival(self, q):
        return -jnp.log(-jnp.log1p(-q))


def _student_tails(y: Array, degrees: Array) -> tuple[Array, Array]:
    """log P(|Z| <= e^y) and log P(|Z| > e^y) for Student's t."""
    log_ratio = 2 * y - jnp.log(degrees)
    far = log_ratio > 600  # 1/(1 + z^2/nu) nears underflow: there its power is the whole tail
    near = jnp.where(far, 0.0, log_ratio)
    half, order = jnp.full_like(log_ratio, 0.5), jnp.broadcast_to(degrees / 2, log_ratio.shape)
    within, beyond = log_beta_tails(half, order, sigmoid(near), sigmoid(-near))
    power = -order * log_ratio - jnp.log(order) - log_beta(order, half)
    return jnp.where(far, log1mexp(-jnp.minimum(power, 0.0)), within), jnp.where(far, power, beyond)


def _student_log_slope(y: Array, degrees: Array) -> Array:
    log_ratio = 2 * y - jnp.log(degrees)
    power = 0.5 * (degrees + 1) * log_sigmoid(-log_ratio)
    return math.log(2) + y + power - 0.5 * jnp.log(degrees) - log_beta(degrees / 2, 0.5)
