"""Directed graphs: orders, families and blankets against networkx and enumeration."""

import itertools

import jax
import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from tests.oracles.random_graphs import dependence, network_joint, parent_maps, random_conditionals
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.dag import DAG, CyclicGraph
from tractable.graphs.markov_field import MarkovField


def _networkx(parents):
    graph = nx.DiGraph()
    graph.add_nodes_from(parents)
    graph.add_edges_from((p, c) for c, given_ in parents.items() for p in given_)
    return graph


def test_worked_structures():
    dag = DAG({"x4": ["x3"], "x3": ["x2", "x1"], "x2": [], "x1": []})
    assert dag.parents("x4") == ("x3",)
    assert dag.parents("x3") == ("x2", "x1")
    assert dag.parents("x1") == dag.parents("x2") == ()
    assert dag.roots == ("x2", "x1")
    assert dag.leaves == ("x4",)
    student = DAG({"L": ["G", "J"], "J": ["R", "A"], "A": ["R"], "R": [], "G": []})
    assert student.ancestors("L") == {"G", "J", "R", "A"}
    assert student.non_descendants("A") == {"R", "G"}
    assert student.markov_blanket("R") == {"A", "J"}
    assert student.markov_blanket("G") == {"L", "J"}
    assert set(student.marriages()) == {("G", "J")}


@given(parent_maps())
def test_families_equal_those_of_networkx(parents):
    dag, graph = DAG(parents), _networkx(parents)
    assert sorted(dag.names) == sorted(parents)
    place = {name: i for i, name in enumerate(dag.names)}
    for name in parents:
        assert dag.parents(name) == tuple(parents[name])
        assert all(place[p] < place[name] for p in parents[name])
        assert set(dag.children(name)) == set(graph.successors(name))
        assert dag.ancestors(name) == nx.ancestors(graph, name)
        assert dag.descendants(name) == nx.descendants(graph, name)
        assert dag.non_descendants(name) == set(parents) - nx.descendants(graph, name) - {name}
        others = {p for c in graph.successors(name) for p in graph.predecessors(c)}
        blanket = (set(graph.predecessors(name)) | set(graph.successors(name)) | others) - {name}
        assert dag.markov_blanket(name) == blanket
    moral = {frozenset(edge) for edge in nx.moral_graph(graph).edges}
    assert {frozenset(edge) for edge in dag.moral().edges} == moral
    assert nx.utils.graphs_equal(dag.to_networkx(), graph)
    assert set(DAG.from_networkx(graph).edges) == set(graph.edges)


def test_a_valid_order_is_kept():
    parents = {"b": [], "a": [], "d": ["a"], "c": ["b", "d"]}
    assert DAG(parents).names == ("b", "a", "d", "c")
    assert DAG({"y": ["x"]}).names == ("x", "y")


@pytest.mark.parametrize(
    ("parents", "ring"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "a -> c -> b -> a"),
        ({"a": ["a"]}, "a -> a"),
        ({"r": [], "a": ["r", "b"], "b": ["c"], "c": ["r", "a"]}, "a -> c -> b -> a"),
    ],
)
def test_a_cycle_is_named(parents, ring):
    with pytest.raises(CyclicGraph, match=f"acyclic; got the cycle {ring}"):
        DAG(parents)


@given(parent_maps(least=2, most=6))
def test_a_closed_ring_is_always_found(parents):
    dag = DAG(parents)
    deepest = dag.names[-1]
    above = sorted(dag.ancestors(deepest))
    if above:
        looped = {name: list(given_) for name, given_ in parents.items()}
        looped[above[0]].append(deepest)
        with pytest.raises(CyclicGraph) as caught:
            DAG(looped)
        ring = str(caught.value).split("the cycle ")[1].rstrip(".").split(" -> ")
        assert ring[0] == ring[-1]
        assert len(ring) == len(set(ring)) + 1
        assert all(a in looped[b] for a, b in itertools.pairwise(ring))


def test_local_and_pairwise_statements_hold_on_random_tables():
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
    joint = network_joint(parents, random_conditionals(parents, np.random.default_rng(0)))
    dag, names = DAG(parents), list(parents)
    statements = dag.pairwise_independencies()
    assert {(*s.x, *s.y) for s in statements} == {("b", "c"), ("a", "d"), ("a", "e"), ("b", "e"), ("c", "e")}
    for each in (*statements, *dag.local_independencies()):
        for y in each.y:
            assert dependence(joint, names, each.x[0], y, each.given) < 1e-15
    assert dependence(joint, names, "b", "c", ()) > 1e-3
    assert str(dag.local_independencies()[0]) == "b _|_ c | a"


