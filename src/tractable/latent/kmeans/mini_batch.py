r"""Mini-batch k-means: centres as running means of the rows that small random batches bring them.

Step.        Each row of a batch goes to its nearest centre; a centre that has seen weight $N_j$ moves to
             $m_j + \frac{1}{N_j + n_j}\sum_{l_i = j} w_i(x_i - m_j)$: steps of Robbins and Monro, $O(1/N_j)$.
Stopping.    The mean cost of a batch, smoothed over about one pass of the rows, has not fallen for `patience`
             batches.
Starved.     A centre that saw less than a hundredth of what the largest saw begins anew at a row of the
             batch, drawn by its cost, with the least count among the others: once in ten batches.
Promise.     None of descent: near the cost of k-means (a few per cent above it) for a fraction of the work.
             `max_steps` counts passes over the rows.
Cost.        $O(bkd)$ per batch of $b$ rows, and one pass for labels at the end.
References.  Bottou and Bengio (1995); Sculley (2010).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.assignment import group_sums, nearest_centres
from tractable.core.checks import check_count, check_finite, check_shape
from tractable.core.host_random import generator
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.progress import progress_bar
from tractable.core.rows import Rows
from tractable.core.types import Key
from tractable.latent.kmeans.lloyd import Path
from tractable.latent.kmeans.model import Clustering, clustering, start_centres

__all__ = ["RunningMeans", "mini_batch_k_means"]

_STARVED = 0.01
_OFTEN = 10


class RunningMeans(NamedTuple):
    """Centres, and the weight of the rows that each has seen."""

    centres: np.ndarray
    counts: np.ndarray

    def update(self, rows: np.ndarray, weights: np.ndarray) -> tuple["RunningMeans", np.ndarray]:
        """After a batch; and what each of its rows cost before."""
        found = nearest_centres(rows, self.centres)
        about = group_sums(rows - self.centres[found.labels], found.labels, weights, len(self.counts))
        counts = self.counts + about[:, -1]
        safe = np.where(counts > 0, counts, 1.0)
        return RunningMeans(self.centres + about[:, :-1] / safe[:, None], counts), found.squared * weights

    def revived(self, numbers: Any, rows: np.ndarray, costs: np.ndarray) -> "RunningMeans":
        """Starved centres at rows of the batch."""
        starved = np.flatnonzero(self.counts < _STARVED * self.counts.max())[: len(rows) // 2]
        positive = int(np.count_nonzero(costs))
        starved = starved[:positive]
        if len(starved) == 0:
            return self
        places = numbers.choice(len(rows), len(starved), replace=False, p=costs / costs.sum())
        centres, counts = self.centres.copy(), self.counts.copy()
        fed = np.delete(counts, starved)
        centres[starved], counts[starved] = rows[places], fed.min(initial=np.inf) if len(fed) else 1.0
        return RunningMeans(centres, counts)


@takes_key
def mini_batch_k_means(
    X: Any, num_clusters: int, *, key: Key, weights: Any = None, batch: int = 1024, max_steps: int = 100,
    patience: int = 10, start: Any = "k-means++", progress: bool = True,
) -> Clustering:  # fmt: skip
    """Cluster by batches of rows drawn by weight; `max_steps` bounds the passes over the rows.

    >>> rows = np.concatenate([np.zeros((50, 2)), np.ones((50, 2))])
    >>> mini_batch_k_means(rows, 2, key=0).cost
    0.0
    """
    rows = Rows.of(X, None, weights)
    numbers = generator(key, 0)
    size = min(check_count("batch", batch), rows.num_rows)
    draw = _drawer(numbers, rows, size)
    state = RunningMeans(_begin(numbers, rows, num_clusters, start, size), np.zeros(num_clusters))
    trace, status = [], Status.exhausted
    total, best, since, smooth = check_count("max_steps", max_steps) * rows.num_rows // size, np.inf, 0, None
    share = min(1.0, 2 * size / (rows.num_rows + 1))
    with progress_bar(total, "mini-batch k-means", progress=progress) as bar:
        for step in range(total):
            part = rows.X[draw()]
            state, costs = state.update(part, np.ones(len(part)))
            if step % _OFTEN == _OFTEN - 1:
                state = state.revived(numbers, part, costs)
            now = float(costs.mean())
            smooth = now if smooth is None else smooth + share * (now - smooth)
            trace.append(smooth * float(rows.total))
            since = 0 if smooth < best else since + 1
            best = min(best, smooth)
            bar.advance(cost=trace[-1])
            if since >= patience:
                status = Status.converged
                break
    found = nearest_centres(rows.X, state.centres)
    cost = float(found.squared @ rows.weights)
    path = Path(state.centres, found.labels, cost, np.asarray(trace), status, 0)
    return clustering(path, rows, np.array([cost]), X, weights, kind="mini-batch")


def _drawer(numbers: Any, rows: Rows, size: int) -> Any:
    if not rows.is_weighted:
        return lambda: numbers.integers(rows.num_rows, size=size)
    mass = np.cumsum(rows.weights)
    last = rows.num_rows - 1
    return lambda: np.minimum(np.searchsorted(mass, numbers.random(size) * mass[-1], side="right"), last)


def _begin(numbers: Any, rows: Rows, k: int, start: Any, size: int) -> np.ndarray:
    """Seeds of a sample of ten batches."""
    if not isinstance(start, str):
        given = np.array(start, float)
        check_shape("start", given, (k, rows.num_columns))
        check_finite("start", given)
        return given
    most = max(10 * size, 10 * k)
    some = rows if rows.num_rows <= most else rows.take(_drawer(numbers, rows, most)())
    some = some if some is rows else Rows.of(some.X)
    return start_centres(np.asarray(numbers.integers(2**32, size=2), np.uint32), some, k, start=start)
