"""Factorisations as text: round trips, and errors that say where."""

import pytest
from hypothesis import given

from tests.oracles.random_graphs import parent_maps
from tractable.graphs.dag import DAG, CyclicGraph
from tractable.graphs.factorisation import Factor, parse_dag, parse_factors, print_dag, print_factors


@pytest.mark.parametrize("text", ["p(x4|x3)p(x3|x2,x1)p(x2)p(x1)", "p(L|G,J)p(J|R,A)p(A|R)p(R)p(G)"])
def test_worked_factorisations_round_trip(text):
    dag = parse_dag(text)
    assert print_dag(dag) == text
    assert print_factors(parse_factors(text)) == text


def test_families_of_a_worked_factorisation():
    dag = parse_dag("p(x4|x3)p(x3|x2,x1)p(x2)p(x1)")
    families = {name: dag.parents(name) for name in dag.names}
    assert families == {"x4": ("x3",), "x3": ("x2", "x1"), "x2": (), "x1": ()}


@given(parent_maps())
def test_every_graph_round_trips(parents):
    dag = DAG(parents)
    again = parse_dag(print_dag(dag))
    assert set(again.edges) == set(dag.edges)
    assert {n: again.parents(n) for n in parents} == {n: tuple(parents[n]) for n in parents}


def test_spaces_stars_and_left_sides():
    plain = parse_factors("f1(a,b)f2(b,c)")
    assert parse_factors(" p(a, b, c) = f1(a, b) * f2( b ,c ) ") == plain
    assert parse_factors("p(a,b,c) ∝ 1/Z f1(a,b) f2(b,c)") == plain
    assert parse_factors("P(rain) P(wet | rain)")[1] == Factor("P", ("wet", "rain"), ("rain",))
    assert parse_dag("P(rain) P(wet | rain)").edges == (("rain", "wet"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p(a|b", "a product of factors; got 'p\\(a|b' at character 0"),
        ("p(a) oops p(b)", "got 'oops p\\(b\\)' at character 4"),
        ("", "at least one factor"),
        ("p(a,,b)", "a name at each side of a comma; got 'a,,b'"),
        ("p(a|a)", "name a variable once"),
        ("p(a)p(a)", r"different factors; got p\(a\) more than once"),
        ("p(a,b)=p(a)", r"about the variables of p\(a,b\) alone; got \['b'\]"),
        ("p(a)=p(a)=p(a)", "at most one equals sign"),
    ],
)
def test_malformed_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_factors(text)


def test_products_that_are_no_network_are_refused():
    with pytest.raises(ValueError, match=r"conditionals of one variable each; got p\(a,b\)"):
        parse_dag("p(a,b)")
    with pytest.raises(ValueError, match="one conditional of 'a'; got two"):
        parse_dag("p(a|b)p(a)p(b)")
    with pytest.raises(ValueError, match="a conditional of each variable; got none of b"):
        parse_dag("p(a|b)")
    with pytest.raises(CyclicGraph, match="cycle"):
        parse_dag("p(a|b)p(b|a)")
    with pytest.raises(ValueError, match="without brackets"):
        print_dag(DAG({"a(1)": []}))
