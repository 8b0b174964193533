r"""Bagging and random forests: trees on resampled rows and drawn columns, with out-of-bag checks.

Model.       Tree $t$ is grown on $n$ draws of rows in proportion to their weights, each node choosing among
             `max_features` drawn columns (bagging: all of them). The forest answers with the mean over trees.
Uncertainty. Class shares $p_t$: $H[\bar p] = \overline{H[p_t]} + I$; means $m_t$ and leaf variances $v_t$:
             $\bar v + \mathrm{Var}_t[m_t]$. The first part is noise, the second disagreement of trees.
Out of bag.  Each row is judged by the trees that drew neither it nor a copy of it.
Repeatable.  Rows are put in an order of their own before any is drawn, and each tree has its own seed: the
             forest depends on the key alone, not on the order of rows or the number of threads, and a row of
             weight two gives the same trees as the row twice.
Cost.        Trees in parallel threads, $O(m\,n)$ for each level of each with $m$ drawn columns.
References.  Breiman (1996, 2001); Depeweg et al. (2018).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option, namespace
from tractable.core.chunks import bucket_size
from tractable.core.host_random import seeds
from tractable.core.interrupts import in_threads
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Float, Int, Key, Values
from tractable.core.verdict import Verdict
from tractable.inference.trust.uncertainty import UncertaintySplit, split_entropy, split_variance
from tractable.supervised.trees.columns import Sample, canonical_order, code_columns, copy_groups, sample_of
from tractable.supervised.trees.growth import Grown, Growth, grow_trees
from tractable.supervised.trees.splits import CRITERIA
from tractable.supervised.trees.tree import Nodes, Tree, answers, sum_leaf_values, walk

__all__ = ["Forest", "canonical_order", "draw_rows", "fit_forest"]

_BLOCK = 8192
_BATCH = 50_000  # rows of trees that are grown together
_MOST_DRAWS = 2**31 - 1


class Forest(Nodes):
    """Trees with equal votes, all their nodes together; `roots` says where each tree begins.

    `out_of_bag` are the predictions of each training row by the trees that did not see it (NaN where all
    did).
    """

    roots: Int[Values, " t"] = field(show=False)
    out_of_bag: Float[Values, "n k"] | None = field(show=False)
    out_of_bag_error: Float[Values, ""]
    criterion: str = field(static=True)
    num_features: int = field(static=True)

    @property
    def num_trees(self) -> int:
        return len(self.roots)

    def tree(self, index: int) -> Tree:
        """One tree of the forest."""
        check_count("index", index, 0, self.num_trees - 1)
        start, stop = np.append(self.roots, len(self.left))[index : index + 2]
        part = slice(start, stop)
        left = np.where(self.left[part] >= 0, self.left[part] - start, -1).astype(np.int32)
        return Tree(
            self.feature[part], self.threshold[part], left, self.missing_left[part], self.value[part],
            self.weight[part], self.impurity[part], self.criterion, self.num_features,
        )  # fmt: skip

    def values(self, X: ArrayLike | Rows, num_threads: int | None = None) -> Float[Values, "n k"]:
        """The mean over trees of the class shares of each row, or of its mean in one column."""
        rows = points(X, self.num_features, gaps=True)
        answer = lambda block: sum_leaf_values(self, block, self.roots)  # noqa: E731
        if namespace(self, rows) is not np:
            return answer(rows) / self.num_trees
        blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
        return np.concatenate(list(in_threads(answer, blocks, num_threads))) / self.num_trees

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The mean of each row, or the code of its most probable class."""
        return answers(self.values(X), self.criterion)

    def leaves(self, X: ArrayLike | Rows) -> Int[Values, "t n"]:
        """The leaf of each row in each tree, as an index of the forest's nodes."""
        return walk(self, points(X, self.num_features, gaps=True), self.roots)

    def uncertainty(self, X: ArrayLike | Rows) -> UncertaintySplit:
        """Noise and disagreement of the trees for each row: entropy of classes, or variance of numbers.

        The variance of a leaf has one pseudo-row with the out-of-bag error, as few rows say little of noise.
        Pure leaves of classes show no noise: grow with `min_samples_leaf` to tell it from disagreement.
        """
        rows = points(X, self.num_features, gaps=True)
        count = len(rows)  # padded, so that a new number of rows compiles nothing
        leaves = self.leaves(np.concatenate([rows, np.repeat(rows[-1:], bucket_size(count) - count, 0)]))
        if self.criterion == "variance":
            noise = self.out_of_bag_error if np.isfinite(self.out_of_bag_error) else self.impurity[0]
            weight = self.weight[leaves]
            variances = (weight * self.impurity[leaves] + noise) / (weight + 1)
            found = split_variance(self.value[leaves, 0], variances)
        else:
            found = split_entropy(self.value[leaves])
        return UncertaintySplit(found.aleatoric[:count], found.epistemic[:count])

    def feature_importance(self) -> Float[Values, " d"]:
        """The mean over trees of the decrease of impurity that each column brought."""
        return np.mean([self.tree(t).feature_importance() for t in range(self.num_trees)], axis=0)

    @property
    def verdict(self) -> Verdict:
        """What the rows that trees did not see say of them."""
        kind = "mean squared error" if self.criterion == "variance" else "error"
        error, leaves = float(self.out_of_bag_error), int((self.left < 0).sum()) / self.num_trees
        judged = f"out-of-bag {kind} {error:.4g}" if np.isfinite(error) else "no out-of-bag rows: unchecked"
        sentence = f"{self.num_trees} trees, {leaves:.0f} leaves each on average; {judged}."
        return Verdict(True, sentence, {"out_of_bag_error": error})


