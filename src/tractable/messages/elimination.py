r"""Elimination orders of discrete models: greedy search on the graph of who shares a factor with whom.

Step.        To sum out $x_v$, the factors that hold it are multiplied into one table over its bag
             $\{v\} \cup N(v)$; afterwards the neighbours $N(v)$ are joined. The bags are all that costs.
Rules.       Greedy: least fill, least degree or least weight (states of the bag) goes next; equal scores go
             to the smaller table, then to the lower index. `best` compares them and, where tables are large,
             a band order and random tie-breaks, and keeps the fewest cells. The optimum is NP-hard.
Cost.        Common neighbours are counted on rows of bits: 1000 variables in a tenth of a second. What
             the order will cost is predicted by messages.cost.
References.  Kjaerulff (1990); Koller and Friedman (2009) section 9.4; Cuthill and McKee (1969).
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np

from tractable.core.checks import check, check_option
from tractable.core.host_random import generator
from tractable.messages.cost import Cost, cost_of_bags
from tractable.messages.elimination_bags import Bags, bag_tree

__all__ = ["Order", "bags_of_order", "elimination_order", "index_scopes", "relevant_factors"]

RULES = ("min_fill", "min_degree", "min_weight", "best")
LARGE = 1_000_000  # cells from which a search among random tie-breaks takes less time than it saves
NUM_RESTARTS = 10
Eliminated = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Order:
    """An elimination order with its predicted cost; `treewidth` is the width that it attains."""

    order: tuple[int, ...]
    cost: Cost
    rule: str

    @property
    def treewidth(self) -> int:
        """The size of the largest bag less one: an upper bound on the treewidth of the graph."""
        return self.cost.treewidth

    @property
    def num_cells(self) -> float:
        """The cells of the tables of all maximal bags."""
        return self.cost.num_cells


def elimination_order(
    scopes: Sequence[Sequence[int]],
    sizes: Sequence[int] | np.ndarray,
    rule: str = "min_fill",
    keep: Iterable[int] = (),
) -> Order:
    """An order in which to sum out all variables but `keep`, and its cost.

    `scopes` lists the variables (0, 1, ...) of each factor and `sizes` the number of states of each variable;
    variables with one state (clamped ones) join nothing. The cost includes a junction tree of those kept.

    >>> cycle = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> found = elimination_order(cycle, [2, 2, 2, 2])
    >>> found.order, found.treewidth, int(found.num_cells)
    ((0, 1, 2, 3), 2, 16)
    """
    check_option("rule", rule, RULES)
    starts, flat, sizes = index_scopes(scopes, sizes)
    kept = {int(v) for v in keep}
    check(kept <= set(range(sizes.size)), "keep", f"variables from 0 to {sizes.size - 1}", sorted(kept))
    found = best_order(starts, flat, sizes, rule, kept)[0]
    return Order(found.order[: sizes.size - len(kept)], found.cost, found.rule)


def best_order(
    starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray, rule: str, keep: Iterable[int] = ()
) -> tuple[Order, Bags]:
    """`elimination_order` for scopes as index arrays, with the bags of the order; those kept go last."""
    graph, cells = _Graph(starts, flat, sizes, keep), count_factor_cells(starts, flat, sizes)

    def priced(bags: Bags, name: str) -> tuple[Order, Bags]:
        cost = cost_of_bags(bags, sizes, cells, starts.size - 1)
        return Order(tuple(bags.order.tolist()), cost, name), bags

    ranks = range(sizes.size)
    names = ("min_fill", "min_weight") if rule == "best" else (rule,)
    found = [priced(bag_tree(*graph.greedy(name, ranks)), name) for name in names]
    if rule == "best" and min(order.num_cells for order, _ in found) > LARGE:
        if not graph.last:
            band = _band_order(starts, flat, sizes)
            found.append(priced(bag_tree(*graph.in_order(band.tolist())), "band"))
        numbers = generator(0)  # the same plan in every process
        for _ in range(NUM_RESTARTS):
            fewest = min(order.num_cells for order, _ in found)
            again = graph.greedy("min_fill", numbers.permutation(sizes.size).tolist(), 2 * fewest)
            found += [priced(bag_tree(*again), "min_fill")] if again[0].size == sizes.size else []
    return min(found, key=lambda entry: entry[0].num_cells)


def bags_of_order(starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray, order: Iterable[Any]) -> Bags:
    """The tree of maximal bags when the variables go in the given order."""
    given = np.fromiter(order, np.int64)
    whole = np.array_equal(np.sort(given), np.arange(sizes.size))
    check(whole, "order", f"a permutation of the {sizes.size} variables", given.tolist())
    return bag_tree(*_Graph(starts, flat, sizes).in_order(given.tolist()))


def relevant_factors(
    scopes: Sequence[Sequence[int]], children: Sequence[int], keep: Iterable[int]
) -> tuple[int, ...]:
    r"""Conditional tables that matter for `keep` (targets and evidence): those of `keep` and its ancestors.

    Factor `i` is $p(x_c \mid \text{rest of its scope})$ with $c$ = `children[i]`. All other variables are
    barren: summed out last to first, each leaves a factor of one.

    >>> relevant_factors([(0,), (0, 1), (1, 2)], [0, 1, 2], keep=[1])
    (0, 1)
    """
    table_of = {child: number for number, child in enumerate(children)}
    waiting, seen = list(keep), set()
    while waiting:
        variable = waiting.pop()
        if variable not in seen:
            seen.add(variable)
            waiting.extend(v for v in scopes[table_of[variable]] if v != variable)
    return tuple(sorted(table_of[variable] for variable in seen))


def index_scopes(scopes: Sequence[Sequence[int]], sizes: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checked scopes as (starts, variables), and the sizes, all arrays of integers."""
    counts = np.asarray(sizes, dtype=np.int64).reshape(-1) if len(sizes) else np.zeros(0, np.int64)
    check(bool((counts >= 1).all()), "sizes", "at least one state for each variable", counts.tolist())
    starts = np.zeros(len(scopes) + 1, np.int64)
    np.cumsum([len(scope) for scope in scopes], out=starts[1:])
    flat = np.fromiter((v for scope in scopes for v in scope), np.int64, starts[-1])
    for number, scope in enumerate(scopes):
        good = len(set(scope)) == len(scope) and all(0 <= v < counts.size for v in scope)
        if not good:
            must = f"distinct variables from 0 to {counts.size - 1}"
            check(False, f"scopes[{number}]", must, tuple(scope))
    return starts, flat, counts


