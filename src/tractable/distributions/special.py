r"""Special functions in forms that keep their digits where a density is a small difference of large numbers.

Identities.  With the Stirling error $\delta(x) = \log x! - (x + \frac12)\log x + x - \frac12\log 2\pi$ and
             the deviance $D(x, m) = x \log(x/m) + m - x$, $\log\frac{\lambda^k e^{-\lambda}}{k!} = -D(k,
             \lambda) - \delta(k) - \frac12\log 2\pi k$, $\log\binom{n}{k}p^k q^{n-k} = \delta(n) - \delta(k)
             - \delta(n - k) - D(k, np) - D(n - k, nq) + \frac12\log\frac{n}{2\pi k (n - k)}$.
Cost.        Elementwise, a polynomial and a few logarithms.
References.  Loader (2000), "Fast and accurate computation of binomial probabilities".
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, erfc, ndtri, polygamma

from tractable.core.numerics import log_sigmoid
from tractable.core.types import Array, ArrayLike, Values

__all__ = [
    "deviance", "digamma_minus_log", "inverse_digamma", "log1p_minus", "log1p_square", "log_beta",
    "log_binomial", "log_binomial_count", "log_choose", "log_ndtr", "log_ndtri", "log_poisson",
    "log_poisson_count", "ndtr_reach", "once", "power_log", "stirling_error",
]  # fmt: skip

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

# (x + 1/2) delta(x) as a polynomial in t = 3/2 / (x + 1/2) for x >= 1: the interpolant at 19 Chebyshev nodes
# of [0, 1], found with 60 digits; its relative error is below 4e-16.
_STIRLING = (
    0.08333333333333334, 0.027777777777770477, 0.0080246913588987, 0.0018518518104567038,
    0.00036253287584542255, 0.00014695677375062011, 9.487059620732246e-05, 1.1636236596389626e-05,
    -2.3782582968705404e-05, -1.682957610673726e-05, 7.672531862661016e-05, -6.351939917453879e-05,
    -2.331002819143222e-05, 0.00010729791480575393, -0.00012355666841442356, 8.227603591217256e-05,
    -3.4094480559382505e-05, 8.235821428103471e-06, -8.929252255168415e-07,
)  # fmt: skip


# The logarithms of the factorials that float64 can hold, each rounded once.
_LARGEST = 170
_LOG_FACTORIAL = np.array([math.log(math.factorial(k)) for k in range(_LARGEST + 1)])


def log1p_minus(u: ArrayLike) -> Values:
    r"""$\log(1 + u) - u$ for $u > -1$, to full relative precision near zero, where it is $-u^2/2$; arrays of
    NumPy are answered by NumPy."""
    xp: Any = np if isinstance(u, (np.ndarray, np.generic)) else jnp
    value: Any = xp.asarray(u)
    near = (value > -0.2) & (value < 0.25)
    s = xp.where(near, value, 0.0)
    far = xp.where(near, 0.0, value)
    return xp.where(near, _log1p_minus_near(s), xp.log1p(far) - far)


def log1p_square(z: ArrayLike) -> Array:
    r"""$\log(1 + z^2)$, where $z^2$ may overflow."""
    size = jnp.abs(jnp.asarray(z))
    huge = size > 1 / jnp.finfo(size.dtype).eps  # there log(1 + z) is log z to the last bit
    square = jnp.where(huge, 0.0, z) ** 2
    return jnp.where(huge, 2.0, 1.0) * jnp.log1p(jnp.where(huge, size, square))


def once(value: Array) -> Array:
    """What depends on parameters alone, kept out of the loop over points, into which it would be fused."""
    return jax.lax.optimization_barrier(value)


def power_log(k: ArrayLike, x: ArrayLike) -> Array:
    r"""$k\log x$ with $0\log 0 = 0$; its slopes are right at $k = 0$ too, and finite at $x = 0$ then."""
    k, x = jnp.asarray(k), jnp.asarray(x)
    return k * jnp.log(jnp.where((k == 0) & (x == 0), 1.0, x))


def stirling_error(x: ArrayLike) -> Array:
    r"""$\delta(x) = \log\Gamma(x + 1) - (x + \frac12)\log x + x - \frac12\log 2\pi$ for $x > 0$.

    Near $1/(12x)$.
    """
    x = jnp.asarray(x)
    small = x < 1
    shifted = _stirling(jnp.where(small, x + 1, x))
    s = jnp.where(small, x, 1.0)
    return jnp.where(small, shifted + (s + 0.5) * jnp.log1p(1 / s) - 1, shifted)


def deviance(x: ArrayLike, mean: ArrayLike) -> Array:
    r"""$D(x, m) = x\log(x/m) + m - x \ge 0$ for $x > 0$ and $m \ge 0$; half the Poisson deviance."""
    x, mean = jnp.asarray(x), jnp.asarray(mean)
    return _deviance(x, mean, mean - x)


def log_poisson(k: ArrayLike, rate: ArrayLike) -> Array:
    r"""$k\log\lambda - \lambda - \log\Gamma(k + 1)$ for real $k \ge 0$ and $\lambda \ge 0$."""
    k, rate = jnp.asarray(k), jnp.asarray(rate)
    small = k < 1
    m, mean = jnp.where(small, 2.0, k), jnp.where(small, 2.0, rate)
    large = -deviance(m, mean) - _stirling(m) - 0.5 * jnp.log(m) - _HALF_LOG_TWO_PI
    s = jnp.where(small, k, 0.0)
    return jnp.where(small, power_log(s, rate) - rate - _log_factorial_below_one(s), large)


@jax.custom_jvp
def log_poisson_count(k: Array, rate: Array) -> Array:
    r"""`log_poisson` of whole numbers: where none is large, from a table of $\log k!$, many times faster.

    The derivative in the rate is $k/\lambda - 1$ however the value was found; whole numbers have none.
    """

    def tabulated():
        return power_log(k, rate) - rate - _tabulated_log_factorial(k)

    tabular = jnp.all((k <= _LARGEST) & (k == jnp.floor(k)))  # sums are interpolated between whole numbers
    return jax.lax.cond(tabular, tabulated, lambda: log_poisson(k, rate))


@log_poisson_count.defjvp
def _log_poisson_count_jvp(at: tuple, moved: tuple) -> tuple[Array, Array]:
    k, rate = at
    slope = jnp.where(k == 0, -1.0, k / jnp.where(k == 0, 1.0, rate) - 1)
    return log_poisson_count(k, rate), slope * moved[1]


@jax.custom_jvp
def log_binomial_count(k: Array, n: Array, logits: Array) -> Array:
    r"""`log_binomial` of $k$ out of $n$, whole numbers: where $n$ is not large, from a table of $\log k!$.

    The derivative in the logit is $k - n \sigma$ however the value was found; whole numbers have none.
    """

    def tabulated():
        choices = _tabulated_log_factorial(n) - _tabulated_log_factorial(k) - _tabulated_log_factorial(n - k)
        return choices + _times(k, log_sigmoid(logits)) + _times(n - k, log_sigmoid(-logits))

    def large():
        return log_binomial(k, n - k, jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits))

    return jax.lax.cond(jnp.all((n <= _LARGEST) & (k == jnp.floor(k))), tabulated, large)


@log_binomial_count.defjvp
def _log_binomial_count_jvp(at: tuple, moved: tuple) -> tuple[Array, Array]:
    k, n, logits = at
    # from both sides: near a chance of one, k - n sigma is all rounding
    slope = k * jax.nn.sigmoid(-logits) - (n - k) * jax.nn.sigmoid(logits)
    return log_binomial_count(k, n, logits), slope * moved[2]


def log_choose(k: ArrayLike, m: ArrayLike) -> Array:
    r"""$\log\binom{k + m}{k}$ for real $k, m \ge 0$."""
    return log_binomial(k, m, None, None)


def log_beta(a: ArrayLike, b: ArrayLike) -> Array:
    r"""$\log B(a, b) = \log\frac{\Gamma(a)\Gamma(b)}{\Gamma(a + b)}$, exact also where $a \ll b$ or both are
    large."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    return jnp.log(1 / a + 1 / b) - log_choose(a, b)


