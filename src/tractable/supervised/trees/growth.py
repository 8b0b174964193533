r"""CART: growing a binary tree by exact greedy threshold splits, for classes and for numbers.

Split.       In each node the column and threshold of largest decrease of weight times impurity,
             thresholds midway between neighbouring values in the node. A node that is not pure is split
             even if nothing is gained at once (exclusive or needs that). Of equal splits the first
             column, the lowest threshold.
Weights.     How often a row counts: two is the row twice, zero is absent;
             `min_samples_leaf` counts weights too.
Scale.       Columns enter by rank: multiplying one by $10^{12}$ or $10^{-12}$ changes no split.
Cost.        One sort for each column, then $O(d\,n)$ for each level.
References.  Breiman, Friedman, Olshen and Stone (1984).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_option, offender
from tractable.core.types import ArrayLike, Key
from tractable.supervised.trees import arrays
from tractable.supervised.trees.tree import Tree, prune, rows_of

__all__ = [
    "Columns",
    "Growth",
    "Sample",
    "code_columns",
    "fit_tree",
    "grow_tree",
    "grower",
    "sample_of",
    "seeds_from",
]

_CRITERIA = ("gini", "entropy", "variance")

FEW_ROWS, FEW_CELLS = 2_000, 100_000  # up to here a node by NumPy takes about 200 microseconds
PATIENCE = 60_000  # rows of all trees by NumPy so far that have cost about what compiling takes
_grown = {"rows": 0}


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
        check_option("criterion", self.criterion, _CRITERIA)
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

    def limits(self) -> tuple[float, float, float, float]:
        """What the loop reads; a leaf of one row is no limit, so that small weights stay welcome."""
        least = self.min_samples_leaf * (1 - 1e-12) if self.min_samples_leaf > 1 else 0.0
        depth = -1.0 if self.max_depth is None else float(self.max_depth)
        return depth, least, -1.0 if self.max_leaves is None else float(self.max_leaves), float(self.min_gain)


class Columns(NamedTuple):
    """Columns by rank: `codes[j, i]` numbers the distinct values of column `j` (-1: missing)."""

    codes: np.ndarray
    values: np.ndarray  # the distinct values of all columns, one after the other
    starts: np.ndarray  # where each column begins in `values`


class Sample(NamedTuple):
    """Checked training rows: what is needed beside the columns."""

    labels: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    num_values: int

    def take(self, index: np.ndarray) -> "Sample":
        """Some of the rows, or all of them in another order."""
        return self._replace(
            labels=self.labels[index], targets=self.targets[index], weights=self.weights[index]
        )


def fit_tree(
    X: ArrayLike,
    y: ArrayLike,
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
    rows = rows_of(X)
    growth = Growth(**options).checked(rows.shape[1])
    sample = sample_of(rows, y, weights, growth.criterion, num_classes)
    subset = growth.max_features is not None and growth.max_features < rows.shape[1]
    check(key is not None or not subset, "key", "given where `max_features` draws columns", None)
    seed = seeds_from(key, 1)[0] if key is not None else np.uint64(1)
    return grow_tree(code_columns(rows), sample, growth, seed)


def grow_tree(
    columns: Columns,
    sample: Sample,
    growth: Growth,
    seed: Any,
    weights: Any = None,
    grow: Callable[..., Any] | None = None,
) -> Tree:
    """The tree of a sample, or of the same rows with other weights (zero: left out)."""
    w = sample.weights if weights is None else weights
    rows = np.flatnonzero(w > 0).astype(np.int32)
    num_columns = len(columns.codes)
    places, values, moments = (grow or grower(columns))(
        columns.codes, sample.labels, sample.targets, w, rows, sample.num_values,
        _CRITERIA.index(growth.criterion), growth.limits(), growth.max_features or num_columns,
        np.uint64(seed),
    )  # fmt: skip
    feature, low, high, left, missing_left, missing_seen = places.T
    inner = feature >= 0
    left = np.where(inner, left, -1)
    weight = moments[:, 0].copy()
    more_left = weight[left] > weight[np.where(inner, left + 1, -1)]
    tree = Tree(
        feature.astype(np.int32), _thresholds(columns, feature, low, high), left.astype(np.int32),
        np.where(missing_seen == 1, missing_left == 1, more_left) & inner, values, weight,
        moments[:, 1].copy(),
        growth.criterion, num_columns,
    )  # fmt: skip
    return prune(tree, growth.alpha) if growth.alpha > 0 else tree


def grower(columns: Columns, num_trees: int = 1) -> Callable[..., Any]:
    """What grows trees: NumPy on few rows, until it has cost what compiling takes; else compiled loops."""
    rows = num_trees * columns.codes.shape[1]
    few = columns.codes.shape[1] <= FEW_ROWS and columns.codes.size <= FEW_CELLS
    if few and _grown["rows"] + rows <= PATIENCE:
        _grown["rows"] += rows
        return arrays.grow
    from tractable.supervised.trees.loops import grow  # numba: half a second, then what it compiles

    return grow


def code_columns(rows: np.ndarray) -> Columns:
    """Each column by the ranks of its distinct values."""
    codes, values = np.empty(rows.shape[::-1], np.int32), []
    for j, column in enumerate(np.ascontiguousarray(rows.T)):
        order = np.argsort(column)
        ordered = column[order]
        present = len(ordered) - int(np.isnan(ordered).sum())  # missing entries come last
        new = np.ones(present, bool)
        new[1:] = ordered[1:present] != ordered[: max(present - 1, 0)]
        codes[j, order[:present]] = np.cumsum(new) - 1
        codes[j, order[present:]] = -1
        values.append(ordered[:present][new])
    starts = np.cumsum([0, *map(len, values)])
    return Columns(codes, np.concatenate(values), starts)


def sample_of(rows: np.ndarray, y: Any, weights: Any, criterion: str, num_classes: int | None) -> Sample:
    """Checked targets and weights for rows; for classes the targets are not used, for numbers the labels."""
    n = len(rows)
    target = np.ascontiguousarray(as_float("y", y), dtype=np.float64)
    check(target.shape == (n,), "y", f"one per row of `X` ({n},)", f"shape {target.shape}")
    check_finite("y", target)
    w = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    check(w.shape == (n,), "weights", f"one per row ({n},)", f"shape {w.shape}")
    ok = (w >= 0) & np.isfinite(w)
    if not ok.all():
        check(False, "weights", "zero or positive, and finite", offender(w, ok))
    check(w.sum() > 0, "weights", "positive for at least one row", "zeros")
    if criterion == "variance":
        return Sample(np.zeros(n, np.int32), target, w, 1)
    ok = (target >= 0) & (target == np.floor(target))
    if not ok.all():
        check(False, "y", "codes 0, 1, ... of classes", offender(target, ok), "Or set criterion='variance'.")
    most = int(target.max()) + 1
    check(num_classes is None or num_classes >= most, "num_classes", f"at least {most}", num_classes)
    return Sample(target.astype(np.int32), target, w, most if num_classes is None else num_classes)


def seeds_from(key: Key, count: int) -> np.ndarray:
    """Independent 64-bit seeds from a random key, one for each tree."""
    entropy = np.asarray(jr.key_data(key)).ravel().tolist()
    return np.random.SeedSequence(entropy).generate_state(count, np.uint64)


def _thresholds(columns: Columns, feature: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Midway between neighbouring values; infinite where known entries are split from missing ones."""
    found, inner = np.full(len(feature), np.nan), np.flatnonzero(feature >= 0)
    starts = columns.starts[feature[inner]]
    below = columns.values[starts + low[inner]]
    above = np.where(high[inner] >= 0, columns.values[starts + np.maximum(high[inner], 0)], np.inf)
    middle = below / 2 + above / 2
    # next to each other, or so small that halves round: the lower value itself separates them
    split = (middle >= below) & (middle < above)
    found[inner] = np.where(np.isinf(above), np.inf, np.where(split, middle, below))
    return found
