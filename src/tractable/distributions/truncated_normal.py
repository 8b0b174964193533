r"""The normal distribution between two bounds, exact however far out they lie.

Model.       $p(x) = \phi(z) / \sigma Z$ for $l \le x \le h$, $z = (x - \mu)/\sigma$, $Z = \Phi(\beta) -
             \Phi(\alpha)$ with $\alpha, \beta$ the bounds in standard units.
Method.      $Z$ and the moments are Gauss-Legendre integrals over the part of $[\alpha, \beta]$ that has
             mass, relative to the density at the nearer bound: nothing cancels or underflows at $\alpha = 30$
             or $\alpha = 10^6$.
Cost.        48 exponentials per parameter, not per point.
References.  Robert (1995), "Simulation of truncated normal variables".
"""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtr, ndtri

from tractable.core.module import field
from tractable.core.support import Support, bounded, extended_real, positive, real
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate, check_ordered, log_share
from tractable.distributions.special import log_ndtr, log_ndtri, ndtr_reach

__all__ = ["TruncatedNormal"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_NEAR = 9.0  # the mass past nine deviations is below the rounding of the rest
_FAR = 1e30  # an infinite bound in standard units: finite, so that no derivative meets inf - inf


class TruncatedNormal(Univariate):
    r"""$p(x) \propto e^{-(x - \mu)^2/2\sigma^2}$ for $l \le x \le h$, $\mu$ = `loc`, $\sigma$ = `scale`, $l$
    = `low`, $h$ = `high`."""

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)
    low: Float[Array, "..."] = field(support=extended_real, default=-np.inf)
    high: Float[Array, "..."] = field(support=extended_real, default=np.inf)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_ordered(self.low, self.high)

    @property
    def support(self) -> Support:
        return bounded(self.low, self.high)

    @property
    def _bounds(self) -> tuple[Array, Array]:
        """The bounds in standard units."""
        low, high = (jnp.where(jnp.isfinite(end), end, 0.0) for end in (self.low, self.high))
        alpha, beta = (low - self.loc) / self.scale, (high - self.loc) / self.scale
        return jnp.where(self.low == -jnp.inf, -_FAR, alpha), jnp.where(self.high == jnp.inf, _FAR, beta)

    def _log_prob(self, x):
        _, weights, start, sign = _weighted(*self._bounds)
        # relative to the nearer bound, from the distance to it: at 1e6 deviations z^2 has no digits left
        low, high = (jnp.where(jnp.isfinite(end), end, self.loc) for end in (self.low, self.high))
        distance = jnp.where(sign > 0, x - low, high - x) / self.scale
        turned = sign * (x - self.loc) / self.scale
        s = jnp.where(start > -_NEAR, distance, turned - start)
        return -s * (start + 0.5 * s) - jnp.log(weights.sum(0)) - jnp.log(self.scale)

    def _sample(self, key, n):
        dtype = jnp.result_type(self.loc, self.scale, self.low, self.high)
        tiny = jnp.finfo(dtype).tiny
        return self._icdf(jr.uniform(key, n, dtype, tiny, 1.0))

    def _mean(self):
        return self.loc + self.scale * _moments(*self._bounds)[0]

    def _variance(self):
        return self.scale**2 * _moments(*self._bounds)[1]

    def _entropy(self):
        s, weights, start, _ = _weighted(*self._bounds)
        total = weights.sum(0)
        # relative to the nearer bound again: the mass and the squared mean cancel far out
        return jnp.log(self.scale) + jnp.log(total) + (weights * s * (start[None] + 0.5 * s)).sum(0) / total

    def _mode(self):
        return jnp.clip(self.loc, self.low, self.high)

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        return log_share(*self._log_masses(x))

    def _log_survival(self, x):
        return log_share(*self._log_masses(x)[::-1])

    def _log_masses(self, x):
        alpha, beta = self._bounds
        z = (x - self.loc) / self.scale
        total = _log_mass(alpha, beta)
        below = _log_mass(jnp.broadcast_to(alpha, z.shape), z)
        return below - total, _log_mass(z, jnp.broadcast_to(beta, z.shape)) - total

    def _icdf(self, p):
        return self._from_masses(jnp.log1p(-p), jnp.log(p), 1 - p, p)

    def _inverse_survival(self, q):
        return self._from_masses(jnp.log(q), jnp.log1p(-q), q, 1 - q)

    def _from_masses(self, log_left, log_right, left, right):
        """The x that leaves the share `left` of the mass above it and `right` below it."""
        alpha, beta = self._bounds
        shape = left.shape

        def near():
            below = left * ndtr(alpha) + right * ndtr(beta)
            above = left * ndtr(-alpha) + right * ndtr(-beta)
            return jnp.where(below < above, ndtri(below), -ndtri(above))

        def far():
            below = jnp.logaddexp(log_left + log_ndtr(alpha), log_right + log_ndtr(beta))
            above = jnp.logaddexp(log_left + log_ndtr(-alpha), log_right + log_ndtr(-beta))
            z = jnp.where(below < above, log_ndtri(jnp.minimum(below, above)), 0.0)
            return jnp.where(below < above, z, -log_ndtri(jnp.minimum(below, above)))

        reach = ndtr_reach(alpha.dtype)
        ordinary = jnp.all((alpha < reach) & (beta > -reach))
        z = jax.lax.cond(ordinary, lambda: jnp.broadcast_to(near(), shape), far)
        return jnp.clip(self.loc + self.scale * z, self.low, self.high)  # rounding can pass a bound


def _window(alpha: Array, beta: Array) -> tuple[Array, Array, Array, Array]:
    """A standard interval turned so that its mass falls from `start` upwards: (sign, start, end, length with
    mass)."""
    flip = alpha + beta < 0
    start, end = jnp.where(flip, -beta, alpha), jnp.where(flip, -alpha, beta)
    inside = jnp.maximum(start, -_NEAR)
    above = jnp.maximum(inside, 0.0)
    reach = 80 / (above + jnp.sqrt(above**2 + 80)) + jnp.maximum(-inside, 0.0)
    return jnp.where(flip, -1.0, 1.0), inside, end, jnp.minimum(end - inside, reach)


def _weighted(alpha: Array, beta: Array) -> tuple[Array, Array, Array, Array]:
    """Nodes s of [0, L], their weights exp(-start s - s^2/2) ds, the start and the sign of the turn."""
    sign, start, _, length = _window(alpha, beta)
    unit = jnp.asarray((_NODES + 1) / 2, length.dtype).reshape((-1,) + (1,) * length.ndim)
    weight = jnp.asarray(_WEIGHTS / 2, length.dtype).reshape((-1,) + (1,) * length.ndim)
    s = length[None] * unit
    return s, length[None] * weight * jnp.exp(-start[None] * s - 0.5 * s**2), start, sign


def _log_mass(alpha: Array, beta: Array) -> Array:
    r"""log of Phi(beta) - Phi(alpha)."""
    _, weights, start, _ = _weighted(alpha, beta)
    return jnp.log(weights.sum(0)) - 0.5 * start**2 - _HALF_LOG_TWO_PI


def _moments(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Mean and variance of a standard normal between alpha and beta."""
    s, weights, start, sign = _weighted(alpha, beta)
    weights = weights / weights.sum(0)
    mean = (weights * s).sum(0)
    return sign * (start + mean), (weights * (s - mean[None]) ** 2).sum(0)