def log_binomial(k: ArrayLike, m: ArrayLike, p: ArrayLike | None, q: ArrayLike | None) -> Array:
    r"""$\log\binom{k + m}{k} p^k q^m$ with $q = 1 - p$, for real $k, m \ge 0$.

    Both $p$ and $q$ are given, so that neither is found by subtraction; without them, the coefficient alone.
    """
    k, m = jnp.asarray(k), jnp.asarray(m)
    lesser, greater = jnp.minimum(k, m), jnp.maximum(k, m)
    small = lesser < 1
    edge, inside = _log_choose(lesser, greater, small)
    if p is None or q is None:
        k, m = jnp.where(small, 2.0, k), jnp.where(small, 2.0, m)
        return jnp.where(small, edge, inside + k * jnp.log1p(m / k) + m * jnp.log1p(k / m))
    p, q = jnp.asarray(p), jnp.asarray(q)
    log_p = jnp.where(q < 0.5, jnp.log1p(-jnp.minimum(q, 0.5)), _log(p))
    log_q = jnp.where(p < 0.5, jnp.log1p(-jnp.minimum(p, 0.5)), _log(q))
    edge = edge + _times(k, log_p) + _times(m, log_q)
    k, m = jnp.where(small, 2.0, k), jnp.where(small, 2.0, m)
    gap = m * p - k * q  # n p - k, which has no digits left where k is 50 and m is 1e18
    distance = _deviance(k, (k + m) * p, gap) + _deviance(m, (k + m) * q, -gap)
    return jnp.where(small, edge, inside - distance)


