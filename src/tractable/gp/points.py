r"""Rows of a Gaussian process: checked by name, padded to sizes that repeat, hidden rows made harmless.

Padding.     Rows of weight zero get a unit variance of their own and no covariance with any other, and a
             residual of zero: $\log|K_y|$, $r^\top K_y^{-1} r$ and every prediction are those of the rows
             that count.
Sizes.       A factor costs $n^3$, so padding to powers of two would cost up to eight times: above 512 rows
             there are eight sizes for each doubling (64 rows apart up to 1024, 128 up to 2048, ...), and at
             most 42 % is added to a factor; below, powers of two from 64, since compiling costs far more than
             computing.
Weights.     A row of weight $w$ is the row $w$ times: noise variance $\sigma^2/w$, and the density of its
             copies given their mean, `log_copies`. So rows that repeat may be merged (`merge`) into one with
             the mean of their targets and the sum of their weights: an exact answer in the cube of *distinct*
             rows.
Cost.        A pass over the rows in NumPy.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite, check_length
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int

__all__ = ["Observed", "as_observed", "as_points", "log_copies", "matrix_size", "observe", "pad_points"]

_LEAST = 64  # rows: a factor of fewer takes no less time
_FINE = 512  # rows: above, a factor takes longer than a few programs more


class Observed(Module):
    """Rows with their targets and weights, padded; a weight of zero hides a row."""

    X: Float[Array, "n d"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]
    within: Float[Array, " n"]  # weighted squares of merged targets about their mean, `y`
    count: Int[Array, ""]  # of rows before padding

    @property
    def num_rows(self) -> int:
        """The number of rows before padding; known outside `jit`."""
        return int(self.count)

    @property
    def present(self) -> Array:
        """Which rows count."""
        return self.weights > 0

    def safe_weights(self) -> Array:
        """The weights, with one for the rows that do not count."""
        return jnp.where(self.present, self.weights, 1.0)


def matrix_size(num_rows: int) -> int:
    """The number of rows to which a matrix of `num_rows` rows is padded before it is factorised.

    >>> [matrix_size(n) for n in (5, 200, 513, 1100, 2000, 2049)]
    [64, 256, 576, 1152, 2048, 2304]
    """
    if num_rows <= _FINE:
        return max(_LEAST, bucket_size(num_rows))
    step = 1 << ((num_rows - 1).bit_length() - 4)
    return -(-num_rows // step) * step


def as_points(name: str, X: ArrayLike, dim: int | None = None) -> Array:
    """Rows `(n, d)` of finite floats; a vector is n points in one dimension."""
    given = as_float(name, X)
    rows = given[:, None] if given.ndim == 1 else given
    check(
        rows.ndim == 2 and rows.size > 0, name, "rows of shape (n, d), at least one", f"shape {given.shape}"
    )
    check(dim is None or rows.shape[1] == dim, name, f"rows of {dim} columns", f"shape {rows.shape}")
    check_finite(name, rows)
    return rows


def pad_points(X: ArrayLike, size: int | None = None) -> Array:
    """Rows with copies of the last one, so that new numbers of rows use the same programs."""
    return pad_rows(X, size=size)[0]


def observe(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, merge: bool = False) -> Observed:
    """Checked rows, targets and weights, padded to `matrix_size`; with `merge`, rows that repeat become
    one.
    """
    rows, targets = as_points("X", X), as_float("y", y)
    check(targets.ndim == 1, "y", "a vector, one target per row", f"shape {targets.shape}")
    check_length("y", targets, "X", rows)
    check_finite("y", targets)
    within = np.zeros(len(targets), targets.dtype)
    if merge:
        rows, targets, weights, within = _merged(np.asarray(rows), np.asarray(targets), weights)
    count = np.asarray(len(rows))
    padded: tuple[Any, Any] = pad_rows((rows, targets, within), weights, size=matrix_size(len(rows)))
    (rows, targets, within), hidden = padded
    return Observed(rows, targets, hidden, jnp.where(hidden > 0, within, 0.0), jnp.asarray(count))


def as_observed(X: Any, y: Any = None, weights: Any = None) -> Observed:
    """Rows that are prepared already, as they are; else those that `observe` prepares."""
    if isinstance(X, Observed):
        check(y is None and weights is None, "y", "left out where `X` holds prepared rows", "targets")
        return X
    return observe(X, y, weights)


def log_copies(variances: Float[Array, " n"], observed: Observed) -> Array:
    r"""$\sum_n \frac{1 - w_n}{2}\log 2\pi\sigma_n^2 - \frac12\log w_n - \frac{s_n}{2\sigma_n^2}$: the copies
    of a target about their mean, with $s_n$ their weighted squares about it.

    With it the evidence of a row of weight $w$ and noise $\sigma_n^2/w$ is that of the row $w$ times.
    """
    weights = observed.safe_weights()
    counted = observed.present & (weights != 1)
    safe = jnp.where(counted, variances, 1.0)
    copies = 0.5 * (1 - weights) * jnp.log(2 * jnp.pi * safe) - 0.5 * jnp.log(weights)
    return jnp.where(counted, copies - 0.5 * observed.within / safe, 0.0).sum()


def _merged(rows: np.ndarray, y: np.ndarray, weights: Any) -> tuple[np.ndarray, ...]:
    """Distinct rows in order, the mean of their targets, their weight, their squares about the mean."""
    counts = np.ones(len(y)) if weights is None else np.asarray(weights, float)
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    place = place.reshape(-1)
    total = np.bincount(place, counts)
    used = np.where(total > 0, total, 1.0)
    mean = np.bincount(place, counts * y) / used
    return distinct, mean, total, np.bincount(place, counts * (y - mean[place]) ** 2)
