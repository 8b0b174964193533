"""Support vector machines as scikit-learn estimators; the mathematics is in `supervised.svm`."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.rows import Rows
from tractable.estimators.margins import (
    KERNEL_OPTIONS,
    POSITIVE,
    MarginClassifier,
    ResidualRegressor,
    chosen_kernel,
    fold_of_rows,
    kernel_units,
    merged,
)
from tractable.estimators.units import STANDARDISE, Units
from tractable.kernels.base import Kernel
from tractable.supervised.svm.bounds import leave_one_out_changes
from tractable.supervised.svm.least_squares import LeastSquaresMachine
from tractable.supervised.svm.multiclass import class_scores, fit_pairwise
from tractable.supervised.svm.primal import ascend_dual
from tractable.supervised.svm.regression import SupportVectorRegression

__all__ = [
    "LeastSquaresSupportVectorClassifier", "LeastSquaresSupportVectorRegressor",
    "LinearSupportVectorClassifier", "SupportVectorClassifier", "SupportVectorRegressor",
]  # fmt: skip

_CALIBRATION_ROWS = 2000  # enough for one or two slopes
_FEW = 2000  # rows: below, waiting threads of the linear algebra are in the way of the pairs
_FOLDS = 5
_FOLD_TOLERANCE = 1e-2  # of decisions that only calibrate


class SupportVectorClassifier(MarginClassifier):
    r"""The widest street between classes: $\min\tfrac12\|w\|^2 + C\sum_i w_i[1 - y_i f(x_i)]_+$.

    Any kernel, over columns of mean zero and size one (`standardise`: `estimators.units`; "common" where they
    share a unit; a kernel object sees them as they are); several classes by one machine per pair.
    Probabilities are slopes on leave-one-out decisions (the span rule, no refits), or, with `folds`, on
    decisions of that many folds; they agree with `predict` and `decision_function`.
    `probability=False` leaves them out.

    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], ["even", "even", "odd", "odd"]
    >>> SupportVectorClassifier(C=10.0, gamma=2.0).fit(X, y).predict([[0.1, 0.0], [0.9, 0.0]]).tolist()
    ['even', 'odd']
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [POSITIVE],
        **KERNEL_OPTIONS,
        "tol": [POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "probability": ["boolean"],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
    }

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        standardise=True,
        tol=1e-3,
        max_iter=None,
        probability=True,
        folds=None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter
        self.probability = probability
        self.folds = folds

    def fit(self, X, y, sample_weight=None):
        rows, first = merged(self._training_classes(X, y, sample_weight))
        self.units_ = kernel_units(self, rows)
        rows = self.units_(rows)
        kernel = chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows.X, rows.weights)
        spanned = self.probability and self.folds is None
        with one_blas_thread(len(rows.X) <= _FEW):
            self.model_, left_out = self._machine(kernel, rows, _CALIBRATION_ROWS if spanned else 0)
        self.n_iter_, self.support_ = max(int(self.model_.num_steps), 1), first[self.model_.support]
        if self.probability:
            chosen, decisions = self._folds(kernel, rows) if left_out is None else left_out
            values = (
                decisions[:, 0] if len(self.classes_) == 2 else class_scores(decisions, len(self.classes_))
            )
            self._calibrate(values, rows.y[chosen], rows.weights[chosen])
        return self

    def _machine(self, kernel: Kernel, rows: Rows, left_out: int) -> Any:
        options: Any = {"tol": float(self.tol), "max_steps": self.max_iter, "left_out": left_out}
        return fit_pairwise(rows, kernel=kernel, C=float(self.C), **options)

    def _folds(self, kernel: Kernel, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Decisions of machines that were fitted without the fold of each row."""
        count, fold = len(self.classes_), fold_of_rows(rows.y, int(self.folds or 5))
        least = int(np.bincount(rows.y).min())
        check(least > 1, "folds", "None where a class has one distinct row", self.folds)
        decisions = np.empty((len(rows.y), count * (count - 1) // 2))
        for test in (fold == f for f in np.unique(fold)):
            machine = self._machine(kernel, rows.take(~test), 0)[0]
            decisions[test] = machine.decisions(rows.take(test))
        return np.arange(len(rows.y)), decisions

    def _decisions(self, X):
        decisions = self.model_.decisions(X)
        return decisions[:, 0] if len(self.classes_) == 2 else class_scores(decisions, len(self.classes_))


class LinearSupportVectorClassifier(MarginClassifier):
    r"""The linear hinge machine by dual coordinate ascent, for many rows: $\min\tfrac12\|w\|^2 + \tfrac12b^2
    + C\sum_i w_i\xi_i$.

    Several classes one against the rest, over columns of mean zero and standard deviation one (`standardise`;
    coefficients are in the units of the data either way). The bias is penalised like a weight. Probabilities
    are slopes on decisions of planes that were fitted without the fold of a row.

    >>> fitted = LinearSupportVectorClassifier().fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> fitted.predict([[0.2], [3.9]]).tolist()
    [0, 1]
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [POSITIVE],
        **STANDARDISE,
        "tol": [POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, C=1.0, *, standardise=True, tol=1e-4, max_iter=10000):
        self.C = C
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X, y, sample_weight=None):
        rows, _ = merged(self._training_classes(X, y, sample_weight), arranged=True)
        units = Units.of(rows, standardise=self.standardise)
        rows = units(rows)
        options = {"tol": self.tol, "max_epochs": self.max_iter}
        tables = self._one_against_rest(rows)
        self.model_ = tuple(ascend_dual(table, C=float(self.C), **options) for table in tables)
        self.coef_ = np.array([plane.weights / units.size for plane in self.model_])
        self.intercept_ = np.array([plane.bias for plane in self.model_]) - self.coef_ @ units.centre
        self.n_iter_ = max(plane.num_steps for plane in self.model_)
        chosen = np.sort(generator(0).permutation(len(rows.y))[:_CALIBRATION_ROWS])
        left_out = self._left_out(rows, tables, chosen)
        values = left_out[:, 0] if left_out.shape[1] == 1 else left_out
        self._calibrate(values, rows.y[chosen], rows.weights[chosen])
        return self

    def _left_out(self, rows: Rows, tables: list[Rows], chosen: np.ndarray) -> np.ndarray:
        """Decisions of planes that were fitted again without the fold of each row, from where they stand.

        The span rule would not do: it holds the sets on the margin and at the bound fixed, and with as few
        vectors on the margin as columns, or fewer, it moves decisions by units, a refit by hundredths.
        """
        codes, decisions = rows.y[chosen], np.empty((len(chosen), len(tables)))
        lone = np.bincount(codes)[codes] == 1
        fold = fold_of_rows(np.where(lone, -1, codes), _FOLDS)
        for test in (fold == f for f in np.unique(fold)):
            keep = np.delete(np.arange(len(rows.y)), chosen[test])
            tol, held = max(self.tol, _FOLD_TOLERANCE), rows.take(chosen[test])
            for column, (plane, table) in enumerate(zip(self.model_, tables)):
                start = np.asarray(plane.multipliers)[keep]
                refit = ascend_dual(table.take(keep), C=float(self.C), start=start, tol=tol)
                decisions[test, column] = refit.decision(held)
        return decisions

    def _decisions(self, X):
        values = X.X @ self.coef_.T + self.intercept_
        return values[:, 0] if values.shape[1] == 1 else values


