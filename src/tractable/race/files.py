"""A fitted table model as what `core.storage` can write, and back."""

from typing import Any

import numpy as np

from tractable.core.verdict import Verdict
from tractable.estimators.base import decoded, encoded
from tractable.race.base_rate import BaseRate
from tractable.race.members import Member
from tractable.race.model import TableModel
from tractable.race.result import TableFit
from tractable.race.weighing import Choice, Standing
from tractable.tables.encoder import TableEncoder

__all__ = ["content_of", "fit_of"]


def content_of(fit: TableFit) -> dict[str, Any]:
    """All of a fit but its seconds."""
    model = fit.model
    return {
        "task": model.task, "target": model.target, "classes": list(model.classes),
        "encoders": {form: each.state() for form, each in model.encoders.items()},
        "members": [_member(each) for each in model.members], "weights": model.weights,
        "ranks": model.ranks, "metrics": {k: float(v) for k, v in fit.metrics.items()},
        "description": fit.description, "left_out": fit.left_out, "untouched": fit.untouched,
        "provenance": fit.provenance, "winner": fit.winner, "shares": fit.weights, "verdict": fit.verdict,
        "study": fit.study, "refused": fit.refused,
        "standings": [list(each._replace(seconds=0.0)) for each in fit.standings],
    }  # fmt: skip


def _member(member: Any) -> dict[str, Any]:
    if isinstance(member, BaseRate):
        return {"base": member.state()}
    return {**member._asdict(), "estimator": encoded(member.estimator)}


def _made(content: dict[str, Any]) -> Any:
    if "base" in content:
        return BaseRate(**content["base"])
    return Member(**{**content, "estimator": decoded(content["estimator"])})


def fit_of(content: dict[str, Any]) -> TableFit:
    """The fit that `content_of` described."""
    encoders = {form: TableEncoder.from_state(state) for form, state in content["encoders"].items()}
    members = [_made(each) for each in content["members"]]
    names = content["task"], content["target"], tuple(content["classes"])
    model = TableModel(*names, encoders, members, content["weights"], content["ranks"])
    standings = tuple(Standing(*line) for line in content["standings"])
    blank = Verdict(True, "")
    choice = Choice(
        content["winner"], content["shares"], content["ranks"], standings, blank, [], [],
        content.get("refused", {}),
    )  # fmt: skip
    metrics = {**content["metrics"], "rows": int(content["metrics"]["rows"])}
    found = TableFit(
        model, choice, metrics, content["description"], content["left_out"], content["untouched"],
        content["provenance"], float(np.nan), content["study"],
    )  # fmt: skip
    found.verdict = content["verdict"]
    return found
