r"""The race itself: candidates judged on rows that they have not seen, in a fixed order, losers dropped.

Order.       Fold after fold, within a fold the candidates in the order of their list: whenever it ends, those
             that are left were judged on the same rows.
Folds.       Encoder and model are fitted to the rows of the other folds alone.
Budget.      A candidate whose predicted work for all folds and the last fits passes what is left of the
             budget is left out, by name; seconds on the clock only end the order early.
Dropping.    After a fold a candidate whose mean log-score is more than `_CLEAR` paired standard errors behind
             the leader's, and which a mixture has no use for, runs no more.
Cost.        (folds + 2) fits of each candidate that stays.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.race.base_rate import BASE, BaseRate
from tractable.race.candidates import Candidate, Size
from tractable.race.evidence import Stated, stated
from tractable.race.folds import Split
from tractable.race.laws import Laws
from tractable.race.members import Refused, fit_member
from tractable.race.question import Question, log_scores

__all__ = ["BEHIND", "Clock", "Entry", "cross_fit", "within_budget"]

BEHIND = "clearly behind the leader"
_CLEAR = 4.0
_NO_USE = 0.02  # the share of a mixture below which a loser is dropped
_MOST_JUDGED = 4000  # rows of a fold that are looked at
_LAST_FITS = 2
_SHARE_OF_RACE = 0.5  # of a limit in seconds
_MOST_OF_BUDGET = 0.5  # for one candidate that may learn from fewer rows
_LEAST_ROWS = 4000  # of a table of which a model learns from a part
_LEAST_COLUMNS = 100


class Clock:
    """Seconds since the start, and whether another piece of work would pass the limit.

    The race itself may have half of the limit: what follows is fitted to more rows, and measured.
    """

    def __init__(self, limit: float | None):
        self.start, self.limit, self.cut, self.interrupted = time.monotonic(), limit, False, False
        self._work = time.process_time()

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def slowness(self) -> float:
        """Seconds of the clock for a second of work: above one where others use the machine."""
        return max(1.0, self.seconds() / max(time.process_time() - self._work, 1e-3))

    def has(self, predicted: float, share: float = 1.0) -> bool:
        """Whether so many seconds more end within a share of the limit."""
        return self.limit is None or self.seconds() + predicted <= share * self.limit

    def allows(self, predicted: float, share: float = _SHARE_OF_RACE) -> bool:
        """Whether there is time for so many seconds more; once there is not, there is none for anything."""
        self.cut = self.cut or not self.has(predicted, share)
        return not self.cut


class Entry:
    """What a candidate said of the rows of the folds that it was judged on."""

    def __init__(self, candidate: Candidate | None):
        self.candidate = candidate
        self.name = BASE if candidate is None else candidate.name
        self.scores: list[np.ndarray] = []
        self.laws: list[Laws] = []
        self.evidences: list[Stated | None] = []  # of the rows of training
        self.seconds = 0.0
        self.out = ""  # why it does not run any more

    def add(self, laws: Laws, question: Question) -> None:
        """The laws of the rows of one more fold."""
        scores = log_scores(laws, question)
        if np.isnan(scores).any():
            raise Refused("it gives some rows no density.")
        self.laws.append(laws)
        self.scores.append(scores)


def within_budget(
    candidates: tuple[Candidate, ...], size: Size, budget: float, num_folds: int
) -> tuple[list[Candidate], dict[str, str]]:
    """Those that can run within the predicted work, and why the others do not."""
    kept, left_out, spent = [], {}, 0.0
    for each in candidates:
        if size.rows > each.most_rows or (size.columns > each.most_columns and not each.shrinks):
            left_out[each.name] = "there are too many rows or columns"
            continue
        needed = _needed(each, size, num_folds)
        room = min(budget - spent, _MOST_OF_BUDGET * budget)
        while needed > room and each.shrinks and min(each.enough_rows, size.rows) > _LEAST_ROWS:
            each = each._replace(enough_rows=min(each.enough_rows, size.rows) // 2)
            needed = _needed(each, size, num_folds)
        while needed > room and each.shrinks and min(each.most_columns, size.columns) > _LEAST_COLUMNS:
            each = each._replace(most_columns=min(each.most_columns, size.columns) // 2)
            needed = _needed(each, size, num_folds)
        if spent + needed > budget:
            left_out[each.name] = f"the predicted work ({needed:.0f} s) does not fit into the budget"
        else:
            kept.append(each)
            spent += needed
    return kept, left_out


def _needed(candidate: Candidate, size: Size, num_folds: int) -> float:
    return candidate.start + (num_folds + _LAST_FITS) * candidate.seconds(size)


def cross_fit(
    candidates: list[Candidate], question: Question, folds: list[Split],
    encoded: Callable[[str, Any, Any], tuple[np.ndarray, np.ndarray]], seed: int, clock: Clock,
    tell: Callable[[str], None] | None = None,
) -> tuple[list[Entry], list[np.ndarray]]:  # fmt: skip
    """The entries, the base rate first, and the rows of each fold that were judged.

    `encoded(form, seen, held)` gives the rows as numbers, by an encoder of the rows seen.
    """
    entries = [Entry(None), *(Entry(each) for each in candidates)]
    folds = [(seen, held[:: math.ceil(len(held) / _MOST_JUDGED)]) for seen, held in folds]
    judged: list[np.ndarray] = []
    try:
        for place, (seen, held) in enumerate(folds):
            if not _one_fold(entries, question, (seen, held), encoded, seed, clock, tell):
                break
            judged.append(held)
            if place + 1 < len(folds):
                _drop(entries)
    except KeyboardInterrupt:
        clock.cut = clock.interrupted = True
        if not judged and len(entries[0].scores) == 0:
            raise
    return entries, judged or [folds[0][1]]  # by those that were judged on the first


def _one_fold(
    entries: list[Entry], question: Question, pair: Split, encoded: Callable, seed: int, clock: Clock,
    tell: Callable[[str], None] | None,
) -> bool:  # fmt: skip
    """Whether every entry that still runs was judged on this fold."""
    (seen, held), tables = pair, {}
    train, test = question.take(seen), question.take(held)
    entries[0].add(BaseRate.of(train).laws(len(held)), test)
    for entry in entries[1:]:
        if entry.out or entry.candidate is None:
            continue
        started, candidate = time.monotonic(), entry.candidate
        size = Size(len(seen), tables[candidate.form][0].shape[1] if candidate.form in tables else 10)
        known = len(entry.scores)
        if not clock.allows(entry.seconds / known if known else clock.slowness() * candidate.seconds(size)):
            return False
        try:
            if candidate.form not in tables:
                tables[candidate.form] = encoded(candidate.form, seen, held)
            X, new = tables[candidate.form]
            member = fit_member(candidate, X, train, seed)
            entry.add(member.laws(new), test)
            entry.evidences.append(stated(candidate, member, train))
        except Refused as refusal:
            entry.out = str(refusal)
        entry.seconds += time.monotonic() - started
        if tell is not None:
            tell(_said(entries, entry))
    return True


def _said(entries: list[Entry], entry: Entry) -> str:
    if entry.out:
        return f"{entry.name}: {entry.out}"
    running = [each for each in entries if len(each.scores) >= len(entry.scores)]
    leader = max(running, key=lambda each: np.mean(each.scores[len(entry.scores) - 1]))
    return f"{entry.name}: {np.mean(entry.scores[-1]):.4g}; leader {leader.name}"


def _drop(entries: list[Entry]) -> None:
    """Mark those that are clearly behind and of no use in a mixture."""
    from tractable.race.weighing import stacked

    running = [each for each in entries if not each.out]
    logs = np.stack([np.concatenate(each.scores) for each in running], 1)
    leader = int(np.argmax(logs.mean(0)))
    gaps = logs - logs[:, [leader]]
    errors = gaps.std(0, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.full(len(running), np.inf)
    behind = [
        place != 0 and place != leader and not gaps[:, place].mean() + _CLEAR * errors[place] >= 0
        for place in range(len(running))
    ]
    if not any(behind):
        return
    weights = stacked(logs, np.ones(len(logs)))
    for place, entry in enumerate(running):
        if behind[place] and weights[place] < _NO_USE:
            entry.out = BEHIND
