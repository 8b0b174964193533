r"""Von Mises' law of an angle.

Model.       $p(x) = e^{\kappa\cos(x - \mu)} / 2\pi I_0(\kappa)$ on the circle, whose points are angles from
             $-\pi$ to $\pi$.
Moments.     `mean` is the mean direction, `variance` the circular variance $1 - I_1(\kappa)/I_0(\kappa)$.
Gradients.   A draw carries $\partial x/\partial\kappa = -\partial_\kappa F/p$, the implicit derivative.
Cost.        Elementwise. The distribution function is a Gauss-Legendre integral of 32 nodes, which holds its
             digits at every $\kappa$; the quantile takes about six of them.
References.  Mardia and Jupp (2000); Best and Fisher (1979, 1981).
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import i0e, i1e, ndtri

from tractable.core.module import field
from tractable.core.numerics import log1mexp, logdiffexp
from tractable.core.support import Support, bounded, nonnegative, real
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_tail_integral
from tractable.distributions.quantile import invert_tails
from tractable.distributions.samplers import von_mises_draw

__all__ = ["VonMises"]

_CIRCLE = bounded(-math.pi, math.pi)


class VonMises(Univariate, ExponentialFamily):
    r"""$p(x) = e^{\kappa\cos(x - \mu)}/2\pi I_0(\kappa)$, $-\pi \le x \le \pi$, $\mu$ = `loc`, $\kappa$ =
    `concentration`.

    `loc` may be any angle; points must be wrapped to $[-\pi, \pi]$. At $\kappa = 0$ the angle is uniform.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    concentration: Float[Array, "..."] = field(support=nonnegative, default=1.0)

    @property
    def support(self) -> Support:
        return _CIRCLE

    def _log_prob(self, x):
        return _log_density(x - self.loc, self.concentration)

    def _sample(self, key, n):
        dtype = jnp.result_type(self.loc, self.concentration)
        kappa = self.concentration.astype(dtype)
        return _wrap(self.loc + _follow(kappa, von_mises_draw(key, jax.lax.stop_gradient(kappa), n)))

    def _mean(self):
        return _wrap(self.loc)

    def _variance(self):
        k = self.concentration
        large = k > 1e4  # 1 - I1/I0 from its series, where the difference would cancel
        t = 1 / jnp.where(large, k, 1.0)
        series = t * (0.5 + t * (0.125 + t * 0.125))
        return jnp.where(large, series, (i0e(k) - i1e(k)) / i0e(k))

    def _entropy(self):
        return self.concentration * self._variance() - _log_density(0.0, self.concentration)

    def _mode(self):
        return jnp.where(self.concentration > 0, _wrap(self.loc), jnp.nan)

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        return _log_arc(-math.pi, x, self.loc, self.concentration)

    def _log_survival(self, x):
        return _log_arc(x, math.pi, self.loc, self.concentration)

    def _icdf(self, p):
        k, loc = jnp.broadcast_to(self.concentration, p.shape), jnp.broadcast_to(_wrap(self.loc), p.shape)
        spread = jnp.sqrt(1 / (k + 0.3))
        start = jnp.clip(loc + spread * ndtri(p), -math.pi * 0.99, math.pi * 0.99)
        y = invert_tails(_line_tails, _line_slope, (loc, k), p, 1 - p, jnp.tan(start / 2))
        return 2 * jnp.arctan(y)

    def _inverse_survival(self, q):
        return -VonMises(-self.loc, self.concentration)._icdf(q)

    @property
    def natural(self):
        return self.concentration * jnp.cos(self.loc), self.concentration * jnp.sin(self.loc)

    def stats(self, x):
        return jnp.cos(x), jnp.sin(x)

    def log_base(self, x):
        return jnp.full_like(x, -math.log(2 * math.pi))

    def log_normaliser(self, natural):
        kappa = _length(*natural)
        return jnp.log(i0e(kappa)) + kappa

    def from_natural(self, natural):
        return VonMises(jnp.arctan2(natural[1], natural[0]), _length(*natural))

    def from_stats(self, mean_stats):
        direction = jnp.arctan2(mean_stats[1], mean_stats[0])
        return VonMises(direction, _concentration(_length(*mean_stats)))


def _wrap(x: Array) -> Array:
    return x - 2 * math.pi * jnp.round(x / (2 * math.pi))


def _length(first: Array, second: Array) -> Array:
    square = first**2 + second**2
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


@jax.custom_jvp
def _log_beyond(distance: Array, kappa: Array) -> Array:
    """The log-probability of the arc from `distance` (0 to pi) past the mean direction to its antipode."""
    reach = jnp.sqrt(jnp.minimum(1.0, jnp.sin(distance / 2) ** 2 + 20 / jnp.maximum(kappa, 1e-300)))
    length = jnp.maximum(2 * jnp.arcsin(reach) - distance, 0.0)  # to where the density has fallen by exp(-40)

    def exponent(s):
        return 2 * kappa * jnp.sin(s / 2) * jnp.sin(distance + s / 2)

    some = length > 0
    length = jax.lax.stop_gradient(jnp.where(some, length, 1.0))
    integral = jnp.where(some, log_tail_integral(exponent, length), -jnp.inf)
    return integral + _log_density(distance, kappa)


