"""Linear-Gaussian models against dense joint normals; filtering and smoothing as repeated conditioning."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.distributions.gaussian import Gaussian, condition
from tractable.distributions.gaussian_forms import (
    GaussianInformation,
    GaussianPrecision,
    to_covariance,
    to_information,
    to_precision,
)
from tractable.distributions.linear_gaussian import LinearGaussian, joint, product

RNG = np.random.default_rng(7)
M, B = RNG.normal(size=(2, 3)), RNG.normal(size=2)
_ROOT, _NOISE = RNG.normal(size=(3, 3)), RNG.normal(size=(2, 2))
PRIOR_MEAN, PRIOR_COV = RNG.normal(size=3), _ROOT @ _ROOT.T + np.eye(3)
NOISE = _NOISE @ _NOISE.T + 0.5 * np.eye(2)
Y = np.array([1.0, -0.5])


@pytest.fixture(scope="module")
def prior():
    return Gaussian(PRIOR_MEAN, PRIOR_COV)


@pytest.fixture(scope="module")
def likelihood():
    return LinearGaussian(M, B, NOISE)


def test_marginal_is_the_mapped_gaussian(prior, likelihood):
    y, cross = likelihood.marginal(prior)
    np.testing.assert_allclose(y.mean, M @ PRIOR_MEAN + B, rtol=1e-13)
    np.testing.assert_allclose(y.cov, M @ PRIOR_COV @ M.T + NOISE, rtol=1e-13)
    np.testing.assert_allclose(cross, PRIOR_COV @ M.T, rtol=1e-13)


def test_marginal_integrates_the_conditional_over_the_prior():
    """In one dimension, $p(y) = \\int p(y \\mid x) p(x) dx$ by quadrature."""
    one = LinearGaussian([[2.0]], [0.5], [[0.3]])
    x = Gaussian([1.0], [[0.7]])
    grid = np.linspace(-9, 11, 20_001)
    p = np.exp(-0.5 * (1.2 - (2 * grid + 0.5)) ** 2 / 0.3) / np.sqrt(2 * np.pi * 0.3)
    q = np.exp(-0.5 * (grid - 1) ** 2 / 0.7) / np.sqrt(2 * np.pi * 0.7)
    expected = np.trapezoid(p * q, grid)
    np.testing.assert_allclose(one.marginal(x)[0].prob(np.array([1.2])), expected, rtol=1e-10)


def test_calling_gives_the_conditional(likelihood):
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(likelihood(x).mean, M @ x + B, rtol=1e-14)
    np.testing.assert_array_equal(likelihood(x).cov, NOISE)


def test_joint_precision_is_the_inverse_of_the_joint_covariance(prior, likelihood):
    A, L = np.linalg.inv(PRIOR_COV), np.linalg.inv(NOISE)
    precision = np.block([[A + M.T @ L @ M, -M.T @ L], [-L @ M, L]])
    covariance = np.block([[PRIOR_COV, PRIOR_COV @ M.T], [M @ PRIOR_COV, NOISE + M @ PRIOR_COV @ M.T]])
    by_covariance = joint(prior, likelihood)
    by_precision = joint(to_precision(prior), likelihood)
    assert isinstance(by_precision, GaussianPrecision)
    np.testing.assert_allclose(by_covariance.cov, covariance, rtol=1e-12)
    np.testing.assert_allclose(by_precision.precision, precision, rtol=1e-10)
    np.testing.assert_allclose(precision @ covariance, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(by_precision.mean, by_covariance.mean, rtol=1e-13)


def test_posterior_in_all_forms_is_bayes_theorem(prior, likelihood):
    A, L = np.linalg.inv(PRIOR_COV), np.linalg.inv(NOISE)
    C = np.linalg.inv(A + M.T @ L @ M)
    mean = C @ (M.T @ L @ (Y - B) + A @ PRIOR_MEAN)
    for form, kind in (
        (prior, Gaussian),
        (to_precision(prior), GaussianPrecision),
        (to_information(prior), GaussianInformation),
    ):
        posterior = likelihood.posterior(form, Y)
        assert isinstance(posterior, kind)
        np.testing.assert_allclose(posterior.mean, mean, rtol=1e-10)
        np.testing.assert_allclose(to_covariance(posterior).cov, C, rtol=1e-9)


def test_posterior_times_evidence_is_the_joint(prior, likelihood):
    x = np.array([0.1, -1.0, 0.7])
    left = likelihood.posterior(prior, Y).log_prob(x) + likelihood.marginal(prior)[0].log_prob(Y)
    right = prior.log_prob(x) + likelihood(x).log_prob(Y)
    np.testing.assert_allclose(left, right, rtol=1e-11)
    np.testing.assert_allclose(joint(prior, likelihood).log_prob(np.concatenate([x, Y])), right, rtol=1e-11)


# Products


def test_product_of_the_worked_example():
    both, log_scale = product(Gaussian([0.0], [[1.0]]), Gaussian([2.0], [[3.0]]))
    np.testing.assert_allclose(both.mean, [0.5], rtol=1e-14)
    np.testing.assert_allclose(both.cov, [[0.75]], rtol=1e-14)
    assert float(np.exp(log_scale)) == pytest.approx(0.1209854, abs=5e-8)


@pytest.mark.parametrize("form", [to_covariance, to_precision, to_information])
def test_product_is_the_product_of_densities(prior, form):
    other = Gaussian(np.array([1.0, 0.0, -1.0]), np.diag([0.5, 2.0, 1.0]))
    both, log_scale = product(form(prior), form(other))
    points = RNG.normal(size=(4, 3))
    expected = prior.log_prob(points) + other.log_prob(points)
    np.testing.assert_allclose(both.log_prob(points) + log_scale, expected, rtol=1e-9)


# Filtering and smoothing are repeated conditioning


def test_filter_and_smoother_match_the_dense_joint():
    steps, A, Q, H, R = (
        4,
        np.array([[1.0, 0.3], [-0.2, 0.9]]),
        0.1 * np.eye(2),
        np.array([[1.0, 0.5]]),
        np.eye(1),
    )
    ys = np.array([[0.5], [1.0], [-0.3], [0.8]])
    transition, emission = LinearGaussian(A, np.zeros(2), Q), LinearGaussian(H, np.zeros(1), R)
    mean, cov = np.zeros(2 * steps), np.zeros((2 * steps, 2 * steps))
    block = np.eye(2)
    for i in range(steps):
        block = np.eye(2) if i == 0 else A @ block @ A.T + Q
        for j in range(i, steps):
            lagged = block @ np.linalg.matrix_power(A, j - i).T
            cov[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = lagged
            cov[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] = lagged.T
    big_h = np.kron(np.eye(steps), H)
    gain = cov @ big_h.T @ np.linalg.inv(big_h @ cov @ big_h.T + np.eye(steps))
    smooth_mean, smooth_cov = mean + gain @ ys[:, 0], cov - gain @ big_h @ cov

    filtered, predictions, belief = [], [], Gaussian(np.zeros(2), np.eye(2))
    for i, y in enumerate(ys):
        if i > 0:
            belief, cross = transition.marginal(belief)
            predictions.append((belief, cross))
        belief = emission.posterior(belief, y)
        filtered.append(belief)
    np.testing.assert_allclose(belief.mean, smooth_mean[-2:], rtol=1e-10)
    np.testing.assert_allclose(belief.cov, smooth_cov[-2:, -2:], rtol=1e-9)
    for i in reversed(range(steps - 1)):
        predicted, cross = predictions[i]
        belief = condition(filtered[i], cross, predicted, belief)
        part = slice(2 * i, 2 * i + 2)
        np.testing.assert_allclose(belief.mean, smooth_mean[part], rtol=1e-9)
        np.testing.assert_allclose(belief.cov, smooth_cov[part, part], rtol=1e-9)


def test_posterior_mean_is_ridge_regression():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    model = LinearGaussian(X, np.zeros(6), 0.25 * np.eye(6))
    posterior = model.posterior(Gaussian(np.zeros(2), 4 * np.eye(2)), y)
    expected = np.linalg.solve(X.T @ X + 0.25 / 4 * np.eye(2), X.T @ y)
    np.testing.assert_allclose(posterior.mean, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p, k: LinearGaussian(M, np.zeros(3), NOISE),
            r"`bias` must be as long as `weights` has rows \(2\)",
        ),
        (
            lambda p, k: LinearGaussian(M, B, np.eye(3)),
            r"`cov` must be a matrix of shape \(2, 2\), to match `weights`",
        ),
        (lambda p, k: LinearGaussian(M, B, -np.eye(2)), "`cov` must be a symmetric positive semi-definite"),
        (lambda p, k: k(np.zeros(2)), r"`x` must be of shape \(3,\); got shape \(2,\)"),
        (lambda p, k: k.marginal(Gaussian(np.zeros(2), np.eye(2))), "`x` must be over 3 coordinates"),
        (lambda p, k: k.posterior(p, np.zeros(3)), r"`y` must be of shape \(2,\); got shape \(3,\)"),
        (
            lambda p, k: product(p, Gaussian(np.zeros(2), np.eye(2))),
            r"`b` must be a Gaussian of shape \(3,\)",
        ),
        (lambda p, k: product(p, to_precision(p)), "`b` must be a Gaussian of shape"),
    ],
)
def test_bad_input_is_refused_by_name(prior, likelihood, call, message):
    with pytest.raises(ValueError, match=message):
        call(prior, likelihood)


def test_singular_noise_has_no_precision_form(prior):
    exact = LinearGaussian(M, B, np.zeros((2, 2)))
    posterior = exact.posterior(prior, Y)  # the covariance form needs no inverse of the noise
    np.testing.assert_allclose(M @ posterior.mean + B, Y, rtol=1e-10)
    with pytest.raises(ValueError, match="must be finite"):
        GaussianPrecision(jnp.full(3, jnp.nan), np.eye(3))
    assert np.isnan(exact.posterior(to_information(prior), Y).shift).all()
