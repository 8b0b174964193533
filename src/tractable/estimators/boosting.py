r"""Distributional gradient boosting as scikit-learn estimators; the mathematics is in `supervised.boosting`.

Model.       $y \mid x \sim p(\cdot \mid \theta(x))$, each parameter of the law a sum of small trees.
Weights.     A row of weight two gives the same fit as the row twice.
Missing.     Missing entries go where more is gained.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, to_device
from tractable.core.rows import Rows
from tractable.distributions.base import Distribution
from tractable.estimators.base import Regressor, key_from
from tractable.estimators.calibrated import CALIBRATE, CalibratedClassifier
from tractable.estimators.trees import COUNT, Grown
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.boosting.laws import LAWS
from tractable.supervised.boosting.model import BoostedLaw, fit_boosting
from tractable.supervised.selection.held_out import calibrated_by_votes

__all__ = ["BoostingClassifier", "DistributionBoostingRegressor"]

_SHARE = [Interval(Real, 0, 1, closed="right")]
_BOOSTING: dict[str, list] = {
    "start": [StrOptions({"auto", "constant", "linear"})],
    "n_estimators": COUNT,
    "learning_rate": [*_SHARE, None],
    "max_depth": [*COUNT, None],
    "min_samples_leaf": [Interval(Real, 0, None, closed="neither")],
    "subsample": _SHARE,
    "max_features": _SHARE,
    "max_bins": [Interval(Integral, 2, 255, closed="both")],
    "patience": COUNT,
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


class _Boosted(Grown):
    """What both share: the options of boosting."""

    _accepts_missing = True
    random_state: Any

    def _boosted(self, rows: Rows, **options: Any) -> BoostedLaw:
        made: Any = self
        return fit_boosting(
            rows, key=key_from(self.random_state), start=made.start, max_bins=made.max_bins,
            max_rounds=made.n_estimators, learning_rate=made.learning_rate, max_depth=made.max_depth,
            min_samples_leaf=float(made.min_samples_leaf), row_share=float(made.subsample),
            column_share=float(made.max_features), patience=made.patience, num_threads=self._num_threads(),
            **options,
        )  # fmt: skip

    @property
    def n_iter_(self) -> int:
        """The number of rounds that held-out rows chose."""
        return max(self.model_.num_rounds, 1)


class DistributionBoostingRegressor(_Boosted, Regressor):
    r"""Boosted trees for every parameter of a law, so that the spread depends on $x$ too.

    `law` is "student" (degrees of freedom by held-out rows), "normal", "lognormal" or "gamma" for positive
    numbers, "poisson" or "negative_binomial" for counts. Steps are natural gradients; the spread is fitted to
    residuals of rows that the fit of the centre has not seen, and held-out rows choose the number of rounds
    (at most `n_estimators`); depth and learning rate go by the number of rows unless given. `start="linear"`
    begins at a Bayesian linear regression, which goes on beyond the data; "auto" does so for "normal" and
    "student".

    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> model = DistributionBoostingRegressor(random_state=0).fit(X, 2 * X[:, 0] + (0.1 + X[:, 0]) * noise)
    >>> low, high = model.predict_interval([[0.1], [0.9]])
    >>> bool(high[1] - low[1] > 2 * (high[0] - low[0]))
    True
    """

    _parameter_constraints: ClassVar[dict] = {"law": [StrOptions(set(LAWS))], **_BOOSTING}

    def __init__(self, law="student", *, start="auto", n_estimators=500, learning_rate=None, max_depth=None,
                 min_samples_leaf=10, subsample=0.5, max_features=1.0, max_bins=64, patience=30, n_jobs=None,
                 random_state=None):  # fmt: skip
        self.law = law
        self.start = start
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.subsample = subsample
        self.max_features = max_features
        self.max_bins = max_bins
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets; a weight of two is the row twice."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        with one_blas_thread():
            self.model_ = _lean(self._boosted(rows, law=self.law))
        return self

    def predict(self, X):
        """The predictive mean of each row."""
        rows = self._new_table(X)
        return self.model_.law.moments(self.model_.coordinates(rows))[0]

    def predict_dist(self, X) -> Distribution:
        """The law of each row."""
        rows = self._new_table(X)
        return self.model_.law.distribution(self._theta(rows))

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The predictive variance of each row in its parts: noise, and disagreement of boosters."""
        rows = self._new_table(X)
        noise = self.model_.law.moments(self._theta(rows))[1]
        return UncertaintySplit(to_device(noise), to_device(self.model_.disagreement(rows)))

    def predict_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        rows = self._new_table(X)
        law, theta = self.model_.law, self._theta(rows)
        return law.quantile(theta, (1 - level) / 2), law.quantile(theta, (1 + level) / 2)

    def log_score(self, X, y) -> float:
        """The mean log predictive density of the targets: larger is better."""
        rows = self._new_table(X)
        return float(np.mean(self.model_.law.log_density(self._theta(rows), np.asarray(y, float))))

    def _theta(self, rows: Rows) -> np.ndarray:
        """Coordinates of a law; equal targets, or one row, have none."""
        got = "one value or one row"
        must, fix = "of more than one value for a distribution", "`predict` gives it; a point has no density."
        check(self.model_.num_folds > 0, "y", must, got, fix)
        return self.model_.coordinates(rows)


class BoostingClassifier(_Boosted, CalibratedClassifier):
    r"""Boosted trees for log-odds (two classes) or logits, calibrated by rows that boosters have not seen.

    Held-out rows choose the number of rounds, and how far the probabilities are believed
    (`supervised.selection.tempering`), without any further fit. `start="linear"` begins at a Bayesian
    logistic regression (two classes); "auto" begins at the base rate.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, [0, 0, 1, 1] * 10
    >>> BoostingClassifier(min_samples_leaf=2, random_state=0).fit(X, y).predict([[0.2], [2.7]]).tolist()
    [0, 1]
    """

    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {**_BOOSTING, **CALIBRATE}

    def __init__(self, *, start="auto", n_estimators=500, learning_rate=None, max_depth=None,
                 min_samples_leaf=10, subsample=0.5, max_features=1.0, max_bins=64, patience=30,
                 calibrate=True, n_jobs=None, random_state=None):  # fmt: skip
        self.start = start
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.subsample = subsample
        self.max_features = max_features
        self.max_bins = max_bins
        self.patience = patience
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        self.model_ = _lean(self.model_)
        return self

    def _model_of(self, rows):
        return self._boosted(rows, law="classes", num_classes=len(self.classes_))

    def _calibration_of(self, rows):
        if self.model_.num_folds == 0:
            return None
        return calibrated_by_votes(rows, self._probabilities(self.model_, self.model_.held_out))

    def _shares(self, model, rows):
        return self._probabilities(model, model.coordinates(rows))

    def _probabilities(self, model, theta) -> np.ndarray:
        if len(self.classes_) == 1:
            return np.ones((len(theta), 1))
        return model.law.probabilities(theta)


def _lean(model: BoostedLaw) -> BoostedLaw:
    """The model without what was kept of its training rows."""
    return eqx.tree_at(lambda m: m.held_out, model, model.held_out[:0])
