r"""What the cells of a column mean: numbers, moments, words; the same when a table is described and encoded.

Numbers.     As they are; truth values are 0 and 1; words by their digits, without a sign of money, a
             percent sign, blanks and marks of thousands (`1,234.5`, `1.234,5`, `1 234`). Infinity is no
             number.
Moments.     Seconds since 1970 in UTC; words as dates where pandas reads them.
Words.       Text without blanks at its ends; whole numbers without a fraction, so that 1 and 1.0 are one
             level.
Gaps.        NaN, NaT and None; empty words.
Cost.        Linear in the rows; what is looked at in Python are the distinct cells.
"""

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "are_dates", "are_digit_dates", "disguised_numbers", "factorised", "is_day_first", "is_gap", "is_words",
    "level_text", "moments_of", "numbers_of",
]  # fmt: skip

_SIGNS = r"|-|--|\.|\.\.|\.\.\.|\?|na|n/a|nan|none|null|nil|missing|unknown"  # of a gap
_GAP = re.compile(_SIGNS, re.IGNORECASE)
_DRESS = re.compile(r"[\s\u00a0\u202f'’$€£¥%]|\b(?:USD|EUR|GBP|CHF)\b")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_CONTINENTAL = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+|[+-]?\d+,\d+|[+-]?\d{1,3}(?:\.\d{3}){2,}")
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{4}-?Q[1-4]|\d{4}-\d{2}|[A-Za-z]{3,9}\.?,? \d{1,4}|\d{8}T"
)
_WHOLE = re.compile(r"-?\d+\.0+")
_SAMPLE = 200
_FEW = 5_000
_PEEK = 20
_DAY_FIRST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}")


def is_words(column: "pd.Series") -> bool:
    """Whether the cells are text or mixed objects."""
    name = str(column.dtype)
    return name in ("object", "str") or name.startswith(("string", "large_string"))


def level_text(value: Any) -> str:
    """One cell as the name of a level.

    >>> level_text(3.0), level_text("3.0"), level_text(" a "), level_text(True)
    ('3', '3', 'a', 'True')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value).strip()
    if text.endswith("0") and _WHOLE.fullmatch(text):
        return text[: text.index(".")]  # a file that was written from numbers
    return text


def factorised(column: "pd.Series") -> tuple[np.ndarray, list[str]]:
    """Codes of the cells (-1 for gaps) and the distinct words that they stand for, in order of appearance."""
    import pandas as pd

    try:  # a few cells are sooner looked at as objects than as columns of Arrow
        cells: Any = column.to_numpy(object) if len(column) < _FEW and is_words(column) else column
        codes, values = pd.factorize(cells)
    except TypeError:  # lists and the like in cells
        codes, values = pd.factorize(column.map(lambda cell: cell if cell is None else str(cell)))
    words = [level_text(value) for value in np.asarray(values, dtype=object)]
    places: dict[str, int] = {}
    for word in words:
        if word:
            places.setdefault(word, len(places))
    if len(places) == len(words):
        return codes, words
    moved = np.array([*(places.get(word, -1) for word in words), -1])
    return moved[codes], list(places)


def numbers_of(column: "pd.Series") -> np.ndarray:
    """The cells as numbers, NaN where there is none."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return moments_of(column)
    if not is_words(column):
        if isinstance(column.dtype, pd.CategoricalDtype):
            return numbers_of(column.astype(column.cat.categories.dtype))
        if pd.api.types.is_timedelta64_dtype(column):
            return column.dt.total_seconds().to_numpy(float)
        values = column.to_numpy(float, na_value=np.nan)
    else:
        codes, words = factorised(column)
        values = np.append(_parsed(words), np.nan)[codes]
    return np.where(np.isfinite(values), values, np.nan)


def is_gap(cell: Any) -> bool:
    """Whether a word is a sign of a gap."""
    return _GAP.fullmatch(str(cell).strip()) is not None


def disguised_numbers(column: "pd.Series") -> tuple[np.ndarray | None, str]:
    """The numbers of a column of words where all its words are numbers or signs of a gap, and what was put
    aside; None where they are words."""
    if not any(character.isdigit() for cell in column.iloc[:_PEEK] for character in str(cell)):
        return None, ""  # most columns of words are known by their first cells
    codes, words = factorised(column)
    bare = [word for word in words if not is_gap(word)]
    if not bare or not any(character.isdigit() for character in bare[0]):
        return None, ""
    if any(re.fullmatch(r"0\d+", word) for word in bare):
        return None, ""
    if not np.isfinite(_parsed(bare[:_SAMPLE])).all() or not np.isfinite(found := _parsed(bare)).all():
        return None, ""
    if _are_dates_in_digits(bare, found):
        return None, ""
    values = np.append(_parsed(words), np.nan)[codes]
    gaps = sorted(set(words) - set(bare))
    how = (
        f"{', '.join(map(repr, gaps))} taken as missing"
        if gaps
        else "signs of money, percent or thousands put aside"
    )
    return values, how