@given(parent_maps(least=2, most=6))
def test_requisite_conditionals_answer_the_query(parents):
    names = list(parents)
    tables = random_conditionals(parents, np.random.default_rng(1))
    dag, target, seen = DAG(parents), names[0], names[1 : 1 + len(names) // 2]
    needed = dag.requisite(target, seen)

    def answer(chosen):
        kept = {n: parents[n] for n in names}
        unit = {n: tables[n] if n in chosen else np.ones_like(tables[n]) for n in names}
        joint = network_joint(kept, unit)
        clamped = joint[tuple(slice(None) if n not in seen else 1 for n in names)]
        free = [n for n in names if n not in seen]
        probs = clamped.sum(tuple(i for i, n in enumerate(free) if n != target))
        return probs / probs.sum()

    np.testing.assert_allclose(answer(needed), answer(set(names)), atol=1e-13)


def test_requisite_leaves_out_barren_and_cut_off_nodes():
    dag = DAG({"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]})
    assert dag.requisite("d", ["b"]) == {"c", "d"}
    assert dag.requisite("a", ["c"]) == {"a", "b", "c"}


def test_subgraphs():
    dag = DAG({"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"]})
    assert dag.ancestral("b").edges == (("a", "b"),)
    assert set(dag.subgraph(["a", "d"]).edges) == {("a", "d")}
    assert DAG.from_edges([("a", "b")], ["z"]).names == ("z", "a", "b")


def test_a_graph_is_static_under_jit():
    dag = DAG({"b": ["a"]})
    assert jax.tree.leaves(dag) == []
    assert float(jax.jit(lambda g, x: x * len(g.names))(dag, 2.0)) == 4.0


def test_bad_input_is_named():
    dag = DAG({"b": ["a"]})
    with pytest.raises(ValueError, match="`name` must be a node of the graph; got 'z'"):
        dag.parents("z")
    with pytest.raises(ValueError, match="`given` must be among the nodes a, b; got 'q'"):
        dag.d_separated("a", "b", "q")
    with pytest.raises(ValueError, match="`y` must be without the nodes of `x`; got 'a'"):
        dag.d_separated("a", "a")
    with pytest.raises(ValueError, match="`x` must be one or more nodes; got none"):
        dag.d_separated([], "a")
    with pytest.raises(ValueError, match="`given` must be without the nodes of `targets`"):
        dag.requisite("a", "a")
    with pytest.raises(ValueError, match="distinct"):
        DAG({"b": ["a", "a"]})
    with pytest.raises(ValueError, match="`edges` must be pairs"):
        DAG.from_edges([("a", "b", "c")])
    with pytest.raises(ValueError, match="`graph` must be directed"):
        DAG.from_networkx(nx.Graph())


def test_a_deep_graph_needs_no_recursion():
    chain = {f"x{i}": [f"x{i - 1}"] if i else [] for i in range(5000)}
    dag = DAG(dict(reversed(chain.items())))
    assert dag.names == tuple(chain)
    assert not dag.d_separated("x0", "x4999")
    assert dag.d_separated("x0", "x4999", "x2500")


def test_full_conditionals_need_the_blanket_alone():
    """p(x_i | rest) is proportional to p(x_i | pa_i) times the conditionals of the children."""
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
    tables = random_conditionals(parents, np.random.default_rng(4))
    joint, names = network_joint(parents, tables), list(parents)
    dag, field = DAG(parents), MarkovField([ConditionalTable(n, parents[n], tables[n]) for n in names])
    for i, name in enumerate(names):
        blanket = dag.markov_blanket(name)
        assert field.markov_blanket(name) == blanket
        for index in ([0, 1, 1, 0, 1], [1, 1, 0, 0, 0]):
            cells = joint[tuple(slice(None) if k == i else v for k, v in enumerate(index))]
            rest = {n: index[k] for k, n in enumerate(names) if n in blanket}
            found = field.conditional(name, rest).probs
            np.testing.assert_allclose(found, cells / cells.sum(), rtol=1e-12)
