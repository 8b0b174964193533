"""Agglomerative trees against the definition of each linkage, SciPy, worked numbers and repeated rows."""

from itertools import product

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, fcluster, is_valid_linkage, leaves_list
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist, squareform

from tests.oracles.linkages import join
from tractable.core.storage import load, save
from tractable.latent.hierarchical.agglomerative import LINKAGES, agglomerate
from tractable.latent.hierarchical.tree import ClusteringTree

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(18, 3))
LINE = [0.0, 1.0, 3.0, 7.0]
every = pytest.mark.parametrize("linkage", LINKAGES)
pytestmark = pytest.mark.cheap


def partition(labels) -> set:
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


@pytest.mark.parametrize(
    ("linkage", "heights"),
    [
        ("single", [1, 2, 4]),
        ("complete", [1, 3, 7]),
        ("average", [1, 2.5, 17 / 3]),
        ("centroid", [1, 2.5, 17 / 3]),
        ("ward", [1, 2.5 * np.sqrt(4 / 3), 17 / 3 * np.sqrt(1.5)]),
        ("hausdorff", [1, 3, 7]),
    ],
)
def test_four_points_on_a_line(linkage, heights):
    np.testing.assert_allclose(agglomerate(LINE, linkage).heights, heights, rtol=1e-14)


@every
def test_tree_is_that_of_the_definition(linkage):
    heights, partitions = join(ROWS, linkage)
    tree = agglomerate(ROWS, linkage)
    np.testing.assert_allclose(tree.heights, heights, rtol=1e-10)
    for step, wanted in enumerate(partitions):
        assert partition(tree.cut(len(ROWS) - step - 1)) == wanted


@every
def test_weights_count_rows(linkage):
    counts = np.resize([2, 0, 1, 3, 1], len(ROWS))
    weighted = agglomerate(ROWS, linkage, weights=counts)
    repeated = agglomerate(np.repeat(ROWS, counts, 0), linkage)
    first = np.cumsum(np.concatenate([[0], counts[counts > 0]]))[:-1]
    wanted = squareform(repeated.cophenetic())[np.ix_(first, first)]
    np.testing.assert_allclose(squareform(weighted.cophenetic()), wanted, rtol=1e-9, atol=1e-12)
    table = agglomerate(squareform(pdist(ROWS)), linkage, metric="precomputed", weights=counts)
    np.testing.assert_allclose(table.heights, weighted.heights, rtol=1e-9)


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "precomputed"])
def test_other_distances(metric):
    def distance(x, y):
        if metric == "manhattan":
            return np.abs(x - y).sum()
        return 1 - x @ y / np.sqrt(x @ x * (y @ y)) if metric == "cosine" else np.linalg.norm(x - y) ** 2

    X = squareform(pdist(ROWS, "sqeuclidean")) if metric == "precomputed" else ROWS
    for linkage in ("single", "complete", "average", "hausdorff"):
        found = agglomerate(X, linkage, metric=metric).heights
        np.testing.assert_allclose(found, join(ROWS, linkage, distance)[0], rtol=1e-9)


def test_single_and_complete_are_what_the_notes_mean():
    rows = np.array([[0.0], [1.0], [3.0]])  # {0, 1} and {3}: the nearest pair is 2 apart, the farthest 3
    assert agglomerate(rows, "single").heights.tolist() == [1, 2]
    assert agglomerate(rows, "complete").heights.tolist() == [1, 3]


@every
def test_scipy_reads_the_table(linkage):
    tree = agglomerate(ROWS, linkage)
    assert is_valid_linkage(tree.table)
    np.testing.assert_array_equal(tree.leaf_order, leaves_list(tree.table))
    np.testing.assert_allclose(tree.cophenetic(), cophenet(tree.table), rtol=1e-12)
    for height in np.quantile(tree.heights, [0.2, 0.5, 0.9]):
        wanted = fcluster(tree.table, height, "distance")
        assert partition(tree.cut(height=height)) == partition(wanted)


@every
def test_cuts_have_k_clusters_and_are_nested(linkage):
    tree = agglomerate(ROWS, linkage)
    before = partition(tree.cut(1))
    for k in range(2, len(ROWS) + 1):
        labels = tree.cut(k)
        assert len(np.unique(labels)) == k
        now = partition(labels)
        assert all(any(part <= whole for whole in before) for part in now)
        first = [int(np.flatnonzero(labels == c)[0]) for c in range(k)]
        assert first == sorted(first)  # numbered as they appear
        if tree.is_monotone:
            np.testing.assert_array_equal(tree.cut(height=tree.cut_height(k)), labels)
        before = now
    coarse, fine = tree.cut(height=2.0), tree.cut(height=1.0)
    assert all(any(part <= whole for whole in partition(coarse)) for part in partition(fine))


