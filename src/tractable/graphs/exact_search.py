r"""Structures that are proved best: the DAG of highest score over all orders, the tree of highest likelihood.

Orders.      With $b_i(S)$ the best that variable $i$ can score when $S$ comes before it,
             $R(S) = \max_{i \in S} R(S \setminus i) + b_i(S \setminus i)$ is the best over all orders of $S$.
Subsets.     $b_i(S) = \max_{P \subseteq S} \mathrm{score}(i, P)$, one variable of $S$ at a time.
Trees.       $\log L = \sum_{ij} N\,I(x_i; x_j) - N \sum_i H(x_i)$ over the edges: a maximum spanning tree.
Cost.        $O(n 2^n)$ after $2^n$ counts: 15 variables in seconds, at most 20; trees take $O(n^2)$ counts.
References.  Silander and Myllymaki (2006); Koivisto and Sood (2004); Chow and Liu (1968).
"""

import math

import numpy as np

from tractable.core.checks import check
from tractable.core.progress import track
from tractable.core.types import Bool, Float, Int
from tractable.graphs.dag import DAG
from tractable.graphs.scores import FamilyScores

__all__ = ["best_order", "chow_liu", "dag_of", "exact_structure"]

_MOST_EXACT = 20  # 2^20 sets are minutes and hundreds of megabytes


def exact_structure(
    scores: FamilyScores,
    allowed: Bool[np.ndarray, "n n"] | None = None,
    needed: Bool[np.ndarray, "n n"] | None = None,
    max_parents: int | None = None,
) -> DAG:
    """The DAG of highest score; `allowed[i, j]` and `needed[i, j]` speak of the edge from `i` to `j`."""
    n, fix = len(scores.names), "Use the method 'tabu', or fewer variables."
    check(n <= _MOST_EXACT, "frame", f"of at most {_MOST_EXACT} columns for an exact search", n, fix)
    most = scores.most_parents() if needed is None else n - 1
    tables = scores.family_tables(most if max_parents is None else min(most, max_parents))
    masks, bits = np.arange(1 << n), 1 << np.arange(n)
    for child in range(n):
        if allowed is not None:
            tables[child, masks & bits[~allowed[:, child]].sum() != 0] = -math.inf
        if needed is not None:
            must = bits[needed[:, child]].sum()
            tables[child, masks & must != must] = -math.inf
    best, choice = _best_subsets(tables)
    order = best_order(best)
    check(order is not None, "forbidden, required", "limits that some acyclic graph meets", "none does")
    adjacency, before = np.zeros((n, n), bool), 0
    for i in order or ():
        adjacency[:, i] = choice[i, before] & bits != 0
        before |= 1 << i
    return dag_of(scores.names, adjacency)


def best_order(best: Float[np.ndarray, "n masks"]) -> list[int] | None:
    r"""The order with the highest sum of `best[i, mask of those before i]`; None if every sum is $-\infty$.

    >>> best_order(np.array([[0.0, -9.0, 5.0, -9.0], [0.0, 1.0, -9.0, -9.0]]))  # 0 gains 5 after 1
    [1, 0]
    """
    n, size = best.shape
    masks = np.arange(size)
    value, last = np.full(size, -math.inf), np.zeros(size, int)
    value[0], count = 0.0, np.bitwise_count(masks)
    for level in track(range(1, n + 1), label="Ordering"):
        here = masks[count == level]
        for i in range(n):
            ending = here[here >> i & 1 == 1]
            before = ending ^ (1 << i)
            total = value[before] + best[i, before]
            better = total >= value[ending]  # of equal orders the one nearest to that of the columns
            value[ending[better]], last[ending[better]] = total[better], i
    if value[-1] == -math.inf:
        return None
    order, rest = [], size - 1
    for _ in range(n):
        order.append(int(last[rest]))
        rest ^= 1 << order[-1]
    return order[::-1]


def chow_liu(scores: FamilyScores, root: str | None = None) -> DAG:
    r"""The tree of highest likelihood: a maximum spanning tree of $N\,I(x_i; x_j)$, directed from `root`."""
    import networkx

    names = scores.names
    start = names[0] if root is None else root
    check(start in names, "root", f"one of the columns {names}", repr(root))
    graph = networkx.Graph()
    graph.add_nodes_from(names)
    for i in range(len(names)):
        for j in range(i):
            graph.add_edge(names[j], names[i], weight=scores.information(1 << i, 1 << j))
    tree = networkx.maximum_spanning_tree(graph)
    return DAG.from_edges(networkx.bfs_edges(tree, start), names)


def dag_of(names: tuple[str, ...], adjacency: Bool[np.ndarray, "n n"]) -> DAG:
    """The graph with an edge from `i` to `j` where `adjacency[i, j]`."""
    return DAG({name: [names[i] for i in np.flatnonzero(adjacency[:, j])] for j, name in enumerate(names)})


def _best_subsets(
    tables: Float[np.ndarray, "n masks"],
) -> tuple[Float[np.ndarray, "n masks"], Int[np.ndarray, "n masks"]]:
    r"""$\max_{P \subseteq S}$ and its argument, one bit at a time; ties keep the smaller set."""
    n, size = tables.shape
    best, choice = tables.copy(), np.broadcast_to(np.arange(size), (n, size)).copy()
    for bit in range(n):
        halves = (n, size >> (bit + 1), 2, 1 << bit)
        value, chosen = best.reshape(halves), choice.reshape(halves)
        without = value[:, :, 0] >= value[:, :, 1]
        value[:, :, 1] = np.where(without, value[:, :, 0], value[:, :, 1])
        chosen[:, :, 1] = np.where(without, chosen[:, :, 0], chosen[:, :, 1])
    return best, choice
