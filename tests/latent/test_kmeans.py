"""k-means: the plain iteration as oracle, bounds that change nothing, weights, empty clusters, one engine for
memory, chunks and files."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractable as tr
from tractable.inference import EM
from tractable.latent import KMeans, mini_batch_k_means
from tractable.latent.kmeans import sweeps
from tractable.latent.kmeans.lloyd import lloyd
from tractable.latent.kmeans.mini_batch import RunningMeans


def blobs(num_rows=600, width=3, count=5, seed=0):
    numbers = np.random.default_rng(seed)
    return (
        numbers.normal(size=(num_rows, width))
        + 4 * numbers.normal(size=(count, width))[numbers.integers(count, size=num_rows)]
    )


def plain(X, centres, weights=None, max_steps=300):
    """Lloyd's iteration written out; the centres of empty clusters stay."""
    weights, labels, trace = np.ones(len(X)) if weights is None else weights, None, []
    for _ in range(max_steps):
        new = ((X[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        if labels is not None and (new == labels).all():
            break
        labels = new
        held = np.unique(labels)
        centres = centres.copy()
        for j in held:
            centres[j] = np.average(X[labels == j], axis=0, weights=weights[labels == j])
        trace.append(weights @ ((X - centres[labels]) ** 2).sum(1))
    return centres, labels, trace


@pytest.mark.parametrize("seed", range(4))
def test_bounds_give_the_steps_of_the_plain_iteration(seed):
    X = blobs(seed=seed)
    start = X[np.random.default_rng(seed).choice(600, 7, replace=False)]
    centres, labels, trace = plain(X, start)
    found = KMeans.fit(X, start=start, key=0, tol=0.0)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.model.centres, centres, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.trace[: len(trace)], trace, rtol=1e-12)
    assert found.status.ok
    assert (np.diff(found.trace) <= 1e-10 * found.trace[0]).all()


def test_compiled_primitives_are_twins(monkeypatch):
    """Many rows run compiled loops: the same labels, the same sums up to rounding."""
    X, weights = blobs(seed=9), np.random.default_rng(9).random(600)
    start = X[:6]
    wanted = lloyd(X, weights, start, max_steps=100, tol=0.0, progress=False)
    monkeypatch.setattr(sweeps, "MUCH_WORK", 0)
    found = lloyd(X, weights, start, max_steps=100, tol=0.0, progress=False)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_allclose(found.centres, wanted.centres, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.trace, wanted.trace, rtol=1e-11)
    huge = lloyd(X * 1e100, weights, start * 1e100, max_steps=100, tol=0.0, progress=False)
    np.testing.assert_array_equal(huge.labels, wanted.labels)


def test_least_cost_of_all_partitions():
    """Enough starts find the least cost among all partitions of eight rows in three."""
    X = np.random.default_rng(2).normal(size=(8, 2))
    least = np.inf
    for labels in product(range(3), repeat=8):
        codes = np.array(labels)
        groups = [X[codes == j] for j in set(labels)]
        least = min(least, sum(((g - g.mean(0)) ** 2).sum() for g in groups))
    found = KMeans.fit(X, 3, key=0, num_starts=50, tol=0.0)
    assert found.cost == pytest.approx(least, rel=1e-12)
    assert found.num_steps <= 3**8


@pytest.mark.cheap
@pytest.mark.parametrize("start", ["k-means++", "rows", "box", "farthest"])
def test_starts_end_at_a_fixed_partition(start):
    X = blobs(200)
    found = KMeans.fit(X, 5, key=1, start=start, tol=0.0)
    again = KMeans.fit(X, start=found.model, key=0, tol=0.0)
    np.testing.assert_array_equal(found.labels, again.labels)
    np.testing.assert_array_equal(found.labels, found.model.labels(X))
    assert found.cost == pytest.approx(found.model.cost(X), rel=1e-12)
    assert found.verdict


def test_a_weight_of_two_is_the_row_twice_and_of_zero_none():
    X = blobs(100)
    weights = np.random.default_rng(0).integers(0, 3, 100).astype(float)
    start = X[:4]
    once = KMeans.fit(X, start=start, key=0, weights=weights, tol=0.0)
    twice = KMeans.fit(np.repeat(X, weights.astype(int), 0), start=start, key=0, tol=0.0)
    np.testing.assert_allclose(once.model.centres, twice.model.centres, rtol=1e-12, atol=1e-12)
    assert once.cost == pytest.approx(twice.cost, rel=1e-12)
    assert once.labels.shape == (100,)
    np.testing.assert_array_equal(once.labels, once.model.labels(X))


def test_an_empty_cluster_takes_the_row_that_costs_most():
    X = blobs(50)
    start = np.concatenate([X[:2], np.full((2, 3), 1e6)])
    found = KMeans.fit(X, start=start, key=0, tol=0.0)
    assert found.num_filled == 2
    assert (found.sizes > 0).all()
    assert (np.diff(found.trace) <= 0).all()
    assert "moved to the row that cost most" in found.verdict.sentence


def test_as_many_clusters_as_rows_cost_nothing():
    X = blobs(40)
    found = KMeans.fit(X, 40, key=0)
    assert found.cost == 0.0
    assert sorted(found.labels.tolist()) == list(range(40))


def test_copies_and_a_constant_column():
    copies = np.repeat(blobs(3, count=3), 5, 0)
    found = KMeans.fit(copies, 4, key=0)
    rounding = np.finfo(float).eps * np.abs(copies).max()  # of a mean of copies
    assert found.cost <= copies.size * rounding**2
    assert not found.verdict
    assert "3 distinct points" in found.verdict.sentence
    found = KMeans.fit(np.ones((9, 2)), 2, key=0)
    assert found.cost == 0.0
    assert KMeans.fit(np.column_stack([np.ones(30), blobs(30, 1)[:, 0]]), 3, key=0).status.ok


@pytest.mark.cheap
@pytest.mark.parametrize(("scale", "offset"), [(1e12, 0.0), (1e-12, 0.0), (1.0, 1e8), (1e100, 0.0)])
def test_units_and_origin_do_not_matter(scale, offset):
    X = blobs(300)
    start = np.arange(5)
    wanted = KMeans.fit(X, start=X[start], key=0, tol=0.0)
    moved = scale * X + offset
    found = KMeans.fit(moved, start=moved[start], key=0, tol=0.0)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    assert found.cost == pytest.approx(scale**2 * wanted.cost, rel=1e-6 if offset else 1e-10)


def test_faults_are_named():
    X = blobs(20)
    with pytest.raises(ValueError, match=r"`num_clusters` must be at most the number of rows; got 21"):
        KMeans.fit(X, 21, key=0)
    with pytest.raises(ValueError, match=r"NaN in column 1, row 2"):
        KMeans.fit([[0.0, 1.0], [0.0, 2.0], [0.0, np.nan]], 2, key=0)
    with pytest.raises(ValueError, match=r"`start` must be centres of shape \(k, 3\)"):
        KMeans.fit(X, start=[[0.0]], key=0)
    with pytest.raises(ValueError, match="`start` must be one of"):
        KMeans.fit(X, 2, key=0, start="nowhere")
    with pytest.raises(ValueError, match="`X` must be rows of 3 columns"):
        KMeans.fit(X, 2, key=0).model.labels(X[:, :2])


def test_memory_chunks_and_files_are_one_fit(tmp_path):
    X = blobs(1000)
    weights = np.random.default_rng(1).random(1000)
    model = KMeans.start(X, 5, key=3, weights=weights)
    whole = tr.fit(model, X, EM(), weights=weights)
    parts = tr.fit(model, X, EM(), weights=weights, chunk=128)
    path = tmp_path / "rows.npy"
    np.save(path, X)
    filed = tr.fit(model, np.load(path, mmap_mode="r"), EM(), weights=weights, chunk=300)
    fast = KMeans.fit(X, start=model, key=0, weights=weights, tol=0.0)
    for run in (whole, parts, filed):
        assert run.status.ok
        assert -float(run.values[-1]) == pytest.approx(fast.cost, rel=1e-9)
        np.testing.assert_allclose(run.state.centres, fast.model.centres, rtol=1e-8, atol=1e-8)
        assert (np.diff(run.values) >= -1e-9).all()


def test_the_model_passes_through_jit_and_its_empty_centres_stay():
    X = jnp.asarray(blobs(64))
    model = KMeans(jnp.concatenate([X[:2], jnp.full((1, 3), 1e5)]))
    (counts, about), value = jax.jit(lambda m, x: m.e_step(x, jnp.ones(64)))(model, X)
    assert float(counts[2]) == 0.0
    assert -float(value) == pytest.approx(model.cost(X), rel=1e-12)
    np.testing.assert_array_equal(model.m_step((counts, about)).centres[2], model.centres[2])
    np.testing.assert_array_equal(model.nearest(X)[0], model.labels(X))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 6), st.integers(1, 30), st.integers(1, 4))
