"""Bayesian networks: construction, counting, joint probabilities, draws, canonical structures."""

import math
import pickle

import jax
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from tests.oracles import bayes_net as oracle
from tractable.distributions.tables import ConditionalTable, JointTable, product
from tractable.graphs.bayes_net import BayesNet, num_parameters, num_states
from tractable.graphs.dag import DAG, CyclicGraph
from tractable.graphs.example_networks import (
    canonical_network,
    chest_clinic,
    random_network,
    sprinkler,
    student,
)
from tractable.graphs.factorisation import parse_dag

RAIN = ConditionalTable("rain", (), [0.8, 0.2])
WET = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]])
THREE = {"a": 2, "b": 2, "c": 2}
SHAPES = {
    "full": ({"a": [], "b": ["a"], "c": ["a", "b"]}, 7),
    "chain": ({"a": [], "b": ["a"], "c": ["b"]}, 5),
    "fork": ({"c": [], "a": ["c"], "b": ["c"]}, 5),
    "collider": ({"a": [], "b": [], "c": ["a", "b"]}, 6),
    "independent": ({"a": [], "b": [], "c": []}, 3),
}


def nodes_of(net):
    return [
        (name, table.given, np.asarray(table.probs), net.states[name]) for name, table in net.tables.items()
    ]


def test_tables_in_any_order_are_sorted_and_kept():
    net = BayesNet([WET, RAIN])
    assert net.names == ("rain", "wet")
    assert net.tables["wet"] is WET
    assert net.states == {"rain": (0, 1), "wet": (0, 1)}
    assert net.dag.edges == (("rain", "wet"),)
    assert BayesNet({"anything": WET, "else": JointTable("rain", [0.8, 0.2])}).names == ("rain", "wet")


def test_it_is_a_pytree_that_keeps_its_order():
    net = sprinkler()
    copy = jax.tree.map(lambda leaf: leaf * 1.0, net)
    assert copy.names == net.names
    assert copy.marginals({"wet": "yes"}) == net.marginals({"wet": "yes"})


@pytest.mark.parametrize(
    ("tables", "error", "message"),
    [
        ([], ValueError, "at least one table"),
        (
            [WET],
            ValueError,
            r"`parents of 'wet'` must be among the variables .*\['rain'\].*Give each of them",
        ),
        ([RAIN, RAIN], ValueError, "two tables for 'rain'"),
        ([RAIN, "wet"], TypeError, "`tables` must be of `ConditionalTable`s; got str"),
        ([JointTable(["a", "b"], np.full((2, 2), 0.25))], ValueError, "of one target each"),
        (
            [RAIN, ConditionalTable("wet", "rain", [[0.5, 0.5]] * 3)],
            ValueError,
            r"`states of 'rain'` must be those of its own table, \(0, 1\), .* 'wet'; got \(0, 1, 2\)",
        ),
        (
            [RAIN, ConditionalTable("wet", "rain", [[0.5, 0.5], [np.nan, np.nan]])],
            ValueError,
            "`table of 'wet'` must be defined in every row; got NaN at rain=1",
        ),
        (
            [ConditionalTable("a", "b", np.eye(2)), ConditionalTable("b", "a", np.eye(2))],
            CyclicGraph,
            "acyclic.*->",
        ),
    ],
)
def test_bad_networks_are_refused_by_name(tables, error, message):
    with pytest.raises(error, match=message):
        BayesNet(tables)


@pytest.mark.parametrize("shape", SHAPES)
def test_parameter_counts_of_three_binary_variables(shape):
    parents, count = SHAPES[shape]
    assert num_parameters(THREE, DAG(parents)) == count
    tables = [
        ConditionalTable(name, given, np.full((2,) * len(given) + (2,), 0.5))
        for name, given in parents.items()
    ]
    assert BayesNet(tables).num_parameters == count


