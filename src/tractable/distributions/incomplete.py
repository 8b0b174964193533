r"""Incomplete gamma and beta integrals: both tails, in logarithms, each to full relative precision.

Integrals.   $P(a, x) = \frac{1}{\Gamma(a)}\int_0^x t^{a-1}e^{-t}dt$ and $Q = 1 - P$; $I_x(a, b) =
             \frac{1}{B(a, b)}\int_0^x t^{a-1}(1 - t)^{b-1}dt$ and its complement.
Method.      A prefactor in saddle-point form times a continued fraction of fixed length; where the least
             parameter passes 64, times $\int e^{-g}$ with $g$ convex and $g(0) = 0$, by Gauss-Legendre on the
             part where $g \le 40$. The tail that is not the smaller one follows from the other. Every branch
             is a fixed composition of elementary functions, so derivatives exist in all arguments.
Cost.        About a hundred divisions, or 32 exponentials, per point.
References.  DiDonato and Morris (1992), TOMS 708; Gil, Segura and Temme (2007), chapter 8.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.numerics import log1mexp, logsumexp
from tractable.core.types import Array, ArrayLike
from tractable.distributions.special import log1p_minus, log_binomial, log_poisson

__all__ = ["log_beta_order", "log_beta_tails", "log_gamma_tails", "log_tail_integral"]

_LARGE = 64.0  # from here on the densities are smooth enough for 32 nodes, and the fractions too slow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_TRAPEZOID, _ROUNDS = 192, 4  # the range shrinks up to 95-fold a round
_CUT = 40.0  # exp(-40) is below the rounding of one


def log_gamma_tails(a: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
    r"""$\log P(a, x)$ and $\log Q(a, x)$ for $a > 0$ and $x \ge 0$."""
    a, x = jnp.broadcast_arrays(jnp.asarray(a), jnp.asarray(x))
    positive = x > 0
    x = jnp.where(positive, x, 1.0)
    large = a > _LARGE
    lower = jnp.where(large, x < a - 1, x < a + 2)
    prefactor = log_poisson(a, x) + jnp.log(a)  # log of x^a e^-x / Gamma(a)
    a_small, x_small = jnp.where(large, 1.0, a), jnp.where(large, 1.0, x)
    low = lower & ~large
    below = _gamma_fraction_lower(jnp.where(low, a_small, 1.0), jnp.where(low, x_small, 1.0))
    above = _gamma_fraction_upper(jnp.where(low, 1.0, a_small), jnp.where(low, 4.0, x_small))
    fraction = -jnp.log(jnp.where(low, below, above))

    def by_quadrature():
        order, at = jnp.where(large, a, 1e3), jnp.where(large, x, 1e3)
        return log_tail_integral(*_gamma_exponent(order, at, jnp.where(large, lower, False)))

    smaller = prefactor + jnp.where(large, _if_any(large, by_quadrature, a), fraction)
    return _pair(smaller, lower, positive)


def log_beta_tails(a: ArrayLike, b: ArrayLike, x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    r"""$\log I_x(a, b)$ and $\log I_y(b, a)$ with $y = 1 - x$, for $a, b > 0$ and $0 \le x \le 1$.

    Both $x$ and $y$ are given, so that neither is found by subtraction.
    """
    a, b, x, y = jnp.broadcast_arrays(*map(jnp.asarray, (a, b, x, y)))
    positive, full = x > 0, y > 0
    inside = positive & full
    x, y = jnp.where(inside, x, 0.5), jnp.where(inside, y, 0.5)
    large = jnp.minimum(a, b) > _LARGE
    split = jnp.where(large, (a - 1) / (a + b - 2), (a + 2) / (a + b + 4))
    lower = x < split
    first, second = jnp.where(lower, a, b), jnp.where(lower, b, a)
    u, v = jnp.where(lower, x, y), jnp.where(lower, y, x)
    prefactor = log_binomial(first, second, u, v) - jnp.log(1 / first + 1 / second)  # u^a v^b / B(a, b)
    ones, others = jnp.where(large, 1.0, first), jnp.where(large, 1.0, second)
    fraction = -jnp.log(_beta_fraction(ones, others, jnp.where(large, 0.25, u), jnp.where(large, 0.75, v)))

    def by_quadrature():
        orders = [jnp.where(large, first, 1e3), jnp.where(large, second, 1e3)]
        at = [jnp.where(large, u, 0.5), jnp.where(large, v, 0.5)]
        return log_tail_integral(*_beta_exponent(*orders, *at)) - jnp.log(at[1])

    smaller = prefactor + jnp.where(large, _if_any(large, by_quadrature, a), fraction)
    log_lower, log_upper = _pair(smaller, lower, inside)
    log_lower = jnp.where(inside, log_lower, jnp.where(positive, 0.0, -jnp.inf))
    return log_lower, jnp.where(inside, log_upper, jnp.where(positive, -jnp.inf, 0.0))


def log_beta_order(a: Array, b: Array, c: Array, d: Array) -> Array:
    r"""$\log P(X < Y)$ for independent $X \sim \mathrm{Beta}(a, b)$ and $Y \sim \mathrm{Beta}(c, d)$ with $c,
    d \ge 1$.

    The expectation over the narrower law of the other's tail, in log-odds, where both factors are
    log-concave: the trapezoidal rule between the points at which their product is below $e^{-45}$ of its
    peak, which are found by applying it four times.
    """
    narrow = 1 / a + 1 / a**2 + 1 / b + 1 / b**2 < 1 / c + 1 / c**2 + 1 / d + 1 / d**2
    first, second = jnp.where(narrow, b, c), jnp.where(narrow, a, d)  # of the law that is integrated over
    s, t = jnp.where(narrow, d, a), jnp.where(narrow, c, b)  # of the law whose tail is its argument
    # the slope of the tail's logarithm is between 0 and s, so that the peak of the product lies between those
    # of Beta(first, second) and Beta(first + s, second)
    low = jnp.log(first / second) - _fall(first, first, second)
    high = jnp.log((first + s) / second) + _fall(second, first, second)
    share = (jnp.arange(_TRAPEZOID, dtype=a.dtype) / (_TRAPEZOID - 1)).reshape((-1, 32) + (1,) * a.ndim)

    def narrowed(ends, _):
        low, high = ends
        spacing = (high - low) / (_TRAPEZOID - 1)

        def values(part):  # a few nodes at a time, for memory's sake
            y = low[None] + (high - low)[None] * part
            x = jax.nn.sigmoid(y), jax.nn.sigmoid(-y)
            tail = log_beta_tails(s[None], t[None], *x)[0]
            return y, log_binomial(first[None], second[None], *x) + tail

        y, logs = (v.reshape((-1, *low.shape)) for v in jax.lax.map(values, share))
        counts = logs > logs.max(0)[None] - 45
        first_kept = jnp.where(counts, y, jnp.inf).min(0) - spacing
        last_kept = jnp.where(counts, y, -jnp.inf).max(0) + spacing
        kept = jnp.maximum(low, first_kept), jnp.minimum(high, last_kept)
        return jax.lax.stop_gradient(kept), logsumexp(logs, axis=0) + jnp.log(spacing)

    _, rounds = jax.lax.scan(narrowed, jax.lax.stop_gradient((low, high)), length=_ROUNDS)
    return rounds[-1] - jnp.log(1 / first + 1 / second)


def _fall(own: Array, a: Array, b: Array) -> Array:
    """How far from its peak the log-odds density of Beta(a, b) has fallen by exp(-45) at least, on the side
    where it decays as exp(-own |y|)."""
    return 45 / own + jnp.sqrt(90 / a + 90 / b)


def log_tail_integral(exponent: Callable[[Array], Array], length: Array) -> Array:
    r"""$\log\int_0^L e^{-g(s)}ds$ with 32 Gauss-Legendre nodes, for smooth $g \ge 0$ that is about 40 at $L$
    or less."""
    nodes = jnp.asarray((_NODES + 1) / 2, length.dtype)
    weights = jnp.asarray(_WEIGHTS / 2, length.dtype)

    def add(total, node):
        return total + node[1] * jnp.exp(-exponent(length * node[0])), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(length), (nodes, weights))
    return jnp.log(length) + jnp.log(total)


def _pair(smaller: Array, lower: Array, inside: Array) -> tuple[Array, Array]:
    """Both tails from the logarithm of the smaller; rounding can lift it a little past zero."""
    other = log1mexp(jnp.where(smaller < 0, -smaller, jnp.inf))
    log_lower, log_upper = jnp.where(lower, smaller, other), jnp.where(lower, other, smaller)
    return jnp.where(inside, log_lower, -jnp.inf), jnp.where(inside, log_upper, 0.0)


def _if_any(needed: Array, compute: Callable[[], Array], like: Array) -> Array:
    """`compute()` where any entry needs it: the quadrature is not paid for where no parameter is large."""
    return jax.lax.cond(jnp.any(needed), compute, lambda: jnp.zeros_like(like))


def _continued_fraction(term: Callable, numerator: Callable, length: int) -> Array:
    """b(0) + a(1) / (b(1) + a(2) / (b(2) + ...)), from its far end inwards."""

    def inwards(value, n):
        return term(n) + numerator(n + 1) / value, None

    far = term(length)
    return jax.lax.scan(inwards, far, jnp.arange(length - 1.0, -1.0, -1.0, far.dtype), unroll=2)[0]


def _gamma_fraction_lower(a: Array, x: Array) -> Array:
    """x^a e^-x / Gamma(a) over P(a, x), for x < a + 2: the limit of the beta fraction as b grows."""

    def term(n):
        first = n * x / jnp.where(n == 0, 1.0, a + (2 * n - 1))
        return n + first + (a + n) / (a + 2 * n + 1) * (a - x + 1 + 2 * n)

    return _continued_fraction(term, lambda n: (a + (n - 1)) * n * (x / (a + (2 * n - 1))) ** 2, 32)


def _gamma_fraction_upper(a: Array, x: Array) -> Array:
    """x^a e^-x / Gamma(a) over Q(a, x), for x > a + 2."""
    return _continued_fraction(lambda n: x + 1 - a + 2 * n, lambda n: n * (a - n), 48)


def _beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x^a y^b / B(a, b) over I_x(a, b), for x below the split near the mean."""
    deficit = a * y - b * x  # a - (a + b) x, which has no digits left at b = 50 and a = 1e18

    def term(n):
        first = n * (b - n) * x / jnp.where(n == 0, 1.0, a + (2 * n - 1))
        return n + first + (a + n) / (a + 2 * n + 1) * (deficit + 1 + n * (1 + y))

    def numerator(n):
        ratio = x / (a + (2 * n - 1))  # multiplied in an order that does not overflow at a = 1e200
        return (a + (n - 1)) * ratio * ((a + b + (n - 1)) * ratio) * n * (b - n)

    return _continued_fraction(term, numerator, 48)


