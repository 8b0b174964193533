"""Adaptive proposals find a far target; rare events are reached level by level."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

from tractable.distributions.gaussian import Gaussian
from tractable.inference.weighted.adaptive_importance import adaptive_importance, rare_event

TARGET = Gaussian([3.0, -2.0], [[0.5, 0.3], [0.3, 0.4]])


def log_density(x):
    return TARGET.log_prob(x) + 1.7


def test_a_far_target_is_learned():
    start = Gaussian(jnp.zeros(2), 4 * jnp.eye(2))
    post = adaptive_importance(log_density, start, key=jr.key(0), num_draws=500, num_rounds=8, degrees=None)
    assert abs(float(post.log_evidence.value) - 1.7) < 5 * float(post.log_evidence.standard_error) < 0.1
    mean = post.expectation(lambda x: x)
    np.testing.assert_array_less(np.abs(mean.value - TARGET.mean), 5 * mean.standard_error)
    assert float(post.trace[0]) < 20 < 2000 < float(post.ess)
    np.testing.assert_allclose(post.proposal.mean, TARGET.mean, atol=0.1)
    assert float(post.k_hat) < 0.5


def standardised_sum(x):
    return x.sum() / jnp.sqrt(3.0)


@pytest.mark.parametrize("threshold", [2.0, 5.0])
def test_rare_events_of_a_sum(threshold):
    target = Gaussian(jnp.zeros(3), jnp.eye(3))
    event = rare_event(standardised_sum, threshold, target, key=jr.key(2), num_draws=4000)
    exact = norm.sf(threshold)
    assert abs(float(event.probability.value) - exact) < 5 * float(event.probability.standard_error) < exact
    assert event.status.ok
    assert "Reached the event in" in repr(event)


def test_an_event_that_is_not_reached_says_so():
    event = rare_event(
        standardised_sum,
        30.0,
        Gaussian(jnp.zeros(3), jnp.eye(3)),
        key=jr.key(3),
        num_draws=4000,
        max_levels=2,
    )
    assert not event.status.ok
    assert "did not reach the threshold" in repr(event)


def test_bad_input_is_refused_by_name():
    target = Gaussian(jnp.zeros(1), jnp.eye(1))
    with pytest.raises(ValueError, match=r"`share` must be between 0 and 1; got 1.5"):
        rare_event(lambda x: x[0], 1.0, target, key=jr.key(0), share=1.5)
    with pytest.raises(ValueError, match=r"`start` must be one Gaussian over vectors"):
        adaptive_importance(log_density, Gaussian(jnp.zeros((2, 2)), jnp.eye(2)), key=jr.key(0))
