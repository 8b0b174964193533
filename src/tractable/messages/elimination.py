r"""Elimination orders of discrete models, and what they will cost, known before anything is computed.

Step.        To sum out $x_v$, the factors that hold it are multiplied into one table over its bag
             $\{v\} \cup N(v)$; afterwards the neighbours $N(v)$ are joined. The bags are all that costs.
Rules.       Greedy: least fill, least degree or least weight (states of the bag) goes next; equal scores go
             to the smaller table, then to the lower index. `best` compares them and, where tables are large,
             a band order and random tie-breaks, and keeps the fewest cells. The optimum is NP-hard.
Cost.        Cells of all bags $\sum_b \prod_{v \in b} K_v$: eight bytes each, separators beside them.
References.  Kjaerulff (1990); Koller and Friedman (2009) section 9.4; Cuthill and McKee (1969).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check, check_option
from tractable.messages import elimination_sets as sets
from tractable.messages.elimination_bags import Bags, bag_tree

__all__ = ["Bags", "Cost", "Order", "bags_of_order", "elimination_order", "index_scopes", "relevant_factors"]

RULES = ("min_fill", "min_degree", "min_weight", "best")
_CODES = {"min_fill": sets.FILL, "min_degree": sets.DEGREE, "min_weight": sets.WEIGHT}
LARGE = 1_000_000  # cells from which a search among random tie-breaks takes less time than it saves
NUM_RESTARTS = 30
BYTES_AT_LEAST, BYTES_PER_VARIABLE = 7_000, 220  # what Python itself needs for arrays and answers
SECONDS_AT_LEAST, SECONDS_PER_BAG, SECONDS_PER_PASS = 1.5e-4, 1e-6, 1.2e-9
SECONDS_PER_NEW_BYTE, BYTES_AT_HAND = 5e-10, 4e6  # large tables live in pages that the system clears first


@dataclass(frozen=True)
class Cost:
    """What a calibration will take: cells of all bags, the largest bag, bytes and seconds."""

    treewidth: int
    num_cells: float
    largest_table: float
    predicted_bytes: float
    predicted_seconds: float

    def __str__(self) -> str:
        return (
            f"treewidth {self.treewidth}, {self.num_cells:.3g} cells "
            f"(largest table {self.largest_table:.3g}), "
            f"{self.predicted_bytes / 1e6:.3g} MB, {self.predicted_seconds:.2g} s"
        )


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

    @property
    def predicted_bytes(self) -> float:
        """Memory that a calibration will take, factors included."""
        return self.cost.predicted_bytes

    @property
    def predicted_seconds(self) -> float:
        """Rough time of all marginals on one core."""
        return self.cost.predicted_seconds


def elimination_order(
    scopes: Sequence[Sequence[int]], sizes: Sequence[int] | np.ndarray, rule: str = "min_fill"
) -> Order:
    """An order in which to sum out all variables, and its cost.

    `scopes` lists the variables (0, 1, ...) of each factor and `sizes` the number of states of each variable;
    variables with one state (clamped ones) join nothing.

    >>> cycle = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> found = elimination_order(cycle, [2, 2, 2, 2])
    >>> found.order, found.treewidth, int(found.num_cells)
    ((0, 1, 2, 3), 2, 16)
    """
    check_option("rule", rule, RULES)
    starts, flat, sizes = index_scopes(scopes, sizes)
    return best_order(starts, flat, sizes, rule)[0]


def best_order(starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray, rule: str) -> tuple[Order, Bags]:
    """`elimination_order` for scopes as index arrays, with the bags of the order."""
    if rule != "best":
        bags = _greedy(starts, flat, sizes, rule, np.arange(sizes.size))
        return _priced(bags, starts, flat, sizes, rule)
    found = [
        _priced(_greedy(starts, flat, sizes, name, np.arange(sizes.size)), starts, flat, sizes, name)
        for name in ("min_fill", "min_weight")
    ]
    if min(order.num_cells for order, _ in found) > LARGE:
        band = bags_of_order(starts, flat, sizes, _band_order(starts, flat, sizes))
        found.append(_priced(band, starts, flat, sizes, "band"))
        generator = np.random.default_rng(0)  # the same plan in every process
        for _ in range(NUM_RESTARTS):
            bags = _greedy(starts, flat, sizes, "min_fill", generator.permutation(sizes.size))
            found.append(_priced(bags, starts, flat, sizes, "min_fill"))
    return min(found, key=lambda entry: entry[0].num_cells)


def bags_of_order(starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray, order: Iterable[Any]) -> Bags:
    """The tree of maximal bags when the variables go in the given order."""
    given = np.fromiter(order, np.int64)
    whole = np.array_equal(np.sort(given), np.arange(sizes.size))
    check(whole, "order", f"a permutation of the {sizes.size} variables", given.tolist())
    return _tree(starts, flat, sizes, sets.GIVEN, np.arange(sizes.size), given)


def cost_of_bags(bags: Bags, sizes: np.ndarray, factor_cells: float, num_factors: int) -> Cost:
    """The predicted cost of a calibration of `bags` when the variables have `sizes` states."""
    if not bags.parent.size:
        return Cost(-1, 0.0, 0.0, BYTES_AT_LEAST + 24.0 * factor_cells, SECONDS_AT_LEAST)
    numbers = sizes[bags.variables].astype(float)
    lengths = np.diff(bags.start)
    place = np.arange(numbers.size) - np.repeat(bags.start[:-1], lengths)
    shared = place < np.repeat(bags.separator, lengths)
    cells = np.multiply.reduceat(numbers, bags.start[:-1])
    above = np.multiply.reduceat(np.where(shared, numbers, 1.0), bags.start[:-1])
    live = np.add.reduceat((numbers > 1).astype(int), bags.start[:-1])
    below = bags.parent[bags.parent >= 0]
    passes = 4 * cells.sum() + 2 * cells[below].sum() + factor_cells
    num_bytes = 8 * (cells.sum() + above.sum() + above.max() + 2 * factor_cells) + 64 * num_factors
    num_bytes += BYTES_AT_LEAST + BYTES_PER_VARIABLE * sizes.size
    seconds = SECONDS_AT_LEAST + SECONDS_PER_BAG * (cells.size + num_factors) + SECONDS_PER_PASS * passes
    seconds += SECONDS_PER_NEW_BYTE * max(num_bytes - BYTES_AT_HAND, 0.0)
    return Cost(
        treewidth=int(max(live.max() - 1, 0)),
        num_cells=float(cells.sum()),
        largest_table=float(cells.max()),
        predicted_bytes=float(num_bytes),
        predicted_seconds=float(seconds),
    )


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


def _greedy(starts, flat, sizes, rule, rank) -> Bags:
    return _tree(starts, flat, sizes, _CODES[rule], rank, np.arange(sizes.size))


def _tree(starts, flat, sizes, code, rank, given) -> Bags:
    if sizes.size <= sets.FEW:
        return bag_tree(*sets.eliminate_vertices(starts, flat, sizes, code, rank, given))
    from tractable.messages import elimination_loops as loops  # numba: half a second, then what it compiles

    bits = loops.link_scopes(starts, flat, sizes)
    return bag_tree(*loops.eliminate_vertices(bits, np.log2(sizes), code, rank, given))


def _priced(bags: Bags, starts, flat, sizes, rule: str) -> tuple[Order, Bags]:
    cost = cost_of_bags(bags, sizes, count_factor_cells(starts, flat, sizes), starts.size - 1)
    return Order(tuple(bags.order.tolist()), cost, rule), bags


def count_factor_cells(starts: np.ndarray, flat: np.ndarray, sizes: np.ndarray) -> float:
    """The cells of all factors together."""
    filled = np.append(sizes[flat].astype(float), 1.0)  # `reduceat` needs an entry after the last scope
    products = np.multiply.reduceat(filled, starts[:-1]) if starts.size > 1 else np.zeros(0)
    return float(np.where(np.diff(starts) > 0, products, 1.0).sum())


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
