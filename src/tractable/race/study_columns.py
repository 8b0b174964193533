r"""What each column is worth to a model, and how predictions move with it.

Worth.       The log-score lost where the values of a column are shuffled among the rows, averaged over
             repeats; paired over rows, so its standard error is that of a mean of differences. A shuffled
             row counts at most `_FLOOR` nats below the worst row that was not.
Effects.     The mean prediction of the rows with a column set to the value of some row, and the middle 80 %
             of the rows. Of classes the probability of the class that moves most.
Encoded.     Both change encoded columns, all those of a source column together: nothing is encoded again.
Screening.   Of more than `_MOST_COLUMNS` columns those are asked whose tenths explain most of the
             predictions' variance.
Cost.        At most `_WORK` predictions for each of the two, and `_CELLS` encoded cells.
References.  Fisher, Rudin and Dominici (2019); Friedman (2001).
"""

from typing import Any

import numpy as np

from tractable.core.host_random import generator
from tractable.race.composed import ClassLaws
from tractable.race.model import TableModel
from tractable.race.question import Question, log_scores
from tractable.race.study_coverage import level_words

__all__ = ["effects", "importance", "ranges"]

_MOST_ROWS, _MOST_COLUMNS, _MOST_REPEATS = 1000, 30, 5
_WORK, _CELLS = 12_000, 6_000_000
_BATCH = 4096  # rows of one prediction
_FLOOR = 10.0
_EFFECTS, _PLACES, _ROWS_OF_EFFECT, _LEVELS = 6, 9, 80, 8

_Tables = dict[str, np.ndarray]


