"""The normal limit of posteriors: distances against SciPy's quadrature, and the rate at which they fall."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm

from tractable.inference.curvature.asymptotics import beta_bernoulli_limit, posterior_limit

SIZES = [100, 400, 1600, 6400]


@pytest.fixture(scope="module")
def coin():
    return beta_bernoulli_limit(0.3, SIZES)


def test_distances_meet_scipy(coin):
    for i in (0, 2):
        n = SIZES[i]
        posterior, limit = beta(1 + 0.3 * n, 1 + 0.7 * n), norm(0.3, np.sqrt(0.21 / n))
        low, high = 0.3 - 9 * limit.std(), 0.3 + 9 * limit.std()
        pieces = np.linspace(max(low, 0), high, 41)
        gap = sum(
            quad(lambda x, p=posterior, q=limit: abs(p.pdf(x) - q.pdf(x)), a, b)[0]
            for a, b in itertools.pairwise(pieces)
        )
        outside = limit.cdf(pieces[0]) + limit.sf(high)
        np.testing.assert_allclose(coin.total_variation[i], 0.5 * (gap + outside), atol=1e-7)
        divergence = quad(
            lambda x, p=posterior, q=limit: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), pieces[0], high, limit=200
        )[0]
        np.testing.assert_allclose(coin.kl[i], divergence, rtol=1e-5)


@pytest.mark.thorough
def test_distance_falls_as_the_root_of_n(coin):
    variation, divergence = coin.rate
    assert abs(variation + 0.5) < 0.02
    assert abs(divergence + 1.0) < 0.04
    assert (np.diff(np.asarray(coin.total_variation)) < 0).all()
    assert "N^-0.5" in repr(coin)


def bernoulli(theta, n):
    return n * (0.3 * jnp.log(theta) + 0.7 * jnp.log1p(-theta))


def test_generic_route_meets_the_conjugate_one(coin):
    found = posterior_limit(bernoulli, lambda theta: 0.0, 0.5, SIZES, low=1e-9, high=1 - 1e-9)
    np.testing.assert_allclose(found.kl, coin.kl, rtol=1e-4)
    np.testing.assert_allclose(found.total_variation, coin.total_variation, rtol=2e-3)


def test_prior_washes_out():
    sizes = [100, 10_000]
    strong = posterior_limit(bernoulli, lambda t: 8 * jnp.log(t), 0.5, sizes, low=1e-9, high=1 - 1e-9)
    conjugate = beta_bernoulli_limit(0.3, sizes, a=9.0)
    np.testing.assert_allclose(strong.total_variation, conjugate.total_variation, rtol=2e-3)
    assert strong.total_variation[0] > 7 * strong.total_variation[1]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`theta` must be strictly between 0 and 1; got 1\.0"):
        beta_bernoulli_limit(1.0, [10])
    with pytest.raises(ValueError, match="`sizes` must be a list of positive numbers"):
        beta_bernoulli_limit(0.5, [0, 10])
    with pytest.raises(ValueError, match="`start` must be a number or at most three"):
        posterior_limit(bernoulli, lambda t: 0.0, np.zeros(4), [10])
