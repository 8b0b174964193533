"""Gram matrices and classical scaling: against dense algebra, PCA, exact recovery and repeated rows."""

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.decomposition import PCA

from tractable.core.storage import load, save
from tractable.latent.manifold.classical import classical_mds, landmark_mds
from tractable.latent.manifold.eigen import largest_eigenpairs, smallest_eigenpairs
from tractable.latent.manifold.gram import approximate_rank, double_centred, gram_matrix, realise
from tractable.latent.manifold.stress import squared_stress, strain

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 4)) * [3.0, 2.0, 1.0, 0.5]
NEW = RNG.normal(size=(5, 4))
SQUARES = squareform(pdist(ROWS, "sqeuclidean"))
pytestmark = pytest.mark.cheap


def signless(found, wanted):
    """Columns agree up to their signs."""
    signs = np.sign((found * wanted).sum(0))
    np.testing.assert_allclose(found * signs, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


def test_gram_has_the_rank_of_the_rows_and_gives_their_distances():
    gram = gram_matrix(ROWS)
    assert np.linalg.matrix_rank(gram) == 4
    lengths = np.diag(gram)
    np.testing.assert_allclose(lengths[:, None] + lengths - 2 * gram, SQUARES, atol=1e-11)


def test_points_realise_a_semidefinite_matrix():
    gram = gram_matrix(ROWS)
    for dim in (None, 4, 7):
        found = realise(gram, dim)
        assert found.shape == (30, dim or 4)
        np.testing.assert_allclose(found @ found.T, gram, atol=1e-11)
    with pytest.raises(ValueError, match=r"`dim` must be at least the rank of `gram` \(4\); got 3"):
        realise(gram, 3)
    with pytest.raises(ValueError, match=r"positive semi-definite; got eigenvalue -1"):
        realise(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="symmetric; got entries that differ by 1"):
        realise([[1.0, 1.0], [0.0, 1.0]])


def test_double_centring_is_the_centred_gram_matrix():
    centred = ROWS - ROWS.mean(0)
    np.testing.assert_allclose(double_centred(SQUARES), centred @ centred.T, atol=1e-11)
    projector = np.eye(30) - np.ones((30, 30)) / 30  # one over n, not over d
    np.testing.assert_allclose(double_centred(SQUARES), -projector @ SQUARES @ projector / 2, atol=1e-11)


def test_best_approximation_of_a_rank():
    matrix = RNG.normal(size=(12, 12))
    matrix = matrix + matrix.T
    values = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    for rank in (1, 3, 12):
        found = approximate_rank(matrix, rank)
        kept = np.maximum(values[:rank], 0)
        assert found.residual == pytest.approx(((matrix - found.matrix) ** 2).sum(), rel=1e-9)
        assert found.residual == pytest.approx((values**2).sum() - (kept**2).sum(), rel=1e-9)
    best = approximate_rank(matrix, 2)
    for seed in range(50):  # no other semi-definite matrix of that rank is nearer
        other = best.points + 0.1 * np.random.default_rng(seed).normal(size=best.points.shape)
        assert ((matrix - other @ other.T) ** 2).sum() > best.residual


def test_classical_scaling_is_pca_from_rows_and_from_distances():
    scores = PCA(2).fit_transform(ROWS)
    rows, table = classical_mds(ROWS, 2), classical_mds(np.sqrt(SQUARES), 2, metric="precomputed")
    signless(rows.points, scores)
    np.testing.assert_allclose(rows.points, table.points, atol=1e-10)
    for name in ("strain", "goodness"):
        assert getattr(rows, name) == pytest.approx(getattr(table, name), rel=1e-9)
    np.testing.assert_allclose(rows.transform(NEW), table.place(cdist(NEW, ROWS)), atol=1e-10)
    np.testing.assert_allclose(rows.place(cdist(NEW, ROWS)), rows.transform(NEW), atol=1e-10)
    np.testing.assert_allclose(table.place(np.sqrt(SQUARES)), table.points, atol=1e-10)
    assert rows.verdict
    assert "Euclidean" in repr(rows)


def test_enough_dimensions_recover_the_distances():
    found = classical_mds(np.sqrt(SQUARES), 6, metric="precomputed")
    np.testing.assert_allclose(pdist(found.points), pdist(ROWS), atol=1e-9)
    assert found.points.shape == (30, 6)
    np.testing.assert_array_equal(found.points[:, 4:], 0)  # there are four dimensions, the others are empty
    assert found.goodness == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(pdist(classical_mds(ROWS, 6).points), pdist(ROWS), atol=1e-10)


def test_strain_is_a_quarter_of_the_centred_squares_and_not_the_stress():
    found = classical_mds(ROWS, 2)
    values = np.sort(np.linalg.eigvalsh(double_centred(SQUARES)))[::-1]
    wanted = (values[2:] ** 2).sum()
    assert found.strain == pytest.approx(wanted, rel=1e-9)
    assert strain(ROWS, found.points) == pytest.approx(wanted, rel=1e-9)
    apart = SQUARES - squareform(pdist(found.points, "sqeuclidean"))
    projector = np.eye(30) - 1 / 30
    assert found.strain == pytest.approx(((projector @ apart @ projector) ** 2).sum() / 4, rel=1e-9)
    assert squared_stress(ROWS, found.points) == pytest.approx((apart**2).sum(), rel=1e-12)
    assert found.strain < squared_stress(ROWS, found.points) / 4  # an inequality, and here a strict one
    for seed in range(30):
        other = found.points + 0.05 * np.random.default_rng(seed).normal(size=(30, 2))
        assert strain(ROWS, other) > found.strain


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "precomputed"])
def test_weights_count_rows(metric):
    counts = np.resize([2, 0, 1, 3], 30)
    copies = np.repeat(np.arange(30), counts)
    X = np.sqrt(SQUARES) if metric == "precomputed" else ROWS
    twice = X[np.ix_(copies, copies)] if metric == "precomputed" else X[copies]
    weighted = classical_mds(X, 2, metric=metric, weights=counts)
    repeated = classical_mds(twice, 2, metric=metric)
    signless(weighted.points[np.repeat(np.arange((counts > 0).sum()), counts[counts > 0])], repeated.points)
    assert weighted.strain == pytest.approx(repeated.strain, rel=1e-8)


