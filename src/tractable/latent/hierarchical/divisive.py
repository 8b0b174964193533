r"""Divisive clustering: begin with one cluster and split, the widest first.

DIANA.       The row with the largest mean distance to the others of its cluster leaves; then, while there is
             one, the row that is on average most nearer to those that left than to those that stay,
             $\max_i \bar d(i, \text{stay}) - \bar d(i, \text{left}) > 0$. The height of a split is the
             diameter of what is split, $\max_{ij} d_{ij}$, which only shrinks from parent to child.
2-means.     The cluster with the largest sum of squares $\sum_i w_i\|x_i - \bar x\|^2$ is split by k-means
             with two centres, again and again. That sum is the height: it falls from parent to child too.
Order.       Splits in order of falling heights, read backwards, are merges in order of rising ones: the same
             tree type as of agglomerative methods.
Cost.        $O(m^2)$ for a split of $m$ rows: $O(n^2 \log n)$ for even splits, at worst $O(n^3)$.
References.  Macnaughton-Smith et al. (1964); Kaufman and Rousseeuw (1990) chapter 6; Steinbach, Karypis and
             Kumar (2000) (bisecting k-means).
"""

import heapq
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.dissimilarity import square_distances
from tractable.core.host_random import generator
from tractable.core.keys import as_key, takes_key
from tractable.core.progress import progress_bar
from tractable.core.rows import Rows
from tractable.core.types import Key
from tractable.latent.hierarchical.tree import ClusteringTree
from tractable.latent.kmeans.model import KMeans

__all__ = ["bisecting_kmeans", "diana"]

Split = tuple[int, int, int, float]  # the node that is split, its two parts, the height


def diana(X: Any, *, metric: str = "euclidean", progress: bool = True) -> ClusteringTree:
    """The tree of splitting off what is farthest from its own cluster, down to single rows.

    >>> diana([0.0, 1.0, 3.0, 7.0]).cut(2).tolist()
    [0, 0, 0, 1]
    """
    distances = square_distances(X, metric)
    count = len(distances)
    check(count <= 20_000, "X", "at most 20000 rows", count, "Use `agglomerate`, or fewer rows.")
    rows = {0: np.arange(count)}
    waiting, splits = [(-float(distances.max()), 0)] if count > 1 else [], []
    with progress_bar(count - 1, "Splitting clusters", progress=progress) as bar:
        while waiting:
            height, node = heapq.heappop(waiting)
            inside = rows.pop(node)
            leaves = _leaving(distances[np.ix_(inside, inside)])
            parts = inside[~leaves], inside[leaves]
            names = 2 * len(splits) + 1, 2 * len(splits) + 2
            splits.append((node, *names, -height))
            for name, part in zip(names, parts):
                rows[name] = part
                if len(part) > 1:
                    heapq.heappush(waiting, (-float(distances[np.ix_(part, part)].max()), name))
            bar.advance()
    return _tree(splits, rows, count, "diana")


@takes_key
def bisecting_kmeans(
    X: Any, num_clusters: int, *, key: Key, weights: Any = None, num_starts: int = 3, progress: bool = True
) -> ClusteringTree:
    """The tree of splitting the cluster with the largest sum of squares in two, up to `num_clusters` of them.

    Its leaves are clusters: `cut(k)` gives the rows of each for any smaller number, without another fit. Rows
    of weight zero are left out.

    >>> bisecting_kmeans([0.0, 1.0, 10.0, 11.0, 30.0], 3, key=0).cut(2).tolist()
    [0, 0, 0, 0, 1]
    """
    table = Rows.of(X, weights=weights)
    k = check_count("num_clusters", num_clusters, 1, table.num_rows)
    rows, splits = {0: np.arange(table.num_rows)}, []
    waiting = [(-_sum_of_squares(table), 0)]
    with progress_bar(k - 1, "Splitting clusters", progress=progress) as bar:
        while len(splits) < k - 1:
            height, node = heapq.heappop(waiting)
            inside = rows.pop(node)
            second = _halves(table.take(inside), generator(key, node), num_starts)
            names = 2 * len(splits) + 1, 2 * len(splits) + 2
            splits.append((node, *names, -height))
            for name, part in zip(names, (inside[~second], inside[second])):
                rows[name] = part
                if len(part) > 1:
                    heapq.heappush(waiting, (-_sum_of_squares(table.take(part)), name))
            bar.advance()
    return _tree(splits, rows, table.num_rows, "bisecting k-means")


def _halves(rows: Rows, numbers: np.random.Generator, num_starts: int) -> np.ndarray:
    """Which rows are in the second of two clusters; copies of one row are divided anywhere."""
    if np.ptp(rows.X, axis=0).max() == 0:
        return np.arange(rows.num_rows) >= rows.num_rows // 2
    seed = int(numbers.integers(2**31))
    options: dict[str, Any] = {"num_starts": num_starts, "tol": 0.0, "progress": False}
    labels = KMeans.fit(rows.X, 2, key=as_key(seed), weights=rows.weights, **options).labels
    second = labels != labels[0]
    return second if second.any() else np.arange(rows.num_rows) >= rows.num_rows // 2


def _sum_of_squares(rows: Rows) -> float:
    spread = rows.X - rows.weights @ rows.X / rows.total
    return float(rows.weights @ (spread**2).sum(1))


def _tree(splits: list[Split], rows: dict[int, np.ndarray], num_rows: int, method: str) -> ClusteringTree:
    """The tree of splits in the order in which they were made; `rows` are those of the parts that stayed."""
    leaves = sorted(rows, key=lambda node: int(rows[node].min()))
    number, members = {node: place for place, node in enumerate(leaves)}, np.zeros(num_rows, int)
    for node in leaves:
        members[rows[node]] = number[node]
    merges, heights = np.zeros((len(splits), 2), int), np.zeros(len(splits))
    for step, (parent, left, right, height) in enumerate(reversed(splits)):
        merges[step], heights[step] = sorted((number[left], number[right])), height
        number[parent] = len(leaves) + step
    return ClusteringTree(merges, heights, members, method)


def _leaving(distances: np.ndarray) -> np.ndarray:
    """Which rows of a cluster leave it."""
    staying = distances.sum(1)  # to those that stay
    gone, leaving = np.zeros(len(distances), bool), np.zeros(len(distances))
    move = int(staying.argmax())
    while True:
        gone[move] = True
        staying, leaving = staying - distances[move], leaving + distances[move]
        left = int(gone.sum())
        stay = len(distances) - left
        if stay == 1:
            return gone
        nearer = np.where(gone, -np.inf, staying / (stay - 1) - leaving / left)
        move = int(nearer.argmax())
        if nearer[move] <= 1e-12 * distances.max():  # rounding moves nothing
            return gone
