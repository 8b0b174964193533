"""Reading by content, writing by suffix, round trips of anything that can be written, damage of any kind."""

import gzip
import math
import sys
import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.bif import parse_bif, render_bif
from tractable.graphs.files import (
    FileError,
    read,
    read_evidence,
    read_marginals,
    read_partition,
    rounded_rows,
    write,
    write_evidence,
    write_marginals,
    write_partition,
)
from tractable.graphs.interchange import from_frames, from_networkx, to_frames, to_networkx
from tractable.graphs.markov_field import MarkovField
from tractable.graphs.uai import render_uai
from tractable.graphs.xmlbif import render_xmlbif

SUFFIXES = "bif", "xmlbif", "uai"
RENDER = {"bif": render_bif, "xmlbif": render_xmlbif, "uai": render_uai}


def sprinkler():
    states = {"rain": ("no", "yes"), "sprinkler": ("off", "on"), "grass": ("dry", "wet", "<5 & more")}
    wet = [[[0.9, 0.1, 0.0], [0.25, 0.5, 0.25]], [[0.125, 0.75, 0.125], [0.01, 0.04, 0.95]]]
    return BayesNet(
        [
            ConditionalTable("rain", (), [0.75, 0.25], [states["rain"]]),
            ConditionalTable(
                "sprinkler", "rain", [[0.6, 0.4], [0.99, 0.01]], [states["rain"], states["sprinkler"]]
            ),
            ConditionalTable(
                "grass", ("sprinkler", "rain"), wet, [states[n] for n in ("sprinkler", "rain", "grass")]
            ),
        ]
    )


def assert_same(left, right):
    assert set(left.names) == set(right.names)
    for name, table in left.tables.items():
        assert table.axes == right.tables[name].axes
        np.testing.assert_array_equal(table.probs, right.tables[name].probs)


@pytest.mark.parametrize("name", ["a.bif", "a.xmlbif", "a.xml", "a.BIFXML", "a.bif.gz", "a.xml.gz"])
def test_written_by_suffix_and_read_again(name, tmp_path):
    write(sprinkler(), tmp_path / name)
    assert_same(read(tmp_path / name), sprinkler())
    assert_same(read(str(tmp_path / name)), sprinkler())
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_content_rules_over_a_wrong_suffix(suffix, tmp_path):
    for name in ("net", "net.txt", "net.bif", "net.xml", "net.uai"):
        (tmp_path / name).write_text(RENDER[suffix](sprinkler()))
        assert len(read(tmp_path / name).names) == 3


def test_byte_order_marks_and_line_ends_of_other_systems(tmp_path):
    for end in ("\r\n", "\r"):
        text = render_bif(sprinkler()).replace("\n", end)
        (tmp_path / "net.bif").write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert_same(read(tmp_path / "net.bif"), sprinkler())
        (tmp_path / "net.bif").write_bytes(text.replace("0.25", "0.35", 1).encode())
        with pytest.raises(FileError, match=r"net.bif:\d+: `rain`") as caught:
            read(tmp_path / "net.bif")
        assert caught.value.line == text.split(end).index("  table 0.75, 0.25;") + 1


def test_what_is_no_network_or_no_text(tmp_path):
    path = tmp_path / "net.dat"
    path.write_text("hello")
    with pytest.raises(FileError, match=r"net.dat:1: `file` must be a network in BIF, XMLBIF or UAI"):
        read(path)
    path = tmp_path / "net.bif"
    path.write_bytes(render_bif(sprinkler()).replace("wet", "na\u00df").encode("latin-1"))
    with pytest.raises(FileError, match=r"net.bif:10: `file` must be text in UTF-8; got the byte 0xdf"):
        read(path)
    whole = gzip.compress(render_bif(sprinkler()).encode())
    for damaged in (whole[:-20], whole[:20] + b"\xff\xff\xff" + whole[23:]):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match="must be a complete gzip file"):
            read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.bif")


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must be a file with a suffix among .bif, .*; got net.txt"):
        write(sprinkler(), tmp_path / "net.txt")
    field = MarkovField([(("a", "b"), np.zeros((2, 2)))])
    with pytest.raises(
        TypeError, match=r"`model` must be a `BayesNet` for .bif; got MarkovField. A Markov field"
    ):
        write(field, tmp_path / "net.bif")
    assert list(tmp_path.iterdir()) == []


