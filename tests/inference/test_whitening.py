"""The maps behind which chains run, and what they learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.inference.chains.whitening import (
    DenseWhitening,
    DiagonalWhitening,
    LowRankWhitening,
    _geometric_mean,
    identity_whitening,
)

GENERATOR = np.random.default_rng(0)
FACTOR = GENERATOR.normal(size=(4, 4))
BASIS = np.linalg.qr(GENERATOR.normal(size=(4, 2)))[0]
MAPS = [
    DiagonalWhitening(np.arange(4.0), np.array([0.1, 1.0, 2.0, 30.0])),
    DenseWhitening(np.arange(4.0), np.linalg.cholesky(FACTOR @ FACTOR.T)),
    LowRankWhitening(np.arange(4.0), np.array([0.1, 1.0, 2.0, 30.0]), BASIS, np.array([5.0, 0.2])),
]


@pytest.mark.parametrize("whitening", MAPS, ids=lambda w: type(w).__name__)
def test_rows_agree_with_the_matrix(whitening):
    matrix = np.asarray(jax.jacfwd(whitening.forward)(np.zeros(4)))
    rows = GENERATOR.normal(size=(2, 5, 4))
    np.testing.assert_allclose(whitening.multiply(rows), rows @ matrix.T, rtol=1e-10)
    np.testing.assert_allclose(whitening.solve(rows), rows @ np.linalg.inv(matrix).T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(whitening.multiply_transposed(rows), rows @ matrix, rtol=1e-10)
    np.testing.assert_allclose(
        whitening.solve_transposed(rows), rows @ np.linalg.inv(matrix), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        whitening.points(rows)[0, 0], whitening.forward(jnp.asarray(rows[0, 0])), rtol=1e-12
    )
    np.testing.assert_allclose(whitening.inverse(whitening.points(rows)), rows, rtol=1e-9, atol=1e-9)


def test_geometric_mean_solves_its_equation():
    a, b = FACTOR @ FACTOR.T + np.eye(4), np.diag([1.0, 10.0, 0.1, 3.0]) + 0.05
    mean = _geometric_mean(a, b)
    np.testing.assert_allclose(mean @ b @ mean, a, rtol=1e-10)
    np.testing.assert_allclose(mean, mean.T, rtol=1e-12)


def _gaussian(dim, condition, count, seed=0, scatter=1.0):
    """Draws about a Gaussian, not from it, and the gradients of its log-density there."""
    generator = np.random.default_rng(seed)
    turn = np.linalg.qr(generator.normal(size=(dim, dim)))[0]
    covariance = (turn * np.geomspace(1, condition, dim)) @ turn.T
    draws = generator.normal(size=(count, dim)) * scatter
    return covariance, draws + 3.0, -draws @ np.linalg.inv(covariance)


def _condition(whitening, covariance):
    matrix = np.asarray(jax.jacfwd(whitening.forward)(np.zeros(len(covariance))))
    inner = np.linalg.solve(matrix, np.linalg.solve(matrix, covariance).T)
    return np.linalg.cond(inner)


def test_dense_map_finds_a_gaussian_from_draws_that_are_not_its_own():
    covariance, draws, slopes = _gaussian(10, 1000.0, 2000)
    learnt = identity_whitening(draws[0], "dense").learn(draws, slopes, settled=False)
    assert _condition(learnt, covariance) < 1.2
    blind = identity_whitening(draws[0], "dense").learn(draws, None)
    assert _condition(blind, covariance) > 500  # the draws alone say nothing of the target


def test_diagonal_map_is_exact_for_a_diagonal_gaussian():
    scales = np.array([0.01, 1.0, 100.0])
    draws = GENERATOR.normal(size=(8, 3))
    learnt = identity_whitening(draws[0], "diagonal").learn(draws, -draws / scales**2, settled=False)
    np.testing.assert_allclose(np.asarray(learnt.scale), scales, rtol=1e-10)


def test_low_rank_map_finds_the_long_directions():
    dim, generator = 60, np.random.default_rng(1)
    direction = np.linalg.qr(generator.normal(size=(dim, 2)))[0]
    covariance = np.eye(dim) + direction @ np.diag([400.0, 80.0]) @ direction.T
    draws = generator.normal(size=(500, dim)) @ np.linalg.cholesky(covariance).T
    slopes = -draws @ np.linalg.inv(covariance)
    plain = identity_whitening(draws[0], "diagonal").learn(draws, slopes)
    learnt = identity_whitening(draws[0], "low_rank", rank=10).learn(draws, slopes)
    assert _condition(plain, covariance) > 100
    assert _condition(learnt, covariance) < 10


@pytest.mark.parametrize("kind", ["dense", "diagonal", "low_rank"])
def test_draws_rule_where_gradients_are_not_gaussian(kind):
    """In the neck of a funnel gradients are huge: the map follows the draws there."""
    generator = np.random.default_rng(2)
    scale = np.exp(generator.normal(0, 2.0, 4000))
    x = generator.normal(size=4000) * scale
    draws = np.stack([x, generator.normal(size=4000)], 1)
    slopes = np.stack([-x / scale**2, -draws[:, 1]], 1)
    matrix = np.asarray(
        jax.jacfwd(identity_whitening(draws[0], kind).learn(draws, slopes).forward)(np.zeros(2))
    )
    spread = np.sqrt((matrix @ matrix.T)[0, 0])
    assert 0.5 * x.std() < spread < 1.1 * x.std()
    assert np.sqrt(x.std() / slopes[:, 0].std()) < 0.3 * spread  # what gradients alone would say


@pytest.mark.parametrize("kind", ["dense", "diagonal", "low_rank"])
def test_coordinates_that_never_moved_keep_their_scale(kind):
    draws = np.stack([np.ones(50), GENERATOR.normal(size=50)], 1)
    learnt = identity_whitening(draws[0], kind).learn(draws, np.stack([np.zeros(50), -draws[:, 1]], 1))
    matrix = np.asarray(jax.jacfwd(learnt.forward)(np.zeros(2)))
    assert np.isfinite(matrix).all()
    assert matrix[0, 0] == pytest.approx(1.0)
