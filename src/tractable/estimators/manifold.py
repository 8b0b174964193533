"""Embeddings as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is in
`latent.manifold`."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.dissimilarity import METRICS, given_distances
from tractable.core.rows import Rows
from tractable.estimators.base import Transformer, key_from
from tractable.latent.manifold.classical import classical_mds, landmark_mds
from tractable.latent.manifold.graph import isomap, laplacian_eigenmaps
from tractable.latent.manifold.lle import locally_linear_embedding
from tractable.latent.manifold.smacof import metric_mds

__all__ = ["ClassicalMDS", "Isomap", "LaplacianEigenmaps", "LocallyLinearEmbedding", "MetricMDS"]

_COUNT = Interval(Integral, 1, None, closed="left")


class _Embedding(Transformer):
    """Places of the rows in `embedding_`, which `fit_transform` gives; `model_` is the result behind them."""

    embedding_: np.ndarray
    model_: Any

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self, "metric", None) == "precomputed"
        return tags

    def fit_transform(self, X, y=None, sample_weight=None):
        """The places of the rows."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.fit(X, y, **given).embedding_

    def _keep(self, model: Any) -> Any:
        self.model_, self.embedding_ = model, model.points
        return self


class _Placed(_Embedding):
    """An embedding with a map for new rows."""

    def transform(self, X):
        """The places of new rows among those of the fit."""
        rows = self._new_table(X)
        return self.model_.transform(rows)


class ClassicalMDS(_Embedding):
    """Points whose inner products are those behind the distances, as far as `n_components` allow.

    With `metric="precomputed"` the rows are distances: of all rows to each other for `fit`, of new rows to
    those of the fit for `transform`. `n_landmarks` embeds so many rows far apart and places the others by
    their distances to them.

    >>> ClassicalMDS(1).fit_transform([[0.0, 0.0], [3.0, 4.0]]).round(6).tolist()
    [[2.5], [-2.5]]
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [_COUNT],
        "metric": [StrOptions(set(METRICS))],
        "correction": [StrOptions({"additive", "squared"}), None],
        "n_landmarks": [_COUNT, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_components=2, *, metric="euclidean", correction=None, n_landmarks=None, random_state=None
    ):
        self.n_components = n_components
        self.metric = metric
        self.correction = correction
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Find the places."""
        rows = self._features(X, sample_weight, ensure_min_samples=2)
        if self.metric == "precomputed":
            return self._from_distances(rows)
        there = rows.take(rows.weights > 0)
        if self.n_landmarks is not None:
            key = key_from(self.random_state)
            count = int(self.n_landmarks)
            model = landmark_mds(there, self.n_components, count, key=key, metric=self.metric)
        else:
            model = classical_mds(there, self.n_components, metric=self.metric, correction=self.correction)
        self._keep(model)
        self.embedding_ = self.embedding_ if (rows.weights > 0).all() else model.transform(rows.X)
        return self

    def transform(self, X):
        """The places of new rows among those of the fit."""
        rows = self._new_table(X)
        if self.metric != "precomputed":
            return self.model_.transform(rows)
        return self.model_.place(rows.X[:, self.columns_])

    def _from_distances(self, rows: Rows) -> Any:
        table, weights = given_distances(rows.X), rows.weights if rows.is_weighted else None
        options = {"metric": "precomputed", "weights": weights, "correction": self.correction}
        self.columns_ = np.flatnonzero(rows.weights > 0)
        self._keep(classical_mds(table, self.n_components, **options))
        if len(self.columns_) < len(table):
            self.embedding_ = self.model_.place(table[:, self.columns_])
        return self


