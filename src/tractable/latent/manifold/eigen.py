r"""Few eigenpairs of large symmetric matrices: dense where they are small, by Lanczos where they are not.

Largest.     Of a dense matrix, by products with it.
Smallest.    Of a sparse positive semi-definite $M$ whose null vector $u$ is known: the largest of
             $P (M + \delta I)^{-1} P$ with $P = I - u u^\top$, from one sparse factor. Taking $u$ out first
             keeps it from mixing with eigenvectors of nearly the same eigenvalue.
Signs.       The entry of largest size is positive, so that the answer does not depend on the method.
Cost.        $O(n^3)$ dense up to 500 rows; else one product or solve per step, some tens of steps.
References.  Lehoucq, Sorensen and Yang (1998) (ARPACK).
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check_count

__all__ = ["largest_eigenpairs", "least_eigenvalue", "signs_of", "smallest_eigenpairs"]

_DENSE = 500  # rows up to which all eigenpairs take less time than a few
_LOOSE: dict[str, Any] = {"tol": 1e-6}  # enough to see whether an eigenvalue is negative
_SHIFT = 1e-11  # of the mean of the diagonal


def largest_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` largest eigenvalues, the largest first, and their vectors as columns.

    >>> largest_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)[0].tolist()
    [3.0, 2.0]
    """
    size = len(matrix)
    count = check_count("count", count, 1, size)
    with one_blas_thread(size <= 2000):
        if size <= _DENSE or 4 * count > size:
            values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(size - count, size - 1))
        else:
            values, vectors = scipy.sparse.linalg.eigsh(matrix, count, which="LA", v0=_start(size))
    order = np.argsort(values)[::-1]
    return values[order], _signed(vectors[:, order])


def least_eigenvalue(matrix: np.ndarray) -> float:
    """The smallest eigenvalue of a symmetric matrix."""
    size = len(matrix)
    with one_blas_thread(size <= 2000):
        if size <= _DENSE:
            return float(scipy.linalg.eigh(matrix, eigvals_only=True, subset_by_index=(0, 0))[0])
        found = scipy.sparse.linalg.eigsh(
            matrix, 1, which="SA", v0=_start(size), return_eigenvectors=False, **_LOOSE
        )
    return float(found[0])


def smallest_eigenpairs(matrix: Any, count: int, null: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The `count` smallest eigenvalues of a sparse semi-definite matrix beside that of `null`, with vectors.

    >>> path = scipy.sparse.csr_array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    >>> smallest_eigenpairs(path, 2, np.ones(3))[0].round(12).tolist()
    [1.0, 3.0]
    """
    size = matrix.shape[0]
    count = check_count("count", count, 1, size - 1)
    unit = null / np.linalg.norm(null)
    if size <= _DENSE or 4 * count > size:
        dense = matrix.toarray()
        away = dense + (2 * np.abs(dense).sum(1).max()) * np.outer(unit, unit)  # above all other eigenvalues
        with one_blas_thread(size <= 2000):
            _, vectors = scipy.linalg.eigh(away, subset_by_index=(0, count - 1))
    else:
        vectors = _by_inverse(matrix, count, unit)
    values = np.einsum("ij,ij->j", vectors, matrix @ vectors)  # more digits than the inverse of an inverse
    order = np.argsort(values, kind="stable")
    return values[order], _signed(vectors[:, order])


def _by_inverse(matrix: Any, count: int, unit: np.ndarray) -> np.ndarray:
    size = matrix.shape[0]
    shift = _SHIFT * matrix.diagonal().mean()
    shifted = scipy.sparse.csc_matrix(matrix + shift * scipy.sparse.eye_array(size))
    options = {"SymmetricMode": True}
    factor = scipy.sparse.linalg.splu(
        shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
    )

    def inverse(vector: np.ndarray) -> np.ndarray:
        vector = vector.reshape(-1)
        solved = factor.solve(vector - unit * (unit @ vector))
        return solved - unit * (unit @ solved)

    kinds: dict[str, Any] = {"shape": (size, size), "matvec": inverse, "dtype": np.dtype(float)}
    operator = scipy.sparse.linalg.LinearOperator(**kinds)
    start = _start(size)
    _, vectors = scipy.sparse.linalg.eigsh(
        operator, count, which="LA", v0=start - unit * (unit @ start), ncv=min(size, max(2 * count + 1, 20))
    )
    vectors = vectors - np.outer(unit, unit @ vectors)
    return vectors / np.linalg.norm(vectors, axis=0)


def _start(size: int) -> np.ndarray:
    """A first vector without symmetry, the same in every process."""
    return np.arange(1, size + 1) * 0.6180339887498949 % 1.0 - 0.4


def signs_of(vectors: np.ndarray) -> np.ndarray:
    """The sign of each column's entry of largest size; of (nearly) equal sizes the first counts."""
    sizes = np.abs(vectors)
    first = (sizes >= (1 - 1e-6) * sizes.max(0)).argmax(0)
    return np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _signed(vectors: np.ndarray) -> np.ndarray:
    return vectors * signs_of(vectors)
