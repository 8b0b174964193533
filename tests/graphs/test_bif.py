"""BIF: what the format allows is read, what it does not is an error with its line, and files round-trip."""

import numpy as np
import pytest

from tractable.graphs.bif import parse_bif, render_bif
from tractable.graphs.drafts import FileError, RoundedTables

NETWORK = """// the smallest network with every form
network "Dog problem" {
  property author = "nobody; in particular" ;
}
variable fire { /* a root
   over two lines */
  type discrete[2] { "yes" "no" };
  property position = (218, 195) ;
}
variable smoke {
  type discrete [ 3 ] { none, some, a/lot };
}
variable alarm {
  type discrete [ 2 ] { on, off };
}
probability ( fire ) {
  table 1e-2, 9.9E-1;
}
probability ( smoke | fire ) {
  (yes) .1, 0.2, 0.7;
  (no) 0.9 0.09 0.01;  // commas may be left out
}
probability ( alarm | fire, smoke ) {
  default 0.5, 0.5;
  (yes, a/lot) 0.99, 0.01;
  (no, "none") 0.001, 0.999;
}
"""


def network(text):
    return parse_bif("net.bif", text).network()


def test_every_form_of_the_format():
    net = network(NETWORK)
    assert net.states == {
        "fire": ("yes", "no"),
        "smoke": ("none", "some", "a/lot"),
        "alarm": ("on", "off"),
    }
    np.testing.assert_array_equal(net.tables["fire"].probs, [0.01, 0.99])
    np.testing.assert_array_equal(net.tables["smoke"].probs, [[0.1, 0.2, 0.7], [0.9, 0.09, 0.01]])
    assert net.tables["alarm"].given == ("fire", "smoke")
    half = [0.5, 0.5]
    expected = [[half, half, [0.99, 0.01]], [[0.001, 0.999], half, half]]
    np.testing.assert_array_equal(net.tables["alarm"].probs, expected)


def test_tables_list_the_variable_slowest_and_need_no_bar():
    # "light-on" given "family-out": P(on | out) = 0.6, P(on | in) = 0.05, as JavaBayes writes it
    text = """variable "family-out" { type discrete[2] { "true" "false" }; }
    variable "light-on" { type discrete[2] { "true" "false" }; }
    probability ( "light-on" "family-out" ) { //2 variable(s) and 4 values
        table 0.6 0.05 0.4 0.95 ; }
    probability ( "family-out" ) { table 0.15 0.85 ; }"""
    table = network(text).tables["light-on"]
    np.testing.assert_array_equal(table.probs, [[0.6, 0.4], [0.05, 0.95]])


def test_variables_may_follow_their_tables():
    text = "probability ( a ) { table 0.5, 0.5; } variable a { type discrete [ 2 ] { x, y }; }"
    assert network(text).states == {"a": ("x", "y")}


@pytest.mark.parametrize(
    "written",
    [
        *("<5", "12+", "5-12", ">=7.5", "Asy/Patch", "Transp.", "0-3_days", "don't", "50%", "a:b", "=", "#1"),
        *("-1", "*", "\\", "é", '"two words"', '"a, b"', '"{x}"', '"//no comment"', '"/*"', '"a|b"', '";"'),
        '""',
    ],
)
def test_labels_with_odd_characters(written):
    text = f"""variable a {{ type discrete [ 2 ] {{ {written}, other }}; }}
    variable b {{ type discrete [ 2 ] {{ x, y }}; }}
    probability ( a ) {{ table 0.25, 0.75; }}
    probability ( b | a ) {{ ({written}) 0.1, 0.9; (other) 0.2, 0.8; }}"""
    net = network(text)
    assert net.states["a"] == (written.strip('"'), "other")
    assert network(render_bif(net)).states == net.states
    np.testing.assert_array_equal(net.tables["b"].probs, [[0.1, 0.9], [0.2, 0.8]])


def test_quotes_and_backslashes_inside_quotes():
    text = r"""variable a { type discrete [ 2 ] { "say \"so\"", "C:\\new\temp" }; }
    probability ( a ) { table 0.25, 0.75; }"""
    net = network(text)
    assert net.states["a"] == ('say "so"', r"C:\new\temp")
    assert network(render_bif(net)).states == net.states


def test_a_state_that_is_another_in_quotes():
    text = r"""variable a { type discrete [ 2 ] { yes, "\"yes\"" }; }
    variable b { type discrete [ 2 ] { x, y }; }
    probability ( a ) { table 0.25, 0.75; }
    probability ( b | a ) { ("yes") 0.1, 0.9; ("\"yes\"") 0.2, 0.8; }"""
    np.testing.assert_array_equal(network(text).tables["b"].probs, [[0.1, 0.9], [0.2, 0.8]])


