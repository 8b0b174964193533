"""Junction trees against enumeration: totals, marginals, joints, maxima, draws, evidence, range, cost."""

import json
import subprocess
import sys

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.messages import junction_memory
from tests.oracles import table_products as oracle
from tractable.messages import junction as junction_module
from tractable.messages import junction_layout
from tractable.messages.cost import Budget, TooLarge
from tractable.messages.junction import junction_tree
from tractable.messages.junction_links import Link, link_large, places, spread, total
from tractable.messages.variable_elimination import enumerate_assignments

A, B, C, D, E, F = range(6)
SIX = [(A,), (A, B), (A, C), (A, D), (B, C, E), (C, D, F)]


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def conditionals(scopes, sizes, seed=0):
    """Random conditional tables of the last variable of each scope."""
    generator = np.random.default_rng(seed)
    return [log(generator.dirichlet(np.ones(sizes[s[-1]]), size=[sizes[v] for v in s[:-1]])) for s in scopes]


@st.composite
def models(draw, most=6):
    """Factors over sizes 1-4 with zeros, empty and repeated scopes, often disconnected; with evidence."""
    num = draw(st.integers(1, most))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = generator.integers(1, 5, num).tolist()
    scopes, tables = [], []
    for _ in range(draw(st.integers(0, 2 * num))):
        scope = tuple(generator.permutation(num)[: generator.integers(0, min(num, 3) + 1)].tolist())
        shape = [sizes[v] for v in scope]
        weights = generator.gamma(0.5, size=shape) * (
            generator.random(shape) > draw(st.sampled_from([0, 0.1, 0.4]))
        )
        scopes.append(scope)
        tables.append(log(weights) * draw(st.sampled_from([1, 1, 1, 40, 400])))
    evidence = {}
    for v in range(num):
        kind = draw(st.sampled_from(["none", "none", "state", "likelihood"]))
        if kind == "state":
            evidence[v] = int(generator.integers(sizes[v]))
        elif kind == "likelihood":
            evidence[v] = generator.random(sizes[v]) * (generator.random(sizes[v]) > 0.2)
    return scopes, tables, sizes, evidence


@settings(max_examples=120)
@given(models(), st.data())
def test_all_answers_equal_enumeration(model, data):
    scopes, tables, sizes, evidence = model
    values = oracle.assignments(scopes, tables, sizes, evidence)
    total = oracle.log_total(values)
    found = junction_tree(scopes, sizes).calibrate(tables, evidence)
    np.testing.assert_allclose(found.log_total, total, rtol=1e-12, atol=1e-11)
    states, value = found.most_probable()
    np.testing.assert_allclose(value, max(values.values()), rtol=1e-12, atol=1e-11)
    if total == -np.inf:
        assert all(np.isnan(row).all() for row in found.marginals())
        return
    np.testing.assert_allclose(values[tuple(states)], value, rtol=1e-12, atol=1e-11)
    for v, row in enumerate(found.marginals()):
        np.testing.assert_allclose(row, oracle.joint(values, [v], sizes), atol=1e-11)
        np.testing.assert_array_equal(row, found.marginal(v))
    chosen = data.draw(st.permutations(range(len(sizes))))[: data.draw(st.integers(0, 4))]
    np.testing.assert_allclose(found.joint(chosen), oracle.joint(values, chosen, sizes), atol=1e-11)
    for states in found.sample(np.random.default_rng(0), 5):
        assert values[tuple(states)] > -np.inf


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_twelve_variables_equal_the_stored_product(seed):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 4, 12).tolist()
    scopes = [tuple(generator.permutation(12)[: generator.integers(0, 4)].tolist()) for _ in range(14)]
    tables = [
        log(
            generator.gamma(0.4, size=[sizes[v] for v in s]) * (generator.random([sizes[v] for v in s]) > 0.1)
        )
        for s in scopes
    ]
    evidence = {int(v): int(generator.integers(sizes[v])) for v in generator.permutation(12)[:3]}
    found = junction_tree(scopes, sizes).calibrate(tables, evidence)
    total = enumerate_assignments(scopes, tables, sizes, (), evidence).log_total
    np.testing.assert_allclose(found.log_total, total, rtol=1e-11, atol=1e-11)
    if total > -np.inf:
        free = [v for v in range(12) if v not in evidence]
        for v in free:
            expected = enumerate_assignments(scopes, tables, sizes, [v], evidence).probs
            np.testing.assert_allclose(found.marginal(v), expected, atol=1e-12)
        pair = [free[-1], free[0]]
        expected = enumerate_assignments(scopes, tables, sizes, pair, evidence).probs
        np.testing.assert_allclose(found.joint(pair), expected, atol=1e-12)


