r"""Derivatives with respect to a matrix, in closed form: the identities behind every M-step done by hand.

Layout.      The gradient of a scalar has the shape of $X$: entry $ij$ is $\partial f/\partial X_{ij}$. The
             Jacobian of a vector has one row per output: $\partial(Ax)/\partial x = A$.
Identities.  `IDENTITIES` lists each function with its gradient, so that one test compares them all with
             central differences and with automatic differentiation.
Cost.        One inverse or a few products of $d \times d$ matrices.
References.  Petersen and Pedersen (2012), "The Matrix Cookbook".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.types import Array, ArrayLike, Float

__all__ = [
    "IDENTITIES", "Identity", "central_difference", "gradient_linear_trace", "gradient_log_det",
    "gradient_quadratic_trace", "gradient_sandwich_trace", "gradient_shifted_inverse_trace",
    "gradient_trace_inverse", "gradient_trace_of_function", "gradient_trace_product",
    "jacobian_inner_product", "jacobian_matrix_vector",
]  # fmt: skip

Matrix = Float[Array, "_ _"]


def gradient_log_det(x: Matrix) -> Matrix:
    r"""$\partial \log|\det X| / \partial X = X^{-\top}$."""
    return jnp.linalg.inv(x).T


def gradient_trace_of_function(x: Matrix, derivative: Callable[[Array], Array]) -> Matrix:
    r"""$\partial\,\mathrm{tr} F(X) / \partial X = f(X)^\top$, where $f$ is the scalar derivative of $F$.

    `derivative` is $f$ as a function of matrices: for $F(X) = X^3$ it is `lambda x: 3 * x @ x`.
    """
    return derivative(x).T


def gradient_linear_trace(x: Matrix, c: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}(C X^\top) / \partial X = C$."""
    return jnp.broadcast_to(c, x.shape)


def gradient_trace_product(x: Matrix, a: Matrix, b: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}(A X B) / \partial X = A^\top B^\top$."""
    return jnp.broadcast_to(a.T @ b.T, x.shape)


def gradient_shifted_inverse_trace(x: Matrix, a: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}\{(X + A)^{-1}\} / \partial X = -\{(X + A)^{-1} (X + A)^{-1}\}^\top$."""
    inverse = jnp.linalg.inv(x + a)
    return -(inverse @ inverse).T


def gradient_trace_inverse(x: Matrix, a: Matrix, b: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}(A X^{-1} B) / \partial X = -(X^{-1} B A X^{-1})^\top$."""
    inverse = jnp.linalg.inv(x)
    return -(inverse @ b @ a @ inverse).T


def gradient_quadratic_trace(x: Matrix, c: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}(X C X^\top) / \partial X = X C + X C^\top$."""
    return x @ c + x @ c.T


def gradient_sandwich_trace(x: Matrix, a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    r"""$\partial\,\mathrm{tr}(A X B X^\top C) / \partial X = A^\top C^\top X B^\top + C A X B$."""
    return a.T @ c.T @ x @ b.T + c @ a @ x @ b


def jacobian_inner_product(x: Float[Array, " d"], a: Float[Array, " d"]) -> Float[Array, "1 d"]:
    r"""$\partial(a^\top x)/\partial x = a^\top$, a row."""
    return a[None, :]


def jacobian_matrix_vector(x: Float[Array, " d"], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
    r"""$\partial(A x)/\partial x = A$."""
    return a


def central_difference(function: Callable[[Any], Any], x: ArrayLike, step: float = 1e-5) -> Array:
    r"""$\{f(x + h e_i) - f(x - h e_i)\} / 2h$ for each entry of $x$; the error is $O(h^2) + O(\epsilon/h)$.

    Its shape is that of $f(x)$ followed by that of $x$: a gradient for a scalar, a Jacobian for a vector.
    """
    x = np.asarray(x, float)
    shifts = step * np.eye(x.size).reshape((x.size, *x.shape))
    slopes = [(np.asarray(function(x + s)) - np.asarray(function(x - s))) / (2 * step) for s in shifts]
    stacked = np.stack(slopes, axis=-1)
    return jnp.asarray(stacked.reshape(stacked.shape[:-1] + x.shape))


@dataclass(frozen=True)
class Identity:
    """One identity: `function(x, *others)` with its closed-form `gradient(x, *others)` in `x`."""

    name: str
    function: Callable[..., Any]
    gradient: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]  # of `x` and the others, for a test that draws them


def _cube_gradient(x):
    return gradient_trace_of_function(x, lambda m: 3 * m @ m)


def _exponential_gradient(x):
    return gradient_trace_of_function(x, jsl.expm)


def _trace_inverse(x, a, b):
    return jnp.trace(a @ jnp.linalg.inv(x) @ b)


def _sandwich(x, a, b, c):
    return jnp.trace(a @ x @ b @ x.T @ c)


def _shifted(x, a):
    return jnp.trace(jnp.linalg.inv(x + a))


IDENTITIES = (
    Identity("log det X", lambda x: jnp.linalg.slogdet(x)[1], gradient_log_det, ((3, 3),)),
    Identity("tr exp X", lambda x: jnp.trace(jsl.expm(x)), _exponential_gradient, ((3, 3),)),
    Identity("tr X^3", lambda x: jnp.trace(x @ x @ x), _cube_gradient, ((3, 3),)),
    Identity("tr C X^T", lambda x, c: jnp.trace(c @ x.T), gradient_linear_trace, ((3, 2), (3, 2))),
    Identity(
        "tr A X B", lambda x, a, b: jnp.trace(a @ x @ b), gradient_trace_product, ((3, 2), (4, 3), (2, 4))
    ),
    Identity("tr (X + A)^-1", _shifted, gradient_shifted_inverse_trace, ((3, 3), (3, 3))),
    Identity("tr A X^-1 B", _trace_inverse, gradient_trace_inverse, ((3, 3), (2, 3), (3, 2))),
    Identity("tr X C X^T", lambda x, c: jnp.trace(x @ c @ x.T), gradient_quadratic_trace, ((2, 3), (3, 3))),
    Identity("tr A X B X^T C", _sandwich, gradient_sandwich_trace, ((3, 2), (4, 3), (2, 2), (3, 4))),
    Identity("a^T x", lambda x, a: (a @ x)[None], jacobian_inner_product, ((3,), (3,))),
    Identity("A x", lambda x, a: a @ x, jacobian_matrix_vector, ((3,), (4, 3))),
)
