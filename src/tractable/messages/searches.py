r"""Searches in graphs that are plain rows of neighbours: what is reached, components, shortest ways.

Forest.      A graph has no cycle iff it has as many edges as nodes less components.
Cost.        Linear in the edges.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["closure", "components", "shortest_way", "traced"]

Rows = Sequence[Iterable[int]] | Mapping[Any, Iterable[Any]]  # the neighbours of each node


def closure(rows: Rows, start: Iterable[Any]) -> set[Any]:
    """`start` and all nodes reached along `rows` (neighbours: a component; parents: ancestors)."""
    seen = set(start)
    stack = list(seen)
    while stack:
        for other in rows[stack.pop()]:
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def components(rows: Rows) -> list[set[Any]]:
    """The connected components, by the first node of each."""
    found, seen = [], set()
    for node in rows if isinstance(rows, Mapping) else range(len(rows)):
        if node not in seen:
            found.append(closure(rows, [node]))
            seen |= found[-1]
    return found


def shortest_way(
    rows: Rows, sources: Iterable[Any], targets: Collection[Any], closed: Collection[Any] = ()
) -> list[Any] | None:
    """A shortest way from `sources` to `targets` that meets no node of `closed` on the way, or None."""
    before: dict[Any, Any] = dict.fromkeys(sources)
    queue = deque(before)
    while queue:
        node = queue.popleft()
        if node in targets:
            return traced(before, node)
        for other in rows[node]:
            if other not in before and other not in closed:
                before[other] = node
                queue.append(other)
    return None


def traced(before: Mapping[Any, Any], last: Any) -> list[Any]:
    """The way of a search to `last`, from what was `before` each state (None at the start)."""
    way = [last]
    while before[way[-1]] is not None:
        way.append(before[way[-1]])
    return way[::-1]
