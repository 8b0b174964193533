"""CART against a search of all splits and against scikit-learn; impurities, rules, pruning, odd data."""

import hypothesis.strategies as st
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.oracles.greedy_tree import impurity, splits
from tractable.core.rows import Rows
from tractable.distributions.information import entropy
from tractable.supervised.trees.growth import fit_tree
from tractable.supervised.trees.held_out import held_out_ratio
from tractable.supervised.trees.pruning import prune, pruning_path
from tractable.supervised.trees.tree import gini, information_gain, split_gain

RNG = np.random.default_rng(0)
# float32 values: scikit-learn rounds its input
ROWS = RNG.normal(size=(1500, 5)).astype(np.float32).astype(float)
CODES = (ROWS @ RNG.normal(size=(5, 3)) + RNG.normal(size=(1500, 3))).argmax(1)
NUMBERS = ROWS[:, 0] * ROWS[:, 1] + np.sin(ROWS[:, 2]) + 0.3 * RNG.normal(size=1500)
WEIGHTS = RNG.uniform(0.1, 2, 1500)
FRESH = RNG.normal(size=(400, 5)).astype(np.float32).astype(float)
HOLES = np.where(RNG.uniform(size=ROWS.shape) < 0.2, np.nan, ROWS)
FRESH_HOLES = np.where(RNG.uniform(size=FRESH.shape) < 0.2, np.nan, FRESH)

# outlook, temperature, humidity, wind, play
TENNIS = [row.split() for row in """
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rain mild high weak yes
rain cool normal weak yes
rain cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rain mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rain mild high strong no""".strip().splitlines()]  # fmt: skip


def test_information_gain_of_play_tennis():
    columns = list(zip(*TENNIS))
    gains = [information_gain(columns[4], columns[j]) for j in (0, 2, 3, 1)]
    np.testing.assert_allclose(gains, [0.24675, 0.15184, 0.04813, 0.02922], atol=5e-6)
    assert information_gain(columns[4], columns[4]) == pytest.approx(0.9402859587, abs=1e-10)
    assert float(entropy([9 / 14, 5 / 14], base=2)) == pytest.approx(0.9402859587, abs=1e-10)


def test_information_gain_is_mutual_information_and_counts_weights():
    y, a = RNG.integers(0, 3, 60), RNG.integers(0, 4, 60)
    table = np.array([[np.mean((a == v) & (y == k)) for k in range(3)] for v in range(4)])
    wanted = entropy(table.sum(0)) + entropy(table.sum(1)) - entropy(table)
    assert information_gain(y, a, base=None) == pytest.approx(float(wanted), rel=1e-10)
    w = RNG.integers(0, 4, 60)
    repeated = information_gain(np.repeat(y, w), np.repeat(a, w))
    assert information_gain(y, a, w) == pytest.approx(repeated, rel=1e-12)
    assert split_gain([[2, 2], [0, 0]]) == 0
    assert split_gain([[2, 0], [0, 2]], "gini") == gini([0.5, 0.5]) == 0.5


@pytest.mark.parametrize("criterion", ["gini", "entropy", "variance"])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("distinct", [5, 10_000])  # few codes are counted, many are sorted
def test_every_split_is_the_best_of_all(criterion, holes, distinct):
    rng = np.random.default_rng(3)
    X = rng.integers(0, distinct, size=(90, 4)) / 7.0
    X[rng.uniform(size=X.shape) < 0.2 * holes] = np.nan
    y = rng.normal(size=90) if criterion == "variance" else rng.integers(0, 3, 90)
    w = rng.uniform(0.2, 2, 90)
    tree = fit_tree(X, y, w, criterion=criterion, max_depth=3)
    waiting = [(0, np.arange(90))]
    while waiting:
        node, mine = waiting.pop()
        assert tree.weight[node] == pytest.approx(w[mine].sum())
        assert tree.impurity[node] == pytest.approx(impurity(y[mine], w[mine], criterion), abs=1e-12)
        if tree.left[node] < 0:
            continue
        children = [tree.left[node], tree.right[node]]
        mass = tree.weight * tree.impurity
        gain = mass[node] - mass[children].sum()
        best = max(found[0] for found in splits(X[mine], y[mine], w[mine], criterion))
        assert gain == pytest.approx(best, abs=1e-9)
        x = X[mine, tree.feature[node]]
        left = np.where(np.isnan(x), tree.missing_left[node], x <= tree.threshold[node])
        waiting += [(children[0], mine[left]), (children[1], mine[~left])]


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("holes", [False, True])
def test_classification_agrees_with_scikit_learn(criterion, holes):
    X, fresh = (HOLES, FRESH_HOLES) if holes else (ROWS, FRESH)
    ours = fit_tree(X, CODES, WEIGHTS, criterion=criterion, max_leaves=25)
    theirs = DecisionTreeClassifier(criterion=criterion, max_leaf_nodes=25, random_state=0)
    theirs.fit(X, CODES, WEIGHTS)
    np.testing.assert_allclose(ours.values(fresh), theirs.predict_proba(fresh), atol=1e-12)
    np.testing.assert_allclose(ours.feature_importance(), theirs.feature_importances_, atol=1e-10)
    assert sorted(ours.feature[ours.left >= 0]) == sorted(theirs.tree_.feature[theirs.tree_.feature >= 0])


