r"""Squared distances of all rows of two tables, for kernels, without an $n \times m \times d$ array.

Identity.    $\|x - y\|^2 = \|x\|^2 + \|y\|^2 - 2 x^\top y$ on centred rows: one matrix product. Up to eight
             columns, and wherever a kernel is not smooth at zero, the differences themselves are summed.
Tangent.     $d\|x - y\|^2 = 2 (x - y)^\top (dx - dy)$, by matrix products whichever way the value was made:
             the gradient keeps no array larger than the table.
Cost.        $O(nmd)$ operations, $O(nm)$ memory.
References.  core.geometry.squared_distances chooses the form by the values; here the shapes choose it, which
             costs one form alone and keeps derivatives small.
"""

from functools import partial

import jax
import jax.numpy as jnp

from tractable.core.types import Array, Float

__all__ = ["table_of_squares"]

_FEW_COLUMNS = 8  # up to here differences are as fast as a matrix product
_UNROLLED = 32


def table_of_squares(
    x: Float[Array, "n d"], y: Float[Array, "m d"] | None = None, *, exact: bool = False
) -> Float[Array, "n m"]:
    r"""$\|x_i - y_j\|^2$; zero on the diagonal where `y` is not given.

    The matrix product errs by a few units of rounding of $\|x\|^2 + \|y\|^2$, which smooth kernels do not
    see. A function of $\|x - y\|$ itself sees the root of it, about $10^{-8}$: then ask for `exact`.
    """
    other = x if y is None else y
    centre = jax.lax.stop_gradient(other.mean(0, keepdims=True))  # changes the rounding alone
    table = _squares(exact or x.shape[1] <= _FEW_COLUMNS, x - centre, other - centre)
    return table if y is not None else jnp.where(jnp.eye(len(x), dtype=bool), 0.0, table)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _squares(direct: bool, x: Array, y: Array) -> Array:
    if not direct:
        sizes = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :]
        return jnp.maximum(sizes - 2 * x @ y.T, 0.0)
    if x.shape[1] > _UNROLLED:
        return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)  # fused into the sum when compiled
    columns = [(x[:, i][:, None] - y[:, i][None, :]) ** 2 for i in range(x.shape[1])]
    return sum(columns[1:], start=columns[0])


@_squares.defjvp
def _squares_tangent(direct: bool, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    own = (x * dx).sum(1)[:, None] + (y * dy).sum(1)[None, :]
    return _squares(direct, x, y), 2 * (own - dx @ y.T - x @ dy.T)
