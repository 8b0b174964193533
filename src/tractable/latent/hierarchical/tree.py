r"""A clustering tree: what every hierarchical method returns, and what is asked of it.

Tree.        Leaves $0, \dots, m - 1$; merge $t$ joins two nodes into node $m + t$ at height $h_t$. Rows
             belong to leaves (`members`): one each, unless a method stopped before single rows.
Cuts.        `cut(k)` undoes the last $k - 1$ merges: exactly $k$ clusters. `cut(height=h)` keeps a cluster
             together where no merge inside it is higher than $h$. Both are nested, also where heights invert.
Cophenetic.  $c_{ij}$, the height of the merge that first joins $i$ and $j$: an ultrametric,
             $c_{ij} \le \max(c_{ik}, c_{kj})$, where heights do not invert. Its correlation with the
             distances says how much of them the tree tells.
Cost.        $O(m)$ for a cut, $O(m^2)$ for cophenetic distances.
References.  Sokal and Rohlf (1962).
"""

from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from tractable.core.checks import check, check_count
from tractable.core.dissimilarity import condensed_distances
from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.latent.hierarchical.order import turned_merges

__all__ = ["ClusteringTree"]

_LEVEL = 1e-12  # of the largest height: below it an inversion is rounding


class ClusteringTree(HostResult):
    """Merges of nodes with their heights, the lowest first.

    >>> tree = ClusteringTree(np.array([[0, 1], [3, 2]]), np.array([1.0, 2.5]), np.arange(3))
    >>> tree.cut(2).tolist(), tree.cut(height=0.5).tolist()
    ([0, 0, 1], [0, 1, 2])
    """

    merges: np.ndarray = field(show=False)
    heights: np.ndarray = field(about="of the merges, in their order")
    members: np.ndarray = field(show=False)
    method: str = field(static=True, default="")

    _shown = ("method", "num_leaves", "heights")

    def __check_init__(self) -> None:
        count = len(self.heights)
        check(self.merges.shape == (count, 2), "merges", f"of shape ({count}, 2)", self.merges.shape)

    @property
    def num_leaves(self) -> int:
        return len(self.heights) + 1

    @property
    def num_rows(self) -> int:
        return len(self.members)

    @property
    def is_monotone(self) -> bool:
        """Whether no merge is lower than one inside it."""
        return bool(np.all(np.diff(self.heights) >= -_LEVEL * np.abs(self.heights).max(initial=0.0)))

    @property
    def verdict(self) -> Verdict:
        """Whether heights rise from the leaves to the root, so that a height is a scale."""
        falls = int((np.diff(self.heights) < -_LEVEL * np.abs(self.heights).max(initial=0.0)).sum())
        if not falls:
            return Verdict(True, "Heights rise from leaves to root: cuts by height are cuts by scale.")
        said = f"{falls} of {len(self.heights)} merges are lower than the one before: read cuts by number, "
        return Verdict(False, said + "heights of this linkage are no scale.", {"inversions": falls})

    @property
    def sizes(self) -> np.ndarray:
        """The number of leaves under each merge."""
        count = self.num_leaves
        found = np.ones(2 * count - 1, int)
        for step, (left, right) in enumerate(self.merges.tolist()):
            found[count + step] = found[left] + found[right]
        return found[count:]

    @property
    def table(self) -> np.ndarray:
        """The linkage table of SciPy: two nodes, height and number of leaves of each merge."""
        return np.column_stack([self.merges, self.heights, self.sizes]).astype(float)

    def cut(self, num_clusters: int | None = None, *, height: float | None = None) -> np.ndarray:
        """The cluster of each row, numbered as they appear: into `num_clusters`, or below `height`."""
        one = (num_clusters is None) != (height is None)
        check(one, "num_clusters", "given, or `height`: one of them", (num_clusters, height))
        if num_clusters is not None:
            k = check_count("num_clusters", num_clusters, 1, self.num_leaves)
            joined = np.arange(len(self.heights)) < self.num_leaves - k
        else:
            joined = self._highest() <= height
        return _in_order(self._labels(joined)[self.members])

    def cut_height(self, num_clusters: int) -> float:
        """A height that cuts the tree into `num_clusters`: halfway between the merges below and above it."""
        k = check_count("num_clusters", num_clusters, 1, self.num_leaves)
        check(self.is_monotone, "tree", "one whose heights rise", "inversions", "Cut by number.")
        around = np.concatenate([[0.0], self.heights, self.heights[-1:]])[self.num_leaves - k :][:2]
        return float(around.mean())

    @property
    def leaf_order(self) -> np.ndarray:
        """The leaves from left to right, as a dendrogram draws them."""
        count, found, waiting = self.num_leaves, [], [2 * self.num_leaves - 2]
        while waiting:
            node = waiting.pop()
            if node < count:
                found.append(node)
            else:
                left, right = self.merges[node - count].tolist()
                waiting += [right, left]
        return np.array(found)

    def ordered(self, X: Any, metric: str = "euclidean") -> "ClusteringTree":
        """The same tree with its branches turned so that neighbouring leaves are as close as can be."""
        distances = squareform(self._leaf_distances(X, metric), checks=False)
        return ClusteringTree(turned_merges(self.merges, distances), self.heights, self.members, self.method)

    def cophenetic(self) -> np.ndarray:
        r"""$c_{ij}$ of all pairs of leaves, condensed: the height at which a pair is first joined."""
        count, found = self.num_leaves, np.zeros((self.num_leaves, self.num_leaves))
        inside = [np.array([i]) for i in range(count)]
        for (left, right), height in zip(self.merges.tolist(), self.heights):
            found[np.ix_(inside[left], inside[right])] = height
            inside.append(np.concatenate([inside[left], inside[right]]))
            inside[left] = inside[right] = inside[0][:0]
        return (found + found.T)[np.triu_indices(count, 1)]

    def cophenetic_correlation(self, X: Any, metric: str = "euclidean") -> float:
        """The correlation of cophenetic distances with those between the rows."""
        given, told = self._leaf_distances(X, metric), self.cophenetic()
        varied = np.ptp(given) > 0 and np.ptp(told) > 0
        check(varied, "X", "of distances that differ, so that they have a correlation", "equal ones")
        return float(np.corrcoef(given, told)[0, 1])

    def _leaf_distances(self, X: Any, metric: str) -> np.ndarray:
        given = condensed_distances(X, metric)
        wanted = self.num_leaves * (self.num_leaves - 1) // 2
        check(
            len(given) == wanted, "X", f"one row for each of {self.num_leaves} leaves", f"{len(given)} pairs"
        )
        return given

    def _highest(self) -> np.ndarray:
        """The highest merge in each merged cluster: its own height, unless heights invert."""
        count, found = self.num_leaves, self.heights.astype(float)
        if self.is_monotone:
            return np.maximum.accumulate(found)
        for step, pair in enumerate(self.merges.tolist()):
            found[step] = max([found[step], *(found[node - count] for node in pair if node >= count)])
        return found

    def _labels(self, joined: np.ndarray) -> np.ndarray:
        """A label for each leaf; a node takes over that of its parent where their merge is kept."""
        count = self.num_leaves
        found = np.arange(2 * count - 1)
        for step in range(count - 2, -1, -1):
            if joined[step]:
                found[self.merges[step]] = found[count + step]
        return found[:count]


def _in_order(labels: np.ndarray) -> np.ndarray:
    """Labels 0, 1, ... in the order in which rows show them."""
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), int)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes.reshape(-1)]
