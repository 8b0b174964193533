"""What the forms of the Gaussian share: matching shapes, coordinates, one unit at a time."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_shape
from tractable.core.module import plates
from tractable.core.types import Array

__all__ = ["Indices", "as_indices", "matched", "one_unit", "split_known"]

Indices = Sequence[int] | np.ndarray | int


def matched(vector_name: str, vector: Any, matrix_name: str, matrix: Any) -> tuple[Array, Array]:
    """A vector and a square matrix as floats, of one size and with the same leading axes."""
    v, m = as_float(vector_name, vector), as_float(matrix_name, matrix)
    check(v.ndim >= 1, vector_name, "a vector", f"shape {v.shape}", "For one number use `Normal`.")
    square = m.ndim >= 2 and m.shape[-1] == m.shape[-2]
    check(square, matrix_name, "a square matrix", f"shape {m.shape}")
    must = f"as long as `{matrix_name}` is wide ({m.shape[-1]})"
    check(v.shape[-1] == m.shape[-1], vector_name, must, f"length {v.shape[-1]}")
    try:
        units = jnp.broadcast_shapes(v.shape[:-1], m.shape[:-2])
    except ValueError as error:
        must = f"of leading axes that broadcast with those of `{matrix_name}`, {m.shape[:-2]}"
        raise ValueError(f"`{vector_name}` must be {must}; got {v.shape[:-1]}.") from error
    v = v if v.shape[:-1] == units else jnp.broadcast_to(v, units + v.shape[-1:])
    return v, m if m.shape[:-2] == units else jnp.broadcast_to(m, units + m.shape[-2:])


def one_unit(distribution: Any) -> None:
    """Refuse leading axes where the mathematics is that of one Gaussian."""
    units, name = plates(distribution), type(distribution).__name__
    check(units == (), name, "without leading axes here", f"leading axes {units}", "Use `jax.vmap`.")


def as_indices(name: str, indices: Any, size: int) -> np.ndarray:
    """Distinct coordinates from 0 to `size` - 1 as an array; negative ones count from the end."""
    chosen = np.atleast_1d(np.asarray(indices))
    whole = chosen.ndim == 1 and chosen.size > 0 and np.issubdtype(chosen.dtype, np.integer)
    check(whole, name, "a non-empty list of whole numbers", repr(indices))
    check_entries(name, chosen, lambda v: (v >= -size) & (v < size), f"coordinates from 0 to {size - 1}")
    chosen = chosen % size
    check(len(set(chosen.tolist())) == len(chosen), name, "distinct", chosen.tolist())
    return chosen


def split_known(distribution: Any, indices_known: Any, values: Any) -> tuple[np.ndarray, np.ndarray, Array]:
    """The known coordinates of one Gaussian, in ascending order all others, and the known values."""
    one_unit(distribution)
    size = distribution.shape[0]
    known = as_indices("indices_known", indices_known, size)
    rest = np.setdiff1d(np.arange(size), known)
    must = f"fewer than all {size} coordinates"
    check(rest.size > 0, "indices_known", must, known.tolist(), "Nothing is left to infer.")
    given = as_float("values", values)
    check_shape("values", given, known.shape, "One value per known coordinate.")
    return known, rest, given
