"""Moments of finite values: loops, identities, laws of total expectation and variance, Jensen's gap."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.distributions.moments import (
    covariance,
    expectation,
    group_moments,
    jensen_gap,
    total_expectation,
    total_variance,
    variance,
)

numbers = st.lists(st.floats(-10, 10), min_size=4, max_size=4).map(np.asarray)
shares = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(lambda w: np.asarray(w) / sum(w))


def test_expected_height_of_two_groups():
    np.testing.assert_allclose(total_expectation([0.47, 0.53], [70.0, 71.0]), 70.53, rtol=1e-14)


@given(numbers, shares)
def test_moments_match_loops(x, p):
    mean = sum(a * b for a, b in zip(x, p))
    np.testing.assert_allclose(expectation(x, p), mean, atol=1e-12)
    np.testing.assert_allclose(variance(x, p), sum(b * (a - mean) ** 2 for a, b in zip(x, p)), atol=1e-11)


@given(numbers, numbers, shares, st.floats(-3, 3))
def test_identities_of_variance_and_covariance(x, y, p, a):
    both = variance(x, p) + variance(y, p) + 2 * covariance(x, y, p)
    np.testing.assert_allclose(variance(x + y, p), both, atol=1e-11)
    np.testing.assert_allclose(variance(a * x, p), a**2 * variance(x, p), atol=1e-11)
    np.testing.assert_allclose(covariance(x, x, p), variance(x, p), atol=1e-12)
    np.testing.assert_allclose(expectation(x + y, p), expectation(x, p) + expectation(y, p), atol=1e-12)
    np.testing.assert_allclose(variance(x, p), expectation(x**2, p) - expectation(x, p) ** 2, atol=1e-11)


def test_equal_shares_and_vectors():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    np.testing.assert_allclose(expectation(rows), rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(variance(rows), rows.var(0), rtol=1e-14)
    np.testing.assert_allclose(covariance(rows[:, 0], rows[:, 1]), np.cov(rows.T, ddof=0)[0, 1], rtol=1e-14)


def test_outcomes_of_probability_zero_contribute_nothing():
    assert expectation([1.0, np.inf, np.nan], [1.0, 0.0, 0.0]) == 1.0
    assert variance([2.0, np.inf], [1.0, 0.0]) == 0.0
    assert expectation([1.0, np.inf], [0.5, 0.5]) == np.inf


def test_bad_shapes_and_probabilities_are_refused():
    with pytest.raises(
        ValueError,
        match=r"`values` must be an array whose first axes are those of `probs` \(2,\); got shape \(3,\)",
    ):
        expectation([1.0, 2.0, 3.0], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"`probs` must be probabilities that sum to 1"):
        expectation([1.0, 2.0], [0.5, 0.6])
    with pytest.raises(TypeError, match=r"`values` must be a real number or an array of real numbers"):
        expectation(["male", "female"], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"`second` must be of the shape of `first`"):
        covariance(np.zeros(2), np.zeros(3))
    with pytest.raises(
        ValueError, match=r"`values` must be an array with at least one entry; got shape \(0,\)"
    ):
        expectation(np.zeros(0))


@given(shares, numbers, st.lists(st.floats(0, 5), min_size=4, max_size=4).map(np.asarray))
def test_total_variance_of_groups_is_that_of_the_mixture(p, means, variances):
    """Two equally likely points per group have any mean and variance, so the mixture can be enumerated."""
    points = np.stack([means - np.sqrt(variances), means + np.sqrt(variances)])
    weights = np.stack([p, p]) / 2
    parts = total_variance(p, means, variances)
    centre = np.sum(weights * points)
    np.testing.assert_allclose(parts.total, np.sum(weights * (points - centre) ** 2), atol=1e-10)
    np.testing.assert_allclose(total_expectation(p, means), centre, atol=1e-12)
    np.testing.assert_allclose(parts.within, p @ variances, atol=1e-12)


@pytest.mark.parametrize("container", [list, np.array, pd.Series, lambda g: pd.Series(g, dtype="category")])
def test_laws_hold_exactly_for_groups_of_samples(container):
    rng = np.random.default_rng(0)
    label = rng.choice(["a", "b", "c"], size=50)
    y = rng.normal(size=50) + (label == "b") * 3
    groups = group_moments(y, container(label.tolist()))
    assert groups.labels == ("a", "b", "c")
    np.testing.assert_allclose(groups.means, [y[label == g].mean() for g in "abc"], rtol=1e-12)
    np.testing.assert_allclose(groups.variances, [y[label == g].var() for g in "abc"], rtol=1e-12)
    np.testing.assert_allclose(total_expectation(groups.probs, groups.means), y.mean(), rtol=1e-12)
    np.testing.assert_allclose(
        total_variance(groups.probs, groups.means, groups.variances).total, y.var(), rtol=1e-12
    )


def test_a_weight_of_two_is_the_row_twice():
    y, g = np.array([1.0, 2.0, 4.0]), ["a", "a", "b"]
    once = group_moments(y, g, weights=np.array([2.0, 1.0, 1.0]))
    twice = group_moments(np.array([1.0, 1.0, 2.0, 4.0]), ["a", "a", "a", "b"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), once, twice)
    with pytest.raises(ValueError, match=r"`values` must be as long as `groups` \(2\); got 3"):
        group_moments(y, ["a", "b"])


@pytest.mark.parametrize(
    "function",
    [jnp.square, jnp.exp, jnp.abs, lambda x: -jnp.log(x + 11)],
    ids=["square", "exp", "abs", "-log"],
)
@given(x=numbers, p=shares)
def test_jensen_gap_of_convex_functions_is_not_negative(function, x, p):
    gap = float(jensen_gap(function, x, p))
    assert gap >= -1e-9 * float(expectation(jnp.abs(function(jnp.asarray(x))), p)) - 1e-12
    assert float(jensen_gap(lambda v: -function(v), x, p)) == pytest.approx(-gap, abs=1e-12)


def test_jensen_gap_of_known_functions():
    x, p = np.array([1.0, 2.0, 4.0]), np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(jensen_gap(jnp.square, x, p), variance(x, p), rtol=1e-13)
    np.testing.assert_allclose(
        jensen_gap(lambda v: -jnp.log(v), x, p), np.log(p @ x) - p @ np.log(x), rtol=1e-13
    )
    np.testing.assert_allclose(jensen_gap(lambda v: 3 * v + 1, x, p), 0, atol=1e-14)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    np.testing.assert_allclose(jensen_gap(lambda v: v @ v, rows), rows.var(0).sum(), rtol=1e-14)


def test_jensen_gap_behind_the_divergence():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([1 / 3, 1 / 3, 1 / 3])
    gap = jensen_gap(lambda ratio: -jnp.log(ratio), q / p, p)  # E[q / p] = 1, so the gap is the divergence
    np.testing.assert_allclose(gap, np.sum(p * np.log(p / q)), rtol=1e-13)
