r"""How often promises were kept: overall, by groups of rows, by levels of the prediction and of its doubt.

Numbers.     A central interval of mass $m$ holds $y$ iff its rank is between $(1 - m)/2$ and $(1 + m)/2$; of
             counts the interval is of whole numbers, and promises the mass that it has. Where the end was
             not seen, the part of the ranks above it that lies inside.
Classes.     The most probable class promises its probability; the smallest set of classes with at least the
             mass $m$ promises what it has.
Groups.      Levels of categories, thirds of numbers, thirds of the prediction and of its doubt.
Failures.    An exact binomial tail of the promised share below $0.01$ over the number of groups.
Cost.        Two distribution functions a row; of counts eight quantiles.
References.  Gneiting, Balabdaoui and Raftery (2007); Foygel Barber et al. (2021) on conditional coverage.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tractable.race.composed import ClassLaws
from tractable.race.laws import Laws
from tractable.race.measures import LEVELS, told
from tractable.race.question import Question

__all__ = ["DOUBT", "PREDICTION", "Hits", "coverage", "hits", "level_words"]

PREDICTION, DOUBT = "the prediction", "the doubt"
_LEVELS_OF_COLUMN = 8
_MOST_COLUMNS = 30
_LEAST = 15  # rows of a group
_RARE = 0.01  # the probability of any false alarm


class Hits(NamedTuple):
    """Whether each row kept each promise `(rows, promises)`, what was promised, and ranks of numbers."""

    held: np.ndarray
    promised: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def hits(laws: Laws, question: Question) -> Hits:
    """Of the laws of rows.

    >>> asked = Question("binary", "y", np.array([1]), ("a", "b"))
    >>> hits(ClassLaws(np.array([[0.6, 0.4]])), asked).held.tolist()
    [[0.0, 0.0, 1.0, 1.0, 1.0]]
    """
    if isinstance(laws, ClassLaws):
        return _sets(laws.shares, question.y)
    high = np.clip(laws.cdf(question.y), 0.0, 1.0)
    if question.events is not None:
        ends = np.where(question.events, high, 1.0)
        width = np.maximum(ends - high, 1e-300)
        parts = []
        for mass in LEVELS:
            first, last = (1 - mass) / 2, (1 + mass) / 2
            overlap = np.clip(np.minimum(ends, last) - np.maximum(high, first), 0.0, None) / width
            parts.append(np.where(question.events, (first <= high) & (high <= last), overlap))
        return Hits(np.stack(parts, 1), np.tile(LEVELS, (len(high), 1)), high, ends)
    if laws.discrete:
        below = np.clip(laws.cdf(question.y - 1), 0.0, 1.0)
        ends = [laws.interval(mass) for mass in LEVELS]
        held = np.stack([(a <= question.y) & (question.y <= b) for a, b in ends], 1)
        promised = np.stack([laws.cdf(b) - laws.cdf(a - 1) for a, b in ends], 1)
        return Hits(held.astype(float), promised, below, high)
    masses = np.array(LEVELS)
    held = np.abs(high[:, None] - 0.5) <= masses / 2
    return Hits(held.astype(float), np.tile(masses, (len(high), 1)), high, high)


def _sets(shares: np.ndarray, codes: np.ndarray) -> Hits:
    """The most probable class, then the smallest sets of the masses."""
    order = np.argsort(-shares, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(shares, order, 1), 1)
    place = (order == codes[:, None]).argmax(1)
    held, promised = [place == 0], [sums[:, 0]]
    for mass in LEVELS:
        last = np.minimum((sums < mass - 1e-12).sum(1), shares.shape[1] - 1)
        held.append(place <= last)
        promised.append(np.take_along_axis(sums, last[:, None], 1)[:, 0])
    return Hits(np.stack(held, 1).astype(float), np.minimum(np.stack(promised, 1), 1.0))


def coverage(
    found: Hits, amounts: np.ndarray, level: np.ndarray, doubt: np.ndarray | None, frame: Any,
    kinds: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    """Shares that were kept and promised, with errors: overall, then of each group; which of them fail."""
    groups = [("", "", np.arange(len(amounts))), *_thirds(PREDICTION, level)]
    groups += [] if doubt is None else _thirds(DOUBT, doubt)
    known = [name for name, kind in kinds.items() if name in frame.columns and kind in _SPLIT]
    for name in known[:_MOST_COLUMNS]:
        groups += _SPLIT[kinds[name]](name, frame[name])
    groups = [groups[0], *(each for each in groups[1:] if len(each[2]) >= _LEAST)]
    held, promised, errors = (
        np.array(part) for part in zip(*(_shares(found, amounts, g[2]) for g in groups))
    )
    tested = 0 if found.low is None else LEVELS.index(0.9)
    sizes = np.array(
        [amounts[rows].sum() ** 2 / max((amounts[rows] ** 2).sum(), 1e-300) for *_, rows in groups]
    )
    names = [f"{100 * mass:.0f} %" for mass in LEVELS]
    return {
        "promises": names if found.low is not None else ["likeliest", *names], "tested": tested,
        "column": [each[0] for each in groups], "level": [each[1] for each in groups],
        "rows": np.array([len(each[2]) for each in groups]), "held": held, "promised": promised,
        "error": errors, "off": _off(held[:, tested], promised[:, tested], sizes),
    }  # fmt: skip


def _shares(found: Hits, amounts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    weights = amounts[rows] / max(amounts[rows].sum(), 1e-300)
    promised = found.promised[rows]
    error = np.sqrt((weights**2)[:, None] * promised * (1 - promised)).T  # one term per row
    return weights @ found.held[rows], weights @ promised, np.sqrt((error**2).sum(1))


def _off(held: np.ndarray, promised: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """-1 where too few promises were kept to be chance, 1 where too many, 0 elsewhere."""
    count, p = np.maximum(np.round(sizes), 1.0), np.clip(promised, 1e-12, 1 - 1e-12)
    kept = np.round(held * count)
    limit = _RARE / (2 * len(held))
    few = special.bdtr(kept, count.astype(int), p) < limit
    many = special.bdtrc(np.maximum(kept - 1, 0), count.astype(int), p) < limit
    return np.where(few, -1, np.where(many & (kept >= 1), 1, 0))


def _thirds(name: str, values: np.ndarray) -> list[tuple[str, str, np.ndarray]]:
    if len(np.unique(values)) < 3:
        return []
    parts = np.array_split(np.argsort(values, kind="stable"), 3)
    return [(name, said, np.sort(part)) for said, part in zip(("low", "middle", "high"), parts)]


def _by_number(name: str, column: Any) -> list[tuple[str, str, np.ndarray]]:
    import pandas as pd

    numbers: Any = pd.to_numeric(column, errors="coerce")
    values = numbers.to_numpy(float)
    known = np.flatnonzero(np.isfinite(values))
    found = []
    if len(known) and len(np.unique(values[known])) >= 3:
        ends = np.quantile(values[known], [0, 1 / 3, 2 / 3, 1])
        place = np.searchsorted(ends[1:3], values[known], side="left")
        for third in range(3):
            rows = known[place == third]
            if len(rows):
                said = " to ".join(dict.fromkeys((told(values[rows].min()), told(values[rows].max()))))
                found.append((name, said, rows))
    empty = np.flatnonzero(~np.isfinite(values))
    return [*found, *([(name, "(empty)", empty)] if len(empty) else [])]


def _by_level(name: str, column: Any) -> list[tuple[str, str, np.ndarray]]:
    words = level_words(column)
    levels, counts = np.unique(words, return_counts=True)
    kept = levels[np.argsort(-counts, kind="stable")[:_LEVELS_OF_COLUMN]]
    return [(name, str(level), np.flatnonzero(words == level)) for level in np.sort(kept)]


def level_words(column: Any) -> np.ndarray:
    """The cells of a column as short words; long decimals as few digits as tell them apart.

    >>> import pandas as pd
    >>> level_words(pd.Series(["red", None, "blue"])).tolist()
    ['red', '(empty)', 'blue']
    """
    import pandas as pd

    # not `to_numpy(str)`: it cuts words to one letter where some cells are empty
    words = np.array([str(cell) for cell in column.tolist()])
    levels, place = np.unique(words, return_inverse=True)
    numbers: Any = pd.to_numeric(pd.Series(levels), errors="coerce")
    short = np.array([w if np.isnan(x) else f"{x:.4g}" for w, x in zip(levels, numbers)])
    kept = short if len(np.unique(short)) == len(levels) else levels
    cut = np.array([word if len(word) <= 40 else f"{word[:38]}.." for word in kept.tolist()])
    kept = cut if len(np.unique(cut)) == len(levels) else kept
    return np.where(column.isna().to_numpy(bool), "(empty)", kept[place])


_SPLIT = {
    "number": _by_number, "count": _by_number, "category": _by_level, "ordered": _by_level,
    "boolean": _by_level,
}  # fmt: skip
