"""The one error format, and the conversions at public edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_entries,
    check_finite,
    check_length,
    check_option,
    check_shape,
    is_concrete,
    offender,
)


def test_message_has_name_requirement_value_and_fix():
    with pytest.raises(
        ValueError, match=r"^`scale` must be positive; got -1\.0\. Use a standard deviation\.$"
    ):
        check(False, "scale", "positive", -1.0, "Use a standard deviation.")
    check(True, "scale", "positive", -1.0)


def test_error_class_is_chosen_by_the_caller():
    with pytest.raises(TypeError, match=r"^`x` must be a number; got text\.$"):
        check(False, "x", "a number", "text", error=TypeError)


@pytest.mark.parametrize(
    ("values", "ok", "words"),
    [
        (3.5, False, "3.5"),
        (np.array([1.0, -2.0, -3.0]), np.array([True, False, False]), "-2.0 at index 1"),
        (np.array([[1, 2], [3, 4]]), np.array([[True, True], [False, True]]), "3 at index (1, 0)"),
        (np.array([[0.5, 0.6], [0.5, 0.5]]), np.array([False, True]), "[0.5, 0.6] at index 0"),
    ],
)
def test_offender_is_the_first_bad_entry_with_its_index(values, ok, words):
    assert offender(values, ok) == words


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "float64"),
        (True, "float64"),
        ([1, 2], "float64"),
        (np.float32(1), "float32"),
        (np.arange(3), "float64"),
        (jnp.arange(3), "float64"),
        (np.ones(2, jnp.bfloat16), "bfloat16"),
    ],
)
def test_as_float_keeps_floats_and_converts_the_rest(value, dtype):
    array = as_float("x", value)
    assert isinstance(array, jax.Array)
    assert array.dtype == dtype
    np.testing.assert_array_equal(np.asarray(array, float), np.asarray(value, float))


@pytest.mark.parametrize("value", ["one", None, 1 + 2j, [1, "two"], [[1, 2], [3]], object()])
def test_as_float_refuses_by_name(value):
    with pytest.raises(TypeError, match="`loc` must be a"):
        as_float("loc", value)


def test_as_float_takes_a_list_that_holds_tracers():
    slope = jax.grad(lambda a: as_float("x", [a, 2 * a, 1.0]).sum())(3.0)
    assert slope == 3.0


def test_concrete_means_that_there_are_values():
    seen = []
    jax.make_jaxpr(lambda x: seen.append(is_concrete(x)))(1.0)
    assert seen == [False]
    assert is_concrete(1.0)
    assert is_concrete(jnp.ones(2))


def test_shapes_and_lengths():
    check_shape("x", np.zeros((3, 2)), (None, 2))
    with pytest.raises(
        ValueError, match=r"`x` must be of shape \(any, 3\); got shape \(3, 2\)\. Transpose it\."
    ):
        check_shape("x", np.zeros((3, 2)), (None, 3), "Transpose it.")
    with pytest.raises(ValueError, match=r"`x` must be of shape \(2,\); got shape \(\)"):
        check_shape("x", 1.0, (2,))
    check_length("y", np.zeros(3), "x", np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"`y` must be as long as `x` \(3\); got 2"):
        check_length("y", np.zeros(2), "x", np.zeros((3, 2)))


def test_finite_names_the_first_offender_and_lets_tracers_pass():
    check_finite("x", np.arange(3))
    with pytest.raises(ValueError, match="`x` must be finite; got nan at index 1"):
        check_finite("x", np.array([1.0, np.nan]))
    jax.make_jaxpr(lambda x: check_finite("x", x))(np.nan)


def test_counts():
    assert check_count("n", np.int64(3)) == 3
    with pytest.raises(TypeError, match=r"`n` must be a whole number of at least 1; got 2\.5"):
        check_count("n", 2.5)
    with pytest.raises(ValueError, match="`n` must be a whole number of at least 1; got 0"):
        check_count("n", 0)
    with pytest.raises(ValueError, match="`n` must be a whole number from 0 to 4; got 5"):
        check_count("n", 5, least=0, most=4)


def test_options():
    check_option("method", "exact", ("exact", "fast"))
    with pytest.raises(ValueError, match="`method` must be one of 'exact', 'fast'; got 'slow'"):
        check_option("method", "slow", ("exact", "fast"))


def test_the_first_entry_that_breaks_a_rule_is_named():
    check_entries("x", jnp.array([0.0, 2.0]), lambda v: v >= 0, "zero or positive")
    with pytest.raises(ValueError, match=r"^`x` must be even; got a cell of 3\.0 at index 1\. Round it\.$"):
        check_entries("x", jnp.array([2.0, 3.0]), lambda v: v % 2 == 0, "even", "Round it.", "a cell of {}")
    jax.jit(lambda x: check_entries("x", x, lambda v: v > 0, "positive") or x)(-1.0)  # no values yet
