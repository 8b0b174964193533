r"""A table from a file, for commands that look at all its columns: what each column is, and what is left out.

Kinds.       *number*; *category* (words, truth values, or two distinct numbers), coded 0, 1, ... in order.
Left out.    Columns without values or with one value, dates, free text (more than `MOST_STATES` words), and
             identifiers (words that are all different, whole numbers in a row); each with its reason. A
             column that is asked for by name is used, or refused by name.
Gaps.        Empty cells are NaN.
"""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tractable._hints import nearest

__all__ = ["MOST_STATES", "Columns", "WrongTable", "read_columns", "read_frame"]

MOST_STATES = 30
_ENCODING = "utf-8-sig"  # spreadsheets put a mark before the first column


class WrongTable(ValueError):
    """A file or a request that cannot be used, in one sentence."""


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
    frame: Any = read_frame(path)
    for name in (*wanted, *ignored):
        if name not in frame.columns:
            said = nearest(name, list(frame.columns))
            raise WrongTable(f"{path}: there must be a column {name!r}; got {list(frame.columns)}. {said}")
    left_out = dict.fromkeys(ignored, "left out on request")
    numbers: dict[str, np.ndarray] = {}
    categories: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    for name in wanted or [c for c in frame.columns if c not in left_out]:
        kind, reason = _kind(frame[name])
        if wanted and name in wanted and kind == "":
            kind = _forced(path, name, frame[name], reason)
        if kind == "number":
            numbers[name] = frame[name].to_numpy(float, na_value=np.nan)
        elif kind == "category":
            categories[name] = _codes(frame[name])
        else:
            left_out[name] = reason
    if not numbers and not categories:
        raise WrongTable(
            f"{path}: there must be a column of numbers or categories; got {left_out or 'none'}."
        )
    _refuse_infinite(path, numbers)
    shape = (len(frame), 0)
    return Columns(
        np.column_stack(list(numbers.values())) if numbers else np.zeros(shape),
        np.column_stack([codes for codes, _ in categories.values()]) if categories else np.zeros(shape),
        tuple(numbers), tuple(categories), tuple(states for _, states in categories.values()), left_out,
    )  # fmt: skip


def read_frame(path: Path) -> pd.DataFrame:
    """The table of a CSV, TSV or Parquet file, as it is."""
    try:
        if path.suffix in (".parquet", ".pq"):
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, sep=_separator(path), encoding=_ENCODING)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        words = " ".join(str(error).split())
        raise WrongTable(f"{path}: there must be a table in CSV, TSV or Parquet; got {words}.") from error
    if frame.empty:
        raise WrongTable(f"{path}: there must be at least one row below the names; got none.")
    frame.columns = [str(name).strip() for name in frame.columns]
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise WrongTable(f"{path}: each column must have a name of its own; got {twice[0]!r} twice.")
    return frame


def _separator(path: Path) -> str:
    """The one of the usual separators that the first line has most of; a comma where it has none."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding=_ENCODING) as file:
        first = file.readline()
    return max(",\t;|", key=first.count)


def _kind(column: pd.Series) -> tuple[str, str]:
    """What a column is, or why it is not used."""
    seen = column.dropna()
    distinct = seen.nunique()
    if distinct < 2:
        return "", "no value" if distinct == 0 else f"one value, {seen.iloc[0]}"
    if pd.api.types.is_datetime64_any_dtype(column):
        return "", "dates"
    if pd.api.types.is_bool_dtype(seen.infer_objects()):
        return "category", ""
    if pd.api.types.is_numeric_dtype(column):
        return _kind_of_numbers(seen, distinct)
    if distinct == len(seen) and len(seen) > 2:
        return "", "words that are all different: an identifier, or text"
    if distinct > MOST_STATES:
        return "", f"{distinct} different words: text, or too many categories"
    return ("", "dates") if _are_dates(seen) else ("category", "")


def _kind_of_numbers(seen: pd.Series, distinct: int) -> tuple[str, str]:
    values = seen.to_numpy(float)
    whole = bool((values == np.floor(values)).all())
    if whole and len(values) > 2 and distinct == len(values) and bool((np.diff(np.sort(values)) == 1).all()):
        return "", "whole numbers in a row: an identifier"
    return ("category", "") if distinct == 2 else ("number", "")


def _are_dates(seen: pd.Series) -> bool:
    sample = seen.astype(str).iloc[:50]
    if not sample.str.contains(r"\d").all():
        return False
    return bool(pd.to_datetime(sample, errors="coerce", format="mixed").notna().all())


def _forced(path: Path, name: str, column: pd.Series, reason: str) -> str:
    """The kind of a column that was asked for all the same."""
    if pd.api.types.is_numeric_dtype(column) and column.dropna().nunique() > 1:
        return "number"
    raise WrongTable(f"{path}: the column {name!r} must hold numbers or categories; got {reason}.")


def _codes(column: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    codes, states = pd.factorize(column, sort=True)
    return np.where(codes < 0, np.nan, codes.astype(float)), tuple(str(state) for state in states)


def _refuse_infinite(path: Path, numbers: dict[str, np.ndarray]) -> None:
    for name, values in numbers.items():
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise WrongTable(f"{path}: numbers must be finite; got {values[row]} in {name!r}, row {row + 1}.")