def log_ndtr(x: ArrayLike) -> Array:
    r"""$\log\Phi(x)$, the logarithm of the standard normal distribution function, exact in both tails."""
    x = jnp.asarray(x)
    end = -ndtr_reach(x.dtype)
    far, above = x < end, x > 0
    z = jnp.where(far, x, end)
    odd = np.cumprod(
        np.r_[1.0, -np.arange(1.0, 20.0, 2.0)]
    )  # 1, -1, 3, -15, ...: the asymptotic series in 1/x^2
    tail = jnp.log(_horner(odd.tolist(), z**-2.0)) - jnp.log(-z) - _HALF_LOG_TWO_PI - 0.5 * z**2
    share = 0.5 * erfc(jnp.where(above, x, jnp.where(far, 1.0, -x)) * math.sqrt(0.5))
    near = jnp.where(above, jnp.log1p(-share), jnp.log(share))
    return jnp.where(far, tail, near)


def ndtr_reach(dtype: Any) -> float:
    r"""How many deviations out $\Phi$ still has all its digits: 20, from where the series of `log_ndtr` is
    exact, or 10 in single precision, where $\Phi(-13)$ underflows."""
    return 20.0 if jnp.finfo(dtype).bits > 32 else 10.0


def log_ndtri(log_p: ArrayLike) -> Array:
    r"""The $x$ with $\log\Phi(x) = $ `log_p`, also where $p$ underflows: at `log_p` $= -10^6$, $x \approx
    -1414.2$."""
    log_p = jnp.asarray(log_p)
    end = 0.5 * math.log(jnp.finfo(log_p.dtype).tiny)  # -354, and -43 in single precision
    deep = log_p < end
    target = jnp.where(deep, log_p, end)
    x = -jnp.sqrt(-2 * target - jnp.log(-4 * math.pi * target))
    for _ in range(3):  # Newton on a smooth concave function from three correct digits
        value = log_ndtr(x)
        slope = jnp.exp(-0.5 * x**2 - _HALF_LOG_TWO_PI - value)
        x = x - (value - target) / slope
    return jnp.where(deep, x, ndtri(jnp.exp(jnp.where(deep, -1.0, log_p))))


