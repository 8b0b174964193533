r"""Rows of a table as rows of numbers for a model, fitted once and applied to any table with these columns.

Forms.       "linear": every column is a number of size about one, nothing is missing; for models of sums,
             distances and kernels. "trees": codes, and NaN where a cell is empty; for models that split.
Columns.     By name, in any order; others are not looked at, and one that is not there is refused. Numbers,
             levels, moments and texts each have their part (`tables.number_part`, ...).
Levels.      A column of many levels also has the shrunken mean of the target of its level
             (`tables.impact`), taken from rows of another fold only: what a row's target says about itself
             never enters its own code, and rows of training and new rows are encoded by the same rule.
Likeness.    `unlike` marks rows that no training row is like (`tables.likeness`).
Files.       `state` is made of arrays and plain values, without pickle.
Cost.        Linear in the cells.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from tractable.core.checks import check_option
from tractable.tables.description import Note, TableDescription, describe_table
from tractable.tables.files import WrongTable
from tractable.tables.impact import Impact, are_different, folds_of, hashed_rows, impact_targets
from tractable.tables.level_part import LevelPart
from tractable.tables.likeness import Likeness
from tractable.tables.moment_part import MomentPart
from tractable.tables.number_part import NumberPart
from tractable.tables.reading import check_columns, read_table
from tractable.tables.text_part import TextPart

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableEncoder"]

_PARTS: dict[str, Any] = {"number": NumberPart, "level": LevelPart, "moment": MomentPart, "text": TextPart}
_VERSION = 1
_CLASSES = ("category", "boolean", "text", "identifier")  # of a target: codes of it are no numbers


class TableEncoder(TransformerMixin, BaseEstimator):
    """A transformer of frames to arrays of numbers.

    `description` is what `describe_table` found, a mapping of kinds by name, or None: then the rows that it
    is fitted to are described. `feature_names_` are the encoded columns, `groups_` says of each the column
    that it comes from, and `columns_` are the columns that are used.

    >>> rows = {"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]}
    >>> encoder = TableEncoder(form="linear").fit(rows)
    >>> encoder.transform({"colour": ["blue"], "size": [2.0]}).tolist(), encoder.feature_names_
    ([[0.0, 0.0]], ('size', 'colour=red'))
    """

    def __init__(self, description: Any = None, form: str = "linear"):
        self.description = description
        self.form = form

    def fit(self, frame: Any, y: Any = None) -> "TableEncoder":
        """Learn levels, medians, scales and limits from the rows."""
        check_option("form", self.form, ("linear", "trees"))
        table = _table(frame)
        described = self.description
        if not isinstance(described, TableDescription):
            described = describe_table(table, kinds=described)
        self.columns_ = tuple(name for name in described.features)
        kinds = described.kinds
        self.kinds_ = {name: kinds[name] for name in self.columns_}
        check_columns(table, self.columns_)
        self.parts_ = [part.fit(table) for part in self._made(described)]
        classes = described.target is not None and described.kinds[described.target] in _CLASSES
        self.impacts_ = [] if y is None else self._impacts(table, y, classes)
        self.likeness_ = Likeness().fit(self.parts_, table)
        self._finish()
        return self

    def _impacts(self, table: Any, y: Any, are_classes: bool) -> list[Impact]:
        """The codes of columns with many levels, where there are any and the rows differ otherwise too."""
        wide = [part for part in self.parts_ if isinstance(part, LevelPart) and part.is_wide]
        targets = impact_targets(y, are_classes) if wide else None
        if targets is None:
            return []
        if len(targets) != len(table):
            raise WrongTable(f"`y` must have a value for each of the {len(table)} rows; got {len(targets)}.")
        hashes = hashed_rows(self._base(table))
        folds = folds_of(hashes)
        if not are_different(hashes):
            return []
        return [Impact(part.name).fit(part.codes(table), folds, targets, len(part.levels)) for part in wide]

    def _made(self, described: TableDescription) -> list[Any]:
        numbers = [name for name, kind in self.kinds_.items() if kind in ("number", "count")]
        parts: list[Any] = [NumberPart(numbers, self.form)] if numbers else []
        for name, kind in self.kinds_.items():
            if kind in ("category", "boolean", "ordered"):
                order = described.column(name).levels if kind == "ordered" else ()
                parts.append(LevelPart(name, self.form, order))
            elif kind in ("datetime", "text"):
                parts.append((MomentPart if kind == "datetime" else TextPart)(name, self.form))
        return parts

    def _finish(self) -> None:
        outputs = [pair for part in (*self.parts_, *self.impacts_) for pair in part.outputs]
        self.feature_names_ = tuple(name for name, _ in outputs)
        self.groups_ = dict(outputs)
        self.n_features_in_ = len(self.columns_)

    def transform(self, frame: Any) -> np.ndarray:
        """The rows as numbers, one column for each of `feature_names_`."""
        table = self._checked(frame)
        base = self._base(table)
        if not self.impacts_:
            return base
        folds = folds_of(hashed_rows(base))
        levels = {part.name: part for part in self.parts_ if isinstance(part, LevelPart)}
        codes = [each.transform(levels[each.name].codes(table), folds) for each in self.impacts_]
        return np.concatenate([base, *codes], axis=1)

    def _base(self, table: Any) -> np.ndarray:
        """What the cells of a row say alone."""
        blocks = [part.transform(table) for part in self.parts_]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(table), 0))

    def unlike(self, frame: Any) -> np.ndarray:
        """Whether each row is unlike all that was seen in training."""
        return self.likeness_.unlike(self.parts_, self._checked(frame))

    def drift(self, frame: Any) -> tuple[Note, ...]:
        """What has changed in a table of new rows since training, as notes."""
        return tuple(Note(*note) for note in self.likeness_.drift(self.parts_, self._checked(frame)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the encoded columns, as scikit-learn asks for them."""
        return np.array(self.feature_names_, dtype=object)

    def _checked(self, frame: Any) -> "pd.DataFrame":
        if not hasattr(self, "parts_"):
            raise WrongTable("the encoder must be fitted first; got none of its columns. Call `fit`.")
        table = _table(frame)
        check_columns(table, self.columns_)
        return table

    def state(self) -> dict[str, Any]:
        """What a fitted encoder knows, as arrays and plain values."""
        names = {cls: name for name, cls in _PARTS.items()}
        return {
            "version": _VERSION, "form": self.form, "columns": list(self.columns_),
            "kinds": dict(self.kinds_),
            "parts": [[names[type(part)], part.state()] for part in self.parts_],
            "impacts": [part.state() for part in self.impacts_], "likeness": self.likeness_.state(),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "TableEncoder":
        """The encoder that `state` was taken from."""
        encoder = cls(dict(state["kinds"]), state["form"])
        encoder.columns_, encoder.kinds_ = tuple(state["columns"]), dict(state["kinds"])
        encoder.parts_ = [_PARTS[name].from_state(content) for name, content in state["parts"]]
        encoder.impacts_ = [Impact.from_state(content) for content in state["impacts"]]
        encoder.likeness_ = Likeness.from_state(state["likeness"])
        encoder._finish()
        return encoder


def _table(frame: Any) -> "pd.DataFrame":
    """A frame as it is; other tables are read."""
    import pandas as pd

    if isinstance(frame, pd.DataFrame) and frame.columns.is_unique and all(
        isinstance(name, str) for name in frame.columns
    ):  # fmt: skip
        return frame
    return read_table(frame)
