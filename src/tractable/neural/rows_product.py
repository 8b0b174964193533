r"""`rows_product(rows, weight)`: a product that stays one flat product under `vmap`, and so does its slope.

Identity.    $(B, T, k) \times (k, m)$ is $(BT, k) \times (k, m)$, and the slope by the weight is one product
             $(k, BT) \times (BT, m)$. Left to itself, `vmap` contracts two axes there, for which the compiler
             of processors first transposes both arrays: more than twice the time.
Rule.        Where `vmap` maps the rows and not the weight, the mapped axis joins the rows. All else is that
             of `rows @ weight`: forward and reverse mode of any order, and slopes of single examples.
Cost.        That of one matrix product.
"""

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tractable.core.types import Array, Float, Values

__all__ = ["rows_product"]


def rows_product(rows: Values, weight: Values) -> Float[Array, "n m"]:
    """`rows @ weight`.

    >>> rows_product(jnp.ones((2, 3)), jnp.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    kind = jnp.result_type(rows, weight)
    return _product.bind(rows.astype(kind), weight.astype(kind))


def _plain(rows: Array, weight: Array) -> Array:
    return jnp.matmul(rows, weight)


def _batched(arrays: tuple, axes: tuple) -> tuple[Array, int]:
    rows, weight = arrays
    if axes[1] is not None or axes[0] is None:  # the weight is mapped too
        return jax.vmap(_plain, axes)(rows, weight), 0
    rows = jnp.moveaxis(rows, axes[0], 0)
    return _product.bind(rows.reshape(-1, rows.shape[-1]), weight).reshape(*rows.shape[:-1], -1), 0


_product = Primitive("rows_product")
_product.def_impl(jax.jit(_plain))
_product.def_abstract_eval(lambda rows, weight: ShapedArray((rows.shape[0], weight.shape[1]), rows.dtype))
mlir.register_lowering(_product, mlir.lower_fun(_plain, multiple_results=False))
ad.defbilinear(
    _product,
    lambda slope, rows, weight: _product.bind(slope, weight.T),
    lambda slope, rows, weight: rows.T @ slope,
)
batching.primitive_batchers[_product] = _batched
