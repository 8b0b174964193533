r"""Monotone rational-quadratic splines with linear tails, inverted in closed form.

Map.         Between knots $(x_k, y_k)$ and $(x_{k+1}, y_{k+1})$ with slopes $\delta_k, \delta_{k+1}$, secant
             $s = \Delta y/\Delta x$ and $\xi = (x - x_k)/\Delta x$: $y = y_k + \Delta y\,\{s\xi^2 +
             \delta_k\xi(1-\xi)\}/D$, $D = s\{\xi^2 + (1-\xi)^2\} + (\delta_k + \delta_{k+1})\xi(1-\xi)$.
             Outside the knots the line with the slope of the end knot.
Inverse.     With $\theta = (y - y_k)/\Delta y$ and $e = \delta_k(1-\theta) - \delta_{k+1}\theta$, $\xi =
             2s\theta/(2s\theta + g)$ and $g = e + \{e^2 + 4s^2\theta(1-\theta)\}^{1/2}$: sums of squares, so
             rounding never leaves $[0, 1]$.
Cost.        $O(K)$ per number for $K$ bins.
References.  Gregory and Delbourgo (1982); Durkan et al. (2019), "Neural spline flows".
"""

import jax
import jax.numpy as jnp

from tractable.bijections.monotone import Elementwise
from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.numerics import inverse_softplus, softmax, softplus
from tractable.core.support import ordered, positive
from tractable.core.types import Array, Float

__all__ = ["RationalQuadraticSpline", "SplineFamily"]


class RationalQuadraticSpline(Elementwise):
    """A smooth increasing map through the knots (`x_knots`, `y_knots`) with the given `slopes` there; axes
    before the last go with entries."""

    x_knots: Float[Array, "*entries knots"] = field(support=ordered)
    y_knots: Float[Array, "*entries knots"] = field(support=ordered)
    slopes: Float[Array, "*entries knots"] = field(support=positive, rank=1)

    def __check_init__(self) -> None:
        knots = self.x_knots.shape[-1]
        check(knots >= 2, "x_knots", "at least two knots", knots)
        for name in ("y_knots", "slopes"):
            length = getattr(self, name).shape[-1]
            check(length == knots, name, f"as long as `x_knots` ({knots})", length)

    def _value(self, x):
        return self._both(_spline_forward, x)[0]

    def _argument(self, y):
        return self._both(_spline_inverse, y)[0]

    def _log_slope(self, x):
        return self._both(_spline_forward, x)[1]

    def _inverse_log_slope(self, y):
        return self._both(_spline_inverse, y)[1]

    def _both(self, function, x: Array) -> tuple[Array, Array]:
        """The value and the log-slope of each entry of `x`, with its own row of knots."""
        rows = [k.reshape((-1, k.shape[-1])) for k in (self.x_knots, self.y_knots, self.slopes)]
        value, log_slope = jax.vmap(function)(x.reshape(-1), *rows)
        return value.reshape(x.shape), log_slope.reshape(x.shape)


class SplineFamily(Module):
    r"""Splines on $[-B, B]$ that are the identity outside, from $3K - 1$ free numbers per entry; all zeros
    give the identity.

    Widths and heights are softmaxes of which `floor` is kept for every bin; slopes are positive through the
    softplus.
    """

    bins: int = field(static=True, default=8)
    bound: float = field(static=True, default=5.0)
    floor: float = field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        check(self.bins >= 1, "bins", "at least 1", self.bins)
        check(self.bound > 0, "bound", "positive", self.bound)
        check(
            0 < self.floor < 1 / self.bins, "floor", f"between 0 and 1/bins ({1 / self.bins:.3g})", self.floor
        )

    @property
    def num_parameters(self) -> int:
        """How many free numbers make one map."""
        return 3 * self.bins - 1

    def __call__(self, parameters: Float[Array, "n p"]) -> RationalQuadraticSpline:
        """The map of each of n entries from its row of free numbers."""
        widths, heights, raw = jnp.split(parameters, (self.bins, 2 * self.bins), axis=1)
        interior = self.floor + softplus(raw + inverse_softplus(1 - self.floor))
        slopes = jnp.pad(interior, ((0, 0), (1, 1)), constant_values=1.0)
        return RationalQuadraticSpline(self._knots(widths), self._knots(heights), slopes)

    def _knots(self, raw: Array) -> Array:
        shares = self.floor + (1 - self.bins * self.floor) * softmax(raw)
        inner = jnp.cumsum(shares, 1)[:, :-1]
        return self.bound * (2 * jnp.pad(inner, ((0, 0), (1, 1)), constant_values=(0.0, 1.0)) - 1)


