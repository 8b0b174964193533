"""Forests, AdaBoost and rotation forests: definitions by loops, bounds, bridges, repeatability."""

import jax.random as jr
import numpy as np
import pytest
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier

from tractable.core.iterate import Status
from tractable.inference.trust.uncertainty import split_entropy
from tractable.supervised.trees.boosting import fit_adaboost
from tractable.supervised.trees.forests import draw_rows, fit_forest
from tractable.supervised.trees.growth import fit_tree
from tractable.supervised.trees.rotation import fit_rotation_forest, principal_rotation

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(600, 6))
CODES = (ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2] + 0.5 * RNG.normal(size=600) > 0).astype(int)
THREE = (ROWS[:, :3] + 0.5 * RNG.normal(size=(600, 3))).argmax(1)
SLANTED = (ROWS[:, :3].sum(1) > 0).astype(int)
NUMBERS = np.sin(2 * ROWS[:, 0]) + ROWS[:, 1] + 0.5 * RNG.normal(size=600)
FRESH = RNG.normal(size=(300, 6))


def test_a_forest_is_the_mean_of_its_trees():
    forest = fit_forest(ROWS, THREE, key=jr.key(0), num_trees=12)
    shares = np.stack([forest.tree(t).values(FRESH) for t in range(12)])
    np.testing.assert_allclose(forest.values(FRESH), shares.mean(0), atol=1e-14)
    split, wanted = forest.uncertainty(FRESH), split_entropy(shares)
    np.testing.assert_allclose(split.aleatoric, wanted.aleatoric, atol=1e-12)
    np.testing.assert_allclose(split.epistemic, wanted.epistemic, atol=1e-12)
    importance = np.mean([forest.tree(t).feature_importance() for t in range(12)], axis=0)
    np.testing.assert_allclose(forest.feature_importance(), importance)
    assert importance[:3].min() > importance[3:].max()


def test_draws_are_a_bootstrap_in_proportion_to_weights():
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    drawn = np.array([draw_rows(weights, seed) for seed in range(4000)])
    assert (drawn.sum(1) == 8).all()
    assert (drawn[:, 2] == 0).all()
    z = (drawn.mean(0) - weights) / np.maximum(np.sqrt(weights * (1 - weights / 8) / 4000), 1e-9)
    assert np.abs(z).max() < 5
    unit = draw_rows(np.ones(10_000), 1)
    assert abs((unit == 0).mean() - np.exp(-1)) < 5 * np.sqrt(np.exp(-1) / 10_000)


def test_out_of_bag_rows_are_judged_by_trees_that_did_not_see_them():
    forest = fit_forest(ROWS, CODES, key=jr.key(1), num_trees=60)
    wrong = (forest.out_of_bag.argmax(1) != CODES).mean()
    assert float(forest.out_of_bag_error) == pytest.approx(wrong)
    assert (forest.predict(ROWS) != CODES).mean() < 0.01 < wrong  # rows that were seen flatter
    noise = fit_forest(RNG.normal(size=(600, 6)), CODES, key=jr.key(1), num_trees=60)
    assert abs(float(noise.out_of_bag_error) - 0.5) < 5 * np.sqrt(0.25 / 600)
    assert "out-of-bag error" in repr(forest)
    whole = fit_forest(ROWS, CODES, key=jr.key(1), num_trees=3, bootstrap=False)
    assert "unchecked" in repr(whole)


def test_accuracy_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(1500, 8)), rng.normal(size=(4000, 8))
    rule = lambda x: (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)  # noqa: E731
    y = np.where(rng.uniform(size=1500) < 0.1, 1 - rule(X), rule(X))
    ours = (fit_forest(X, y, key=jr.key(0)).predict(new) == rule(new)).mean()
    theirs = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(X, y).score(new, rule(new))
    assert abs(ours - theirs) < 0.02
    assert ours > fit_tree(X, y).predict(new).__eq__(rule(new)).mean() + 0.03


def test_the_forest_depends_on_the_key_alone():
    one = fit_forest(ROWS, CODES, key=jr.key(3), num_trees=6, num_threads=1)
    two = fit_forest(ROWS, CODES, key=jr.key(3), num_trees=6, num_threads=2)
    np.testing.assert_array_equal(one.threshold, two.threshold)
    order = RNG.permutation(600)
    shuffled = fit_forest(ROWS[order], CODES[order], key=jr.key(3), num_trees=6)
    np.testing.assert_array_equal(one.threshold, shuffled.threshold)
    np.testing.assert_array_equal(one.out_of_bag[order], shuffled.out_of_bag)
    other = fit_forest(ROWS, CODES, key=jr.key(4), num_trees=6)
    assert other.threshold.shape != one.threshold.shape


def test_the_variance_of_a_forest_covers_new_targets():
    forest = fit_forest(ROWS, NUMBERS, key=jr.key(0), criterion="variance", num_trees=100)
    truth = np.sin(2 * FRESH[:, 0]) + FRESH[:, 1] + 0.5 * np.random.default_rng(9).normal(size=300)
    split = forest.uncertainty(FRESH)
    z = (forest.predict(FRESH) - truth) / np.sqrt(np.asarray(split.total))
    assert 0.85 < (np.abs(z) < 1.645).mean() < 0.99
    leaves = forest.leaves(FRESH)
    np.testing.assert_allclose(split.epistemic, forest.value[leaves, 0].var(0), atol=1e-12)
    doubtful = forest.uncertainty(10 + FRESH).aleatoric
    assert np.isfinite(np.asarray(doubtful)).all()


