"""Names of array types that annotations share."""

from typing import Any

from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["Array", "ArrayLike", "Bool", "Float", "Int", "Key", "PyTree", "Scalar", "Shape"]

Key = PRNGKeyArray
PyTree = Any  # jaxtyping's PyTree walks every leaf at each check; a name is enough here
Scalar = Float[Array, ""]
Shape = tuple[int, ...]
