"""The networks of the literature and of the UAI competition, from file to the published digits."""

import json
import math

import numpy as np
import pytest

from tractable.graphs.files import read, read_evidence, read_marginals, read_partition, rounded_rows, write

SIZES = {"alarm": (37, 46), "asia": (8, 8), "cancer": (5, 4), "child": (20, 25), "insurance": (27, 52)}
FIELDS = {"CSP_12": (67, 271), "DBN_11": (40, 440), "Grids_12": (100, 280), "Pedigree_11": (385, 385),
          "Promedus_24": (200, 200)}  # fmt: skip
_NETWORKS = {}


@pytest.fixture(params=SIZES)
def network(request, oracles):
    name = request.param
    if name not in _NETWORKS:
        _NETWORKS[name] = read(oracles / "networks" / f"{name}.bif")
    return name, _NETWORKS[name]


def test_numbers_of_nodes_and_arcs(network):
    name, net = network
    assert (len(net.names), sum(len(table.given) for table in net.tables.values())) == SIZES[name]


def test_all_reference_marginals(network, oracles):
    name, net = network
    cases = json.loads((oracles / "networks" / "marginals.json").read_text())[name]
    assert len(cases) >= 2
    for case in cases:
        found = net.marginals(case["evidence"])
        assert found.exact
        assert set(found) == set(case["marginals"]) == set(net.names) - set(case["evidence"])
        for variable, states in case["marginals"].items():
            assert found[variable] == pytest.approx(states, abs=1e-10, rel=0)
            asked = net.query(variable, case["evidence"]).probs
            assert list(found[variable].values()) == pytest.approx(asked.tolist(), abs=1e-12, rel=0)
        wanted = case["probability_of_evidence"]
        assert math.exp(net.log_evidence(case["evidence"])) == pytest.approx(wanted, abs=1e-10, rel=0)
        assert math.exp(found.log_evidence) == pytest.approx(wanted, abs=1e-10, rel=0)


@pytest.mark.parametrize("suffix", ["bif", "xmlbif", "uai", "bif.gz"])
def test_writing_and_reading_again_gives_the_same_numbers(network, suffix, tmp_path):
    _, net = network
    write(net, tmp_path / f"again.{suffix}")
    again = read(tmp_path / f"again.{suffix}")
    renamed = {f"x{i}": name for i, name in enumerate(net.names)} if suffix == "uai" else {}
    assert len(again.names) == len(net.names)
    for name, table in again.tables.items():
        before = net.tables[renamed.get(name, name)]
        assert tuple(renamed.get(parent, parent) for parent in table.given) == before.given
        assert (renamed != {}) or table.axes == before.axes
        np.testing.assert_array_equal(table.probs, before.probs)


def test_rows_of_alarm_that_are_rounded_thirds(oracles):
    rows = rounded_rows(oracles / "networks" / "alarm.bif")
    assert [(row.variable, row.line) for row in rows] == [
        *(("HREKG", line) for line in (158, 159, 160)),
        *(("HRSAT", line) for line in (169, 170, 171)),
    ]
    assert {round(row.total, 12) for row in rows} == {0.9999999}


def test_labels_of_child(oracles):
    states = read(oracles / "networks" / "child.bif").states
    assert states["LowerBodyO2"] == ("<5", "5-12", "12+")
    assert states["CO2Report"] == ("<7.5", ">=7.5")
    assert states["ChestXray"][-1] == "Asy/Patch"
    assert states["CardiacMixing"][-1] == "Transp."


@pytest.fixture(params=FIELDS)
def field(request, oracles):
    path = oracles / "uai" / f"{request.param}.uai"
    return request.param, path, read(path)


def half_a_unit(value, digits=6):
    """How far a number may be from what is printed of it with so many significant digits."""
    return 0.5000001 * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else 1e-12


def test_fields_of_the_competition_to_the_digits_given(field):
    name, path, model = field
    assert (len(model.names), len(model.factors)) == FIELDS[name]
    evidence = read_evidence(f"{path}.evid", model)
    log10 = read_partition(f"{path}.PR") / math.log(10)
    assert abs(float(model.log_partition(evidence)) / math.log(10) - log10) <= half_a_unit(log10)
    found, wanted = model.marginals(evidence), read_marginals(f"{path}.MAR", model)
    for variable in model.names:
        for state, probability in wanted[variable].items():
            assert abs(found[variable][state] - probability) <= half_a_unit(probability)


def test_fields_round_trip(field, tmp_path):
    _, _, model = field
    write(model, tmp_path / "again.uai")
    again = read(tmp_path / "again.uai")
    assert again.scopes == model.scopes
    assert again.states == model.states
    for before, after in zip(model.logs, again.logs):
        np.testing.assert_allclose(after, before, rtol=1e-14, atol=1e-14)
