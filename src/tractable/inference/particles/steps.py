r"""One particle filter: draw, weigh, resample, in one scan over the times.

Step.        Resample if the effective sample size is small; move each particle by the transition or by a
             guided proposal; add $\log p(y_t \mid x_t)$ and the proposal's correction to its log-weight.
Auxiliary.   With a guess $\hat p(y_t \mid x_{t-1})$, parents are chosen by $\tilde w^i \hat p^i$ and carry
             $\tilde w^i/(N \tilde a^i)$ on, $\tilde a$ the normalised product: the evidence stays unbiased.
Conditional. With a path that is kept, the last particle is that path, its parent drawn by $w^i_{t-1}\,
             p(x_t \mid x^i_{t-1})$: a step of particle Gibbs.
Cost.        $O(TN)$.
References.  Pitt and Shephard (1999); Andrieu, Doucet and Holenstein (2010); Lindsten, Jordan and Schon
             (2014).
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
    lookahead: Callable[..., Any] | None = None

    def start(self, key: Key) -> PyTree:
        return _draw(self.initial, key)

    def weigh(self, x: PyTree, y: Array, t: Array) -> Array:
        value = jnp.asarray(self.observation(x, y, t, *self.args))
        fix = "Sum over the entries of the observation inside it."
        check(value.shape == (), "observation_log_density", "one number", f"shape {value.shape}", fix)
        return value

    def promise(self, x: PyTree, y: Array, t: Array) -> Array:
        """The guess of $\\log p(y_t \\mid x_{t-1})$ by which parents are chosen."""
        assert self.lookahead is not None
        value = jnp.asarray(self.lookahead(x, y, t, *self.args))
        check(value.shape == (), "lookahead", "a function that returns one number", f"shape {value.shape}")
        return value

    def move(self, key: Key, x: PyTree, t: Array) -> tuple[PyTree, Array]:
        """A draw of the transition, and the logarithm of its correction: none."""
        return _draw(self.transition(x, t, *self.args), key), jnp.zeros(())

    def guided(self, proposal: Callable, key: Key, x: PyTree, y: Array, t: Array) -> tuple[PyTree, Array]:
        """A draw of the proposal, and the logarithm of the ratio of the transition to it."""
        guide = proposal(x, y, t, *self.args)
        if hasattr(guide, "log_ratio"):  # where the laws have no density, their ratio may exist all the same
            drawn = guide.sample(key)
            return drawn, guide.log_ratio(drawn)
        law = self.transition(x, t, *self.args)
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
    missing: Array | None,
    threshold: Array,
    keys: Array,
    plan: tuple[int, str, bool],
    kept: PyTree | None = None,
) -> tuple:
    """One filter: what `Filtered` holds, for one replicate. The last particle follows the path `kept`;
    `missing` is None where all observations are there.

    `keys` has one for each time; or a row for each time, with one for each of many filters, and so have the
    answers. The first time is a step like the others, so that its parts are compiled
    once: half of the first call of a filter is the compiler.
    """
    n, scheme, keep = plan
    even = jnp.full(n, -np.log(n), ys.dtype)

    def start(cloud, own, each):
        _, _, _, _, path = each
        particles = jax.vmap(model.start)(own)
        particles = particles if path is None else _pinned(particles, path)
        return particles, even, jnp.zeros(n, ys.dtype), jnp.arange(n), jnp.asarray(False)

    def onward(cloud, own, each):
        key, y, absent, t, path = each
        if path is None:
            ancestors, logs, poor = _choose(model, key, cloud, y, absent, t, (threshold, scheme))
        else:
            ancestors, logs, poor = _beside(model, key, cloud, path, t), even, jnp.asarray(True)
        parents = jax.tree.map(lambda leaf: leaf[ancestors], cloud.particles)
        particles, correction = _move(model, own, parents, y, absent, t)
        particles = particles if path is None else _pinned(particles, path)
        return particles, logs, correction.astype(ys.dtype), ancestors.astype(int), poor

    def step(cloud, each):
        key, y, absent, t, path = each
        # before the branch: the first draws and the moves share the code that makes keys
        each_key = jr.split(key, n + 1)
        now = (each_key[0], y, absent, t, path)
        # where there is one time only, nothing moves
        ways = (onward, start) if len(ys) > 1 else (start, start)
        made = jax.lax.cond(t == 0, ways[1], ways[0], cloud, each_key[1:], now)
        particles, logs, correction, ancestors, poor = made
        cloud, increment = _arrive(model, particles, logs + correction, cloud.total, y, absent, t)
        history = History(cloud.particles, cloud.log_weights, ancestors) if keep else None
        return cloud, (*_moments(cloud), cloud.ess, increment, poor, history)

    like = jax.eval_shape(jax.vmap(model.start), jax.ShapeDtypeStruct((n,), keys.dtype))
    nowhere = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    zero = jnp.zeros((), ys.dtype)
    begun = _Cloud(nowhere, even, zero, zero)
    if keys.ndim == 2:  # within the loop: a loop that is vectorised as a whole is traced once more
        begun = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (keys.shape[1], *leaf.shape)), begun)
        step = jax.vmap(step, (0, (0, None, None, None, None)))
    return run(step, begun, (keys, ys, missing, jnp.arange(len(ys)), kept)).trace


def _arrive(
    model: StateSpace, particles: PyTree, logs: Array, total: Array, y: Array, absent: Any, t: Array
) -> tuple[_Cloud, Array]:
    """The cloud after it has seen an observation, and the evidence of that observation."""
    seen = jax.vmap(lambda x: model.weigh(x, y, t))(particles)
    logs = logs + _unless(absent, seen)
    increment = _unless(absent, logsumexp(logs))
    lost, n = increment == -jnp.inf, len(logs)
    # where no particle is possible the estimate is zero; equal weights let the program go on
    logs = jnp.where(lost, -np.log(n), logs - jnp.where(lost, 0.0, increment))
    ess = 1 / (jnp.exp(logs) ** 2).sum()  # the weights sum to one
    return _Cloud(particles, logs, ess, total + increment), increment


def _choose(
    model: StateSpace, key: Key, cloud: _Cloud, y: Array, absent: Any, t: Array, how: tuple[Array, str]
) -> tuple[Array, Array, Array]:
    """The parents, the log-weights that their children begin with, and whether they were drawn at all."""
    n, (threshold, scheme) = len(cloud.log_weights), how
    even = jnp.full(n, -np.log(n), cloud.log_weights.dtype)
    logs, ess = cloud.log_weights, cloud.ess
    if model.lookahead is not None:
        promised = jax.vmap(lambda x: model.promise(x, y, t))(cloud.particles)
        raised = logs + _unless(absent, promised)
        total = logsumexp(raised)
        # where no parent promises anything, the weights alone choose
        logs = jnp.where(jnp.isfinite(total), raised - jnp.where(jnp.isfinite(total), total, 0.0), logs)
        ess = effective_sample_size(logs)
    poor = ess <= threshold * n
    chosen = resample(key, logs, method=scheme)
    ancestors = jnp.where(poor, chosen, jnp.arange(n))
    fresh = even if model.lookahead is None else even + (cloud.log_weights - logs)[chosen]
    return ancestors, jnp.where(poor, fresh, cloud.log_weights), poor


def _pinned(particles: PyTree, one: PyTree) -> PyTree:
    """The particles with `one` in the last place."""
    return jax.tree.map(lambda leaf, value: leaf.at[-1].set(value), particles, one)


def _beside(model: StateSpace, key: Key, cloud: _Cloud, x: PyTree, t: Array) -> Array:
    """Parents drawn independently, and last that of a state which is given, by weight and transition density.

    Other schemes than independent draws would have to know of the path that is kept.
    """
    key_others, key_kept = jr.split(key)

    def log_prob(parent: PyTree) -> Array:
        law = model.transition(parent, t, *model.args)
        check_density("transition", law)
        return law.log_prob(x)

    others = resample(key_others, cloud.log_weights, len(cloud.log_weights) - 1, method="multinomial")
    parent = resample(key_kept, cloud.log_weights + jax.vmap(log_prob)(cloud.particles), 1)
    return jnp.concatenate([others, parent])


def _move(
    model: StateSpace, keys: Array, particles: PyTree, y: Array, absent: Any, t: Array
) -> tuple[PyTree, Array]:
    def plain():
        return jax.vmap(lambda key, x: model.move(key, x, t))(keys, particles)

    proposal = model.proposal
    if proposal is None:
        return plain()
    guided = jax.vmap(lambda key, x: model.guided(proposal, key, x, y, t))
    if absent is None:
        return guided(keys, particles)
    return jax.lax.cond(absent, plain, lambda: guided(keys, particles))


def _unless(absent: Any, values: Array) -> Array:
    """Zero where the observation is missing."""
    return values if absent is None else jnp.where(absent, 0.0, values)


def _moments(cloud: _Cloud) -> tuple[PyTree, PyTree]:
    """The weighted mean and variance of each entry; NaN once the filter has lost the observations."""
    weights = jnp.where(cloud.total == -jnp.inf, jnp.nan, jnp.exp(cloud.log_weights))

    def mean(leaf):
        return jnp.tensordot(weights, leaf, 1)

    means = jax.tree.map(mean, cloud.particles)
    variances = jax.tree.map(lambda leaf, m: mean((leaf - m[None]) ** 2), cloud.particles, means)
    return means, variances
