r"""k-medoids: centres that are rows, for any dissimilarity.

Cost.        $\sum_i w_i\min_{m \in M} d(x_i, m)$ over sets $M$ of $k$ rows.
Swap.        With $d_i \le e_i$ the distances to the nearest and the second nearest medoid, exchanging $m$
             for $c$ changes the cost by
             $\sum_i w_i a_i + \sum_{i: n_i = m} w_i(\min(d_{ic}, e_i) - d_i - a_i)$, with
             $a_i = \min(0, d_{ic} - d_i)$ and $n_i$ the nearest medoid: one pass over the rows prices the
             exchange of $c$ for *every* medoid. The first that gains is made.
Promise.     At the end no single exchange lowers the cost; the cost is a sum, computed anew.
Start.       Greedy: each next medoid is the row that lowers the cost most.
Cost.        $O(n^2)$ memory and per sweep, $O(n^2 k)$ for the start.
References.  Kaufman and Rousseeuw (1990) (PAM); Schubert and Rousseeuw (2021) (FasterPAM).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, field
from tractable.core.progress import progress_bar
from tractable.core.rows import Rows, row_weights
from tractable.core.verdict import Verdict

__all__ = ["Medoids", "distances_between", "k_medoids"]

_METRICS = ("euclidean", "squared", "manhattan", "cosine", "precomputed")


class Medoids(Ended, HostResult):
    """The rows that stand for their groups, and how many exchanges led there."""

    indices: np.ndarray
    labels: np.ndarray
    cost: float
    num_swaps: int
    code: int = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether every single exchange was tried."""
        ok = self.status.ok
        said = "No single exchange lowers the cost" if ok else "Stopped before every exchange was tried"
        return Verdict(ok, f"{said} ({self.num_swaps} were made).", {"cost": self.cost})


def k_medoids(
    X: Any, num_clusters: int, *, metric: str = "euclidean", weights: Any = None, start: Any = None,
    max_sweeps: int = 100, progress: bool = True,
) -> Medoids:  # fmt: skip
    """Rows such that all rows are near one of them; `metric="precomputed"` takes the table of distances.

    `start` are indices of rows to begin with.

    >>> found = k_medoids([[0.0], [1.0], [5.0], [90.0], [91.0]], 2)
    >>> sorted(found.indices.tolist()), found.cost
    ([1, 3], 6.0)
    """
    check_option("metric", metric, _METRICS)
    distances, shares = _distances(X, metric, weights)
    n = len(distances)
    k = check_count("num_clusters", num_clusters, most=int(np.count_nonzero(shares)))
    begin = _greedy(distances, shares, k) if start is None else np.array(start, np.int64)
    fits = begin.shape == (k,) and len(set(begin.tolist())) == k and begin.min() >= 0 and begin.max() < n
    check(fits, "start", f"{k} different rows", begin.tolist())
    even = metric != "precomputed" or np.array_equal(distances, distances.T)
    columns = distances if even else np.ascontiguousarray(distances.T)
    limit = check_count("max_sweeps", max_sweeps)
    medoids, swaps, code = _exchange(distances, columns, shares, begin, limit, progress)
    table = distances[:, medoids]
    labels = table.argmin(1)
    labels[medoids] = np.arange(k)  # of copies each stands for itself
    cost = float(shares @ table[np.arange(n), labels])
    return Medoids(medoids, labels.astype(np.int32), cost, swaps, int(code))


def _exchange(
    distances: np.ndarray, columns: np.ndarray, weights: np.ndarray, medoids: np.ndarray, max_sweeps: int,
    progress: bool,
) -> tuple[np.ndarray, int, Status]:  # fmt: skip
    """`columns[c]` are the distances of all rows to row `c`."""
    n, k = len(distances), len(medoids)
    medoids, swaps, since = medoids.copy(), 0, 0
    label, near, second = _two_nearest(distances, medoids)
    least = -1e-12 * float(weights @ near)
    with progress_bar(max_sweeps, "k-medoids", progress=progress) as bar:
        for _ in range(max_sweeps):
            for candidate in range(n):
                since += 1
                if near[candidate] > 0 and weights[candidate] > 0:
                    gains = _gains(columns[candidate], weights, label, near, second, k)
                    worst = int(gains.argmin())
                    if gains[worst] < least:
                        medoids[worst] = candidate
                        label, near, second = _two_nearest(distances, medoids)
                        swaps, since = swaps + 1, 0
                if since >= n:
                    return medoids, swaps, Status.converged
            bar.advance(swaps=swaps)
    return medoids, swaps, Status.exhausted


def _gains(
    to_candidate: np.ndarray, weights: np.ndarray, label: np.ndarray, near: np.ndarray, second: np.ndarray,
    k: int,
) -> np.ndarray:  # fmt: skip
    """The change of the cost by exchanging each medoid for the candidate."""
    join = np.minimum(to_candidate - near, 0.0)
    leave = np.minimum(to_candidate, second) - near - join
    with np.errstate(invalid="ignore"):
        return weights @ join + np.bincount(label, weights=weights * leave, minlength=k)


def _two_nearest(distances: np.ndarray, medoids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = distances[:, medoids]
    places = np.arange(len(table))
    label = table.argmin(1)
    near = table[places, label]
    table[places, label] = np.inf
    return label, near, table.min(1)


def _greedy(distances: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    chosen = [int(np.where(weights > 0, weights @ distances, np.inf).argmin())]
    near = distances[:, chosen[0]].copy()
    while len(chosen) < k:
        gains = np.array([weights @ np.minimum(near, column) for column in distances.T])
        gains[weights == 0] = np.inf
        gains[chosen] = np.inf
        chosen.append(int(gains.argmin()))
        near = np.minimum(near, distances[:, chosen[-1]])
    return np.array(chosen)


def _distances(X: Any, metric: str, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = Rows.of(X, None, weights, absent="keep")
    if metric == "precomputed":
        table = np.asarray(rows.X)
        square = table.shape[0] == table.shape[1]
        check(square, "X", "a square table of distances", f"shape {table.shape}")
        check(bool((table >= 0).all()), "X", "distances, zero or positive", float(table.min()))
        return table, row_weights(weights, len(table))
    return distances_between(rows.X, rows.X, metric), rows.weights


def distances_between(rows: np.ndarray, others: np.ndarray, metric: str) -> np.ndarray:
    """The table of distances by one of the named metrics but "precomputed"."""
    from scipy.spatial.distance import cdist

    if metric == "cosine":
        for name, table in (("X", rows), ("medoids", others)):
            lengths = np.linalg.norm(table, axis=1)
            if not lengths.all():
                got = f"zeros in row {int(np.argmin(lengths))}"
                check(False, name, "rows with a direction", got, "Drop it, or take another metric.")
    name: Any = {"manhattan": "cityblock", "squared": "sqeuclidean"}.get(metric, metric)
    return cdist(rows, others, name)
