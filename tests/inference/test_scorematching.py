"""Scores and score matching: autodiff against formulas, the constant between losses, Gaussian optima."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.discrepancy import fisher_divergence
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture
from tractable.distributions.waiting import Exponential
from tractable.inference.unnormalised.score_matching import (
    denoising_loss,
    denoising_score_matching,
    fit_score,
    implicit_score_matching,
    noise_from_score,
    perturb,
    score_from_noise,
    sliced_score_matching,
    stein_score,
)

COV = np.array([[2.0, 0.6], [0.6, 1.0]])
MEAN = np.array([1.0, -1.0])


@pytest.fixture(scope="module")
def rows():
    return np.asarray(Gaussian(MEAN, COV).sample(jr.key(0), (4000,)))


def linear_score(x):
    return -jnp.asarray(np.linalg.inv(COV)) @ (x - jnp.asarray(MEAN))


def test_scores_of_distributions_and_mixtures():
    points = np.array([[0.0, 0.0], [2.0, -3.0]])
    expected = -(points - MEAN) @ np.linalg.inv(COV)
    np.testing.assert_allclose(stein_score(Gaussian(MEAN, COV), points), expected, rtol=1e-12)
    mixture = Mixture([0.3, 0.7], Normal(np.array([-1.0, 2.0]), np.array([0.5, 1.0])))
    x = np.array([-1.5, 0.0, 3.0])
    parts = np.array([0.3, 0.7]) * np.exp(-0.5 * ((x[:, None] - [-1.0, 2.0]) / [0.5, 1.0]) ** 2) / [0.5, 1.0]
    formula = (parts * -(x[:, None] - [-1.0, 2.0]) / [0.25, 1.0]).sum(1) / parts.sum(1)
    np.testing.assert_allclose(stein_score(mixture, x), formula, rtol=1e-10)


def test_normalising_constants_cancel():
    density = Gaussian(MEAN, COV)
    x = jnp.asarray([0.3, 0.4])
    np.testing.assert_allclose(stein_score(lambda x: density.log_prob(x) + 123.0, x), stein_score(density, x))


def test_outside_of_the_support_there_is_no_score():
    found = np.asarray(stein_score(Exponential(2.0), np.array([-1.0, 1.0])))
    np.testing.assert_array_equal(found, [np.nan, -2.0])


def test_implicit_loss_differs_from_the_divergence_by_a_constant():
    # under p, half the Fisher divergence minus the implicit loss is half E|grad log p|^2, whatever the model
    p = Normal(0.5, 1.3)
    constant = 0.5 / 1.3**2
    x, w = np.polynomial.hermite_e.hermegauss(40)
    points, weights = 0.5 + 1.3 * x, w / w.sum()
    for q in (Normal(0.0, 1.0), Normal(1.0, 2.0)):
        score = -(points - float(q.loc)) / float(q.scale) ** 2
        implicit = weights @ (0.5 * score**2 - 1 / float(q.scale) ** 2)
        half = 0.5 * float(fisher_divergence(p, q).value)
        np.testing.assert_allclose(half - implicit, constant, rtol=1e-6)
        draws = p.sample(jr.key(1), (4000,))
        loc, scale = q.loc, q.scale
        found = implicit_score_matching(lambda x, m=loc, s=scale: -(x - m) / s**2, draws)
        assert abs(float(found.value) - implicit) < 5 * float(found.standard_error)


def test_implicit_loss_at_the_truth(rows):
    found = implicit_score_matching(linear_score, rows)
    precision = np.linalg.inv(COV)
    expected = 0.5 * np.trace(precision) - np.trace(precision)
    assert abs(float(found.value) - expected) < 5 * float(found.standard_error)
    exact = 0.5 * np.square((rows - MEAN) @ precision).sum(1).mean() - np.trace(precision)
    np.testing.assert_allclose(found.value, exact, rtol=1e-10)


@pytest.mark.parametrize("directions", ["normal", "signs"])
@pytest.mark.parametrize("exact_norm", [True, False])
def test_sliced_loss_has_the_implicit_loss_as_its_mean(rows, directions, exact_norm):
    sliced = sliced_score_matching(
        linear_score, rows, key=jr.key(2), num_slices=2, directions=directions, exact_norm=exact_norm
    )
    exact = implicit_score_matching(linear_score, rows)
    assert abs(float(sliced.value - exact.value)) < 5 * float(sliced.standard_error)
    assert float(sliced.standard_error) > 0


def gaussian_energy(theta, x):
    return -0.5 * jnp.exp(theta["log_precision"]) * (x - theta["mean"]) ** 2


def test_gaussian_model_is_fitted_at_the_sample_mean_and_variance(rows):
    x = rows[:, 0]
    found = fit_score(gaussian_energy, {"mean": 0.0, "log_precision": 0.0}, x)
    assert found.status.ok
    np.testing.assert_allclose(found.state["mean"], x.mean(), rtol=1e-6)
    np.testing.assert_allclose(jnp.exp(-found.state["log_precision"]), x.var(), rtol=1e-6)


def test_denoising_loss_is_least_at_the_score_of_the_noisy_density(rows):
    # for linear scores -a (x - m) on N(mean, var) with noise scale^2, the best is a = 1/(var + scale^2)
    x, scale = jnp.asarray(rows[:, 0]), 0.8
    noise = jr.normal(jr.key(3), x.shape)
    noisy = np.asarray(x + scale * noise)

    def loss(a):
        return jax.vmap(lambda x, e: denoising_loss(lambda y: -a * (y - 1.0), x, e, 1.0, scale))(
            x, noise
        ).mean()

    slope, curve = jax.jit(jax.grad(loss))(0.0), jax.jit(jax.hessian(loss))(0.0)
    best = -float(slope) / float(curve)
    exact = np.mean((noisy - 1.0) * np.asarray(noise) / scale) / np.mean((noisy - 1.0) ** 2)
    np.testing.assert_allclose(best, exact, rtol=1e-9)  # least squares on the target -noise/scale
    spread = np.std((noisy - 1) * np.asarray(noise) / scale) / np.sqrt(len(noisy)) / np.mean((noisy - 1) ** 2)
    assert abs(best - 1 / (2.0 + scale**2)) < 6 * spread


def test_worked_link_between_score_and_noise_predictor():
    alpha_bar = 0.36
    signal, scale = np.sqrt(alpha_bar), np.sqrt(1 - alpha_bar)
    x, noise = jnp.asarray([1.0, -2.0]), jnp.asarray([0.5, 0.25])
    noisy = perturb(x, noise, signal, scale)
    np.testing.assert_allclose(
        score_from_noise(noise, scale), -(noisy - signal * x) / (1 - alpha_bar), rtol=1e-12
    )
    np.testing.assert_allclose(noise_from_score(score_from_noise(noise, scale), scale), noise, rtol=1e-12)
    conditional = Gaussian(signal * x, (1 - alpha_bar) * np.eye(2))
    np.testing.assert_allclose(score_from_noise(noise, scale), stein_score(conditional, noisy), rtol=1e-9)

    def predictor(y):
        return 0.3 * y

    loss = denoising_loss(lambda y: score_from_noise(predictor(y), scale), x, noise, signal, scale, scale**2)
    np.testing.assert_allclose(loss, 0.5 * np.sum((0.3 * noisy - noise) ** 2), rtol=1e-12)


def test_denoising_with_times_and_weights(rows):
    x = rows[:100]
    alpha_bar = np.linspace(0.1, 0.9, 100)
    signal, scale = np.sqrt(alpha_bar), np.sqrt(1 - alpha_bar)
    options = {"key": jr.key(5), "signal": signal, "scale": scale, "times": alpha_bar}
    found = denoising_score_matching(lambda y, t: -y * t, x, weight=scale**2, **options)
    noise = np.asarray(jr.normal(jr.key(5), x.shape))
    noisy = signal[:, None] * x + scale[:, None] * noise
    losses = 0.5 * scale**2 * np.square(-noisy * alpha_bar[:, None] + noise / scale[:, None]).sum(1)
    np.testing.assert_allclose(found.value, losses.mean(), rtol=1e-10)
    np.testing.assert_allclose(found.standard_error, losses.std(ddof=1) / 10, rtol=1e-10)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`p` must be a density; got Poisson"):
        stein_score(Poisson(2.0), 1.0)
    with pytest.raises(ValueError, match="`xs` must be at least two rows"):
        implicit_score_matching(linear_score, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="`xs` must be finite"):
        implicit_score_matching(linear_score, [[np.nan, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="`directions` must be one of 'normal', 'signs'"):
        sliced_score_matching(linear_score, np.zeros((2, 2)), key=jr.key(0), directions="axes")
    with pytest.raises(ValueError, match=r"`scale` must be positive; got 0\.0"):
        denoising_score_matching(linear_score, np.zeros((2, 2)), key=jr.key(0), scale=0.0)
