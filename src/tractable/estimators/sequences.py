"""Classes of whole sequences as a scikit-learn estimator; the mathematics is in `neural.sequence_reader`."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check, check_finite, check_length
from tractable.core.rows import level_and_size
from tractable.estimators.base import Classifier, key_from
from tractable.neural.sequence_reader import LAYERS, SequenceReader, fit_sequence_reader
from tractable.statespace.hmm.sequences import Sequences, as_sequences

__all__ = ["SequenceClassifier"]

_COUNT = [Interval(Integral, 1, None, closed="left")]


class SequenceClassifier(Classifier):
    """A class for each sequence, by recurrent cells or state-space layers that read it to its end.

    Sequences are a list of arrays (rows, columns), an array with three axes, or rows one after the other
    with their `lengths`, alone or as the pair (rows, lengths); they may differ in length. `layer` is "gru",
    "lstm", "rnn", "state_space" or "selective". `validation_fraction` of the sequences say when to stop;
    fewer than 30 are all learned from.

    >>> numbers = np.random.default_rng(0)
    >>> rising = np.arange(60) % 2
    >>> X = [np.cumsum(0.5 * r - 0.25 + 0.3 * numbers.normal(size=(9, 1)), axis=0) for r in rising]
    >>> SequenceClassifier(hidden_size=8, random_state=0).fit(X, rising).score(X, rising) > 0.9
    True
    """

    _tabular: ClassVar[bool] = False  # a row of `X` is no example
    _parameter_constraints: ClassVar[dict] = {
        "layer": [StrOptions(set(LAYERS))], "hidden_size": _COUNT, "n_layers": _COUNT,
        "learning_rate": [Interval(Real, 0, None, closed="neither")], "batch_size": _COUNT,
        "max_iter": _COUNT, "patience": _COUNT, "random_state": ["random_state"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    }  # fmt: skip
    model_: SequenceReader

    def __init__(self, layer="gru", *, hidden_size=32, n_layers=1, learning_rate=1e-2, batch_size=16,
                 max_iter=100, patience=15, validation_fraction=0.2, random_state=None):  # fmt: skip
        self.layer = layer
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X, y, lengths=None):
        """Fit to sequences and the class of each."""
        self._validate_params()
        held, labels = _sequences(X, lengths), np.asarray(y)
        check_classification_targets(labels)
        count = held.num_sequences
        check(labels.shape == (count,), "y", f"one class for each of {count} sequences", labels.shape)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        several = len(self.classes_) >= self._least_classes
        check(several, "y", f"at least {self._least_classes} classes", f"one class, {self.classes_[0]!r}")
        rows = np.asarray(held.rows, float)
        self.centre_, self.size_ = level_and_size(rows, np.ones(len(rows)))
        self.n_features_in_ = rows.shape[1]
        self.model_ = fit_sequence_reader(
            (rows - self.centre_) / self.size_, held.starts, codes, len(self.classes_),
            key=key_from(self.random_state), layer=self.layer, hidden=self.hidden_size,
            num_layers=self.n_layers, learning_rate=float(self.learning_rate), batch=self.batch_size,
            epochs=self.max_iter, patience=self.patience, share=float(self.validation_fraction),
        )  # fmt: skip
        return self

    def predict_proba(self, X, lengths=None) -> np.ndarray:
        """The probability of each class for each sequence, in the order of `classes_`."""
        check_is_fitted(self)
        held = _sequences(X, lengths)
        columns = held.rows.shape[1]
        check(columns == self.n_features_in_, "X", f"rows of {self.n_features_in_} columns", columns)
        rows = (np.asarray(held.rows, float) - self.centre_) / self.size_
        return softmax(self.model_.outputs(rows, held.starts), axis=1)

    def score(self, X, y, sample_weight=None, lengths=None) -> float:
        """The share of sequences whose class is predicted right."""
        found = self.classes_[self.predict_proba(X, lengths).argmax(1)]
        check_length("y", np.asarray(y), "X", found)
        return float(np.average(found == np.asarray(y), weights=sample_weight))


def _sequences(X: Any, lengths: Any) -> Sequences:
    """Sequences of rows of numbers, in any of the forms; a single table of rows is one sequence."""
    listed = X if isinstance(X, list) else []
    flat = {len(x) for x in listed if hasattr(x, "__len__") and np.shape(x[:1]) == (1,)}
    fix = "One column: `np.reshape(x, (-1, 1))`."
    check(len(flat) < 2, "X", "sequences of rows", "sequences of numbers", fix)
    held = as_sequences(X if lengths is None else (np.asarray(X, float), np.asarray(lengths)), 1)
    check_finite("X", np.asarray(held.rows, float))
    least = int(held.lengths.min()) if held.num_sequences else 0
    check(least > 0, "X", "sequences of at least one row", "one without rows")
    return held