def inverse_digamma(y: ArrayLike) -> Array:
    r"""The $x > 0$ with $\psi(x) = y$, by Newton's method from an asymptotic start."""
    y = jnp.asarray(y)
    x = jnp.where(
        y > -2.22, jnp.exp(jnp.maximum(y, -2.22)) + 0.5, -1 / (jnp.minimum(y, -2.22) - digamma(1.0))
    )
    for _ in range(6):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return x


def digamma_minus_log(x: ArrayLike) -> Array:
    r"""$\psi(x) - \log x$ for $x > 0$, near $-1/(2x)$: entropies are built from it where $\psi$ alone would
    cancel."""
    x = jnp.asarray(x)
    slope = jax.jvp(stirling_error, (x,), (jnp.ones_like(x),))[1]
    return slope - 0.5 / x


def _log1p_minus_near(u: Values) -> Values:
    """log(1 + u) - u for |u| < 1/4: log(1 + u) = 2 artanh(v) with v = u / (2 + u), and 2v - u = -uv."""
    v = u / (2 + u)
    return -u * v + 2 * v**3 * _horner([1 / (2 * k + 3) for k in range(10)], v**2)


def _deviance(x: Array, mean: Array, gap: Array) -> Array:
    """D(x, mean), given also `mean - x` with all its digits."""
    u = gap / x
    near = jnp.abs(u) < 0.2
    close = -x * _log1p_minus_near(jnp.where(near, u, 0.0))
    far = x * (jnp.log(x) - jnp.log(jnp.where(near, 1.0, mean))) + gap
    return jnp.where(near, close, far)


def _tabulated_log_factorial(k: Array) -> Array:
    return jnp.asarray(_LOG_FACTORIAL, k.dtype)[jnp.clip(k, 0, _LARGEST).astype(int)]


def _horner(coefficients, x: Values) -> Values:
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


def _stirling(x: Array) -> Array:
    t = 1.5 / (x + 0.5)
    return _horner(_STIRLING, t) * t / 1.5


def _log_factorial_below_one(k: Array) -> Array:
    """log k! for 0 <= k < 1: exactly zero at k = 0, with the right slope there."""
    value = _stirling(k + 1) + (k + 0.5) * jnp.log1p(k) - (k + 1) + _HALF_LOG_TWO_PI
    return value - jnp.where(k == 0, jax.lax.stop_gradient(value), 0.0)


def _log_choose(k: Array, m: Array, small: Array) -> tuple[Array, Array]:
    """For k <= m: log C(k + m, k) where k < 1 (`small`), and elsewhere the same less k log(n/k) + m log(n/m).

    Where k < 1 the arguments of the Stirling error move up by one, to where its polynomial holds; no large
    terms cancel, however large m is.
    """
    shift = jnp.where(m < 1, 1.0, 0.0)
    base, first = m + shift, jnp.where(small, k + 1, k)
    total = base + k
    error = _stirling(total) - _stirling(base) - _stirling(first)
    log_first, log_total = jnp.log(first), jnp.log(total)
    rise = k * log_total + (base + 0.5 - shift) * jnp.log1p(jnp.where(small, k, 0.0) / base)
    edge = error + rise - (k + 0.5) * log_first + 1 - _HALF_LOG_TWO_PI
    edge = edge - jnp.where(
        k == 0, jax.lax.stop_gradient(edge), 0.0
    )  # C(m, 0) is one, not one and a rounding
    return edge, error + 0.5 * (log_total - log_first - jnp.log(base)) - _HALF_LOG_TWO_PI


def _log(p: Array) -> Array:
    return jnp.log(jnp.where(p > 0, p, 1.0)) + jnp.where(p > 0, 0.0, -jnp.inf)


def _times(k: Array, logarithm: Array) -> Array:
    """k log p with 0 log 0 = 0."""
    return jnp.where(k == 0, 0.0, k * jnp.where(k == 0, 0.0, logarithm))
