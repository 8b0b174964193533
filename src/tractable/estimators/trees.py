"""Trees as scikit-learn estimators; the mathematics is in `supervised.trees.tree` and beside it.

Model.       Class shares or means of leaves.
Weights.     A row of weight two gives the same fit as the row twice; `min_samples_leaf` counts weights.
Missing.     Missing entries go where more is gained.
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
from tractable.supervised.trees.growth import fit_tree
from tractable.supervised.trees.held_out import held_out_ratio

__all__ = ["CLASSES", "COLUMNS", "COUNT", "GROWTH", "Grown", "TreeClassifier", "TreeRegressor", "normal_of"]

COUNT = [Interval(Integral, 1, None, closed="left")]
GROWTH = {
    "max_depth": [Interval(Integral, 1, None, closed="left"), None],
    "min_samples_leaf": [Interval(Real, 0, None, closed="neither")],
}
CLASSES = {"criterion": [StrOptions({"gini", "entropy"})], **CALIBRATE}
COLUMNS = {
    "max_features": [
        StrOptions({"sqrt", "all"}), *COUNT, Interval(Real, 0, 1, closed="right"), None
    ],
    "random_state": ["random_state"],
}  # fmt: skip
_SINGLE = {
    "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
    "ccp_alpha": [Interval(Real, 0, None, closed="left")],
}


class Grown:
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


class TreeClassifier(Grown, CalibratedClassifier):
    r"""CART for classes: exact greedy splits that decrease $\sum_v |S_v| I(S_v)$, $I$ Gini or entropy.

    `max_leaf_nodes` grows the best split first, `ccp_alpha` prunes at the weakest link,
    missing entries are welcome.

    >>> TreeClassifier().fit([[1.0], [2.0], [3.0]], ["a", "a", "b"]).predict([[2.4], [2.6]]).tolist()
    ['a', 'b']
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {**CLASSES, **GROWTH, **_SINGLE, **COLUMNS}

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


class TreeRegressor(Grown, Regressor):
    r"""CART for numbers: splits that decrease the sum of squares; a leaf answers with its mean.

    `predict_dist` is Student's t about $\bar y$ with variance in proportion to $(W v + v_0)/(W + 1)$: the
    leaf's weight $W$ and variance $v$, and one pseudo-row with the variance $v_0$ of all targets. How far off
    that is, trees grown without a fifth of the rows tell (`held_out_ratio_`; not with `calibrate=False`).

    >>> X, y = [[1.0], [2.0], [3.0]], [0.0, 0.0, 6.0]
    >>> TreeRegressor(max_depth=1).fit(X, y).predict([[0.0], [9.0]]).tolist()
    [0.0, 6.0]
    """

    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {**GROWTH, **_SINGLE, **COLUMNS, **CALIBRATE}

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
