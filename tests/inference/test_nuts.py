"""The no-U-turn sampler against brute force, and the laws of its draws."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tests.oracles.no_u_turn import trajectory_length
from tractable.core.iterate import run
from tractable.core.streams import Stream
from tractable.inference.samplers.nuts import NUTS

DIM = 3
SCALES = np.array([1.0, 0.3, 3.0])


def _log_density(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2) - 0.1 * jnp.sum(x**4)


def _gradient(x):
    return -x / SCALES**2 - 0.4 * x**3


@pytest.mark.parametrize("step_size", [0.05, 0.12, 0.3])
def test_trajectories_are_as_long_as_brute_force_says(step_size):
    sampler, start = NUTS(step_size, max_depth=6), np.array([0.4, -0.2, 1.1])
    keys = jr.split(jr.key(0), 40)

    @jax.jit
    def step(words):
        state = sampler.init(_log_density, jnp.asarray(start), jr.key(0))
        stream = Stream.of(jr.wrap_key_data(words))
        sides = stream.uniform(2 * DIM + 2 * jnp.arange(6))
        return (
            sampler.step(_log_density, state, jr.wrap_key_data(words))[1],
            stream.normal(jnp.arange(DIM)),
            sides,
        )

    infos, momenta, sides = jax.vmap(step)(jr.key_data(keys))
    for k in range(len(keys)):
        forwards = np.asarray(sides[k]) < 0.5
        made, turned = trajectory_length(_gradient, start, np.asarray(momenta[k]), step_size, forwards, 6)
        assert int(infos.num_gradients[k]) == made
        assert bool(infos.saturated[k]) == (not turned)


@pytest.mark.parametrize(
    ("name", "log_density", "exact"),
    [
        ("skewed", lambda x: jnp.sum(x - jnp.exp(x)), stats.gumbel_l),
        ("heavy", lambda x: -3.0 * jnp.sum(jnp.log1p(x**2 / 5)), stats.t(5)),
        ("two modes", lambda x: jnp.sum(jnp.logaddexp(-0.5 * (x - 1.5) ** 2, -0.5 * (x + 1.5) ** 2)), None),
    ],
)
def test_exact_draws_stay_exact(name, log_density, exact):
    """4000 chains from the target, moved three steps, are still draws of the target."""
    count, generator = 4000, np.random.default_rng(0)
    if exact is None:
        start = generator.choice([-1.5, 1.5], (count, 2)) + generator.normal(size=(count, 2))
        cdf = lambda x: 0.5 * (stats.norm.cdf(x - 1.5) + stats.norm.cdf(x + 1.5))  # noqa: E731
    else:
        start, cdf = exact.rvs(size=(count, 2), random_state=generator), exact.cdf
    sampler = NUTS(0.7, max_depth=5)

    @jax.jit
    def move(x, keys):
        state = sampler.init(log_density, x, jr.key(0))
        return run(lambda s, k: sampler.step(log_density, s, k), state, keys).state.position

    keys = jr.split(jr.key(1), (count, 3))
    moved = np.asarray(jax.vmap(move)(jnp.asarray(start), keys))
    assert np.abs(moved - start).mean() > 0.3
    for column in moved.T:
        assert stats.kstest(column, cdf).pvalue > 1e-4


def test_a_density_that_is_not_a_number_is_reported_and_never_entered():
    density = lambda x: jnp.where(x[0] > 0, jnp.nan, -0.5 * x @ x)  # noqa: E731
    sampler = NUTS(0.8)
    state = sampler.init(density, jnp.array([-1.0, 0.0]), jr.key(0))
    made = jax.jit(
        lambda s, k: run(
            lambda s, k: (lambda r: (r[0], (r[0].position, r[1])))(sampler.step(density, s, k)), s, k
        )
    )(state, jr.split(jr.key(0), 300))
    positions, info = made.trace
    assert bool((positions[:, 0] <= 0).all())
    assert bool(info.undefined.any())
    assert bool((info.undefined <= info.diverging).all())


def test_too_large_a_step_diverges_and_stays():
    sampler = NUTS(100.0)
    state = sampler.init(_log_density, jnp.ones(DIM), jr.key(0))
    moved, info = jax.jit(lambda s, k: sampler.step(_log_density, s, k))(state, jr.key(1))
    assert bool(info.diverging)
    assert int(info.num_gradients) == 1
    np.testing.assert_array_equal(moved.position, state.position)


def test_a_short_limit_saturates():
    sampler = NUTS(0.001, max_depth=3)
    state = sampler.init(_log_density, jnp.ones(DIM), jr.key(0))
    _, info = jax.jit(lambda s, k: sampler.step(_log_density, s, k))(state, jr.key(1))
    assert bool(info.saturated)
    assert int(info.num_gradients) == 7
