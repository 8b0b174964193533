"""Parallel tempering: the swap rule, invariance from exact starts, two modes, and a ladder that evens out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import run
from tractable.core.numerics import logsumexp
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.metropolis import Metropolis, RandomWalkMetropolis
from tractable.inference.samplers.sampler import ChainState, Info, Sampler
from tractable.inference.samplers.tempering import ParallelTempering, temperatures_up_to


class Still(Sampler):
    """A sampler that stays: only the swaps are left."""

    def init(self, log_density, position, key):
        return ChainState(position, log_density(position))

    def step(self, log_density, state, key):
        return state, Info(jnp.asarray(1.0), jnp.asarray(1))


def placed(sampler, log_density, positions, key):
    """The state with replica k at `positions[k]`."""
    state = sampler.init(log_density, positions[0], key)
    values = jax.vmap(log_density)(positions) * state.inverse_temperatures
    new = (positions, values, positions[0], values[0])
    return eqx.tree_at(
        lambda s: (s.replicas.position, s.replicas.log_density, s.position, s.log_density), state, new
    )


def laplace(x):
    """Its powers are Laplace densities again: of scale T at temperature T."""
    return -jnp.abs(x[0])


def test_pairs_trade_places_with_the_probability_of_the_rule_by_turns():
    tempering = ParallelTempering(Still(), [1.0, 2.0, 4.0, 8.0], adapting=False)
    positions = jnp.array([[0.5], [2.0], [1.0], [5.0]])

    @jax.jit
    @jax.vmap
    def two_steps(key):
        start = placed(tempering, laplace, positions, jr.key(0))
        first = tempering.step(laplace, start, key)[0]
        second = tempering.step(laplace, first, jr.fold_in(key, 1))[0]
        return first.replicas, second.replicas.position

    first, second = two_steps(jr.split(jr.key(1), 4000))
    found = np.asarray(first.position)[..., 0]
    betas, x = 1 / np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.5, 2.0, 1.0, 5.0])
    for k in (0, 2):  # even pairs first
        rule = min(1.0, np.exp((betas[k] - betas[k + 1]) * (x[k] - x[k + 1])))
        share = (found[:, k] == x[k + 1]).mean()
        assert abs(share - rule) < 5 * np.sqrt(rule * (1 - rule) / 4000) + 1e-12
    both = (found[:, 0] == x[1]) & (found[:, 2] == x[3])
    parts = (found[:, 0] == x[1]).mean() * (found[:, 2] == x[3]).mean()
    assert abs(both.mean() - parts) < 5 * np.sqrt(parts / 4000)  # pairs decide independently
    np.testing.assert_allclose(first.log_density, -np.abs(found) * betas, rtol=1e-12)
    # then the odd pair alone: the ends stay
    np.testing.assert_array_equal(np.asarray(second)[:, [0, 3], 0], found[:, [0, 3]])
    assert (np.asarray(second)[:, 1, 0] != found[:, 1]).any()


def test_exact_starts_stay_exact():
    temperatures = jnp.array([1.0, 2.5, 6.0])
    tempering = ParallelTempering(RandomWalkMetropolis(), temperatures, adapting=False)

    @jax.jit
    @jax.vmap
    def few_steps(key):
        key_start, key_run = jr.split(key)
        positions = temperatures[:, None] * jr.laplace(key_start, (3, 1))
        start = placed(tempering, laplace, positions, jr.key(0))
        keys = jr.split(key_run, 5)
        for i in range(5):
            start = tempering.step(laplace, start, keys[i])[0]
        return start.replicas.position[:, 0]

    x = np.asarray(few_steps(jr.split(jr.key(2), 20_000)))
    t = np.asarray(temperatures)
    # |x| is exponential of mean T: standard deviations of |x|, x and x^2 are T, sqrt(2) T, sqrt(20) T^2
    for values, mean, sd in (
        (np.abs(x), t, t),
        (x, 0 * t, np.sqrt(2) * t),
        (x**2, 2 * t**2, np.sqrt(20) * t**2),
    ):
        assert np.abs((values.mean(0) - mean) / (sd / np.sqrt(len(x)))).max() < 4.5


def two_modes(x):
    """Three tenths at -5, seven tenths at 5, of unit width."""
    gaps = jnp.stack([jnp.sum((x + 5) ** 2), jnp.sum((x - 5) ** 2)])
    return logsumexp(jnp.log(jnp.array([0.3, 0.7])) - 0.5 * gaps)


def drawn(sampler, chains, warm_up, steps, key):
    """Positions (chains, steps, d) after a warm-up, and the last states; all start in the left mode."""

    def trace(sampler):
        def step(state, key):
            state, info = sampler.step(two_modes, state, key)
            return state, (state.position, info.acceptance, info.num_gradients)

        return step

    @eqx.filter_jit
    def one(sampler, key_start, keys_warm, keys):
        state = sampler.init(two_modes, jnp.full(2, -5.0), key_start)
        warmed = run(trace(sampler), state, keys_warm).state
        if hasattr(sampler, "adapting"):
            sampler = eqx.tree_at(lambda s: s.adapting, sampler, jnp.asarray(False))
        return run(trace(sampler), warmed, keys)

    a, b, c = jr.split(key, 3)
    keys = jr.split(a, chains), jr.split(b, (warm_up, chains)), jr.split(c, (steps, chains))
    return jax.vmap(one, (None, 0, 1, 1))(sampler, *keys)


@pytest.fixture(scope="module")
def tempered():
    sampler = ParallelTempering(RandomWalkMetropolis(), 6, hottest=40.0)
    return drawn(sampler, 16, 500, 1500, jr.key(3))


@pytest.mark.thorough
def test_two_modes_get_their_shares_where_one_chain_sees_one(tempered):
    positions, acceptance, num_gradients = tempered.trace
    right = np.asarray(positions[..., 0] > 0).mean(1)
    error = right.std(ddof=1) / np.sqrt(len(right))
    assert abs(right.mean() - 0.7) < 4 * error
    assert error < 0.03
    # within the modes the moments are those of unit Gaussians
    folded = np.asarray(jnp.abs(positions)).mean((1, 2))
    assert abs(folded.mean() - 5) < 4 * folded.std(ddof=1) / np.sqrt(len(folded))
    assert (np.asarray(num_gradients) == 6).all()
    assert 0.1 < float(acceptance.mean()) < 0.4
    alone = drawn(RandomWalkMetropolis(), 16, 500, 1500, jr.key(4))
    assert (np.asarray(alone.trace[0]) < 0).all()


def test_the_ladder_evens_out_the_swaps_and_stays_in_order(tempered):
    state = tempered.state
    temperatures = 1 / np.asarray(state.inverse_temperatures)
    np.testing.assert_allclose(temperatures[:, [0, -1]], [[1.0, 40.0]] * 16, rtol=1e-12)
    assert (np.diff(temperatures) > 0).all()
    pooled = np.asarray(jax.vmap(lambda s: s.swap_rates)(state)).mean(0)
    assert pooled.max() - pooled.min() < 0.12
    np.testing.assert_allclose(
        jax.vmap(lambda s: s.barrier)(state), (1 - np.asarray(jax.vmap(lambda s: s.swap_rates)(state))).sum(1)
    )
    # nothing is learnt once the warm-up is over
    assert (np.asarray(state.next_round) == 512).all()
    # hotter replicas take longer steps, learnt one by one
    assert (np.diff(np.asarray(state.step_sizes).mean(0)) > 0).all()
    np.testing.assert_array_equal(state.position, np.asarray(state.replicas.position)[:, 0])


def test_densities_and_slopes_follow_swaps_and_new_ladders():
    tempering = ParallelTempering(HMC(step_size=0.5, num_steps=3), [1.0, 3.0, 9.0])

    @jax.jit
    def few(key):
        state = tempering.init(two_modes, jnp.full(2, -4.0), jr.key(0))
        return run(lambda s, k: (tempering.step(two_modes, s, k)[0], None), state, jr.split(key, 40)).state

    state = few(jr.key(5))
    assert int(state.next_round) == 64  # the ladder has moved once
    assert float(state.inverse_temperatures[1]) != pytest.approx(1 / 3)
    betas = np.asarray(state.inverse_temperatures)
    values, slopes = jax.vmap(jax.value_and_grad(two_modes))(state.replicas.position)
    np.testing.assert_allclose(state.replicas.log_density, betas * np.asarray(values), rtol=1e-9)
    np.testing.assert_allclose(
        state.replicas.gradient, betas[:, None] * np.asarray(slopes), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(state.gradient, slopes[0], rtol=1e-7, atol=1e-9)


def test_bad_input_is_refused_by_name():
    np.testing.assert_allclose(temperatures_up_to(27.0, 4), [1, 3, 9, 27])
    walk = RandomWalkMetropolis()
    with pytest.raises(ValueError, match=r"`temperatures` must be a vector of two or more that rises from 1"):
        ParallelTempering(walk, [2.0, 1.0])
    with pytest.raises(ValueError, match=r"`temperatures` must be a whole number of at least 2; got 1"):
        ParallelTempering(walk, 1)
    with pytest.raises(ValueError, match=r"`hottest` must be above 1; got 0.5"):
        ParallelTempering(walk, 4, hottest=0.5)
    with pytest.raises(TypeError, match=r"`sampler` must be a sampler of one chain in real space"):
        ParallelTempering(_native(), 4)


def _native():
    class Symmetric(eqx.Module):
        symmetric: bool = True

        def sample(self, key, x):
            return x

    return Metropolis(Symmetric())
