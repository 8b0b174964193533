"""Names of array types that annotations share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.typing
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["Array", "ArrayLike", "Bool", "Float", "Int", "Key", "PyTree", "Scalar", "Shape", "Values"]

if TYPE_CHECKING:
    from jax.typing import ArrayLike

    Values = Any
else:
    Values = np.ndarray | Array  # what a model answers: on the host, or traced
    ArrayLike = jax.typing.ArrayLike | Sequence  # lists are welcome at public edges; `as_float` converts them

Key = PRNGKeyArray
PyTree = Any  # jaxtyping's PyTree walks every leaf at each check; a name is enough here
Scalar = Float[Array, ""]
Shape = tuple[int, ...]
