"""Entries of tables as numbers: what is none is refused, with its column, its row and the remedy.

Text.        Names, dates and objects are refused by column and row; gaps in the words of pandas are NaN.
Gaps.        NaN passes where a model marginalises it; infinity never does.
Cost.        One pass without a copy; one copy where entries are not in double precision.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, has_values

__all__ = ["as_numbers", "check_table", "place_of", "refuse_text"]

_LARGEST = int(np.finfo(np.float64).max)
_ENCODE = "Encode names as numbers first, for example with scikit-learn's OneHotEncoder or OrdinalEncoder."
_DATES = "Turn dates into numbers first, for example days since the earliest."
_GAP = "Impute or drop it: this model cannot marginalise missing entries."


def as_numbers(name: str, values: Any) -> np.ndarray:
    """Concrete values in double precision; what is no number is refused with its column."""
    if hasattr(values, "to_numpy") and getattr(values, "ndim", 0) in (1, 2):  # pandas, with its own gaps
        refuse_text(name, values)
        return np.asarray(values.to_numpy(dtype=float, na_value=np.nan))
    fix = "Pass `X.toarray()`."
    check(not hasattr(values, "toarray"), name, "a dense table", "a sparse one", fix, TypeError)
    try:
        array = np.asarray(values)
        kind = array.dtype.kind
        check(kind != "c", name, "real numbers", f"dtype {array.dtype}", error=TypeError)
        text = kind in "USmM"
        check(not text, name, "numbers", f"dtype {array.dtype}", "Turn names into codes.", TypeError)
        return np.asarray(array, np.float64)
    except (ValueError, TypeError) as error:
        if str(error).startswith(f"`{name}`"):
            raise
        raise TypeError(f"`{name}` must be numbers; got {type(values).__name__}. {error}") from error


def refuse_text(name: str, values: Any) -> None:
    """Refuse the first entry that is no number, of a frame or of an array of objects, by column and row."""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        for column, dtype in zip(values.columns, values.dtypes):
            if getattr(dtype, "kind", "O") not in "biuf":
                _refuse_entries(name, values[column].tolist(), f" in column {column!r}")
    elif isinstance(values, np.ndarray) and values.dtype.kind in "OUS" and values.ndim == 2:
        for column in range(values.shape[1]):
            _refuse_entries(name, values[:, column].tolist(), f" in column {column}")


def _refuse_entries(name: str, entries: list, where: str) -> None:
    for row, entry in enumerate(entries):
        if isinstance(entry, bool | int | float) or entry is None or (entry != entry) is True:
            huge = isinstance(entry, int) and abs(entry) > _LARGEST
            check(not huge, name, "numbers of double precision", f"a larger one{where}, row {row}")
            continue
        kind = type(entry).__name__
        if kind in ("NAType", "NaTType", "dict"):  # a gap, in the words of pandas; of a dict NumPy complains
            continue
        fix = _DATES if kind in ("Timestamp", "Timedelta", "datetime", "date") else _ENCODE
        check(False, name, "numbers", f"{entry!r}{where}, row {row}", fix, TypeError)


def check_table(name: str, table: Any, names: Any, gaps: bool) -> bool:
    """Refuse infinities, and gaps unless they are allowed; whether there are gaps."""
    if not has_values(table):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(table.sum()):  # one pass without a copy: a sum hides neither NaN nor infinity
            return False
    bad = np.isinf(table) if gaps else ~np.isfinite(table)
    if bad.any():
        row, *column = (int(i) for i in np.argwhere(bad)[0])
        value = table[(row, *column)]
        what = "NaN" if np.isnan(value) else f"infinity ({value})"
        place = f"{place_of(column[0], names)}, row {row}" if column else f"row {row}"
        must = "finite, or NaN where missing" if gaps else "finite"
        check(False, name, must, f"{what} in {place}", _GAP if what == "NaN" and name == "X" else "")
    return bool(np.isnan(table).any())


def place_of(column: int, names: Any) -> str:
    """The column in words, by its name where it has one."""
    return f"column {column}" if names is None else f"column {names[column]!r}"
