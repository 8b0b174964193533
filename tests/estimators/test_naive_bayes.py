"""Naive Bayes estimators: scikit-learn's answers, streams, gaps, names of columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from tractable.datasets import iris
from tractable.estimators.naive_bayes import (
    BernoulliNaiveBayesClassifier,
    CategoricalNaiveBayesClassifier,
    GaussianNaiveBayesClassifier,
    MultinomialNaiveBayesClassifier,
    NaiveBayesClassifier,
)

X, Y = iris().features, iris().target
COUNTS = np.floor(X)
_ALL = [
    BernoulliNaiveBayesClassifier, CategoricalNaiveBayesClassifier, GaussianNaiveBayesClassifier,
    MultinomialNaiveBayesClassifier, NaiveBayesClassifier,
]  # fmt: skip


@pytest.mark.parametrize(("ours", "peer", "rows"), [
    (GaussianNaiveBayesClassifier(variance_floor=0.0, calibrate=False), GaussianNB(var_smoothing=0.0), X),
    (BernoulliNaiveBayesClassifier(threshold=3.0, calibrate=False), BernoulliNB(binarize=3.0), X),
    (CategoricalNaiveBayesClassifier(calibrate=False), CategoricalNB(), COUNTS),
    (MultinomialNaiveBayesClassifier(smoothing=0.3, calibrate=False), MultinomialNB(alpha=0.3), COUNTS),
])  # fmt: skip
def test_agrees_with_scikit_learn(ours, peer, rows):
    weights = np.random.default_rng(0).uniform(0.1, 2.0, len(Y))
    ours.fit(rows, Y, weights)
    peer.fit(rows, Y, weights)
    np.testing.assert_allclose(ours.predict_proba(rows), peer.predict_proba(rows), rtol=1e-6, atol=1e-10)
    np.testing.assert_array_equal(ours.predict(rows), peer.predict(rows))


@pytest.mark.parametrize("estimator", _ALL)
def test_partial_fits_are_one_fit(estimator):
    whole, parts = estimator(calibrate=False).fit(COUNTS, Y), estimator(calibrate=False)
    order = np.random.default_rng(1).permutation(150)
    for start in range(0, 150, 31):
        part = order[start : start + 31]
        parts.partial_fit(COUNTS[part], Y[part], classes=[0, 1, 2])
    np.testing.assert_allclose(
        parts.predict_proba(COUNTS), whole.predict_proba(COUNTS), rtol=1e-9, atol=1e-12
    )
    with pytest.raises(ValueError, match="`y` must be among the classes"):
        parts.partial_fit(COUNTS[:1], [7])
    with pytest.raises(ValueError, match=r"`classes` must be given at the first call of partial_fit"):
        estimator().partial_fit(COUNTS, Y)


def test_columns_by_name_with_gaps():
    frame = pd.DataFrame({"length": X[:, 0], "wide": (X[:, 3] > 1).astype(float), "petals": COUNTS[:, 2]})
    frame.loc[::7, "wide"] = np.nan
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    families = {"wide": "bernoulli", "petals": "poisson"}
    mixed = NaiveBayesClassifier(families, calibrate=False).fit(frame, names)
    by_hand = np.log(np.full((150, 3), 1 / 3))
    for c in range(3):
        length, wide, petals = frame[c == Y].to_numpy().T
        by_hand[:, c] += stats.norm(length.mean(), length.std()).logpdf(frame["length"])
        ones = (np.nansum(wide) + 1) / ((~np.isnan(wide)).sum() + 2)
        by_hand[:, c] += np.select([frame["wide"] == 1, frame["wide"] == 0], np.log([ones, 1 - ones]))
        by_hand[:, c] += stats.poisson((petals.sum() + 1) / 51).logpmf(frame["petals"])
    expected = np.exp(by_hand) / np.exp(by_hand).sum(1, keepdims=True)
    np.testing.assert_allclose(mixed.predict_proba(frame), expected, rtol=1e-9)
    assert mixed.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert mixed.model_.families == ("1 gaussian", "1 bernoulli", "1 poisson")
    assert str(mixed.model_.families) in repr(mixed.model_)
    blind = frame.copy()
    blind.loc[:, :] = np.nan
    np.testing.assert_allclose(mixed.predict_proba(blind), np.full((150, 3), 1 / 3), rtol=1e-12)
    joint = mixed.model_.log_joint(frame.to_numpy())
    np.testing.assert_allclose(mixed.score_samples(frame), np.log(np.exp(joint).sum(1)), rtol=1e-10)
    np.testing.assert_allclose(mixed.class_prior_, 1 / 3)


def test_tools_of_scikit_learn_work():
    search = GridSearchCV(GaussianNaiveBayesClassifier(), {"prior_strength": [None, 1.0, 10.0]}, cv=3).fit(
        X, Y
    )
    assert search.best_score_ > 0.9
    fitted = search.best_estimator_
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert clone(fitted).get_params() == fitted.get_params()
    np.testing.assert_allclose(
        np.exp(fitted.predict_dist(X[:4]).log_probs), fitted.predict_proba(X[:4]), rtol=1e-10
    )


def test_negative_counts_are_named():
    with pytest.raises(ValueError, match=r"Negative values in data.*got -1 in column 2, row 0"):
        MultinomialNaiveBayesClassifier().fit([[0.0, 1.0, -1.0], [1.0, 0.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match=r"0, 1, 2, ...; got 0.5 in column 1, row 0"):
        CategoricalNaiveBayesClassifier().fit([[0.0, 0.5], [1.0, 0.0]], [0, 1])
