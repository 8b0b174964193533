"""Langevin dynamics: the bias of unadjusted steps, its correction, levels of noise, the certificate."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import run
from tractable.core.numerics import logsumexp
from tractable.inference.samplers.langevin import MALA, ULA, annealed_langevin, langevin, unadjusted_variance

from .exact_starts import chains, exact_draws, imbalance, kolmogorov, skewed_and_heavy


def standard(x):
    return -0.5 * x @ x


def two_modes(x):
    """A quarter at -1, the rest at 2, in each coordinate a little off."""
    return logsumexp(jnp.stack([0.25 * standard(x + 1.0), standard(x - 2.0)]))


def test_the_variance_of_unadjusted_steps_on_a_gaussian():
    r"""The recursion $v' = (1 - \epsilon/2)^2 v + \epsilon$ ends at $1/(1 - \epsilon/4)$ = 1.142857."""
    assert round(float(unadjusted_variance(0.5)), 6) == 1.142857
    variance = 0.3
    for _ in range(200):
        variance = (1 - 0.5 / 2) ** 2 * variance + 0.5
    np.testing.assert_allclose(unadjusted_variance(0.5), variance, rtol=1e-12)
    np.testing.assert_allclose(unadjusted_variance(0.2, [4.0, 0.25]), [4 / (1 - 0.0125), 0.25 / 0.8])
    assert np.isinf(unadjusted_variance(4.0))
    assert np.isinf(unadjusted_variance(1.0, 0.25))


def test_simulated_unadjusted_steps_have_that_variance():
    """Twelve steps from a point: mean and variance are those of the recursion, step by step."""
    num = 40_000
    positions, info = chains(ULA(0.5), standard, jnp.full((num, 1), 2.0), jr.key(0), 12)
    draws, mean, variance = np.asarray(positions)[:, :, 0], 2.0, 0.0
    for values in draws:
        mean, variance = 0.75 * mean, 0.75**2 * variance + 0.5
        assert abs(values.mean() - mean) < 5 * (variance / num) ** 0.5
        assert abs(values.var() - variance) < 5 * variance * (2 / num) ** 0.5
    assert abs(variance - 8 / 7) < 2e-3
    assert float(info.acceptance.min()) == 1
    assert int(info.num_gradients.sum()) == 12 * num


def test_a_mala_step_is_metropolis_hastings_with_langevin_proposals():
    """Where a move was made, the reported acceptance is the textbook ratio of densities and proposals."""
    step_size, starts = 2.5, jnp.asarray(np.random.default_rng(0).normal(size=(400, 3)))
    positions, info = chains(MALA(step_size), two_modes, starts, jr.key(1), 1)
    x, y, found = np.asarray(starts), np.asarray(positions[0]), np.asarray(info.acceptance[0])

    def log_p(points):
        return np.logaddexp(-0.125 * ((points + 1) ** 2).sum(1), -0.5 * ((points - 2) ** 2).sum(1))

    def score(points):
        near = np.exp(-0.125 * ((points + 1) ** 2).sum(1) - log_p(points))[:, None]
        return -near * 0.25 * (points + 1) - (1 - near) * (points - 2)

    def log_q(there, here):
        return -((there - here - 0.5 * step_size * score(here)) ** 2).sum(1) / (2 * step_size)

    moved = (x != y).all(1)
    ratio = log_p(y) + log_q(x, y) - log_p(x) - log_q(y, x)
    np.testing.assert_allclose(found[moved], np.minimum(1, np.exp(ratio))[moved], rtol=1e-10)
    error = (found * (1 - found)).sum() ** 0.5
    assert abs(moved.sum() - found.sum()) < 5 * error
    assert 0.3 < moved.mean() < 0.95


def test_mala_keeps_a_skewed_and_heavy_tailed_law_that_unadjusted_steps_leave():
    starts = exact_draws(jr.key(2), 20_000)
    positions, info = chains(MALA(1.2), skewed_and_heavy, starts, jr.key(3), 3)
    assert 0.5 < float(info.acceptance.mean()) < 0.95
    assert kolmogorov(positions[-1]) < 1.95
    assert imbalance(starts, positions[-1]) < 5
    drifted, _ = chains(ULA(1.2), skewed_and_heavy, starts, jr.key(3), 3)
    assert kolmogorov(drifted[-1]) > 4


def test_a_path_from_a_score_certifies_its_own_bias():
    found = langevin(
        lambda x, mean: mean - x, [3.0, 1.0], key=jr.key(4), step_size=0.5, num_steps=40_000, args=(1.0,)
    )
    ratio, error = float(found.stein.value), float(found.stein.standard_error)
    assert abs(ratio - 8 / 7) < 5 * error < 0.1
    assert found.verdict.sentence.startswith("Biased: Stein's ratio is 1.1")
    assert "too wide" in found.verdict.sentence
    assert "Biased" in repr(found)
    assert found.num_gradients == 40_000
    fine = langevin(lambda x: -x, [0.0, 0.0], key=jr.key(5), step_size=0.05, num_steps=40_000)
    assert fine.verdict.sentence.startswith("Unadjusted, so biased in the order of the step")
    lost = langevin(lambda x: -x, [1.0, 0.0], key=jr.key(6), step_size=5.0, num_steps=4000)
    assert "draws are not finite: the steps are too large" in lost.verdict.sentence