def test_worked_junction_tree():
    tree = junction_tree(SIX, [2] * 6, "min_degree")
    assert [set(bag) for bag in tree.bags] == [{B, C, E}, {A, B, C}, {A, C, D}, {C, D, F}]
    assert [set(s) for s in tree.separators] == [{B, C}, {A, C}, {C, D}, set()]
    assert tree.parents == (1, 2, 3, -1)
    assert tree.treewidth == 2
    # f1 = P(E|B,C); P(A), P(B|A), P(C|A) fit into ABC, P(D|A) into ACD, P(F|C,D) into CDF
    assert [set(tree.bags[b]) >= set(scope) for b, scope in zip(tree.factor_bags, SIX)] == [True] * 6
    assert (tree.factor_bags[4], tree.factor_bags[1], tree.factor_bags[3], tree.factor_bags[5]) == (
        0,
        1,
        2,
        3,
    )
    again = junction_tree(SIX, [2] * 6, [E, B, A, C, D, F])
    assert again.bags == tree.bags


def test_product_of_bags_over_separators_is_the_joint():
    sizes = [2, 3, 2, 2, 3, 2]
    tables = conditionals(SIX, sizes)
    tree = junction_tree(SIX, sizes, "min_degree")
    found = tree.calibrate(tables)
    assert abs(found.log_total) < 1e-14
    for states, value in oracle.assignments(SIX, tables, sizes).items():
        product = 1.0
        for b, (bag, separator) in enumerate(zip(tree.bags, tree.separators)):
            table = found.bag_table(b)
            product *= table[tuple(states[v] for v in bag)]
            product /= table.sum(axis=tuple(range(len(separator), len(bag))))[
                tuple(states[v] for v in separator)
            ]
        np.testing.assert_allclose(product, np.exp(value), rtol=1e-12)


def test_absorption_on_a_chain_leaves_marginals():
    """P(a|b) P(b|c) P(c|d) P(d): after both passes the cliques ab, bc, cd hold their marginals."""
    scopes, sizes = [(1, 0), (2, 1), (3, 2), (3,)], [2, 3, 2, 4]
    tables = conditionals(scopes, sizes, seed=3)
    tree = junction_tree(scopes, sizes)
    found = tree.calibrate(tables)
    values = oracle.assignments(scopes, tables, sizes)
    assert sorted(map(sorted, tree.bags)) == [[0, 1], [1, 2], [2, 3]]
    for b, bag in enumerate(tree.bags):
        np.testing.assert_allclose(found.bag_table(b), oracle.joint(values, bag, sizes), atol=1e-14)
    clamped = tree.calibrate(tables, {0: 1})
    np.testing.assert_allclose(np.exp(clamped.log_total), oracle.joint(values, [0], sizes)[1], rtol=1e-13)


