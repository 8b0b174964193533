r"""Gram matrices: inner products, squared distances, and the points behind them.

Gram.        $G_{ij} = x_i^\top x_j$, of rank at most $\min(n, d)$, positive semi-definite.
Points.      Any semi-definite $K = Q\Lambda Q^\top$ of rank $r$ is the Gram matrix of the rows of
             $Q_p\Lambda_p^{1/2}$ for $p \ge r$; for $p < r$ this is the best semi-definite approximation of
             rank $p$, and $\|K - K_p\|_F^2 = \sum_{i > p} \lambda_i^2$.
Centring.    With squared distances $D$ and $P = I - \mathbf 1 m^\top$, $m$ the shares of the rows ($1/n$):
             $-\frac12 P D P^\top$ is the Gram matrix of $x_i - \bar x$.
Cost.        $O(n^2)$ to centre, $O(n^3)$ or Lanczos for eigenpairs.
References.  Young and Householder (1938); Torgerson (1952); Gower (1966).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_finite
from tractable.core.module import Module, field
from tractable.core.rows import points
from tractable.latent.manifold.eigen import largest_eigenpairs, least_eigenvalue

__all__ = ["RankApproximation", "approximate_rank", "double_centred", "gram_matrix", "realise"]

_ROUNDING = 1e-9  # of the largest eigenvalue: below it a negative one is rounding


class RankApproximation(Module):
    r"""$K_p = Y Y^\top$, the semi-definite matrix of rank $p$ nearest to a symmetric $K$."""

    points: np.ndarray = field(about="a row for each row of the matrix")
    eigenvalues: np.ndarray = field(about="the p largest, zero where they are negative")
    residual: float = field(about="squared distance to the matrix, the sum of discarded squares")

    @property
    def matrix(self) -> np.ndarray:
        return self.points @ self.points.T


def gram_matrix(X: Any) -> np.ndarray:
    r"""$G_{ij} = x_i^\top x_j$.

    >>> np.linalg.matrix_rank(gram_matrix([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).item()
    2
    """
    rows = points(X)
    return rows @ rows.T


def double_centred(squared: Any, shares: np.ndarray | None = None) -> np.ndarray:
    r"""$-\frac12 P D P^\top$ of squared distances; `shares` of the rows sum to one.

    >>> double_centred([[0.0, 4.0], [4.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    table = _symmetric("squared", squared)
    shares = np.full(len(table), 1 / len(table)) if shares is None else shares
    means = table @ shares
    centred = (means[:, None] + means - shares @ means - table) / 2
    return (centred + centred.T) / 2


def approximate_rank(matrix: Any, rank: int) -> RankApproximation:
    """The nearest positive semi-definite matrix of at most this rank.

    >>> approximate_rank([[2.0, 0.0], [0.0, -1.0]], 2).matrix.round(9).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    table = _symmetric("matrix", matrix)
    values, vectors = largest_eigenpairs(table, check_count("rank", rank, 1, len(table)))
    kept = np.maximum(values, 0.0)
    residual = max(float((table**2).sum() - (kept**2).sum()), 0.0)
    return RankApproximation(vectors * np.sqrt(kept), kept, residual)


def realise(gram: Any, dim: int | None = None) -> np.ndarray:
    """Points, one for each row, whose Gram matrix is `gram`, in `dim` dimensions (by default its rank).

    >>> y = realise([[1.0, 1.0], [1.0, 1.0]])
    >>> y.shape, (y @ y.T).round(12).tolist()
    ((2, 1), [[1.0, 1.0], [1.0, 1.0]])
    """
    table = _symmetric("gram", gram)
    values, vectors = largest_eigenpairs(table, len(table))
    top = max(float(values[0]), 0.0)
    least = float(values[-1])
    fix = "For the nearest one that is, use `approximate_rank`."
    check(least >= -_ROUNDING * top, "gram", "positive semi-definite", f"eigenvalue {least:g}", fix)
    rank = int((values > _ROUNDING * top).sum())
    dim = max(rank, 1) if dim is None else check_count("dim", dim)
    check(dim >= rank, "dim", f"at least the rank of `gram` ({rank})", dim, fix)
    kept = min(dim, len(table))
    found = np.zeros((len(table), dim))
    found[:, :kept] = vectors[:, :kept] * np.sqrt(np.maximum(values[:kept], 0.0))
    return found


def is_semidefinite(matrix: np.ndarray, largest: float) -> tuple[bool, float]:
    """Whether no eigenvalue is negative beyond rounding, and the least of them."""
    least = least_eigenvalue(matrix)
    return least >= -_ROUNDING * max(largest, 0.0), least


def _symmetric(name: str, matrix: Any) -> np.ndarray:
    table = np.asarray(matrix, float)
    square = table.ndim == 2 and table.shape[0] == table.shape[1] and table.size > 0
    check(square, name, "a square matrix", f"shape {table.shape}")
    check_finite(name, table)
    skew = float(np.abs(table - table.T).max())
    check(skew <= 1e-9 * np.abs(table).max(), name, "symmetric", f"entries that differ by {skew:g}")
    return (table + table.T) / 2
