r"""Losses, and the decisions that minimise them in expectation.

Losses.      0-1: $1\{\hat y \ne y\}$; squared: $(\hat y - y)^2$; absolute: $|\hat y - y|$; pinball at $q$:
             $\max(q r, (q - 1) r)$ with $r = y - \hat y$; negative log-likelihood: $-\log p(y \mid x)$.
Noise.       $-\log N(y \mid h, \sigma^2) = (y - h)^2/2\sigma^2 + \frac12\log 2\pi\sigma^2$: squared loss, up
             to scale and constant.
Decisions.   Squared loss: $E[y \mid x]$; absolute: the median; pinball: the quantile; 0-1: the most probable
             class; a matrix $L_{ca}$ of the loss of action $a$ in class $c$: $\arg\min_a\sum_c p_c L_{ca}$.
Cost.        Linear in the rows.
References.  Berger (1985) chapter 2; Bishop (2006) section 1.5; Fawcett (2006) for the ROC curve.
"""

from typing import Any

import jax
import numpy as np

from tractable.core.checks import check, check_entries, check_length
from tractable.core.module import Module, plates
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution

__all__ = [
    "RocCurve", "absolute_loss", "bayes_decision", "confusion_matrix", "gaussian_nll", "mean_decision",
    "negative_log_likelihood", "pinball_loss", "quantile_decision", "reject_loss_matrix", "roc_curve",
    "squared_loss", "zero_one_loss",
]  # fmt: skip


