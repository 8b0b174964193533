"""The model that a race ends with: encoders, members, their weights and the turning of ranks, in one object.

Asked for a table with the columns it was fitted to, in any order, it gives one law per row: `predict_dist`,
and from it `predict`, `predict_interval`, `predict_proba`, and `predict_table`, what the command writes.
"""

from typing import Any

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.race.base_rate import BaseRate
from tractable.race.composed import ClassLaws, mixed
from tractable.race.laws import Laws
from tractable.race.question import CLASSES
from tractable.race.weighing import turned

__all__ = ["TableModel"]

_BLOCK = 20_000  # rows that are asked about at once


class TableModel:
    """A fitted mixture of models of tables."""

    def __init__(
        self, task: str, target: str, classes: tuple[Any, ...], encoders: dict[str, Any],
        members: list[Any], weights: list[float], ranks: Any = None,
    ):  # fmt: skip
        self.task, self.target, self.classes = task, target, tuple(classes)
        self.encoders, self.members, self.weights, self.ranks = encoders, members, list(weights), ranks

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        names = [name for encoder in self.encoders.values() for name in encoder.columns_]
        return tuple(dict.fromkeys(names))

    def predict_dist(self, frame: Any) -> Laws:
        """One law per row: `mean`, `std`, `median`, `quantile`, `interval`, `cdf`, `log_density`; of classes
        `shares`."""
        frame = self._table(frame)
        with one_blas_thread():
            return self.laws_of(self.encoded(frame), len(frame))

    def _table(self, frame: Any) -> Any:
        from tractable.tables.reading import read_table

        frame = frame if hasattr(frame, "iloc") else read_table(frame)
        check(len(frame) > 0, "frame", "a table of at least one row", "none")
        return frame

    def encoded(self, frame: Any) -> dict[str, np.ndarray]:
        """The rows as numbers, in each form that a member takes."""
        return {form: encoder.transform(frame) for form, encoder in self.encoders.items()}

    def laws_of(self, tables: dict[str, np.ndarray], count: int) -> Laws:
        """One law for each of `count` encoded rows."""
        return turned(mixed(self.weights, self.members_of(tables, count)), self.ranks)

    def members_of(self, tables: dict[str, np.ndarray], count: int) -> list[Laws]:
        """What each member says of encoded rows."""
        return [
            each.laws(count) if isinstance(each, BaseRate) else each.laws(tables[each.form])
            for each in self.members
        ]

    def member_means(self, frame: Any) -> np.ndarray:
        """The mean (or the probabilities) of each member, `(members, rows, ...)`: where they differ, the
        choice of a model matters."""
        frame = self._table(frame)
        found = self.members_of(self.encoded(frame), len(frame))
        return np.stack([each.shares if isinstance(each, ClassLaws) else each.mean for each in found])

    def predict(self, frame: Any) -> np.ndarray:
        """The mean of each row, or its most probable class."""
        laws = self.predict_dist(frame)
        if isinstance(laws, ClassLaws):
            return np.array(self.classes)[laws.shares.argmax(1)]
        return laws.mean

    def predict_interval(self, frame: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        check(self.task not in CLASSES, "task", "one of numbers", self.task, "Use `predict_proba`.")
        return self.predict_dist(frame).interval(level)

    def predict_proba(self, frame: Any) -> np.ndarray:
        """The probability of each of `classes`."""
        laws = self.predict_dist(frame)
        got = f"the task {self.task!r}"
        check(isinstance(laws, ClassLaws), "model", "one of classes", got, "Use `predict_interval`.")
        return laws.shares  # pyright: ignore

    def unlike(self, frame: Any) -> np.ndarray:
        """Whether each row is unlike all rows of training."""
        frame = self._table(frame)
        if not self.encoders:
            return np.zeros(len(frame), bool)
        return np.asarray(next(iter(self.encoders.values())).unlike(frame), bool)

    def drift(self, frame: Any) -> tuple[str, ...]:
        """What has changed in the columns of a table since training, in sentences."""
        if not self.encoders:
            return ()
        return tuple(note.sentence for note in next(iter(self.encoders.values())).drift(self._table(frame)))

    def codes(self, values: Any) -> np.ndarray:
        """Targets as numbers, or as codes of classes; NaN where a class was never seen or there is none."""
        import pandas as pd

        column: Any = pd.Series(np.asarray(values)) if not isinstance(values, pd.Series) else values
        if self.task not in CLASSES:
            numbers: Any = pd.to_numeric(column, errors="coerce")
            return numbers.to_numpy(float)
        place = {_plain(label): float(code) for code, label in enumerate(self.classes)}
        return np.array([place.get(_plain(value), np.nan) for value in column.tolist()])


def _plain(label: Any) -> str:
    """A label as text, whole numbers without a point: files write 1 where frames have 1.0."""
    if isinstance(label, float | np.floating) and float(label).is_integer():
        label = int(label)
    return str(label).strip()
