"""Discriminant estimators: scikit-learn's answers, gaps, tools."""

import pickle

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV

from tractable.datasets import iris
from tractable.estimators.discriminant import LinearDiscriminantClassifier, QuadraticDiscriminantClassifier

X, Y = iris().features, iris().target
_PAIRS = [
    (LinearDiscriminantClassifier, LinearDiscriminantAnalysis),
    (QuadraticDiscriminantClassifier, QuadraticDiscriminantAnalysis),
]


@pytest.mark.parametrize(("estimator", "peer"), _PAIRS)
def test_agrees_with_scikit_learn(estimator, peer):
    exact = {"variance_floor": 0.0, "calibrate": False}
    ours, theirs = estimator(**exact).fit(X, Y), peer().fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6, atol=1e-10)
    binary = Y < 2
    two, peers = estimator(**exact).fit(X[binary], Y[binary]), peer().fit(X[binary], Y[binary])
    np.testing.assert_allclose(two.decision_function(X), peers.decision_function(X), rtol=1e-6)
    default = estimator(calibrate=False).fit(
        X, Y
    )  # the floor changes next to nothing where columns are independent
    np.testing.assert_allclose(default.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(("estimator", "_"), _PAIRS)
def test_gaps_cost_little(estimator, _):
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    fitted = estimator().fit(gaps, Y)
    assert fitted.model_.status.ok
    assert fitted.score(gaps, Y) > 0.85
    assert fitted.score(X, Y) > 0.93
    np.testing.assert_allclose(fitted.predict_proba(np.full((1, 4), np.nan)), [[1 / 3] * 3], rtol=1e-10)
    with pytest.raises(ValueError, match=r"got infinity \(inf\) in column 1, row 0"):
        fitted.predict([[1.0, np.inf, 1.0, 1.0]])


def test_tools_of_scikit_learn_work():
    noisy = np.c_[X, np.random.default_rng(1).normal(size=(150, 20))]
    search = GridSearchCV(QuadraticDiscriminantClassifier(), {"shrinkage": [0.0, 0.5, 1.0]}, cv=3).fit(
        noisy, Y
    )
    assert search.best_params_["shrinkage"] > 0
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(noisy), search.predict(noisy))
    assert again.score_samples(noisy).shape == (150,)
    assert again.means_.shape == (3, 24)


@pytest.mark.parametrize(("estimator", "_"), _PAIRS)
def test_partial_fits_are_one_fit(estimator, _):
    order = np.random.default_rng(0).permutation(len(Y))
    stream = estimator(calibrate=False).partial_fit(X[order[:60]], Y[order[:60]], classes=np.unique(Y))
    stream.partial_fit(X[order[60:]], Y[order[60:]])
    np.testing.assert_allclose(
        stream.predict_proba(X), estimator(calibrate=False).fit(X, Y).predict_proba(X), rtol=1e-8, atol=1e-12
    )
    with pytest.raises(ValueError, match="`classes` must be given at the first call"):
        estimator().partial_fit(X, Y)
    with pytest.raises(ValueError, match="`y` must be among the classes"):
        stream.partial_fit(X[:1], [99])
