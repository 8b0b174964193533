"""Distances that survive cancellation, coordinates in bases, projections."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist

from tractable.core import geometry as g

GENES = np.array([[1.6, 0.5], [-0.5, -1.9]])


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 3)), rng.normal(size=(5, 3))


def test_worked_numbers_of_two_genes():
    x, y = jnp.asarray(GENES)
    np.testing.assert_allclose(g.euclidean(x, y), np.sqrt(10.17), rtol=1e-15)
    np.testing.assert_allclose(g.euclidean(x, y), 3.18904, atol=5e-6)
    np.testing.assert_allclose(g.squared_euclidean(x, y), 10.17, rtol=1e-15)
    np.testing.assert_allclose(g.manhattan(x, y), 4.5, rtol=1e-15)


@pytest.mark.parametrize(
    ("function", "metric"),
    [
        (g.squared_distances, "sqeuclidean"),
        (g.euclidean_distances, "euclidean"),
        (g.manhattan_distances, "cityblock"),
    ],
)
def test_tables_of_distances_match_scipy(tables, function, metric):
    x, y = tables
    np.testing.assert_allclose(function(x, y), cdist(x, y, metric), rtol=1e-12)
    np.testing.assert_allclose(function(x), cdist(x, x, metric), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(g.condensed(function(x)), pdist(x, metric), rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12])
def test_near_identical_points_keep_their_digits(offset, gap):
    x = offset + np.array([[0.3, 0.7, 0.1], [0.3, 0.7, 0.1], [5.0, -3.0, 2.0]])
    x[1, 0] += gap
    exact = [[sum((mp.mpf(a) - mp.mpf(b)) ** 2 for a, b in zip(row, other)) for other in x] for row in x]
    expected = np.array([[float(v) for v in row] for row in exact])
    np.testing.assert_allclose(g.squared_distances(x), expected, rtol=1e-10)
    np.testing.assert_allclose(g.squared_distances(x, x + 0.0), expected, rtol=1e-10)
    if offset == 1.0 and gap < 1e-4:  # the Gram identity alone would keep no digit
        naive = (x**2).sum(1)[:, None] + (x**2).sum(1)[None] - 2 * x @ x.T
        assert abs(naive[0, 1] / expected[0, 1] - 1) > 0.05


@given(arrays(float, (6, 3), elements=st.floats(-1e3, 1e3)))
def test_distances_are_a_metric(x):
    d = np.asarray(g.euclidean_distances(x))
    assert (d >= 0).all()
    assert (np.diag(d) == 0).all()
    np.testing.assert_allclose(d, d.T, rtol=1e-9)
    through = (d[:, :, None] + d[None, :, :]).min(1)
    assert (d <= through * (1 + 1e-9) + 1e-12).all()


def test_a_missing_entry_spoils_its_own_row_alone(tables):
    x = tables[0].copy()
    x[2, 1] = np.nan
    d = np.asarray(g.squared_distances(x))
    keep = np.arange(6) != 2
    assert np.isnan(d[2, keep]).all()
    np.testing.assert_allclose(
        d[np.ix_(keep, keep)], cdist(x[keep], x[keep], "sqeuclidean"), rtol=1e-12, atol=1e-15
    )


def test_gradient_of_a_distance_is_finite_where_points_meet():
    x = jnp.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])
    gradient = jax.jit(jax.grad(lambda x: g.euclidean_distances(x).sum()))(x)
    assert np.isfinite(gradient).all()
    toward = 2 * np.array([1.0, 2.0]) / np.sqrt(5)
    np.testing.assert_allclose(gradient[0], toward, rtol=1e-12)


def test_distances_batch_and_keep_single_precision(tables):
    x = tables[0]
    stacked = jax.vmap(g.squared_distances)(jnp.stack([jnp.asarray(x), 2 * jnp.asarray(x)]))
    np.testing.assert_allclose(stacked[1], 4 * stacked[0], rtol=1e-12)
    assert g.squared_distances(x.astype(np.float32)).dtype == np.float32


def test_squared_distances_from_a_gram_matrix(tables):
    x = jnp.asarray(tables[0])
    np.testing.assert_allclose(g.squared_distances_from_gram(x @ x.T), cdist(x, x, "sqeuclidean"), atol=1e-13)


def test_change_of_basis_worked_numbers():
    standard, new = np.eye(2), np.array([[1.0, 1.0], [1.0, -1.0]])
    matrix = g.change_of_basis(standard, new)
    np.testing.assert_allclose(matrix, [[0.5, 0.5], [0.5, -0.5]], rtol=1e-15)
    np.testing.assert_allclose(matrix @ jnp.array([3.0, 1.0]), [2.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(g.coordinates(jnp.array([3.0, 1.0]), new), [2.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(g.from_coordinates(jnp.array([2.0, 1.0]), new), [3.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(g.change_of_basis(new, standard), [[1.0, 1.0], [1.0, -1.0]], rtol=1e-15)


def test_change_of_basis_between_random_bases():
    old, new, v = np.random.default_rng(1).normal(size=(3, 3, 3))
    matrix = np.asarray(g.change_of_basis(old, new))
    inside_old = np.linalg.solve(old, v[0])
    np.testing.assert_allclose(new @ (matrix @ inside_old), v[0], rtol=1e-10)
    np.testing.assert_allclose(matrix @ g.change_of_basis(new, old), np.eye(3), atol=1e-10)


@given(arrays(float, 3, elements=st.floats(-10, 10)), arrays(float, 3, elements=st.floats(0.1, 10)))
def test_projection_leaves_an_orthogonal_residual(x, y):
    along, rest = np.asarray(g.project(x, y)), np.asarray(g.residual(x, y))
    np.testing.assert_allclose(along + rest, x, atol=1e-13)
    np.testing.assert_allclose(rest @ y, 0.0, atol=1e-12)
    np.testing.assert_allclose(along, (y @ x) / (y @ y) * y, atol=1e-12)
    np.testing.assert_allclose(g.signed_length(x, y) * y / np.linalg.norm(y), along, atol=1e-12)


def test_signed_length_and_angles():
    x, y = jnp.array([-1.0, 1.0]), jnp.array([2.0, 0.0])
    assert g.signed_length(x, y) == -1.0
    np.testing.assert_allclose(g.cosine(x, y), -np.sqrt(0.5), rtol=1e-15)
    np.testing.assert_allclose(g.angle(x, y), 3 * np.pi / 4, rtol=1e-15)
    np.testing.assert_allclose(g.angle(jnp.array([1.0, 0.0]), jnp.array([1.0, 1e-10])), 1e-10, rtol=1e-9)
    np.testing.assert_allclose(g.angle(x, -3 * x), np.pi, rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: g.squared_distances(np.ones(3)),
            r"`x` must be a table of rows with 2 axes; got shape \(3,\)",
        ),
        (lambda: g.squared_distances(np.ones((2, 3)), np.ones((2, 2))), r"`y` must be of shape \(any, 3\)"),
        (
            lambda: g.change_of_basis(np.eye(2), np.ones((2, 2))),
            "`new` must be 2 independent columns; got rank 1",
        ),
        (lambda: g.change_of_basis(np.ones((2, 3)), np.eye(2)), "`old` must be a square matrix"),
        (lambda: g.change_of_basis(np.eye(3), np.eye(2)), "`new` must be of the shape of `old`"),
        (lambda: g.project(np.ones(2), np.zeros(2)), "`onto` must be a vector other than zero"),
        (lambda: g.angle(np.zeros(2), np.ones(2)), "`x` must be a vector other than zero"),
        (lambda: g.project(np.ones(2), np.ones(3)), r"`onto` must be of shape \(2,\)"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
