"""Undirected graphs: separation, components and cliques against networkx and the definitions."""

import itertools

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.graphs.cliques import maximal_cliques
from tractable.graphs.undirected import UndirectedGraph, dependency_graph

LETTERS = "abcdefg"


@st.composite
def graphs(draw, most=7):
    n = draw(st.integers(1, most))
    pairs = list(itertools.combinations(LETTERS[:n], 2))
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return [p for p, k in zip(pairs, kept) if k], LETTERS[:n]


@given(graphs())
def test_maximal_cliques_equal_those_of_networkx(parts):
    graph = UndirectedGraph.from_edges(*parts)
    expected = {frozenset(c) for c in nx.find_cliques(graph.to_networkx())}
    found = graph.maximal_cliques()
    assert {frozenset(c) for c in found} == expected
    assert len(found) == len(expected)
    every = set(graph.cliques())
    for k in range(1, len(graph.names) + 1):
        for names in itertools.combinations(graph.names, k):
            full = all(graph.adjacent(a, b) for a, b in itertools.combinations(names, 2))
            assert graph.is_clique(names) is full
            assert (names in every) is full


@given(graphs())
def test_separation_components_and_trees_equal_networkx(parts):
    graph = UndirectedGraph.from_edges(*parts)
    other = graph.to_networkx()
    assert {frozenset(c) for c in graph.components} == {frozenset(c) for c in nx.connected_components(other)}
    assert graph.is_forest is nx.is_forest(other)
    assert graph.is_tree is nx.is_tree(other)
    assert nx.utils.graphs_equal(UndirectedGraph.from_networkx(other).to_networkx(), other)
    for x, y in itertools.combinations(graph.names, 2):
        rest = [n for n in graph.names if n not in (x, y)]
        seen = rest[: len(rest) // 2]
        cut = other.subgraph(set(graph.names) - set(seen))
        path = graph.path(x, y, seen)
        assert graph.separated(x, y, seen) is (not nx.has_path(cut, x, y))
        if path is not None:
            assert len(path) == nx.shortest_path_length(cut, x, y) + 1
            assert all(graph.adjacent(a, b) for a, b in itertools.pairwise(path))


def test_the_worst_case_of_moon_and_moser():
    """Nodes in triples, all edges but those within a triple: three to the power of the triples cliques."""
    triples = [frozenset(range(3 * i, 3 * i + 3)) for i in range(5)]
    links = [frozenset(range(15)) - triples[i // 3] for i in range(15)]
    found = {frozenset(c) for c in maximal_cliques(links)}
    assert len(found) == 3**5
    assert all(len(c & t) == 1 for c in found for t in triples)


def test_a_large_sparse_graph_is_quick():
    graph = UndirectedGraph.from_networkx(nx.relabel_nodes(nx.grid_2d_graph(60, 60), str))
    assert len(graph.maximal_cliques()) == 2 * 60 * 59


def test_pairwise_statements_are_the_missing_edges():
    graph = UndirectedGraph.from_edges([("a", "b"), ("b", "c")], ["a", "b", "c", "d"])
    found = {(*s.x, *s.y): s.given for s in graph.pairwise_independencies()}
    assert found == {
        ("a", "c"): ("b", "d"),
        ("a", "d"): ("b", "c"),
        ("b", "d"): ("a", "c"),
        ("c", "d"): ("a", "b"),
    }


def test_dependency_graph_has_a_clique_per_scope():
    graph = dependency_graph([("x1", "x2", "x3"), ("x3", "x4"), ("x5",)])
    assert set(graph.edges) == {("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x3", "x4")}
    assert graph.maximal_cliques() == (("x1", "x2", "x3"), ("x3", "x4"), ("x5",))
    assert graph.without("x3").components == (("x1", "x2"), ("x4",), ("x5",))
    assert graph.reached("x4") == {"x1", "x2", "x3", "x4"}


def test_bad_input_is_named():
    graph = UndirectedGraph.from_edges([("a", "b")])
    with pytest.raises(ValueError, match="`name` must be among the nodes a, b; got 'z'"):
        graph.neighbours("z")
    with pytest.raises(ValueError, match="`edges` must be pairs of two different names"):
        UndirectedGraph.from_edges([("a", "a")])
    with pytest.raises(ValueError, match="`given` must be without the nodes of `x`; got 'a'"):
        graph.separated("a", "b", "a")
    with pytest.raises(ValueError, match="`graph` must be undirected; got DiGraph"):
        UndirectedGraph.from_networkx(nx.DiGraph())
