"""Quadrature and sums with their own errors: singular ends, far modes, long ranges, honest doubt."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.estimate import Estimate
from tractable.distributions.atoms import Empirical
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.f_generators import relative_density
from tractable.distributions.integrals import certified, integrate, monte_carlo, tabulate
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.panels import expectation_rule, support_ends, tail_sum
from tractable.distributions.waiting import Weibull


def test_expectations_by_nodes_and_weights():
    """E[x^4] = 3 under the normal; E[log x] = log s - gamma / k under a Weibull that is singular at zero."""
    x, w = expectation_rule(Normal(0.0, 1.0))
    np.testing.assert_allclose([w.sum(), (w * x**4).sum()], [1.0, 3.0], rtol=1e-12)
    x, w = expectation_rule(Weibull(0.3, 2.0))
    expected = np.log(2.0) - np.euler_gamma / 0.3
    np.testing.assert_allclose((w * jnp.where(w > 0, jnp.log(x), 0.0)).sum(), expected, rtol=1e-11)


@pytest.mark.parametrize("shapes", [(0.3, 0.5), (0.5, 0.3), (4.0, 0.7)])
def test_a_singular_density_costs_no_digits(shapes):
    """x^(k-1) with k below one, where plain Gauss-Legendre keeps two digits."""
    p, q = Weibull(shapes[0], 1.0), Weibull(shapes[1], 1.5)
    estimate = integrate(relative_density, p, q)
    ratio = shapes[1] / shapes[0]
    shift = shapes[1] * np.log(1.5)
    from scipy.special import gamma

    exact = -np.log(ratio) + np.euler_gamma * (ratio - 1) + shift + np.exp(-shift) * gamma(1 + ratio) - 1
    np.testing.assert_allclose(estimate.value, exact, rtol=1e-9)
    assert bool(estimate.certified)


@pytest.mark.parametrize(("center", "scale"), [(0.0, 1e-6), (1e6, 1.0), (-3.0, 1e5)])
def test_scales_and_places_do_not_matter(center, scale):
    """The nodes follow the quantiles: the same divergence at any location and scale."""
    p, q = Normal(center, scale), Normal(center + scale, 2 * scale)
    estimate = integrate(relative_density, p, q)
    np.testing.assert_allclose(estimate.value, 0.4431471805599453, rtol=1e-9)


def test_tables_of_discrete_numbers():
    values, probs = tabulate(Poisson(2000.0))
    np.testing.assert_allclose([probs.sum(), (values * probs).sum()], [1.0, 2000.0], rtol=1e-12)
    values, probs = tabulate(Empirical(np.array([2.0, 1.0, 2.0])))
    np.testing.assert_allclose(probs[values == 2.0].sum(), 2 / 3, rtol=1e-14)
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-14)


def test_a_geometric_tail_is_foretold_and_a_flat_one_diverges():
    np.testing.assert_allclose(tail_sum(jnp.asarray(0.25), jnp.asarray(0.5)), 0.25, rtol=1e-14)
    assert np.isinf(tail_sum(jnp.asarray(0.5), jnp.asarray(0.5)))
    assert float(tail_sum(jnp.asarray(0.0), jnp.asarray(0.0))) == 0.0


def test_estimates_carry_their_doubt():
    draws = np.random.default_rng(0).normal(2.0, 3.0, 400)
    estimate = monte_carlo(jnp.asarray(draws))
    np.testing.assert_allclose(estimate.standard_error, draws.std(ddof=1) / 20, rtol=1e-12)
    assert np.isinf(monte_carlo(jnp.array([1.0, jnp.inf])).value)
    doubtful = Estimate(jnp.asarray(1.0), jnp.asarray(1e-3), method="quadrature")
    assert np.isnan(certified(doubtful))
    assert repr(doubtful) == "1 ± 1.0e-03 (quadrature)"


def test_sets_that_are_no_intervals_are_refused():
    with pytest.raises(
        TypeError, match="`support` must be an interval or a range of whole numbers; got Simplex"
    ):
        support_ends(Dirichlet(np.ones(2)).support)
