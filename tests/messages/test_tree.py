"""Messages on factor trees: the worked five-variable example, enumeration, clamping, maxima, ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.factors import joint, marginal, random_forest
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.messages.maximum import most_probable
from tractable.messages.potentials import Table
from tractable.messages.semirings import KBest
from tractable.messages.tree import joint_by_clamping, predicted_cost, propagate, schedule

F1, F2 = np.array([[0.3, 0.2], [0.1, 0.4]]), np.array([[0.1, 0.5], [0.2, 0.2]])
F3 = np.array([0.1, 0, 0.1, 0.1, 0.1, 0, 0.2, 0.4]).reshape((2, 2, 2))
FACTORS = {
    "f1": Table.from_values(["x1", "x3"], F1),
    "f2": Table.from_values(["x2", "x3"], F2),
    "f3": Table.from_values(["x3", "x4", "x5"], F3),
}
FIVE = ("x1", "x2", "x3", "x4", "x5")
JOINT = np.einsum("ac,bc,cde->abcde", F1, F2, F3)
NODES = (*FIVE, "f1", "f2", "f3")


def assert_close(a, b, tol=5e-8):
    np.testing.assert_allclose(np.asarray(a, float), b, rtol=0, atol=tol)


def named(scopes, tables):
    return [Table.from_values([f"v{v}" for v in scope], table) for scope, table in zip(scopes, tables)]


def test_every_message_of_the_worked_example():
    beliefs = propagate(FACTORS, root="x5")
    expected = {
        ("x1", "f1"): (1, 1), ("x2", "f2"): (1, 1), ("f1", "x3"): (0.4, 0.6), ("f2", "x3"): (0.3, 0.7),
        ("x3", "f3"): (0.12, 0.42), ("x4", "f3"): (1, 1), ("f3", "x5"): (0.15, 0.18),
        ("x5", "f3"): (1, 1), ("f3", "x4"): (0.054, 0.276), ("f3", "x3"): (0.3, 0.7),
        ("x3", "f1"): (0.09, 0.49), ("x3", "f2"): (0.12, 0.42), ("f1", "x1"): (0.125, 0.205),
        ("f2", "x2"): (0.222, 0.108),
    }  # fmt: skip
    assert set(beliefs.messages) == set(expected)  # each once, in both directions
    for edge, values in expected.items():
        assert_close(beliefs.message(*edge), values, 1e-15)
    assert list(beliefs.plan.towards) == list(beliefs.messages)[:7]  # the leaves first


def test_marginals_and_total_of_the_worked_example():
    beliefs = propagate(FACTORS)
    assert_close(np.exp(beliefs.total), 0.33, 1e-15)
    assert_close(beliefs.marginal("x1").probs, [0.3787879, 0.6212121])
    assert_close(beliefs.marginal("x2").probs, [0.6727273, 0.3272727])
    assert_close(beliefs.marginal("x3").probs, [0.1090909, 0.8909091])
    assert_close(beliefs.marginal("x4").probs, [0.1636364, 0.8363636])
    assert_close(beliefs.marginal("x5").probs, [0.4545455, 0.5454545])
    assert_close(beliefs.factor_marginal("f1").probs, [[0.0818182, 0.2969697], [0.0272727, 0.5939394]])
    assert_close(beliefs.factor_marginal("f2").probs, np.array([[0.012, 0.21], [0.024, 0.084]]) / 0.33, 1e-15)
    thirds = [0.0363636, 0, 0.0363636, 0.0363636, 0.1272727, 0, 0.2545455, 0.5090909]
    assert_close(beliefs.factor_marginal("f3").probs.reshape(-1), thirds)


@pytest.mark.parametrize("root", NODES)
def test_the_total_is_the_same_at_every_node_for_every_root(root):
    beliefs = propagate(FACTORS, root=root)
    assert_close([np.exp(beliefs.total_at(node)) for node in NODES], np.full(8, 0.33), 1e-15)
    assert_close(beliefs.marginal("x3").probs, [0.036 / 0.33, 0.294 / 0.33], 1e-15)


def test_clamping_of_the_worked_example():
    one = propagate(FACTORS, {"x5": 1})
    assert_close(np.exp(one.total), 0.18, 1e-15)
    assert_close(one.marginal("x1").probs, [0.361111, 0.638889], 5e-7)
    assert_close(one.marginal("x2").probs, [0.688889, 0.311111], 5e-7)
    assert_close(one.marginal("x3").probs, [0.066667, 0.933333], 5e-7)
    assert_close(one.marginal("x4").probs, [0, 1], 1e-15)
    zero = propagate(FACTORS, {"x5": 0})
    assert_close(np.exp(zero.total), 0.15, 1e-15)
    assert_close(zero.marginal("x1").probs, [0.4, 0.6], 1e-15)
    assert_close(zero.marginal("x3").probs, [0.16, 0.84], 1e-15)
    assert_close(zero.marginal("x4").probs, [0.36, 0.64], 1e-15)
    first = propagate(FACTORS, {"x1": 1})
    assert_close(np.exp(first.total), 0.205, 1e-15)
    assert_close(first.marginal("x5").probs, [0.4390244, 0.5609756])


def test_joints_of_two_variables_by_clamping_one():
    for a, b in ((0, 4), (4, 0), (1, 3), (0, 1), (2, 3)):
        found = joint_by_clamping(FACTORS, FIVE[a], FIVE[b])
        assert_close(found.probs, marginal(JOINT, (a, b)), 1e-15)
    given_x4 = joint_by_clamping(FACTORS, "x1", "x5", {"x4": 1, "x1": [1]})
    part = JOINT[:, :, :, 1].sum((1, 2)) * np.array([[0.0], [1.0]])
    assert_close(given_x4.probs, part / part.sum(), 1e-15)


def test_the_product_of_messages_that_were_not_clamped_forgets_the_dependence():
    beliefs = propagate(FACTORS)
    product = np.outer(beliefs.marginal("x1").probs, beliefs.marginal("x5").probs)
    wrong = np.outer(np.exp(beliefs.belief("x1")), np.exp(beliefs.belief("x5")))
    assert_close(wrong / wrong.sum(), product, 1e-15)
    assert np.abs(product - marginal(JOINT, (0, 4))).max() > 5e-3


def test_likelihoods_multiply_and_events_restrict():
    beliefs = propagate(FACTORS, {"x2": [0, 1]}, likelihoods={"x4": [0.2, 3.0]})
    weighted = JOINT * np.array([0.2, 3.0])[:, None]
    assert_close(np.exp(beliefs.total), weighted.sum(), 1e-14)
    assert_close(beliefs.marginal("x1").probs, marginal(weighted, (0,)), 1e-14)
    as_evidence = propagate(FACTORS, {"x2": [0, 1], "x4": {0: 0.2, 1: 3.0}})
    assert_close(as_evidence.total, beliefs.total, 1e-14)
    joint = joint_by_clamping(FACTORS, "x4", "x1", {"x4": np.array([0.2, 3.0])})
    assert_close(joint.probs, marginal(weighted, (0, 3)).T, 1e-14)


def test_the_max_plus_chain():
    chain = [Table.from_values(["x1", "x2"], F1), Table.from_values(["x2", "x3"], F2)]
    run = propagate(chain, semiring="max_sum", root="x3")
    assert_close(np.exp(run.message("f1", "x2")), [0.3, 0.4], 1e-15)
    assert_close(np.exp(run.message("f2", "x3")), [0.08, 0.15], 1e-15)
    best = most_probable(chain, root="x3")
    assert best.pointers["f1", "x2"]["x1"].tolist() == [0, 1]
    assert best.pointers["f2", "x3"]["x2"].tolist() == [1, 0]
    assert best.assignment == {"x1": 0, "x2": 0, "x3": 1}
    assert_close([best.log_value, best.probability, np.exp(best.log_total)], [-1.8971200, 0.3125, 0.48])
    every = propagate(chain, semiring=KBest(8)).total
    assert_close(np.exp(every), sorted([0.03, 0.15, 0.04, 0.04, 0.01, 0.05, 0.08, 0.08], reverse=True), 1e-15)


@pytest.mark.parametrize("root", NODES)
def test_the_maximum_of_the_worked_example_from_every_root(root):
    best = most_probable(FACTORS, root=root)
    assert best.assignment == {"x1": 1, "x2": 0, "x3": 1, "x4": 1, "x5": 1}
    assert_close([best.log_value, best.probability], [-2.5257286, 0.2424242])
    assert float(propagate(FACTORS, semiring="max_product", root=root).total) == pytest.approx(
        0.08, abs=1e-15
    )


def test_back_tracking_is_consistent_where_single_maxima_are_not():
    exclusive = [Table.from_values(["a", "b"], [[0.0, 0.5], [0.5, 0.0]])]
    for root in ("a", "b", "f1"):
        best = most_probable(exclusive, root=root)
        assert best.log_value == pytest.approx(np.log(0.5))
        assert best.assignment["a"] != best.assignment["b"]
    assert most_probable(exclusive, root="a").assignment == {"a": 0, "b": 1}  # the first of equal ones
    ties = propagate(exclusive, semiring="max_sum")
    assert np.ptp(ties.belief("a")) == np.ptp(ties.belief("b")) == 0  # alone they would both be 0


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 0.3]))
def test_forests_equal_enumeration(seed, num, zeros):
    generator = np.random.default_rng(seed)
    scopes, tables, sizes = random_forest(generator, num, zeros=zeros)
    full = joint(scopes, tables, sizes)
    factors, v = named(scopes, tables), int(generator.integers(num))
    root = f"v{int(generator.integers(num))}"
    evidence = {f"v{v}": int(generator.integers(sizes[v]))} if generator.random() < 0.5 else {}
    for name, state in evidence.items():
        mask = np.zeros(sizes[v])
        mask[state] = 1
        full = full * mask.reshape([-1 if i == int(name[1:]) else 1 for i in range(num)])
    beliefs = propagate(factors, evidence, root=root)
    assert propagate(factors, evidence, semiring="counting").total == (full > 0).sum()
    assert bool(propagate(factors, evidence, semiring="boolean").total) == (full.sum() > 0)
    assert beliefs.num_operations <= predicted_cost(factors)
    if full.sum() == 0:
        assert float(beliefs.total) == -np.inf
        with pytest.raises(ImpossibleEvidence, match="`evidence` must be of positive probability"):
            beliefs.marginals()
        return
    np.testing.assert_allclose(np.exp(beliefs.total), full.sum(), rtol=1e-12)
    for i in range(num):
        assert_close(beliefs.marginal(f"v{i}").probs, marginal(full, (i,)), 1e-13)
    for k, scope in enumerate(scopes, 1):
        assert_close(beliefs.factor_marginal(f"f{k}").probs, marginal(full, scope), 1e-13)
    best = most_probable(factors, evidence, root=root)
    states = tuple(best.assignment[f"v{i}"] for i in range(num))
    np.testing.assert_allclose([np.exp(best.log_value), full[states]], full.max(), rtol=1e-12)
    probs = full[full > 0] / full.sum()
    total = propagate(factors, evidence, semiring="expectation").total
    np.testing.assert_allclose(total[0] - total[1], -(probs * np.log(probs)).sum(), atol=1e-12)


def test_gradients_of_the_total_are_marginals():
    values = [jnp.asarray(t.log_values) for t in FACTORS.values()]

    def log_total(values):
        tables = {f: Table(t.names, v) for (f, t), v in zip(FACTORS.items(), values)}
        return propagate(tables, {"x5": 1}).total

    slopes = jax.jit(jax.grad(log_total))(values)
    exact = propagate(FACTORS, {"x5": 1})
    for factor, slope in zip(FACTORS, slopes):
        assert_close(slope, exact.factor_marginal(factor).probs, 1e-14)  # finite where potentials are zero


def test_networks_of_tables_and_a_long_star():
    rain = JointTable("rain", [0.8, 0.2], {"rain": ["no", "yes"]})
    wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]], {"rain": ["no", "yes"]})
    beliefs = propagate([rain, wet], {"wet": 1})
    assert_close(beliefs.marginal("rain").prob(rain="yes"), 0.16 / 0.24, 1e-15)
    leaf = np.array([[0.6, 0.4], [0.3, 0.7]])
    star = [Table.from_values(["centre", f"leaf{i}"], leaf) for i in range(400)]
    wide = propagate(star, {f"leaf{i}": i % 2 for i in range(400)})
    assert_close(wide.total, np.log(((leaf[:, 0] * leaf[:, 1]) ** 200).sum()), 1e-9)
    assert wide.num_operations < 40 * 400  # linear in the degree, not quadratic


def test_costs_are_counted():
    single = [Table.from_values(["a", "b"], F1)]
    assert propagate(single).num_operations == 2 * (4 + 4)  # two messages: four products, four sums each
    assert predicted_cost(single) == 2 * 3 * 3 * 4
    chains = [[Table.from_values([f"x{i}", f"x{i + 1}"], F1) for i in range(n)] for n in (50, 100)]
    short, long = (propagate(chain).num_operations for chain in chains)
    assert 1.9 < long / short < 2.1


def test_what_is_not_a_tree_is_refused_with_its_loop():
    loop = [(("a", "b"), F1), (("b", "c"), F1), (("c", "a"), F1)]
    with pytest.raises(ValueError, match=r"`factors` must be a tree or a forest; got the loop .*Use `loopy`"):
        propagate([Table.from_values(names, values) for names, values in loop])
    for options, message in (
        ({"evidence": {"x9": 1}}, r"`evidence` must be about variables among .*; got \['x9'\]"),
        ({"evidence": {"x1": 7}}, r"`x1` must be one of its states \(0, 1\); got 7"),
        ({"likelihoods": {"x1": [1.0]}}, r"`likelihoods\['x1'\]` must be of shape \(2,\)"),
        ({"likelihoods": {"x1": [1.0, -1.0]}}, "`values` must be zero or positive"),
        ({"root": "x9"}, "`root` must be a variable or a factor among"),
        ({"semiring": "plus"}, "`semiring` must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            propagate(FACTORS, **options)
    with pytest.raises(ValueError, match="`second` must be another variable than 'x1'"):
        joint_by_clamping(FACTORS, "x1", "x1")
    with pytest.raises(ValueError, match="`source, target` must be one of the 14 messages"):
        propagate(FACTORS).message("x1", "f3")
    with pytest.raises(ImpossibleEvidence, match="P = 0"):
        most_probable(FACTORS, {"x4": 0, "x5": 1})
    assert "messages={14 entries}" in repr(propagate(FACTORS))
    assert schedule({"f": ["a"], "g": ["b"]}).roots == ("a", "b")
