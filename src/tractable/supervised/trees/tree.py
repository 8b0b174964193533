r"""Decision trees as flat arrays of nodes: impurity, prediction, printing, rules, importance.

Impurity.    Gini $1 - \sum_k p_k^2$, entropy $-\sum_k p_k \log p_k$, variance. The gain of a split of $S$
             into parts $S_v$ is $I(S) - \sum_v \frac{|S_v|}{|S|} I(S_v)$; with entropy, the information gain.
Tree.        Inner node: $x_j \le t$ goes left, a missing entry where more was gained. Leaf:
             class shares or mean.
Transforms.  Nodes are arrays: predictions pass through `jit`, `vmap` and `grad` (of the values of leaves).
Cost.        Prediction $O(\text{depth})$ for each row.
References.  Quinlan (1986); Breiman, Friedman, Olshen and Stone (1984).
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import entr

from tractable.core.checks import as_float, check, check_nonnegative, check_option, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points, row_weights
from tractable.core.types import ArrayLike, Bool, Float, Int, Values
from tractable.core.verdict import Verdict

__all__ = [
    "Nodes",
    "Tree",
    "answers",
    "gini",
    "information_gain",
    "split_gain",
    "sum_leaf_values",
    "take",
    "walk",
]

FEW_WALKS = 1_000_000  # rows times trees: above, compiling the walk is worth it
Names = Sequence[Hashable] | np.ndarray | None


class Nodes(Module):
    """Nodes of trees: the right child follows the left one, a leaf has feature -1.

    `value` holds the class shares (or the mean) of each node, `weight` the weight of its rows and `impurity`
    that of its rows.
    """

    feature: Int[Values, " m"] = field(show=False)
    threshold: Float[Values, " m"] = field(show=False)
    left: Int[Values, " m"] = field(show=False)
    missing_left: Bool[Values, " m"] = field(show=False)
    value: Float[Values, "m k"] = field(show=False)
    weight: Float[Values, " m"] = field(show=False)
    impurity: Float[Values, " m"] = field(show=False)


class Tree(Nodes):
    """A fitted tree: node 0 is the root."""

    criterion: str = field(static=True)
    num_features: int = field(static=True)

    @property
    def right(self) -> Int[Values, " m"]:
        return np.where(self.left >= 0, self.left + 1, -1)

    @property
    def num_leaves(self) -> int:
        return int((self.feature < 0).sum())

    @property
    def parent(self) -> Int[Values, " m"]:
        found, inner = np.full(len(self.left), -1), np.flatnonzero(self.left >= 0)
        found[self.left[inner]] = found[self.left[inner] + 1] = inner
        return found

    @property
    def depths(self) -> Int[Values, " m"]:
        """The number of questions above each node."""
        found = np.zeros(len(self.left), np.int64)
        for node in np.flatnonzero(self.left >= 0):  # parents come before their children
            found[self.left[node]] = found[self.left[node] + 1] = found[node] + 1
        return found

    def apply(self, X: ArrayLike | Rows) -> Int[Values, " n"]:
        """The leaf of each row."""
        return walk(self, points(X, self.num_features, gaps=True), np.zeros(1, np.int32))[0]

    def values(self, X: ArrayLike | Rows) -> Float[Values, "n k"]:
        """The class shares of each row's leaf; for a regression tree, its mean in one column."""
        return take(self.value, self.apply(X))

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The mean of each row's leaf, or the code of its most frequent class (of equals the first)."""
        found = self.values(X)
        return answers(found, self.criterion)

    def variances(self, X: ArrayLike | Rows) -> Float[Values, " n"]:
        r"""The variance of the targets in each row's leaf, with one pseudo-row that has the root's variance:
        $(W v + v_0)/(W + 1)$. A leaf of one row does not promise certainty."""
        leaf = self.apply(X)
        weight = take(self.weight, leaf)
        return (weight * take(self.impurity, leaf) + self.impurity[0]) / (weight + 1)

    def feature_importance(self) -> Float[Values, " d"]:
        """The decrease of impurity that each column brought, as shares that sum to 1 (zeros without
        splits)."""
        inner = np.flatnonzero(self.left >= 0)
        mass, left = self.weight * self.impurity, self.left[inner]
        gains = np.maximum(mass[inner] - mass[left] - mass[left + 1], 0)
        found = np.bincount(self.feature[inner], gains, self.num_features)
        return found / found.sum() if found.sum() > 0 else found

    def text(self, feature_names: Names = None, class_names: Names = None) -> str:
        """The tree as indented lines, one for each branch."""
        lines = []
        for node, depth, test in self._walk(feature_names):
            label = f"  -> {self._label(node, class_names)}" if self.left[node] < 0 else ""
            lines.append("|   " * (depth - 1) + ("|-- " if depth else "") + (test or "all rows") + label)
        return "\n".join(lines)

    def rules(self, feature_names: Names = None, class_names: Names = None) -> list[str]:
        """One rule for each leaf: the conjunction of the tests on its path, and what it answers."""
        rules, tests = [], []
        for node, depth, test in self._walk(feature_names):
            tests = [*tests[: max(depth - 1, 0)], *([test] if test else [])]
            if self.left[node] < 0:
                answer = self._label(node, class_names)
                rules.append(f"if {' and '.join(tests)}: {answer}" if tests else f"always: {answer}")
        return rules

    def _walk(self, feature_names: Names) -> Iterator[tuple[int, int, str]]:
        """Nodes from the root, left before right, with their depth and the test that leads to them."""
        check(
            feature_names is None or len(feature_names) == self.num_features,
            "feature_names",
            f"as many as there are columns ({self.num_features})",
            None if feature_names is None else len(feature_names),
        )
        waiting = [(0, 0, "")]
        while waiting:
            node, depth, test = waiting.pop()
            yield node, depth, test
            if self.left[node] >= 0:
                column = int(self.feature[node])
                name = f"x{column}" if feature_names is None else str(feature_names[column])
                at, left = self.threshold[node], int(self.left[node])
                tests = (f"{name} <= {at:.6g}", f"{name} > {at:.6g}")
                if np.isinf(at):
                    tests = (f"{name} is known", f"{name} is missing")
                waiting += [(left + 1, depth + 1, tests[1]), (left, depth + 1, tests[0])]

    def _label(self, node: int, class_names: Names) -> str:
        if self.criterion == "variance":
            return f"{self.value[node, 0]:.6g} (weight {self.weight[node]:.6g})"
        code = int(self.value[node].argmax())
        name = code if class_names is None else class_names[code]
        return f"{name} ({self.value[node, code]:.0%} of {self.weight[node]:.6g})"

    @property
    def verdict(self) -> Verdict:
        """Size, and how much of the impurity the leaves leave."""
        rest, first = self.training_risk, float(self.impurity[0])
        share = f", {1 - rest / first:.0%} of it explained" if first > 0 else ""
        size = f"{self.num_leaves} leaves, depth {int(self.depths.max())}, {self.criterion} {first:.4g}"
        told = f"{size} at the root, {rest:.4g} in the leaves{share} on the training rows."
        return Verdict(True, told, {"num_leaves": self.num_leaves, "impurity": rest})

    @property
    def training_risk(self) -> float:
        """The impurity of the leaves, by share of rows."""
        return float((self.weight * self.impurity)[self.left < 0].sum() / self.weight[0])


