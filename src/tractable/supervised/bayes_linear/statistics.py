r"""What rows say to a linear model: their count, means and one triangular factor, which add over rows.

Statistics.  $n = \sum_i w_i$, the means of the columns and of the target, and $F$ upper triangular with
             $F^\top F = \sum_i w_i (z_i - \bar z)(z_i - \bar z)^\top$ for $z_i = (\phi(x_i), y_i)$.
Addition.    $F$ of two parts is the factor of the rows $F_1$, $F_2$, $\sqrt{n_1 n_2/n}\,(\bar z_1 - \bar
             z_2)$, stacked. So streams, chunks and machines give the factor of all rows.
Numerics.    Householder QR errs column by column and never squares the condition number (tall chunks of
             columns far from dependent take the faster products): columns of scale $10^{12}$ and
             $10^{-12}$ go together, and a residual of $10^{-10}$ of the target has its digits.
Cost.        $2 n d^2$ operations in one pass, memory for one chunk; $O(d^3)$ for each sum.
References.  Bjorck (1996) section 2.4; Chan, Golub and LeVeque (1983); Demmel et al. (2012) for QR by parts.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.linalg.lapack import dpotrf as _potrf  # pyright: ignore[reportAttributeAccessIssue]

from tractable.core.checks import check, check_count, namespace
from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.supervised.basis import design_matrix
from tractable.supervised.linear.products import products_of

__all__ = ["Directions", "RegressionStatistics", "directions_of", "features", "regression_statistics"]

_CHUNK, _TALL, _APART = 16384, 4096, 0.05
_NEAR = 3.0  # standard deviations from zero up to which products about the origin lose less than a digit
# a column that varies by less than this share of its mean is constant: its variation is that of rounding
_CONSTANT = 16 * np.finfo(np.float64).eps


class Directions(NamedTuple):
    r"""A design $U\,\mathrm{diag}(\sigma)V^\top$ by its directions.

    `values` are $\sigma$ (zero where rounding would decide), `along` is $U^\top y$ there, `vectors` $V$, and
    `beside` the sum of squares of what of the target is left.
    """

    values: np.ndarray
    along: np.ndarray
    vectors: np.ndarray
    beside: float


class RegressionStatistics(Module):
    """The count, the means (of the columns, then of the target) and the factor of the centred rows.

    >>> parts = [regression_statistics([[1.0], [2.0]], [1.0, 2.0]), regression_statistics([[6.0]], [3.0])]
    >>> whole = parts[0] + parts[1]
    >>> float(whole.count), whole.mean.tolist()
    (3.0, [3.0, 2.0])
    """

    count: Scalar
    mean: Float[Array, " k"]
    factor: Float[Array, "k k"]

    @classmethod
    def none(cls, dim: int) -> "RegressionStatistics":
        """Those of no rows."""
        return _made(0.0, np.zeros(dim + 1), np.zeros((dim + 1, dim + 1)))

    @property
    def dim(self) -> int:
        """The number of columns, without the target."""
        return self.mean.shape[0] - 1

    def __add__(self, other: "RegressionStatistics") -> "RegressionStatistics":
        check(other.dim == self.dim, "other", f"statistics of {self.dim} columns", f"{other.dim} columns")
        first, second = (float(s.count) for s in (self, other))
        count = first + second
        if count == 0:
            return self
        gap = np.asarray(other.mean) - np.asarray(self.mean)
        between = np.sqrt(first * second / count) * gap
        stacked = np.vstack([np.asarray(self.factor), np.asarray(other.factor), between])
        return _made(count, np.asarray(self.mean) + gap * (second / count), _triangle(stacked))

    def triangle(self, intercept: bool) -> np.ndarray:
        """The factor of the rows about their means (with an intercept), or about the origin (without)."""
        if not intercept:
            shift = np.sqrt(float(self.count)) * np.asarray(self.mean)
            return _triangle(np.vstack([np.asarray(self.factor), shift]))
        return np.where(self._varies(), np.asarray(self.factor), 0.0)

    def scale(self, intercept: bool) -> np.ndarray:
        """The standard deviation of each column (root mean square without intercept); 1 if that is zero."""
        size = np.linalg.norm(self.triangle(intercept)[:, :-1], axis=0) / np.sqrt(
            max(float(self.count), 1e-300)
        )
        return np.where(size > 0, size, 1.0)

    def rows(self, intercept: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""$d + 1$ rows, targets and equal weights with these very statistics, for any weighted regression.

        About the means the weights sum to $n - 1$: the flat intercept, integrated out, has used one row.
        """
        triangle, count = self.triangle(intercept), self.degrees(intercept)
        size = len(triangle)
        grown = triangle * np.sqrt(size / count) if count > 0 else triangle
        return grown[:, :-1], grown[:, -1], np.full(size, count / size)

    def degrees(self, intercept: bool) -> float:
        r"""$n$, or $n - 1$ where a flat intercept is integrated out."""
        return max(float(self.count) - bool(intercept), 0.0)

    def target_scale(self, intercept: bool) -> float:
        """The standard deviation of the target (root mean square without intercept); 1 if that is zero."""
        size = np.linalg.norm(self.triangle(intercept)[:, -1]) / np.sqrt(float(self.count))
        return float(size) if size > 0 else 1.0

    def noise_floor(self) -> float:
        r"""The sum of squares that rounding leaves: targets are known to $\epsilon$ of their size.

        Targets that are all zero have no scale: theirs is taken to be one.
        """
        size = float(np.linalg.norm(self.triangle(False)[:, -1]))
        return (np.finfo(np.float64).eps * (size if size > 0 else 1.0)) ** 2

    def _varies(self) -> np.ndarray:
        spread = np.linalg.norm(np.asarray(self.factor), axis=0) / np.sqrt(max(float(self.count), 1e-300))
        return spread > _CONSTANT * np.abs(np.asarray(self.mean))


