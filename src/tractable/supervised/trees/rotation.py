r"""Rotation forests: each tree sees the columns along other principal axes.

Rotation.    For each tree the (standardised) columns are dealt at random into disjoint subsets; principal
             axes of each subset, from a sample of three quarters of the rows, are all kept. Together they
             are a block-diagonal rotation $R_t$, and tree $t$ is grown on all rows of $X D^{-1} R_t$, $D$
             the columns' deviations.
Answer.      The mean over trees of the class shares.
Cost.        One sort of the rotated columns and one tree each, in parallel threads.
References.  Rodriguez, Kuncheva and Alonso (2006).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check_count, check_option, namespace
from tractable.core.host_random import seeds
from tractable.core.interrupts import in_threads
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Float, Key, Values
from tractable.core.verdict import Verdict
from tractable.supervised.trees.columns import canonical_order, code_columns, sample_of
from tractable.supervised.trees.forests import draw_rows
from tractable.supervised.trees.growth import Growth, grow_tree
from tractable.supervised.trees.splits import CRITERIA
from tractable.supervised.trees.tree import Tree, answers

__all__ = ["RotationForest", "fit_rotation_forest", "principal_rotation"]


class RotationForest(Module):
    """Trees with the maps `rotations[t]` from columns to the axes that tree `t` splits."""

    trees: tuple[Tree, ...]
    rotations: Float[Values, "t d d"]
    training_error: Float[Values, ""]

    def values(self, X: ArrayLike | Rows, num_threads: int | None = None) -> Float[Values, "n k"]:
        """The mean over trees of the class shares of each row (or of its mean)."""
        rows = points(X, self.rotations.shape[1])
        xp, answer = namespace(self, rows), lambda pair: pair[0].values(_rotate(rows, pair[1]))
        pairs = zip(self.trees, self.rotations)
        found = in_threads(answer, pairs, num_threads) if xp is np else map(answer, pairs)
        return xp.mean(xp.stack(list(found)), axis=0)

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The code of the most probable class, or the mean."""
        return answers(self.values(X), self.trees[0].criterion)

    @property
    def verdict(self) -> Verdict:
        """What is known of it: how it does on the rows that it has seen."""
        kind = "mean squared error" if self.trees[0].criterion == "variance" else "error"
        error = float(self.training_error)
        sentence = f"{len(self.trees)} trees; training {kind} {error:.4g}, unchecked on new rows."
        return Verdict(True, sentence, {"training_error": error})


@takes_key
def fit_rotation_forest(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    key: Key,
    num_trees: int = 10,
    subset_size: int = 3,
    num_classes: int | None = None,
    num_threads: int | None = None,
    **options: Any,
) -> RotationForest:
    """A rotation forest with column subsets of `subset_size`; the options of `fit_tree` hold for its trees.

    >>> import jax.random as jr
    >>> rows = [[0.0, 0.1], [0.2, 0.0], [1.0, 1.1], [1.2, 1.0]]
    >>> fit_rotation_forest(rows, [0, 0, 1, 1], key=jr.key(0)).predict(rows).tolist()
    [0, 0, 1, 1]
    """
    growth = Growth(**options)
    check_option("criterion", growth.criterion, CRITERIA)
    rows, sample = sample_of(X, y, weights, growth.criterion, num_classes)
    points(rows)  # complete: axes need every entry
    growth.checked(rows.shape[1])
    size = check_count("subset_size", subset_size)
    present = sample.weights > 0
    rows, sample = rows[present], sample.take(present)
    order = canonical_order(code_columns(rows), sample.targets)
    rows, sample = rows[order], sample.take(order)
    starts = seeds(key, 2 * check_count("num_trees", num_trees)).reshape(num_trees, 2)

    def grown(seed: Any) -> tuple[Tree, np.ndarray]:
        drawn = draw_rows(sample.weights, seed[0], 0.75)
        permuted = np.random.Generator(np.random.SFC64(int(seed[1]))).permutation(rows.shape[1])
        subsets = [np.sort(permuted[i : i + size]) for i in range(0, len(permuted), size)]
        rotation = principal_rotation(rows, drawn, subsets, sample.weights)
        columns = code_columns(_rotate(rows, rotation))
        return grow_tree(columns, sample, growth, seed[1], num_alike=num_trees), rotation

    trees, rotations = zip(*in_threads(grown, starts, num_threads))
    forest = RotationForest(tuple(trees), np.stack(rotations), np.asarray(np.nan))
    found = forest.predict(rows)
    losses = (found - sample.targets) ** 2 if growth.criterion == "variance" else found != sample.labels
    error = np.asarray(np.average(losses, weights=sample.weights))
    return RotationForest(forest.trees, forest.rotations, error)


def principal_rotation(
    rows: np.ndarray, drawn: np.ndarray, subsets: list[np.ndarray], weights: np.ndarray | None = None
) -> Float[Values, "d d"]:
    """$D^{-1} R$: standardise by the spread of all rows, rotate each subset to the axes of the drawn ones."""
    weights = np.ones(len(rows)) if weights is None else weights
    centre = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weights))
    spread = np.where(spread > 0, spread, 1.0)
    found = np.zeros((rows.shape[1], rows.shape[1]))
    for subset in subsets:
        part = ((rows - centre) / spread)[:, subset]
        away = part - np.average(part, axis=0, weights=drawn)
        _, axes = np.linalg.eigh((away * drawn[:, None]).T @ away / drawn.sum())
        axes = axes[:, ::-1]  # the first axis has the largest variance
        signs = np.sign(axes[np.abs(axes).argmax(0), np.arange(len(subset))])
        found[np.ix_(subset, subset)] = axes * signs / spread[subset][:, None]
    return found


def _rotate(rows: Any, rotation: Any) -> Any:
    """`rows @ rotation`, term by term: equal rows stay equal to the last bit, which a blocked product
    breaks."""
    if namespace(rows, rotation) is not np:
        return rows @ rotation
    rotation, found = np.asarray(rotation), np.zeros_like(rows)
    for j, k in np.argwhere(rotation != 0):
        found[:, k] += rows[:, j] * rotation[j, k]
    return found
