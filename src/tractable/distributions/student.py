r"""Student's t distribution, exact from half a degree of freedom to $10^{18}$.

Model.       $x = \mu + \sigma z / \sqrt{w}$ with $z$ standard normal and $w \sim \mathrm{Gamma}(\nu/2,
             \nu/2)$.
Tails.       $P(|z| > t) = I_u(\nu/2, 1/2)$ with $u = \nu/(\nu + t^2)$, in logarithms.
Centre.      Within $\sqrt\epsilon$ of zero $F(z) = \frac12 + f(0) z$ to the last digit.
Cost.        Elementwise. A quantile takes about six evaluations of the distribution function.
References.  Johnson, Kotz and Balakrishnan (1995), chapter 28.
"""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtri

from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_sigmoid, sigmoid
from tractable.core.support import positive, real
from tractable.core.types import Array, Float
from tractable.distributions.incomplete import log_beta_tails
from tractable.distributions.location_scale import LocationScale
from tractable.distributions.quantile import invert_tails
from tractable.distributions.samplers import log_gamma_draw
from tractable.distributions.special import log1p_square, log_beta, once

__all__ = ["StudentT"]


class StudentT(LocationScale):
    r"""$p(x) = \frac{1}{\sigma\sqrt\nu B(\nu/2, 1/2)} \big(1 + \frac{(x - \mu)^2}{\nu\sigma^2}\big)^{-(\nu +
    1)/2}$ with $\nu$ = `degrees`. The mean is NaN for $\nu \le 1$; the variance is infinite for $1 < \nu
    \le 2$ and NaN below."""

    degrees: Float[Array, "..."] = field(support=positive)
    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _standard_log_prob(self, z):
        nu = self.degrees
        return self._log_peak - 0.5 * (nu + 1) * log1p_square(z / once(jnp.sqrt(nu)))

    @property
    def _log_peak(self) -> Array:
        """The logarithm of the standard density at zero."""
        return -once(0.5 * jnp.log(self.degrees) + log_beta(self.degrees / 2, 0.5))

    @property
    def _centre(self) -> Array:
        """How far from zero the distribution function is straight to the last digit."""
        return jnp.sqrt(jnp.finfo(self.degrees.dtype).eps * jnp.minimum(1.0, self.degrees))

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
        central = jnp.abs(z) <= self._centre
        _, beyond = _student_tails(jnp.log(jnp.where(central, 1.0, jnp.abs(z))), self.degrees)
        log_tail = beyond - math.log(2)  # P(Z < -|z|)
        straight = jnp.log1p(2 * jnp.exp(self._log_peak) * jnp.where(central, z, 0.0)) - math.log(2)
        return jnp.where(central, straight, jnp.where(z > 0, log1mexp(-log_tail), log_tail))

    def _standard_icdf(self, p):
        return self._standard_at(p, 1 - p)

    def _at_shares(self, p, q):
        return self.loc + self.scale * self._standard_at(p, q)

    def _standard_at(self, p, q):
        """The standard quantile: its sign, and the distance from zero that holds the mass |p - q|."""
        straight = 0.5 * (p - q) * jnp.exp(-self._log_peak)
        central = jnp.abs(straight) <= self._centre
        within = jnp.where(central, 0.5, jnp.abs(p - q))
        beyond = jnp.where(central, 0.5, 2 * jnp.minimum(p, q))
        degrees = jnp.broadcast_to(self.degrees, p.shape)
        start = jnp.log(-ndtri(beyond / 2))
        y = invert_tails(_student_tails, _student_log_slope, (degrees,), within, beyond, start)
        return jnp.where(central, straight, jnp.where(p < q, -1.0, 1.0) * jnp.exp(y))


def _student_tails(y: Array, degrees: Array) -> tuple[Array, Array]:
    """log P(|Z| <= e^y) and log P(|Z| > e^y) for Student's t."""
    log_ratio = 2 * y - jnp.log(degrees)
    far = log_ratio > 600  # 1/(1 + z^2/nu) nears underflow: there its power is the whole tail
    near = jnp.where(far, 0.0, log_ratio)
    half, order = jnp.full_like(log_ratio, 0.5), jnp.broadcast_to(degrees / 2, log_ratio.shape)
    within, beyond = log_beta_tails(half, order, sigmoid(near), sigmoid(-near))
    power = -order * log_ratio - jnp.log(order) - log_beta(order, half)
    rest = log1mexp(jnp.where(far & (power < 0), -power, 1.0))
    return jnp.where(far, rest, within), jnp.where(far, power, beyond)


def _student_log_slope(y: Array, degrees: Array) -> Array:
    log_ratio = 2 * y - jnp.log(degrees)
    power = 0.5 * (degrees + 1) * log_sigmoid(-log_ratio)
    return math.log(2) + y + power - 0.5 * jnp.log(degrees) - log_beta(degrees / 2, 0.5)
