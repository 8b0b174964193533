"""Importance sampling: the worked expectation of x^20, unbiased evidence, honest errors and verdicts."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tractable.core.iterate import count_traces
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.gaussian import Gaussian
from tractable.inference.weighted.importance import (
    Weighted,
    importance,
    monte_carlo,
    optimal_proposal,
    relative_variance,
)

EXACT = 654729075.0  # 19!! = E[x^20] under N(0, 1)
STANDARD = Normal(0.0, 1.0)


def twentieth(x):
    return x**20


def identity(x):
    return x


def beyond_four(x):
    return x > 4


@pytest.mark.parametrize(
    ("scale", "expected"), [(1.0, 746099.4181), (2.0, 14.54344), (3.0, 3.871774), (np.sqrt(21), 2.778622)]
)
def test_relative_variance_of_the_twentieth_power(scale, expected):
    np.testing.assert_allclose(
        relative_variance(twentieth, STANDARD, Normal(0.0, scale)), expected, rtol=1e-6
    )

    def second_moment(x):
        return x**40 * norm.pdf(x) ** 2 / norm(0, scale).pdf(x)

    oracle = 2 * quad(second_moment, 0, 38, points=[4, 7, 10], limit=400)[0] / EXACT**2 - 1
    np.testing.assert_allclose(expected, oracle, rtol=1e-6)


def test_plain_monte_carlo_has_the_relative_variance_of_no_proposal():
    np.testing.assert_allclose(relative_variance(twentieth, STANDARD), 746099.4181, rtol=1e-9)
    assert float(relative_variance(twentieth, STANDARD, Normal(0.0, 0.6))) == np.inf


def test_a_wider_proposal_finds_the_twentieth_moment():
    post = importance(STANDARD, Normal(0.0, np.sqrt(21)), key=jr.key(0), num_draws=20_000)
    found = post.expectation(twentieth)
    np.testing.assert_allclose(found.standard_error / EXACT, np.sqrt(2.778622 / 20_000), rtol=0.05)
    assert abs(float(found.value) - EXACT) < 4 * float(found.standard_error)
    ratio = post.expectation(twentieth, normalised=False)
    assert abs(float(ratio.value) - EXACT) < 4 * float(ratio.standard_error)
    assert post.normalised
    assert post.verdict.sentence.startswith("Good")


def test_the_optimal_proposal_leaves_almost_no_variance():
    best = optimal_proposal(twentieth, STANDARD, np.linspace(-11, 11, 801))
    post = importance(STANDARD, best, key=jr.key(1), num_draws=20_000)
    found = post.expectation(twentieth)
    assert abs(float(found.value) - EXACT) < 4 * float(found.standard_error)
    assert float(found.standard_error) < 0.001 * EXACT


@pytest.mark.parametrize("proposal", [Normal(4.0, 1.0), Normal(0.0, 4.0)])
def test_a_rare_event_by_a_shifted_or_a_widened_proposal(proposal):
    post = importance(STANDARD, proposal, key=jr.key(2), num_draws=20_000)
    found = post.expectation(beyond_four)
    assert abs(float(found.value) - norm.sf(4)) < 5 * float(found.standard_error)
    assert float(found.standard_error) < 0.05 * norm.sf(4)
    assert float(post.k_hat_of(beyond_four)) < 0.5


def test_plain_monte_carlo_and_its_error():
    found = monte_carlo(lambda x: jnp.stack([x, x**2]), Normal(1.0, 2.0), key=jr.key(3), num_draws=20_000)
    np.testing.assert_array_less(np.abs(found.value - np.array([1.0, 5.0])), 5 * found.standard_error)
    np.testing.assert_allclose(found.standard_error, np.sqrt([4, 48]) / np.sqrt(20_000), rtol=0.1)


def test_evidence_and_expectations_of_an_unnormalised_target():
    target = Gaussian([1.0, -1.0], [[1.0, 0.5], [0.5, 2.0]])

    def log_density(x, shift):
        return target.log_prob(x) + shift

    proposal = Gaussian(jnp.zeros(2), 6 * jnp.eye(2))
    post = importance(log_density, proposal, key=jr.key(4), num_draws=20_000, args=(jnp.asarray(-7.5),))
    evidence = post.log_evidence
    assert abs(float(evidence.value) + 7.5) < 5 * float(evidence.standard_error) < 0.1
    mean = post.expectation(identity)
    np.testing.assert_array_less(np.abs(mean.value - np.array([1.0, -1.0])), 5 * mean.standard_error)
    smoothed = post.smoothed().expectation(identity)
    np.testing.assert_allclose(smoothed.value, mean.value, atol=5 * float(mean.standard_error.max()))
    drawn = post.resample(jr.key(5), 4000)
    np.testing.assert_allclose(drawn.mean(0), [1, -1], atol=0.15)
    np.testing.assert_allclose(np.cov(np.asarray(drawn).T), target.cov, atol=0.3)


def test_the_error_of_the_self_normalised_mean_is_its_spread():
    def log_density(x):
        return -0.5 * x**2

    def one(key):
        draws = StudentT(5.0, 0.5, 1.0).sample(key, (400,))
        logs = jax.vmap(log_density)(draws) - StudentT(5.0, 0.5, 1.0).log_prob(draws)
        return Weighted(draws, logs, jnp.asarray(0.0), False).expectation(jnp.square)

    found = jax.vmap(one)(jr.split(jr.key(6), 400))
    np.testing.assert_allclose(found.value.std(), found.standard_error.mean(), rtol=5 / np.sqrt(800))
    assert abs(float(found.value.mean()) - 1) < 5 * float(found.value.std()) / 20


def test_a_proposal_with_light_tails_is_called_bad():
    """Weights exp(c x^2) of x ~ N(0, s) have a tail of shape 1 - s^2: here 0.96."""
    post = importance(STANDARD, Normal(0.0, 0.2), key=jr.key(7), num_draws=20_000)
    np.testing.assert_allclose(post.k_hat, 0.96, atol=0.2)
    assert "ad" in post.verdict.sentence[:10]
    assert post.verdict.sentence in repr(post)
    assert "ess" in repr(post)


def test_new_data_do_not_compile_again():
    counted = count_traces(lambda x, scale: -0.5 * (x / scale) ** 2)
    for i in range(3):
        importance(counted, STANDARD, key=jr.key(i), num_draws=100, args=(jnp.asarray(1.0 + i),))
    assert counted.count == 1


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`log_density` must be not NaN; got log-weight nan at index"):
        importance(lambda x: jnp.sqrt(x - 100.0), STANDARD, key=jr.key(0), num_draws=10)
    with pytest.raises(ValueError, match=r"`log_weights` must be .*minus infinity everywhere"):
        importance(lambda x: -jnp.inf, STANDARD, key=jr.key(0), num_draws=10)
    with pytest.raises(ValueError, match=r"`log_density` must be one number per point; got shape \(2,\)"):
        importance(lambda x: jnp.stack([x, x]), STANDARD, key=jr.key(0), num_draws=10)
    with pytest.raises(ValueError, match=r"`target` must be of one number"):
        relative_variance(twentieth, Normal(jnp.zeros(2), 1.0))
