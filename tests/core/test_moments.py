"""Moments of rows: to full precision far from zero, in chunks as in memory, and for any number of threads."""

import numpy as np
import pytest

import tractable.core.moments as moments_module
from tractable.core.chunks import chunks
from tractable.core.moments import Moments, moments_of, moments_of_chunks, shifted_products

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5000, 3)) * [1.0, 2.0, 0.5] + [1.0, -3.0, 0.0]
W = RNG.integers(0, 4, 5000).astype(float)


def dense(rows, weights):
    mean = weights @ rows / weights.sum()
    rest = (rows - mean) * np.sqrt(weights)[:, None]
    return mean, rest.T @ rest


def agree(found: Moments, rows, weights, rtol=1e-12):
    mean, scatter = dense(rows, weights)
    assert found.count == weights.sum()
    np.testing.assert_allclose(found.mean, mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.scatter, scatter, rtol=rtol, atol=rtol * np.diag(scatter).max())


def test_moments_in_memory_in_parts_and_in_chunks(monkeypatch):
    agree(moments_of(X), X, np.ones(5000))
    agree(moments_of(X[:1000], W[:1000]) + moments_of(X[1000:], W[1000:]), X, W)
    agree(moments_of_chunks(chunks(X, 768, W)), X, W)
    monkeypatch.setattr(moments_module, "_STRETCH", 700)
    agree(moments_of(X, W), X, W)
    agree(moments_of(np.repeat(X, W.astype(int), axis=0)), X, W)


def test_the_number_of_threads_changes_no_digit(monkeypatch):
    monkeypatch.setattr(moments_module, "_STRETCH", 700)
    several = moments_of(X)
    monkeypatch.setattr(moments_module, "in_threads", lambda function, inputs: map(function, inputs))
    np.testing.assert_array_equal(moments_of(X).scatter, several.scatter)


def test_far_from_zero_and_drifting_rows_cost_no_digits():
    exact = np.arange(5000.0)[:, None] * [1.0, 3.0]  # small whole numbers: every sum is exact
    far = moments_of(exact + 2.0**40)
    np.testing.assert_allclose(far.scatter, dense(exact, np.ones(5000))[1], rtol=1e-13)
    assert (far.mean == 2.0**40 + exact.mean(0)).all()
    assert moments_of(np.full((5000, 1), 0.1)).scatter == 0  # a constant has no scatter of rounding


def test_memory_maps_are_read_and_given_back(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    agree(moments_of(np.load(tmp_path / "rows.npy", mmap_mode="r")), X, np.ones(5000))
    agree(moments_of_chunks(chunks(tmp_path / "rows.npy", 768)), X, np.ones(5000))


def test_shifted_products_add_leaf_by_leaf():
    parts = [shifted_products(rows, weights, X[0]) for rows, weights in chunks(X, 768, W)]
    count, first, second = (np.sum([np.asarray(part[i]) for part in parts], 0) for i in range(3))
    mean = first / count
    agree(Moments(count, X[0] + mean, second - count * np.outer(mean, mean)), X, W, 1e-9)


def test_entries_that_are_no_numbers_are_named():
    bad = X.copy()
    bad[1234, 1] = np.nan
    with pytest.raises(ValueError, match=r"`source` must be finite; got nan in column 1, row 1234"):
        moments_of_chunks(chunks(bad, 500))
    with pytest.raises(ValueError, match="rows of positive weight"):
        moments_of_chunks(chunks(X, 500, np.zeros(5000)))
