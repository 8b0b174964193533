r"""AdaBoost: trees one after another, each on the rows that those before it got wrong.

Round.       Weighted error $e_m$ of tree $h_m$; $\alpha_m = \frac12[\log\frac{1 - e_m}{e_m} + \log(K - 1)]$
             (with two classes $\frac12\log\frac{1 - e_m}{e_m}$); weights times $e^{\alpha_m}$ where it is
             wrong, $e^{-\alpha_m}$ where right, normalised.
Vote.        $V_k(x) = \sum_m \alpha_m [h_m(x) = k]$, answer $\arg\max_k V_k$; $p_k \propto e^{2 V_k}$, which
             is $\sigma(2 F)$ with $F = \sum_m \alpha_m h_m$, $h_m = \pm 1$, for two classes.
Bound.       Training error $\le \prod_m Z_m$, $Z_m = \sqrt{e_m (1 - e_m)}\,(\sqrt{K - 1} + 1/\sqrt{K - 1})$,
             with two classes $\prod_m 2 \sqrt{e_m (1 - e_m)}$.
Cost.        One tree for each round.
References.  Freund and Schapire (1997); Friedman, Hastie and Tibshirani (2000); Zhu et al. (2009).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check_count, check_option, namespace
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module, field
from tractable.core.progress import track
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Float, Values
from tractable.core.verdict import Verdict
from tractable.supervised.trees.columns import Columns, Sample, code_columns, sample_of
from tractable.supervised.trees.growth import Growth, grow_tree
from tractable.supervised.trees.splits import CRITERIA
from tractable.supervised.trees.tree import Tree

__all__ = ["Boosted", "fit_adaboost"]

_ENDS = {
    Status.completed: "all rounds were made",
    Status.converged: "a tree without errors ended it",
    Status.stalled: "a tree no better than chance ended it",
}


class Boosted(Ended, Module):
    """Trees with votes `alphas`; `errors` are their weighted errors, `training_errors` those of
    the vote so far."""

    trees: tuple[Tree, ...] = field(show=False)
    alphas: Float[Values, " m"]
    errors: Float[Values, " m"]
    training_errors: Float[Values, " m"]
    prior: Float[Values, " k"]
    code: int = field(static=True)
    num_features: int = field(static=True)

    @property
    def bounds(self) -> Float[Values, " m"]:
        """The bound on the training error after each round."""
        rest = np.sqrt(max(len(self.prior) - 1, 1))
        return np.cumprod(np.sqrt(self.errors * (1 - self.errors)) * (rest + 1 / rest))

    def votes(self, X: ArrayLike | Rows, num_rounds: int | None = None) -> Float[Values, "n k"]:
        """$V_k$ of each row after all rounds, or the first of them; a tree without errors decides alone."""
        rows = points(X, self.num_features, gaps=True)
        xp = namespace(self, rows)
        found, classes = xp.zeros((len(rows), len(self.prior))), np.arange(len(self.prior))[None]
        for tree, alpha in list(zip(self.trees, self.alphas))[:num_rounds]:
            found = found + xp.where(tree.predict(rows)[:, None] == classes, alpha, 0.0)
        return found

    def probabilities(self, X: ArrayLike | Rows) -> Float[Values, "n k"]:
        r"""$p_k \propto e^{2 V_k}$; without any useful tree, the class shares of the training rows."""
        votes, xp = self.votes(X), namespace(self, X)
        if not self.trees:
            return xp.repeat(self.prior[None], len(votes), 0)
        decided = xp.isinf(xp.asarray(self.alphas)).any()
        finite = xp.where(decided, 0.0, votes)
        odds = xp.exp(2 * (finite - finite.max(1, keepdims=True)))
        return xp.where(decided, votes == np.inf, odds / odds.sum(1, keepdims=True))

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The code of the class with most votes; of equals the first."""
        return self.probabilities(X).argmax(1) if not self.trees else self.votes(X).argmax(1)

    def feature_importance(self) -> Float[Values, " d"]:
        """The importance of each column in the trees, by their votes."""
        if not self.trees:
            return np.zeros(self.num_features)
        shares = np.where(np.isinf(self.alphas), 1.0, self.alphas)
        return np.average([tree.feature_importance() for tree in self.trees], axis=0, weights=shares)

    @property
    def verdict(self) -> Verdict:
        """The training error with its bound, and what ended the rounds."""
        if not self.trees:
            return Verdict(False, "No tree was better than chance: answers with the class shares.")
        error, bound = float(self.training_errors[-1]), float(self.bounds[-1])
        told = f"training error {error:.4g}, bound {bound:.4g}; {_ENDS[self.status]}"
        return Verdict(True, f"{len(self.trees)} trees, {told}.", {"training_error": error, "bound": bound})


def fit_adaboost(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    num_rounds: int = 50,
    num_classes: int | None = None,
    **options: Any,
) -> Boosted:
    """AdaBoost with trees of depth `max_depth` (1: stumps) and the other options of `fit_tree`.

    >>> fit_adaboost([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0], num_rounds=3).verdict
    3 trees, training error 0, bound 0.5164; all rounds were made.
    """
    growth = Growth(**{"max_depth": 1, **options})
    check_option("criterion", growth.criterion, CRITERIA[:2])
    rows, sample = sample_of(X, y, weights, growth.criterion, num_classes)
    growth.checked(rows.shape[1])
    keep = sample.weights > 0
    rows, sample = rows[keep], sample.take(keep)
    prior = np.bincount(sample.labels, sample.weights, sample.num_values) / sample.weights.sum()
    parts = _boost(code_columns(rows), rows, sample, growth, check_count("num_rounds", num_rounds))
    return Boosted(*parts[:4], prior, int(parts[4]), rows.shape[1])


def _boost(
    columns: Columns, rows: np.ndarray, sample: Sample, growth: Growth, num_rounds: int
) -> tuple[tuple[Tree, ...], np.ndarray, np.ndarray, np.ndarray, Status]:
    total, num_classes, labels = sample.weights.sum(), sample.num_values, sample.labels
    weights, votes = sample.weights.copy(), np.zeros((len(rows), num_classes))
    trees, alphas, errors, staged = [], [], [], []
    status = Status.completed
    for _ in track(range(num_rounds), label="Boosting"):
        tree = grow_tree(columns, sample, growth, 1, weights, num_alike=num_rounds)
        said = tree.predict(rows)
        wrong = said != labels
        error = float(weights[wrong].sum() / weights.sum())
        if not wrong.any():
            return (tree,), np.array([np.inf]), np.array([0.0]), np.array([0.0]), Status.converged
        if error >= (1 - 1 / num_classes) * (1 - 1e-12):
            status = Status.stalled
            break
        alpha = 0.5 * (np.log((1 - error) / error) + np.log(num_classes - 1))
        votes[np.arange(len(rows)), said] += alpha
        trees, alphas, errors = [*trees, tree], [*alphas, alpha], [*errors, error]
        staged.append(float(sample.weights[votes.argmax(1) != labels].sum() / total))
        weights = weights * np.exp(np.where(wrong, alpha, -alpha))
        weights *= total / weights.sum()  # so that `min_samples_leaf` keeps its meaning
    return tuple(trees), np.array(alphas), np.array(errors), np.array(staged), status
