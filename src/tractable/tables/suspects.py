r"""What should be known of a table before a model is fitted: gaps, identifiers, copies, leaks, rare classes.

Leak.        A column that determines the target, by Chatterjee's coefficient: with the rows in the order of
             $x$ (ties in random order), ranks $r_i$ of $y$ and $l_i$ the number of $y_j \ge y_i$, $\xi = 1
             - n \sum_i |r_{i+1} - r_i| / (2 \sum_i l_i (n - l_i))$, which is one where $y$ is a function of
             $x$, of any shape, and zero where they are independent. A column is suspected from `_LEAK` of
             the largest value on, which in a normal law is $R^2 = 0.999$. Gaps are a column too: one that
             is filled in for one outcome only.
Copies.      Columns with the same pattern of equal cells; numbers that are linear functions of each other.
Repeated.    Rows that are equal in all columns but identifiers.
Cost.        Linear in the cells but for sorting; leaks and copies are looked for in `_MOST_ROWS` rows,
             correlations among at most `_MOST_COPIES` columns.
References.  Chatterjee (2021), A new coefficient of correlation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tractable.tables.cells import factorised, moments_of, numbers_of
from tractable.tables.impact import hashed_rows
from tractable.tables.target import target_task

__all__ = ["chatterjee", "notes_of"]

_LEAK = 0.97
_LEAST_ROWS = 20
_MOST_CELLS = 4_000_000
_MOST_ROWS = 20_000
_MOST_COPIES = 1_000
_RARE_CLASS = 20
_MANY_LEVELS = 40
_SAME = 1e-10  # below one, of a correlation

_Notes = list[tuple[str, str, str]]


def notes_of(frame: Any, description: Any, codes: dict[str, np.ndarray]) -> _Notes:
    """Code, column and sentence of each note on a described frame; `codes` are those of words."""
    columns = {each.name: each for each in description.columns}
    lines = _lines(frame, description.columns, codes)
    places = {name: j for j, name in enumerate(columns)}
    features = [columns[name] for name in description.features]
    chosen = [places[each.name] for each in features]
    rows = np.random.default_rng(0).permutation(len(frame))  # ties are broken by it, on any day alike
    rows = rows[: min(_MOST_ROWS, max(500, _MOST_CELLS // max(len(features), 1)))]
    sample = lines[rows][:, chosen]
    notes = [*_on_columns(description, len(frame)), *_on_target(frame, description)]
    if description.target is not None:
        notes += _leaks(description.target, features, lines[rows, places[description.target]], sample)
    used = [places[name] for name, each in columns.items() if each.kind not in ("identifier", "constant")]
    return [*notes, *_copies(features, sample), *_repeated(lines, used)]


def chatterjee(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    r"""$\xi$ of the columns of `x` `(n, k)` and `y`, whose order decides among ties of `x`.

    >>> x = np.linspace(-1, 1, 100)
    >>> chatterjee(np.column_stack([x, x * 0]), x**2).round(2).tolist()
    [0.94, 0.94]
    """
    ranks = np.searchsorted(np.sort(y), y, side="right").astype(float)
    least = len(y) - np.searchsorted(np.sort(y), y, side="left")
    total = 2.0 * float((least * (len(y) - least)).sum())
    if total == 0:
        return np.zeros(x.shape[1])
    jumps = np.abs(np.diff(ranks[np.argsort(x, axis=0, kind="stable")], axis=0)).sum(0)
    return 1.0 - len(y) * jumps / total


def _lines(frame: Any, columns: Sequence[Any], codes: dict[str, np.ndarray]) -> np.ndarray:
    """Every column as numbers, words by the order of their appearance; NaN for gaps."""
    found = np.full((len(frame), len(columns)), np.nan)
    plain = [j for j, each in enumerate(columns) if each.name not in codes]
    if plain:
        found[:, plain] = frame[[columns[j].name for j in plain]].to_numpy(float)
    for j, each in enumerate(columns):
        if each.name in codes:
            found[:, j] = _line(frame[each.name], each.kind, codes[each.name])
    return found


def _line(column: Any, kind: str, codes: np.ndarray) -> np.ndarray:
    if kind == "datetime":
        return moments_of(column)
    if kind in ("number", "count"):
        return numbers_of(column)
    return np.where(codes < 0, np.nan, codes)


def _on_columns(description: Any, num_rows: int) -> _Notes:
    notes = []
    for each in description.columns:
        name = each.name
        if name == description.target or name in description.dropped:
            continue
        if each.kind == "constant":
            notes.append(("constant", name, f"{name!r} has {each.note or 'one value'}: left out."))
        elif each.kind == "identifier":
            notes.append(("identifier", name, f"{name!r} names the rows: left out."))
        elif each.kind == "category" and each.distinct > _MANY_LEVELS:
            notes.append(("many_levels", name, f"{name!r} has {each.distinct} levels: rare ones are pooled."))
        if each.kind != "constant" and each.missing > 0.5 * num_rows:
            notes.append(
                ("mostly_missing", name, f"{name!r} is missing in {each.missing / num_rows:.0%} of rows.")
            )
        if "infinite" in each.note:
            notes.append(
                (
                    "infinite",
                    name,
                    f"{name!r} has infinite values, or some whose square is: taken as missing.",
                )
            )
    return notes


def _on_target(frame: Any, description: Any) -> _Notes:
    """Gaps, a single value, rare classes."""
    if (name := description.target) is None:
        return []
    column, notes = description.column(name), []
    if column.missing:
        said = f"the target {name!r} is missing in {column.missing} of {len(frame)} rows: they are left out."
        notes.append(("target_missing", name, said))
    if column.distinct <= 1:
        notes.append(("target_constant", name, f"the target {name!r} has {column.note or 'one value'}."))
    elif target_task(frame[name]) in ("binary", "classes", "ordered"):
        codes, words = factorised(frame[name])
        counts = np.bincount(codes[codes >= 0], minlength=len(words))
        rare = [k for k in np.argsort(counts, kind="stable") if counts[k] < _RARE_CLASS][:5]
        for k in rare:
            rows = "row is" if counts[k] == 1 else "rows are"
            notes.append(("rare_class", name, f"only {counts[k]} {rows} of class {words[k]!r}."))
    return notes


def _leaks(name: str, features: list[Any], target: np.ndarray, lines: np.ndarray) -> _Notes:
    """Columns, and their gaps, that determine the target."""
    known = ~np.isnan(target)
    target, lines = target[known], lines[known]
    if len(target) < _LEAST_ROWS or lines.shape[1] == 0 or np.ptp(target) == 0:
        return []
    least = _LEAK * chatterjee(target[:, None], target)[0]
    gaps = np.isnan(lines)
    told = chatterjee(np.where(gaps, -np.inf, lines), target)
    some = np.flatnonzero(gaps.any(0) & ~gaps.all(0))
    by_gaps = np.full(lines.shape[1], -1.0)
    by_gaps[some] = chatterjee(gaps[:, some].astype(float), target)
    ask = "Is it known when a prediction is wanted?"
    return [
        ("leak", features[j].name, f"{features[j].name!r} {how} the target {name!r}. {ask}")
        for j in np.flatnonzero(np.maximum(told, by_gaps) >= least)
        for how in ("determines, by its gaps," if by_gaps[j] >= least else "determines",)
    ]


def _copies(features: list[Any], lines: np.ndarray) -> _Notes:
    """Columns that say what an earlier one says."""
    notes: _Notes = []
    first: dict[bytes, str] = {}
    again = set()
    for j, each in enumerate(features):
        pattern = _pattern(lines[:, j]) if each.kind not in ("text", "number") else lines[:, j].tobytes()
        if pattern in first and each.distinct > 1:
            said = f"{each.name!r} says the same as {first[pattern]!r} in every row."
            notes.append(("copy", each.name, said))
            again.add(each.name)
        first.setdefault(pattern, each.name)
    places = [j for j, c in enumerate(features) if c.kind in ("number", "count") and c.name not in again]
    if 2 <= len(places) <= _MOST_COPIES and len(lines) >= _LEAST_ROWS:
        notes += _linear_copies([features[j].name for j in places], lines[:5_000, places])
    return notes


def _pattern(values: np.ndarray) -> bytes:
    """Which cells are equal, whatever they are."""
    import pandas as pd

    return pd.factorize(values)[0].astype(np.int32).tobytes()


def _linear_copies(names: list[str], values: np.ndarray) -> _Notes:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = values - values.mean(0)
        size = np.sqrt((centred**2).sum(0))
        points = np.where(np.isfinite(size) & (size > 0), centred / size, 0.0)
        points = np.where(np.isfinite(points), points, 0.0)
    close = np.argwhere(np.triu(np.abs(points.T @ points) > 1 - _SAME, 1))
    told, notes = set(), []
    for i, j in close:
        if j not in told:
            told.add(j)
            notes.append(("copy", names[j], f"{names[j]!r} is {names[i]!r} in other units."))
    return notes


def _repeated(lines: np.ndarray, used: list[int]) -> _Notes:
    if len(used) < 2:
        return []
    count = len(lines) - len(np.unique(hashed_rows(lines[:, used])))
    said = f"{count} rows repeat an earlier one in all columns; a split may put copies on both sides."
    return [("repeated_rows", "", said)] if count else []
