"""Mixtures against sums of SciPy densities, moments by quadrature, and the law of total variance."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, poisson

from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.expfam import log_likelihood
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture, stack

WEIGHTS = np.array([0.2, 0.5, 0.3])
LOCS, SCALES = np.array([-3.0, 0.0, 2.5]), np.array([0.5, 1.0, 2.0])
MEANS = np.array([[0.0, 0.0], [3.0, 1.0], [-2.0, 2.0]])
COVS = np.stack([np.eye(2), [[1.0, 0.5], [0.5, 2.0]], 0.3 * np.eye(2)])


def density(x):
    return (WEIGHTS * norm.pdf(np.asarray(x)[..., None], LOCS, SCALES)).sum(-1)


def cumulative(x):
    return (WEIGHTS * norm.cdf(np.asarray(x)[..., None], LOCS, SCALES)).sum(-1)


@pytest.fixture(scope="module")
def line():
    return Mixture(WEIGHTS, Normal(LOCS, SCALES))


@pytest.fixture(scope="module")
def plane():
    return Mixture(WEIGHTS, Gaussian(MEANS, COVS))


# Densities, joint and responsibilities


def test_log_prob_is_the_log_of_the_weighted_sum(line):
    x = np.linspace(-6, 6, 7)
    np.testing.assert_allclose(line.log_prob(x), np.log(density(x)), rtol=1e-12)


def test_gaussian_mixture_density_and_joint(plane):
    x = np.random.default_rng(0).normal(size=(5, 2)) * 3
    joint = np.stack([w * multivariate_normal(m, c).pdf(x) for w, m, c in zip(WEIGHTS, MEANS, COVS)], -1)
    np.testing.assert_allclose(plane.log_joint(x), np.log(joint), rtol=1e-11)
    np.testing.assert_allclose(plane.log_prob(x), np.log(joint.sum(-1)), rtol=1e-11)
    np.testing.assert_allclose(plane.responsibilities(x), joint / joint.sum(-1, keepdims=True), rtol=1e-10)


def test_dataset_log_likelihood_is_a_sum_over_rows_not_a_mixture_of_datasets(plane):
    xs = np.random.default_rng(1).normal(size=(6, 2))
    each = np.log(sum(w * multivariate_normal(m, c).pdf(xs) for w, m, c in zip(WEIGHTS, MEANS, COVS)))
    np.testing.assert_allclose(log_likelihood(plane, xs), each.sum(), rtol=1e-12)
    weights = np.array([2.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(log_likelihood(plane, xs, weights), weights @ each, rtol=1e-12)


def test_far_points_do_not_underflow(line):
    np.testing.assert_allclose(line.log_prob(200.0), np.log(0.3) + norm.logpdf(200, 2.5, 2), rtol=1e-12)


def test_gradient_is_finite_where_a_component_vanishes():
    mixture = Mixture([1.0, 0.0], Normal(jnp.array([0.0, 1.0]), 1.0))
    slopes = jax.grad(lambda m: m.log_prob(0.5))(mixture)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    np.testing.assert_allclose(mixture.log_prob(0.5), norm.logpdf(0.5), rtol=1e-13)


def test_one_component_is_that_component(line):
    single = Mixture([1.0], Normal(jnp.array([1.5]), 2.0))
    np.testing.assert_allclose(single.log_prob(0.3), norm.logpdf(0.3, 1.5, 2.0), rtol=1e-13)
    assert float(single.variance) == 4.0


# Draws


def test_draws_with_labels_come_from_their_components(plane):
    n = 20_000
    draws, labels = plane.sample_with_labels(jr.key(0), (n,))
    draws, labels = np.asarray(draws), np.asarray(labels)
    counts = np.bincount(labels, minlength=3)
    assert np.abs((counts - n * WEIGHTS) / np.sqrt(n * WEIGHTS * (1 - WEIGHTS))).max() < 5
    for k in range(3):
        error = draws[labels == k].mean(0) - MEANS[k]
        assert np.abs(error / np.sqrt(np.diag(COVS[k]) / counts[k])).max() < 5
    assert np.abs(draws.mean(0) - plane.mean).max() < 5 * np.sqrt(np.asarray(plane.variance).max() / n)


def test_sample_has_the_distribution_function(line):
    n = 20_000
    draws = np.sort(np.asarray(line.sample(jr.key(1), (n,))))
    gap = np.abs(cumulative(draws) - (np.arange(n) + 0.5) / n).max()
    assert gap < 1.95 / np.sqrt(n)  # the 0.1% point of the Kolmogorov distribution


# Moments


def test_moments_by_quadrature(line):
    mean = quad(lambda x: x * density(x), -30, 30, epsabs=1e-12)[0]
    variance = quad(lambda x: (x - mean) ** 2 * density(x), -30, 30, epsabs=1e-12)[0]
    np.testing.assert_allclose(line.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(line.variance, variance, rtol=1e-9)


def test_law_of_total_variance(line):
    mean = WEIGHTS @ LOCS
    expected = WEIGHTS @ (SCALES**2 + LOCS**2) - mean**2
    np.testing.assert_allclose(line.variance, expected, rtol=1e-13)
    np.testing.assert_allclose(line.std, np.sqrt(expected), rtol=1e-13)


def test_variance_far_from_zero_keeps_its_digits():
    far = Mixture([0.5, 0.5], Normal(jnp.array([1e8, 1e8 + 2.0]), 1.0))
    np.testing.assert_allclose(far.variance, 2.0, rtol=1e-12)


def test_covariance_of_a_mixture_of_gaussians(plane):
    mean = WEIGHTS @ MEANS
    second = sum(w * (c + np.outer(m, m)) for w, m, c in zip(WEIGHTS, MEANS, COVS))
    np.testing.assert_allclose(plane.cov, second - np.outer(mean, mean), rtol=1e-12)
    np.testing.assert_allclose(np.diag(plane.cov), plane.variance, rtol=1e-12)


def test_covariance_of_independent_coordinates():
    mixture = Mixture([0.4, 0.6], Normal(jnp.array([[0.0, 1.0], [2.0, -1.0]]), 0.5))
    centred = np.array([[0.0, 1.0], [2.0, -1.0]]) - np.array([1.2, -0.2])
    expected = 0.25 * np.eye(2) + np.einsum("k,ki,kj->ij", [0.4, 0.6], centred, centred)
    np.testing.assert_allclose(mixture.cov, expected, rtol=1e-12)


# Ensembles of predictive distributions


def test_ensemble_of_predictions():
    """Two predictions N(0, 1) and N(3, 4) weighted 1:3: the variance exceeds the mean of the variances."""
    ensemble = Mixture.of([Normal(0.0, 1.0), Normal(3.0, 2.0)], [0.25, 0.75])
    assert float(ensemble.mean) == pytest.approx(2.25, rel=1e-14)
    expected = 0.25 * 1 + 0.75 * (4 + 9) - 2.25**2
    assert float(ensemble.variance) == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(
        ensemble.prob(1.0), 0.25 * norm.pdf(1.0) + 0.75 * norm.pdf(1, 3, 2), rtol=1e-13
    )


def test_ensemble_of_vector_predictions_broadcasts_shared_parameters():
    ensemble = Mixture.of([Normal(jnp.zeros(2), 1.0), Normal(jnp.ones(2), jnp.ones(2))])
    assert ensemble.shape == (2,)
    np.testing.assert_allclose(ensemble.weights, [0.5, 0.5])
    expected = np.log(
        0.5 * np.exp(norm.logpdf([0.3, 0.4]).sum()) + 0.5 * np.exp(norm.logpdf([-0.7, -0.6]).sum())
    )
    np.testing.assert_allclose(ensemble.log_prob(np.array([0.3, 0.4])), expected, rtol=1e-12)


def test_a_mixture_of_mixtures_is_a_mixture(line):
    nested = Mixture.of([line, Mixture(WEIGHTS, Normal(LOCS + 1, SCALES))], [0.5, 0.5])
    x = np.array([0.0, 2.0])
    np.testing.assert_allclose(nested.prob(x), 0.5 * density(x) + 0.5 * density(x - 1), rtol=1e-12)
    np.testing.assert_allclose(nested.mean, line.mean + 0.5, rtol=1e-12)


# Distribution function and quantiles


def test_cdf_and_quantiles(line):
    p = np.array([1e-9, 0.025, 0.5, 0.975, 1 - 1e-9])
    x = np.asarray(line.icdf(p))
    np.testing.assert_allclose(cumulative(x), p, rtol=1e-9)
    np.testing.assert_allclose(line.cdf(x), cumulative(x), rtol=1e-12)


def test_quantiles_at_and_beyond_the_ends(line):
    ends = np.asarray(line.icdf(np.array([0.0, 1.0, -0.1, 1.1])))
    assert ends[0] == -np.inf
    assert ends[1] == np.inf
    assert np.isnan(ends[2:]).all()


def test_quantiles_of_counts_are_whole_numbers():
    counts = Mixture([0.6, 0.4], Poisson(np.array([1.0, 9.0])))
    p = np.linspace(0.005, 0.995, 100)
    x = np.arange(60)
    cumulative_mass = 0.6 * poisson.cdf(x, 1.0) + 0.4 * poisson.cdf(x, 9.0)
    np.testing.assert_array_equal(counts.icdf(p), np.searchsorted(cumulative_mass, p))
    np.testing.assert_allclose(
        counts.log_prob(2.0), np.log(0.6 * poisson.pmf(2, 1) + 0.4 * poisson.pmf(2, 9))
    )
    assert counts.sample(jr.key(2), (4,)).dtype == int
    assert counts.discrete


def test_components_of_different_support():
    """Outside one interval the other decides; outside both the density is zero."""
    steps = Mixture([0.25, 0.75], Uniform(np.array([0.0, 2.0]), np.array([1.0, 4.0])))
    x = np.array([-0.5, 0.5, 1.5, 3.0, 5.0])
    np.testing.assert_allclose(steps.prob(x), [0, 0.25, 0, 0.375, 0])
    np.testing.assert_array_equal(np.isneginf(steps.log_prob(x)), [True, False, True, False, True])
    np.testing.assert_allclose(steps.icdf(np.array([0.125, 0.625])), [0.5, 3.0], rtol=1e-12)
    slopes = jax.grad(lambda m: m.log_prob(0.5))(steps)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_gradient_of_a_quantile_is_implicit(line):
    def moved(p, delta):
        return Mixture(WEIGHTS, Normal(LOCS + delta, SCALES)).icdf(p)

    q, (by_p, by_shift) = jax.value_and_grad(moved, (0, 1))(0.3, 0.0)
    assert float(by_p) == pytest.approx(1 / density(q), rel=1e-9)
    assert float(by_shift) == pytest.approx(1.0, rel=1e-9)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Mixture([0.5, 0.6], Normal(np.zeros(2), 1.0)),
            "`weights` must be probabilities that are zero or",
        ),
        (
            lambda: Mixture([0.5, 0.5], Normal(np.zeros(3), 1.0)),
            "`components` must be 2 stacked distributions",
        ),
        (lambda: Mixture([0.5, 0.5], Normal(0.0, 1.0)), "`components` must be 2 stacked distributions"),
        (lambda: Mixture(np.full((2, 2), 0.5), Normal(np.zeros(2), 1.0)), "`weights` must be a vector"),
        (lambda: Mixture.of([]), "`distributions` must be a non-empty list"),
        (
            lambda: stack([Normal(0.0, 1.0), Gaussian(np.zeros(1), np.eye(1))]),
            "`distributions` must be of one class; got Gaussian, Normal",
        ),
        (
            lambda: stack([Gaussian(np.zeros(d), np.eye(d)) for d in (1, 2)]),
            r"`distributions` must be of one shape, .*got shapes \[\(1,\), \(2,\)\]",
        ),
        (
            lambda: Mixture(WEIGHTS, Gaussian(MEANS, COVS)).cdf(0.0),
            "`components` must be distributions of one number",
        ),
        (
            lambda: Mixture(WEIGHTS, Normal(LOCS, SCALES)).cov,
            "`components` must be vectors, to have a covariance",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_closed_form_entropy(line):
    with pytest.raises(AttributeError, match="Mixture has no closed-form entropy"):
        line.entropy()
