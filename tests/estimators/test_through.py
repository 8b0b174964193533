"""Intervals and scores through pipelines, searches, transformed targets and stacks; summaries."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable.estimators import (
    BayesianLinearRegressor,
    GaussianNaiveBayesClassifier,
    LassoRegressor,
    LinearDiscriminantClassifier,
    LinearRegressor,
    LogisticClassifier,
    ProbitClassifier,
    RecursiveRegressor,
    RelevanceRegressor,
    RidgeRegressor,
    RobustRegressor,
    log_score,
    predict_dist,
    predict_interval,
)

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal((0.0, 30.0), 1.0, (80, 2))
Y = X @ [1.0, -0.5] + 15 + 0.5 * GENERATOR.normal(size=80)
LABELS = np.where(np.median(Y) < Y, "high", "low")


def test_pipelines_and_searches_answer_as_their_estimator():
    alone = RidgeRegressor().fit(StandardScaler().fit_transform(X), Y)
    piped = make_pipeline(StandardScaler(), RidgeRegressor()).fit(X, Y)
    search = GridSearchCV(make_pipeline(StandardScaler(), RidgeRegressor()), {}, cv=3).fit(X, Y)
    rows = StandardScaler().fit(X).transform(X)
    for model, given in ((piped, X), (search, X), (make_pipeline(RidgeRegressor()).fit(rows, Y), rows)):
        np.testing.assert_allclose(predict_interval(model, given, 0.8), alone.predict_interval(rows, 0.8))
        np.testing.assert_allclose(predict_dist(model, given).mean, alone.predict(rows))
        assert log_score(model, given, Y) == pytest.approx(alone.log_score(rows, Y))


def test_a_transformed_target_has_the_quantiles_and_the_density_of_its_own_units():
    wrapped = TransformedTargetRegressor(LinearRegressor(), func=np.log, inverse_func=np.exp)
    wrapped.fit(X, np.exp(Y))
    plain = LinearRegressor().fit(X, Y)
    low, high = predict_interval(wrapped, X, 0.9)
    np.testing.assert_allclose([np.log(low), np.log(high)], plain.predict_interval(X, 0.9), rtol=1e-10)
    # the density of exp(y) is that of y over exp(y)
    assert log_score(wrapped, X, np.exp(Y)) == pytest.approx(plain.log_score(X, Y) - Y.mean(), rel=1e-6)
    with pytest.raises(ValueError, match=r"`model` must be one without a transformed target.*interval"):
        predict_dist(wrapped, X)


def test_stacks_ask_their_final_estimator():
    base = [("a", LinearRegression()), ("b", RidgeRegressor())]
    stack = StackingRegressor(base, LinearRegressor(), cv=3).fit(X, Y)
    low, high = predict_interval(stack, X, 0.9)
    assert 0.8 < np.mean((low < Y) & (high > Y)) < 0.99
    assert np.isfinite(log_score(stack, X, Y))
    base = [("a", LogisticRegression()), ("b", GaussianNaiveBayesClassifier())]
    stack = StackingClassifier(base, LinearDiscriminantClassifier(), cv=3).fit(X, LABELS)
    probs = stack.predict_proba(X)
    own = probs[np.arange(80), (LABELS == "low").astype(int)]
    assert log_score(stack, X, LABELS) == pytest.approx(np.log(own).mean())
    np.testing.assert_allclose(predict_dist(stack, X).probs, probs, atol=1e-12)


def test_others_are_refused_by_name():
    with pytest.raises(TypeError, match=r"`model` must be an estimator with `predict_dist`.*LinearReg"):
        predict_interval(LinearRegression().fit(X, Y), X)


LINEAR = [
    LinearRegressor(), RidgeRegressor(1e-8), LassoRegressor(1e-8), RobustRegressor(),
    RecursiveRegressor(1e-6), BayesianLinearRegressor(), RelevanceRegressor(),
]  # fmt: skip


@pytest.mark.parametrize("made", LINEAR, ids=lambda made: type(made).__name__)
def test_summaries_are_near_least_squares(made):
    table = made.fit(pd.DataFrame(X, columns=["age", "height"]), Y).summary(0.9)
    assert list(table.index) == ["intercept", "age", "height"]
    design = np.column_stack([np.ones(80), X])
    inverse, scale = np.linalg.inv(design.T @ design), np.sqrt(np.linalg.lstsq(design, Y)[1][0] / 77)
    reach = stats.t.ppf(0.95, 77) * scale * np.sqrt(np.diag(inverse))
    best = np.linalg.lstsq(design, Y)[0]
    exact = isinstance(made, LinearRegressor)
    slack = 1e-8 * reach if exact else 0.5 * reach  # priors and other losses move them by less than that
    assert (np.abs(table["coefficient"] - best) <= slack).all()
    np.testing.assert_allclose((table["upper"] - table["lower"]) / 2, reach, rtol=1e-8 if exact else 0.3)


def test_summaries_of_classifiers_and_of_what_has_none():
    for made in (LogisticClassifier(), ProbitClassifier()):
        found = made.fit(X, LABELS)
        table = found.summary()
        assert list(table.index) == ["intercept", "x0", "x1"]
        np.testing.assert_allclose(table["coefficient"], np.r_[found.intercept_, found.coef_[0]])
        assert (table["lower"] < table["coefficient"]).all()
    with pytest.raises(AttributeError, match="has no coefficients with intervals"):
        GaussianNaiveBayesClassifier().fit(X, LABELS).summary()
    both = LinearRegressor().fit(X, np.stack([Y, Y], 1))
    with pytest.raises(ValueError, match="`y` must be one target for a summary"):
        both.summary()