@_log_beyond.defjvp
def _log_beyond_tangent(primals, tangents):
    """In the distance the slope is minus the density: the end of the arc is fixed, not its length."""
    distance, kappa = primals
    by_kappa = jax.jvp(lambda k: _log_beyond.fun(distance, k), (kappa,), (tangents[1],))
    ratio = jnp.exp(jnp.minimum(_log_density(distance, kappa) - by_kappa[0], 700.0))
    return by_kappa[0], by_kappa[1] - ratio * tangents[0]


def _log_density(x: ArrayLike, kappa: Array) -> Array:
    # 1 - cos x as 2 sin^2(x/2), without its cancellation; exp(-|k|) I0(k) has its right slope at zero
    some = kappa > 0
    log_scaled = jnp.where(some, jnp.log(i0e(jnp.where(some, kappa, 1.0))), kappa * (kappa / 4 - 1))
    return -2 * kappa * jnp.sin(jnp.asarray(x) / 2) ** 2 - math.log(2 * math.pi) - log_scaled


@jax.custom_jvp
def _follow(kappa: Array, angle: Array) -> Array:
    """`angle` from the mean direction, moved by kappa at a fixed value of the distribution function."""
    return angle


@_follow.defjvp
def _follow_tangent(primals, tangents):
    kappa, angle = (jnp.broadcast_to(value, primals[1].shape) for value in primals)
    moved = jnp.broadcast_to(tangents[0], angle.shape)
    log_tail, slope = jax.jvp(lambda k: _log_beyond(jnp.abs(angle), k), (kappa,), (moved,))
    outwards = slope * jnp.exp(log_tail - _log_density(angle, kappa))
    return angle, tangents[1] + jnp.where(angle < 0, -outwards, outwards)


def _log_signed(x: Array, kappa: Array) -> tuple[Array, Array]:
    """log P(-pi <= X <= x) and its complement for a mean direction of zero and x in [-pi, pi]."""
    log_tail = _log_beyond(jnp.where(x < 0, -x, x), kappa)  # the absolute value would have no slope at zero
    other = log1mexp(-log_tail)
    return jnp.where(x < 0, log_tail, other), jnp.where(x < 0, other, log_tail)


def _log_arc(start, end, loc: Array, kappa: Array) -> Array:
    """log P(start <= X <= end) for angles in [-pi, pi]: an arc that may pass the antipode of `loc`."""
    shape = jnp.broadcast_shapes(jnp.shape(start), jnp.shape(end))
    kappa = jnp.broadcast_to(kappa, shape)
    first = _wrap(jnp.broadcast_to(start, shape) - loc)
    last = _wrap(jnp.broadcast_to(end, shape) - loc)
    (below_first, above_first), (below_last, above_last) = _log_signed(first, kappa), _log_signed(last, kappa)
    through = first > last
    outside = jnp.logaddexp(above_first, below_last)
    left = last < 0
    a = jnp.where(through, 0.0, jnp.where(left, below_last, above_first))
    b = jnp.where(through, -1.0, jnp.where(left, below_first, above_last))
    across = ~through & (first < 0) & (last > 0)
    spanning = log1mexp(-jnp.where(across, jnp.logaddexp(below_first, above_last), -1.0))
    return jnp.where(through, outside, jnp.where(across, spanning, logdiffexp(a, b)))


def _line_tails(y: Array, loc: Array, kappa: Array) -> tuple[Array, Array]:
    """Both tails in the coordinate y = tan(x/2), which has no ends."""
    x = 2 * jnp.arctan(y)
    return _log_arc(-math.pi, x, loc, kappa), _log_arc(x, math.pi, loc, kappa)


def _line_slope(y: Array, loc: Array, kappa: Array) -> Array:
    return _log_density(2 * jnp.arctan(y) - loc, kappa) + math.log(2) - jnp.log1p(y**2)


def _concentration(length: Array) -> Array:
    """The kappa with I1/I0 = length: Newton's method from the approximation of Best and Fisher (1981)."""
    r = length
    small, middle = 2 * r + r**3 + 5 * r**5 / 6, -0.4 + 1.39 * r + 0.43 / (1 - r)
    kappa = jnp.where(r < 0.53, small, jnp.where(r < 0.85, middle, 1 / (r * (1 - r) * (3 - r))))
    for _ in range(6):
        ratio = i1e(kappa) / i0e(kappa)
        flat = kappa < 1e-4
        safe = jnp.where(flat, 1.0, kappa)
        slope = jnp.where(flat, 0.5, 1 - ratio**2 - ratio / safe)
        tail = 0.5 / safe**2 * (1 + 0.5 / safe)
        kappa = kappa - (ratio - r) / jnp.where(kappa > 1e4, tail, slope)
    return kappa
