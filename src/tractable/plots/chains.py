"""Pictures of Markov chains: traces, ranks, autocorrelations, pairs, energies, running means and sizes."""

import functools
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import bdtrik

from tractable.core.checks import check, check_count
from tractable.inference.posterior import Posterior
from tractable.inference.trust.autocorrelation import mean_autocovariance
from tractable.inference.trust.effective_size import (
    bulk_effective_size,
    energy_information,
    mcse_mean,
    tail_effective_size,
)
from tractable.inference.trust.verdict import needed_effective_size
from tractable.plots.display import axes_of

__all__ = [
    "plot_autocorrelation", "plot_effective_size", "plot_energy", "plot_marginal", "plot_pair", "plot_ranks",
    "plot_running_mean", "plot_trace",
]  # fmt: skip


_MOST = 8  # variables that one figure shows


def several(draw: Callable[..., Axes]) -> Callable[..., Any]:
    """A picture of one variable, which for a list of them (or all, without a name) has an axis for each.

    Names of leaves (`theta`) stand for all their scalars.
    """

    @functools.wraps(draw)
    def drawn(post: Posterior, variable: Any = None, *, ax: Axes | None = None, **options: Any) -> Any:
        names = [variable] if isinstance(variable, str) else variable
        every = post.names if names is None else post._chosen(names)
        if len(every) == 1:
            return draw(post, every[0], ax=ax, **options)
        check(ax is None, "ax", f"left out for {len(every)} variables, which have an axis each", "one")
        shown = every[:_MOST]
        size = (6, 0.5 + 2.2 * len(shown))
        figure, axes = plt.subplots(len(shown), 1, figsize=size, squeeze=False, layout="constrained")
        for name, place in zip(shown, axes[:, 0]):
            draw(post, name, ax=place, **options)
        if len(shown) < len(every):
            figure.suptitle(f"{len(shown)} of {len(every)} variables", fontsize="small")
        return list(axes[:, 0])

    return drawn


@several
def plot_trace(post: Any, variable: str, *, ax: Axes | None = None) -> Axes:
    """The draws of one variable in order, a line per chain, with marks at the foot where steps diverged."""
    chains = post[variable]
    ax = axes_of(ax, 6, 3)
    for number, chain in enumerate(chains):
        ax.plot(chain, lw=0.6, color=f"C{number % 10}", label=f"chain {number}")
    steps = np.nonzero(_diverging(post))[1]
    if steps.size:
        ax.plot(steps, np.full(steps.size, chains.min()), "|", color="k", ms=8, label="diverging")
    ax.set(xlabel="draw", ylabel=variable, title=_title(post, variable))
    if len(chains) <= 8:
        ax.legend(fontsize="x-small", ncols=4)
    return ax


