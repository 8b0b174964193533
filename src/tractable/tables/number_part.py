r"""Columns of numbers for models: filled and standardised with signs of their gaps, or as they are.

Linear.      $z = (x - \bar x) / s$ with the mean and spread of the training rows; a gap is the median, and
             where the training rows have gaps a column of zeros and ones says which. A constant column is
             zero.
Logarithms.  A column of positive numbers whose skewness is above `_SKEWED`, and at most half as large after
             taking logarithms, has these too (of zero: that of half the least positive number): sizes,
             incomes and waiting times act by their ratios as often as by their differences.
Trees.       The numbers, NaN where there is none.
Beyond.      What is infinite, or so large that its square is, is taken as a gap.
Cost.        Linear in the cells; all columns at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.tables.cells import is_gap, is_words, numbers_of
from tractable.tables.files import WrongTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LARGEST", "NumberPart", "beyond", "matrix_of"]

LARGEST = 1e150  # whose square is a number
_ROUNDING = 1e-13
_SKEWED = 1.5
_MOST_LOGGED = 200  # columns; of more, none is added


def matrix_of(frame: Any, names: Sequence[str]) -> np.ndarray:
    """The columns as a matrix; a word that is no number is refused by its row."""
    values = _read(frame, names)
    far = np.abs(values) > LARGEST
    return np.where(far, np.nan, values) if far.any() else values


def beyond(frame: Any, names: Sequence[str]) -> np.ndarray:
    """Whether each row has a number that is taken as a gap, because its square is none."""
    return np.asarray((np.abs(_read(frame, names)) > LARGEST).any(1))


def _read(frame: Any, names: Sequence[str]) -> np.ndarray:
    chosen = frame[list(names)]
    if all(isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in chosen.dtypes):
        return chosen.to_numpy(float)
    return np.column_stack([_strict(frame[name]) for name in names])


def _strict(column: "pd.Series") -> np.ndarray:
    values = numbers_of(column)
    if is_words(column) and bool((np.isnan(values) & column.notna().to_numpy()).any()):
        cells = column.to_numpy(object)
        for row in np.flatnonzero(np.isnan(values) & column.notna().to_numpy()):
            if not is_gap(cells[row]):
                said = f"{column.name!r} must hold numbers; got {str(cells[row])[:40]!r} in row {row + 1}."
                raise WrongTable(said)
    return values


class NumberPart:
    """All columns of numbers of a table."""

    def __init__(self, names: Sequence[str], form: str):
        self.names, self.form = tuple(names), form

    def fit(self, frame: Any) -> "NumberPart":
        values = matrix_of(frame, self.names)
        gaps = np.isnan(values)
        self.has_gaps = np.asarray(gaps.any(0))
        seen = ~gaps.all(0)
        self.median = np.zeros(len(self.names))
        if seen.any():
            self.median[seen] = np.nanmedian(values[:, seen], axis=0)
        filled = np.where(gaps, self.median, values)
        self.logged, self.floor = (
            _logged(filled) if self.form == "linear" else (np.zeros(0, int), np.zeros(0))
        )
        self.mean, self.scale = _units(np.concatenate([filled, self._logs(filled)], axis=1))
        return self

    def _logs(self, filled: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(filled[:, self.logged], self.floor))

    def transform(self, frame: Any) -> np.ndarray:
        values = matrix_of(frame, self.names)
        if self.form == "trees":
            return values
        gaps = np.isnan(values)
        filled = np.where(gaps, self.median, values)
        both = np.concatenate([filled, self._logs(filled)], axis=1)
        signs = gaps[:, self.has_gaps].astype(float)
        return np.concatenate([(both - self.mean) / self.scale, signs], axis=1)

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        found = [(name, name) for name in self.names]
        found += [(f"log {self.names[j]}", self.names[j]) for j in self.logged]
        if self.form == "linear":
            found += [(f"{n} missing", n) for n, gap in zip(self.names, self.has_gaps) if gap]
        return found

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.names), "form": self.form, "median": self.median, "mean": self.mean,
            "scale": self.scale, "has_gaps": self.has_gaps, "logged": self.logged, "floor": self.floor,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "NumberPart":
        part = cls(state["names"], state["form"])
        for name in ("median", "mean", "scale", "has_gaps", "logged", "floor"):
            setattr(part, name, np.asarray(state[name]))
        return part


def _units(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of each column; that of a constant one is infinite."""
    largest = np.abs(values).max(0)
    size = np.where(largest > 0, largest, 1.0)  # squares of large numbers are not numbers
    shares = values / size
    spread = shares.std(0)
    return size * shares.mean(0), np.where(spread > _ROUNDING, size * spread, np.inf)


def _logged(filled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns whose logarithms are wanted, and the least number whose logarithm is taken."""
    least = np.where(filled > 0, filled, np.inf).min(0)
    places = np.flatnonzero((filled.min(0) >= 0) & np.isfinite(least))
    if filled.shape[1] > _MOST_LOGGED or not len(places):
        return np.zeros(0, int), np.zeros(0)
    floor = np.where(filled[:, places].min(0) > 0, 1.0, 0.5) * least[places]
    plain, logs = _skewness(filled[:, places]), _skewness(np.log(np.maximum(filled[:, places], floor)))
    wanted = (plain > _SKEWED) & (np.abs(logs) < 0.5 * plain)
    return places[wanted], floor[wanted]


def _skewness(values: np.ndarray) -> np.ndarray:
    mean, scale = _units(values)
    return (((values - mean) / scale) ** 3).mean(0)