def _parsed(words: list[str]) -> np.ndarray:
    """Numbers of words; the marks of thousands are those that the whole list is consistent with."""
    bare = [_DRESS.sub("", word) for word in words]
    continental = any(map(_CONTINENTAL.fullmatch, bare)) and not any("," in w and "." in w and
                      w.rfind(".") > w.rfind(",") for w in bare)  # fmt: skip
    continental = continental and not all(map(_THOUSANDS.fullmatch, [w for w in bare if "," in w] or ["1,5"]))
    found = np.full(len(words), np.nan)
    for place, word in enumerate(bare):
        if continental and ("," in word or word.count(".") > 1):
            word = word.replace(".", "").replace(",", ".")
        elif _THOUSANDS.fullmatch(word):
            word = word.replace(",", "")
        if _PLAIN.fullmatch(word):
            found[place] = float(word)
    return found


def _are_dates_in_digits(words: list[str], values: np.ndarray) -> bool:
    """`01.02.2020` is no number of thousands."""
    return bool(re.fullmatch(r"\d{1,2}\.\d{1,2}\.\d{2,4}", words[0])) and bool((values > 0).all())


def are_dates(words: list[str]) -> bool:
    """Whether nine tenths of some distinct words are dates."""
    sample = words[:: max(1, len(words) // _SAMPLE)]
    if not sample or sum(bool(_DATE.search(word)) for word in sample) < 0.9 * len(sample):
        return False
    return bool(_stamps(sample, is_day_first(sample)).notna().mean() >= 0.9)


def is_day_first(words: list[str]) -> bool:
    """Whether 13.02.2020 or 13/02/2020 occurs, or dates are written with dots.

    >>> is_day_first(["01/02/2020", "13/02/2020"]), is_day_first(["2020-02-13"])
    (True, False)
    """
    found = [match for match in map(_DAY_FIRST.match, words) if match]
    dots = bool(found) and all("." in match[0] for match in found)
    return dots or any(int(match[1]) > 12 for match in found)


def _stamps(words: list[str], day_first: bool) -> Any:
    import pandas as pd

    quarters = [re.fullmatch(r"(\d{4})-?Q([1-4])", word) for word in words]
    if words and all(quarters):
        words = [f"{q[1]}-{3 * int(q[2]) - 2:02d}-01" for q in quarters if q]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas tells that it cannot be quick
        return pd.Series(pd.to_datetime(words, errors="coerce", format="mixed", dayfirst=day_first, utc=True))


def moments_of(column: "pd.Series", day_first: bool | None = None) -> np.ndarray:
    """The cells as seconds since 1970 in UTC, NaN where there is none; whether words have the day first is
    seen from them, or was."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        stamps = pd.to_datetime(column, utc=True)
    elif not is_words(column) and pd.api.types.is_numeric_dtype(column):
        return _seconds_of_numbers(numbers_of(column))
    elif isinstance(column.dtype, pd.PeriodDtype):
        stamps = pd.to_datetime(column.dt.to_timestamp(), utc=True)
    else:
        codes, words = factorised(column)
        if not words:
            return np.full(len(column), np.nan)
        return np.append(
            _seconds(_stamps(words, is_day_first(words) if day_first is None else day_first)), np.nan
        )[codes]
    return _seconds(stamps)


def are_digit_dates(values: np.ndarray) -> bool:
    """Whether whole numbers are dates such as 20240131.

    >>> are_digit_dates(np.array([20240131, 20240201])), are_digit_dates(np.array([20240131, 20249999]))
    (True, False)
    """
    if not len(values) or values.min() < 19000101 or values.max() > 21001231:
        return False
    months, days = values // 100 % 100, values % 100
    return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())


def _seconds_of_numbers(values: np.ndarray) -> np.ndarray:
    """Numbers as moments: dates in digits, years, or else seconds (milliseconds) since 1970."""
    import pandas as pd

    seen = values[~np.isnan(values)]
    if are_digit_dates(seen):
        words = pd.Series(np.where(np.isnan(values), 0, values).astype(np.int64).astype(str))
        return _seconds(pd.to_datetime(words, errors="coerce", format="%Y%m%d", utc=True))
    if len(seen) and seen.min() >= 1000 and seen.max() < 3000:
        years = np.floor(np.where(np.isnan(values), 1970, values)).astype(np.int64) - 1970
        starts = years.astype("datetime64[Y]").astype("datetime64[s]").astype(float)
        return np.where(np.isnan(values), np.nan, starts)
    return values / 1000 if len(seen) and np.median(np.abs(seen)) > 1e11 else values


def _seconds(stamps: Any) -> np.ndarray:
    import pandas as pd

    plain = pd.Series(stamps).dt.tz_localize(None).to_numpy("datetime64[us]")
    return np.where(np.isnat(plain), np.nan, plain.astype(np.int64) / 1e6)
