"""Trees by histograms: splits by enumeration, the compiled sums, bins, what a tree says of raw entries."""

import numpy as np
import pytest

from tractable.supervised.trees.columns import code_columns
from tractable.supervised.trees.histograms import Leafing, bin_columns, grow_by_histograms


def table(seed: int, count: int = 40, gaps: float = 0.2):
    """Few distinct values, so that bins are values; gaps; slopes, curvatures and weights."""
    draw = np.random.default_rng(seed)
    X = draw.integers(0, 6, (count, 3)).astype(float)
    X[draw.random(X.shape) < gaps] = np.nan
    return X, draw.normal(size=count), 0.5 + draw.random(count), draw.integers(0, 3, count).astype(float)


def binned(X, w, **options):
    return bin_columns(code_columns(X), w, **options)


def gain(left, g, h, w, ridge):
    """By definition, for a set of rows that go left."""
    score = lambda own: (w * g)[own].sum() ** 2 / ((w * h)[own].sum() + ridge)  # noqa: E731
    return score(left) + score(~left) - score(np.ones(len(g), bool))


def best_by_enumeration(X, g, h, w, ridge, least):
    """The largest gain over all columns, thresholds and sides of missing entries."""
    found = -np.inf
    for column in X.T:
        missing = np.isnan(column)
        for threshold in [*np.unique(column[~missing]), np.inf]:
            for gaps_left in (False, True):
                left = np.where(missing, gaps_left, column <= threshold)
                if min(w[left].sum(), w[~left].sum()) >= least:
                    found = max(found, gain(left, g, h, w, ridge))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.cheap
def test_the_split_is_the_best_of_all(seed):
    X, g, h, w = table(seed)
    ridge = 0.7 * (w @ h) / w.sum()
    grove = grow_by_histograms(binned(X, w), g[None], h[None], w[None], Leafing(1, 4.0, 0.7))
    tree = grove.branches[0]
    assert tree.gain[0] == pytest.approx(best_by_enumeration(X, g, h, w, ridge, 4.0), rel=1e-10)
    left = np.where(
        np.isnan(X[:, tree.feature[0]]), tree.missing_left[0], X[:, tree.feature[0]] <= tree.threshold[0]
    )
    assert tree.gain[0] == pytest.approx(gain(left, g, h, w, ridge), rel=1e-10)
    for side, rows in ((1, left), (2, ~left)):
        newton = (w * g)[rows].sum() / ((w * h)[rows].sum() + ridge)
        np.testing.assert_allclose(grove.values[0, rows], newton, rtol=1e-12)
        assert tree.value[side] == pytest.approx(newton, rel=1e-12)


def test_deeper_nodes_are_split_as_if_they_were_alone():
    X, g, h, w = table(1, 120)
    w = np.ones_like(w)
    ridge = (w @ h) / w.sum()
    tree = grow_by_histograms(binned(X, w), g[None], h[None], w[None], Leafing(2, 3.0, 1.0)).branches[0]
    column = X[:, tree.feature[0]]
    left = np.where(np.isnan(column), tree.missing_left[0], column <= tree.threshold[0])
    for node, own in ((1, left), (2, ~left)):
        alone = best_by_enumeration(X[own], g[own], h[own], w[own], ridge, 3.0)
        assert tree.gain[node] == pytest.approx(alone, rel=1e-9)


def test_trees_grown_together_are_those_grown_alone_and_unseen_rows_are_sent_down():
    X, g, h, w = table(2, 90)
    other = np.where(np.arange(90) % 3 == 0, 0.0, 1.0)
    both = grow_by_histograms(
        binned(X, w), np.stack([g, -(g**2)]), np.stack([h, h]), np.stack([w, other]), Leafing(3, 2.0)
    )
    for t, (slopes, weights) in enumerate(((g, w), (-(g**2), other))):
        alone = grow_by_histograms(binned(X, w), slopes[None], h[None], weights[None], Leafing(3, 2.0))
        np.testing.assert_array_equal(both.values[t], alone.values[0])
        np.testing.assert_array_equal(both.branches[t].threshold, alone.branches[0].threshold)
    copies = grow_by_histograms(binned(X, w), slopes[None], h[None], 3 * weights[None], Leafing(3, 6.0, 3.0))
    np.testing.assert_allclose(copies.values[0], both.values[1], rtol=1e-12)


def test_bins_weigh_alike_and_hold_neighbouring_values():
    draw = np.random.default_rng(0)
    X, w = draw.normal(size=(1000, 1)), draw.random(1000)
    found = binned(X, w, max_bins=16)
    assert found.num_bins == 16
    mass = np.bincount(found.codes[0], w)
    assert mass.max() < 1.1 * w.sum() / 16
    for b in range(15):
        assert (found.codes[0] <= b).tolist() == (X[:, 0] <= found.edges[0, b]).tolist()


def test_a_column_of_gaps_alone_and_a_constant_one_are_never_split():
    X = np.column_stack([np.full(30, np.nan), np.ones(30), np.arange(30.0)])
    g = np.where(np.arange(30) < 15, -1.0, 1.0)
    tree = grow_by_histograms(
        binned(X, np.ones(30)), g[None], np.ones((1, 30)), np.ones((1, 30)), Leafing(3, 1.0)
    ).branches[0]
    assert set(tree.feature[tree.left >= 0]) == {2}
    assert tree.threshold[0] == 14.5


@pytest.mark.thorough
def test_compiled_sums_have_the_same_bits():
    X, g, h, w = table(3, 3000)
    X[:, 0] = np.random.default_rng(9).normal(size=3000)
    columns = np.array([0, 2])
    tables = np.stack([g, g**2]), np.stack([h, h]), np.stack([w, w + 1])
    made = [
        grow_by_histograms(binned(X, w), *tables, Leafing(4, 5.0), columns, compiled=compiled)
        for compiled in (False, True)
    ]
    np.testing.assert_array_equal(made[0].values, made[1].values)
    for one, two in zip(made[0].branches, made[1].branches):
        np.testing.assert_array_equal(one.threshold, two.threshold)
        np.testing.assert_array_equal(one.value, two.value)
