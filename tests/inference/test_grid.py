"""Posteriors on a grid against conjugate answers."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import beta, norm

from tractable.inference.grid import grid_posterior


def seven_of_ten(p):
    return 7 * jnp.log(p) + 3 * jnp.log1p(-p)


COV = np.array([[1.0, 0.6], [0.6, 2.0]])


def correlated(x, precision):
    return -0.5 * (x - 1) @ precision @ (x - 1)


@pytest.fixture(scope="module")
def coin():
    return grid_posterior(seven_of_ten, 0.0, 1.0)


@pytest.fixture(scope="module")
def plane():
    return grid_posterior(correlated, [-8.0, -11.0], [10.0, 13.0], args=(jnp.linalg.inv(COV),))


def test_evidence_mean_and_mode_of_a_coin(coin):
    np.testing.assert_allclose(coin.log_evidence.value, betaln(8, 4), rtol=1e-12)
    assert float(coin.log_evidence.standard_error) < 1e-9
    np.testing.assert_allclose(coin.mode, [0.7], atol=1e-7)
    np.testing.assert_allclose(coin.mean, [8 / 12], rtol=1e-12)
    np.testing.assert_allclose(coin.cov, [[beta(8, 4).var()]], rtol=1e-10)


def test_quantiles_of_a_coin(coin):
    np.testing.assert_allclose(coin.interval(0.9), beta(8, 4).ppf([0.05, 0.95]), atol=1e-6)
    grid = np.linspace(0.01, 0.99, 30)
    np.testing.assert_allclose(coin.marginal().cdf(grid), beta(8, 4).cdf(grid), atol=1e-6)


def test_predictive_of_a_coin(coin):
    def log_likelihood(y, point):
        return jnp.where(y == 1, jnp.log(point[0]), jnp.log1p(-point[0]))

    found = coin.predictive_log_prob(log_likelihood, jnp.array([1, 0]))
    np.testing.assert_allclose(np.exp(found), [8 / 12, 4 / 12], rtol=1e-10)


def test_draws_of_a_coin(coin):
    draws = np.asarray(coin.sample(jr.key(0), (4000,)))
    assert abs(draws.mean() - 8 / 12) < 5 * beta(8, 4).std() / np.sqrt(4000)


def test_two_dimensions(plane):
    exact = np.log(2 * np.pi) + 0.5 * np.log(np.linalg.det(COV))
    np.testing.assert_allclose(plane.log_evidence.value, exact, rtol=1e-10)
    np.testing.assert_allclose(plane.mean, [1, 1], atol=1e-9)
    np.testing.assert_allclose(plane.cov, COV, atol=1e-8)
    np.testing.assert_allclose(plane.mode, [1, 1], atol=1e-6)
    np.testing.assert_allclose(plane.interval(0.9, 1), norm(1, np.sqrt(2)).ppf([0.05, 0.95]), atol=1e-5)
    assert plane.verdict.sentence.startswith("Accurate: two rules agree")


def test_the_verdict_knows_a_box_that_is_too_small_and_a_grid_that_is_too_coarse(plane):
    small = grid_posterior(correlated, [-1.0, -1.0], [1.0, 1.0], args=(jnp.linalg.inv(COV),))
    assert "widen the box" in repr(small)
    sharp = grid_posterior(correlated, [-8.0, -11.0], [10.0, 13.0], args=(1e6 * jnp.linalg.inv(COV),))
    assert "Too coarse" in repr(sharp)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`high` must be larger than `low`"):
        grid_posterior(seven_of_ten, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"`low` must be finite"):
        grid_posterior(seven_of_ten, -np.inf, 0.0)
    with pytest.raises(
        ValueError, match=r"`log_density` must be a number or minus infinity in the box; got NaN"
    ):
        grid_posterior(lambda p: jnp.log(p - 0.5), 0.0, 1.0)
    with pytest.raises(ValueError, match=r"`low` must be of at most four dimensions; got 5"):
        grid_posterior(seven_of_ten, np.zeros(5), np.ones(5))
