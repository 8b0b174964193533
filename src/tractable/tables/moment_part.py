r"""Columns of dates and times for models: the trend, the season, the week, the day.

Linear.      The time, standardised; $\sin$ and $\cos$ of the year (two harmonics) and, where there are
             times of day, of the day; zeros and ones for the days of the week; a sign of gaps.
Trees.       Days since 1970, year, month, day, day of the year, day of the week, hour.
Varying.     Only what differs among the training rows is kept: a table of yearly dates has no weekdays.
Cost.        Linear in the rows.
"""

from typing import Any

import numpy as np

from tractable.tables.cells import factorised, is_day_first, is_words, moments_of

__all__ = ["MomentPart"]

_DAY = 86_400.0
_YEAR = 365.2425
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class MomentPart:
    """One column of dates or times."""

    def __init__(self, name: str, form: str):
        self.name, self.form = name, form

    def fit(self, frame: Any) -> "MomentPart":
        column = frame[self.name]
        self.day_first = is_day_first(factorised(column)[1]) if is_words(column) else False
        days = moments_of(column, self.day_first) / _DAY
        seen = days[~np.isnan(days)]
        self.has_gaps = len(seen) < len(days)
        self.middle = float(np.median(seen)) if len(seen) else 0.0
        self.scale = (float(seen.std()) or 1.0) if len(seen) else 1.0
        features = self._features(seen)
        self.kept = [name for name, values in features.items() if len(values) and np.ptp(values) > 1e-9]
        return self

    def transform(self, frame: Any) -> np.ndarray:
        days = self.days(frame)
        gaps = np.isnan(days)
        features = self._features(np.where(gaps, self.middle, days))
        columns = [features[name] for name in self.kept]
        if self.form == "trees":
            columns = [np.where(gaps, np.nan, values) for values in columns]
        else:
            columns = [np.where(gaps, 0.0, values) for values in columns]
            columns += [gaps.astype(float)] * self.has_gaps
        return np.column_stack(columns) if columns else np.zeros((len(days), 0))

    def days(self, frame: Any) -> np.ndarray:
        """Days since 1970, NaN where there is no moment."""
        return moments_of(frame[self.name], self.day_first) / _DAY

    def _features(self, days: np.ndarray) -> dict[str, np.ndarray]:
        """All that can be said of moments in days since 1970."""
        whole = np.floor(days)
        dates = whole.astype("datetime64[D]")
        years, months = dates.astype("datetime64[Y]"), dates.astype("datetime64[M]")
        day_of_year = (dates - years).astype(float)
        hour = 24.0 * (days - whole)
        weekday = (whole + 3) % 7  # the first day of 1970 was a Thursday
        if self.form == "trees":
            return {
                "days": days, "year": years.astype(float) + 1970, "month": months.astype(float) % 12 + 1,
                "day": (dates - months).astype(float) + 1, "day of year": day_of_year + 1,
                "weekday": weekday, "hour": hour,
            }  # fmt: skip
        found = {"time": (days - self.middle) / self.scale}
        for label, turns in (("year", day_of_year / _YEAR), ("day", hour / 24.0)):
            for k in (1, 2):
                found[f"{label} sin{k}"] = np.sin(2 * np.pi * k * turns)
                found[f"{label} cos{k}"] = np.cos(2 * np.pi * k * turns)
        return found | {name: (weekday == k).astype(float) for k, name in enumerate(_WEEKDAYS)}

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        names = [f"{self.name} {each}" for each in self.kept]
        names += [f"{self.name} missing"] * (self.form == "linear" and self.has_gaps)
        return [(name, self.name) for name in names]

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name, "form": self.form, "day_first": self.day_first, "has_gaps": self.has_gaps,
            "middle": self.middle, "scale": self.scale, "kept": list(self.kept),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "MomentPart":
        part = cls(state["name"], state["form"])
        for name in ("day_first", "has_gaps", "middle", "scale", "kept"):
            setattr(part, name, state[name])
        return part
