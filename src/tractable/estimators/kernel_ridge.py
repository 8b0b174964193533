"""Kernel ridge regression as a scikit-learn estimator; the mathematics is in
`supervised.linear.kernel_ridge`."""

from typing import ClassVar

import numpy as np

from tractable.distributions.student import StudentT
from tractable.estimators.base import Regressor, student_rows
from tractable.estimators.margins import KERNEL_OPTIONS, POSITIVE, chosen_kernel, kernel_units, merged
from tractable.supervised.linear.kernel_ridge import KernelRidge

__all__ = ["KernelRidgeRegressor"]


class KernelRidgeRegressor(Regressor):
    r"""Ridge among the features of a kernel: $a = (K + \alpha I)^{-1}y$, $f(x) = \sum_j a_j k(x_j, x)$.

    Columns and targets have mean zero and standard deviation one here (`standardise`; a kernel object sees
    columns as they are). `predict_dist` reads it as a Gaussian process with the same mean, whose amplitude is
    integrated out: Student's t per row, wide where rows are far. `left_out_` are the predictions of each row
    without itself.

    >>> fitted = KernelRidgeRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> bool(fitted.predict_dist([[9.0]]).variance[0] > fitted.predict_dist([[1.0]]).variance[0])
    True
    """

    _parameter_constraints: ClassVar[dict] = {"alpha": [POSITIVE], **KERNEL_OPTIONS}

    def __init__(self, alpha=1.0, *, kernel="rbf", gamma="scale", degree=3, coef0=1.0, standardise=True):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.standardise = standardise

    def fit(self, X, y, sample_weight=None):
        rows, _ = merged(self._training_rows(X, y, sample_weight, y_numeric=True))
        self.units_ = kernel_units(self, rows, target=True)
        rows = self.units_(rows)
        kernel = chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows.X, rows.weights)
        self.model_ = KernelRidge.fit(rows, kernel=kernel, penalty=float(self.alpha))
        self.left_out_ = self.units_.back(self.model_.left_out)
        self.degrees_ = float(rows.total)
        return self

    def predict(self, X):
        """The mean of each row."""
        rows = self._new_table(X)
        return self.units_.back(self.model_.predict(rows))

    def predict_dist(self, X) -> StudentT:
        """Student's t per row: the reading as a Gaussian process of unknown amplitude."""
        rows = self._new_table(X)
        scale = self.units_.target_size * np.sqrt(self.model_.variance(rows))
        centre = self.units_.back(self.model_.predict(rows))
        return student_rows(self.degrees_, centre, scale)
