"""Conjugate linear regression against dense multivariate densities and brute-force integration."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, multivariate_t, norm, t

from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.distributions.regression_conjugate import (
    RegressionPrior,
    linear_regression_log_evidence,
    linear_regression_posterior,
    linear_regression_predictive,
)

RNG = np.random.default_rng(0)
X = np.c_[np.ones(8), RNG.normal(size=8)]
Y = X @ np.array([1.0, -2.0]) + 0.3 * RNG.normal(size=8)
LOC, PRECISION = np.array([0.5, 0.0]), np.array([[2.0, 0.3], [0.3, 1.0]])
A, B = 1.5, 0.8


@pytest.fixture(scope="module")
def prior():
    return RegressionPrior(LOC, PRECISION, A, B)


@pytest.fixture(scope="module")
def after(prior):
    return prior.posterior(X, Y)


def assert_same(left, right, rtol=1e-9):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def test_posterior_by_the_normal_equations(after):
    precision = PRECISION + X.T @ X
    loc = np.linalg.solve(precision, PRECISION @ LOC + X.T @ Y)
    rate = B + 0.5 * (Y @ Y + LOC @ PRECISION @ LOC - loc @ precision @ loc)
    assert_same(after, RegressionPrior(loc, precision, A + 4, rate))


def test_evidence_is_the_joint_prior_predictive(prior):
    """Before any data, $y$ is multivariate t with $2a$ degrees."""
    shape = B / A * (np.eye(8) + X @ np.linalg.inv(PRECISION) @ X.T)
    expected = multivariate_t(X @ LOC, shape, df=2 * A).logpdf(Y)
    np.testing.assert_allclose(prior.log_evidence(X, Y), expected, rtol=1e-11)


def test_evidence_by_integration_over_coefficient_and_noise():
    """On a grid of the coefficient and of the logarithm of the precision, by the trapezoidal rule."""
    x, y = np.array([1.0, 2.0, -1.0]), np.array([0.7, 2.5, -0.9])
    beta, u = np.meshgrid(np.linspace(-8, 8, 2001), np.linspace(-14, 5, 801), indexing="ij")
    tau = np.exp(u)
    weight = norm.logpdf(beta, 0.2, (2.0 * tau) ** -0.5) + gamma.logpdf(tau, 2.0, scale=1 / 1.5) + u
    rows = sum(norm.logpdf(b, a * beta, tau**-0.5) for a, b in zip(x, y, strict=True))
    expected = np.exp(weight + rows).sum() * (16 / 2000) * (19 / 800)
    small = RegressionPrior([0.2], [[2.0]], 2.0, 1.5)
    np.testing.assert_allclose(np.exp(small.log_evidence(x[:, None], y)), expected, rtol=1e-7)


def test_evidence_is_the_chain_of_predictives(prior):
    total, belief = 0.0, prior
    for i in range(8):
        total += float(belief.predict_dist(X[i : i + 1]).log_prob(Y[i : i + 1]))
        belief = belief.posterior(X[i : i + 1], Y[i : i + 1])
    np.testing.assert_allclose(total, prior.log_evidence(X, Y), rtol=1e-10)


def test_sequential_is_batch(prior, after):
    assert_same(prior.posterior(X[:3], Y[:3]).posterior(X[3:], Y[3:]), after)


def test_weight_two_is_the_row_twice_and_no_rows_is_the_prior(prior):
    weights = np.array([2.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    rows = np.r_[0, 0, 2:8]
    assert_same(prior.posterior(X, Y, weights), prior.posterior(X[rows], Y[rows]))
    expected = prior.log_evidence(X[rows], Y[rows])
    np.testing.assert_allclose(prior.log_evidence(X, Y, weights), expected, rtol=1e-11)
    assert_same(prior.posterior(X[:0], Y[:0]), prior)
    np.testing.assert_allclose(prior.log_evidence(X[:0], Y[:0]), 0.0, atol=1e-13)


def test_predictive_and_coefficient_marginals(after):
    x_new = np.array([[1.0, 0.0], [1.0, 3.0]])
    inverse, a, b = np.linalg.inv(after.precision), float(after.concentration), float(after.rate)
    scales = np.sqrt(b / a * (1 + np.einsum("ni,ij,nj->n", x_new, inverse, x_new)))
    y_new = np.array([0.5, -4.0])
    expected = t(2 * a, x_new @ np.asarray(after.loc), scales).logpdf(y_new)
    np.testing.assert_allclose(after.predict_dist(x_new).log_prob(y_new), expected.sum(), rtol=1e-11)
    marginal = after.coefficients()
    np.testing.assert_allclose(marginal.scale, np.sqrt(b / a * np.diag(inverse)), rtol=1e-11)
    np.testing.assert_allclose(marginal.loc, after.loc)
    np.testing.assert_allclose(after.noise_precision().mean, a / b, rtol=1e-13)


def test_draws_have_the_posterior_moments(after):
    n = 20_000
    beta, tau = (np.asarray(v) for v in after.sample(jr.key(0), (n,)))
    a, b = float(after.concentration), float(after.rate)
    assert abs(tau.mean() - a / b) < 5 * np.sqrt(a) / b / np.sqrt(n)
    variance = b / (a - 1) * np.diag(np.linalg.inv(after.precision))
    assert np.abs((beta.mean(0) - after.loc) / np.sqrt(variance / n)).max() < 5


def test_ill_conditioned_columns_keep_their_digits():
    """Columns that differ by $10^{-7}$: the normal equations lose all digits, the stacked rows do not."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    design = np.c_[x, x + 1e-7 * rng.normal(size=200)]
    y = design @ np.array([1.0, 1.0])
    flat = RegressionPrior(np.zeros(2), np.zeros((2, 2)), 1.0, 1.0)
    np.testing.assert_allclose(flat.posterior(design, y).loc, [1.0, 1.0], rtol=1e-6)


