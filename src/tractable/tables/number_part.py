r"""Columns of numbers for models: filled and standardised with signs of their gaps, or as they are.

Linear.      $z = (x - \bar x) / s$ with the mean and spread of the training rows; a gap is the median, and
             where the training rows have gaps a column of zeros and ones says which. A constant column is
             zero.
Trees.       The numbers, NaN where there is none.
Cost.        Linear in the cells; all columns at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.tables.cells import is_gap, is_words, numbers_of
from tractable.tables.files import WrongTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NumberPart", "matrix_of"]

_ROUNDING = 1e-13


def matrix_of(frame: Any, names: Sequence[str]) -> np.ndarray:
    """The columns as a matrix; a word that is no number is refused by its row."""
    chosen = frame[list(names)]
    if all(isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in chosen.dtypes):
        values = chosen.to_numpy(float)
        return values if np.isfinite(values).all() else np.where(np.isinf(values), np.nan, values)
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
        largest = np.abs(filled).max(0)
        size = np.where(largest > 0, largest, 1.0)  # squares of large numbers are not numbers
        shares = filled / size
        spread = shares.std(0)
        self.mean = size * shares.mean(0)
        self.scale = np.where(spread > _ROUNDING, size * spread, np.inf)
        return self

    def transform(self, frame: Any) -> np.ndarray:
        values = matrix_of(frame, self.names)
        if self.form == "trees":
            return values
        gaps = np.isnan(values)
        filled = np.where(gaps, self.median, values)
        return np.concatenate(
            [(filled - self.mean) / self.scale, gaps[:, self.has_gaps].astype(float)], axis=1
        )

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        found = [(name, name) for name in self.names]
        if self.form == "linear":
            found += [(f"{n} missing", n) for n, gap in zip(self.names, self.has_gaps) if gap]
        return found

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.names), "form": self.form, "median": self.median, "mean": self.mean,
            "scale": self.scale, "has_gaps": self.has_gaps,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "NumberPart":
        part = cls(state["names"], state["form"])
        for name in ("median", "mean", "scale", "has_gaps"):
            setattr(part, name, np.asarray(state[name]))
        return part
