"""d-separation by two routes against networkx, the definition, and numbers."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.random_graphs import dependence, network_joint, parent_maps, random_conditionals
from tractable.graphs.dag import DAG


def _questions(names):
    for x, y in itertools.combinations(names, 2):
        rest = [n for n in names if n not in (x, y)]
        for k in range(len(rest) + 1):
            for seen in itertools.combinations(rest, k):
                yield x, y, seen


@pytest.mark.parametrize(
    ("parents", "alone", "middle"),
    [
        ({"x": [], "y": ["x"], "z": ["y"]}, False, True),  # cascade
        ({"y": [], "x": ["y"], "z": ["y"]}, False, True),  # common parent
        ({"x": [], "z": [], "y": ["x", "z"]}, True, False),  # v-structure
    ],
)
def test_three_canonical_structures(parents, alone, middle):
    dag = DAG(parents)
    assert dag.d_separated("x", "z") is alone
    assert dag.d_separated("x", "z", "y") is middle
    joint = network_joint(parents, random_conditionals(parents, np.random.default_rng(2)))
    names = list(parents)
    assert (dependence(joint, names, "x", "z", ()) < 1e-15) is alone
    assert (dependence(joint, names, "x", "z", ("y",)) < 1e-15) is middle


def test_an_observed_descendant_opens_a_collider():
    dag = DAG({"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": ["d"]})
    assert dag.d_separated("a", "b")
    assert not dag.d_separated("a", "b", "e")
    trail = dag.active_trail("a", "b", "e")
    assert str(trail) == "a -> c <- b"
    assert trail.colliders == ("c",)


@given(parent_maps(least=2, most=5))
def test_both_routes_and_networkx_agree(parents):
    dag = DAG(parents)
    graph = nx.DiGraph((p, c) for c, given_ in parents.items() for p in given_)
    graph.add_nodes_from(parents)
    for x, y, seen in _questions(sorted(parents)):
        expected = nx.is_d_separator(graph, {x}, {y}, set(seen))
        assert dag.d_separated(x, y, seen) is expected
        assert bool(dag.moral_separation(x, y, seen)) is expected


@given(parent_maps(least=3, most=6), st.data())
def test_groups_are_separated_iff_all_pairs_are(parents, data):
    names = sorted(parents)
    roles = data.draw(st.lists(st.sampled_from("xyz-"), min_size=len(names), max_size=len(names)))
    groups = {role: [n for n, r in zip(names, roles) if r == role] for role in "xyz"}
    dag = DAG(parents)
    if groups["x"] and groups["y"]:
        pairs = [dag.d_separated(a, b, groups["z"]) for a in groups["x"] for b in groups["y"]]
        assert dag.d_separated(groups["x"], groups["y"], groups["z"]) is all(pairs)
        assert bool(dag.moral_separation(groups["x"], groups["y"], groups["z"])) is all(pairs)


@given(parent_maps(least=2, most=6))
def test_a_trail_is_a_path_that_nothing_blocks(parents):
    dag = DAG(parents)
    for x, y, seen in _questions(sorted(parents)):
        trail = dag.active_trail(x, y, seen)
        if trail is None:
            continue
        assert trail.names[0] == x
        assert trail.names[-1] == y
        assert len(set(trail.names)) == len(trail.names)
        steps = zip(trail.names, trail.arrows, trail.names[1:])
        assert all((a in parents[b]) if arrow == "->" else (b in parents[a]) for a, arrow, b in steps)
        for name in trail.names[1:-1]:
            if name in trail.colliders:
                assert {name, *dag.descendants(name)} & set(seen)
            else:
                assert name not in seen


def test_separation_is_independence_on_random_tables():
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
    dag, names = DAG(parents), list(parents)
    joint = network_joint(parents, random_conditionals(parents, np.random.default_rng(3)))
    separated = 0
    for x, y, seen in _questions(names):
        off = dependence(joint, names, x, y, seen)
        if dag.d_separated(x, y, seen):
            separated += 1
            assert off < 1e-15
        else:
            assert off > 1e-7
    assert separated == 1 + 2 + 5 + 4 + 4  # of b-c, a-d, a-e, b-e, c-e, counted by hand


def test_the_steps_of_the_moral_route_are_recorded():
    dag = DAG({"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": ["b"]})
    steps = dag.moral_separation("a", "b", "d")
    assert not steps
    assert steps.path == ("a", "b")
    assert steps.ancestral == (("a", "c"), ("b", "c"), ("c", "d"))  # e is no ancestor
    assert steps.married == (("a", "b"),)
    assert set(steps.moral.edges) == {("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")}
    assert set(steps.remaining.edges) == {("a", "b"), ("a", "c"), ("b", "c")}
    text = repr(steps)
    assert text.startswith("a _|_ b | d?")
    assert text.endswith("path a - b: independence is not guaranteed")
    assert repr(dag.moral_separation("a", "b")).endswith("no path: independence is guaranteed")
