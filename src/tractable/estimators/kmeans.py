"""k-means as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is in
`latent.kmeans`."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check, to_device
from tractable.estimators.base import Clusterer, Transformer, key_from
from tractable.latent.kmeans.medoids import distances_between, k_medoids
from tractable.latent.kmeans.mini_batch import RunningMeans, mini_batch_k_means
from tractable.latent.kmeans.model import Clustering, start_centres
from tractable.latent.kmeans.model import KMeans as Model

__all__ = ["KMeans", "KMedoids", "MiniBatchKMeans"]

_POSITIVE = Interval(Integral, 1, None, closed="left")
_STARTS = StrOptions({"k-means++", "rows", "box", "farthest"})


class _Centred(Transformer, Clusterer):
    """What estimators with centres share."""

    model_: Model
    expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_sample_weight_equivalence_on_dense_data": "seeds are drawn by place, and rows are shuffled",
    }

    def fit_predict(self, X, y=None, sample_weight=None) -> np.ndarray:
        """The cluster of each row that is fitted to."""
        return Clusterer.fit_predict(self, X, y, sample_weight)

    def predict(self, X) -> np.ndarray:
        """The nearest centre of each row."""
        rows = self._new_table(X)
        return self.model_.labels(rows)

    def transform(self, X) -> np.ndarray:
        """The distance of each row to each centre."""
        rows = self._new_table(X)
        return self.model_.distances(rows)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the cost of the rows: larger is better."""
        rows = self._new_table(X)
        return -self.model_.cost(rows, sample_weight)

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centres, one for each row."""
        check_is_fitted(self)
        return np.asarray(self.model_.centres)

    @property
    def _n_features_out(self) -> int:
        return self.model_.num_clusters

    def _keep(self, found: Clustering) -> None:
        self.model_, self.labels_, self.inertia_ = found.model, np.asarray(found.labels), found.cost
        self.n_iter_, self.verdict_, self.cost_trace_ = (
            found.num_steps,
            found.verdict,
            np.asarray(found.trace),
        )


class KMeans(_Centred):
    r"""Rows in groups around their means: $\min\sum_i w_i\min_j\|x_i - m_j\|^2$ by Lloyd's iteration.

    `init` is "k-means++", "rows" (drawn by weight), "box", "farthest" or an array of centres; `n_init` starts
    are made, and the best is kept. It stops when the squared moves of the centres add to less than `tol`
    times the mean variance of a column; `tol=0` goes on until the partition repeats. `verdict_` says how it
    ended, `cost_trace_` is the cost after each step.

    >>> fitted = KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> sorted(fitted.cluster_centers_.ravel().tolist()), fitted.inertia_
    ([0.5, 9.5], 1.0)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [_POSITIVE],
        "init": [_STARTS, "array-like"],
        "n_init": [_POSITIVE],
        "max_iter": [_POSITIVE],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_clusters=8, *, init="k-means++", n_init=1, max_iter=300, tol=1e-4, random_state=None
    ):
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Find centres; targets are ignored."""
        rows = self._features(X, sample_weight)
        weights = rows.weights if rows.is_weighted else None
        found = Model.fit(
            rows.X, self.n_clusters, key=key_from(self.random_state), weights=weights, start=self.init,
            num_starts=self.n_init, max_steps=self.max_iter, tol=float(self.tol), progress=False,
        )  # fmt: skip
        self._keep(found)
        return self


class MiniBatchKMeans(_Centred):
    """k-means by small random batches: a few per cent above the cost of `KMeans`, for a fraction of the work.

    `partial_fit` takes one batch of a stream, and gives centres that are running means of what they saw.

    >>> stream = MiniBatchKMeans(2, random_state=0)
    >>> for batch in ([[0.0], [9.0]], [[1.0], [10.0]]):
    ...     stream = stream.partial_fit(batch)
    >>> sorted(stream.cluster_centers_.ravel().tolist())
    [0.5, 9.5]
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [_POSITIVE],
        "init": [_STARTS, "array-like"],
        "batch_size": [_POSITIVE],
        "max_iter": [_POSITIVE],
        "patience": [_POSITIVE],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        init="k-means++",
        batch_size=1024,
        max_iter=100,
        patience=10,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.init = init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.patience = patience
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Find centres; targets are ignored."""
        rows = self._features(X, sample_weight)
        weights = rows.weights if rows.is_weighted else None
        found = mini_batch_k_means(
            rows.X, self.n_clusters, key=key_from(self.random_state), weights=weights, batch=self.batch_size,
            max_steps=self.max_iter, patience=self.patience, start=self.init, progress=False,
        )  # fmt: skip
        self._keep(found)
        self.counts_ = np.asarray(found.sizes)
        return self

    def partial_fit(self, X, y=None, sample_weight=None):
        """Take in one batch; the first needs at least as many rows as clusters, which it seeds."""
        first = not hasattr(self, "model_")
        every = self._features(X, sample_weight, reset=first)
        rows = every.take(every.weights > 0)
        if first:
            words = check_random_state(self.random_state).randint(2**31 - 1, size=2).astype(np.uint32)
            given = not isinstance(self.init, str)
            centres = self.init if given else start_centres(words, rows, self.n_clusters, start=self.init)
            state = RunningMeans(np.asarray(centres, float), np.zeros(len(centres)))
        else:
            state = RunningMeans(self.cluster_centers_, self.counts_)
        state, costs = state.update(rows.X, rows.weights)
        self.model_, self.counts_ = Model(to_device(state.centres)), state.counts
        self.labels_, self.inertia_ = self.model_.labels(every), float(costs.sum())
        self.n_iter_ = 1 if first else self.n_iter_ + 1
        return self


class KMedoids(Clusterer):
    """Rows in groups around rows that stand for them, for any dissimilarity.

    `metric` is "euclidean", "squared", "manhattan" or "cosine". At the end no single exchange of a medoid for
    another row lowers the sum of distances. Memory grows with the square of the number of rows.

    >>> fitted = KMedoids(2).fit([[0.0], [1.0], [5.0], [90.0], [91.0]])
    >>> sorted(fitted.medoid_indices_.tolist()), fitted.inertia_
    ([1, 3], 6.0)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [_POSITIVE],
        "metric": [StrOptions({"euclidean", "squared", "manhattan", "cosine"})],
        "max_iter": [_POSITIVE],
    }

    def __init__(self, n_clusters=8, *, metric="euclidean", max_iter=100):
        self.n_clusters = n_clusters
        self.metric = metric
        self.max_iter = max_iter

    def fit(self, X, y=None, sample_weight=None):
        """Find medoids; targets are ignored."""
        rows = self._features(X, sample_weight)
        present = int(np.count_nonzero(rows.weights))
        fix = f"There are {present} rows of positive weight."
        check(self.n_clusters <= present, "n_clusters", "at most the number of rows", self.n_clusters, fix)
        found = k_medoids(
            rows.X, self.n_clusters, metric=self.metric, weights=rows.weights, max_sweeps=self.max_iter,
            progress=False,
        )  # fmt: skip
        self.medoid_indices_, self.labels_ = np.asarray(found.indices), np.asarray(found.labels)
        self.cluster_centers_ = rows.X[self.medoid_indices_]
        self.inertia_, self.n_iter_, self.verdict_ = found.cost, found.num_swaps + 1, found.verdict
        return self

    def predict(self, X) -> np.ndarray:
        """The nearest medoid of each row."""
        return self._distances(X).argmin(1).astype(np.int32)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the sum of the distances to the nearest medoid."""
        least = self._distances(X).min(1)
        return -float(least.sum() if sample_weight is None else np.asarray(sample_weight) @ least)

    def _distances(self, X) -> np.ndarray:
        rows = self._new_table(X)
        return distances_between(rows.X, self.cluster_centers_, self.metric)
