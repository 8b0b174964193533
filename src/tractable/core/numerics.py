r"""Scalar functions that stay exact where the textbook form overflows, underflows or cancels.

Used by.     Every log-density, link function and mixture in the library.
Cost.        Elementwise.
References.  Machler (2012), "Accurately computing log(1 - exp(-|a|))"; Higham (2002), chapter 1.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from tractable.core.types import Array, ArrayLike, Float

__all__ = [
    "inverse_softplus", "log1mexp", "log_sigmoid", "log_softmax", "logdiffexp", "logit", "logsumexp", "odds", "safe_log", "safe_where",
    "sigmoid", "sigmoid_derivative", "softmax", "softplus", "xlogy",
]  # fmt: skip

sigmoid = jax.nn.sigmoid
log_sigmoid = jax.nn.log_sigmoid
softplus = jax.nn.softplus
logsumexp = jax.nn.logsumexp


def log1mexp(x: ArrayLike) -> Array:
    r"""$\log(1 - e^{-x})$ for $x \ge 0$, exact at both ends: at $x = 10^{-20}$ and at $x = 50$."""
    x = jnp.asarray(x)
    small = x < 0.6931471805599453
    near = jnp.log(-jnp.expm1(-jnp.where(small, x, 1.0)))
    far = jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, x)))
    return jnp.where(small, near, far)


def logdiffexp(a: ArrayLike, b: ArrayLike) -> Array:
    r"""$\log(e^a - e^b)$ for $a \ge b$; $-\infty$ where they are equal, NaN where $a < b$."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    gap = jnp.where(jnp.isneginf(b), jnp.inf, a - jnp.where(jnp.isneginf(b), 0.0, b))
    same = gap == 0
    return jnp.where(same, -jnp.inf, a + log1mexp(jnp.where(same, 1.0, gap)))


def logit(p: ArrayLike) -> Array:
    r"""The log-odds $\log p - \log(1 - p)$, the inverse of `sigmoid`."""
    p = jnp.asarray(p)
    return jnp.log(p) - jnp.log1p(-p)


def odds(p: ArrayLike) -> Array:
    r"""$p / (1 - p)$."""
    p = jnp.asarray(p)
    return p / (1 - p)


def sigmoid_derivative(x: ArrayLike) -> Array:
    r"""$\sigma'(x) = \sigma(x)\,\sigma(-x)$, exact in both tails."""
    return sigmoid(x) * sigmoid(-jnp.asarray(x))


def inverse_softplus(y: ArrayLike) -> Array:
    r"""$\log(e^y - 1)$ for $y > 0$."""
    y = jnp.asarray(y)
    return y + log1mexp(y)


def softmax(x: ArrayLike, temperature: ArrayLike = 1.0, axis: int = -1) -> Array:
    r"""$e^{x_i/\tau} / \sum_j e^{x_j/\tau}$; as $\tau \to 0$ the mass goes to the largest entry."""
    return jnp.exp(log_softmax(x, temperature, axis))


def log_softmax(x: ArrayLike, temperature: ArrayLike = 1.0, axis: int = -1) -> Array:
    r"""$x_i/\tau - \log\sum_j e^{x_j/\tau}$, the largest entry subtracted before the division by $\tau$."""
    x = jnp.asarray(x)
    shifted = (x - x.max(axis, keepdims=True)) / temperature
    return shifted - logsumexp(shifted, axis=axis, keepdims=True)


def safe_where(condition: ArrayLike, function, x: ArrayLike, otherwise: ArrayLike, safe: ArrayLike = 1.0) -> Array:
    """`function(x)` where `condition`, else `otherwise`; the gradient never sees `x` where the condition fails."""
    condition = jnp.asarray(condition)
    return jnp.where(condition, function(jnp.where(condition, x, safe)), otherwise)


def safe_log(x: ArrayLike) -> Float[Array, "..."]:
    r"""$\log x$ with $\log 0 = -\infty$ and a finite gradient at zero."""
    x = jnp.asarray(x)
    return safe_where(x > 0, jnp.log, x, jnp.where(x == 0, -jnp.inf, jnp.nan))

