"""Sums of products of many rows: against NumPy, in one stretch and in several, and where digits would go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tractable.supervised.bayes_linear import statistics as statistics_module
from tractable.supervised.bayes_linear.statistics import regression_statistics
from tractable.supervised.linear import products as products_module
from tractable.supervised.linear.products import over_rows, products_of
from tractable.supervised.linear.solvers import least_squares


def table(away, num_rows=9000):
    g = np.random.default_rng(3)
    X = g.normal(size=(num_rows, 4)) * [1.0, 1e6, 1e-6, 3.0] + away * np.array([1.0, 1e6, 1e-6, 0.0])
    return X, X @ [1.0, 2e-6, 3e6, -1.0] + g.normal(size=num_rows) + away, g.integers(1, 4, num_rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_products_are_the_written_sums(weighted, monkeypatch):
    monkeypatch.setattr(products_module, "STRETCH", 700)
    X, y, w = table(1.0)
    weights = w.astype(float) if weighted else None
    found = products_of(X, y[:, None], weights)
    z = np.column_stack([X, y])
    z = np.repeat(z, w, axis=0) if weighted else z
    assert found.count == len(z)
    assert_allclose(found.sums, z.sum(0), rtol=1e-9)
    assert_allclose(found.products, z.T @ z, rtol=1e-9)
    assert_allclose(found.centred, len(z) * np.cov(z.T, bias=True), rtol=1e-7)
    assert found.is_near(2.0)
    assert not found.is_near(0.5)


def test_stretches_cover_every_row_once(monkeypatch):
    monkeypatch.setattr(products_module, "STRETCH", 10)
    for num_rows in (1, 9, 10, 25, 101):
        parts = over_rows(lambda low, high: list(range(low, high)), num_rows)
        assert [i for part in parts for i in part] == list(range(num_rows))


@pytest.mark.parametrize("away", [0.0, 2.0, 1e5])
def test_tall_statistics_are_those_of_chunks(away, monkeypatch):
    X, y, w = table(away)
    whole = regression_statistics(X, y, w)
    monkeypatch.setattr(statistics_module, "_tall", lambda *rows: None)
    parts = regression_statistics(X, y, w, chunk_rows=1000)
    assert_allclose(whole.mean, parts.mean, rtol=1e-12)
    assert_allclose(whole.factor.T @ whole.factor, parts.factor.T @ parts.factor, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_entries_of_tall_rows_are_named(bad):
    X, y, _ = table(0.0)
    X[17, 2] = bad
    with pytest.raises(ValueError, match="`X` must be finite"):
        regression_statistics(X, y)
    with pytest.raises(ValueError, match="`X` must be finite"):
        least_squares(X, y)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("away", [0.0, 3.0, 1e4])
def test_tall_least_squares_meet_an_independent_solution(away, intercept):
    X, y, w = table(away)
    found = least_squares(X, y, w, intercept=intercept, penalty=0.5)
    A = np.column_stack([np.ones(len(X)), X]) if intercept else X
    root, scale = np.sqrt(w)[:, None], np.linalg.norm(A, axis=0)
    prior = np.diag(np.sqrt([0.0, *[0.5] * 4] if intercept else [0.5] * 4)) / scale
    stacked = np.vstack([root * A / scale, prior])
    expected = (
        np.linalg.lstsq(stacked, np.append(root[:, 0] * y, np.zeros(len(prior))), rcond=None)[0] / scale
    )
    assert_allclose(found.coefficients, expected, rtol=1e-7)
    assert_allclose(found.residual_sum, w @ (y - A @ expected) ** 2, rtol=1e-9)
