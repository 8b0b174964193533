"""Pictures of programs: the graph with its plates, intervals of all unknowns, and checks of predictions.

Conventions. Ellipses are sites, shaded where observed, dashed where computed from others; dots are
             parameters and small squares factors; a frame is a plate with its size, and a bow from a site
             back to itself says that it follows its own earlier values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch, Patch, Rectangle

from tractable.core.checks import check_count
from tractable.core.keys import takes_key
from tractable.core.types import Key
from tractable.plots.display import axes_of
from tractable.plots.graph_layout import distance
from tractable.plots.graphs import points_per_unit
from tractable.plots.predictive import plot_coefficients
from tractable.plots.program_layout import Frame, lines_of, node_width, placed
from tractable.programs.drawing import ProgramGraph, program_graph
from tractable.programs.posterior import ProgramPosterior
from tractable.programs.survey import Seen
from tractable.programs.trace import Program, bind

__all__ = ["draw", "plot_checks", "plot_forest"]


def draw(model: Any, *args: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """The graph of a model run with these arguments, of a program, or of the one behind a posterior.

    >>> from tractable.distributions import Normal
    >>> from tractable.programs import model, plate, sample
    >>> @model
    ... def means(y):
    ...     centre = sample("centre", Normal(0.0, 1.0))
    ...     with plate("row", len(y)):
    ...         sample("y", Normal(centre, 1.0), obs=y)
    >>> sorted(patch.get_gid() for patch in draw(means, [1.0, 2.0]).patches)
    ['centre', 'centre->y', 'row: 2', 'y']
    """
    bound = model._program() if isinstance(model, ProgramPosterior) else model
    bound = bound if isinstance(bound, Program) else bind(bound, args, options)
    return _drawn(program_graph(bound), ax)


def _drawn(graph: ProgramGraph, ax: Axes | None) -> Axes:
    plates = {name: site.plates for name, site in graph.sites.items()}
    at, frames = placed(graph.parents, plates)
    corners = [frame.low for frame in frames]
    corners += [(f.low[0] + f.size[0], f.low[1] + f.size[1]) for f in frames]
    for name, (x, y) in at.items():
        corners += [(x + side * (node_width(name) / 2 + 0.1), y + side * 0.35) for side in (-1, 1)]
    low, high = np.min(corners, 0) - 0.15, np.max(corners, 0) + 0.15
    ax = axes_of(ax, *np.clip(0.75 * (high - low), 1.5, 14).tolist())
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    for frame in frames:
        _draw_frame(ax, frame)
    letters = min(9.0, 9.0 * points_per_unit(ax) / 50)
    nodes = {name: _draw_site(ax, site, at[name], letters) for name, site in graph.sites.items()}
    for name, parents in graph.parents.items():
        for parent in parents:
            _draw_arrow(ax, parent, name, at, nodes)
    for name in graph.chained:
        _draw_loop(ax, name, at[name])
    return ax


def _draw_frame(ax: Axes, frame: Frame) -> None:
    style = "round,pad=0,rounding_size=0.12"
    ax.add_patch(
        FancyBboxPatch(frame.low, *frame.size, boxstyle=style, fc="none", ec="0.3", gid=frame.label, zorder=0)
    )
    back = {"fc": "white", "ec": "none", "pad": 0.6}  # arrows pass behind
    corner = frame.low[0] + frame.size[0] - 0.08, frame.low[1] + 0.06
    ax.text(*corner, frame.label, ha="right", va="bottom", fontsize=8, color="0.3", bbox=back, zorder=2.5)


def _draw_site(ax: Axes, site: Seen, at: tuple[float, float], letters: float) -> Patch:
    """An ellipse with the name inside, or a dot with the name beside it."""
    x, y = at
    if site.kind in ("param", "factor"):
        dot: Patch = Ellipse(at, 0.14, 0.14, fc="k", ec="k", gid=site.name, zorder=3)
        if site.kind == "factor":
            dot = Rectangle((x - 0.08, y - 0.08), 0.16, 0.16, fc="k", ec="k", gid=site.name, zorder=3)
        ax.annotate(site.name, at, (8, 4), textcoords="offset points", fontsize=letters)
        ax.add_patch(dot)
        return dot
    color = "0.82" if site.kind in ("observed", "fixed") else "white"
    line = "--" if site.kind == "deterministic" else "-"
    lines = lines_of(site.name)
    tall = max(0.56, 0.22 * len(lines) + 0.24)
    shape = Ellipse(at, node_width(site.name), tall, fc=color, ec="k", ls=line, gid=site.name, zorder=3)
    ax.add_patch(shape)
    ax.text(x, y, "\n".join(lines), ha="center", va="center", fontsize=letters, zorder=4, linespacing=0.95)
    return shape


def _draw_arrow(ax: Axes, tail: str, head: str, at: Mapping[str, Any], nodes: Mapping[str, Patch]) -> None:
    """A straight arrow, or a bow where another site stands in the way."""
    a, b = np.array(at[tail]), np.array(at[head])
    others = [np.array(at[name]) for name in at if name not in (tail, head)]
    blocked = any(distance(point, a, b) < 0.32 for point in others)
    side = 1.0 if a[0] <= b[0] else -1.0
    arrow = FancyArrowPatch(
        tuple(a), tuple(b), arrowstyle="-|>", connectionstyle=f"arc3,rad={0.3 * side * blocked}",
        mutation_scale=11, shrinkA=0, shrinkB=0, patchA=nodes[tail], patchB=nodes[head], color="0.2", lw=1,
        zorder=2, gid=f"{tail}->{head}",
    )  # fmt: skip
    ax.add_patch(arrow)


def _draw_loop(ax: Axes, name: str, at: tuple[float, float]) -> None:
    """From a site back to itself, over its shoulder."""
    x, y = at[0] + node_width(name) / 2, at[1]
    bow = FancyArrowPatch(
        (x - 0.1, y + 0.17), (x - 0.02, y - 0.06), arrowstyle="-|>", connectionstyle="arc3,rad=-1.3",
        mutation_scale=9, shrinkA=0, shrinkB=0, color="0.2", lw=1, zorder=2, gid=f"{name}->{name}",
    )  # fmt: skip
    ax.add_patch(bow)


def plot_forest(
    post: Any,
    names: Sequence[str] | None = None,
    *,
    mass: float = 0.9,
    most: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """The central interval of each unknown that holds `mass` of its draws, a row each, at most `most`."""
    every = post.names if names is None else post._chosen(names)
    shown = every[: check_count("most", most)]
    ends = [(1 - mass) / 2, 0.5, (1 + mass) / 2]
    table = np.array([np.quantile(np.asarray(post[name], float), ends) for name in shown])
    ax = plot_coefficients(shown, table[:, 1], table[:, 0], table[:, 2], ax=ax)
    more = f", {len(shown)} of {len(every)}" if len(shown) < len(every) else ""
    ax.set_xlabel(f"median and {mass:.0%} interval{more}")
    return ax


@takes_key
def plot_checks(post: ProgramPosterior, *, key: Key, most: int = 4) -> list[Axes]:
    """What was observed, beside what the program gives again: an axis for each observed site."""
    latents = {name: draws[0, 0] for name, draws in post.draws.items() if name in post.explanation.latents}
    seen: Mapping[str, Any] = post._program().trace(latents).of_kind("observed")
    shown = list(seen)[:most]
    if not shown:
        return []
    again: Any = ProgramPosterior.predict(post, key=key).draws
    figure, axes = plt.subplots(len(shown), 1, figsize=(6, 0.5 + 2.6 * len(shown)), squeeze=False)
    figure.set_layout_engine("constrained")
    for name, ax in zip(shown, axes[:, 0]):
        _compared(ax, name, np.ravel(np.asarray(seen[name], float)), np.asarray(again[name], float))
    return list(axes[:, 0])


def _compared(ax: Axes, name: str, seen: np.ndarray, again: np.ndarray) -> None:
    """Counts of observed values in bins, and the middle 90 % of the counts of replicated tables."""
    tables = again.reshape(-1, seen.size)
    tables = tables[:: max(len(tables) // 400, 1)]
    edges = _edges(seen, tables)
    counts = np.stack([np.histogram(table, edges)[0] for table in tables])
    low, middle, high = np.quantile(counts, [0.05, 0.5, 0.95], axis=0)
    centres, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    ax.bar(centres, np.histogram(seen, edges)[0], 0.9 * width, color="0.8", label="observed")
    errors = np.stack([middle - low, high - middle])
    ax.errorbar(centres, middle, errors, fmt="o", ms=3, color="tab:blue", label="again, 90 %")
    ax.set(xlabel=name, ylabel="rows")
    ax.legend(fontsize="x-small")


def _edges(seen: np.ndarray, tables: np.ndarray) -> np.ndarray:
    low, high = np.quantile(tables, [0.005, 0.995])
    low, high = min(low, seen.min()), max(high, seen.max())
    whole = bool((seen == np.floor(seen)).all()) and high - low <= 30
    if whole or high <= low:
        return np.arange(np.floor(low), np.floor(high) + 2) - 0.5
    return np.linspace(low, high, 1 + int(np.clip(np.sqrt(seen.size) * 2, 5, 30)))
