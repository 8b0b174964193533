"""The race as scikit-learn estimators: `AutoRegressor` and `AutoClassifier`.

Rows are tables of any kind (frames with words, dates and gaps, arrays of numbers), described and encoded as
`fit_table` does. `fit_` is the whole result: leaderboard, measures on rows put aside, verdict, file.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tractable.core.checks import check
from tractable.estimators.base import Classifier, Estimator, Regressor
from tractable.race.fit import EFFORTS, fit_table
from tractable.race.result import TableFit

__all__ = ["AutoClassifier", "AutoRegressor"]

_TARGET, _COUNTS = "target", "row weight"


class _Raced(Estimator):
    """What both share: a table made of rows and targets, and a race on it."""

    _tabular = False  # frames are taken as they are
    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {
        "effort": [StrOptions(set(EFFORTS))],
        "seconds": [None, Interval(Real, 0, None, closed="neither")],
        "candidates": [None, tuple, list],
        "kinds": [None, dict],
        "random_state": ["random_state", Integral],
    }
    fit_: TableFit
    effort: Any
    seconds: Any
    candidates: Any
    kinds: Any
    random_state: Any

    def __init__(self, effort="normal", *, seconds=None, candidates=None, kinds=None, random_state=None):
        self.effort = effort
        self.seconds = seconds
        self.candidates = candidates
        self.kinds = kinds
        self.random_state = random_state

    def _raced(self, X: Any, y: Any, sample_weight: Any, task: str | None) -> Any:
        self._validate_params()
        frame = self._frame(X, reset=True)
        values = column_or_1d(y, warn=True)
        check(len(values) == len(frame), "y", f"one for each row ({len(frame)})", len(values))
        target, counts = _free(_TARGET, frame), None
        table = frame.assign(**{target: values})
        if sample_weight is not None:
            counts = _free(_COUNTS, table)
            table = table.assign(**{counts: np.asarray(sample_weight, float)})
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        names = None if self.candidates is None else tuple(self.candidates)
        self.fit_ = fit_table(
            table, target, effort=self.effort, seconds=self.seconds, seed=seed, task=task,
            kinds=self.kinds, candidates=names, weights=counts, examine=False,
        )  # fmt: skip
        return self

    def _frame(self, X: Any, *, reset: bool) -> Any:
        import pandas as pd

        if hasattr(X, "iloc"):
            table = X.reset_index(drop=True)
            table.columns = [str(name) for name in table.columns]
            if reset:
                self.n_features_in_ = table.shape[1]
                self.feature_names_in_ = np.array(table.columns, dtype=object)
            return table
        rows = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])  # pyright: ignore

    def _new(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._frame(X, reset=False)

    def predict_dist(self, X) -> Any:
        """One law per row: `mean`, `quantile`, `interval`, `cdf`, `log_density`; of classes `shares`."""
        return self.fit_.predict_dist(self._new(X))

    @property
    def leaderboard_(self) -> Any:
        """The models, the best first."""
        return self.fit_.leaderboard

    def save(self, path) -> None:
        """Write the model that the race ended with; `TableFit.load` reads it."""
        check_is_fitted(self)
        self.fit_.save(path)


def _free(name: str, frame: Any) -> str:
    """A name that no column has."""
    while name in frame.columns:
        name = f"{name}_"
    return name


class AutoRegressor(_Raced, Regressor):
    """The winner of a race of regressors, or their mixture, with calibrated laws as predictions.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> model = AutoRegressor(candidates=["Bayesian linear"], random_state=0).fit(X, 3 * X[:, 0])
    >>> bool(abs(model.predict([[1.0, 0.0]])[0] - 3) < 0.1)
    True
    """

    def fit(self, X, y, sample_weight=None):
        """Race on rows and targets, and fit the winner to all of them."""
        return self._raced(X, np.asarray(y, float), sample_weight, None)

    def predict(self, X) -> np.ndarray:
        """The predictive mean of each row."""
        return self.predict_dist(X).mean

    def predict_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        return self.predict_dist(X).interval(level)

    def log_score(self, X, y) -> float:
        """The mean log predictive density of the targets: larger is better."""
        return float(self.predict_dist(X).log_density(np.asarray(y, float)).mean())

    def sample_y(self, X, n_samples: int = 1, random_state=None) -> np.ndarray:
        """Draws of the target, one row per row of `X`, one column per draw."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return self.predict_dist(X).sample(np.random.default_rng(seed), n_samples)


class AutoClassifier(_Raced, Classifier):
    """The winner of a race of classifiers, or their mixture, with calibrated probabilities.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, ["no", "no", "yes", "yes"] * 10
    >>> model = AutoClassifier(candidates=["logistic"], random_state=0).fit(X, y)
    >>> model.predict([[0.2], [2.9]]).tolist()
    ['no', 'yes']
    """

    def fit(self, X, y, sample_weight=None):
        """Race on rows and classes, and fit the winner to all of them."""
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        there = slice(None) if sample_weight is None else np.asarray(sample_weight, float) > 0
        self.classes_ = np.unique(labels[there])  # a class whose rows count nothing is none
        codes = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        return self._raced(X, codes, sample_weight, "classes")

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        return self.predict_dist(X).shares