def zero_one_loss(targets: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    """1 where the prediction is wrong, else 0, for each row."""
    y, h = _pair(np.asarray(targets), np.asarray(predictions))
    return (y != h).astype(float)


def squared_loss(targets: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    r"""$(y - \hat y)^2$ of each row."""
    y, h = _pair(np.asarray(targets, float), np.asarray(predictions, float))
    return (y - h) ** 2


def absolute_loss(targets: ArrayLike, predictions: ArrayLike) -> np.ndarray:
    r"""$|y - \hat y|$ of each row."""
    y, h = _pair(np.asarray(targets, float), np.asarray(predictions, float))
    return np.abs(y - h)


def pinball_loss(targets: ArrayLike, predictions: ArrayLike, quantile: float) -> np.ndarray:
    r"""$\max(q r, (q - 1) r)$ with $r = y - \hat y$: least in expectation at the quantile $q$."""
    check(0 < quantile < 1, "quantile", "between 0 and 1", quantile)
    y, h = _pair(np.asarray(targets, float), np.asarray(predictions, float))
    return np.maximum(quantile * (y - h), (quantile - 1) * (y - h))


def negative_log_likelihood(predicted: Distribution, targets: ArrayLike) -> np.ndarray:
    r"""$-\log p_i(y_i)$ of each row, from a distribution with one unit per row: maximum likelihood as a loss.

    >>> from tractable.distributions.continuous import Normal
    >>> negative_log_likelihood(Normal([0.0, 1.0], 1.0), [0.0, 3.0]).round(6).tolist()
    [0.918939, 2.918939]
    """
    y = np.asarray(targets)
    own = getattr(predicted, "row_log_probs", None)  # laws of rows on the host know it of each row
    if own is not None:
        return -np.asarray(own(y))
    units = plates(predicted)
    check(len(units) == 1, "predicted", "a distribution with one unit per row", f"leading axes {units}")
    check(y.shape[:1] == units, "targets", f"one per unit {units}", f"shape {y.shape}")
    return -np.asarray(_log_probs(predicted.expand(units), y))


def gaussian_nll(targets: ArrayLike, predictions: ArrayLike, scale: ArrayLike) -> np.ndarray:
    r"""$(y - \hat y)^2 / 2\sigma^2 + \frac12\log 2\pi\sigma^2$ of each row."""
    sigma = np.asarray(scale, float)
    check_entries("scale", sigma, lambda v: v > 0, "positive")
    return squared_loss(targets, predictions) / (2 * sigma**2) + 0.5 * np.log(2 * np.pi * sigma**2)


def mean_decision(predicted: Distribution) -> np.ndarray:
    r"""$E[y \mid x]$ of each row: the decision of least expected squared loss."""
    return np.asarray(predicted.mean)


def quantile_decision(predicted: Any, quantile: float = 0.5) -> np.ndarray:
    """The quantile of each row: of least expected pinball loss; the median, of least absolute loss."""
    check(0 < quantile < 1, "quantile", "between 0 and 1", quantile)
    return np.asarray(predicted.icdf(quantile))


def bayes_decision(probs: ArrayLike, loss_matrix: ArrayLike | None = None) -> np.ndarray:
    r"""The action of least expected loss in each row; without a matrix, the most probable class.

    `loss_matrix[c, a]` is the loss of action $a$ where the class is $c$. Of equal actions the first.

    >>> bayes_decision([[0.7, 0.3]], [[0, 1], [10, 0]]).tolist()  # a miss of class 1 costs ten times as much
    [1]
    """
    p = _probabilities(probs)
    if loss_matrix is None:
        return p.argmax(1)
    losses = np.asarray(loss_matrix, float)
    must = f"one row per class ({p.shape[1]})"
    check(losses.ndim == 2 and len(losses) == p.shape[1], "loss_matrix", must, f"shape {losses.shape}")
    check(bool(np.isfinite(losses).all()), "loss_matrix", "finite", losses.tolist())
    return (p @ losses).argmin(1)


def reject_loss_matrix(num_classes: int, cost: float | int) -> np.ndarray:
    r"""0-1 loss with a last action, to defer, of loss `cost`: it is taken where $\max_c p_c < 1 - $ cost.

    >>> bayes_decision([[0.95, 0.05], [0.6, 0.4]], reject_loss_matrix(2, 0.2)).tolist()
    [0, 2]
    """
    check(0 <= cost <= 1, "cost", "from 0 to 1", cost)
    return np.c_[1.0 - np.eye(num_classes), np.full(num_classes, float(cost))]


def confusion_matrix(
    targets: ArrayLike,
    predictions: ArrayLike,
    num_classes: int | None = None,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """The weight of rows of each class (first axis) that were predicted as each class (second axis)."""
    y, h = _pair(np.asarray(targets), np.asarray(predictions))
    for name, codes in (("targets", y), ("predictions", h)):
        check(codes.dtype.kind in "iub", name, "codes 0, 1, ... of classes", f"dtype {codes.dtype}")
    size = int(max(y.max(), h.max())) + 1 if num_classes is None else num_classes
    for name, codes in (("targets", y), ("predictions", h)):
        check_entries(name, codes, lambda v: (v >= 0) & (v < size), f"from 0 to {size - 1}")
    counts = np.bincount(y.astype(int) * size + h, weights, size * size)
    return counts.reshape(size, size).astype(float)


class RocCurve(Module):
    """Rates of true and false alarms as the threshold falls through the scores; ends at (1, 1)."""

    _shown = ("area", "false_alarms", "hits")

    false_alarms: np.ndarray
    hits: np.ndarray
    thresholds: np.ndarray  # a case is called positive where its score is at least this

    @property
    def area(self) -> float:
        """The probability that a positive case scores above a negative one, ties counted half (AUC)."""
        return float(np.trapezoid(self.hits, self.false_alarms))

    @property
    def verdict(self) -> Verdict:
        """Whether positive cases score above negative ones more often than not."""
        better = self.area > 0.5
        sentence = "Better than chance." if better else "No better than chance."
        return Verdict(better, sentence, {"area": self.area})


def roc_curve(targets: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> RocCurve:
    """The curve of a score for targets 0 or 1: equal scores move together, so ties favour nobody."""
    y, s = _pair(np.asarray(targets), np.asarray(scores, float))
    check(set(np.unique(y)) == {0, 1}, "targets", "0 and 1, both present", np.unique(y).tolist())
    check(not np.isnan(s).any(), "scores", "numbers", "NaN")
    w = np.ones(len(s)) if weights is None else np.asarray(weights, float)
    order = np.argsort(-s, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(s[order])), len(s) - 1]
    hits, alarms = (np.cumsum(w[order] * (y[order] == k))[last] for k in (1, 0))
    steps = np.r_[0.0, alarms / alarms[-1]], np.r_[0.0, hits / hits[-1]]
    return RocCurve(*steps, np.r_[np.inf, s[order][last]])


@jax.jit
def _log_probs(predicted: Distribution, y: Any) -> Any:
    return jax.vmap(lambda unit, value: unit.log_prob(value))(predicted, y)


def _pair(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    check_length("predictions", predictions, "targets", targets)
    check(
        targets.shape == predictions.shape and targets.size > 0, "targets", "at least one row", targets.shape
    )
    return targets, predictions


def _probabilities(probs: ArrayLike) -> np.ndarray:
    p = np.asarray(probs, float)
    check(p.ndim == 2 and p.size > 0, "probs", "of shape (rows, classes)", f"shape {p.shape}")
    must = "probabilities that sum to 1 in each row"
    check_entries("probs", p, lambda v: (v >= 0).all(1) & (np.abs(v.sum(1) - 1) <= 1e-6), must)
    return p