def test_a_flat_prior_is_least_squares_without_evidence():
    flat = RegressionPrior(np.zeros(2), np.zeros((2, 2)), 1.0, 1.0)
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(flat.posterior(X, Y).loc, expected, rtol=1e-10)
    assert np.isnan(flat.log_evidence(X, Y))


def test_gradient_of_the_evidence_in_the_prior():
    def evidence(strength):
        return RegressionPrior(jnp.zeros(2), strength * jnp.eye(2), A, B).log_evidence(X, Y)

    step = 1e-5
    numeric = (evidence(1.0 + step) - evidence(1.0 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(evidence)(1.0), numeric, rtol=1e-6)


# Known noise


def test_known_noise_is_the_dense_gaussian():
    belief = Gaussian(LOC, PRECISION)
    model = LinearGaussian(X, np.zeros(8), 0.09 * np.eye(8))
    dense = model.posterior(belief, Y)
    posterior = linear_regression_posterior(belief, X, Y, noise=0.3)
    np.testing.assert_allclose(posterior.mean, dense.mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.cov, dense.cov, rtol=1e-8)
    expected = multivariate_normal(X @ LOC, X @ PRECISION @ X.T + 0.09 * np.eye(8)).logpdf(Y)
    np.testing.assert_allclose(linear_regression_log_evidence(belief, X, Y, noise=0.3), expected, rtol=1e-10)
    ahead = linear_regression_predictive(posterior, X[:2], noise=0.3)
    variance = np.diag(X[:2] @ np.asarray(dense.cov) @ X[:2].T) + 0.09
    np.testing.assert_allclose(ahead.variance, variance, rtol=1e-8)


def test_functions_take_either_prior(prior, after):
    assert_same(linear_regression_posterior(prior, X, Y), after)
    np.testing.assert_allclose(
        linear_regression_log_evidence(prior, X, Y), prior.log_evidence(X, Y), rtol=1e-14
    )
    assert_same(linear_regression_predictive(after, X), after.predict_dist(X))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p: RegressionPrior(np.zeros(2), np.eye(3), 1.0, 1.0),
            r"`precision` must be of shape \(2, 2\)",
        ),
        (
            lambda p: RegressionPrior(np.zeros(2), -np.eye(2), 1.0, 1.0),
            "`precision` must be a symmetric positive",
        ),
        (lambda p: RegressionPrior(np.zeros(2), np.eye(2), 0.0, 1.0), "`concentration` must be positive"),
        (lambda p: p.posterior(X[:, :1], Y), "`design` must be rows of 2 columns, one per coefficient"),
        (lambda p: p.posterior(X, Y[:3]), r"`targets` must be one number per row \(8,\); got shape \(3,\)"),
        (lambda p: p.posterior(X * np.nan, Y), "`design` must be finite; got nan"),
        (lambda p: p.posterior(X, Y, -np.ones(8)), "`weights` must be zero or positive"),
        (lambda p: linear_regression_posterior(p, X, Y, noise=1.0), "`noise` must be left out"),
        (lambda p: linear_regression_posterior(Gaussian(LOC, PRECISION), X, Y), "`noise` must be the known"),
        (
            lambda p: linear_regression_predictive(Gaussian(LOC, PRECISION), X, noise=-1.0),
            "`noise` must be one positive and finite number; got -1.0",
        ),
    ],
)
def test_bad_input_is_refused_by_name(prior, call, message):
    with pytest.raises(ValueError, match=message):
        call(prior)
