"""Simpson's paradox: kidney stones by the published counts, and tables without a reversal."""

import math

import numpy as np
import pytest

from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.tables import JointTable
from tractable.graphs.simpson import kidney_stones, simpson_report


def report():
    return simpson_report(kidney_stones(), "treatment", "success", "size", success="yes")


def test_kidney_stones_numbers():
    found = report()
    np.testing.assert_allclose(found.total, [273 / 350, 289 / 350], rtol=1e-12)
    np.testing.assert_allclose(found.grouped, [[81 / 87, 234 / 270], [192 / 263, 55 / 80]], rtol=1e-12)
    np.testing.assert_allclose(found.total, [0.78, 0.8257], atol=5e-5)
    np.testing.assert_allclose(found.adjusted, [0.832546, 0.778875], atol=5e-7)
    share = np.array([357, 343]) / 700
    np.testing.assert_allclose(found.adjusted, share @ found.grouped, rtol=1e-12)


def test_kidney_stones_reverse():
    found = report()
    assert found.reversal
    assert found.total_effect < 0 < found.adjusted_effect
    assert (found.grouped_effects > 0).all()
    assert "Reversed" in repr(found)
    assert "+0.053671" in repr(found)


def test_a_randomised_trial_has_no_reversal():
    """With treatments assigned regardless of size, the plain difference is the adjusted one."""
    stones = kidney_stones()
    share = np.asarray(stones.marginal("size").probs)
    success = np.asarray(stones.conditional_table("success", ["treatment", "size"]).probs)
    table = JointTable(stones.names, 0.5 * share[None, :, None] * success, stones.axes.states)
    found = simpson_report(table, "treatment", "success", "size", success="yes")
    assert not found.reversal
    np.testing.assert_allclose(found.total, found.adjusted, rtol=1e-12)
    assert math.isclose(found.total_effect, 0.053671, abs_tol=1e-6)
    assert "No reversal" in repr(found)


def test_effects_of_both_signs_in_the_groups_are_no_reversal():
    probs = np.array([[[0.1, 0.9], [0.8, 0.2]], [[0.2, 0.8], [0.3, 0.7]]]) / 4
    found = simpson_report(JointTable(["t", "z", "y"], probs), "t", "y", "z", success=1)
    assert set(np.sign(found.grouped_effects)) == {-1.0, 1.0}
    assert not found.reversal


def test_two_of_three_treatments_and_groups_without_members():
    generator = np.random.default_rng(0)
    probs = generator.dirichlet(np.ones(12)).reshape(3, 2, 2)
    wide = np.concatenate([probs, np.zeros((3, 1, 2))], axis=1)
    small = JointTable(["t", "z", "y"], probs[[0, 2]] / probs[[0, 2]].sum())
    large = JointTable(["t", "z", "y"], wide, {"t": ["a", "b", "c"]})
    found = simpson_report(large, "t", "y", "z", success=1, treatments=["a", "c"])
    np.testing.assert_allclose(found.grouped, simpson_report(small, "t", "y", "z", success=1).grouped)
    assert found.groups == (0, 1)
    with pytest.raises(ValueError, match="two states to compare"):
        simpson_report(large, "t", "y", "z", success=1)


def test_a_group_that_never_had_one_treatment_cannot_be_adjusted_for():
    probs = np.array([[[0.2, 0.3], [0.0, 0.0]], [[0.1, 0.1], [0.1, 0.2]]])
    with pytest.raises(ImpossibleEvidence, match="P\\(t=0, z=1\\) = 0"):
        simpson_report(JointTable(["t", "z", "y"], probs), "t", "y", "z", success=1)
