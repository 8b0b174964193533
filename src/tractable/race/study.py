r"""What rows that nothing was chosen by say of a model: the material of a report, as plain arrays and words.

Rows.        The last part, at most `_MOST` of it; of tables too small for one, the folds held out in turn.
Ranks.       A row has the interval $[F(y^-), F(y)]$: a point for numbers, the jump of a count, and all above
             $F(y)$ where the end was not seen. Histograms and moments take it as uniform there, so that no
             random number is drawn (Czado, Gneiting and Held 2009).
Risk.        The mean loss of the answered rows, the widest intervals (or least sure classes) left out first.
Doubt.       The share of the variance (of the entropy) that is disagreement of members, and what members say
             of themselves.
Cost.        Bounded: some ten thousand predictions, whatever the table. No clock and no order of threads
             enters.
References.  Czado, Gneiting and Held (2009); Gneiting, Balabdaoui and Raftery (2007).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tractable.race.base_rate import BaseRate
from tractable.race.composed import ClassLaws, mixed
from tractable.race.laws import Laws
from tractable.race.measures import told
from tractable.race.model import TableModel
from tractable.race.question import Question, log_scores
from tractable.race.study_columns import effects, importance, ranges
from tractable.race.study_coverage import Hits, coverage, hits
from tractable.race.study_words import words_of

__all__ = ["Answers", "answers", "study"]

_MOST = 3000
_COLUMNS_OF_WORST = 5
_WORST = 8
_POINTS = 300  # rows of the pictures
_RISKS = 40
_DOUBTED = 300  # rows of which the members are asked one by one
_MOST_CLASSES = 12  # of a table of what was taken for what


class Answers(NamedTuple):
    """What was said of rows, and what happened; of classes `sure`, of numbers the others are there."""

    question: Question
    logs: np.ndarray
    hits: Hits
    shares: np.ndarray | None = None
    mean: np.ndarray | None = None
    low: np.ndarray | None = None  # of the 90 % interval
    high: np.ndarray | None = None

    @property
    def level(self) -> np.ndarray:
        """By which rows are put into thirds: the prediction, or the probability of the likeliest class."""
        return self.mean if self.shares is None else self.shares.max(1)  # pyright: ignore

    @property
    def doubt(self) -> np.ndarray:
        """By which rows are deferred."""
        return self.high - self.low if self.shares is None else 1 - self.shares.max(1)  # pyright: ignore


def answers(pairs: Sequence[tuple[Laws, Question]]) -> Answers:
    """Of rows of one or several folds."""
    found = [_answers(*pair) for pair in pairs]
    if len(found) == 1:
        return found[0]
    first = found[0].question
    fields = {
        name: None if value is None else np.concatenate([getattr(each.question, name) for each in found])
        for name, value in first._rows().items()
    }
    parts = {
        name: None if getattr(found[0], name) is None else np.concatenate([getattr(e, name) for e in found])
        for name in ("logs", "shares", "mean", "low", "high")
    }
    sides: Any = [None if side[0] is None else np.concatenate(side) for side in zip(*(e.hits for e in found))]
    return Answers(first._replace(**fields), hits=Hits(*sides), **parts)  # pyright: ignore


def _answers(laws: Laws, question: Question) -> Answers:
    logs, held = log_scores(laws, question), hits(laws, question)
    if isinstance(laws, ClassLaws):
        return Answers(question, logs, held, laws.shares)
    low, high = laws.interval(0.9)
    return Answers(question, logs, held, None, laws.mean, low, high)


def study(
    model: TableModel, frame: Any, pairs: Sequence[tuple[Laws, Question]], described: Any, seed: int,
    learnt: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """What is found, by name. `frame` has the rows of `pairs`, one after the other; `learnt` is the table
    that the model was fitted to, where that is another one."""
    step = max(1, -(-len(frame) // _MOST))
    said = answers(_thinned(pairs, step) if step > 1 else pairs)
    frame = frame.iloc[::step].reset_index(drop=True)
    tables = model.encoded(frame)
    matters = importance(model, tables, said.question, seed)
    names = list(dict.fromkeys([*matters["column"], *described.features]))
    known = described.kinds
    kinds = {name: known[name] for name in names}
    found: dict[str, Any] = {
        "rows": len(frame),
        "classes": [str(each) for each in model.classes],
        "coverage": coverage(said.hits, said.question.amounts, said.level, _apart(said), frame, kinds),
        "risk": _risk(said),
        "importance": matters,
        "effects": effects(model, tables, frame, kinds, matters["column"]),
        "worst": _worst(model, said, frame, matters["column"]),
        "doubt": _doubt(model, tables, len(frame)),
        "unlike": float(model.unlike(frame).mean()),
        "ranges": ranges(frame if learnt is None else learnt, frame, kinds, matters["column"]),
    }
    found |= _of_classes(said) if said.shares is not None else _of_numbers(said)
    return found | {"words": words_of(found, model)}


def _apart(said: Answers) -> np.ndarray | None:
    """The doubt, where it is something else than the prediction."""
    return said.doubt if said.shares is None else None


def _thinned(pairs: Sequence[tuple[Laws, Question]], step: int) -> list[tuple[Laws, Question]]:
    """Every `step`-th row of all of them."""
    found, start = [], 0
    for laws, question in pairs:
        rows = np.arange(-start % step, len(laws), step)
        found.append((laws.take(rows), question.take(rows)))
        start += len(laws)
    return found


def _of_numbers(said: Answers) -> dict[str, Any]:
    """Ranks, and what they say of the residuals."""
    low, high, amounts = said.hits.low, said.hits.high, said.question.amounts
    assert low is not None and high is not None  # noqa: PT018
    count = len(low)
    edges = np.linspace(0, 1, (20 if count >= 400 else 10) + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        below = [np.where(high > low, np.clip((e - low) / (high - low), 0, 1), low <= e) for e in edges]
    below[0] = np.zeros(count)
    share = amounts / amounts.sum()
    square = (low**2 + low * high + high**2) / 3 - 0.5 * (low + high) + 0.25  # of u - 1/2
    middle = 0.5 * (low + high)
    order = np.argsort(np.argsort(said.level, kind="stable"), kind="stable") / max(count - 1, 1)
    size = 1 / float((share**2).sum())  # rows, where some count more than others
    points = slice(None, None, max(1, -(-count // _POINTS)))
    return {
        "ranks": {"edges": edges, "counts": np.diff([amounts @ part for part in below])},
        "residuals": {
            "size": size,
            "lean": float((share @ middle - 0.5) * np.sqrt(12 * size)),
            "narrow": float((share @ square - 1 / 12) * np.sqrt(180 * size)),
            "outside": 1 - float(share @ _between(low, high, 0.01, 0.99)),
            "slope": _correlation(middle, order) * size**0.5,
            "fan": _correlation(square, order) * size**0.5,
        },
        "points": {
            "actual": said.question.y[points].astype(float), "mean": _part(said.mean, points),
            "low": _part(said.low, points), "high": _part(said.high, points),
            "score": special.ndtri(np.clip(middle[points], 1e-4, 1 - 1e-4)),
        },
    }  # fmt: skip


def _part(values: Any, rows: slice) -> np.ndarray:
    return np.asarray(values, float)[rows]


def _between(low: np.ndarray, high: np.ndarray, first: float, last: float) -> np.ndarray:
    """The share of each interval of ranks that lies between two levels."""
    width = high - low
    overlap = np.minimum(high, last) - np.maximum(low, first)
    inside = (first <= low) & (low <= last)
    return np.where(width > 0, np.clip(overlap, 0, None) / np.where(width > 0, width, 1.0), inside)


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    if len(first) < 3 or first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _of_classes(said: Answers) -> dict[str, Any]:
    """Promised probabilities beside how often they came true, and which class was taken for which."""
    shares, codes = said.shares, said.question.y
    assert shares is not None
    count = shares.shape[1]
    stated, came = (shares[:, 1], codes == 1) if count == 2 else (shares.max(1), shares.argmax(1) == codes)
    parts = np.array_split(np.argsort(stated, kind="stable"), int(np.clip(len(stated) // 15, 2, 10)))
    parts = [part for part in parts if len(part)]
    sums = [float((stated[part] * (1 - stated[part])).sum()) for part in parts]
    found: dict[str, Any] = {
        "reliability": {
            "said": np.array([stated[part].mean() for part in parts]),
            "seen": np.array([came[part].mean() for part in parts]),
            "rows": np.array([len(part) for part in parts]),
            "error": np.array([np.sqrt(total) / len(part) for total, part in zip(sums, parts)]),
        },
    }
    if count <= _MOST_CLASSES:
        table = np.bincount(codes * count + shares.argmax(1), minlength=count**2)
        found["confusion"] = table.reshape(count, count)
    return found


def _risk(said: Answers) -> dict[str, Any]:
    """The mean loss of the rows that are answered; rows of equal doubt share theirs."""
    if said.question.events is not None:
        return {}
    if said.shares is not None:
        losses, name = (said.shares.argmax(1) != said.question.y).astype(float), "share of errors"
    else:
        losses, name = np.abs(said.question.y - np.asarray(said.mean)), "mean absolute error"
    order = np.argsort(said.doubt, kind="stable")
    _, group = np.unique(said.doubt[order], return_inverse=True)
    means = np.bincount(group, losses[order]) / np.bincount(group)
    count = len(losses)
    steps = np.unique(np.linspace(max(1, count // 20), count, _RISKS).round().astype(int))
    risk, best = np.cumsum(means[group])[steps - 1] / steps, np.cumsum(np.sort(losses))[steps - 1] / steps
    return {"name": name, "share": steps / count, "risk": risk, "best": best}


def _doubt(model: TableModel, tables: dict[str, np.ndarray], count: int) -> float:
    """The mean share of variance, or entropy, that is no noise as far as members say; NaN where none does."""
    rows = slice(0, count, max(1, -(-count // _DOUBTED)))
    tables = {form: X[rows] for form, X in tables.items()}
    size = len(range(count)[rows])
    members, weights = model.members_of(tables, size), np.array(model.weights)[:, None]
    speak = len(members) > 1
    if isinstance(members[0], ClassLaws):
        each = np.stack([special.entr(member.shares).sum(1) for member in members])  # pyright: ignore
        whole = special.entr(mixed(model.weights, members).shares).sum(1)  # pyright: ignore
        between = whole - (weights * each).sum(0)
    else:
        means = np.stack([member.mean for member in members])
        between = (weights * (means - (weights * means).sum(0)) ** 2).sum(0)
        whole = mixed(model.weights, members).variance
        for weight, member in zip(model.weights, model.members):
            if isinstance(member, BaseRate) or member.log:
                continue
            if hasattr(member.estimator, "predict_uncertainty"):
                own = member.estimator.predict_uncertainty(member.seen(tables[member.form]))
                between, speak = between + weight * np.asarray(own.epistemic, float), True
    with np.errstate(invalid="ignore", divide="ignore"):
        share = between / whole
    share = share[np.isfinite(share)]
    return float(np.clip(share, 0, 1).mean()) if speak and len(share) else float("nan")


def _worst(model: TableModel, said: Answers, frame: Any, columns: list[str]) -> dict[str, Any]:
    """The rows of the lowest log-scores, in words."""
    shown, question = columns[:_COLUMNS_OF_WORST], said.question
    third = "its probability" if said.shares is not None else "90 % interval"
    lines = []
    for row in np.argsort(said.logs, kind="stable")[:_WORST].tolist():
        if said.shares is not None:
            guess = int(said.shares[row].argmax())
            names = (str(model.classes[code]) for code in (question.y[row], guess))
            words = (*names, f"{said.shares[row, guess]:.3g}")
        else:
            ends = f"{told(said.low[row])} to {told(said.high[row])}"  # pyright: ignore
            words = (told(question.y[row]), told(said.mean[row]), ends)  # pyright: ignore
        number = str(row) if question.places is None else str(int(question.places[row]))
        cells = [_cell(frame[name].iloc[row]) for name in shown]
        lines.append([number, *words, f"{said.logs[row]:.3g}", *cells])
    return {"head": ["row", "what happened", "prediction", third, "log-score", *shown], "lines": lines}


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    return told(float(value)) if isinstance(value, float | np.floating) else str(value)[:40]