def test_one_path_follows_the_sampler():
    """The same recursion by two routes, without noise in the comparison: the same keys, the same path."""
    sampler = ULA(0.3)
    state = sampler.init(two_modes, jnp.zeros(2), jr.key(0))

    def step(state, key):
        state, _ = sampler.step(two_modes, state, key)
        return state, state.position

    path = run(step, state, jr.split(jr.key(7), 50)).trace
    found = langevin(jax.grad(two_modes), jnp.zeros(2), key=jr.key(7), step_size=0.3, num_steps=50)
    np.testing.assert_allclose(found.draws, path, atol=1e-12)


def test_annealed_steps_on_a_gaussian_follow_their_recursion():
    r"""Data $N(1, 0.3^2)$, blurred scores $-(x - 1)/(0.09 + \sigma^2)$: every level is a known linear map."""
    sigmas, num_steps, step, num = np.geomspace(2.0, 0.05, 5), 20, 0.4, 20_000
    mean, variance = -3.0, 4.0
    for sigma in sigmas:
        for _ in range(num_steps):
            shrink = 1 - 0.5 * step * sigma**2 / (0.09 + sigma**2)
            mean, variance = 1 + shrink * (mean - 1), shrink**2 * variance + step * sigma**2
    start = -3 + 2 * jr.normal(jr.key(8), (num, 2))

    def score(x, sigma, spread):
        return -(x - 1) / (spread**2 + sigma**2)

    options = {"key": jr.key(9), "num_steps": num_steps, "step_size": step, "args": (0.3,)}
    noisy = annealed_langevin(score, start, sigmas, denoise=False, **options)
    draws = np.asarray(noisy.draws)
    assert (np.abs(draws.mean(0) - mean) < 5 * (variance / num) ** 0.5).all()
    assert (np.abs(draws.var(0) - variance) < 5 * variance * (2 / num) ** 0.5).all()
    np.testing.assert_allclose(noisy.step_sizes, step * sigmas**2)
    wanted = variance / (0.09 + sigmas[-1] ** 2)
    assert abs(float(noisy.stein.value) - wanted) < 5 * float(noisy.stein.standard_error)
    assert noisy.num_gradients == 100
    assert "standard deviation 0.05" in noisy.verdict.sentence
    clean = annealed_langevin(score, start, sigmas, **{**options, "key": jr.key(9)})
    factor = 0.09 / (0.09 + sigmas[-1] ** 2)
    np.testing.assert_allclose(clean.draws - 1, factor * (noisy.draws - 1), atol=1e-12)


def test_levels_of_noise_find_modes_that_plain_steps_miss():
    """A quarter of the mass at -4, the rest at 4: from one side, only falling noise reaches both."""

    def score(x, sigma):
        def log_p(x):
            width = 0.25 + sigma**2
            each = jnp.stack([-0.5 * (x[0] + 4) ** 2 / width, -0.5 * (x[0] - 4) ** 2 / width])
            return logsumexp(each + jnp.log(jnp.array([0.25, 0.75])))

        return jax.grad(log_p)(x)

    start = -4 + 8 * jr.normal(jr.key(10), (1000, 1))
    found = annealed_langevin(score, start, jnp.geomspace(8.0, 0.1, 10), key=jr.key(11), num_steps=60)
    share = float((found.draws < 0).mean())
    assert abs(share - 0.25) < 0.08
    assert abs(abs(found.draws).mean() - 4) < 0.1
    stuck = langevin(lambda x: score(x, 0.0), [-4.0], key=jr.key(12), step_size=0.1, num_steps=5000)
    assert float((stuck.draws < 0).mean()) == 1.0  # and its certificate cannot see what it never met


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ULA(0.0), "`step_size` must be positive"),
        (lambda: MALA(-1.0), "`step_size` must be positive"),
        (lambda: MALA(target_acceptance=2.0), "`target_acceptance` must be between 0 and 1; got 2.0"),
        (
            lambda: langevin(jnp.sin, [jnp.nan], key=jr.key(0), step_size=0.1, num_steps=9),
            "`start` must be finite",
        ),
        (
            lambda: langevin(jnp.sin, 1.0, key=jr.key(0), step_size=0.1, num_steps=9),
            "`start` must be of shape",
        ),
        (
            lambda: annealed_langevin(lambda x, s: -x, jnp.zeros((3, 1)), [0.1, 1.0], key=jr.key(0)),
            "`sigmas` must be positive and falling",
        ),
        (
            lambda: annealed_langevin(lambda x, s: -x, jnp.zeros(3), [1.0, 0.1], key=jr.key(0)),
            "`start` must be of shape",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_undefined_and_lost_points_are_reported():
    def hole(x):
        return jnp.where(x[0] > 0, -x[0], jnp.nan)

    _, info = chains(ULA(1.0), hole, jnp.ones((20, 1)), jr.key(13), 20)
    assert bool(info.undefined.any())
    positions, info = chains(MALA(1.0), hole, jnp.ones((20, 1)), jr.key(14), 20)
    assert bool(info.undefined.any())
    assert bool(jnp.isfinite(positions).all())
