"""Shared by the tests of gradient samplers: a target with exact draws, chains in step, distances of laws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats

from tractable.core.iterate import run
from tractable.inference.trust.autocorrelation import autocorrelation_time


def skewed_and_heavy(x):
    """Independent: the logarithm of a gamma variable of shape 2, and Student's t with 3 degrees."""
    return 2 * x[0] - jnp.exp(x[0]) - 2 * jnp.log1p(x[1] ** 2 / 3)


def exact_draws(key, num):
    key_gamma, key_student = jr.split(key)
    return jnp.stack([jr.loggamma(key_gamma, 2.0, (num,)), jr.t(key_student, 3.0, (num,))], 1)


def kolmogorov(points):
    """The larger gap between empirical and exact distribution functions, in units of $1/\\sqrt n$."""
    laws = (scipy.stats.loggamma(2.0).cdf, scipy.stats.t(3).cdf)
    points = np.asarray(points)
    return max(
        scipy.stats.kstest(points[:, j], law).statistic * len(points) ** 0.5 for j, law in enumerate(laws)
    )


def imbalance(before, after):
    """The largest z-score of $E[f(x) g(x')] - E[f(x') g(x)]$: zero in the mean for reversible steps."""
    before, after = np.asarray(before), np.asarray(after)
    flows = np.tanh(before) * (after > 1) - np.tanh(after) * (before > 1)
    return np.max(np.abs(flows.mean(0)) / (flows.std(0) / len(flows) ** 0.5))


@eqx.filter_jit
def chains(sampler, log_density, starts, key, num_steps):
    """Chains from the rows of `starts`: positions (steps, chains, d), and what each step reported."""
    num = starts.shape[0]
    key_start, key = jr.split(key)

    def step(states, key):
        states, info = jax.vmap(lambda s, k: sampler.step(log_density, s, k))(states, jr.split(key, num))
        return states, (states.position, info)

    init = jax.vmap(lambda start, key: sampler.init(log_density, start, key))
    return run(step, init(starts, jr.split(key_start, num)), jr.split(key, num_steps)).trace


@eqx.filter_jit
def ensemble(sampler, log_density, state, key, num_steps):
    """Steps of an ensemble: the last state, all positions (steps, chains, d), and the reports."""

    def step(state, key):
        state, info = sampler.step(log_density, state, key)
        return state, (state.position, info)

    found = run(step, state, jr.split(key, num_steps))
    return found.state, *found.trace


def worth_per_gradient(positions, info):
    """Effective draws of the slowest coordinate, per evaluation."""
    times = jax.vmap(autocorrelation_time)(jnp.moveaxis(positions, (0, 1, 2), (2, 1, 0)))
    return float(positions.shape[0] * positions.shape[1] / times.max() / info.num_gradients.sum())
