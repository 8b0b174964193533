"""Many chains side by side from exact draws: a sampler that is right leaves their law as it is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats as ss

from tractable.core.iterate import run

SMALLEST = 1e-6  # a p-value this small is as rare as five standard errors


@eqx.filter_jit
def advance(sampler, log_density, starts, keys):
    """The states after `len(keys)` steps of each chain, and the positions and reports on the way."""
    key = jr.key(0)  # the samplers under test use no randomness to begin
    states = jax.vmap(lambda x: sampler.init(log_density, x, jr.clone(key)))(starts)

    def step(states, keys):
        states, info = jax.vmap(lambda state, key: sampler.step(log_density, state, key))(states, keys)
        return states, (states.position, states.log_density, info)

    return run(step, states, keys)


def moved(sampler, log_density, starts, seed, num_steps):
    starts = jnp.asarray(starts)
    return advance(sampler, log_density, starts, jr.split(jr.key(seed), (num_steps, starts.shape[0])))


# three coordinates: skewed (the logarithm of a gamma), heavy-tailed (Student-t, 3 degrees), bounded (beta)
LAWS = (ss.loggamma(2.0), ss.t(3), ss.beta(2.0, 1.5))


def hard_density(x):
    skewed = 2 * x[0] - jnp.exp(x[0])
    heavy = -2 * jnp.log1p(x[1] ** 2 / 3)
    inside = (x[2] > 0) & (x[2] < 1)
    safe = jnp.where(inside, x[2], 0.5)
    bounded = jnp.where(inside, jnp.log(safe) + 0.5 * jnp.log1p(-safe), -jnp.inf)
    return skewed + heavy + bounded


def hard_draws(num, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([law.rvs(num, random_state=rng) for law in LAWS], 1)


def p_values(draws):
    """Of the Kolmogorov-Smirnov test of each coordinate."""
    return np.array([ss.kstest(np.asarray(column), law.cdf).pvalue for column, law in zip(draws.T, LAWS)])


def assert_invariant(sampler, seed=1, num_chains=6000, num_steps=10):
    """The law stays, coordinate by coordinate, and coordinates stay uncorrelated; the chains do move."""
    starts = hard_draws(num_chains)
    result = moved(sampler, hard_density, starts, seed, num_steps)
    ends = np.asarray(result.state.position)
    assert (p_values(ends) > SMALLEST).all(), p_values(ends)
    scores = np.stack([law.cdf(column) for law, column in zip(LAWS, ends.T)])
    z = (np.corrcoef(scores)[np.triu_indices(3, 1)]) * np.sqrt(num_chains)
    assert (np.abs(z) < 5).all(), z
    assert (ends != starts).mean() > 0.5
    np.testing.assert_allclose(result.state.log_density, jax.vmap(hard_density)(result.state.position))
    return result
