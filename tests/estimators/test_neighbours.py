"""Neighbour estimators: scikit-learn's answers, honest predictive distributions."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from tractable.datasets import diabetes, iris
from tractable.estimators.neighbours import NeighboursClassifier, NeighboursRegressor


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_agrees_with_scikit_learn(weights):
    X = np.random.default_rng(0).normal(size=(300, 10))
    y, new = X[:, 0] ** 2, X[:40] + 0.1
    ours = NeighboursRegressor(6, weights=weights, standardise=False)
    peer = KNeighborsRegressor(6, weights=weights)
    np.testing.assert_allclose(ours.fit(X, y).predict(new), peer.fit(X, y).predict(new), rtol=1e-6)
    labels = np.digitize(y, [0.2, 1.0])
    ours = NeighboursClassifier(6, weights=weights, standardise=False, calibrate=False)
    peer = KNeighborsClassifier(6, weights=weights)
    expected = peer.fit(X, labels).predict_proba(new)
    np.testing.assert_allclose(ours.fit(X, labels).predict_proba(new), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("n_neighbors", [1, 10])
def test_intervals_hold_what_they_promise(n_neighbors):
    table = diabetes()
    X = (table.features - table.features.mean(0)) / table.features.std(0)
    train, test = np.split(np.random.default_rng(1).permutation(len(table)), [300])
    fitted = NeighboursRegressor(n_neighbors).fit(X[train], table.target[train])
    low, high = fitted.predict_interval(X[test], 0.9)
    share = ((low <= table.target[test]) & (table.target[test] <= high)).mean()
    assert abs(share - 0.9) <= 5 * np.sqrt(0.09 / len(test))
    np.testing.assert_allclose(fitted.predict_dist(X[test]).mean, fitted.predict(X[test]), rtol=1e-12)


def test_tools_of_scikit_learn_work():
    X, y = iris().features, iris().target
    search = GridSearchCV(NeighboursClassifier(), {"n_neighbors": [1, 5, 15]}, cv=5).fit(X, y)
    assert search.best_score_ > 0.95
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    with pytest.raises(ValueError, match="cannot marginalise missing entries"):
        NeighboursRegressor().fit([[np.nan]] * 6, np.zeros(6))
