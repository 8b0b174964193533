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

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, has_values, to_device
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.module import Module
from tractable.core.rows import Rows
from tractable.core.types import Array, Float, Int

__all__ = ["Observed", "Table", "log_copies", "matrix_size", "observe", "rowwise"]

Table = Any  # arrays, lists, data frames, or `Rows`, which are not checked again; for a fit also `Observed`

_LEAST = 64  # rows: a factor of fewer takes no less time
_FINE = 512  # rows: above, a factor takes longer than a few programs more
_BLOCK = 4096  # new rows that go through a model at once


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

    def unpadded(self, answers: Any) -> Any:
        """Answers for the rows alone, without those for padding."""
        return jax.tree.map(lambda leaf: to_device(np.asarray(leaf)[: self.num_rows]), answers)

    def take(self, places: np.ndarray) -> "Observed":
        """The rows at these places, with what they were merged from; nothing is checked again."""
        parts = (self.X, self.y, self.weights, self.within)
        return _padded([np.asarray(part)[places] for part in parts], matrix_size)


def matrix_size(num_rows: int) -> int:
    """The number of rows to which a matrix of `num_rows` rows is padded before it is factorised.

    >>> [matrix_size(n) for n in (5, 200, 513, 1100, 2000, 2049)]
    [64, 256, 576, 1152, 2048, 2304]
    """
    if num_rows <= _FINE:
        return max(_LEAST, bucket_size(num_rows))
    step = 1 << ((num_rows - 1).bit_length() - 4)
    return -(-num_rows // step) * step


def observe(
    X: Table, y: Any = None, weights: Any = None, *, target: str = "number", num_columns: int | None = None,
    size: Callable[[int], int] = matrix_size, merge: bool = False,
) -> Observed:  # fmt: skip
    """Rows, targets and weights, checked once (`core.rows`) and padded to `size`; with `merge`, rows that
    repeat become one. What is `Observed` comes back as it is.
    """
    if isinstance(X, Observed):
        check(y is None and weights is None, "y", "left out where `X` holds prepared rows", "targets")
        return X
    rows = Rows.of(X, y, weights, target=target, num_columns=num_columns, absent="keep")
    none = np.zeros(rows.num_rows, rows.X.dtype)
    return _padded(_merged(rows) if merge else [rows.X, rows.y.astype(none.dtype), rows.weights, none], size)


def rowwise(function: Callable[[Any, Array], Any], model: Any, X: Table, dim: int, most: int = _BLOCK) -> Any:
    """`function(model, rows)`, whose answers have the rows as their first axis, in blocks of one size, at
    `most` so many: any number of new rows, bounded memory, no new programs.
    """
    rows = Rows.of(X, num_columns=dim).X
    if not has_values((model, rows)):
        return function(model, rows)
    size = min(max(bucket_size(len(rows)), _LEAST), most)
    blocks = [pad_rows(rows[i : i + size], size=size)[0] for i in range(0, len(rows), size)]
    answers = [function(model, block) for block in blocks]
    joined = jax.tree.map(lambda *parts: np.concatenate([np.asarray(p) for p in parts]), *answers)
    return jax.tree.map(lambda leaf: to_device(leaf[: len(rows)]), joined)


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


def _padded(parts: list[Any], size: Callable[[int], int]) -> Observed:
    rows, y, weights, within = parts
    (X, y, within), counts = pad_rows((rows, y, within), weights, size=size(len(rows)))
    return Observed(X, y, counts, jnp.where(counts > 0, within, 0.0), to_device(np.asarray(len(rows))))


def _merged(rows: Rows) -> list[np.ndarray]:
    """Distinct rows in order, the mean of their targets, their weight, their squares about the mean."""
    X, y, counts = (np.asarray(part) for part in rows)
    distinct, place = np.unique(X, axis=0, return_inverse=True)
    place = place.reshape(-1)
    total = np.bincount(place, counts)
    mean = np.bincount(place, counts * y) / np.where(total > 0, total, 1.0)
    return [distinct, mean, total, np.bincount(place, counts * (y - mean[place]) ** 2)]
