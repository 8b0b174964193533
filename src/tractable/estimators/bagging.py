r"""Bagging: any estimator, averaged over fits to drawn rows.

Model.       Copy $t$ is fitted to rows drawn in proportion to their weights; the answer is their mean,
             and its variance $\bar v + \mathrm{Var}_t[m_t]$.
Weights.     Draws are places on the line of weights, so a row of weight two gives the fit of the row twice.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import has_fit_parameter

from tractable.core.host_random import seeds
from tractable.core.progress import track
from tractable.distributions.continuous import Normal
from tractable.estimators.base import Classifier, Regressor, key_from
from tractable.estimators.trees import TreeClassifier, TreeRegressor, normal_of
from tractable.inference.trust.uncertainty import split_variance
from tractable.supervised.trees.columns import canonical_order, code_columns
from tractable.supervised.trees.forests import draw_rows

__all__ = ["BaggingClassifier", "BaggingRegressor"]


class _Bagging:
    """Copies of one estimator, each fitted to rows drawn in proportion to their weights."""

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }  # fmt: skip
    estimator: Any
    n_estimators: int
    random_state: Any

    def __init__(self, estimator=None, n_estimators=10, *, random_state=None):
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.random_state = random_state

    def _fit_copies(self, rows, base, least_values: int = 1) -> None:
        order = canonical_order(code_columns(rows.X), np.asarray(rows.y, float))
        X, y, weights = (array[order] for array in rows)
        starts = seeds(key_from(self.random_state), 2 * self.n_estimators)
        weighted = has_fit_parameter(base, "sample_weight")
        self.estimators_ = []
        for seed in track(starts.reshape(-1, 2), label="Fitting copies"):
            drawn, copy = _draw_classes(weights, y, seed[0], least_values), clone(base)
            if "random_state" in copy.get_params():
                copy.set_params(random_state=int(seed[1] % 2**31))
            kept = drawn > 0
            counts = drawn[kept].astype(int)
            if weighted:
                self.estimators_.append(copy.fit(X[kept], y[kept], sample_weight=drawn[kept]))
            else:
                self.estimators_.append(copy.fit(np.repeat(X[kept], counts, 0), np.repeat(y[kept], counts)))


class BaggingClassifier(_Bagging, Classifier):
    """The mean of the class probabilities of any classifier over drawn rows (trees, if none is given).

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    >>> BaggingClassifier(random_state=0).fit(X, y).predict([[0.2]])
    array([0])
    """

    _accepts_missing = True
    _least_classes = 1

    def fit(self, X, y, sample_weight=None):
        rows = self._training_classes(X, y, sample_weight)
        self._fit_copies(rows, TreeClassifier() if self.estimator is None else self.estimator,
                         least_values=min(2, len(self.classes_)))  # fmt: skip
        return self

    def predict_proba(self, X):
        X = self._new_table(X).X
        found = np.zeros((len(X), len(self.classes_)))
        for copy in self.estimators_:
            found[:, copy.classes_] += copy.predict_proba(X) / len(self.estimators_)
        return found


class BaggingRegressor(_Bagging, Regressor):
    r"""The mean of any regressor over drawn rows (trees, if none is given).

    `predict_dist` is $N(\bar m, \bar v + \mathrm{Var}_t[m_t])$ with the means and variances of the copies'
    predictions.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    >>> BaggingRegressor(random_state=0).fit(X, y).predict([[0.2]])
    array([0.])
    """

    _accepts_missing = True

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self._fit_copies(rows, TreeRegressor() if self.estimator is None else self.estimator)
        return self

    def predict(self, X):
        X = self._new_table(X).X
        return np.mean([copy.predict(X) for copy in self.estimators_], axis=0)

    def predict_dist(self, X) -> Normal:
        X = self._new_table(X).X
        found = [copy.predict_dist(X) for copy in self.estimators_]
        means, variances = (
            np.stack([np.asarray(getattr(d, m)) for d in found]) for m in ("mean", "variance")
        )
        return normal_of(means.mean(0), split_variance(means, variances).total)


def _draw_classes(weights: np.ndarray, y: np.ndarray, seed: Any, least_values: int) -> np.ndarray:
    """Drawn rows of at least so many classes: a draw of one class alone is drawn again."""
    drawn = draw_rows(weights, seed)
    if len(np.unique(y[drawn > 0])) >= least_values:
        return drawn
    return _draw_classes(weights, y, (int(seed) * 6364136223846793005 + 1) % 2**64, least_values)
