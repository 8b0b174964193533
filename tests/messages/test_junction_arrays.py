"""NumPy and compiled loops give the same orders, answers and draws; small plans need no compiler."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.messages import (
    elimination,
    elimination_loops,
    elimination_sets,
    junction_arrays,
    junction_loops,
)
from tractable.messages import junction_queries as queries
from tractable.messages.junction import junction_tree

RULES = (elimination_sets.FILL, elimination_sets.DEGREE, elimination_sets.WEIGHT, elimination_sets.GIVEN)


def random_scopes(generator, num, count):
    return [
        tuple(generator.permutation(num)[: generator.integers(1, min(num, 4) + 1)].tolist())
        for _ in range(count)
    ]


@given(st.integers(0, 10**6))
def test_both_eliminations_give_the_same_order(seed):
    generator = np.random.default_rng(seed)
    num = int(generator.integers(1, 65))
    scopes = random_scopes(generator, num, int(generator.integers(0, 2 * num)))
    starts, flat, sizes = elimination.index_scopes(scopes, generator.integers(1, 5, num))
    for rule in RULES:
        rank, order = generator.permutation(num), generator.permutation(num)
        few = elimination_sets.eliminate_vertices(starts, flat, sizes, rule, rank, order)
        bits = elimination_loops.link_scopes(starts, flat, sizes)
        many = elimination_loops.eliminate_vertices(bits, np.log2(sizes), rule, rank, order)
        for ours, theirs in zip(few, many):
            np.testing.assert_array_equal(ours, theirs)


def answers(tree, tables, evidence, passes, monkeypatch):
    monkeypatch.setattr(queries, "_passes", lambda layout: passes)
    found = tree.calibrate(tables, evidence)
    states, value = found.most_probable()
    draws = found.sample(np.random.default_rng(0), 50) if found.log_total > -np.inf else np.zeros(0)
    return found, states, value, draws


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("scale", [1.0, 400.0])  # 400: the pass up has to go to log space
def test_both_passes_give_the_same_answers(seed, scale, monkeypatch):
    generator = np.random.default_rng(seed)
    num = int(generator.integers(1, 9))
    sizes = generator.integers(1, 4, num)
    scopes = [*random_scopes(generator, num, int(generator.integers(0, 8))), ()]
    tables = [scale * generator.standard_normal([int(sizes[v]) for v in scope]) for scope in scopes]
    for table in tables[:-1]:
        table[generator.random(table.shape) < 0.15] = -np.inf
    evidence = {}
    for v in range(num):
        kind = generator.integers(4)
        if kind < 2:
            evidence[v] = int(generator.integers(sizes[v])) if kind else generator.random(int(sizes[v]))
    tree = junction_tree(scopes, sizes)
    few, states, value, draws = answers(tree, tables, evidence, junction_arrays, monkeypatch)
    many, other_states, other_value, other_draws = answers(
        tree, tables, evidence, junction_loops, monkeypatch
    )
    assert few.is_linear == many.is_linear
    np.testing.assert_allclose(few.log_total, many.log_total, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(value, other_value, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(states, other_states)
    np.testing.assert_array_equal(draws, other_draws)
    for ours, theirs in zip(few.marginals(), many.marginals()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)
    for b in range(len(tree.bags)):
        np.testing.assert_allclose(few.bag_table(b), many.bag_table(b), rtol=1e-10, atol=1e-14)


def test_small_trees_are_compiled_after_many_calibrations_and_large_ones_at_once(monkeypatch):
    small = junction_tree([(0, 1)], [2, 2])
    monkeypatch.setattr(queries, "PATIENCE", 1)
    monkeypatch.setattr(queries, "_num_small", iter(range(5)))
    used = [small.calibrate([np.zeros((2, 2))])._passes.__name__ for _ in range(3)]
    assert [name.rpartition("_")[2] for name in used] == ["arrays", "loops", "loops"]
    chain = junction_tree([(i, i + 1) for i in range(60)], [2] * 61)
    assert not chain.calibrate([np.zeros((2, 2))] * 60).layout.is_small
    wide = junction_tree([tuple(range(15))], [2] * 15)
    assert not wide.calibrate([np.zeros((2,) * 15)]).layout.is_small


def test_a_small_network_is_answered_without_numba():
    code = """if True:
        import sys
        from tractable.graphs.example_networks import sprinkler
        net = sprinkler()
        assert abs(net.marginals({"wet": "yes"})["rain"]["yes"] - 0.7079277) < 5e-8
        net.mpe({"wet": "yes"})
        print("numba" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
