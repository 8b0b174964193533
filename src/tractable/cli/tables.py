r"""The columns of a file for commands that look at all of them: numbers, codes, and what is left out.

Kinds.       Those of `tables.kinds`: numbers and counts; categories, ordered ones and truth values, coded
             0, 1, ... in order.
Left out.    Columns without values or with one value, dates, free text (or more than `MOST_STATES` words),
             and identifiers, each with its reason. A column that is asked for by name is used, or refused.
Gaps.        Empty cells are NaN.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tractable.tables.cells import factorised, numbers_of
from tractable.tables.files import WrongTable
from tractable.tables.kinds import Column, columns_of
from tractable.tables.reading import check_columns, read_table

__all__ = ["MOST_STATES", "Columns", "read_columns"]

MOST_STATES = 30


class Columns(NamedTuple):
    """Numbers and codes of the columns in use, and the columns that are not, with the reason."""

    numbers: np.ndarray
    codes: np.ndarray
    number_names: tuple[str, ...]
    category_names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    left_out: dict[str, str]

    @property
    def num_rows(self) -> int:
        return len(self.numbers)


def read_columns(path: Path, wanted: Sequence[str] = (), ignored: Sequence[str] = ()) -> Columns:
    """The columns of a CSV, TSV or Parquet file: those `wanted`, or all but those `ignored`."""
    frame: Any = read_table(path)
    check_columns(frame, (*wanted, *ignored), path)
    left_out = dict.fromkeys(ignored, "left out on request")
    chosen = list(wanted) or [name for name in frame.columns if name not in left_out]
    numbers: dict[str, np.ndarray] = {}
    categories: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    for each in columns_of(frame[chosen], {})[0]:
        name, reason = each.name, _reason(each)
        if reason and wanted:
            each = _forced(path, each, reason)
        if reason and not wanted:
            left_out[name] = reason
        elif each.kind in ("number", "count"):
            _refuse_infinite(path, frame[name])
            numbers[name] = numbers_of(frame[name])
        else:
            categories[name] = _codes(frame[name], each)
    if not numbers and not categories:
        raise WrongTable(
            f"{path}: there must be a column of numbers or categories; got {left_out or 'none'}."
        )
    shape = (len(frame), 0)
    return Columns(
        np.column_stack(list(numbers.values())) if numbers else np.zeros(shape),
        np.column_stack([codes for codes, _ in categories.values()]) if categories else np.zeros(shape),
        tuple(numbers), tuple(categories), tuple(states for _, states in categories.values()), left_out,
    )  # fmt: skip


def _reason(column: Column) -> str:
    """Why a column is not used, or nothing."""
    if column.distinct < 2:
        return column.note or "one value"
    if column.kind == "identifier":
        return f"{column.note}: an identifier"
    if column.kind == "datetime":
        return "dates"
    if column.kind == "text" or (column.kind == "category" and column.distinct > MOST_STATES):
        return f"{column.distinct} different words: text, or too many categories"
    return ""


def _forced(path: Path, column: Column, reason: str) -> Column:
    """A column that was asked for all the same."""
    if column.kind == "identifier" and column.note.startswith("whole numbers"):
        return column._replace(kind="number")
    raise WrongTable(f"{path}: the column {column.name!r} must hold numbers or categories; got {reason}.")


def _codes(cells: Any, column: Column) -> tuple[np.ndarray, tuple[str, ...]]:
    codes, words = factorised(cells)
    states = [level for level in column.levels if level in words]
    places = np.array([*(float(states.index(word)) for word in words), np.nan])
    return places[codes], tuple(states)


def _refuse_infinite(path: Path, cells: Any) -> None:
    if cells.dtype.kind == "f" and np.isinf(cells.to_numpy()).any():
        row = int(np.argmax(np.isinf(cells.to_numpy())))
        said = f"got {cells.iloc[row]} in {cells.name!r}, row {row + 1}."
        raise WrongTable(f"{path}: numbers must be finite; {said}")