def count_factor_cells(starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray) -> float:
    """The cells of all factors together."""
    filled = np.append(sizes[flat].astype(float), 1.0)  # `reduceat` needs an entry after the last scope
    products = np.multiply.reduceat(filled, starts[:-1]) if starts.size > 1 else np.zeros(0)
    return float(np.where(np.diff(starts) > 0, products, 1.0).sum())


class _Graph:
    """The graph that joins the variables of each scope; its last vertices go after all others."""

    def __init__(self, starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray, last: Iterable[int] = ()):
        self.log_sizes, self.last = np.log2(sizes).tolist(), frozenset(last)
        self.near: list[set[int]] = [set() for _ in range(sizes.size)]
        variables, single = flat.tolist(), (sizes == 1).tolist()  # single states join nothing
        for low, high in pairwise(starts.tolist()):
            scope = [v for v in variables[low:high] if not single[v]]
            for v in scope:
                self.near[v].update(scope)
        for v, around in enumerate(self.near):
            around.discard(v)

    def in_order(self, order: Sequence[int]) -> Eliminated:
        """The order, and the neighbours of each vertex when it goes (starts and vertices)."""
        near = [set(around) for around in self.near]
        return _indexed(list(order), [_remove(near, [0] * len(near), v)[0] for v in order])

    def greedy(self, rule: str, rank: Sequence[int], most_cells: float = np.inf) -> Eliminated:
        """As `in_order`, the vertex of least score first; equal ones by weight, then by `rank`.

        The search is left as soon as its bags have more than `most_cells` cells.
        """
        near, log_size, last = [set(around) for around in self.near], self.log_sizes.__getitem__, self.last
        bits = [sum(1 << u for u in around) for around in near]
        weight = [round(log_size(v) + sum(map(log_size, around)), 9) for v, around in enumerate(near)]
        fill = [_fill(near[v], bits, v) for v in range(len(near))] if rule == "min_fill" else []

        @no_type_check
        def entry(v):
            score = fill[v] if fill else len(near[v]) if rule == "min_degree" else weight[v]
            return v in last, score, weight[v], rank[v], v

        current = [entry(v) for v in range(len(near))]
        heap, order, kept, cells = list(current), [], [], 0.0
        heapq.heapify(heap)
        while len(order) < len(near) and cells <= most_cells:
            chosen = heapq.heappop(heap)
            v = chosen[-1]
            if current[v] is not chosen:
                continue  # its score has changed since
            around, new = _remove(near, bits, v)
            order.append(v)
            kept.append(around)
            current[v], cells = (), cells + 2.0 ** chosen[2]
            if len(around) == len(near) - len(order):  # what is left is a clique: all scores are equal
                rest = sorted(around, key=lambda u: (u in last, rank[u]))
                return _indexed(order + rest, kept + [set(rest[i + 1 :]) for i in range(len(rest))])
            for u in around:
                weight[u] = round(log_size(u) + sum(map(log_size, near[u])), 9)
            stale = set(around)
            if fill:
                for u in around:  # without new edges, `v` is only missed by those that it did not know
                    gone = len(near[u]) + 1 - len(around)
                    fill[u] = _fill(near[u], bits, u) if new else fill[u] - gone
                for u, w in new:  # one pair less is missing around each common neighbour
                    for x in (near[u] & near[w]) - around:
                        fill[x] -= 1
                        stale.add(x)
            for u in stale:
                current[u] = entry(u)
                heapq.heappush(heap, current[u])
        return _indexed(order, kept)


