r"""How well an embedding keeps distances: stress, strain, and ranks of neighbours.

Stress.      Raw $\sum_{i<j} w_{ij}(\delta_{ij} - d_{ij})^2$; Kruskal's first kind
             $\sqrt{\sum w (\delta - d)^2 / \sum w d^2}$; of squares $\|D - D^*\|_F^2$ for squared distances.
Strain.      $\|G - G^*\|_F^2$ of centred Gram matrices. It is $\frac14\|P(D - D^*)P\|_F^2 \le \frac14
             \|D - D^*\|_F^2$: classical scaling minimises the left side, not the right.
Neighbours.  With $r(i, j)$ the rank of $j$ among the neighbours of $i$ in the data, trustworthiness is
             $1 - \frac{2}{nk(2n - 3k - 1)}\sum_i\sum_{j \in U_i}(r(i, j) - k)$ over the $j$ that are among
             the $k$ nearest of the embedding alone: no false neighbours. Continuity exchanges the two.
Cost.        $O(n^2 d)$; ranks $O(n^2 \log n)$.
References.  Kruskal (1964); Venna and Kaski (2001).
"""

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from tractable.core.checks import check, check_count
from tractable.core.dissimilarity import condensed_distances, square_distances
from tractable.core.rows import points
from tractable.latent.manifold.gram import double_centred

__all__ = ["continuity", "kruskal_stress", "squared_stress", "strain", "stress", "trustworthiness"]


def stress(X: Any, embedding: Any, *, metric: str = "euclidean", weights: Any = None) -> float:
    r"""$\sum_{i<j} w_{ij} (\delta_{ij} - d_{ij})^2$; `weights` are a symmetric table, one where left out.

    >>> stress([0.0, 1.0, 3.0], [0.0, 1.0, 2.0])
    2.0
    """
    given, found = _both(X, embedding, metric)
    return float((_pair_weights(weights, given) * (given - found) ** 2).sum())


def kruskal_stress(X: Any, embedding: Any, *, metric: str = "euclidean", weights: Any = None) -> float:
    r"""$\sqrt{\sum w (\delta - d)^2 / \sum w d^2}$: 0.05 is good, 0.2 poor."""
    given, found = _both(X, embedding, metric)
    pairs = _pair_weights(weights, given)
    total = float((pairs * found**2).sum())
    check(total > 0, "embedding", "of points that are not all equal", "one point")
    return float(np.sqrt((pairs * (given - found) ** 2).sum() / total))


def squared_stress(X: Any, embedding: Any, *, metric: str = "euclidean") -> float:
    r"""$\|D - D^*\|_F^2$ of squared distances, over ordered pairs."""
    given, found = _both(X, embedding, metric)
    return float(2 * ((given**2 - found**2) ** 2).sum())


def strain(X: Any, embedding: Any, *, metric: str = "euclidean") -> float:
    r"""$\|G - G^*\|_F^2$ of centred Gram matrices.

    >>> strain([0.0, 1.0, 3.0], [0.0, 1.0, 3.0])
    0.0
    """
    given, found = _both(X, embedding, metric)
    return float((double_centred(squareform(given**2 - found**2, checks=False)) ** 2).sum())


def trustworthiness(X: Any, embedding: Any, num_neighbours: int = 5, *, metric: str = "euclidean") -> float:
    """One where the neighbours in the embedding are neighbours in the data, zero at worst.

    >>> trustworthiness([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 9.0], 1)
    1.0
    """
    return _kept(square_distances(X, metric), square_distances(embedding, name="embedding"), num_neighbours)


def continuity(X: Any, embedding: Any, num_neighbours: int = 5, *, metric: str = "euclidean") -> float:
    """One where the neighbours in the data are neighbours in the embedding, zero at worst."""
    return _kept(square_distances(embedding, name="embedding"), square_distances(X, metric), num_neighbours)


def _kept(true: np.ndarray, shown: np.ndarray, num_neighbours: int) -> float:
    count = len(true)
    check(len(shown) == count, "embedding", f"as long as `X` ({count})", len(shown))
    k = check_count("num_neighbours", num_neighbours, 1, max((count - 1) // 2, 1))
    check(2 * k < count, "num_neighbours", f"below half the number of rows ({count})", k)
    own = np.eye(count, dtype=bool)
    order = np.where(own, -1.0, true).argsort(1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(count)[None], 1)  # itself has rank zero
    near = np.where(own, -1.0, shown).argsort(1, kind="stable")[:, 1 : k + 1]
    beyond = np.maximum(np.take_along_axis(ranks, near, 1) - k, 0).sum()
    return float(1 - beyond * 2 / (count * k * (2 * count - 3 * k - 1)))


def _both(X: Any, embedding: Any, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Condensed distances in the data and in the embedding."""
    given, found = condensed_distances(X, metric), pdist(points(embedding, name="embedding"))
    same = len(given) == len(found)
    check(same, "embedding", f"of rows with {len(given)} pairs, like `X`", f"{len(found)} pairs")
    return given, found


def _pair_weights(weights: Any, given: np.ndarray) -> np.ndarray:
    if weights is None:
        return np.ones(len(given))
    table = np.asarray(weights, float)
    pairs = squareform(table, checks=False) if table.ndim == 2 else table
    check(len(pairs) == len(given), "weights", f"a table of {len(given)} pairs", f"shape {table.shape}")
    return pairs
