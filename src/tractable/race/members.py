"""A candidate fitted to encoded rows: what it says of new ones, as laws of the target.

Targets.     Models of the logarithm give laws of the target itself; models of numbers give masses of counts
             where the task counts. Codes of classes stay codes: a class that a fit has not seen gets the
             probability of one row among all.
Refusals.    What a model says against its rows becomes the one sentence of a `Refused`.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np

from tractable.race.candidates import Candidate, Size
from tractable.race.composed import ClassLaws, LogLaws, WholeLaws
from tractable.race.laws import Laws, laws_of
from tractable.race.question import Question

__all__ = ["Member", "Refused", "fit_member"]


class Refused(Exception):
    """A candidate that could not be fitted, with the reason."""


class Member(NamedTuple):
    """A fitted model: its name, the form of its columns, and how its law becomes one of the target."""

    name: str
    form: str
    estimator: Any
    task: str
    log: bool
    num_classes: int

    def laws(self, X: np.ndarray) -> Laws:
        """What it says of encoded rows."""
        if self.num_classes > 1:
            return ClassLaws(self._shares(X))
        found = laws_of(self.estimator.predict_dist(X))
        found = LogLaws(found) if self.log else found
        return WholeLaws(found) if self.task == "count" and not found.discrete else found

    def _shares(self, X: np.ndarray) -> np.ndarray:
        found = np.asarray(self.estimator.predict_proba(X), float)
        known = np.asarray(self.estimator.classes_, int)
        if len(known) == self.num_classes:
            return found
        shares = np.full((len(found), self.num_classes), 1e-6)
        shares[:, known] = found
        return shares / shares.sum(1, keepdims=True)


def fit_member(candidate: Candidate, X: np.ndarray, question: Question, seed: int) -> Member:
    """The candidate fitted to rows; one that cannot be raises `Refused`."""
    y = question.y
    if candidate.log:
        if not (y > 0).all():
            raise Refused("the logarithm needs targets above zero.")
        y = np.log(y)
    X, question, y = _enough(candidate, X, question, y, seed)
    classes = question.num_classes
    made = candidate.build(seed, Size(len(X), X.shape[1], classes))
    given = {} if question.weights is None else {"sample_weight": question.weights}
    if question.events is not None:
        given["event"] = question.events
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows that it has not seen judge a fit, not what it says itself
            made.fit(X, y, **given)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError, RuntimeError, MemoryError) as error:
        raise Refused(_first_sentence(error)) from error
    return Member(candidate.name, candidate.form, made, question.task, candidate.log, classes)


def _enough(candidate: Candidate, X: np.ndarray, question: Question, y: np.ndarray, seed: int) -> tuple:
    if len(y) <= candidate.enough_rows:
        return X, question, y
    from tractable.core.host_random import generator

    rows = np.sort(generator(seed, 7).permutation(len(y))[: candidate.enough_rows])
    return X[rows], question.take(rows), y[rows]


def _first_sentence(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 200 else f"{words[:197]}..."
