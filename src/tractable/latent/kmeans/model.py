r"""k-means: rows in groups around centres that are their means.

Cost.        $J(m) = \sum_i w_i \min_j\|x_i - m_j\|^2$.
Statistics.  With $l_i$ the nearest centre, $N_j = \sum_{l_i = j} w_i$ and $\sum_{l_i = j} w_i(x_i - m_j)$ add
             over rows, and the mean is $m_j$ plus their ratio: hard expectation-maximisation, whose objective
             is $-J$. So `EM` fits rows in memory, in chunks, from files and on many machines, and `fit` has a
             faster way for rows in memory: bounds, seeds far apart, several starts.
Empty.       A centre without rows stays where it is in `m_step`, which sees sums alone; `fit` moves it to the
             row that costs most.
Limit.       The maximum-likelihood mixture of Gaussians with equal weights and covariance $\tau I$, as
             $\tau \to 0$.
Cost.        $O(nkd)$ per step; `fit` far less after the first.
References.  MacQueen (1967); Lloyd (1982); Bishop (2006) section 9.1.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tractable.core.assignment import SPAN, group_sums, nearest_centres
from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count, check_finite, check_option, namespace, to_device
from tractable.core.host_random import generator
from tractable.core.interrupts import in_threads
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, Module, field
from tractable.core.numerics import one_hot
from tractable.core.rows import Rows, points
from tractable.core.seeding import far_apart, usual_trials
from tractable.core.support import real
from tractable.core.types import Array, ArrayLike, Float, Key, Values
from tractable.core.verdict import Verdict
from tractable.latent.kmeans.lloyd import Path, lloyd

__all__ = ["Clustering", "KMeans", "clustering", "start_centres"]

_STARTS = ("k-means++", "rows", "box", "farthest")
Statistics = tuple[Values, Values]


class KMeans(Module):
    """Centres, to which rows belong by distance.

    >>> fitted = KMeans.fit([[0.0], [1.0], [9.0], [10.0]], 2, key=0)
    >>> sorted(fitted.model.centres.tolist()), fitted.cost
    ([[0.5], [9.5]], 1.0)
    """

    on_host: ClassVar[bool] = True

    centres: Float[Array, "k d"] = field(support=real, rank=2)

    @staticmethod
    @takes_key
    def start(X: Any, num_clusters: int, *, key: Key, weights: Any = None, **options: Any) -> "KMeans":
        """Centres to begin with, such as for `EM`; options are those of `start_centres`."""
        rows = Rows.of(X, None, weights)
        return KMeans(to_device(start_centres(key, rows, num_clusters, **options)))

    @staticmethod
    @takes_key
    def fit(
        X: Any, num_clusters: int | None = None, *, key: Key, weights: Any = None, start: Any = "k-means++",
        power: float = 2.0, trials: int | None = None, num_starts: int = 1, max_steps: int = 300,
        tol: float = 1e-4, progress: bool = True,
    ) -> "Clustering":  # fmt: skip
        """Cluster rows in memory by Lloyd's iteration, from the best of `num_starts` starts.

        `start` is "k-means++" (with `power` and `trials` as in `core.seeding.far_apart`), "rows" (drawn by
        weight), "box" (anywhere between the least and the largest values), "farthest", or centres. It stops
        when the squared moves of the centres add to less than `tol` times the mean variance of a column;
        `tol=0` goes on until the partition repeats.
        """
        rows = Rows.of(X, None, weights)
        given = None if isinstance(start, str) else np.asarray(getattr(start, "centres", start), float)
        k = _count(rows, num_clusters, given)
        num_starts = 1 if given is not None else check_count("num_starts", num_starts)
        check(tol >= 0, "tol", "zero or positive", tol)
        steps, held = check_count("max_steps", max_steps), rows.weights if rows.is_weighted else None

        def climb(index: int) -> Path:
            own = np.asarray(generator(key, index).integers(2**32, size=2), np.uint32)
            begin = given
            if begin is None:
                begin = start_centres(own, rows, k, start=start, power=power, trials=trials)
            return lloyd(rows.X, held, begin, max_steps=steps, tol=tol, progress=progress)

        paths = _each_start(climb, num_starts, rows.num_rows)
        best = min(paths, key=lambda path: path.cost)
        return clustering(best, rows, np.array([path.cost for path in paths]), X, weights)

    @property
    def num_clusters(self) -> int:
        return self.centres.shape[0]

    def nearest(self, rows: Float[Array, "n d"]) -> tuple[Array, Array]:
        """The label of each row and its squared distance; passes through `jit`."""
        origin = self.centres.mean(0)
        x, c = rows - origin[None], self.centres - origin[None]
        labels = jnp.argmin((c**2).sum(1)[None] / 2 - x @ c.T, axis=1)
        return labels, ((x - c[labels]) ** 2).sum(1)

    def e_step(self, rows: Values, weights: Values) -> tuple[Statistics, Any]:
        """Weights and sums of rows about the centre that they belong to, and minus the cost."""
        if namespace(self, rows, weights) is np:
            return self._host_step(np.asarray(rows, float), np.asarray(weights, float))
        labels, squared = self.nearest(rows)
        shares = weights[:, None] * one_hot(labels, self.num_clusters)
        about = shares.T @ (rows - self.centres[labels])
        return (shares.sum(0), about), -(weights @ squared)

    def m_step(self, stats: Statistics) -> "KMeans":
        """Centres at the means; one without rows stays."""
        counts, about = (jnp.asarray(part) for part in stats)
        safe = jnp.where(counts > 0, counts, 1.0)
        return KMeans(self.centres + about / safe[:, None])

    def _host_step(self, rows: np.ndarray, weights: np.ndarray) -> tuple[Any, Any]:
        """The same by the fast search, for rows that have values."""
        centres = np.asarray(self.centres)
        found = nearest_centres(rows, centres)
        about = group_sums(rows - centres[found.labels], found.labels, weights, len(centres))
        return (about[:, -1], about[:, :-1]), np.asarray(-(weights @ found.squared))

    def labels(self, X: Any) -> np.ndarray:
        """The nearest centre of each row, of equals the first."""
        return nearest_centres(self._points(X), np.asarray(self.centres)).labels

    def distances(self, X: Any) -> np.ndarray:
        """The distance of each row to each centre: rows in the coordinates of the clusters."""
        rows, centres = self._points(X), np.asarray(self.centres)
        found = np.empty((len(rows), len(centres)))
        for column, centre in enumerate(centres):
            found[:, column] = np.sqrt(np.einsum("nd,nd->n", rows - centre, rows - centre))
        return found

    def cost(self, X: Any, weights: ArrayLike | None = None) -> float:
        r"""$\sum_i w_i\min_j\|x_i - m_j\|^2$."""
        squared = nearest_centres(self._points(X), np.asarray(self.centres)).squared
        return float(squared.sum() if weights is None else np.asarray(weights, float) @ squared)

    def _points(self, X: Any) -> np.ndarray:
        return np.asarray(points(X, self.centres.shape[1]))


class Clustering(Ended, HostResult):
    """A fitted k-means: the model, what it says of the rows, and how the fit went."""

    model: KMeans
    labels: np.ndarray
    cost: float
    trace: np.ndarray = field(show=False)  # the cost after each step
    costs: np.ndarray = field(about="the cost from each start")
    sizes: np.ndarray = field(about="the weight of each cluster")
    num_filled: int = field(about="empty clusters that were given a row")
    num_distinct: int = field(show=False)
    kind: str = field(static=True, show=False)
    code: int = field(static=True)

    @property
    def state(self) -> KMeans:
        """The model, as in a `Run`."""
        return self.model

    @property
    def num_steps(self) -> int:
        return len(self.trace)

    @property
    def verdict(self) -> Verdict:
        """How it ended, how often the best cost was found, and whether clusters are empty."""
        starts, empty = len(self.costs), int((np.asarray(self.sizes) == 0).sum())
        near = int((self.costs <= self.cost * (1 + 1e-6)).sum())
        said = f"A local minimum of the cost, {self.cost:.6g}, after {self.num_steps} steps"
        if self.kind != "lloyd":
            said = f"Settled near a minimum: cost {self.cost:.6g} after {self.num_steps} batches"
        if not self.status.ok:
            said = f"Not converged: cost {self.cost:.6g} after {self.num_steps} steps (`max_steps`)"
        said += f"; {near} of {starts} starts found it." if starts > 1 else "; one start was made."
        if empty:
            said += f" {empty} clusters are empty: the rows have {self.num_distinct} distinct points."
        if self.num_filled:
            said += f" {self.num_filled} empty clusters were moved to the row that cost most."
        numbers = {"cost": self.cost, "starts": starts, "starts_at_best": near, "empty": empty}
        return Verdict(self.status.ok and not empty, said, numbers)


def start_centres(
    key: Any, rows: Any, num_clusters: int, *, start: str = "k-means++", power: float = 2.0,
    trials: int | None = None,
) -> np.ndarray:  # fmt: skip
    """Centres to begin with, one of the ways of `KMeans.fit`."""
    rows = Rows.of(rows)
    check_option("start", start, _STARTS)
    k = _count(rows, num_clusters, None)
    if start == "box":
        low, high = rows.X.min(0), rows.X.max(0)
        return generator(key).uniform(low, high, size=(k, rows.num_columns))
    power = {"rows": 0.0, "farthest": np.inf}.get(start, power)
    trials = usual_trials(k) if trials is None else trials
    return rows.X[far_apart(key, rows.X, k, weights=rows.weights, power=power, trials=trials)]


def _each_start(climb: Callable[[int], Path], num_starts: int, num_rows: int) -> list[Path]:
    """Starts side by side where the rows of one are too few to be shared among threads."""
    if num_rows > SPAN:
        return [climb(index) for index in range(num_starts)]
    with one_blas_thread():
        return list(in_threads(climb, range(num_starts)))


def _count(rows: Rows, num_clusters: int | None, given: np.ndarray | None) -> int:
    if given is None:
        fix = f"There are {rows.num_rows} rows of positive weight."
        check(num_clusters is not None, "num_clusters", "given, unless `start` has centres", None)
        k = check_count("num_clusters", num_clusters)
        check(k <= rows.num_rows, "num_clusters", "at most the number of rows", k, fix)
        return k
    must = f"centres of shape (k, {rows.num_columns})"
    check(given.ndim == 2 and given.shape[1] == rows.num_columns, "start", must, f"shape {given.shape}")
    check_finite("start", given)
    right = num_clusters in (None, len(given))
    check(right, "num_clusters", f"the number of given centres ({len(given)})", num_clusters)
    return len(given)


def clustering(
    path: Path, rows: Rows, costs: np.ndarray, X: Any, weights: Any, kind: str = "lloyd"
) -> Clustering:
    """The result; rows of weight zero, which the fit did not see, are labelled too."""
    model = KMeans(to_device(path.centres))
    k = len(path.centres)
    sizes = np.bincount(path.labels, weights=rows.weights, minlength=k)
    everything = X.X if isinstance(X, Rows) else X
    absent = weights is not None and len(path.labels) < len(everything)
    labels = model.labels(everything) if absent else path.labels
    distinct = len(np.unique(rows.X, axis=0)) if (sizes == 0).any() else k
    code = int(path.status if np.isfinite(path.cost) else Status.not_finite)
    return Clustering(
        model, labels, path.cost, path.trace, costs, sizes, path.num_filled, int(distinct), kind, code
    )
