"""Perceptrons with uncertain weights as scikit-learn estimators; the mathematics is in `neural.bayes`.

Rows.        Columns are standardised, and so are targets that are numbers. A weight of two is the row twice.
Trust.       `verdict_` says whether a mode was reached and whether rows that are left out one at a time are
             predicted better than without columns, in intervals that hold their share: an overfitted mode is
             refused. `log_evidence_` compares networks with each other and with other Bayesian models.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import to_device
from tractable.core.rows import Rows
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import Normal
from tractable.estimators.base import Classifier, Regressor, key_from
from tractable.estimators.neural import layer_sizes
from tractable.estimators.units import Units
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.neural.bayes.table import UncertainTable, fit_uncertain_table

__all__ = ["BayesianNeuralClassifier", "BayesianNeuralRegressor"]

_COUNT = [Interval(Integral, 1, None, closed="left")]


class _BayesianNeural:
    """What both share: the options, and a network in units of the rows."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "hidden_layer_sizes": ["array-like", *_COUNT],
        "activation": [StrOptions({"tanh", "gelu", "softplus", "sigmoid"})],
        "num_starts": _COUNT,
        "max_rounds": _COUNT,
        "random_state": ["random_state"],
    }
    units_: Units
    model_: UncertainTable
    verdict_: Verdict

    def __init__(
        self, hidden_layer_sizes: Any = (16,), *, activation="tanh", num_starts=1, max_rounds=20,
        random_state=None,
    ):  # fmt: skip
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.num_starts = num_starts
        self.max_rounds = max_rounds
        self.random_state = random_state

    def _fitted(self, rows: Rows, units: Units, num_classes: int) -> Any:
        own = units(rows)
        sizes = layer_sizes(self.hidden_layer_sizes)
        self.model_ = fit_uncertain_table(
            own.X, own.y, own.weights, key=key_from(self.random_state), num_classes=num_classes, hidden=sizes,
            activation=self.activation, max_rounds=self.max_rounds, num_starts=self.num_starts,
        )  # fmt: skip
        self.units_, self.verdict_ = units, self.model_.verdict
        # of the targets as given: the density of scaled ones, times the Jacobian of the scaling
        self.log_evidence_ = self.model_.log_evidence - float(rows.weights.sum() * np.log(units.target_size))
        self.effective_parameters_ = float(np.asarray(self.model_.effective).sum())
        return self


class BayesianNeuralRegressor(_BayesianNeural, Regressor):
    r"""$y = f_w(x) + \epsilon$, $f_w$ a small perceptron, by Laplace's approximation of its weights.

    The precision of each layer's weights and the noise are those of highest evidence, found in at most
    `max_rounds` rounds; of `num_starts` modes the one of highest evidence is kept. Predictions are those of
    the network made linear in its weights: normal, wide where there were no rows. Beyond some 700 weights the
    curvature is that of Kronecker factors.

    >>> x = np.linspace(-2, 2, 40)
    >>> y = np.sin(2 * x) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = BayesianNeuralRegressor(random_state=0).fit(x[:, None], y)
    >>> near, far = model.predict_uncertainty([[0.5], [6.0]]).epistemic
    >>> bool(far > 10 * near), model.verdict_.ok
    (True, True)
    """

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets; a weight of two is the row twice."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        return self._fitted(rows, Units.of(rows, target=True), 0)

    def predict(self, X) -> np.ndarray:
        """The predictive mean of each row."""
        rows = self._new_table(X)
        return self.units_.back(self.model_.outputs(rows.X)[0][:, 0])

    def predict_dist(self, X) -> Normal:
        """The law of a new target at each row."""
        rows = self._new_table(X)
        found: Any = self.model_.predict(rows.X).distribution
        loc, scale = np.asarray(found.loc), np.asarray(found.scale)
        return Normal(to_device(self.units_.back(loc)), to_device(self.units_.target_size * scale))

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The predictive variance of each row in its parts: noise (aleatoric) and weights (epistemic)."""
        rows = self._new_table(X)
        split, factor = self.model_.predict(rows.X).split, self.units_.target_size**2
        parts = (factor * np.asarray(part) for part in (split.aleatoric, split.epistemic))
        return UncertaintySplit(*map(to_device, parts))


class BayesianNeuralClassifier(_BayesianNeural, Classifier):
    """Classes by the logits of a small perceptron whose weights are uncertain.

    The options are those of `BayesianNeuralRegressor`. Probabilities are averaged over what is not known of
    the weights: they are less sure than those of any one network.

    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = BayesianNeuralClassifier(random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    >>> model.predict([[-1.0, 0.0], [1.0, 0.0]]).tolist(), model.verdict_.ok
    ([0, 1], True)
    """

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and classes; a weight of two is the row twice."""
        rows = self._training_classes(X, y, sample_weight)
        return self._fitted(rows, Units.of(rows), len(self.classes_))

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        return self.model_.predict(rows.X).probs

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The entropy of each row's class in its parts: of classes that overlap (aleatoric), and of what is
        not known of the weights (epistemic)."""
        rows = self._new_table(X)
        return self.model_.predict(rows.X).split
