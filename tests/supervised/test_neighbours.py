"""Nearest neighbours: brute force by sorting, ties, weights, graphs, scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, kneighbors_graph

from tractable.core.neighbours import _smallest, nearest, neighbour_graph
from tractable.supervised.neighbours.search import NearestNeighbours

RNG = np.random.default_rng(0)


def _sorted_search(rows, queries, k):
    """Every distance, sorted by (distance, index)."""
    found = []
    for q in queries:
        distances = np.sqrt(((rows - q) ** 2).sum(1))
        found.append(sorted(range(len(rows)), key=lambda i: (distances[i], i))[:k])
    return np.array(found)


@pytest.mark.parametrize("method", ["tree", "blocks"])
@given(st.integers(0, 10_000), st.integers(1, 70), st.sampled_from(["real", "grid", "offset"]))
def test_search_is_sorting_with_ties_by_index(method, seed, k, kind):
    generator = np.random.default_rng(seed)
    rows = (
        generator.normal(size=(80, 3)) if kind != "grid" else generator.integers(0, 3, (80, 3)).astype(float)
    )
    queries = rows[:10] if kind == "grid" else generator.normal(size=(10, 3))
    if kind == "offset":  # copies, far from the origin
        rows, queries = np.repeat(rows[:20], 4, 0) + 2.0**20, queries + 2.0**20
    origin = rows.mean(0)
    np.testing.assert_array_equal(
        nearest(rows, queries, k, method=method).indices, _sorted_search(rows - origin, queries - origin, k)
    )


def test_minima_of_runs_find_the_smallest_entries():
    table = RNG.normal(size=(5, 403))
    table[0, ::40] = -9.0  # as many equal entries as fit
    expected = np.sort(table, 1)[:, :7]
    places = _smallest(table, 7)
    assert places is not None
    np.testing.assert_array_equal(np.take_along_axis(table, places, 1), expected)
    assert all(len(set(row)) == 7 for row in places.tolist())
    assert _smallest(np.zeros((5, 403)), 7) is None  # equal entries: partition is faster


def test_one_neighbour_reproduces_training_rows_and_breaks_at_midpoints():
    weight, height = np.sort(RNG.normal(size=12)), RNG.normal(size=12)
    model = NearestNeighbours.fit(weight[:, None], height, 1)
    np.testing.assert_array_equal(model.regression(weight[:, None]), height)
    middle = (weight[1:] + weight[:-1]) / 2
    step = 1e-9
    np.testing.assert_array_equal(model.regression(middle[:, None] - step), height[:-1])
    np.testing.assert_array_equal(model.regression(middle[:, None] + step), height[1:])
    labels = RNG.integers(0, 3, 12)
    votes = NearestNeighbours.fit(weight[:, None], labels, 1).shares(weight[:, None])
    assert (votes.argmax(1) == labels).all()


def test_ties_go_to_the_first_row():
    model = NearestNeighbours.fit(np.array([[1.0], [-1.0], [1.0]]), np.array([5.0, 7.0, 9.0]), 1)
    assert model.regression([[0.0]]).tolist() == [5.0]
    assert nearest([[1.0], [-1.0], [1.0]], [[0.0]], 2).indices.tolist() == [[0, 1]]


@pytest.mark.parametrize("closeness", ["uniform", "distance"])
def test_agrees_with_scikit_learn(closeness):
    X, new = RNG.normal(size=(200, 12)), RNG.normal(size=(50, 12))
    new[:5] = X[:5]  # a distance of zero takes the whole vote
    y, labels = RNG.normal(size=200), RNG.integers(0, 4, 200)
    peer = KNeighborsRegressor(7, weights=closeness).fit(X, y)
    ours = NearestNeighbours.fit(X, y, 7, closeness)
    np.testing.assert_allclose(ours.regression(new), peer.predict(new), rtol=1e-10)
    peer = KNeighborsClassifier(7, weights=closeness).fit(X, labels)
    ours = NearestNeighbours.fit(X, labels, 7, closeness)
    np.testing.assert_allclose(ours.shares(new), peer.predict_proba(new), rtol=1e-10, atol=1e-14)


def test_fractions_are_shared():
    X, y, new = RNG.normal(size=(40, 2)), RNG.normal(size=40), RNG.normal(size=(30, 2))
    halves = NearestNeighbours.fit(X, y, 5, weights=np.full(40, 0.5))  # ten rows of half a weight
    np.testing.assert_allclose(halves.regression(new), y[_sorted_search(X, new, 10)].mean(1), rtol=1e-12)


def test_residual_scale_is_the_leave_one_out_error():
    X, y = RNG.normal(size=(30, 2)), RNG.normal(size=30)
    model = NearestNeighbours.fit(X, y, 3)
    errors = []
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        errors.append(y[i] - y[rest][_sorted_search(X[rest], X[i : i + 1], 3)].mean())
    assert model.residual_scale() == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-12)
    assert NearestNeighbours.fit(X, np.full(30, 2.0), 3).residual_scale() == np.spacing(2.0)


def test_neighbour_graph():
    X = RNG.normal(size=(30, 2))
    directed = neighbour_graph(X, 4).toarray()
    np.testing.assert_allclose(directed, kneighbors_graph(X, 4, mode="distance").toarray(), rtol=1e-12)
    union = neighbour_graph(X, 4, kind="union").toarray()
    np.testing.assert_allclose(union, np.maximum(directed, directed.T))
    mutual = neighbour_graph(X, 4, kind="mutual").toarray()
    np.testing.assert_allclose(mutual, np.minimum(directed, directed.T))
    copies = neighbour_graph(np.zeros((6, 1)), 2)
    assert [sorted(copies.indices[copies.indptr[i] : copies.indptr[i + 1]]) for i in range(6)] == [
        [1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1],
    ]  # fmt: skip


def test_bad_input_is_named():
    X = RNG.normal(size=(6, 2))
    with pytest.raises(ValueError, match=r"`num_neighbours` must be at most the weight of all rows \(6\)"):
        NearestNeighbours.fit(X, np.zeros(6), 7)
    with pytest.raises(ValueError, match="`rows` must be finite; got nan in column 1, row 0"):
        nearest([[0.0, np.nan]], [[0.0, 0.0]], 1)
    with pytest.raises(ValueError, match="`method` must be one of"):
        nearest(X, X, 1, method="ball")
    with pytest.raises(ValueError, match="`num_neighbours` must be a whole number from 1 to 5; got 6"):
        neighbour_graph(X, 6)
    model = NearestNeighbours.fit(X, np.arange(6.0), 2)
    assert "num_neighbours  2" in repr(model)
