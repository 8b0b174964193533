"""A table of predictions, one line for each row: what `tractable predict` writes, and what it warns of.

Deferred.    The rows of most uncertainty, as large a share of the table as asked for: of numbers by the
             standard deviation, of classes by the probability that the most probable one is wrong.
Unlike.      Rows that no training row is like (`tables.encoder`).
Warnings.    Many rows that are unlike; columns that have moved (`tables.likeness`); a log-score that is more
             than `_FAR_BELOW` errors below the one that the model was measured with; targets that it cannot
             score, because their class was never seen.
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
_FAR_BELOW = 4.0  # standard errors of the difference
_LEAST_ROWS = 30
_MOST_NAMED = 3  # columns


class Predictions(NamedTuple):
    """The table, the measures where the target is known (of the rows that are not deferred too), warnings."""

    table: Any
    metrics: dict[str, Any] | None
    kept_metrics: dict[str, Any] | None
    warnings: tuple[str, ...]


def predictions(
    model: TableModel, frame: Any, *, level: float = 0.9, defer: float | None = None,
    measured: dict[str, Any] | None = None,
) -> Predictions:  # fmt: skip
    """One line for each row of `frame`; `measured` is what `fit` found on rows never used."""
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

    warnings = (
        *_drifted(model, frame, unlike), *_worse(found, measured), *_unknown(model, frame, logs),
    )  # fmt: skip
    return Predictions(pd.DataFrame(columns), found, kept, warnings)


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


def _drifted(model: TableModel, frame: Any, unlike: np.ndarray) -> list[str]:
    share, moved = float(unlike.mean()), model.drift(frame)
    found = [f"{sentence[0].upper()}{sentence[1:]}" for sentence in moved[:_MOST_NAMED]]
    if len(moved) > _MOST_NAMED:
        found.append(f"{len(moved) - _MOST_NAMED} more columns are not as they were in training.")
    if share > _DRIFT:
        found.insert(0, f"{share:.0%} of the rows are unlike those of training: the table may have drifted.")
    return found


def _worse(found: dict[str, Any] | None, measured: dict[str, Any] | None) -> list[str]:
    """Whether rows with known targets are told worse than those that the model was measured with."""
    if not found or not measured or found["rows"] < _LEAST_ROWS:
        return []
    gap = measured["log_score"] - found["log_score"]
    error = measured["log_score_error"] * np.sqrt(1 + measured["rows"] / found["rows"])
    if not gap > _FAR_BELOW * error:  # an error of NaN: a row was held impossible
        return []
    return [
        f"The log-score of these rows, {found['log_score']:.4g}, is far below {measured['log_score']:.4g}, "
        "which the model was measured with: fit it again."
    ]


def _unknown(model: TableModel, frame: Any, logs: np.ndarray | None) -> list[str]:
    """Targets that are there, and that the model has no density for."""
    if logs is None:
        return []
    lost = frame[model.target].notna().to_numpy() & np.isnan(logs)
    if not lost.any():
        return []
    shown = ", ".join(dict.fromkeys(str(v) for v in frame[model.target][lost].tolist()[:_MOST_NAMED]))
    what = "of a class that was never seen" if model.classes else "no numbers"
    return [f"The targets of {int(lost.sum())} rows are {what} ({shown}): they are not scored."]
