"""Pictures of predictions: intervals against what happened, and coefficients with their uncertainty."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check_length, check_option
from tractable.core.types import ArrayLike
from tractable.inference.predicted import Predicted
from tractable.plots.display import axes_of

__all__ = ["plot_coefficients", "plot_intervals", "plot_predictions"]


def plot_intervals(
    observed: ArrayLike,
    centre: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "interval",
) -> Axes:
    """Each predictive interval as a bar, by centre, with the observed value: blue inside, red outside."""
    observed, centre, lower, upper = (np.asarray(a, float) for a in (observed, centre, lower, upper))
    for name, values in (("centre", centre), ("lower", lower), ("upper", upper)):
        check_length(name, values, "observed", observed)
    ax = axes_of(ax, 7, 4)
    order = np.argsort(centre)
    inside = ((lower <= observed) & (observed <= upper))[order]
    rank = np.arange(len(order))
    ax.vlines(rank, lower[order], upper[order], color="0.8", lw=2, label=label)
    ax.plot(rank, centre[order], color="0.4", lw=1, label="centre")
    ax.plot(rank[inside], observed[order][inside], ".", color="tab:blue", label="observed, inside")
    ax.plot(rank[~inside], observed[order][~inside], ".", color="tab:red", label="observed, outside")
    ax.set(xlabel="held-out row, by predicted value", ylabel="value")
    ax.set_title(f"{inside.mean():.0%} of {len(order)} observed values lie inside")
    ax.legend(fontsize="small")
    return ax


def plot_predictions(
    found: Predicted, variable: str | None = None, *, mass: float = 0.9, ax: Axes | None = None
) -> Axes:
    """The predictive interval of each row of a posterior, with what was observed where that is known.

    Of predictions by name, those of `variable`, the first unless given.
    """
    if isinstance(found.draws, dict):
        name = next(iter(found.draws)) if variable is None else variable
        check_option("variable", name, tuple(found.draws))
        seen = None if found.observed is None else found.observed.get(name)
        found = Predicted(found.draws[name], found.verdict, seen)
    centre, (lower, upper) = np.ravel(found.mean), found.interval(mass)
    if found.observed is not None:
        seen = np.ravel(np.asarray(found.observed))
        return plot_intervals(seen, centre, np.ravel(lower), np.ravel(upper), ax=ax, label=f"{mass:.0%}")
    ax = axes_of(ax, 7, 4)
    rows = np.arange(centre.size)
    ax.vlines(rows, np.ravel(lower), np.ravel(upper), color="0.8", lw=2, label=f"{mass:.0%}")
    ax.plot(rows, centre, "o", color="tab:blue", ms=3, label="mean")
    ax.set(xlabel="prediction", ylabel="value")
    ax.legend(fontsize="small")
    return ax


def plot_coefficients(
    names: Sequence[str], centre: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """One row per coefficient: its centre and interval, with a line at zero."""
    centre, lower, upper = (np.asarray(a, float) for a in (centre, lower, upper))
    check_length("names", np.asarray(names), "centre", centre)
    ax = axes_of(ax, 5, 0.35 * len(names) + 1)
    rows = np.arange(len(names))[::-1]
    ax.axvline(0, color="0.7", lw=1)
    ax.hlines(rows, lower, upper, color="tab:blue", lw=2)
    ax.plot(centre, rows, "o", color="tab:blue")
    ax.set_yticks(rows, names)
    ax.set_xlabel("coefficient")
    return ax
