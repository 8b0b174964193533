"""Structures from rows: the best by enumeration, local searches, trees, limits and verdicts."""

import itertools

import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import networks
from tractable.core.iterate import Status
from tractable.graphs.dag import DAG, CyclicGraph
from tractable.graphs.equivalence import completed, markov_equivalent
from tractable.graphs.exact_search import best_order
from tractable.graphs.scores import SCORES, FamilyScores, score_structure
from tractable.graphs.structure import learn_structure

TRUE = DAG({"a": [], "b": ["a"], "c": [], "d": ["b", "c"], "e": ["d"]})


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(0)
    n = 4000
    a, c = generator.random(n) < 0.4, generator.random(n) < 0.5
    b = generator.random(n) < np.where(a, 0.8, 0.2)
    d = generator.random(n) < np.where(b & c, 0.9, np.where(b | c, 0.5, 0.1))
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": generator.random(n) < np.where(d, 0.7, 0.2)})


def random_rows(seed, sizes, num_rows=40):
    """Rows in which later columns copy earlier ones now and then."""
    generator = np.random.default_rng(seed)
    columns = []
    for i, size in enumerate(sizes):
        column = generator.integers(0, size, num_rows)
        if i:
            copied = columns[generator.integers(i)] % size
            column = np.where(generator.random(num_rows) < 0.5, copied, column)
        columns.append(column)
    return {f"v{i}": column for i, column in enumerate(columns)}


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from(SCORES), st.sampled_from([(2, 3, 2), (2, 2, 3, 2)]))
def test_exact_search_is_the_best_of_all_graphs(seed, kind, sizes):
    rows = random_rows(seed, sizes)
    scores = FamilyScores(rows, kind)
    best = max(
        sum(scores.family(child, parents) for child, parents in graph.items())
        for graph in networks.all_dags(scores.names)
    )
    found = learn_structure(rows, kind, "exact")
    assert found.score == pytest.approx(best, rel=1e-12)
    assert found.score == pytest.approx(score_structure(rows, found.dag, kind), rel=1e-12)
    assert found.certified


def test_numbers_of_graphs_searched():
    """1, 3, 25 and 543 graphs over one to four names: the oracle is complete."""
    assert [sum(1 for _ in networks.all_dags("abcd"[:n])) for n in (1, 2, 3, 4)] == [1, 3, 25, 543]


def test_best_order_covers_all_orders():
    generator = np.random.default_rng(8)
    best = generator.normal(size=(5, 32))

    def total(order):
        return sum(best[i, sum(1 << j for j in order[:k])] for k, i in enumerate(order))

    found = best_order(best)
    assert total(found) == pytest.approx(max(map(total, itertools.permutations(range(5)))), rel=1e-13)
    assert best_order(np.full((2, 4), -np.inf)) is None


@pytest.mark.parametrize("method", ["auto", "exact", "hill", "tabu", "pc"])
@pytest.mark.parametrize("score", ["bic", "bdeu"])
def test_every_method_finds_the_class_of_the_truth(frame, method, score):
    found = learn_structure(frame, score, method, level=0.01)
    assert markov_equivalent(found.dag, TRUE)
    assert found.pattern == completed(TRUE)
    assert found.score == pytest.approx(score_structure(frame, TRUE, score), rel=1e-12)
    assert found.certified == (method in ("auto", "exact"))


def test_results_print_score_and_verdict(frame):
    text = repr(learn_structure(frame))
    assert text.splitlines()[0].split() == ["variable", "parents", "bic"]
    assert f"\n4 edges by exact, bic {score_structure(frame, TRUE):.4f}.\n" in text
    assert text.endswith(
        "Certified: no acyclic graph scores higher (all orders and parent sets were covered)."
    )
    assert repr(learn_structure(frame, method="hill")).endswith("but other graphs may score higher.")
    assert "tests at level 0.05" in repr(learn_structure(frame, method="pc"))


