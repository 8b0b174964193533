r"""Parameters of state-space models by particles: chains whose law is exactly the posterior.

Metropolis.  A walk over $\theta$ that accepts by $p(\theta)\,\hat p(y \mid \theta)$ with the unbiased
             estimate of a particle filter, kept until the next acceptance: its law is $p(\theta \mid y)$ for
             any number of particles. Best are so many that the estimate's logarithm varies by about one.
Gibbs.       In turn a path $x_{0:T-1} \mid \theta, y$ by a particle filter that keeps the last path (with
             ancestors drawn anew, so that few particles suffice), and $\theta \mid x, y$ by the user's draw.
Cost.        A filter of $N$ particles per draw and chain.
References.  Andrieu, Doucet and Holenstein (2010); Lindsten, Jordan and Schon (2014); Pitt, Silva, Giordani
             and Kohn (2012).
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.iterate import Status, run
from tractable.core.keys import takes_key
from tractable.core.programs import light, program
from tractable.core.types import Array, ArrayLike, Key
from tractable.core.user_code import call_user
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.particles.filter import as_observations
from tractable.inference.particles.steps import StateSpace, one_filter
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.samplers.sampler import ChainState
from tractable.inference.weighted.weights import resample
from tractable.statespace.nonlinear.model import Dynamics
from tractable.statespace.nonlinear.particles import (
    filter_by_particles,
    first_state,
    marked,
    moves_and_looks,
)
from tractable.statespace.nonlinear.rules import as_rule

__all__ = ["particle_gibbs", "particle_metropolis"]


@takes_key
def particle_metropolis(
    model: Callable[[Array], Dynamics],
    log_prior: Callable[[Array], Any],
    start: ArrayLike,
    y: ArrayLike,
    *,
    key: Key,
    num_draws: int = 1000,
    num_warmup: int = 500,
    num_chains: int = 4,
    num_particles: int = 200,
    scale: ArrayLike = 0.1,
    proposal: str = "bootstrap",
    rule: Any = "unscented",
) -> ChainPosterior:
    r"""Draws of $\theta \mid y$ for a `model(theta)` that is a `NonlinearSystem`, by particle Metropolis.

    `start` is a vector, or one for each chain; `scale` that of the first steps. The warm-up learns the shape
    of the steps twice from what it has drawn; after it the walk no longer changes.
    """
    starts = _starts(start, num_chains)
    count = check_count("num_particles", num_particles, 2)
    rows = _checked(model, starts[0]).readings(y)
    functions, how = (model, log_prior), (count, proposal, as_rule(rule))
    block = max(check_count("num_warmup", num_warmup, 2) // 2, 1)
    begun, key, first = time.monotonic(), *jr.split(key)
    states = _first_states(functions, rows, starts, jr.split(first, len(starts)), how)
    walk, kept = RandomWalkMetropolis(scale=scale), []
    total = check_count("num_draws", num_draws)
    for number in range(2 + -(-total // block)):
        key, now = jr.split(key)
        keys = jr.split(now, (len(starts), block))
        states, (positions, densities, info) = _walked(functions, rows, states, keys, walk, how)
        if number < 2:
            walk = RandomWalkMetropolis(scale=_shape(np.asarray(positions), walk.scale))
        else:
            kept.append((positions, densities, info))
    joined = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, :total], *kept)
    seconds = time.monotonic() - begun
    draws = {"parameters": joined[0]}
    return ChainPosterior(draws, joined[1], joined[2], walk, None, seconds, int(Status.completed))


@takes_key
def particle_gibbs(
    model: Callable[[Array], Dynamics],
    draw_parameters: Callable[[Key, Array, Array], Any],
    start: ArrayLike,
    y: ArrayLike,
    *,
    key: Key,
    num_draws: int = 1000,
    num_warmup: int = 100,
    num_chains: int = 4,
    num_particles: int = 30,
    keep_paths: bool = False,
) -> ChainPosterior:
    r"""Draws of $\theta \mid y$ (and of paths, with `keep_paths`) by particle Gibbs with ancestor sampling.

    `draw_parameters(key, path, y)` draws $\theta \mid x_{0:T-1}, y$ exactly, or by a step that leaves it as
    it is; `path` has shape (T, d). Any prior on $\theta$ is its affair.
    """
    starts = _starts(start, num_chains)
    rows = _checked(model, starts[0]).readings(y)
    count, total = check_count("num_particles", num_particles, 2), check_count("num_draws", num_draws)
    warmup = check_count("num_warmup", num_warmup, 0)
    begun, (key_first, key_run) = time.monotonic(), jr.split(key)
    paths = _first_paths(model, rows, starts, jr.split(key_first, len(starts)), count)
    keys = jr.split(key_run, (len(starts), warmup + total))
    drawn = _swept((model, draw_parameters), rows, starts, paths, keys, count)
    thetas, states, densities = jax.tree.map(lambda leaf: np.asarray(leaf)[:, warmup:], drawn)
    draws = {"parameters": thetas} | ({"states": states} if keep_paths else {})
    seconds = time.monotonic() - begun
    return ChainPosterior(draws, densities, None, None, None, seconds, int(Status.completed))


def _starts(start: ArrayLike, num_chains: int) -> Array:
    chains = check_count("num_chains", num_chains)
    rows = as_float("start", start)
    rows = jnp.broadcast_to(rows, (chains, *rows.shape)) if rows.ndim == 1 else rows
    fits = rows.ndim == 2 and len(rows) == chains
    check(fits, "start", f"a vector, or one for each of {chains} chains", f"shape {rows.shape}")
    return rows


def _checked(model: Callable, theta: Array) -> Dynamics:
    system = call_user("model", model, theta)
    fits = isinstance(system, Dynamics)
    check(
        fits, "model", "a function that returns a `NonlinearSystem`", type(system).__name__, error=TypeError
    )
    return system


def _shape(positions: np.ndarray, before: Any) -> Any:
    """A factor of the covariance of the later half of the draws; as before where they did not move."""
    rows = positions[:, positions.shape[1] // 2 :].reshape((-1, positions.shape[-1]))
    cov = np.atleast_2d(np.cov(rows.T))
    variances = np.diag(cov)
    if not (variances > 0).all() or np.linalg.matrix_rank(cov) < len(cov):
        return before
    return np.linalg.cholesky(cov)


def _log_target(functions: tuple, rows: Array, key: Key, how: tuple) -> Callable[[Array], Array]:
    """The logarithm of the prior times an estimate of the likelihood, with the key of this estimate."""
    (model, log_prior), (count, proposal, rule) = functions, how

    def log_target(theta: Array) -> Array:
        prior = jnp.asarray(call_user("log_prior", log_prior, theta))
        options = {"num_particles": count, "num_replicates": 1, "history": False}
        found = filter_by_particles(model(theta), rows, None, key, proposal, rule, options)
        return jnp.where(prior == -jnp.inf, -jnp.inf, prior + found.increments.sum())

    return log_target


@program
@light
def _first_states(functions: tuple, rows: Array, starts: Array, keys: Array, how: tuple) -> ChainState:
    def one(each: tuple[Array, Key]) -> ChainState:
        theta, key = each
        return ChainState(theta, _log_target(functions, rows, key, how)(theta))

    return jax.lax.map(one, (starts, keys))


@program
@light
def _walked(
    functions: tuple, rows: Array, states: ChainState, keys: Array, walk: RandomWalkMetropolis, how: tuple
) -> tuple[ChainState, tuple]:
    def step(state: ChainState, key: Key) -> tuple[ChainState, tuple]:
        key_estimate, key_walk = jr.split(key)
        target = _log_target(functions, rows, key_estimate, how)
        state, info = walk.step(target, state, key_walk)
        return state, (state.position, state.log_density, info)

    def one(each: tuple[ChainState, Array]) -> tuple[ChainState, tuple]:
        state, own = each
        made = run(step, state, own)
        return made.state, made.trace

    return jax.lax.map(one, (states, keys))


def _path(system: Dynamics, rows: Array, key: Key, count: int, kept: Any) -> tuple[Array, Array]:
    """A path by a filter that keeps `kept`, and the logarithm of its density with the readings."""
    length = len(rows)
    mover, looker = moves_and_looks(system, None)
    initial = first_state(system)
    space = StateSpace(initial, mover, looker, None, ())
    ys, missing = as_observations(marked(rows))
    key_run, key_pick = jr.split(key)
    plan = count, "multinomial", True
    history = one_filter(space, ys, missing, jnp.ones(()), jr.split(key_run, length), plan, kept)[-1]
    last = resample(key_pick, history.log_weights[-1], 1)[0]

    def back(index: Array, each: tuple) -> tuple[Array, Array]:
        cloud, ancestors = each
        return ancestors[index].astype(index.dtype), cloud[index]

    path = jax.lax.scan(back, last, (history.particles, history.ancestors), reverse=True)[1]
    moved = jax.vmap(lambda x, t, ahead: mover(x, t).log_prob(ahead))(
        path[:-1], jnp.arange(1, length), path[1:]
    )
    seen = jax.vmap(looker)(path, ys, jnp.arange(length))
    density = initial.log_prob(path[0]) + moved.sum() + jnp.where(missing, 0.0, seen).sum()
    return path, density


@program
@light
def _first_paths(model: Callable, rows: Array, starts: Array, keys: Array, count: int) -> Array:
    return jax.lax.map(lambda each: _path(model(each[0]), rows, each[1], count, None)[0], (starts, keys))


@program
@light
def _swept(functions: tuple, rows: Array, starts: Array, paths: Array, keys: Array, count: int) -> tuple:
    model, draw_parameters = functions

    def sweep(state: tuple[Array, Array], key: Key) -> tuple[tuple, tuple]:
        theta, path = state
        key_path, key_theta = jr.split(key)
        path, density = _path(model(theta), rows, key_path, count, path)
        new = jnp.asarray(call_user("draw_parameters", draw_parameters, key_theta, path, rows))
        must = f"a function that returns a vector of {theta.size}"
        check(new.shape == theta.shape, "draw_parameters", must, f"shape {new.shape}")
        return (new.astype(theta.dtype), path), (new, path, density)

    def one(each: tuple[Array, Array, Array]) -> tuple:
        theta, path, own = each
        return run(sweep, (theta, path), own).trace

    return jax.lax.map(one, (starts, paths, keys))
