r"""Bagging: any estimator, averaged over fits to drawn rows.

Model.       Copy $t$ is fitted to rows drawn in proportion to their weights; the answer is their mean,
             and its variance $\bar v + \mathrm{Var}_t[m_t]$.
Weights.     Draws are places on the line of weights, so a row of weight two gives the fit of the row twice.
"""

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import has_fit_parameter

from tractable.core.chunks import pad_rows
from tractable.core.host_random import seeds
from tractable.core.progress import track
from tractable.core.rows import Rows
from tractable.core.types import Key
from tractable.distributions.base import Distribution
from tractable.estimators.base import Regressor, key_from, student_rows
from tractable.estimators.calibrated import CALIBRATE, CalibratedClassifier
from tractable.estimators.trees import TreeClassifier, TreeRegressor, normal_of
from tractable.supervised.selection.held_out import calibrated_by_votes, is_refusal
from tractable.supervised.trees.columns import canonical_order, code_columns, copy_groups
from tractable.supervised.trees.forests import draw_rows

__all__ = ["BaggingClassifier", "BaggingRegressor"]


class _Copies(NamedTuple):
    """Fitted copies, the rows in an order of their own, and which of them each copy has not seen:
    those that it drew neither themselves nor as another copy of the row."""

    copies: list
    rows: Any = None
    unseen: Any = None


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

    def _copies_of(self, rows: Rows, base: Any, key: Key, least_values: int = 1) -> "_Copies":
        columns, targets = code_columns(rows.X), np.asarray(rows.y, float)
        order = canonical_order(columns, targets)
        group = copy_groups(columns, targets, order)
        rows = rows.take(order)
        X, y, weights = rows
        starts = seeds(key, 2 * self.n_estimators)
        weighted = has_fit_parameter(base, "sample_weight")
        copies, unseen = [], []
        for seed in track(starts.reshape(-1, 2), label="Fitting copies"):
            drawn = _draw_classes(weights, y, seed[0], least_values)
            copy: Any = clone(base)
            if "random_state" in copy.get_params():
                copy.set_params(random_state=int(seed[1] % 2**31))
            unseen.append(np.bincount(group, drawn)[group] == 0)
            kept = drawn > 0
            counts = drawn[kept].astype(int)
            if weighted:
                copies.append(copy.fit(X[kept], y[kept], sample_weight=drawn[kept]))
            else:
                copies.append(copy.fit(np.repeat(X[kept], counts, 0), np.repeat(y[kept], counts)))
        return _Copies(copies, rows, np.stack(unseen))


class BaggingClassifier(_Bagging, CalibratedClassifier):
    """The mean of the class probabilities of any classifier over drawn rows (trees, if none is given).

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    >>> BaggingClassifier(random_state=0).fit(X, y).predict([[0.2]])
    array([0])
    """

    _accepts_missing = True
    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {**_Bagging._parameter_constraints, **CALIBRATE}

    def __init__(self, estimator=None, n_estimators=10, *, calibrate=True, random_state=None):
        super().__init__(estimator, n_estimators, random_state=random_state)
        self.calibrate = calibrate

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        self.estimators_ = self.__dict__.pop("model_").copies
        return self

    def _model_of(self, rows):
        base = TreeClassifier(calibrate=False) if self.estimator is None else self.estimator
        return self._copies_of(
            rows, base, key_from(self.random_state), least_values=min(2, len(np.unique(rows.y)))
        )

    def _calibration_of(self, rows):
        found = self.model_
        calibration = calibrated_by_votes(found.rows, self._votes(found.copies, found.rows.X, found.unseen))
        return super()._calibration_of(rows) if calibration is None else calibration

    def _shares(self, model, rows):
        return self._votes(model.copies, rows.X, np.ones((len(model.copies), rows.num_rows), bool))

    def _votes(self, copies, X, asked) -> np.ndarray:
        """The mean over the copies that are asked of each row; NaN where none is."""
        found = np.zeros((len(X), len(self.classes_)))
        for copy, own in zip(copies, asked):
            if own.any():
                found[np.ix_(own, copy.classes_)] += copy.predict_proba(X[own])
        count = np.sum(asked, axis=0)[:, None]
        return np.divide(found, count, out=np.full_like(found, np.nan), where=count > 0)

    def predict_proba(self, X):
        rows = self._new_table(X)
        found = self._shares(_Copies(self.estimators_), rows)
        return found if self.calibration_ is None else self.calibration_(found)


