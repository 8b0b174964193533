r"""Nearest neighbours: exact search with ties by index, and the neighbour graph.

Search.      Of each query the $k$ rows of least $(\|x - x_i\|, i)$: equal distances are ordered by index, so
             that the answer does not depend on the method. In few dimensions a k-d tree; else blocks of
             $\|x\|^2 + \|x_i\|^2 - 2x^\top x_i$ propose candidates, which are ranked by true differences;
             where rounding could have hidden a neighbour, the whole row is.
Candidates.  The $k$-th smallest of the minima of disjoint runs of a row bounds the $k$-th smallest entry, so
             that one pass leaves few entries to sort.
Cost.        $O(nd)$ per query by blocks, about $O(\log n)$ by tree.
References.  Cover and Hart (1967); Hastie, Tibshirani and Friedman (2009) section 13.3.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.types import ArrayLike

__all__ = ["Neighbours", "nearest", "neighbour_graph"]

_CELLS = 2_000_000  # distances in memory at a time
_FEW = 64  # candidates up to which minima of runs beat partition
_TREE_DIMENSIONS = 8


class Neighbours(NamedTuple):
    """The nearest rows of each query, in order: distances and indices, both `(queries, k)`."""

    distances: np.ndarray
    indices: np.ndarray


def nearest(rows: ArrayLike, queries: ArrayLike, num_neighbours: int, *, method: str = "auto") -> Neighbours:
    """The nearest of `rows` to each query by Euclidean distance, ties by index.

    `method` is "tree", "blocks" or "auto"; all give the same answer.

    >>> nearest([[0.0], [2.0], [1.0]], [[1.0], [0.9]], 2).indices.tolist()
    [[2, 0], [2, 0]]
    """
    check_option("method", method, ("auto", "tree", "blocks"))
    table = _table("rows", rows)
    points = _table("queries", queries, table.shape[1])
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
    from scipy import sparse

    check_option("kind", kind, ("directed", "union", "mutual"))
    rows = _table("X", X)
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
    from scipy.spatial import KDTree

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
    squares = np.einsum("ij,ij->i", rows, rows)
    doubled = np.concatenate([-2 * rows.T, squares[None]])
    size = max(1, _CELLS // len(rows))
    slack = 8 * (rows.shape[1] + 4) * np.finfo(float).eps
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        lengths = np.einsum("ij,ij->i", part, part)
        candidates, worst = _candidates(
            np.insert(part, part.shape[1], 1.0, 1) @ doubled, min(k + 4, len(rows))
        )
        own = _ranked(_distances(rows, part, candidates), candidates, k)
        error = slack * (lengths + squares.max())
        _repair(own, rows, part, worst + lengths - error <= own.distances[:, -1] ** 2, k)
        for whole, piece in zip(found, own):
            whole[start : start + size] = piece
    return found


def _candidates(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that seem nearest, and the value of the last: none outside them seems nearer."""
    if count == values.shape[1]:
        return np.broadcast_to(np.arange(count), values.shape), np.full(len(values), np.inf)
    found = _smallest(values, count) if count <= _FEW else None
    if found is None:
        found = np.argpartition(values, count - 1, 1)[:, :count]
    return found, np.take_along_axis(values, found, 1).max(1)


def _smallest(table: np.ndarray, count: int) -> np.ndarray | None:
    """Places of the `count` smallest entries of each row; None where so many are equal that partition is
    faster."""
    (rows, columns), runs = table.shape, 4 * count
    width = columns // runs
    if width < 2:
        return None
    minima = table[:, : runs * width].reshape(rows, width, runs).min(1)
    bound = np.partition(minima, count - 1, 1)[:, count - 1 : count]
    cells = np.flatnonzero(table <= bound)
    if len(cells) > 8 * count * rows:
        return None
    row = cells // columns
    cells = cells[np.lexsort((table.ravel()[cells], row))]
    first = np.searchsorted(row, np.arange(rows))  # each row has at least `count` cells below its bound
    return cells[first[:, None] + np.arange(count)] % columns


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


def _table(name: str, X: ArrayLike, num_columns: int | None = None) -> np.ndarray:
    rows = np.asarray(X, float)
    wanted = f"of shape (n, {'d' if num_columns is None else num_columns})"
    check(rows.ndim == 2 and num_columns in (None, rows.shape[1]), name, wanted, f"shape {rows.shape}")
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        check(False, name, "finite", f"{rows[row, column]} in column {column}, row {row}")
    return rows
