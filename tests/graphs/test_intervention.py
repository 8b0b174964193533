"""Interventions: surgery equals the truncated product; adjustment formulas equal surgery where they may."""

import itertools

import hypothesis.strategies as st
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings

from tests.oracles import bayes_net as oracle
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.dag import DAG
from tractable.graphs.example_networks import random_network, sprinkler
from tractable.graphs.intervention import (
    back_door_adjustment,
    back_door_sets,
    blocks_back_doors,
    front_door_adjustment,
    is_front_door,
)


def truncated(net, actions):
    """The product of all tables but those acted on, where the actions hold, by enumeration."""
    nodes = []
    for name, table in net.tables.items():
        if name in actions:
            probs = np.array([float(state == actions[name]) for state in net.states[name]])
            nodes.append((name, (), probs, net.states[name]))
        else:
            nodes.append((name, table.given, np.asarray(table.probs), net.states[name]))
    return oracle.joint(nodes)


def test_acting_on_the_sprinkler_says_nothing_of_the_clouds():
    net = sprinkler()
    seen, done = net.marginals({"sprinkler": "yes"}), net.do({"sprinkler": "yes"}).marginals()
    assert seen["cloudy"]["yes"] < 0.2
    assert done["cloudy"]["yes"] == pytest.approx(0.5, abs=1e-12)
    assert done["wet"]["yes"] == pytest.approx(0.5 * 0.9 + 0.5 * 0.99, abs=1e-12)
    assert net.do({"sprinkler": "yes"}).dag.edges == (
        ("cloudy", "rain"),
        ("sprinkler", "wet"),
        ("rain", "wet"),
    )
    with pytest.raises(ValueError, match="one of its states"):
        net.do({"sprinkler": "broken"})
    with pytest.raises(ValueError, match="one of cloudy"):
        net.do({"hose": "yes"})


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_surgery_equals_the_truncated_product(seed):
    net = random_network(jr.key(seed), 5, max_parents=3)
    actions = {"x1": 0, "x3": 1}
    names, table = truncated(net, actions)
    found = net.do(actions).marginals()
    for name in ("x0", "x2", "x4"):
        exact = oracle.marginal(names, table, [name])
        assert found[name] == pytest.approx({state: exact[(state,)] for state in net.states[name]}, abs=1e-12)


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_every_back_door_set_gives_the_effect_of_surgery(seed):
    net = random_network(jr.key(seed), 5, max_parents=3, max_states=3)
    joint = net.joint()
    sets = back_door_sets(net.dag, "x2", "x4")
    assert sets  # the parents of x2 always block
    for adjust in sets:
        found = back_door_adjustment(joint, "x2", "x4", adjust)
        for i, state in enumerate(net.states["x2"]):
            exact = net.do({"x2": state}).query("x4").probs
            np.testing.assert_allclose(found.probs[i], exact, atol=1e-11)


def test_back_door_sets_of_a_known_graph():
    """The graph of Pearl's adjustment example: x3, x4 or both alone do not do; x3 with x4 does."""
    dag = DAG({"x1": [], "x2": [], "x3": ["x1"], "x4": ["x1", "x2"], "x5": ["x2"],
               "x": ["x3", "x4"], "x6": ["x"], "y": ["x4", "x5", "x6"]})  # fmt: skip
    assert blocks_back_doors(dag, "x", "y", ["x3", "x4"])
    assert blocks_back_doors(dag, "x", "y", ["x4", "x5"])
    assert not blocks_back_doors(dag, "x", "y", ["x4"])
    assert not blocks_back_doors(dag, "x", "y")
    assert not blocks_back_doors(dag, "x", "y", ["x3", "x4", "x6"])  # x6 follows from x
    found = back_door_sets(dag, "x", "y", observable=["x3", "x4", "x5"])
    assert found == [("x3", "x4"), ("x4", "x5")]
    every = [set(each) for each in back_door_sets(dag, "x", "y")]
    assert {"x1", "x4"} in every
    for small, large in itertools.permutations(every, 2):
        assert not small < large


def front_door_network(seed):
    generator = np.random.default_rng(seed)
    rows = lambda *shape: generator.dirichlet([1.0, 1.0], shape)  # noqa: E731
    tables = [
        ConditionalTable("hidden", (), rows()),
        ConditionalTable("x", "hidden", rows(2)),
        ConditionalTable("m", "x", rows(2)),
        ConditionalTable("y", ["m", "hidden"], rows(2, 2)),
    ]
    return BayesNet(tables)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_front_door_adjustment_equals_surgery_without_the_hidden_cause(seed):
    net = front_door_network(seed)
    assert is_front_door(net.dag, "x", "y", "m")
    assert not is_front_door(net.dag, "x", "y", "hidden")
    found = front_door_adjustment(net.query(["x", "m", "y"]), "x", "y", "m")
    for state in (0, 1):
        np.testing.assert_allclose(found.probs[state], net.do({"x": state}).query("y").probs, atol=1e-12)
    assert back_door_sets(net.dag, "x", "y", observable=["m"]) == []


def test_a_mediator_with_its_own_back_door_is_no_front_door():
    dag = DAG({"u": [], "x": ["u"], "m": ["x", "u"], "y": ["m"]})
    assert not is_front_door(dag, "x", "y", "m")
    direct = DAG({"u": [], "x": ["u"], "m": ["x"], "y": ["m", "u", "x"]})
    assert not is_front_door(direct, "x", "y", "m")


def test_adjustment_needs_every_case():
    table = JointTable(["x", "z", "y"], np.array([[[0.2, 0.3], [0.0, 0.0]], [[0.1, 0.1], [0.1, 0.2]]]))
    with pytest.raises(ImpossibleEvidence, match="P\\(x=0, z=1\\) = 0"):
        back_door_adjustment(table, "x", "y", "z")
    with pytest.raises(ImpossibleEvidence, match="seen in every joint state"):
        front_door_adjustment(table, "x", "y", "z")


def test_adjusting_for_nothing_is_conditioning():
    joint = sprinkler().joint()
    found = back_door_adjustment(joint, "cloudy", "wet")
    np.testing.assert_allclose(found.probs, joint.conditional_table("wet", "cloudy").probs, atol=1e-13)