def test_reducible_linkages_never_invert_and_centroids_may():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.9]])  # the mean of two is nearer than they are
    inverted = agglomerate(rows, "centroid")
    np.testing.assert_allclose(inverted.heights, [1.0, 0.9])
    assert not inverted.is_monotone
    assert not inverted.verdict
    assert "1 of 2 merges" in inverted.verdict.sentence
    assert len(set(inverted.cut(height=0.95))) == 3  # the pair is joined at 1
    with pytest.raises(ValueError, match="heights rise"):
        inverted.cut_height(2)
    back = np.array([[0.0], [10.0], [0.0], [10.0]])
    for linkage in ("single", "complete", "average", "ward"):
        assert agglomerate(RNG.normal(size=(60, 2)), linkage).verdict
        assert agglomerate(back, linkage).heights[:2].tolist() == [0, 0]


def test_cophenetic_distances_are_an_ultrametric_and_correlate():
    tree = agglomerate(ROWS, "average")
    square = squareform(tree.cophenetic())
    assert (square[:, :, None] <= np.maximum(square[:, None, :], square[None]) + 1e-12).all()
    wanted = cophenet(scipy_linkage(ROWS, "average"), pdist(ROWS))[0]
    assert tree.cophenetic_correlation(ROWS) == pytest.approx(wanted, rel=1e-12)
    exact = agglomerate(squareform(tree.cophenetic()), "complete", metric="precomputed")
    assert exact.cophenetic_correlation(square, "precomputed") == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="distances that differ"):
        agglomerate(np.eye(3)).cophenetic_correlation(np.eye(3))


def test_turned_branches_are_the_best_of_all_and_change_nothing_else():
    for seed, linkage in enumerate(["single", "average", "ward"]):
        rows = np.random.default_rng(seed).normal(size=(9, 2))
        plain, turned = agglomerate(rows, linkage), agglomerate(rows, linkage, optimal_order=True)
        np.testing.assert_allclose(turned.cophenetic(), plain.cophenetic())

        def length(tree, rows=rows):
            return np.linalg.norm(np.diff(rows[tree.leaf_order], axis=0), axis=1).sum()

        every_order = [length(_flipped(plain, turn)) for turn in product([False, True], repeat=8)]
        assert length(turned) == pytest.approx(min(every_order), rel=1e-12)
        assert length(turned) < length(plain)


def _flipped(tree, turn):
    turned = np.where(np.array(turn)[:, None], tree.merges[:, ::-1], tree.merges)
    return ClusteringTree(turned, tree.heights, tree.members)


@every
def test_scale_and_place_do_not_matter(linkage):
    tree, moved = agglomerate(ROWS, linkage), agglomerate(1e12 * ROWS + 1e12, linkage)
    np.testing.assert_allclose(moved.heights, 1e12 * tree.heights, rtol=1e-3)
    np.testing.assert_array_equal(moved.cut(4), tree.cut(4))


def test_degenerate_tables():
    one = agglomerate([[1.0, 2.0]])
    assert one.num_leaves == 1
    assert one.cut(1).tolist() == [0]
    assert one.leaf_order.tolist() == [0]
    same = agglomerate(np.ones((5, 2)), "ward")
    assert same.heights.tolist() == [0] * 4
    assert same.cut(height=0.0).tolist() == [0] * 5
    constant = agglomerate(np.column_stack([LINE, np.ones(4)]), "complete")
    assert constant.heights.tolist() == [1, 3, 7]
    only = agglomerate(LINE, "average", weights=[0, 1, 0, 0])
    assert only.num_leaves == 1


def test_faults_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"NaN in column 1, row 2"):
        agglomerate([[0.0, 1.0], [1.0, 1.0], [2.0, np.nan]])
    with pytest.raises(ValueError, match="`linkage` must be one of 'single'"):
        agglomerate(ROWS, "median")
    with pytest.raises(ValueError, match="'euclidean' for ward linkage, which compares means"):
        agglomerate(ROWS, "ward", metric="manhattan")
    tree = agglomerate(ROWS)
    with pytest.raises(ValueError, match="`num_clusters` must be a whole number from 1 to 18; got 19"):
        tree.cut(19)
    with pytest.raises(ValueError, match="or `height`: one of them"):
        tree.cut(2, height=1.0)
    with pytest.raises(ValueError, match="one row for each of 18 leaves"):
        tree.cophenetic_correlation(ROWS[:5])
    save(tmp_path / "tree", tree)
    np.testing.assert_array_equal(load(tmp_path / "tree").cut(5), tree.cut(5))
