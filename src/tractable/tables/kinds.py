r"""What a column is: inferred by rules that can be read, and overridden by name.

Constant.    At most one distinct value and nothing missing, or no value at all.
Boolean.     Truth values; 0 and 1; yes and no, true and false and the like.
Number.      Numbers; of them *count*: whole from zero; *identifier*: ten or more whole ones that follow each
             other without a gap, or that are all different under a name such as `id`; *category*: two of
             them.
             Whole numbers under a name such as `zip` are categories, and such as 20240131 dates.
Datetime.    Dates and times, and words of which nine tenths are.
Ordered.     Ordered categories of pandas; words of a known scale (low, medium, high); ranges (18-25, 65+).
Identifier.  Words of which nine tenths are different, without blanks; *text*: many different words with
             several blanks in each; *category*: all other words.
Cost.        Numbers are sorted column by column, words are looked at once for each distinct one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tractable.tables.cells import are_dates, are_digit_dates, factorised, is_words, level_text, numbers_of
from tractable.tables.number_part import LARGEST
from tractable.tables.scales import in_order

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Column", "column_of", "columns_of"]

KINDS = ("number", "count", "category", "ordered", "boolean", "datetime", "text", "identifier", "constant")
MOST_LEVELS_SHOWN = 60
_TRUTHS = (
    {"0", "1"},
    {"true", "false"},
    {"yes", "no"},
    {"y", "n"},
    {"t", "f"},
    {"on", "off"},
    {"ja", "nein"},
)
_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|index|row|nr|no|number|code)$|Id$|ID$", re.IGNORECASE)
_SURE_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|row)$|Id$|ID$")
_POSTAL = re.compile(r"(^|[_\s.-])(zip|zip[_\s]?code|post[_\s]?code|postal[_\s]?code|plz)$", re.IGNORECASE)
_LEAST_TEXT = 30  # distinct words
_WORDS_OF_TEXT = 3.0  # in a cell, on average


class Column(NamedTuple):
    """One column: its kind, how many cells are missing, how many values are distinct, and what to know.

    `levels` are the values of categories that are few enough to be shown, in their order; `told` says that
    the kind was given, not found.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    levels: tuple[str, ...] = ()
    note: str = ""
    told: bool = False


def columns_of(frame: Any, kinds: Mapping[str, str]) -> tuple[list[Column], dict[str, np.ndarray]]:
    """The columns of a frame, those of numbers together; and the codes of the cells of those of words."""
    dtypes = dict(zip(frame.columns, frame.dtypes))
    plain = [name for name, kind in dtypes.items() if isinstance(kind, np.dtype) and kind.kind in "iuf"]
    found = {column.name: column for column in _numbers(frame, plain)}
    codes: dict[str, np.ndarray] = {}
    for name in frame.columns:
        if name not in found:
            column = frame[name]
            codes[name], words = factorised(column)
            found[name] = column_of(column, (codes[name], words))
    found |= {name: _told(found[name], kind, frame) for name, kind in kinds.items()}
    return [found[name] for name in frame.columns], codes


def column_of(column: "pd.Series", factors: tuple[np.ndarray, list[str]] | None = None) -> Column:
    """What one column is; its codes and words, where they are known."""
    import pandas as pd

    name, kind = str(column.name), column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _categorical(name, column, *(factors or factorised(column)))
    if pd.api.types.is_bool_dtype(column):
        return _summary(name, "boolean", *(factors or factorised(column)))
    if pd.api.types.is_datetime64_any_dtype(column) or isinstance(kind, pd.PeriodDtype):
        missing, distinct = int(column.isna().sum()), int(column.nunique())
        return _or_constant(Column(name, "datetime", missing, distinct))
    if not is_words(column):
        return _numbers(pd.DataFrame({name: numbers_of(column)}), [name])[0]
    codes, words = factors or factorised(column)
    found = _summary(name, _kind_of_words(name, words, codes), codes, words)
    order = in_order(words) if found.kind == "category" else None
    if order is None:
        return found
    return found._replace(kind="ordered", levels=tuple(order), note="order: " + " < ".join(order))


def _kind_of_words(name: str, words: list[str], codes: np.ndarray) -> str:
    present = int((codes >= 0).sum())
    lower = {word.lower() for word in words}
    if len(words) < 2:
        return "constant" if present == len(codes) or not words else "category"
    if any(lower == truth for truth in _TRUTHS):
        return "boolean"
    if are_dates(words):
        return "datetime"
    length = sum(word.count(" ") + 1 for word in words) / len(words)
    if len(words) > _LEAST_TEXT and length >= _WORDS_OF_TEXT and len(words) > 0.1 * present:
        return "text"
    different = len(words) > 2 and len(words) >= (0.9 if present >= 50 else 1.0) * present
    return "identifier" if different and length < _WORDS_OF_TEXT else "category"


