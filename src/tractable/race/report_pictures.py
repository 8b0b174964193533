"""The pictures of a report, with captions and words for those who cannot see them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.plots import table_fit as draw
from tractable.plots.page import picture
from tractable.race.result import TableFit

__all__ = ["pictures"]


def pictures(fit: TableFit) -> list[str]:
    """As parts of the page; none where there was no last part."""
    seen = fit.examination
    if not seen:
        return []
    parts = ["<h2>Pictures</h2>"]
    parts += _of_classes(seen) if "shares" in seen else _of_numbers(seen) if "mean" in seen else []
    if seen["importance"]:
        parts += ["<h2>What matters</h2>", _importance(seen)]
    if seen["effects"]:
        parts.append(_effects(fit, seen))
    return parts


def _drawn(size: tuple[float, float], paint: Callable[[Any], Any], said: str, caption: str) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    paint(figure.subplots())
    return picture(figure, said, caption=caption)


def _of_numbers(seen: dict[str, Any]) -> list[str]:
    inside = np.mean((seen["lower"] <= seen["actual"]) & (seen["actual"] <= seen["upper"]))
    errors = np.abs(seen["actual"] - seen["mean"])
    best = errors[np.argsort(seen["sd"], kind="stable")[: max(1, len(errors) // 2)]].mean()
    return [
        _drawn((6, 4), lambda ax: draw.plot_outcomes(
            seen["mean"], seen["lower"], seen["upper"], seen["actual"], ax=ax),
            f"Points of what happened over predicted means with 90 % intervals; {inside:.0%} are inside.",
            "What happened over what was predicted, with 90 % intervals."),
        _drawn((6, 3), lambda ax: draw.plot_ranks(seen["rank"], ax=ax),
            "A histogram of ranks of what happened in the predicted laws, with the band of uniform ones.",
            "Ranks of what happened: flat where the laws are right, heaped at the ends where too narrow."),
        _drawn((6, 3), lambda ax: draw.plot_risk(seen["sd"], errors, ax=ax, name="mean absolute error"),
            f"Mean absolute error: {errors.mean():.3g} on all rows, {best:.3g} on the surer half.",
            "The error of the rows that are answered, where the least sure are left to a person."),
    ]  # fmt: skip


def _of_classes(seen: dict[str, Any]) -> list[str]:
    shares = seen["shares"]
    sure, right = shares.max(1), (shares.argmax(1) == seen["actual"]).astype(float)
    return [
        _drawn((5, 4), lambda ax: draw.plot_reliability(sure, right, ax=ax),
            f"Share that was right against the probability promised; overall {right.mean():.0%} against "
            f"{sure.mean():.0%}.",
            "Promised probabilities and how often they came true: on the line where calibrated."),
        _drawn((6, 3), lambda ax: draw.plot_risk(1 - sure, 1 - right, ax=ax, name="share of errors"),
            f"The share of errors of the rows that are answered; {1 - right.mean():.1%} where all are.",
            "The share of errors where the least sure rows are left to a person."),
    ]  # fmt: skip


def _importance(seen: dict[str, Any]) -> str:
    lines = seen["importance"][:15]
    names, lost, errors = (list(part) for part in zip(*lines))
    said = "; ".join(f"{name} {value:.3g}" for name, value, _ in lines[:5])
    height = 1.2 + 0.28 * len(lines)
    return _drawn(
        (6, height), lambda ax: draw.plot_importance(names, lost, errors, ax=ax),
        f"Log-score lost where a column is shuffled: {said}.",
        "What each column is worth: the log-score lost where its values are shuffled, with two errors.",
    )  # fmt: skip


def _effects(fit: TableFit, seen: dict[str, Any]) -> str:
    from matplotlib.figure import Figure

    effects = seen["effects"]
    classes = fit.model.classes
    axis = f"P({classes[-1]})" if classes else f"mean of {fit.target}"
    figure = Figure(figsize=(6.5, 2.8 * -(-len(effects) // 2)), layout="constrained")
    spaces = np.ravel(figure.subplots(-(-len(effects) // 2), min(2, len(effects)), squeeze=False))
    for space, each in zip(spaces, effects):
        draw.plot_effect(
            each["values"], each["mean"], each["low"], each["high"], ax=space, name=each["column"], said=axis
        )
    for space in spaces[len(effects) :]:
        space.set_visible(False)
    names = ", ".join(each["column"] for each in effects)
    caption = "The mean prediction with one column set to a value, and the middle 80 % of the rows."
    return picture(figure, f"Effects of {names} on the prediction.", caption=caption)