@several
def plot_ranks(post: Any, variable: str, *, num_bins: int = 20, ax: Axes | None = None) -> Axes:
    """How the ranks of each chain spread over those of all: level where the chains agree.

    The band holds 99 % of the counts of one bin that independent draws would have.
    """
    chains, bins = post[variable], check_count("num_bins", num_bins, 2)
    order = np.argsort(chains.reshape(-1), kind="stable")
    places = np.empty(chains.size, int)
    places[order] = np.arange(chains.size)
    bin_of = (places * bins // chains.size).reshape(chains.shape)
    counts = np.stack([np.bincount(row, minlength=bins) for row in bin_of])
    ax = axes_of(ax, 6, 3)
    low, high = (bdtrik(mass, chains.shape[1], 1 / bins) for mass in (0.005, 0.995))
    ax.axhspan(low, high, color="0.92", label="99 % if alike")
    edges = np.arange(bins + 1) / bins
    for number, row in enumerate(counts):
        ax.stairs(row, edges, color=f"C{number % 10}", label=f"chain {number}")
    ax.set(xlabel=f"rank of {variable} among all draws", ylabel="draws", title=_title(post, variable))
    if len(chains) <= 8:
        ax.legend(fontsize="x-small", ncols=3)
    return ax


@several
def plot_autocorrelation(post: Any, variable: str, *, num_lags: int = 50, ax: Axes | None = None) -> Axes:
    """The correlation of draws with those before them, a line per chain; the band is two errors of noise."""
    chains = np.asarray(post[variable], float)
    lags = min(check_count("num_lags", num_lags, 1), chains.shape[1] - 1) + 1
    covariance = mean_autocovariance(chains[:, None])[:, :lags]
    ax = axes_of(ax, 5, 3)
    noise = 2 / np.sqrt(chains.shape[1])
    ax.axhspan(-noise, noise, color="0.92")
    for number, row in enumerate(covariance):
        ax.plot(row / row[0] if row[0] > 0 else np.full(lags, np.nan), lw=1, color=f"C{number % 10}")
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set(xlabel="lag", ylabel="autocorrelation", title=_title(post, variable))
    return ax


@several
def plot_marginal(
    post: Posterior, variable: str, *, num_bins: int = 40, mass: float = 0.9, ax: Axes | None = None
) -> Axes:
    """The draws of one variable as a density, with the mean and the central interval that holds `mass`."""
    draws = np.asarray(post[variable], float).reshape(-1)
    ax = axes_of(ax, 5, 3)
    ax.hist(draws, check_count("num_bins", num_bins, 2), density=True, color="0.8")
    low, high = np.quantile(draws, [(1 - mass) / 2, (1 + mass) / 2])
    ax.axvspan(low, high, color="tab:blue", alpha=0.15, label=f"{mass:.0%} of the draws")
    ax.axvline(draws.mean(), color="tab:blue", lw=1.2, label="mean")
    ax.set(xlabel=variable, ylabel="density")
    ax.legend(fontsize="x-small")
    return ax


def plot_pair(
    post: Posterior, x: str | None = None, y: str | None = None, *, most: int = 4000, ax: Axes | None = None
) -> Axes:
    """Two variables against each other; diverging draws on top. At most `most` of the others are shown."""
    names = post.names
    check(len(names) > 1 or None not in (x, y), "post", "of two variables or more", names)
    x, y = names[0] if x is None else x, names[1] if y is None else y
    first, second = post[x].reshape(-1), post[y].reshape(-1)
    bad = _diverging(post).reshape(-1)
    good = np.flatnonzero(~bad)
    good = good[:: max(len(good) // check_count("most", most), 1)]
    ax = axes_of(ax, 4.5, 4)
    ax.plot(first[good], second[good], ".", ms=2, alpha=0.5, color="tab:blue", label="draws")
    ax.plot(first[bad], second[bad], "x", ms=4, color="tab:red", label=f"diverging ({bad.sum()})")
    ax.set(xlabel=x, ylabel=y)
    ax.legend(fontsize="x-small")
    return ax


def plot_energy(post: Any, *, num_bins: int = 40, ax: Axes | None = None) -> Axes:
    """Energies about their mean, beside their changes from step to step: as wide, where momentum suffices."""
    energy = np.asarray(getattr(post.info, "energy", np.nan), float)
    known = energy.ndim == 2 and np.isfinite(energy).all()
    check(known, "post", "of a sampler that records energies", type(post.sampler).__name__)
    level = (energy - energy.mean(1, keepdims=True)).reshape(-1)
    change = np.diff(energy, axis=1).reshape(-1)
    bins = check_count("num_bins", num_bins, 2)
    edges = np.histogram_bin_edges(np.concatenate([level, change]), bins).tolist()
    ax = axes_of(ax, 5, 3)
    ax.hist(level, edges, density=True, alpha=0.5, color="tab:blue", label="energy")
    ax.hist(change, edges, density=True, histtype="step", color="tab:red", label="change in a step")
    smallest = energy_information(energy).min()
    ax.set(xlabel="nats", ylabel="density", title=f"smallest information {smallest:.2f} (0.3 needed)")
    ax.legend(fontsize="small")
    return ax


@several
def plot_running_mean(post: Any, variable: str, *, num_points: int = 50, ax: Axes | None = None) -> Axes:
    """The mean of the first draws of each chain as they become more, and the mean of all with two errors."""
    chains = np.asarray(post[variable], float)
    lengths = _lengths(chains.shape[1], num_points, least=1)
    means = np.cumsum(chains, 1)[:, lengths - 1] / lengths[None]
    ax = axes_of(ax, 5, 3)
    error = float(mcse_mean(chains))
    centre = chains.mean()
    if np.isfinite(error):
        ax.axhspan(centre - 2 * error, centre + 2 * error, color="0.88", label="all, two errors")
    for number, row in enumerate(means):
        ax.plot(lengths, row, lw=1, color=f"C{number % 10}")
    ax.set(xlabel="draws per chain", ylabel=f"mean of {variable}", title=_title(post, variable))
    return ax


@several
def plot_effective_size(post: Any, variable: str, *, num_points: int = 15, ax: Axes | None = None) -> Axes:
    """The effective size of the first draws as they become more: a straight line where the chains mix."""
    chains = np.asarray(post[variable], float)
    lengths = _lengths(chains.shape[1], num_points, least=4)
    ax = axes_of(ax, 5, 3)
    for name, size in (("bulk", bulk_effective_size), ("tail", tail_effective_size)):
        ax.plot(lengths, [float(size(chains[:, :n])) for n in lengths], "o-", ms=3, label=name)
    needed = needed_effective_size(len(chains))
    ax.axhline(needed, color="0.6", lw=1, ls="--", label=f"{needed} needed")
    ax.set(xlabel="draws per chain", ylabel="effective size", title=variable)
    ax.legend(fontsize="small")
    return ax


def _diverging(post: Any) -> np.ndarray:
    shape = next(iter(post._leaves().values())).shape[:2]
    return np.broadcast_to(np.asarray(getattr(getattr(post, "info", None), "diverging", False), bool), shape)


def _lengths(total: int, num_points: int, least: int) -> np.ndarray:
    points = np.linspace(0, total, check_count("num_points", num_points, 2) + 1)[1:].astype(int)
    return np.unique(np.clip(points, min(least, total), total))


def _title(post: Posterior, variable: str) -> str:
    place = post.report.names.index(variable)
    rhat, size = post.report.rhat[place], post.report.ess_bulk[place]
    return post.report.reasons[place] or f"R-hat {rhat:.3f}, bulk effective size {size:.0f}"
