"""What is asked of a table: the target as numbers or codes, and what each row counts, belongs to and comes
after.

Tasks.       Those of `tables.target_task`; "binary", "classes" and "ordered" are codes of `classes`, the
             others numbers. "censored" numbers have `events`: true where the end was seen.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.race.asked import check_count, check_varies
from tractable.race.laws import Laws
from tractable.tables.files import WrongTable

__all__ = ["CLASSES", "Question", "log_scores", "question_of"]

CLASSES = ("binary", "classes", "ordered")
_MOST_CLASSES = 200
_LARGEST = 1e150  # of a number
_MOST_OWN = 0.5  # classes for each row
_FEW_WORDS = 0.2  # of cells that are numbers but for them


class Question(NamedTuple):
    """The target of each row, and what is known beside the columns."""

    task: str
    target: str
    y: np.ndarray
    classes: tuple[Any, ...] = ()
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    events: np.ndarray | None = None
    places: np.ndarray | None = None  # the numbers of the rows in the table, from 1

    @property
    def of_classes(self) -> bool:
        return self.task in CLASSES

    @property
    def num_classes(self) -> int:
        return max(1, len(self.classes))

    @property
    def labels(self) -> np.ndarray:
        """The classes as an array."""
        return np.array(self.classes)

    def take(self, rows: Any) -> "Question":
        """The question of some rows."""
        parts = {name: None if value is None else value[rows] for name, value in self._rows().items()}
        return self._replace(**parts)

    def _rows(self) -> dict[str, Any]:
        names = ("y", "weights", "groups", "times", "events", "places")
        return {name: getattr(self, name) for name in names}

    @property
    def amounts(self) -> np.ndarray:
        """What each row counts."""
        return np.ones(len(self.y)) if self.weights is None else self.weights


def question_of(
    values: Any, task: str, target: str, *, levels: tuple[str, ...] = (), weights: Any = None,
    groups: Any = None, times: Any = None, events: Any = None,
) -> Question:  # fmt: skip
    """The question about a column of targets without gaps; `levels` orders its classes."""
    column = np.asarray(values)
    count = len(column)
    check_count(count)
    known = {"weights": weights, "groups": groups, "times": times, "events": events}
    if task in CLASSES:
        classes, codes = _coded(column, levels)
        _check_classes(target, classes, count)
        return Question(task, target, codes, classes, **known)
    try:
        numbers = column.astype(float)
    except (ValueError, TypeError) as error:
        raise WrongTable(
            f"the target {target!r} must be numbers for the task {task!r}; got words."
        ) from error
    if not np.isfinite(numbers).all():
        raise WrongTable(f"the target {target!r} must be finite; got an infinite number.")
    size = np.abs(numbers).max()
    if size > _LARGEST or 0 < size < 1 / _LARGEST:
        raise WrongTable(
            f"the target {target!r} must be of sizes between {1 / _LARGEST:g} and {_LARGEST:g}; got at most "
            f"{size:g}, whose square is no number."
        )
    check_varies(target, float(numbers[0]), bool(np.ptp(numbers) > 0))
    _check_range(target, task, numbers)
    if events is not None and numbers.min() <= 0:
        raise WrongTable(f"the times {target!r} must be positive; got {numbers.min():g}.")
    return Question(task, target, numbers, (), **known)


def _check_range(target: str, task: str, numbers: np.ndarray) -> None:
    """Refuse numbers that the family of a task holds impossible."""
    low, high = float(numbers.min()), float(numbers.max())
    wrong, must = {
        "positive": (low <= 0, "positive"),
        "proportion": (low < 0 or high > 1, "between 0 and 1"),
        "count": (low < 0 or bool((numbers != np.floor(numbers)).any()), "whole numbers of at least 0"),
    }.get(task, (False, ""))
    if wrong:
        raise WrongTable(
            f"the target {target!r} must be {must} for the task {task!r}; got {low:g} to {high:g}."
        )


def _coded(column: np.ndarray, levels: tuple[str, ...]) -> tuple[tuple[Any, ...], np.ndarray]:
    if column.dtype == object:
        kinds = {type(v) for v in column.tolist()}
        column = column.astype(bool) if kinds == {bool} else column.astype(str)
    if levels and set(np.unique(column.astype(str)).tolist()) <= set(levels):
        seen = set(column.astype(str).tolist())
        kept = tuple(level for level in levels if level in seen)
        place = {level: code for code, level in enumerate(kept)}
        return kept, np.array([place[v] for v in column.astype(str).tolist()])
    classes, codes = np.unique(column, return_inverse=True)
    return tuple(classes.tolist()), codes.reshape(-1)


def _check_classes(target: str, classes: Any, count: int) -> None:
    check_varies(target, classes[0], len(classes) > 1)
    if len(classes) > max(_MOST_OWN * count, 2):
        words = [word for word in map(str, classes) if not _is_number(word)]
        if 0 < len(words) < _FEW_WORDS * len(classes):  # numbers, and something else
            shown = ", ".join(map(repr, words[:3])) + ", ..." * (len(words) > 3)
            raise WrongTable(
                f"the target {target!r} must be numbers or classes that repeat; got numbers and {shown}. "
                "Leave such cells empty."
            )
        raise WrongTable(
            f"the target {target!r} must repeat its classes to be learnt; got {len(classes)} in {count} rows."
        )
    if len(classes) > _MOST_CLASSES:
        raise WrongTable(
            f"the target {target!r} must have at most {_MOST_CLASSES} classes; got {len(classes)}. "
            "Is it an identifier, or a number written as text?"
        )


def _is_number(word: str) -> bool:
    try:
        return float(word) == float(word)
    except ValueError:
        return False


def log_scores(laws: Laws, question: Question) -> np.ndarray:
    """The log-density of what happened in each row; where the end was not seen, of ending later."""
    logs = laws.log_density(question.y)
    if question.events is None:
        return logs
    with np.errstate(divide="ignore"):
        later = np.log(np.maximum(1 - laws.cdf(question.y), 0.0))
    return np.where(question.events, logs, later)
