"""Trees by NumPy are the trees of the compiled loops; small data need no compiler."""

import subprocess
import sys

import numpy as np
import pytest

from tractable.supervised.trees import arrays, growth, loops


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
    options = {"max_depth": 3, "max_leaves": 5, "min_samples_leaf": 4, "min_gain": 0.01}
    options = {name: value for name, value in options.items() if g.random() < 0.3}
    if g.random() < 0.5:
        options["max_features"] = int(g.integers(1, d + 1))
    return X, y, weights, growth.Growth(criterion=criterion, **options)


@pytest.mark.parametrize("seed", range(60))
def test_both_growers_give_the_same_tree(seed):
    X, y, weights, options = random_case(seed)
    sample, columns = growth.sample_of(X, y, weights, options.criterion, None), growth.code_columns(X)
    few, many = (growth.grow_tree(columns, sample, options, 7, grow=part.grow) for part in (arrays, loops))
    for name in ("feature", "left", "missing_left", "threshold"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))
    for name in ("value", "weight", "impurity"):
        np.testing.assert_allclose(getattr(few, name), getattr(many, name), rtol=1e-9, atol=1e-12)
    nodes = (few.feature, few.threshold, few.left, few.missing_left)
    np.testing.assert_array_equal(arrays.leaves_of(X, *nodes, 0), loops.leaves_of(X, *nodes, 0))
    sums = [np.zeros((len(X), few.value.shape[1])) for _ in range(2)]
    for part, out in zip((arrays, loops), sums):
        part.add_leaf_values(X, *nodes, np.array([0, 0]), few.value, np.array([0.3, 0.6]), out)
    np.testing.assert_array_equal(*sums)


def test_many_rows_or_many_small_trees_are_compiled(monkeypatch):
    few, many = growth.code_columns(np.zeros((10, 2))), growth.code_columns(np.zeros((3000, 2)))
    monkeypatch.setattr(growth, "_grown", {"rows": growth.PATIENCE - 25})
    assert growth.grower(many) is loops.grow
    assert [growth.grower(few), growth.grower(few, 2), growth.grower(few)] == [
        arrays.grow,
        loops.grow,
        arrays.grow,
    ]
    assert growth.grower(few) is loops.grow


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
