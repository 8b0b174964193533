r"""Undirected graphs with named nodes: neighbours, separation, components, cliques, independencies.

Identity.    $C$ separates $A$ from $B$ iff every path from $A$ to $B$ meets $C$: no node of $B$ is reached
             from $A$ in the graph without $C$. Pairwise: nodes without an edge, given all others.
Cost.        All but cliques (see graphs.cliques) and the list of pairs is linear in the edges.
References.  Lauritzen (1996), chapters 2 and 3.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import jax

from tractable.core.checks import check
from tractable.core.description import shortened
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.cliques import maximal_cliques
from tractable.messages.searches import closure, components, shortest_way

__all__ = [
    "IndependenceStatement",
    "UndirectedGraph",
    "as_networkx",
    "as_places",
    "check_disjoint",
    "dependency_graph",
]


@dataclass(frozen=True)
class IndependenceStatement:
    """The statement that `x` and `y` are independent given `given`."""

    x: tuple[str, ...]
    y: tuple[str, ...]
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        condition = f" | {', '.join(self.given)}" if self.given else ""
        return f"{', '.join(self.x)} _|_ {', '.join(self.y)}{condition}"

    def __repr__(self) -> str:
        return f"IndependenceStatement({self})"


@jax.tree_util.register_static
@dataclass(frozen=True)
class UndirectedGraph:
    """An undirected graph: `links[i]` holds the places of the neighbours of `names[i]`, ascending.

    >>> square = UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    >>> square.separated("a", "c", ["b", "d"]), square.separated("a", "c", ["b"])
    (True, False)
    >>> square.maximal_cliques()
    (('a', 'b'), ('a', 'd'), ('b', 'c'), ('c', 'd'))
    """

    names: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[str]], names: Names = ()) -> "UndirectedGraph":
        """A graph from pairs of names; `names` come first, and may have no edge."""
        pairs = [tuple(edge) for edge in edges]
        for pair in pairs:
            proper = len(pair) == 2 and pair[0] != pair[1] and all(isinstance(name, str) for name in pair)
            check(proper, "edges", "pairs of two different names", pair)
        order = tuple(dict.fromkeys([*as_names(names), *(name for pair in pairs for name in pair)]))
        place = {name: i for i, name in enumerate(order)}
        links: list[set[int]] = [set() for _ in order]
        for a, b in pairs:
            links[place[a]].add(place[b])
            links[place[b]].add(place[a])
        return cls(order, tuple(tuple(sorted(each)) for each in links))

    @classmethod
    def from_networkx(cls, graph: Any) -> "UndirectedGraph":
        """The names and edges of an undirected `networkx` graph."""
        check(
            not graph.is_directed(), "graph", "undirected", type(graph).__name__, "Use `DAG.from_networkx`."
        )
        return cls.from_edges(graph.edges(), graph.nodes())

    def to_networkx(self) -> Any:
        """A `networkx.Graph` with the same names and edges."""
        return as_networkx("Graph", self.names, self.edges)

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each name."""
        return {name: i for i, name in enumerate(self.names)}

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Each edge once, its ends in the order of `names`."""
        return tuple((self.names[i], self.names[j]) for i, row in enumerate(self.links) for j in row if i < j)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The neighbours of a node: in a Markov field, its Markov blanket."""
        (i,) = as_places(self.place, "name", name)
        return tuple(self.names[j] for j in self.links[i])

    def adjacent(self, first: str, second: str) -> bool:
        """Whether two nodes have an edge between them."""
        (i,), (j,) = as_places(self.place, "first", first), as_places(self.place, "second", second)
        return j in self._sets[i]

    def path(self, x: Names, y: Names, given: Names = ()) -> tuple[str, ...] | None:
        """A shortest path from `x` to `y` that avoids `given`, or None where `given` separates them."""
        sources, targets, blocked = check_disjoint(self.place, x, y, given)
        way = shortest_way(self.links, sources, targets, blocked)
        return None if way is None else tuple(self.names[i] for i in way)

    def separated(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether every path from `x` to `y` meets `given`."""
        return self.path(x, y, given) is None

    def pairwise_independencies(self) -> tuple[IndependenceStatement, ...]:
        """The pairwise Markov property: two nodes without an edge, given all others."""
        found = []
        for (i, x), (j, y) in combinations(enumerate(self.names), 2):
            if j not in self._sets[i]:
                others = tuple(name for name in self.names if name not in (x, y))
                found.append(IndependenceStatement((x,), (y,), others))
        return tuple(found)

    def subgraph(self, names: Names) -> "UndirectedGraph":
        """The nodes `names`, in the order of this graph, and the edges among them."""
        kept = set(as_names(names))
        as_places(self.place, "names", kept)
        edges = [edge for edge in self.edges if kept.issuperset(edge)]
        return UndirectedGraph.from_edges(edges, [name for name in self.names if name in kept])

    def without(self, names: Names) -> "UndirectedGraph":
        """The graph without `names` and their edges."""
        dropped = set(as_names(names))
        as_places(self.place, "names", dropped)
        return self.subgraph([name for name in self.names if name not in dropped])

    def reached(self, names: Names) -> frozenset[str]:
        """`names` and all nodes that some path connects to them."""
        places = closure(self.links, as_places(self.place, "names", names))
        return frozenset(self.names[i] for i in places)

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The connected components, each in the order of `names`."""
        return tuple(tuple(self.names[i] for i in sorted(part)) for part in components(self.links))

    @property
    def is_forest(self) -> bool:
        """Whether the graph has no cycle."""
        return len(self.edges) == len(self.names) - len(self.components)

    @property
    def is_tree(self) -> bool:
        """Whether the graph is connected and has no cycle."""
        return self.is_forest and len(self.components) == 1

    def is_clique(self, names: Names) -> bool:
        """Whether all pairs of `names` are adjacent (one node is a clique)."""
        places = as_places(self.place, "names", names)
        return all(j in self._sets[i] for i, j in combinations(places, 2))

    def maximal_cliques(self) -> tuple[tuple[str, ...], ...]:
        """All maximal cliques, each and all in the order of `names`."""
        found = sorted(tuple(sorted(clique)) for clique in maximal_cliques(self._sets))
        return tuple(tuple(self.names[i] for i in clique) for clique in found)

    def cliques(self, most: int | None = None) -> tuple[tuple[str, ...], ...]:
        """All cliques of up to `most` nodes, the smallest first; there are $2^k$ in one of $k$ nodes."""
        found = set()
        for clique in maximal_cliques(self._sets):
            size = len(clique) if most is None else min(most, len(clique))
            found.update(c for k in range(1, size + 1) for c in combinations(sorted(clique), k))
        ordered = sorted(found, key=lambda clique: (len(clique), clique))
        return tuple(tuple(self.names[i] for i in clique) for clique in ordered)

    @cached_property
    def _sets(self) -> tuple[frozenset[int], ...]:
        return tuple(map(frozenset, self.links))

    def __repr__(self) -> str:
        shown = ", ".join(shortened((f"{a} - {b}" for a, b in self.edges), 12))
        return f"UndirectedGraph({len(self.names)} nodes: {shown})"


def dependency_graph(scopes: Iterable[Names], names: Names = ()) -> UndirectedGraph:
    """The graph in which the variables of each factor form a clique.

    >>> dependency_graph([("x1", "x2"), ("x2", "x3", "x4"), ("x3", "x4")]).edges
    (('x1', 'x2'), ('x2', 'x3'), ('x2', 'x4'), ('x3', 'x4'))
    """
    groups = [as_names(scope) for scope in scopes]
    order = dict.fromkeys([*as_names(names), *(name for group in groups for name in group)])
    return UndirectedGraph.from_edges((pair for group in groups for pair in combinations(group, 2)), order)


def as_networkx(kind: str, names: Iterable[str], edges: Iterable[tuple[str, str]]) -> Any:
    """A networkx graph of the named kind."""
    import networkx

    graph = getattr(networkx, kind)()
    graph.add_nodes_from(names)
    graph.add_edges_from(edges)
    return graph


def as_places(place: Mapping[str, int], argument: str, names: Names) -> tuple[int, ...]:
    """The places of one or several names; an error names those that are unknown."""
    chosen = as_names(names)
    unknown = [name for name in chosen if name not in place]
    if unknown:
        known = ", ".join(list(place)[:12]) + (", ..." if len(place) > 12 else "")
        check(False, argument, f"among the nodes {known}", ", ".join(map(repr, unknown)))
    return tuple(place[name] for name in chosen)


def check_disjoint(
    place: Mapping[str, int], x: Names, y: Names, given: Names
) -> tuple[tuple[int, ...], frozenset[int], frozenset[int]]:
    """The places of two sets of nodes and of those given; no node may be in two of the three."""
    groups = [as_places(place, argument, names) for argument, names in (("x", x), ("y", y), ("given", given))]
    for argument, group in zip("xy", groups):
        check(len(group) > 0, argument, "one or more nodes", "none")
    names = list(place)
    for (first, a), (second, b) in combinations(zip(("x", "y", "given"), groups), 2):
        shared = sorted(names[i] for i in set(a) & set(b))
        check(not shared, second, f"without the nodes of `{first}`", ", ".join(map(repr, shared)))
    return groups[0], frozenset(groups[1]), frozenset(groups[2])
