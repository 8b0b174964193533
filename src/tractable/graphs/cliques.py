r"""Maximal cliques of a graph that is given by plain rows of places.

Algorithm.   Bron and Kerbosch: a clique $R$ is extended by each candidate of $P$ that is no neighbour of a
             pivot, and $X$ holds what was tried; $R$ is maximal iff $P$ and $X$ are empty. Nodes come in an
             order of degeneracy, so that $|P|$ stays small in sparse graphs.
Cost.        $O(d\,n\,3^{d/3})$ for degeneracy $d$.
References.  Bron and Kerbosch (1973); Tomita et al. (2006); Eppstein, Loffler and Strash (2010).
"""

from collections.abc import Iterator, Sequence

__all__ = ["maximal_cliques"]


def maximal_cliques(links: Sequence[frozenset[int]]) -> Iterator[tuple[int, ...]]:
    """All maximal cliques of a graph given by the neighbours of each place.

    >>> triangle_with_tail = [{1, 2}, {0, 2}, {0, 1, 3}, {2}]
    >>> sorted(sorted(clique) for clique in maximal_cliques([frozenset(row) for row in triangle_with_tail]))
    [[0, 1, 2], [2, 3]]
    """
    order = _degeneracy_order(links)
    rank = {node: i for i, node in enumerate(order)}
    for node in order:
        later = {other for other in links[node] if rank[other] > rank[node]}
        yield from _extended((node,), later, set(links[node]) - later, links)


def _degeneracy_order(links: Sequence[frozenset[int]]) -> list[int]:
    """Nodes by repeatedly taking one with fewest neighbours left, through buckets of equal degree."""
    degree = [len(row) for row in links]
    buckets: list[set[int]] = [set() for _ in range(max(degree, default=0) + 1)]
    for node, d in enumerate(degree):
        buckets[d].add(node)
    order, taken, least = [], [False] * len(links), 0
    for _ in links:
        least = max(least - 1, 0)  # a removal lowers degrees by one at most
        while not buckets[least]:
            least += 1
        node = buckets[least].pop()
        order.append(node)
        taken[node] = True
        for other in links[node]:
            if not taken[other]:
                buckets[degree[other]].remove(other)
                degree[other] -= 1
                buckets[degree[other]].add(other)
    return order


def _extended(
    clique: tuple[int, ...], candidates: set[int], excluded: set[int], links: Sequence[frozenset[int]]
) -> Iterator[tuple[int, ...]]:
    if not candidates and not excluded:
        yield clique
        return
    # neighbours of the pivot are found with it or with another non-neighbour: skipped here
    pivot = max(candidates | excluded, key=lambda node: len(candidates & links[node]))
    for node in sorted(candidates - links[pivot]):
        yield from _extended((*clique, node), candidates & links[node], excluded & links[node], links)
        candidates.remove(node)
        excluded.add(node)
