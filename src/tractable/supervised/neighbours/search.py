r"""Nearest neighbours: exact search with ties by index, averages, votes, and the neighbour graph.

Search.      Of each query the $k$ rows of least $(\|x - x_i\|, i)$: equal distances are ordered by index, so
             that the answer does not depend on the method. In few dimensions a k-d tree; else blocks of
             $\|x\|^2 + \|x_i\|^2 - 2x^\top x_i$ propose candidates, which are ranked by true differences;
             where rounding could have hidden a neighbour, the whole row is.
Prediction.  $\sum_i v_i y_i / \sum_i v_i$ over the neighbours, or the shares of the classes among them; a row
             of weight two is two neighbours, and $k$ counts weights.
Uncertainty. The error of predicting each training row from the others: honest on average, also for $k = 1$.
Cost.        $O(nd)$ per query by blocks, about $O(\log n)$ by tree.
References.  Cover and Hart (1967); Hastie, Tibshirani and Friedman (2009) section 13.3.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike
from tractable.supervised.generative.class_rows import checked_rows
from tractable.supervised.neighbours.loops import smallest_of_sums

__all__ = ["NearestNeighbours", "Neighbours", "nearest", "neighbour_graph"]

_CELLS = 2_000_000  # distances in memory at a time
_FEW = 64  # candidates up to which insertion beats partition
_TREE_DIMENSIONS = 8


class Neighbours(NamedTuple):
    """The nearest rows of each query, in order: distances and indices, both `(queries, k)`."""

    distances: np.ndarray
    indices: np.ndarray


class NearestNeighbours(Module):
    """Training rows that answer by their neighbours: `regression` by averages, `shares` by votes."""

    rows: np.ndarray
    targets: np.ndarray  # numbers, or codes of classes
    weights: np.ndarray
    num_neighbours: int = field(static=True)
    closeness: str = field(static=True, default="uniform")  # or "distance": a vote of 1 / distance

    def __check_init__(self) -> None:
        check_option("closeness", self.closeness, ("uniform", "distance"))
        check_count("num_neighbours", self.num_neighbours)
        total = self.weights.sum()
        fix = "Ask for fewer neighbours or give more rows."
        must = f"at most the weight of all rows ({total:g})"
        got = f"{self.num_neighbours} neighbours of {len(self.rows)} sample(s)"
        check(self.num_neighbours <= total * (1 + 1e-12), "num_neighbours", must, got, fix)

    def votes(self, X: ArrayLike, *, leave_one_out: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the neighbours of each row and their shares, which sum to one.

        With `leave_one_out` the rows of `X` are the training rows, and one unit of weight of each is kept
        from itself.
        """
        queries = checked_rows(X, self.rows.shape[1], missing=False)
        found, weights = self._search(queries, leave_one_out)
        before = np.cumsum(weights, 1) - weights
        shares = np.minimum(weights, np.maximum(self.num_neighbours - before, 0.0))
        if self.closeness == "distance":
            same = found.distances == 0
            with np.errstate(divide="ignore"):
                votes = np.where(same.any(1, keepdims=True), same, 1 / np.where(same, 1.0, found.distances))
            shares = shares * votes
        return found.indices, shares / shares.sum(1, keepdims=True)

    def regression(self, X: ArrayLike, *, leave_one_out: bool = False) -> np.ndarray:
        """The average of the neighbours' targets."""
        indices, shares = self.votes(X, leave_one_out=leave_one_out)
        return np.einsum("nk,nk->n", shares, self.targets[indices])

    def shares(self, X: ArrayLike, num_classes: int | None = None) -> np.ndarray:
        """The share of each class 0, 1, ... among the neighbours."""
        codes = self.targets.astype(np.int64)
        num_classes = int(codes.max()) + 1 if num_classes is None else num_classes
        indices, shares = self.votes(X)
        cells = np.arange(len(indices))[:, None] * num_classes + codes[indices]
        counted = np.bincount(cells.ravel(), shares.ravel(), len(indices) * num_classes)
        return counted.reshape(-1, num_classes)

    def residual_scale(self) -> float:
        r"""The root mean square error of predicting each row from the others; never below the rounding of the
        targets. Infinite for a single row, of which nothing can be left out."""
        if self.weights.sum() < self.num_neighbours + 1:
            return float(self._spread()) if len(self.rows) > 1 else np.inf
        errors = self.targets - self.regression(self.rows, leave_one_out=True)
        return float(max(np.sqrt(self.weights @ errors**2 / self.weights.sum()), self._rounding()))

    def _rounding(self) -> float:
        return float(np.spacing(np.abs(self.targets).max()))

    def _spread(self) -> float:
        """The spread of all targets with the sampling error of their mean: all rows are the neighbours."""
        total = self.weights.sum()
        variance = self.weights @ (self.targets - self.weights @ self.targets / total) ** 2 / (total - 1)
        return float(max(np.sqrt(variance * (1 + 1 / total)), self._rounding()))

    def _search(self, queries: np.ndarray, leave_one_out: bool) -> tuple[Neighbours, np.ndarray]:
        """Enough neighbours for the weight asked for, with the weights that they bring."""
        own = np.arange(len(queries))[:, None]
        count = min(self.num_neighbours + leave_one_out, len(self.rows))
        while True:
            found = nearest(self.rows, queries, count)
            weights = self.weights[found.indices]
            if leave_one_out:
                weights = np.where(found.indices == own, np.maximum(weights - 1, 0.0), weights)
            short = weights.sum(1).min() < self.num_neighbours
            if not short or count == len(self.rows):
                return found, weights
            count = min(2 * count, len(self.rows))

    def __repr__(self) -> str:
        size = f"{len(self.rows)} rows in {self.rows.shape[1]} dimensions"
        return f"NearestNeighbours({size}, {self.num_neighbours} neighbours, {self.closeness} votes: exact)"


