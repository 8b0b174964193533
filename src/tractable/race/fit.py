r"""`fit_table`: from a table and the name of a column to calibrated predictions and an honest comparison.

Steps.       Columns described; a last part put aside; the candidates raced on the others; the winner (one
             model, or a mixture) fitted to them and measured on the last part; then fitted to all rows.
Budget.      `effort` is predicted work in seconds; the same seed gives the same model under any load.
             `seconds` ends the order of the race early, and `left_out` says what was not tried.
Cost.        As predicted; see `race.candidates`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count, check_option
from tractable.race.asked import check_asked
from tractable.race.base_rate import BASE, BaseRate
from tractable.race.beside import beside_of
from tractable.race.candidates import CANDIDATES, Candidate, Size, candidates_for
from tractable.race.cross_fit import Clock, cross_fit, within_budget
from tractable.race.folds import fold_pairs, put_aside
from tractable.race.measures import averaged, measures
from tractable.race.members import Refused, fit_member
from tractable.race.model import TableModel
from tractable.race.question import CLASSES, Question, question_of
from tractable.race.result import TableFit, provenance
from tractable.race.study import study
from tractable.race.weighing import Choice, choose, turned
from tractable.tables.description import TableDescription, describe_table
from tractable.tables.encoder import TableEncoder
from tractable.tables.files import WrongTable
from tractable.tables.reading import read_table
from tractable.tables.target import TASKS, target_task

__all__ = ["EFFORTS", "fit_table"]

EFFORTS = {"low": 20.0, "normal": 60.0, "high": 360.0}
_PAGE = 2.5  # seconds of work for the pictures of a report, and at least for what they show
_DATES = "Give the days from a fixed day, or until then."
_MORE = 1.3  # a fit to all rows after one without the last part


def fit_table(
    frame: Any, target: str, *, effort: str = "normal", seconds: float | None = None, seed: int = 0,
    kinds: Mapping[str, str] | None = None, drop: Iterable[str] = (), weights: str | None = None,
    group: str | None = None, time: str | None = None, event: str | None = None,
    task: str | None = None, candidates: tuple[str, ...] | None = None,
    examine: bool = True, tell: Callable[[str], None] | None = None,
) -> TableFit:  # fmt: skip
    """Models of a column of a table, compared on rows that they have not seen; the best as one model.

    `frame` is a table or the path of one. `kinds` and `drop` overrule what the columns are taken for;
    `weights`, `group`, `time` and `event` name columns that say how often a row counts, which rows stay
    together, which come later, and whether the end was seen. `task` overrules what the target is taken for,
    `candidates` names the models that may race, and without `examine` the report has no pictures.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=80)
    >>> found = fit_table({"x": x, "y": 2 * x + rng.normal(size=80)}, "y", candidates=("Bayesian linear",))
    >>> found.winner, bool(abs(found.predict({"x": [1.0]})[0] - 2) < 0.5)
    ('Bayesian linear', True)
    """
    target = " ".join(map(str, target)) if isinstance(target, tuple) else str(target)
    check_option("effort", effort, tuple(EFFORTS))
    check_option("task", task or "number", TASKS)
    for name in candidates or ():
        check_option("candidates", name, tuple(each.name for each in CANDIDATES))
    check(seconds is None or seconds > 0, "seconds", "positive", seconds)
    seed, clock = check_count("seed", seed, 0), Clock(seconds)
    kinds, beside = dict(kinds or {}), [name for name in (weights, group, time, event) if name is not None]
    table = read_table(frame, kinds=kinds)
    check_asked(table, target, beside, drop := tuple(drop))
    described = describe_table(table, target=target, kinds=kinds, drop=[*drop, *beside])
    table, question = _asked(table, described, target, task, (weights, group, time, event))
    with one_blas_thread():
        return _raced(table, described, question, EFFORTS[effort], seed, clock, candidates, examine, tell)


def _asked(
    table: Any, described: TableDescription, target: str, task: str | None, beside: tuple[str | None, ...]
) -> tuple[Any, Question]:
    """The rows that have a target, and the question about them."""
    known = np.flatnonzero(table[target].notna())
    table = table.iloc[known].reset_index(drop=True)
    if beside[1] is not None and beside[2] is not None:
        raise WrongTable("`group` or `time` must be given, not both; got both.")
    aside = beside_of(table, target, dict(zip(("weights", "groups", "times", "events"), beside)))
    if aside["weights"] is not None and (aside["weights"] == 0).any():
        there = np.flatnonzero(aside["weights"])
        known, table = known[there], table.iloc[there].reset_index(drop=True)
        aside = {use: None if each is None else each[there] for use, each in aside.items()}
    values, kind = table[target], described.column(target).kind
    if kind == "datetime" and task not in CLASSES:
        raise WrongTable(f"the target {target!r} must be numbers or classes; got dates. {_DATES}")
    task = "censored" if aside["events"] is not None else task or _task(values, kind)
    task = "binary" if task == "classes" and values.nunique() == 2 else task
    levels = described.column(target).levels if task == "ordered" else ()
    return table, question_of(values, task, target, levels=levels, **aside)._replace(places=known + 1)


def _task(values: Any, kind: str) -> str:
    """What is asked of a target of this kind."""
    found = "classes" if kind in ("category", "text") else target_task(values)
    return "positive" if found == "number" and _leans(values.to_numpy(float)) else found


def _leans(y: np.ndarray) -> bool:
    """Whether numbers are positive and nearer to symmetric on the scale of their logarithms."""
    if not (y > 0).all():
        return False
    plain, logs = (float(np.mean(((z - z.mean()) / (z.std() or 1.0)) ** 3)) for z in (y, np.log(y)))
    return plain > 0.5 and abs(logs) < plain


def _raced(
    table: Any, described: TableDescription, question: Question, budget: float, seed: int, clock: Clock,
    names: tuple[str, ...] | None, examined: bool, tell: Callable[[str], None] | None,
) -> TableFit:  # fmt: skip
    kept, last = put_aside(question, seed)
    part, rows = question.take(kept), table.iloc[kept]
    folds = fold_pairs(part, seed)

    def encoded(form: str, seen: Any, held: Any) -> tuple[np.ndarray, np.ndarray]:
        encoder = TableEncoder(described, form)
        first = encoder.fit_transform(rows.iloc[seen], part.y[seen].astype(float))
        return first, encoder.transform(rows.iloc[held])

    racing = candidates_for(question.task, names)
    check(bool(racing) or not names, "candidates", f"models of the task {question.task!r}", names)
    size = Size(len(kept), _width(described, rows), question.num_classes)
    allowed, left_out = within_budget(racing, size, budget, len(folds))
    allowed = allowed if described.features else []
    entries, judged = cross_fit(allowed, part, folds, encoded, seed, clock, tell)
    choice = choose(entries, judged, part)
    begun = clock.seconds()
    fitted = first = _model(rows, described, part, choice, allowed, seed)
    again, begun = clock.seconds() - begun, clock.seconds()
    if len(last):
        asked = table.iloc[last]
        pairs = [(first.predict_dist(asked), question.take(last))]
    else:  # too few rows for a last part: those held out stand in for it
        pairs = [(turned(each, choice.ranks), own) for each, own in zip(choice.laws, choice.parts)]
        asked = rows.iloc[np.concatenate(judged)]
    numbers = averaged([measures(*pair) for pair in pairs]) if len(pairs) > 1 else measures(*pairs[0])
    page = clock.slowness() * _PAGE if examined else 0.0
    seen = {}
    if examined and clock.has(max(page, clock.seconds() - begun) + page):
        seen = study(first, asked, pairs, described, seed, rows)
    if len(last) and clock.has(_MORE * again + page):
        fitted = _model(table, described, question, choice, allowed, seed)
    return TableFit(
        fitted, choice, numbers, described, left_out, len(last) > 0,
        provenance(table, question, seed, clock), clock.seconds(), seen,
    )  # fmt: skip


def _model(
    table: Any, described: TableDescription, question: Question, choice: Choice, allowed: list[Candidate],
    seed: int,
) -> TableModel:  # fmt: skip
    """The winner fitted to rows; a member that refuses them gives its weight to the others."""
    named = {each.name: each for each in allowed}
    encoders: dict[str, Any] = {}
    members, weights = [], []
    for name, weight in choice.weights.items():
        if name == BASE:
            member: Any = BaseRate.of(question)
        else:
            form = named[name].form
            if form not in encoders:
                encoders[form] = TableEncoder(described, form).fit(table, question.y.astype(float))
            try:
                member = fit_member(named[name], encoders[form].transform(table), question, seed)
            except Refused:
                continue
        members.append(member)
        weights.append(weight)
    if not members:
        members, weights = [BaseRate.of(question)], [1.0]
    weights = (np.array(weights) / np.sum(weights)).tolist()
    args = question.task, question.target, question.classes
    return TableModel(*args, encoders, members, weights, choice.ranks)


def _width(described: TableDescription, rows: Any) -> int:
    """Encoded columns, about: a category has as many as levels, a text fifty."""
    found = 0
    for name in described.features:
        column = described.column(name)
        many = {"category": min(column.distinct, 40), "text": 50, "datetime": 8}
        found += many.get(column.kind, 2 if column.missing else 1)
    return max(found, 1)
