r"""Other centres for other costs: medians, directions, and the smallest largest distance.

Medians.     $\sum_i w_i\min_j d(x_i, m_j)$. With the Euclidean distance the best centre of a group is its
             *geometric* median, found by Weiszfeld's iteration (with the rule of Vardi and Zhang at a row);
             with the Manhattan distance it is the median of each column, exactly.
Directions.  $\sum_i w_i(1 - \max_j\cos(x_i, m_j))$: the best centre is the direction of the sum of the unit
             rows (spherical k-means).
k-centre.    $\max_i\min_j\|x_i - c_j\|$, with centres among the rows. Taking always the farthest row is never
             worse than twice the best: the $k$ centres and the row that is still farthest, at distance $r$,
             are $k + 1$ points at least $r$ apart, two of which share a centre, so the best is at least
             $r/2$. No polynomial method has a smaller factor unless P = NP.
Empty.       As in k-means: the row that costs most begins the cluster anew.
Cost.        $O(nkd)$ per step.
References.  Weiszfeld (1937); Vardi and Zhang (2000); Dhillon and Modha (2001); Gonzalez (1985).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.core.assignment import Nearest, group_sums, nearest_centres
from tractable.core.checks import check, check_count, check_option
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows
from tractable.core.seeding import far_apart
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.latent.kmeans.model import start_centres

__all__ = ["CentreResult", "FlatClustering", "geometric_median", "k_centre", "k_medians", "spherical_k_means"]


class FlatClustering(Ended, HostResult):
    """Centres, labels, and the cost that was lowered."""

    centres: np.ndarray
    labels: np.ndarray
    cost: float
    trace: np.ndarray = field(show=False)
    code: int = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether the partition repeats itself."""
        said = "A local minimum: the partition" if self.status.ok else "Not converged: the partition still"
        said += f" {'repeats' if self.status.ok else 'changes'} after {len(self.trace)} steps."
        return Verdict(self.status.ok, said, {"cost": self.cost})


class CentreResult(HostResult):
    """Rows as centres, the largest distance to them, and a proof of how far that is from the least."""

    indices: np.ndarray
    labels: np.ndarray
    radius: float
    lower_bound: float = field(about="no centres at all have a smaller largest distance")

    @property
    def verdict(self) -> Verdict:
        """The factor that is proved; at most two."""
        exact = self.radius == 0
        said = "Every row is a centre." if exact else "At most twice the least radius, by the farthest row."
        return Verdict(True, said, {"radius": self.radius, "lower_bound": self.lower_bound})


