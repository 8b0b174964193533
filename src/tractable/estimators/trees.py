r"""Trees and ensembles of trees as scikit-learn estimators; the mathematics is in
`supervised.trees.tree` and beside it.

Model.       Trees: class shares or means of leaves. Forests: means over trees on drawn rows and columns.
             AdaBoost: $p_k \propto e^{2 V_k}$ of weighted votes.
Weights.     A row of weight two gives the same fit as the row twice, in every ensemble: draws are places on
             the line of weights. `min_samples_leaf` counts weights.
Missing.     Trees, forests and AdaBoost send missing entries where more is gained; rotations refuse them.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check
from tractable.distributions.continuous import Normal
from tractable.distributions.student import StudentT
from tractable.estimators.base import Regressor, key_from, student_rows
from tractable.estimators.calibrated import CALIBRATE, CalibratedClassifier
from tractable.supervised.selection.held_out import calibrated_by_votes
from tractable.supervised.trees.boosting import fit_adaboost
from tractable.supervised.trees.forests import fit_forest
from tractable.supervised.trees.growth import fit_tree
from tractable.supervised.trees.held_out import held_out_ratio
from tractable.supervised.trees.rotation import fit_rotation_forest

__all__ = [
    "AdaBoostClassifier", "ForestClassifier", "ForestRegressor",
    "RotationForestClassifier", "TreeClassifier", "TreeRegressor",
]  # fmt: skip

_COUNT = [Interval(Integral, 1, None, closed="left")]
_GROWTH = {
    "max_depth": [Interval(Integral, 1, None, closed="left"), None],
    "min_samples_leaf": [Interval(Real, 0, None, closed="neither")],
}
_CLASSES = {"criterion": [StrOptions({"gini", "entropy"})], **CALIBRATE}
_COLUMNS = {
    "max_features": [
        StrOptions({"sqrt", "all"}), *_COUNT, Interval(Real, 0, 1, closed="right"), None
    ],
    "random_state": ["random_state"],
}  # fmt: skip
_SINGLE = {
    "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
    "ccp_alpha": [Interval(Real, 0, None, closed="left")],
}
_ENSEMBLE = {"n_estimators": _COUNT, "n_jobs": [Integral, None]}


class _Grown:
    """What estimators with a tree model share."""

    model_: Any
    n_features_in_: int
    max_features: Any
    n_jobs: int | None

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of the decrease of impurity that each column brought."""
        check_is_fitted(self)
        return self.model_.feature_importance()

    def _num_features(self) -> int | None:
        """How many columns a node draws; None leaves it to the model."""
        if isinstance(self.max_features, Integral) or self.max_features is None:
            return None if self.max_features is None else min(int(self.max_features), self.n_features_in_)
        named = {"all": 1.0, "sqrt": self.n_features_in_**-0.5}
        share = named.get(self.max_features, self.max_features)
        return max(1, int(share * self.n_features_in_ + 1e-9))

    def _num_threads(self) -> int | None:
        return None if self.n_jobs is None or self.n_jobs < 1 else self.n_jobs