def _numbers(frame: Any, names: Sequence[str]) -> list[Column]:
    """Columns of numbers: sorted, counted and judged together."""
    found = []
    block = max(1, int(4e6) // max(len(frame), 1))
    for start in range(0, len(names), block):
        part = list(names[start : start + block])
        values = np.sort(frame[part].to_numpy(float), axis=0)  # gaps come last
        missing = np.isnan(values).sum(0)
        with np.errstate(invalid="ignore"):
            jumps = np.diff(values, axis=0)
            distinct = (jumps > 0).sum(0) + (missing < len(values))
            whole = np.asarray(((values == np.floor(values)) | np.isnan(values)).all(0))
            in_a_row = np.asarray(((jumps == 1) | np.isnan(jumps)).all(0))
        infinite = np.asarray((np.abs(values) > LARGEST).any(0))
        for j, name in enumerate(part):
            seen = values[: len(values) - missing[j], j]
            kind = _kind_of_numbers(str(name), seen, int(distinct[j]), bool(whole[j]), bool(in_a_row[j]))
            each = Column(str(name), kind, int(missing[j]), int(distinct[j]))
            each = each._replace(note="has infinite values") if infinite[j] else each
            if distinct[j] <= MOST_LEVELS_SHOWN and (kind in ("category", "boolean") or distinct[j] == 1):
                each = each._replace(levels=tuple(level_text(x) for x in np.unique(seen)))
            if kind == "identifier":
                each = each._replace(note="whole numbers " + ("in a row" if in_a_row[j] else "that differ"))
            found.append(_or_constant(each))
    return found


def _kind_of_numbers(name: str, seen: np.ndarray, distinct: int, whole: bool, in_a_row: bool) -> str:
    if distinct == 2:
        return "boolean" if set(seen[[0, -1]].tolist()) == {0.0, 1.0} else "category"
    if whole and len(seen) > 2 and distinct == len(seen):
        named = _IDENTIFIER if len(seen) >= 20 else _SURE_IDENTIFIER
        if (in_a_row and len(seen) >= 10) or named.search(name):
            return "identifier"
    if whole and distinct >= 0.9 * len(seen) and len(seen) >= 20 and _SURE_IDENTIFIER.search(name):
        return "identifier"
    if whole and len(seen) and seen[0] > 0 and _POSTAL.search(name):
        return "category"
    if whole and are_digit_dates(seen):
        return "datetime"
    return "count" if whole and len(seen) and seen[0] >= 0 else "number"


def _categorical(name: str, column: "pd.Series", codes: np.ndarray, words: list[str]) -> Column:
    each = _summary(name, "category", codes, words)
    if not column.cat.ordered:
        return each
    order = [str(level) for level in column.cat.categories]
    return each._replace(kind="ordered", levels=tuple(order), note="order: " + " < ".join(order))


def _summary(name: str, kind: str, codes: np.ndarray, words: list[str]) -> Column:
    shown = len(words) <= MOST_LEVELS_SHOWN and kind in ("category", "boolean", "constant")
    levels = tuple(sorted(words)) if shown else ()
    note = "words that are all different" if kind == "identifier" else ""
    return _or_constant(Column(name, kind, int((codes < 0).sum()), len(words), levels, note))


def _or_constant(column: Column) -> Column:
    if column.distinct == 0:
        return column._replace(kind="constant", note="no value")
    if column.distinct == 1 and column.missing == 0:
        said = "".join(f", {level[:40]}" for level in column.levels)
        return column._replace(kind="constant", levels=(), note=f"one value{said}")
    if column.distinct == 1:  # whether there is a value is all that it says
        return column._replace(kind="boolean" if column.kind == "boolean" else "category")
    return column


def _told(column: Column, kind: str, frame: Any) -> Column:
    """A column whose kind was given."""
    if kind not in ("category", "ordered", "boolean"):
        return column._replace(kind=kind, told=True, levels=())
    _, words = factorised(frame[column.name])
    levels = column.levels or (tuple(sorted(words)) if len(words) <= MOST_LEVELS_SHOWN else ())
    if kind == "ordered":
        levels = column.levels if column.kind == "ordered" else tuple(in_order(words) or _sorted(words))
    return column._replace(kind=kind, told=True, levels=levels)


def _sorted(words: list[str]) -> list[str]:
    """By number where all are numbers, else by letter."""
    try:
        return sorted(words, key=float)
    except ValueError:
        return sorted(words)
