"""New rows through a model in blocks of one size: any number of them, bounded memory, no new programs.

Cost.        That of the function; the last block is padded.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from tractable.core.checks import has_values, to_device
from tractable.core.chunks import bucket_size
from tractable.core.types import Array, ArrayLike
from tractable.gp.points import as_points, pad_points

__all__ = ["rowwise"]

_LEAST, _ROWS = 64, 4096


def rowwise(function: Callable[[Any, Array], Any], model: Any, X: ArrayLike, dim: int) -> Any:
    """`function(model, rows)`, whose answers have the rows as their first axis, in blocks."""
    rows = as_points("X", X, dim)
    if not has_values((model, rows)):
        return function(model, rows)
    size = min(max(bucket_size(len(rows)), _LEAST), _ROWS)
    blocks = [np.asarray(rows)[i : i + size] for i in range(0, len(rows), size)]
    answers = [function(model, pad_points(block, size)) for block in blocks]
    joined = jax.tree.map(lambda *parts: np.concatenate([np.asarray(p) for p in parts]), *answers)
    return jax.tree.map(lambda leaf: to_device(leaf[: len(rows)]), joined)
