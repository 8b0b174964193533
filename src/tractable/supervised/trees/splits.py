r"""The primitives of tree growth: the best split of each node of a batch, and the partition of their rows.

Codes.       Each column is coded once by the ranks of its distinct values (missing: -1): a node compares
             whole numbers alone, and sorting them is stable.
Score.       Left and right statistics $s_L, s_R$ with weights $W_L, W_R$: $\|s_L\|^2/W_L + \|s_R\|^2/W_R$ for
             Gini (class weights) and for variance (sums of deviations from the node's mean), and
             $\sum_k s_k \log (s_k / W)$ of both sides for entropy. Parent score taken off, it is the decrease
             of weight times impurity.
Missing.     Missing entries are tried on the right and on the left; of equals the right.
Ties.        Of splits within $10^{-12}$ of the node's scale the first is taken: in a column the lowest
             boundary, then the first column. Rounding does not decide.
Batch.       Nodes of all trees at once, in tables of nodes whose sizes share a power of two; sums run along
             the rows of a node in their order, as in a loop.
Choice.      `primitives` takes NumPy for little work, where compiling would take longer, and
             `supervised.trees.split_loops` for much: the same functions, the same bits.
Cost.        About 100 ns for each row and column of a node; compiled, a tenth.
References.  Breiman, Friedman, Olshen and Stone (1984).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

__all__ = [
    "CRITERIA",
    "Found",
    "Table",
    "compiled_primitives",
    "flat_ranges",
    "mixed",
    "numpy_primitives",
    "primitives",
]

CRITERIA = ("gini", "entropy", "variance")
ENTROPY, VARIANCE = 1, 2
TIE = 1e-12
MUCH_WORK = 6_000_000  # rows times columns times levels: by NumPy about what compiling takes
_CELLS = 2**18  # of a table at a time
_LAST, _PADDED = 2**31 - 2, 2**31 - 1  # sort keys of missing entries and of room behind a node's rows


class Table(NamedTuple):
    """What splits are searched in: columns by rank `(columns, rows)`, classes or numbers, weights by tree."""

    codes: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    num_values: int
    criterion: int
    max_features: int
    least: float  # weight of a leaf


class Found(NamedTuple):
    """Of each node: `places` (feature or -1, last code on the left, first on the right or -1, whether missing
    goes left), `values` (class weights, or the mean) and `moments` (weight, sum of squares, score)."""

    places: np.ndarray
    values: np.ndarray
    moments: np.ndarray


Primitives = tuple[Callable[..., Found], Callable[..., tuple[np.ndarray, np.ndarray]]]


def primitives(work: float) -> Primitives:
    """`best_splits(table, rows, nodes, keys)` and `partition(codes, rows, spans, places)` for so much work.

    `nodes` are (tree, start, stop, whether it may be split) with ranges of `rows`, `keys` draw their columns.
    `partition` puts the rows that go left first, stably and in place; it returns where the right ones begin
    and whether an entry is missing.
    """
    return numpy_primitives() if work <= MUCH_WORK else compiled_primitives()


def numpy_primitives() -> Primitives:
    return _best_splits, _partition


def compiled_primitives() -> Primitives:
    """The loops, with their room."""
    from tractable.supervised.trees import split_loops  # numba: half a second, then what it compiles

    def best_splits(table: Table, rows: np.ndarray, nodes: np.ndarray, keys: np.ndarray) -> Found:
        (num_columns, _), longest = table.codes.shape, int((nodes[:, 2] - nodes[:, 1]).max(initial=1))
        found = _nothing(len(nodes), table.num_values)
        draws = np.zeros((4, max(4 * num_columns, 257)), np.int64)
        draws[0, :num_columns] = np.arange(num_columns)
        room = (
            draws, np.empty((2, longest), np.uint64), np.empty((3, 2 * longest)),
            np.empty((4, max(num_columns, table.num_values))), np.empty(longest, np.int32),
        )  # fmt: skip
        split_loops.best_splits(
            *table[:4],
            rows,
            nodes,
            keys,
            table.criterion,
            table.max_features,
            table.least,
            TIE,
            *found,
            *room,
        )
        return found

    def partition(codes: np.ndarray, rows: np.ndarray, spans: np.ndarray, places: np.ndarray) -> Any:
        ends = np.zeros((len(spans), 2), np.int64)
        spare = np.empty(int((spans[:, 1] - spans[:, 0]).max(initial=0)), np.int32)
        split_loops.partition(codes, rows, np.ascontiguousarray(spans), places, ends, spare)
        return ends[:, 0], ends[:, 1] == 1

    return best_splits, partition


def column_draws(keys: np.ndarray, features: np.ndarray, place: int) -> np.ndarray:
    """The column at the next place of each node's own order, drawn without replacement by a hash of its key.

    `features` (nodes, columns) is moved on in place.
    """
    x = keys + np.uint64((place + 1) * 0x9E3779B97F4A7C15 % 2**64)
    x = mixed(x) >> np.uint64(32)
    other = place + ((x * np.uint64(features.shape[1] - place)) >> np.uint64(32)).astype(np.int64)
    each = np.arange(len(keys))
    chosen = features[each, other]
    features[each, other] = features[:, place]
    features[:, place] = chosen
    return chosen


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: 64 bits that depend on all 64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _best_splits(table: Table, rows: np.ndarray, nodes: np.ndarray, keys: np.ndarray) -> Found:
    found = _nothing(len(nodes), table.num_values)
    statistics, slack, splittable = _statistics(table, rows, nodes, found)
    num_columns, chosen = len(table.codes), np.flatnonzero(splittable)
    totals = found.values if table.criterion != VARIANCE else np.zeros_like(found.values)
    search = _Search(table, rows, nodes, statistics, totals, found.moments[:, 0], slack)
    if table.max_features < num_columns:
        features = np.tile(np.arange(num_columns), (len(chosen), 1))
        columns = np.stack(
            [column_draws(keys[chosen], features, j) for j in range(table.max_features)], axis=1
        ).reshape(-1, table.max_features)
        tops, spots, varies = search.columns(chosen, columns)
        for place in range(table.max_features, num_columns):  # at least one column that varies is tried
            bare = np.flatnonzero(~varies.any(1))
            if len(bare) == 0:
                break
            part = features[bare]
            more = column_draws(keys[chosen[bare]], part, place)[:, None]
            features[bare] = part
            columns[bare, -1] = more[:, 0]
            tops[bare, -1:], spots[bare, -1:], varies[bare, -1:] = search.columns(chosen[bare], more)
    else:
        columns = np.broadcast_to(np.arange(num_columns), (len(chosen), num_columns))
        tops, spots, _ = search.columns(chosen, columns)
    top = tops.max(1, initial=-np.inf)
    first = (tops >= (top - slack[chosen])[:, None]).argmax(1)  # of equal columns the first
    each, good = np.arange(len(chosen)), top > -np.inf
    found.moments[chosen, 2] = np.where(good, tops[each, first], -np.inf)
    found.places[chosen, 0] = np.where(good, columns[each, first], -1)
    found.places[chosen, 1:] = spots[each, first]
    return found


def _nothing(count: int, num_values: int) -> Found:
    moments = np.zeros((count, 3))
    moments[:, 2] = -np.inf
    places = np.zeros((count, 4), np.int64)
    places[:, 0] = -1
    return Found(places, np.zeros((count, num_values)), moments)


def _statistics(
    table: Table, rows: np.ndarray, nodes: np.ndarray, found: Found
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and spread of nodes; the statistic of each of `rows`, the slack of ties, what may be split."""
    sizes = nodes[:, 2] - nodes[:, 1]
    at, node = flat_ranges(nodes[:, 1], sizes)
    mine, count, K = rows[at], len(nodes), table.num_values
    mass = table.weights[nodes[node, 0], mine]
    weight = found.moments[:, 0] = np.bincount(node, mass, count)
    heads = np.cumsum(sizes) - sizes
    statistics = np.empty(len(rows))
    if table.criterion == VARIANCE:
        y = table.targets[mine]
        first = y[heads]
        pure = np.logical_and.reduceat(y == first[node], heads)
        found.values[:, 0] = first + np.bincount(node, mass * (y - first[node]), count) / weight
        away = y - found.values[node, 0]
        statistics[at] = mass * away
        scale = found.moments[:, 1] = np.bincount(node, statistics[at] * away, count)
    else:
        y, scale = table.labels[mine], weight
        pure = np.logical_and.reduceat(y == y[heads][node], heads)
        found.values[:] = np.bincount(node * K + y, mass, count * K).reshape(count, K)
        statistics[at] = mass
    return statistics, TIE * scale, ~pure & (nodes[:, 3] == 1) & (weight >= 2 * table.least)