def nearest(rows: ArrayLike, queries: ArrayLike, num_neighbours: int, *, method: str = "auto") -> Neighbours:
    """The nearest of `rows` to each query by Euclidean distance, ties by index.

    `method` is "tree", "blocks" or "auto"; all give the same answer.

    >>> nearest([[0.0], [2.0], [1.0]], [[1.0], [0.9]], 2).indices.tolist()
    [[2, 0], [2, 0]]
    """
    check_option("method", method, ("auto", "tree", "blocks"))
    table = checked_rows(rows, missing=False)
    points = checked_rows(queries, table.shape[1], missing=False)
    k = check_count("num_neighbours", num_neighbours, 1, len(table))
    origin = table.mean(0)
    table, points = table - origin, points - origin  # fewer digits are lost in the products
    if method == "auto":
        low = table.shape[1] <= _TREE_DIMENSIONS and len(table) > 50
        method = "tree" if low and 4 * k < len(table) else "blocks"
    search = _by_tree if method == "tree" else _by_blocks
    return search(table, points, k)


def neighbour_graph(X: ArrayLike, num_neighbours: int, *, kind: str = "directed") -> Any:
    """The sparse matrix of distances from each row to its nearest other rows.

    `kind` is "directed" (row i holds the neighbours of i), "union" (an edge where either is a neighbour of
    the other) or "mutual" (where both are). A distance of zero between copies is kept as an entry.

    >>> neighbour_graph([[0.0], [1.0], [3.0]], 1).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    """
    check_option("kind", kind, ("directed", "union", "mutual"))
    rows = checked_rows(X, missing=False)
    k = check_count("num_neighbours", num_neighbours, 1, len(rows) - 1)
    found = nearest(rows, rows, k + 1)
    own = np.arange(len(rows))[:, None]
    other = found.indices != own
    other[other.all(1), -1] = False  # more than k copies with smaller indices: the last is one too many
    tails, heads = np.repeat(own[:, 0], k), found.indices[other]
    lengths = found.distances[other]
    if kind != "directed":
        forward, back = tails * len(rows) + heads, heads * len(rows) + tails
        chosen = np.isin(forward, back) if kind == "mutual" else np.ones(len(forward), bool)
        extra = ~np.isin(back, forward) & (kind == "union")
        tails, heads = np.r_[tails[chosen], heads[extra]], np.r_[heads[chosen], tails[extra]]
        lengths = np.r_[lengths[chosen], lengths[extra]]
    return sparse.csr_array((lengths, (tails, heads)), shape=(len(rows), len(rows)))


def _by_tree(rows: np.ndarray, queries: np.ndarray, k: int) -> Neighbours:
    """One more than asked for is fetched: where it is as near as the last, ties may be hidden."""
    tree = KDTree(rows)
    _, candidates = tree.query(queries, min(k + 1, len(rows)))
    candidates = np.asarray(candidates).reshape(len(queries), -1)
    exact = _distances(rows, queries, candidates)
    found = _ranked(exact, candidates, k)
    if candidates.shape[1] == len(rows):
        return found
    last = exact.max(1)
    _repair(found, rows, queries, last <= found.distances[:, -1] * (1 + 1e-9), k)
    return found


def _by_blocks(rows: np.ndarray, queries: np.ndarray, k: int) -> Neighbours:
    found = Neighbours(np.empty((len(queries), k)), np.empty((len(queries), k), np.int64))
    squares, doubled = np.einsum("ij,ij->i", rows, rows), np.ascontiguousarray(-2 * rows.T)
    size = max(1, _CELLS // len(rows))
    slack = 8 * (rows.shape[1] + 4) * np.finfo(float).eps
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        lengths = np.einsum("ij,ij->i", part, part)
        candidates, worst = _candidates(part @ doubled, squares, min(k + 4, len(rows)))
        own = _ranked(_distances(rows, part, candidates), candidates, k)
        error = slack * (lengths + squares.max())
        _repair(own, rows, part, worst + lengths - error <= own.distances[:, -1] ** 2, k)
        for whole, piece in zip(found, own):
            whole[start : start + size] = piece
    return found


def _candidates(products: np.ndarray, squares: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that seem nearest, and the value of the last: none outside them seems nearer."""
    if count == len(squares):
        return np.broadcast_to(np.arange(count), products.shape), np.full(len(products), np.inf)
    if count <= _FEW:
        places, values = smallest_of_sums(products, squares, count)
        return places, values[:, -1]
    products += squares
    places = np.argpartition(products, count - 1, 1)[:, :count]
    return places, np.take_along_axis(products, places, 1).max(1)


def _distances(rows: np.ndarray, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    differences = rows[candidates] - queries[:, None]
    return np.sqrt(np.einsum("nkd,nkd->nk", differences, differences))


def _ranked(distances: np.ndarray, candidates: np.ndarray, k: int) -> Neighbours:
    """The `k` candidates of least (distance, index)."""
    order = np.lexsort((candidates, distances))[:, :k]
    return Neighbours(np.take_along_axis(distances, order, 1), np.take_along_axis(candidates, order, 1))


def _repair(found: Neighbours, rows: np.ndarray, queries: np.ndarray, unsure: np.ndarray, k: int) -> None:
    """Search all rows for the queries whose candidates may be incomplete."""
    for i in np.flatnonzero(unsure):
        exact = _distances(rows, queries[i : i + 1], np.arange(len(rows))[None])[0]
        near = np.flatnonzero(exact <= np.partition(exact, k - 1)[k - 1])
        ranked = _ranked(exact[None, near], near[None], k)
        found.distances[i], found.indices[i] = ranked.distances[0], ranked.indices[0]
