r"""Trees by histograms: columns in at most 255 bins, and Newton's step for a sum of losses in each leaf.

Loss.        $\sum_i w_i [\ell_i - g_i v + \tfrac12 h_i v^2]$ about the present prediction of each row, with
             slopes $g$ and curvatures $h > 0$. The best $v$ of a leaf is $G/(H + \lambda)$ with sums $G$ of
             $w g$ and $H$ of $w h$ over its rows, and it gains $\tfrac12 G^2/(H + \lambda)$.
Split.       The column, bin and side of missing entries of largest
             $\frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} - \frac{G^2}{H + \lambda}$, where both
             sides weigh enough. With bins of one value each it is the exact split. Of equals the first.
Levels.      All nodes of a level of all trees of a call at once; of two children the lighter is summed, the
             other is the rest.
Weights.     How often a row counts; rows of weight zero are sent down the tree without being seen.
Choice.      Sums by NumPy's `bincount` for little work, else by `supervised.trees.histogram_loops`, with the
             same bits.
Cost.        $O(n d)$ sums for the root, at most half of that for each further level.
References.  Friedman (2001); Chen and Guestrin (2016); Ke et al. (2017).
"""

from typing import NamedTuple

import numpy as np

from tractable.core.interrupts import in_threads
from tractable.supervised.trees.columns import Columns

__all__ = ["MUCH_WORK", "Binned", "Branch", "Leafing", "bin_columns", "grow_by_histograms"]

MUCH_WORK = 400_000_000  # rows times columns times trees: by `bincount` about what compiling takes
_MANY = 1_000_000  # entries that are worth a second thread


class Binned(NamedTuple):
    """Columns by bin: `codes[j, i]` counts the bins of column `j` from below; the last code, `num_bins`, is
    that of missing entries."""

    codes: np.ndarray  # (columns, rows), whole numbers of eight bits
    edges: np.ndarray  # (columns, bins): `x <= edges[j, b]` for entries of bins up to b; infinite at the last
    num_bins: int
    has_gaps: bool


class Leafing(NamedTuple):
    """How far a tree grows."""

    max_depth: int = 3
    least: float = 1.0  # weight of a leaf
    pseudo_rows: float = 1.0  # lambda, in rows of mean curvature


