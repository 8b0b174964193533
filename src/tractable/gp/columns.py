r"""Columns of zeros, so that tables of different widths run the same programs.

Identity.    A stationary kernel sees $\sum_i (x_i - x'_i)^2/\ell_i^2$: a column of zeros adds nothing,
             whatever its length scale, so the evidence has no slope in it and a search leaves it where it is.
Sizes.       8 and 32 columns, then powers of two; only up to 1024 rows, where compiling takes longer than
             computing.
Cost.        A copy of the rows, in NumPy.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.checks import to_device

__all__ = ["free_numbers_kept", "narrowed_fit", "resized", "wide_rows", "width_of"]

_FEW_ROWS, _FEW_COLUMNS, _SOME_COLUMNS = 1024, 8, 32
_FILLS = {"length_scale": 1.0, "X": 0.0, "inducing": 0.0}  # by the name of a field, along its last axis


def width_of(num_rows: int, dim: int) -> int:
    """The number of columns to which a table is widened.

    >>> [width_of(200, d) for d in (1, 5, 8, 9, 33)], width_of(5000, 3)
    ([8, 8, 8, 32, 64], 3)
    """
    if num_rows > _FEW_ROWS:
        return dim
    if dim <= _SOME_COLUMNS:
        return _FEW_COLUMNS if dim <= _FEW_COLUMNS else _SOME_COLUMNS
    return 1 << (dim - 1).bit_length()


def wide_rows(X: np.ndarray, width: int) -> np.ndarray:
    """Rows with columns of zeros."""
    return np.pad(X, ((0, 0), (0, width - X.shape[1])))


def resized(model: Any, old: int, new: int) -> Any:
    """A model of `old` columns, anything with length scales, rows or inducing points, with `new` ones."""

    def resize(path: tuple, leaf: Any) -> Any:
        fill = _FILLS.get(str(getattr(path[-1], "name", ""))) if path else None
        if fill is None or np.ndim(leaf) == 0 or np.shape(leaf)[-1] != old:
            return leaf
        values = np.asarray(leaf)[..., :new]
        extra = [(0, 0)] * (values.ndim - 1) + [(0, max(new - old, 0))]
        return to_device(np.pad(values, extra, constant_values=fill))

    return model if old == new else jax.tree_util.tree_map_with_path(resize, model)


def narrowed_fit(fit: Any, rebuild: Rebuild, old: int, new: int) -> Any:
    """A search for hyperparameters (`fit.run.state` are free numbers, which `rebuild` reads) of `old` columns
    with the first `new` ones alone."""
    if old == new:
        return fit
    state = to_device(np.asarray(fit.run.state)[free_numbers_kept(rebuild, old, new)])
    return eqx.tree_at(lambda found: found.run.state, resized(fit, old, new), state)


def free_numbers_kept(rebuild: Rebuild, old: int, new: int) -> np.ndarray:
    """Which free numbers of a model of `old` columns are those of its first `new` ones."""
    kept = [np.zeros(0, bool)]
    for slot in rebuild.slots:
        keep = np.ones(slot.shape, bool)
        if slot.path.rsplit(".", 1)[-1] in _FILLS and slot.shape[-1:] == (old,):
            keep[..., new:] = False
        kept.append(keep.reshape(-1))
    return np.concatenate(kept)
