r"""Locally linear embedding: rows as sums of their neighbours, there and here.

Weights.     $\min \|x_i - \sum_j w_{ij} x_j\|^2$ over neighbours $j$ with $\sum_j w_{ij} = 1$: with
             $K_{jj'} = (x_i - x_j)^\top(x_i - x_{j'})$,
             $w = K^{-1}\mathbf 1/(\mathbf 1^\top K^{-1}\mathbf 1)$. With more neighbours than dimensions $K$
             is singular, and $K + \epsilon\,\mathrm{tr}(K) I$ takes its place: of all perfect weights nearly
             the shortest.
Embedding.   $\min \sum_i \|y_i - \sum_j w_{ij} y_j\|^2 = \mathrm{tr}(Y^\top M Y)$ with
             $M = (I - W)^\top(I - W)$, subject to $\sum_i y_i = 0$ and $\frac1n\sum_i y_i y_i^\top = I$:
             $\sqrt n$ times the eigenvectors $2, \dots, p + 1$ of $M$; the first is constant, as
             $M\mathbf 1 = 0$.
New rows.    The same weights over their neighbours, applied to the places of these; a copy of a row has its
             place.
Cost.        Neighbours, $O(nk^2(d + k))$ for weights, one sparse factor of $M$.
References.  Roweis and Saul (2000); Saul and Roweis (2003).
"""

from typing import Any

import numpy as np
import scipy.sparse

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, field
from tractable.core.neighbours import nearest
from tractable.core.rows import Rows
from tractable.core.verdict import Verdict
from tractable.latent.manifold.eigen import smallest_eigenpairs
from tractable.latent.manifold.graph import at_rows, gap_verdict, joined_graph

__all__ = ["LinearPatches", "alignment_matrix", "locally_linear_embedding", "reconstruction_weights"]

_CELLS = 4_000_000  # numbers of differences in memory at a time


class LinearPatches(HostResult):
    """Places that keep every row the same sum of its neighbours; `transform` places new rows so too."""

    points: np.ndarray
    eigenvalues: np.ndarray = field(about="what the coordinates lose of the sums")
    next_eigenvalue: float = field(about="the first that is left out")
    error: float = field(about="share of the variance of rows that their neighbours do not tell")
    num_neighbours: int = field(static=True)
    regularisation: float = field(static=True)
    rows: np.ndarray = field(show=False)
    indices: np.ndarray = field(show=False)  # of the neighbours of each row
    weights: np.ndarray = field(show=False)

    @property
    def verdict(self) -> Verdict:
        """Whether the coordinates are set apart from those left out."""
        return gap_verdict(self.eigenvalues, self.next_eigenvalue)

    def transform(self, X: Any) -> np.ndarray:
        """The places of new rows."""
        new = Rows.of(X, num_columns=self.rows.shape[1]).X
        found = nearest(self.rows, new, self.num_neighbours)
        weights = reconstruction_weights(new, self.rows, found.indices, self.regularisation)
        places = np.einsum("ij,ijk->ik", weights, self.points[found.indices])
        return at_rows(places, found, self.points)


def locally_linear_embedding(
    X: Any, dim: int = 2, num_neighbours: int | None = None, *, regularisation: float = 1e-3
) -> LinearPatches:
    r"""Places in `dim` dimensions, centred with unit covariance, in which rows are sums of their neighbours.

    `regularisation` is $\epsilon$, the share of the trace that is added to the diagonal of $K$.

    >>> spiral = np.linspace(1, 3, 40)
    >>> found = locally_linear_embedding(np.c_[np.cos(spiral), np.sin(spiral), spiral], 1, 4).points[:, 0]
    >>> bool((np.diff(found) > 0).all() or (np.diff(found) < 0).all())
    True
    """
    rows = Rows.of(X, least=3)
    dim = check_count("dim", dim, 1, rows.num_rows - 2)
    check(regularisation > 0, "regularisation", "positive", regularisation)
    graph, num_neighbours = joined_graph(rows, num_neighbours, "directed")
    indices = graph.indices.reshape(rows.num_rows, -1)
    weights = reconstruction_weights(rows.X, rows.X, indices, regularisation)
    values, vectors = smallest_eigenpairs(alignment_matrix(indices, weights), dim + 1, np.ones(rows.num_rows))
    places = vectors[:, :dim] * np.sqrt(rows.num_rows)
    missed = rows.X - np.einsum("ij,ijk->ik", weights, rows.X[indices])
    total = float(((rows.X - rows.X.mean(0)) ** 2).sum())
    error = float((missed**2).sum()) / total if total > 0 else 0.0
    return LinearPatches(
        places, values[:dim], float(values[dim]), error, num_neighbours, regularisation, rows.X, indices,
        weights,
    )  # fmt: skip


def reconstruction_weights(
    points: np.ndarray, rows: np.ndarray, indices: np.ndarray, regularisation: float = 1e-3
) -> np.ndarray:
    """Weights, summing to one, of the rows at `indices` whose sum is nearest to each point.

    >>> reconstruction_weights(np.zeros((1, 1)), np.array([[-1.0], [1.0]]), np.array([[0, 1]])).tolist()
    [[0.5, 0.5]]
    """
    count, k = indices.shape
    found = np.empty((count, k))
    size = max(1, _CELLS // (k * max(k, rows.shape[1])))
    with one_blas_thread():
        for low in range(0, count, size):
            part = slice(low, low + size)
            apart = rows[indices[part]] - points[part, None]
            widest = np.abs(apart).max((1, 2), keepdims=True)
            apart = apart / np.where(widest > 0, widest, 1.0)  # so that squares neither overflow nor vanish
            products = apart @ apart.transpose(0, 2, 1)
            trace = np.einsum("ijj->i", products)
            products += np.where(trace > 0, regularisation * trace, 1.0)[:, None, None] * np.eye(k)
            solved = np.linalg.solve(products, np.ones((len(products), k, 1)))[..., 0]
            found[part] = solved / solved.sum(1, keepdims=True)
    return found


def alignment_matrix(indices: np.ndarray, weights: np.ndarray) -> Any:
    r"""$M = (I - W)^\top(I - W)$, sparse: $\delta_{ij} - w_{ij} - w_{ji} + \sum_k w_{ki}w_{kj}$.

    >>> alignment_matrix(np.array([[1], [0]]), np.ones((2, 1))).toarray().tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    count, k = indices.shape
    shape = count, count
    linked = scipy.sparse.csr_array(
        (weights.ravel(), indices.ravel(), np.arange(0, count * k + 1, k)), shape=shape
    )
    away = scipy.sparse.eye_array(count, format="csr") - linked
    return (away.T @ away).tocsr()
