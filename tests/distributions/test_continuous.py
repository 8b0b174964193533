"""Densities on the line: worked numbers, fits, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Logistic, Normal, StudentT
from tractable.distributions.expfam import log_likelihood, maximum_likelihood


def test_normal_quantiles_of_a_95_percent_interval():
    p = np.array([0.025, 0.5, 0.975])
    np.testing.assert_allclose(Normal().icdf(p), [-1.959964, 0, 1.959964], atol=5e-7)
    np.testing.assert_allclose(
        Normal().icdf(p), np.sqrt(2) * special.erfinv(2 * p - 1), rtol=1e-14, atol=1e-16
    )


def test_normal_log_likelihood_of_a_data_set():
    x = np.array([1.0, 2.0, 4.0, 7.0])
    mu, sigma = 3.0, 2.0
    expected = (
        -len(x) / 2 * np.log(sigma**2)
        - ((x - mu) ** 2).sum() / (2 * sigma**2)
        - len(x) / 2 * np.log(2 * np.pi)
    )
    np.testing.assert_allclose(log_likelihood(Normal(mu, sigma), x), expected, rtol=1e-14)


def test_normal_maximum_likelihood_is_mean_and_standard_deviation():
    x = np.array([1.0, 2.0, 4.0, 7.0])
    fitted = maximum_likelihood(Normal(), x)
    np.testing.assert_allclose([fitted.loc, fitted.scale], [x.mean(), x.std()], rtol=1e-14)
    best = float(log_likelihood(fitted, x))
    for step in (-0.01, 0.01):
        assert float(log_likelihood(Normal(fitted.loc + step, fitted.scale), x)) < best
        assert float(log_likelihood(Normal(fitted.loc, fitted.scale + step), x)) < best


def test_gumbel_moments_and_inverse_sampler():
    gumbel = Gumbel(1.5, 2.0)
    np.testing.assert_allclose(gumbel.mean, 1.5 + 0.5772157 * 2, rtol=1e-7)
    np.testing.assert_allclose(gumbel.variance, np.pi**2 * 4 / 6, rtol=1e-15)
    u = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(gumbel.icdf(u), 1.5 - 2 * np.log(-np.log(u)), rtol=1e-14)
    np.testing.assert_allclose(gumbel.cdf(gumbel.icdf(u)), u, rtol=1e-14)
    np.testing.assert_allclose(Gumbel(1.5).prob(2.0), np.exp(-0.5 - np.exp(-0.5)), rtol=1e-15)


def test_gumbel_maximum_of_a_gumbel_sample_is_gumbel():
    largest = Gumbel().sample(jr.key(0), (4000, 8)).max(1)
    shifted = stats.gumbel_r(np.log(8))
    assert stats.kstest(np.asarray(largest), shifted.cdf).pvalue > 1e-4


def test_moments_that_do_not_exist():
    assert np.isnan(Cauchy().mean)
    assert np.isnan(Cauchy().variance)
    heavy = StudentT(jnp.array([0.5, 1.5, 2.5]))
    np.testing.assert_array_equal(np.isnan(heavy.mean), [True, False, False])
    np.testing.assert_array_equal(heavy.variance, [np.nan, np.inf, 5.0])


def test_student_of_one_degree_is_cauchy():
    x = np.array([-50.0, -1.0, 0.0, 0.3, 1e4])
    one, cauchy = StudentT(1.0, 0.5, 2.0), Cauchy(0.5, 2.0)
    np.testing.assert_allclose(one.log_prob(x), cauchy.log_prob(x), rtol=1e-13)
    np.testing.assert_allclose(one.cdf(x), cauchy.cdf(x), rtol=1e-13)
    np.testing.assert_allclose(
        one.icdf(np.array([1e-9, 0.2, 0.5, 0.9, 0.999])),
        cauchy.icdf(np.array([1e-9, 0.2, 0.5, 0.9, 0.999])),
        rtol=1e-12,
    )


def test_student_quantile_where_the_square_would_overflow():
    nu = 1.5  # so far out the tail is the power law z^-nu nu^(nu/2 - 1) / B(nu/2, 1/2)
    expected = -((nu ** (nu / 2 - 1) / special.beta(nu / 2, 0.5) / 1e-300) ** (1 / nu))
    np.testing.assert_allclose(StudentT(nu).icdf(1e-300), expected, rtol=1e-12)
    assert float(StudentT(0.5).icdf(1e-300)) == -np.inf  # -1e599


def test_slope_of_a_quantile_in_the_parameters():
    slope = jax.grad(lambda nu: StudentT(nu).icdf(0.9))(4.0)
    step = 1e-4
    expected = (stats.t(4 + step).ppf(0.9) - stats.t(4 - step).ppf(0.9)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_draws_follow_location_and_scale_by_derivative():
    def mean_square(scale):
        return (Laplace(1.0, scale).sample(jr.key(0), (200,)) ** 2).mean()

    value, slope = jax.value_and_grad(mean_square)(2.0)
    step = 1e-6
    np.testing.assert_allclose(slope, (mean_square(2 + step) - mean_square(2 - step)) / (2 * step), rtol=1e-7)
    assert np.isfinite(value)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.floats(-5, 5))
def test_location_and_scale_only_move_and_stretch(loc, scale, z):
    moved = Logistic(loc, scale).log_prob(loc + scale * z)
    tolerance = 1e-9 + 1e-15 * abs(loc) / scale * 10
    np.testing.assert_allclose(moved, Logistic().log_prob(z) - np.log(scale), rtol=1e-10, atol=tolerance)


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match=r"`scale` must be positive and finite; got 0.0"):
        Gumbel(0.0, 0.0)
    with pytest.raises(ValueError, match=r"`loc` must be finite; got nan at index 1"):
        Normal([0.0, np.nan], 1.0)
    with pytest.raises(ValueError, match=r"`degrees` must be positive and finite; got -2.0"):
        StudentT(-2.0)
    with pytest.raises(ValueError, match="parameters whose shapes broadcast"):
        Normal(np.zeros(2), np.ones(3))
    with pytest.raises(TypeError, match=r"`loc` must be a real number"):
        Normal("zero", 1.0)


def test_single_precision_is_kept():
    x = jnp.asarray([0.5, 2.0], jnp.float32)
    for family in (Normal, Cauchy, Laplace, Logistic, Gumbel):
        single = family(jnp.float32(1.0), jnp.float32(2.0))
        for value in (single.log_prob(x), single.cdf(x), single.sample(jr.key(0), (2,)), single.mean):
            assert value.dtype == jnp.float32
