r"""What is left of a program by adaptive importance sampling from its mode: few numbers, dear densities.

Proposal.    Student's of five degrees, at first with the mode of the density and 1.5 times the inverse of the
             curvature there, then with the moments of the draws so far (`adaptive_importance`).
Weights.     All draws of all rounds count; the mean of the weights is the evidence, with its standard error,
             their tail is the verdict, and what is given back is resampled by them.
Curvature.   By differences of gradients, in steps of a twentieth of its own deviations.
Cost.        Some fifty gradients and three thousand values.
References.  Cornuet, Marin, Mira and Robert (2012).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.random as jr
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import to_device
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.target import FlatTarget, rebuilt

__all__ = ["adapted", "adaptive", "as_weighted", "resampled"]

_DRAWS = 3000  # candidates, and draws at most
_FEWEST = 400  # equally weighted draws that the weights must be worth
_ROUNDS = 3
_WIDE = 1.5  # times the covariance at the mode that the first proposal has


def adaptive(task: Any, key: Key, num_draws: int | None, options: Mapping) -> Any:
    """Draws of what is left, by their weights."""
    from tractable.programs.methods import Answer

    own, last = jr.split(key)
    free, target = FlatTarget.of(task.reduced, task.start, supports=task.supports)
    with one_blas_thread():
        points, logs = adapted(target, free, own, max(_DRAWS, 2 * (num_draws or 0)))
    post = as_weighted(rebuilt(target.rebuild, points), logs)
    worth, found = float(post.ess), post.verdict
    numbers, said = {**found.numbers, "ess": worth}, found.sentence
    if found.ok and worth < _FEWEST:
        said = f"Not certified: the weights are worth {worth:.0f} draws alone."
    verdict = Verdict(found.ok and worth >= _FEWEST, said, numbers)
    kept = num_draws or int(np.clip(worth, 1, _DRAWS))
    places = resampled(np.exp(logs - logs.max()), kept, last)
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[places][None], post.draws)
    return Answer(draws, (1, kept), post.log_evidence, verdict, post)


def as_weighted(draws: dict[str, Any], logs: np.ndarray) -> Any:
    """Draws with their log-weights; the tail is looked at on the host."""
    from tractable.inference.weighted.importance import Weighted
    from tractable.inference.weighted.pareto import tail_shape

    return Weighted(draws, to_device(logs), to_device(np.asarray(tail_shape(logs))), False)


def resampled(weights: np.ndarray, count: int, key: Key) -> np.ndarray:
    """Places by their weights, one for each of `count` equal shares, in random order; on the host, since a
    program for it would take longer to compile than all else here."""
    random = generator(key)
    shares = (np.arange(count) + random.random()) / count
    places = np.searchsorted(np.cumsum(weights), shares * weights.sum(), side="right")
    return random.permutation(np.minimum(places, weights.size - 1))


def adapted(target: FlatTarget, free: Array, key: Key, count: int) -> tuple[Array, np.ndarray]:
    """Adaptive importance sampling from the mode of Laplace's value."""
    from tractable.distributions.gaussian import Gaussian
    from tractable.inference.weighted.adaptive_importance import adaptive_importance
    from tractable.optim.minimise import minimise
    from tractable.optim.quasi_newton import LBFGS

    top = minimise(_negative, free, LBFGS(), args=(target,), max_steps=200, tol=1e-5, curvature=False).state
    start = Gaussian(top, to_device(_WIDE * _covariance(target, np.asarray(top))))
    found = adaptive_importance(
        _OneByOne(target), start, key=key, num_draws=count // _ROUNDS, num_rounds=_ROUNDS
    )
    return found.draws, np.asarray(found.log_weights)


class _OneByOne(Module):
    """A density whose batches are made of values one after the other, some side by side: each has a search
    of its own inside, which would wait for the longest."""

    target: FlatTarget

    def __call__(self, free: Array) -> Scalar:
        return jax.custom_batching.sequential_vmap(self.target)(free)


def _negative(free: Array, target: FlatTarget) -> Scalar:
    return -target(free)


def _covariance(target: FlatTarget, top: np.ndarray) -> np.ndarray:
    """The inverse of the curvature at the mode, by differences of gradients in steps of its own deviations;
    where there is no curvature, that of a unit."""
    steps = np.full(top.size, 1e-3)
    precision = np.eye(top.size)
    for _ in range(2):
        ends = np.concatenate([top + np.diag(steps), top - np.diag(steps)])
        slopes = np.asarray(_slopes(target, to_device(ends)))
        precision = (slopes[: top.size] - slopes[top.size :]) / (-2 * steps[:, None])
        precision = 0.5 * (precision + precision.T)
        own = np.diag(precision)
        steps = 0.05 / np.sqrt(np.where(own > 1e-4, own, 1.0))
    values, vectors = np.linalg.eigh(precision)
    values = np.where(values > 1e-2, values, 1.0)
    return (vectors / values) @ vectors.T


@program
def _slopes(target: FlatTarget, points: Array) -> Array:
    return jax.lax.map(jax.grad(target), points)
