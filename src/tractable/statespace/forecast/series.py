r"""A series on a regular grid: times checked, the frequency found, gaps as NaN.

Calendar.    Dates that are months apart lie on a grid of months (quarters, years); of days without weekends
             on one of business days; all others on a grid of the largest step of which every distance is a
             multiple.
Gaps.        Times of the grid without a reading hold NaN, and are integrated out by whoever looks.
Refused.     Times that repeat, are not in order or lie on no grid; readings that are infinite.
Cost.        $O(T)$.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, field
from tractable.core.types import Values

__all__ = ["Series", "as_series"]

_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
_MONTHS = {12: "year", 3: "quarter", 1: "month"}
_SPARSE = 20  # grid points for each reading, at most


class Series(HostResult):
    """Readings on a grid from `origin` on with `step`s of `unit`; `places` are the grid points with a row."""

    values: Values = field(show=False)
    places: Values = field(show=False)
    unit: str = field(static=True)
    step: float = field(static=True)
    origin: Any = field(show=False)
    month_end: bool = field(static=True, default=False, show=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def frequency(self) -> str:
        """The distance of grid points in words."""
        return self.unit if self.step == 1 else f"{self.step:g} {self.unit}s"

    def until(self, stop: int) -> "Series":
        """The first `stop` grid points."""
        places = np.asarray(self.places)
        values = np.asarray(self.values)[:stop]
        return Series(values, places[places < stop], self.unit, self.step, self.origin, self.month_end)

    def times(self, start: int, stop: int) -> np.ndarray:
        """The times of grid points; those behind the last reading belong to forecasts."""
        at = np.arange(start, stop)
        if self.unit == "number":
            return self.origin + self.step * at
        if self.unit in _MONTHS.values():
            return self._months(at)
        first = np.datetime64(self.origin)
        if self.unit == "business day":
            return np.busday_offset(first.astype("datetime64[D]"), at)
        return first + (at * round(self.step * _SECONDS[self.unit])).astype("timedelta64[s]")

    def _months(self, at: np.ndarray) -> np.ndarray:
        size = next(count for count, name in _MONTHS.items() if name == self.unit)
        first = np.datetime64(self.origin)
        month = first.astype("datetime64[M]")
        months = month + (at * size * int(self.step)).astype("timedelta64[M]")
        if self.month_end:
            return (months + 1).astype("datetime64[D]") - 1
        return months.astype("datetime64[D]") + (
            first.astype("datetime64[D]") - month.astype("datetime64[D]")
        )


def as_series(y: Any, times: Any = None) -> Series:
    """A checked series; without `times` the grid is 0, 1, 2, ...

    >>> months = np.array(["2024-01", "2024-02", "2024-04", "2024-05"], "datetime64[M]")
    >>> series = as_series([1.0, 2.0, 4.0, 5.0], months)
    >>> series.frequency, series.values
    ('month', array([ 1.,  2., nan,  4.,  5.]))
    """
    try:
        values = np.asarray(y, float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`y` must be numbers, NaN where one is missing; got others: {error}.") from None
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    check(values.ndim == 1, "y", "one series of numbers", f"shape {values.shape}")
    bad = np.flatnonzero(np.isinf(values))
    check(not len(bad), "y", "finite, or NaN where it is missing", f"inf in row {bad[0] if len(bad) else 0}")
    count = int((~np.isnan(values)).sum())
    check(count >= 4, "y", "at least 4 readings", f"{count} readings")
    if times is None:
        return Series(values, np.arange(len(values)), "number", 1.0, 0.0)
    stamps = np.asarray(times)
    check(stamps.shape == values.shape, "times", f"as long as `y` ({len(values)})", f"shape {stamps.shape}")
    dated = stamps.dtype.kind == "M"
    check(dated or stamps.dtype.kind in "iuf", "times", "numbers or dates (datetime64)", f"{stamps.dtype}")
    missing = np.flatnonzero(np.isnat(stamps) if dated else ~np.isfinite(stamps.astype(float)))
    check(
        not len(missing), "times", "known for every row", f"none in row {missing[0] if len(missing) else 0}"
    )
    _check_order(stamps)
    return (
        _dated(values, stamps) if dated else _on_grid(values, stamps.astype(float), "number", stamps[0], 1.0)
    )


def with_rows(series: Series, rows: Any, name: str = "X") -> np.ndarray:
    """A finite table `(len(series), k)` of columns known at the rows; a gap has the row before it."""
    table = np.asarray(rows, float)
    table = table[:, None] if table.ndim == 1 else table
    places = np.asarray(series.places)
    check(
        table.ndim == 2 and len(table) == len(places),
        name,
        f"a table of {len(places)} rows",
        f"shape {table.shape}",
    )
    check(bool(np.isfinite(table).all()), name, "finite", "NaN or inf")
    return table[np.searchsorted(places, np.arange(len(series)), side="right") - 1]


def _check_order(stamps: np.ndarray) -> None:
    steps = np.diff(stamps)
    zero = steps.dtype.type(0)
    same, back = np.flatnonzero(steps == zero), np.flatnonzero(steps < zero)
    fix = "Several series in one table have a column that names them: give each alone, or `--series`."
    row = int(same[0]) + 1 if len(same) else 0
    check(
        not len(same),
        "times",
        "different in every row",
        f"{stamps[row]} twice, in rows {row - 1} and {row}",
        fix,
    )
    row = int(back[0]) + 1 if len(back) else 0
    check(
        not len(back),
        "times",
        "in order",
        f"{stamps[row]} after {stamps[row - 1]} in row {row}",
        "Sort the rows.",
    )


def _dated(values: np.ndarray, stamps: np.ndarray) -> Series:
    seconds = stamps.astype("datetime64[s]")
    days, months = stamps.astype("datetime64[D]"), stamps.astype("datetime64[M]")
    whole = bool((days.astype("datetime64[s]") == seconds).all())
    within = (days - months.astype("datetime64[D]")).astype(int)
    ends = bool((days + 1 == (months + 1).astype("datetime64[D]")).all())
    same = ends or (within[0] < 28 and bool((within == within[0]).all()))
    if whole and same and (np.diff(months).astype(int) > 0).all():
        return _monthly(values, months, days[0], ends)
    if whole and np.is_busday(days).all() and len(days) > 10:
        at = np.busday_count(days[0], days)
        if np.gcd.reduce(np.diff(at)) == 1 and (np.diff(days).astype(int) == 3).any():
            return _placed(values, at, "business day", 1.0, days[0])
    apart = int(np.gcd.reduce(np.diff(seconds).astype(int)))
    check(apart > 0, "times", "at least a second apart", "less")
    unit = next(name for name, size in _SECONDS.items() if apart % size == 0)
    origin = days[0] if whole and unit in ("day", "week") else seconds[0]
    return _placed(values, (seconds - seconds[0]).astype(int) // apart, unit, apart / _SECONDS[unit], origin)


def _monthly(values: np.ndarray, months: np.ndarray, first: Any, ends: bool) -> Series:
    at = (months - months[0]).astype(int)
    apart = int(np.gcd.reduce(at))
    size = next(count for count in _MONTHS if apart % count == 0)
    return _placed(values, at // apart, _MONTHS[size], apart / size, first, ends)


def _on_grid(values: np.ndarray, stamps: np.ndarray, unit: str, origin: Any, size: float) -> Series:
    steps = np.diff(stamps)
    apart = float(steps.min())
    for parts in range(1, 11):  # the least distance need not be the step of the grid
        at = (stamps - stamps[0]) / (apart / parts)
        if np.abs(at - np.round(at)).max() < 1e-4 * max(1.0, parts):
            return _placed(values, np.round(at).astype(int), unit, apart / parts / size, float(origin))
    fix = "Average the readings over equal spans first."
    row = int(np.argmax(np.abs(at - np.round(at))))
    raise ValueError(
        f"`times` must lie on a grid of equal steps, with gaps; got {stamps[row]} in row {row}. {fix}"
    )


def _placed(
    values: np.ndarray, at: np.ndarray, unit: str, step: float, origin: Any, ends: bool = False
) -> Series:
    size = int(at[-1]) + 1
    fix = "Average the readings over equal spans first."
    check(size <= _SPARSE * len(at) + 10, "times", f"on a grid with at most {_SPARSE} times for each reading",
          f"{len(at)} readings on {size} times", fix)  # fmt: skip
    grid = np.full(check_count("times", size), np.nan)
    grid[at] = values
    # a date as text: it can be stored
    first = str(origin) if isinstance(origin, np.datetime64) else origin
    return Series(grid, at, unit, float(step), first, ends)
