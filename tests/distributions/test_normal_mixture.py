"""Mixtures of normals, one per unit, against SciPy and quadrature."""

import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.distributions.normal_mixture import NormalMixture

WEIGHTS = np.array([0.2, 0.5, 0.3])
LOC = np.array([[-2.0, 0.0, 3.0], [1.0, 1.5, 10.0]])
SCALE = np.array([[0.5, 1.0, 2.0], [0.1, 1.0, 0.3]])
ROWS = NormalMixture(WEIGHTS, LOC, SCALE)


def test_each_unit_is_the_mixture_of_its_own_components():
    x = np.array([0.7, 2.0])
    density = (WEIGHTS * norm.pdf(x[:, None], LOC, SCALE)).sum(1)
    np.testing.assert_allclose(ROWS.log_prob(x), np.log(density).sum(), rtol=1e-13)
    np.testing.assert_allclose(ROWS.cdf(x), (WEIGHTS * norm.cdf(x[:, None], LOC, SCALE)).sum(1), rtol=1e-13)
    one = Mixture(WEIGHTS, Normal(LOC[0], SCALE[0]))
    np.testing.assert_allclose(ROWS.mean[0], one.mean, rtol=1e-13)
    np.testing.assert_allclose(ROWS.variance[0], one.variance, rtol=1e-13)
    second = quad(lambda v: v**2 * (WEIGHTS * norm.pdf(v, LOC[1], SCALE[1])).sum(), -20, 30, limit=200)[0]
    np.testing.assert_allclose(ROWS.variance[1] + ROWS.mean[1] ** 2, second, rtol=1e-8)


@pytest.mark.parametrize("p", [1e-13, 1e-5, 0.05, 0.5, 0.95, 1 - 1e-9])
def test_quantiles_invert_the_distribution_function(p):
    np.testing.assert_allclose(ROWS.cdf(ROWS.icdf(p)), [p, p], rtol=1e-9)


def test_far_tails_and_ends():
    np.testing.assert_allclose(ROWS.survival(ROWS.inverse_survival(1e-30)), [1e-30, 1e-30], rtol=1e-6)
    assert np.isinf(np.asarray(ROWS.icdf([0.0, 1.0]))).all()


def test_draws_have_the_moments():
    draws = np.asarray(ROWS.sample(jr.key(0), (20_000,)))
    assert draws.shape == (20_000, 2)
    error = np.sqrt(np.asarray(ROWS.variance) / 20_000)
    assert (np.abs(draws.mean(0) - np.asarray(ROWS.mean)) < 5 * error).all()
    assert abs(np.corrcoef(draws.T)[0, 1]) < 5 / np.sqrt(20_000)  # units are independent
    share = (draws[:, 1] > 8).mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.21 / 20_000)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="`loc` must be as long as `weights`"):
        NormalMixture([0.5, 0.5], [0.0, 1.0, 2.0], [1.0, 1.0])
