"""Exact Gaussian process regression against worked numbers, dense NumPy algebra, scikit-learn and its
limits.
"""

import re

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as peers
from sklearn.kernel_ridge import KernelRidge

from tractable.core.iterate import count_traces
from tractable.distributions.gaussian import Gaussian, condition
from tractable.distributions.regression_conjugate import (
    linear_regression_log_evidence,
    linear_regression_posterior,
    linear_regression_predictive,
)
from tractable.gp.means import BasisMean, LinearMean
from tractable.gp.noise import LogLinearNoise
from tractable.gp.points import matrix_size, observe
from tractable.gp.regression import GaussianProcess, evidence_of
from tractable.kernels.nonstationary import Linear
from tractable.kernels.stationary import RBF, Matern32

NARROW = RBF(np.sqrt(0.5))  # exp(-d^2)


def gram(x, y, length=np.sqrt(0.5), variance=1.0):
    gap = (np.asarray(x)[:, None] - np.asarray(y)[None]) / length
    return variance * np.exp(-0.5 * gap**2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (30, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=30)


# The prior


def test_prior_is_the_joint_normal_of_its_gram_matrix():
    x = np.array([-1.0, 0.2, 0.5, 2.0])
    prior = GaussianProcess(2.0 * NARROW, mean=0.7).prior(x)
    point = np.array([0.1, 1.0, 0.9, -0.3])
    expected = multivariate_normal(np.full(4, 0.7), gram(x, x, variance=2.0)).logpdf(point)
    assert float(prior.log_prob(point)) == pytest.approx(expected, rel=1e-11)


def test_a_part_of_the_joint_is_the_joint_of_the_part():
    x, kept = np.array([-1.0, 0.2, 0.5, 2.0]), [0, 3]
    process = GaussianProcess(NARROW, mean=LinearMean([2.0], 1.0))
    part, whole = process.prior(x[kept]), process.prior(x).marginal(kept)
    np.testing.assert_allclose(part.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(part.cov, whole.cov, rtol=1e-14)
    np.testing.assert_allclose(part.mean, 2 * x[kept] + 1, rtol=1e-14)


def test_random_functions_of_a_weight_prior_are_a_process():
    def features(x):
        return jnp.stack([jnp.ones_like(x[0]), x[0], jnp.sin(x[0])])

    x = np.array([-1.0, 0.3, 2.0])
    weights = np.asarray(jr.normal(jr.key(0), (40_000, 3)))
    paths = weights @ np.stack([np.ones(3), x, np.sin(x)])
    process = GaussianProcess(1e-9 * NARROW, mean=BasisMean(features, Gaussian(np.zeros(3), np.eye(3))))
    cov = np.asarray(process.prior(x).cov)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 40_000)
    assert (np.abs(np.cov(paths.T) - cov) < 5 * error).all()


def test_sample_paths_have_the_covariance_and_repeat_at_repeated_rows():
    x = np.array([-1.0, 0.3, 0.3, 1.0])
    paths = np.asarray(GaussianProcess(NARROW, mean=3.0).sample(jr.key(3), x, (20_000,)))
    cov = gram(x, x)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 20_000)
    assert (np.abs(np.cov(paths.T) - cov) < 5 * error).all()
    assert np.abs(paths.mean(0) - 3).max() < 5 / np.sqrt(20_000)
    np.testing.assert_allclose(paths[:, 1], paths[:, 2], atol=1e-6)


# The posterior


def test_one_observation_as_worked():
    post = GaussianProcess(NARROW, noise=0.25).posterior([0.0], [1.0])
    latent = post.latent([1.0])
    assert float(latent.mean[0]) == pytest.approx(0.2943036, abs=5e-8)
    assert float(latent.variance[0]) == pytest.approx(0.8917318, abs=5e-8)
    assert float(post.log_evidence) == pytest.approx(-1.4305103, abs=5e-8)


def test_two_observations_as_worked():
    post = GaussianProcess(NARROW, noise=0.1).posterior([0.0, 1.0], [0.0, 1.0])
    np.testing.assert_allclose(post.representer_weights, [-0.3423202, 1.0235751], atol=5e-8)
    assert float(post.latent([0.5]).mean[0]) == pytest.approx(0.5305618, abs=5e-8)
    assert float(post.latent([0.5]).variance[0]) == pytest.approx(0.1735961, abs=5e-8)
    assert float(post.predict_dist([0.5]).variance[0]) == pytest.approx(0.2735961, abs=5e-8)
    assert float(post.log_evidence) == pytest.approx(-2.3856690, abs=5e-8)


