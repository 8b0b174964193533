r"""What a classifier says of rows that it has not seen: folds of rows, and probabilities calibrated by them.

Folds.       They depend on the contents of rows alone (their ranks, so not on units either). With classes,
             each class is spread over all folds, and units of weight are dealt out: of a row of weight two,
             as of a row twice, one copy may be held out while the other is seen. A class of one unit is in
             every fit, and never held out.
Sizes.       Five folds of up to 5,000 distinct rows; of more, about 2,000 are held out of one more fit.
Calibrated.  The probabilities of held-out rows weigh how far to believe the classifier
             (`supervised.selection.tempering`). A fit that refuses the rows of its folds says nothing.
Cost.        As many fits as folds; a sort of each column.
References.  Stone (1974); Breiman (1996) for rows out of the bag.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tractable.core.host_random import generator
from tractable.core.rows import Rows
from tractable.core.types import Int, Values
from tractable.supervised.selection.tempering import TemperedShares
from tractable.supervised.trees.columns import canonical_order, code_columns, copy_groups

__all__ = ["calibrated_by_folds", "calibrated_by_votes", "held_out_blocks", "is_refusal", "row_folds"]

_FOLDS, _MANY, _BLOCK = 5, 5000, 2000  # the last two in distinct rows


def row_folds(rows: Rows, count: int) -> Int[Values, " n"]:
    """The fold of each row, the same for copies and in any order of the table."""
    order, group = _distinct(rows)
    found = np.empty(len(group), int)
    found[order] = (generator(0).permutation(group[-1] + 1) % count)[group]
    return found


def held_out_blocks(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """The rows that are seen and those that are held out of them, fold by fold; copies are merged."""
    order, group = _distinct(rows)
    weights = np.bincount(group, rows.weights[order])
    rows = rows.take(order[np.flatnonzero(np.diff(group, prepend=-1))])
    count = _FOLDS if len(weights) <= _MANY else -(-len(weights) // _BLOCK)
    first = np.empty(len(weights), int)  # the fold that gets the first unit of each row
    numbers, lone = generator(0), np.zeros(len(weights), bool)
    for own in (np.flatnonzero(rows.y == k) for k in np.unique(rows.y)):
        first[own] = numbers.permutation(len(own)) % count
        lone[own] = weights[own].sum() <= 1 or (len(own) == 1 and weights[own[0]] < 2)
    units = np.floor(weights).astype(int)
    for fold in range(count if len(weights) <= _MANY else 1):
        turn, rest = (fold - first) % count, units % count
        held = units // count + (turn < rest) + np.where(turn == rest, weights - units, 0.0)
        held = np.where(lone, 0.0, held)
        seen = weights - held
        if held.any() and seen.any():
            yield _weighed(rows, seen), _weighed(rows, held)


def _weighed(rows: Rows, weights: np.ndarray) -> Rows:
    own = np.flatnonzero(weights > 0)
    return replace(rows.take(own), weights=weights[own])


def calibrated_by_folds(rows: Rows, shares: Callable[[Rows, Rows], Any]) -> TemperedShares:
    """Calibration of a classifier whose fit to some rows gives `shares(seen, new)` of others."""
    found = TemperedShares.of(np.bincount(rows.y, rows.weights, rows.num_classes))
    for seen, held in held_out_blocks(rows):
        try:
            probs = shares(seen, held)
        except ValueError as error:
            if not is_refusal(error):
                raise
            continue
        found = found.add(probs, held.y, held.weights)
    return found


def calibrated_by_votes(rows: Rows, votes: Values) -> TemperedShares | None:
    """Calibration by the votes of the members of an ensemble that have not seen a row (NaN where all have);
    None if that is less than half of the rows, as where there are many copies of each."""
    known = np.flatnonzero(~np.isnan(votes).any(1))
    if rows.weights[known].sum() < 0.5 * rows.weights.sum():
        return None
    found = TemperedShares.of(np.bincount(rows.y, rows.weights, rows.num_classes))
    return found.add(votes[known], rows.y[known], rows.weights[known])


def is_refusal(error: ValueError) -> bool:
    """Whether these are the library's words for rows that it cannot use; anything else is a fault."""
    return str(error).startswith("`") and " must " in str(error)


def _distinct(rows: Rows) -> tuple[Values, Values]:
    """An order of rows in which copies are next to each other, and the number of each distinct row in it."""
    columns, y = code_columns(rows.X), np.asarray(rows.y, float)
    varied = columns.codes.min(1) < columns.codes.max(1)  # a column of one value changes no fold
    columns = columns._replace(codes=columns.codes[varied])
    order = canonical_order(columns, y)
    return order, copy_groups(columns, y, order)
