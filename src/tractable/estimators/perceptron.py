"""The perceptron as a scikit-learn estimator; the mathematics is in `supervised.perceptrons.perceptron`."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tractable.core.rows import Rows
from tractable.core.types import Key
from tractable.estimators.base import key_from
from tractable.estimators.margins import MarginClassifier, fold_of_rows, merged
from tractable.estimators.units import Units
from tractable.supervised.perceptrons.perceptron import Perceptron

__all__ = ["PerceptronClassifier"]


class PerceptronClassifier(MarginClassifier):
    r"""A plane per class learnt from mistakes: $w \leftarrow w + y x$ where $y\,w^\top x \le 0$.

    Several classes are told apart one against the rest. Columns are put to mean zero and variance one first,
    with the weights of the rows. It stops at the first plane that separates; where none does, the average of
    the planes on the way decides. `mistakes_` holds the mistakes of each epoch of each class. Probabilities
    are slopes on the decisions of five folds.

    >>> fitted = PerceptronClassifier().fit([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"])
    >>> fitted.predict([[0.5], [3.5]]).tolist()
    ['a', 'b']
    """

    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(self, *, max_iter=1000, shuffle=False, random_state=None):
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        rows, _ = merged(self._training_classes(X, y, sample_weight), arranged=True)
        self.units_ = Units.of(rows)
        key = key_from(self.random_state) if self.shuffle else None
        points = self.units_(rows)
        self.model_ = self._planes(points, key)
        self.mistakes_ = [plane.mistakes for plane in self.model_]
        self.n_iter_ = max(len(plane.mistakes) for plane in self.model_)
        left_out, fold = np.empty((rows.num_rows, len(self.model_))), fold_of_rows(rows.y, 5)
        for test in (fold == f for f in np.unique(fold)):
            if not test.all():
                left_out[test] = _decided(self._planes(points.take(~test), key), points.take(test))
            else:  # a table of one row in each class has nothing to leave out
                left_out[test] = _decided(self.model_, points)[test]
        self._calibrate(left_out[:, 0] if len(self.classes_) == 2 else left_out, rows.y, rows.weights)
        return self

    def _planes(self, points: Rows, key: Key | None) -> tuple[Perceptron, ...]:
        options: Any = {"max_epochs": self.max_iter, "key": key}
        return tuple(Perceptron.fit(table, **options) for table in self._one_against_rest(points))

    def _decisions(self, X):
        values = _decided(self.model_, X)
        return values[:, 0] if len(self.classes_) == 2 else values


def _decided(planes: tuple[Perceptron, ...], points: Rows) -> np.ndarray:
    """A column per plane; where no plane separates, the average of those on the way decides."""
    columns = [p.decision(points) if p.status.ok else p.averaged_decision(points) for p in planes]
    return np.column_stack(columns)
