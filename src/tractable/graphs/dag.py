r"""Directed acyclic graphs: orders, families, Markov blankets, moral graphs and d-separation.

Model.       $p(x) = \prod_k p(x_k \mid x_{\mathrm{pa}(k)})$: the graph of a Bayesian network.
Identities.  Local Markov: $x_k \perp x_{\mathrm{nd}(k)} \mid x_{\mathrm{pa}(k)}$ for the non-descendants nd.
             Blanket: $x_k$ is independent of all else given parents, children and their other parents.
Cost.        Construction and every query are linear in the edges, apart from marriages.
References.  Koller and Friedman (2009), chapter 3; Lauritzen (1996).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import jax

from tractable.core.checks import check
from tractable.core.description import shortened
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.separation import MoralSteps, Trail, active_trail
from tractable.graphs.undirected import (
    IndependenceStatement,
    UndirectedGraph,
    as_networkx,
    as_places,
    check_disjoint,
)
from tractable.messages.searches import closure

__all__ = ["DAG", "CyclicGraph"]


class CyclicGraph(ValueError):
    """Directed edges that lead back to where they began."""


@jax.tree_util.register_static
@dataclass(frozen=True, init=False)
class DAG:
    """A directed acyclic graph: `names` in topological order, `parent_places[i]` the parents of `names[i]`.

    A parent that has no entry of its own is a root. Parents keep the order in which they are given, and names
    that the arrows leave free keep theirs too.

    >>> dag = DAG({"x1": [], "x2": [], "x3": ["x1", "x2"], "x4": ["x3"]})
    >>> dag.d_separated("x1", "x2"), dag.d_separated("x1", "x2", given="x4")
    (True, False)
    >>> dag.active_trail("x1", "x2", given="x4")
    Trail(x1 -> x3 <- x2)
    >>> sorted(dag.markov_blanket("x1"))
    ['x2', 'x3']
    """

    names: tuple[str, ...]
    parent_places: tuple[tuple[int, ...], ...]

    def __init__(self, parents: Mapping[str, Sequence[str]]):
        fix = "Pairs (parent, child) go to `DAG.from_edges`."
        known, kind = isinstance(parents, Mapping), type(parents).__name__
        check(known, "parents", "a mapping from each name to its parents", kind, fix, TypeError)
        families = {name: as_names(chosen) for name, chosen in parents.items()}
        as_names(families)
        known = list(dict.fromkeys([*families, *(name for each in families.values() for name in each)]))
        place = {name: i for i, name in enumerate(known)}
        rows = [[place[parent] for parent in families.get(name, ())] for name in known]
        order = _topological_order(rows, known)
        moved = {old: new for new, old in enumerate(order)}
        object.__setattr__(self, "names", tuple(known[i] for i in order))
        object.__setattr__(self, "parent_places", tuple(tuple(moved[j] for j in rows[i]) for i in order))

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[str]], names: Names = ()) -> "DAG":
        """A graph from pairs (parent, child); `names` come first, and may have no edge."""
        families: dict[str, list[str]] = {name: [] for name in as_names(names)}
        for edge in edges:
            check(len(edge) == 2, "edges", "pairs (parent, child)", tuple(edge))
            families.setdefault(edge[0], [])
            families.setdefault(edge[1], []).append(edge[0])
        return cls(families)

    @classmethod
    def from_networkx(cls, graph: Any) -> "DAG":
        """The names and edges of a `networkx.DiGraph`."""
        kind = type(graph).__name__
        check(graph.is_directed(), "graph", "directed", kind, "Use `UndirectedGraph.from_networkx`.")
        return cls({name: list(graph.predecessors(name)) for name in graph.nodes()})

    def to_networkx(self) -> Any:
        """A `networkx.DiGraph` with the same names and edges."""
        return as_networkx("DiGraph", self.names, self.edges)

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each name in the topological order."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def child_places(self) -> tuple[tuple[int, ...], ...]:
        """The places of the children of each node, ascending."""
        rows: list[list[int]] = [[] for _ in self.names]
        for child, row in enumerate(self.parent_places):
            for parent in row:
                rows[parent].append(child)
        return tuple(map(tuple, rows))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """All pairs (parent, child), by child."""
        return tuple((self.names[i], self.names[k]) for k, row in enumerate(self.parent_places) for i in row)

    @property
    def roots(self) -> tuple[str, ...]:
        """The nodes without parents."""
        return tuple(name for name, row in zip(self.names, self.parent_places) if not row)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The nodes without children."""
        return tuple(name for name, row in zip(self.names, self.child_places) if not row)

    def parents(self, name: str) -> tuple[str, ...]:
        """The parents of a node, in the order in which they were given."""
        return self._named(self.parent_places[self._one(name)])

    def children(self, name: str) -> tuple[str, ...]:
        """The children of a node, in topological order."""
        return self._named(self.child_places[self._one(name)])

    def ancestors(self, names: Names) -> frozenset[str]:
        """All nodes with a directed way to one of `names`, without `names`."""
        return self._closure(self.parent_places, names)

    def descendants(self, names: Names) -> frozenset[str]:
        """All nodes with a directed way from one of `names`, without `names`."""
        return self._closure(self.child_places, names)

    def non_descendants(self, name: str) -> frozenset[str]:
        """All other nodes that are no descendants, the parents among them."""
        return frozenset(self.names) - self.descendants(name) - {name}

    def markov_blanket(self, name: str) -> frozenset[str]:
        """Parents, children and the other parents of the children: given these, nothing else matters."""
        i = self._one(name)
        around = {*self.parent_places[i], *self.child_places[i]}
        around.update(parent for child in self.child_places[i] for parent in self.parent_places[child])
        return frozenset(self._named(around - {i}))

    def subgraph(self, names: Names) -> "DAG":
        """The nodes `names` and the edges among them, in the order of this graph."""
        kept = set(as_names(names))
        as_places(self.place, "names", kept)
        return DAG({n: [p for p in self.parents(n) if p in kept] for n in self.names if n in kept})

    def ancestral(self, names: Names) -> "DAG":
        """The subgraph of `names` and their ancestors: all that their joint distribution depends on."""
        places = closure(self.parent_places, as_places(self.place, "names", names))
        return self.subgraph(self._named(sorted(places)))

    def skeleton(self) -> UndirectedGraph:
        """The edges without their directions."""
        return UndirectedGraph.from_edges(self.edges, self.names)

    def marriages(self) -> tuple[tuple[str, str], ...]:
        """The pairs of parents of one child that have no edge: those that moralisation joins."""
        linked = {frozenset((parent, k)) for k, row in enumerate(self.parent_places) for parent in row}
        couples = {frozenset(pair) for row in self.parent_places for pair in combinations(row, 2)}
        return tuple((self.names[i], self.names[j]) for i, j in sorted(map(sorted, couples - linked)))

    def moral(self) -> UndirectedGraph:
        """The moral graph: parents of a common child married, directions dropped."""
        return UndirectedGraph.from_edges([*self.edges, *self.marriages()], self.names)

    def d_separated(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether every trail from `x` to `y` is blocked by `given` (by Bayes ball)."""
        return self.active_trail(x, y, given) is None

    def active_trail(self, x: Names, y: Names, given: Names = ()) -> Trail | None:
        """A shortest trail from `x` to `y` along which information flows given `given`, or None."""
        sources, targets, observed = check_disjoint(self.place, x, y, given)
        way = active_trail(self.parent_places, self.child_places, sources, targets, observed)
        if way is None:
            return None
        arrows = ("->" if i in self.parent_places[j] else "<-" for i, j in pairwise(way))
        return Trail(self._named(way), tuple(arrows))

    def moral_separation(self, x: Names, y: Names, given: Names = ()) -> MoralSteps:
        """d-separation by the moralised ancestral graph, with the graph of each step; true iff separated."""
        check_disjoint(self.place, x, y, given)
        asked = IndependenceStatement(as_names(x), as_names(y), as_names(given))
        family = self.ancestral([*asked.x, *asked.y, *asked.given])
        moral = family.moral()
        remaining = moral.without(asked.given)
        path = remaining.path(asked.x, asked.y)
        return MoralSteps(asked, family.edges, family.marriages(), moral, remaining, path)

    def requisite(self, targets: Names, given: Names = ()) -> frozenset[str]:
        """The nodes whose conditionals $p(x_k | pa_k)$ can change the law of `targets` given `given`.

        All others sum to one (no ancestors of what is asked or observed), or are constant once the evidence
        is in its place: a query needs the product of these conditionals alone.
        """
        wanted, _, observed = as_names(targets), as_places(self.place, "targets", targets), as_names(given)
        shared = sorted(set(wanted) & set(observed))
        check(not shared, "given", "without the nodes of `targets`", ", ".join(map(repr, shared)))
        family = self.ancestral([*wanted, *observed])
        free = family.moral().without(observed).reached(wanted)
        return frozenset(name for name in family.names if free & {name, *family.parents(name)})

    def local_independencies(self) -> tuple[IndependenceStatement, ...]:
        """The local Markov property: each node and its non-descendants, given its parents."""
        found = []
        for name in self.names:
            given = self.parents(name)
            others = self.non_descendants(name) - set(given)
            if others:
                found.append(
                    IndependenceStatement((name,), tuple(n for n in self.names if n in others), given)
                )
        return tuple(found)

    def pairwise_independencies(self) -> tuple[IndependenceStatement, ...]:
        """One statement for each pair without an edge: the later one against the earlier, given its parents.

        Together with the axioms of conditional independence these imply all that d-separation does.
        """
        found = []
        for later, row in enumerate(self.parent_places):
            given = self._named(row)
            others = (i for i in range(later) if i not in row)
            found += [IndependenceStatement((self.names[i],), (self.names[later],), given) for i in others]
        return tuple(found)

    def _one(self, name: str) -> int:
        check(name in self.place, "name", "a node of the graph", repr(name))
        return self.place[name]

    def _named(self, places: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.names[i] for i in places)

    def _closure(self, rows: Sequence[Sequence[int]], names: Names) -> frozenset[str]:
        start = as_places(self.place, "names", names)
        return frozenset(self._named(closure(rows, start) - set(start)))

    def __repr__(self) -> str:
        shown = ", ".join(shortened((f"{a} -> {b}" for a, b in self.edges), 12))
        return f"DAG({len(self.names)} nodes: {shown})"


def _topological_order(parents: Sequence[Sequence[int]], names: Sequence[str]) -> list[int]:
    """Parents before children, else as given; an error names a cycle, in the direction of its arrows."""
    order: list[int] = []
    done, open_nodes = [False] * len(parents), [False] * len(parents)
    for root in range(len(parents)):
        stack = [] if done[root] else [(root, iter(parents[root]))]
        open_nodes[root] = not done[root]
        while stack:
            node, rest = stack[-1]
            parent = next(rest, None)
            if parent is None:
                stack.pop()
                open_nodes[node], done[node] = False, True
                order.append(node)
            elif open_nodes[parent]:
                way = [each for each, _ in stack]
                ring = [names[i] for i in [parent, *reversed(way[way.index(parent) :])]]
                check(False, "parents", "acyclic", f"the cycle {' -> '.join(ring)}", error=CyclicGraph)
            elif not done[parent]:
                open_nodes[parent] = True
                stack.append((parent, iter(parents[parent])))
    return order
