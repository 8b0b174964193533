"""Leapfrog and Hamiltonian Monte Carlo: the oscillator, geometry of the steps, invariance, accounting."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import count_traces, run
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.leapfrog import Mass, Phase, euler, follow, leapfrog, trajectory
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.trust.autocorrelation import autocorrelation_time

from .exact_starts import chains, exact_draws, imbalance, kolmogorov, skewed_and_heavy, worth_per_gradient

DENSE = np.array([[2.0, 0.6], [0.6, 0.5]])


def oscillator(x):
    return -0.5 * x @ x


def banana(x):
    return -0.5 * x[0] ** 2 - 2.0 * (x[1] - x[0] ** 2) ** 2


def one_phase(position, momentum, log_density=banana):
    position = jnp.asarray(position)
    return Phase(
        position, jnp.asarray(momentum), *jax.value_and_grad(log_density)(position), jnp.asarray(False)
    )


def test_leapfrog_and_euler_on_the_harmonic_oscillator():
    options = {"step_size": 0.1, "num_steps": 20}
    path, energy = trajectory(oscillator, [1.0], [0.0], **options)
    assert path.position.shape == (21, 1)
    np.testing.assert_allclose(
        [path.position[-1, 0], path.momentum[-1, 0], energy[-1]],
        [-0.4169053, -0.9078130, 0.4989673],
        atol=5e-8,
    )
    exact = np.array([np.cos(2.0), -np.sin(2.0)])
    assert np.abs([path.position[-1, 0] - exact[0], path.momentum[-1, 0] - exact[1]]).max() < 2e-3
    assert float(jnp.abs(energy - 0.5).max()) < 0.5 * 0.1**2 / 4 + 1e-9  # the error does not grow
    crude, gained = trajectory(oscillator, [1.0], [0.0], integrator=euler, **options)
    np.testing.assert_allclose(
        [crude.position[-1, 0], crude.momentum[-1, 0], gained[-1]],
        [-0.4530187, -1.0074543, 0.6100950],
        atol=5e-8,
    )
    np.testing.assert_allclose(gained, 0.5 * 1.01 ** np.arange(21), rtol=1e-12)


def test_the_energy_error_is_of_second_order():
    errors = []
    for halvings in range(3):
        num_steps = 10 * 2**halvings
        _, energy = trajectory(
            banana, [1.0, 0.5], [0.3, -0.7], step_size=1.0 / num_steps, num_steps=num_steps
        )
        errors.append(abs(float(energy[-1] - energy[0])))
    np.testing.assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 4.0, rtol=0.1)


@pytest.mark.parametrize("mass", [None, [2.0, 0.5], DENSE])
def test_leapfrog_runs_backwards_exactly_and_keeps_volume(mass):
    mass, density = Mass.of(mass), jax.value_and_grad(banana)

    def steps(phase):
        return follow(lambda phase: leapfrog(density, phase, 0.15, mass), phase, 25)

    def flow(z):
        moved = leapfrog(density, one_phase(z[:2], z[2:]), 0.15, mass)
        return jnp.concatenate([moved.position, moved.momentum])

    @jax.jit
    def there_and_back(z):
        end = steps(one_phase(z[:2], z[2:]))
        back = steps(one_phase(end.position, -end.momentum))
        return end.position, back.position, -back.momentum, jnp.linalg.det(jax.jacfwd(flow)(z))

    start = jnp.array([0.7, -0.2, 1.1, 0.4])
    end, position, momentum, volume = there_and_back(start)
    assert float(jnp.linalg.norm(end - start[:2])) > 0.3
    np.testing.assert_allclose(jnp.concatenate([position, momentum]), start, atol=1e-11)
    np.testing.assert_allclose(volume, 1.0, rtol=1e-12)


def test_euler_does_not_keep_volume():
    density = jax.value_and_grad(oscillator)

    def flow(z):
        moved = euler(density, one_phase(z[:1], z[1:], oscillator), 0.3)
        return jnp.concatenate([moved.position, moved.momentum])

    np.testing.assert_allclose(np.linalg.det(jax.jacfwd(flow)(jnp.array([0.7, -0.2]))), 1.09, rtol=1e-12)


def test_a_mass_is_a_change_of_coordinates():
    r"""With $M = LL^\top$, the path of $x$ is that of $y = L^\top x$ under the identity."""
    lower = np.linalg.cholesky(DENSE)
    x, p = np.array([0.7, -0.2]), np.array([1.1, 0.4])
    path, energy = trajectory(banana, x, p, step_size=0.1, num_steps=30, mass=DENSE)
    back = jnp.asarray(np.linalg.inv(lower.T))
    plain, same = trajectory(
        lambda y: banana(back @ y), lower.T @ x, np.linalg.solve(lower, p), step_size=0.1, num_steps=30
    )
    np.testing.assert_allclose(path.position, plain.position @ back.T, atol=1e-11)
    np.testing.assert_allclose(energy, same, atol=1e-11)
    momenta = jax.vmap(lambda key: Mass.of(DENSE).sample(key, jnp.zeros(2)))(jr.split(jr.key(0), 20_000))
    spread = np.cov(np.asarray(momenta).T)
    error = np.sqrt((np.outer(np.diag(DENSE), np.diag(DENSE)) + DENSE**2) / 20_000)
    assert (np.abs(spread - DENSE) < 5 * error).all()


SAMPLERS = {
    "fixed": HMC(0.9, 3),
    "jittered step": HMC(0.9, 3, jitter=0.6),
    "jittered number": HMC(0.8, 3, jitter=1.0, vary="num_steps"),
    "mass": HMC(0.8, 3, mass=DENSE),
}


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_steps_from_exact_draws_leave_a_skewed_and_heavy_tailed_law(name):
    """Invariance by Kolmogorov's distance, reversibility by exchanging the two ends; both can fail."""
    starts = exact_draws(jr.key(1), 20_000)
    positions, info = chains(SAMPLERS[name], skewed_and_heavy, starts, jr.key(2), 2)
    assert 0.5 < float(info.acceptance.mean()) < 0.97  # enough is rejected for the rule to matter
    assert kolmogorov(positions[-1]) < 1.95  # exceeded once in a thousand
    assert imbalance(starts, positions[-1]) < 5


