r"""Sparse principal components: directions of many zeros, at a small loss of variance.

Problem.     $\min_{A, B}\ \mathrm{tr}\,\Sigma - 2\,\mathrm{tr}(A^\top\Sigma B) + \mathrm{tr}(B^\top(\Sigma +
             \rho I)B) + \lambda\sum_{ij}|b_{ij}|$ with $A^\top A = I$; at $\lambda = 0$ the columns of $B$
             are multiples of the principal directions.
Steps.       $A = UV^\top$ from the SVD of $\Sigma B$; then each row of $B$ in turn by soft thresholds, of all
             directions at once. Each is a minimum in its block, so the objective never rises.
Variance.    Directions overlap: what each adds is the square of the diagonal of a Cholesky factor of
             $B^\top\Sigma B$ for columns of unit length.
Cost.        $O(d^2 k)$ a sweep, from the covariance alone.
References.  Zou, Hastie and Tibshirani (2006).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.chunks import Chunks
from tractable.core.iterate import Ended, Status, is_close
from tractable.core.module import Module, field
from tractable.core.moments import Moments, moments_of_chunks
from tractable.core.rows import Rows, points
from tractable.core.types import Values
from tractable.latent.factor.principal import moments_from
from tractable.latent.factor.solvers import by_eigen, signed

__all__ = ["SparseComponents"]


class SparseComponents(Ended, Module):
    """Directions of unit length (rows of `components`) with many zeros; `variances` are what each adds."""

    mean: Values = field(show=False)
    components: Values = field(show=False)
    variances: Values
    total_variance: Any
    trace: Values = field(show=False)
    num_steps: Any
    code: Any = field(show=False)

    @classmethod
    def fit(
        cls, X: Any, num_components: int, *, penalty: float | int, ridge: float | int = 1e-6,
        weights: Any = None, max_steps: int = 1000, tol: float | int = 1e-9,
    ) -> "SparseComponents":  # fmt: skip
        """The directions of rows, `Chunks` or `Moments`. `penalty` and `ridge` are in units of the mean
        variance of a column; a direction that the penalty empties is zero.

        >>> rows = np.random.default_rng(0).normal(size=(500, 4)) @ np.diag([3.0, 2.0, 1.0, 1.0])
        >>> (SparseComponents.fit(rows, 2, penalty=0.5).components != 0).sum(1).tolist()
        [1, 1]
        """
        if isinstance(X, Moments):
            moments = X
        else:
            moments = (
                moments_of_chunks(X) if isinstance(X, Chunks) else moments_from(Rows.of(X, None, weights))
            )
        k = check_count("num_components", num_components, 1, moments.dim)
        check(penalty >= 0 and ridge >= 0, "penalty", "zero or positive, as `ridge`", (penalty, ridge))
        cov = moments.cov()
        unit = float(np.trace(cov)) / len(cov) or 1.0
        found, trace, code = _alternate(cov / unit, k, float(penalty), float(ridge), max_steps, tol)
        length = np.linalg.norm(found, axis=0)
        directions = signed((found / np.where(length > 0, length, 1.0)).T)
        gram = directions @ cov @ directions.T
        order = np.argsort(-np.diag(gram), kind="stable")
        added = _added(gram[np.ix_(order, order)])
        numbers = np.asarray(np.trace(cov)), np.array(trace), len(trace), np.asarray(int(code))
        return cls(moments.mean, directions[order], added, *numbers)

    @property
    def explained_ratio(self) -> Values:
        """The share of the variance that each direction adds."""
        return self.variances / self.total_variance

    def transform(self, X: Any) -> Values:
        """The coordinates of each row along the directions, which need not be orthogonal."""
        return (points(X, self.mean.shape[0]) - self.mean[None]) @ self.components.T


def _alternate(
    cov: np.ndarray, k: int, penalty: float | int, ridge: float | int, max_steps: int, tol: float
) -> tuple[np.ndarray, list, Status]:
    b = by_eigen(cov, k).components.T.copy()
    trace = [np.inf]
    for _ in range(max_steps):
        left, _, right = np.linalg.svd(cov @ b, full_matrices=False)
        a = left @ right
        target, image = cov @ a, cov @ b
        for j in range(len(cov)):
            size = cov[j, j]
            rest = target[j] - image[j] + size * b[j]
            new = np.sign(rest) * np.maximum(np.abs(rest) - penalty / 2, 0.0) / (size + ridge or 1.0)
            if (new != b[j]).any():
                image += np.outer(cov[:, j], new - b[j])
                b[j] = new
        value = np.trace(cov) - 2 * (target * b).sum() + (b * image).sum()
        trace.append(float(value + ridge * (b**2).sum() + penalty * np.abs(b).sum()))
        if is_close(trace[-1], trace[-2], tol):
            return b, trace[1:], Status.converged
    return b, trace[1:], Status.exhausted


def _added(gram: np.ndarray) -> np.ndarray:
    """What each direction adds to the variance that those before it explain."""
    left, added = gram.copy(), []
    for j in range(len(gram)):
        size = left[j, j]
        added.append(max(size, 0.0))
        if size > 1e-14 * gram[j, j] and size > 0:
            left = left - np.outer(left[:, j], left[j]) / size
    return np.array(added)
