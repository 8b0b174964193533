"""Expectations over a softmax index: exact sums against enumeration, estimators against the sums."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.inference.variational.discrete_gradients import (
    discrete_expectation,
    discrete_expectation_gradient,
    discrete_race,
    gumbel_expectation,
    reinforce_gradient,
    relaxed_gradient,
)

LOGITS = np.array([0.3, -0.8, 1.1, 0.0])
VALUES = np.array([2.0, -1.0, 0.5, 4.0])
CODES = np.array([1.0, 4.0, -2.0, 0.5])


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def quadratic(x):
    return (x @ jnp.asarray(CODES)) ** 2


def test_exact_sum_and_its_gradient():
    found = float(discrete_expectation(VALUES, LOGITS))
    np.testing.assert_allclose(found, softmax(LOGITS) @ VALUES, rtol=1e-13)
    step = 1e-6
    differences = [
        (softmax(LOGITS + step * e) @ VALUES - softmax(LOGITS - step * e) @ VALUES) / (2 * step)
        for e in np.eye(4)
    ]
    found = np.asarray(discrete_expectation_gradient(VALUES, LOGITS))
    np.testing.assert_allclose(found, differences, rtol=1e-7, atol=1e-9)


def test_gumbel_draws_estimate_the_sum():
    estimate = gumbel_expectation(jr.key(0), VALUES, LOGITS, 20_000)
    truth = softmax(LOGITS) @ VALUES
    assert abs(float(estimate.value) - truth) < 5 * float(estimate.standard_error)
    variance = softmax(LOGITS) @ (VALUES - truth) ** 2
    np.testing.assert_allclose(float(estimate.standard_error), np.sqrt(variance / 20_000), rtol=0.05)


@pytest.mark.parametrize("baseline", ["none", "leave_one_out", "optimal"])
def test_reinforce_is_unbiased(baseline):
    estimate = reinforce_gradient(jr.key(1), VALUES, LOGITS, 20_000, baseline=baseline)
    exact = np.asarray(discrete_expectation_gradient(VALUES, LOGITS))
    z = (np.asarray(estimate.mean) - exact) / np.asarray(estimate.standard_error)
    assert np.abs(z).max() < 5


def test_race_of_discrete_estimators_shows_bias_and_variance():
    table = discrete_race(jr.key(2), quadratic, LOGITS, 20_000)
    exact = np.asarray(table.means["exact sum"])
    np.testing.assert_allclose(exact, np.asarray(discrete_expectation_gradient(CODES**2, LOGITS)), rtol=1e-12)
    plain, baseline = table.variances["REINFORCE"], table.variances["REINFORCE, leave-one-out"]
    assert float(jnp.sum(baseline)) < float(jnp.sum(plain))
    relaxed = table.estimates[table.names.index("Gumbel-softmax")]
    z = (np.asarray(relaxed.mean) - exact) / np.asarray(relaxed.standard_error)
    assert np.abs(z).max() > 5  # the relaxation is biased at temperature 1/2


def test_relaxed_gradient_is_the_derivative_at_concrete_draws():
    key = jr.key(3)
    estimate = relaxed_gradient(key, quadratic, LOGITS, 5, temperature=0.7)
    noise = jr.gumbel(jr.key(3), (5, 4))
    expected = [
        jax.grad(lambda mu: quadratic(jax.nn.softmax((mu + g) / 0.7)))(jnp.asarray(LOGITS)) for g in noise
    ]
    np.testing.assert_allclose(np.asarray(estimate.samples), np.stack(expected), rtol=1e-10)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`values` must be one per logit \(4\)"):
        discrete_expectation([1.0, 2.0], LOGITS)
    with pytest.raises(ValueError, match="`logits` must be a vector of two or more"):
        discrete_expectation([1.0], [0.0])
    with pytest.raises(ValueError, match=r"`temperature` must be positive and finite; got -1\.0"):
        relaxed_gradient(jr.key(0), quadratic, LOGITS, 5, temperature=-1.0)
