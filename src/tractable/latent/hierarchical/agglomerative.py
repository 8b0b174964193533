r"""Agglomerative clustering: join the two closest clusters until one is left.

Linkages.    Between clusters $A, B$: single $\min d(a, b)$, complete $\max d(a, b)$, average
             $\frac{1}{|A||B|}\sum d(a, b)$, centroid $\|\bar a - \bar b\|$, Ward
             $\sqrt{\tfrac{2|A||B|}{|A|+|B|}}\,\|\bar a - \bar b\|$, and Hausdorff
             $\max(\max_a\min_b d(a, b), \max_b\min_a d(a, b))$.
Update.      All but the last follow from the distances before the merge (Lance and Williams), in squares for
             centroid and Ward. Hausdorff keeps $m(x, A) = \min_a d(x, a)$ of points and clusters, with
             $m(x, A \cup B) = \min(m(x, A), m(x, B))$.
Weights.     $|A|$ is a sum of weights: the tree is that of the repeated rows, whose copies join at height 0.
             Single, complete and Hausdorff linkage do not count rows.
Cost.        $O(n^2)$ time and memory; SciPy's compiled linkage where rows have no weights, elsewhere each
             cluster remembers its nearest one (about $O(n^2)$, at worst $O(n^3)$).
References.  Lance and Williams (1967); Mullner (2011); Basalto et al. (2008) (Hausdorff).
"""

from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from tractable.core.checks import check, check_option
from tractable.core.dissimilarity import METRICS, condensed_distances
from tractable.core.progress import track
from tractable.core.rows import Rows, row_weights
from tractable.latent.hierarchical.tree import ClusteringTree

__all__ = ["LINKAGES", "agglomerate"]

LINKAGES = ("single", "complete", "average", "ward", "centroid", "hausdorff")
_SQUARED = ("ward", "centroid")
_MOST = 50_000  # rows, whose distances take 10 GB


def agglomerate(
    X: Any,
    linkage: str = "average",
    *,
    metric: str = "euclidean",
    weights: Any = None,
    optimal_order: bool = False,
    progress: bool = True,
) -> ClusteringTree:
    """The tree of joining the closest clusters, of rows or (`metric="precomputed"`) of a table of distances.

    Ward and centroid linkage speak of means: they take Euclidean distances. A row of weight two is the row
    twice, one of weight zero is no leaf. `optimal_order` turns branches so that neighbours on the picture
    are close (cubic time).

    >>> agglomerate([0.0, 1.0, 3.0, 7.0], "complete").heights.tolist()
    [1.0, 3.0, 7.0]
    """
    check_option("linkage", linkage, LINKAGES)
    check_option("metric", metric, METRICS)
    means = linkage not in _SQUARED or metric in ("euclidean", "precomputed")
    check(means, "metric", f"'euclidean' for {linkage} linkage, which compares means", repr(metric))
    distances, counts = _pairs(X, metric, weights)
    if linkage in ("single", "complete") or (counts is None and linkage != "hausdorff"):
        merges, heights = _by_scipy(distances, linkage)
    else:
        square = squareform(distances, checks=False)
        counts = np.ones(len(square)) if counts is None else counts
        merges, heights = _closest_pairs(square, counts, linkage, progress)
    tree = ClusteringTree(merges, heights, np.arange(len(heights) + 1), linkage)
    return tree.ordered(distances, "precomputed") if optimal_order else tree


