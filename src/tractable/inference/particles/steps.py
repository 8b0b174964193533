r"""One particle filter: draw, weigh, resample, in one scan over the times.

Step.        Resample if the effective sample size is small; move each particle by the transition or by a
             guided proposal; add $\log p(y_t \mid x_t)$ and the proposal's correction to its log-weight.
Cost.        $O(TN)$.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check
from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.core.numerics import logsumexp
from tractable.core.types import Array, Float, Int, Key, PyTree
from tractable.inference.weighted.weights import effective_sample_size, resample

__all__ = ["History", "StateSpace", "check_density", "one_filter"]


class History(Module):
    """All particles of all times: leading axes (replicates, times, particles)."""

    particles: PyTree
    log_weights: Float[Array, "*lead n"]  # normalised at each time
    ancestors: Int[Array, "*lead n"]  # the index of each particle's parent, one time before


class StateSpace(Module):
    """A model as the functions that it consists of; their arrays, if any, are data of the program."""

    initial: Any
    transition: Callable[..., Any]
    observation: Callable[..., Any]
    proposal: Callable[..., Any] | None
    args: tuple

    def start(self, key: Key) -> PyTree:
        return _draw(self.initial, key)

    def weigh(self, x: PyTree, y: Array, t: Array) -> Array:
        value = jnp.asarray(self.observation(x, y, t, *self.args))
        fix = "Sum over the entries of the observation inside it."
        check(value.shape == (), "observation_log_density", "one number", f"shape {value.shape}", fix)
        return value

    def move(self, key: Key, x: PyTree, t: Array) -> tuple[PyTree, Array]:
        """A draw of the transition, and the logarithm of its correction: none."""
        return _draw(self.transition(x, t, *self.args), key), jnp.zeros(())

    def guided(self, proposal: Callable, key: Key, x: PyTree, y: Array, t: Array) -> tuple[PyTree, Array]:
        """A draw of the proposal, and the logarithm of the ratio of the transition to it."""
        guide, law = proposal(x, y, t, *self.args), self.transition(x, t, *self.args)
        check_density("proposal", guide)
        check_density("transition", law)
        drawn = guide.sample(key)
        return drawn, law.log_prob(drawn) - guide.log_prob(drawn)


class _Cloud(Module):
    """The particles of one filter at one time; `total` is the log-evidence so far."""

    particles: PyTree
    log_weights: Array
    ess: Array
    total: Array


def check_density(name: str, law: Any) -> None:
    """A simulator is enough to filter; guided proposals and backward paths need a density."""
    known, fix = hasattr(law, "log_prob"), "Return a distribution, or an object with `sample` and `log_prob`."
    check(known, name, "a function that returns something with a density", type(law).__name__, fix, TypeError)


def _draw(source: Any, key: Key) -> PyTree:
    return source.sample(key) if hasattr(source, "sample") else source(key)


def one_filter(
    model: StateSpace,
    ys: Array,
    missing: Array,
    threshold: Array,
    key_start: Key,
    keys: Array,
    plan: tuple[int, str, bool],
) -> tuple:
    """One filter: what `Filtered` holds, for one replicate."""
    n, scheme, keep = plan
    first = jax.vmap(model.start)(jr.split(key_start, n))
    even = jnp.full(n, -np.log(n), ys.dtype)

    def report(cloud, increment, ancestors, resampled):
        history = History(cloud.particles, cloud.log_weights, ancestors) if keep else None
        mean, variance = _moments(cloud)
        return mean, variance, cloud.ess, increment, resampled, history

    def arrive(particles, log_weights, correction, total, y, absent, t):
        """The cloud after it has seen an observation, and the evidence of that observation."""
        seen = jax.vmap(lambda x: model.weigh(x, y, t))(particles)
        logs = log_weights + correction + jnp.where(absent, 0.0, seen)
        increment = logsumexp(logs)
        # where no particle is possible the estimate is zero; equal weights let the program go on
        logs = jnp.where(increment == -jnp.inf, even, logs - jnp.where(increment == -jnp.inf, 0.0, increment))
        return _Cloud(particles, logs, effective_sample_size(logs), total + increment), increment

    def step(cloud, each):
        key, y, absent, t = each
        key_resample, key_move = jr.split(key)
        poor = cloud.ess <= threshold * n
        chosen = resample(key_resample, cloud.log_weights, method=scheme)
        ancestors = jnp.where(poor, chosen, jnp.arange(n))
        parents = jax.tree.map(lambda leaf: leaf[ancestors], cloud.particles)
        logs = jnp.where(poor, even, cloud.log_weights)
        particles, correction = _move(model, jr.split(key_move, n), parents, y, absent, t)
        cloud, increment = arrive(particles, logs, correction, cloud.total, y, absent, t)
        return cloud, report(cloud, increment, ancestors, poor)

    times = jnp.arange(ys.shape[0])
    nothing = jnp.zeros(n, ys.dtype), jnp.zeros((), ys.dtype)
    cloud, increment = arrive(first, even, *nothing, ys[0], missing[0], times[0])
    opening = report(cloud, increment, jnp.arange(n), jnp.asarray(False))
    rest = (keys, ys[1:], missing[1:], times[1:])
    trace = run(step, cloud, rest).trace
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), opening, trace)


def _move(
    model: StateSpace, keys: Array, particles: PyTree, y: Array, absent: Array, t: Array
) -> tuple[PyTree, Array]:
    def plain():
        return jax.vmap(lambda key, x: model.move(key, x, t))(keys, particles)

    proposal = model.proposal
    if proposal is None:
        return plain()
    guided = jax.vmap(lambda key, x: model.guided(proposal, key, x, y, t))
    return jax.lax.cond(absent, plain, lambda: guided(keys, particles))


def _moments(cloud: _Cloud) -> tuple[PyTree, PyTree]:
    """The weighted mean and variance of each entry; NaN once the filter has lost the observations."""
    weights = jnp.where(cloud.total == -jnp.inf, jnp.nan, jnp.exp(cloud.log_weights))

    def mean(leaf):
        return jnp.tensordot(weights, leaf, 1)

    means = jax.tree.map(mean, cloud.particles)
    variances = jax.tree.map(lambda leaf, m: mean((leaf - m[None]) ** 2), cloud.particles, means)
    return means, variances
