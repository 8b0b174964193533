r"""Shares and posteriors of classes, for class-conditional models on the host or traced.

Identity.    $p(c \mid x) = p(x, c) / \sum_{c'} p(x, c')$ in logarithms; a row that no class allows has none.
Cost.        One pass over the scores.
"""

from typing import Any

import jax
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, has_values, namespace
from tractable.core.types import ArrayLike, Values
from tractable.supervised.generative.counts import additive_smoothing

__all__ = ["class_shares", "log_likelihood", "log_posterior", "log_shares", "log_sum"]


def log_posterior(scores: Values) -> Values:
    r"""$s_c - \log\sum_{c'} e^{s_{c'}}$ in each row; a row of $-\infty$ has no posterior and is an error."""
    xp, top = namespace(scores), scores.max(1, keepdims=True)
    if has_values(scores) and np.isneginf(top).any():
        row = int(np.flatnonzero(np.isneginf(top[:, 0]))[0])
        fix = "Smooth the counts, so that what a class never showed is not impossible."
        check(False, "X", "possible in at least one class", f"row {row}", fix, ImpossibleEvidence)
    shifted = scores - top
    return shifted - xp.log(xp.exp(shifted).sum(1, keepdims=True))


def log_sum(scores: Values) -> Values:
    r"""$\log\sum_c e^{s_c}$ of each row."""
    return np.logaddexp.reduce(scores, axis=1) if has_values(scores) else jax.nn.logsumexp(scores, axis=1)


def log_shares(probs: Any) -> Values:
    r"""$\log\pi_c$; an impossible class has $-\infty$."""
    xp = namespace(probs)
    with np.errstate(divide="ignore"):
        return xp.log(xp.asarray(probs))


def log_likelihood(log_joint: Values, labels: np.ndarray, weights: np.ndarray) -> float:
    r"""$\sum_i w_i \log p(x_i, y_i)$."""
    return float(weights @ np.asarray(log_joint)[np.arange(len(labels)), labels])


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
