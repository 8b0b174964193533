"""Classes whose probabilities are boosted: log-odds of two, logits of more."""

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from tractable.supervised.boosting.law import Law

__all__ = ["BernoulliLaw", "ClassesLaw"]


class BernoulliLaw(Law):
    name, parameters, limits, target = "bernoulli", ("log-odds",), (4.0,), "classes"

    def start(self, y, weights):
        share = (weights @ y + 1) / (weights.sum() + 2)
        return np.array([np.log(share / (1 - share))])

    def slope(self, k, theta, y):
        p = expit(theta[:, 0])
        return y - p, np.maximum(p * (1 - p), 1e-16)

    def log_prob(self, theta, y):
        return log_expit(np.where(y == 1, theta[:, 0], -theta[:, 0]))

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        return np.stack([expit(-theta[:, 0]), expit(theta[:, 0])], axis=1)


class ClassesLaw(Law):
    """Any number of classes, with one logit each."""

    name, target = "classes", "classes"

    def __init__(self, num_classes: int):
        self.num_classes = num_classes
        self.parameters = tuple(f"logit {k}" for k in range(num_classes))  # pyright: ignore
        self.limits = (4.0,) * num_classes  # pyright: ignore

    @property
    def crossed(self) -> bool:
        return False

    def start(self, y, weights):
        counts = np.bincount(y.astype(int), weights, self.num_classes) + 1
        return np.log(counts / counts.sum())

    def slope(self, k, theta, y):
        p = self.probabilities(theta)[:, k]
        return (y == k) - p, np.maximum(p * (1 - p), 1e-16)

    def log_prob(self, theta, y):
        return theta[np.arange(len(y)), y.astype(int)] - logsumexp(theta, axis=1)

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        odds = np.exp(theta - theta.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)
