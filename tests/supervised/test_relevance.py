"""Sparse Bayesian learning against brute force, its own stationarity and known sparse models."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from tractable.core.iterate import Status
from tractable.supervised.basis import GaussianBumps
from tractable.supervised.bayes_linear.evidence import maximise_evidence
from tractable.supervised.bayes_linear.relevance import relevance_regression
from tractable.supervised.bayes_linear.statistics import regression_statistics

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 5))
Y = X @ [1.5, 0.0, -2.0, 0.0, 0.0] + 4.0 + 0.5 * RANDOM.normal(size=60)
ROWS = regression_statistics(X, Y)


@pytest.fixture(scope="module")
def found():
    return relevance_regression(ROWS)


def test_useless_columns_are_switched_off(found):
    assert found.status is Status.converged
    assert found.kept[[0, 2]].all()
    assert not found.kept.all()
    np.testing.assert_allclose(np.asarray(found.model.mean)[[0, 2]], [1.5, -2.0], atol=0.25)
    assert (np.asarray(found.model.mean)[~found.kept] == 0).all()
    assert float(found.log_evidence) > float(
        maximise_evidence(ROWS, intercept=True, standardise=True).log_evidence
    )
    assert f"{found.kept.sum()} of 5 columns kept" in repr(found)


def test_kept_weights_are_stationary_and_dropped_ones_are_not_wanted(found):
    alpha, beta, scale = np.asarray(found.alpha), float(found.noise_precision), np.asarray(found.scale)
    mean = np.asarray(found.model.mean) * scale
    kept = found.kept
    np.testing.assert_allclose(alpha[kept] * mean[kept] ** 2, found.determined[kept], rtol=1e-5)
    z, t = (X - X.mean(0)) / scale, Y - Y.mean()
    cov = np.eye(60) / beta + (z[:, kept] / alpha[kept]) @ z[:, kept].T
    for j in np.flatnonzero(~kept):
        sparsity, quality = z[:, j] @ np.linalg.solve(cov, z[:, j]), z[:, j] @ np.linalg.solve(cov, t)
        assert quality**2 <= sparsity * (1 + 1e-8)
    # the noise: nu - gamma is the expected count of residuals, up to the smallest noise that is counted
    residual = ((t - z @ mean) ** 2).sum()
    np.testing.assert_allclose(beta * residual, 59 - found.determined.sum(), rtol=1e-5)


def test_no_search_over_precisions_does_better():
    rows = X[:, :3]
    y = Y - Y.mean()
    best = relevance_regression(regression_statistics(rows, y), intercept=False, standardise=False)

    def negative(logs):
        *alphas, beta = np.exp(logs)
        cov = np.eye(60) / beta + (rows / alphas) @ rows.T
        return -multivariate_normal.logpdf(y, np.zeros(60), cov)

    starts = RANDOM.normal(scale=3, size=(6, 4)) + np.array([0, 0, 0, 1])
    options = {"maxiter": 3000, "xatol": 1e-6, "fatol": 1e-10}
    values = [-minimize(negative, start, method="Nelder-Mead", options=options).fun for start in starts]
    assert float(best.log_evidence) >= max(values) - 1e-5
    np.testing.assert_allclose(float(best.log_evidence), max(values), atol=1e-3)


def test_relevance_vectors_of_a_sinc():
    x = np.linspace(-10, 10, 60)
    y = np.sinc(x / np.pi) + 0.05 * RANDOM.normal(size=60)
    basis = GaussianBumps(x, 2.0)
    found = relevance_regression(regression_statistics(x, y, basis=basis), basis=basis)
    assert found.kept.sum() <= 12
    error = found.model.predict(x) - np.sinc(x / np.pi)
    assert np.sqrt((error**2).mean()) < 0.05
    np.testing.assert_allclose(1 / np.sqrt(float(found.noise_precision)), 0.05, rtol=0.4)


def test_units_do_not_matter():
    scale = np.array([1e12, 1.0, 1e-12, 3.0, 1.0])
    plain, scaled = relevance_regression(ROWS), relevance_regression(regression_statistics(X * scale, Y))
    np.testing.assert_array_equal(plain.kept, scaled.kept)
    np.testing.assert_allclose(np.asarray(scaled.model.mean) * scale, plain.model.mean, rtol=1e-7)


def test_duplicated_and_constant_columns():
    design = np.column_stack([X[:, 0], X[:, 0], np.ones(60), X[:, 2]])
    found = relevance_regression(regression_statistics(design, Y))
    alone = relevance_regression(regression_statistics(X[:, [0, 2]], Y))
    assert not found.kept[2]
    assert found.kept[3]
    assert found.kept[:2].any()
    # twins share one prior variance: how they share it changes nothing
    np.testing.assert_allclose(float(found.log_evidence), float(alone.log_evidence), rtol=1e-9)
    np.testing.assert_allclose(found.model.predict(design), alone.model.predict(X[:, [0, 2]]), rtol=1e-4)


def test_exact_targets_are_interpolated_and_said_so():
    found = relevance_regression(regression_statistics(X, X[:, 0] - 2 * X[:, 2]))
    assert found.kept.tolist() == [True, False, True, False, False]
    assert "lower limit" in repr(found)
    np.testing.assert_allclose(found.model.predict(X), X[:, 0] - 2 * X[:, 2], atol=1e-7)


def test_nothing_is_kept_where_nothing_is_to_be_found():
    x = np.repeat(np.tile([1.0, -1.0], 10), 2)
    found = relevance_regression(regression_statistics(x, np.tile([1.0, -1.0], 20)))
    assert not found.kept.any()
    np.testing.assert_allclose(found.model.predict([[1.0]]), [0.0], atol=1e-15)


def test_one_row_and_bad_options_are_named():
    with pytest.raises(ValueError, match="n_samples = 1"):
        relevance_regression(regression_statistics(X[:1], Y[:1]))
    with pytest.raises(ValueError, match="`least_noise` must be positive"):
        relevance_regression(ROWS, least_noise=0.0)
