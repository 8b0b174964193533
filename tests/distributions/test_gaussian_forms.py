"""The precision and information forms against the covariance form, dense algebra and quadrature."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import (
    GaussianInformation,
    GaussianPrecision,
    to_covariance,
    to_information,
    to_precision,
)

MEAN = np.array([0.3, -1.0, 2.0])
COV = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.7]])
PRECISION = np.linalg.inv(COV)


@pytest.fixture(scope="module")
def forms():
    return {
        "precision": GaussianPrecision(MEAN, PRECISION),
        "information": GaussianInformation(PRECISION, PRECISION @ MEAN),
    }


@pytest.mark.parametrize("name", ["precision", "information"])
def test_every_form_is_the_same_distribution(forms, name):
    form, points = forms[name], np.random.default_rng(0).normal(size=(4, 3))
    oracle = multivariate_normal(MEAN, COV)
    np.testing.assert_allclose(form.log_prob(points), oracle.logpdf(points), rtol=1e-11)
    np.testing.assert_allclose(form.entropy(), oracle.entropy(), rtol=1e-12)
    np.testing.assert_allclose(form.mean, MEAN, rtol=1e-12)
    np.testing.assert_allclose(form.variance, np.diag(COV), rtol=1e-12)


@pytest.mark.parametrize("convert", [to_covariance, to_precision, to_information])
@pytest.mark.parametrize("name", ["precision", "information"])
def test_conversions_return_to_the_same_parameters(forms, name, convert):
    back = to_covariance(convert(forms[name]))
    np.testing.assert_allclose(back.mean, MEAN, rtol=1e-11)
    np.testing.assert_allclose(back.cov, COV, rtol=1e-11)


def test_conversions_of_stacked_gaussians():
    stacked = Gaussian(np.stack([MEAN, 2 * MEAN]), np.stack([COV, np.eye(3)]))
    information = to_information(stacked)
    np.testing.assert_allclose(information.shift[0], PRECISION @ MEAN, rtol=1e-11)
    np.testing.assert_allclose(information.shift[1], 2 * MEAN, rtol=1e-14)
    np.testing.assert_allclose(to_covariance(information).cov, stacked.cov, rtol=1e-11)


def test_draws_by_precision_have_the_covariance(forms):
    n = 40_000
    draws = np.asarray(forms["information"].sample(jr.key(0), (n,)))
    assert np.abs((draws.mean(0) - MEAN) / np.sqrt(np.diag(COV) / n)).max() < 5
    spread = np.sqrt((np.outer(np.diag(COV), np.diag(COV)) + COV**2) / n)
    assert np.abs((np.cov(draws.T) - COV) / spread).max() < 5


# Partitions: the three forms agree


@pytest.mark.parametrize("name", ["precision", "information"])
def test_marginal_and_conditional_agree_with_the_covariance_form(forms, name):
    dense = Gaussian(MEAN, COV)
    for known, rest in ([1], [0, 2]), ([0, 2], [1]):
        value = np.arange(1.0, len(known) + 1)
        conditional = to_covariance(forms[name].conditional(known, value))
        np.testing.assert_allclose(conditional.mean, dense.conditional(known, value).mean, rtol=1e-11)
        np.testing.assert_allclose(conditional.cov, dense.conditional(known, value).cov, rtol=1e-11)
        marginal = to_covariance(forms[name].marginal(rest))
        np.testing.assert_allclose(marginal.mean, MEAN[rest], rtol=1e-11)
        np.testing.assert_allclose(marginal.cov, COV[np.ix_(rest, rest)], rtol=1e-11)


def test_worked_conditional_by_precision():
    joint = to_precision(Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 2.0]]))
    posterior = joint.conditional([1], np.ones(1))
    np.testing.assert_allclose(posterior.mean, [0.4], rtol=1e-13)
    np.testing.assert_allclose(1 / posterior.precision, [[0.68]], rtol=1e-13)


def test_a_block_of_the_precision_is_not_the_precision_of_the_block(forms):
    """$\\Lambda_{aa}$ belongs to the conditional, $\\Sigma_{aa}^{-1}$ to the marginal."""
    block = forms["precision"].precision[:2, :2]
    marginal = forms["precision"].marginal([0, 1]).precision
    np.testing.assert_allclose(marginal, np.linalg.inv(COV[:2, :2]), rtol=1e-11)
    assert np.abs(block - marginal).max() > 0.01
    assert np.linalg.eigvalsh(block - marginal).min() > -1e-12  # knowing more never widens


def test_exponent_expands_into_four_blocks():
    """$-\\frac12$ of the sum of the four block terms is the exponent of the joint density."""
    x = np.array([1.0, 0.5, -0.2])
    a, b = [0, 1], [2]
    r = x - MEAN
    blocks = sum(r[i] @ PRECISION[np.ix_(i, j)] @ r[j] for i in (a, b) for j in (a, b))
    expected = Gaussian(MEAN, COV).log_prob(x) + 0.5 * np.log((2 * np.pi) ** 3 * np.linalg.det(COV))
    np.testing.assert_allclose(-0.5 * blocks, expected, rtol=1e-11)


# Completing the square


def test_log_integral_against_quadrature():
    a, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -0.5])
    canonical = GaussianInformation(a, b)

    def integrand(y, x):
        v = np.array([x, y])
        return np.exp(-0.5 * v @ a @ v + b @ v)

    value, error = dblquad(integrand, -9, 9, -9, 9, epsabs=1e-10)
    assert abs(np.exp(canonical.log_integral()) - value) < 10 * error
    inverse = np.linalg.inv(a)
    expected = np.sqrt((2 * np.pi) ** 2 * np.linalg.det(inverse)) * np.exp(0.5 * b @ inverse @ b)
    np.testing.assert_allclose(np.exp(canonical.log_integral()), expected, rtol=1e-13)
    np.testing.assert_allclose(canonical.mean, inverse @ b, rtol=1e-13)


def test_square_is_completed_at_every_point(forms):
    """$-\\frac12 x^T A x + b^T x = -\\frac12 (x - m)^T A (x - m) + \\frac12 b^T A^{-1} b$, $m = A^{-1} b$."""
    information = forms["information"]
    x = np.random.default_rng(1).normal(size=(5, 3))
    h = np.asarray(information.shift)
    exponent = -0.5 * np.einsum("ni,ij,nj->n", x, PRECISION, x) + x @ h
    np.testing.assert_allclose(information.log_prob(x), exponent - information.log_integral(), rtol=1e-11)
    np.testing.assert_allclose(GaussianInformation(PRECISION, -h).mean, -MEAN, rtol=1e-12)


def test_partial_information_has_no_density_until_it_is_completed():
    partial = GaussianInformation(np.diag([1.0, 0.0]), [2.0, 0.0])
    assert np.isnan(partial.log_prob(np.zeros(2)))
    assert np.isnan(partial.log_integral())
    whole = GaussianInformation(
        partial.precision + np.diag([0.0, 4.0]), partial.shift + jnp.asarray([0.0, 4.0])
    )
    np.testing.assert_allclose(whole.mean, [2.0, 1.0], rtol=1e-14)


def test_gradient_and_vmap(forms):
    slope = jax.grad(lambda h: GaussianInformation(PRECISION, h).log_integral())(
        jnp.asarray(PRECISION @ MEAN)
    )
    np.testing.assert_allclose(slope, MEAN, rtol=1e-11)
    values = jnp.asarray([[0.0], [1.0]])
    means = jax.vmap(lambda v: forms["precision"].conditional([0], v).mean)(values)
    np.testing.assert_allclose(means[1], forms["precision"].conditional([0], values[1]).mean, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: to_precision(Gaussian(np.zeros(2), np.ones((2, 2)))), "`cov` must be positive definite"),
        (
            lambda: to_covariance(GaussianPrecision(np.zeros(2), np.ones((2, 2)))),
            "`precision` must be positive",
        ),
        (lambda: GaussianPrecision(np.zeros(2), -np.eye(2)), "`precision` must be a symmetric positive semi"),
        (
            lambda: GaussianInformation(np.eye(2), np.zeros(3)),
            "`shift` must be as long as `precision` is wide",
        ),
        (
            lambda: GaussianInformation(np.eye(2), np.zeros(2)).conditional([0], 1.0),
            r"`values` must be of shape",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