def test_the_check_of_invariance_sees_a_missing_correction():
    def uncorrected(start, key):
        density = jax.value_and_grad(skewed_and_heavy)
        phase = Phase(start, jr.normal(key, (2,)), *density(start), jnp.asarray(False))
        return follow(lambda phase: leapfrog(density, phase, 0.9), phase, 3).position

    starts = exact_draws(jr.key(1), 20_000)
    ends = jax.jit(jax.vmap(uncorrected))(starts, jr.split(jr.key(2), 20_000))
    assert kolmogorov(ends) > 4


def test_the_energy_has_its_boltzmann_mean():
    r"""Under $e^{-H}$ with a Gaussian target, $H$ has mean $d$ and variance $d$, half of each kind."""
    sampler, chains_run = HMC(0.7, 4), 4000

    starts = jr.normal(jr.key(3), (chains_run, 5))
    energy = np.asarray(chains(sampler, oscillator, starts, jr.key(4), 1)[1].energy[0])
    assert abs(energy.mean() - 5) < 5 * (5 / chains_run) ** 0.5
    assert abs(energy.var() - 5) < 5 * np.std((energy - 5) ** 2) / chains_run**0.5


@pytest.mark.parametrize("options", [{}, {"jitter": 0.5, "vary": "num_steps"}])
def test_gradients_are_counted_exactly(options):
    calls, sampler = [], HMC(0.2, 6, **options)

    def counted(x):
        jax.debug.callback(lambda: calls.append(1))
        return oscillator(x)

    @jax.jit
    def three_steps(start):
        state = sampler.init(counted, start, jr.key(0))
        step = run(lambda state, key: sampler.step(counted, state, key), state, jr.split(jr.key(1), 3))
        return step.trace.num_gradients

    reported = three_steps(jnp.ones(2))
    jax.effects_barrier()
    assert len(calls) == int(reported.sum()) + 1  # one for the start
    assert set(reported.tolist()) <= set(range(3, 10)) if options else reported.tolist() == [6, 6, 6]