def test_states_called_like_words_of_the_format():
    words = "table", "default", "property", "variable", "probability", "type"
    text = f"""variable table {{ type discrete [ 6 ] {{ {", ".join(words)} }}; }}
    variable b {{ type discrete [ 1 ] {{ x }}; }}
    probability ( table ) {{ table 0.5, 0.5, 0, 0, 0, 0; }}
    probability ( b | table ) {{ (table) 1; (default) 1; (property) 1; default 1; }}"""
    assert network(text).states["table"] == words


def change(old, new, text=NETWORK):
    assert text.count(old) == 1, old
    return text.replace(old, new)


ERRORS = {
    "a state more": (
        change("{ none, some,", "{ none, few, some,"),
        11,
        "`smoke` must be .* count says, 3; got 4",
    ),
    "a count that is none": (change("discrete [ 3 ]", "discrete [ many ]"), 11, "many; got 3"),
    "a state twice": (
        change("none, some, a/lot", "none, some, some"),
        10,
        "distinct states; got 'some' twice",
    ),
    "a continuous variable": (change("discrete [ 3 ]", "continuous"), 11, "must be `discrete`; got `contin"),
    "a variable twice": (
        change("variable smoke", "variable fire"),
        10,
        "declared once; got again after line 5",
    ),
    "no type": (
        change("  type discrete [ 2 ] { on, off };\n", ""),
        13,
        "`alarm` must be described by one `type`",
    ),
    "two names": (change("variable alarm", "variable alarm bell"), 13, "one name before `{`; got `bell`"),
    "a table twice": (change("probability ( smoke | fire )", "probability ( fire )"), 19, "after line 16"),
    "an unknown parent": (change("smoke | fire )", "smoke | water )"), 19, "declared parents; got 'water'"),
    "an unknown variable": (change("( smoke | fire )", "( soot | fire )"), 19, "`soot` must be a declared"),
    "its own parent": (change("smoke | fire )", "smoke | smoke )"), 19, "other than itself; got 'smoke'"),
    "a parent twice": (
        change("alarm | fire, smoke", "alarm | fire, fire"),
        23,
        "distinct parents .* got 'fire'",
    ),
    "two bars": (change("alarm | fire, smoke", "alarm | fire | smoke"), 23, "a name; got `|`"),
    "a number less": (change("(yes) .1, 0.2, 0.7;", "(yes) .1, 0.9;"), 20, "given 3 numbers here; got 2"),
    "a number more in a table": (
        change("table 1e-2, 9.9E-1", "table 0, 0, 1"),
        17,
        "`fire` must be given 2 num",
    ),
    "no number": (change(".1, 0.2", ".1, zero"), 20, "a number in the table of 'smoke', or `;`; got `zero`"),
    "not a number": (change(".1, 0.2", ".1, nan"), 20, "got `nan`"),
    "an infinite number": (change(".1, 0.2", ".1, 1e999"), 20, "sum to one within 1e-4; got .* with sum inf"),
    "a negative number": (change(".1, 0.2, 0.7", "-.1, 0.4, 0.7"), 20, "from zero .* for fire=yes"),
    "a sum far from one": (change("0.9 0.09 0.01", "0.9 0.09 0.02"), 21, "with sum 1.01 for fire=no"),
    "a sum in a table": (change("1e-2, 9.9E-1", "1e-2, 9.8E-1"), 17, "`fire` .* sum 0.99"),
    "a sum in the default": (
        change("default 0.5, 0.5", "default 0.5, 0.4"),
        24,
        "sum 0.9 for fire=yes, smoke=none",
    ),
    "an unknown state": (
        change("(yes, a/lot)", "(yes, lots)"),
        25,
        "states of 'smoke'; got 'lots', none of none, s",
    ),
    "a state too many": (change("(yes) .1", "(yes, none) .1"), 20, "rows name 1 states, of fire; got 2"),
    "a row twice": (change("(no) 0.9", "(yes) 0.9"), 21, "each row once; got again after line 20"),
    "two defaults": (change('(no, "none")', "default"), 26, "each row once; got again after line 24"),
    "a row missing": (
        change("  (no) 0.9 0.09 0.01;", ""),
        19,
        r"2 rows, or with `default`; got no row \(no\)",
    ),
    "a table and a row": (change("default 0.5, 0.5;", "table 1;"), 24, "`table` alone, `default` or a row"),
    "a semicolon missing": (change("9.9E-1;", "9.9E-1"), 18, "`;` in the table of 'fire'; got `}`"),
    "a brace missing": (
        change("9.9E-1;\n}", "9.9E-1;\n"),
        19,
        "`}`, the end of the block; got `probability`",
    ),
    "a quote open": (change('"none")', '"none)'), 26, "got '\"'. Close quotes"),
    "a comment open": (
        change("over two lines */", "over two lines"),
        5,
        r"got '/\*'. Close quotes and comments",
    ),
    "a control character": (change("a/lot }", "a\x00lot }"), 11, r"got '\\x00'"),
    "a foreign word": (
        change("variable alarm", "node alarm"),
        13,
        "`network`, `variable` or `prob.*; got `node`",
    ),
    "no table": (
        NETWORK[: NETWORK.index("probability ( alarm")],
        13,
        "`alarm` must be given a table; got none",
    ),
    "a cycle": (
        change("probability ( fire ) {\n  table", "probability ( fire | alarm ) {\n  default"),
        23,
        "without a cycle; got fire -> smoke -> alarm -> fire",
    ),
    "no rows": ("variable a { type discrete [ 1 ] { x }; }\nprobability ( a ) { }", 2, r"got no row \(\)"),
    "nothing": ("// nothing\n", 1, "at least one variable; got none"),
    "an empty name": ('variable "" { type discrete [ 1 ] { x }; }', 1, "given a name"),
}