def _gamma_exponent(a: Array, x: Array, lower: Array) -> tuple[Callable[[Array], Array], Array]:
    """g and L with Q(a, x) = prefactor times the integral of exp(-g), t = x (1 + s); t = x (1 - s) for P."""
    sign = jnp.where(lower, -1.0, 1.0).astype(a.dtype)
    slope, order = jnp.abs(x - (a - 1)), a - 1

    def exponent(s):
        return slope * s - order * log1p_minus(sign * s)

    def derivative(s):
        return slope + order * s / (1 + sign * s)

    limit = jnp.where(lower, 0.9, jnp.inf)
    return exponent, _reach(exponent, derivative, slope, order, limit)


def _beta_exponent(a: Array, b: Array, x: Array, y: Array) -> tuple[Callable[[Array], Array], Array]:
    """g and L with I_x(a, b) = prefactor times the integral of exp(-g), t = x (1 - s)."""
    ratio = x / y
    slope = ((a - 1) * y - (b - 1) * x) / y

    def exponent(s):
        return slope * s - (a - 1) * log1p_minus(-s) - (b - 1) * log1p_minus(s * ratio)

    def derivative(s):
        return slope + (a - 1) * s / (1 - s) + (b - 1) * ratio**2 * s / (1 + s * ratio)

    curvature = (a - 1) + (b - 1) * ratio**2
    return exponent, _reach(exponent, derivative, slope, curvature, jnp.full_like(a, 0.9))


def _reach(exponent, derivative, slope: Array, curvature: Array, limit: Array) -> Array:
    """The s at which g(s) is about 40: the root of its quadratic model, then Newton.

    Held constant by derivatives.
    """
    s = 2 * _CUT / (slope + jnp.sqrt(slope**2 + 2 * _CUT * curvature))
    for _ in range(3):
        s = jnp.minimum(s, limit)
        s = s - (exponent(s) - _CUT) / derivative(s)
    return jax.lax.stop_gradient(jnp.minimum(s, limit))
