r"""What follows from $p(x, c)$: posteriors, predictions and likelihoods of classes, on the host or traced.

Identity.    $p(c \mid x) = p(x, c) / \sum_{c'} p(x, c')$ in logarithms; a row that no class allows has none.
Cost.        One pass over the scores.
"""

from abc import abstractmethod
from typing import Any

import jax
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, has_values, namespace
from tractable.core.module import Module
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Values
from tractable.supervised.generative.counts import additive_smoothing

__all__ = ["ClassModel", "class_shares", "log_posterior", "log_shares"]


class ClassModel(Module):
    """A model of rows and classes 0, 1, ..., of which a member gives `log_joint`."""

    @property
    @abstractmethod
    def num_classes(self) -> int: ...

    @property
    @abstractmethod
    def num_columns(self) -> int: ...

    @abstractmethod
    def log_joint(self, X: ArrayLike | Rows) -> Values:
        r"""$\log p(x, c)$ of each row and class; what was not seen in a row is marginalised."""

    def scores(self, X: ArrayLike | Rows) -> Values:
        r"""$\log p(x, c)$ of each row and class, up to a constant of the row: what a decision needs."""
        return self.log_joint(X)

    def log_prob(self, X: ArrayLike | Rows) -> Values:
        r"""$\log p(x) = \log\sum_c p(x, c)$ of each row."""
        joint = self.log_joint(X)
        return np.logaddexp.reduce(joint, axis=1) if has_values(joint) else jax.nn.logsumexp(joint, axis=1)

    def log_likelihood(
        self, X: ArrayLike | Rows, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> float:
        r"""The complete-data log-likelihood $\sum_i w_i \log p(x_i, y_i)$."""
        rows = self._rows(X, y, weights)
        return float(rows.weights @ np.asarray(self.log_joint(rows))[np.arange(rows.num_rows), rows.y])

    def log_posterior(self, X: ArrayLike | Rows) -> Values:
        r"""$\log p(c \mid x)$ of each row and class; a row that no class allows is an error."""
        return log_posterior(self.scores(X))

    def posterior(self, X: ArrayLike | Rows) -> Values:
        r"""$p(c \mid x)$ of each row and class."""
        return namespace(self, X).exp(self.log_posterior(X))

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The most probable class of each row; of equals the first."""
        return self.log_posterior(X).argmax(1)

    def _rows(self, X: Any, y: Any, weights: Any, gaps: bool = True) -> Rows:
        sizes: Any = {"num_classes": self.num_classes, "num_columns": self.num_columns}
        return Rows.of(X, y, weights, target="class", gaps=gaps, **sizes)


def log_posterior(scores: Values) -> Values:
    r"""$s_c - \log\sum_{c'} e^{s_{c'}}$ in each row; a row of $-\infty$ has no posterior and is an error."""
    xp, top = namespace(scores), scores.max(1, keepdims=True)
    if has_values(scores) and np.isneginf(top).any():
        row = int(np.flatnonzero(np.isneginf(top[:, 0]))[0])
        fix = "Smooth the counts, so that what a class never showed is not impossible."
        check(False, "X", "possible in at least one class", f"row {row}", fix, ImpossibleEvidence)
    shifted = scores - top
    return shifted - xp.log(xp.exp(shifted).sum(1, keepdims=True))


def log_shares(probs: Any) -> Values:
    r"""$\log\pi_c$; an impossible class has $-\infty$."""
    xp = namespace(probs)
    with np.errstate(divide="ignore"):
        return xp.log(xp.asarray(probs))


def class_shares(
    totals: np.ndarray, smoothing: float | int | None, given: ArrayLike | None = None
) -> np.ndarray:
    """The probability of each class: its smoothed share of the weight, or what is given."""
    if smoothing is not None:
        return additive_smoothing(totals, smoothing)
    probs = np.asarray(given, float)
    ok = probs.shape == totals.shape and bool((probs >= 0).all()) and abs(probs.sum() - 1) <= 1e-6
    check(ok, "class_probs", f"{len(totals)} probabilities that sum to 1", np.asarray(given).tolist())
    return probs / probs.sum()
