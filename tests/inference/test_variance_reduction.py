"""Rao-Blackwell and control variates: the same mean, the promised variance."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.inference.variational.gradients import race
from tractable.inference.variational.variance_reduction import (
    control_variate,
    mean_field_gradient,
    rao_blackwell,
    score_coefficients,
)


@given(st.integers(0, 10_000))
def test_conditioning_never_adds_variance_and_the_identity_is_exact(seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=(4, 3)) * random.choice([1.0, 50.0])
    probs = random.dirichlet(np.ones(12)).reshape(4, 3)
    report = rao_blackwell(values, probs)
    mean = (probs * values).sum()
    conditional = (probs * values).sum(1) / probs.sum(1)
    np.testing.assert_allclose(np.asarray(report.conditional_mean), conditional, rtol=1e-12)
    np.testing.assert_allclose(float(report.variance), (probs * (values - mean) ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(
        float(report.reduced_variance), float(report.variance) - float(report.removed), rtol=1e-9, atol=1e-12
    )
    assert float(report.reduced_variance) <= float(report.variance) * (1 + 1e-12)


def test_values_that_do_not_depend_on_y_lose_nothing():
    report = rao_blackwell([[1.0, 1.0], [3.0, 3.0]], [[0.1, 0.4], [0.2, 0.3]])
    assert float(report.removed) == 0.0
    np.testing.assert_allclose(float(report.reduced_variance), float(report.variance), rtol=1e-14)


def test_control_variate_reaches_one_minus_squared_correlation():
    z = np.asarray(jr.normal(jr.key(0), (30_000,)))
    found = control_variate(np.exp(z), z)
    # E e^z = sqrt(e), Cov(e^z, z) = sqrt(e), Var e^z = e^2 - e: the best coefficient is sqrt(e)
    correlation = np.corrcoef(np.exp(z), z)[0, 1]
    np.testing.assert_allclose(float(found.squared_correlation), correlation**2, rtol=1e-9)
    assert abs(float(found.mean) - np.exp(0.5)) < 5 * float(found.standard_error)
    assert float(found.reduced_variance) < float(found.variance)
    np.testing.assert_allclose(float(found.coefficient[0]), np.exp(0.5), rtol=0.05)


def test_two_controls_are_a_regression_and_a_given_coefficient_is_used():
    random = np.random.default_rng(1)
    h = random.normal(size=(500, 2))
    f = 3.0 + h @ np.array([2.0, -1.0])
    found = control_variate(f, h, [0.0, 0.0])
    np.testing.assert_allclose(np.asarray(found.coefficient), [2.0, -1.0], rtol=1e-10)
    np.testing.assert_allclose(float(found.mean), 3.0, rtol=1e-12)
    assert float(found.reduced_variance) < 1e-20
    fixed = control_variate(f, h[:, 0], 0.0, 1.0)
    np.testing.assert_allclose(float(fixed.mean), (f - h[:, 0]).mean(), rtol=1e-13)


def test_bad_controls_are_refused():
    with pytest.raises(ValueError, match="`controls` must be free of constant or dependent columns"):
        control_variate([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`values` must be a vector of at least three draws"):
        control_variate([1.0], [1.0])
    with pytest.raises(ValueError, match="`probs` must be probabilities that sum to 1"):
        rao_blackwell([[1.0, 2.0]], [[0.5, 0.6]])


# A chain z_0 - z_1 - z_2 with normal factors: E of the gradient in closed form.
FACTORS = [
    ((0,), lambda a: -0.5 * (a - 1.0) ** 2),
    ((0, 1), lambda a, b: -0.5 * (b - a) ** 2),
    ((1, 2), lambda b, c: -0.5 * (c - b) ** 2),
    ((2,), lambda c: -0.5 * (c + 2.0) ** 2),
]
MEANS = np.array([[0.3], [-0.4], [0.9]])


def log_q(row, z):
    return -0.5 * (z - row[0]) ** 2


def exact_gradient():
    a, b, c = MEANS[:, 0]
    return np.array([-(a - 1.0) + (b - a), -(b - a) + (c - b), -(c - b) - (c + 2.0)])[:, None]


def test_markov_blanket_and_control_keep_the_mean_and_lower_the_variance():
    n = 20_000
    draws = MEANS[:, 0][None] + np.asarray(jr.normal(jr.key(7), (n, 3)))
    plain = mean_field_gradient(FACTORS, log_q, MEANS, draws, blanket=False)
    blanket = mean_field_gradient(FACTORS, log_q, MEANS, draws)
    both = mean_field_gradient(FACTORS, log_q, MEANS, draws, control=True)
    for estimate in (plain, blanket, both):
        z = (np.asarray(estimate.mean) - exact_gradient()) / np.asarray(estimate.standard_error)
        assert np.abs(z).max() < 5
    variances = [float(np.asarray(e.variance).sum()) for e in (plain, blanket, both)]
    assert variances[0] > variances[1] > variances[2]
    assert race({"plain": plain, "blanket": blanket, "with control": both}).largest_z < 5


def test_coefficients_are_the_ratio_of_summed_moments():
    random = np.random.default_rng(3)
    f, h = random.normal(size=(50, 2, 3)), random.normal(size=(50, 2, 3))
    expected = [
        sum(np.cov(f[:, i, k], h[:, i, k])[0, 1] for k in range(3))
        / sum(h[:, i, k].var(ddof=1) for k in range(3))
        for i in range(2)
    ]
    np.testing.assert_allclose(np.asarray(score_coefficients(jnp.asarray(f), jnp.asarray(h))), expected)


def test_factors_over_unknown_variables_are_refused():
    with pytest.raises(ValueError, match="`factors` must be over variables 0 to 2"):
        mean_field_gradient([((0, 3), lambda a, b: a * b)], log_q, MEANS, np.zeros((4, 3)))
