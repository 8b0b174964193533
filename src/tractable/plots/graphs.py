"""Pictures of graphical models: networks with shaded observations and plates, factor graphs, junction trees.

Conventions. Circles are variables, shaded where observed; small solid dots are parameters, without a
             distribution; squares are factors; a rounded frame is a plate, repeated as its label says.
Layout.      That of plots.graph_layout; no other program is needed. Each part has its name as `gid`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from tractable.core.checks import check, check_option
from tractable.distributions.table_axes import Names
from tractable.graphs.dag import DAG
from tractable.graphs.factor_graph import FactorGraph
from tractable.graphs.undirected import UndirectedGraph
from tractable.plots.display import axes_of
from tractable.plots.graph_layout import (
    Plates,
    Positions,
    bipartite_layout,
    checked_plates,
    depth,
    distance,
    known_names,
    layered_layout,
    spring_layout,
)

__all__ = [
    "plot_dag", "plot_factor_graph", "plot_junction_tree", "plot_model", "plot_moral_steps",
    "plot_undirected", "points_per_unit",
]  # fmt: skip

_RADIUS, _DOT, _SHADE = 0.3, 0.07, "0.8"
_LETTERS, _WIDE, _TALL = 9.0, 0.68, 1.2  # points of a letter, its width and the height of a line in them
_LEGIBLE = 5.0  # points

# name -> parents, observed, parameters, plates
_MODELS: dict[str, tuple[dict[str, list[str]], list[str], list[str], dict[str, list[str]]]] = {
    "bayesian_regression": (
        {"α": [], "β": [], "w": ["α"], "x_n": [], "y_n": ["w", "x_n", "β"]},
        ["y_n"],
        ["α", "β", "x_n"],
        {"N": ["x_n", "y_n"]},
    ),
    "predictive": (
        {"α": [], "β": [], "w": ["α"], "x": [], "y": ["w", "x", "β"], "x_n": [], "y_n": ["w", "x_n", "β"]},
        ["y_n"],
        ["α", "β", "x_n", "x"],
        {"N": ["x_n", "y_n"]},
    ),
    "vae": (
        {"φ": [], "θ": [], "z_n": [], "x_n": ["z_n", "θ"]},
        ["x_n"],
        ["φ", "θ"],
        {"N": ["z_n", "x_n"]},
    ),
}


def plot_dag(
    dag: Any,
    *,
    observed: Names = (),
    parameters: Names = (),
    plates: Plates | None = None,
    dashed: Iterable[tuple[str, str]] = (),
    positions: Positions | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A directed graph, or the graph of a Bayesian network.

    `observed` nodes are shaded, `parameters` are small solid dots, and `plates` maps labels such as `"N"` to
    the nodes in each frame (frames may be nested). `dashed` arrows come on top: those of an approximate
    posterior, which may run against the others.
    """
    graph = dag if isinstance(dag, DAG) else dag.dag
    at = positions or layered_layout(graph, plates)
    dots = known_names(graph.names, "parameters", parameters)
    radius = {name: _DOT if name in dots else _RADIUS for name in graph.names}
    ax = _canvas(at, ax)
    _draw_plates(ax, at, checked_plates(graph.names, plates or {}))
    for parent, child in graph.edges:
        _draw_edge(ax, parent, child, at, radius, "->")
    for tail, head in dashed:
        known_names(graph.names, "dashed", (tail, head))
        _draw_edge(ax, tail, head, at, radius, "->", dashed=True)
    _draw_nodes(ax, graph.names, at, known_names(graph.names, "observed", observed), dots)
    return ax


def plot_model(name: str, *, ax: Axes | None = None) -> Axes:
    """A textbook model: `bayesian_regression`, its `predictive` distribution, or a `vae`.

    The dashed arrows of the last are those of its approximate posterior.
    """
    check_option("name", name, tuple(_MODELS))
    parents, observed, parameters, plates = _MODELS[name]
    dashed = [("x_n", "z_n"), ("φ", "z_n")] if name == "vae" else []
    options: dict[str, Any] = {"observed": observed, "parameters": parameters, "plates": plates}
    ax = plot_dag(DAG(parents), dashed=dashed, ax=ax, **options)
    ax.set_title(name.replace("_", " "))
    return ax


def plot_undirected(
    graph: Any, *, observed: Names = (), positions: Positions | None = None, ax: Axes | None = None
) -> Axes:
    """An undirected graph, or the graph of a Markov field."""
    chosen = graph if isinstance(graph, UndirectedGraph) else graph.graph
    at = positions or spring_layout(chosen)
    ax = _canvas(at, ax)
    for a, b in chosen.edges:
        _draw_edge(ax, a, b, at, dict.fromkeys(chosen.names, _RADIUS))
    _draw_nodes(ax, chosen.names, at, known_names(chosen.names, "observed", observed), frozenset())
    return ax


