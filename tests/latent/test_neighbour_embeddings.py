"""Isomap and Laplacian eigenmaps: shortest paths by Floyd, scikit-learn, known spectra, new rows."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse.csgraph import floyd_warshall
from scipy.spatial.distance import pdist
from sklearn.manifold import Isomap

from tractable import datasets
from tractable.core.neighbours import neighbour_graph
from tractable.latent.manifold.graph import isomap, laplacian_eigenmaps
from tractable.latent.manifold.stress import trustworthiness

RNG = np.random.default_rng(0)
CURVE = datasets.s_curve(250, seed=1)
pytestmark = pytest.mark.cheap


def test_paths_and_places_are_those_of_floyd_and_scikit_learn():
    found = isomap(CURVE.features, 2, 8)
    np.testing.assert_allclose(
        found.paths, floyd_warshall(neighbour_graph(CURVE.features, 8, kind="union")), rtol=1e-10
    )
    peer = Isomap(n_neighbors=8, n_components=2).fit(CURVE.features)
    np.testing.assert_allclose(np.abs(found.points), np.abs(peer.embedding_), atol=1e-8)
    new = CURVE.features[:9] + 0.05
    np.testing.assert_allclose(np.abs(found.transform(new)), np.abs(peer.transform(new)), atol=1e-8)
    np.testing.assert_allclose(found.transform(CURVE.features), found.points, atol=1e-9)


def test_a_bent_strip_is_straightened():
    found = isomap(CURVE.features, 2, 10)
    assert abs(np.corrcoef(found.points[:, 0], CURVE.target)[0, 1]) > 0.995
    spread = np.ptp(found.points[:, 0]) / np.ptp(CURVE.target)
    assert 0.95 < spread < 1.15  # lengths are those along the strip
    assert found.residual_variance < 0.01
    assert found.verdict
    assert trustworthiness(CURVE.features, found.points, 8) > 0.97


def test_a_line_has_exact_paths_and_landmarks_are_enough():
    line = (np.arange(60) + RNG.uniform(0, 0.4, 60))[:, None] * [[1.0, 2.0, -1.0]]
    found = isomap(line, 1, 3)
    np.testing.assert_allclose(pdist(found.points), pdist(line), atol=1e-10)
    few = isomap(line, 1, 3, num_landmarks=5, key=0)
    np.testing.assert_allclose(pdist(few.points), pdist(line), atol=1e-9)
    np.testing.assert_allclose(few.transform(line), few.points, atol=1e-9)
    assert few.paths.shape == (60, 5)
    with pytest.raises(ValueError, match="`key` must be given with `num_landmarks`"):
        isomap(line, 1, 3, num_landmarks=5)


@pytest.mark.parametrize("kind", ["heat", "binary"])
def test_eigenmaps_solve_the_generalised_problem(kind):
    found = laplacian_eigenmaps(CURVE.features, 3, 7, kind=kind)
    graph = neighbour_graph(CURVE.features, 7, kind="union")
    edges = graph.toarray()
    weights = np.where(edges > 0, np.exp(-(edges**2) / found.bandwidth) if kind == "heat" else 1.0, 0.0)
    degrees = np.diag(weights.sum(1))
    values, vectors = eigh(degrees - weights, degrees)
    np.testing.assert_allclose([*found.eigenvalues, found.next_eigenvalue], values[1:5], rtol=1e-7)
    shares = np.diag(degrees) / np.trace(degrees)
    np.testing.assert_allclose(shares @ found.points, 0, atol=1e-10)
    np.testing.assert_allclose(found.points.T * shares @ found.points, np.eye(3), atol=1e-9)
    for own, other in zip(found.points.T, vectors[:, 1:4].T):
        assert abs(np.corrcoef(own, other)[0, 1]) == pytest.approx(1.0, abs=1e-8)


def test_a_ring_has_the_spectrum_of_a_cycle():
    angles = 2 * np.pi * np.arange(40) / 40
    found = laplacian_eigenmaps(np.column_stack([np.cos(angles), np.sin(angles)]), 2, 2, kind="binary")
    np.testing.assert_allclose(found.eigenvalues, 1 - np.cos(2 * np.pi / 40), rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found.points, axis=1), np.sqrt(2), rtol=1e-6)
    single = laplacian_eigenmaps(np.column_stack([np.cos(angles), np.sin(angles)]), 1, 2, kind="binary")
    assert not single.verdict  # sine and cosine share their eigenvalue: one of them is no answer
    assert "Not determined" in single.verdict.sentence


def test_new_rows_of_eigenmaps_lie_between_their_neighbours():
    found = laplacian_eigenmaps(CURVE.features, 1, 8)
    np.testing.assert_array_equal(found.transform(CURVE.features[:5]), found.points[:5])
    held = datasets.s_curve(80, seed=4)
    old = np.corrcoef(found.points[:, 0], CURVE.target)[0, 1]
    assert np.corrcoef(found.transform(held.features)[:, 0], held.target)[0, 1] * np.sign(old) > 0.95


def test_parts_and_faults_are_named():
    two = np.concatenate([RNG.normal(size=(9, 2)), RNG.normal(size=(8, 2)) + 100])
    for embed in (isomap, laplacian_eigenmaps):
        with pytest.raises(ValueError, match="got 3, which leaves 2 parts of 9, 8 rows"):
            embed(two, 1, 3)
        assert embed(two, 1).num_neighbours == 12
        assert np.isfinite(embed(np.ones((6, 2)), 1).points).all()  # identical rows
        with pytest.raises(ValueError, match="NaN in column 0, row 1"):
            embed([[0.0], [np.nan], [1.0], [2.0]], 1)
    with pytest.raises(ValueError, match="such that every row has an edge of weight"):
        laplacian_eigenmaps(CURVE.features, 1, 5, bandwidth=1e-9)
    with pytest.raises(ValueError, match="`kind` must be one of 'heat', 'binary'"):
        laplacian_eigenmaps(CURVE.features, 1, 5, kind="cosine")
