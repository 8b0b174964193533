"""Inverse-transform sampling by formula, by bisection and from a table; densities checked by quadrature."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.distributions import Beta, Cauchy, Exponential, Gumbel, Logistic, Weibull
from tractable.distributions.density import check_density
from tractable.distributions.inverse import inverse_transform, invert_cdf, tabulate

FAMILIES = {
    "exponential": (Exponential(2.0), stats.expon(scale=0.5)),
    "cauchy": (Cauchy(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "weibull": (Weibull(1.5, 2.0), stats.weibull_min(1.5, scale=2.0)),
    "logistic": (Logistic(0.0, 1.0), stats.logistic()),
    "gumbel": (Gumbel(0.5, 2.0), stats.gumbel_r(0.5, 2.0)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_formula_draws_follow_the_law(name):
    ours, oracle = FAMILIES[name]
    draws = np.asarray(inverse_transform(ours, jr.key(1), (5000,)))
    assert stats.kstest(draws, oracle.cdf).pvalue > 1e-4


def test_bisection_reaches_the_last_digit_of_any_size():
    levels = jnp.array([1e-12, 0.3, 0.999])
    found = invert_cdf(lambda x: -jnp.expm1(-x), levels, low=0.0)
    np.testing.assert_allclose(found, -np.log1p(-np.asarray(levels)), rtol=1e-12)


def test_table_draws_follow_the_density():
    points = np.linspace(0, np.pi, 400)
    table = tabulate(lambda x: 0.5 * jnp.sin(x), points)
    draws = np.asarray(inverse_transform(table, jr.key(2), (5000,)))
    assert stats.kstest(draws, lambda x: 0.5 * (1 - np.cos(x))).pvalue > 1e-4


def test_gumbel_moments_and_inverse_formula():
    gumbel = Gumbel(1.0, 2.0)
    np.testing.assert_allclose(gumbel.mean, 1 + 0.5772156649 * 2, atol=1e-9)
    np.testing.assert_allclose(gumbel.variance, np.pi**2 * 4 / 6, rtol=1e-12)
    u = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(gumbel.icdf(jnp.asarray(u)), 1 - 2 * np.log(-np.log(u)), rtol=1e-12)


def test_beta_moments():
    beta = Beta(2.0, 6.0)
    np.testing.assert_allclose(
        [beta.mean, beta.variance, beta.mode], [0.25, 12 / (64 * 9), 1 / 6], rtol=1e-13
    )


def test_densities_are_recognised():
    assert check_density(lambda x: 2 * x, 0.0, 1.0).valid
    assert not check_density(lambda x: 3 * x, 0.0, 1.0).valid
    assert not check_density(lambda x: 6 * x - 2, 0.0, 1.0).valid  # negative below 1/3
    assert check_density(lambda xy: xy[0] + xy[1], [0.0, 0.0], [1.0, 1.0]).valid
