"""The pictures of a report, each with a caption and with words for those who cannot see it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.plots import race as draw
from tractable.plots.page import picture
from tractable.race.measures import told
from tractable.race.result import TableFit

__all__ = ["pictures_of"]


def pictures_of(fit: TableFit) -> dict[str, str]:
    """Parts of the page by name; those that the study has material for."""
    seen = fit.study
    found = {"leaderboard": _leaderboard(fit)}
    if not seen:
        return found
    found |= {"levels": _levels(fit), "calibration": _calibration(fit)}
    if len(seen["coverage"]["rows"]) > 2:
        found["groups"] = _groups(fit)
    if seen["risk"]:
        found["risk"] = _risk(fit)
    if seen.get("points"):
        found |= {"outcomes": _outcomes(fit), "residuals": _residuals(fit)}
    if seen["importance"]["column"]:
        found["importance"] = _importance(fit)
    if seen["effects"]:
        found["effects"] = _effects(fit)
    return found


def _drawn(
    size: tuple[float | int, float | int], paint: Callable[[Any], Any], said: str, caption: str
) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    paint(figure.subplots())
    return picture(figure, said, caption=caption)


def _leaderboard(fit: TableFit) -> str:
    lines = [each for each in fit.standings if np.isfinite(each.difference)][:15]
    said = "; ".join(f"{each.name} {each.difference:.3g}" for each in lines[:6])
    return _drawn(
        (4.8, 1 + 0.33 * len(lines)), lambda ax: draw.plot_leaderboard(fit, ax=ax),
        f"Log-scores of the models beside the best, larger is better: {said}.",
        "How far each model is behind the best on rows held out, with two paired standard errors; blue "
        "models are "
        "in the winner.",
    )  # fmt: skip


def _levels(fit: TableFit) -> str:
    found = fit.study["coverage"]
    kept = ", ".join(
        f"{name}: {held:.1%} kept where {promised:.1%} were promised"
        for name, held, promised in zip(found["promises"], found["held"][0], found["promised"][0])
    )
    what = "sets of classes" if fit.model.classes else "intervals"
    return _drawn(
        (4.6, 3.7), lambda ax: draw.plot_levels(fit, ax=ax), f"Shares of promises that were kept: {kept}.",
        f"How often {what} held what happened, over what they promised, for all rows and for thirds of the "
        "prediction, with two errors: on the line where honest.",
    )  # fmt: skip


def _groups(fit: TableFit) -> str:
    found = fit.study["coverage"]
    bad = int((found["off"] < 0).sum())
    count = min(len(found["rows"]), 24)
    return _drawn(
        (4.8, 1 + 0.24 * count), lambda ax: draw.plot_groups(fit, ax=ax),
        f"Shares of promises kept in {count} groups of rows; {bad} are lower than chance allows.",
        "Promises kept by group of rows, those furthest below their promise first; grey bars are two errors "
        "around the promise, red points are failures.",
    )  # fmt: skip


def _calibration(fit: TableFit) -> str:
    if fit.study.get("ranks"):
        counts = fit.study["ranks"]["counts"]
        said = ", ".join(f"{count:.0f}" for count in counts)
        return _drawn(
            (4.8, 3), lambda ax: draw.plot_calibration(fit, ax=ax),
            f"A histogram of the ranks of what happened in the predicted laws; rows in each part: {said}.",
            "Ranks of what happened (PIT): flat within the grey band where the laws are right, heaped at "
            "both ends where "
            "they are too narrow, in the middle where too wide, to one side where they lean.",
        )  # fmt: skip
    bins = fit.study["reliability"]
    said = ", ".join(f"{a:.0%} stated and {b:.0%} true" for a, b in zip(bins["said"], bins["seen"]))
    return _drawn(
        (4.6, 3.7), lambda ax: draw.plot_calibration(fit, ax=ax),
        f"Stated probabilities and shares that came true: {said}.",
        "Probabilities that were stated and how often they came true, with two errors: on the line where "
        "calibrated.",
    )  # fmt: skip


def _risk(fit: TableFit) -> str:
    found = fit.study["risk"]
    half = float(np.interp(0.5, found["share"], found["risk"]))
    return _drawn(
        (4.8, 3), lambda ax: draw.plot_risk(fit, ax=ax),
        f"The {found['name']} is {found['risk'][-1]:.3g} where all rows are answered and {half:.3g} where "
        "the surer "
        "half is.",
        "What leaving the least sure rows to a person buys (risk and coverage); dashed, an oracle that "
        "knows the errors.",
    )  # fmt: skip


def _outcomes(fit: TableFit) -> str:
    found = fit.study["points"]
    inside = np.mean((found["low"] <= found["actual"]) & (found["actual"] <= found["high"]))
    return _drawn(
        (4.8, 3.6), lambda ax: draw.plot_outcomes(fit, ax=ax),
        f"What happened over predicted means with 90 % intervals of {len(found['mean'])} rows; "
        f"{inside:.0%} are inside.",
        "What happened over what was predicted, with 90 % intervals; red where the interval missed.",
    )  # fmt: skip


def _residuals(fit: TableFit) -> str:
    found = fit.study["residuals"]
    return _drawn(
        (4.8, 3), lambda ax: draw.plot_residuals(fit, ax=ax),
        f"Residuals over predictions; their lean is {found['lean']:.1f} and their slope "
        f"{found['slope']:.1f} standard "
        "errors from none.",
        "Residuals as normal scores over the prediction: a shapeless cloud around zero where the model has "
        "the law right.",
    )  # fmt: skip


def _importance(fit: TableFit) -> str:
    found = fit.study["importance"]
    said = "; ".join(f"{name} {lost:.3g}" for name, lost in zip(found["column"][:6], found["lost"]))
    return _drawn(
        (4.8, 1 + 0.27 * min(15, len(found["column"]))), lambda ax: draw.plot_importance(fit, ax=ax),
        f"Log-score lost where a column is shuffled: {said}.",
        "What each column is worth: the log-score lost where its values are shuffled among the rows, with "
        "two errors.",
    )  # fmt: skip


def _effects(fit: TableFit) -> str:
    from matplotlib.figure import Figure

    found = fit.study["effects"]
    figure = Figure(figsize=(5.4, 2.4 * -(-len(found) // 2)), layout="constrained")
    draw.plot_effects(fit, figure=figure)
    said = "; ".join(
        f"{each['column']}: {each['said']} from {told(each['mean'].min())} to {told(each['mean'].max())}"
        for each in found
    )
    caption = (
        "The mean prediction with one column set to a value, other columns as they are; the band holds the "
        "middle 80 % of the rows."
    )
    return picture(figure, f"Effects on the prediction. {said}.", caption=caption)