# `no_type_check`: run-time checks of these two would take longer than they do
@no_type_check
def _fill(around, bits, v):
    """The pairs of neighbours of a vertex that are not joined."""
    own = bits[v]
    joined = sum([(bits[u] & own).bit_count() for u in around])
    return (len(around) * (len(around) - 1) - joined) // 2


@no_type_check
def _remove(near, bits, v):
    """Take a vertex away and join its neighbours: those, and the new edges."""
    around, new = near[v], []
    for u in around:
        new += [(u, w) for w in around - near[u] if w > u]
    for u in around:
        near[u] |= around
        near[u] -= {u, v}
        bits[u] = (bits[u] | bits[v]) & ~(1 << u | 1 << v)
    return around, new


def _indexed(order: list[int], kept: list[set[int]]) -> Eliminated:
    starts = np.cumsum([0, *map(len, kept)], dtype=np.int64)
    return np.array(order, np.int64), starts, np.array([u for row in kept for u in row], np.int64)


def _band_order(starts, flat, sizes) -> np.ndarray:
    """The reverse Cuthill-McKee order: a narrow front that sweeps the graph, good for grids and strips."""
    from scipy.sparse import csr_array  # large plans alone pay for the import
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    live = (sizes[flat] > 1).astype(np.int64)
    held = csr_array((live, flat, starts), shape=(starts.size - 1, sizes.size))
    joined = (held.T @ held).tolil()
    joined.setdiag(0)
    joined = joined.tocsr()
    joined.eliminate_zeros()
    return reverse_cuthill_mckee(joined, symmetric_mode=True)
