"""Inverse-transform sampling by every route, and checks of densities by quadrature."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.distributions.continuous import Cauchy, Logistic, Normal
from tractable.distributions.density import check_density
from tractable.distributions.inverse import (
    Tabulated,
    generalised_inverse,
    inverse_transform,
    invert_cdf,
    tabulate,
)
from tractable.distributions.positive import Exponential, Gamma, Weibull

U = np.array([1e-12, 0.1, 0.5, 0.9, 1 - 1e-9])


@pytest.mark.parametrize(
    ("family", "formula"),
    [
        (Exponential(2.0), lambda u: -np.log1p(-u) / 2),
        (Cauchy(1.0, 2.0), lambda u: 1 + 2 * np.tan(np.pi * (u - 0.5))),
        (Weibull(1.7, 2.0), lambda u: 2 * (-np.log1p(-u)) ** (1 / 1.7)),
        (Logistic(1.0, 2.0), lambda u: 1 + 2 * np.log(u / (1 - u))),
    ],
)
def test_analytic_inverses(family, formula):
    np.testing.assert_allclose(family.icdf(U)[1:4], formula(U[1:4]), rtol=1e-13)
    draws = np.asarray(inverse_transform(family, jr.key(0), (4000,)))
    uniform = np.asarray(family.cdf(draws))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_normal_by_the_inverse_error_function():
    draws = np.asarray(inverse_transform(Normal(1.0, 2.0), jr.key(1), (4000,)))
    assert stats.kstest(draws, stats.norm(1, 2).cdf).pvalue > 1e-4


def test_numeric_inversion_reaches_the_last_bit():
    x = np.asarray(invert_cdf(lambda t: -jnp.expm1(-t), U, low=0.0))
    np.testing.assert_allclose(x[:4], -np.log1p(-U[:4]), rtol=4e-16)
    tiny = invert_cdf(lambda t: t**0.5, np.array([1e-100, 1e-3]), 0.0, 1.0)
    np.testing.assert_allclose(tiny, [1e-200, 1e-6], rtol=1e-14)
    both = invert_cdf(lambda t: jax.scipy.stats.norm.cdf(t), np.array([1e-3, 0.5, 0.999]))
    np.testing.assert_allclose(both, stats.norm.ppf([1e-3, 0.5, 0.999]), rtol=1e-12, atol=1e-15)


def test_numeric_inversion_at_jumps_and_flat_stretches():
    def cdf(x):  # half a point mass at 1, half uniform on [2, 3]
        return jnp.where(x < 1, 0.0, 0.5 + 0.5 * jnp.clip(x - 2, 0.0, 1.0))

    np.testing.assert_allclose(invert_cdf(cdf, np.array([0.1, 0.5, 0.75, 1.0]), 0.0, 10.0), [1, 1, 2.5, 3.0])


def test_numeric_inversion_of_a_gamma_agrees_with_its_quantile():
    family = Gamma(0.05, 1.0)
    p = np.array([0.01, 0.5, 0.99])
    np.testing.assert_allclose(invert_cdf(family.cdf, p, low=0.0), family.icdf(p), rtol=1e-11)


def test_slope_of_a_numeric_inverse():
    slope = jax.grad(lambda p, rate: invert_cdf(lambda x: -jnp.expm1(-rate * x), p, 0.0), (0, 1))(0.5, 2.0)
    np.testing.assert_allclose(slope, [1.0, -np.log(2) / 4], rtol=1e-12)


def test_tabulated_distribution_function():
    grid = np.linspace(-9, 9, 1801)
    table = Tabulated(grid, np.append(np.append(0.0, stats.norm.cdf(grid[1:-1])), 1.0))
    np.testing.assert_allclose(table.icdf(np.array([0.025, 0.5, 0.975])), [-1.959964, 0, 1.959964], atol=1e-5)
    draws = np.asarray(inverse_transform(table, jr.key(2), (4000,)))
    assert stats.kstest(draws, stats.norm.cdf).pvalue > 1e-4
    np.testing.assert_allclose(table.variance, 1.0, rtol=1e-4)


def test_table_of_a_density_up_to_a_factor():
    table = tabulate(lambda x: 7 * x**2, np.linspace(0.0, 1.0, 101))
    np.testing.assert_allclose(table.cumulative, np.linspace(0, 1, 101) ** 3, atol=1e-14)
    flat = Tabulated([0.0, 1.0, 2.0, 3.0], [0.0, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(flat.icdf(np.array([0.5, 0.5 + 1e-9])), [1.0, 2.0], atol=1e-8)
    assert float(flat.log_prob(1.5)) == -np.inf


def test_discrete_generalised_inverse():
    cumulative = np.cumsum([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    found = generalised_inverse(
        jnp.asarray(cumulative), jnp.asarray([1e-12, 0.2, 0.2 + 1e-9, 0.7, 0.71, 1.0])
    )
    np.testing.assert_array_equal(found, [1, 1, 3, 3, 4, 4])


def test_densities_are_recognised():
    assert check_density(Normal(3.0, 0.5).prob, -np.inf, np.inf).valid
    assert check_density(lambda x: jnp.exp(-x), 0.0, np.inf).valid
    assert check_density(lambda x: 0.5 * x**-0.5, 0.0, 1.0, tolerance=1e-4).valid
    assert check_density(lambda x: jnp.exp(x), -np.inf, 0.0).valid


def test_functions_that_are_not_densities_are_not():
    negative = check_density(lambda x: 1.5 - 2 * x + 0 * x, 0.0, 1.0)
    assert not negative.nonnegative
    assert not negative.valid
    assert negative.least < 0
    assert 0.75 < negative.where[0] <= 1
    assert "its value is -" in repr(negative)
    short = check_density(lambda x: jnp.exp(-(x**2) / 2) / 2.5, -np.inf, np.inf)
    assert short.nonnegative
    assert not short.normalised
    np.testing.assert_allclose(short.integral, np.sqrt(2 * np.pi) / 2.5, rtol=1e-9)
    assert not check_density(lambda x: jnp.where(x > 0.5, jnp.nan, 1.0), 0.0, 1.0).valid


def test_joint_densities():
    assert check_density(lambda v: v[0] + v[1], [0.0, 0.0], [1.0, 1.0]).valid
    bivariate = check_density(
        lambda v: jnp.exp(-0.5 * (v**2).sum()) / (2 * jnp.pi), [-np.inf] * 2, [np.inf] * 2
    )
    assert bivariate.valid
    assert not check_density(lambda v: 2 * (v[0] + v[1]), [0.0, 0.0], [1.0, 1.0]).valid
    assert check_density(lambda v: 8 * v[0] * v[1] * v[2], [0.0] * 3, [1.0] * 3).valid


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`cumulative` must be 0 at first, 1 at last, and never falling"):
        Tabulated([0.0, 1.0, 2.0], [0.0, 0.6, 0.5])
    with pytest.raises(ValueError, match=r"`points` must be finite and strictly increasing"):
        Tabulated([0.0, 0.0, 2.0], [0.0, 0.6, 1.0])
    with pytest.raises(ValueError, match=r"`density` must be zero or positive"):
        tabulate(lambda x: x - 1, np.linspace(0, 2, 5))
    with pytest.raises(ValueError, match=r"`low` must be below `high`"):
        check_density(lambda x: x, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"`high` must be of the shape of `low`"):
        check_density(lambda x: x, 0.0, [1.0, 2.0])