def plot_factor_graph(
    graph: FactorGraph,
    *,
    observed: Names = (),
    layout: str = "free",
    positions: Positions | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Variables as circles, factors as squares; `layout="bipartite"` puts each kind in a column."""
    check_option("layout", layout, ("free", "bipartite"))
    at = positions or (spring_layout(graph.bipartite) if layout == "free" else bipartite_layout(graph))
    ax = _canvas(at, ax)
    radius = {**dict.fromkeys(graph.variables, _RADIUS), **dict.fromkeys(graph.labels, 0.15)}
    for variable, label in graph.edges:
        _draw_edge(ax, variable, label, at, radius)
    _draw_nodes(ax, graph.variables, at, known_names(graph.variables, "observed", observed), frozenset())
    for label in graph.labels:
        x, y = at[label]
        ax.add_patch(Rectangle((x - 0.13, y - 0.13), 0.26, 0.26, fc="0.25", ec="k", gid=label, zorder=3))
        ax.annotate(label, (x, y), (0, 10), textcoords="offset points", ha="center", fontsize=8)
    return ax


def plot_junction_tree(
    bags: Any,
    parents: Any = None,
    names: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """A tree of bags as ovals, with what neighbours share in a box on each edge.

    Of a `JunctionTree`, or of `bags` where `parents[b]` is the place of the parent of bag `b`, or -1; `names`
    turns numbers of variables into names: `plot_junction_tree(tree, names=net.names)`.
    """
    if parents is None:
        bags, parents = bags.bags, bags.parents
    check(len(bags) == len(parents), "parents", f"one per bag, {len(bags)}", len(parents))
    words = [[str(v) if names is None else str(names[v]) for v in bag] for bag in bags]
    texts = [", ".join(sorted(bag)) for bag in words]
    keys = [f"{b}: {text}" for b, text in enumerate(texts)]
    tree = DAG({keys[b]: [keys[p]] if p >= 0 else [] for b, p in enumerate(parents)})
    wide = max(1.4, 0.16 * max(map(len, texts)) + 0.6)
    at = {key: (x * wide, 1.4 * y) for key, (x, y) in layered_layout(tree).items()}
    ax = _canvas(at, ax, margin=wide / 2)
    for b, p in enumerate(parents):
        if p >= 0:
            (x, y), (u, v) = at[keys[p]], at[keys[b]]
            ax.plot([x, u], [y, v], color="0.4", lw=1, zorder=1, gid=f"{p}-{b}")
            shared = ", ".join(sorted(set(words[b]) & set(words[p])))
            box = {"boxstyle": "square", "fc": "white", "ec": "0.4"}
            ax.text(
                (x + u) / 2, (y + v) / 2, shared, ha="center", va="center", fontsize=8, bbox=box, zorder=4
            )
    for key, text in zip(keys, texts):
        box = {"boxstyle": "round,pad=0.5,rounding_size=1", "fc": "white", "ec": "k"}
        x, y = at[key]
        ax.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=3, gid=key)
    return ax


def plot_moral_steps(steps: Any, *, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The three graphs of `DAG.moral_separation` side by side: ancestral, moral, without what is given."""
    family = DAG.from_edges(steps.ancestral, steps.moral.names)
    at, given = layered_layout(family), steps.statement.given
    if axes is None:
        axes = list(plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")[1])
    check(len(axes) == 3, "axes", "three", len(axes))
    plot_dag(family, observed=given, positions=at, ax=axes[0])
    plot_undirected(steps.moral, observed=given, positions=at, ax=axes[1])
    plot_undirected(steps.remaining, positions={n: at[n] for n in steps.remaining.names}, ax=axes[2])
    verdict = "separated" if steps else f"path {' - '.join(steps.path)}"
    for ax, title in zip(axes, ("ancestral graph", "moral graph", verdict)):
        ax.set_title(title)
    return axes


def _canvas(at: Positions, ax: Axes | None, margin: float = 0.9) -> Axes:
    points = np.array(list(at.values())).reshape(-1, 2)
    low, high = (points.min(0), points.max(0)) if len(points) else (np.zeros(2), np.ones(2))
    ax = axes_of(ax, *np.clip(0.7 * (high - low + 2 * margin), 2, 14).tolist())
    ax.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin), aspect="equal")
    ax.set_axis_off()
    return ax


