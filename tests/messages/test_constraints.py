"""Constraints: decisions, counts and solutions against trying everything."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.messages.constraints import Constraints, from_clauses
from tractable.messages.cost import TooLarge
from tractable.messages.tree import propagate


def differ(a, b):
    return a != b


def as_set(solutions):
    return {tuple(sorted(s.items())) for s in solutions}


def random_clauses(seed, num_variables, num_clauses):
    generator = np.random.default_rng(seed)
    rows = [generator.choice(num_variables, 3, replace=False) + 1 for _ in range(num_clauses)]
    return [[int(v) * int(generator.choice([-1, 1])) for v in row] for row in rows]


def satisfied(clauses, num_variables):
    """All satisfying assignments by their truth values, without the code under test."""
    return [
        values
        for values in itertools.product((False, True), repeat=num_variables)
        if all(any(values[abs(i) - 1] == (i > 0) for i in clause) for clause in clauses)
    ]


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_three_satisfiability_equals_brute_force(seed, num_clauses):
    clauses = random_clauses(seed, 7, num_clauses)
    truth = satisfied(clauses, 7)
    formula = from_clauses(clauses, num_variables=7)
    assert formula.count() == len(truth)
    assert formula.satisfiable() == bool(truth)
    found = [tuple(s[f"x{i}"] for i in range(1, 8)) for s in formula.solutions()]
    assert sorted(found) == sorted(truth)
    assert (formula.solve() is None) == (not truth)


def test_an_unsatisfiable_formula():
    everything = from_clauses([[a * 1, b * 2, c * 3] for a, b, c in itertools.product((1, -1), repeat=3)])
    assert not everything.satisfiable()
    assert everything.count() == 0
    assert everything.solve() is None
    assert list(everything.brute_force()) == []


def test_colourings_of_a_map():
    borders = ["wa nt", "wa sa", "nt sa", "nt q", "sa q", "sa nsw", "sa v", "q nsw", "nsw v"]
    names = sorted({name for pair in borders for name in pair.split()} | {"t"})
    colours = Constraints(
        dict.fromkeys(names, ("red", "green", "blue")), [(p.split(), differ) for p in borders]
    )
    assert colours.count() == 18  # six colourings of the mainland, three of the island
    solutions = list(colours.solutions())
    assert as_set(solutions) == as_set(colours.brute_force())
    assert len(solutions) == 18
    assert len(list(colours.solutions(limit=5))) == 5
    assert all(colours.is_solution(s) for s in solutions)
    assert "7 variables, 9 rules, 2187 assignments" in repr(colours)


def test_queens():
    rows = {f"q{i}": range(6) for i in range(6)}
    rules = [
        ((f"q{i}", f"q{j}"), lambda a, b, gap=j - i: a != b and abs(a - b) != gap)
        for i, j in itertools.combinations(range(6), 2)
    ]
    board = Constraints(rows, rules)
    assert board.count() == 4
    assert board.is_solution(board.solve())


def test_trees_count_by_messages_and_counts_are_exact_beyond_floats():
    names = [f"n{i}" for i in range(80)]
    chain = Constraints({n: range(3) for n in names}, [(pair, differ) for pair in itertools.pairwise(names)])
    assert chain.count() == 3 * 2**79
    assert propagate(chain.tables, semiring="counting").total == 3 * 2**79
    assert bool(propagate(chain.tables, semiring="boolean").total)
    assert int(Constraints({n: range(2) for n in names}, []).count()) == 2**80  # nothing required


def test_allowed_combinations_and_mixed_states():
    puzzle = Constraints(
        {"drink": ["tea", "milk"], "pet": ["dog", "cat", "fish"]},
        [
            (("drink", "pet"), [("tea", "cat"), ("milk", "fish"), ("tea", "dog")]),
            (("pet",), lambda p: p != "dog"),
        ],
    )
    assert as_set(puzzle.solutions()) == as_set(
        [{"drink": "tea", "pet": "cat"}, {"drink": "milk", "pet": "fish"}]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constraints({}, []), "`states` must be given for at least one variable"),
        (lambda: Constraints({"a": []}, []), "`a` must be a variable with at least one state"),
        (lambda: Constraints({"a": [1]}, [(("b",), bool)]), r"`rules\[0\]` must be about variables among"),
        (lambda: Constraints({"a": [1]}, [(("a",), [(2,)])]), r"`rules\[0\]` must be combinations of states"),
        (lambda: from_clauses([[1, 0]]), "`clauses` must be lists of whole numbers other than 0"),
        (lambda: from_clauses([[3]], num_variables=2), "`num_variables` must be at least 3; got 2"),
        (lambda: from_clauses([[1]]).is_solution({}), "`assignment` must be of"),
    ],
)
def test_bad_constraints_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rules_that_are_too_wide_are_refused_before_they_start():
    names = [f"n{i}" for i in range(30)]
    clique = [(pair, differ) for pair in itertools.combinations(names, 2)]
    with pytest.raises(TooLarge, match="`budget` must be at least"):
        Constraints({n: range(2) for n in names}, clique).count()
