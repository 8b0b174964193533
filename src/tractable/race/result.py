"""What `fit_table` gives: the leaderboard, the measures on rows never used, the model, and its file.

File.        One file (`core.storage`: tensors, a manifest, a checksum; no pickle): encoders, members,
             weights, the turning of ranks, the leaderboard, what the table was, and where the model comes
             from. The seconds that it took are not in it, so the same seed writes the same bytes.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from tractable._version import __version__
from tractable.core import storage
from tractable.core.checks import check
from tractable.core.description import Described
from tractable.core.verdict import Verdict
from tractable.race.evidence import evidence_words
from tractable.race.laws import Laws
from tractable.race.measures import shown
from tractable.race.model import TableModel
from tractable.race.question import Question
from tractable.race.weighing import Choice

__all__ = ["TableFit", "provenance"]

_FORMAT = "tractable table model"


class TableFit(Described):
    """Models of a table compared, and the best as one model."""

    def __init__(
        self, model: TableModel, choice: Choice, metrics: dict[str, Any], description: Any,
        left_out: dict[str, str], untouched: bool, origin: dict[str, Any], seconds: float,
        study: dict[str, Any] | None = None,
    ):  # fmt: skip
        self.model, self.metrics, self.description = model, metrics, description
        self.winner, self.standings, self.weights = choice.winner, choice.standings, choice.weights
        self.left_out, self.untouched, self.provenance, self.seconds = left_out, untouched, origin, seconds
        self.study, self.refused = study or {}, choice.refused
        self.verdict = _judged(choice.verdict, metrics, untouched)

    @property
    def task(self) -> str:
        return self.model.task

    @property
    def target(self) -> str:
        return self.model.target

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the columns that it uses, for reading other tables in the same way."""
        known = self.description.kinds
        return {name: known[name] for name in self.model.columns if name in known}

    @property
    def interrupted(self) -> bool:
        """Whether the race was ended before its order was."""
        return bool(self.provenance.get("interrupted", False))

    @property
    def leaderboard(self) -> Any:
        """A table of the models, the best first: mean log-score of rows held out, its error, the paired
        difference to the best and its error, seconds, weight in the winner, and the log-evidence for
        each row of training where it may be compared."""
        import pandas as pd

        return pd.DataFrame([line._asdict() for line in self.standings])

    @property
    def notes(self) -> tuple[Any, ...]:
        """What should be known of the table."""
        return self.description.notes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known before the model is used, in plain words, the gravest first."""
        from tractable.race.study_words import warnings_of

        return tuple(warnings_of(self))

    @property
    def evidence_sentence(self) -> str:
        """What the evidences of the rows of training say, and whose may not be compared; often nothing."""
        found = {each.name: each.evidence for each in self.standings if np.isfinite(each.evidence)}
        return evidence_words(found, self.refused)

    def predict_dist(self, frame: Any) -> Laws:
        """One law per row of a table with the same columns."""
        return self.model.predict_dist(frame)

    def predict(self, frame: Any) -> np.ndarray:
        """The mean of each row, or its most probable class."""
        return self.model.predict(frame)

    def predict_interval(self, frame: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        return self.model.predict_interval(frame, level)

    def predict_proba(self, frame: Any) -> np.ndarray:
        """The probability of each class."""
        return self.model.predict_proba(frame)

    def as_dict(self) -> dict[str, Any]:
        """All that `tractable fit --json` prints, but for the paths."""
        models = [
            shown({"log_score": each.log_score, "error": each.error, "seconds": round(each.seconds, 3),
                   "weight": each.weight, "evidence": each.evidence}) | {"name": each.name, "note": each.note}
            for each in self.standings
        ]  # fmt: skip
        return {
            "task": self.task, "target": self.target, "winner": self.winner,
            "metrics": shown(self.metrics), "untouched": self.untouched,
            "models": [{"name": each.pop("name"), **each} for each in models],
            "left_out": self.left_out, "evidence": self.evidence_sentence,
            "notes": [{"code": n.code, "column": n.column, "sentence": n.sentence} for n in self.notes],
            "warnings": list(self.warnings),
            "columns": {each.name: each.kind for each in self.description.columns},
            "verdict": {"ok": self.verdict.ok, "sentence": self.verdict.sentence},
            "provenance": self.provenance,
        }  # fmt: skip

    def report(self, path: str | os.PathLike) -> None:
        """Write the report, one page of HTML with its pictures inside; the same bytes from a file."""
        from tractable.race.report import write_report

        write_report(Path(path), self)

    def save(self, path: str | os.PathLike) -> None:
        """Write the model and what is known of it to one file."""
        from tractable.race.files import content_of

        storage.save(path, {"format": _FORMAT, **content_of(self)})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TableFit":
        """What `save` wrote; it predicts the same bits."""
        from tractable.race.files import fit_of

        found = storage.load(path)
        good = isinstance(found, dict) and found.get("format") == _FORMAT
        check(good, "path", "a file of a table model", repr(str(path)), "Make one with `tractable fit`.")
        return fit_of(found)

    def _columns(self) -> dict[str, list[Any]]:
        lines = self.standings
        evidence = [each.evidence for each in lines]
        return {
            "model": [each.name for each in lines],
            "log-score": [each.log_score for each in lines],
            "error": [each.error for each in lines],
            "behind": [-each.difference for each in lines],
            "its error": [each.difference_error for each in lines],
            "weight": [each.weight for each in lines],
            **({"evidence a row": evidence} if np.isfinite(evidence).any() else {}),
            "note": [each.note for each in lines],
        }


def _judged(verdict: Verdict, metrics: dict[str, Any], untouched: bool) -> Verdict:
    """The verdict of the race, with what the last part says."""
    rows = metrics["rows"]
    where = f"{rows} rows never used" if untouched else f"{rows} rows held out in turn"
    if "coverage_90" in metrics:
        promised = metrics.get("promised_90", 0.9)
        more = f" (of whole numbers: they promise {promised:.1%})" if "promised_90" in metrics else ""
        said = f"On {where} the 90 % intervals{more} hold {metrics['coverage_90']:.1%}."
        off = abs(metrics["coverage_90"] - promised) <= 0.04 + 2.6 * np.sqrt(0.09 / rows)
    elif "accuracy" in metrics:
        said = f"On {where} {metrics['accuracy']:.1%} are right; calibration error {metrics['ece']:.3f}."
        off = metrics["ece"] <= 0.03 + 1.5 / np.sqrt(rows)
    else:
        said, off = f"On {where} the log-score is {metrics['log_score']:.4g}.", True
    numbers = {**verdict.numbers, "rows": rows}
    return Verdict(verdict.ok and bool(off), f"{verdict.sentence} {said}", numbers)


def provenance(table: Any, question: Question, seed: int, clock: Any) -> dict[str, Any]:
    """Where a model comes from: versions, seed, a digest of the rows, and the rows of each class."""
    import pandas as pd
    import sklearn

    digest = hashlib.sha256(",".join(map(str, table.columns)).encode())
    for name in table.columns:
        digest.update(np.ascontiguousarray(_hashed(pd, table[name])).tobytes())
    counts = {}
    if question.of_classes:
        numbers = np.bincount(question.y, minlength=question.num_classes).tolist()
        counts = {str(label): count for label, count in zip(question.classes, numbers)}
    versions = {"tractable": __version__, "numpy": np.__version__, "sklearn": sklearn.__version__}
    return {
        "versions": versions, "seed": int(seed), "rows": len(table), "cut_short": bool(clock.cut),
        "interrupted": bool(clock.interrupted), "class_rows": counts, "digest": digest.hexdigest(),
    }  # fmt: skip


def _hashed(pd: Any, column: Any) -> np.ndarray:
    if column.dtype.kind in "biuf":
        return column.to_numpy(float, na_value=np.nan)
    return pd.util.hash_pandas_object(column.astype(str), index=False, categorize=True).to_numpy()