def importance(model: TableModel, tables: _Tables, question: Question, seed: int) -> dict[str, Any]:
    """The columns, the greatest loss first: log-score lost, its error; and how many rows were shuffled."""
    columns = list(model.columns)
    if not columns:
        return {"column": [], "lost": np.zeros(0), "error": np.zeros(0), "rows": 0, "repeats": 0, "asked": 0}
    total = len(columns)
    columns = _screened(model, tables, columns)
    width = sum(X.shape[1] for X in tables.values())
    work = max(min(_WORK, _CELLS // max(width, 1)), len(columns))
    wanted = int(np.clip(work // len(columns), 1, _MOST_ROWS))
    step = max(1, -(-len(question.y) // wanted))
    tables, part = {form: X[::step] for form, X in tables.items()}, question.take(slice(None, None, step))
    count = len(part.y)
    repeats = int(np.clip(work // (len(columns) * count), 1, _MOST_REPEATS))
    before = log_scores(model.laws_of(tables, count), part)
    before = np.where(np.isfinite(before), before, before[np.isfinite(before)].min(initial=0.0))
    floor, places = before.min() - _FLOOR, _places(model)
    after = np.zeros((len(columns), count))
    jobs = [(k, r) for k in range(len(columns)) for r in range(repeats)]
    size = max(1, _BATCH // count)
    for first in range(0, len(jobs), size):
        batch = jobs[first : first + size]
        orders = [generator(seed, 21, k, r).permutation(count) for k, r in batch]
        moved = _moved(tables, places, [columns[k] for k, _ in batch], orders)
        logs = log_scores(
            model.laws_of(moved, count * len(batch)), part.take(np.tile(np.arange(count), len(batch)))
        )
        for (k, _), own in zip(batch, np.maximum(logs, floor).reshape(len(batch), count)):
            after[k] += own / repeats
    lost = before - after
    amounts = part.amounts / part.amounts.sum()
    means = lost @ amounts
    errors = np.sqrt(((amounts * (lost - means[:, None])) ** 2).sum(1))
    order = np.argsort(-means, kind="stable")
    return {
        "column": [columns[k] for k in order], "lost": means[order], "error": errors[order],
        "rows": count, "repeats": repeats, "asked": total,
    }  # fmt: skip


def _places(model: TableModel) -> dict[str, dict[str, np.ndarray]]:
    """Of each form the encoded columns of each source column."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for form, encoder in model.encoders.items():
        sources = np.array([encoder.groups_[name] for name in encoder.feature_names_])
        found[form] = {name: np.flatnonzero(sources == name) for name in dict.fromkeys(sources.tolist())}
    return found


def _moved(tables: _Tables, places: dict, columns: list[str], orders: list[np.ndarray]) -> _Tables:
    """Copies of the rows one below the other, in each one column with its cells in another order."""
    found = {}
    for form, X in tables.items():
        whole = np.tile(X, (len(columns), 1))
        for k, (name, order) in enumerate(zip(columns, orders)):
            own = places[form].get(name, np.zeros(0, int))
            whole[k * len(X) : (k + 1) * len(X), own] = X[np.ix_(order, own)]
        found[form] = whole
    return found


def _screened(model: TableModel, tables: _Tables, columns: list[str]) -> list[str]:
    if len(columns) <= _MOST_COLUMNS:
        return columns
    form, X = next(iter(tables.items()))
    X = X[: max(10, min(_MOST_ROWS, _CELLS // max(X.shape[1], 1)))]
    said = _predicted(model, {each: rows[: len(X)] for each, rows in tables.items()}, len(X))
    said = (said - said.mean(0)) / np.where(said.std(0) > 0, said.std(0), 1.0)
    tenth = (np.arange(len(X)) * min(10, len(X) // 2)) // len(X)
    member = np.eye(tenth.max() + 1)[tenth]
    explained = np.zeros(X.shape[1])
    for k in range(X.shape[1]):
        means = (member.T @ said[np.argsort(X[:, k], kind="stable")]) / member.sum(0)[:, None]
        explained[k] = float((member.mean(0)[:, None] * means**2).sum()) if np.ptp(X[:, k]) != 0 else 0.0
    groups = _places(model)[form]
    best = {name: float(explained[groups[name]].max(initial=0.0)) for name in columns if name in groups}
    return sorted(columns, key=lambda name: -best.get(name, 0.0))[:_MOST_COLUMNS]


def _predicted(model: TableModel, tables: _Tables, count: int) -> np.ndarray:
    """Means, or probabilities of classes, `(rows, outputs)`."""
    laws = model.laws_of(tables, count)
    return laws.shares if isinstance(laws, ClassLaws) else laws.mean[:, None]


def effects(
    model: TableModel, tables: _Tables, frame: Any, kinds: dict[str, str], columns: list[str]
) -> list[dict[str, Any]]:
    """Of the first columns: values, the mean prediction at them, and the middle 80 % of the rows."""
    count, places = len(frame), _places(model)
    width = sum(X.shape[1] for X in tables.values())
    most = int(np.clip(_CELLS // max(width * _PLACES * _EFFECTS, 1), 5, _ROWS_OF_EFFECT))
    rows = np.arange(0, count, max(1, -(-count // most)))
    found = []
    for name in columns[:_EFFECTS]:
        chosen, values, numbers = _values(frame[name], kinds.get(name, ""))
        if len(chosen) < 2:
            continue
        moved = {}
        for form, X in tables.items():
            whole, own = np.tile(X[rows], (len(chosen), 1)), places[form].get(name, np.zeros(0, int))
            whole[:, own] = np.repeat(X[np.ix_(chosen, own)], len(rows), 0)
            moved[form] = whole
        said = _predicted(model, moved, len(rows) * len(chosen)).reshape(len(chosen), len(rows), -1)
        which = 1 if said.shape[2] == 2 else int(np.argmax(np.ptp(said.mean(1), axis=0)))
        table = said[:, :, which]
        found.append({
            "column": name, "numbers": numbers, "values": values,
            "said": f"P({model.classes[which]})" if model.classes else f"mean of {model.target}",
            "mean": table.mean(1), "low": np.quantile(table, 0.1, 1), "high": np.quantile(table, 0.9, 1),
        })  # fmt: skip
    return found


def _values(column: Any, kind: str) -> tuple[np.ndarray, Any, bool]:
    """Rows whose cells stand for the column, their values, and whether these are numbers."""
    import pandas as pd

    if kind in ("number", "count"):
        numbers: Any = pd.to_numeric(column, errors="coerce")
        values = numbers.to_numpy(float)
        known = np.flatnonzero(np.isfinite(values))
        if not len(known):
            return known, [], True
        order = known[np.argsort(values[known], kind="stable")]
        levels = np.linspace(0.03, 0.97, _PLACES) * (len(order) - 1)
        chosen = order[np.unique(levels.round().astype(int))]
        _, first = np.unique(values[chosen], return_index=True)
        return chosen[first], values[chosen[first]], True
    if kind not in ("category", "boolean", "ordered"):
        return np.zeros(0, int), [], False
    levels, first, counts = np.unique(level_words(column), return_index=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:_LEVELS])
    return first[kept], [str(level) for level in levels[kept]], False


def ranges(learnt: Any, frame: Any, kinds: dict[str, str], columns: list[str]) -> dict[str, Any]:
    """Of columns of numbers: the least and the greatest that was learnt from, and the share of `frame`
    beyond."""
    import pandas as pd

    names, ends = [], []
    for name in columns:
        if kinds.get(name) not in ("number", "count"):
            continue
        seen, new = (pd.to_numeric(table[name], errors="coerce") for table in (learnt, frame))
        low, high = float(seen.min()), float(seen.max())  # pyright: ignore
        if np.isfinite(low):
            names.append(name)
            ends.append([low, high, float(((new < low) | (new > high)).mean())])  # pyright: ignore
    table = np.array(ends).reshape(-1, 3)
    return {"column": names, "low": table[:, 0], "high": table[:, 1], "beyond": table[:, 2]}
