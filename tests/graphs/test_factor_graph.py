"""Factor graphs: conversions keep the product, and the tree test finds the loop."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.random_graphs import enumerate_joint, network_joint, random_conditionals
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.dag import DAG
from tractable.graphs.factor_graph import FactorGraph
from tractable.graphs.factorisation import Factor
from tractable.graphs.markov_field import MarkovField
from tractable.graphs.undirected import UndirectedGraph


def test_the_worked_loop():
    graph = FactorGraph.parse("f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)")
    assert not graph.is_tree
    assert set(graph.cycle()) == {"x3", "f2", "x4", "f3"}
    assert graph.scope("f2") == ("x2", "x3", "x4")
    assert graph.touching("x3") == ("f2", "f3")
    assert set(graph.dependency_graph().edges) == {("x1", "x2"), ("x2", "x3"), ("x2", "x4"), ("x3", "x4")}
    assert str(graph) == "f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)"
    assert "with cycles" in repr(graph)


def test_a_network_of_five_becomes_five_factors():
    dag = DAG({"x1": [], "x2": [], "x3": ["x1", "x2"], "x4": [], "x5": ["x3", "x4"]})
    graph = FactorGraph.from_dag(dag)
    assert str(graph) == "f1(x1)f2(x2)f3(x1,x2,x3)f4(x4)f5(x3,x4,x5)"
    assert graph.is_tree
    assert graph.cycle() is None


def test_a_network_with_tables_has_unit_partition_function():
    parents = {"a": [], "b": ["a"], "c": ["a", "b"]}
    sizes = {"a": 2, "b": 3, "c": 2}
    tables = random_conditionals(parents, np.random.default_rng(0), sizes)
    conditionals = [ConditionalTable(n, parents[n], tables[n]) for n in parents]
    graph = FactorGraph.from_network(conditionals)
    field = graph.to_field()
    np.testing.assert_allclose(field.log_partition(), 0.0, atol=1e-14)
    np.testing.assert_allclose(field.joint().probs, network_joint(parents, tables, sizes), rtol=1e-12)


def test_a_field_becomes_one_factor_per_maximal_clique():
    graph = UndirectedGraph.from_edges([("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x3", "x4")])
    assert str(FactorGraph.from_graph(graph)) == "f1(x1,x2,x3)f2(x3,x4)"
    rng = np.random.default_rng(1)
    scopes = [("x1", "x2"), ("x3", "x2"), ("x1", "x3"), ("x3", "x4"), ("x4",)]
    tables = [rng.uniform(0.5, 2, (2,) * len(s)) for s in scopes]
    field = MarkovField([(s, np.log(t)) for s, t in zip(scopes, tables)])
    merged = FactorGraph.from_field(field, cliques=True)
    assert {frozenset(f.scope) for f in merged.factors} == {
        frozenset({"x1", "x2", "x3"}),
        frozenset({"x3", "x4"}),
    }
    np.testing.assert_allclose(merged.to_field().log_partition(), field.log_partition(), rtol=1e-13)
    names = ("x1", "x2", "x3", "x4")
    joint = enumerate_joint(list(names), dict.fromkeys(names, 2), scopes, tables)
    np.testing.assert_allclose(merged.to_field().query(names).probs, joint / joint.sum(), rtol=1e-12)
    plain = FactorGraph.from_field(field)
    assert len(plain.factors) == 5
    assert not plain.is_forest


@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3), min_size=1, max_size=6))
def test_tree_test_equals_networkx(scopes):
    graph = FactorGraph([Factor(f"f{i}", tuple(sorted(s))) for i, s in enumerate(scopes)])
    other = nx.Graph((n, f"f{i}") for i, s in enumerate(scopes) for n in s)
    assert graph.is_tree is nx.is_tree(other)
    assert graph.is_forest is nx.is_forest(other)
    assert set(map(frozenset, graph.to_networkx().edges)) == set(map(frozenset, other.edges))
    ring = graph.cycle()
    assert (ring is None) is nx.is_forest(other)
    if ring is not None:
        assert len(set(ring)) == len(ring) >= 4
        assert all(other.has_edge(a, b) for a, b in zip(ring, (*ring[1:], ring[0])))


def test_observed_variables_cut_off_factors():
    graph = FactorGraph.parse("f1(a,b)f2(b,c)f3(c,d)f4(d,e)")
    assert str(graph.blocked("a", ["c"])) == "f1(a,b)f2(b,c)"
    assert graph.to_networkx().nodes["f1"]["bipartite"] == 1


def test_factors_that_share_a_name_are_told_apart():
    graph = FactorGraph.parse("p(a)p(b|a)")
    assert graph.labels == ("p(a)", "p(b|a)")
    assert graph.is_tree
    assert str(graph) == "p(a)p(b|a)"


def test_states_keep_their_names():
    wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]], {"rain": ["no", "yes"]})
    rain = ConditionalTable("rain", (), [0.8, 0.2], {"rain": ["no", "yes"]})
    graph = FactorGraph.from_network({"rain": rain, "wet": wet})
    np.testing.assert_allclose(graph.to_field().marginals({"wet": 1})["rain"]["yes"], 2 / 3)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`factors` must be named unlike the variables; got \['a'\]"):
        FactorGraph([Factor("a", ("a", "b"))])
    with pytest.raises(ValueError, match="`graph` must be one with tables; got none"):
        FactorGraph.parse("f(a)").to_field()
    with pytest.raises(ValueError, match="`label` must be among the factors"):
        FactorGraph.parse("f(a)").scope("g")
    with pytest.raises(ValueError, match="`variable` must be among"):
        FactorGraph.parse("f(a)").touching("z")
    with pytest.raises(TypeError, match="`network` must be made of tables; got int"):
        FactorGraph.from_network([3])
