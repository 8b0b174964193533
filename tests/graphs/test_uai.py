"""UAI: networks, fields, evidence, marginals and partition functions, with the line of each fault."""

import math

import numpy as np
import pytest

from tractable.graphs import uai
from tractable.graphs.drafts import Draft, FileError

NETWORK = """BAYES
3
2 2 3
3
1 0
2 0 1
2 1 2

2
 0.436 0.564

4
 0.128 0.872
 0.920 0.080

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""
FIELD = """MARKOV
3
2 2 3
3
1 0
2 1 0
0

2 0.5 0

4
 1 2
 3e0 4

1 10
"""


def model(text):
    found = uai.parse_uai("net.uai", text)
    return found.network() if isinstance(found, Draft) else found


def test_a_network_has_its_variable_last_and_fastest():
    net = model(NETWORK)
    assert net.states == {"x0": ("0", "1"), "x1": ("0", "1"), "x2": ("0", "1", "2")}
    assert net.tables["x2"].given == ("x1",)
    np.testing.assert_array_equal(net.tables["x2"].probs, [[0.21, 0.333, 0.457], [0.811, 0, 0.189]])
    again = model(uai.render_uai(net))
    for name, table in net.tables.items():
        np.testing.assert_array_equal(again.tables[name].probs, table.probs)


def test_numbers_stay_with_their_variables_in_any_topological_order():
    reversed_arcs = NETWORK.replace("1 0\n2 0 1\n2 1 2", "1 1\n2 1 0\n2 0 2")
    net = model(reversed_arcs)
    assert net.names[0] == "x1"
    again = model(uai.render_uai(net))
    np.testing.assert_array_equal(again.tables["x0"].probs, net.tables["x0"].probs)
    assert uai.render_evidence({"x2": "1"}, net) == "1 2 1\n"


def test_a_field_with_zeros_a_constant_and_a_free_variable():
    field = model(FIELD)
    # Z = 10 * sum over x1, x0, x2 of f(x0) g(x1, x0) = 10 * 3 * 0.5 * (1 + 3)
    assert float(field.log_partition()) == pytest.approx(math.log(60), abs=1e-12)
    assert field.marginals()["x1"] == pytest.approx({"0": 0.25, "1": 0.75})
    again = model(uai.render_uai(field))
    assert float(again.log_partition()) == pytest.approx(math.log(60), abs=1e-12)


def test_evidence_in_both_forms_round_trips():
    net = model(NETWORK)
    for text in ("2 2 1 0 0", "1\n2 2 1 0 0", "2\n2 1\n0 0\n", "2 2 1 0 0\n"):
        assert uai.parse_evidence("net.evid", text, net) == {"x2": "1", "x0": "0"}
    assert uai.parse_evidence("net.evid", "0", net) == uai.parse_evidence("net.evid", "1 0", net) == {}
    assert uai.render_evidence({"x2": "1", "x0": "0"}, net) == "2 2 1 0 0\n"


def test_marginals_and_partition_functions_round_trip():
    net = model(NETWORK)
    marginals = net.marginals({"x2": "1"})
    text = uai.render_marginals(marginals, net)
    assert text.startswith("MAR\n3 2 ")
    assert uai.parse_marginals("net.MAR", text, net) == {name: marginals[name] for name in net.names}
    assert uai.parse_marginals("net.MAR", text.replace("MAR\n", "MAR\n1\n"), net)["x1"] == marginals["x1"]
    assert uai.parse_partition("net.PR", uai.render_partition(-3.5)) == pytest.approx(-3.5, abs=1e-15)
    assert uai.parse_partition("net.PR", "PR\n2") == pytest.approx(math.log(100))
    assert uai.parse_partition("net.PR", "PR\n-inf\n") == -math.inf


def change(old, new, text=NETWORK):
    assert text.count(old) == 1, old
    return text.replace(old, new)


ERRORS = {
    "another kind": (change("BAYES", "ID"), 1, "starts with BAYES or MARKOV; got 'ID'"),
    "no variables": (
        change("3\n2 2 3", "0\n"),
        2,
        "`number of variables` must be a whole number of at least 1",
    ),
    "too many variables": (
        change("3\n2 2 3", "99999999\n2 2 3"),
        2,
        "as many as follow in the file; got 99999999",
    ),
    "a number of many digits": (
        change("3\n2 2 3", f"{'9' * 5000}\n2 2 3"),
        2,
        "a whole number of at least 1",
    ),
    "no states": (
        change("2 2 3", "2 0 3"),
        3,
        "`number of states` must be a whole number of at least 1; got '0'",
    ),
    "a number of states that no file could hold": (
        change("2 2 3", "2 1000000000 3"),
        3,
        "`number of states` must be at most 65536 of all variables together in such a file; got 1000000002",
    ),
    "an unknown variable": (change("2 1 2\n", "2 3 2\n"), 7, "a whole number from 0 to 2; got '3'"),
    "a variable twice": (change("2 0 1", "2 1 1"), 6, r"of distinct variables; got \(1, 1\)"),
    "a wrong count": (change("4\n 0.128", "5\n 0.128"), 12, "must be 4, by the scope in line 6; got 5"),
    "a number less": (NETWORK.rstrip()[:-5], 18, "complete; got its end inside the table of a factor"),
    "a number more": (NETWORK + "7\n", 19, "at its end here; got '7'"),
    "no number": (change("0.333", "a.333"), 17, "made of numbers; got 'a.333'"),
    "a wrong sum": (change("0.080", "0.180"), 14, "`x1` must be .* with sum 1.1 for x0=1"),
    "a table twice": (change("2 0 1", "2 1 0"), 6, "`x0` must be given one table; got another after line 5"),
    "a cycle": (
        NETWORK.replace("1 0\n2 0 1", "2 1 0\n2 0 1").replace("2\n 0.436 0.564", "4\n 1 0 1 0"),
        6,
        "without a cycle; got x0 -> x1 -> x0",
    ),
    "a constant": (
        NETWORK.replace("3\n1 0\n", "4\n0\n1 0\n").replace("\n2\n 0.436", "\n1 1\n2\n 0.436"),
        5,
        "of at least one variable in a BAYES file",
    ),
    "a negative weight": (change("3e0", "-3", FIELD), 13, "of finite numbers from zero; got -3"),
    "an infinite weight": (change("3e0", "3e999", FIELD), 13, "of finite numbers from zero; got 3e999"),
    "a half": (change("1 0\n2 1 0", "1.5 0\n2 1 0", FIELD), 5, "a whole number of at least 0; got '1.5'"),
    "nothing": ("", 1, "complete; got its end before the BAYES or MARKOV"),
}


@pytest.mark.parametrize("fault", ERRORS)
def test_a_fault_is_reported_with_file_and_line(fault):
    text, line, message = ERRORS[fault]
    with pytest.raises(FileError, match=message) as caught:
        model(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"net.uai:{line}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "complete; got its end before the number of observations"),
        ("2 2 1", "got its end before the variable"),
        ("1\n3 0", "net:2: `variable` must be a whole number from 0 to 2; got '3'"),
        ("1 2 3", "`state of variable 2` must be a whole number from 0 to 2; got '3'"),
        ("2 0 0\n0 1", "net:2: `evidence` must be one state per variable; got two for variable 0"),
        ("1 0 0 1 1", "at its end here; got '1'"),
    ],
)
def test_faults_of_evidence(text, message):
    with pytest.raises(FileError, match=message):
        uai.parse_evidence("net", text, model(NETWORK))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PR 1", "one that starts with MAR; got 'PR'"),
        ("MAR 2 2 .5 .5 2 .5 .5", "`number of variables` must be 3, as in the network; got 2"),
        ("MAR 3 3 .5 .5 0", "`number of states of x0` must be 2, as in the network; got 3"),
        ("MAR 3 2 .5 .6", r"`x0` must be given probabilities with a sum of one; got \[0.5, 0.6\]"),
        ("MAR 3 2 .5", "complete; got its end inside x0"),
    ],
)
def test_faults_of_marginals(text, message):
    with pytest.raises(FileError, match=message):
        uai.parse_marginals("net", text, model(NETWORK))


def test_faults_of_partition_functions():
    for text, message in (
        ("PR\nx", "net:2: .* got 'x'"),
        ("PR", "its end before the logarithm"),
    ):
        with pytest.raises(FileError, match=message):
            uai.parse_partition("net", text)


def test_evidence_and_weights_that_cannot_be_written():
    from tractable.graphs.markov_field import MarkovField

    with pytest.raises(ValueError, match=r"`x0` must be one of its states \('0', '1'\); got 0"):
        uai.render_evidence({"x0": 0}, model(NETWORK))
    with pytest.raises(ValueError, match="`factor of a` must be finite to be written"):
        uai.render_uai(MarkovField([(("a",), np.array([0.0, 800.0]))]))