def test_unit_length_scale_as_worked():
    latent = GaussianProcess(RBF(1.0), noise=0.1).posterior([0.0], [1.0]).latent([0.0, 1.0])
    np.testing.assert_allclose(latent.mean, [0.9090909, 0.5513915], atol=5e-8)
    np.testing.assert_allclose(latent.variance, [0.0909091, 0.6655641], atol=5e-8)


def test_without_noise_the_posterior_passes_through_the_data():
    x, y = np.array([-1.0, 0.0, 0.7, 2.0]), np.array([0.3, 1.0, -0.2, 0.8])
    latent = GaussianProcess(NARROW, mean=0.5).posterior(x, y).latent(x)
    np.testing.assert_allclose(latent.mean, y, atol=1e-12)
    assert (np.asarray(latent.variance) < 1e-14).all()
    new = np.array([0.4])
    solved = np.linalg.solve(gram(x, x), gram(x, new))
    between = GaussianProcess(NARROW, mean=0.5).posterior(x, y).latent(new)
    np.testing.assert_allclose(between.mean, 0.5 + solved.T @ (y - 0.5), rtol=1e-10)
    np.testing.assert_allclose(between.variance, 1 - gram(new, x) @ solved[:, 0], rtol=1e-9)


def test_rows_that_repeat_without_noise_are_named():
    with pytest.raises(ValueError, match="singular to rounding: row 2 repeats row 0"):
        GaussianProcess(NARROW).posterior([0.0, 1.0, 0.0], [1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="singular to rounding: row 2 repeats row 0"):
        GaussianProcess(NARROW).log_evidence([0.0, 1.0, 0.0], [1.0, 2.0, 1.0])
    allowed = GaussianProcess(NARROW, jitter=1e-8).posterior([0.0, 1.0, 0.0], [1.0, 2.0, 1.0])
    assert re.search(r"jitter\s+1e-08", repr(allowed))
    assert float(allowed.mean([0.0])[0]) == pytest.approx(1.0, abs=1e-6)


def test_the_posterior_is_the_conditional_of_the_joint(rows):
    X, y = rows
    process = GaussianProcess(1.7 * RBF([0.8, 1.5]), noise=0.05, mean=0.2)
    new = np.random.default_rng(2).normal(size=(3, 2))
    joint = process.prior(np.concatenate([new, X]))
    cov = np.asarray(joint.cov)
    targets = Gaussian(joint.mean[3:], cov[3:, 3:] + 0.05 * np.eye(30))
    expected = condition(joint.marginal([0, 1, 2]), cov[:3, 3:], targets, y)
    found = process.posterior(X, y).joint(new)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(found.cov, expected.cov, atol=1e-11)
    noisy = process.posterior(X, y).joint(new, noisy=True)
    np.testing.assert_allclose(noisy.cov, found.cov + 0.05 * jnp.eye(3), atol=1e-14)


def test_joint_draws_have_the_moments(rows):
    X, y = rows
    post = GaussianProcess(RBF(1.0), noise=0.1).posterior(X, y)
    new = np.array([[0.0, 0.0], [0.3, 0.1], [4.0, 4.0]])
    joint, draws = post.joint(new), np.asarray(post.sample(jr.key(1), new, (20_000,)))
    cov = np.asarray(joint.cov)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 20_000)
    assert (np.abs(np.cov(draws.T) - cov) < 5 * error).all()
    assert (np.abs(draws.mean(0) - joint.mean) < 5 * np.sqrt(np.diag(cov) / 20_000)).all()


def test_agrees_with_scikit_learn(rows):
    X, y = rows
    kernel = peers.ConstantKernel(1.7) * peers.Matern([0.8, 1.5], nu=1.5) + peers.WhiteKernel(0.05)
    peer = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, y)
    post = GaussianProcess(1.7 * Matern32([0.8, 1.5]), noise=0.05).posterior(X, y)
    new = np.random.default_rng(3).normal(size=(7, 2))
    mean, deviation = peer.predict(new, return_std=True)
    shown = post.predict_dist(new)
    np.testing.assert_allclose(shown.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(shown.std, deviation, rtol=1e-8)
    assert float(post.log_evidence) == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-9)


def test_mean_is_kernel_ridge_regression(rows):
    X, y = rows
    ridge = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5).fit(X, y)
    post = GaussianProcess(RBF(1.0), noise=0.3).posterior(X, y)
    np.testing.assert_allclose(post.mean(X[:5]), ridge.predict(X[:5]), rtol=1e-9)
    np.testing.assert_allclose(post.representer_weights, ridge.dual_coef_, rtol=1e-8)