def test_five_variable_example():
    """f1(x1,x3) f2(x2,x3) f3(x3,x4,x5): Z = .33, marginals and maximum."""
    scopes = [(0, 2), (1, 2), (2, 3, 4)]
    tables = [
        log(np.array([[0.3, 0.2], [0.1, 0.4]])),
        log(np.array([[0.1, 0.5], [0.2, 0.2]])),
        log(np.array([0.1, 0, 0.1, 0.1, 0.1, 0, 0.2, 0.4]).reshape(2, 2, 2)),
    ]
    tree = junction_tree(scopes, [2] * 5)
    found = tree.calibrate(tables)
    np.testing.assert_allclose(np.exp(found.log_total), 0.33, rtol=1e-14)
    expected = [0.3787879, 0.6727273, 0.1090909, 0.1636364, 0.4545455]
    np.testing.assert_allclose([row[0] for row in found.marginals()], expected, atol=5e-8)
    states, value = found.most_probable()
    assert states.tolist() == [1, 0, 1, 1, 1]
    np.testing.assert_allclose(value, np.log(0.08), rtol=1e-14)
    given_x5 = tree.calibrate(tables, {4: 1})
    np.testing.assert_allclose(np.exp(given_x5.log_total), 0.18, rtol=1e-13)
    np.testing.assert_allclose(given_x5.marginal(0), [0.361111, 0.638889], atol=5e-7)
    np.testing.assert_allclose(given_x5.marginal(3), [0, 1], atol=0)


def test_out_of_clique_joints_on_a_chain():
    step = np.array([[0.9, 0.1], [0.2, 0.8]])
    scopes = [(0,)] + [(i, i + 1) for i in range(30)] + [(31, 32)]
    tables = [log(np.array([0.3, 0.7]))] + [log(step)] * 30 + [np.zeros((2, 2))]
    found = junction_tree(scopes, [2] * 33).calibrate(tables)
    expected = np.array([0.3, 0.7])[:, None] * np.linalg.matrix_power(step, 30)
    np.testing.assert_allclose(found.joint([0, 30]), expected, atol=1e-14)
    np.testing.assert_allclose(found.joint([30, 0]), expected.T, atol=1e-14)
    three = np.einsum(
        "i,ij,jk->ikj", [0.3, 0.7], np.linalg.matrix_power(step, 12), np.linalg.matrix_power(step, 18)
    )
    np.testing.assert_allclose(found.joint([0, 30, 12]), three, atol=1e-14)
    split = np.einsum("ij,k->ikj", expected, [0.5, 0.5])  # another component: independent
    np.testing.assert_allclose(found.joint([0, 32, 30]), split, atol=1e-14)


def test_small_probabilities_and_zeros_are_exact():
    """The best state of every step is ruled out only at the end: linear numbers would have lost the other."""
    step = np.array([[0.0, -np.inf], [-np.inf, -20.0]])
    scopes = [(i, i + 1) for i in range(40)]
    found = junction_tree(scopes, [2] * 41).calibrate([step] * 40, {40: 1})
    assert found.log_total == -800.0
    np.testing.assert_array_equal(found.marginal(0), [0.0, 1.0])
    one = junction_tree([(0,)], [2]).calibrate([np.array([0.0, -5000.0])], {0: 1})
    assert one.log_total == -5000.0
    soft = junction_tree(scopes, [2] * 41).calibrate(
        [step] * 40, {0: np.array([0.0, 1e-300]), 20: np.array([1.0, 1e-200])}
    )
    np.testing.assert_allclose(soft.log_total, -800 - 500 * np.log(10), rtol=1e-14)
    assert soft.most_probable()[0].tolist() == [1] * 41


def test_linear_and_log_space_agree():
    generator = np.random.default_rng(2)
    scopes = [tuple(sorted(generator.permutation(15)[:3].tolist())) for _ in range(18)]
    tables = [log(generator.gamma(0.5, size=(2, 2, 2)) * (generator.random((2, 2, 2)) > 0.1)) for _ in scopes]
    tree = junction_tree(scopes, [2] * 15)
    linear = tree.calibrate(tables)
    wide = [*tables, np.array([0.0, -1e3])]  # a range that linear tables cannot hold
    logs = junction_tree([*scopes, (0,)], [2] * 15).calibrate(wide, {0: 0})
    same = tree.calibrate(tables, {0: 0})
    assert linear.is_linear
    assert not logs.is_linear
    np.testing.assert_allclose(logs.log_total, same.log_total, rtol=1e-13)
    for a, b in zip(logs.marginals(), same.marginals()):
        np.testing.assert_allclose(a, b, atol=1e-13)