def test_jitter_avoids_the_resonance_of_a_fixed_length():
    """A length of half a period reflects the Gaussian: the size of x never changes without jitter."""

    @jax.jit
    def sizes(jitter):
        sampler = HMC(np.pi / 20, 20, jitter=jitter)
        state = sampler.init(oscillator, jnp.ones(2), jr.key(0))

        def step(state, key):
            state, _ = sampler.step(oscillator, state, key)
            return state, state.position @ state.position

        return autocorrelation_time(run(step, state, jr.split(jr.key(1), 1000)).trace)

    assert sizes(0.0) > 30 > 3 > sizes(0.5)


def test_hmc_is_worth_more_per_evaluation_than_a_random_walk():
    """A correlated Gaussian in ten dimensions; each evaluation of density or gradient counts the same."""
    scales = jnp.geomspace(0.2, 1.0, 10)

    def target(x):
        return -0.5 * ((x / scales) ** 2).sum()

    def worth(sampler, num_steps):
        starts = scales[None] * jr.normal(jr.key(5), (4, 10))
        return worth_per_gradient(*chains(sampler, target, starts, jr.key(6), num_steps))

    hmc = worth(HMC(0.3, 6, jitter=0.2), 1000)
    walk = worth(RandomWalkMetropolis(0.35), 10_000)
    assert hmc > 5 * walk


class Case(eqx.Module):
    """A Gaussian, a quartic, a wall, a hole: one program for all."""

    which: jax.Array

    def __call__(self, x):
        beyond = [-0.5 * x @ x, -(x**4).sum(), -jnp.inf, jnp.nan]
        inside = [-0.5 * x @ x, -(x**4).sum(), -x[0], -x[0]]
        return jnp.where(
            x[0] > 0, jnp.stack(inside)[self.which], jnp.stack([*map(jnp.asarray, beyond)])[self.which]
        )


def test_divergence_walls_and_undefined_densities_are_told_apart():
    def outcome(which, step_size=0.5):
        sampler, starts = HMC(step_size, 8), jnp.full((1, 1), 0.3)
        positions, info = chains(sampler, Case(jnp.asarray(which)), starts, jr.key(0), 30)
        assert np.isfinite(np.asarray(positions)).all()
        return bool(info.diverging.any()), bool(info.undefined.any())

    assert outcome(0) == (False, False)
    assert outcome(0, 50.0) == (True, False)
    assert outcome(1, 3.0)[0]
    assert outcome(2) == (True, False)
    assert outcome(3) == (True, True)


def test_new_options_and_starts_use_the_same_program_and_float32_stays():
    counted = count_traces(lambda sampler, state, key: sampler.step(oscillator, state, key))
    compiled = jax.jit(counted)
    for step_size, jitter in ((0.1, 0.0), (0.2, 0.5)):
        sampler = HMC(step_size, 4, jitter=jitter)
        state = sampler.init(oscillator, jnp.ones(2, jnp.float32), jr.key(0))
        state, info = compiled(sampler, state, jr.key(1))
    assert counted.count == 1
    assert state.position.dtype == info.acceptance.dtype == info.energy.dtype == jnp.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HMC(-0.1, 5), "`step_size` must be positive and finite; got -0.1"),
        (lambda: HMC(0.1, 0), "`num_steps` must be a whole number of at least 1; got 0"),
        (lambda: HMC(0.1, 5, jitter=1.5), "`jitter` must be between 0.0 and 1.0; got 1.5"),
        (lambda: HMC(0.1, 5, vary="time"), "`vary` must be one of 'step_size', 'num_steps'; got 'time'"),
        (lambda: HMC(0.1, 5, target_acceptance=1.0), "`target_acceptance` must be between 0 and 1; got 1.0"),
        (lambda: HMC(0.1, 5, mass=[1.0, -2.0]), "`mass` must be positive; got -2.0 at index 1"),
        (lambda: HMC(0.1, 5, mass=[[1.0, 2.0], [2.0, 1.0]]), "`mass` must be positive definite"),
        (lambda: HMC(0.1, 5, mass=1.0), "`mass` must be a vector or a square matrix"),
        (
            lambda: trajectory(oscillator, [1.0], [1.0, 2.0], step_size=0.1, num_steps=2),
            "`momentum` must be of",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make()