def test_regression_and_pruning_agree_with_scikit_learn():
    theirs = DecisionTreeRegressor(max_depth=6, random_state=0).fit(ROWS, NUMBERS, WEIGHTS)
    ours = fit_tree(ROWS, NUMBERS, WEIGHTS, criterion="variance", max_depth=6)
    np.testing.assert_allclose(ours.predict(FRESH), theirs.predict(FRESH), atol=1e-12)
    path, wanted = pruning_path(ours), theirs.cost_complexity_pruning_path(ROWS, NUMBERS, WEIGHTS)
    np.testing.assert_allclose(path.alphas, wanted.ccp_alphas, atol=1e-12)
    np.testing.assert_allclose(path.risks, wanted.impurities, atol=1e-12)
    assert path.num_leaves[0] == ours.num_leaves
    assert path.num_leaves[-1] == 1
    assert "to 1 at alpha" in repr(path)
    alpha = float(path.alphas[20:22].mean())
    pruned = DecisionTreeRegressor(max_depth=6, ccp_alpha=alpha, random_state=0).fit(ROWS, NUMBERS, WEIGHTS)
    np.testing.assert_allclose(prune(ours, alpha).predict(FRESH), pruned.predict(FRESH), atol=1e-12)
    by_option = fit_tree(ROWS, NUMBERS, WEIGHTS, criterion="variance", max_depth=6, alpha=alpha)
    np.testing.assert_array_equal(by_option.predict(FRESH), prune(ours, alpha).predict(FRESH))


@given(st.integers(0, 10_000))
def test_pruned_trees_minimise_risk_plus_leaves(seed):
    rng = np.random.default_rng(seed)
    tree = fit_tree(rng.normal(size=(12, 2)), rng.integers(0, 2, 12), max_depth=3)
    risk, alpha = tree.weight * tree.impurity / tree.weight[0], rng.uniform(0, 0.3)

    def cheapest(node):  # the best subtree below a node, by recursion over all of them
        if tree.left[node] < 0:
            return risk[node] + alpha
        return min(risk[node] + alpha, cheapest(tree.left[node]) + cheapest(tree.right[node]))

    found = prune(tree, alpha)
    leaves = found.left < 0
    cost = (found.weight * found.impurity)[leaves].sum() / tree.weight[0] + alpha * leaves.sum()
    assert cost == pytest.approx(cheapest(0), abs=1e-12)