class TreeClassifier(_Grown, CalibratedClassifier):
    r"""CART for classes: exact greedy splits that decrease $\sum_v |S_v| I(S_v)$, $I$ Gini or entropy.

    `max_leaf_nodes` grows the best split first, `ccp_alpha` prunes at the weakest link,
    missing entries are welcome.

    >>> TreeClassifier().fit([[1.0], [2.0], [3.0]], ["a", "a", "b"]).predict([[2.4], [2.6]]).tolist()
    ['a', 'b']
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {**_CLASSES, **_GROWTH, **_SINGLE, **_COLUMNS}

    def __init__(self, criterion="gini", *, max_depth=None, min_samples_leaf=1, max_leaf_nodes=None,
                 max_features=None, ccp_alpha=0.0, calibrate=True, random_state=None):  # fmt: skip
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.max_features = max_features
        self.ccp_alpha = ccp_alpha
        self.calibrate = calibrate
        self.random_state = random_state

    def _model_of(self, rows):
        return fit_tree(
            rows, num_classes=len(self.classes_), key=key_from(self.random_state), criterion=self.criterion,
            max_depth=self.max_depth, min_samples_leaf=self.min_samples_leaf, max_leaves=self.max_leaf_nodes,
            max_features=self._num_features(), alpha=self.ccp_alpha,
        )  # fmt: skip

    def _shares(self, model, rows):
        return model.values(rows)

    def apply(self, X) -> np.ndarray:
        """The leaf of each row."""
        rows = self._new_table(X)
        return self.model_.apply(rows)


class TreeRegressor(_Grown, Regressor):
    r"""CART for numbers: splits that decrease the sum of squares; a leaf answers with its mean.

    `predict_dist` is Student's t about $\bar y$ with variance in proportion to $(W v + v_0)/(W + 1)$: the
    leaf's weight $W$ and variance $v$, and one pseudo-row with the variance $v_0$ of all targets. How far off
    that is, trees grown without a fifth of the rows tell (`held_out_ratio_`; not with `calibrate=False`).

    >>> X, y = [[1.0], [2.0], [3.0]], [0.0, 0.0, 6.0]
    >>> TreeRegressor(max_depth=1).fit(X, y).predict([[0.0], [9.0]]).tolist()
    [0.0, 6.0]
    """

    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {**_GROWTH, **_SINGLE, **_COLUMNS, **CALIBRATE}

    def __init__(self, *, max_depth=None, min_samples_leaf=1, max_leaf_nodes=None, max_features=None,
                 ccp_alpha=0.0, calibrate=True, random_state=None):  # fmt: skip
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.max_features = max_features
        self.ccp_alpha = ccp_alpha
        self.calibrate = calibrate
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        key = key_from(self.random_state)

        def grow(table):
            return fit_tree(
                table, key=key, criterion="variance", max_depth=self.max_depth,
                min_samples_leaf=self.min_samples_leaf, max_leaves=self.max_leaf_nodes,
                max_features=self._num_features(), alpha=self.ccp_alpha,
            )  # fmt: skip

        self.model_ = grow(rows)
        self.held_out_ratio_, self.degrees_ = 1.0, float(len(rows.y) - 1)
        if self.calibrate:
            self.held_out_ratio_, self.degrees_ = held_out_ratio(rows, grow)
        return self

    def predict(self, X):
        rows = self._new_table(X)
        return self.model_.predict(rows)

    def predict_dist(self, X) -> StudentT:
        rows = self._new_table(X)
        found = normal_of(self.model_.predict(rows), self.held_out_ratio_ * self.model_.variances(rows))
        fix = "Give two distinct rows or more."
        check(self.degrees_ > 0, "X", "of rows that can be held out for a distribution", "one", fix)
        return student_rows(self.degrees_, found.loc, found.scale)

    apply = TreeClassifier.apply


class ForestClassifier(_Grown, CalibratedClassifier):
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
        **_ENSEMBLE, **_CLASSES, **_GROWTH, **_COLUMNS, "bootstrap": ["boolean"]
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


class ForestRegressor(_Grown, Regressor):
    r"""A random forest for numbers, a third of the columns drawn for each node.

    `predict_dist` is $N(\bar m, \bar v + \mathrm{Var}_t[m_t])$: the law of total variance over trees with
    leaf means $m_t$ and leaf variances $v_t$ (with one pseudo-row of the out-of-bag error). `oob_score_` is
    the out-of-bag $R^2$.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0.0, 0.0, 1.0, 1.0] * 5
    >>> ForestRegressor(20, random_state=0).fit(X, y).predict([[0.2], [2.7]]).tolist()
    [0.0, 1.0]
    """

    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {**_ENSEMBLE, **_GROWTH, **_COLUMNS, "bootstrap": ["boolean"]}

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


class RotationForestClassifier(_Grown, CalibratedClassifier):
    """Trees on principal axes of random disjoint column subsets, all components kept.

    >>> X, y = [[0.0, 0.1], [0.2, 0.0], [1.0, 1.1], [1.2, 1.0]], [0, 0, 1, 1]
    >>> RotationForestClassifier(random_state=0).fit(X, y).predict(X).tolist()
    [0, 0, 1, 1]
    """

    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {
        **_ENSEMBLE, **_CLASSES, **_GROWTH, "subset_size": _COUNT, "random_state": ["random_state"]
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


class AdaBoostClassifier(_Grown, CalibratedClassifier):
    r"""AdaBoost with small trees: $\alpha_m = \frac12[\log\frac{1 - e_m}{e_m} + \log(K - 1)]$,
    $p_k \propto e^{2 V_k}$.

    `model_` has the errors of each round, and the bound on the training error.

    >>> AdaBoostClassifier(3).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]).predict([[0.2], [1.4]]).tolist()
    [0, 1]
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {"n_estimators": _COUNT, **_CLASSES, **_GROWTH}

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


def normal_of(mean: Any, variance: Any) -> Normal:
    """The normal distribution of each row; equal targets have none."""
    variance = np.asarray(variance)
    fix = "`predict` gives it; a point has no density."
    # equal targets leave a variance of rounding
    spread = np.sqrt(variance) > 8 * np.finfo(float).eps * np.abs(mean)
    check(bool(spread.all()), "y", "of more than one value for a distribution", "one value", fix)
    finite = bool(np.isfinite(variance).all())  # Student's t of two degrees or fewer has no variance
    check(finite, "X", "of enough distinct rows for a variance", "too few", "`predict` gives the mean.")
    scale: Any = np.sqrt(variance)
    return Normal(mean, scale)
