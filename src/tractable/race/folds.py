"""Rows that are put aside: a last part that nothing is chosen by, and folds of the others.

Plain.       Shuffled by the seed; classes in equal shares.
Groups.      Rows of one group are never on both sides.
Time.        Learnt from the past: the last part is the latest, and each fold comes after what it is
             learnt from. Both together are refused: a group has its past and its future.
Sizes.       A fifth at the end (at most `_MOST_AT_END` rows), five folds; three folds above `_MANY` rows, ten
             of a table below `_FEW`.
"""

import numpy as np

from tractable.core.host_random import generator
from tractable.race.question import Question
from tractable.tables.files import WrongTable

__all__ = ["Split", "fold_pairs", "put_aside"]

_SHARE = 0.2
_MOST_AT_END = 20_000
_MANY = 20_000
_FEW = 150
_LEAST_TO_SPLIT = 40  # rows: below, there is no last part

Split = tuple[np.ndarray, np.ndarray]


def put_aside(question: Question, seed: int) -> Split:
    """The rows that are raced on, and the last part; both in their order, the last part empty where there
    are few rows."""
    count = len(question.y)
    wanted = min(_MOST_AT_END, round(_SHARE * count)) if count >= _LEAST_TO_SPLIT else 0
    few = question.groups is not None and len(set(question.groups.tolist())) < 3  # two are for the folds
    if wanted == 0 or few:
        return np.arange(count), np.arange(0)
    places = _places(question, max(2, round(count / wanted)), seed, "end")
    last = np.flatnonzero(places == places.max())
    if question.times is None and len(last) > wanted:
        last = np.sort(generator(seed, 2).permutation(last)[:wanted]) if question.groups is None else last
    return np.setdiff1d(np.arange(count), last), last


def fold_pairs(question: Question, seed: int, wanted: int | None = None) -> list[Split]:
    """Pairs of rows to learn from and rows to judge by."""
    count = len(question.y)
    number = wanted or (10 if count < _FEW else 3 if count > _MANY else 5)
    places = _places(question, number, seed, "folds")
    rows = np.arange(count)
    if question.times is not None:
        pairs = [(rows[places < f], rows[places == f]) for f in range(1, places.max() + 1)]
    else:
        pairs = [(rows[places != f], rows[places == f]) for f in range(places.max() + 1)]
    return [(seen, held) for seen, held in pairs if len(seen) and len(held)]


def _places(question: Question, number: int, seed: int, use: str) -> np.ndarray:
    """The number of the part of each row, from 0."""
    count = len(question.y)
    if question.times is not None:
        order = np.argsort(question.times, kind="stable")
        ranks = np.empty(count, int)
        ranks[order] = np.arange(count)
        return (ranks * (number if use == "end" else number + 1)) // count
    rng = generator(seed, 0 if use == "end" else 1)
    if question.groups is not None:
        return _grouped(question.groups, number, rng)
    places, order = np.empty(count, int), rng.permutation(count)
    if question.of_classes:  # one class after the other, so that each part has its share
        order = order[np.argsort(question.y[order], kind="stable")]
    places[order] = np.arange(count) % number
    return places


def _grouped(groups: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Whole groups, the largest first, each into the part with the fewest rows."""
    names, codes, sizes = np.unique(groups.astype(str), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise WrongTable(f"there must be at least two groups to keep apart; got {len(names)}.")
    shuffled = rng.permutation(len(names))
    filled, part = np.zeros(min(number, len(names)), int), np.empty(len(names), int)
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        part[group] = int(filled.argmin())
        filled[part[group]] += sizes[group]
    return part[codes.reshape(-1)]
