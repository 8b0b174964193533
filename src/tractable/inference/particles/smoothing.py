r"""Smoothing by particles: the whole path of a hidden state given all observations.

Genealogy.   The lineages of the last particles are weighted draws of $p(x_{0:T-1} \mid y_{0:T-1})$; going
             back, ever fewer distinct particles are left of them.
Backward.    Sampling $x_T \sim \sum_i w_T^i\,\delta_{x_T^i}$, then for $t = T - 1 \dots 0$ the particle $i$
             with probability $\propto w_t^i\,p(x_{t+1} \mid x_t^i)$ gives draws that do not share ancestors.
Cost.        $O(TN)$ for lineages; $O(TMN)$ densities for $M$ backward paths.
References.  Kitagawa (1996); Godsill, Doucet and West (2004), "Monte Carlo smoothing for nonlinear time
             series".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check_count
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, light, program
from tractable.core.types import Array, Float, Int, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.particles.filter import Filtered
from tractable.inference.particles.replicates import mean_of_replicates
from tractable.inference.particles.steps import History, check_density
from tractable.inference.weighted.weights import resample

__all__ = ["SmoothedPaths", "backward_sample", "lineages"]

_FEW = 10  # distinct particles below which the smoothing distribution of a time is not represented


class SmoothedPaths(Module):
    """Weighted paths of the state given all observations, shape (replicates, times, paths, ...)."""

    paths: PyTree
    log_weights: Float[Array, "replicates paths"]  # normalised
    num_distinct: Int[Array, "replicates times"]  # particles that the paths pass through at each time
    method: str = field(static=True)

    def expectation(self, function: Callable[[PyTree], Any] = lambda x: x) -> PyTree:
        r"""$E[f(x_t) \mid y_{0:T-1}]$ at each time, as `Estimate`s with errors over the replicates."""
        return jax.tree.map(mean_of_replicates, _averages(function, self.paths, self.log_weights))

    @property
    def mean(self) -> PyTree:
        r"""$E[x_t \mid y_{0:T-1}]$, shape (times, ...)."""
        return self.expectation()

    @property
    def verdict(self) -> Verdict:
        """How far to trust the paths."""
        distinct = np.asarray(self.num_distinct).mean(0)
        least, poor = float(distinct.min()), distinct < _FEW
        sentence = f"Good: the paths pass through {least:.0f} distinct particles or more at any time."
        if poor.any():
            until = int(np.flatnonzero(poor).max())
            fix = "Use `backward_sample`." if self.method == "genealogy" else "Take more paths and particles."
            sentence = f"Degenerate up to time {until}: all paths pass through {least:.0f} particles. {fix}"
        return Verdict(not poor.any(), sentence, {"num_distinct": least})


def lineages(filtered: Filtered) -> SmoothedPaths:
    """The paths by which the last particles came about, with the weights of the last particles."""
    history = filtered.full_history()
    paths, distinct = _trace_back(history)
    return SmoothedPaths(paths, history.log_weights[:, -1], distinct, "genealogy")


@takes_key
def backward_sample(
    filtered: Filtered, transition: Callable[..., Any], *, key: Key, num_paths: int = 100, args: tuple = ()
) -> SmoothedPaths:
    """Equally weighted paths drawn backwards, `num_paths` from each replicate of the filter.

    `transition(x, t, *args)` is that of the filter, and must have `log_prob`.
    """
    history = filtered.full_history()
    num_paths = check_count("num_paths", num_paths)
    args = as_data(args)
    paths, distinct = _sample_back(transition, history, key, num_paths, args)
    weights = jnp.full((filtered.ess.shape[0], num_paths), -np.log(num_paths), history.log_weights.dtype)
    return SmoothedPaths(paths, weights, distinct, "backward sampling")


@program
@light
def _averages(function: Callable, paths: PyTree, log_weights: Array) -> PyTree:
    values = jax.vmap(jax.vmap(jax.vmap(function)))(paths)
    weights = jnp.exp(log_weights)
    # (replicates, times, paths, ...) against (replicates, paths)
    return jax.tree.map(lambda leaf: jnp.einsum("rtp...,rp->rt...", leaf, weights), values)


@program
@light
def _trace_back(history: History) -> tuple[PyTree, Array]:
    def one(history):
        def step(index, each):
            cloud, ancestors = each
            return ancestors[index], (jax.tree.map(lambda leaf: leaf[index], cloud), _distinct(index))

        reverse = jax.tree.map(lambda leaf: leaf[::-1], (history.particles, history.ancestors))
        last = jnp.arange(history.ancestors.shape[1])
        return jax.tree.map(lambda leaf: leaf[::-1], run(step, last, reverse).trace)

    return jax.vmap(one)(history)


@program
@light
def _sample_back(
    transition: Callable, history: History, key: Key, num_paths: int, args: tuple
) -> tuple[PyTree, Array]:
    replicates, times, _ = history.ancestors.shape

    def one(history, key_last, keys):
        last = resample(key_last, history.log_weights[-1], num_paths)
        ahead = jax.tree.map(lambda leaf: leaf[-1][last], history.particles)

        def step(ahead, each):
            key, cloud, logs, t = each

            def choose(key, x_next):
                def log_prob(x):
                    law = transition(x, t + 1, *args)
                    check_density("transition", law)
                    return law.log_prob(x_next)

                density = jax.vmap(log_prob)(cloud)
                return resample(key, logs + density, 1)[0]  # one uniform number, where Gumbel noise takes N

            index = jax.vmap(choose)(jr.split(key, num_paths), ahead)
            chosen = jax.tree.map(lambda leaf: leaf[index], cloud)
            return chosen, (chosen, _distinct(index))

        before = jax.tree.map(lambda leaf: leaf[:-1][::-1], (history.particles, history.log_weights))
        inputs = (keys, *before, jnp.arange(times - 1)[::-1])
        trace = run(step, ahead, inputs).trace
        whole = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), (ahead, _distinct(last)), trace)
        return jax.tree.map(lambda leaf: leaf[::-1], whole)

    key_last, key_run = jr.split(key)
    keys = jr.split(key_last, replicates), jr.split(key_run, (times - 1, replicates))
    return jax.vmap(one, (0, 0, 1))(history, *keys)


def _distinct(index: Array) -> Array:
    """How many different numbers there are."""
    order = jnp.sort(index)
    return 1 + (order[1:] != order[:-1]).sum()
