"""Orders, triangulations, tree decompositions, treewidth and variable elimination against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import table_products as oracle
from tractable.core.iterate import count_traces
from tractable.messages import elimination
from tractable.messages.elimination import elimination_order, relevant_factors
from tractable.messages.junction import junction_tree
from tractable.messages.tree_decomposition import (
    TreeDecomposition,
    add_chords,
    chordless_cycle,
    is_chordal,
    maximal_bags,
)
from tractable.messages.treewidth import exact_treewidth, treewidth_bounds
from tractable.messages.variable_elimination import enumerate_assignments, sum_out

RULES = ("min_fill", "min_degree", "min_weight", "best")
A, B, C, D, E, F = range(6)
SIX = [(A,), (A, B), (A, C), (A, D), (B, C, E), (C, D, F)]  # A -> B, C, D; (B, C) -> E; (C, D) -> F
graphs = st.integers(2, 8).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.sets(st.sampled_from(list(itertools.combinations(range(n), 2))), max_size=16).map(sorted),
    )
)


def cycle(n):
    return [(i, (i + 1) % n) for i in range(n)]


def grid(n):
    across = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    return across + [(i * n + j, i * n + n + j) for i in range(n - 1) for j in range(n)]


def width_by_permutations(num, edges):
    """The least width over all orders, each played out on sets."""
    best = num
    for order in itertools.permutations(range(num)):
        near = {v: {u for e in edges for u in e if v in e and u != v} for v in range(num)}
        width = 0
        for v in order:
            around = near.pop(v)
            width = max(width, len(around))
            for u in around:
                near[u] = (near[u] | around) - {u, v}
        best = min(best, width)
    return best


@pytest.mark.parametrize("n", [4, 5, 6, 8])
@pytest.mark.parametrize("rule", RULES)
def test_cycles_have_width_two(n, rule):
    found = elimination_order(cycle(n), [2] * n, rule)
    assert found.treewidth == 2
    assert sorted(found.order) == list(range(n))
    assert found.num_cells == 8 * (n - 2)  # n - 2 triangles


def test_least_degree_with_alphabetical_ties():
    assert elimination_order(SIX, [2] * 6, "min_degree").order == (E, B, A, C, D, F)


def test_rules_choose_what_they_say():
    star = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (1, 3), (3, 4)]
    assert elimination_order(star, [2] * 5, "min_degree").order[0] == 4
    heavy = [(0, 1), (0, 2), (1, 3), (2, 3)]  # a square with one vertex of 50 states
    assert elimination_order(heavy, [2, 2, 2, 50], "min_weight").order[0] == 0
    # Least fill takes 0 (a clique of four, no fill); least degree takes 4, whose neighbours are not joined.
    fills = [*itertools.combinations(range(4), 2), (4, 1), (4, 5), (5, 6), (6, 7), (7, 1)]
    assert elimination_order(fills, [2] * 8, "min_fill").order[0] == 0
    assert elimination_order(fills, [2] * 8, "min_degree").order[0] == 4


def test_best_is_no_worse_and_finds_the_band_of_a_grid():
    scopes, sizes = grid(14), [2] * 196
    cells = {rule: elimination_order(scopes, sizes, rule).num_cells for rule in RULES}
    assert cells["best"] == min(cells.values())
    wide = elimination_order(grid(20), [2] * 400, "best")
    assert wide.treewidth == 20
    assert wide.num_cells < 2e8


def test_missing_edges_are_counted_again_only_near_what_leaves(monkeypatch):
    generator = np.random.default_rng(0)
    scopes = [
        (int(generator.integers(max(0, i - 15), i)), int(generator.integers(i)) if i % 9 == 0 else i - 1, i)
        for i in range(1, 1000)
    ]
    counted = count_traces(elimination._fill)
    monkeypatch.setattr(elimination, "_fill", counted)
    elimination_order([tuple(dict.fromkeys(scope)) for scope in scopes], [2] * 1000, "min_fill")
    assert counted.count < 12 * 1000


def test_single_states_join_nothing():
    assert elimination_order(cycle(4), [1, 2, 2, 2]).treewidth == 1
    assert elimination_order(cycle(4), [1, 1, 1, 1]).num_cells == 4


@pytest.mark.parametrize(
    ("num", "edges", "width"),
    [(6, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)], 1), (7, cycle(7), 2), (9, grid(3), 3), (16, grid(4), 4)]
    + [(n, list(itertools.combinations(range(n), 2)), n - 1) for n in (2, 5, 8)],
)
def test_treewidth_of_known_graphs(num, edges, width):
    assert exact_treewidth(num, edges) == width
    low, high = treewidth_bounds(num, edges)
    assert low <= width <= high
    assert high == width


@given(st.sets(st.sampled_from(list(itertools.combinations(range(6), 2)))).map(sorted))
def test_treewidth_is_the_least_over_all_orders(edges):
    exact = exact_treewidth(6, edges)
    assert exact == width_by_permutations(6, edges)
    low, high = treewidth_bounds(6, edges)
    assert low <= exact <= high


@given(graphs)
def test_triangulations_are_chordal_and_their_bags_a_decomposition(graph):
    num, edges = graph
    hole = chordless_cycle(num, edges)
    assert is_chordal(num, edges) == (hole is None)
    if hole:
        links = {frozenset(e) for e in edges}
        inside = [pair for pair in itertools.combinations(hole, 2) if frozenset(pair) in links]
        assert len(hole) >= 4
        assert len(inside) == len(hole)
    chords, tree = add_chords(num, edges)
    assert is_chordal(num, edges + chords)
    assert not set(chords) & set(edges)
    assert tree.faults(range(num), edges + chords) == []
    assert tree.width >= exact_treewidth(num, edges)


@given(graphs, st.sampled_from(RULES))
def test_bags_of_orders_are_tree_decompositions(graph, rule):
    num, edges = graph
    tree = junction_tree(edges, [2] * num, rule).decomposition
    assert tree.faults(range(num), edges) == []
    assert tree.width == elimination_order(edges, [2] * num, rule).treewidth
    assert not any(a < b for a in tree.bags for b in tree.bags)


def test_worked_tree_decomposition():
    edges = [(A, B), (B, C), (B, D), (C, D), (D, E)]
    tree = TreeDecomposition.from_bags([{A, B}, {B, C, D}, {D, E}])
    assert tree.width == 2
    assert tree.separators == (frozenset({B}), frozenset({D}))
    assert tree.edges == ((0, 1), (1, 2))
    tree.check_covers(range(5), edges)


@pytest.mark.parametrize(
    ("bags", "edges", "says"),
    [
        ([{0, 1}, {1, 2}], ((0, 1),), "vertex 3 is in no bag"),
        ([{0, 1}, {1, 2}, {3}], ((0, 1), (1, 2)), r"edge \(2, 3\) is in no bag"),
        ([{0, 1}, {2, 3}, {1, 2}], ((0, 1), (1, 2)), "vertex 1 are not connected"),
        ([{0, 1}, {1, 2}, {1, 2, 3}], ((0, 1), (1, 2), (0, 2)), "close a cycle"),
    ],
)
def test_faults_of_a_decomposition_are_named(bags, edges, says):
    tree = TreeDecomposition(tuple(map(frozenset, bags)), edges)
    with pytest.raises(ValueError, match=says):
        tree.check_covers(range(4), [(0, 1), (1, 2), (2, 3)])


def test_maximal_bags_need_a_chordal_graph():
    with pytest.raises(ValueError, match="chordal graph; got"):
        maximal_bags(4, cycle(4))


def test_chain_by_elimination_is_a_power_of_the_transition():
    rows = np.array([[0.8, 0.2], [0.35, 0.65]])
    scopes = [(i, i + 1) for i in range(5)]  # x2 -> x3 -> ... -> x7 as 0, ..., 5
    found = sum_out(scopes, [np.log(rows)] * 5, [2] * 6, [0], {5: 0}, order=[4, 3, 2, 1])
    np.testing.assert_allclose(np.exp(found.log_table), np.linalg.matrix_power(rows, 5)[:, 0], rtol=1e-14)
    assert found.num_terms == 4 * (2 * 2)  # four sums over tables of two by two
    ends = {0: 1, 5: 0}
    whole = enumerate_assignments(scopes, [np.log(rows)] * 5, [2] * 6, (), ends)
    np.testing.assert_allclose(whole.log_total, found.log_table[1], rtol=1e-13)
    assert whole.num_terms == 2**4
    longer = sum_out([(i, i + 1) for i in range(20)], [np.log(rows)] * 20, [2] * 21, keep=[0, 20])
    np.testing.assert_allclose(np.exp(longer.log_table), np.linalg.matrix_power(rows, 20), rtol=1e-12)


@given(st.data())
def test_any_order_equals_enumeration(data):
    num = data.draw(st.integers(1, 5))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=num, max_size=num))
    generator = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    scopes = [
        tuple(generator.permutation(num)[: generator.integers(0, min(num, 3) + 1)].tolist()) for _ in range(5)
    ]
    with np.errstate(divide="ignore"):
        tables = [
            np.log(
                generator.gamma(0.5, size=[sizes[v] for v in s])
                * (generator.random([sizes[v] for v in s]) > 0.15)
            )
            for s in scopes
        ]
    keep = generator.permutation(num)[: generator.integers(0, num + 1)].tolist()
    order = [v for v in generator.permutation(num).tolist() if v not in keep]
    values = oracle.assignments(scopes, tables, sizes)
    total = oracle.log_total(values)
    for found in (
        sum_out(scopes, tables, sizes, keep, order=order),
        sum_out(scopes, tables, sizes, keep),
        enumerate_assignments(scopes, tables, sizes, keep),
    ):
        np.testing.assert_allclose(found.log_total, total, rtol=1e-11, atol=1e-12)
        if total == -np.inf:
            assert np.isnan(found.probs).all()
        else:
            np.testing.assert_allclose(found.probs, oracle.joint(values, keep, sizes), atol=1e-13)


def test_barren_variables_are_found():
    children = [0, 1, 2, 3, 4, 5]
    scopes = [(A,), (A, B), (A, C), (A, D), (B, C, E), (C, D, F)]
    assert relevant_factors(scopes, children, [B]) == (A, B)
    assert relevant_factors(scopes, children, [E]) == (A, B, C, E)
    assert relevant_factors(scopes, children, [E, F]) == (0, 1, 2, 3, 4, 5)
    generator = np.random.default_rng(1)
    tables = [np.log(generator.dirichlet([1, 1], size=(2,) * (len(s) - 1))) for s in scopes]
    kept = relevant_factors(scopes, children, [E, B])
    short = sum_out([scopes[k] for k in kept], [tables[k] for k in kept], [2] * 5, [B], {E: 1})
    np.testing.assert_allclose(short.probs, sum_out(scopes, tables, [2] * 6, [B], {E: 1}).probs, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: elimination_order([(0, 2)], [2, 2]),
            r"`scopes\[0\]` must be distinct variables from 0 to 1",
        ),
        (lambda: elimination_order([(0, 0)], [2]), r"`scopes\[0\]` must be distinct"),
        (lambda: elimination_order([(0,)], [0]), "`sizes` must be at least one state"),
        (lambda: elimination_order([(0,)], [2], "max"), "`rule` must be one of 'min_fill'"),
        (lambda: junction_tree([(0, 1)], [2, 2], [0, 0]), "`order` must be a permutation of the 2 variables"),
        (lambda: sum_out([(0,)], [np.zeros(3)], [2]), r"`tables\[0\]` must be of shape \(2,\)"),
        (lambda: sum_out([(0,)], [np.zeros(2)], [2], (), {0: 2}), r"`evidence\[0\]` must be a whole number"),
        (
            lambda: sum_out([(0,)], [np.zeros(2)], [2], [0], {0: 1}),
            "`evidence` must be on variables that are not kept",
        ),
        (lambda: sum_out([(0, 1)], [np.zeros((2, 2))], [2, 2], order=[0]), "`order` must be a permutation"),
        (lambda: exact_treewidth(23, []), "`num` must be a whole number from 1 to 22"),
        (lambda: is_chordal(2, [(0, 2)]), "`edges` must be pairs of vertices below 2"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_tables_that_are_too_large_are_refused():
    with pytest.raises(MemoryError, match=r"the table of 30 variables, 2e\+09 bytes; got 8.59e\+09"):
        sum_out([(i,) for i in range(30)], [np.zeros(2)] * 30, [2] * 30, keep=range(30))
