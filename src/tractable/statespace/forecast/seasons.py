r"""What a series looks like before any model: its seasons, whether it grows by factors, whether it counts.

Season.      By the calendar: an F test of a mean for each phase beside an autoregression of the changes,
             of a longer period beyond the shorter one. Without a calendar: of the peaks of the
             autocorrelation that with the best BIC, where phases beat the autoregression alone, all lags
             tried being paid for.
Scale.       Changes of $\log y$ and of $y$ as Gaussian, compared by likelihood with the Jacobian: $-\frac
             n2\log s^2_{\log} - \sum_t\log y_t$ against $-\frac n2\log s^2$; of counts $\sqrt{y + 3/8}$
             too.
Cost.        $O(T\log T)$.
References.  Box and Cox (1964).
"""

from typing import Any

import numpy as np

from tractable.statespace.forecast.series import Series

__all__ = ["autocorrelation", "is_count", "prefers_log", "scale_of", "season_candidates", "seasons_of"]

_CALENDAR = {
    "quarter": (4,), "month": (12,), "week": (52,), "business day": (5,), "day": (7,), "hour": (24, 168),
    "minute": (60,), "second": (60,),
}  # fmt: skip
_LONGEST = 400
_LEVEL = 0.02  # of the test of a period of the calendar
_LOOK = 3000  # changes that the tests look at: the last ones
_PAST = 3  # lags of changes: enough for noise that was differenced


def autocorrelation(changes: np.ndarray) -> np.ndarray:
    """The autocorrelations at lags 0, 1, ..., of a series with gaps (pairs that were both seen)."""
    seen = ~np.isnan(changes)
    centred = np.where(seen, changes - changes[seen].mean(), 0.0)
    size = 2 * len(changes)
    power, pairs = (
        np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[: len(changes)] for x in (centred, seen)
    )
    pairs = np.round(pairs)
    mean = np.where(pairs > 0, power / np.maximum(pairs, 1), 0.0)
    # shrunk as a series without gaps is: n r_j = sum of products
    return mean / mean[0] * pairs / pairs[0] if mean[0] > 0 else np.zeros(len(changes))


def season_candidates(series: Series) -> tuple[int, ...]:
    """The periods of the calendar that the length allows: two whole periods and three readings more."""
    found = _CALENDAR.get(series.unit, ()) if series.step == 1 else ()
    return tuple(period for period in found if len(series) >= 2 * period + 3)


def seasons_of(series: Series) -> tuple[int, ...]:
    """The periods that are there, the shortest first; at most two."""
    values = np.asarray(series.values)
    changes = np.diff(values)
    seen = changes[~np.isnan(changes)]
    if len(seen) < 8 or np.ptp(seen) == 0:
        return ()
    past = _Past(changes[-_LOOK:], len(changes) - len(changes[-_LOOK:]))
    if series.unit not in _CALENDAR or series.step != 1:
        r = autocorrelation(changes)
        return _by_phases(past, len(changes), _peaks(r, min(len(values) // 3, _LONGEST)))
    found: tuple[int, ...] = ()
    for m in season_candidates(series):
        if past.significance(m, found[-1] if found else 1) < _LEVEL:
            found = (*found, m)
    return found[:2]


class _Past:
    """Changes beside the changes before them, and what phases explain beyond those."""

    def __init__(self, changes: np.ndarray, first: int):
        past = np.column_stack([np.roll(changes, j) for j in range(1, _PAST + 1)])[_PAST:]
        now, at = changes[_PAST:], first + np.arange(_PAST, len(changes))
        use = ~np.isnan(past).any(1) & ~np.isnan(now)
        self.past, self.now, self.at = past[use], now[use], at[use]

    def rest(self, period: int) -> tuple[float, int]:
        """The sum of squares that the past and a mean for each phase leave, and their number."""
        table = np.column_stack([self.past, self.at[:, None] % period == np.arange(period)])
        away = self.now - table @ np.linalg.lstsq(table, self.now, rcond=None)[0]
        return max(float(away @ away), 1e-12 * float(self.now @ self.now)), table.shape[1]

    def significance(self, period: int, before: int) -> float:
        """The probability of so large a gain of phases over those of another period by chance."""
        from scipy.special import fdtrc

        left = len(self.now) - period - _PAST
        if left < _PAST:
            return 1.0
        (plain, few), (told, many) = self.rest(before), self.rest(period)
        return float(fdtrc(many - few, left, (plain - told) / (many - few) / (told / left)))


def _by_phases(past: _Past, size: int, periods: tuple[int, ...]) -> tuple[int, ...]:
    """The period whose phases explain the changes best beyond their own past, or none."""
    n = len(past.now)
    if n < 4 * _PAST:
        return ()

    def criterion(period: int) -> float:
        squares, count = past.rest(period)
        return n * np.log(squares / n) + count * np.log(n)

    best, found = criterion(1) - 2 * np.log(size), ()
    for m in periods:
        if n > 2 * m + _PAST:
            value = criterion(m)
            if value < best:
                best, found = value, (m,)
    return found


def prefers_log(values: Any, season: int = 1) -> bool:
    """Whether a positive series changes by factors rather than by amounts."""
    y = np.asarray(values, float)
    y = y[~np.isnan(y)]
    if len(y) < 8 or (y <= 0).any() or y.max() < 1.5 * y.min():
        return False
    logged = -0.5 * len(y) * _spread(np.log(y), season) - np.log(y).sum()
    return bool(logged > -0.5 * len(y) * _spread(y, season) + 2.0)


def scale_of(values: Any, season: int = 1, log: bool | None = None) -> str:
    """The scale of the models: "log" where asked for or where changes are factors, of counts "root" where
    their spread grows with them, otherwise "identity"."""
    if log or (log is None and prefers_log(values, season)):
        return "log"
    y = np.asarray(values, float)
    y = y[~np.isnan(y)]
    if not is_count(y) or len(y) < 8:
        return "identity"
    rooted = -0.5 * len(y) * _spread(np.sqrt(y + 0.375), season) - 0.5 * np.log(4 * (y + 0.375)).sum()
    return "root" if rooted > -0.5 * len(y) * _spread(y, season) else "identity"


def _spread(x: np.ndarray, season: int) -> float:
    """The logarithm of the variance of changes, over a season where there is one."""
    steps = np.diff(x[season:] - x[:-season]) if season > 1 and len(x) > 2 * season + 4 else np.diff(x)
    return float(np.log(np.maximum(np.mean((steps - steps.mean()) ** 2), 1e-300)))


def is_count(values: Any) -> bool:
    """Whether all readings are whole numbers from zero on, few enough that they are not a measure."""
    y = np.asarray(values, float)
    y = y[~np.isnan(y)]
    return bool((y >= 0).all() and (y == np.floor(y)).all() and y.max() < 1000)


def _peaks(r: np.ndarray, longest: int) -> tuple[int, ...]:
    """Lags that are above both neighbours, and not multiples of an equally high one."""
    lags = [
        m for m in range(2, longest + 1) if m + 1 < len(r) and r[m] > 0.1 and r[m] >= max(r[m - 1], r[m + 1])
    ]
    return tuple(m for m in lags if not any(m % j == 0 and r[j] > 0.8 * r[m] for j in lags if j < m))
