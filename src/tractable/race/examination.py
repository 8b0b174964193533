r"""What rows that nothing was chosen by say of a model: the material of a report, as plain arrays.

Rows.        Predictions beside what happened, ranks, intervals; at most `_MOST` rows.
Groups.      Coverage of 90 % intervals (of classes: accuracy against what was promised) by thirds of the
             prediction and by the levels of categories.
Matters.     The log-score lost where a column is shuffled among the rows, with its paired standard error;
             all columns are asked at once.
Effects.     The mean prediction of the rows with one column set to a value, for the columns that matter most,
             with the middle 80 % of the rows as a band.
Parts.       The share of the variance that is disagreement of the members, and what members say of
             themselves (`predict_uncertainty`).
Cost.        One prediction of some thousand rows.
"""

from typing import Any

import numpy as np

from tractable.core.host_random import generator
from tractable.race.base_rate import BaseRate
from tractable.race.composed import ClassLaws
from tractable.race.laws import Laws
from tractable.race.model import TableModel
from tractable.race.question import Question, log_scores

__all__ = ["examine"]

_MOST = 600
_SHUFFLED = 150  # rows, for each column
_MOST_COLUMNS = 25
_EFFECTS, _PLACES, _ROWS_OF_EFFECTS = 4, 9, 60
_LEVELS = 8
_WORST = 6
_LEAST = 20  # rows of a group


def examine(model: TableModel, frame: Any, question: Question, kinds: dict[str, str], seed: int) -> dict:
    """Plain values by name; those of classes and of numbers have some names of their own."""
    step = max(1, -(-len(frame) // _MOST))
    frame, question = frame.iloc[::step].reset_index(drop=True), question.take(slice(None, None, step))
    laws = model.predict_dist(frame)
    found = {"logs": log_scores(laws, question), "actual": question.y.astype(float), "rows": len(frame)}
    found |= _said(laws)
    if "mean" in found:
        found["rank"] = laws.pit(question.y)
    found["unlike"] = float(model.unlike(frame).mean())
    found["groups"] = _groups(found, frame, kinds) if question.events is None else []
    found["worst"] = np.argsort(found["logs"], kind="stable")[:_WORST].tolist()
    found["importance"] = _importance(model, frame, question, seed)
    found["effects"] = _effects(model, frame, kinds, [name for name, *_ in found["importance"][:_EFFECTS]])
    found["disagreement"] = _disagreement(model, frame, laws)
    return found


def _said(laws: Laws) -> dict[str, Any]:
    if isinstance(laws, ClassLaws):
        return {"shares": laws.shares}
    low, high = laws.interval(0.9)
    return {"mean": laws.mean, "sd": laws.std, "lower": low, "upper": high}


def _hits(found: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row is inside (or right), and what was promised."""
    if "shares" in found:
        shares = found["shares"]
        return shares.argmax(1) == found["actual"], shares.max(1)
    inside = (found["lower"] <= found["actual"]) & (found["actual"] <= found["upper"])
    return inside, np.full(len(inside), 0.9)


def _groups(found: dict[str, Any], frame: Any, kinds: dict[str, str]) -> list[list[Any]]:
    """Column, level, rows, share of hits, share that was promised."""
    hits, promised = _hits(found)
    level = found["shares"].max(1) if "shares" in found else found["mean"]
    parts = np.array_split(np.argsort(level, kind="stable"), 3)
    named = [("prediction", name, part) for name, part in zip(("low", "middle", "high"), parts)]
    for column, kind in kinds.items():
        if kind in ("category", "boolean", "ordered") and column in frame.columns:
            counts = frame[column].astype(str).value_counts().sort_index()
            texts = frame[column].astype(str)
            named += [(column, str(v), np.flatnonzero(texts == v)) for v in counts.index[:_LEVELS]]
    return [
        [column, name, len(rows), float(hits[rows].mean()), float(promised[rows].mean())]
        for column, name, rows in named
        if len(rows) >= _LEAST
    ]


def _importance(model: TableModel, frame: Any, question: Question, seed: int) -> list[list[Any]]:
    """Column, log-score lost without it, and its error; the greatest loss first."""
    import pandas as pd

    columns = list(model.columns[:_MOST_COLUMNS])
    if not columns or question.events is not None:
        return []
    step = max(1, -(-len(frame) // _SHUFFLED))
    rows, part = frame.iloc[::step].reset_index(drop=True), question.take(slice(None, None, step))
    before = log_scores(model.predict_dist(rows), part)
    copies = []
    for place, name in enumerate(columns):
        order = generator(seed, 21, place).permutation(len(rows))
        copies.append(rows.assign(**{name: rows[name].to_numpy()[order]}))
    laws = model.predict_dist(pd.concat(copies, ignore_index=True))
    found = []
    for place, name in enumerate(columns):
        own = laws.take(np.arange(place * len(rows), (place + 1) * len(rows)))
        lost = before - log_scores(own, part)
        lost = lost[np.isfinite(lost)]
        error = float(lost.std() / np.sqrt(max(len(lost), 1)))
        found.append([name, float(lost.mean()) if len(lost) else 0.0, error])
    return sorted(found, key=lambda line: -line[1])


def _effects(model: TableModel, frame: Any, kinds: dict[str, str], names: list[str]) -> list[dict[str, Any]]:
    """Of each column its values, the mean prediction at them, and the middle 80 % of the rows."""
    import pandas as pd

    step = max(1, -(-len(frame) // _ROWS_OF_EFFECTS))
    rows, found = frame.iloc[::step].reset_index(drop=True), []
    for name in names:
        values = _values(frame[name], kinds.get(name, ""))
        if len(values) < 2:
            continue
        copies = [rows.assign(**{name: pd.Series([v] * len(rows), dtype=frame[name].dtype)}) for v in values]
        laws = model.predict_dist(pd.concat(copies, ignore_index=True))
        said = laws.shares[:, -1] if isinstance(laws, ClassLaws) else laws.mean
        table = said.reshape(len(values), len(rows))
        numbers = kinds.get(name) in ("number", "count")
        found.append({
            "column": name, "numbers": numbers,
            "values": np.array(values, float) if numbers else [str(v) for v in values],
            "mean": table.mean(1), "low": np.quantile(table, 0.1, 1), "high": np.quantile(table, 0.9, 1),
        })  # fmt: skip
    return found


def _values(column: Any, kind: str) -> list[Any]:
    seen = column.dropna()
    if kind in ("number", "count") and len(seen):
        wanted = seen.quantile(np.linspace(0.03, 0.97, _PLACES), interpolation="nearest")
        return sorted(set(wanted.tolist()))
    if kind in ("category", "boolean", "ordered"):
        return list(seen.value_counts().index[:_LEVELS])
    return []


def _disagreement(model: TableModel, frame: Any, laws: Laws) -> float | None:
    """The mean share of the variance that is not noise, as far as the members say."""
    if isinstance(laws, ClassLaws):
        return None
    weights, means = np.array(model.weights)[:, None], model.member_means(frame)
    between = (weights * (means - (weights * means).sum(0)) ** 2).sum(0)
    tables = {form: encoder.transform(frame) for form, encoder in model.encoders.items()}
    for weight, member in zip(model.weights, model.members):
        if isinstance(member, BaseRate) or member.log:
            continue
        if hasattr(member.estimator, "predict_uncertainty"):
            own = member.estimator.predict_uncertainty(tables[member.form])
            between = between + weight * np.asarray(own.epistemic, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = between / laws.variance
    share = share[np.isfinite(share)]
    return float(np.clip(share, 0, 1).mean()) if len(share) else None