def gini(probs: ArrayLike) -> float:
    r"""$1 - \sum_k p_k^2$: the probability that two draws differ.

    >>> gini([0.5, 0.5])
    0.5
    """
    p = np.asarray(as_float("probs", probs), float)
    ok = p >= 0
    check(bool(ok.all()) and abs(p.sum() - 1) < 1e-6, "probs", "probabilities that sum to 1", p)
    return float(1 - (p**2).sum())


def split_gain(counts: ArrayLike, criterion: str = "entropy", base: float | int | None = None) -> float:
    r"""$I(S) - \sum_v \frac{|S_v|}{|S|} I(S_v)$ from `counts[v, k]`, the weight of class $k$ in part $v$.

    >>> round(split_gain([[3, 4], [6, 1]], base=2), 5)  # PlayTennis: humidity high, normal
    0.15184
    """
    table = np.asarray(as_float("counts", counts), float)
    check(table.ndim == 2 and table.size > 0, "counts", "of shape (parts, classes)", f"shape {table.shape}")
    check_nonnegative("counts", table)
    check_option("criterion", criterion, ("entropy", "gini"))
    check(table.sum() > 0, "counts", "of at least one row", "zeros")
    sizes = table.sum(1)
    parts = table[sizes > 0] / sizes[sizes > 0, None]
    rows = np.vstack([table.sum(0) / table.sum(), parts])
    impurity = entr(rows).sum(1) if criterion == "entropy" else 1 - (rows**2).sum(1)
    gain = float(impurity[0] - sizes[sizes > 0] / table.sum() @ impurity[1:])
    return max(gain, 0.0) / (1.0 if base is None or criterion == "gini" else float(np.log(base)))


