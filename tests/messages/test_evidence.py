"""Evidence from names and states to numbers: every kind of value, and errors that name what is known."""

import numpy as np
import pytest

from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.table_axes import TableAxes
from tractable.messages.evidence import Evidence, read_evidence

AXES = TableAxes(("sky", "wind"), (("clear", "rain"), (0, 1, 2)))


def test_each_kind_of_value_becomes_a_place_or_a_likelihood():
    assert read_evidence(AXES, {"sky": "rain"}).hard == {0: 1}
    assert read_evidence(AXES, {"wind": lambda state: state > 1}).hard == {1: 2}
    several = {"set": {0, 2}, "list": [0, 2], "predicate": lambda state: state != 1}
    for value in several.values():
        np.testing.assert_array_equal(read_evidence(AXES, {"wind": value}).soft[1], [1, 0, 1])
    for value in ({0: 0.5, 2: 2.0}, np.array([0.5, 0.0, 2.0])):
        found = read_evidence(AXES, {"wind": value})
        np.testing.assert_array_equal(found.soft[1], [0.5, 0, 2])
        assert found.words == "likelihood of wind"
        assert found.variables == {1}
    assert read_evidence(AXES, None) == Evidence({}, {})


def test_restrictions_multiply_what_is_known():
    found = read_evidence(AXES, {"sky": "rain", "wind": {0: 0.5, 2: 2.0}})
    np.testing.assert_array_equal(found.restricted({1: np.array([0, 1, 1])}).soft[1], [0, 0, 2])
    ((scope, logs),) = found.log_factors
    assert scope == (1,)
    np.testing.assert_allclose(np.exp(logs), [0.5, 0, 2])
    assert found.by_variable[0] == 1


def test_errors_name_what_is_known():
    with pytest.raises(ValueError, match=r"`variable` must be one of sky, wind; got 'sun'"):
        read_evidence(AXES, {"sun": 1})
    with pytest.raises(ValueError, match=r"`sky` must be one of its states \('clear', 'rain'\); got 'snow'"):
        read_evidence(AXES, {"sky": "snow"})
    with pytest.raises(ValueError, match=r"`wind` must be a likelihood over its states"):
        read_evidence(AXES, {"wind": {7: 1.0}})
    with pytest.raises(ValueError, match=r"`wind` must be a likelihood of 3 numbers"):
        read_evidence(AXES, {"wind": np.ones(2)})
    with pytest.raises(ValueError, match=r"finite numbers, zero or positive"):
        read_evidence(AXES, {"wind": np.array([1.0, -1.0, 0.0])})
    with pytest.raises(ImpossibleEvidence, match=r"P\(sky='rain'\) = 0"):
        read_evidence(AXES, {"sky": "rain"}).require_possible(-np.inf)
