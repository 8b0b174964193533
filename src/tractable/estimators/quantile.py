"""Linear quantile regression as a scikit-learn estimator; the mathematics is in `supervised.quantile`.

Cost.        Some fifteen passes over the rows for each level; with more than 30,000 rows about five.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.estimators.base import Regressor
from tractable.supervised.quantile.law import QuantileLaw
from tractable.supervised.quantile.model import fit_quantiles

__all__ = ["QuantileRegressor"]


class QuantileRegressor(Regressor):
    r"""Quantiles that are linear in the columns, $Q_\tau(y \mid x) = b_\tau + w_\tau^\top x$, at `levels`.

    Noise may have any shape, and change with the columns. `levels` are numbers between 0 and 1 (0.5 is
    added), or "auto": from 0.01 to 0.99, those with enough rows beyond them. `prior_precision` is that of the
    coefficients of standardised columns and targets, "evidence", or 0 for the lines of least check loss
    themselves. `levels_`, `coef_` (levels, columns), `intercept_`.

    `predict` is the median; `predict_quantiles` the fitted quantiles, in order; `predict_dist` a law that
    also holds what is not known of the lines; `summary(quantile=0.9)` a table of the line at one level.

    >>> x = np.linspace(0, 1, 400)
    >>> y = x + (0.2 + x) * np.random.default_rng(0).exponential(size=400)
    >>> model = QuantileRegressor().fit(x[:, None], y)
    >>> model.predict_quantiles([[0.0], [1.0]], [0.1, 0.9]).round(1).tolist()
    [[0.0, 0.6], [1.1, 4.0]]
    """

    _parameter_constraints: ClassVar[dict] = {
        "levels": [StrOptions({"auto"}), "array-like"],
        "prior_precision": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }
    model_: Any

    def __init__(self, levels: Any = "auto", *, prior_precision: Any = "evidence", fit_intercept=True):
        self.levels = levels
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Fit a line at each level; a weight of two is the row twice."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        options: Any = {"levels": self.levels, "prior_precision": self.prior_precision}
        self.model_ = fit_quantiles(rows, intercept=self.fit_intercept, **options)
        values = self.model_.coefficients()[0]
        self.levels_ = np.asarray(self.model_.levels)
        self.coef_ = values[:, int(self.fit_intercept) :]
        self.intercept_ = values[:, 0] if self.fit_intercept else np.zeros(len(values))
        self.prior_precision_ = float(self.model_.precision)
        return self

    def predict(self, X) -> np.ndarray:
        """The median of each row."""
        rows = self._new_table(X)
        return np.asarray(self.model_.predict_dist(rows, errors=False).icdf(0.5))

    def predict_quantiles(self, X, levels=None) -> np.ndarray:
        """The fitted quantiles of each row, one column for each of `levels` (those fitted where not given).

        They are linear in the level between those fitted, and those of exponential tails beyond.
        """
        rows = self._new_table(X)
        law = self.model_.predict_dist(rows, errors=False)
        wanted = self.levels_ if levels is None else np.asarray(levels, float).reshape(-1)
        ok = bool(((wanted > 0) & (wanted < 1)).all())
        check(ok, "levels", "numbers between 0 and 1", np.asarray(wanted).tolist())
        return np.stack([law.icdf(level) for level in wanted], 1)

    def predict_dist(self, X) -> QuantileLaw:
        """The predictive law of each row: what is not known of the lines makes it wider."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)

    def log_scores(self, X, y) -> np.ndarray:
        """The log predictive density of each row's target."""
        return self.predict_dist(X).row_log_probs(np.asarray(y, float))

    def _coefficients(self, level: float, quantile: float = 0.5) -> tuple[Any, Any, Any]:
        place = np.flatnonzero(np.isclose(self.levels_, quantile))
        check(len(place) == 1, "quantile", f"among the fitted levels {self.levels_.tolist()}", quantile)
        values, errors = (part[place[0]] for part in self.model_.coefficients())
        reach = ndtri(0.5 + level / 2) * errors
        return values, values - reach, values + reach