def information_gain(
    labels: Any, attribute: Any, weights: ArrayLike | None = None, base: float | int | None = 2
) -> float:
    r"""$\mathrm{Gain}(S, A) = H(S) - \sum_v \frac{|S_v|}{|S|} H(S_v)$, $S_v$ the rows where
    the attribute is $v$.

    In bits, or nats with `base=None`; `labels` and `attribute` may be of any kind.

    >>> information_gain(["a", "a", "b", "b"], [0, 0, 1, 1])
    1.0
    """
    y, a = np.asarray(labels), np.asarray(attribute)
    check(y.ndim == 1 and len(y) > 0, "labels", "a vector of at least one", f"shape {y.shape}")
    check(a.shape == y.shape, "attribute", f"one value per row {y.shape}", f"shape {a.shape}")
    w = row_weights(weights, len(y))
    classes, codes = np.unique(y, return_inverse=True)
    parts, at = np.unique(a, return_inverse=True)
    shape = (len(parts), len(classes))
    return split_gain(
        np.bincount(at * len(classes) + codes, w, len(parts) * len(classes)).reshape(shape), base=base
    )


def walk(nodes: Nodes, X: Any, roots: Any) -> Int[Any, "t n"]:
    """The leaf of each row from each root: on the host (many walks are compiled), or traced."""
    if namespace(nodes, X) is jnp:
        return jax.vmap(lambda root: _walk_traced(nodes, jnp.asarray(X), root))(jnp.asarray(roots))
    X, roots = np.asarray(X), np.asarray(roots, np.int32)
    if len(X) * len(roots) <= FEW_WALKS:
        return _walk_host(nodes, X, roots)
    from tractable.supervised.trees.walk_loops import leaves_of  # numba: half a second, then what it compiles

    found = np.empty((len(roots), len(X)), np.int32)
    own = lambda array, kind: np.require(array, kind, ["C", "W"])  # noqa: E731
    leaves_of(
        own(X, float), own(nodes.feature, np.int32), own(nodes.threshold, float), own(nodes.left, np.int32),
        own(nodes.missing_left, bool), own(roots, np.int32), found,
    )  # fmt: skip
    return found


def sum_leaf_values(nodes: Nodes, X: Any, roots: Any) -> Any:
    """The sum over trees of the values of each row's leaves, for the nodes of a tree or a forest."""
    if namespace(nodes, X) is np:
        out, values = np.zeros((len(X), nodes.value.shape[1])), np.asarray(nodes.value)
        for leaves in walk(nodes, X, roots):
            out += values[leaves]
        return out
    values = jnp.asarray(nodes.value)
    step = lambda total, root: (total + values[walk(nodes, X, root[None])[0]], None)  # noqa: E731
    start = jnp.zeros((len(X), values.shape[1]), values.dtype)
    return jax.lax.scan(step, start, jnp.asarray(roots))[0]


def answers(values: Any, criterion: str) -> Any:
    """Means, or the code of the largest share (of equals the first)."""
    return values[:, 0] if criterion == "variance" else values.argmax(1)


def take(values: Any, at: Any) -> Any:
    """`values[at]` of arrays of which one may be traced."""
    return namespace(values, at).asarray(values)[at]


def _walk_host(nodes: Nodes, X: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """All trees at once, step by step."""
    feature = np.asarray(nodes.feature)
    node = np.repeat(roots, len(X))
    walking = np.flatnonzero(feature[node] >= 0)
    while walking.size:
        at = node[walking]
        node[walking] = at = _child(np, nodes, X[walking % len(X), feature[at]], at)
        walking = walking[feature[at] >= 0]
    return node.reshape(len(roots), len(X))


def _walk_traced(nodes: Nodes, X: Any, root: Any) -> Any:
    feature, rows = jnp.asarray(nodes.feature), jnp.arange(len(X))

    def step(node):
        x = X[rows, jnp.maximum(feature[node], 0)]
        return jnp.where(feature[node] >= 0, _child(jnp, nodes, x, node), node)

    start = jnp.broadcast_to(jnp.asarray(root, jnp.int32), rows.shape)
    # the way down is whole numbers: no derivative passes through it
    X, nodes = jax.lax.stop_gradient((X, nodes))
    return jax.lax.while_loop(lambda node: (feature[node] >= 0).any(), step, start)


def _child(xp: Any, nodes: Nodes, x: Any, at: Any) -> Any:
    """Where entries `x` lead from nodes `at`."""
    threshold, missing_left, left = (xp.asarray(a) for a in (nodes.threshold, nodes.missing_left, nodes.left))
    goes_left = (x <= threshold[at]) | (xp.isnan(x) & missing_left[at])
    return xp.where(goes_left, left[at], left[at] + 1)
