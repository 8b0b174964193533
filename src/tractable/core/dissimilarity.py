r"""Distances between rows on the host: Euclidean, Manhattan, cosine, or given as a table.

Metrics.     $\|x - y\|$, $\sum_k |x_k - y_k|$ and $1 - \cos(x, y)$, the last as half the squared distance of
             directions, $\frac12\|x/\|x\| - y/\|y\|\|^2$, which keeps its digits where directions agree. All
             come from differences: nothing cancels.
Tables.      A given table is symmetric with a zero diagonal and non-negative entries; the first entry that
             breaks this is named. Tables are square, or condensed: the entries above the diagonal.
Cost.        $O(n^2 d)$ time, $n^2/2$ numbers condensed.
"""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform

from tractable.core.checks import check, check_option, offender
from tractable.core.rows import Rows, points

__all__ = ["METRICS", "condensed_distances", "cross_distances", "given_distances", "square_distances"]

METRICS = ("euclidean", "manhattan", "cosine", "precomputed")
_NAMES: dict[str, Any] = {"euclidean": "euclidean", "manhattan": "cityblock", "cosine": "sqeuclidean"}
_SKEW = 1e-10  # of the largest entry: what two orders of summation leave


def condensed_distances(X: Any, metric: str = "euclidean", *, name: str = "X") -> np.ndarray:
    """The distances between rows above the diagonal, row after row; with `"precomputed"`, those of a table.

    >>> condensed_distances([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]).round(6).tolist()
    [5.0, 1.0, 4.242641]
    """
    check_option("metric", metric, METRICS)
    if metric == "precomputed":
        table = given_distances(X, name=name)
        return table if table.ndim == 1 else squareform(table, checks=False)
    rows = X.X if isinstance(X, Rows) else points(X, name=name)
    found = pdist(_prepared(rows, metric, name), _NAMES[metric])
    return _finite(found / 2 if metric == "cosine" else found, name)


def square_distances(X: Any, metric: str = "euclidean", *, name: str = "X") -> np.ndarray:
    """The distances between all rows as a symmetric square table."""
    if metric == "precomputed":
        table = given_distances(X, name=name)
        return squareform(table, checks=False) if table.ndim == 1 else table
    return squareform(condensed_distances(X, metric, name=name), checks=False)


def cross_distances(X: Any, Y: Any, metric: str = "euclidean", *, name: str = "X") -> np.ndarray:
    """The distance from each row of `X` to each row of `Y`.

    >>> cross_distances([[1.0, 0.0]], [[0.0, 2.0], [5.0, 0.0]], "cosine").tolist()
    [[1.0, 0.0]]
    """
    check_option("metric", metric, METRICS[:-1])
    left = X.X if isinstance(X, Rows) else points(X, name=name)
    right = Y.X if isinstance(Y, Rows) else points(Y, left.shape[1], name="Y")
    found = cdist(_prepared(left, metric, name), _prepared(right, metric, "Y"), _NAMES[metric])
    return _finite(found / 2 if metric == "cosine" else found, name)


def given_distances(table: Any, *, name: str = "X") -> np.ndarray:
    """A checked table of distances: square, or condensed as it was given."""
    fix = "Pass `table.toarray()`."
    check(not hasattr(table, "toarray"), name, "a dense table", "a sparse one", fix, TypeError)
    values = np.asarray(table.X if isinstance(table, Rows) else table, float)
    if values.ndim == 1:
        count = round((1 + np.sqrt(1 + 8 * len(values))) / 2)
        whole = len(values) > 0 and count * (count - 1) // 2 == len(values)
        check(whole, name, "n(n - 1)/2 distances of n rows", f"{len(values)} of them")
    else:
        square = values.ndim == 2 and values.shape[0] == values.shape[1] and values.size > 0
        check(square, name, "a square table of distances", f"shape {values.shape}")
    ok = np.isfinite(values) & (values >= 0)
    if not ok.all():
        check(False, name, "distances: zero or positive, and finite", offender(values, ok))
    if values.ndim == 1:
        return values
    itself = np.diag(values) == 0
    if not itself.all():
        check(False, name, "a table with a zero diagonal", offender(np.diag(values), itself))
    same = np.abs(values - values.T) <= _SKEW * values.max()
    if not same.all():
        fix = "Average it with its transpose if the difference is noise."
        check(False, name, "a symmetric table", f"{offender(values, same)}, unlike its mirror entry", fix)
    return (values + values.T) / 2


def _prepared(rows: np.ndarray, metric: str, name: str) -> np.ndarray:
    """Directions for the cosine; a row of zeros has none."""
    if metric != "cosine":
        return rows
    peak = np.abs(rows).max(1, keepdims=True)
    if not peak.all():
        row = int(np.argmin(peak))
        fix = "Drop it, or use another metric."
        check(False, name, "rows with a direction, for the cosine", f"zeros in row {row}", fix)
    scaled = rows / peak  # whose squares are numbers
    return scaled / np.linalg.norm(scaled, axis=1, keepdims=True)


def _finite(found: np.ndarray, name: str) -> np.ndarray:
    finite = np.isfinite(found.max(initial=0.0))
    fix = "Give them in other units."
    check(finite, name, "rows whose squared distances are numbers", "an infinite distance", fix)
    return found
