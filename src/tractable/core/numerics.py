r"""Scalar functions that stay exact where the textbook form overflows, underflows or cancels; label codes.

Identities.  $\sigma(-x) = 1 - \sigma(x)$, $\sigma' = \sigma(1 - \sigma)$,
             $\log\sum_i e^{x_i} = m + \log\sum_i e^{x_i - m}$ with $m = \max_i x_i$,
             $\Gamma(x) = \int_0^\infty t^{x-1} e^{-t}\,dt = (x - 1)\,\Gamma(x - 1)$, $\Gamma(n) = (n - 1)!$.
Cost.        Elementwise.
References.  Machler (2012), "Accurately computing log(1 - exp(-|a|))"; Higham (2002), chapter 1.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gamma, gammaln, xlogy

from tractable.core.checks import check, check_count, check_entries
from tractable.core.types import Array, ArrayLike, Float

__all__ = [
    "binary_to_sign", "factorial", "from_one_hot", "gamma", "gamma_integral", "inverse_softplus",
    "label_codes", "log1mexp", "log_factorial", "log_gamma", "log_mean_exp", "log_sigmoid", "log_softmax",
    "logdiffexp", "logit", "logsumexp", "odds", "one_hot", "safe_log", "safe_where", "sigmoid",
    "sigmoid_derivative", "sign_to_binary", "softmax", "softplus", "weighted_logsumexp", "xlogy",
]  # fmt: skip

sigmoid = jax.nn.sigmoid
logsumexp = jax.nn.logsumexp
log_gamma = gammaln


@jax.jit
def log1mexp(x: ArrayLike) -> Array:
    r"""$\log(1 - e^{-x})$ for $x \ge 0$, exact at both ends: at $x = 10^{-20}$ and at $x = 50$."""
    x = jnp.asarray(x)
    small = x < 0.6931471805599453
    near = jnp.log(-jnp.expm1(-jnp.where(small, x, 1.0)))
    far = jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, x)))
    return jnp.where(small, near, far)


@jax.jit
def logdiffexp(a: ArrayLike, b: ArrayLike) -> Array:
    r"""$\log(e^a - e^b)$ for $a \ge b$; $-\infty$ where they are equal, NaN where $a < b$."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    gap = jnp.where(jnp.isneginf(b), jnp.inf, a - jnp.where(jnp.isneginf(b), 0.0, b))
    same = gap == 0
    return jnp.where(same, -jnp.inf, a + log1mexp(jnp.where(same, 1.0, gap)))


@jax.jit
def logit(p: ArrayLike) -> Array:
    r"""The log-odds $\log p - \log(1 - p) = 2\,\mathrm{artanh}(2p - 1)$, the inverse of `sigmoid`.

    The first form loses all digits near $p = 1/2$, the second near 0 and 1: each is used where it is exact.
    """
    p = jnp.asarray(p)
    centre = 2 * p - 1
    central = jnp.abs(centre) < 0.5
    middle = 2 * jnp.arctanh(jnp.where(central, centre, 0.0))
    return jnp.where(central, middle, jnp.log(p) - jnp.log1p(-p))


@jax.jit
def odds(p: ArrayLike) -> Array:
    r"""$p / (1 - p)$."""
    p = jnp.asarray(p)
    return p / (1 - p)


@jax.jit
def sigmoid_derivative(x: ArrayLike) -> Array:
    r"""$\sigma'(x) = \sigma(x)\,\sigma(-x)$, exact in both tails."""
    return sigmoid(x) * sigmoid(-jnp.asarray(x))


@jax.jit
def softplus(x: ArrayLike) -> Array:
    r"""$\log(1 + e^x) = \max(x, 0) + \log(1 + e^{-|x|})$; its slope is $\sigma(x)$, at zero too."""
    return _softplus(_as_floats(x))


def log_sigmoid(x: ArrayLike) -> Array:
    r"""$\log\sigma(x) = -\log(1 + e^{-x})$."""
    return -_softplus(-_as_floats(x))


def inverse_softplus(y: ArrayLike) -> Array:
    r"""$\log(e^y - 1)$ for $y > 0$."""
    y = jnp.asarray(y)
    return y + log1mexp(y)


def softmax(x: ArrayLike, temperature: ArrayLike = 1.0, axis: int = -1) -> Array:
    r"""$e^{x_i/\tau} / \sum_j e^{x_j/\tau}$; at $\tau = 0$ its limit, the one-hot code of the largest entry.

    >>> softmax(jnp.array([1.0, 2.0, 3.0]), 0.0).tolist()
    [0.0, 0.0, 1.0]
    """
    _check_values("temperature", temperature, lambda t: t >= 0, "zero or positive")
    return _softmax(x, temperature, axis)