@given(st.integers(0, 10_000), st.sampled_from(["gini", "variance"]))
def test_a_weight_of_two_is_the_row_twice(seed, criterion):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(30, 3)), 1)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, 30).astype(float)
    w = rng.integers(0, 4, 30)
    w[:3] = 1
    options = {"criterion": criterion, "min_samples_leaf": 3, "num_classes": 3}
    weighted = fit_tree(X, y, w, **options)
    repeated = fit_tree(np.repeat(X, w, 0), np.repeat(y, w), **options)
    np.testing.assert_array_equal(weighted.feature, repeated.feature)
    np.testing.assert_array_equal(weighted.threshold, repeated.threshold)
    np.testing.assert_allclose(weighted.value, repeated.value, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_scales_change_no_split(scale):
    plain = fit_tree(ROWS[:300], NUMBERS[:300], criterion="variance", max_depth=5)
    scaled = fit_tree(ROWS[:300] * scale, NUMBERS[:300], criterion="variance", max_depth=5)
    np.testing.assert_array_equal(plain.apply(ROWS[:300]), scaled.apply(ROWS[:300] * scale))
    targets = fit_tree(ROWS[:300], 1e-9 * NUMBERS[:300] + 1.0, criterion="variance", max_depth=3)
    assert targets.num_leaves == 8  # small variations on a large level are seen


def test_neighbouring_floats_and_missing_columns_are_split():
    x = np.array([1.0, np.nextafter(1.0, 2), 5e-324, 0.0])
    tree = fit_tree(x[:, None], [0, 1, 2, 3])
    np.testing.assert_array_equal(tree.predict(x[:, None]), [0, 1, 2, 3])
    only = fit_tree([[np.nan], [np.nan], [3.0], [3.0]], [0, 0, 1, 1])
    assert only.rules() == ["if x0 is known: 1 (100% of 2)", "if x0 is missing: 0 (100% of 2)"]
    assert only.predict([[np.nan], [-7.0]]).tolist() == [0, 1]


def test_exclusive_or_constant_columns_and_single_rows():
    square = [[0.0, 0.0, 5.0], [0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [1.0, 1.0, 5.0]]
    tree = fit_tree(square, [0, 1, 1, 0])  # the first split gains nothing
    np.testing.assert_array_equal(tree.predict(square), [0, 1, 1, 0])
    assert 2 not in tree.feature
    assert fit_tree(square, [0, 1, 1, 0], min_gain=0.01).num_leaves == 1
    assert fit_tree([[1.0, 2.0]], [0]).rules() == ["always: 0 (100% of 1)"]
    same = fit_tree([[1.0]] * 4, [0, 1, 1, 1])
    np.testing.assert_allclose(same.values([[9.0]]), [[0.25, 0.75]])
    assert fit_tree(ROWS, np.full(1500, 2.5), criterion="variance").num_leaves == 1


def test_limits_hold():
    tree = fit_tree(ROWS, CODES, WEIGHTS, min_samples_leaf=20)
    assert tree.weight[tree.left < 0].min() >= 20
    assert fit_tree(ROWS, CODES, max_depth=4).depths.max() == 4
    assert fit_tree(ROWS, CODES, max_leaves=7).num_leaves == 7
    drawn = [fit_tree(ROWS, CODES, max_features=2, key=jr.key(seed), max_depth=6) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0].threshold, drawn[1].threshold)
    assert (
        drawn[0].threshold.shape != drawn[2].threshold.shape or (drawn[0].feature != drawn[2].feature).any()
    )


def test_text_and_rules():
    tree = fit_tree([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [3.0, 1.0]], [0, 0, 1, 0], max_depth=2)
    names = {"feature_names": ["size", "age"], "class_names": ["no", "yes"]}
    assert tree.text(**names).splitlines() == [
        "all rows", "|-- size <= 2.5  -> no (100% of 2)", "|-- size > 2.5",
        "|   |-- age <= 0.5  -> yes (100% of 1)", "|   |-- age > 0.5  -> no (100% of 1)",
    ]  # fmt: skip
    assert tree.rules(**names)[1] == "if size > 2.5 and age <= 0.5: yes (100% of 1)"
    assert repr(tree).endswith(
        "3 leaves, depth 2, gini 0.375 at the root, 0 in the leaves, 100% of it explained "
        "on the training rows."
    )


def test_leaf_variances_have_a_pseudo_row():
    tree = fit_tree([[0.0], [0.0], [1.0]], [1.0, 3.0, 8.0], criterion="variance", max_depth=1)
    spread = np.var([1.0, 3.0, 8.0])
    np.testing.assert_allclose(tree.variances([[0.0], [1.0]]), [(2 * 1 + spread) / 3, spread / 2])


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"`X` must be finite, or NaN where missing; got infinity \(inf\) in column 1, row 0"
    ):
        fit_tree([[0.0, np.inf]], [0])
    with pytest.raises(
        ValueError, match=r"`y` must be codes 0, 1, ... of classes, from 0 to ...; got 0.5 at index 1"
    ):
        fit_tree([[0.0], [1.0]], [0, 0.5])
    with pytest.raises(ValueError, match=r"`weights` must be zero or positive, and finite; got -1\.0"):
        fit_tree([[0.0], [1.0]], [0, 1], [1.0, -1.0])
    with pytest.raises(ValueError, match="`key` must be given where `max_features` draws columns"):
        fit_tree(ROWS, CODES, max_features=2)
    with pytest.raises(ValueError, match="`max_features` must be a whole number from 1 to 5"):
        fit_tree(ROWS, CODES, max_features=6)
    with pytest.raises(ValueError, match="`X` must be rows of 5 columns; got 2 columns"):
        fit_tree(ROWS, CODES, max_depth=1).predict([[0.0, 1.0]])
    with pytest.raises(ValueError, match="`attribute` must be one value per row"):
        information_gain([1, 2], [1])
    with pytest.raises(ValueError, match="`criterion` must be one of"):
        fit_tree(ROWS, CODES, criterion="twoing")


def test_held_out_rows_see_through_grown_trees_and_weights_are_copies():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(200, 3)), generator.normal(size=200)

    def grow(rows):
        return fit_tree(rows, criterion="variance")

    ratio, degrees = held_out_ratio(Rows.of(X, y, target="number"), grow)
    # a leaf of one row: an error of 2 and a promise of 1/2, in units of the variance
    assert abs(ratio - 4) < 5 * 4 * np.sqrt(2 / 200)
    assert degrees == 199
    counts = generator.integers(1, 3, 200)
    once = held_out_ratio(Rows.of(X, y, counts.astype(float), target="number"), grow)
    copies = Rows.of(np.repeat(X, counts, 0), np.repeat(y, counts), target="number")
    order = generator.permutation(len(copies.y))
    assert held_out_ratio(copies.take(order), grow)[0] == pytest.approx(once[0])
