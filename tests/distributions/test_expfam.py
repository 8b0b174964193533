"""The functions of exponential families: statistics that add, gradients, Fisher information, divergences."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import gamma, multivariate_normal, norm

from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Binomial, Poisson
from tractable.distributions.discrete import Bernoulli
from tractable.distributions.expfam import (
    expfam_entropy,
    expfam_kl,
    expfam_log_prob,
    fisher_information,
    log_likelihood,
    maximum_likelihood,
    mean_stats,
    weighted_stats,
)
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.positive import Gamma

MEAN, COV = np.array([0.5, -1.0]), np.array([[1.0, 0.4], [0.4, 2.0]])


@pytest.fixture(scope="module")
def gaussian():
    return Gaussian(MEAN, COV)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).multivariate_normal(MEAN, COV, 12)


# Statistics


def test_statistics_of_chunks_add_up_to_the_whole(gaussian, rows):
    weights = np.linspace(0, 2, 12)
    whole = weighted_stats(gaussian, rows, weights)
    parts = weighted_stats(gaussian, rows[:6], weights[:6]) + weighted_stats(gaussian, rows[6:], weights[6:])
    for a, b in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    np.testing.assert_allclose(whole.sums[1], (weights[:, None] * rows).T @ rows, rtol=1e-12)


def test_weight_two_is_the_row_twice_and_weight_zero_is_absent(gaussian, rows):
    weights = np.ones(12)
    weights[0], weights[1] = 2.0, 0.0
    dirty = rows.copy()
    dirty[1] = np.nan
    fitted = maximum_likelihood(gaussian, dirty, weights)
    copied = np.concatenate([rows[:1], rows[:1], rows[2:]])
    np.testing.assert_allclose(fitted.mean, copied.mean(0), rtol=1e-12)
    np.testing.assert_allclose(fitted.cov, np.cov(copied.T, ddof=0), rtol=1e-10)
    np.testing.assert_allclose(
        log_likelihood(gaussian, dirty, weights),
        multivariate_normal(MEAN, COV).logpdf(copied).sum(),
        rtol=1e-12,
    )


def test_gradient_does_not_see_absent_rows(gaussian, rows):
    dirty = np.where(np.arange(12)[:, None] < 2, np.nan, rows)
    weights = (np.arange(12) >= 2).astype(float)
    slope = jax.grad(lambda m: log_likelihood(Gaussian(m, COV), dirty, weights))(jnp.asarray(MEAN))
    np.testing.assert_allclose(slope, np.linalg.solve(COV, (rows[2:] - MEAN).sum(0)), rtol=1e-11)


def test_maximum_likelihood_of_independent_coordinates():
    xs = np.random.default_rng(1).normal([1.0, -2.0, 5.0], [0.5, 1.0, 2.0], (30, 3))
    fitted = maximum_likelihood(Normal(np.zeros(3), 1.0), xs)
    np.testing.assert_allclose(fitted.loc, xs.mean(0), rtol=1e-12)
    np.testing.assert_allclose(fitted.scale, xs.std(0), rtol=1e-10)


def test_maximum_likelihood_of_stacked_gaussians():
    xs = np.random.default_rng(2).normal(size=(20, 3, 2))
    fitted = maximum_likelihood(Gaussian(np.zeros((3, 2)), np.eye(2)), xs)
    for k in range(3):
        np.testing.assert_allclose(fitted.cov[k], np.cov(xs[:, k].T, ddof=0), rtol=1e-10)


def test_fixed_parameters_are_kept():
    fitted = maximum_likelihood(Binomial(10, 0.5), np.array([2.0, 4.0, 6.0]))
    np.testing.assert_allclose(fitted.total, 10)
    np.testing.assert_allclose(fitted.probs, 0.4, rtol=1e-14)


# The log-normaliser and its derivatives


def test_gradient_of_the_log_normaliser_is_the_mean_of_the_statistics(gaussian):
    first, second = mean_stats(gaussian)
    np.testing.assert_allclose(first, MEAN, rtol=1e-12)
    np.testing.assert_allclose(second, COV + np.outer(MEAN, MEAN), rtol=1e-12)
    rates = np.array([0.5, 2.0, 7.0])
    np.testing.assert_allclose(mean_stats(Poisson(rates))[0], rates, rtol=1e-12)


def test_hessian_of_the_log_normaliser_is_the_covariance_of_the_statistics(gaussian):
    """For a Gaussian, by Isserlis' theorem about the mean."""
    information = np.asarray(fisher_information(gaussian))
    np.testing.assert_allclose(information[:2, :2], COV, rtol=1e-11)
    m, c = MEAN, COV
    for i, j, k, l in np.ndindex(2, 2, 2, 2):
        wick = c[i, k] * c[j, l] + c[i, l] * c[j, k]
        shifts = m[i] * m[k] * c[j, l] + m[i] * m[l] * c[j, k] + m[j] * m[k] * c[i, l] + m[j] * m[l] * c[i, k]
        entry = information[2 + 2 * i + j, 2 + 2 * k + l]
        np.testing.assert_allclose(entry, wick + shifts, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_fisher_information_in_ordinary_parameters(scale):
    information = fisher_information(Normal(1.0, scale), ("loc", "scale"))
    np.testing.assert_allclose(information, np.diag([1 / scale**2, 2 / scale**2]), rtol=1e-11, atol=1e-12)


def test_fisher_information_per_entry():
    rates = np.array([0.5, 2.0, 7.0])
    information = fisher_information(Poisson(rates), ("rate",))
    np.testing.assert_allclose(information[:, 0, 0], 1 / rates, rtol=1e-12)
    np.testing.assert_allclose(fisher_information(Poisson(rates))[:, 0, 0], rates, rtol=1e-12)


def test_fisher_information_of_a_mean_vector_is_the_precision(gaussian):
    np.testing.assert_allclose(fisher_information(gaussian, ("mean",)), np.linalg.inv(COV), rtol=1e-11)


def test_fisher_information_is_the_variance_of_the_score():
    """Gamma, in the ordinary parameters, by quadrature of SciPy's density and the score by hand."""
    a, b = 3.0, 2.0
    x = np.linspace(1e-6, 25, 200_001)
    s = np.stack([np.log(b) - digamma(a) + np.log(x), a / b - x], 1)
    products = gamma.pdf(x, a, scale=1 / b)[:, None, None] * s[:, :, None] * s[:, None, :]
    expected = np.trapezoid(products, x, axis=0)
    np.testing.assert_allclose(
        fisher_information(Gamma(a, b), ("concentration", "rate")), expected, rtol=1e-6
    )


# Density, entropy and divergence from the natural form


def test_natural_form_is_the_density(gaussian, rows):
    expected = multivariate_normal(MEAN, COV).logpdf(rows)
    np.testing.assert_allclose(expfam_log_prob(gaussian, rows), expected, rtol=1e-11)
    line = Normal(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    np.testing.assert_allclose(
        expfam_log_prob(line, rows), norm.logpdf(rows, [0, 1], [1, 3]).sum(1), rtol=1e-12
    )


def test_entropy_from_the_log_normaliser(gaussian):
    np.testing.assert_allclose(expfam_entropy(gaussian), multivariate_normal(MEAN, COV).entropy(), rtol=1e-12)
    pair = Normal(np.zeros(2), np.array([1.0, 2.0]))
    np.testing.assert_allclose(expfam_entropy(pair), norm.entropy(scale=[1, 2]).sum(), rtol=1e-12)


def test_entropy_is_refused_where_the_base_measure_varies():
    with pytest.raises(AttributeError, match="Poisson has a base measure that varies with x"):
        expfam_entropy(Poisson(2.0))


def test_divergence_is_the_bregman_divergence(gaussian):
    """The closed form between Gaussians, and a worked number: N(0, I) to N((1, 0), 2I)."""
    other = Gaussian(np.array([0.0, 0.5]), np.array([[2.0, -0.3], [-0.3, 1.0]]))
    inverse, gap = np.linalg.inv(other.cov), np.asarray(other.mean) - MEAN
    expected = 0.5 * (
        np.trace(inverse @ COV)
        + gap @ inverse @ gap
        - 2
        + np.log(np.linalg.det(other.cov) / np.linalg.det(COV))
    )
    np.testing.assert_allclose(expfam_kl(gaussian, other), expected, rtol=1e-10)
    worked = expfam_kl(Gaussian(np.zeros(2), np.eye(2)), Gaussian([1.0, 0.0], 2 * np.eye(2)))
    assert float(worked) == pytest.approx(0.4431472, abs=5e-8)


def test_divergence_adds_over_independent_entries():
    p, q = np.array([0.2, 0.7]), np.array([0.5, 0.4])
    expected = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum()
    np.testing.assert_allclose(expfam_kl(Bernoulli(p), Bernoulli(q)), expected, rtol=1e-12)
    np.testing.assert_allclose(expfam_kl(Bernoulli(p[0]), Bernoulli(q)).shape, ())


def test_divergence_of_different_fixed_parameters_is_nan():
    assert np.isnan(expfam_kl(Binomial(10, 0.5), Binomial(11, 0.5)))
    expected = 10 * (0.5 * np.log(0.5 / 0.2) + 0.5 * np.log(0.5 / 0.8))
    np.testing.assert_allclose(expfam_kl(Binomial(10, 0.5), Binomial(10, 0.2)), expected, rtol=1e-12)


def test_under_jit_grad_and_vmap(gaussian):
    slope = jax.jit(jax.grad(lambda m: expfam_kl(gaussian, Gaussian(m, COV))))(jnp.asarray(MEAN))
    np.testing.assert_allclose(slope, np.zeros(2), atol=1e-12)
    means = jax.vmap(lambda m: mean_stats(Gaussian(m, COV))[0])(jr.normal(jr.key(0), (3, 2)))
    np.testing.assert_allclose(means, jr.normal(jr.key(0), (3, 2)), rtol=1e-12)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g: weighted_stats(g, np.zeros((3, 3))),
            r"`xs` must be rows, of shape \(n, 2\); got shape \(3, 3\)",
        ),
        (
            lambda g: weighted_stats(g, np.array([[0.0, np.nan]])),
            r"`xs` must be finite; got nan at index \(0, 1\)",
        ),
        (lambda g: maximum_likelihood(g, np.zeros((0, 2))), "`weights` must be positive in total; got 0.0"),
        (
            lambda g: maximum_likelihood(Bernoulli(0.5), np.array([0.0, 2.0])),
            "`xs` must be .*; got 2.0 at index 1",
        ),
        (
            lambda g: fisher_information(g, ("variance",)),
            r"`parameters` must be names among \['mean', 'cov'\]",
        ),
        (lambda g: expfam_kl(g, Normal(0.0, 1.0)), "`q` must be a Gaussian of unit shape"),
    ],
)
def test_bad_input_is_refused_by_name(gaussian, call, message):
    with pytest.raises(ValueError, match=message):
        call(gaussian)
