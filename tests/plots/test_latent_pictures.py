"""Pictures of clustering trees and of embeddings draw the numbers that they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

import tractable as tr
from tractable.estimators import AgglomerativeClustering, ClassicalMDS, LocallyLinearEmbedding, MetricMDS
from tractable.latent.hierarchical.agglomerative import agglomerate
from tractable.latent.manifold.smacof import metric_mds

ROWS = np.random.default_rng(0).normal(size=(16, 3))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def brackets(ax):
    return np.array(ax.collections[0].get_segments())


def test_dendrogram_has_a_bracket_for_each_merge():
    tree = agglomerate([0.0, 1.0, 3.0, 7.0], "average")
    ax = tr.plot(tree, labels=list("abcd"))
    corners = brackets(ax)
    np.testing.assert_allclose(corners[:, 1, 1], tree.heights)
    np.testing.assert_allclose(corners[:, 2, 1], tree.heights)
    assert [t.get_text() for t in ax.get_xticklabels()] == [list("abcd")[i] for i in tree.leaf_order]
    sideways = tr.plot(tree, side="left")
    np.testing.assert_allclose(brackets(sideways)[:, :, ::-1], corners)
    with pytest.raises(ValueError, match="`labels` must be as many as leaves"):
        tr.plot(tree, labels=["a"])


def test_clusters_of_the_cut_have_colours():
    fitted = AgglomerativeClustering(3, linkage="average").fit(ROWS)
    ax = tr.plot(fitted)
    colours = [tuple(c) for c in ax.collections[0].get_colors()]
    assert len(set(colours[-2:])) == 1  # above the cut
    below = {c for c in colours[:-2] if c != colours[-1]}
    sizes = np.bincount(fitted.labels_)
    assert len(below) == (sizes > 1).sum()
    assert ax.get_lines()[0].get_ydata()[0] == fitted.model_.cut_height(3)


def test_heat_map_shows_the_table_in_the_order_of_its_trees():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    tree = agglomerate(ROWS, "ward")
    ax = tr.plot(tree, frame, kind="heatmap")
    columns = agglomerate(ROWS.T, "ward").leaf_order
    np.testing.assert_array_equal(ax.images[0].get_array(), ROWS[tree.leaf_order][:, columns])
    assert [t.get_text() for t in ax.get_xticklabels()] == [list("abc")[j] for j in columns]
    assert [int(t.get_text()) for t in ax.get_yticklabels()] == tree.leaf_order.tolist()
    with pytest.raises(ValueError, match="one row for each of 16 leaves"):
        tr.plot(tree, ROWS[:3], kind="heatmap")


def test_embeddings_are_drawn_with_numbers_or_classes():
    fitted = ClassicalMDS(2).fit(ROWS)
    ax = tr.plot(fitted, ROWS[:, 0], labels=range(16))
    np.testing.assert_allclose(ax.collections[0].get_offsets(), fitted.embedding_)
    assert len(ax.texts) == 16
    classes = np.where(ROWS[:, 0] > 0, "high", "low")
    named = tr.plot(LocallyLinearEmbedding(1).fit(ROWS), classes)
    assert [t.get_text() for t in named.get_legend().get_texts()] == ["high", "low"]
    with pytest.raises(ValueError, match="one for each of 16 rows"):
        tr.plot(fitted, [1.0])


def test_shepard_compares_distances():
    found = metric_mds(ROWS, 2)
    ax = tr.plot(found, kind="shepard")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), pdist(ROWS))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), pdist(found.points))
    steps = tr.plot(MetricMDS(2, ordinal=True).fit(ROWS), kind="shepard").lines[1].get_ydata()
    assert np.all(np.diff(steps) >= -1e-12)
    classical = tr.plot(ClassicalMDS(2).fit(ROWS), ROWS, kind="shepard")
    np.testing.assert_allclose(classical.lines[0].get_xdata(), pdist(ROWS))
    with pytest.raises(ValueError, match="`X` must be given"):
        tr.plot(ClassicalMDS(2).fit(ROWS), kind="shepard")
