"""Divisive trees: DIANA by its rules, bisecting 2-means by costs, both as ordinary clustering trees."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.spatial.distance import pdist, squareform

from tractable.latent.hierarchical.divisive import bisecting_kmeans, diana

RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(14, 2))
BLOBS = np.concatenate([RNG.normal(size=(20, 2)) + centre for centre in ([0, 0], [20, 0], [0, 45])])
pytestmark = pytest.mark.cheap


def splinter(distances: np.ndarray) -> set[int]:
    """Who leaves a cluster, by the rule written out."""
    stay = set(range(len(distances)))
    means = {i: np.mean([distances[i, j] for j in stay if j != i]) for i in stay}
    gone = {max(means, key=means.get)}
    stay -= gone
    while len(stay) > 1:
        gain = {
            i: np.mean([distances[i, j] for j in stay if j != i]) - np.mean([distances[i, j] for j in gone])
            for i in stay
        }
        best = max(gain, key=gain.get)
        if gain[best] <= 0:
            break
        gone.add(best)
        stay.remove(best)
    return gone


def diana_by_hand(distances: np.ndarray) -> tuple[list[float], list[set]]:
    clusters, heights, partitions = [list(range(len(distances)))], [], []
    while any(len(c) > 1 for c in clusters):
        widths = [distances[np.ix_(c, c)].max() if len(c) > 1 else -1.0 for c in clusters]
        widest = clusters.pop(int(np.argmax(widths)))
        heights.append(max(widths))
        gone = splinter(distances[np.ix_(widest, widest)])
        clusters.append([widest[i] for i in gone])
        clusters.append([widest[i] for i in range(len(widest)) if i not in gone])
        partitions.append({frozenset(c) for c in clusters})
    return heights, partitions


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_diana_follows_its_rule(metric):
    distances = squareform(pdist(ROWS, "cityblock" if metric == "manhattan" else metric))
    heights, partitions = diana_by_hand(distances)
    tree = diana(ROWS, metric=metric)
    np.testing.assert_allclose(tree.heights[::-1], heights)
    for k, wanted in enumerate(partitions, start=2):
        labels = tree.cut(k)
        assert {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(k)} == wanted
    assert is_valid_linkage(tree.table)
    assert tree.is_monotone


def test_diana_of_four_points_and_of_copies():
    tree = diana([0.0, 1.0, 3.0, 7.0])
    assert tree.heights.tolist() == [1, 3, 7]  # diameters of what is split
    assert tree.cut(3).tolist() == [0, 0, 1, 2]
    same = diana(np.ones((4, 2)))
    assert same.heights.tolist() == [0, 0, 0]
    assert diana([[1.0]]).num_leaves == 1


def test_bisecting_finds_groups_and_its_heights_are_sums_of_squares():
    tree = bisecting_kmeans(BLOBS, 6, key=0)
    truth = np.repeat([0, 1, 2], 20)
    np.testing.assert_array_equal(tree.cut(3), truth)
    total = ((BLOBS - BLOBS.mean(0)) ** 2).sum()
    assert tree.heights[-1] == pytest.approx(total, rel=1e-12)
    assert tree.is_monotone
    assert tree.num_leaves == 6
    assert tree.num_rows == 60
    costs = []
    for k in range(1, 7):
        labels = tree.cut(k)
        assert len(np.unique(labels)) == k
        groups = [BLOBS[labels == c] for c in range(k)]
        costs.append(sum(((g - g.mean(0)) ** 2).sum() for g in groups))
        widest = max(((g - g.mean(0)) ** 2).sum() for g in groups)
        if k < 6:
            assert tree.heights[-k] == pytest.approx(widest, rel=1e-9)  # the next to be split
    assert np.all(np.diff(costs) < 0)


def test_bisecting_weights_count_rows_and_copies_are_no_trouble():
    counts = np.resize([1, 2, 0, 3], 60)
    weighted = bisecting_kmeans(BLOBS, 3, key=0, weights=counts)
    repeated = bisecting_kmeans(np.repeat(BLOBS, counts, 0), 3, key=0)
    np.testing.assert_allclose(weighted.heights, repeated.heights, rtol=1e-9)
    np.testing.assert_array_equal(np.repeat(weighted.cut(3), counts[counts > 0]), repeated.cut(3))
    assert len(np.unique(bisecting_kmeans(np.ones((5, 2)), 4, key=0).cut(4))) == 4
    with pytest.raises(ValueError, match="`num_clusters` must be a whole number from 1 to 60"):
        bisecting_kmeans(BLOBS, 61, key=0)
