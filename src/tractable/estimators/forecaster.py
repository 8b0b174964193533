"""Forecasts of one series in scikit-learn's manner; the mathematics is in `statespace.forecast`."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check, check_count
from tractable.core.verdict import Verdict
from tractable.estimators.base import key_from
from tractable.statespace.forecast.forecast import SeriesForecast, forecast_series
from tractable.statespace.forecast.series import Series, as_series

__all__ = ["Forecaster"]


class Forecaster(BaseEstimator):
    """The next readings of a series, by models that were judged on readings they had not seen.

    Parameters
    ----------
    horizon : int or None
        Steps that the models are judged over, and forecast by default; None: a season, or ten.
    level : float
        The probability that intervals are calibrated for.
    seasons : sequence of int or None
        The periods; None: found.
    log : bool or None
        Whether readings change by factors; None: found.
    holidays : dates, dict of dates by name, or None
        Past and to come.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=60))
    >>> Forecaster(horizon=3).fit(walk).predict().shape
    (3,)
    """

    _tabular: ClassVar[bool] = False
    series_: Series
    forecast_: SeriesForecast | None
    verdict_: Verdict

    def __init__(self, horizon=None, *, level=0.9, seasons=None, log=None, holidays=None):
        self.horizon = horizon
        self.level = level
        self.seasons = seasons
        self.log = log
        self.holidays = holidays

    def fit(self, y: Any, times: Any = None, X: Any = None):
        """Choose and fit; with columns `X` this waits for their future values in `predict`."""
        self.series_ = as_series(y, times)
        self._X, self.forecast_, self._future = X, None, None
        if X is None:
            self._made(self.horizon, None)
        return self

    def predict(self, horizon: int | None = None, X: Any = None) -> np.ndarray:
        """The means of the next readings."""
        return self._asked(horizon, X).mean[: self._steps(horizon)]

    def predict_interval(
        self, horizon: int | None = None, level: float | None = None, X: Any = None
    ) -> np.ndarray:
        """The central intervals of the next readings, `(horizon, 2)`."""
        found = self._asked(horizon, X)
        ends = found.interval(self.level if level is None else level)
        return np.stack(ends, 1)[: self._steps(horizon)]

    def sample(
        self, n_samples: int = 1, horizon: int | None = None, X: Any = None, random_state: int = 0
    ) -> np.ndarray:
        """Joint paths of the next readings, `(n_samples, horizon)`."""
        paths = self._asked(horizon, X).sample(n_samples, key=key_from(random_state))
        return paths[:, : self._steps(horizon)]

    def _steps(self, horizon: int | None) -> int | None:
        return None if horizon is None else check_count("horizon", horizon)

    def _asked(self, horizon: int | None, X: Any) -> SeriesForecast:
        """The forecast at hand where it reaches far enough, or a longer one."""
        check_is_fitted(self, "series_")
        check(
            (X is None) == (self._X is None), "X", "given where `fit` had it, and only then", "one of the two"
        )
        steps = horizon if horizon is not None else self.horizon
        held = self.forecast_
        same = X is None or (self._future is not None and np.array_equal(X, self._future))
        if held is None or not same or (steps is not None and steps > held.horizon):
            held = self._made(steps if X is None or steps is not None else len(X), X)
        return held

    def _made(self, steps: int | None, future: Any) -> SeriesForecast:
        found = forecast_series(
            self.series_,
            steps,
            level=self.level,
            seasons=self.seasons,
            log=self.log,
            X=self._X,
            future=future,
            holidays=self.holidays,
        )
        self.forecast_, self._future, self.verdict_ = found, future, found.verdict
        self.winner_, self.seasons_, self.metrics_ = found.winner, found.seasons, found.metrics
        return found
