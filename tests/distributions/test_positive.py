"""Densities on the positive numbers: boundaries, fits, derivatives of draws, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import special, stats

from tractable.distributions.expfam import maximum_likelihood
from tractable.distributions.positive import (
    ChiSquared,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Pareto,
    Weibull,
)

DATA = np.array([0.3, 1.1, 2.0, 0.7, 3.5])


def test_limits_of_the_density_at_zero():
    at_zero = Gamma(jnp.array([0.5, 1.0, 2.0]), 3.0).expand((3,))
    values = [float(Gamma(float(a), 3.0).log_prob(0.0)) for a in at_zero.concentration]
    np.testing.assert_array_equal(values, [np.inf, np.log(3.0), -np.inf])
    values = [float(Weibull(k, 2.0).log_prob(0.0)) for k in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(values, [np.inf, -np.log(2.0), -np.inf])
    assert float(Exponential(2.0).log_prob(0.0)) == pytest.approx(np.log(2.0))
    assert float(LogNormal().log_prob(0.0)) == -np.inf


def test_slopes_at_a_boundary_where_the_density_is_finite():
    for make in (
        lambda r: Gamma(1.0, r),
        Exponential,
        lambda r: HalfNormal(1 / r),
        lambda r: HalfCauchy(1 / r),
    ):
        by_rate, by_x = jax.grad(lambda r, x, make=make: make(r).log_prob(x), (0, 1))(2.0, 0.0)
        np.testing.assert_allclose(by_rate, 0.5, rtol=1e-14)
        assert np.isfinite(by_x)


def test_slope_of_the_gamma_density_at_concentration_one():
    x = 0.7
    slope = jax.grad(lambda a: Gamma(a, 2.0).log_prob(x))(1.0)
    np.testing.assert_allclose(slope, np.log(2 * x) - special.digamma(1), rtol=1e-13)


def test_gamma_maximum_likelihood():
    fitted = maximum_likelihood(Gamma(1.0, 1.0), DATA)
    gap = np.log(DATA.mean()) - np.log(DATA).mean()
    np.testing.assert_allclose(
        np.log(fitted.concentration) - special.digamma(fitted.concentration), gap, rtol=1e-12
    )
    np.testing.assert_allclose(fitted.mean, DATA.mean(), rtol=1e-14)
    np.testing.assert_allclose(
        [fitted.concentration, 1 / fitted.rate], np.array(stats.gamma.fit(DATA, floc=0))[[0, 2]], rtol=1e-6
    )


@pytest.mark.parametrize("a", [1e-3, 0.1, 1.0, 30.0, 1e4])
def test_gamma_fit_recovers_any_concentration(a):
    family = Gamma(1.0, 1.0)
    fitted = family.from_stats((special.digamma(a) - np.log(2.0), jnp.asarray(a / 2.0)))
    np.testing.assert_allclose(fitted.concentration, a, rtol=1e-11 * max(1.0, a * 1e-1))
    inverse = InverseGamma(1.0, 1.0).from_stats((np.log(2.0) - special.digamma(a), jnp.asarray(a / 2.0)))
    np.testing.assert_allclose(inverse.concentration, fitted.concentration, rtol=1e-14)


def test_closed_form_fits():
    np.testing.assert_allclose(maximum_likelihood(Exponential(), DATA).rate, 1 / DATA.mean(), rtol=1e-14)
    np.testing.assert_allclose(
        maximum_likelihood(HalfNormal(), DATA).scale, np.sqrt((DATA**2).mean()), rtol=1e-14
    )
    logs = np.log(DATA)
    fitted = maximum_likelihood(LogNormal(), DATA)
    np.testing.assert_allclose([fitted.loc, fitted.scale], [logs.mean(), logs.std()], rtol=1e-13)
    np.testing.assert_allclose(
        maximum_likelihood(Weibull(2.0), DATA).scale, np.sqrt((DATA**2).mean()), rtol=1e-14
    )
    pareto = maximum_likelihood(Pareto(1.0, 0.3), DATA)
    np.testing.assert_allclose(pareto.concentration, 1 / np.log(DATA / 0.3).mean(), rtol=1e-14)
    degrees = float(maximum_likelihood(ChiSquared(1.0), DATA).degrees)
    np.testing.assert_allclose(special.digamma(degrees / 2) + np.log(2), logs.mean(), rtol=1e-12)


def test_relations_between_families():
    x = np.array([0.1, 1.0, 5.0])
    np.testing.assert_allclose(ChiSquared(5.0).log_prob(x), Gamma(2.5, 0.5).log_prob(x), rtol=1e-15)
    np.testing.assert_allclose(Weibull(1.0, 0.5).log_prob(x), Exponential(2.0).log_prob(x), rtol=1e-14)
    inverse = InverseGamma(2.5, 2.0)
    np.testing.assert_allclose(
        inverse.log_prob(x), Gamma(2.5, 2.0).log_prob(1 / x) - 2 * np.log(x), rtol=1e-13
    )
    np.testing.assert_allclose(inverse.cdf(x), Gamma(2.5, 2.0).survival(1 / x), rtol=1e-14)


def test_entropy_of_a_large_concentration_is_that_of_a_normal():
    a = 1e10
    np.testing.assert_allclose(
        Gamma(a, 1.0).entropy(), 0.5 * np.log(2 * np.pi * np.e * a) - 1 / (3 * a), rtol=1e-14
    )


@pytest.mark.parametrize("a", [0.3, 2.5])
def test_draws_carry_the_derivative_of_the_expectation(a):
    def mean_square(a):
        return (Gamma(a, 1.0).sample(jr.key(1), (8000,)) ** 2).mean()

    draws = np.asarray(Gamma(a, 1.0).sample(jr.key(2), (8000,)))
    slope = float(jax.grad(mean_square)(a))
    # d/da E[x^2] = 2a + 1; the slope of one draw is at most about 2 x dx/da, with dx/da near x/a
    error = 3 * np.std(2 * draws**2 / a) / np.sqrt(8000)
    assert abs(slope - (2 * a + 1)) < 5 * error


def test_small_concentrations_do_not_draw_zero_in_logarithms():
    from tractable.distributions.samplers import log_gamma_draw

    draws = log_gamma_draw(jr.key(0), jnp.full((1,), 1e-3), (1000,), jnp.float64)
    assert np.isfinite(draws).all()
    assert np.mean(np.exp(draws) == 0) > 0.3  # the draws themselves underflow


def test_infinite_moments():
    np.testing.assert_array_equal(Pareto(jnp.array([0.5, 1.5, 3.0])).mean, [np.inf, 3.0, 1.5])
    np.testing.assert_array_equal(Pareto(jnp.array([1.5, 3.0])).variance, [np.inf, 0.75])
    np.testing.assert_array_equal(InverseGamma(jnp.array([0.5, 3.0]), 4.0).mean, [np.inf, 2.0])
    np.testing.assert_array_equal(InverseGamma(jnp.array([1.5, 3.0]), 2.0).variance, [np.inf, 1.0])
    assert np.isinf(HalfCauchy().mean)


def test_parameters_that_are_not_numbers_give_nan_draws_and_end():
    draws = jax.jit(lambda a: Gamma(a, 1.0).sample(jr.key(0), (3,)))(jnp.nan)
    assert np.isnan(draws).all()


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match=r"`concentration` must be positive and finite; got 0.0"):
        Gamma(0.0, 1.0)
    with pytest.raises(ValueError, match=r"`rate` must be positive and finite; got inf"):
        Exponential(np.inf)
    with pytest.raises(ValueError, match=r"`x` must be an array whose last axes have shape \(2,\)"):
        Gamma(np.ones(2), 1.0).log_prob(np.ones(3))
