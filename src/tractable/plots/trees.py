"""Pictures of trees: the questions, the rows that reach each node, and what matters in a forest.

Conventions. A box is a node, the left branch answers yes. Its colour is that of the most frequent class,
             paler where classes are mixed; for numbers, blue below and red above the mean of all rows.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from tractable.core.checks import check
from tractable.plots.display import Display
from tractable.supervised.trees.tree import Tree

__all__ = ["ImportanceDisplay", "TreeDisplay"]

Names = Sequence[Hashable] | np.ndarray | None


class TreeDisplay(Display):
    """A tree drawn from the root down to `max_depth` questions; deeper branches end in three dots."""

    def __init__(self, tree: Tree, *, feature_names: Names = None, class_names: Names = None):
        self.tree, self.feature_names, self.class_names = tree, feature_names, class_names

    @classmethod
    def from_model(cls, tree: Tree, **options: Any) -> "TreeDisplay":
        """The picture of a fitted `Tree`, drawn."""
        drawing = {name: options.pop(name) for name in ("ax", "max_depth") if name in options}
        return cls(tree, **options).plot(**drawing)

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> "TreeDisplay":
        """The picture of a fitted `TreeClassifier` or `TreeRegressor`, with its own names."""
        options.setdefault("feature_names", getattr(estimator, "feature_names_in_", None))
        options.setdefault("class_names", getattr(estimator, "classes_", None))
        return cls.from_model(estimator.model_, **options)

    def plot(self, ax: Axes | None = None, max_depth: int = 4) -> "TreeDisplay":
        """Draw it; each box has the number of its node as `gid`."""
        places = _layout(self.tree, max_depth)
        width = max(4.0, 1.6 * (1 + max(x for x, _ in places.values())))
        ax = self._on(ax, width, 1.3 * (max_depth + 1))
        for node, (x, y) in places.items():
            for child in (int(self.tree.left[node]), int(self.tree.right[node])):
                if child in places:
                    ax.plot([x, places[child][0]], [y, places[child][1]], color="0.6", lw=1, zorder=1)
            shown = self.tree.left[node] < 0 or int(self.tree.left[node]) in places
            box = {"boxstyle": "round", "facecolor": self._colour(node), "edgecolor": "0.4"}
            text = self._words(node) + ("" if shown else "\n...")
            ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box, gid=f"node {node}", zorder=2)
        xs, ys = zip(*places.values())
        ax.set(xlim=(min(xs) - 0.7, max(xs) + 0.7), ylim=(min(ys) - 0.6, max(ys) + 0.6))
        ax.set_axis_off()
        return self

    def _words(self, node: int) -> str:
        tree, lines = self.tree, []
        if tree.left[node] >= 0:
            column = int(tree.feature[node])
            name = f"x{column}" if self.feature_names is None else str(self.feature_names[column])
            at = tree.threshold[node]
            lines.append(f"{name} is known" if np.isinf(at) else f"{name} <= {at:.4g}")
        if tree.criterion == "variance":
            lines.append(f"mean {tree.value[node, 0]:.4g}")
        else:
            code = int(tree.value[node].argmax())
            label = code if self.class_names is None else self.class_names[code]
            lines.append(f"{label} {tree.value[node, code]:.0%}")
        return "\n".join([*lines, f"{tree.weight[node]:.6g} rows"])

    def _colour(self, node: int) -> tuple[float, ...]:
        tree = self.tree
        if tree.criterion == "variance":
            away = tree.value[:, 0] - tree.value[0, 0]
            share = away[node] / np.abs(away).max() if np.abs(away).max() > 0 else 0.0
            base, strength = to_rgb("tab:red" if share > 0 else "tab:blue"), abs(share)
        else:
            shares = tree.value[node]
            base, even = to_rgb(f"C{int(shares.argmax()) % 10}"), 1 / len(shares)
            strength = (shares.max() - even) / (1 - even) if len(shares) > 1 else 1.0
        return tuple(1 - 0.7 * strength * (1 - part) for part in base)


class ImportanceDisplay(Display):
    """The share of the decrease of impurity by column; in a forest, with the spread over its trees."""

    def __init__(self, importance: np.ndarray, spread: np.ndarray | None = None, names: Names = None):
        self.importance, self.spread = np.asarray(importance, float), spread
        self.names = [f"x{j}" for j in range(len(self.importance))] if names is None else list(names)
        wanted = len(self.importance)
        check(len(self.names) == wanted, "names", f"as many as columns ({wanted})", len(self.names))

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Axes | None = None) -> "ImportanceDisplay":
        """The importances of a fitted tree or ensemble, drawn."""
        model, spread = estimator.model_, None
        if hasattr(model, "roots"):
            spread = np.std([model.tree(t).feature_importance() for t in range(model.num_trees)], axis=0)
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.feature_importances_, spread, names).plot(ax)

    def plot(self, ax: Axes | None = None) -> "ImportanceDisplay":
        """Bars, the largest on top."""
        count = len(self.importance)
        ax = self._on(ax, 5, 0.3 * count + 1)
        order = np.argsort(self.importance, kind="stable")
        spread = None if self.spread is None else self.spread[order]
        ax.barh(np.arange(count), self.importance[order], xerr=spread, color="tab:blue", ecolor="0.4")
        ax.set_yticks(np.arange(count), [str(self.names[j]) for j in order])
        ax.set_xlabel("share of the decrease of impurity")
        return self


def _layout(tree: Tree, max_depth: int) -> dict[int, tuple[float, float]]:
    """Leaves (or where the drawing ends) side by side, every other node above the middle of its children."""
    depths, places, column = tree.depths, {}, 0
    waiting = [(0, False)]
    while waiting:
        node, ready = waiting.pop()
        ends = tree.left[node] < 0 or depths[node] >= max_depth
        if ends:
            places[node], column = (float(column), -float(depths[node])), column + 1
        elif not ready:
            waiting += [(node, True), (int(tree.right[node]), False), (int(tree.left[node]), False)]
        else:
            middle = (places[int(tree.left[node])][0] + places[int(tree.right[node])][0]) / 2
            places[node] = (middle, -float(depths[node]))
    return places