@pytest.mark.parametrize("seed", range(4))
def test_local_searches_climb_and_never_beat_the_exact_one(seed):
    rows = random_rows(seed, (2, 3, 2, 2, 3, 2), 150)
    best = learn_structure(rows, "bic", "exact").score
    hill, tabu = (learn_structure(rows, "bic", method) for method in ("hill", "tabu"))
    assert (np.diff(hill.run.trace) >= -1e-9).all()
    assert hill.score <= best + 1e-9
    assert tabu.score <= best + 1e-9
    assert hill.score <= tabu.score + 1e-9  # the walk passes through the climb's summit
    empty = score_structure(rows, dict.fromkeys(rows, ()), "bic")
    assert empty <= hill.score == pytest.approx(score_structure(rows, hill.dag, "bic"), rel=1e-12)
    restarted = learn_structure(rows, "bic", "hill", num_restarts=8, key=jr.key(seed))
    again = learn_structure(rows, "bic", "hill", num_restarts=8, key=jr.key(seed))
    assert hill.score <= restarted.score <= best + 1e-9
    assert restarted.dag == again.dag


def test_hill_climbing_ends_where_no_single_change_helps():
    rows = random_rows(11, (2, 2, 3, 2, 2), 120)
    found = learn_structure(rows, "aic", "hill")
    names, edges = tuple(rows), set(found.dag.edges)
    for a, b in itertools.permutations(names, 2):
        changes = [edges ^ {(a, b)}] + ([edges - {(a, b)} | {(b, a)}] if (a, b) in edges else [])
        for changed in changes:
            parents = {name: [x for x, y in changed if y == name] for name in names}
            if networks.is_acyclic(parents):
                assert score_structure(rows, parents, "aic") <= found.score + 1e-8


def test_tabu_leaves_a_local_maximum():
    """Three of which any two tell nothing and all three do: climbing finds no first edge, walking on does."""
    generator = np.random.default_rng(1)
    x, y = generator.integers(0, 2, (2, 400))
    z = np.where(generator.random(400) < 0.9, x ^ y, 1 - (x ^ y))
    rows = {"x": x, "y": y, "z": z}
    assert learn_structure(rows, method="hill").dag.edges == ()
    tabu, exact = (learn_structure(rows, method=method) for method in ("tabu", "exact"))
    # three colliders are within a fraction of a nat of each other, 100 nats above the empty graph
    assert len(tabu.dag.edges) == len(exact.dag.edges) == 2
    assert exact.score - 0.1 < tabu.score <= exact.score + 1e-9
    assert tabu.score > learn_structure(rows, method="hill").score + 50


def test_a_search_that_is_cut_short_says_so(frame):
    cut = learn_structure(frame, method="tabu", max_steps=2)
    assert cut.run.status is Status.exhausted
    assert "Stopped at max_steps" in repr(cut)


@pytest.mark.parametrize(("seed", "count"), [(0, 4), (1, 5), (2, 5)])
def test_chow_liu_is_the_best_of_all_trees(seed, count):
    rows = random_rows(seed, (2, 3, 2, 3, 2)[:count], 60)
    scores = FamilyScores(rows, "log_likelihood")
    names = scores.names
    trees = []
    for edges in itertools.combinations(itertools.combinations(names, 2), count - 1):
        reached, grew = {names[0]}, True
        parents = {name: [] for name in names}
        while grew:
            grew = False
            for a, b in edges:
                for old, new in ((a, b), (b, a)):
                    if old in reached and new not in reached:
                        parents[new], grew = [old], True
                        reached.add(new)
        if len(reached) == count:
            trees.append(sum(scores.family(child, given) for child, given in parents.items()))
    assert len(trees) == count ** (count - 2)  # Cayley
    found = learn_structure(rows, "log_likelihood", "chow-liu", root=names[-1])
    assert found.score == pytest.approx(max(trees), rel=1e-12)
    assert found.dag.roots == (names[-1],)
    assert len(found.dag.edges) == count - 1


