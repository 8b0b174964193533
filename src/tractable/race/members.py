"""A candidate fitted to encoded rows: what it says of new ones, as laws of the target.

Targets.     Models of the logarithm give laws of the target itself; models of numbers give masses of counts
             where the task counts. Codes of classes stay codes: a class that a fit has not seen gets the
             probability of one row among all.
Columns.     Where there are more than a candidate takes, those whose correlation with the ranks of the target
             (or with a class) is largest in the rows of the fit; other rows have no say.
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
    columns: np.ndarray | None = None  # those that it looks at, where not at all

    def seen(self, X: np.ndarray) -> np.ndarray:
        """The columns of encoded rows that it looks at."""
        return X if self.columns is None else X[:, self.columns]

    def laws(self, X: np.ndarray) -> Laws:
        """What it says of encoded rows."""
        X = self.seen(X)
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
    classes, columns = question.num_classes, None
    if X.shape[1] > candidate.most_columns:
        columns = associated(X, question, candidate.most_columns)
        X = np.ascontiguousarray(X[:, columns])
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
    return Member(candidate.name, candidate.form, made, question.task, candidate.log, classes, columns)


def associated(X: np.ndarray, question: Question, count: int) -> np.ndarray:
    """The places of the `count` columns that go most with the target, in their order; gaps say nothing.

    >>> X = np.array([[0.0, 5.0, 1.0], [1.0, 5.0, 3.0], [2.0, 5.0, np.nan], [3.0, 5.0, 2.0]])
    >>> associated(X, Question("number", "y", np.array([1.0, 2.0, 4.0, 9.0])), 1).tolist()
    [0]
    """
    codes = np.unique(question.y, return_inverse=True)[1].reshape(-1)
    targets = (
        np.eye(question.num_classes)[question.y] if question.of_classes else codes[:, None].astype(float)
    )
    weights = question.amounts[:, None]
    there = np.isfinite(X)
    amounts = np.maximum((weights * there).sum(0), 1e-300)
    centred = np.where(there, X, 0.0)
    centred = np.where(there, centred - (weights * centred).sum(0) / amounts, 0.0)
    targets = targets - (weights * targets).sum(0) / weights.sum()
    sizes = np.sqrt((weights * centred**2).sum(0))[:, None] * np.sqrt((weights * targets**2).sum(0))
    both = np.abs(centred.T @ (weights * targets))
    found = np.divide(both, sizes, out=np.zeros_like(both), where=sizes > 0).max(1)
    return np.sort(np.argsort(-found, kind="stable")[:count])


def _enough(candidate: Candidate, X: np.ndarray, question: Question, y: np.ndarray, seed: int) -> tuple:
    if len(y) <= candidate.enough_rows:
        return X, question, y
    from tractable.core.host_random import generator

    rows = np.sort(generator(seed, 7).permutation(len(y))[: candidate.enough_rows])
    return X[rows], question.take(rows), y[rows]


def _first_sentence(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 200 else f"{words[:197]}..."
