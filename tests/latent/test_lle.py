"""Locally linear embedding: weights by hand, the matrix and its null vector, constraints, scikit-learn."""

import numpy as np
import pytest
from sklearn.manifold import LocallyLinearEmbedding

from tractable import datasets
from tractable.core.storage import load, save
from tractable.latent.manifold.lle import (
    alignment_matrix,
    locally_linear_embedding,
    reconstruction_weights,
)
from tractable.latent.manifold.stress import trustworthiness

RNG = np.random.default_rng(0)
ROLL = datasets.swiss_roll(700, seed=2)
pytestmark = pytest.mark.cheap


def test_a_midpoint_is_half_of_each_neighbour():
    middle, ends = np.zeros((1, 1)), np.array([[-1.0], [1.0]])  # K = [[1, -1], [-1, 1]], which is singular
    np.testing.assert_allclose(reconstruction_weights(middle, ends, np.array([[0, 1]])), [[0.5, 0.5]])
    third = reconstruction_weights(np.array([[0.5]]), ends, np.array([[0, 1]]), 1e-12)
    np.testing.assert_allclose(third, [[0.25, 0.75]], rtol=1e-9)


def test_weights_minimise_the_error_of_sums():
    rows, points = RNG.normal(size=(6, 8)), RNG.normal(size=(1, 8))
    found = reconstruction_weights(points, rows, np.arange(6)[None], 1e-14)[0]
    assert found.sum() == pytest.approx(1.0, rel=1e-12)
    basis = np.linalg.svd(np.ones((1, 6)))[2][1:]  # directions in which the sum stays one
    slopes = basis @ rows @ (points[0] - found @ rows)
    assert np.abs(slopes).max() < 1e-10
    kernel = (points - rows) @ (points - rows).T
    solved = np.linalg.solve(kernel, np.ones(6))
    np.testing.assert_allclose(found, solved / solved.sum(), rtol=1e-8)  # by the sum, not by a norm


def test_weights_do_not_see_place_turn_or_scale():
    rows, points = RNG.normal(size=(5, 2)), RNG.normal(size=(3, 2))
    near = np.tile(np.arange(5), (3, 1))
    plain = reconstruction_weights(points, rows, near)
    turn = np.array([[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]])
    moved = reconstruction_weights(1e3 * points @ turn + 7, 1e3 * rows @ turn + 7, near)
    np.testing.assert_allclose(moved, plain, rtol=1e-7)
    np.testing.assert_allclose(reconstruction_weights(1e-170 * points, 1e-170 * rows, near), plain, rtol=1e-9)
    np.testing.assert_allclose(
        reconstruction_weights(np.ones((1, 2)), np.ones((3, 2)), near[:1, :3]), [[1 / 3] * 3]
    )


def test_the_matrix_is_what_its_entries_say_and_has_a_constant_null_vector():
    found = locally_linear_embedding(RNG.normal(size=(25, 3)), 2, 6)
    table = np.zeros((25, 25))
    np.put_along_axis(table, found.indices, found.weights, 1)
    matrix = alignment_matrix(found.indices, found.weights).toarray()
    np.testing.assert_allclose(matrix, (np.eye(25) - table).T @ (np.eye(25) - table), atol=1e-12)
    entries = np.eye(25) - table - table.T + np.einsum("ki,kj->ij", table, table)  # over k first, both times
    np.testing.assert_allclose(matrix, entries, atol=1e-12)
    np.testing.assert_allclose(matrix @ np.ones(25), 0, atol=1e-12)
    wanted = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose([*found.eigenvalues, found.next_eigenvalue], wanted[1:4], rtol=1e-7)
    cost = ((found.points - table @ found.points) ** 2).sum() / 25
    assert cost == pytest.approx(found.eigenvalues.sum(), rel=1e-9)


@pytest.mark.parametrize("num_rows", [300, 700])  # dense, and by a sparse factor
def test_roll_is_unrolled_under_the_constraints_and_as_by_scikit_learn(num_rows):
    roll = datasets.swiss_roll(num_rows, seed=2)
    found = locally_linear_embedding(roll.features, 2, 12)
    np.testing.assert_allclose(found.points.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(found.points.T @ found.points / num_rows, np.eye(2), atol=1e-9)
    peer = LocallyLinearEmbedding(n_neighbors=12, n_components=2, eigen_solver="dense").fit(roll.features)
    assert found.eigenvalues.sum() == pytest.approx(peer.reconstruction_error_, rel=1e-5)
    for own, other in zip(found.points.T, peer.embedding_.T):
        assert abs(own @ other) / np.sqrt(num_rows) == pytest.approx(1.0, abs=1e-5)
    assert found.verdict
    if num_rows == 700:  # with fewer, neighbours lie across the gap of the roll
        assert abs(np.corrcoef(found.points[:, 0], roll.target)[0, 1]) > 0.9


def test_a_plane_in_space_is_found_exactly():
    plane = RNG.uniform(size=(200, 2))
    found = locally_linear_embedding(plane @ RNG.normal(size=(2, 5)), 2, 8, regularisation=1e-9)
    joined = np.column_stack([plane, np.ones(200)])  # an affine map of the plane
    left = found.points - joined @ np.linalg.lstsq(joined, found.points, rcond=None)[0]
    assert np.abs(left).max() < 1e-3
    assert found.error < 1e-12


def test_new_rows_go_among_their_neighbours(tmp_path):
    found = locally_linear_embedding(ROLL.features, 2, 12)
    np.testing.assert_array_equal(found.transform(ROLL.features[:4]), found.points[:4])
    held = datasets.swiss_roll(200, seed=5)
    places = found.transform(held.features)
    assert abs(np.corrcoef(places[:, 0], held.target)[0, 1]) > 0.9
    assert trustworthiness(held.features, places, 10) > 0.85
    save(tmp_path / "roll", found)
    np.testing.assert_array_equal(load(tmp_path / "roll").transform(held.features), places)


def test_parts_are_refused_by_name_or_joined_by_more_neighbours():
    two = np.concatenate([RNG.normal(size=(20, 2)), RNG.normal(size=(15, 2)) + 100])
    message = (
        r"`num_neighbours` must be large enough to join all rows; got 5, which leaves 2 parts of 20, 15 rows"
    )
    with pytest.raises(ValueError, match=message):
        locally_linear_embedding(two, 1, 5)
    assert locally_linear_embedding(two, 1).num_neighbours == 18


def test_degenerate_tables_and_faults():
    line = locally_linear_embedding(np.arange(12.0), 1, 2).points[:, 0]
    assert abs(np.corrcoef(line, np.arange(12.0))[0, 1]) > 0.97
    copies = locally_linear_embedding(np.repeat(RNG.normal(size=(10, 2)), 2, 0), 1, 5)
    assert np.isfinite(copies.points).all()
    large = locally_linear_embedding(1e12 * ROLL.features[:100], 1, 10)
    small = locally_linear_embedding(ROLL.features[:100], 1, 10)
    np.testing.assert_allclose(large.eigenvalues, small.eigenvalues, rtol=1e-5)
    with pytest.raises(ValueError, match="`dim` must be a whole number from 1 to 2; got 3"):
        locally_linear_embedding(RNG.normal(size=(4, 2)), 3, 2)
    with pytest.raises(ValueError, match="`regularisation` must be positive"):
        locally_linear_embedding(ROLL.features, 2, 5, regularisation=0.0)
    with pytest.raises(ValueError, match="`num_neighbours` must be a whole number from 1 to 3"):
        locally_linear_embedding(RNG.normal(size=(4, 2)), 1, 4)
