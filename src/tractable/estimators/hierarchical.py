"""Trees of clusters as a scikit-learn estimator: validation, wiring, fitted attributes; the mathematics is in
`latent.hierarchical`."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.core.dissimilarity import METRICS, cross_distances, given_distances
from tractable.estimators.base import Clusterer
from tractable.latent.hierarchical.agglomerative import LINKAGES, agglomerate

__all__ = ["AgglomerativeClustering"]


class AgglomerativeClustering(Clusterer):
    """Join the closest clusters until `n_clusters` are left, or until they are `distance_threshold` apart.

    The tree is `model_`: cut it elsewhere with `model_.cut(k)`, draw it with `tractable.plot`. A row of
    weight two is the row twice; one of weight zero has the label of the nearest row that counts. With
    `metric="precomputed"` the rows are a square table of distances.

    >>> AgglomerativeClustering(2, linkage="single").fit_predict([[0.0], [1.0], [3.0], [9.0]]).tolist()
    [0, 0, 0, 1]
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "distance_threshold": [Interval(Real, 0, None, closed="left"), None],
        "linkage": [StrOptions(set(LINKAGES))],
        "metric": [StrOptions(set(METRICS))],
    }

    def __init__(self, n_clusters=2, *, distance_threshold=None, linkage="ward", metric="euclidean"):
        self.n_clusters = n_clusters
        self.distance_threshold = distance_threshold
        self.linkage = linkage
        self.metric = metric

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags

    def fit(self, X, y=None, sample_weight=None):
        """Grow the tree and cut it."""
        rows = self._features(X, sample_weight, ensure_min_samples=2)
        one = (self.n_clusters is None) != (self.distance_threshold is None)
        got = (self.n_clusters, self.distance_threshold)
        check(one, "n_clusters", "given, or `distance_threshold`, and the other None", got)
        weights = rows.weights if rows.is_weighted else None
        there = rows.weights > 0
        table = given_distances(rows.X) if self.metric == "precomputed" else rows.X
        self.model_ = agglomerate(table, self.linkage, metric=self.metric, weights=weights, progress=False)
        count = self.model_.num_leaves
        if self.n_clusters is not None:
            fits = self.n_clusters <= count
            check(fits, "n_clusters", "at most the number of rows", f"{self.n_clusters} of {count} rows")
        found = self.model_.cut(self.n_clusters, height=self.distance_threshold)
        self.labels_ = found if there.all() else found[self._nearest(table, there)]
        self.n_clusters_ = int(found.max()) + 1
        self.n_leaves_ = count
        self.children_, self.distances_ = self.model_.merges, self.model_.heights
        return self

    def _nearest(self, table: np.ndarray, there: np.ndarray) -> np.ndarray:
        """Of each row the place among those that count of the nearest that does."""
        if self.metric == "precomputed":
            return table[:, there].argmin(1)
        return cross_distances(table, table[there], self.metric).argmin(1)
