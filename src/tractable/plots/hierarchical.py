"""Pictures of clustering trees: dendrograms, and tables with their rows and columns in the order of trees.

Conventions. A bracket joins two clusters at the height of their merge. The clusters of a cut have colours;
             what is above the cut is grey.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from tractable.core.checks import check, check_option
from tractable.core.rows import points
from tractable.latent.hierarchical.agglomerative import LINKAGES, agglomerate
from tractable.latent.hierarchical.tree import ClusteringTree
from tractable.plots.display import axes_of

__all__ = ["plot_clustered_heatmap", "plot_dendrogram"]

Names = Sequence[Hashable] | np.ndarray | None
_NAMED = 80  # leaves up to which their names can be read


def plot_dendrogram(
    tree: Any, *, num_clusters: int | None = None, labels: Names = None, side: str = "top",
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """The tree (or that of a fitted `AgglomerativeClustering`) as brackets, leaves at the bottom or right.

    With `num_clusters` the clusters of that cut are coloured, and a dotted line marks a height that makes it.
    """
    found, chosen = _tree_of(tree)
    num_clusters = chosen if num_clusters is None else num_clusters
    check_option("side", side, ("top", "left"))
    ax = axes_of(ax, 6, 3.5) if side == "top" else axes_of(ax, 3.5, 6)
    brackets, tops = _brackets(found)
    brackets = brackets if side == "top" else brackets[:, :, ::-1]
    ax.add_collection(LineCollection(list(brackets), colors=_colours(found, num_clusters), linewidths=1.2))
    high = 1.05 * tops if tops > 0 else 1.0
    across, along = ("x", "y") if side == "top" else ("y", "x")
    ax.set(**{f"{across}lim": (-0.5, found.num_leaves - 0.5), f"{along}lim": (0, high)})
    ax.set(**{f"{along}label": "height"})
    if side == "left":
        ax.invert_xaxis()
        ax.invert_yaxis()
    _name_leaves(ax, found, labels, across)
    if num_clusters is not None and 1 < num_clusters < found.num_leaves and found.is_monotone:
        mark = ax.axhline if side == "top" else ax.axvline
        mark(found.cut_height(num_clusters), color="0.6", ls=":", lw=1)
    return ax


def plot_clustered_heatmap(
    tree: Any, X: Any, *, column_tree: ClusteringTree | None = None, num_clusters: int | None = None,
    labels: Names = None, columns: Names = None, colours: str = "viridis",
) -> Axes:  # fmt: skip
    """The table `X` with rows in the order of their tree and columns in that of theirs, the trees beside it.

    The columns' tree is made by the linkage of the rows' tree where none is given.
    """
    found, chosen = _tree_of(tree)
    names = list(X.columns) if columns is None and hasattr(X, "columns") else columns
    table = points(X)
    count, wide = found.num_leaves, table.shape[1]
    check(len(table) == count, "X", f"one row for each of {count} leaves", f"{len(table)} rows")
    if column_tree is None:
        method = found.method if found.method in LINKAGES else "average"
        column_tree = agglomerate(table.T, method)
    check(column_tree.num_leaves == wide, "column_tree", f"of {wide} leaves", column_tree.num_leaves)
    figure = plt.figure(figsize=(7, 6), layout="constrained")
    parts = figure.add_gridspec(2, 2, width_ratios=(1, 4), height_ratios=(1, 4))
    left = figure.add_subplot(parts[1, 0])
    plot_dendrogram(found, num_clusters=num_clusters or chosen, side="left", ax=left)
    if wide > 1:
        top = figure.add_subplot(parts[0, 1])
        plot_dendrogram(column_tree, ax=top)
        top.set_axis_off()
    left.set_axis_off()
    ax = figure.add_subplot(parts[1, 1])
    shown = table[found.leaf_order][:, column_tree.leaf_order]
    image = ax.imshow(shown, aspect="auto", interpolation="nearest", cmap=colours)
    figure.colorbar(image, ax=ax, shrink=0.6)
    _name_leaves(ax, column_tree, names, "x")
    _name_leaves(ax, found, labels, "y")
    ax.yaxis.tick_right()
    return ax


def _tree_of(tree: Any) -> tuple[ClusteringTree, int | None]:
    """The tree of an estimator with the number of its clusters, or a tree as it is."""
    if isinstance(tree, ClusteringTree):
        return tree, None
    return tree.model_, int(tree.n_clusters_)


def _brackets(tree: ClusteringTree) -> tuple[np.ndarray, float]:
    """The four corners of each merge, and the height of the highest."""
    count = tree.num_leaves
    places, heights = np.zeros(2 * count - 1), np.zeros(2 * count - 1)
    places[tree.leaf_order] = np.arange(count)
    corners = np.zeros((len(tree.heights), 4, 2))
    for step, (left, right) in enumerate(tree.merges.tolist()):
        height = tree.heights[step]
        corners[step, :, 0] = places[left], places[left], places[right], places[right]
        corners[step, :, 1] = heights[left], height, height, heights[right]
        places[count + step], heights[count + step] = (places[left] + places[right]) / 2, height
    return corners, float(tree.heights.max(initial=0.0))


def _colours(tree: ClusteringTree, num_clusters: int | None) -> list[Any]:
    """The colour of each merge: that of its cluster, grey above the cut."""
    count = len(tree.heights)
    if num_clusters is None:
        return [to_rgba("tab:blue")] * count
    labels = np.zeros(tree.num_leaves, int)
    labels[tree.members] = tree.cut(num_clusters)
    leaf = np.arange(2 * tree.num_leaves - 1)  # one leaf under each node
    for step, (left, _) in enumerate(tree.merges.tolist()):
        leaf[tree.num_leaves + step] = leaf[left]
    inside = np.arange(count) < tree.num_leaves - num_clusters
    own = labels[leaf[tree.num_leaves :]]
    return [to_rgba(f"C{own[i] % 10}" if inside[i] else "0.5") for i in range(count)]


def _name_leaves(ax: Axes, tree: ClusteringTree, labels: Names, axis: str) -> None:
    count = tree.num_leaves
    names = range(count) if labels is None else list(labels)
    check(len(names) == count, "labels", f"as many as leaves ({count})", len(names))
    ticks = ax.set_xticks if axis == "x" else ax.set_yticks
    if count > _NAMED:
        ticks([])
        return
    texts = [str(names[leaf]) for leaf in tree.leaf_order]
    turned = axis == "x" and max(map(len, texts)) * count > 60
    size = "small" if count <= 25 else "xx-small"
    ticks(np.arange(count), texts, rotation=90 if turned else 0, fontsize=size)