def log_softmax(x: ArrayLike, temperature: ArrayLike = 1.0, axis: int = -1) -> Array:
    r"""$x_i/\tau - \log\sum_j e^{x_j/\tau}$; at $\tau = 0$ entries that tie for the largest share the mass.

    The largest entry is subtracted before the division by $\tau$: logits of $\pm 10^3$ do not overflow.
    """
    _check_values("temperature", temperature, lambda t: t >= 0, "zero or positive")
    return _log_softmax(x, temperature, axis)


def _as_floats(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)


@jax.custom_jvp
def _softplus(x: Array) -> Array:
    # Each term has a kink where the whole has none: derivatives are stated, and share the exponential.
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@_softplus.defjvp
def _softplus_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return _softplus(x), _logistic(x) * dx


@jax.custom_jvp
def _logistic(x: Array) -> Array:
    small = jnp.exp(-jnp.abs(x))
    return jnp.where(x >= 0, 1.0, small) / (1 + small)


@_logistic.defjvp
def _logistic_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return _logistic(x), _logistic(x) * _logistic(-x) * dx


@partial(jax.jit, static_argnames="axis")
def weighted_logsumexp(x: ArrayLike, weights: ArrayLike, axis: int | None = None) -> Array:
    r"""$\log\sum_i w_i e^{x_i}$ for $w_i \ge 0$; a term of weight zero is absent, whatever $x_i$ is."""
    x, weights = jnp.asarray(x), jnp.asarray(weights)
    present = weights != 0
    terms = jnp.where(present, x, 0.0) + jnp.log(jnp.where(present, weights, 1.0))
    return logsumexp(jnp.where(present, terms, -jnp.inf), axis=axis)


@partial(jax.jit, static_argnames="axis")
def log_mean_exp(x: ArrayLike, weights: ArrayLike | None = None, axis: int | None = None) -> Array:
    r"""$\log\big(\sum_i w_i e^{x_i} / \sum_i w_i\big)$, equal weights by default."""
    x = jnp.asarray(x)
    if weights is None:
        count = x.size if axis is None else x.shape[axis]
        return logsumexp(x, axis=axis) - math.log(count)
    return weighted_logsumexp(x, weights, axis) - jnp.log(jnp.sum(jnp.asarray(weights), axis))


def safe_where(
    condition: ArrayLike, function, x: ArrayLike, otherwise: ArrayLike, safe: ArrayLike = 1.0
) -> Array:
    """`function(x)` where `condition`, else `otherwise`; where it fails, the gradient never sees `x`."""
    condition = jnp.asarray(condition)
    return jnp.where(condition, function(jnp.where(condition, x, safe)), otherwise)


@jax.jit
def safe_log(x: ArrayLike) -> Float[Array, "..."]:
    r"""$\log x$ with $\log 0 = -\infty$ and a finite gradient at zero."""
    x = jnp.asarray(x)
    return safe_where(x > 0, jnp.log, x, jnp.where(x == 0, -jnp.inf, jnp.nan))


@jax.jit
def factorial(n: ArrayLike) -> Array:
    r"""$n!$ correctly rounded: infinite past $n = 170$ (float64), NaN where $n$ is not 0, 1, 2, ..."""
    n = jnp.asarray(n)
    table = jnp.asarray(_FACTORIALS, jnp.result_type(float))
    whole = (n >= 0) & (n == jnp.floor(n))
    index = jnp.where(whole, jnp.minimum(n, len(_FACTORIALS) - 1), 0).astype(int)
    return jnp.where(whole, table[index], jnp.nan)


@jax.jit
def log_factorial(n: ArrayLike) -> Array:
    r"""$\log n! = \log\Gamma(n + 1)$."""
    return log_gamma(jnp.asarray(n, jnp.result_type(float)) + 1)


@partial(jax.jit, static_argnames="num_points")
def gamma_integral(x: ArrayLike, num_points: int = 2000) -> Array:
    r"""$\Gamma(x)$ for $x \ge 1/5$ by quadrature, from its definition: an independent check of `gamma`.

    With $t = e^u$ the integral is $\int e^{xu - e^u}\,du$ over the line, where the trapezoidal rule converges
    geometrically; the window holds all of the integrand past $10^{-17}$ of its peak at $u = \log x$. The left
    tail grows as $1/x$: below $1/5$ give more points.
    """
    x = jnp.asarray(x, jnp.result_type(float))
    low, high = jnp.log(x) - 40 / x - 9 / jnp.sqrt(x), jnp.log(x + 60 + 10 * jnp.sqrt(x))
    unit = jnp.linspace(0.0, 1.0, num_points).reshape((1,) * x.ndim + (-1,))
    u = low[..., None] + (high - low)[..., None] * unit
    spacing = (high - low) / (num_points - 1)
    return jnp.exp(logsumexp(x[..., None] * u - jnp.exp(u), axis=-1)) * spacing


