"""Pictures of forecasts: the series with its fan, and the components that it is made of."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.plots.display import axes_of

__all__ = ["plot_decomposition", "plot_fan"]


def plot_fan(result: Any, *, last: int | None = None, ax: Axes | None = None) -> Axes:
    """The series (its `last` readings), medians of what follows, intervals of 50 %, 80 % and the level."""
    found = _forecast_of(result)
    series = found.series
    start = max(0, len(series) - (last or max(5 * found.horizon, 60)))
    ax = axes_of(ax, 8, 3.5)
    before, after = series.times(start, len(series)), found.times
    ax.plot(
        before, np.asarray(series.values)[start:], color="black", lw=1, marker="." if len(before) < 80 else ""
    )
    for level, shade in ((found.level, 0.15), (0.8, 0.2), (0.5, 0.3)):
        low, high = found.interval(level)
        ax.fill_between(after, low, high, color="tab:blue", alpha=shade, lw=0, label=f"{level:.0%}")
    ax.plot(after, found.median, color="tab:blue", label="median")
    for event in found.events:
        if event.place >= start:
            ax.axvline(series.times(event.place, event.place + 1)[0], color="tab:red", lw=0.8, ls=":")
    ax.set(xlabel="time", ylabel="reading")
    ax.set_title(found.winner, fontsize="medium")
    ax.legend(fontsize="small", loc="upper left")
    return ax


def plot_decomposition(result: Any) -> list[Axes]:
    """The components of the leading structural model with two deviations around them, one below the other."""
    found = _forecast_of(result)
    parts = found.decomposition
    check(parts is not None, "result", "one with a structural model of some weight", found.winner)
    figure, rows = plt.subplots(len(parts.names) + 1, sharex=True, squeeze=False, layout="constrained")
    figure.set_size_inches(8, 1.6 * len(rows))
    size = len(found.series)
    times = found.series.times(size - len(parts.signal), size)
    for ax, name, mean, sd in zip(rows[:, 0], parts.names, parts.means, parts.deviations):
        ax.plot(times, mean, color="tab:blue", lw=1)
        ax.fill_between(times, mean - 2 * sd, mean + 2 * sd, color="tab:blue", alpha=0.2, lw=0)
        ax.set_ylabel(name)
    rows[-1, 0].plot(times, np.asarray(parts.series) - np.asarray(parts.signal), color="black", lw=0.8)
    rows[-1, 0].set(ylabel="rest", xlabel="time")
    return list(rows[:, 0])


def _forecast_of(result: Any) -> Any:
    held = getattr(result, "forecast_", result)
    check(held is not None, "result", "a forecast that was made: call `predict` first", "none")
    return held
