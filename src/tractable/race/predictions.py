"""A table of predictions, one line for each row: what `tractable predict` writes, and what it warns of.

Deferred.    The rows of most uncertainty, as large a share of the table as asked for: of numbers by the
             standard deviation, of classes by the probability that the most probable one is wrong.
Unlike.      Rows that no training row is like (`tables.encoder`); many of them, or a score far below the one
             that the model was measured with, are warned of as drift.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check
from tractable.race.composed import ClassLaws
from tractable.race.laws import Laws
from tractable.race.measures import measures
from tractable.race.model import TableModel
from tractable.race.question import Question, log_scores

__all__ = ["Predictions", "predictions"]

_DRIFT = 0.05  # of the rows


class Predictions(NamedTuple):
    """The table, the measures where the target is known (of the rows that are not deferred too), warnings."""

    table: Any
    metrics: dict[str, Any] | None
    kept_metrics: dict[str, Any] | None
    warnings: tuple[str, ...]


def predictions(
    model: TableModel, frame: Any, *, level: float = 0.9, defer: float | None = None
) -> Predictions:
    """One line for each row of `frame`."""
    check(0 < level < 1, "level", "between 0 and 1", level)
    laws, unlike = model.predict_dist(frame), model.unlike(frame)
    columns = _columns(model, laws, level) | {"unlike": unlike}
    if defer is not None:
        check(0 <= defer <= 1, "defer", "between 0 and 1", defer)
        columns["deferred"] = _deferred(_uncertainty(laws), defer)
    found, kept, logs = _scored(model, laws, frame, columns.get("deferred"))
    if logs is not None:
        columns["log_density"] = logs
    import pandas as pd

    return Predictions(pd.DataFrame(columns), found, kept, _warnings(unlike))


def _columns(model: TableModel, laws: Laws, level: float) -> dict[str, Any]:
    if isinstance(laws, ClassLaws):
        labels = np.array(model.classes)
        shares = {f"probability[{name}]": laws.shares[:, k] for k, name in enumerate(model.classes)}
        return {"prediction": labels[laws.shares.argmax(1)], **shares}
    low, high = laws.interval(level)
    return {
        "prediction": laws.mean, "median": laws.median, "sd": laws.std, "lower": low, "upper": high,
    }  # fmt: skip


def _uncertainty(laws: Laws) -> np.ndarray:
    return 1 - laws.shares.max(1) if isinstance(laws, ClassLaws) else laws.std


def _deferred(uncertainty: np.ndarray, share: float) -> np.ndarray:
    marked = np.zeros(len(uncertainty), bool)
    count = round(share * len(uncertainty))
    marked[np.argsort(-uncertainty, kind="stable")[:count]] = True
    return marked


def _scored(model: TableModel, laws: Laws, frame: Any, deferred: np.ndarray | None) -> tuple[Any, Any, Any]:
    if model.target not in frame.columns or model.task == "censored":
        return None, None, None
    y = model.codes(frame[model.target])
    known = np.isfinite(y)
    logs = np.full(len(y), np.nan)
    if not known.any():
        return None, None, logs
    question = Question(model.task, model.target, _typed(y[known], model), model.classes)
    logs[known] = log_scores(laws.take(known), question)
    kept = None
    if deferred is not None and (known & ~deferred).any():
        left = known & ~deferred
        part = Question(model.task, model.target, _typed(y[left], model), model.classes)
        kept = measures(laws.take(left), part)
    return measures(laws.take(known), question), kept, logs


def _typed(y: np.ndarray, model: TableModel) -> np.ndarray:
    return y.astype(int) if model.classes else y


def _warnings(unlike: np.ndarray) -> tuple[str, ...]:
    share = float(unlike.mean())
    if share <= _DRIFT:
        return ()
    return (f"{share:.0%} of the rows are unlike those of training: the table may have drifted.",)