def test_distances_of_no_points_are_said_to_be_so_and_mended():
    table = squareform(RNG.uniform(1, 2, 15 * 14 // 2))
    plain = classical_mds(table, 3, metric="precomputed")
    values = np.linalg.eigvalsh(double_centred(table**2))
    assert plain.least_eigenvalue == pytest.approx(values[0], rel=1e-9)
    assert not plain.verdict
    assert "No points have these distances" in plain.verdict.sentence
    for correction, power in (("additive", 1), ("squared", 2)):
        mended = classical_mds(table, 14, metric="precomputed", correction=correction)
        assert mended.verdict
        off = ~np.eye(15, dtype=bool)
        wanted = np.where(off, table**power + mended.added, 0) ** (1 / power)
        np.testing.assert_allclose(squareform(pdist(mended.points)), wanted, atol=1e-7)
        less = np.where(off, table**power + mended.added * (1 - 1e-4), 0) ** (2 / power)
        assert np.linalg.eigvalsh(double_centred(less))[0] < -1e-7  # the least that will do
    with pytest.raises(ValueError, match="left out with a `correction`"):
        classical_mds(table, 2, metric="precomputed", correction="additive", weights=np.ones(15))


def test_landmarks_recover_euclidean_distances():
    found = landmark_mds(ROWS, 4, 8, key=0)
    np.testing.assert_allclose(pdist(found.points), pdist(ROWS), atol=1e-9)
    np.testing.assert_allclose(cdist(found.transform(NEW), found.points), cdist(NEW, ROWS), atol=1e-9)
    with pytest.raises(ValueError, match="`num_landmarks` must be a whole number from 3 to 30"):
        landmark_mds(ROWS, 2, 31, key=0)


def test_few_eigenpairs_of_large_matrices_are_those_of_dense_algebra():
    rows = RNG.normal(size=(700, 6)) * np.arange(1, 7)
    gram = rows @ rows.T
    values, vectors = largest_eigenpairs(gram, 3)
    basis, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(values, sizes[:3] ** 2, rtol=1e-10)
    signless(vectors, basis[:, :3])
    path = scipy.sparse.diags_array(
        [-np.ones(699), 2.0 * np.ones(700), -np.ones(699)], offsets=[-1, 0, 1]
    ).tolil()
    path[0, 0] = path[699, 699] = 1
    values, vectors = smallest_eigenpairs(path.tocsr(), 4, np.ones(700))
    np.testing.assert_allclose(values, 4 * np.sin(np.arange(1, 5) * np.pi / 1400) ** 2, rtol=1e-7)
    assert np.abs(vectors.sum(0)).max() < 1e-10


def test_degenerate_tables(tmp_path):
    same = classical_mds(np.ones((4, 3)), 2)
    np.testing.assert_array_equal(same.points, 0)
    assert classical_mds(np.zeros((3, 3)), 2, metric="precomputed").points.tolist() == [[0, 0]] * 3
    single = classical_mds([[1.0, 2.0]], 2)
    assert single.points.tolist() == [[0, 0]]
    large = classical_mds(1e12 * ROWS + 1e12, 2)
    np.testing.assert_allclose(pdist(large.points) / 1e12, pdist(classical_mds(ROWS, 2).points), rtol=1e-3)
    with pytest.raises(ValueError, match="NaN in column 0, row 1"):
        classical_mds([[1.0], [np.nan]], 1)
    with pytest.raises(ValueError, match="Use `place` with the distances"):
        classical_mds(np.sqrt(SQUARES), 2, metric="precomputed").transform(ROWS)
    save(tmp_path / "embedding", large)
    np.testing.assert_array_equal(load(tmp_path / "embedding").transform(NEW), large.transform(NEW))
