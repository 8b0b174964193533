"""Perceptrons as scikit-learn estimators: laws, quantiles and classes; the mathematics is in `neural`.

Rows.        Columns are standardised, and so are targets that are numbers. Some rows are held out to say when
             to stop, so that a row of weight two and the row twice give fits that are alike, not equal.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check_count
from tractable.core.rows import Rows
from tractable.distributions.base import Distribution
from tractable.estimators.base import Classifier, Regressor, key_from
from tractable.estimators.units import Units
from tractable.neural.heads import MixtureOutputs, NormalOutputs, NumberOutputs, QuantileOutputs
from tractable.neural.losses import cross_entropy
from tractable.neural.tabular import TableNetwork, fit_table_network

__all__ = ["NeuralClassifier", "NeuralRegressor", "layer_sizes"]

_COUNT = [Interval(Integral, 1, None, closed="left")]
_NETWORK: dict[str, list] = {
    "hidden_layer_sizes": ["array-like", *_COUNT],
    "activation": [StrOptions({"relu", "tanh", "gelu", "softplus", "sigmoid"})],
    "decay": [Interval(Real, 0, None, closed="left")],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "batch_size": _COUNT,
    "max_iter": _COUNT,
    "patience": _COUNT,
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "random_state": ["random_state"],
}
_WEIGHTS = "held-out rows and mini-batches are drawn: a row twice is drawn twice"


def layer_sizes(given: Any) -> tuple[int, ...]:
    """The numbers of hidden neurons of each layer, from one number or several."""
    return tuple(check_count("hidden_layer_sizes", size) for size in np.atleast_1d(given).tolist())


class _Neural:
    """What both share: the options of a network and of its training."""

    expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    }
    units_: Units
    model_: TableNetwork

    def _fitted(self, rows: Rows, units: Units, loss: Any, num_outputs: int) -> Any:
        made: Any = self
        own, sizes = units(rows), made.hidden_layer_sizes
        self.model_ = fit_table_network(
            own.X, own.y, own.weights, loss, num_outputs, key=key_from(made.random_state),
            hidden=layer_sizes(sizes),
            activation=made.activation, decay=float(made.decay), learning_rate=float(made.learning_rate),
            batch=made.batch_size, epochs=made.max_iter, patience=made.patience,
            share=float(made.validation_fraction),
        )  # fmt: skip
        self.units_ = units
        return self

    @property
    def n_iter_(self) -> int:
        """Epochs of training."""
        return len(self.model_.training)

    @property
    def loss_curve_(self) -> np.ndarray:
        """The mean loss of each epoch, as met on the way."""
        return self.model_.training

    @property
    def validation_curve_(self) -> np.ndarray:
        """The mean loss of held-out rows after each epoch; empty where there were none."""
        return self.model_.validation


class NeuralRegressor(_Neural, Regressor):
    r"""A perceptron whose outputs are the law of each row: noise that changes with $x$, in any shape.

    `law` is "normal" (a mean and a variance), "mixture" (`n_components` normals) or "quantile" (fifteen
    levels from 0.01 to 0.99 that never cross). `validation_fraction` of the rows say when to stop: after
    `patience` epochs without a better loss, at the best weights. Fewer than 30 rows are all learned from,
    and then intervals are too narrow: `BayesianNeuralRegressor` keeps its promises there.
    `decay` is the penalty of the weights, `max_iter` the most epochs.

    >>> x = np.linspace(-2, 2, 400)
    >>> y = np.sin(2 * x) + np.exp(x - 2.5) * np.random.default_rng(0).normal(size=400)
    >>> model = NeuralRegressor((32,), learning_rate=0.01, random_state=0).fit(x[:, None], y)
    >>> low, high = model.predict_interval([[-1.0], [1.8]])
    >>> bool(high[1] - low[1] > 2 * (high[0] - low[0]))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **_NETWORK,
        "law": [StrOptions({"normal", "mixture", "quantile"})],
        "n_components": _COUNT,
    }

    def __init__(self, hidden_layer_sizes: Any = (64, 64), *, law="normal", n_components=3, activation="relu",
                 decay=1e-4, learning_rate=3e-3, batch_size=32, max_iter=200, patience=20,
                 validation_fraction=0.2, random_state=None):  # fmt: skip
        self.hidden_layer_sizes = hidden_layer_sizes
        self.law = law
        self.n_components = n_components
        self.activation = activation
        self.decay = decay
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets; `sample_weight` counts in the loss."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        head = self._head()
        return self._fitted(rows, Units.of(rows, target=True), head.loss, head.num_outputs)

    def predict(self, X) -> np.ndarray:
        """The predictive mean of each row."""
        rows = self._new_table(X)
        return self.units_.back(self._head().means(self.model_.outputs(rows.X)))

    def predict_dist(self, X) -> Distribution:
        """The law of each row."""
        rows = self._new_table(X)
        units = self.units_
        return self._head().law(self.model_.outputs(rows.X), units.target_centre, units.target_size)

    def _head(self) -> NumberOutputs:
        if self.law == "mixture":
            return MixtureOutputs(self.n_components)
        return NormalOutputs() if self.law == "normal" else QuantileOutputs()


class NeuralClassifier(_Neural, Classifier):
    """A perceptron whose outputs are the logits of classes.

    The options are those of `NeuralRegressor`; `CalibratedClassifier` around it makes the probabilities
    honest where the held-out loss has not.
    From a few dozen rows it is surer than it is right: `BayesianNeuralClassifier` is meant for those.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, [0, 1, 1, 0] * 10
    >>> model = NeuralClassifier((16,), learning_rate=0.05, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [1.5], [3.0]]).tolist()
    [0, 1, 0]
    """

    _parameter_constraints: ClassVar[dict] = _NETWORK

    def __init__(self, hidden_layer_sizes: Any = (64, 64), *, activation="relu", decay=1e-4,
                 learning_rate=3e-3, batch_size=32, max_iter=200, patience=20, validation_fraction=0.2,
                 random_state=None):  # fmt: skip
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.decay = decay
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and classes; `sample_weight` counts in the loss."""
        rows = self._training_classes(X, y, sample_weight)
        return self._fitted(rows, Units.of(rows), cross_entropy, len(self.classes_))

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        return softmax(self.model_.outputs(rows.X), axis=1)
