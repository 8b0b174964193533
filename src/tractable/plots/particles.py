"""Pictures of particles: what a filter knows, what its weights are worth, how the temperatures went."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.inference.particles.filter import Filtered
from tractable.inference.particles.smc import TemperedParticles
from tractable.plots.display import axes_of

__all__ = ["plot_ess", "plot_filter", "plot_temperatures"]


def plot_filter(
    filtered: Filtered,
    observations: ArrayLike | None = None,
    *,
    mass: float | int = 0.9,
    num_shown: int = 50,
    ax: Axes | None = None,
) -> Axes:
    """Median and central interval of a scalar state at each time, with some particles and observations."""
    check(0 < mass < 1, "mass", "between 0 and 1", mass)
    particles = _scalar_particles(filtered)
    levels = np.array([(1 - mass) / 2, 0.5, (1 + mass) / 2])
    low, middle, high = np.asarray(filtered.quantile(levels))
    times = np.arange(particles.shape[1])
    ax = axes_of(ax, 7, 3)
    shown = particles[0][:, :: max(1, particles.shape[2] // num_shown)]
    ax.plot(np.repeat(times, shown.shape[1]), shown.reshape(-1), ".", ms=1.5, color="0.6", label="particles")
    ax.fill_between(times, low, high, color="tab:blue", alpha=0.25, label=f"{mass:.0%} of the mass")
    ax.plot(times, middle, color="tab:blue", lw=1.2, label="median")
    if observations is not None:
        ax.plot(times, np.asarray(observations).reshape(-1), "x", ms=4, color="tab:red", label="observations")
    ax.set(xlabel="time", ylabel="state")
    ax.legend(fontsize="small", ncols=4)
    return ax


def plot_ess(filtered: Filtered, *, ax: Axes | None = None) -> Axes:
    """The effective sample size at each time as a share of the particles, one line per replicate."""
    shares = np.asarray(filtered.ess) / filtered.num_particles
    ax = axes_of(ax, 7, 2.5)
    ax.plot(shares.T, color="tab:blue", lw=0.5, alpha=0.4)
    ax.plot(shares.mean(0), color="tab:blue", lw=1.2)
    worst = int(shares.mean(0).argmin())
    title = f"least at time {worst}: {shares.mean(0)[worst]:.1%}"
    ax.set(xlabel="time", ylabel="effective share", ylim=(0, 1), title=title)
    return ax


def plot_temperatures(particles: TemperedParticles, *, ax: Axes | None = None) -> Axes:
    """The temperature of each stage on a logarithmic axis, with the share of accepted moves beside it."""
    ladder, rates = np.asarray(particles.temperatures)[1:], np.asarray(particles.acceptance)
    stages = np.arange(1, len(ladder) + 1)
    ax = axes_of(ax, 6, 3)
    ax.semilogy(stages, ladder, "o-", ms=3, color="tab:blue")
    ax.set(xlabel="stage", ylabel="temperature", title=f"{len(ladder)} stages to {ladder[-1]:.3g}")
    beside = ax.twinx()
    beside.plot(stages, rates, "s--", ms=3, lw=1, color="tab:orange")
    beside.set(ylabel="share of moves accepted", ylim=(0, 1))
    return ax


def _scalar_particles(filtered: Filtered) -> Any:
    particles = filtered.full_history().particles
    scalar = hasattr(particles, "shape") and particles.ndim == 3
    got = f"shape {particles.shape[3:]}" if hasattr(particles, "shape") else type(particles).__name__
    check(scalar, "filtered", "of a state that is one number", got, "Filter one coordinate's means instead.")
    return np.asarray(particles)
