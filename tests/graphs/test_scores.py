"""Scores of structures: their definitions by loops, decomposition, equivalence, and speed of counting."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import networks
from tractable.distributions.conjugate import log_evidence
from tractable.distributions.discrete import Categorical
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.tables import JointTable
from tractable.graphs.coded_rows import coded_rows
from tractable.graphs.dag import DAG
from tractable.graphs.equivalence import markov_equivalent
from tractable.graphs.scores import SCORES, FamilyScores, score_structure

NAMES = ("a", "b", "c", "d")
STATES = {"a": (0, 1), "b": (0, 1, 2), "c": (0, 1), "d": (0, 1, 2)}


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(4)
    a, c = generator.integers(0, 2, 60), generator.integers(0, 2, 60)
    b = np.where(generator.random(60) < 0.6, a + c, generator.integers(0, 3, 60))
    d = np.where(generator.random(60) < 0.7, b, generator.integers(0, 3, 60))
    return {"a": a, "b": b, "c": c, "d": d}


def listed(rows, weights=None):
    count = len(rows["a"])
    weights = np.ones(count) if weights is None else weights
    return [({n: int(rows[n][i]) for n in NAMES}, float(weights[i])) for i in range(count)]


@pytest.mark.parametrize("kind", SCORES)
def test_family_score_equals_its_definition(rows, kind):
    weights = np.random.default_rng(1).uniform(0, 3, 60)
    scores = FamilyScores(rows, kind, equivalent_sample_size=3.5, states=STATES, weights=weights)
    plain = listed(rows, weights)
    for child in NAMES:
        others = [n for n in NAMES if n != child]
        for parents in itertools.chain.from_iterable(itertools.combinations(others, k) for k in range(4)):
            oracle = networks.family_score(kind, plain, child, parents, STATES, 3.5)
            assert scores.family(child, parents) == pytest.approx(oracle, rel=1e-11, abs=1e-10)


@pytest.mark.parametrize("kind", SCORES)
def test_tables_of_all_families_hold_the_family_scores(rows, kind):
    scores = FamilyScores(rows, kind)
    tables = scores.family_tables()
    for child, mask in itertools.product(range(4), range(16)):
        if mask >> child & 1:
            assert tables[child, mask] == -math.inf
        else:
            assert tables[child, mask] == pytest.approx(scores.of_mask(child, mask), abs=1e-10)
    assert (FamilyScores(rows, kind).family_tables(1)[0, [0, 2, 4, 8]] == tables[0, [0, 2, 4, 8]]).all()
    assert FamilyScores(rows, kind).family_tables(1)[0, 6] == -math.inf


@pytest.mark.parametrize("kind", ["bic", "aic", "bdeu", "log_likelihood"])
def test_equivalent_structures_score_equally(rows, kind):
    scores = FamilyScores(rows, kind)
    dags = [DAG(parents) for parents in networks.all_dags(("a", "b", "c"))]
    values = [sum(scores.family(n, dag.parents(n)) for n in dag.names) for dag in dags]
    assert len(dags) == 25
    for (first, x), (second, y) in itertools.combinations(zip(dags, values), 2):
        if markov_equivalent(first, second):
            assert x == pytest.approx(y, rel=1e-12)
        elif kind in ("bic", "bdeu"):
            assert abs(x - y) > 1e-6


def test_k2_is_not_equivalent(rows):
    one, other = ({"a": [], "b": ["a"]}, {"a": ["b"], "b": []})
    pair = {name: rows[name] for name in "ab"}
    assert abs(score_structure(pair, one, "k2") - score_structure(pair, other, "k2")) > 1e-3


def test_a_structure_scores_the_sum_of_its_families_and_counts_each_set_once(rows):
    scores = FamilyScores(rows, "bic")
    structure = {"a": [], "c": [], "b": ["a", "c"], "d": ["b"]}
    parts = [scores.family(child, parents) for child, parents in structure.items()]
    assert scores.network(DAG(structure)) == pytest.approx(sum(parts), rel=1e-14)
    counted = set(scores._terms)
    scores.network(structure)
    assert set(scores._terms) == counted
    changed = dict(structure, d=["b", "a"])
    oracle = networks.dag_score("bic", listed(rows), changed, STATES)
    assert scores.network(changed) == pytest.approx(oracle, rel=1e-12)


def test_k2_of_a_root_is_the_evidence_of_a_dirichlet(rows):
    evidence = log_evidence(Dirichlet(np.ones(3)), Categorical(np.ones(3) / 3), rows["d"])
    assert score_structure({"d": rows["d"]}, {"d": []}, "k2") == pytest.approx(float(evidence), rel=1e-12)


def test_bound_on_parents_holds_for_the_best_family(rows):
    for kind in ("bic", "aic"):
        scores = FamilyScores({n: rows[n][:9] for n in NAMES}, kind)
        tables = scores.family_tables()
        for child in range(4):
            assert int(tables[child].argmax()).bit_count() <= scores.most_parents()
    assert FamilyScores({n: rows[n][:9] for n in NAMES}, "bic").most_parents() == 2
    assert FamilyScores(rows, "bdeu").most_parents() == 3


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5))
def test_counts_equal_loops(seed, num_rows, num_columns):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 4, num_columns)
    values = np.stack([generator.integers(0, size, num_rows) for size in sizes], axis=1)
    weights = generator.uniform(0, 2, num_rows) + 0.01
    rows = coded_rows(values, {f"x{i}": range(int(size)) for i, size in enumerate(sizes)}, weights)
    oracle = np.zeros(tuple(sizes))
    for value, weight in zip(values, weights):
        oracle[tuple(value)] += weight
    np.testing.assert_allclose(rows.counts(rows.names), oracle, rtol=1e-13)
    np.testing.assert_allclose(rows.distinct().counts(rows.names), oracle, rtol=1e-13)
    cells = np.sort(rows.cell_counts(range(num_columns)))
    np.testing.assert_allclose(cells, np.sort(oracle[oracle > 0]), rtol=1e-13)


def test_many_wide_columns_do_not_overflow():
    generator = np.random.default_rng(0)
    values = generator.integers(0, 50, (300, 30))  # 50^30 joint states
    values[150:] = values[:150]
    scores = FamilyScores(values, "log_likelihood")
    assert scores.rows.num_rows == 150
    names = scores.names
    assert scores.family(names[0], names[1:]) == 0.0
    np.testing.assert_array_equal(scores.rows.cell_counts(range(30)), np.full(150, 2.0))


def test_a_million_rows_are_counted_once():
    generator = np.random.default_rng(0)
    first = generator.integers(0, 3, 10**6)
    frame = pd.DataFrame({"x": first, "y": (first + (generator.random(10**6) < 0.1)) % 3})
    frame["z"] = np.where(frame["y"] > 1, "high", "low")
    scores = FamilyScores(frame, "bic")
    chain = scores.network({"x": [], "y": ["x"], "z": ["y"]})
    assert chain > scores.network({"x": [], "y": [], "z": ["y"]}) + 10**5
    assert scores.rows.num_rows <= 18


def test_a_joint_table_is_rows_with_weights():
    table = JointTable(["a", "b"], [[0.4, 0.1], [0.0, 0.5]])
    scores = FamilyScores(table, "log_likelihood")
    assert scores.family("b", ["a"]) == pytest.approx(0.4 * math.log(0.8) + 0.1 * math.log(0.2))
    assert scores.information(1, 2) == pytest.approx(float(table.mutual_information("a", "b")), rel=1e-12)


def test_columns_of_any_kind():
    frame = pd.DataFrame(
        {
            "text": ["b", "a", None, "b"],
            "number": [1.5, np.nan, 0.5, 1.5],
            "category": pd.Categorical(["x", "y", "x", None], categories=["z", "y", "x"]),
        }
    )
    rows = coded_rows(frame, {"hidden": ["no", "yes"]})
    assert rows.axes.states == (("a", "b"), (0.5, 1.5), ("z", "y", "x"), ("no", "yes"))
    assert rows.columns.tolist() == [[1, 0, -1, 1], [1, -1, 0, 1], [2, 1, 2, -1], [-1] * 4]
    assert rows.missing == ("text", "number", "category", "hidden")


def test_bad_input_is_named(rows):
    with pytest.raises(ValueError, match="`score` must be one of 'bic'"):
        FamilyScores(rows, "mdl")
    with pytest.raises(ValueError, match="`equivalent_sample_size` must be positive; got 0"):
        FamilyScores(rows, "bdeu", equivalent_sample_size=0)
    with pytest.raises(ValueError, match="`structure` must be over the columns"):
        score_structure(rows, {"a": []})
    with pytest.raises(TypeError, match="`structure` must be a DAG, a network"):
        score_structure(rows, 3)
    with pytest.raises(ValueError, match=r"`a` must be one of its states \(0, 1\); got 7 in row 2"):
        FamilyScores({"a": [0, 1, 7]}, states={"a": [0, 1]})
    with pytest.raises(ValueError, match="`a` must be without missing values; got one in row 1"):
        FamilyScores({"a": [0.0, np.nan]})
    with pytest.raises(ValueError, match="`b` must be as long as `a`"):
        FamilyScores({"a": [0, 1], "b": [0]})
    with pytest.raises(ValueError, match="`a` must be a column with some value"):
        coded_rows({"a": [None, None]})
    with pytest.raises(ValueError, match="`frame` must be a DataFrame, a mapping"):
        coded_rows(np.zeros(3))
    with pytest.raises(ValueError, match="`frame` must be a table with at least one column"):
        coded_rows({})
    with pytest.raises(ValueError, match="`parents` must be without 'a' itself"):
        FamilyScores(rows).family("a", ["a"])
