r"""How kernels are evaluated: compiled once for each structure, in the precision of the points.

Cost.        One program for each kind of kernel and each bucket.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.programs import program
from tractable.core.types import Array

__all__ = ["compiled_diagonal", "compiled_gram", "compiled_pair", "from_pairs"]


@program
def compiled_gram(kernel: Any, x: Array, y: Array | None) -> Array:
    """The table of all pairs of rows."""
    return _cast(kernel, x)._gram(x, y)


@program
def compiled_diagonal(kernel: Any, x: Array) -> Array:
    """The values of each row with itself."""
    return _cast(kernel, x)._diagonal(x)


@program
def compiled_pair(kernel: Any, x: Array, y: Array) -> Array:
    """The value of one pair."""
    return _cast(kernel, x).pair(x, y)


def from_pairs(function: Any, x: Array, y: Array | None) -> Array:
    """`function(x[i], y[j])` for all rows of two tables; `y` of None stands for `x`."""
    other = x if y is None else y
    return jax.vmap(lambda row: jax.vmap(lambda point: function(row, point))(other))(x)


def _cast(kernel: Any, x: Array) -> Any:
    """The kernel in the precision of the points."""

    def cast(leaf: Any) -> Any:
        floating = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(x.dtype) if floating else leaf

    return jax.tree.map(cast, kernel)
