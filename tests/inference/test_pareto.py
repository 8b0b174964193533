"""Pareto smoothing against loops in NumPy and against tails of known shape."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles import pareto as oracle
from tractable.inference.weighted.pareto import (
    fit_generalised_pareto,
    k_threshold,
    k_verdict,
    smooth,
    tail_length,
)

SHAPES = np.array([0.1, 0.5, 0.8, 1.3])


@pytest.fixture(scope="module")
def pareto_weights():
    """Log-weights with exact Pareto tails: k times a standard exponential, 20 sets of each shape."""
    e = np.random.default_rng(0).exponential(size=(20, 1, 1000))
    return e * SHAPES[None, :, None]


def test_smoothing_is_that_of_the_loops(pareto_weights):
    found = smooth(pareto_weights[0])
    for i in range(4):
        expected, k = oracle.smooth(pareto_weights[0, i], 95)
        np.testing.assert_allclose(found.k_hat[i], k, rtol=1e-9)
        np.testing.assert_allclose(found.log_weights[i], expected, rtol=1e-9, atol=1e-9)
    assert found.tail_length == 95


def test_shape_of_known_tails_is_found(pareto_weights):
    k = np.asarray(smooth(pareto_weights).k_hat)
    # the prior of ten observations at one half, and the asymptotic error (1 + k)/sqrt(M)
    expected = (95 * SHAPES + 5) / 105
    error = (1 + SHAPES) * 95 / 105 / np.sqrt(95)
    np.testing.assert_array_less(np.abs(k.mean(0) - expected), 5 * error / np.sqrt(20))
    np.testing.assert_allclose(k.std(0), error, rtol=0.6)


def test_fit_of_a_uniform_tail_is_minus_one():
    x = np.sort(np.random.default_rng(1).uniform(size=4000))
    k, sigma = jax.jit(fit_generalised_pareto)(jnp.asarray(x))
    np.testing.assert_allclose(k, -1, atol=0.06)
    np.testing.assert_allclose(sigma, 1, atol=0.06)
    np.testing.assert_allclose((k, sigma), oracle.fit(x), rtol=1e-9)


def test_order_and_untouched_weights_survive(pareto_weights):
    raw = pareto_weights[0, 2]
    smoothed = np.asarray(smooth(raw).log_weights)
    np.testing.assert_array_equal(np.argsort(raw), np.argsort(smoothed, kind="stable"))
    body = np.argsort(raw)[:-95]
    np.testing.assert_array_equal(raw[body], smoothed[body])
    assert smoothed.max() <= raw.max()


def test_scale_of_the_weights_does_not_matter(pareto_weights):
    raw = pareto_weights[0]
    np.testing.assert_allclose(smooth(raw - 700).k_hat, smooth(raw).k_hat, rtol=1e-9)
    np.testing.assert_allclose(
        smooth(raw - 700).log_weights, np.asarray(smooth(raw).log_weights) - 700, rtol=1e-9
    )


def test_smoothing_steadies_a_heavy_mean(pareto_weights):
    w = np.exp(pareto_weights[:, 2])  # k = 0.8: the mean is 5, the variance infinite
    smoothed = np.exp(np.asarray(smooth(pareto_weights).log_weights[:, 2]))
    assert smoothed.mean(1).std() < 0.8 * w.mean(1).std()


def test_constant_and_hopeless_tails_have_extreme_shapes():
    few = np.full(1000, -np.inf)
    few[:3] = 0.0
    both = smooth(np.stack([np.zeros(1000), few, 1e-14 * np.arange(1000)]))
    np.testing.assert_array_equal(both.k_hat, [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(both.log_weights[1], few)
    assert float(smooth(np.zeros(10)).k_hat) == np.inf


def test_works_under_jit_and_vmap(pareto_weights):
    logs = jnp.asarray(pareto_weights[0])
    plain = smooth(logs)
    mapped = jax.jit(jax.vmap(smooth))(logs)
    np.testing.assert_allclose(mapped.k_hat, plain.k_hat, rtol=1e-10)
    np.testing.assert_allclose(mapped.log_weights, plain.log_weights, rtol=1e-10, atol=1e-12)


def test_single_precision_stays_single(pareto_weights):
    found = smooth(jnp.asarray(pareto_weights[0], jnp.float32))
    assert found.log_weights.dtype == found.k_hat.dtype == jnp.float32
    np.testing.assert_allclose(found.k_hat, smooth(pareto_weights[0]).k_hat, atol=2e-3)


def test_lengths_thresholds_and_sentences():
    assert (tail_length(4000), tail_length(25), tail_length(1000, 0.25)) == (190, 5, 190)
    np.testing.assert_allclose([k_threshold(100), k_threshold(1000), k_threshold(10**6)], [0.5, 2 / 3, 0.7])
    assert k_verdict(0.3, 1000).sentence.startswith("Good")
    assert k_verdict(0.6, 100).sentence.endswith("take 316 or more.")
    assert k_verdict(0.9, 1000).sentence.startswith("Bad")
    assert k_verdict(1.1, 1000).sentence.startswith("Very bad")
    assert k_verdict(0.1, 10).sentence.startswith("Unknown: 10 draws are too few")
    assert k_verdict(np.nan, 1000).sentence.startswith("Unknown")
    assert "Good" in repr(smooth(np.asarray(jr.normal(jr.key(0), (1000,))) * 0.2))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"`tail` must be below the number of weights \(30\); got 30"):
        smooth(np.zeros(30), tail=30)
    with pytest.raises(ValueError, match=r"`relative_efficiency` must be positive; got 0"):
        tail_length(100, 0.0)
