"""Structures from independencies: the tests themselves, exact recovery from right answers, parsimony."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tractable.distributions.tables import JointTable
from tractable.graphs.constraint_search import (
    IndependenceTests,
    extend_pattern,
    parsimonious_factorisation,
    pc,
)
from tractable.graphs.dag import DAG
from tractable.graphs.equivalence import CPDAG, completed, markov_equivalent


def random_dag(seed, size, density):
    generator = np.random.default_rng(seed)
    order = generator.permutation(size)
    linked = generator.random((size, size)) < density
    names = [f"v{i}" for i in range(size)]
    chosen = {names[order[j]]: [names[order[i]] for i in range(j) if linked[i, j]] for j in range(size)}
    return DAG({name: chosen[name] for name in names})


def joint_of(dag, seed, sizes):
    """The joint table of random conditionals along a graph, by multiplying all cells out."""
    generator = np.random.default_rng(seed)
    names = list(dag.names)
    joint = np.ones([sizes[n] for n in names])
    for name in names:
        scope = (*dag.parents(name), name)
        table = generator.dirichlet(np.ones(sizes[name]), [sizes[p] for p in dag.parents(name)])
        for cell in np.ndindex(*joint.shape):
            joint[cell] *= table[tuple(cell[names.index(v)] for v in scope)]
    return JointTable(names, joint / joint.sum())


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0.1, 0.8))
def test_pc_with_right_answers_gives_back_the_class(seed, size, density):
    dag = random_dag(seed, size, density)
    found = pc(dag.d_separated, sorted(dag.names))
    truth = completed(dag)
    assert found.pattern.directed == truth.directed
    assert {frozenset(e) for e in found.pattern.undirected} == {frozenset(e) for e in truth.undirected}
    assert found.num_conflicts == 0
    member = extend_pattern(found.pattern)
    assert member is not None
    assert markov_equivalent(member, dag)
    for pair, given_ in found.separators.items():
        assert dag.d_separated(*pair, given_)


def test_pc_on_rows_and_on_tables():
    dag = DAG({"a": [], "b": [], "c": ["a", "b"], "d": ["c"]})
    joint = joint_of(dag, 5, dict.fromkeys("abcd", 2))
    assert pc(IndependenceTests(joint), joint.names).pattern == completed(dag)
    generator = np.random.default_rng(0)
    cells = generator.choice(16, 20_000, p=np.asarray(joint.probs).reshape(-1))
    frame = pd.DataFrame(dict(zip(joint.names, np.unravel_index(cells, (2, 2, 2, 2)))))
    tests = IndependenceTests(frame, level=0.01)
    found = pc(tests, joint.names)
    assert found.pattern == completed(dag)
    assert found.num_tests == tests.num_tests
    assert "tests; consistent." in repr(found)


def test_limited_conditioning_keeps_more_edges():
    dag = DAG({"b": ["a"], "c": ["b"]})
    found = pc(dag.d_separated, dag.names, max_given=0)
    assert len(found.pattern.undirected) + len(found.pattern.directed) == 3


def test_contradictions_are_counted():
    """Answers of no graph: two colliders that want one edge in both directions."""
    wrong = {frozenset(pair) for pair in (("a", "c"), ("b", "d"), ("a", "d"))}
    found = pc(lambda x, y, given: frozenset((x, y)) in wrong and not given, tuple("abcd"))
    assert found.num_conflicts == 1
    assert "1 v-structures contradict" in repr(found)


def test_a_pattern_without_members_has_no_extension():
    square = CPDAG(tuple("abcd"), frozenset(), frozenset([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]))
    assert extend_pattern(square) is None
    triangle = CPDAG(tuple("abc"), frozenset(), frozenset([("a", "b"), ("b", "c"), ("a", "c")]))
    assert len(extend_pattern(triangle).edges) == 3


def test_g_squared_equals_the_test_of_each_stratum():
    generator = np.random.default_rng(3)
    z = generator.integers(0, 3, 500)
    x = (generator.random(500) < 0.3 + 0.2 * z).astype(int)
    y = (x + z + generator.integers(0, 3, 500)) % 3
    y[z == 2] = np.minimum(y[z == 2], 1)  # a state that one stratum lacks
    found = IndependenceTests({"x": x, "y": y, "z": z}).test("x", "y", "z")
    statistic, degrees = 0.0, 0
    for value in range(3):
        table = np.array([[np.sum((x == i) & (y == j) & (z == value)) for j in range(3)] for i in range(2)])
        table = table[:, table.sum(0) > 0]
        part = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
        statistic, degrees = statistic + part.statistic, degrees + part.dof
    assert found.statistic == pytest.approx(statistic, rel=1e-10)
    assert found.degrees == degrees == 5
    assert found.p_value == pytest.approx(stats.chi2(degrees).sf(statistic), rel=1e-9)
    assert found.information == pytest.approx(statistic / 1000, rel=1e-10)


def test_level_is_kept_under_independence():
    """400 tests of independent columns: rejections are binomial at the level."""
    generator = np.random.default_rng(6)
    rows = generator.integers(0, 3, (400, 2, 300))
    p = np.array([IndependenceTests({"x": x, "y": y}).test("x", "y").p_value for x, y in rows])
    z = ((p < 0.1).mean() - 0.1) / np.sqrt(0.09 / 400)
    assert abs(z) < 4
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_exact_answers_equal_independence_of_the_table():
    dag = DAG({"a": [], "b": ["a"], "c": ["b"], "d": ["b"]})
    joint = joint_of(dag, 2, {"a": 2, "b": 3, "c": 2, "d": 2})
    tests = IndependenceTests(joint)
    for x, y, z in [("a", "c", "b"), ("c", "d", "b"), ("a", "d", "c"), ("a", "b", "d"), ("c", "d", "a")]:
        assert tests(x, y, z) == bool(joint.independence(x, y, z)) == dag.d_separated(x, y, z)
    for x, y, z in itertools.permutations("abcd", 3):
        assert tests(x, y, z) == dag.d_separated(x, y, z)
    assert tests("a", ("c", "d"), "b")


@pytest.mark.parametrize(
    ("parents", "numbers"),
    [
        ({"a": [], "b": ["a"], "c": ["b"]}, 5),
        ({"c": [], "a": ["c"], "b": ["c"]}, 5),
        ({"a": [], "b": [], "c": ["a", "b"]}, 6),
        ({"a": [], "b": [], "c": []}, 3),
        ({"a": [], "b": ["a"], "c": ["a", "b"]}, 7),
    ],
)
def test_parsimonious_factorisation_of_three_binary_variables(parents, numbers):
    dag = DAG(parents)
    found = parsimonious_factorisation(joint_of(dag, 1, dict.fromkeys("abc", 2)))
    assert found.num_parameters == numbers
    assert found.num_full == 7
    assert found.exact
    assert len(found.dag.edges) == len(dag.edges)
    if numbers != 7:
        assert markov_equivalent(DAG({n: found.dag.parents(n) for n in "abc"}), dag)


def brute_force(joint, dag, sizes, cost):
    """Every order; each variable takes its cheapest parents among those before it, by the table itself."""
    best = None
    for order in itertools.permutations(joint.names):
        total = 0
        for k, name in enumerate(order):
            before, prices = order[:k], []
            for size in range(k + 1):
                for parents in itertools.combinations(before, size):
                    rest = [b for b in before if b not in parents]
                    if not rest or dag.d_separated(name, rest, parents):
                        free = (sizes[name] - 1) * int(np.prod([sizes[p] for p in parents]))
                        prices.append(free if cost == "parameters" else size)
            total += min(prices)
        best = total if best is None else min(best, total)
    return best


@pytest.mark.parametrize("cost", ["parameters", "edges"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_parsimonious_factorisation_equals_brute_force_over_orders(seed, cost):
    dag = random_dag(seed, 4, 0.5)
    sizes = dict(zip(sorted(dag.names), (2, 3, 2, 2)))
    joint = joint_of(dag, seed, sizes)
    found = parsimonious_factorisation(joint, cost=cost)
    count = found.num_parameters if cost == "parameters" else len(found.dag.edges)
    assert count == brute_force(joint, dag, sizes, cost)
    product = np.ones(joint.probs.shape)
    for name in found.dag.names:  # the factorisation gives the table back
        scope = (*found.dag.parents(name), name)
        table = np.asarray(joint.conditional_table(name, found.dag.parents(name)).probs)
        for cell in np.ndindex(*product.shape):
            product[cell] *= table[tuple(cell[joint.names.index(v)] for v in scope)]
    np.testing.assert_allclose(product, joint.probs, rtol=1e-6, atol=1e-12)


def test_parsimony_on_rows_says_what_it_rests_on():
    generator = np.random.default_rng(0)
    a = generator.integers(0, 2, 3000)
    b = np.where(generator.random(3000) < 0.2, 1 - a, a)
    c = np.where(generator.random(3000) < 0.2, 1 - b, b)
    found = parsimonious_factorisation({"a": a, "b": b, "c": c}, level=0.01)
    assert found.num_parameters == 5
    assert repr(found).endswith(f"5 free numbers instead of 7; right if all {found.num_tests} tests are.")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`level` must be between 0 and 1; got 1"):
        IndependenceTests({"x": [0, 1]}, level=1)
    with pytest.raises(ValueError, match="`x, y, given` must be without a common variable"):
        IndependenceTests({"x": [0, 1], "y": [0, 1]}).test("x", "y", "x")
    with pytest.raises(ValueError, match="`names` must be among"):
        IndependenceTests({"x": [0, 1]}).test("x", "q")
    with pytest.raises(ValueError, match="`source` must be of at most 10 variables"):
        parsimonious_factorisation(np.zeros((2, 11), int))
    with pytest.raises(ValueError, match="`cost` must be one of 'parameters', 'edges'"):
        parsimonious_factorisation({"x": [0, 1]}, cost="bits")
    with pytest.raises(ValueError, match="`max_given` must be a whole number of at least 0"):
        pc(lambda x, y, given: True, ("a", "b"), max_given=-1)
