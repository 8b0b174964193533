"""Pictures of state-space models: states and forecasts with bands, components of a series, responses."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from tractable.core.checks import check
from tractable.plots.display import axes_of

__all__ = ["plot_decomposition", "plot_forecast", "plot_response", "plot_smoothed"]


def plot_smoothed(result: Any, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Each entry of the states of one series over time, with its central band."""
    mean, cov = np.asarray(result.mean), np.asarray(result.cov)
    check(mean.ndim == 2, "result", "of one series", f"shape {mean.shape}", "Choose one of many first.")
    half = _half(level) * np.sqrt(np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0))
    ax = axes_of(ax, 7, 3)
    for i in range(min(mean.shape[1], 10)):
        _band(ax, np.arange(len(mean)), mean[:, i], half[:, i], f"state {i}", f"C{i}")
    ax.set(xlabel="time", ylabel="state")
    ax.legend(fontsize="small")
    return ax


def plot_forecast(result: Any, steps: int = 12, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """A fitted structural series and its next `steps`, or a forecast alone."""
    ax, start = axes_of(ax, 7, 3), 0
    if hasattr(result, "series"):
        series = np.asarray(result.series)[:, 0]
        start = len(series)
        ax.plot(np.arange(start), series, ".-", color="black", lw=0.8, ms=3, label="series")
        result = result.forecast(steps)
    mean = np.asarray(result.mean)
    check(mean.ndim == 2, "result", "of one series", f"shape {mean.shape}", "Choose one of many first.")
    half = _half(level) * np.asarray(result.deviation)
    for i in range(mean.shape[1]):
        name = "forecast" if mean.shape[1] == 1 else f"forecast {i}"
        _band(ax, start + np.arange(len(mean)), mean[:, i], half[:, i], name, f"C{i}")
    ax.set(xlabel="time", ylabel="reading")
    ax.legend(fontsize="small")
    return ax


def plot_decomposition(result: Any, *, level: float = 0.9, ax: Axes | None = None) -> Any:
    """The series with its signal, and below it each component with its band; on given axes, the signal
    alone."""
    parts = result.decompose() if hasattr(result, "decompose") else result
    times = np.arange(len(parts.series))
    if ax is None:
        rows = 1 + len(parts.names)
        _, axes = plt.subplots(
            rows, 1, figsize=(7, 1.6 * rows), sharex=True, layout="constrained", squeeze=False
        )
        axes = axes[:, 0]
    else:
        axes = np.array([ax])
    axes[0].plot(times, parts.series, ".", color="black", ms=3, label="series")
    _band(axes[0], times, parts.signal, _half(level) * parts.signal_deviation, "signal", "C0")
    axes[0].legend(fontsize="small")
    for i, axis in enumerate(axes[1:]):
        _band(axis, times, parts.means[i], _half(level) * parts.deviations[i], parts.names[i], f"C{i + 1}")
        axis.set_ylabel(parts.names[i])
    axes[-1].set_xlabel("time")
    return axes[0]


def plot_response(result: Any, *, ax: Axes | None = None) -> Axes:
    """The outputs of a simulated linear system."""
    ax = axes_of(ax, 6, 3)
    ax.plot(result.times, result.outputs, label=[f"output {i}" for i in range(np.shape(result.outputs)[1])])
    ax.set(xlabel="time", ylabel="output")
    ax.legend(fontsize="small")
    return ax


def _half(level: float) -> float:
    check(0 < level < 1, "level", "between 0 and 1", level)
    return float(ndtri(0.5 + level / 2))


def _band(ax: Axes, times: Any, mean: Any, half: Any, name: str, colour: str) -> None:
    ax.plot(times, mean, color=colour, label=name)
    ax.fill_between(times, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
