"""Many chains and microcanonical motion: its geometry, invariance, and what the chains learn together."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest
import scipy.integrate

from tractable.inference.samplers.chees import ChEES
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.leapfrog import Phase, follow
from tractable.inference.samplers.mams import MAMS, EnsembleMAMS, Glide, glide, kick
from tractable.inference.samplers.manychain import _chees_slope, van_der_corput

from .exact_starts import (
    chains,
    ensemble,
    exact_draws,
    imbalance,
    kolmogorov,
    skewed_and_heavy,
    worth_per_gradient,
)

SCALES = jnp.geomspace(0.1, 10.0, 10)


def stretched(x):
    """Standard deviations from a tenth to ten."""
    return -0.5 * ((x / SCALES) ** 2).sum()


def quartic(x):
    return -0.5 * x @ x - 0.1 * (x**4).sum() + 0.3 * x[0] * x[1]


def unit(seed, dim):
    vector = np.random.default_rng(seed).normal(size=dim)
    return jnp.asarray(vector / np.linalg.norm(vector))


def test_a_kick_solves_the_motion_of_the_direction():
    r"""$\dot u = (I - uu^\top) g \sqrt d/(d - 1)$; $(d - 1)\log\zeta$ is the work $\int g^\top u\sqrt d$."""
    dim, time = 4, 0.8
    u, g = unit(0, dim), jnp.array([1.0, -2.0, 0.5, 3.0])

    def motion(_, state):
        u = state[:dim]
        pull = np.asarray(g) * dim**0.5 / (dim - 1)
        return np.append(pull - u * (u @ pull), np.asarray(g) @ u * dim**0.5)

    exact = scipy.integrate.solve_ivp(motion, (0, time), np.append(u, 0.0), rtol=1e-11, atol=1e-12).y[:, -1]
    turned, work = kick(u, g, jnp.asarray(time))
    np.testing.assert_allclose(turned, exact[:dim], atol=1e-9)
    np.testing.assert_allclose(work, exact[dim], rtol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 40.0, 3000.0])
def test_a_kick_has_all_digits_for_gradients_of_any_size(size):
    dim = 3
    u, g = unit(1, dim), size * unit(2, dim)
    turned, work = jax.jit(kick)(u, g, jnp.asarray(1.0))
    length = mpmath.sqrt(sum(mpmath.mpf(float(v)) ** 2 for v in g))
    e = [mpmath.mpf(float(v)) / length if size else mpmath.mpf(0) for v in g]
    c = sum(a * mpmath.mpf(float(b)) for a, b in zip(e, u))
    angle = length * mpmath.sqrt(dim) / (dim - 1)
    zeta = mpmath.cosh(angle) + c * mpmath.sinh(angle)
    push = mpmath.sinh(angle) + c * (mpmath.cosh(angle) - 1)
    exact = [float((mpmath.mpf(float(b)) + push * a) / zeta) for a, b in zip(e, u)]
    np.testing.assert_allclose(turned, exact, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(work, float((dim - 1) * mpmath.log(zeta)), rtol=1e-9, atol=1e-27)


def test_the_jacobian_of_a_kick_on_the_sphere_is_what_the_test_corrects():
    u, g, time = unit(3, 5), 4.0 * unit(4, 5), jnp.asarray(0.6)
    turned, work = jax.jit(kick)(u, g, time)
    full = jax.jit(jax.jacfwd(lambda u: kick(u / jnp.linalg.norm(u), g, time)[0]))(u)
    tangent, tangent_after = (np.linalg.svd(np.asarray(v)[None])[2][1:] for v in (u, turned))
    volume = abs(np.linalg.det(tangent_after @ np.asarray(full) @ tangent.T))
    np.testing.assert_allclose(volume, np.exp(-float(work)), rtol=1e-10)


def test_a_glide_runs_backwards_exactly():
    density = jax.value_and_grad(quartic)

    @jax.jit
    def path(position, direction):
        start = Glide(Phase(position, direction, *density(position), jnp.asarray(False)), jnp.zeros(()))
        return follow(
            lambda motion: glide(density, motion, jnp.asarray(0.3), jnp.array([1.0, 0.5, 2.0])), start, 20
        )

    x, u = jnp.array([0.5, -1.0, 0.2]), unit(5, 3)
    there = path(x, u)
    back = path(there.phase.position, -there.phase.momentum)
    np.testing.assert_allclose(back.phase.position, x, atol=1e-10)
    np.testing.assert_allclose(-back.phase.momentum, u, atol=1e-10)
    np.testing.assert_allclose(back.work, -there.work, atol=1e-10)
    assert float(jnp.linalg.norm(there.phase.position - x)) > 0.5


def test_small_steps_keep_the_energy_to_second_order():
    density = jax.value_and_grad(quartic)
    x = jnp.array([0.5, -1.0, 0.2])

    @jax.jit
    def error(step_size, num_steps):
        start = Glide(Phase(x, unit(6, 3), *density(x), jnp.asarray(False)), jnp.zeros(()))
        end = follow(lambda motion: glide(density, motion, step_size), start, num_steps, 200)
        return end.work - end.phase.log_density + start.phase.log_density

    errors = [abs(float(error(1.0 / n, jnp.asarray(n)))) for n in (20, 40, 80)]
    np.testing.assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 4.0, rtol=0.1)


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_mams_from_exact_draws_leaves_a_skewed_and_heavy_tailed_law(jitter):
    starts = exact_draws(jr.key(1), 20_000)
    sampler = MAMS(1.0, 2.5, jitter)
    positions, info = chains(sampler, skewed_and_heavy, starts, jr.key(2), 2)
    assert 0.5 < float(info.acceptance.mean()) < 0.95
    assert kolmogorov(positions[-1]) < 1.95
    assert imbalance(starts, positions[0]) < 5


def test_without_its_jacobian_mams_would_be_wrong():
    def crude(start, key):
        density = jax.value_and_grad(skewed_and_heavy)
        noise = jr.normal(key, (2,))
        begin = Phase(start, noise / jnp.linalg.norm(noise), *density(start), jnp.asarray(False))
        return follow(
            lambda m: glide(density, m, jnp.asarray(1.0)), Glide(begin, jnp.zeros(())), 3
        ).phase.position

    starts = exact_draws(jr.key(1), 20_000)
    assert kolmogorov(jax.jit(jax.vmap(crude))(starts, jr.split(jr.key(2), 20_000))) > 4


@pytest.mark.parametrize("kind", [ChEES, EnsembleMAMS])
def test_an_ensemble_at_rest_leaves_the_law_and_learns_nothing(kind):
    """Chains share their number of steps and nothing else: each of them is exact."""
    starts = exact_draws(jr.key(3), 20_000)
    sampler = kind(1.0, 2.5, adapting=False)
    state = eqx.filter_jit(sampler.init)(skewed_and_heavy, starts, jr.key(4))
    after, positions, info = ensemble(sampler, skewed_and_heavy, state, jr.key(5), 3)
    assert 0.4 < float(info.acceptance.mean()) < 0.97
    assert kolmogorov(positions[-1]) < 1.95
    assert imbalance(starts, positions[0]) < 5
    for old, new in zip(jax.tree.leaves(state.tuning), jax.tree.leaves(after.tuning)):
        np.testing.assert_array_equal(old, new)
    assert info.num_gradients.shape == info.diverging.shape == info.saturated.shape == (3, 20_000)
    assert (np.ptp(np.asarray(info.num_gradients), 1) == 0).all()


def tuned(sampler, log_density, starts, key, num_steps):
    key_start, key = jr.split(key)
    state = eqx.filter_jit(sampler.init)(log_density, starts, key_start)
    return ensemble(sampler, log_density, state, key, num_steps)


def still(sampler):
    return eqx.tree_at(lambda each: each.adapting, sampler, jnp.asarray(False))


@pytest.mark.parametrize("kind", [ChEES, EnsembleMAMS])
def test_chains_learn_scale_step_and_length_from_each_other(kind):
    """A Gaussian with scales from 0.1 to 10, started at unit scale: found exactly, and sampled exactly."""
    sampler, starts = kind(), jr.normal(jr.key(6), (16, 10))
    state, _, _ = tuned(sampler, stretched, starts, jr.key(7), 300)
    np.testing.assert_allclose(state.tuning.scale, SCALES, rtol=0.01)
    step_size, length = state.tuning.current(False)
    assert 0.3 < float(step_size) < 1.5
    assert 1.0 < float(length) < 3.0  # a quarter of a period is 1.57
    _, positions, info = ensemble(still(sampler), stretched, state, jr.key(8), 400)
    assert abs(float(1 / (1 / info.acceptance).mean()) - sampler.target_acceptance) < 0.15
    squares = np.asarray(((positions / SCALES[None, None]) ** 2).mean((0, 2)))
    assert abs(squares.mean() - 1) < 5 * squares.std(ddof=1) / 4
    means = np.asarray((positions / SCALES[None, None]).mean((0, 2)))
    assert abs(means.mean()) < 5 * means.std(ddof=1) / 4
    assert worth_per_gradient(positions, info) > 0.1


def test_microcanonical_chains_are_worth_more_per_gradient_than_hamiltonian_ones():
    """Ten standard normals, step sizes at the acceptances for which each is made."""

    def standard(x):
        return -0.5 * x @ x

    starts = jr.normal(jr.key(9), (8, 10))
    worth = {
        "hmc": worth_per_gradient(*chains(HMC(0.8, 2, jitter=0.2), standard, starts, jr.key(10), 1500)),
        "mams": worth_per_gradient(*chains(MAMS(0.9), standard, starts, jr.key(10), 1500)),
    }
    assert worth["mams"] > 1.3 * worth["hmc"] > 0.2


@pytest.mark.parametrize(
    "make", [lambda: MAMS(0.3, 1.0), lambda: EnsembleMAMS(0.3, 1.0), lambda: ChEES(0.3, 1.0)]
)
def test_gradients_are_counted_exactly(make):
    calls, sampler = [], make()

    def counted(x):
        jax.debug.callback(lambda _: calls.append(1), x)
        return quartic(x)

    @eqx.filter_jit
    def two_steps(start):
        state = sampler.init(counted, start, jr.key(0))
        state, first = sampler.step(counted, state, jr.key(1))
        return first.num_gradients + sampler.step(counted, state, jr.key(2))[1].num_gradients

    start = jnp.array([[0.5, -1.0, 0.2], [0.1, 0.3, -0.4]])
    reported = two_steps(start if sampler.ensemble else start[0])
    jax.effects_barrier()
    assert len(calls) == int(jnp.sum(reported + 1))  # one for each start
    assert int(jnp.min(reported)) > 2


def test_limits_of_work_and_bad_densities_are_reported():
    def hole(x):
        return jnp.where(x[0] > 0, -x[0] - 0.5 * x[1] ** 2, jnp.nan)

    positions, info = chains(MAMS(0.3, 50.0, max_steps=5), hole, jnp.ones((10, 2)), jr.key(12), 20)
    assert bool(info.saturated.all())
    assert (np.asarray(info.num_gradients) == 5).all()
    assert bool(info.undefined.any())
    assert bool(jnp.isfinite(positions).all())
    state, positions, info = tuned(ChEES(), hole, 1 + jr.uniform(jr.key(13), (8, 2)), jr.key(14), 30)
    assert bool(info.undefined.any())
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((state.tuning, positions)))


@pytest.mark.parametrize("sampler", [MAMS(), ChEES(), EnsembleMAMS()], ids=["MAMS", "ChEES", "EnsembleMAMS"])
def test_single_precision_stays_and_a_step_keeps_the_types_of_its_state(sampler):
    start = jnp.ones((4, 3), jnp.float32) if sampler.ensemble else jnp.ones(3, jnp.float32)
    state = eqx.filter_eval_shape(sampler.init, quartic, start, jr.key(0))
    after, info = eqx.filter_eval_shape(sampler.step, quartic, state, jr.key(1))
    kinds = [[leaf.dtype for leaf in jax.tree.leaves(each)] for each in (state, after)]
    assert kinds[0] == kinds[1]
    assert after.position.dtype == info.acceptance.dtype == jnp.float32


def test_the_criterion_has_the_slope_of_its_definition():
    """Against differences of the mean of squared changes, along straight lines."""
    rng = np.random.default_rng(0)
    before, after, velocity = (jnp.asarray(rng.normal(size=(6, 3))) for _ in range(3))
    weight, centre, scale = rng.uniform(size=6), rng.normal(size=3), np.array([1.0, 2.0, 0.5])

    def criterion(time):
        size = (((np.asarray(after) + time * np.asarray(velocity) - centre) / scale) ** 2).sum(1)
        change = size - (((np.asarray(before) - centre) / scale) ** 2).sum(1)
        return (weight * change**2).sum() / weight.sum() / 4

    found = _chees_slope(before, after, velocity, *map(jnp.asarray, (weight, centre, scale)))
    np.testing.assert_allclose(found, (criterion(1e-5) - criterion(-1e-5)) / 2e-5, rtol=1e-7)


def test_van_der_corput_fills_the_interval_evenly():
    found = [float(van_der_corput(jnp.asarray(i))) for i in range(7)]
    assert found == [0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MAMS().init(quartic, jnp.ones(1), jr.key(0)), "On a line a direction cannot turn"),
        (lambda: EnsembleMAMS().init(quartic, jnp.ones((3, 1)), jr.key(0)), "two or more coordinates; got 1"),
        (
            lambda: ChEES().init(quartic, jnp.ones((1, 3)), jr.key(0)),
            "`position` must be two chains or more; got 1",
        ),
        (lambda: MAMS(length=-1.0), "`length` must be positive"),
        (lambda: ChEES(initial_length=0.0), "`initial_length` must be positive"),
        (lambda: EnsembleMAMS(jitter=2.0), "`jitter` must be between 0.0 and 1.0"),
        (lambda: MAMS(max_steps=0), "`max_steps` must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
