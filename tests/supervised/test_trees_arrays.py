"""Splits by NumPy are the splits of the compiled loops; small data need no compiler."""

import subprocess
import sys

import numpy as np
import pytest

from tractable.supervised.trees import columns, growth, splits


def random_case(seed):
    """Rows with ties and missing entries, targets, weights and options."""
    g = np.random.default_rng(seed)
    n, d = int(g.integers(2, 150)), int(g.integers(1, 7))
    X = g.normal(size=(n, d)) if g.random() < 0.5 else g.integers(0, 4, (n, d)).astype(float)
    if g.random() < 0.5:
        X[g.random(X.shape) < 0.2] = np.nan
    criterion = ("gini", "entropy", "variance")[seed % 3]
    y = g.normal(size=n) if criterion == "variance" else g.integers(0, 3, n)
    weights = (None, g.integers(0, 3, n) + (np.arange(n) == 0), g.random(n) + 0.01)[int(g.integers(3))]
    options = {"max_depth": 3, "max_leaves": 5, "min_samples_leaf": 4, "min_gain": 0.01, "alpha": 0.01}
    options = {name: value for name, value in options.items() if g.random() < 0.3}
    if g.random() < 0.5:
        options["max_features"] = int(g.integers(1, d + 1))
    return X, y, weights, growth.Growth(criterion=criterion, **options)


@pytest.mark.parametrize("seed", range(60))
def test_both_primitives_grow_the_same_trees(seed, monkeypatch):
    X, y, weights, options = random_case(seed)
    rows, sample = columns.sample_of(X, y, weights, options.criterion, None)
    coded = columns.code_columns(rows)
    several = np.stack(
        [sample.weights, sample.weights * (np.arange(len(X)) % 3 != 1) + (np.arange(len(X)) == 0)]
    )
    grown = []
    for much in (np.inf, -1):
        monkeypatch.setattr(splits, "MUCH_WORK", much)
        grown.append(growth.grow_trees(coded, sample, options, np.array([7, 8], np.uint64), several, 2))
    few, many = grown
    for name in few.nodes:
        np.testing.assert_array_equal(few.nodes[name], many.nodes[name])
    np.testing.assert_array_equal(few.sizes, many.sizes)
    np.testing.assert_array_equal(few.leaves, many.leaves)
    alone = growth.grow_tree(coded, sample, options, 8, several[1])
    second = slice(int(few.sizes[0]), None)
    for name in few.nodes:  # a tree does not depend on those beside it
        np.testing.assert_array_equal(getattr(alone, name), few.nodes[name][second])
    absent = np.flatnonzero(several[1] == 0)
    np.testing.assert_array_equal(alone.apply(X[absent]), few.leaves[len(few.leaves) - len(absent) :])


def test_the_work_at_hand_chooses(monkeypatch):
    assert splits.primitives(10.0) == splits.numpy_primitives()
    assert splits.primitives(1e9)[0].__qualname__.startswith("compiled_primitives")
    little, much = growth.Growth().work(500, 10, 1), growth.Growth().work(50_000, 20, 100)
    assert little < splits.MUCH_WORK < much


def test_a_small_tree_and_forest_need_no_numba():
    code = """if True:
        import sys
        import jax.random as jr, numpy as np
        from tractable.supervised.trees.forests import fit_forest
        from tractable.supervised.trees.growth import fit_tree
        X = np.arange(40.0).reshape(20, 2)
        y = (X[:, 0] > 15).astype(int)
        assert (fit_tree(X, y).predict(X) == y).all()
        fit_forest(X, y, key=jr.key(0), num_trees=5).predict(X)
        print("numba" in sys.modules)"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout.strip() == "False"