def _pairs(X: Any, metric: str, weights: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Condensed distances, and the weights of rows where they are not all one."""
    rows = X if metric == "precomputed" else Rows.of(X, weights=weights)
    if isinstance(rows, Rows):
        fix = "Join rows to a few thousand centres first, and the centres with their weights."
        check(rows.num_rows <= _MOST, "X", f"at most {_MOST} rows", rows.num_rows, fix)
        if rows.num_rows == 1:
            return np.zeros(0), None
        counts = rows.weights if rows.is_weighted else None
        distances = condensed_distances(rows, metric)
    else:
        distances, counts = condensed_distances(rows, metric), None
        if weights is not None:
            square = squareform(distances, checks=False)
            counts = row_weights(weights, len(square))
            distances = squareform(square[np.ix_(counts > 0, counts > 0)], checks=False)
            counts = counts[counts > 0]
    return distances, None if counts is None or np.all(counts == 1) else counts


def _by_scipy(distances: np.ndarray, linkage: str) -> tuple[np.ndarray, np.ndarray]:
    from scipy.cluster.hierarchy import linkage as join

    if len(distances) == 0:
        return np.zeros((0, 2), int), np.zeros(0)
    table = join(distances, linkage)
    return table[:, :2].astype(int), table[:, 2]


def _closest_pairs(
    between: np.ndarray, weights: np.ndarray, linkage: str, progress: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Merges by remembered nearest clusters; the place of the first of a pair goes on as their union."""
    count = len(weights)
    sets = _Sets(between) if linkage == "hausdorff" else None
    table, sizes = _start(between, weights, linkage), weights.astype(float)
    np.fill_diagonal(table, np.inf)
    node = np.arange(count)
    nearest = table.argmin(1)
    least = table[np.arange(count), nearest]
    merges, heights = np.zeros((count - 1, 2), int), np.zeros(count - 1)
    for step in track(range(count - 1), label="Joining clusters", progress=progress):
        keep = int(least.argmin())
        drop = int(nearest[keep])
        keep, drop = min(keep, drop), max(keep, drop)
        merges[step], heights[step] = sorted((node[keep], node[drop])), table[keep, drop]
        gone = np.isinf(table[keep])
        row = _joined(table, sizes, keep, drop, linkage) if sets is None else sets.join(keep, drop)
        row[gone], row[drop] = np.inf, np.inf
        sizes[keep] += sizes[drop]
        table[keep], table[:, keep], table[drop], table[:, drop] = row, row, np.inf, np.inf
        node[keep], least[drop] = count + step, np.inf
        _remember(table, nearest, least, row, keep, drop)
    return merges, np.sqrt(np.maximum(heights, 0.0)) if linkage in _SQUARED else heights


def _remember(
    table: np.ndarray, nearest: np.ndarray, least: np.ndarray, row: np.ndarray, keep: int, drop: int
) -> None:
    """Nearest clusters after a merge: the union is asked where it is closer, rows that lost theirs search."""
    widowed = ((nearest == keep) | (nearest == drop)) & np.isfinite(least)
    closer = (row < least) | (widowed & (row == least))
    nearest[closer], least[closer] = keep, row[closer]
    for place in np.append(np.flatnonzero(widowed & ~closer), keep):
        nearest[place] = table[place].argmin()
        least[place] = table[place, nearest[place]]


def _start(between: np.ndarray, weights: np.ndarray, linkage: str) -> np.ndarray:
    """Distances between single rows, each of which stands for its copies."""
    if linkage not in _SQUARED:
        return between.copy()
    if linkage == "centroid":
        return between**2
    return between**2 * (2 * weights[:, None] * weights / (weights[:, None] + weights))


def _joined(table: np.ndarray, sizes: np.ndarray, one: int, other: int, linkage: str) -> np.ndarray:
    """Distances from the union of two clusters to all others, by the recurrence of Lance and Williams."""
    a, b, gap = table[one], table[other], table[one, other]
    m, n = sizes[one], sizes[other]
    if linkage == "single":
        return np.minimum(a, b)
    if linkage == "complete":
        return np.maximum(a, b)
    if linkage == "ward":
        return ((m + sizes) * a + (n + sizes) * b - sizes * gap) / (m + n + sizes)
    mixed = (m * a + n * b) / (m + n)
    return mixed if linkage == "average" else mixed - gap * (m * n / (m + n) ** 2)


class _Sets:
    """Hausdorff distances between clusters of which one pair after the other is joined."""

    def __init__(self, between: np.ndarray):
        self.owner = np.arange(len(between))
        self.points = between.copy()  # m(x, A), a row for each cluster A and a column for each point x
        self.directed = between.copy()  # max of m(a, B) over the points a of A, a row for each A

    def join(self, keep: int, drop: int) -> np.ndarray:
        """Distances from the union to all clusters."""
        self.owner[self.owner == drop] = keep
        np.minimum(self.points[keep], self.points[drop], out=self.points[keep])
        np.maximum(self.directed[keep], self.directed[drop], out=self.directed[keep])
        towards = np.zeros(len(self.owner))
        np.maximum.at(towards, self.owner, self.points[keep])
        self.directed[:, keep] = towards
        return np.maximum(self.directed[keep], towards)
