"""Models of files compared on the rows of one table: log-scores, paired differences, a verdict."""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.verdict import Verdict
from tractable.race.measures import shown
from tractable.race.question import CLASSES, Question, log_scores
from tractable.race.result import TableFit
from tractable.race.weighing import Standing, paired
from tractable.tables.files import WrongTable
from tractable.tables.reading import read_table

__all__ = ["ModelComparison", "compare_models"]


class ModelComparison(NamedTuple):
    """The models, the best first, and whether the best is clearly so."""

    target: str
    rows: int
    lines: tuple[Standing, ...]
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """As JSON may hold it."""
        models = [
            {"name": each.name, "winner": each.note}
            | shown({"log_score": each.log_score, "error": each.error, "difference": each.difference,
                     "difference_error": each.difference_error})
            for each in self.lines
        ]  # fmt: skip
        verdict = {"ok": self.verdict.ok, "sentence": self.verdict.sentence}
        return {"target": self.target, "rows": self.rows, "models": models, "verdict": verdict}


def compare_models(fits: dict[str, TableFit], source: Any) -> ModelComparison:
    """The models by their log-scores on the rows of a table that hold the target."""
    first = next(iter(fits.values()))
    for name, fit in fits.items():
        if fit.target != first.target:
            raise WrongTable(f"all models must predict {first.target!r}; got {name} of {fit.target!r}.")
        if _measure(fit) != _measure(first):
            raise WrongTable(
                f"all models must be of one measure; got {name} of {_measure(fit)} beside {_measure(first)}."
            )
    frame = read_table(source, kinds=first.kinds)
    if first.target not in frame.columns:
        raise WrongTable(f"there must be the target {first.target!r} to compare by; got no such column.")
    y = first.model.codes(frame[first.target])
    known = np.isfinite(y)
    if known.sum() < 2:
        raise WrongTable("at least two rows must have a target that the models know; got fewer.")
    rows = frame[known]
    scores = {name: _scores(fit, rows, y[known]) for name, fit in fits.items()}
    table = paired(scores, {name: fit.winner for name, fit in fits.items()})
    lost = int((frame[first.target].notna().to_numpy() & ~known).sum())
    return ModelComparison(first.target, int(known.sum()), table, _verdict(table, lost))


def _measure(fit: TableFit) -> str:
    if fit.task in CLASSES:
        return f"the classes {', '.join(map(str, fit.model.classes[:6]))}"
    return "counts" if fit.task == "count" else "numbers"


def _scores(fit: TableFit, rows: Any, y: np.ndarray) -> np.ndarray:
    codes = y.astype(int) if fit.model.classes else y
    return log_scores(fit.predict_dist(rows), Question(fit.task, fit.target, codes, fit.model.classes))


def _verdict(table: tuple[Standing, ...], lost: int) -> Verdict:
    more = f" {lost} rows were left out: no model knows their target." if lost else ""
    if len(table) < 2:
        return Verdict(False, f"One model: there is nothing to compare.{more}")
    best, next_one = table[0], table[1]
    clear = -next_one.difference > 2 * next_one.difference_error
    said = "is better than all others" if clear else f"and {next_one.name} cannot be told apart"
    numbers = {"difference": next_one.difference, "error": next_one.difference_error}
    return Verdict(clear, f"{best.name} {said}.{more}", numbers)