class SupportVectorRegressor(ResidualRegressor):
    r"""A tube that ignores errors below $\varepsilon$: $\min\tfrac12\|w\|^2 + C\sum_i w_i(|y_i - f(x_i)| -
    \varepsilon)_+$.

    Columns and targets have standard deviation one here (`standardise`; a kernel object sees columns as they
    are). `predict_dist` puts around $f$ the residuals that rows have when left out (the span rule): Laplace
    or Student's t, whichever makes them more likely; `residual_scale_` is its scale.

    >>> fitted = SupportVectorRegressor(C=100.0, epsilon=0.01).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> fitted.predict([[1.0]]).round(2).tolist()
    [1.0]
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [POSITIVE],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        **KERNEL_OPTIONS,
        "tol": [POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, C=1.0, *, epsilon=0.1, kernel="rbf", gamma="scale", degree=3, coef0=0.0, standardise=True,
        tol=1e-3, max_iter=None
    ):  # fmt: skip
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X, y, sample_weight=None):
        rows, first = merged(self._training_rows(X, y, sample_weight, y_numeric=True))
        self.units_ = kernel_units(self, rows, target=True)
        rows = self.units_(rows)
        kernel = chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows.X, rows.weights)
        settings = {"kernel": kernel, "C": float(self.C), "epsilon": float(self.epsilon)}
        options: Any = {**settings, "tol": float(self.tol), "max_steps": self.max_iter}
        self.model_ = SupportVectorRegression.fit(rows, **options)
        self.n_iter_, self.support_ = max(int(self.model_.num_steps), 1), first[self.model_.support]
        residuals = rows.y - self.model_.predict(rows) + self._changes(rows)
        self._model_residuals(residuals, rows.weights)
        return self

    def _changes(self, rows: Rows) -> np.ndarray:
        """How far leaving a row out moves its own prediction."""
        beta = np.zeros(len(rows.y))
        beta[self.model_.support] = self.model_.coefficients
        free = (beta != 0) & (np.abs(beta) < self.C * rows.weights)
        chosen = (
            np.arange(len(beta))
            if len(beta) <= _CALIBRATION_ROWS
            else self.model_.support[:_CALIBRATION_ROWS]
        )
        changes = np.zeros(len(beta))
        changes[chosen] = leave_one_out_changes(self.model_.kernel, rows.X, beta, free, chosen)
        return changes


class _LeastSquares:
    """The settings of the machines that a linear system gives."""

    _parameter_constraints: ClassVar[dict] = {"C": [POSITIVE], **KERNEL_OPTIONS}

    def __init__(self, C=1.0, *, kernel="rbf", gamma="scale", degree=3, coef0=1.0, standardise=True):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.standardise = standardise

    def _chosen_kernel(self, rows: Rows) -> Kernel:
        return chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows.X, rows.weights)


class LeastSquaresSupportVectorClassifier(_LeastSquares, MarginClassifier):
    r"""Ridge on labels among the features of a kernel, with a free bias: one linear system per class.

    Several classes one against the rest. Leave-one-out decisions are exact here, and give the probabilities.

    >>> fitted = LeastSquaresSupportVectorClassifier().fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> fitted.predict([[0.5]]).tolist()
    [0]
    """

    def fit(self, X, y, sample_weight=None):
        rows, _ = merged(self._training_classes(X, y, sample_weight))
        self.units_ = kernel_units(self, rows)
        rows = self.units_(rows)
        kernel = self._chosen_kernel(rows)
        tables = (replace(table, y=table.signs, classes=None) for table in self._one_against_rest(rows))
        self.model_ = tuple(LeastSquaresMachine.fit(table, None, kernel, float(self.C)) for table in tables)
        left_out = np.column_stack([machine.left_out for machine in self.model_])
        self._calibrate(left_out[:, 0] if left_out.shape[1] == 1 else left_out, rows.y, rows.weights)
        return self

    def _decisions(self, X):
        values = np.column_stack([machine.decision(X) for machine in self.model_])
        return values[:, 0] if values.shape[1] == 1 else values


class LeastSquaresSupportVectorRegressor(_LeastSquares, ResidualRegressor):
    r"""Kernel ridge with a free bias, $\lambda = 1/C$; residuals from exact leave-one-out predictions.

    >>> fitted = LeastSquaresSupportVectorRegressor(C=1e6).fit([[0.0], [1.0], [2.0]], [5.0, 6.0, 5.0])
    >>> fitted.predict([[1.0]]).round(2).tolist()
    [6.0]
    """

    def fit(self, X, y, sample_weight=None):
        rows, _ = merged(self._training_rows(X, y, sample_weight, y_numeric=True))
        self.units_ = kernel_units(self, rows, target=True)
        rows = self.units_(rows)
        kernel = self._chosen_kernel(rows)
        self.model_ = LeastSquaresMachine.fit(rows, None, kernel, float(self.C))
        self._model_residuals(rows.y - self.model_.left_out, rows.weights)
        return self
