"""Columns beside the question: how often a row counts, what it belongs to, when it was, whether it ended.

Weights.     Numbers from zero; rows of weight zero are not there.
Groups.      Words of any kind.
Times.       Numbers, or dates as `tables.cells` reads them, so that 02.01.2020 is before 01.02.2020.
Events.      Two values; of words that mean yes or no these, of others the greater says that the end was seen.
Gaps.        Refused by the number of their first row: no guess of theirs would be harmless.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tractable.tables.cells import is_words, moments_of, numbers_of
from tractable.tables.files import WrongTable

__all__ = ["beside_of"]

_LARGEST = 1e12  # of a weight
_YES = frozenset({"1", "1.0", "true", "yes", "y", "t"})
_NO = frozenset({"0", "0.0", "false", "no", "n", "f"})


def beside_of(table: Any, target: str, names: Mapping[str, str | None]) -> dict[str, np.ndarray | None]:
    """The columns of these `names` as arrays, by what they are for."""
    found: dict[str, np.ndarray | None] = {}
    for use, name in names.items():
        found[use] = None
        if name is None:
            continue
        if name == target:
            raise WrongTable(f"the {use} must be in another column than the target; got {name!r} for both.")
        column = table[name]
        values = _READ[use](name, column)
        gaps = np.flatnonzero(column.isna().to_numpy() | _unread(values))
        if len(gaps):
            cell = "an empty cell" if column.isna().iloc[gaps[0]] else repr(str(column.iloc[gaps[0]]))
            must = f"{_MUST[use]} in every row that has a target"
            raise WrongTable(f"the column {name!r} must have {must}; got {cell} in {len(gaps)} of them.")
        found[use] = values
    return found


def _unread(values: np.ndarray) -> np.ndarray:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _weights(name: str, column: Any) -> np.ndarray:
    values = numbers_of(column)
    if (values < 0).any():
        raise WrongTable(f"the weights {name!r} must not be negative; got {np.nanmin(values):g}.")
    if not (values > 0).any() and not np.isnan(values).any():
        raise WrongTable(f"the weights {name!r} must be positive in some rows; got 0 in all of them.")
    if (values > _LARGEST).any():
        raise WrongTable(f"the weights {name!r} must be at most {_LARGEST:g}; got {np.nanmax(values):g}.")
    return values


def _groups(name: str, column: Any) -> np.ndarray:
    return column.astype(str).to_numpy(object)


def _times(name: str, column: Any) -> np.ndarray:
    if column.dtype.kind in "iuf":
        return numbers_of(column)
    plain = numbers_of(column) if is_words(column) else np.full(len(column), np.nan)
    return moments_of(column) if np.isnan(plain[column.notna().to_numpy()]).any() else plain


def _events(name: str, column: Any) -> np.ndarray:
    words = column.astype(str).to_numpy(object)
    seen = sorted(set(words[column.notna().to_numpy()].tolist()))
    if len(seen) > 2:
        raise WrongTable(f"the column {name!r} must have two values, yes and no; got {len(seen)}.")
    plain = {word.strip().lower() for word in seen}
    yes = {word for word in seen if word.strip().lower() in _YES} if plain <= _YES | _NO else set(seen[1:])
    ends = np.isin(words.astype(str), sorted(yes))
    if not ends.any():
        raise WrongTable(f"the column {name!r} must say of some rows that their end was seen; got {seen}.")
    return ends


_READ = {"weights": _weights, "groups": _groups, "times": _times, "events": _events}
_MUST = {"weights": "a number", "groups": "a group", "times": "a number or a date", "events": "yes or no"}