class MetricMDS(_Embedding):
    """Points of least stress: distances as close as can be to those given, or (`ordinal`) in their order.

    >>> round(MetricMDS(1).fit([[0.0], [1.0], [3.0]]).stress_, 9)
    0.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [_COUNT],
        "metric": [StrOptions(set(METRICS))],
        "ordinal": ["boolean"],
        "n_init": [_COUNT],
        "max_iter": [_COUNT],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_components=2, *, metric="euclidean", ordinal=False, n_init=1, max_iter=1000, tol=1e-6,
        random_state=None,
    ):  # fmt: skip
        self.n_components = n_components
        self.metric = metric
        self.ordinal = ordinal
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y=None):
        """Find the places, from classical scaling and `n_init - 1` random starts."""
        rows = self._features(X, ensure_min_samples=2)
        more = int(self.n_init) - 1
        model = metric_mds(
            rows.X, self.n_components, metric=self.metric, ordinal=self.ordinal, num_restarts=more,
            key=key_from(self.random_state) if more else None, max_steps=int(self.max_iter), tol=self.tol,
            progress=False,
        )  # fmt: skip
        self.stress_, self.n_iter_ = model.stress, max(model.num_steps, 1)
        return self._keep(model)


class LocallyLinearEmbedding(_Placed):
    """Places in which every row is the same weighted sum of its neighbours, centred with unit covariance.

    `n_neighbors=None` is the first of 12, 18, 27, ... that joins all rows.

    >>> LocallyLinearEmbedding(1, n_neighbors=2).fit_transform([[0.0], [1.0], [2.0], [3.0]]).shape
    (4, 1)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [_COUNT],
        "n_neighbors": [_COUNT, None],
        "reg": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, n_components=2, *, n_neighbors=None, reg=1e-3):
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.reg = reg

    def fit(self, X, y=None):
        """Find weights and places."""
        rows = self._features(X, ensure_min_samples=self.n_components + 2)
        model = locally_linear_embedding(
            rows, self.n_components, self.n_neighbors, regularisation=float(self.reg)
        )
        self.n_neighbors_, self.reconstruction_error_ = model.num_neighbours, float(model.eigenvalues.sum())
        return self._keep(model)


class Isomap(_Placed):
    """Places whose distances are those along the graph of neighbours.

    `n_neighbors=None` is the first of 12, 18, 27, ... that joins all rows; `n_landmarks` looks only at paths
    to so many rows far apart.

    >>> Isomap(1, n_neighbors=1).fit_transform([[0.0], [1.0], [3.0]]).round(6).ravel().tolist()
    [-1.333333, -0.333333, 1.666667]
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [_COUNT],
        "n_neighbors": [_COUNT, None],
        "n_landmarks": [_COUNT, None],
        "random_state": ["random_state"],
    }

    def __init__(self, n_components=2, *, n_neighbors=None, n_landmarks=None, random_state=None):
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X, y=None):
        """Find paths and places."""
        rows = self._features(X, ensure_min_samples=2)
        key = None if self.n_landmarks is None else key_from(self.random_state)
        model = isomap(rows, self.n_components, self.n_neighbors, num_landmarks=self.n_landmarks, key=key)
        self.n_neighbors_, self.residual_variance_ = model.num_neighbours, model.residual_variance
        return self._keep(model)


class LaplacianEigenmaps(_Placed):
    """Coordinates that change least along the edges of the graph of neighbours.

    `n_neighbors=None` is the first of 12, 18, 27, ... that joins all rows.

    >>> LaplacianEigenmaps(1, n_neighbors=2).fit_transform([[0.0], [1.0], [2.0], [3.0]]).shape
    (4, 1)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [_COUNT],
        "n_neighbors": [_COUNT, None],
        "kind": [StrOptions({"heat", "binary"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(self, n_components=2, *, n_neighbors=None, kind="heat", bandwidth=None):
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.kind = kind
        self.bandwidth = bandwidth

    def fit(self, X, y=None):
        """Find the coordinates."""
        rows = self._features(X, ensure_min_samples=self.n_components + 2)
        model = laplacian_eigenmaps(
            rows, self.n_components, self.n_neighbors, kind=self.kind, bandwidth=self.bandwidth
        )
        self.n_neighbors_ = model.num_neighbours
        return self._keep(model)