def test_evidence_and_results_as_files(tmp_path):
    net, evidence = sprinkler(), {"grass": "wet"}
    write_evidence(evidence, net, tmp_path / "net.uai.evid")
    assert read_evidence(tmp_path / "net.uai.evid", net) == evidence
    marginals = net.marginals(evidence)
    write_marginals(marginals, net, tmp_path / "net.uai.MAR")
    found = read_marginals(tmp_path / "net.uai.MAR", net)
    assert found == {
        "rain": marginals["rain"],
        "sprinkler": marginals["sprinkler"],
        "grass": marginals["grass"],
    }
    assert found["grass"] == {"dry": 0.0, "wet": 1.0, "<5 & more": 0.0}
    write_partition(net.log_evidence(evidence), tmp_path / "net.uai.PR")
    assert math.isclose(read_partition(tmp_path / "net.uai.PR"), net.log_evidence(evidence), rel_tol=1e-14)


# --- round trips ---------------------------------------------------------------------------------------

CHARACTERS = st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"], include_characters=' "\\/|{}()[];,<&')
LABELS = st.text(CHARACTERS, min_size=1, max_size=6)
WORDS = LABELS.filter(lambda label: label == label.strip() and label.isprintable())


@st.composite
def structures(draw):
    """Names, their states, their parents, and a seed for the tables."""
    names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    states = {name: draw(st.lists(WORDS, min_size=1, max_size=3, unique=True)) for name in names}
    parents = {names[0]: []}
    for i, name in enumerate(names[1:], 1):
        parents[name] = draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True))
    return states, parents, draw(st.integers(0, 2**32 - 1))


def random_network(states, parents, seed):
    """Tables with zeros and small numbers for a structure."""
    generator, tables = np.random.default_rng(seed), []
    for name, given_names in parents.items():
        axes = [states[variable] for variable in (*given_names, name)]
        shape = [len(each) for each in axes]
        weights = generator.gamma(0.3, size=shape) * generator.integers(0, 2, shape)
        weights[..., 0] += weights.sum(-1) == 0
        tables.append(ConditionalTable(name, given_names, weights / weights.sum(-1, keepdims=True), axes))
    return BayesNet(tables)


def through_a_file(data, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"net.{suffix}"
        path.write_bytes(data)
        return read(path)


@settings(max_examples=40)
@given(structures())
def test_any_network_round_trips(structure):
    net = random_network(*structure)
    for suffix in ("bif", "xmlbif"):
        assert_same(through_a_file(RENDER[suffix](net).encode(), suffix), net)
    numbered = through_a_file(render_uai(net).encode(), "uai")
    for i, name in enumerate(net.names):
        np.testing.assert_array_equal(numbered.tables[f"x{i}"].probs, net.tables[name].probs)
    assert_same(from_frames(to_frames(net)), net)
    assert_same(from_networkx(to_networkx(net)), net)


# --- damage --------------------------------------------------------------------------------------------

WHOLE = {suffix: render(sprinkler()).encode() for suffix, render in RENDER.items()}
WHOLE["field"] = render_uai(
    MarkovField([(("a", "b"), np.log([[1, 2], [3, 4.5]])), (("b",), np.zeros(2))])
).encode()


def assert_error_or_network(data, suffix):
    """What comes of a damaged file: a model that can be asked, or a `FileError` with a line of that file."""
    try:
        model, fault = through_a_file(data, suffix), None
    except FileError as error:
        model, fault = None, error
    if model is None:
        assert 1 <= fault.line <= data.count(b"\n") + data.count(b"\r") + 1
        assert f".{suffix}:{fault.line}: " in str(fault)
        return
    assert len(model.names) == len(set(model.names)) > 0
    if isinstance(model, BayesNet):
        for table in model.tables.values():
            np.testing.assert_allclose(np.asarray(table.probs).sum(-1), 1, atol=1e-12)


@pytest.mark.filterwarnings("ignore::tractable.graphs.files.RoundedTables")
@pytest.mark.parametrize("kind", WHOLE)
def test_every_truncation_ends_in_an_error_or_a_network(kind):
    for length in range(0, len(WHOLE[kind]), 1 + (len(WHOLE[kind]) > 1000) * 4):
        assert_error_or_network(WHOLE[kind][:length], "uai" if kind == "field" else kind)


@pytest.mark.filterwarnings("ignore::tractable.graphs.files.RoundedTables")
@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=150)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=5)
)
@example(flips=[(0.5, 0)])
@example(flips=[(0.3, 255)])
def test_flipped_bytes_end_in_an_error_or_a_network(kind, flips):
    data = bytearray(WHOLE[kind])
    for place, byte in flips:
        data[int(place * len(data))] = byte
    assert_error_or_network(bytes(data), "uai" if kind == "field" else kind)


