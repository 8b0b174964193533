"""Trees from one split to a forest: rules to read, pruning, out-of-bag checks, sources of uncertainty."""

import jax.random as jr
import numpy as np

from tractable.supervised import fit_adaboost, fit_forest, fit_rotation_forest, fit_tree
from tractable.supervised.trees.pruning import prune, pruning_path
from tractable.supervised.trees.tree import information_gain


def rows_and_labels(rng, count):
    X = rng.normal(size=(count, 6))
    clean = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    return X, np.where(rng.uniform(size=count) < 0.1, 1 - clean, clean), clean


def main():
    rng = np.random.default_rng(0)
    X, y, _ = rows_and_labels(rng, 1000)
    new, _, truth = rows_and_labels(rng, 2000)

    print("gain of the signs of each column:", [round(information_gain(y, X[:, j] > 0), 4) for j in range(6)])

    tree = fit_tree(X, y)
    path = pruning_path(tree)
    alpha = float(path.alphas[np.searchsorted(-path.num_leaves, -12)])
    small = prune(tree, alpha)
    print(tree, path, small, *small.rules(), sep="\n")

    forest = fit_forest(X, y, key=jr.key(0))
    rotation = fit_rotation_forest(X, y, key=jr.key(1))
    boosted = fit_adaboost(X, y, num_rounds=60, max_depth=3)
    models = {
        "tree": tree,
        "pruned": small,
        "forest": forest,
        "rotation forest": rotation,
        "AdaBoost": boosted,
    }
    right = {name: float((model.predict(new) == truth).mean()) for name, model in models.items()}
    for name, model in models.items():
        print(f"{name:16} {right[name]:.3f} right on new rows; {model}")

    # pure leaves would call all doubt disagreement: leaves of some rows can tell noise from it
    split = fit_forest(X, y, key=jr.key(2), min_samples_leaf=10).uncertainty(new)
    doubt = np.asarray(split.total)
    sure = doubt < np.median(doubt)
    accuracy = [(forest.predict(new) == truth)[part].mean() for part in (sure, ~sure)]
    print(split, f"right where sure {accuracy[0]:.3f}, elsewhere {accuracy[1]:.3f}", sep="\n")

    assert right["forest"] > right["tree"] + 0.03
    assert (boosted.training_errors <= boosted.bounds).all()
    assert accuracy[0] > accuracy[1] + 0.05
    assert small.num_leaves <= 12


if __name__ == "__main__":
    main()
