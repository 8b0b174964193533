"""Linear estimators: scikit-learn's answers to 1e-6, pipelines, streams, files."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable import datasets
from tractable.estimators.linear import (
    LassoRegressor,
    LinearRegressor,
    RecursiveRegressor,
    RidgeRegressor,
    RobustRegressor,
)

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(80, 5)) + 1.0
Y = X @ [1.0, 0.0, -2.0, 0.5, 0.0] + 3 + 0.5 * GENERATOR.normal(size=80)
W = GENERATOR.integers(0, 4, 80).astype(float)
ALL = [LinearRegressor, RidgeRegressor, LassoRegressor, RobustRegressor, RecursiveRegressor]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LinearRegressor(), LinearRegression()),
        (LinearRegressor(fit_intercept=False), LinearRegression(fit_intercept=False)),
        (RidgeRegressor(2.5, standardise=False), Ridge(2.5)),
        (RidgeRegressor(0.1, fit_intercept=False, standardise=False), Ridge(0.1, fit_intercept=False)),
        (LassoRegressor(0.2, standardise=False), Lasso(0.2, tol=1e-12)),
        (LassoRegressor(0.1, l1_ratio=0.3, standardise=False), ElasticNet(0.1, l1_ratio=0.3, tol=1e-12)),
    ],
)
def test_scikit_learn_is_met(ours, theirs):
    for weights in (None, W):
        a, b = ours.fit(X, Y, sample_weight=weights), theirs.fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
        np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-9)
        np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-9)


def test_several_targets():
    both = np.stack([Y, 2 * Y - X[:, 0]], axis=1)
    for ours, theirs in (
        (LinearRegressor(), LinearRegression()),
        (RidgeRegressor(standardise=False), Ridge()),
    ):
        a, b = ours.fit(X, both), theirs.fit(X, both)
        assert a.coef_.shape == (2, 5)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)
        np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-10)
        assert np.shape(a.predict_dist(X).mean) == (80, 2)


@pytest.mark.parametrize("estimator", ALL)
def test_intervals_hold_their_share(estimator):
    model = (estimator(0.01) if estimator is LassoRegressor else estimator()).fit(X, Y)
    generator = np.random.default_rng(9)
    new = generator.normal(size=(2000, 5)) + 1.0
    target = new @ [1.0, 0.0, -2.0, 0.5, 0.0] + 3 + 0.5 * generator.normal(size=2000)
    low, high = model.predict_interval(new, 0.9)
    # the fit itself is uncertain by a few percent of coverage on top of binomial noise
    assert abs(((low < target) & (target < high)).mean() - 0.9) < 5 * np.sqrt(0.09 / 2000) + 0.04
    assert model.sample_y(X[:3], 4, random_state=0).shape == (3, 4)


def test_alpha_is_chosen_by_evidence_or_by_leaving_out():
    for how in ("evidence", "loo", "gcv"):
        model = RidgeRegressor(how).fit(X, Y)
        fixed = RidgeRegressor(model.alpha_).fit(X, Y)
        np.testing.assert_array_equal(model.coef_, fixed.coef_)
        assert 0 < model.alpha_ < 20
    assert np.isfinite(RidgeRegressor("evidence").fit(X, Y).log_evidence_)
    with pytest.raises(ValueError, match="alpha"):
        RidgeRegressor("best").fit(X, Y)


def test_recursion_in_parts_is_the_whole_and_nearly_ridge():
    whole = RecursiveRegressor().fit(X, Y, sample_weight=W)
    parts = RecursiveRegressor()
    for rows in (slice(0, 30), slice(30, 31), slice(31, 80)):
        parts.partial_fit(X[rows], Y[rows], sample_weight=W[rows])
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-4)  # scales come from the first rows
    np.testing.assert_allclose(whole.coef_, LinearRegression().fit(X, Y, sample_weight=W).coef_, atol=1e-3)
    # old rows fade: after a change of regime only the new one is left
    fading = RecursiveRegressor(forgetting=0.9).fit(X, Y).partial_fit(np.tile(X, (3, 1)), np.tile(-Y, 3))
    np.testing.assert_allclose(fading.coef_, -whole.coef_, atol=0.6)


@pytest.mark.parametrize("shift", [2000.0, 1e6])
def test_recursion_does_not_shrink_columns_that_are_far_from_zero(shift):
    year = np.linspace(shift, shift + 20, 40)[:, None]
    target = 3.01 * (year[:, 0] - shift) + 500 + 0.1 * GENERATOR.normal(size=40)
    model = RecursiveRegressor().fit(year, target)
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(year, target).coef_, rtol=1e-4)
    low, high = model.predict_interval(year)
    assert (high - low).max() < 0.6


def test_penalties_are_in_the_units_of_columns():
    size = np.array([1e-3, 1.0, 100.0, 5.0, 1.0])
    for made in (RidgeRegressor(3.0), LassoRegressor(0.2), LassoRegressor(0.2, l1_ratio=0.5)):
        plain, scaled = clone(made).fit(X, Y), clone(made).fit(X * size, 7 * Y)
        np.testing.assert_allclose(scaled.coef_ * size / 7, plain.coef_, rtol=1e-8, atol=1e-12)
        ours, theirs = scaled.predict_dist(X * size), plain.predict_dist(X)
        np.testing.assert_allclose(ours.scale / 7, theirs.scale, rtol=1e-8)
    spread = X.std(0)
    by_hand = Ridge(3.0).fit(X / spread, Y)
    np.testing.assert_allclose(RidgeRegressor(3.0).fit(X, Y).coef_, by_hand.coef_ / spread, rtol=1e-9)


@pytest.mark.parametrize("loss", ["huber", "absolute", "student"])
def test_outlier_in_a_pipeline_with_a_search(loss):
    y = Y.copy()
    y[3] += 500
    search = GridSearchCV(
        make_pipeline(StandardScaler(), RobustRegressor(loss)),
        {"robustregressor__fit_intercept": [True, False]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["robustregressor__fit_intercept"]
    np.testing.assert_allclose(search.predict(X), RobustRegressor(loss).fit(X, Y).predict(X), atol=0.3)


@pytest.mark.parametrize("estimator", ALL)
def test_clones_and_copies_predict_alike(estimator):
    model = estimator().fit(X, Y)
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_longley_through_the_estimator(oracles):
    data = np.genfromtxt(oracles / "nist" / "longley.csv", delimiter=",", skip_header=1)
    certified = np.genfromtxt(oracles / "nist" / "longley_certified.csv", delimiter=",", skip_header=1)
    model = LinearRegressor().fit(data[:, 1:], data[:, 0])
    np.testing.assert_allclose(np.r_[model.intercept_, model.coef_], certified[:, 0], rtol=1e-13)
    np.testing.assert_allclose(model.model_.standard_errors, certified[:, 1], rtol=1e-13)
    assert "the data determine about 11 digits" in repr(model.model_)


def test_a_missing_entry_is_refused_by_its_column():
    table = datasets.diabetes()
    rows = table.features.copy()
    rows[4, 2] = np.nan
    with pytest.raises(ValueError, match="`X` must be finite; got NaN in column 2, row 4"):
        LinearRegressor().fit(rows, table.target)
