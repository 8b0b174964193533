"""Truncation of any univariate distribution: masses, moments by other means, bounds, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, stats

from tractable.distributions.bounded import TruncatedNormal, Uniform
from tractable.distributions.continuous import Cauchy, Logistic, Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.discrete import Empirical, Finite
from tractable.distributions.positive import Exponential, Gamma, Pareto, Weibull
from tractable.distributions.truncated import Truncated

LEVELS = np.array([0.1, 0.5, 0.9])


def moments(density, low, high):
    mass = integrate.quad(density, low, high, epsabs=0, epsrel=1e-12)[0]
    mean = integrate.quad(lambda x: x * density(x) / mass, low, high, epsabs=0, epsrel=1e-12)[0]
    square = integrate.quad(lambda x: (x - mean) ** 2 * density(x) / mass, low, high, epsabs=0, epsrel=1e-12)[
        0
    ]
    return mass, mean, square


def test_a_truncated_gamma():
    known = stats.gamma(2.5)
    mass, mean, variance = moments(known.pdf, 1, 4)
    part = Truncated(Gamma(2.5, 1.0), 1.0, 4.0)
    x = np.array([1.0, 2.0, 4.0, 0.9, 4.1])
    expected = np.where((x >= 1) & (x <= 4), known.logpdf(x) - np.log(mass), -np.inf)
    np.testing.assert_allclose(part.log_prob(x), expected, rtol=1e-12)
    np.testing.assert_allclose([part.mean, part.variance], [mean, variance], rtol=1e-11)
    np.testing.assert_allclose(part.icdf(LEVELS), known.ppf(known.cdf(1) + LEVELS * mass), rtol=1e-11)
    draws = np.asarray(part.sample(jr.key(0), (4000,)))
    assert stats.kstest(draws, lambda t: (known.cdf(t) - known.cdf(1)) / mass).pvalue > 1e-4


def test_a_poisson_without_zero():
    k = np.arange(1, 80)
    mass = stats.poisson(1).pmf(k) / (1 - np.exp(-1))
    positive = Truncated(Poisson(1.0), low=1)
    mean = mass @ k
    np.testing.assert_allclose(positive.mean, 1 / (1 - np.exp(-1)), rtol=1e-14)
    np.testing.assert_allclose(positive.variance, mass @ (k - mean) ** 2, rtol=1e-13)
    np.testing.assert_allclose(positive.entropy(), -(mass * np.log(mass)).sum(), rtol=1e-13)
    np.testing.assert_allclose(
        positive.log_prob(np.array([0.0, 1.0, 2.0])), [-np.inf, *np.log(mass[:2])], rtol=1e-13
    )
    np.testing.assert_array_equal(positive.icdf(mass.cumsum()[:3]), [1, 2, 3])
    draws = np.asarray(positive.sample(jr.key(0), (4000,)))
    assert draws.min() == 1
    assert np.issubdtype(draws.dtype, np.integer)


def test_fractional_bounds_of_counts_are_the_whole_numbers_between():
    fractional, whole = Truncated(Poisson(3.0), 1.5, 4.5), Truncated(Poisson(3.0), 2.0, 4.0)
    k = np.arange(0.0, 6.0)
    np.testing.assert_allclose(fractional.log_prob(k), whole.log_prob(k), rtol=1e-15)
    assert float(fractional.icdf(0.0)) == 2
    assert float(fractional.icdf(1.0)) == 4


def test_normal_base_agrees_with_the_closed_form():
    x = np.array([0.5, 1.0, 2.5])
    for low, high in [(-1.0, 3.0), (0.5, np.inf), (-np.inf, 3.0)]:
        general, closed = Truncated(Normal(1.0, 2.0), low, high), TruncatedNormal(1.0, 2.0, low, high)
        np.testing.assert_allclose(general.log_prob(x), closed.log_prob(x), rtol=1e-12)
        np.testing.assert_allclose(general.cdf(x), closed.cdf(x), rtol=1e-12)
        np.testing.assert_allclose(general.icdf(LEVELS), closed.icdf(LEVELS), rtol=1e-11)
        np.testing.assert_allclose(general.entropy(), closed.entropy(), rtol=1e-11)
        np.testing.assert_allclose(
            [general.mean, general.variance], [closed.mean, closed.variance], rtol=1e-15
        )


def test_upper_tail_where_both_distribution_functions_are_one():
    tail = Truncated(Normal(), 12.0, 13.0)
    assert float(Normal().cdf(12.0)) == 1
    closed = TruncatedNormal(0.0, 1.0, 12.0, 13.0)
    np.testing.assert_allclose(tail.log_prob(12.1), closed.log_prob(12.1), rtol=1e-11)
    np.testing.assert_allclose(tail.icdf(LEVELS), closed.icdf(LEVELS), rtol=1e-14)


@pytest.mark.parametrize("width", [1e-3, 0.1, 0.24, 0.26, 3.0, np.inf])
def test_exponential_moments_in_closed_form(width):
    part = Truncated(Exponential(2.0), 1.0, 1.0 + width)
    width = (1.0 + width) - 1.0
    _, mean, variance = moments(lambda t: np.exp(-2 * t), 0, min(width, 30.0))
    np.testing.assert_allclose(part.mean, 1 + mean, rtol=1e-12)
    np.testing.assert_allclose(part.variance, variance, rtol=1e-9)


def test_moments_of_heavy_tails():
    assert float(Truncated(Cauchy(), 0.0).mean) == np.inf
    np.testing.assert_allclose(
        Truncated(Cauchy(), 0.0, 10.0).mean, np.log(101) / 2 / np.arctan(10), rtol=1e-11
    )
    lomax = Truncated(Pareto(3.0, 1.0), 2.0)  # Pareto again, from 2 on
    np.testing.assert_allclose([lomax.mean, lomax.variance], [3.0, 3.0], rtol=1e-8)
    assert float(Truncated(Pareto(1.5, 1.0), 2.0).variance) == np.inf


def test_atoms_between_bounds():
    coins = Truncated(Finite([1.0, 2.0, 5.0], [0.5, 0.25, 0.25]), 1.5)
    np.testing.assert_allclose(coins.log_prob(np.array([1.0, 2.0, 5.0])), [-np.inf, *np.log([0.5, 0.5])])
    np.testing.assert_allclose(
        [coins.mean, coins.variance, coins.entropy()], [3.5, 2.25, np.log(2)], rtol=1e-14
    )
    np.testing.assert_allclose(coins.cdf(np.array([1.0, 2.0, 5.0])), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(coins.icdf(np.array([0.3, 0.6])), [2.0, 5.0])
    assert float(Truncated(Empirical([1.0, 2.0, 2.0, 3.0, 3.0, 3.0]), high=2.0).mode) == 2


def test_mode_is_the_nearest_bound_where_the_peak_is_outside():
    bounds = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    part = Truncated(Normal(2.5, 1.0), bounds[:, 0], bounds[:, 1])
    np.testing.assert_array_equal(part.mode, [1.0, 2.5, 4.0])


def test_units_of_base_and_bounds_broadcast():
    part = Truncated(Weibull(jnp.array([1.0, 2.0, 3.0]), 1.0), 0.5)
    assert part.shape == (3,)
    assert part.sample(jr.key(0), (4,)).shape == (4, 3)
    single = [Truncated(Weibull(k, 1.0), 0.5) for k in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(part.mean, [s.mean for s in single], rtol=1e-13)
    x = np.array([0.6, 1.0, 2.0])
    np.testing.assert_allclose(part.log_prob(x), sum(s.log_prob(v) for s, v in zip(single, x)), rtol=1e-13)


def test_slopes_in_bounds_and_base():
    def value(scale, low):
        return Truncated(Logistic(0.0, scale), low, 3.0).log_prob(1.5)

    slopes = jax.grad(value, (0, 1))(2.0, 1.0)
    step = 1e-6
    expected = [
        (value(2 + step, 1.0) - value(2 - step, 1.0)) / (2 * step),
        (value(2.0, 1 + step) - value(2.0, 1 - step)) / (2 * step),
    ]
    np.testing.assert_allclose(slopes, expected, rtol=1e-6)


def test_mass_below_the_smallest_float_gives_densities_and_nan_draws():
    deep = Truncated(Normal(), 40.0)
    assert np.isfinite(deep.log_prob(40.01))
    assert np.isnan(deep.sample(jr.key(0), (3,))).all()


def test_bad_bounds_are_named():
    with pytest.raises(ValueError, match=r"`low` must be a bound that leaves mass of `base` below `high`"):
        Truncated(Uniform(0.0, 1.0), 2.0, 3.0)
    with pytest.raises(ValueError, match=r"`low` must be below `high` = 1.0; got 2.0"):
        Truncated(Normal(), 2.0, 1.0)
    with pytest.raises(ValueError, match=r"`low` must be a number or an infinity, not NaN"):
        Truncated(Normal(), np.nan)