@takes_key
def fit_forest(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    key: Key,
    num_trees: int = 100,
    num_classes: int | None = None,
    bootstrap: bool = True,
    num_threads: int | None = None,
    **options: Any,
) -> Forest:
    r"""A random forest; the options of `fit_tree` hold for its trees.

    `max_features` is, if not given, $\lfloor\sqrt d\rfloor$ for classes and a third of the columns for
    numbers; `max_features=d` is bagging. Without `bootstrap` each tree sees all rows.

    >>> import jax.random as jr
    >>> fit_forest(np.arange(20.0)[:, None], [0] * 10 + [1] * 10, key=jr.key(0), num_trees=20).verdict
    20 trees, 2 leaves each on average; out-of-bag error 0.05.
    """
    growth = Growth(**options)
    check_option("criterion", growth.criterion, CRITERIA)
    rows, sample = sample_of(X, y, weights, growth.criterion, num_classes)
    num_features = rows.shape[1]
    growth.checked(num_features)
    if growth.max_features is None:
        drawn = num_features // 3 if growth.criterion == "variance" else int(np.sqrt(num_features))
        growth = growth._replace(max_features=max(1, drawn))
    present = np.flatnonzero(sample.weights > 0)  # absent rows must not be seen, not even in ranks
    num_rows, rows, sample = len(rows), rows[present], sample.take(present)
    columns = code_columns(rows)
    order = canonical_order(columns, sample.targets)
    out_of_bag = _OutOfBag(copy_groups(columns, sample.targets, order), sample.num_values)
    rows, sample = rows[order], sample.take(order)
    columns = columns._replace(codes=np.ascontiguousarray(columns.codes[:, order]))
    starts = seeds(key, check_count("num_trees", num_trees))
    size = max(1, _BATCH // len(rows))

    def grown(some: np.ndarray) -> tuple[Grown, np.ndarray]:
        drawn = np.stack([draw_rows(sample.weights, seed) if bootstrap else sample.weights for seed in some])
        return grow_trees(columns, sample, growth, some, drawn, num_trees), drawn

    parts, batches = [], [starts[i : i + size] for i in range(0, num_trees, size)]
    for part, drawn in in_threads(grown, batches, num_threads):
        parts.append(part)
        out_of_bag.add(part, drawn)
    return _gather(parts, out_of_bag.means(), sample, growth, present[order], num_rows, num_features)


class _OutOfBag:
    """Votes for each row by the trees that drew neither it nor a copy of it; copies are neighbours."""

    def __init__(self, group: np.ndarray, num_values: int):
        self.group, self.starts = group, np.flatnonzero(np.diff(group, prepend=-1))
        self.votes, self.counts = np.zeros((len(group), num_values)), np.zeros(len(group))

    def add(self, part: Grown, drawn: np.ndarray) -> None:
        tree, row = np.nonzero(drawn == 0)
        value = part.nodes["value"][part.leaves + (np.cumsum(part.sizes) - part.sizes)[tree]]
        if len(self.starts) < len(self.group):
            unseen = np.add.reduceat(drawn, self.starts, axis=1)[tree, self.group[row]] == 0
            row, value = row[unseen], value[unseen]
        for k in range(self.votes.shape[1]):
            self.votes[:, k] += np.bincount(row, value[:, k], len(self.votes))
        self.counts += np.bincount(row, minlength=len(self.votes))

    def means(self) -> np.ndarray:
        """NaN where every tree saw the row."""
        known = self.counts[:, None] > 0
        return np.divide(self.votes, self.counts[:, None], out=np.full_like(self.votes, np.nan), where=known)


def draw_rows(weights: np.ndarray, seed: Any, share: float = 1.0) -> Float[Values, " n"]:
    r"""How often each row is drawn in $\max(n, W)$ draws (times `share`) in proportion to weight.

    A draw is a place on the line of weights, so a row of weight two is drawn where its two copies would be.
    """
    ends = np.cumsum(weights)
    total = max(int((weights > 0).sum()), round(float(ends[-1])))
    check(total <= _MOST_DRAWS, "weights", f"of a sum up to {_MOST_DRAWS}", ends[-1], "Divide them.")
    generator = np.random.Generator(np.random.SFC64(int(seed)))
    places = np.sort(generator.random(max(1, round(share * total)))) * ends[-1]
    return np.diff(np.searchsorted(places, ends, side="left"), prepend=0).astype(np.float64)


def _gather(
    parts: list[Grown], votes: np.ndarray, sample: Sample, growth: Growth, places: np.ndarray, num_rows: int,
    num_features: int,
) -> Forest:  # fmt: skip
    """One set of arrays, and the out-of-bag predictions in the order that the rows came in."""
    sizes = np.concatenate([part.sizes for part in parts])
    roots = np.cumsum(sizes) - sizes
    joined = {name: np.concatenate([part.nodes[name] for part in parts]) for name in parts[0].nodes}
    joined["left"] = np.where(joined["left"] >= 0, joined["left"] + np.repeat(roots, sizes), -1).astype(
        np.int32
    )
    judged = ~np.isnan(votes[:, 0])
    if growth.criterion == "variance":
        losses = (votes[judged, 0] - sample.targets[judged]) ** 2
    else:
        losses = (votes[judged].argmax(1) != sample.labels[judged]).astype(float)
    error = np.average(losses, weights=sample.weights[judged]) if judged.any() else np.nan
    restored = np.full((num_rows, votes.shape[1]), np.nan)
    restored[places] = votes
    return Forest(
        **joined, roots=roots, out_of_bag=restored, out_of_bag_error=np.asarray(error, float),
        criterion=growth.criterion, num_features=num_features,
    )  # fmt: skip