class BaggingRegressor(_Bagging, Regressor):
    r"""The mean of any regressor over drawn rows (trees, if none is given).

    `predict_dist` is Student's t about $\bar m$ with $\bar v + \mathrm{Var}_t[m_t]$, the means and variances
    of the copies' predictions, in proportion: how far off that is, rows tell that copies have not seen
    (`out_of_bag_ratio_`).

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    >>> BaggingRegressor(random_state=0).fit(X, y).predict([[0.2]])
    array([0.])
    """

    _accepts_missing = True

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        base = TreeRegressor(calibrate=False) if self.estimator is None else self.estimator
        self.estimators_, rows, unseen = self._copies_of(rows, base, key_from(self.random_state))
        self.out_of_bag_ratio_, self.degrees_ = 1.0, 0.0
        if all(hasattr(copy, "predict_dist") for copy in self.estimators_):
            self.out_of_bag_ratio_, self.degrees_ = self._ratio(rows, unseen)
        return self

    def predict(self, X):
        X = self._new_table(X).X
        return np.mean([copy.predict(X) for copy in self.estimators_], axis=0)

    def predict_dist(self, X) -> Distribution:
        X = self._new_table(X).X
        mean, variance = self._moments(X, np.ones((len(self.estimators_), len(X)), bool))
        found = normal_of(mean, self.out_of_bag_ratio_ * variance)
        return student_rows(self.degrees_, found.loc, found.scale) if self.degrees_ > 0 else found

    def _moments(self, X, asked) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of each row by the copies that are asked; NaN where none is."""
        padded, _ = pad_rows(X)  # all rows at once: a new number of them compiles nothing
        said = [copy.predict_dist(padded) for copy in self.estimators_]
        means, variances = (
            np.stack([np.asarray(getattr(each, name))[: len(X)] for each in said])
            for name in ("mean", "variance")
        )
        count = np.maximum(asked.sum(0), 1)
        centre = np.where(asked, means, 0.0).sum(0) / count
        noise = np.where(asked, variances, 0.0).sum(0) / count
        disagreement = (np.where(asked, means - centre, 0.0) ** 2).sum(0) / count
        return np.where(asked.any(0), centre, np.nan), noise + disagreement

    def _ratio(self, rows, unseen) -> tuple[float, float]:
        """The squared errors of rows by the copies that have not seen them over what these promise, and how
        many rows that rests on less one."""
        try:
            mean, variance = self._moments(rows.X, unseen)
        except ValueError as error:
            if not is_refusal(error):
                raise
            return 1.0, 0.0  # a copy refuses a distribution, and will say so when asked for one
        known = ~np.isnan(mean) & (variance > 0) & np.isfinite(variance)
        if known.sum() < 2:
            return 1.0, 0.0
        ratios = (rows.y[known] - mean[known]) ** 2 / variance[known]
        return float(np.average(ratios, weights=rows.weights[known])), float(known.sum() - 1)


def _draw_classes(weights: np.ndarray, y: np.ndarray, seed: Any, least_values: int) -> np.ndarray:
    """Drawn rows of at least so many classes: a draw of one class alone is drawn again."""
    drawn = draw_rows(weights, seed)
    if len(np.unique(y[drawn > 0])) >= least_values:
        return drawn
    return _draw_classes(weights, y, (int(seed) * 6364136223846793005 + 1) % 2**64, least_values)