def regression_statistics(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    basis: Any = None,
    chunk_rows: int = _CHUNK,
) -> RegressionStatistics:
    """The statistics of rows (n, d), targets and weights, chunk by chunk; a weight of two is the row twice.

    `basis` (a callable of rows) is applied within each chunk, so that no design of all rows is in memory.
    """
    rows = Rows.of(X, y, weights, target="number", absent="keep", least=0)
    size = check_count("chunk_rows", chunk_rows)
    is_weighted = rows.is_weighted and not (rows.weights == 1).all()
    if basis is None and rows.num_rows >= _TALL:
        whole = _tall(rows.X, rows.y, rows.weights if is_weighted else None)
        if whole is not None:
            return whole
    cuts = (slice(start, start + size) for start in range(0, max(rows.num_rows, 1), size))
    return reduce(RegressionStatistics.__add__, (_one(rows.take(cut), basis, is_weighted) for cut in cuts))


def directions_of(design: np.ndarray, target: np.ndarray) -> Directions:
    """The directions of a design of at least as many rows as columns; those within rounding are given up."""
    left, values, right = np.linalg.svd(design, full_matrices=False)
    seen = values > values.max(initial=0.0) * 4 * len(design) * np.finfo(np.float64).eps
    along = np.where(seen, left.T @ target, 0.0)
    rest = target - left @ along  # squares of what is left, not a difference of large squares
    return Directions(np.where(seen, values, 0.0), along, right.T, float(rest @ rest))


def features(basis: Any, X: Any, dim: int | None = None) -> Any:
    """The design of rows: `basis(X)`, or the rows themselves, of `dim` columns. NumPy where there are
    values."""
    if basis is None:
        return points(X, dim)
    design = namespace(X).asarray(design_matrix(basis, X), np.float64)
    check(dim in (None, design.shape[1]), "X", f"rows that give {dim} features", f"shape {design.shape}")
    return design


def _one(rows: Rows, basis: Any, is_weighted: bool) -> RegressionStatistics:
    """One chunk: means first, then the factor of the centred rows."""
    design, weights, count = features(basis, rows), rows.weights, float(rows.total)
    if count == 0:
        return RegressionStatistics.none(design.shape[1])
    block = np.empty((rows.num_rows, design.shape[1] + 1))
    block[:, :-1], block[:, -1] = design, rows.y
    share = weights / count
    mean = share @ block
    block -= mean
    rest = share @ block  # what rounding left in the means of columns far from zero
    if is_weighted:
        block *= np.sqrt(weights)[:, None]
    upper = _by_products(block, rest, count) if len(block) >= _TALL else None
    if upper is None:
        block -= np.sqrt(weights)[:, None] * rest
        upper = _triangle(block)
    return _made(count, mean + rest, upper)


def _tall(rows: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> RegressionStatistics | None:
    """All rows at once, by products about the origin; None where that would cost digits."""
    found = products_of(rows, targets[:, None], weights)
    if found.count == 0 or not found.is_near(_NEAR):
        return None
    upper = _cholesky(found.centred)
    return None if upper is None else _made(found.count, found.mean, upper)


def _by_products(block: np.ndarray, rest: np.ndarray, count: float) -> np.ndarray | None:
    """The factor by Cholesky of the sums of products: three times faster for many rows, and used only where
    the columns are so far from dependent that no more than two digits are lost."""
    return _cholesky(block.T @ block - count * np.outer(rest, rest))


def _cholesky(products: np.ndarray) -> np.ndarray | None:
    """The upper factor of products about the means, unless columns are too near to dependent."""
    size = np.sqrt(np.diag(products))
    if not (size > 0).all():
        return None
    scaled, failed = _potrf(products / size[:, None] / size[None, :], clean=True)
    fine = failed == 0 and np.diag(scaled).min() > _APART
    return scaled * size[None, :] if fine else None


def _triangle(rows: np.ndarray) -> np.ndarray:
    """The upper-triangular factor of stacked rows, square whatever their number."""
    upper, size = np.asarray(np.linalg.qr(rows, mode="r")), rows.shape[1]
    return upper if len(upper) == size else np.vstack([upper, np.zeros((size - len(upper), size))])


def _made(count: float, mean: np.ndarray, factor: np.ndarray) -> RegressionStatistics:
    return RegressionStatistics(jnp.asarray(count, jnp.float64), jnp.asarray(mean), jnp.asarray(factor))