def test_linear_kernel_is_bayesian_linear_regression(rows):
    X, y = rows
    prior, noise = Gaussian(np.zeros(2), np.eye(2)), np.sqrt(0.3)
    process = GaussianProcess(Linear(), noise=0.3)
    post = process.posterior(X, y)
    coefficients = linear_regression_posterior(prior, X, y, noise=noise)
    expected = linear_regression_predictive(coefficients, X[:4], noise=noise)
    np.testing.assert_allclose(post.predict_dist(X[:4]).mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(post.predict_dist(X[:4]).variance, expected.variance, rtol=1e-9)
    evidence = linear_regression_log_evidence(prior, X, y, noise=noise)
    assert float(post.log_evidence) == pytest.approx(float(evidence), rel=1e-10)


def test_leave_one_out_is_that_of_n_fits(rows):
    X, y = rows
    X, y = X[:12], y[:12]
    process = GaussianProcess(RBF(1.0), noise=0.1, mean=0.3)
    left = process.posterior(X, y).leave_one_out()
    for i in (0, 7):
        rest = np.arange(12) != i
        shown = process.posterior(X[rest], y[rest]).predict_dist(X[i : i + 1])
        assert float(left.mean[i]) == pytest.approx(float(shown.mean[0]), rel=1e-9)
        assert float(left.variance[i]) == pytest.approx(float(shown.variance[0]), rel=1e-9)
        density = norm.logpdf(y[i], shown.mean[0], shown.std[0])
        assert float(left.log_density[i]) == pytest.approx(density, rel=1e-9)
    assert float(left.total) == pytest.approx(float(np.sum(left.log_density)), rel=1e-12)


# Weights, merged rows, noise by row


def test_a_weight_of_two_is_the_row_twice_and_zero_is_absent(rows):
    X, y = rows
    X, y, weights = X[:10], y[:10], np.array([2.0, 0, 1, 3, 1, 1, 0, 1, 2, 1])
    process = GaussianProcess(1.3 * RBF(0.9), noise=0.2, mean=0.1)
    post = process.posterior(X, y, weights)
    copies = np.repeat(np.arange(10), weights.astype(int))
    other = process.posterior(X[copies], y[copies])
    assert float(post.log_evidence) == pytest.approx(float(other.log_evidence), rel=1e-10)
    np.testing.assert_allclose(post.predict_dist(X).mean, other.predict_dist(X).mean, rtol=1e-9)
    np.testing.assert_allclose(post.predict_dist(X).variance, other.predict_dist(X).variance, rtol=1e-9)
    # the copies of row 3 leave together
    rest = copies != 3
    alone = process.posterior(X[copies][rest], y[copies][rest]).predict_dist(X[3:4])
    assert float(post.leave_one_out().variance[3]) == pytest.approx(float(alone.variance[0]), rel=1e-8)


def test_merged_rows_have_the_same_evidence_and_posterior(rows):
    X, _ = rows
    X = np.repeat(X[:6], 3, axis=0)
    y = np.random.default_rng(5).normal(size=18)
    process = GaussianProcess(1.3 * RBF(0.9), noise=0.2)
    merged, plain = process.posterior(observe(X, y, merge=True)), process.posterior(X, y)
    assert merged.observed.num_rows == 6
    assert float(merged.log_evidence) == pytest.approx(float(plain.log_evidence), rel=1e-10)
    np.testing.assert_allclose(merged.latent(X[:4]).mean, plain.latent(X[:4]).mean, rtol=1e-9)


def test_fractional_weights_need_noise():
    with pytest.raises(ValueError, match="zero or one where there is no noise"):
        GaussianProcess(NARROW).posterior([0.0, 1.0], [0.0, 1.0], [1.0, 0.5])


def test_noise_by_row_and_noise_that_grows(rows):
    X, y = rows
    variances = 0.1 * np.exp(0.5 * X[:, 0])
    known = GaussianProcess(RBF(1.0), noise=variances).posterior(X, y)
    grows = GaussianProcess(RBF(1.0), noise=LogLinearNoise(0.1, [0.5, 0.0])).posterior(X, y)
    cov = np.asarray(RBF(1.0).gram(X)) + np.diag(variances)
    expected = multivariate_normal(np.zeros(30), cov).logpdf(y)
    assert float(known.log_evidence) == pytest.approx(expected, rel=1e-10)
    assert float(grows.log_evidence) == pytest.approx(expected, rel=1e-10)
    shown = known.predict_dist(X[:3], noise=variances[:3])
    np.testing.assert_allclose(shown.variance, grows.predict_dist(X[:3]).variance, rtol=1e-10)
    with pytest.raises(ValueError, match="`noise` must be known at the new rows"):
        known.predict_dist(X[:3])
    with pytest.raises(ValueError, match=r"one variance per row \(29\)"):
        GaussianProcess(RBF(1.0), noise=variances).posterior(X[:-1], y[:-1])


# Means


def linear_basis(x):
    return jnp.stack([jnp.ones_like(x[0]), x[0]])


def test_basis_functions_with_gaussian_coefficients_as_worked():
    x, y, new = np.array([0.0, 1, 2.5, 4]), np.array([0.3, 1, -0.2, 0.8]), np.array([1.7, 5.0])
    b, B = np.array([0.2, -0.1]), np.array([[2, 0.3], [0.3, 0.5]])
    length = 1.5 / np.sqrt(2)
    post = GaussianProcess(RBF(length), 0.1, BasisMean(linear_basis, Gaussian(b, B))).posterior(x, y)
    joint = post.joint(new)
    np.testing.assert_allclose(joint.mean, [0.4731002, 1.0104374], atol=5e-8)
    np.testing.assert_allclose(joint.cov, [[0.1479776, 0.0546296], [0.0546296, 1.0349221]], atol=5e-8)
    # the form with R = H* - H K_y^-1 K*
    H, H_new = np.stack([np.ones(4), x]), np.stack([np.ones(2), new])
    K_y, K_new = gram(x, x, length) + 0.1 * np.eye(4), gram(x, new, length)
    inverse = np.linalg.inv(np.linalg.inv(B) + H @ np.linalg.solve(K_y, H.T))
    beta = inverse @ (H @ np.linalg.solve(K_y, y) + np.linalg.solve(B, b))
    R = H_new - H @ np.linalg.solve(K_y, K_new)
    mean = K_new.T @ np.linalg.solve(K_y, y) + R.T @ beta
    np.testing.assert_allclose(joint.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(post.coefficients().mean, beta, rtol=1e-10)
    np.testing.assert_allclose(post.coefficients().cov, inverse, rtol=1e-9)


def test_centring_is_a_constant_mean_and_a_fixed_basis_a_shift(rows):
    X, y = rows
    kernel, centre = RBF(1.0), y.mean()
    centred = GaussianProcess(kernel, 0.1).posterior(X, y - centre).mean(X[:3])
    constant = GaussianProcess(kernel, 0.1, centre).posterior(X, y).mean(X[:3])
    np.testing.assert_allclose(constant, centred + centre, rtol=1e-10)
    fixed = GaussianProcess(kernel, 0.1, BasisMean(linear_basis, [0.5, 2.0])).posterior(X, y)
    shift = 0.5 + 2 * X[:, 0]
    np.testing.assert_allclose(
        fixed.mean(X[:3]), GaussianProcess(kernel, 0.1).posterior(X, y - shift).mean(X[:3]) + shift[:3]
    )
    function = GaussianProcess(kernel, 0.1, lambda x: 0.5 + 2 * x[0]).posterior(X, y)
    np.testing.assert_allclose(function.mean(X[:3]), fixed.mean(X[:3]), rtol=1e-12)


def test_only_an_uncertain_basis_has_coefficients(rows):
    with pytest.raises(ValueError, match="a basis with a Gaussian prior"):
        GaussianProcess(NARROW, 0.1).posterior([0.0], [1.0]).coefficients()


# The evidence


def test_evidence_in_three_parts():
    report = GaussianProcess(NARROW, 0.1).evidence_report([0.0, 1.0], [0.0, 1.0])
    K_y, y = gram([0.0, 1.0], [0.0, 1.0]) + 0.1 * np.eye(2), np.array([0.0, 1.0])
    assert float(report.fit) == pytest.approx(-0.5 * y @ np.linalg.solve(K_y, y), rel=1e-12)
    assert float(report.complexity) == pytest.approx(-0.5 * np.log(np.linalg.det(K_y)), rel=1e-12)
    assert float(report.constant) == pytest.approx(-np.log(2 * np.pi), rel=1e-12)
    for name in ("total", "fit", "complexity", "constant"):
        assert f"{name}={float(getattr(report, name)):.6g}" in repr(report)


def test_gradient_is_half_the_trace_and_does_not_need_the_factor(rows):
    X, y = rows
    observed = observe(X, y)

    def evidence(theta):
        process = GaussianProcess(jnp.exp(theta[0]) * RBF(jnp.exp(theta[1])), jnp.exp(theta[2]))
        return evidence_of(process, observed).total

    theta = jnp.array([0.2, -0.1, -2.0])
    slope, curvature = jax.jit(jax.grad(evidence))(theta), jax.jit(jax.hessian(evidence))(theta)
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = np.exp(0.2) * np.exp(-0.5 * distance / np.exp(-0.2))
    K_y = K + np.exp(-2.0) * np.eye(30)
    alpha, inverse = np.linalg.solve(K_y, y), np.linalg.inv(K_y)
    W = np.outer(alpha, alpha) - inverse
    parts = [K, K * distance / np.exp(-0.2), np.exp(-2.0) * np.eye(30)]
    np.testing.assert_allclose(slope, [0.5 * np.sum(W * part) for part in parts], rtol=1e-9)
    step = 1e-5
    difference = jax.jit(jax.grad(evidence))(theta + step * jnp.array([0.0, 1, 0])) - jax.jit(
        jax.grad(evidence)
    )(theta - step * jnp.array([0.0, 1, 0]))
    np.testing.assert_allclose(curvature[1], difference / (2 * step), rtol=1e-5)


def test_large_inverse_by_blocks():
    from tractable.gp.evidence import inverse_from

    root = np.random.default_rng(0).normal(size=(576, 576))
    cov = root @ root.T + 576 * np.eye(576)
    found = jax.jit(inverse_from)(jnp.linalg.cholesky(cov))
    np.testing.assert_allclose(np.asarray(found) @ cov, np.eye(576), atol=1e-12)


# Shapes that repeat, scales, bad input


def test_new_numbers_of_rows_use_the_same_program(rows):
    X, y = rows
    counted = count_traces(lambda process, observed: evidence_of(process, observed).total)
    compiled = jax.jit(counted)
    process = GaussianProcess(RBF(1.0), 0.1)
    for n in (17, 25, 30):
        value = compiled(process, observe(X[:n], y[:n]))
        cov = np.asarray(RBF(1.0).gram(X[:n])) + 0.1 * np.eye(n)
        assert float(value) == pytest.approx(multivariate_normal(np.zeros(n), cov).logpdf(y[:n]), rel=1e-10)
    assert counted.count == 1
    assert all(matrix_size(n) < 1.13 * n for n in range(520, 9000, 37))


@hypothesis.given(st.sampled_from([1e-12, 1.0, 1e12]), st.sampled_from([1e-12, 1e12]))
@hypothesis.settings(max_examples=6)
def test_scales_of_rows_and_targets_do_not_matter(scale, height):
    x, y = np.linspace(0, 1, 7), np.sin(np.arange(7.0))
    base = GaussianProcess(RBF(0.3), 0.1).posterior(x, y)
    other = GaussianProcess(height**2 * RBF(0.3 * scale), 0.1 * height**2).posterior(scale * x, height * y)
    np.testing.assert_allclose(other.mean(scale * x[:3]) / height, base.mean(x[:3]), rtol=1e-9)
    shift = 7 * np.log(height)
    assert float(other.log_evidence) + shift == pytest.approx(float(base.log_evidence), rel=1e-9)


def test_posterior_mean_can_be_differentiated(rows):
    X, y = rows
    post = GaussianProcess(RBF(1.0), 0.1).posterior(X, y)
    slope = jax.grad(lambda x: post.mean(x[None])[0])(jnp.array([0.3, -0.2]))
    up, down = (float(post.mean([[0.3 + h, -0.2]])[0]) for h in (1e-5, -1e-5))
    assert float(slope[0]) == pytest.approx((up - down) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, np.nan]], [1.0]), "`X` must be finite; got NaN in column 1, row 0"),
        (([0.0, 1.0], [1.0]), "`y` must be as long as `X`"),
        (([0.0], [[1.0]]), "`y` must be one per row"),
        (([0.0], [np.inf]), "`y` must be finite; got .* row 0"),
        ((np.zeros((0, 2)), []), "`X` must be at least one row"),
        (([0.0], [1.0], [-1.0]), "`weights` must be zero or positive"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianProcess(NARROW, 0.1).posterior(*arguments)


def test_bad_parts_are_named():
    with pytest.raises(TypeError, match="`kernel` must be a Kernel"):
        GaussianProcess(1.0)
    with pytest.raises(ValueError, match="variance"):
        GaussianProcess(NARROW, -1.0)
    with pytest.raises(ValueError, match="`X` must be rows of 1 columns"):
        GaussianProcess(NARROW, 0.1).posterior([0.0], [1.0]).mean([[0.0, 1.0]])
