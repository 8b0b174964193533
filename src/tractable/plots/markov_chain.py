"""Pictures of Markov chains: states and steps, the way to equilibrium, scores of pages, forecasts.

Conventions. Circles are states on a ring; an arrow is a step, the wider the more probable; a ring beside a
             state is a step that stays. States of one closed class share a colour, transient ones are white.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

from tractable.core.checks import check
from tractable.plots.display import axes_of
from tractable.statespace.markov_chain.autoregression import AutoRegressionForecast
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.pagerank import PageRank

__all__ = ["plot_chain", "plot_distance", "plot_forecast", "plot_scores"]

_MOST_STATES, _RADIUS = 40, 0.17


def plot_chain(
    chain: MarkovChain, *, least: float = 0.0, labels: bool | None = None, ax: Axes | None = None
) -> Axes:
    """States on a ring with an arrow for each step of a probability above `least`.

    `labels` writes the probabilities beside the arrows, as is done for up to eight states.
    """
    size = chain.num_states
    check(size <= _MOST_STATES, "chain", f"of at most {_MOST_STATES} states, to be seen", size)
    ax = axes_of(ax, 5, 5)
    angles = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    at = np.stack([np.cos(angles), np.sin(angles)], 1) * (0.0 if size == 1 else max(1.0, size / 8))
    names = [str(i) for i in range(size)] if chain.names is None else [str(name) for name in chain.names]
    written, matrix = size <= 8 if labels is None else labels, np.asarray(chain.dense)
    for i, j in np.argwhere(matrix > least).tolist():
        text = f"{matrix[i, j]:.3g}" if written else ""
        _draw_step(ax, at[i], at[j], float(matrix[i, j]), text, f"{names[i]}->{names[j]}")
    for place, name, colour in zip(at, names, _colours(chain)):
        ax.add_patch(Circle(tuple(place), _RADIUS, fc=colour, ec="k", zorder=3, gid=name))
        ax.text(float(place[0]), float(place[1]), name, ha="center", va="center", fontsize=9, zorder=4)
    reach = np.abs(at).max() + 0.7
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set_axis_off()
    return ax


def plot_distance(
    chain: MarkovChain, *, num_steps: int = 50, starts: Sequence[Any] | None = None, ax: Axes | None = None
) -> Axes:
    """The distance to equilibrium in total variation by the step, from `starts`, or from the worst state."""
    ax = axes_of(ax, 5, 3.2)
    for start in [None] if starts is None else starts:
        label = "worst start" if start is None else f"from {start}"
        ax.semilogy(
            np.arange(num_steps + 1), chain.total_variation(num_steps, start), marker=".", label=label
        )
    ax.set(xlabel="step", ylabel="total variation to equilibrium")
    ax.legend(frameon=False)
    return ax


def plot_scores(ranks: PageRank, *, count: int = 20, ax: Axes | None = None) -> Axes:
    """The pages of the highest scores, as bars."""
    best = ranks.top(count)
    ax = axes_of(ax, 5, 0.25 * len(best) + 1)
    ax.barh(np.arange(len(best)), [score for _, score in best], color="C0")
    ax.set_yticks(np.arange(len(best)), [str(page) for page, _ in best])
    ax.invert_yaxis()
    ax.set(xlabel="score")
    return ax


def plot_forecast(forecast: AutoRegressionForecast, series: Any = None, *, ax: Axes | None = None) -> Axes:
    """The values to come with their intervals, after the `series` that they follow."""
    ax = axes_of(ax, 6, 3.2)
    past = np.zeros(0) if series is None else np.asarray(series, float)
    ahead = len(past) + np.arange(len(forecast.mean))
    if len(past):
        ax.plot(np.arange(len(past)), past, color="0.3", lw=1, label="series")
    ax.fill_between(ahead, forecast.lower, forecast.upper, alpha=0.25, label=f"{forecast.level:.0%} interval")
    ax.plot(ahead, forecast.mean, color="C0", label="mean")
    ax.set(xlabel="time")
    ax.legend(frameon=False)
    return ax


def _colours(chain: MarkovChain) -> list[Any]:
    found = chain.classify()
    closed = {int(label): k for k, label in enumerate(np.flatnonzero(found.closed))}
    shades: Any = plt.get_cmap("Pastel1")
    return [shades(closed[label] % 9) if label in closed else "white" for label in found.labels.tolist()]


def _draw_step(ax: Axes, a: np.ndarray, b: np.ndarray, prob: float, text: str, name: str) -> None:
    """A bowed arrow, so that the way back has one of its own; a small ring for a step that stays."""
    width = 0.4 + 2.2 * prob
    if (a == b).all():
        outward = a / np.hypot(*a) if np.hypot(*a) > 0 else np.array([0.0, 1.0])
        centre = a + 1.5 * _RADIUS * outward
        ax.add_patch(Circle(tuple(centre), 0.8 * _RADIUS, fc="none", ec="0.4", lw=width, zorder=2, gid=name))
        place = centre + 1.6 * _RADIUS * outward
    else:
        along = (b - a) / np.hypot(*(b - a))
        side = np.array([along[1], -along[0]])
        lifted = 0.35 * _RADIUS * side
        ends = tuple(a + lifted + _RADIUS * along), tuple(b + lifted - _RADIUS * along)
        arrow = FancyArrowPatch(
            *ends, arrowstyle="-|>", connectionstyle="arc3,rad=0.12", mutation_scale=10, shrinkA=0, shrinkB=0,
            color="0.4", lw=width, zorder=2, gid=name,
        )  # fmt: skip
        ax.add_patch(arrow)
        place = 0.62 * a + 0.38 * b + 0.17 * side
    if text:
        ax.text(
            float(place[0]),
            float(place[1]),
            text,
            ha="center",
            va="center",
            fontsize=8,
            color="0.25",
            zorder=5,
        )