@pytest.mark.parametrize("method", ["exact", "hill", "tabu"])
def test_limits_are_kept(frame, method):
    found = learn_structure(
        frame, method=method, forbidden=[("b", "a"), ("b", "d")], required=[("e", "c")], max_parents=1
    )
    edges = set(found.dag.edges)
    assert ("e", "c") in edges
    assert not edges & {("b", "a"), ("b", "d")}
    assert max(len(found.dag.parents(name)) for name in found.dag.names) == 1
    if method == "exact":
        scores = FamilyScores(frame)
        legal = (
            sum(scores.family(child, given) for child, given in graph.items())
            for graph in networks.all_dags(("a", "b", "c", "d"))
            if "b" not in graph["a"] + graph["d"] and max(map(len, graph.values())) <= 1 and not graph["c"]
        )
        assert found.score >= max(legal) + scores.family("e", []) + scores.family("c", ["e"]) - scores.family(
            "c", []
        )


def test_one_column_and_constant_columns():
    found = learn_structure({"x": [0, 1, 1]})
    assert found.dag.names == ("x",)
    for method in ("exact", "hill", "tabu", "pc", "chow-liu"):
        pair = learn_structure({"x": [0, 1, 1, 0], "k": [7, 7, 7, 7]}, method=method)
        assert len(pair.dag.edges) == (method == "chow-liu")


def test_bad_input_is_named(frame):
    with pytest.raises(ValueError, match="`method` must be one of 'auto'"):
        learn_structure(frame, method="ges")
    with pytest.raises(ValueError, match="`score` must be one of"):
        learn_structure(frame, "mdl")
    with pytest.raises(ValueError, match="`key` must be given where there are restarts"):
        learn_structure(frame, method="tabu", num_restarts=1)
    with pytest.raises(ValueError, match=r"`forbidden` must be pairs .* of the columns"):
        learn_structure(frame, forbidden=[("a", "q")])
    with pytest.raises(
        ValueError, match=r"`required` must be edges that are not forbidden; got \('a', 'b'\)"
    ):
        learn_structure(frame, forbidden=[("a", "b")], required=[("a", "b")])
    with pytest.raises(CyclicGraph, match="acyclic"):
        learn_structure(frame, required=[("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match="`max_parents` must be at least 2"):
        learn_structure(frame, required=[("a", "c"), ("b", "c")], max_parents=1)
    with pytest.raises(ValueError, match="`forbidden, required, max_parents` must be left out"):
        learn_structure(frame, method="pc", max_parents=1)
    with pytest.raises(ValueError, match="`frame` must be of at most 20 columns"):
        learn_structure(np.zeros((2, 21), int), method="exact")
    with pytest.raises(ValueError, match="`root` must be one of the columns"):
        learn_structure(frame, method="chow-liu", root="q")
    with pytest.raises(ValueError, match="`a` must be without missing values"):
        learn_structure({"a": [1.0, np.nan], "b": [0, 1]})


CONTINUOUS = {
    "fractions": (np.random.default_rng(1).normal(size=60), "60 different fractions in 60 rows"),
    "rounded": (np.round(np.random.default_rng(1).normal(size=60), 1), "different fractions in 60 rows"),
    "dates": (np.datetime64("2020-01-01") + np.arange(60), "60 different dates in 60 rows"),
    "identifiers": (np.arange(60), "60 different values in 60 rows"),
    "names": ([f"person {i}" for i in range(60)], "60 different values in 60 rows"),
}


@pytest.mark.cheap
@pytest.mark.parametrize("kind", CONTINUOUS)
def test_columns_whose_values_are_no_states_are_refused_by_name(kind):
    column, got = CONTINUOUS[kind]
    rows = pd.DataFrame({"flag": np.arange(60) % 2, "measured": column})
    with pytest.raises(ValueError, match=rf"`measured` must be a discrete column.*{got}.*pandas.cut"):
        learn_structure(rows)


def test_numbers_that_repeat_and_stated_states_are_states():
    halves = np.tile([0.5, 1.0, 1.5, 2.0], 15)
    years = np.repeat(np.arange(2000.0, 2030.0), 2)
    rows = pd.DataFrame({"dose": halves, "year": years, "cut": pd.cut(np.linspace(0, 1, 60), 3)})
    assert len(learn_structure(rows).dag.names) == 3
    every = np.linspace(0, 1, 30)
    assert learn_structure({"x": every}, states={"x": every.tolist()}).dag.names == ("x",)
