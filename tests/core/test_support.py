"""Membership at boundaries, with NaN, in wrong shapes and along leading axes; NumPy and JAX agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import support as s

INF, NAN = np.inf, np.nan
TINY = np.nextafter(0.0, 1.0)
EYE = np.eye(2)


def rotation(a):
    return np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])


NEGATIVE = rotation(0.3) @ np.diag([1.0, -1e-6]) @ rotation(0.3).T
SINGULAR = np.outer([1.0, 2.0], [1.0, 2.0])

# the support, members, and others: one unit each
CASES = {
    "real": (s.real, [0.0, -1e308, TINY], [INF, -INF, NAN]),
    "extended_real": (s.extended_real, [0.0, INF, -INF], [NAN]),
    "positive": (s.positive, [1e-300, 1e308], [0.0, -1e-300, INF, NAN]),
    "nonnegative": (s.nonnegative, [0.0, -0.0, 1e308], [-1e-300, INF, NAN]),
    "unit_interval": (s.unit_interval, [0.0, 1.0, 0.5], [-1e-12, 1 + 1e-12, NAN, INF]),
    "half line": (s.bounded(2.0, INF), [2.0, 1e308], [1.999, INF, NAN]),
    "counts": (s.counts, [0.0, 1.0, 1e15], [-1.0, 0.5, INF, NAN]),
    "dice": (s.integer_range(1, 6), [1.0, 6.0], [0.0, 7.0, 2.5, NAN]),
    "log_weights": (s.log_weights, [[0.0, -INF], [5.0, -800.0]], [[-INF, -INF], [INF, 0.0], [NAN, 0.0]]),
    "simplex": (
        s.simplex,
        [[0.5, 0.5], [1.0, 0.0], [1 / 3, 2 / 3 + 5e-7]],
        [[0.5, 0.6], [1.1, -0.1], [NAN, 1.0], [INF, -INF], [1 / 3, 2 / 3 + 5e-6]],
    ),
    "ordered": (s.ordered, [[-1.0, 2.0]], [[2.0, 2.0], [2.0, 1.0], [NAN, 1.0], [1.0, INF], [-INF, 1.0]]),
    "positive_ordered": (s.positive_ordered, [[1.0, 2.0]], [[0.0, 1.0], [-1.0, 1.0], [2.0, 1.0], [1.0, NAN]]),
    "sphere": (s.sphere, [[0.6, 0.8], [0.0, -1.0]], [[0.6, 0.7], [0.0, 0.0], [NAN, 1.0], [1e200, 0.0]]),
    "psd": (
        s.psd,
        [EYE, np.zeros((2, 2)), SINGULAR, 1e-12 * SINGULAR, 1e12 * SINGULAR],
        [NEGATIVE, -EYE, [[1.0, 0.5], [0.4, 1.0]], [[NAN, 0.0], [0.0, 1.0]], [[INF, 0.0], [0.0, 1.0]]],
    ),
    "lower_cholesky": (
        s.lower_cholesky,
        [EYE, [[1.0, 0.0], [-5.0, 1e-9]]],
        [
            [[1.0, 1e-9], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, 0.0]],
            [[1.0, 0.0], [NAN, 1.0]],
            [[1.0, 0.0], [0.0, -1.0]],
        ],
    ),
    "correlation": (
        s.correlation,
        [EYE, [[1.0, 1.0], [1.0, 1.0]], [[1.0, -0.5], [-0.5, 1.0]]],
        [2 * EYE, [[1.0, 1.1], [1.1, 1.0]], [[1.0, NAN], [NAN, 1.0]]],
    ),
    "correlation_cholesky": (
        s.correlation_cholesky,
        [EYE, [[1.0, 0.0], [0.6, 0.8]]],
        [[[1.0, 0.0], [0.6, 0.7]], [[1.0, 0.0], [1.0, 0.0]], [[0.8, 0.6], [0.0, 1.0]]],
    ),
}
ALL = pytest.mark.parametrize(("support", "inside", "outside"), CASES.values(), ids=CASES.keys())


@ALL
def test_members_and_others(support, inside, outside):
    for value in inside:
        assert support.contains(np.asarray(value)), value
    for value in outside:
        assert not support.contains(np.asarray(value)), value


@ALL
def test_jax_agrees_along_leading_axes_and_under_jit(support, inside, outside):
    stacked = np.stack([np.asarray(v, float) for v in [*inside, *outside]])
    expected = [True] * len(inside) + [False] * len(outside)
    np.testing.assert_array_equal(support.contains(stacked), expected)
    np.testing.assert_array_equal(jax.jit(support.contains)(stacked), expected)
    np.testing.assert_array_equal(support.contains(stacked[None]), [expected])


@ALL
def test_interior_is_inside(support, inside, outside):
    shape = (3, *np.shape(inside[0]))
    assert np.asarray(support.contains(support.interior(np.full(shape, NAN)))).all()
    assert np.asarray(support.contains(np.asarray(support.interior(jnp.full(shape, NAN))))).all()


@pytest.mark.parametrize(
    "name", ["simplex", "ordered", "sphere", "log_weights", "psd", "correlation_cholesky"]
)
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_too_few_axes_hold_no_member(name, make):
    support = CASES[name][0]
    assert not support.contains(make(1.0))
    if support.ndim == 2:
        assert not support.contains(make([1.0, 0.0]))


@pytest.mark.parametrize("support", [s.psd, s.correlation, s.lower_cholesky, s.correlation_cholesky])
def test_a_matrix_that_is_not_square_is_no_member(support):
    answer = support.contains(np.zeros((5, 2, 3)))
    np.testing.assert_array_equal(answer, np.zeros(5, bool))


def test_a_single_precision_covariance_is_judged_by_its_own_rounding():
    a = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    gram = (a @ a.T).astype(np.float32)
    gram[0, 1] += np.spacing(gram[0, 1])
    assert s.psd.contains(gram)
    assert not s.psd.contains(gram.astype(np.float64) - 1e-3 * np.eye(6))


@pytest.mark.parametrize(
    ("support", "words"),
    [
        (s.real, "finite"),
        (s.positive, "positive and finite"),
        (s.nonnegative, "zero or positive, and finite"),
        (s.unit_interval, "between 0.0 and 1.0"),
        (s.integer_range(1, 6), "a whole number from 1 to 6"),
        (s.simplex, "probabilities that are zero or positive and sum to 1 (to within 1e-6)"),
        (s.ordered, "finite and strictly increasing along the last axis"),
        (s.sphere, "a vector of length 1"),
        (s.psd, "a symmetric positive semi-definite matrix"),
        (s.lower_cholesky, "lower triangular with a positive diagonal"),
    ],
)
def test_words_follow_must_be(support, words):
    assert support.words == words


def test_bounds_may_be_arrays():
    interval = s.bounded(np.array([0.0, -INF]), np.array([1.0, INF]))
    np.testing.assert_array_equal(interval.contains(np.array([2.0, -5.0])), [False, True])
    np.testing.assert_array_equal(interval.interior(np.zeros(2)), [0.5, 0.0])


def test_discrete_marks_mass_functions():
    assert s.counts.discrete
    assert not s.real.discrete
