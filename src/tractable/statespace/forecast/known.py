r"""Columns that are known at all times, those of the forecast included: regressors and holidays.

Holidays.    A column for each name: how many of its dates lie in each step of the grid (all hours of a day
             are the day's). Names that were seen less than twice in the first half of the readings share one
             column. A column that the seasons tell already (Christmas, in months) is left out and named.
Effects.     Coefficients are states that never change, with a flat start (`kalman.components.Regression`).
Cost.        $O(T k)$.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.statespace.forecast.series import Series, with_rows

__all__ = ["holiday_table", "known_columns"]

_LONG = ("year", "quarter", "month", "week")
_FEW = 2


def known_columns(
    series: Series, steps: int, seasons: tuple[int, ...], X: Any, future: Any, holidays: Any
) -> tuple[np.ndarray | None, tuple[str, ...], dict[str, str]]:
    """The table `(len(series) + steps, k)` or None, the names of its columns, and what was left out."""
    check((X is None) == (future is None), "future", "given with `X`, and only then", "one of the two")
    parts, names, left_out = [], [], {}
    if X is not None:
        known, later = with_rows(series, X), np.asarray(future, float)
        later = later[:, None] if later.ndim == 1 else later
        wanted = (steps, known.shape[1])
        check(later.shape == wanted, "future", f"of shape {wanted}", later.shape)
        check(bool(np.isfinite(later).all()), "future", "finite", "NaN or inf")
        parts.append(np.concatenate([known, later]))
        names += [f"column {i + 1}" for i in range(known.shape[1])]
    if holidays is not None:
        table, said = holiday_table(series, steps, holidays)
        for name, column in zip(said, table.T):
            if _is_told(column[: len(series)], seasons):
                left_out[f"holiday {name}"] = "the seasons tell it already"
            else:
                parts.append(column[:, None])
                names.append(name)
    return (np.concatenate(parts, 1) if parts else None), tuple(names), left_out


def holiday_table(series: Series, steps: int, holidays: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Dates of each name in each step of the grid `(len(series) + steps, names)`, and the names.

    >>> from tractable.statespace.forecast.series import as_series
    >>> days = np.datetime64("2024-12-22") + np.arange(12)
    >>> table, names = holiday_table(as_series(np.arange(12.0), days), 2, ["2024-12-25", "2024-12-26"])
    >>> names, table[:, 0].astype(int).tolist()
    (('holiday',), [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    """
    fix = "Give dates in `times`."
    check(series.unit != "number", "holidays", "left out where times are numbers", "some", fix)
    given = holidays if isinstance(holidays, Mapping) else {"holiday": holidays}
    columns: dict[str, np.ndarray] = {}
    for name, dates in given.items():
        column = _placed(series, steps, _dates(name, dates))
        half = column[: len(series) // 2][~np.isnan(np.asarray(series.values)[: len(series) // 2])]
        key = str(name) if (half > 0).sum() >= _FEW else "other holidays"
        columns[key] = columns.get(key, 0.0) + column
    first, last = str(series.times(0, 1)[0]), str(series.times(len(series) - 1, len(series))[0])
    pooled = columns.get("other holidays")
    if pooled is not None and (pooled[: len(series) // 2] > 0).sum() < _FEW:
        columns.pop("other holidays")
    must = f"dates of which two or more lie in the first half of {first} to {last}"
    check(len(columns) > 0, "holidays", must, "none")
    return np.stack(list(columns.values()), 1), tuple(columns)


def _dates(name: Any, dates: Any) -> np.ndarray:
    try:
        found = np.atleast_1d(np.asarray(dates, "datetime64[D]"))
    except ValueError as error:
        raise ValueError(f"`holidays` must hold dates; got {error} for {name!r}.") from None
    check(not np.isnat(found).any(), "holidays", "dates", f"none for {name!r}")
    return np.unique(found)


def _placed(series: Series, steps: int, dates: np.ndarray) -> np.ndarray:
    """How many of the dates lie in each step."""
    stamps = series.times(0, len(series) + steps + 1)
    days = stamps.astype("datetime64[D]")
    if series.unit not in _LONG and series.step <= 1:  # a day or less: of the same date
        return np.isin(days[:-1], dates).astype(float)
    if series.month_end:  # a month is named by its last day
        days = days.astype("datetime64[M]").astype("datetime64[D]")
    at = np.searchsorted(days, dates, side="right") - 1
    inside = (at >= 0) & (at < len(days) - 1)
    return np.bincount(at[inside], minlength=len(days) - 1).astype(float)


def _is_told(column: np.ndarray, seasons: tuple[int, ...]) -> bool:
    """Whether a column is a constant plus a pattern of the seasons."""
    at = np.arange(len(column))
    table = np.concatenate([(at[:, None] % m == np.arange(m)).astype(float) for m in (1, *seasons)], 1)
    rest = column - table @ np.linalg.lstsq(table, column, rcond=None)[0]
    return float(np.abs(rest).max()) < 1e-6