class _Bin(Module):
    """One piece of a spline: its corner, its sizes and the slopes at its two knots."""

    x: Array
    y: Array
    width: Array
    height: Array
    left: Array
    right: Array

    @property
    def secant(self) -> Array:
        return self.height / self.width


def _bin(t: Array, knots: Array, xs: Array, ys: Array, slopes: Array) -> tuple[_Bin, Array]:
    """The piece between the two `knots` around `t`, and whether `t` is outside all of them."""
    index = jnp.clip((knots <= t).sum() - 1, 0, knots.size - 2)
    here = jnp.arange(knots.size - 1) == index
    x, x_next, y, y_next, left, right = (
        jnp.where(here, corner, 0.0).sum() for table in (xs, ys, slopes) for corner in (table[:-1], table[1:])
    )
    return _Bin(x, y, x_next - x, y_next - y, left, right), (t < knots[0]) | (t > knots[-1])


def _spline_forward(x: Array, xs: Array, ys: Array, slopes: Array) -> tuple[Array, Array]:
    b, outside = _bin(x, xs, xs, ys, slopes)
    xi = jnp.where(outside, 0.5, (x - b.x) / b.width)
    middle = b.y + b.height * (b.secant * xi**2 + b.left * xi * (1 - xi)) / _denominator(b, xi)
    slope, x_end, y_end = _tail(x < xs[0], xs, ys, slopes)
    value = jnp.where(outside, y_end + slope * (x - x_end), middle)
    return value, jnp.where(outside, jnp.log(slope), _log_derivative(b, xi))


def _spline_inverse(y: Array, xs: Array, ys: Array, slopes: Array) -> tuple[Array, Array]:
    b, outside = _bin(y, ys, xs, ys, slopes)
    theta = jnp.where(outside, 0.5, (y - b.y) / b.height)
    e = b.left * (1 - theta) - b.right * theta
    product = 4 * b.secant**2 * theta * (1 - theta)
    root = jnp.sqrt(e**2 + product)
    falling = e < 0  # then e + root cancels, and product / (root - e) is the same number in full
    g = jnp.where(falling, product / jnp.where(falling, root - e, 1.0), e + root)
    xi = 2 * b.secant * theta / (2 * b.secant * theta + g)
    slope, x_end, y_end = _tail(y < ys[0], xs, ys, slopes)
    value = jnp.where(outside, x_end + (y - y_end) / slope, b.x + b.width * xi)
    return value, -jnp.where(outside, jnp.log(slope), _log_derivative(b, xi))


def _denominator(b: _Bin, xi: Array) -> Array:
    return b.secant * (xi**2 + (1 - xi) ** 2) + (b.left + b.right) * xi * (1 - xi)


def _log_derivative(b: _Bin, xi: Array) -> Array:
    numerator = b.right * xi**2 + 2 * b.secant * xi * (1 - xi) + b.left * (1 - xi) ** 2
    return 2 * jnp.log(b.secant) + jnp.log(numerator) - 2 * jnp.log(_denominator(b, xi))


def _tail(below: Array, xs: Array, ys: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """The slope and the end knot of the line on this side."""
    first, last = (slopes[0], xs[0], ys[0]), (slopes[-1], xs[-1], ys[-1])
    slope, x, y = (jnp.where(below, a, b) for a, b in zip(first, last))
    return slope, x, y
