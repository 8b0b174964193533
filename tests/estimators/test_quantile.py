"""Quantile regression as an estimator: beside scikit-learn's, and what it reports."""

import numpy as np
import pytest
from sklearn import linear_model

from tractable.estimators import BayesianLinearRegressor, QuantileRegressor

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 2))
Y = 1 + X[:, 0] + np.exp(0.5 * X[:, 1]) * (RNG.gamma(1.0, size=300) - 1)


def test_a_line_is_that_of_scikit_learn():
    model = QuantileRegressor([0.3, 0.8], prior_precision=0).fit(X, Y)
    other = linear_model.QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, Y)
    np.testing.assert_allclose(model.coef_[2], other.coef_, atol=1e-7)
    assert model.intercept_[2] == pytest.approx(other.intercept_, abs=1e-7)
    assert model.levels_.tolist() == [0.3, 0.5, 0.8]
    lines = np.sort(model.intercept_ + X @ model.coef_.T, axis=1)  # some rows are where they cross
    np.testing.assert_allclose(model.predict_quantiles(X), lines, atol=1e-9)
    np.testing.assert_allclose(model.predict_quantiles(X)[:, 1], model.predict(X), atol=1e-12)


def test_noise_of_another_shape_is_seen():
    model, normal = (kind().fit(X[:200], Y[:200]) for kind in (QuantileRegressor, BayesianLinearRegressor))
    assert model.log_score(X[200:], Y[200:]) > normal.log_score(X[200:], Y[200:]) + 0.1
    np.testing.assert_allclose(model.log_scores(X, Y).mean(), model.log_score(X, Y))
    low, high = model.predict_interval(X[200:])
    assert 0.8 < np.mean((low <= Y[200:]) & (Y[200:] <= high)) < 0.98
    assert model.sample_y(X[:3], 5, random_state=0).shape == (3, 5)


def test_summaries_are_of_one_level():
    model = QuantileRegressor().fit(X, Y)
    upper, lower = model.summary(0.99, quantile=0.9), model.summary(0.99, quantile=0.1)
    assert list(upper.index) == ["intercept", "x0", "x1"]
    assert upper.loc["x1", "lower"] > lower.loc["x1", "upper"]  # the noise grows with this column
    with pytest.raises(ValueError, match="`quantile` must be among the fitted levels"):
        model.summary(quantile=0.33)
    with pytest.raises(ValueError, match="`levels` must be numbers between 0 and 1"):
        model.predict_quantiles(X, [1.2])


def test_targets_that_do_not_vary_and_tables_of_one_row_have_an_answer():
    constant = QuantileRegressor().fit(X, np.full(300, 7.0))
    np.testing.assert_allclose(constant.predict(X), 7.0, atol=1e-9)
    one = QuantileRegressor().fit(X[:1], Y[:1])
    np.testing.assert_allclose(one.predict(X[:1]), Y[:1], rtol=1e-9)
    exact = QuantileRegressor(prior_precision=0).fit(X, 3 * X[:, 0] - 1e5)
    np.testing.assert_allclose(exact.predict(X), 3 * X[:, 0] - 1e5, atol=1e-4)
