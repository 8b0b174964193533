r"""Jacobians by sweeps, their chain rule, Hessians and Hessian-vector products.

Layout.      Numerator layout: $J_{ij} = \partial f_i/\partial x_j$, one row for each output, $m \times n$.
Sweeps.      Forward mode gives a column $J e_j$ per sweep ($n$ sweeps), reverse mode a row $e_i^\top J$ ($m$
             sweeps): the fewer of the two by default.
Chain rule.  $J_{f \circ g}(x) = J_f(g(x))\,J_g(x)$.
Hessian.     Forward over reverse: $\nabla^2 f\,v = \frac{d}{dt} \nabla f(x + t v)$ at $t = 0$, one tangent of
             the gradient; $n$ of them give the matrix, none is needed to multiply by it.
Cost.        $\min(m, n)$ sweeps; a Hessian-vector product costs a small multiple of the gradient.
References.  Pearlmutter (1994); Griewank and Walther (2008).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_option, check_shape
from tractable.core.types import Array, ArrayLike, Float

__all__ = ["chain_jacobian", "hessian", "hessian_vector_product", "jacobian"]

_MODES = ("auto", "forward", "reverse")


def jacobian(function: Callable[[Any], Any], x: ArrayLike, *, mode: str = "auto") -> Float[Array, "m n"]:
    r"""$\partial f_i/\partial x_j$ of a function from vectors to vectors (a number counts as one entry).

    >>> jacobian(lambda x: jnp.array([x[0] * x[1], x[0], 3 * x[1]]), jnp.array([2.0, 5.0]))
    Array([[5., 2.],
           [1., 0.],
           [0., 3.]], dtype=float64)
    """
    check_option("mode", mode, _MODES)
    flat, x = _flattened(function, x)
    if mode == "auto":
        mode = "reverse" if jax.eval_shape(flat, x).size < x.size else "forward"
    if mode == "forward":
        basis = jnp.eye(x.size, dtype=x.dtype)
        return jax.vmap(lambda seed: jax.jvp(flat, (x,), (seed,))[1], out_axes=1)(basis)
    value, pull = jax.vjp(flat, x)
    return jax.vmap(lambda seed: pull(seed)[0])(jnp.eye(value.size, dtype=value.dtype))


def chain_jacobian(
    outer: Callable[[Any], Any], inner: Callable[[Any], Any], x: ArrayLike
) -> Float[Array, "m n"]:
    r"""The Jacobian of $f \circ g$ as the product $J_f(g(x))\,J_g(x)$."""
    return jacobian(outer, jnp.ravel(jnp.asarray(inner(as_float("x", x))))) @ jacobian(inner, x)


def hessian(function: Callable[[Any], Any], x: ArrayLike) -> Float[Array, "n n"]:
    r"""$\nabla^2 f(x)$, one Hessian-vector product for each entry of $x$."""
    x = as_float("x", x)
    columns = jax.vmap(lambda seed: hessian_vector_product(function, x, seed), out_axes=-1)
    basis = jnp.eye(x.size, dtype=x.dtype)
    return jnp.reshape(columns(jnp.reshape(basis, (x.size, *x.shape))), (x.size, x.size))


def hessian_vector_product(function: Callable[[Any], Any], x: ArrayLike, direction: ArrayLike) -> Array:
    r"""$\nabla^2 f(x)\,v$ without the matrix: the tangent of the gradient along $v$."""
    x, v = as_float("x", x), as_float("direction", direction)
    check_shape("direction", v, x.shape, "It moves `x`: give one entry for each.")
    shape = jnp.shape(jax.eval_shape(function, x))
    check(shape == (), "function", "one that returns a single number", f"shape {shape}", "Use `jacobian`.")
    return jax.jvp(jax.grad(function), (x,), (v.astype(x.dtype),))[1]


def _flattened(function: Callable[[Any], Any], x: ArrayLike) -> tuple[Callable[[Array], Array], Array]:
    """The function from flat vectors to flat vectors, and the flat input."""
    x = as_float("x", x)

    def flat(entries: Array) -> Array:
        return jnp.ravel(jnp.asarray(function(jnp.reshape(entries, x.shape))))

    return flat, jnp.ravel(x)
