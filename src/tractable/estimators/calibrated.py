"""Classifiers whose probabilities are calibrated by rows that were held out.

What a model says of a row (`_shares`) is drawn towards the base rate, or made sharper, by how fits that had
not seen a row did on it (`supervised.selection.tempering`): `calibration_` says how far it is believed.
`calibrate=False` leaves the model's own probabilities, and costs no further fits.
"""

from typing import Any, ClassVar

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.rows import Rows
from tractable.estimators.base import Classifier
from tractable.supervised.selection.held_out import calibrated_by_folds
from tractable.supervised.selection.tempering import TemperedShares

__all__ = ["CALIBRATE", "CalibratedClassifier", "GenerativeClassifier"]

_ENOUGH = 20_000  # rows, and fifty for each number of the model: what a fit has seen is as good as new
_CHOSEN = 2_000  # of so many rows
_FEW = 2_048  # rows: below, threads of the linear algebra spend their time waiting for each other

CALIBRATE: dict[str, list] = {"calibrate": ["boolean"]}


class CalibratedClassifier(Classifier):
    """A classifier with a model of its own, whose probabilities are calibrated by folds."""

    _parameter_constraints: ClassVar[dict] = CALIBRATE
    _parametric: ClassVar[bool] = False  # of few numbers beside many rows, which it cannot learn by heart
    model_: Any
    calibrate: bool
    calibration_: TemperedShares | None

    def _model_of(self, rows: Rows) -> Any:
        """The model of these rows, whose classes are those of all rows."""
        raise AttributeError(f"{type(self).__name__} has no model.")

    def _shares(self, model: Any, rows: Rows) -> np.ndarray:
        """What the model says of each class, in the order of `classes_`."""
        raise AttributeError(f"{type(self).__name__} has no class probabilities.")

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and classes."""
        return self._fit_rows(self._training_classes(X, y, sample_weight))

    def _fit_rows(self, rows: Rows):
        with one_blas_thread(rows.num_rows <= _FEW):
            self.model_ = self._model_of(rows)
            self.calibration_ = self._calibration_of(rows) if self.calibrate else None
        return self

    def _calibration_of(self, rows: Rows) -> TemperedShares:
        count = rows.num_rows
        if not self._parametric or count < max(_ENOUGH, 50 * rows.num_columns * len(self.classes_)):
            return calibrated_by_folds(rows, lambda seen, new: self._shares(self._model_of(seen), new))
        some = rows.take(np.arange(0, count, count // _CHOSEN))
        counts = np.bincount(rows.y, rows.weights, len(self.classes_))
        return TemperedShares.of(counts).add(self._shares(self.model_, some), some.y, some.weights)

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        found = np.asarray(self._shares(self.model_, rows))
        return found if self.calibration_ is None else self.calibration_(found)


class GenerativeClassifier(CalibratedClassifier):
    """A classifier with a density for each class, whose statistics add: rows may come in parts.

    Rows of `partial_fit` are calibrated before they are taken in, so that the model has not seen them.
    """

    _parametric = True

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take in more rows; `classes` lists all classes at the first call."""
        first = not hasattr(self, "model_")
        rows = self._further_classes(X, y, classes, sample_weight)
        if first:
            return self._fit_rows(rows)
        if self.calibration_ is not None:
            self.calibration_ = self.calibration_.add(self._shares(self.model_, rows), rows.y, rows.weights)
        self.model_ = self._updated(rows)
        return self

    def _updated(self, rows: Rows) -> Any:
        """The model with further rows."""
        return self.model_.update(rows)

    def _shares(self, model, rows):
        return np.exp(model.log_posterior(rows))

    def predict_log_proba(self, X) -> np.ndarray:
        """The log-probability of each class; an impossible class has -inf."""
        if self.calibrate:
            return super().predict_log_proba(X)
        rows = self._new_table(X)
        return self.model_.log_posterior(self._seen(rows))  # which does not round small ones to zero

    def _seen(self, rows: Rows) -> Rows:
        """The rows as the model sees them."""
        return rows

    def score_samples(self, X) -> np.ndarray:
        r"""$\log p(x)$ of each row under the model of all classes."""
        rows = self._new_table(X)
        return self.model_.log_prob(self._seen(rows))
