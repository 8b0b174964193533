"""Estimators of clustering trees and embeddings say what the models behind them say."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.cluster import AgglomerativeClustering as Peer
from sklearn.metrics import adjusted_rand_score

from tractable import datasets
from tractable.estimators import (
    AgglomerativeClustering,
    ClassicalMDS,
    Isomap,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    MetricMDS,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3))
TABLE = squareform(pdist(ROWS))
pytestmark = pytest.mark.cheap


@pytest.mark.parametrize("linkage", ["single", "complete", "average", "ward"])
def test_labels_are_those_of_scikit_learn(linkage):
    ours, peer = AgglomerativeClustering(4, linkage=linkage).fit(ROWS), Peer(4, linkage=linkage).fit(ROWS)
    assert adjusted_rand_score(ours.labels_, peer.labels_) == 1
    assert ours.n_clusters_ == 4
    high = AgglomerativeClustering(None, distance_threshold=1.3, linkage=linkage).fit(ROWS)
    assert high.n_clusters_ == Peer(None, distance_threshold=1.3, linkage=linkage).fit(ROWS).n_clusters_
    assert high.children_.shape == (29, 2)


def test_rows_of_weight_zero_join_their_neighbour():
    weights = np.ones(30)
    weights[[3, 17]] = 0
    for X, metric in ((ROWS, "euclidean"), (TABLE, "precomputed")):
        found = AgglomerativeClustering(3, linkage="average", metric=metric).fit(X, sample_weight=weights)
        alone = AgglomerativeClustering(3, linkage="average").fit(ROWS[weights > 0])
        np.testing.assert_array_equal(found.labels_[weights > 0], alone.labels_)
        near = np.where(weights > 0, TABLE[3], np.inf).argmin()
        assert found.labels_[3] == found.labels_[near]
    with pytest.raises(ValueError, match="and the other None"):
        AgglomerativeClustering(2, distance_threshold=1.0).fit(ROWS)
    with pytest.raises(ValueError, match="31 of 30 rows"):
        AgglomerativeClustering(31).fit(ROWS)


def test_distances_in_place_of_rows():
    rows, table = ClassicalMDS(2).fit(ROWS), ClassicalMDS(2, metric="precomputed").fit(TABLE)
    np.testing.assert_allclose(rows.embedding_, table.embedding_, atol=1e-10)
    new = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(table.transform(cdist(new, ROWS)), rows.transform(new), atol=1e-10)
    weights = np.resize([1.0, 0.0, 2.0], 30)
    a = ClassicalMDS(2).fit(ROWS, sample_weight=weights)
    b = ClassicalMDS(2, metric="precomputed").fit(TABLE, sample_weight=weights)
    np.testing.assert_allclose(a.embedding_, b.embedding_, atol=1e-9)
    np.testing.assert_allclose(b.transform(TABLE), b.embedding_, atol=1e-9)
    few = ClassicalMDS(3, n_landmarks=6, random_state=0).fit(ROWS)
    np.testing.assert_allclose(pdist(few.embedding_), pdist(ROWS), atol=1e-9)
    stressed = MetricMDS(2, metric="precomputed", n_init=2, random_state=0).fit(TABLE)
    assert stressed.stress_ <= MetricMDS(2).fit(ROWS).stress_ * (1 + 1e-3)


def test_manifolds_are_found():
    curve, held = datasets.s_curve(300, seed=1), datasets.s_curve(60, seed=2)
    for made in (Isomap(2), LaplacianEigenmaps(1), LocallyLinearEmbedding(2, n_neighbors=12)):
        fitted = made.fit(curve.features)
        assert abs(np.corrcoef(fitted.embedding_[:, 0], curve.target)[0, 1]) > 0.9
        assert abs(np.corrcoef(fitted.transform(held.features)[:, 0], held.target)[0, 1]) > 0.9
        assert fitted.n_neighbors_ == 12
        assert fitted.get_feature_names_out().shape == (fitted.embedding_.shape[1],)
