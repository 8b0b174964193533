r"""Factors of discrete variables as flat arrays, and a colouring that says which variables may move together.

Layout.      The cells of all factors follow each other in one vector; a cell of factor $m$ is at
             $b_m + \sum_{v \in m} s_{mv} x_v$ with strides $s$: any set of conditionals is one gather.
Colouring.   Two free variables with a common factor have different colours. Greedy, by saturation: two
             colours on trees and grids.
Cost.        Linear in the pairs of factor and variable, and in the edges of the graph for the colouring.
References.  Brelaz (1979), "New methods to color the vertices of a graph".
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array

__all__ = ["FactorLayout", "colour", "lay_out"]


class FactorLayout(Module):
    """Where the factors keep their numbers. Rows are padded to equal length: variable $n$ stands for nothing.

    `of_factors` has one row per factor. `of_colours` has one row per colour, with its variables, and with the
    pairs of one of these variables and a factor that touches it (there the variable's own stride is apart).
    """

    of_factors: dict[str, Array]  # first (f,), members (f, a), strides (f, a)
    of_colours: dict[
        str, Array
    ]  # variable (c, v); first, slot, own_stride (c, e); members, strides (c, e, a)
    slots: tuple[tuple[int, int], ...] = field(static=True)  # colour and slot of each free variable


def colour(members: Sequence[Sequence[int]], free: Sequence[int]) -> tuple[list[set[int]], list[list[int]]]:
    """The neighbours of each free variable among all, and the free variables grouped by colour."""
    import networkx as nx

    neighbours = [set() for _ in free]
    place = {v: i for i, v in enumerate(free)}
    for each in members:
        for v in each:
            if v in place:
                neighbours[place[v]] |= set(each) - {v}
    graph = nx.Graph()
    graph.add_nodes_from(free)
    graph.add_edges_from((v, u) for v, near in zip(free, neighbours) for u in near if u in place)
    found = nx.greedy_color(graph, "DSATUR")
    groups = [[v for v in free if found[v] == c] for c in range(max(found.values()) + 1)]
    return neighbours, groups


def lay_out(
    sizes: Sequence[int],
    members: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
    free: Sequence[int],
) -> FactorLayout:
    """The arrays for factors over `members` (variables in axis order), and for each group of variables."""
    nothing, arity = len(sizes), max(len(each) for each in members)
    shapes = [[sizes[v] for v in each] for each in members]
    strides = [np.cumprod([1, *shape[:0:-1]])[::-1].tolist() for shape in shapes]
    first = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])[:-1].tolist()
    touching: dict[int, list[int]] = {v: [] for v in free}
    for m, each in enumerate(members):
        for v in set(each) & touching.keys():
            touching[v].append(m)
    pairs = [[(slot, v, m) for slot, v in enumerate(group) for m in touching[v]] for group in groups]
    width, edges = max(map(len, groups)), max(map(len, pairs))

    def row(pad: int, values: list[int], length: int) -> list[int]:
        return values + [pad] * (length - len(values))

    rows: dict[str, list] = {name: [] for name in ("variable", "first", "slot", "own", "members", "strides")}
    for group, each in zip(groups, pairs):
        others = [[(u, s) for u, s in zip(members[m], strides[m]) if u != v] for _, v, m in each]
        own = [strides[m][list(members[m]).index(v)] for _, v, m in each]
        rows["variable"].append(row(nothing, list(group), width))
        rows["first"].append(row(0, [first[m] for _, _, m in each], edges))
        rows["slot"].append(row(width, [slot for slot, _, _ in each], edges))
        rows["own"].append(row(0, own, edges))
        blank = [[]] * (edges - len(each))
        rows["members"].append([row(nothing, [u for u, _ in pair], arity) for pair in others + blank])
        rows["strides"].append([row(0, [s for _, s in pair], arity) for pair in others + blank])
    whole = {
        "first": jnp.asarray(first),
        "members": jnp.asarray([row(nothing, list(each), arity) for each in members]),
        "strides": jnp.asarray([row(0, each, arity) for each in strides]),
    }
    place = {v: (c, slot) for c, group in enumerate(groups) for slot, v in enumerate(group)}
    return FactorLayout(whole, {k: jnp.asarray(v) for k, v in rows.items()}, tuple(place[v] for v in free))