@pytest.mark.filterwarnings("ignore::tractable.graphs.files.RoundedTables")
@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=75)
@given(cut=st.tuples(st.floats(0, 1), st.floats(0, 1)), moved=st.floats(0, 1))
def test_pieces_lost_or_doubled_end_in_an_error_or_a_network(kind, cut, moved):
    data = WHOLE[kind]
    start, stop, place = (int(x * len(data)) for x in (*sorted(cut), moved))
    suffix = "uai" if kind == "field" else kind
    assert_error_or_network(data[:start] + data[stop:], suffix)
    assert_error_or_network(data[:place] + data[start:stop] + data[place:], suffix)


@settings(max_examples=100)
@given(
    data=st.binary(max_size=60), start=st.sampled_from([b"", b"<BIF>", b"BAYES ", b"network ", b"\x1f\x8b"])
)
def test_any_bytes_end_in_an_error(data, start):
    for suffix in SUFFIXES:
        with pytest.raises(FileError):
            through_a_file(start + data, suffix)


# --- work ----------------------------------------------------------------------------------------------


def test_reading_twice_the_file_makes_twice_the_calls():
    def num_calls(count):
        lines = [f"variable n{i} {{ type discrete [ 2 ] {{ a, b }}; }}" for i in range(count)]
        lines += ["probability ( n0 ) { table 0.5, 0.5; }"]
        lines += [
            f"probability ( n{i} | n{i - 1} ) {{ (a) 0.25, 0.75; (b) 0.5, 0.5; }}" for i in range(1, count)
        ]
        events = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            draft = parse_bif("net.bif", "\n".join(lines))
        finally:
            sys.setprofile(None)
        assert len(draft.states) == count
        return len(events)

    num_calls(10)  # patterns are compiled once
    assert num_calls(400) < 2.2 * num_calls(200)


# --- networkx and pandas -------------------------------------------------------------------------------


def test_frames_have_a_row_per_joint_state_of_the_parents():
    frames = to_frames(sprinkler())
    grass = frames["grass"]
    assert grass.index.names == ["sprinkler", "rain"]
    assert grass.loc[("on", "no"), "wet"] == 0.75
    assert list(frames["rain"].iloc[0]) == [0.75, 0.25]
    shuffled = grass.sample(frac=1, random_state=0)
    assert_same(from_frames({**frames, "grass": shuffled}), sprinkler())


def test_frames_that_are_incomplete_are_refused_by_name():
    frames = to_frames(sprinkler())
    with pytest.raises(ValueError, match=r"`table of 'grass'` must be a row for each of the 4 joint states"):
        from_frames({**frames, "grass": frames["grass"].iloc[:3]})
    with pytest.raises(
        ValueError, match=r"`parents of 'grass'` must be among the tables of rain, grass; got"
    ):
        from_frames([frames["rain"], frames["grass"]])
    with pytest.raises(ValueError, match=r"tables whose `columns.name` is a variable; got None"):
        from_frames([pd.DataFrame([[0.5, 0.5]])])
    with pytest.raises(ValueError, match=r"`table of 'rain'` must be one row"):
        from_frames([pd.concat([frames["rain"]] * 2)])


def test_networkx_graphs_carry_the_tables():
    graph = to_networkx(sprinkler())
    assert set(graph.edges) == {("rain", "sprinkler"), ("sprinkler", "grass"), ("rain", "grass")}
    assert nx.is_directed_acyclic_graph(graph)
    bare = nx.DiGraph([("a", "b")])
    with pytest.raises(ValueError, match=r"`graph` must be one whose nodes have a `table`; got none at 'a'"):
        from_networkx(bare)
    nx.set_node_attributes(bare, {"a": [0.5, 0.5], "b": [[0.1, 0.9], [0.2, 0.8]]}, "table")
    assert from_networkx(bare).states == {"a": (0, 1), "b": (0, 1)}
    bare.nodes["b"]["given"] = ("c",)
    with pytest.raises(
        ValueError, match=r"`given` of 'b'. must be the parents in the graph, \('a',\); got \('c',\)"
    ):
        from_networkx(bare)


def test_networkx_graph_of_a_field():
    field = MarkovField([(("a", "b"), np.log([[1, 2], [3, 4]])), (("b", "c"), np.zeros((2, 3)))])
    graph = to_networkx(field)
    assert set(map(frozenset, graph.edges)) == {frozenset("ab"), frozenset("bc")}
    assert float(from_networkx(graph).log_partition()) == pytest.approx(math.log(30))
    with pytest.raises(
        ValueError, match="`graph` must be a `DiGraph`, or a `Graph` with the attribute `factors`"
    ):
        from_networkx(nx.Graph([("a", "b")]))


def test_rounded_rows_of_a_field_are_none(tmp_path):
    (tmp_path / "field.uai").write_bytes(WHOLE["field"])
    assert rounded_rows(tmp_path / "field.uai") == ()
