"""Renyi divergences: limits, monotonicity, closed forms against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.distributions.bounded import Beta
from tractable.distributions.continuous import Laplace, Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.divergence import kl, kl_probs
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.renyi import bhattacharyya, hellinger, renyi
from tractable.distributions.waiting import Exponential

COV, OTHER = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([[1.0, -0.2], [-0.2, 1.5]])


def simplex(size):
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: np.array(w, float) / sum(w))


@given(simplex(4), simplex(4))
def test_rises_with_its_order(p, q):
    orders = [0.0, 0.3, 0.7, 1.0, 1.5, 4.0, np.inf]
    values = np.array([float(renyi(p, q, a)) for a in orders])
    assert (values[1:] >= values[:-1] - 1e-12).all() or np.isinf(values).any()
    assert (values >= -1e-14).all()


def test_special_orders():
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(renyi(p, q, 0.0), -np.log(0.5), rtol=1e-14)
    np.testing.assert_allclose(renyi(p, q, 1.0), kl_probs(p, q), rtol=1e-14)
    np.testing.assert_allclose(renyi(p, q, 1 + 1e-6), kl_probs(p, q), rtol=1e-5)
    np.testing.assert_allclose(renyi(p, q, 2.0), np.log(0.25 / 0.2 + 0.25 / 0.3), rtol=1e-13)
    np.testing.assert_allclose(renyi(p, q, np.inf), np.log(2.5), rtol=1e-13)
    assert np.isinf(renyi(q, p, 2.0))


@pytest.mark.parametrize("alpha", [0.4, 1.7])
def test_normals_match_quadrature(alpha):
    """The closed form against the integral of p^a q^(1-a), by the trapezoidal rule on a fine grid."""
    x = np.linspace(-40, 40, 400_001)

    def density(m, s):
        return np.exp(-((x - m) ** 2) / (2 * s**2)) / (s * np.sqrt(2 * np.pi))

    integral = np.trapezoid(density(0.5, 1.3) ** alpha * density(-0.2, 1.1) ** (1 - alpha), x)
    value = renyi(Normal(0.5, 1.3), Normal(-0.2, 1.1), alpha)
    np.testing.assert_allclose(value, np.log(integral) / (alpha - 1), rtol=1e-10)


def test_gaussians_match_the_textbook_determinants():
    p, q, alpha = Gaussian(np.array([0.3, -1.0]), COV), Gaussian(np.zeros(2), OTHER), 0.6
    mixed = alpha * OTHER + (1 - alpha) * COV
    shift = np.array([0.3, -1.0])
    volume = np.log(
        np.linalg.det(mixed) / (np.linalg.det(COV) ** (1 - alpha) * np.linalg.det(OTHER) ** alpha)
    )
    expected = alpha / 2 * shift @ np.linalg.solve(mixed, shift) - volume / (2 * (alpha - 1))
    np.testing.assert_allclose(renyi(p, q, alpha), expected, rtol=1e-12)
    assert np.isinf(renyi(Gaussian(np.zeros(2), 3 * OTHER), q, 2.0))


def test_nearly_equal_gaussians_keep_their_digits():
    """D_a is close to a KL: with scales 1 and 1 + e, a e^2 to second order."""
    e = 1e-7
    np.testing.assert_allclose(renyi(Normal(0.0, 1 + e), Normal(0.0, 1.0), 0.5), 0.5 * e**2, rtol=1e-5)
    np.testing.assert_allclose(hellinger(Normal(0.0, 1 + e), Normal(0.0, 1.0)), e / 2, rtol=1e-5)


def test_exponential_families_and_quadrature():
    """Exponential: D_a = log(l1/l2) + log(l1/(a l1 + (1-a) l2))/(a-1); a member of a family, and by
    quadrature for a > 1.
    """

    def exact(a, l1, l2):
        return np.log(l1 / l2) + np.log(l1 / (a * l1 + (1 - a) * l2)) / (a - 1)

    np.testing.assert_allclose(
        renyi(Exponential(1.3), Exponential(0.7), 0.4), exact(0.4, 1.3, 0.7), rtol=1e-12
    )
    np.testing.assert_allclose(
        renyi(Exponential(1.3), Exponential(0.7), 1.8), exact(1.8, 1.3, 0.7), rtol=1e-9
    )
    poisson = renyi(Poisson(3.0), Poisson(4.5), 0.5)
    np.testing.assert_allclose(poisson, (np.sqrt(3) - np.sqrt(4.5)) ** 2, rtol=1e-12)  # -2 log E sqrt


def test_members_with_other_fixed_parameters_are_integrated():
    """Laplace densities are an exponential family only around one location."""
    value = bhattacharyya(Laplace(0.0, 1.0), Laplace(1.5, 1.0))
    np.testing.assert_allclose(value, 0.75 - np.log(1 + 0.75), rtol=1e-9)


def test_adds_over_coordinates():
    rows = hellinger(Normal(jnp.zeros(3), 1.0), Normal(1.0, 1.0))
    np.testing.assert_allclose(rows, np.sqrt(1 - np.exp(-3 / 8)), rtol=1e-12)
    twice = renyi(Beta(jnp.array([2.0, 2.0]), 3.0), Beta(1.0, 2.0), 0.5)
    np.testing.assert_allclose(twice, 2 * renyi(Beta(2.0, 3.0), Beta(1.0, 2.0), 0.5), rtol=1e-12)


def test_gradients_and_discrete_against_continuous():
    slope = jax.grad(lambda m: renyi(Normal(m, 1.0), Normal(0.0, 1.0), 0.5))(0.7)
    np.testing.assert_allclose(slope, 0.5 * 0.7, rtol=1e-12)
    assert np.isinf(renyi(Normal(0.0, 1.0), Poisson(1.0), 0.5))
    assert float(hellinger(Normal(0.0, 1.0), Poisson(1.0))) == 1.0
    np.testing.assert_allclose(
        kl(Normal(0.7, 1.0), Normal(0.0, 1.0)), renyi(Normal(0.7, 1.0), Normal(0.0, 1.0), 1.0)
    )


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match="`alpha` must be zero or positive; got -1"):
        renyi(Normal(0.0, 1.0), Normal(0.0, 1.0), -1.0)
    with pytest.raises(ValueError, match="`alpha` must be finite for distributions"):
        renyi(Normal(0.0, 1.0), Normal(0.0, 1.0), np.inf)
