"""Gaussian discriminants as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics
is in `supervised.generative.discriminant`."""

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tractable.estimators.calibrated import CALIBRATE, GenerativeClassifier
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant

__all__ = ["LinearDiscriminantClassifier", "QuadraticDiscriminantClassifier"]


class _Discriminant(GenerativeClassifier):
    _accepts_missing = True
    _tied: ClassVar[bool]
    _parameter_constraints: ClassVar[dict] = {
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "diagonal": ["boolean"],
        "variance_floor": [Interval(Real, 0, None, closed="left")],
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    def __init__(
        self, *, shrinkage=0.0, diagonal=False, variance_floor=1e-6, class_probs=None, calibrate=True
    ):  # fmt: skip
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.variance_floor = variance_floor
        self.class_probs = class_probs
        self.calibrate = calibrate

    def _model_of(self, rows):
        return fit_gaussian_discriminant(
            rows, tied=self._tied, diagonal=self.diagonal,
            shrinkage=self.shrinkage, floor=self.variance_floor, class_probs=self.class_probs,
            num_classes=len(self.classes_),
        )  # fmt: skip

    def decision_function(self, X) -> np.ndarray:
        """Scores whose largest decides; for two classes, the log-odds of the second."""
        if self.calibrate:
            scores = self.predict_log_proba(X)
        else:
            rows = self._new_table(X)
            scores = self.model_.discriminant(rows)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @property
    def means_(self) -> np.ndarray:
        """The mean of each class."""
        check_is_fitted(self)
        return self.model_.means


class LinearDiscriminantClassifier(_Discriminant):
    r"""Gaussian classes with one covariance: $\log p(c \mid x) = w_c^\top x + b_c + $ constant.

    `shrinkage` from 0 to 1 moves the covariance to its diagonal; `diagonal` leaves out all covariances;
    `variance_floor`, relative to the variance of each column, keeps it regular where columns depend on each
    other, and `model_` says so. Missing entries are marginalised; in a fit by expectation-maximisation.
    `partial_fit` adds statistics of complete rows: many small fits are one large one.

    >>> LinearDiscriminantClassifier().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1]).predict([[2.9]]).item()
    0
    """

    _tied = True


class QuadraticDiscriminantClassifier(_Discriminant):
    r"""Gaussian classes with a covariance each: $\log p(c \mid x)$ is quadratic in $x$.

    `shrinkage` from 0 to 1 moves each covariance to the diagonal of their mean: positive values allow classes
    with few rows. Missing entries are marginalised; in a fit by expectation-maximisation. `partial_fit` adds
    statistics of complete rows: many small fits are one large one.

    >>> X = [[-1.0], [1.0], [-9.0], [9.0]]
    >>> QuadraticDiscriminantClassifier().fit(X, [0, 0, 1, 1]).predict([[2.0]]).item()
    0
    """

    _tied = False