@takes_key
def k_medians(
    X: Any, num_clusters: int, *, key: Key, metric: str = "euclidean", weights: Any = None, start: Any = None,
    max_steps: int = 100,
) -> FlatClustering:  # fmt: skip
    """Groups around geometric medians ("euclidean") or medians of the columns ("manhattan").

    >>> found = k_medians([[0.0], [1.0], [5.0], [90.0], [91.0], [99.0]], 2, key=0, metric="manhattan")
    >>> sorted(found.centres.ravel().tolist()), found.cost
    ([1.0, 91.0], 14.0)
    """
    check_option("metric", metric, ("euclidean", "manhattan"))
    rows = Rows.of(X, None, weights)
    near, middle = (_near, geometric_median) if metric == "euclidean" else (_near_manhattan, _column_median)

    def update(labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
        new = centres.copy()
        for j in np.unique(labels):
            held = labels == j
            new[j] = middle(rows.X[held], rows.weights[held], centres[j])
        return new

    begin = _start(key, rows, num_clusters, start)
    return _alternate(rows, begin, near, update, max_steps)


@takes_key
def spherical_k_means(
    X: Any, num_clusters: int, *, key: Key, weights: Any = None, start: Any = None, max_steps: int = 100
) -> FlatClustering:
    """Groups by direction: the centres have length one, and lengths of rows do not matter.

    >>> found = spherical_k_means([[1.0, 0.0], [9.0, 0.1], [0.0, 2.0], [0.1, 5.0]], 2, key=0)
    >>> found.labels[0] == found.labels[1], found.labels[2] == found.labels[3]
    (np.True_, np.True_)
    """
    rows = Rows.of(X, None, weights)
    lengths = np.linalg.norm(rows.X, axis=1)
    if not lengths.all():
        check(False, "X", "rows with a direction", f"zeros in row {int(np.argmin(lengths))}", "Drop it.")
    units = Rows.of(rows.X / lengths[:, None], None, rows.weights)

    def near(table: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = nearest_centres(table, centres)
        return found.labels, found.squared / 2  # of unit vectors: one minus the cosine

    def update(labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
        sums = group_sums(units.X, labels, units.weights, len(centres))[:, :-1]
        size = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.where(size > 1e-12, sums / np.where(size > 0, size, 1.0), centres)

    begin = _start(key, units, num_clusters, start)
    begin = begin / np.linalg.norm(begin, axis=1, keepdims=True)
    return _alternate(units, begin, near, update, max_steps)


@takes_key
def k_centre(X: Any, num_clusters: int, *, key: Key) -> CentreResult:
    """Rows as centres such that the largest distance to them is at most twice the least possible.

    >>> found = k_centre([[0.0], [1.0], [10.0], [11.0]], 2, key=0)
    >>> found.radius, found.lower_bound
    (1.0, 0.5)
    """
    rows = Rows.of(X)
    k = check_count("num_clusters", num_clusters, most=rows.num_rows)
    chosen = far_apart(key, rows.X, k, power=np.inf)
    found: Nearest = nearest_centres(rows.X, rows.X[chosen])
    radius = float(np.sqrt(found.squared.max()))
    return CentreResult(chosen, found.labels, radius, radius / 2)


def geometric_median(
    X: np.ndarray, weights: np.ndarray | None = None, start: np.ndarray | None = None, *,
    max_steps: int = 1000, tol: float = 1e-12,
) -> np.ndarray:  # fmt: skip
    r"""$\arg\min_y \sum_i w_i\|x_i - y\|$; each step lowers the sum, unless it is at the minimum.

    >>> geometric_median(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist()
    [0.5, 0.5]
    """
    weights = np.ones(len(X)) if weights is None else weights
    y = np.average(X, axis=0, weights=weights) if start is None else start
    scale = np.abs(X - y).max(initial=0.0)
    for step in range(max_steps):
        target, distance = _weiszfeld(X, weights, y)
        if np.abs(target - y).max() <= tol * scale:
            return target
        row = X[distance.argmin()]
        if step % 8 == 7 and (_weiszfeld(X, weights, row)[0] == row).all():
            return row  # steps towards a median that is a row become ever shorter
        y = target
    return y


def _weiszfeld(X: np.ndarray, weights: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The next point, `y` itself where it is a median, and the distances to `y`."""
    away = X - y
    distance = np.sqrt(np.einsum("nd,nd->n", away, away))
    there = distance == 0
    if there.all():
        return y, distance
    pull = weights[~there] / distance[~there]
    target = pull @ X[~there] / pull.sum()
    force = np.linalg.norm(pull @ away[~there])
    held = weights[there].sum()
    stay = 1.0 if force <= held else held / force
    return (y if stay == 1.0 else (1 - stay) * target + stay * y), distance


def _alternate(
    rows: Rows, centres: np.ndarray, near: Callable, update: Callable, max_steps: int
) -> FlatClustering:
    """Labels and centres in turn, until the partition repeats or the cost does not fall."""
    trace: list[float] = []
    before = None
    for _ in range(check_count("max_steps", max_steps)):
        labels, costs = near(rows.X, centres)
        spent = costs * rows.weights
        trace.append(float(spent.sum()))
        labels = _filled(labels, spent, len(centres))
        settled = before is not None and bool((labels == before).all())
        if settled or (len(trace) > 1 and trace[-1] >= trace[-2]):
            break
        centres, before = update(labels, centres), labels
    else:
        labels, costs = near(rows.X, centres)
        trace.append(float(costs @ rows.weights))
        return FlatClustering(centres, labels, trace[-1], np.array(trace), int(Status.exhausted))
    return FlatClustering(centres, labels, trace[-1], np.array(trace), int(Status.converged))


def _filled(labels: np.ndarray, costs: np.ndarray, count: int) -> np.ndarray:
    """Labels in which each empty cluster holds the row that costs most; where nothing costs, none is."""
    labels = labels.copy()
    for empty in np.flatnonzero(np.bincount(labels, minlength=count) == 0):
        row = int(costs.argmax())
        if costs[row] > 0:
            labels[row], costs[row] = empty, 0.0
    return labels


def _start(key: Key, rows: Rows, num_clusters: int, start: Any) -> np.ndarray:
    if start is None:
        return start_centres(key, rows, num_clusters)
    given = np.asarray(start, float)
    shape = (num_clusters, rows.num_columns)
    check(given.shape == shape, "start", f"centres of shape {shape}", f"shape {given.shape}")
    return given


def _near(rows: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = nearest_centres(rows, centres)
    return found.labels, np.sqrt(found.squared)


def _near_manhattan(rows: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table = np.stack([np.abs(rows - centre).sum(1) for centre in centres], 1)
    labels = table.argmin(1)
    return labels, table[np.arange(len(rows)), labels]


def _column_median(X: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The least value with at least half of the weight at or below it, of each column."""
    order = np.argsort(X, axis=0)
    mass = np.cumsum(weights[order], axis=0)
    place = (mass < mass[-1] / 2).sum(0)
    return np.take_along_axis(X, np.take_along_axis(order, place[None], 0), 0)[0]
