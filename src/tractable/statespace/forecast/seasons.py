r"""What a series looks like before any model: its seasons, whether it grows by factors, whether it counts.

Season.      By the calendar: the autocorrelation $r_m$ of the changes above Bartlett's bound $z\sqrt{(1 +
             2\sum_{j<m} r_j^2)/n}$. Without one: of the peaks of the autocorrelation that with the best BIC,
             where a mean for each of its phases beats an autoregression of the changes alone, all lags tried
             being paid for.
Log scale.   Changes of $\log y$ and of $y$ as Gaussian, compared by likelihood with the Jacobian: $-\frac
             n2\log s^2_{\log} - \sum_t\log y_t$ against $-\frac n2\log s^2$.
Cost.        $O(T\log T)$.
References.  Bartlett (1946); Box and Cox (1964).
"""

from typing import Any

import numpy as np

from tractable.statespace.forecast.series import Series

__all__ = ["autocorrelation", "is_count", "prefers_log", "season_candidates", "seasons_of"]

_CALENDAR = {
    "quarter": (4,), "month": (12,), "week": (52,), "business day": (5,), "day": (7,), "hour": (24, 168),
    "minute": (60,), "second": (60,),
}  # fmt: skip
_LONGEST = 400
_Z = 1.645  # one-sided, 5 %
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
    r = autocorrelation(changes)
    if series.unit not in _CALENDAR or series.step != 1:
        return _by_phases(changes, _peaks(r, min(len(values) // 3, _LONGEST)))
    bound = np.sqrt((1 + 2 * np.concatenate([[0.0], np.cumsum(r[1:] ** 2)])) / len(seen))
    return tuple(m for m in season_candidates(series) if m < len(r) and r[m] > _Z * bound[m - 1])[:2]


def _by_phases(changes: np.ndarray, periods: tuple[int, ...]) -> tuple[int, ...]:
    """The period whose phases explain the changes best beyond their own past, or none."""
    past = np.column_stack([np.roll(changes, j) for j in range(1, _PAST + 1)])[_PAST:]
    now, at = changes[_PAST:], np.arange(_PAST, len(changes))
    use = ~np.isnan(past).any(1) & ~np.isnan(now)
    past, now, at = past[use], now[use], at[use]
    if len(now) < 4 * _PAST:
        return ()

    def criterion(columns: np.ndarray) -> float:
        table = np.column_stack([past, columns])
        rest = now - table @ np.linalg.lstsq(table, now, rcond=None)[0]
        size = max(float(rest @ rest), 1e-12 * float(now @ now))
        return len(now) * np.log(size / len(now)) + table.shape[1] * np.log(len(now))

    best, found = criterion(np.ones((len(now), 1))) - 2 * np.log(len(changes)), ()
    for m in periods:
        if len(now) > 2 * m + _PAST:
            value = criterion((at[:, None] % m == np.arange(m)).astype(float))
            if value < best:
                best, found = value, (m,)
    return found


def prefers_log(values: Any, season: int = 1) -> bool:
    """Whether a positive series changes by factors rather than by amounts."""
    y = np.asarray(values, float)
    y = y[~np.isnan(y)]
    if len(y) < 8 or (y <= 0).any() or y.max() < 1.5 * y.min():
        return False

    def spread(x: np.ndarray) -> float:
        steps = np.diff(x[season:] - x[:-season]) if season > 1 and len(x) > 2 * season + 4 else np.diff(x)
        return float(np.log(np.maximum(np.mean((steps - steps.mean()) ** 2), 1e-300)))

    logged = -0.5 * len(y) * spread(np.log(y)) - np.log(y).sum()
    return bool(logged > -0.5 * len(y) * spread(y) + 2.0)


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
