"""Trees as estimators: scikit-learn's checks, pipelines, distributions, files."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable import estimators
from tractable.distributions.continuous import Normal, StudentT
from tractable.estimators import bagging, forests
from tractable.estimators.bagging import BaggingClassifier, BaggingRegressor
from tractable.estimators.forests import AdaBoostClassifier, ForestClassifier, ForestRegressor
from tractable.estimators.trees import TreeClassifier, TreeRegressor

NAMES = ("TreeClassifier", "TreeRegressor", *forests.__all__, *bagging.__all__)
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 5))
LABELS = np.where(ROWS[:, 0] + ROWS[:, 1] ** 2 > 1, "late", "early")
NUMBERS = ROWS[:, 0] - ROWS[:, 1] + 0.3 * RNG.normal(size=200)


def named(name):
    return getattr(estimators, name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("Classifier")])
def test_classifiers_know_labels_probabilities_and_draws(name):
    estimator = named(name)()
    options = {"random_state": 0} if "random_state" in estimator.get_params() else {}
    found = estimator.set_params(**options).fit(ROWS, LABELS)
    probabilities = found.predict_proba(ROWS)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(found.predict(ROWS), found.classes_[probabilities.argmax(1)])
    assert found.score(ROWS, LABELS) > 0.9
    np.testing.assert_allclose(np.asarray(found.predict_dist(ROWS[:4]).probs), probabilities[:4], atol=1e-12)
    assert set(found.sample_y(ROWS[:3], 5, random_state=0).ravel()) <= {"early", "late"}


@pytest.mark.parametrize("estimator", [
    TreeRegressor(max_depth=3), ForestRegressor(20, random_state=0), BaggingRegressor(random_state=0)
])  # fmt: skip
def test_regressors_give_distributions(estimator):
    found = clone(estimator).fit(ROWS, NUMBERS)
    predicted = found.predict_dist(ROWS)
    assert isinstance(predicted, Normal | StudentT)
    np.testing.assert_allclose(predicted.mean, found.predict(ROWS), atol=1e-12)
    lower, upper = found.predict_interval(ROWS, 0.9)
    assert 0.85 < ((lower < NUMBERS) & (upper > NUMBERS)).mean() <= 1
    assert np.isfinite(found.log_score(ROWS, NUMBERS))
    with pytest.raises(ValueError, match="`y` must be of more than one value for a distribution"):
        clone(estimator).fit(ROWS, np.ones(200)).predict_dist(ROWS)


def test_forests_report_out_of_bag_scores_and_importance():
    forest = ForestClassifier(60, random_state=0).fit(ROWS, LABELS)
    assert 0.75 < forest.oob_score_ < 1
    assert set(forest.feature_importances_.argsort()[-2:]) == {0, 1}
    numbers = ForestRegressor(60, random_state=0).fit(ROWS, NUMBERS)
    assert 0.5 < numbers.oob_score_ < 0.98
    every = ForestClassifier(5, max_features="all", random_state=0).fit(ROWS, LABELS)  # bagging
    assert every.model_.num_trees == 5


def test_missing_entries_are_welcome_and_infinities_are_not():
    holes = np.where(RNG.uniform(size=ROWS.shape) < 0.2, np.nan, ROWS)
    for estimator in (
        TreeClassifier(max_depth=4),
        ForestClassifier(10, random_state=0),
        AdaBoostClassifier(10),
    ):
        assert estimator.fit(holes, LABELS).score(holes, LABELS) > 0.75
    with pytest.raises(ValueError, match=r"infinity .* column 2"):
        TreeClassifier().fit(np.where(np.arange(5) == 2, np.inf, ROWS), LABELS)


def test_bagging_takes_any_estimator():
    found = BaggingClassifier(LogisticRegression(), 5, calibrate=False, random_state=0).fit(ROWS, LABELS)
    wanted = np.mean([copy.predict_proba(ROWS) for copy in found.estimators_], axis=0)
    np.testing.assert_allclose(found.predict_proba(ROWS), wanted)
    rare = np.array(["a"] * 29 + ["b"])  # a third of the draws has no "b"; they are drawn again
    assert (
        BaggingClassifier(LogisticRegression(), 8, random_state=0).fit(ROWS[:30], rare).score(ROWS[:30], rare)
        > 0.9
    )


def test_pipelines_searches_clones_and_pickles():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), TreeClassifier()), {"treeclassifier__max_depth": [1, 4]}
    )
    assert search.fit(ROWS, LABELS).best_params_ == {"treeclassifier__max_depth": 4}
    forest = ForestClassifier(5, random_state=0).fit(ROWS, LABELS)
    again = pickle.loads(pickle.dumps(forest))
    np.testing.assert_array_equal(again.predict_proba(ROWS), forest.predict_proba(ROWS))
    np.testing.assert_array_equal(
        clone(forest).fit(ROWS, LABELS).predict_proba(ROWS), forest.predict_proba(ROWS)
    )
