"""Kernel discrepancy, energy distance, Fisher divergence and permutation tests."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from tractable.distributions.continuous import Normal
from tractable.distributions.discrepancy import (
    energy_distance,
    energy_test,
    fisher_divergence,
    gaussian_kernel,
    kernel_test,
    median_bandwidth,
    squared_mmd,
)
from tractable.distributions.gaussian import Gaussian

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(60, 2)), RNG.normal(size=(50, 2)) + 0.3


def gram(x, y, h):
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * h**2))


@pytest.mark.parametrize("block", [7, 512])
def test_mmd_matches_all_pairs(block):
    k_x, k_y, k_xy = gram(X, X, 1.3), gram(Y, Y, 1.3), gram(X, Y, 1.3)
    kernel = gaussian_kernel(1.3)
    biased = squared_mmd(X, Y, kernel, unbiased=False, block=block)
    np.testing.assert_allclose(biased, k_x.mean() + k_y.mean() - 2 * k_xy.mean(), rtol=1e-11)
    off_x, off_y = (k_x.sum() - 60) / (60 * 59), (k_y.sum() - 50) / (50 * 49)
    expected = off_x + off_y - 2 * k_xy.mean()
    np.testing.assert_allclose(squared_mmd(X, Y, kernel, block=block), expected, rtol=1e-11)


def test_mmd_is_the_distance_of_means_for_a_linear_kernel():
    value = squared_mmd(X, Y, jnp.dot, unbiased=False)
    np.testing.assert_allclose(value, ((X.mean(0) - Y.mean(0)) ** 2).sum(), rtol=1e-11)


def test_unbiased_mmd_has_the_population_mean():
    """Between N(0, 1) and N(1, 1) with h = 1: MMD^2 = 2 (1 - e^{-1/6}) / sqrt 3; averaged over 300 data
    sets.
    """
    key_x, key_y = jr.split(jr.key(0))
    x, y = jr.normal(key_x, (300, 20, 1)), 1 + jr.normal(key_y, (300, 20, 1))
    kernel = gaussian_kernel(1.0)
    values = np.asarray(jax.vmap(lambda a, b: squared_mmd(a, b, kernel))(x, y))
    z = (values.mean() - 2 * (1 - np.exp(-1 / 6)) / np.sqrt(3)) / (values.std(ddof=1) / np.sqrt(300))
    assert abs(z) < 5


def test_energy_on_the_line_matches_scipy_and_all_pairs():
    x, y = X[:, 0], Y[:, 0]
    np.testing.assert_allclose(energy_distance(x, y), scipy.stats.energy_distance(x, y), rtol=1e-12)
    np.testing.assert_allclose(energy_distance(X[:, :1], Y[:, :1]), energy_distance(x, y), rtol=1e-9)


def test_energy_of_clouds_matches_all_pairs():
    def mean_distance(a, b):
        return np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)).mean()

    expected = 2 * mean_distance(X, Y) - mean_distance(X, X) - mean_distance(Y, Y)
    np.testing.assert_allclose(energy_distance(X, Y, squared=True), expected, rtol=1e-10)
    assert float(energy_distance(X, X)) < 1e-7


def test_permutation_tests_tell_shifted_samples_from_alike_ones():
    same = np.random.default_rng(5).normal(size=(110, 2))
    shifted, alike = kernel_test(X, Y + 1.0, key=jr.key(0)), kernel_test(same[:60], same[60:], key=jr.key(1))
    assert float(shifted.p_value) == pytest.approx(1 / 501)
    assert float(alike.p_value) > 0.05
    assert float(energy_test(X, Y + 1.0, key=jr.key(2)).p_value) == pytest.approx(1 / 501)
    assert "p_value" in repr(shifted)
    np.testing.assert_allclose(shifted.statistic, squared_mmd(X, Y + 1.0), rtol=1e-9)


def test_p_values_are_uniform_when_nothing_differs():
    """Under the null every p-value k/(B + 1) is equally likely: mean 1/2, by a z-score over 200 data sets."""
    keys = jr.split(jr.key(3), 400).reshape(200, 2)
    rows = jax.vmap(lambda k: jr.normal(k, (24, 1)))(keys[:, 0])

    def p_value(x, key):
        return kernel_test(x[:12], x[12:], gaussian_kernel(1.0), key=key, num_permutations=99).p_value

    p = np.asarray(jax.vmap(p_value)(rows, keys[:, 1]))
    assert abs(p.mean() - 0.5) / (np.sqrt(1 / 12) / np.sqrt(200)) < 5
    assert 0.01 < (p <= 0.1).mean() < 0.21


def test_fisher_divergence_by_quadrature_and_by_draws():
    """(1/s2^2 - 1/s1^2)^2 s1^2 + (m1 - m2)^2 / s2^4 between normals."""
    p, q = Normal(1.0, 2.0), Normal(0.0, 1.0)
    expected = (1 - 1 / 4) ** 2 * 4 + 1
    exact = fisher_divergence(p, q)
    assert exact.method == "quadrature"
    np.testing.assert_allclose(exact.value, expected, rtol=1e-12)
    drawn = fisher_divergence(p, lambda x: -(x**2) / 2 + 7.0, key=jr.key(0), num_samples=20_000)
    assert abs(float(drawn.value) - expected) < 5 * float(drawn.standard_error)
    points = np.random.default_rng(4).normal(1.0, 2.0, 5000)
    given = fisher_divergence(lambda x: -((x - 1) ** 2) / 8, q, points)
    assert abs(float(given.value) - expected) < 5 * float(given.standard_error)


def test_fisher_divergence_of_gaussians():
    p, q = Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.ones(2), 2 * jnp.eye(2))
    drawn = fisher_divergence(p, q, key=jr.key(1), num_samples=20_000)
    assert abs(float(drawn.value) - (0.25 * 2 + 2 / 4)) < 5 * float(drawn.standard_error)


def test_median_bandwidth_is_the_median_distance():
    pooled = np.concatenate([X, Y])
    distances = np.sqrt(((pooled[:, None] - pooled[None]) ** 2).sum(-1))
    expected = np.median(distances[np.triu_indices(110, 1)])
    np.testing.assert_allclose(median_bandwidth(X, Y), expected, rtol=1e-9)


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match="`y` must be points of 2 columns, like `x`; got 1 columns"):
        squared_mmd(X, Y[:, :1])
    with pytest.raises(ValueError, match="`x` must be points of which most differ"):
        squared_mmd(np.zeros((4, 1)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="`bandwidth` must be a positive number"):
        gaussian_kernel(-1.0)
    with pytest.raises(ValueError, match="`points` must be given"):
        fisher_divergence(lambda x: -(x**2), Normal(0.0, 1.0))