def one_hot(labels: ArrayLike, num_classes: int) -> Array:
    """The code of each label 0 to `num_classes - 1`: a vector of zeros with a one at the label.

    >>> one_hot(jnp.array([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    num_classes = check_count("num_classes", num_classes)
    labels = jnp.asarray(labels)
    fix = "Turn names into codes with `label_codes`."
    whole = jnp.issubdtype(labels.dtype, jnp.integer) or labels.dtype == bool
    check(whole, "labels", "whole numbers of an integer dtype", f"dtype {labels.dtype}", fix, TypeError)
    _check_values("labels", labels, lambda v: (v >= 0) & (v < num_classes), f"from 0 to {num_classes - 1}")
    return jax.nn.one_hot(labels, num_classes, dtype=jnp.result_type(float))


def from_one_hot(codes: ArrayLike) -> Array:
    """The label of each code along the last axis, the inverse of `one_hot`."""
    codes = jnp.asarray(codes)
    check(codes.ndim > 0, "codes", "an array with at least one axis", f"shape {codes.shape}")

    def single(values):
        return ((values == 0) | (values == 1)).all(-1) & (values.sum(-1) == 1)

    _check_values("codes", codes, single, "zeros with a single one along the last axis")
    return codes.argmax(-1)


def label_codes(labels: Any, classes: Sequence | np.ndarray | None = None) -> tuple[np.ndarray, Array]:
    """The classes in order, and the code 0 to K - 1 of each label (text, numbers or booleans).

    >>> classes, codes = label_codes(["cat", "dog", "cat"])
    >>> classes.tolist(), codes.tolist()
    (['cat', 'dog'], [0, 1, 0])
    """
    values = np.asarray(labels)
    missing = values != values
    check(not np.any(missing), "labels", "without NaN", "NaN", "Remove or name the missing labels.")
    if classes is None:
        found, codes = np.unique(values, return_inverse=True)
        return found, jnp.asarray(codes.reshape(values.shape))
    order = np.asarray(classes)
    check(len(np.unique(order)) == len(order), "classes", "without repeats", order.tolist())
    known = np.isin(values, order)
    if not known.all():
        check(False, "labels", f"among the classes {order.tolist()}", repr(values[~known].flat[0].item()))
    sorter = np.argsort(order)
    return order, jnp.asarray(sorter[np.searchsorted(order, values, sorter=sorter)])


def binary_to_sign(labels: ArrayLike) -> Array:
    r"""Codes $\{0, 1\}$ as $\{-1, +1\}$: $2y - 1$."""
    labels = jnp.asarray(labels)
    _check_values("labels", labels, lambda v: (v == 0) | (v == 1), "0 or 1")
    return 2 * labels.astype(jnp.result_type(float)) - 1


def sign_to_binary(signs: ArrayLike) -> Array:
    r"""Codes $\{-1, +1\}$ as $\{0, 1\}$: $(s + 1)/2$."""
    signs = jnp.asarray(signs)
    _check_values("signs", signs, lambda v: (v == -1) | (v == 1), "-1 or +1")
    return (signs + 1) / 2


_FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)] + [np.inf])


@partial(jax.jit, static_argnames="axis")
def _softmax(x: ArrayLike, temperature: ArrayLike, axis: int) -> Array:
    return jnp.exp(_log_softmax(x, temperature, axis))


@partial(jax.jit, static_argnames="axis")
def _log_softmax(x: ArrayLike, temperature: ArrayLike, axis: int) -> Array:
    x, temperature = jnp.asarray(x), jnp.asarray(temperature)
    impossible, cold = x == -jnp.inf, temperature == 0
    gap = jnp.where(impossible, 0.0, x) - jax.lax.stop_gradient(x.max(axis, keepdims=True))
    hidden = impossible | (cold & (gap < 0))
    shifted = jnp.where(hidden, -jnp.inf, gap / jnp.where(cold, 1.0, temperature))
    return shifted - logsumexp(shifted, axis=axis, keepdims=True)


def _check_values(name: str, x: ArrayLike, test: Callable[[np.ndarray], Any], words: str) -> None:
    check_entries(name, x, test, words)
