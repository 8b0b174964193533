"""Where the nodes of a graph are drawn: in layers with plates apart, by springs, or in two columns.

Layers.      A node is below all of its parents; crossings are reduced by sorting each layer by the mean
             column of its neighbours; a plate has its own columns: nothing foreign is in its frame.
Springs.     Distances in the picture like those along the edges, component by component.
Cost.        Linear in the edges per sweep; springs take the cube of the nodes of a component.
References.  Sugiyama, Tagawa and Toda (1981); Kamada and Kawai (1989).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tractable.core.checks import check
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.dag import DAG
from tractable.graphs.factor_graph import FactorGraph
from tractable.graphs.undirected import UndirectedGraph

__all__ = [
    "Plates",
    "Positions",
    "bipartite_layout",
    "checked_plates",
    "depth",
    "distance",
    "known_names",
    "layered_layout",
    "spring_layout",
]

Positions = dict[str, tuple[float, float]]
Plates = Mapping[str, Sequence[str]]
Frames = dict[str, frozenset[str]]


def layered_layout(dag: DAG, plates: Plates | None = None) -> Positions:
    """A place for each node: parents above children, the nodes of each plate in columns of their own."""
    frames = checked_plates(dag.names, plates or {})
    layer = _layers(dag)
    columns, _ = _arranged(dag, list(dag.names), frames, layer)
    return {name: (columns[name], -1.1 * layer[name]) for name in dag.names}


def spring_layout(graph: UndirectedGraph) -> Positions:
    """Each component so that distances are like those along its edges; components side by side."""
    import networkx

    at: Positions = {}
    start = 0.0
    for part in graph.components:
        found = networkx.kamada_kawai_layout(graph.subgraph(part).to_networkx())
        points = np.array([found[name] for name in part])
        place = dict(zip(part, points))
        lengths = [np.hypot(*(place[a] - place[b])) for a, b in graph.subgraph(part).edges]
        points = points * (1.1 / min(lengths) if lengths else 1.0)
        points = points - [points[:, 0].min(), points[:, 1].mean()] + [start, 0]
        at.update({name: (float(x), float(y)) for name, (x, y) in zip(part, points)})
        start = float(points[:, 0].max()) + 1.2
    return at


def bipartite_layout(graph: FactorGraph) -> Positions:
    """Variables in one column, factors in another."""
    tall = max(len(graph.variables), len(graph.labels)) - 1
    at: Positions = {}
    for x, nodes in ((0.0, graph.variables), (2.0, graph.labels)):
        step = tall / max(len(nodes) - 1, 1)
        at.update({name: (x, -i * step) for i, name in enumerate(nodes)})
    return at


def checked_plates(names: Sequence[str], plates: Plates) -> dict[str, frozenset[str]]:
    """The members of each plate, if plates are nested or apart."""
    frames = {label: known_names(names, f"plates[{label!r}]", members) for label, members in plates.items()}
    for label, members in frames.items():
        check(len(members) > 0, f"plates[{label!r}]", "about at least one node", "none")
        for other, others in frames.items():
            nested = not members & others or members <= others or others <= members
            check(nested, "plates", "nested or apart", f"{label!r} and {other!r}, which cross")
    return frames


def known_names(names: Sequence[str], argument: str, chosen: Names) -> frozenset[str]:
    """The chosen names as a set, if the graph has them all."""
    found = frozenset(as_names(chosen))
    check(found <= set(names), argument, f"among {tuple(names)}", sorted(found - set(names)))
    return found


def depth(frames: dict[str, frozenset[str]], members: frozenset[str]) -> int:
    """How many frames are nested inside one."""
    chain = sorted({s for s in frames.values() if s < members}, key=len)
    return sum(1 for small, large in pairwise([frozenset(), *chain]) if small < large)


def distance(point: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The distance of a point from the segment between two others."""
    along = b - a
    share = np.clip(np.dot(point - a, along) / max(float(np.dot(along, along)), 1e-12), 0, 1)
    return float(np.hypot(*(point - a - share * along)))


def _layers(dag: DAG) -> dict[str, int]:
    """The longest way from a root; roots then come down to just above their first child."""
    layer: dict[str, int] = {}
    for name in dag.names:
        layer[name] = max((layer[parent] + 1 for parent in dag.parents(name)), default=0)
    for name in dag.roots:
        layer[name] = min((layer[child] - 1 for child in dag.children(name)), default=0)
    return layer


def _arranged(
    dag: DAG, names: list[str], frames: dict[str, frozenset[str]], layer: dict[str, int]
) -> tuple[dict[str, float], float]:
    """Columns of `names`, those in no frame first, then frame after frame; and the width of all."""
    outer = [s for s in frames.values() if not any(s < other for other in frames.values())]
    groups = [
        (frozenset(names).difference(*outer), {}),
        *((s, _inside(frames, s)) for s in dict.fromkeys(outer)),
    ]
    columns, start = {}, 0.0
    for members, inner in groups:
        chosen = [name for name in names if name in members]
        if chosen:
            placed, width = _arranged(dag, chosen, inner, layer) if inner else _ordered(dag, chosen, layer)
            pad = 0.25 if members in outer else 0.0
            columns.update({name: start + pad + x for name, x in placed.items()})
            start += width + 2 * pad
    return columns, start


def _inside(frames: dict[str, frozenset[str]], frame: frozenset[str]) -> dict[str, frozenset[str]]:
    return {label: members for label, members in frames.items() if members < frame}


def _ordered(dag: DAG, names: list[str], layer: dict[str, int]) -> tuple[dict[str, float], float]:
    """Columns within each layer, by the mean column of neighbours, swept down and up."""
    rows = [[n for n in names if layer[n] == depth] for depth in sorted({layer[n] for n in names})]
    width = max(map(len, rows))
    column: dict[str, float] = {}

    def place(row: list[str]) -> None:
        first = (width - len(row)) / 2
        column.update({name: first + i for i, name in enumerate(row)})

    for row in rows:
        place(row)
    near = {n: [m for m in (*dag.parents(n), *dag.children(n)) if m in column] for n in names}
    for sweep in (rows, rows[::-1], rows, rows[::-1]):
        for row in sweep:
            row.sort(key=lambda n: np.mean([column[m] for m in near[n]]) if near[n] else column[n])
            place(row)
    return column, float(width)