def test_counts_of_joint_tables_and_chains():
    assert num_parameters([2, 2, 2]) == 7
    assert num_states([2] * 100) == 2**100
    assert math.isclose(num_states([2] * 100), 1.2677e30, rel_tol=1e-4)
    k, n = 4, 6
    chain = DAG({f"x{i}": [f"x{i - 1}"] if i else [] for i in range(n)})
    assert num_parameters(dict.fromkeys(chain.names, k), chain) == (k - 1) + (n - 1) * k * (k - 1)
    full = DAG({f"x{i}": [f"x{j}" for j in range(i)] for i in range(n)})
    counts = [(k - 1) * k**i for i in range(n)]  # p(x_i | all before)
    assert num_parameters(dict.fromkeys(full.names, k), full) == sum(counts) == k**n - 1


def test_counting_along_a_graph_needs_sizes_by_name():
    with pytest.raises(ValueError, match="a mapping from names"):
        num_parameters([2, 2], DAG({"a": [], "b": ["a"]}))
    with pytest.raises(ValueError, match=r"none for \['b'\]"):
        num_parameters({"a": 2}, DAG({"a": [], "b": ["a"]}))


def test_the_joint_is_the_product_and_sums_to_one():
    net = random_network(jr.key(3), 6, zeros=0.2)
    names, table = oracle.joint(nodes_of(net))
    assert abs(oracle.total(table) - 1) < 1e-12
    found = net.joint()
    assert found.names == tuple(names)
    np.testing.assert_allclose(found.probs, np.reshape(list(table.values()), found.probs.shape), atol=1e-13)
    np.testing.assert_allclose(found.probs, product(net.factors[::-1]).marginal(names).probs, atol=1e-13)


def test_log_prob_of_an_assignment_and_of_rows():
    net = student()
    one = {"difficulty": "hard", "intelligence": "high", "grade": "A", "passed": "yes"}
    assert math.isclose(net.log_prob(one), math.log(0.4 * 0.3 * 0.45 * 0.7))
    frame = net.sample(jr.key(0), 50)
    names, table = oracle.joint(nodes_of(net))
    expected = [math.log(table[tuple(row)]) for row in frame[names].itertuples(index=False)]
    np.testing.assert_allclose(net.log_prob(frame), expected, rtol=1e-12)
    assert sprinkler().log_prob({"cloudy": "no", "sprinkler": "no", "rain": "no", "wet": "yes"}) == -math.inf


def test_log_prob_refuses_gaps_and_unknown_states():
    with pytest.raises(ValueError, match=r"none for \['wet'\]"):
        BayesNet([RAIN, WET]).log_prob({"rain": 1})
    with pytest.raises(ValueError, match=r"`wet` must be in its states \(0, 1\); got 'soaked'"):
        BayesNet([RAIN, WET]).log_prob({"rain": 1, "wet": "soaked"})


def test_collider_joint_is_the_product_of_parents_and_one_conditional():
    net = canonical_network("collider", jr.key(5))
    a, b, c = (np.asarray(net.tables[name].probs) for name in "abc")
    joint = np.einsum("i,j,ijk->ijk", a, b, c)
    np.testing.assert_allclose(net.query(["a", "b", "c"]).probs, joint, atol=1e-14)
    # the wrong product P(a) P(c|a) P(b) P(c|b) is not a distribution: it sums to the sum of P(c)^2
    c_given_a, c_given_b, total = joint.sum(1) / a[:, None], joint.sum(0) / b[:, None], joint.sum((0, 1))
    wrong = np.einsum("i,ik,j,jk->", a, c_given_a, b, c_given_b)
    assert math.isclose(wrong, (total**2).sum())
    assert wrong < 1


