r"""Separation in directed graphs by two routes: Bayes ball, and the moralised ancestral graph.

Definition.  A trail is blocked by $C$ iff it has a chain or fork node in $C$, or a collider such that neither
             it nor any of its descendants is in $C$. If every trail from $A$ to $B$ is blocked, then
             $A \perp B \mid C$ in every distribution that factorises along the graph.
Routes.      Bayes ball: which (node, direction of arrival) are reached from $A$. Moral: the subgraph of
             the ancestors of $A \cup B \cup C$, parents married, directions dropped, $C$ deleted; separated
             iff nothing connects $A$ to $B$.
Cost.        Bayes ball is linear in the edges; the moral route also pays for the marriages.
References.  Pearl (1988); Geiger, Verma and Pearl (1990); Shachter (1998), "Bayes-ball"; Lauritzen et al.
             (1990); Koller and Friedman (2009), algorithm 3.1.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tractable.graphs.undirected import IndependenceStatement, UndirectedGraph
from tractable.messages.searches import closure, traced

__all__ = ["MoralSteps", "Trail", "active_trail"]

Rows = Sequence[Sequence[int]]
_ARRIVED_FROM_CHILD, _ARRIVED_FROM_PARENT = 0, 1


@dataclass(frozen=True)
class Trail:
    """An active trail: `arrows[i]` is `->` or `<-`, between `names[i]` and `names[i + 1]`."""

    names: tuple[str, ...]
    arrows: tuple[str, ...]

    @property
    def colliders(self) -> tuple[str, ...]:
        """The nodes where two arrows meet: observed, or with an observed descendant."""
        pairs = zip(self.names[1:], self.arrows, self.arrows[1:])
        return tuple(name for name, before, after in pairs if (before, after) == ("->", "<-"))

    def __str__(self) -> str:
        return self.names[0] + "".join(f" {a} {n}" for a, n in zip(self.arrows, self.names[1:]))

    def __repr__(self) -> str:
        return f"Trail({self})"


@dataclass(frozen=True)
class MoralSteps:
    """The graphs that decide separation, step by step; true iff `x` and `y` are separated.

    `ancestral`: the directed edges among the ancestors of all nodes asked about. `married`: the edges that
    moralisation adds. `moral`: all of these without directions. `remaining`: without the given nodes.
    `path`: a connection in it, or None.
    """

    statement: IndependenceStatement
    ancestral: tuple[tuple[str, str], ...]
    married: tuple[tuple[str, str], ...]
    moral: UndirectedGraph
    remaining: UndirectedGraph
    path: tuple[str, ...] | None

    def __bool__(self) -> bool:
        return self.path is None

    def __repr__(self) -> str:
        verdict = "no path: independence is guaranteed"
        if self.path is not None:
            verdict = f"path {' - '.join(self.path)}: independence is not guaranteed"
        return "\n".join(
            [
                f"{self.statement}?",
                f"1 ancestors  {', '.join(f'{a} -> {b}' for a, b in self.ancestral) or 'no edges'}",
                f"2 marry      {', '.join(f'{a} - {b}' for a, b in self.married) or 'nobody'}",
                f"3 disorient  {', '.join(f'{a} - {b}' for a, b in self.moral.edges) or 'no edges'}",
                f"4 delete     {', '.join(f'{a} - {b}' for a, b in self.remaining.edges) or 'no edges'}",
                f"5 {verdict}",
            ]
        )


def active_trail(
    parents: Rows, children: Rows, sources: Iterable[int], targets: Collection[int], given: Iterable[int]
) -> list[int] | None:
    """A shortest active trail from `sources` to `targets`, as places, or None where they are d-separated."""
    before = _bayes_ball(parents, children, sources, given, stop=frozenset(targets))
    last = next((state for state in before if state[0] in targets), None)
    return None if last is None else [node for node, _ in traced(before, last)]


def _bayes_ball(
    parents: Rows, children: Rows, sources: Iterable[int], given: Iterable[int], stop: Collection[int]
) -> dict[tuple[int, int], tuple[int, int] | None]:
    """The states that a ball reaches, each with the one before it; breadth first, to the first of `stop`.

    Colliders pass the ball up wherever they are ancestors of what is given: the shortest way then never
    walks down to an observed descendant and back, and so visits no node twice.
    """
    given = set(given)
    opened = closure(parents, given)
    before: dict[tuple[int, int], tuple[int, int] | None] = {(s, _ARRIVED_FROM_CHILD): None for s in sources}
    queue = deque(before)
    while queue:
        state = queue.popleft()
        node, arrival = state
        if node in stop:
            break
        ahead: list[tuple[int, int]] = []
        if node not in given:
            ahead += [(child, _ARRIVED_FROM_PARENT) for child in children[node]]
        if (node not in given) if arrival == _ARRIVED_FROM_CHILD else (node in opened):
            ahead += [(parent, _ARRIVED_FROM_CHILD) for parent in parents[node]]
        for other in ahead:
            if other not in before:
                before[other] = state
                queue.append(other)
    return before
