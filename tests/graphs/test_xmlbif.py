"""XMLBIF 0.3: parents first, the variable fastest; faults of the document and of the network by line."""

import numpy as np
import pytest

from tractable.graphs.drafts import FileError
from tractable.graphs.xmlbif import parse_xmlbif, render_xmlbif

# The dog problem as the description of the format has it, with 'family-out' a variable of three states.
DOCUMENT = """<?xml version="1.0" encoding="US-ASCII"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>Dog-Problem</NAME>
<PROPERTY>author = nobody</PROPERTY>
<VARIABLE TYPE="nature">
  <NAME>family-out</NAME>
  <OUTCOME> all </OUTCOME><OUTCOME>&lt;5 &amp; more</OUTCOME><OUTCOME>none</OUTCOME>
  <PROPERTY>position = (112, 69)</PROPERTY>
</VARIABLE>
<VARIABLE TYPE="nature">
  <NAME>light-on</NAME>
  <OUTCOME>true</OUTCOME>
  <OUTCOME>false</OUTCOME>
</VARIABLE>
<DEFINITION>
  <FOR>light-on</FOR>
  <GIVEN>family-out</GIVEN>
  <TABLE> <!-- P(true | all), P(false | all), ... -->
    0.6 0.4
    5.0e-2 .95
    1 0
  </TABLE>
</DEFINITION>
<DEFINITION>
  <FOR>family-out</FOR>
  <TABLE>0.15 0.25 0.6</TABLE>
</DEFINITION>
</NETWORK>
</BIF>
"""


def network(text):
    return parse_xmlbif("net.xml", text if isinstance(text, bytes) else text.encode()).network()


def test_a_document_with_comments_properties_and_entities():
    net = network(DOCUMENT)
    assert net.names == ("family-out", "light-on")
    assert net.states["family-out"] == ("all", "<5 & more", "none")
    np.testing.assert_array_equal(net.tables["light-on"].probs, [[0.6, 0.4], [0.05, 0.95], [1, 0]])
    again = network(render_xmlbif(net))
    assert again.states == net.states
    np.testing.assert_array_equal(again.tables["light-on"].probs, net.tables["light-on"].probs)


def test_the_declared_encoding_is_followed():
    latin = DOCUMENT.replace("US-ASCII", "ISO-8859-1").replace("none", "f\u00fcnf").encode("latin-1")
    assert network(latin).states["family-out"][-1] == "f\u00fcnf"
    plain = DOCUMENT.replace("US-ASCII", "UTF-8").replace("none", "f\u00fcnf")
    assert network(plain).states["family-out"][-1] == "f\u00fcnf"


def change(old, new):
    assert DOCUMENT.count(old) == 1, old
    return DOCUMENT.replace(old, new)


ERRORS = {
    "a tag open": (
        change("</DEFINITION>\n<DEF", "<DEF"),
        28,
        "an element inside NETWORK; got one inside DEFIN",
    ),
    "a tag that does not close": (
        change("</NETWORK>", ""),
        34,
        "well-formed; got an error of XML, mismatched tag",
    ),
    "an entity": (change("]>", '<!ENTITY a "aaaa">]>'), 5, "free of entity declarations; got `a`"),
    "an unknown entity": (change("&amp;", "&b;"), 12, "well-formed; got an error of XML, undefined entity"),
    "an unknown element": (
        change("<NAME>Dog-Problem</NAME>", "<TITLE>a</TITLE>"),
        8,
        "one of BIF, .*got `TITLE`",
    ),
    "a place that is wrong": (
        change("<NAME>Dog-Problem</NAME>", "<FOR>a</FOR>"),
        8,
        "inside DEFINITION; got",
    ),
    "a decision": (DOCUMENT.replace("nature", "decision", 1), 10, "of type `nature`; got `decision`"),
    "no name": (change("<NAME>light-on</NAME>", ""), 15, "`VARIABLE` must be a part with one `NAME`; got 0"),
    "two variables at once": (
        change("<GIVEN>family-out</GIVEN>", "<FOR>family-out</FOR>"),
        20,
        "one `FOR`; got 2",
    ),
    "no table": (change("<TABLE>0.15 0.25 0.6</TABLE>", ""), 29, "one `TABLE`; got 0"),
    "a number less": (
        change("0.15 0.25 0.6", "0.4 0.6"),
        31,
        "`family-out` must be given a table of 3 numbers; got 2",
    ),
    "no number": (change("0.15", "0,15"), 31, "a table of numbers; got '0,15'"),
    "a wrong sum": (change("5.0e-2", "5.0e-1"), 23, "`light-on` .* with sum 1.45 for family-out=<5 & more"),
    "an unknown parent": (change("<GIVEN>family-out", "<GIVEN>family"), 20, "declared parents; got 'family'"),
    "a state twice": (change("<OUTCOME>false", "<OUTCOME>true"), 15, "distinct states; got 'true' twice"),
    "no states": (
        change("  <OUTCOME>true</OUTCOME>\n  <OUTCOME>false</OUTCOME>\n", ""),
        15,
        "at least one state",
    ),
    "a cycle": (
        change(
            "<FOR>family-out</FOR>\n  <TABLE>0.15 0.25 0.6",
            "<FOR>family-out</FOR><GIVEN>light-on</GIVEN>\n  <TABLE>0 0 1 0 0 1",
        ),
        29,
        "without a cycle; got family-out -> light-on -> family-out",
    ),
    "another encoding": (
        change("none", "f\u00fcnf").encode("latin-1"),
        12,
        "well-formed; got an error of XML, not",
    ),
    "nothing": (b"", 1, "well-formed; got an error of XML, no element found"),
    "two networks": (change("</BIF>", "<NETWORK></NETWORK></BIF>"), 34, "of one network; got a second"),
}


@pytest.mark.parametrize("fault", ERRORS)
def test_a_fault_is_reported_with_file_and_line(fault):
    text, line, message = ERRORS[fault]
    with pytest.raises(FileError, match=message) as caught:
        network(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"net.xml:{line}: ")


def test_spaces_at_the_ends_of_a_label_cannot_be_written():
    from tractable.distributions.tables import ConditionalTable
    from tractable.graphs.bayes_net import BayesNet

    net = BayesNet([ConditionalTable("a", (), [0.5, 0.5], [[" x", "x"]])])
    with pytest.raises(ValueError, match=r"`a` must be text without spaces at its ends .* got ' x'"):
        render_xmlbif(net)
