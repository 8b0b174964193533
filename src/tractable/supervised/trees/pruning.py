r"""Pruning a grown tree at its weakest links.

Identity.    $R_\alpha(T) = R(T) + \alpha |T|$; the weakest link is the inner node $t$ of least
             $(R(t) - R(T_t))/(|T_t| - 1)$, and removing it again and again gives every optimal subtree.
Cost.        The path takes $O(\text{depth}\log\text{nodes})$ for each node.
References.  Breiman, Friedman, Olshen and Stone (1984) chapter 3.
"""

import heapq

import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.types import Float, Int, Values
from tractable.core.verdict import Verdict
from tractable.supervised.trees.tree import Tree

__all__ = ["PruningPath", "prune", "prune_places", "pruning_path"]


class PruningPath(Module):
    """The nested optimal subtrees: from each `alphas` on, `num_leaves` remain, with training risk `risks`."""

    alphas: Float[Values, " p"]
    num_leaves: Int[Values, " p"]
    risks: Float[Values, " p"]

    @property
    def verdict(self) -> Verdict:
        """How many subtrees there are, and when the last split goes."""
        first, last = int(self.num_leaves[0]), float(self.alphas[-1])
        return Verdict(True, f"{len(self.alphas)} subtrees, {first} leaves to 1 at alpha {last:.4g}.")


def pruning_path(tree: Tree) -> PruningPath:
    """Every subtree that minimises $R(T) + \\alpha |T|$ for some $\\alpha$, from the whole
    tree to the root."""
    risk = tree.weight * tree.impurity / tree.weight[0]
    removed = _weakest_links(tree.left, tree.parent, risk)
    inner = tree.left >= 0
    steps = np.unique(removed[inner])
    alphas = np.unique(np.concatenate([[0.0], steps]))
    trees = [prune(tree, alpha, removed) for alpha in alphas]
    leaves, risks = np.array([t.num_leaves for t in trees]), np.array([t.training_risk for t in trees])
    return PruningPath(alphas, leaves, risks)


def prune(tree: Tree, alpha: float | int, removed: np.ndarray | None = None) -> Tree:
    r"""The smallest subtree that minimises $R(T) + \alpha |T|$, $R$ the impurity of the leaves
    by share of rows."""
    check(alpha >= 0, "alpha", "zero or positive", alpha)
    return prune_places(tree, alpha, removed)[0]


def prune_places(
    tree: Tree, alpha: float | int, removed: np.ndarray | None = None
) -> tuple[Tree, Int[Values, " m"]]:
    """The pruned tree, and the node of it in which each node of the whole one is now."""
    parent = tree.parent
    if removed is None:
        removed = _weakest_links(tree.left, parent, tree.weight * tree.impurity / tree.weight[0])
    inner = (tree.left >= 0) & (removed > alpha)
    kept = np.zeros(len(inner), bool)
    kept[0] = True
    for node in range(1, len(inner)):
        kept[node] = kept[parent[node]] and inner[parent[node]]
    place = np.cumsum(kept) - 1
    for node in np.flatnonzero(~kept):  # parents come before their children
        place[node] = place[parent[node]]
    left = np.where(inner, place[tree.left], -1)[kept].astype(tree.left.dtype)
    feature = np.where(inner, tree.feature, -1)[kept].astype(tree.feature.dtype)
    pruned = Tree(
        feature, tree.threshold[kept], left, tree.missing_left[kept], tree.value[kept], tree.weight[kept],
        tree.impurity[kept], tree.criterion, tree.num_features,
    )  # fmt: skip
    return pruned, place


def _weakest_links(left: np.ndarray, parent: np.ndarray, risk: np.ndarray) -> np.ndarray:
    r"""For each inner node, the $\alpha$ at which the weakest link removes it; leaves have infinity.

    The link of node $t$ with branch $T_t$ is $g(t) = (R(t) - R(T_t)) / (|T_t| - 1)$.
    """
    count, children, parents = len(left), left.tolist(), parent.tolist()
    branch, leaves, own = risk.tolist(), [1] * count, risk.tolist()
    removed, inner = np.full(count, np.inf), [child >= 0 for child in children]
    for node in range(count - 1, -1, -1):  # children come after their parents
        if inner[node]:
            branch[node] = branch[children[node]] + branch[children[node] + 1]
            leaves[node] = leaves[children[node]] + leaves[children[node] + 1]
    link = lambda node: (own[node] - branch[node]) / (leaves[node] - 1)  # noqa: E731
    links = {node: link(node) for node in range(count) if inner[node]}
    heap = [(value, node) for node, value in links.items()]
    heapq.heapify(heap)
    alpha = 0.0
    while heap:
        least, weakest = heapq.heappop(heap)
        if not inner[weakest] or links[weakest] != least:
            continue  # removed with a branch, or moved since
        alpha, gone = max(alpha, least), [weakest]
        while gone:
            node = gone.pop()
            if inner[node]:
                inner[node], removed[node] = False, alpha
                gone += [children[node], children[node] + 1]
        lost, fewer, node = own[weakest] - branch[weakest], leaves[weakest] - 1, weakest
        while node >= 0:
            branch[node] += lost
            leaves[node] -= fewer
            if inner[node]:
                links[node] = link(node)
                heapq.heappush(heap, (links[node], node))
            node = parents[node]
    return removed
