"""What estimators with margins share: the choice of a kernel, classes and probabilities from decision values.

Equal rows are merged before a fit, their weights added: what leave-one-out leaves out is a distinct row, and
a weight of two is the row twice to the last digit.
"""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.rows import Rows
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Laplace
from tractable.estimators.base import Classifier, Regressor, student_rows
from tractable.estimators.units import STANDARDISE, Units
from tractable.kernels.base import Kernel
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF
from tractable.supervised.svm.calibration import fit_temperature, fit_two_sided
from tractable.supervised.svm.gram import merge_rows
from tractable.supervised.trees.columns import canonical_order, code_columns

__all__ = [
    "KERNEL_OPTIONS",
    "POSITIVE",
    "MarginClassifier",
    "ResidualRegressor",
    "chosen_kernel",
    "fold_of_rows",
    "kernel_units",
    "merged",
]

POSITIVE = Interval(Real, 0, None, closed="neither")
KERNEL_OPTIONS: dict[str, list] = {
    "kernel": [StrOptions({"rbf", "linear", "poly"}), Kernel],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, 0, None, closed="left")],
    **STANDARDISE,
}


class MarginClassifier(Classifier):
    """Classes from decision values: the sign of one column, or the largest of several."""

    calibration_: Any

    def _decisions(self, X: Rows) -> np.ndarray:
        raise AttributeError(f"{type(self).__name__} has no decisions.")

    def decision_function(self, X):
        """The signed decision for the second of two classes, or a score per class."""
        return self._decisions(self._new_table(X))

    def predict(self, X):
        """The class with the largest score; of two, the second where the decision is positive."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(1)]

    def predict_proba(self, X):
        """Calibrated probabilities, whose largest is always that of the predicted class."""
        values = self.decision_function(X)
        fitted = hasattr(self, "calibration_")
        check(
            fitted, "probability", "True to have probabilities", False, "Fit again with it.", AttributeError
        )
        if values.ndim > 1:
            return self.calibration_(values)
        second = self.calibration_(values)
        return np.column_stack([1.0 - second, second])

    def _calibrate(self, left_out: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Slopes from decision values that have not seen their rows."""
        if left_out.ndim == 1:
            self.calibration_ = fit_two_sided(left_out, np.where(codes == 1, 1.0, -1.0), weights)
        else:
            self.calibration_ = fit_temperature(left_out, codes, weights)

    def _one_against_rest(self, rows: Rows) -> list[Rows]:
        """The rows with two classes: the second of two against the first, or each class against the rest."""
        chosen = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return [replace(rows, y=(rows.y == code).astype(np.int64), classes=(-1, 1)) for code in chosen]


class ResidualRegressor(Regressor):
    """A prediction with the residuals that rows have when they are left out: Laplace's or Student's around
    it."""

    model_: Any
    units_: Units
    laplace_: bool
    residual_scale_: float
    degrees_: float

    def predict(self, X):
        """The value of the expansion."""
        rows = self._new_table(X)
        return self.units_.back(self.model_.predict(rows))

    def predict_dist(self, X) -> Distribution:
        """Laplace or Student's t around the prediction, one per row."""
        centre = self.predict(X)
        if self.laplace_:
            return Laplace(jnp.asarray(centre), jnp.asarray(np.full(len(centre), self.residual_scale_)))
        return student_rows(self.degrees_, centre, self.residual_scale_)

    def _model_residuals(self, residuals: np.ndarray, weights: np.ndarray) -> None:
        """The family of the larger likelihood; residuals that are all zero leave a scale next to zero."""
        absolute = float(np.average(np.abs(residuals), weights=weights))
        deviation = float(np.sqrt(np.average(residuals**2, weights=weights)))
        least = float(np.finfo(float).tiny)
        sharp, flat = (
            np.log(2 * max(absolute, least)) + 1.0,
            np.log(max(deviation, least)) + 0.5 * (1 + np.log(2 * np.pi)),
        )
        self.laplace_ = bool(sharp < flat)
        self.residual_scale_ = max(absolute if self.laplace_ else deviation, least) * self.units_.target_size
        self.degrees_ = max(len(residuals) - 1.0, 1.0)


def kernel_units(made: Any, rows: Rows, *, target: bool = False) -> Units:
    """The units in which an estimator with a kernel sees rows; a kernel object speaks of columns as they
    are."""
    standardise = False if isinstance(made.kernel, Kernel) else made.standardise
    return Units.of(rows, standardise=standardise, target=target, tails=True)


def chosen_kernel(
    kernel: Any, gamma: Any, degree: int, offset: float, X: np.ndarray, weights: np.ndarray
) -> Kernel:
    """A kernel object as it is, or "rbf", "linear", "poly" with scikit-learn's `gamma`.

    `gamma="scale"` is one over the number of columns times the variance of all entries (with weights).
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel == "linear":
        return Linear()
    if gamma == "scale":
        mean = float(np.average(X.mean(1), weights=weights))
        variance = float(np.average(((X - mean) ** 2).mean(1), weights=weights))
        gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    elif gamma == "auto":
        gamma = 1.0 / X.shape[1]
    if kernel == "rbf":
        return RBF(1.0 / np.sqrt(2.0 * gamma))
    return float(gamma) ** degree * Polynomial(degree, offset / gamma)


def merged(rows: Rows, *, arranged: bool = False) -> tuple[Rows, np.ndarray]:
    """Distinct rows with their summed weights, and where each first stood.

    With `arranged` their order depends neither on that of the table nor on units: for methods that go
    through rows in turn.
    """
    first, weights = merge_rows(rows.X, rows.y, rows.weights)
    if arranged:
        order = canonical_order(code_columns(rows.X[first]), np.asarray(rows.y[first], float))
        first, weights = first[order], weights[order]
    elif len(first) == len(rows.y):
        return rows, first
    return replace(rows.take(first), weights=weights), first


def fold_of_rows(codes: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each row: every class is spread over the folds, in an order drawn with a fixed seed."""
    numbers, fold = generator(0), np.empty(len(codes), int)
    for code in np.unique(codes):
        own = numbers.permutation(np.flatnonzero(codes == code))
        fold[own] = np.arange(len(own)) % folds
    return fold