@pytest.mark.parametrize("evidence", [{0: 1}, {0: np.array([0.0, 1.0])}, {1: np.zeros(2)}])
def test_impossible_evidence_is_minus_infinity(evidence):
    tree = junction_tree([(0,), (0, 1)], [2, 2])
    found = tree.calibrate([log(np.array([1.0, 0.0])), log(np.full((2, 2), 0.5))], evidence)
    assert found.log_total == -np.inf
    assert np.isnan(found.marginal(1)).all()
    assert np.isnan(found.joint([0, 1])).all()
    assert found.most_probable()[1] == -np.inf
    with pytest.raises(ValueError, match="`evidence` must be possible"):
        found.sample(jr.key(0), 2)


def test_models_without_variables_or_factors():
    empty = junction_tree([], []).calibrate([])
    assert empty.log_total == 0.0
    assert empty.marginals() == []
    scalar = junction_tree([(), ()], []).calibrate([np.array(0.5), np.array(-2.0)])
    assert scalar.log_total == -1.5
    assert junction_tree([()], [2]).calibrate([np.array(-np.inf)]).log_total == -np.inf
    free = junction_tree([], [2, 3]).calibrate([])
    np.testing.assert_allclose(free.log_total, np.log(6))
    np.testing.assert_allclose(free.joint([1, 0]), np.full((3, 2), 1 / 6))


def test_plans_and_loaded_tables_are_reused(monkeypatch):
    tree = junction_tree(SIX, [2] * 6)
    tables = conditionals(SIX, [2] * 6, seed=1)
    loaded = tree.load(tables)
    values = oracle.assignments(SIX, tables, [2] * 6, {E: 1, F: 0})
    monkeypatch.setattr(junction_module, "_plan", None)  # planning again would fail
    for state in (0, 1):
        found = tree.calibrate(loaded, {E: state, F: 0})
        np.testing.assert_array_equal(found.marginal(A), tree.calibrate(tables, {E: state, F: 0}).marginal(A))
    np.testing.assert_allclose(found.marginal(A), oracle.joint(values, [A], [2] * 6), atol=1e-14)


def test_evidence_on_large_trees_gets_its_own_plan():
    n = 12
    scopes = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    scopes += [(i * n + j, i * n + n + j) for i in range(n - 1) for j in range(n)]
    generator = np.random.default_rng(0)
    tables = [generator.normal(size=(2, 2)) for _ in scopes]
    tree = junction_tree(scopes, [2] * n * n)
    row = {6 * n + j: int(generator.integers(2)) for j in range(n)}  # cuts the grid in two
    assert tree.cost(row).treewidth < tree.treewidth
    assert tree.cost(row).num_cells < 0.2 * tree.cost().num_cells
    cut = tree.calibrate(tables, row)
    soft = tree.calibrate(tables, {v: np.eye(2)[s] for v, s in row.items()})
    np.testing.assert_allclose(cut.log_total, soft.log_total, rtol=1e-12)
    for a, b in zip(cut.marginals(), soft.marginals()):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_draws_follow_the_posterior():
    sizes = [2, 3, 2, 2, 3, 2]
    tables = conditionals(SIX, sizes, seed=5)
    found = junction_tree(SIX, sizes).calibrate(tables, {E: 2, F: np.array([0.3, 0.9])})
    num = 20_000
    expected = found.joint(range(6)).ravel()
    for draws in (found.sample(jr.key(0), num), found.sample(np.random.default_rng(1), num)):
        counts = np.bincount(np.ravel_multi_index(tuple(draws.T), sizes), minlength=expected.size)
        assert not counts[expected == 0].any()
        live = expected * num > 5
        z = (counts - num * expected)[live] / np.sqrt(num * expected * (1 - expected))[live]
        assert np.abs(z).max() < 4.5
    assert found.sample(jr.key(1), 0).shape == (0, 6)


