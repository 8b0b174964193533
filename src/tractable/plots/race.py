"""Pictures of a raced table: the leaderboard, promises kept, ranks or reliability, risk, effects.

All take a `race.TableFit` and draw what its study holds (plain arrays), so a model from a file has the same
pictures as the fit that wrote it.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.plots.display import axes_of

__all__ = [
    "plot_calibration", "plot_effects", "plot_groups", "plot_importance", "plot_leaderboard", "plot_levels",
    "plot_outcomes", "plot_residuals", "plot_risk",
]  # fmt: skip

_BLUE, _GREY, _RED = "tab:blue", "0.6", "tab:red"
_MOST = 15  # bars
_THIRDS = {
    "": ("o-", _BLUE, 0.0), "low": ("^", "tab:green", -0.012), "middle": ("s", _GREY, 0.0),
    "high": ("v", _RED, 0.012),
}  # fmt: skip
_GROUPS = 24


def _part(fit: Any, name: str, must: str) -> Any:
    """A part of the study, which must be there."""
    found = fit.study.get(name)
    check(bool(found), "fit", must, f"the task {fit.task!r}, studied: {bool(fit.study)}",
          "`fit_table(..., examine=True)` studies a model.")  # fmt: skip
    return found


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"{name[: most - 2]}.."


def plot_leaderboard(fit: Any, *, ax: Axes | None = None) -> Axes:
    """How far each model is behind the best in log-score, with two paired standard errors; those in the
    winner in blue."""
    lines = [each for each in fit.standings if np.isfinite(each.difference)][:_MOST]
    ax = axes_of(ax, 6, 1 + 0.35 * len(lines))
    places = np.arange(len(lines))[::-1]
    for place, each in zip(places, lines):
        colour = _BLUE if each.weight > 0 else _GREY
        ax.errorbar(each.difference, place, xerr=2 * each.difference_error, fmt="o", color=colour, capsize=3)
    ax.axvline(0, color="0.8", lw=1, ls="--", zorder=0)
    ax.set_yticks(places, [_short(each.name, 34) for each in lines])
    ax.set_ylim(-0.6, len(lines) - 0.4)
    ax.set_xlabel("nats a row beside the best")
    return ax


def plot_levels(fit: Any, *, ax: Axes | None = None) -> Axes:
    """The share of promises that were kept over what was promised, with two binomial errors: overall, and by
    thirds of the prediction."""
    found = _part(fit, "coverage", "one with a study")
    ax = axes_of(ax, 5, 4)
    ax.plot([0, 1], [0, 1], color="0.7", lw=1)
    for k, (column, level) in enumerate(zip(found["column"], found["level"])):
        if column not in ("", "the prediction"):
            continue
        style, colour, shift = _THIRDS[level]
        promised, held, errors = (found[name][k] for name in ("promised", "held", "error"))
        ax.errorbar(
            promised + shift, held, 2 * errors, fmt=style, color=colour, ms=4, lw=1, capsize=2,
            label=f"{level} predictions" if level else "all rows",
        )  # fmt: skip
    low = max(0.0, float(min(found["promised"][:7].min(), found["held"][:7].min())) - 0.1)
    ax.set(xlabel="share that was promised", ylabel="share that was kept", xlim=(low, 1.03), ylim=(low, 1.05))
    ax.legend(fontsize="small")
    return ax


def plot_groups(fit: Any, *, ax: Axes | None = None) -> Axes:
    """The share of promises kept in groups of rows, those farthest off first, with two binomial errors; red
    where it is too low to be chance."""
    found = _part(fit, "coverage", "one with a study")
    t = found["tested"]
    gap = (found["held"][:, t] - found["promised"][:, t]) / np.maximum(found["error"][:, t], 1e-9)
    order = np.argsort(gap, kind="stable")[:_GROUPS]
    ax = axes_of(ax, 6, 1 + 0.24 * len(order))
    places = np.arange(len(order))[::-1]
    for place, k in zip(places, order):
        colour = {-1: _RED, 1: "tab:orange"}.get(int(found["off"][k]), _BLUE)
        held, promised, error = (float(found[name][k, t]) for name in ("held", "promised", "error"))
        ends = [max(promised - 2 * error, 0.0), min(promised + 2 * error, 1.0)]
        ax.plot(ends, [place, place], color="0.8", lw=5, zorder=0)
        ax.plot(held, place, "o", color=colour, ms=4)
    names = [": ".join(word for word in (found["column"][k], found["level"][k]) if word) for k in order]
    names = [_short(name or "all rows", 34) for name in names]
    ax.set_yticks(places, names, fontsize="small")
    ax.set_ylim(-0.6, len(order) - 0.4)
    promise = found["promises"][t]
    what = "right" if promise == "likeliest" else f"inside the {promise} interval"
    ax.set_xlabel(f"share {what}")
    return ax


def plot_calibration(fit: Any, *, ax: Axes | None = None) -> Axes:
    """Of numbers a histogram of ranks with the band that uniform ones keep to; of classes what came true over
    what was stated."""
    ax = axes_of(ax, 5, 3.2)
    if fit.study.get("ranks"):
        edges, counts = fit.study["ranks"]["edges"], fit.study["ranks"]["counts"]
        bins = len(counts)
        expected = counts.sum() / bins
        reach = 2 * np.sqrt(expected * (1 - 1 / bins))
        ax.axhspan(max(expected - reach, 0.0), expected + reach, color="0.88", zorder=0)
        ax.stairs(counts, edges, fill=True, color=_BLUE, alpha=0.7)
        ax.axhline(expected, color="0.4", lw=1)
        ax.set(xlabel="rank of what happened in its predicted law", ylabel="rows", xlim=(0, 1))
        return ax
    bins = _part(fit, "reliability", "one with a study")
    ax.plot([0, 1], [0, 1], color="0.7", lw=1)
    ax.errorbar(bins["said"], bins["seen"], 2 * bins["error"], fmt="o", color=_BLUE, capsize=2)
    which = f" of {fit.study['classes'][1]}" if len(fit.study["classes"]) == 2 else ""
    ax.set(xlabel=f"stated probability{which}", ylabel="share that came true", xlim=(-0.03, 1.03))
    ax.set_ylim(-0.05, 1.08)
    return ax


def plot_risk(fit: Any, *, ax: Axes | None = None) -> Axes:
    """The mean loss of the rows that are answered, where the least sure are left to a person; dashed, that of
    an oracle."""
    found = _part(fit, "risk", "one with a study of rows whose end was seen")
    ax = axes_of(ax, 5, 3.2)
    ax.plot(found["share"], found["risk"], color=_BLUE, label="by the model's doubt")
    ax.plot(found["share"], found["best"], color=_GREY, ls="--", lw=1, label="best possible")
    ax.axhline(found["risk"][-1], color="0.8", lw=1, zorder=0)
    ax.set(xlabel="share of rows that are answered", ylabel=found["name"], xlim=(0, 1.02))
    ax.set_ylim(bottom=0)
    ax.legend(fontsize="small")
    return ax


def plot_importance(fit: Any, *, ax: Axes | None = None) -> Axes:
    """The log-score that is lost where a column is shuffled, with two standard errors."""
    found = _part(fit, "importance", "one with a study")
    check(len(found["column"]) > 0, "fit", "of a model that uses columns", fit.winner)
    names = found["column"][:_MOST]
    places = np.arange(len(names))[::-1]
    ax = axes_of(ax, 6, 1 + 0.28 * len(names))
    ax.barh(
        places, found["lost"][:_MOST], xerr=2 * found["error"][:_MOST], color=_BLUE, alpha=0.8, ecolor="0.4"
    )
    ax.set_yticks(places, [_short(name) for name in names])
    ax.axvline(0, color="black", lw=0.8)
    ax.set_xlabel("log-score lost (nats a row)")
    return ax


def plot_effects(fit: Any, *, figure: Any = None) -> list[Axes]:
    """The mean prediction with one column set to a value, and the middle 80 % of the rows: a picture for each
    of the columns that matter most."""
    found = _part(fit, "effects", "one with a study of a model that uses columns")
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(7, 2.6 * -(-len(found) // 2)), layout="constrained")
    columns = min(2, len(found))
    spaces = np.ravel(figure.subplots(-(-len(found) // columns), columns, squeeze=False))
    for space, each in zip(spaces, found):
        _effect(space, each)
    for space in spaces[len(found) :]:
        space.set_visible(False)
    return list(spaces[: len(found)])


def _effect(ax: Axes, each: dict[str, Any]) -> None:
    if each["numbers"]:
        ax.fill_between(each["values"], each["low"], each["high"], color=_BLUE, alpha=0.15, lw=0)
        ax.plot(each["values"], each["mean"], ".-", color=_BLUE)
    else:
        places = np.arange(len(each["values"]))
        reach = [each["mean"] - each["low"], each["high"] - each["mean"]]
        ax.errorbar(places, each["mean"], np.maximum(reach, 0), fmt="o", color=_BLUE, ecolor="0.7", capsize=3)
        ax.set_xticks(places, [_short(str(v), 12) for v in each["values"]], rotation=30, fontsize="small")
    ax.set(xlabel=_short(each["column"]), ylabel=_short(each["said"]))


def plot_outcomes(fit: Any, *, ax: Axes | None = None) -> Axes:
    """What happened over what was predicted, with 90 % intervals; those that missed in red."""
    found = _part(fit, "points", "one with a study of numbers")
    mean, low, high, actual = (found[name] for name in ("mean", "low", "high", "actual"))
    inside = (low <= actual) & (actual <= high)
    ax = axes_of(ax, 6, 4)
    ax.vlines(mean, low, high, color=_GREY, lw=0.6, alpha=0.5)
    ax.plot(mean[inside], actual[inside], ".", color=_BLUE, ms=4, label="inside")
    ax.plot(mean[~inside], actual[~inside], ".", color=_RED, ms=5, label="outside")
    ends = min(mean.min(), actual.min()), max(mean.max(), actual.max())
    ax.plot(ends, ends, color="black", lw=0.8)
    ax.set(xlabel="predicted mean", ylabel="what happened")
    ax.legend(fontsize="small")
    return ax


def plot_residuals(fit: Any, *, ax: Axes | None = None) -> Axes:
    """Residuals as normal scores of their ranks over the prediction: about as many above as below, most
    between -2 and 2, everywhere."""
    found = _part(fit, "points", "one with a study of numbers")
    ax = axes_of(ax, 6, 3.2)
    ax.axhspan(-1.96, 1.96, color="0.92", zorder=0)
    ax.axhline(0, color="0.5", lw=0.8)
    order = np.argsort(found["mean"], kind="stable")
    ax.plot(found["mean"], found["score"], ".", color=_BLUE, ms=4)
    parts = [part for part in np.array_split(order, max(1, min(10, len(order) // 15))) if len(part)]
    centres = [found["mean"][part].mean() for part in parts]
    ax.plot(
        centres, [found["score"][part].mean() for part in parts], color=_RED, lw=1.2, label="running mean"
    )
    ax.set(xlabel="predicted mean", ylabel="residual (normal score)")
    ax.legend(fontsize="small")
    return ax
