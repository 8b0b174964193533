r"""Divisive clustering: begin with one cluster and split, the widest first.

DIANA.       The row with the largest mean distance to the others of its cluster leaves; then, while there is
             one, the row that is on average most nearer to those that left than to those that stay,
             $\max_i \bar d(i, \text{stay}) - \bar d(i, \text{left}) > 0$. The height of a split is the
             diameter of what is split, $\max_{ij} d_{ij}$, which only shrinks from parent to child.
Order.       Splits in order of falling heights, read backwards, are merges in order of rising ones: the same
             tree type as of agglomerative methods.
Cost.        $O(m^2)$ for a split of $m$ rows: $O(n^2 \log n)$ for even splits, at worst $O(n^3)$.
References.  Macnaughton-Smith et al. (1964); Kaufman and Rousseeuw (1990) chapter 6.
"""

import heapq
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.dissimilarity import square_distances
from tractable.core.progress import progress_bar
from tractable.latent.hierarchical.tree import ClusteringTree

__all__ = ["diana", "tree_of_splits"]

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
    return tree_of_splits(splits, rows, count, "diana")


def tree_of_splits(
    splits: list[Split], rows: dict[int, np.ndarray], num_rows: int, method: str
) -> ClusteringTree:
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
