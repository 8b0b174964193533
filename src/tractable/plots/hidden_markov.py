"""Pictures of hidden Markov models: what is believed of states over time, and how states follow states."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check, check_count
from tractable.plots.display import axes_of

__all__ = ["plot_states", "plot_transitions"]


def plot_states(result: Any, *, sequence: int = 0, ax: Axes | None = None) -> Axes:
    """The probability of each state at each time, stacked to one; of several sequences, that numbered."""
    shares = result.marginals if hasattr(result, "marginals") else result.probabilities
    if isinstance(shares, list):
        shares = shares[check_count("sequence", sequence, 0, len(shares) - 1)]
    shares = np.asarray(shares)
    ax = axes_of(ax, 7, 2.5)
    names = [f"state {k}" for k in range(shares.shape[1])]
    ax.stackplot(np.arange(len(shares)), shares.T, labels=names, step="mid", alpha=0.8)
    given = "all rows" if hasattr(result, "marginals") else "the rows so far"
    ax.set(xlabel="time", ylabel="probability", ylim=(0, 1), xlim=(0, max(len(shares) - 1, 1)))
    ax.set_title(f"states given {given}", fontsize="medium")
    if shares.shape[1] <= 10:
        ax.legend(fontsize="small", ncols=5, loc="upper right")
    return ax


def plot_transitions(hmm: Any, *, ax: Axes | None = None) -> Axes:
    """The transition matrix, with its numbers where there are few states."""
    table = np.asarray(hmm.transition)
    check(table.ndim == 2, "hmm", "one with one transition matrix", f"shape {table.shape}")
    ax = axes_of(ax, 4, 3.5)
    ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
    if len(table) <= 10:
        for (i, j), value in np.ndenumerate(table):
            colour = "white" if value > 0.5 else "black"
            ax.text(j, i, f"{value:.2g}", ha="center", va="center", color=colour, fontsize="small")
    ax.set(xlabel="to state", ylabel="from state", xticks=range(len(table)), yticks=range(len(table)))
    return ax