def test_any_rows_end_at_means_of_nearest_rows(seed, k, num_rows, width):
    numbers = np.random.default_rng(seed)
    X = numbers.integers(0, 4, size=(num_rows, width)).astype(float)  # many copies and ties
    found = KMeans.fit(X, min(k, num_rows), key=seed, tol=0.0)
    squared = ((X[:, None] - np.asarray(found.model.centres)[None]) ** 2).sum(-1)
    assert found.cost == pytest.approx(squared.min(1).sum(), abs=1e-9)
    assert (np.diff(found.trace) <= 1e-9).all()
    for j in np.unique(found.labels):
        np.testing.assert_allclose(found.model.centres[j], X[found.labels == j].mean(0), atol=1e-9)


def test_mini_batches_end_near_and_running_means_are_means():
    X = blobs(4000)
    full = KMeans.fit(X, 5, key=0, num_starts=3)
    with pytest.raises(ValueError, match="`start` must be of shape"):
        mini_batch_k_means(X, 5, key=0, start=X[:4])
    found = mini_batch_k_means(X, 5, key=0, batch=256)
    assert found.cost < 1.1 * full.cost
    assert "batches" in found.verdict.sentence
    state = RunningMeans(np.zeros((1, 3)), np.zeros(1))
    weights = np.random.default_rng(0).random(4000)
    for low in range(0, 4000, 500):
        state, _ = state.update(X[low : low + 500], weights[low : low + 500])
    np.testing.assert_allclose(state.centres[0], np.average(X, axis=0, weights=weights), rtol=1e-10)
    assert state.counts[0] == pytest.approx(weights.sum())
