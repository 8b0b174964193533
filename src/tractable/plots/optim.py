"""Pictures of optimisation: a path over contours, bounds on a function, rates, errors of differences."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.optim.autodiff.differences import StepStudy
from tractable.optim.minimise import Trajectory
from tractable.optim.rates import DescentReport
from tractable.optim.stochastic import BatchRun, LearningCurves
from tractable.plots.display import axes_of

__all__ = ["plot_bounds", "plot_descent", "plot_losses", "plot_rate", "plot_step_study"]


def plot_descent(
    fun: Callable[..., Any], path: Trajectory, *, args: tuple = (), levels: int = 15, ax: Axes | None = None
) -> Axes:
    """Contours of a function of two numbers, a path over them, and the line of steepest descent at its start.

    The dashed line shows that steepest is not straight: it misses the minimum wherever the contours are not
    circles around it.
    """
    points = np.asarray(path.points)
    check(points.shape[1] == 2, "path", "in two dimensions", f"{points.shape[1]}")
    ax = axes_of(ax, 5, 4)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.2 * np.maximum(high - low, 1e-3 * (1 + np.abs(high)))
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], 100) for i in range(2))
    grid = jnp.asarray(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    heights = np.asarray(jax.vmap(lambda p: fun(p, *args))(grid)).reshape(100, 100)
    ax.contour(x, y, heights, levels=levels, linewidths=0.8, cmap="viridis")
    start, slope = points[0], np.asarray(path.gradients)[0]
    reach = 2 * np.linalg.norm(high - low + margin) / max(float(np.linalg.norm(slope)), 1e-300)
    ax.plot(
        *np.stack([start, start - reach * slope], axis=1), "--", color="0.5", label="steepest at the start"
    )
    ax.plot(points[:, 0], points[:, 1], "o-", ms=3, color="C3", label="path")
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel="x", ylabel="y")
    ax.legend()
    return ax


def plot_losses(run: BatchRun, *, ax: Axes | None = None) -> Axes:
    """The mean loss of each epoch, on held-out rows too where there were any, with the epoch that was kept.

    The axis of losses is logarithmic where all of them are positive.
    """
    ax = axes_of(ax, 5, 3.5)
    curves = run.trace
    fitted = np.asarray(curves.training if isinstance(curves, LearningCurves) else curves)
    columns = fitted.reshape(len(fitted), -1)
    epochs = np.arange(1, len(fitted) + 1)
    for number, losses in enumerate(columns.T, 1):
        ax.plot(epochs, losses, label="fitted rows" if columns.shape[1] == 1 else f"player {number}")
    if isinstance(curves, LearningCurves):
        ax.plot(epochs, curves.validation, label="held-out rows")
        columns = np.c_[columns, curves.validation]
    if int(run.best_epoch):
        ax.axvline(int(run.best_epoch), color="0.5", ls="--", lw=1, label="kept")
    known = columns[np.isfinite(columns)]
    if known.size and known.min() > 0:
        ax.set_yscale("log")
    ax.set(xlabel="epoch", ylabel="mean loss")
    ax.legend()
    return ax


def plot_bounds(
    fun: Callable[[Any], Any],
    point: float,
    *,
    smoothness: float,
    strong_convexity: float = 0.0,
    low: float,
    high: float,
    ax: Axes | None = None,
) -> Axes:
    r"""A function of one number between its quadratic upper bound and its lower bound at `point`.

    The upper bound is $f(p) + f'(p)(x - p) + \tfrac{L}{2}(x - p)^2$; the lower one has $\mu$ in place of $L$.
    """
    check(low < high, "low", "below `high`", f"{low} and {high}")
    ax = axes_of(ax, 5, 3)
    x = np.linspace(low, high, 400)
    value, slope = jax.value_and_grad(fun)(jnp.asarray(float(point)))
    line = float(value) + float(slope) * (x - point)
    ax.plot(x, np.asarray(jax.vmap(fun)(jnp.asarray(x))), color="C0", label="f")
    ax.plot(x, line + 0.5 * smoothness * (x - point) ** 2, "--", color="C3", label="upper bound")
    ax.plot(x, line + 0.5 * strong_convexity * (x - point) ** 2, ":", color="C2", label="lower bound")
    ax.plot(point, float(value), "o", color="0.2")
    ax.legend()
    return ax


def plot_rate(report: DescentReport, *, ax: Axes | None = None) -> Axes:
    """The gap of a run of gradient descent beside its bounds, on logarithmic axes."""
    ax = axes_of(ax, 5, 3)
    times = np.arange(1, len(report.gaps) + 1)
    ax.plot(times, np.where(report.gaps > 0, report.gaps, np.nan), color="C0", label="f - f*")
    for name, bound in report.bounds.items():
        ax.plot(times, bound, "--", label=name)
    ax.set(xscale="log", yscale="log", xlabel="step")
    ax.legend()
    return ax


def plot_step_study(study: StepStudy, *, ax: Axes | None = None) -> Axes:
    """The error of each finite-difference scheme against its step: a U for all but the complex step."""
    ax = axes_of(ax, 5, 3)
    for name, errors in study.errors.items():
        ax.plot(study.steps, np.where(errors > 0, errors, np.nan), "o-", ms=3, label=name)
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel="error")
    ax.legend()
    return ax