@pytest.mark.parametrize("fault", ERRORS)
def test_a_fault_is_reported_with_file_and_line(fault):
    text, line, message = ERRORS[fault]
    with pytest.raises(FileError, match=message) as caught:
        network(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"net.bif:{line}: ")


def test_every_truncation_is_an_error_in_its_last_line_or_names_what_is_missing():
    complete = NETWORK.rstrip()
    for length in range(len(complete)):
        text = complete[:length]
        with pytest.raises(FileError) as caught:
            network(text)
        assert 1 <= caught.value.line <= text.count("\n") + 1


def test_tables_too_large_to_hold_are_refused_before_they_are_made():
    names = [f"n{i}" for i in range(60)]
    declared = "\n".join(f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}" for name in names)
    text = f"{declared}\nprobability ( n0 | {', '.join(names[1:])} ) {{ default 0.5, 0.5; }}"
    with pytest.raises(FileError, match=r"at most 32 variables, and 16777216 cells .* got 60 variables"):
        network(text)
    draft = parse_bif("net.bif", declared)
    for name in names[:16]:  # each fits alone
        assert len(draft.shape(name, names[20:39], 0)) == 20
    with pytest.raises(FileError, match="; got 20 variables, 17825792 cells"):
        draft.shape(names[16], names[20:39], 0)


def rounded(total):
    return f"""variable a {{ type discrete [ 2 ] {{ x, y }}; }}
    probability ( a ) {{
    table 0.25, {total - 0.25!r}; }}"""


def test_rows_of_printed_digits_are_kept_and_listed():
    draft = parse_bif("net.bif", rounded(0.999999))
    net = draft.network()
    np.testing.assert_array_equal(net.tables["a"].probs, [0.25, 0.749999])
    whole = [0.25 / 0.999999, 0.749999 / 0.999999]
    np.testing.assert_allclose(list(net.marginals()["a"].values()), whole, rtol=1e-15)
    ((variable, line, total),) = draft.rounded_rows()
    assert (variable, line) == ("a", 3)
    assert total == pytest.approx(0.999999, abs=1e-15)


@pytest.mark.parametrize("total", [0.99991, 1.00001, 1.00009])
def test_rows_beyond_six_digits_are_renormalised_with_a_warning(total):
    with pytest.warns(RoundedTables, match=f"net.bif:3: `a` has a row with sum {total}; such rows"):
        net = network(rounded(total))
    assert float(net.tables["a"].probs.sum()) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("total", [0.99989, 1.00011])
def test_rows_beyond_four_digits_are_refused(total):
    with pytest.raises(FileError, match=r"net.bif:3: `a` must be .* within 1e-4; got .* with sum"):
        network(rounded(total))


def test_what_cannot_be_written_is_refused_by_name():
    from tractable.distributions.tables import ConditionalTable
    from tractable.graphs.bayes_net import BayesNet

    two_lines = BayesNet([ConditionalTable("a", (), [0.5, 0.5], [["x\ny", "z"]])])
    with pytest.raises(ValueError, match=r"`a` must be printable text on one line .* got 'x\\ny'"):
        render_bif(two_lines)
    same_text = BayesNet([ConditionalTable("a", (), [0.5, 0.5], [[1, "1"]])])
    with pytest.raises(ValueError, match="`a` must be a variable whose states differ as text"):
        render_bif(same_text)