@pytest.mark.parametrize(("shape", "marginally", "given_middle"), [
    ("chain", False, True),
    ("fork", False, True),
    ("collider", True, False),
])  # fmt: skip
def test_canonical_structures_in_the_graph_and_in_numbers(shape, marginally, given_middle):
    net = canonical_network(shape, jr.key(7))
    joint = net.joint()
    assert net.d_separated("a", "b") is marginally
    assert bool(joint.independence("a", "b").holds) is marginally
    assert net.d_separated("a", "b", given="c") is given_middle
    assert bool(joint.independence("a", "b", "c").holds) is given_middle
    if shape == "collider":  # a descendant of the middle opens the trail too
        assert not net.d_separated("a", "b", given=["d"])
        assert not joint.independence("a", "b", "d").holds


def test_blanket_and_independencies():
    net = chest_clinic()
    assert net.markov_blanket("cancer") == {"smoking", "either", "tuberculosis"}
    assert net.d_separated("asia", "smoking")
    assert not net.d_separated("asia", "smoking", given=["dyspnoea"])
    joint = net.joint()
    for statement in net.independencies():
        assert joint.independence(statement.x, statement.y, statement.given).holds, statement


def test_factorisation_text_makes_the_same_graph():
    net = student()
    assert set(parse_dag(net.factorisation).edges) == set(net.dag.edges)
    for text in ("p(x4|x3)p(x3|x2,x1)p(x2)p(x1)", "p(L|G,J)p(J|R,A)p(A|R)p(R)p(G)"):
        dag = parse_dag(text)
        shapes = {name: (2,) * (len(dag.parents(name)) + 1) for name in dag.names}
        net = BayesNet([ConditionalTable(n, dag.parents(n), np.full(shapes[n], 0.5)) for n in dag.names])
        assert net.factorisation == text


def test_draws_have_the_joint_probabilities():
    net, count = sprinkler(), 20_000
    frame = net.sample(jr.key(0), count)
    assert isinstance(frame, pd.DataFrame)
    assert tuple(frame.columns) == net.names
    names, table = oracle.joint(nodes_of(net))
    shares = frame.value_counts(names, normalize=True).to_dict()
    for outcome, p in table.items():
        assert abs(shares.get(outcome, 0.0) - p) <= 5 * math.sqrt(p * (1 - p) / count)


def test_draws_along_a_chain_follow_the_transition_matrix():
    T, count = np.array([[0.9, 0.1], [0.3, 0.7]]), 20_000
    tables = [ConditionalTable("x0", (), [1.0, 0.0])]
    tables += [ConditionalTable(f"x{i}", f"x{i - 1}", T) for i in range(1, 6)]
    frame = BayesNet(tables).sample(jr.key(1), count)
    exact = np.linalg.matrix_power(T, 5)[0, 1]
    assert abs(frame["x5"].mean() - exact) < 5 * math.sqrt(exact * (1 - exact) / count)
    assert frame.equals(BayesNet(tables).sample(jr.key(1), count))


def test_draws_need_a_key():
    with pytest.raises(TypeError, match="`key` must be a random key"):
        BayesNet([RAIN, WET]).sample(np.zeros(2), 3)


def test_what_is_printed():
    assert (
        repr(BayesNet([RAIN, WET]))
        == "BayesNet(2 variables, 1 edges, 3 free parameters): P(rain) P(wet|rain)"
    )
    assert "and 8 more" in repr(random_network(jr.key(0), 20))


def test_fit_counts_the_rows_of_a_frame():
    frame = pd.DataFrame({"a": ["x", "x", "y", "y", "y"], "b": [0, 1, 1, 1, 0]})
    net = BayesNet.fit(frame, {"a": [], "b": ["a"]})
    np.testing.assert_allclose(net.tables["a"].probs, [0.4, 0.6])
    np.testing.assert_allclose(net.tables["b"].probs, [[1 / 2, 1 / 2], [1 / 3, 2 / 3]])


def test_it_cannot_be_changed_and_can_be_copied():
    net = sprinkler()
    with pytest.raises(AttributeError):
        net.factors = ()
    copy = pickle.loads(pickle.dumps(net))
    assert copy.marginals({"wet": "yes"}) == net.marginals({"wet": "yes"})
