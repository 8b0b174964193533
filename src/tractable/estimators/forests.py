r"""Ensembles of trees as scikit-learn estimators; their mathematics is in `supervised.trees`.

Model.       Forests: means over trees on drawn rows and columns.
             AdaBoost: $p_k \propto e^{2 V_k}$ of weighted votes.
Weights.     A row of weight two gives the same fit as the row twice: draws are places on the line of weights.
Missing.     Forests and AdaBoost send missing entries where more is gained; rotations refuse them.
"""

from numbers import Integral
from typing import ClassVar

import numpy as np

from tractable.distributions.continuous import Normal
from tractable.estimators.base import Regressor, key_from
from tractable.estimators.calibrated import CalibratedClassifier
from tractable.estimators.trees import CLASSES, COLUMNS, COUNT, GROWTH, Grown, normal_of
from tractable.supervised.selection.held_out import calibrated_by_votes
from tractable.supervised.trees.boosting import fit_adaboost
from tractable.supervised.trees.forests import fit_forest
from tractable.supervised.trees.rotation import fit_rotation_forest

__all__ = ["AdaBoostClassifier", "ForestClassifier", "ForestRegressor", "RotationForestClassifier"]

_ENSEMBLE = {"n_estimators": COUNT, "n_jobs": [Integral, None]}


class ForestClassifier(Grown, CalibratedClassifier):
    r"""A random forest: trees on drawn rows, each node choosing among $\lfloor\sqrt d\rfloor$ drawn columns.

    `max_features="all"` is bagging. `oob_score_` is the accuracy on rows that a tree did not draw,
    `model_` splits the uncertainty of each row into noise and disagreement. The fit depends on
    `random_state` alone, whatever `n_jobs`.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    >>> ForestClassifier(20, random_state=0).fit(X, y).predict([[0.2], [2.7]]).tolist()
    [0, 1]
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {
        **_ENSEMBLE, **CLASSES, **GROWTH, **COLUMNS, "bootstrap": ["boolean"]
    }  # fmt: skip

    def __init__(self, n_estimators=100, *, criterion="gini", max_depth=None, min_samples_leaf=1,
                 max_features="sqrt", bootstrap=True, calibrate=True, n_jobs=None,
                 random_state=None):  # fmt: skip
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        self.oob_score_ = 1 - float(self.model_.out_of_bag_error)
        return self

    def _model_of(self, rows):
        return fit_forest(
            rows, num_classes=len(self.classes_), key=key_from(self.random_state),
            num_trees=self.n_estimators,
            criterion=self.criterion, max_depth=self.max_depth, min_samples_leaf=self.min_samples_leaf,
            max_features=self._num_features(), bootstrap=self.bootstrap, num_threads=self._num_threads(),
        )  # fmt: skip

    def _calibration_of(self, rows):
        found = calibrated_by_votes(rows, self.model_.out_of_bag) if self.bootstrap else None
        return super()._calibration_of(rows) if found is None else found

    def _shares(self, model, rows):
        return model.values(rows, self._num_threads())


class ForestRegressor(Grown, Regressor):
    r"""A random forest for numbers, a third of the columns drawn for each node.

    `predict_dist` is $N(\bar m, \bar v + \mathrm{Var}_t[m_t])$: the law of total variance over trees with
    leaf means $m_t$ and leaf variances $v_t$ (with one pseudo-row of the out-of-bag error). `oob_score_` is
    the out-of-bag $R^2$.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0.0, 0.0, 1.0, 1.0] * 5
    >>> ForestRegressor(20, random_state=0).fit(X, y).predict([[0.2], [2.7]]).tolist()
    [0.0, 1.0]
    """

    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {**_ENSEMBLE, **GROWTH, **COLUMNS, "bootstrap": ["boolean"]}

    def __init__(self, n_estimators=100, *, max_depth=None, min_samples_leaf=1, max_features=1 / 3,
                 bootstrap=True, n_jobs=None, random_state=None):  # fmt: skip
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self.model_ = fit_forest(
            rows, key=key_from(self.random_state), num_trees=self.n_estimators, criterion="variance",
            max_depth=self.max_depth, min_samples_leaf=self.min_samples_leaf,
            max_features=self._num_features(), bootstrap=self.bootstrap, num_threads=self._num_threads(),
        )  # fmt: skip
        spread = np.cov(rows.y, aweights=rows.weights, ddof=0) if len(rows.y) > 1 else 0.0
        self.oob_score_ = 1 - float(self.model_.out_of_bag_error / spread) if spread > 0 else float("nan")
        return self

    def predict(self, X):
        rows = self._new_table(X)
        return self.model_.values(rows, self._num_threads())[:, 0]

    def predict_dist(self, X) -> Normal:
        rows = self._new_table(X)
        mean = self.model_.values(rows, self._num_threads())[:, 0]
        return normal_of(mean, self.model_.uncertainty(rows).total)


class RotationForestClassifier(Grown, CalibratedClassifier):
    """Trees on principal axes of random disjoint column subsets, all components kept.

    >>> X, y = [[0.0, 0.1], [0.2, 0.0], [1.0, 1.1], [1.2, 1.0]], [0, 0, 1, 1]
    >>> RotationForestClassifier(random_state=0).fit(X, y).predict(X).tolist()
    [0, 0, 1, 1]
    """

    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {
        **_ENSEMBLE, **CLASSES, **GROWTH, "subset_size": COUNT, "random_state": ["random_state"]
    }  # fmt: skip
    feature_importances_: ClassVar[None] = None  # the axes are no columns  # pyright: ignore

    def __init__(self, n_estimators=10, *, subset_size=3, criterion="gini", max_depth=None,
                 min_samples_leaf=1, calibrate=True, n_jobs=None, random_state=None):  # fmt: skip
        self.n_estimators = n_estimators
        self.subset_size = subset_size
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _model_of(self, rows):
        return fit_rotation_forest(
            rows, num_classes=len(self.classes_), key=key_from(self.random_state),
            num_trees=self.n_estimators,
            subset_size=self.subset_size, criterion=self.criterion, max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf, num_threads=self._num_threads(),
        )  # fmt: skip

    def _shares(self, model, rows):
        return model.values(rows, self._num_threads())


class AdaBoostClassifier(Grown, CalibratedClassifier):
    r"""AdaBoost with small trees: $\alpha_m = \frac12[\log\frac{1 - e_m}{e_m} + \log(K - 1)]$,
    $p_k \propto e^{2 V_k}$.

    `model_` has the errors of each round, and the bound on the training error.

    >>> AdaBoostClassifier(3).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]).predict([[0.2], [1.4]]).tolist()
    [0, 1]
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {"n_estimators": COUNT, **CLASSES, **GROWTH}

    def __init__(self, n_estimators=50, *, max_depth=1, criterion="gini", min_samples_leaf=1, calibrate=True):
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.criterion = criterion
        self.min_samples_leaf = min_samples_leaf
        self.calibrate = calibrate

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        self.estimator_weights_, self.estimator_errors_ = self.model_.alphas, self.model_.errors
        return self

    def _model_of(self, rows):
        return fit_adaboost(
            rows, num_classes=len(self.classes_), num_rounds=self.n_estimators, criterion=self.criterion,
            max_depth=self.max_depth, min_samples_leaf=self.min_samples_leaf,
        )  # fmt: skip

    def _shares(self, model, rows):
        return model.probabilities(rows)
