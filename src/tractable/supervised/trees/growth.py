r"""CART: growing a binary tree by exact greedy threshold splits, for classes and for numbers.

Split.       In each node the column and threshold of largest decrease of weight times impurity,
             thresholds midway between neighbouring values in the node. A node that is not pure is split
             even if nothing is gained at once (exclusive or needs that). Of equal splits the first
             column, the lowest threshold.
Weights.     How often a row counts: two is the row twice, zero is absent;
             `min_samples_leaf` counts weights too.
Scale.       Columns enter by rank: multiplying one by $10^{12}$ or $10^{-12}$ changes no split.
Rounds.      All open nodes of all trees of a call are looked at together (with a limit on leaves, the two
             children of each tree's best one): `supervised.trees.splits` finds the best split of each.
Draws.       The columns of a node are drawn by a hash of its path from the seed: no tree depends on another,
             on the order of nodes, or on which trees share a call.
Cost.        One sort for each column, then $O(d\,n)$ for each level.
References.  Breiman, Friedman, Olshen and Stone (1984).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from tractable.core.checks import check, check_count, check_option
from tractable.core.host_random import seeds
from tractable.core.keys import takes_key
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Key, Values
from tractable.supervised.trees.columns import Columns, Sample, code_columns, sample_of
from tractable.supervised.trees.pruning import prune_places
from tractable.supervised.trees.splits import (
    CRITERIA,
    ENTROPY,
    VARIANCE,
    Table,
    flat_ranges,
    mixed,
    primitives,
)
from tractable.supervised.trees.tree import Tree

__all__ = [
    "Columns",
    "Grown",
    "Growth",
    "Sample",
    "code_columns",
    "fit_tree",
    "grow_tree",
    "grow_trees",
    "sample_of",
]


class Growth(NamedTuple):
    """How far a tree grows: the options of `fit_tree`."""

    criterion: str = "gini"
    max_depth: int | None = None
    min_samples_leaf: float | int = 1
    max_leaves: int | None = None
    min_gain: float | int = 0.0
    max_features: int | None = None
    alpha: float | int = 0.0

    def checked(self, num_features: int) -> "Growth":
        """The same options, if they are sensible for this many columns."""
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth, 0)
        if self.max_leaves is not None:
            check_count("max_leaves", self.max_leaves)
        if self.max_features is not None:
            check_count("max_features", self.max_features, 1, num_features)
        check(self.min_samples_leaf > 0, "min_samples_leaf", "positive", self.min_samples_leaf)
        check(self.min_gain >= 0, "min_gain", "zero or positive", self.min_gain)
        check(self.alpha >= 0, "alpha", "zero or positive", self.alpha)
        return self

    def least(self) -> float:
        """The least weight of a leaf; one row is no limit, so that small weights stay welcome."""
        return self.min_samples_leaf * (1 - 1e-12) if self.min_samples_leaf > 1 else 0.0

    def work(self, num_rows: int, num_columns: int, num_trees: int) -> float:
        """Rows times columns times levels of all trees: what decides between primitives."""
        levels = 1 + np.log2(max(num_rows, 2))
        if self.max_depth is not None:
            levels = min(levels, self.max_depth + 1)
        return float(num_trees * num_rows * (self.max_features or num_columns) * levels)


@takes_key
def fit_tree(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    key: Key | None = None,
    **options: Any,
) -> Tree:
    r"""The tree grown on rows `X` (NaN: missing) and `y`: codes $0, 1, \dots$ of classes, or numbers.

    Options: `criterion` ("gini", "entropy"; "variance" for numbers), `max_depth`, `min_samples_leaf`,
    `max_leaves` (the best split first), `min_gain` (least decrease of impurity by share of all rows),
    `max_features` (columns drawn for each node, with `key`), `alpha` (cost-complexity pruning).

    >>> fit_tree([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]).rules()
    ['if x0 <= 2.5: 0 (100% of 2)', 'if x0 > 2.5: 1 (100% of 2)']
    """
    growth = Growth(**options)
    check_option("criterion", growth.criterion, CRITERIA)
    rows, sample = sample_of(X, y, weights, growth.criterion, num_classes)
    growth.checked(rows.shape[1])
    subset = growth.max_features is not None and growth.max_features < rows.shape[1]
    check(key is not None or not subset, "key", "given where `max_features` draws columns", None)
    seed = seeds(key, 1)[0] if key is not None else np.uint64(1)
    return grow_tree(code_columns(rows), sample, growth, seed)


class Grown(NamedTuple):
    """Nodes of trees, tree after tree: arrays as in `Tree`, `left` counted from the first node of its tree;
    how many nodes each tree has, and the leaf (so counted) of each row that its tree did not use."""

    nodes: dict[str, np.ndarray]
    sizes: np.ndarray
    leaves: np.ndarray


def grow_tree(
    columns: Columns,
    sample: Sample,
    growth: Growth,
    seed: Any,
    weights: np.ndarray | None = None,
    *,
    num_alike: int = 1,
) -> Tree:
    """The tree of a sample, or of the same rows with other weights (zero: left out).

    `num_alike` is how many such trees the caller asks for: with the sizes it decides how splits are found.
    """
    w = sample.weights if weights is None else weights
    grown = grow_trees(columns, sample, growth, np.array([seed], np.uint64), w[None], num_alike)
    return Tree(**grown.nodes, criterion=growth.criterion, num_features=len(columns.codes))


def grow_trees(
    columns: Columns, sample: Sample, growth: Growth, starts: np.ndarray, weights: np.ndarray, num_alike: int
) -> Grown:
    """A tree for each seed in `starts` and row of `weights`; `num_alike` counts all trees of the call."""
    num_columns, num_rows = columns.codes.shape
    kinds = (np.int32, np.int32, np.float64, np.float64)  # what the compiled primitives take, and writeable
    codes, labels, targets, mass = (
        np.require(array, kind, ["C", "W"])
        for array, kind in zip((columns.codes, sample.labels, sample.targets, weights), kinds)
    )
    criterion, drawn = CRITERIA.index(growth.criterion), growth.max_features or num_columns
    table = Table(codes, labels, targets, mass, sample.num_values, criterion, drawn, growth.least())
    rounds = _Rounds(table, columns, growth, primitives(growth.work(num_rows, num_columns, num_alike)))
    nodes, leaves = rounds.grow(starts)
    order = np.lexsort([nodes["number"], nodes["tree"]])
    sizes = np.bincount(nodes["tree"], minlength=len(starts))
    nodes["feature"] = np.where(nodes["left"] >= 0, nodes["places"][:, 0], -1).astype(np.int32)
    nodes["left"] = nodes["left"].astype(np.int32)
    names = ("feature", "threshold", "left", "missing_left", "value", "weight", "impurity")
    grown = Grown({name: nodes[name][order] for name in names}, sizes, leaves)
    return _pruned(grown, growth, table) if growth.alpha > 0 else grown


class _Rounds:
    """Growth of several trees: nodes that wait to be divided, and the store of all that were opened."""

    def __init__(self, table: Table, columns: Columns, growth: Growth, made: Any):
        self.table, self.columns, self.growth = table, columns, growth
        self.best_splits, self.partition = made
        present = table.weights > 0
        tree, row = np.nonzero(present)
        absent_tree, absent_row = np.nonzero(~present)
        count = len(table.weights)
        self.rows, self.absent = row.astype(np.int32), absent_row.astype(np.int32)
        self.absent_tree = absent_tree
        ends = np.searchsorted(tree, np.arange(count + 1)), np.searchsorted(absent_tree, np.arange(count + 1))
        self.spans = np.stack([ends[0][:-1], ends[0][1:], ends[1][:-1], ends[1][1:]], axis=1)
        self.whole = np.array([w[w > 0].cumsum()[-1] for w in table.weights])
        self.num_nodes = np.ones(count, np.int64)
        self.opened: list[dict[str, np.ndarray]] = []

    def grow(self, starts: Values) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """All nodes, in the order in which they were opened, and the leaf of each absent row."""
        count, limit = len(starts), self.growth.max_leaves
        zeros = np.zeros(count, np.int64)
        made, splits = self._open(np.arange(count), self.spans, mixed(starts), zeros, zeros)
        waiting = {name: array[splits] for name, array in made.items()}
        divided = []
        while len(waiting["tree"]):
            chosen = np.ones(len(waiting["tree"]), bool) if limit is None else self._best(waiting, limit)
            if not chosen.any():
                break
            order = np.flatnonzero(chosen)[np.argsort(waiting["tree"][chosen], kind="stable")]
            now = {name: array[order] for name, array in waiting.items()}
            rest = {name: array[~chosen] for name, array in waiting.items()}
            fresh, links = self._divide(now)
            divided.append(links)
            waiting = (
                fresh if limit is None else {name: np.concatenate([rest[name], fresh[name]]) for name in rest}
            )
        nodes = {name: np.concatenate([part[name] for part in self.opened]) for name in self.opened[0]}
        count = len(nodes["tree"])
        nodes["left"], nodes["threshold"] = np.full(count, -1), np.full(count, np.nan)
        nodes["missing_left"] = np.zeros(count, bool)
        for node, left, threshold, missing_left in divided:
            nodes["left"][node], nodes["threshold"][node] = left, threshold
            nodes["missing_left"][node] = missing_left
        ends = np.flatnonzero(nodes["left"] < 0)
        leaves, span = np.empty(len(self.absent), np.int64), nodes["span"][ends, 2:]
        at, leaf = flat_ranges(span[:, 0], span[:, 1] - span[:, 0])
        leaves[at] = nodes["number"][ends][leaf]
        return nodes, leaves[np.lexsort([self.absent, self.absent_tree])]  # by tree and row again

    def _open(
        self, tree: Values, span: Values, key: Values, depth: Values, number: Values
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Stores new nodes with their best splits; and which of them have one."""
        growth = self.growth
        may = (
            np.ones(len(tree), np.int64)
            if growth.max_depth is None
            else (depth < growth.max_depth).astype(int)
        )
        nodes = np.column_stack([tree, span[:, :2], may])
        places, values, moments = self.best_splits(self.table, self.rows, nodes, key)
        weight = moments[:, 0]
        values, impurity, before = _spread(values, moments, self.table.criterion)
        gain = moments[:, 2] - before
        splits = places[:, 0] >= 0
        if growth.min_gain > 0:
            splits &= gain >= growth.min_gain * self.whole[tree]
        ident = len(self.opened) and self.opened[-1]["ident"][-1] + 1
        made = {
            "tree": tree, "span": span, "key": key, "depth": depth, "number": number, "places": places,
            "value": values, "weight": weight, "impurity": impurity, "gain": gain,
            "ident": ident + np.arange(len(tree)),
        }  # fmt: skip
        self.opened.append(made)
        return made, splits

    def _best(self, waiting: dict[str, np.ndarray], limit: int) -> Values:
        """The node of largest gain of each tree that may have more leaves; of equals the oldest."""
        order = np.lexsort([waiting["ident"], -waiting["gain"], waiting["tree"]])
        tree = waiting["tree"][order]
        first = np.append(True, tree[1:] != tree[:-1]) & ((self.num_nodes[tree] + 1) // 2 < limit)
        chosen = np.zeros(len(order), bool)
        chosen[order[first]] = True
        return chosen

    def _divide(self, now: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, ...]]:
        """Opens both children of each node; which are to be divided, and the links to them."""
        tree, span, places = now["tree"], now["span"], now["places"]
        middle, missing = self.partition(self.table.codes, self.rows, span[:, :2], places)
        rank = np.arange(len(tree)) - np.searchsorted(tree, tree)
        left = self.num_nodes[tree] + 2 * rank
        np.add.at(self.num_nodes, tree, 2)
        spans = np.zeros((2 * len(tree), 4), np.int64)
        spans[::2, 0], spans[::2, 1], spans[1::2, 0], spans[1::2, 1] = span[:, 0], middle, middle, span[:, 1]
        key = np.stack([mixed(now["key"] ^ np.uint64(1)), mixed(now["key"] ^ np.uint64(2))], axis=1).reshape(
            -1
        )
        depth, number = np.repeat(now["depth"] + 1, 2), np.stack([left, left + 1], axis=1).reshape(-1)
        made, splits = self._open(np.repeat(tree, 2), spans, key, depth, number)
        # absent rows follow the threshold, which may part values that no row of the node has
        missing_left = np.where(missing, places[:, 3] == 1, made["weight"][::2] > made["weight"][1::2])
        threshold, last = _thresholds(self.columns, *places[:, :3].T)
        route = np.column_stack([places[:, 0], last, last, missing_left])
        spans[::2, 2], spans[1::2, 3] = span[:, 2], span[:, 3]
        spans[::2, 3] = spans[1::2, 2] = self.partition(self.table.codes, self.absent, span[:, 2:], route)[0]
        fresh = {name: array[splits] for name, array in made.items()}
        return fresh, (now["ident"], left, threshold, missing_left)