def test_adaboost_by_its_definition():
    found = fit_adaboost(ROWS, CODES, num_rounds=8)
    sign, weights, total = 2 * CODES - 1, np.full(600, 1 / 600), np.zeros(600)
    for m, tree in enumerate(found.trees):
        h = 2 * fit_tree(ROWS, CODES, weights * 600, max_depth=1).predict(ROWS) - 1
        np.testing.assert_array_equal(h, 2 * tree.predict(ROWS) - 1)
        error = weights[h != sign].sum()
        alpha = 0.5 * np.log((1 - error) / error)
        assert found.errors[m] == pytest.approx(error, rel=1e-10)
        assert found.alphas[m] == pytest.approx(alpha, rel=1e-10)
        weights = weights * np.exp(-alpha * sign * h)
        weights /= weights.sum()
        total += alpha * h
        assert found.training_errors[m] == pytest.approx((np.where(total > 0, 1, -1) != sign).mean())
        # the tree just made is of no use on the new weights
        assert weights[h != sign].sum() == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(found.probabilities(ROWS)[:, 1], expit(2 * total), rtol=1e-10)
    np.testing.assert_allclose(found.bounds, np.cumprod(2 * np.sqrt(found.errors * (1 - found.errors))))


@pytest.mark.parametrize(("labels", "depth"), [(SLANTED, 1), (CODES, 3), (THREE, 2)])
def test_the_training_error_is_below_its_bound(labels, depth):
    found = fit_adaboost(ROWS, labels, num_rounds=40, max_depth=depth)
    assert (found.training_errors <= found.bounds + 1e-12).all()
    assert found.training_errors[-1] < found.training_errors[0]
    assert found.status is Status.completed
    K = labels.max() + 1
    alphas = 0.5 * (np.log((1 - found.errors) / found.errors) + np.log(K - 1))
    np.testing.assert_allclose(found.alphas, alphas, rtol=1e-12)


def test_adaboost_ends_where_nothing_is_left_to_learn():
    perfect = fit_adaboost([[0.0], [1.0]], [0, 1])
    assert perfect.status is Status.converged
    assert perfect.alphas.tolist() == [np.inf]
    np.testing.assert_array_equal(perfect.probabilities([[0.0], [1.0]]), np.eye(2))
    useless = fit_adaboost([[1.0]] * 4, [0, 1, 0, 1])
    assert useless.status is Status.stalled
    np.testing.assert_allclose(useless.probabilities([[5.0]]), [[0.5, 0.5]])
    assert "No tree was better than chance" in repr(useless)


def test_rotations_keep_all_components_of_disjoint_subsets():
    subsets = [np.array([0, 3, 5]), np.array([1, 2, 4])]
    mixed = ROWS @ RNG.normal(size=(6, 6))
    drawn = RNG.integers(0, 3, 600).astype(float)
    found = principal_rotation(mixed, drawn, subsets)
    rotation = found * mixed.std(0)[:, None]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-12)
    assert (found[np.ix_(subsets[0], subsets[1])] == 0).all()
    turned = mixed @ found
    cov = np.cov(turned, rowvar=False, fweights=drawn.astype(int))
    for subset in subsets:
        block = cov[np.ix_(subset, subset)]
        np.testing.assert_allclose(block - np.diag(np.diag(block)), 0, atol=1e-10)
        assert (np.diff(np.diag(block)) <= 1e-12).all()


def test_rotation_forests_see_slanted_borders():
    y = (ROWS @ np.array([1.0, 1, 1, -1, -1, 1]) > 0).astype(int)
    new = (FRESH @ np.array([1.0, 1, 1, -1, -1, 1]) > 0).astype(int)
    found = fit_rotation_forest(ROWS * [1, 1e12, 1e-12, 1, 1, 1], y, key=jr.key(0), num_trees=20)
    right = (found.predict(FRESH * [1, 1e12, 1e-12, 1, 1, 1]) == new).mean()
    assert right > (fit_tree(ROWS, y).predict(FRESH) == new).mean() + 0.05
    constant = fit_rotation_forest(np.ones((5, 2)), [0, 1, 1, 1, 0], key=jr.key(0), num_trees=2)
    np.testing.assert_allclose(constant.values([[1.0, 1.0]]), [[0.4, 0.6]])
    with pytest.raises(ValueError, match="`X` must be finite; got NaN in column 1, row 0"):
        found.predict(np.array([[0.0, np.nan, 0, 0, 0, 0]]))


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="`num_trees` must be a whole number of at least 1; got 0"):
        fit_forest(ROWS, CODES, key=jr.key(0), num_trees=0)
    with pytest.raises(ValueError, match="`weights` must be of a sum up to"):
        fit_forest(ROWS, CODES, np.full(600, 1e9), key=jr.key(0), num_trees=1)
    with pytest.raises(ValueError, match="`subset_size` must be a whole number"):
        fit_rotation_forest(ROWS, CODES, key=jr.key(0), subset_size=0)