def wrapped(name: str, diameter: float) -> tuple[str, float]:
    """A name in lines, and the size of letters (at most 9 points) with which they fit into a circle.

    Lines end after `_`, `-`, `.` or a space, or before a capital; words are cut only where they would be too
    small to read.
    """
    pieces = [piece for piece in re.split(r"(?<=[_\-. ])|(?<=[a-z0-9])(?=[A-Z])", name) if piece]
    longest = max(len(piece.strip()) for piece in pieces)
    whole = _largest([_filled(pieces, width) for width in range(longest, len(name) + 1)], diameter)
    if whole[1] >= _LEGIBLE:
        return whole
    cut = _largest([_filled(pieces, width) for width in range(1, longest)] or [[name]], diameter)
    return max(whole, cut, key=lambda option: option[1])


def _largest(options: list[list[str]], diameter: float) -> tuple[str, float]:
    """The lines whose letters can be largest in a circle, and their size."""
    sizes = [diameter / np.hypot(_WIDE * max(map(len, lines)), _TALL * len(lines)) for lines in options]
    best = int(np.argmax(np.minimum(sizes, _LETTERS)))
    return "\n".join(options[best]), float(min(sizes[best], _LETTERS))


def _filled(pieces: list[str], width: int) -> list[str]:
    """Pieces in lines of at most `width` letters; longer pieces are cut."""
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += [piece[start : start + width] for start in range(0, len(piece), width)]
    return [line.strip() for line in lines if line.strip()]


def points_per_unit(ax: Axes) -> float:
    """Points of print in one unit of the picture, whose two axes are alike."""
    figure: Any = ax.get_figure(root=True)
    box = ax.get_position()
    # a layout engine will let the only axes have all but a margin of the figure
    share = (0.96, 0.96) if len(figure.axes) == 1 and figure.get_layout_engine() else (box.width, box.height)
    width, height = figure.get_size_inches() * share
    return 72 * min(width / np.ptp(ax.get_xlim()), height / np.ptp(ax.get_ylim()))


def _draw_nodes(
    ax: Axes, names: Sequence[str], at: Positions, shaded: frozenset[str], dots: frozenset[str]
) -> None:
    for name in names:
        x, y = at[name]
        if name in dots:
            ax.add_patch(Circle((x, y), _DOT, fc="k", ec="k", gid=name, zorder=3))
            ax.annotate(name, (x, y), (0, 7), textcoords="offset points", ha="center", fontsize=9)
        else:
            color = _SHADE if name in shaded else "white"
            ax.add_patch(Circle((x, y), _RADIUS, fc=color, ec="k", gid=name, zorder=3))
            text, size = wrapped(name, 2 * _RADIUS * points_per_unit(ax))
            ax.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4, linespacing=1.0)


def _draw_edge(
    ax: Axes,
    tail: str,
    head: str,
    at: Positions,
    radius: Mapping[str, float],
    kind: str = "-",
    dashed: bool = False,
) -> None:
    """A straight line, or a bow where another node stands in the way."""
    a, b = np.array(at[tail]), np.array(at[head])
    others = [np.array(at[name]) for name in at if name not in (tail, head)]
    bow = 0.35 if dashed or any(distance(point, a, b) < _RADIUS for point in others) else 0.0
    middle = (a + b) / 2 + bow * np.array([b[1] - a[1], a[0] - b[0]])
    ends = []
    for point, name in ((a, tail), (b, head)):
        toward = middle - point
        ends.append(tuple(point + toward * radius[name] / max(float(np.hypot(*toward)), 1e-9)))
    edge = FancyArrowPatch(
        *ends,
        arrowstyle="-|>" if kind == "->" else "-",
        connectionstyle=f"arc3,rad={bow}",
        mutation_scale=11,
        shrinkA=0,
        shrinkB=0,
        color="0.2",
        lw=1,
        ls="--" if dashed else "-",
        zorder=2,
        gid=f"{tail}{kind}{head}",
    )
    ax.add_patch(edge)


def _draw_plates(ax: Axes, at: Positions, frames: dict[str, frozenset[str]]) -> None:
    for label, members in frames.items():
        inner = depth(frames, members)
        points = np.array([at[name] for name in members])
        pad = _RADIUS + 0.14 + 0.09 * inner
        low, high = points.min(0) - pad - [0, 0.1 + 0.17 * inner], points.max(0) + pad
        style = "round,pad=0,rounding_size=0.12"
        size = high - low
        frame = FancyBboxPatch(
            low, size[0], size[1], boxstyle=style, fc="none", ec="0.3", gid=label, zorder=0
        )
        ax.add_patch(frame)
        ax.text(high[0] - 0.06, low[1] + 0.05, label, ha="right", va="bottom", fontsize=9)