class Branch(NamedTuple):
    """A grown tree: nodes as in `supervised.trees.tree.Nodes`, with what their splits gained."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    gain: np.ndarray


def bin_columns(columns: Columns, weights: np.ndarray, max_bins: int = 255) -> Binned:
    """Columns of ranks as bins: one for each value where there are few, else of equal weight."""
    codes = np.empty(columns.codes.shape, np.uint8)
    edges = np.full((len(codes), max_bins), np.inf)
    for j, ranks in enumerate(columns.codes):
        values = columns.values[columns.starts[j] : columns.starts[j + 1]]
        known = ranks >= 0
        bins = np.arange(len(values))
        if len(values) > max_bins:
            mass = np.bincount(ranks[known], weights[known], len(values))
            middle = np.cumsum(mass) - mass / 2
            bins = np.minimum((middle / max(mass.sum(), 1e-300) * max_bins).astype(int), max_bins - 1)
            bins = np.unique(bins, return_inverse=True)[1]
        codes[j] = np.where(known, bins[np.where(known, ranks, 0)] if len(bins) else 0, max_bins)
        last = np.flatnonzero(np.diff(bins))  # the last value of each bin but the highest
        below, above = values[last], values[last + 1] if len(last) else values[last]
        middle = below / 2 + above / 2
        edges[j, : len(last)] = np.where((middle >= below) & (middle < above), middle, below)
    used = int(np.where(codes < max_bins, codes, 0).max(initial=0)) + 1
    codes[codes == max_bins] = used
    return Binned(codes, edges[:, :used], used, bool((columns.codes < 0).any()))


class Grove(NamedTuple):
    """Trees that were grown together: the value of every row in each, and the trees themselves."""

    values: np.ndarray
    branches: list[Branch]


def grow_by_histograms(
    binned: Binned, slopes: np.ndarray, curvatures: np.ndarray, weights: np.ndarray, leafing: Leafing,
    columns: np.ndarray | None = None, *, compiled: bool = False, num_threads: int | None = None,
) -> Grove:  # fmt: skip
    r"""The trees that lower $\sum_i w_i(-g_i v + \frac12 h_i v^2)$, one for each row of the three tables
    (trees, rows), and the values of all rows in them."""
    columns = np.arange(len(binned.codes)) if columns is None else columns
    amounts = np.stack([weights * slopes, weights * curvatures, weights])
    whole = amounts.sum(2)
    ridge = leafing.pseudo_rows * whole[1] / whole[2]
    sums = _Sums(binned, amounts.reshape(3, -1), columns, compiled, num_threads)
    return _Growing(sums, leafing, ridge).grow(whole)


class _Growing:
    """Trees while they grow: the nodes so far, and the node of each row of each tree."""

    def __init__(self, sums: "_Sums", leafing: Leafing, ridge: np.ndarray):
        self.sums, self.binned, self.leafing, self.ridge = sums, sums.binned, leafing, ridge

    def grow(self, whole: np.ndarray) -> Grove:
        (num_rows, num_trees), depth = (self.binned.codes.shape[1], len(self.ridge)), self.leafing.max_depth
        row = np.tile(np.arange(num_rows, dtype=np.int32), num_trees)
        node = np.repeat(np.arange(num_trees, dtype=np.int32), num_rows)
        seen = np.flatnonzero(self.sums.amounts[2] > 0)
        totals, tree, first = (
            whole,
            np.arange(num_trees),
            0,
        )  # of all nodes so far; the first one of the level
        links: list[tuple[np.ndarray, ...]] = []
        sums = self.sums(seen, row[seen], node[seen], num_trees) if depth else None
        while sums is not None:
            found = self._best(sums, totals[:, first:], self.ridge[tree[first:]])
            splits = np.flatnonzero(found[0] > 0)
            if len(splits) == 0:
                break
            parents = first + splits
            gain, feature, bins, gaps_left, left = (part[..., splits] for part in found)
            first = totals.shape[1]
            children = (first + 2 * np.arange(len(splits))).astype(np.int32)
            _send(node, row, parents, self.binned, feature, bins, gaps_left, children)
            both = np.stack([left, totals[:, parents] - left], axis=2)
            totals = np.concatenate([totals, both.reshape(3, -1)], axis=1)
            tree = np.concatenate([tree, np.repeat(tree[parents], 2)])
            links.append((parents, feature, bins, gaps_left, children, gain))
            more = len(links) < depth
            sums = self._children(sums[:, splits], node, row, seen, children, both) if more else None
        value = totals[0] / (totals[1] + self.ridge[tree])
        return Grove(value[node].reshape(num_trees, num_rows), self._branches(value, tree, links, num_trees))

    def _children(
        self, parent: np.ndarray, node: np.ndarray, row: np.ndarray, seen: np.ndarray, children: np.ndarray,
        totals: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """The sums of both children of each node: the lighter one is added up."""
        light = (totals[2, :, 0] > totals[2, :, 1]).astype(np.int32)
        slot = np.full(children[-1] + 2, -1, np.int32)
        slot[children + light] = np.arange(len(children))
        own = slot[node[seen]]
        some = np.flatnonzero(own >= 0)
        counted = self.sums(seen[some], row[seen[some]], own[some], len(children))
        rest, flip = parent - counted, (light == 1)[None, :, None, None]
        both = np.stack([np.where(flip, rest, counted), np.where(flip, counted, rest)], axis=2)
        return both.reshape(3, -1, *parent.shape[2:])

    def _best(self, sums: np.ndarray, totals: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of each node the gain of its best split, its column, bin, side of gaps, the sums on its left."""
        count, last = sums.shape[1], self.binned.num_bins
        sides = [np.cumsum(sums[..., :last], axis=3)]
        if self.binned.has_gaps:
            sides.append(sides[0] + sums[..., last:])
        scores = [self._scores(side, totals[:, :, None, None], ridge[:, None, None]) for side in sides]
        flat = np.stack(scores, axis=3).reshape(count, -1)
        each, place = np.arange(count), flat.argmax(1)
        top = flat[each, place]
        place, side = np.divmod(place, len(sides))
        column, bins = np.divmod(place, last)
        chosen = np.stack([part[:, each, column, bins] for part in sides])[side, :, each].T
        gaps, heavier = sums[2, each, column, last] > 0, 2 * chosen[2] > totals[2]
        return top, self.sums.columns[column], bins, np.where(gaps, side == 1, heavier), chosen

    def _scores(self, left: np.ndarray, whole: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        least = self.leafing.least * (1 - 1e-9)
        right = whole - left
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = left[0] ** 2 / (left[1] + ridge) + right[0] ** 2 / (right[1] + ridge)
            alone = whole[0] ** 2 / (whole[1] + ridge)
        gain -= alone
        # what is gained by rounding alone is no gain
        allowed = (left[2] >= least) & (right[2] >= least) & (gain > 1e-12 * alone)
        return np.where(allowed, gain, -np.inf)

    def _branches(
        self, value: np.ndarray, tree: np.ndarray, links: list[tuple[np.ndarray, ...]], num_trees: int
    ) -> list[Branch]:
        """The nodes of each tree, its root first."""
        count = len(value)
        feature, left = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        threshold, gains, missing_left = np.full(count, np.nan), np.zeros(count), np.zeros(count, bool)
        for parents, column, bins, gaps_left, children, gain in links:
            feature[parents], left[parents] = column, children
            threshold[parents] = self.binned.edges[column, bins]
            missing_left[parents], gains[parents] = gaps_left, gain
        found, place = [], np.empty(count, np.int32)
        for t in range(num_trees):
            own = np.flatnonzero(tree == t)
            place[own] = np.arange(len(own))
            below = np.where(left[own] >= 0, place[left[own]], -1).astype(np.int32)
            found.append(
                Branch(feature[own], threshold[own], below, missing_left[own], value[own], gains[own])
            )
        return found


class _Sums(NamedTuple):
    """The three amounts of rows, added up by slot, chosen column and code."""

    binned: Binned
    amounts: np.ndarray  # (3, trees times rows)
    columns: np.ndarray
    compiled: bool
    num_threads: int | None

    def __call__(self, places: np.ndarray, rows: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        width, num_columns, part = (
            self.binned.num_bins + 1,
            len(self.columns),
            np.take(self.amounts, places, axis=1),
        )
        if not self.compiled:
            first = (slots[None] * num_columns + np.arange(num_columns)[:, None]) * width
            cells = (first + self.binned.codes[self.columns][:, rows]).reshape(-1)
            size = count * num_columns * width
            found = [np.bincount(cells, np.tile(a, num_columns), size) for a in part]
            return np.stack(found).reshape(3, count, num_columns, width)
        from tractable.supervised.trees.histogram_loops import (
            add_rows,  # numba: half a second, then compiling
        )

        found = np.zeros((3, count, num_columns, width))
        parts = np.array_split(np.arange(num_columns), 2 if len(rows) * num_columns > _MANY else 1)
        codes, columns = self.binned.codes, self.columns.astype(np.int64)
        work = lambda own: add_rows(codes, rows, slots, part, columns, own, found)  # noqa: E731
        list(in_threads(work, parts, self.num_threads))
        return found


def _send(
    node: np.ndarray, row: np.ndarray, parents: np.ndarray, binned: Binned, feature: np.ndarray,
    bins: np.ndarray, gaps_left: np.ndarray, children: np.ndarray,
) -> None:  # fmt: skip
    """Move each row whose node is split to the child that its bin leads to, in place."""
    route = np.full(children[-1] + 2, -1, np.int32)
    route[parents] = np.arange(len(parents))
    which = route[node]
    places = slice(None) if which.min() >= 0 else np.flatnonzero(which >= 0)
    which = which[places]
    code = binned.codes[feature[which], row[places]]
    goes_left = code <= bins[which]
    if binned.has_gaps:
        goes_left = np.where(code == binned.num_bins, gaps_left[which], goes_left)
    node[places] = children[which] + ~goes_left
