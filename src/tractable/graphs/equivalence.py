r"""Which graphs say the same: Markov equivalence, and what is lost between directed and undirected graphs.

Identities.  Two directed graphs imply the same independencies iff they have the same skeleton and the same
             v-structures $a \to c \leftarrow b$ with $a, b$ not adjacent. The completed graph (CPDAG) directs
             the edges that all equivalent graphs direct alike: the v-structures, and what Meek's rules imply.
             The moral graph implies the same independencies as the directed one iff nobody is married; an
             undirected graph has a directed one with the same independencies iff it is chordal.
Cost.        Polynomial: Meek's rules are repeated until no edge turns; a check of a table is linear in it.
References.  Verma and Pearl (1990); Meek (1995); Koller and Friedman (2009), sections 3.3 and 4.5.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from tractable.core.checks import check
from tractable.distributions.table_statistics import Independence
from tractable.distributions.tables import JointTable
from tractable.graphs.dag import DAG
from tractable.graphs.undirected import IndependenceStatement, UndirectedGraph

__all__ = [
    "CPDAG", "Moralised", "Oriented", "check_independencies", "completed", "markov_equivalent",
    "meek_closure", "moralise", "orient", "v_structures",
]  # fmt: skip

Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class CPDAG:
    """A class of equivalent directed graphs: `directed` edges (parent, child) are those of all members.

    `undirected` edges, their ends in the order of `names`, have either direction in some member.
    """

    names: tuple[str, ...]
    directed: Pairs
    undirected: Pairs

    def __repr__(self) -> str:
        arrows = [f"{a} -> {b}" for a, b in sorted(self.directed)]
        lines = [f"{a} - {b}" for a, b in sorted(self.undirected)]
        return f"CPDAG({len(self.names)} nodes: {', '.join(arrows + lines)})"


@dataclass(frozen=True)
class Moralised:
    """The moral graph, the pairs that were married, and independencies that it no longer shows."""

    graph: UndirectedGraph
    married: tuple[tuple[str, str], ...]
    lost: tuple[IndependenceStatement, ...]


@dataclass(frozen=True)
class Oriented:
    """A directed graph for an undirected one, the edges it had to add, and independencies lost with them."""

    dag: DAG
    added: tuple[tuple[str, str], ...]
    lost: tuple[IndependenceStatement, ...]


def v_structures(dag: DAG) -> frozenset[tuple[str, str, str]]:
    """All $(a, c, b)$ with $a \\to c \\leftarrow b$, $a$ and $b$ not adjacent and in alphabetical order."""
    skeleton, found = dag.skeleton(), set()
    for name in dag.names:
        for a, b in combinations(sorted(dag.parents(name)), 2):
            if not skeleton.adjacent(a, b):
                found.add((a, name, b))
    return frozenset(found)


def markov_equivalent(first: DAG, second: DAG) -> bool:
    """Whether two graphs over the same names imply the same independencies.

    >>> chain, fork = DAG({"b": ["a"], "c": ["b"]}), DAG({"a": ["b"], "c": ["b"]})
    >>> markov_equivalent(chain, fork), markov_equivalent(chain, DAG({"b": ["a", "c"]}))
    (True, False)
    """
    same_nodes = set(first.names) == set(second.names)
    check(same_nodes, "second", f"a graph over the names {sorted(first.names)}", sorted(second.names))
    edges = [frozenset(map(frozenset, dag.edges)) for dag in (first, second)]
    return edges[0] == edges[1] and v_structures(first) == v_structures(second)


def completed(dag: DAG) -> CPDAG:
    """The class of graphs that are Markov equivalent to `dag`.

    >>> completed(DAG({"c": ["a", "b"], "d": ["c"]}))
    CPDAG(4 nodes: a -> c, b -> c, c -> d)
    """
    directed = {(parent, c) for a, c, b in v_structures(dag) for parent in (a, b)}
    return meek_closure(dag.skeleton(), directed)


def meek_closure(skeleton: UndirectedGraph, directed: Iterable[tuple[str, str]]) -> CPDAG:
    """The edges of `skeleton`, with `directed` and all directions that follow from them.

    A direction follows where the other one would make a new v-structure or a cycle (rules 1 to 4).
    """
    arrows = set(directed)
    for a, b in arrows:
        check(skeleton.adjacent(a, b), "directed", "edges of the skeleton", f"{a} -> {b}")
    near = {name: set(skeleton.neighbours(name)) for name in skeleton.names}
    waiting = [(a, b) for a, b in skeleton.edges if (a, b) not in arrows and (b, a) not in arrows]
    turned = True
    while turned:
        turned = False
        for a, b in waiting:
            found = next((e for e in ((a, b), (b, a)) if _follows(*e, near, arrows)), None)
            if found is not None:
                arrows.add(found)
                turned = True
        waiting = [(a, b) for a, b in waiting if (a, b) not in arrows and (b, a) not in arrows]
    return CPDAG(skeleton.names, frozenset(arrows), frozenset(waiting))


def moralise(dag: DAG) -> Moralised:
    """The moral graph, with the pairwise independencies of `dag` that it no longer shows.

    >>> found = moralise(DAG({"c": ["a", "b"]}))
    >>> found.married, str(found.lost[0])
    ((('a', 'b'),), 'a _|_ b')
    """
    moral = dag.moral()
    hidden = (s for s in dag.pairwise_independencies() if not moral.separated(s.x, s.y, s.given))
    return Moralised(moral, dag.marriages(), tuple(hidden))


def orient(graph: UndirectedGraph) -> Oriented:
    """A directed graph whose independencies hold in `graph`: chords are added until no cycle lacks one.

    >>> square = UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    >>> len(orient(square).added), len(orient(square).lost)
    (1, 1)
    """
    import networkx

    chordal = UndirectedGraph.from_networkx(networkx.complete_to_chordal_graph(graph.to_networkx())[0])
    order = _perfect_order(chordal)
    parents = {
        name: [other for other in order[:i] if chordal.adjacent(other, name)] for i, name in enumerate(order)
    }
    added = [pair for pair in chordal.edges if not graph.adjacent(*pair)]
    lost = [s for s in graph.pairwise_independencies() if (*s.x, *s.y) in added or (*s.y, *s.x) in added]
    return Oriented(DAG(parents), tuple(added), tuple(lost))


def check_independencies(
    joint: JointTable, statements: Iterable[IndependenceStatement], tol: float = 1e-9
) -> dict[IndependenceStatement, Independence]:
    """Which statements hold in a joint table, with how far each is off.

    `check_independencies(joint, dag.local_independencies())` checks the local Markov property,
    `graph.pairwise_independencies()` the pairwise one of an undirected graph.
    """
    return {each: joint.independence(each.x, each.y, each.given, tol) for each in statements}


def _perfect_order(graph: UndirectedGraph) -> list[str]:
    """Maximum cardinality search: in a chordal graph, the neighbours before each node are then a clique."""
    weight = dict.fromkeys(graph.names, 0)
    order = []
    while weight:
        name = max(weight, key=lambda each: weight[each])
        del weight[name]
        order.append(name)
        for other in graph.neighbours(name):
            if other in weight:
                weight[other] += 1
    return order


def _follows(a: str, b: str, near: dict[str, set[str]], arrows: set[tuple[str, str]]) -> bool:
    """Whether Meek's rules direct the edge $a - b$ as $a \\to b$."""
    if any((c, a) in arrows and c not in near[b] for c in near[a] - {b}):
        return True  # 1: c -> a - b would become a v-structure
    between = near[a] & near[b]
    if any((a, c) in arrows and (c, b) in arrows for c in between):
        return True  # 2: b -> a would close a cycle
    into = [c for c in between if (c, b) in arrows]
    open_into = [c for c in into if (a, c) not in arrows and (c, a) not in arrows]
    if any(d not in near[c] for c, d in combinations(open_into, 2)):
        return True  # 3: a - c -> b and a - d -> b
    # 4: a - d -> c -> b with b, d not adjacent (only where directions were given from outside)
    return any((d, c) in arrows and d in near[a] and d not in near[b] for c in into for d in near[c] - {a, b})
