r"""The nearest of some centres to each of many rows, exactly, at the speed of single precision.

Identity.    $\arg\min_j\|x - c_j\|^2 = \arg\min_j\bigl(\tfrac12\|c_j\|^2 - x^\top c_j\bigr)$: one matrix
             product for a block of rows, both counted from a common origin.
Rounding.    The product is made in single precision, whose error is at most
             $\delta = (d + 8)\,2^{-24}\,(\|x\| + \max_j\|c_j\|)^2$. Where the two smallest entries are closer
             than that, differences in double precision decide: the answer is that of the plain rule, ties
             go to the lower index, and blocks, threads and libraries do not matter.
Bound.       The second smallest entry less $\delta$ is a lower bound for every other centre.
Sums.        $\sum_{i: l_i = j} w_i x_i$ by a sparse product, in the order of the rows: $O(nd)$ whatever
             the number of centres.
Cost.        $2nkd$ operations of a matrix product, on as many threads as there are processors.
References.  Higham (2002), "Accuracy and Stability of Numerical Algorithms", section 3.5 (products).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.interrupts import in_threads

__all__ = [
    "SPAN",
    "Centres",
    "Nearest",
    "block_rows",
    "group_sums",
    "in_spans",
    "nearest_by_scores",
    "nearest_centres",
    "scores_of",
]

_CELLS = 1 << 18  # entries of a table of scores that stays in the cache
SPAN = 1 << 16  # rows per piece of work: the order of sums depends on their number, not on the threads
_DIRECT = 1 << 20  # numbers in a table of differences
_SMALLEST, _LARGEST = 1e-15, 1e15  # sizes whose squares single precision holds
_MOST_COLUMNS = 4096  # beyond, the bound on the error of single precision says little


class Nearest(NamedTuple):
    """The nearest centre of each row, its squared distance, and a lower bound on that of the others."""

    labels: np.ndarray
    squared: np.ndarray
    others: np.ndarray


class Centres(NamedTuple):
    """Centres, counted from an origin, in the form that a product with rows needs."""

    values: np.ndarray  # (k, d) in double precision
    table: np.ndarray  # (d, k), minus the centres
    halves: np.ndarray  # half their squared lengths
    reach: float  # the longest
    error: float  # relative, of the scores

    @staticmethod
    def of(values: np.ndarray) -> "Centres":
        """Prepared centres; `values` are already counted from the origin of the rows."""
        squares = np.einsum("kd,kd->k", values, values)
        reach = float(np.sqrt(squares.max(initial=0.0)))
        single = _SMALLEST < reach < _LARGEST and values.shape[1] <= _MOST_COLUMNS
        kind = np.float32 if single else np.float64
        error = (values.shape[1] + 8) * float(np.finfo(kind).eps) / 2
        table = np.ascontiguousarray(-values.T, dtype=kind)
        return Centres(values, table, (squares / 2).astype(kind), reach, error)


def scores_of(rows: np.ndarray, centres: Centres, out: np.ndarray | None = None) -> np.ndarray:
    r"""$\tfrac12\|c_j\|^2 - x^\top c_j$ of rows from the same origin as the centres."""
    with np.errstate(over="ignore", invalid="ignore"):  # rows far beyond all centres: decided by differences
        scores = np.matmul(rows.astype(centres.table.dtype, copy=False), centres.table, out=out)
        scores += centres.halves
    return scores


def nearest_by_scores(rows: np.ndarray, scores: np.ndarray, centres: Centres) -> Nearest:
    """The answer for rows with these scores, which are overwritten."""
    lengths = np.einsum("nd,nd->n", rows, rows)
    slack = centres.error * (np.sqrt(lengths) + centres.reach) ** 2
    places = np.arange(len(rows))
    labels = scores.argmin(1)
    best = scores[places, labels].astype(float)
    scores[places, labels] = np.inf
    second = scores.min(1, initial=np.inf).astype(float)
    with np.errstate(invalid="ignore"):  # infinity less infinity is not sure
        unsure = ~(second - best > 2 * slack)
    beyond = np.maximum(2 * (second - slack) + lengths, 0.0)
    if len(centres.values) > 1 and unsure.any():
        hard = np.flatnonzero(unsure)
        labels[hard], beyond[hard] = _by_differences(rows[hard], centres.values)
    away = rows - centres.values[labels]
    return Nearest(labels.astype(np.int32), np.einsum("nd,nd->n", away, away), beyond)


def nearest_centres(rows: Any, centres: Any, origin: Any = None) -> Nearest:
    """The nearest of `centres` to each row, ties to the lower index, in blocks and threads.

    >>> nearest_centres(np.array([[0.0], [4.0], [2.0]]), np.array([[0.0], [4.0]])).labels.tolist()
    [0, 1, 0]
    """
    origin = np.mean(centres, 0) if origin is None else origin
    prepared = Centres.of(np.asarray(centres, float) - origin)
    found = Nearest(np.empty(len(rows), np.int32), np.empty(len(rows)), np.empty(len(rows)))
    size = block_rows(len(prepared.values))

    def work(span: slice) -> None:
        for low in range(span.start, span.stop, size):
            part = slice(low, min(low + size, span.stop))
            block = rows[part] - origin
            answer = nearest_by_scores(block, scores_of(block, prepared), prepared)
            for whole, piece in zip(found, answer):
                whole[part] = piece

    in_spans(work, len(rows), rows.shape[1] * len(prepared.values))
    return found


def in_spans(work: Callable[[slice], Any], num_rows: int, row_work: float | int = 1e3) -> list[Any]:
    """`work` of each span of rows, in order, computed in threads where there is much of it."""
    spans = [slice(low, min(low + SPAN, num_rows)) for low in range(0, num_rows, SPAN)]
    many = len(spans) > 1 and num_rows * row_work > 1e7
    with one_blas_thread():
        return list(in_threads(work, spans) if many else map(work, spans))


def block_rows(num_centres: int) -> int:
    """How many rows make a block of scores that stays in the cache."""
    return int(np.clip(_CELLS // max(num_centres, 1), 64, 8192))


def group_sums(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, count: int) -> np.ndarray:
    """The weighted sum of the rows of each label, and in a last column their weight: `(count, d + 1)`.

    >>> group_sums(np.array([[1.0], [2.0], [4.0]]), np.array([1, 0, 1]), None, 3).tolist()
    [[2.0, 1.0], [5.0, 2.0], [0.0, 0.0]]
    """
    from scipy.sparse import csc_array  # not needed where no rows are grouped

    shares = np.ones(len(rows)) if weights is None else weights
    ends = np.arange(len(rows) + 1, dtype=np.int32)
    table = csc_array((shares, labels.astype(np.int32, copy=False), ends), shape=(count, len(rows)))
    return np.column_stack([table @ rows, np.bincount(labels, weights=weights, minlength=count)])


def _by_differences(rows: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The label of each row and the squared distance of the next centre, from differences."""
    labels, beyond = np.empty(len(rows), np.int64), np.empty(len(rows))
    size = max(1, _DIRECT // max(centres.size, 1))
    for low in range(0, len(rows), size):
        part = slice(low, low + size)
        away = rows[part, None] - centres[None]
        squared = np.einsum("nkd,nkd->nk", away, away)
        labels[part] = squared.argmin(1)
        squared[np.arange(len(squared)), labels[part]] = np.inf
        beyond[part] = squared.min(1)
    return labels, beyond
