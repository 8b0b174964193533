"""Nearest neighbours as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is in
`supervised.neighbours.search`."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.distributions.student import StudentT
from tractable.estimators.base import Regressor, student_rows
from tractable.estimators.calibrated import CALIBRATE, CalibratedClassifier
from tractable.estimators.units import STANDARDISE, Units
from tractable.supervised.neighbours.search import NearestNeighbours

__all__ = ["NeighboursClassifier", "NeighboursRegressor"]

_CONSTRAINTS: dict = {
    "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    "weights": [StrOptions({"uniform", "distance"})],
    **STANDARDISE,
}


class NeighboursClassifier(CalibratedClassifier):
    """The shares of the classes among the nearest rows; equal distances are ordered by index.

    A row of weight two is two neighbours: `n_neighbors` counts weights. With `weights="distance"` a vote is
    worth one over its distance. Columns are measured in their sizes (`standardise`: `estimators.units`).
    Shares of the classes among the neighbours are calibrated by folds (`calibrate`).

    >>> NeighboursClassifier(1).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).predict([[3.1]]).item()
    'b'
    """

    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {**_CONSTRAINTS, **CALIBRATE}

    def __init__(self, n_neighbors=5, *, weights="uniform", standardise=True, calibrate=True):
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.standardise = standardise
        self.calibrate = calibrate

    def _fit_rows(self, rows):
        """Keep the rows, and ask fits to some of them about the others."""
        self.units_ = Units.of(rows, standardise=self.standardise, tails=True)
        return super()._fit_rows(self.units_(rows))

    def _model_of(self, rows):
        return NearestNeighbours.fit(rows, None, int(self.n_neighbors), self.weights)

    def _shares(self, model, rows):
        return model.shares(rows, len(self.classes_))


class NeighboursRegressor(Regressor):
    """The average of the nearest rows' targets; equal distances are ordered by index.

    `predict_dist` is Student's t about the average whose scale is the root mean square error of predicting
    each training row from the others: what it promises is what it does on average, also with one neighbour.

    >>> NeighboursRegressor(1).fit([[0.0], [2.0], [4.0]], [0.0, 1.0, 5.0]).predict([[0.9], [1.1]]).tolist()
    [0.0, 1.0]
    """

    _parameter_constraints = _CONSTRAINTS

    def __init__(self, n_neighbors=5, *, weights="uniform", standardise=True):
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.standardise = standardise

    def fit(self, X, y, sample_weight=None):
        """Keep the rows."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self.units_ = Units.of(rows, standardise=self.standardise, tails=True)
        self.model_ = NearestNeighbours.fit(self.units_(rows), None, int(self.n_neighbors), self.weights)
        return self

    def predict(self, X) -> np.ndarray:
        """The average of the neighbours' targets."""
        rows = self._new_table(X)
        return self.model_.regression(rows)

    def predict_dist(self, X) -> StudentT:
        """Student's t per row: the average, with the leave-one-out error of the rows as its scale."""
        mean = self.predict(X)
        degrees = max(float(self.model_.weights.sum()) - 1, 1.0)
        return student_rows(degrees, mean, self.model_.residual_scale())
