"""Costs and their identity; medians, medoids, centres, directions beside enumeration; how many clusters."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.metrics import silhouette_score

from tractable.latent import (
    KMeans,
    choose_num_clusters,
    cluster_costs,
    k_centre,
    k_medians,
    k_medoids,
    partition,
    silhouette,
    spherical_k_means,
)
from tractable.latent.kmeans.costs import check_partition, pair_cost, validate
from tractable.latent.kmeans.variants import geometric_median


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.integers(1, 25))
def test_twice_the_average_squared_is_the_cost_between_pairs(seed, k, num_rows):
    numbers = np.random.default_rng(seed)
    X, labels = numbers.normal(size=(num_rows, 2)), numbers.integers(k, size=num_rows)
    found = cluster_costs(X, labels, k)
    assert found.within == 2 * found.average_squared
    assert pair_cost(X, labels) == pytest.approx(found.within, rel=1e-10, abs=1e-12)
    means = {j: X[labels == j].mean(0) for j in set(labels.tolist())}
    distances = np.array([np.linalg.norm(x - means[j]) for x, j in zip(X, labels.tolist())])
    assert found.average == pytest.approx(distances.mean(), rel=1e-10, abs=1e-12)
    assert found.largest == pytest.approx(distances.max(), rel=1e-10, abs=1e-12)


def test_another_normaliser_breaks_the_identity():
    X, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    assert pair_cost(X, labels, normalise="k") != pytest.approx(2 * cluster_costs(X, labels).average_squared)


def test_weights_of_costs_are_copies_and_k_means_lowers_its_cost():
    numbers = np.random.default_rng(1)
    X, labels, weights = (
        numbers.normal(size=(20, 2)),
        numbers.integers(3, size=20),
        numbers.integers(0, 3, 20),
    )
    once = cluster_costs(X, labels, 3, weights=weights.astype(float))
    places = np.repeat(np.arange(20), weights)
    twice = cluster_costs(X[places], labels[places], 3)
    for name in ("average", "average_squared", "within", "largest"):
        assert getattr(once, name) == pytest.approx(getattr(twice, name), rel=1e-12)
    found = KMeans.fit(X, 3, key=0, tol=0.0)
    assert found.cost / 20 == pytest.approx(cluster_costs(X, found.labels, 3).average_squared, rel=1e-12)


def test_partitions_and_what_is_none():
    groups = partition([2, 0, 2, 1], 4)
    assert validate(groups, 4)
    assert "empty clusters: [3]" in validate(groups, 4).sentence
    assert not validate([[0], [2]], 3)
    assert "row 1 is in two clusters" in validate([[0, 1], [1, 2]], 3).sentence
    with pytest.raises(ValueError, match=r"`labels` must be from 0 to 2; got 3 in row 1"):
        check_partition([0, 3], 3)
    with pytest.raises(ValueError, match="`labels` must be whole numbers"):
        check_partition([0.5, 1.0])


def test_geometric_median_by_optimisation_and_at_a_row():
    numbers = np.random.default_rng(2)
    X, weights = numbers.normal(size=(15, 3)), numbers.random(15)
    total = lambda y: weights @ np.linalg.norm(X - y, axis=1)  # noqa: E731
    best = minimize(
        total, X.mean(0), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000}
    )
    assert total(geometric_median(X, weights)) <= best.fun * (1 + 1e-9)
    heavy = np.ones(15)
    heavy[4] = 20.0  # more than half of the weight: the median is that row
    np.testing.assert_allclose(geometric_median(X, heavy), X[4], atol=1e-9)
    np.testing.assert_allclose(geometric_median(X, heavy, X[4]), X[4], atol=0)


@pytest.mark.cheap
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_k_medians_lower_the_mean_distance(metric):
    numbers = np.random.default_rng(3)
    X = np.concatenate([numbers.normal(size=(40, 2)), numbers.normal(8, 1, size=(40, 2)), [[300.0, 0.0]]])
    found = k_medians(X, 2, key=0, metric=metric, start=X[[0, 40]])
    assert found.status.ok
    assert (np.diff(found.trace) <= 1e-9).all()
    order = {"euclidean": 2, "manhattan": 1}[metric]
    table = np.linalg.norm(X[:, None] - found.centres[None], ord=order, axis=2)
    assert found.cost == pytest.approx(table.min(1).sum(), rel=1e-12)
    assert np.abs(found.centres).max() < 12  # the row far away pulls no median
    if metric == "manhattan":
        held = X[found.labels == 0]
        np.testing.assert_array_equal(found.centres[0], np.sort(held, 0)[(len(held) - 1) // 2])


@pytest.mark.cheap
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "precomputed", "one way"])
def test_medoids_beside_all_sets(metric):
    numbers = np.random.default_rng(4)
    X, weights = numbers.normal(size=(12, 2)), numbers.random(12)
    kinds = {"manhattan": 1, "euclidean": 2, "precomputed": 2}
    if metric == "cosine":
        units = X / np.linalg.norm(X, axis=1, keepdims=True)
        table = 1 - units @ units.T
    elif metric == "one way":  # a distance there that is not the distance back
        table, metric = numbers.uniform(1, 2, (12, 12)) * (1 - np.eye(12)), "precomputed"
    else:
        table = np.linalg.norm(X[:, None] - X[None], ord=kinds[metric], axis=2)
    cost = lambda chosen: weights @ table[:, list(chosen)].min(1)  # noqa: E731
    found = k_medoids(table if metric == "precomputed" else X, 3, metric=metric, weights=weights)
    assert found.cost == pytest.approx(cost(found.indices), rel=1e-12)
    swaps = [{*found.indices.tolist(), new} - {old} for new in range(12) for old in found.indices.tolist()]
    assert all(cost(chosen) >= found.cost - 1e-12 for chosen in swaps if len(chosen) == 3)
    assert found.cost <= 1.2 * min(cost(chosen) for chosen in combinations(range(12), 3))
    assert found.verdict


@pytest.mark.cheap
@pytest.mark.parametrize("seed", range(4))
def test_farthest_first_is_within_two_of_the_least_radius(seed):
    X = np.random.default_rng(seed).normal(size=(11, 2))
    table = np.linalg.norm(X[:, None] - X[None], axis=2)
    least = min(table[:, list(chosen)].min(1).max() for chosen in combinations(range(11), 3))
    found = k_centre(X, 3, key=seed)
    assert found.radius == pytest.approx(table[:, found.indices].min(1).max())
    assert found.lower_bound <= least <= found.radius <= 2 * least
    assert k_centre(X, 11, key=0).radius == 0


def test_directions_ignore_lengths():
    numbers = np.random.default_rng(5)
    angles = np.concatenate([numbers.normal(0.3, 0.1, 30), numbers.normal(2.0, 0.1, 30)])
    X = np.stack([np.cos(angles), np.sin(angles)], 1)
    found = spherical_k_means(X, 2, key=0)
    longer = spherical_k_means(X * numbers.uniform(0.1, 100, size=(60, 1)), 2, key=0, start=found.centres)
    np.testing.assert_array_equal(found.labels, longer.labels)
    np.testing.assert_allclose(np.linalg.norm(found.centres, axis=1), 1.0)
    assert found.cost == pytest.approx((1 - (X @ found.centres.T).max(1)).sum(), rel=1e-9)
    assert len(set(found.labels[:30].tolist())) == 1
    with pytest.raises(ValueError, match="zeros in row 1"):
        spherical_k_means([[1.0], [0.0], [2.0]], 2, key=0)


def test_silhouette_beside_scikit_learn_and_copies():
    numbers = np.random.default_rng(6)
    X, labels = numbers.normal(size=(80, 3)), numbers.integers(4, size=80)
    assert silhouette(X, labels) == pytest.approx(silhouette_score(X, labels), rel=1e-10)
    weights = numbers.integers(1, 4, 80)
    places = np.repeat(np.arange(80), weights)
    table = np.linalg.norm(X[places][:, None] - X[places][None], axis=2)  # copies at zero, exactly
    again = silhouette_score(table, labels[places], metric="precomputed")
    assert silhouette(X, labels, weights=weights.astype(float)) == pytest.approx(again, rel=1e-10)


def test_the_number_of_clusters_and_none():
    numbers = np.random.default_rng(7)
    X = np.concatenate([numbers.normal(7 * j, 1, size=(60, 2)) for j in range(3)])
    found = choose_num_clusters(X, range(1, 6), key=0, num_starts=3, num_references=5)
    assert found.choices == {"gap": 3, "silhouette": 3, "elbow": 3, "bic": 3}
    assert found.verdict
    assert "4 of 4 say 3 clusters" in repr(found)
    one = choose_num_clusters(numbers.normal(size=(150, 2)), range(1, 5), key=0, num_references=5)
    assert one.choices["gap"] == 1
    assert one.choices["bic"] == 1
    assert (np.diff(one.cost) < 0).all()