def _spread(values: np.ndarray, moments: np.ndarray, criterion: int) -> tuple[np.ndarray, ...]:
    """Class shares (or means), impurities, and the scores of undivided nodes."""
    weight = moments[:, 0]
    if criterion == VARIANCE:
        return values, moments[:, 1] / weight, np.zeros(len(weight))
    shares = values / weight[:, None]
    impurity = np.zeros(len(weight))
    for share in shares.T:
        impurity += share * share if criterion != ENTROPY else entr(share)
    if criterion != ENTROPY:
        impurity = np.maximum(1.0 - impurity, 0.0)
        return shares, impurity, weight * (1.0 - impurity)
    return shares, impurity, -weight * impurity


def _pruned(grown: Grown, growth: Growth, table: Table) -> Grown:
    """Each tree pruned at its weakest links; rows that ended below are in the leaf that is left."""
    tree_of_absent, _ = np.nonzero(~(table.weights > 0))
    ends, leaves = np.cumsum(grown.sizes), grown.leaves.copy()
    parts = []
    for t, (start, end) in enumerate(zip(ends - grown.sizes, ends)):
        nodes = {name: array[start:end] for name, array in grown.nodes.items()}
        kept, place = prune_places(Tree(**nodes, criterion=growth.criterion, num_features=1), growth.alpha)
        parts.append({name: getattr(kept, name) for name in nodes})
        leaves[tree_of_absent == t] = place[leaves[tree_of_absent == t]]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in grown.nodes}
    return Grown(joined, np.array([len(part["left"]) for part in parts]), leaves)


def _thresholds(
    columns: Columns, feature: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Midway between neighbouring values, and the last code of the column that is not above; infinite where
    known entries are split from missing ones."""
    starts = columns.starts[feature]
    below = columns.values[starts + low]
    above = np.where(high >= 0, columns.values[starts + np.maximum(high, 0)], np.inf)
    middle = below / 2 + above / 2
    # next to each other, or so small that halves round: the lower value itself separates them
    split = (middle >= below) & (middle < above)
    found = np.where(np.isinf(above), np.inf, np.where(split, middle, below))
    last = np.empty_like(low)
    for column in np.unique(feature):
        own, values = feature == column, columns.values[slice(*columns.starts[column : column + 2])]
        last[own] = np.searchsorted(values, found[own], side="right") - 1
    return found, last