def test_ties_are_broken_consistently():
    same = log(np.eye(2))  # two equal maxima, (0, 0, 0) and (1, 1, 1): not a mixture of both
    states, value = junction_tree([(0, 1), (1, 2)], [2] * 3).calibrate([same, same]).most_probable()
    assert value == 0.0
    assert len(set(states.tolist())) == 1


@pytest.fixture(scope="module")
def memory():
    """Predicted and used bytes by name, from a process in which nothing but the library is loaded."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.messages.junction_memory"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", junction_memory.MODELS)
def test_memory_is_predicted_within_a_fifth(name, memory):
    predicted, used = memory[name]
    assert predicted == pytest.approx(used, rel=0.2)


def test_what_does_not_fit_is_refused():
    n = 15
    tree = junction_tree(junction_memory.grid_scopes(n), [2] * n * n)
    tables = [np.zeros((2, 2))] * len(junction_memory.grid_scopes(n))
    found = tree.calibrate(tables)
    np.testing.assert_allclose(found.log_total, n * n * np.log(2), rtol=1e-12)
    with pytest.raises(TooLarge, match=r"`budget` must be .*treewidth 1\d, .*messages.loopy"):
        tree.calibrate(tables, budget=Budget(1e6))
    wide = junction_tree([tuple(range(40))[i : i + 39] for i in range(2)], [4] * 40)
    assert wide.order.cost.predicted_bytes > 1e20
    with pytest.raises(TooLarge, match="prediction of"):
        wide.calibrate([])  # refused before the tables are looked at


@pytest.mark.parametrize(
    ("tables", "evidence", "says"),
    [
        ([np.zeros(2)], {}, r"`tables` must be one per scope \(2\); got 1"),
        ([np.zeros(2), np.zeros(4)], {}, r"`tables\[1\]` must be of shape \(2, 2\)"),
        ([np.zeros(2), np.array([[0, 1], [np.nan, 0]])], {}, r"`tables\[1\]` must be finite or -inf"),
        ([np.array([0, np.inf]), np.zeros((2, 2))], {}, r"`tables\[0\]` must be finite or -inf"),
        ([np.zeros(2), np.zeros((2, 2))], {2: 0}, "`evidence` must be on variables from 0 to 1"),
        ([np.zeros(2), np.zeros((2, 2))], {1: 2}, r"`evidence\[1\]` must be a state from 0 to 1"),
        ([np.zeros(2), np.zeros((2, 2))], {1: 0.5}, r"`evidence\[1\]` must be a state"),
        (
            [np.zeros(2), np.zeros((2, 2))],
            {1: [0.5, -1]},
            r"`evidence\[1\]` must be 2 non-negative likelihoods",
        ),
        ([np.zeros(2), np.zeros((2, 2))], {1: [0.5, np.nan]}, r"`evidence\[1\]` must be 2 non-negative"),
    ],
)
def test_bad_input_is_named(tables, evidence, says):
    with pytest.raises(ValueError, match=says):
        junction_tree([(0,), (0, 1)], [2, 2]).calibrate(tables, evidence)


def test_bad_queries_are_named():
    found = junction_tree([(0, 1)], [2, 2]).calibrate([np.zeros((2, 2))])
    with pytest.raises(ValueError, match="`variable` must be a whole number from 0 to 1"):
        found.marginal(2)
    with pytest.raises(ValueError, match="`variables` must be distinct"):
        found.joint([0, 0])
    with pytest.raises(ValueError, match="`key` must be a random key or a NumPy generator"):
        found.sample(7, 2)


@given(st.data())
def test_both_primitives_equal_einsum(data):
    rank = data.draw(st.integers(1, 6))
    generator = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    sizes = generator.integers(1, 4, rank).tolist()
    held = [v for v in range(rank) if generator.random() < 0.6]
    operand = generator.random([sizes[v] for v in held])
    strides = dict(zip(held, (s // 8 for s in operand.strides)))
    steps = [strides.get(v, 0) for v in range(rank)]
    table = generator.random(sizes)
    block, cells = slice(0, operand.size), slice(0, table.size)
    aligned = operand.reshape([sizes[v] if v in held else 1 for v in range(rank)])
    by_index, by_strides = Link(cells, block, places(sizes, steps)), link_large(cells, block, sizes, steps)
    for link in (by_index, by_strides):
        for ufunc in (np.multiply, np.add):
            out = table.ravel().copy()
            spread(link, operand.ravel(), out, ufunc)
            np.testing.assert_allclose(out, ufunc(table, aligned).ravel(), rtol=1e-15)
        expected = table.sum(axis=tuple(v for v in range(rank) if v not in held))
        found = np.ones(expected.size)  # sums are added
        total(link, table.ravel(), found)
        np.testing.assert_allclose(found - 1, np.ravel(expected), rtol=1e-13, atol=1e-13)
    out = np.empty(table.size)
    spread(by_strides, operand.ravel(), out, None)
    np.testing.assert_array_equal(out, (table * 0 + aligned).ravel())


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("scale", [1.0, 400.0])  # 400: the pass up has to go to log space
def test_large_tables_give_the_answers_of_small_ones(seed, scale, monkeypatch):
    generator = np.random.default_rng(seed)
    num = int(generator.integers(1, 9))
    sizes = generator.integers(1, 4, num).tolist()
    scopes = [tuple(generator.permutation(num)[: generator.integers(0, 4)].tolist()) for _ in range(8)]
    tables = [scale * generator.standard_normal([sizes[v] for v in scope]) for scope in scopes]
    for scope, table in zip(scopes, tables):
        if scope:
            table[generator.random(table.shape) < 0.15] = -np.inf
    evidence = {0: 0, num - 1: generator.random(sizes[-1])} if num > 1 else {}
    small = junction_tree(scopes, sizes).calibrate(tables, evidence)
    monkeypatch.setattr(junction_layout, "LARGE_TREE", 1)  # every tree is worth compiled loops
    monkeypatch.setattr(junction_layout, "LARGE_TABLE", int(generator.integers(2, 10)))
    monkeypatch.setattr(junction_module, "LARGE_TREE", int(generator.integers(2)) * 1000)
    large = junction_tree(scopes, sizes).calibrate(tables, evidence)
    np.testing.assert_allclose(small.log_total, large.log_total, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(small.most_probable()[1], large.most_probable()[1], rtol=1e-13, atol=1e-13)
    for ours, theirs in zip(small.marginals(), large.marginals()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)
    if small.log_total > -np.inf:
        draws = [found.sample(np.random.default_rng(0), 50) for found in (small, large)]
        assert all(np.isfinite(value_at(scopes, tables, row)) for pair in draws for row in pair)


def value_at(scopes, tables, states):
    return sum(table[tuple(states[v] for v in scope)] for scope, table in zip(scopes, tables))


def test_networks_of_common_size_are_answered_without_a_compiler():
    code = """if True:
        import sys
        import numpy as np
        from tractable.messages.junction import junction_tree
        generator = np.random.default_rng(0)
        above = [{max(0, i - 1 - int(k)) for k in generator.integers(0, 6, 2)} for i in range(74)]
        scopes = [(*(some - {i}), i) for i, some in enumerate(above)]
        sizes = generator.integers(2, 5, 74).tolist()
        tables = [generator.standard_normal([sizes[v] for v in scope]) for scope in scopes]
        found = junction_tree(scopes, sizes).calibrate(tables, {3: 1})
        found.marginals(), found.most_probable(), found.sample(generator, 3)
        print("numba" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