class _Search(NamedTuple):
    """Splits of pairs of a node and a column."""

    table: Table
    rows: np.ndarray
    nodes: np.ndarray
    statistics: np.ndarray
    totals: np.ndarray
    weight: np.ndarray
    slack: np.ndarray

    def columns(self, chosen: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best score of each column of each chosen node, its place (low, high, missing left), and whether
        the column varies."""
        shape = columns.shape
        node, column = np.repeat(chosen, shape[1]), np.ascontiguousarray(columns).reshape(-1)
        tops, spots = np.full(len(node), -np.inf), np.zeros((len(node), 3), np.int64)
        varies = np.zeros(len(node), bool)
        for part, width in _tables(self.nodes[node, 2] - self.nodes[node, 1]):
            tops[part], spots[part], varies[part] = self._pairs(node[part], column[part], width)
        return tops.reshape(shape), spots.reshape(*shape, 3), varies.reshape(shape)

    def _pairs(
        self, node: np.ndarray, column: np.ndarray, width: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table, start, size = self.table, self.nodes[node, 1], self.nodes[node, 2] - self.nodes[node, 1]
        at = start[:, None] + np.arange(width)
        here = np.arange(width) < size[:, None]
        at = np.where(here, at, start[:, None])
        code = table.codes[column[:, None], self.rows[at]]
        keys = np.where(here, np.where(code >= 0, code, _LAST), _PADDED).astype(np.int64) << 32
        keys |= np.arange(width)
        keys.sort(axis=1)
        order, keys = keys & 0xFFFFFFFF, (keys >> 32).astype(np.int32)
        at = start[:, None] + np.where(keys < _PADDED, order, 0)
        mine = self.rows[at]
        live = keys < _LAST
        known = live.sum(1)
        each = np.arange(len(node))
        last = np.maximum(known - 1, 0)
        varies = (known > 0) & ((keys[:, 0] < keys[each, last]) | (known < size))
        mass = np.where(live, table.weights[self.nodes[node, 0][:, None], mine], 0.0).cumsum(1)
        label = np.where(live, table.labels[mine], -1)
        value = np.where(live, self.statistics[at], 0.0)
        cut = np.zeros(keys.shape, bool)
        cut[:, :-1] = (keys[:, 1:] > keys[:, :-1]) & live[:, 1:]
        cut[each, last] = (known < size) & (known > 0)
        scores = [self._scores(node, label, value, mass, cut, None)]
        gaps = known < size
        if gaps.any():
            # the rows of missing entries follow the known ones, in the order of the node
            behind = (keys == _LAST) & gaps[:, None]
            tail = np.where(behind, table.weights[self.nodes[node, 0][:, None], mine], 0.0)
            away = np.where(behind, self.statistics[at], 0.0)
            kinds = np.where(behind, table.labels[mine], -1)
            again = cut & gaps[:, None]
            again[each, last] = False
            scores.append(self._scores(node, label, value, mass, again, (tail, kinds, away)))
        both = np.concatenate(scores, axis=1)
        top = both.max(1)
        first = (both >= (top - self.slack[node])[:, None]).argmax(1)  # of equal boundaries the first
        side, i = np.divmod(first, width)
        following = keys[each, np.minimum(i + 1, width - 1)]
        high = np.where(i + 1 < known, following, -1)
        return np.where(varies, top, -np.inf), np.stack([keys[each, i], high, side], axis=1), varies

    def _scores(
        self, node: np.ndarray, label: np.ndarray, value: np.ndarray, mass: np.ndarray, cut: np.ndarray,
        missing: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    ) -> np.ndarray:  # fmt: skip
        """The score of each boundary, minus infinity where there is none or a side is too light; `missing`
        are the weights, classes and statistics of entries that go left with the rest."""
        table = self.table
        weight = mass if missing is None else mass + missing[0].cumsum(1)[:, -1:]
        rest = self.weight[node][:, None] - weight
        # beside huge weights, tiny ones round to nothing
        allowed = cut & (weight >= table.least) & (rest >= table.least) & (rest > 0)
        weight, rest = np.where(allowed, weight, 1.0), np.where(allowed, rest, 1.0)
        one, two = np.zeros(value.shape), np.zeros(value.shape)
        for k in range(table.num_values):
            left = np.where(label == k, value, 0.0).cumsum(1)
            if missing is not None:
                left = left + np.where(missing[1] == k, missing[2], 0.0).cumsum(1)[:, -1:]
            right = self.totals[node, k][:, None] - left
            if table.criterion == ENTROPY:
                left, right = np.maximum(left, 0.0), np.maximum(right, 0.0)  # below zero by rounding alone
                one += xlogy(left, left / weight)
                two += xlogy(right, right / rest)
            else:
                one += left * left
                two += right * right
        found = one + two if table.criterion == ENTROPY else (one * rest + two * weight) / (weight * rest)
        return np.where(allowed, found, -np.inf)


def _partition(
    codes: np.ndarray, rows: np.ndarray, spans: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    sizes = spans[:, 1] - spans[:, 0]
    at, node = flat_ranges(spans[:, 0], sizes)
    mine = rows[at]
    code = codes[places[node, 0], mine]
    left = np.where(code >= 0, code <= places[node, 1], places[node, 3] == 1)
    counts = np.bincount(node, left, len(spans)).astype(np.int64)
    middle = spans[:, 0] + counts
    before = np.cumsum(left) - left - (np.cumsum(counts) - counts)[node]  # left ones before it in its node
    offset = at - spans[node, 0]
    rows[np.where(left, spans[node, 0] + before, middle[node] + offset - before)] = mine
    return middle, np.bincount(node, code < 0, len(spans)) > 0


def flat_ranges(starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All places of ranges one after the other, and the range of each."""
    node = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(node)) + (starts - (np.cumsum(sizes) - sizes))[node], node


def _tables(sizes: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Which pairs share a table, and its width: the next power of two."""
    bits = np.frexp(np.maximum(sizes - 1, 1))[1]
    for width in np.unique(bits):
        part = np.flatnonzero(bits == width)
        step = max(1, _CELLS >> int(width))
        for i in range(0, len(part), step):
            yield part[i : i + step], 1 << int(width)
