"""Classification with a Gaussian process: a probit likelihood, sampled on ellipses without any tuning."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtr

from tractable.core.iterate import run
from tractable.distributions.gaussian import Gaussian, condition
from tractable.distributions.special import log_ndtr
from tractable.inference import EllipticalSlice
from tractable.inference.trust.autocorrelation import autocorrelation_time


def covariance(a, b):
    return 4 * jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)


def main() -> None:
    key_x, key_y, key_chain = jr.split(jr.key(0), 3)
    x = jnp.sort(jr.uniform(key_x, (20,), minval=-3.0, maxval=3.0))
    signs = jnp.where(jr.uniform(key_y, (20,)) < ndtr(2 * jnp.sin(1.5 * x)), 1.0, -1.0)
    sampler = EllipticalSlice(Gaussian(jnp.zeros(20), covariance(x, x) + 1e-6 * jnp.eye(20)))

    def log_likelihood(f):
        return log_ndtr(signs * f).sum()

    def step(state, key):
        state, info = sampler.step(log_likelihood, state, key)
        return state, (state.position, info.num_gradients, info.saturated)

    start = sampler.init(log_likelihood, jnp.zeros(20), key_chain)
    chain = jax.jit(lambda keys: run(step, start, keys).trace)
    fs, effort, saturated = chain(jr.split(jr.fold_in(key_chain, 1), 6000))
    fs = fs[1000:]
    worth = min(5000 / float(time) for time in jax.vmap(autocorrelation_time, 1)(fs))
    print(f"{float(effort.mean()):.1f} likelihoods per step; the worst value has {worth:.0f} effective draws")
    assert worth > 100
    assert not saturated.any()

    # the probability of the first class on a grid: the values there are Gaussian given those at the data
    grid = jnp.linspace(-3.0, 3.0, 13)
    prior, cross = Gaussian(jnp.zeros(13), covariance(grid, grid)), covariance(grid, x)
    data = Gaussian(jnp.zeros(20), sampler.lower @ sampler.lower.T)

    @jax.jit
    @jax.vmap
    def first_class(f):
        values = condition(prior, cross, data, f)
        return ndtr(values.mean / jnp.sqrt(1 + jnp.diag(values.cov)))

    probability = first_class(fs[::10]).mean(0)
    for point, p in zip(grid, probability):
        print(f"{float(point):5.1f}  {'#' * int(40 * p)} {float(p):.2f}")
    assert np.corrcoef(np.asarray(probability), np.asarray(jnp.sin(1.5 * grid)))[0, 1] > 0.8


if __name__ == "__main__":
    main()
