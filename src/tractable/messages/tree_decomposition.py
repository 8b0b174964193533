r"""Tree decompositions of a graph, chordal graphs, and triangulation by chords.

Definition.  Bags $X_i \subseteq V$ on a tree with (1) $\bigcup_i X_i = V$; (2) every edge inside some bag;
             (3) running intersection: $X_i \cap X_k \subseteq X_j$ for each $j$ on the path from $i$ to $k$.
             The width is $\max_i |X_i| - 1$; separators are the intersections of adjacent bags.
Chordal.     Every cycle of four or more has a chord; equivalently a perfect elimination order exists, and
             then the maximal cliques on a spanning tree of largest separators are a tree decomposition.
Cost.        Polynomial; the search for chordless cycles is for small graphs.
References.  Tarjan and Yannakakis (1984); Koller and Friedman (2009) sections 4.5 and 10.4.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tractable.core.checks import check
from tractable.messages.searches import components, shortest_way

__all__ = ["TreeDecomposition", "add_chords", "chordless_cycle", "is_chordal", "maximal_bags", "neighbours"]

Edge = tuple[int, int]


@dataclass(frozen=True)
class TreeDecomposition:
    """Bags of vertices and the edges of a tree (or forest) between them."""

    bags: tuple[frozenset[int], ...]
    edges: tuple[Edge, ...]

    @classmethod
    def from_bags(cls, bags: Iterable[Iterable[int]]) -> "TreeDecomposition":
        """Join bags by a spanning tree of largest total separator size (Kruskal; ties by position).

        >>> found = TreeDecomposition.from_bags([{0, 1}, {1, 2, 3}, {3, 4}])
        >>> found.width, [sorted(s) for s in found.separators]
        (2, [[1], [3]])
        """
        sets = tuple(frozenset(bag) for bag in bags)
        links = [(i, j) for i, j in combinations(range(len(sets)), 2) if sets[i] & sets[j]]
        group, chosen = list(range(len(sets))), []
        for i, j in sorted(links, key=lambda link: -len(sets[link[0]] & sets[link[1]])):
            if group[i] != group[j]:
                chosen.append((i, j))
                old = group[j]
                group = [group[i] if g == old else g for g in group]
        return cls(sets, tuple(sorted(chosen)))

    @property
    def width(self) -> int:
        """The size of the largest bag less one."""
        return max(map(len, self.bags), default=0) - 1

    @property
    def separators(self) -> tuple[frozenset[int], ...]:
        """What the bags at the ends of each edge share."""
        return tuple(self.bags[i] & self.bags[j] for i, j in self.edges)

    def faults(self, vertices: Iterable[int], edges: Iterable[Edge]) -> list[str]:
        """What keeps this from being a tree decomposition of a graph; an empty list if nothing does."""
        found = [f"vertex {v} is in no bag" for v in vertices if not any(v in bag for bag in self.bags)]
        found += [
            f"edge {(u, v)} is in no bag" for u, v in edges if not any({u, v} <= bag for bag in self.bags)
        ]
        if len(self.edges) != len(self.bags) - self._num_parts(range(len(self.bags))):
            found.append("the edges between the bags close a cycle")
        for v in sorted(set().union(*self.bags)) if self.bags else []:
            if self._num_parts([i for i, bag in enumerate(self.bags) if v in bag]) > 1:
                found.append(f"the bags with vertex {v} are not connected (running intersection)")
        return found

    def check_covers(self, vertices: Iterable[int], edges: Iterable[Edge]) -> None:
        """Raise unless this is a tree decomposition of the graph."""
        found = self.faults(vertices, edges)
        check(not found, "bags", "a tree decomposition of the graph", "; ".join(found))

    def _num_parts(self, members: Iterable[int]) -> int:
        near: dict[int, list[int]] = {i: [] for i in members}
        for i, j in self.edges:
            if i in near and j in near:
                near[i].append(j)
                near[j].append(i)
        return len(components(near))


def is_chordal(num: int, edges: Iterable[Edge]) -> bool:
    """Whether every cycle of at least four vertices has a chord (maximum cardinality search).

    >>> square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> is_chordal(4, square), is_chordal(4, [*square, (0, 2)])
    (False, True)
    """
    near = neighbours(num, edges)
    order, place = _cardinality_order(near)
    for v in order:
        before = [u for u in near[v] if place[u] < place[v]]
        if before:
            latest = max(before, key=place.__getitem__)
            if not set(before) - {latest} <= near[latest]:
                return False
    return True


def chordless_cycle(num: int, edges: Iterable[Edge]) -> tuple[int, ...] | None:
    """A cycle of at least four vertices without a chord, or None: the graph is chordal."""
    near = neighbours(num, edges)
    for v in range(num):
        for a, b in combinations(sorted(near[v]), 2):
            if b in near[a]:
                continue
            path = shortest_way(near, [a], [b], {*near[v], v} - {b})  # a shortest way has no chords
            if path:
                return (v, *path)
    return None


def add_chords(num: int, edges: Iterable[Edge]) -> tuple[list[Edge], TreeDecomposition]:
    """Add chords to chordless cycles until there is none; the chords, and the tree of maximal bags.

    >>> chords, tree = add_chords(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> chords, tree.width
    ([(0, 2)], 2)
    """
    edges, chords = list(edges), []
    while (cycle := chordless_cycle(num, edges + chords)) is not None:
        chords.append((min(cycle[0], cycle[2]), max(cycle[0], cycle[2])))
    return chords, TreeDecomposition.from_bags(maximal_bags(num, edges + chords))


def maximal_bags(num: int, edges: Sequence[Edge]) -> list[frozenset[int]]:
    """The maximal cliques of a chordal graph."""
    check(is_chordal(num, edges), "edges", "those of a chordal graph", chordless_cycle(num, edges))
    near = neighbours(num, edges)
    order, place = _cardinality_order(near)
    cliques = [frozenset({v} | {u for u in near[v] if place[u] < place[v]}) for v in order]
    return [c for c in cliques if not any(c < other for other in cliques)]


def _cardinality_order(near: dict[int, set[int]]) -> tuple[list[int], dict[int, int]]:
    """Each next vertex has the most neighbours before it; the reverse is perfect if any order is."""
    order, place = [], {}
    while len(order) < len(near):
        left = (v for v in near if v not in place)
        v = max(left, key=lambda w: (sum(u in place for u in near[w]), -w))
        place[v] = len(order)
        order.append(v)
    return order, place


def neighbours(num: int, edges: Iterable[Edge]) -> dict[int, set[int]]:
    """The neighbours of each vertex."""
    near: dict[int, set[int]] = {v: set() for v in range(num)}
    for u, v in edges:
        check(0 <= u < num and 0 <= v < num and u != v, "edges", f"pairs of vertices below {num}", (u, v))
        near[u].add(v)
        near[v].add(u)
    return near
