"""Markov equivalence, completed graphs and what moralisation loses, against enumeration of all graphs."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from tests.oracles.random_graphs import network_joint, parent_maps, random_conditionals
from tractable.distributions.tables import JointTable
from tractable.graphs.dag import DAG, CyclicGraph
from tractable.graphs.equivalence import (
    check_independencies,
    completed,
    markov_equivalent,
    meek_closure,
    moralise,
    orient,
    v_structures,
)
from tractable.graphs.undirected import UndirectedGraph


def _all_dags(names):
    """Every directed acyclic graph: each pair has no edge or one of two."""
    pairs = list(itertools.combinations(names, 2))
    for kinds in itertools.product(range(3), repeat=len(pairs)):
        parents = {n: [] for n in names}
        for (a, b), kind in zip(pairs, kinds):
            if kind:
                parents[b if kind == 1 else a].append(a if kind == 1 else b)
        try:
            yield DAG(parents)
        except CyclicGraph:
            continue


def _separations(dag):
    names = sorted(dag.names)
    found = set()
    for x, y in itertools.combinations(names, 2):
        rest = [n for n in names if n not in (x, y)]
        for k in range(len(rest) + 1):
            found |= {(x, y, s) for s in itertools.combinations(rest, k) if dag.d_separated(x, y, s)}
    return frozenset(found)


def test_equivalence_is_equality_of_separations_over_all_graphs_of_three():
    graphs = list(_all_dags("abc"))
    assert len(graphs) == 25
    statements = [_separations(dag) for dag in graphs]
    assert len(set(statements)) == 11
    for (a, sa), (b, sb) in itertools.combinations(zip(graphs, statements), 2):
        assert markov_equivalent(a, b) is (sa == sb)


@pytest.fixture(scope="module")
def graphs_of_four():
    return list(_all_dags("abcd"))


def test_completed_graphs_of_four_direct_exactly_what_all_members_share(graphs_of_four):
    assert len(graphs_of_four) == 543
    classes = {}
    for dag in graphs_of_four:
        key = frozenset(map(frozenset, dag.edges)), v_structures(dag)
        classes.setdefault(key, []).append(dag)
    assert len(classes) == 185  # the number of classes of four nodes (Gillispie and Perlman, 2001)
    for members in classes.values():
        shared = frozenset.intersection(*(frozenset(dag.edges) for dag in members))
        pattern = completed(members[0])
        assert pattern.directed == shared
        assert len(pattern.undirected) == len(members[0].edges) - len(shared)


def test_directions_that_follow_from_given_ones():
    square = UndirectedGraph.from_edges([("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("c", "d")])
    assert ("a", "b") in meek_closure(square, [("d", "c"), ("c", "b")]).directed  # the fourth rule
    with pytest.raises(ValueError, match="`directed` must be edges of the skeleton; got b -> d"):
        meek_closure(square, [("b", "d")])


def test_graphs_over_other_names_are_refused():
    with pytest.raises(ValueError, match="`second` must be a graph over the names"):
        markov_equivalent(DAG({"a": []}), DAG({"b": []}))


def test_a_collider_loses_the_independence_of_its_parents():
    report = moralise(DAG({"a": [], "b": [], "c": ["a", "b"]}))
    assert report.married == (("a", "b"),)
    assert [str(s) for s in report.lost] == ["a _|_ b"]
    assert "married=(('a', 'b'),)" in repr(report)


@given(parent_maps(most=5))
def test_nothing_is_lost_iff_nobody_is_married(parents):
    dag = DAG(parents)
    report = moralise(dag)
    assert bool(report.lost) is bool(report.married)
    assert all(dag.d_separated(s.x, s.y, s.given) for s in report.lost)
    for s in report.graph.pairwise_independencies():
        assert dag.d_separated(s.x, s.y, s.given)  # the moral graph never states too much


def test_a_square_has_no_directed_graph_of_its_own():
    square = UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    report = orient(square)
    assert report.added in ((("a", "c"),), (("b", "d"),))
    (lost,) = report.lost
    assert {*lost.x, *lost.y} == set(report.added[0])
    assert square.separated(lost.x, lost.y, lost.given)


@given(parent_maps(most=6))
def test_orientation_states_nothing_false_and_chordal_graphs_lose_nothing(parents):
    graph = DAG(parents).skeleton()
    report = orient(graph)
    assert not v_structures(report.dag)
    for s in report.dag.pairwise_independencies():
        assert graph.separated(s.x, s.y, s.given)
    assert {frozenset(e) for e in report.dag.edges} == {frozenset(e) for e in (*graph.edges, *report.added)}
    chordal = orient(report.dag.skeleton())
    assert chordal.added == ()


def test_the_local_markov_property_of_a_table():
    parents = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}
    joint = network_joint(parents, random_conditionals(parents, np.random.default_rng(0)))
    table = JointTable(list(parents), joint)
    right = check_independencies(table, DAG(parents).local_independencies())
    assert [bool(v) for v in right.values()] == [True] * 3
    wrong = check_independencies(
        table, DAG({"a": [], "b": [], "c": ["a"], "d": ["b"]}).local_independencies()
    )
    assert {str(s): bool(v) for s, v in wrong.items()}["c _|_ b, d | a"] is False
