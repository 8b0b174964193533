"""Calibration of intervals, distributions and probabilities: right ones pass, wrong ones are told apart."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm, poisson

from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.inference.trust.calibration import (
    coverage_curve,
    interval_coverage,
    pit,
    reliability,
    uniformity,
)

RNG = np.random.default_rng(1)
CENTRE = RNG.normal(size=500)
OBSERVED = CENTRE + RNG.normal(size=500)


def test_coverage_of_right_and_wrong_intervals():
    half = norm.ppf(0.95)
    right = interval_coverage(OBSERVED, CENTRE - half, CENTRE + half, 0.9)
    inside = np.abs(OBSERVED - CENTRE) <= half
    np.testing.assert_allclose(right.value, inside.mean(), rtol=1e-12)
    np.testing.assert_allclose(
        right.standard_error, np.sqrt(inside.mean() * (1 - inside.mean()) / 500), rtol=1e-12
    )
    assert "intervals of 90%: consistent" in repr(right)
    assert "too narrow" in repr(interval_coverage(OBSERVED, CENTRE - 1, CENTRE + 1, 0.9))
    assert "too wide" in repr(interval_coverage(OBSERVED, CENTRE - 4, CENTRE + 4, 0.9))


def test_transforms_of_densities():
    u = pit(OBSERVED, Normal(CENTRE, 1.0))
    np.testing.assert_allclose(u, norm.cdf(OBSERVED - CENTRE), rtol=1e-10)
    assert "calibrated as far as" in repr(uniformity(u))
    assert "Not uniform" in repr(uniformity(pit(OBSERVED, Normal(CENTRE, 0.5))))


def test_transforms_of_counts_are_uniform_with_a_key():
    y = RNG.poisson(2.0, 500)
    u = np.asarray(pit(y, Poisson(jnp.full(500, 2.0)), key=jr.key(0)))
    assert ((u >= poisson(2).cdf(y - 1)) & (u <= poisson(2).cdf(y))).all()
    assert uniformity(u).numbers["p_value"] > 0.01
    middle = pit(y, Poisson(jnp.full(500, 2.0)))
    np.testing.assert_allclose(middle, (poisson(2).cdf(y - 1) + poisson(2).cdf(y)) / 2, atol=1e-9)


def test_transforms_by_draws_are_ranks():
    draws = CENTRE + RNG.normal(size=(9, 500))
    u = np.asarray(pit(OBSERVED, draws, key=jr.key(1)))
    rank = (draws < OBSERVED).sum(0)
    np.testing.assert_array_equal(np.floor(u * 10), rank)
    assert uniformity(u).numbers["p_value"] > 0.01
    np.testing.assert_allclose(pit(OBSERVED, draws), (rank + 0.5) / 10, rtol=1e-12)


def test_the_coverage_curve_counts_central_intervals():
    u = np.asarray(pit(OBSERVED, Normal(CENTRE, 1.0)))
    mass, share = coverage_curve(u, [0.5, 0.9])
    np.testing.assert_allclose(
        share, [((u > 0.25) & (u < 0.75)).mean(), ((u > 0.05) & (u < 0.95)).mean()], rtol=1e-9
    )
    np.testing.assert_array_equal(mass, [0.5, 0.9])


def test_reliability_by_hand():
    found = reliability([0.1, 0.3, 0.3, 0.9, 1.0], [0, 1, 0, 1, 1], num_bins=2)
    np.testing.assert_allclose(found.confidence, [0.7 / 3, 0.95], rtol=1e-12)
    np.testing.assert_allclose(found.frequency, [1 / 3, 1], rtol=1e-12)
    np.testing.assert_array_equal(found.counts, [3, 2])
    np.testing.assert_allclose(found.expected_error, (3 * 0.1 + 2 * 0.05) / 5, rtol=1e-9)
    assert "expected calibration error 0.0800" in repr(found)


def test_true_probabilities_are_reliable_and_sharpened_ones_are_not():
    p = RNG.uniform(size=20_000)
    happened = RNG.uniform(size=20_000) < p
    found = reliability(p, happened, bins="equal_mass")
    np.testing.assert_array_equal(found.counts, np.full(10, 2000))
    z = (found.frequency - found.confidence) / np.sqrt(found.confidence * (1 - found.confidence) / 2000)
    assert np.abs(z).max() < 5
    assert reliability(p**2, happened).expected_error > 0.1 > 5 * found.expected_error


def test_classes_are_judged_by_the_most_probable():
    probs = np.array([[0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    found = reliability(probs, [0, 0, 0], num_bins=1)
    np.testing.assert_allclose([found.confidence[0], found.frequency[0]], [0.7, 2 / 3], rtol=1e-12)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`lower` must be at most `upper`; got 2.0 at index 1"):
        interval_coverage([0.0, 0.0], [-1.0, 2.0], [1.0, 1.0], 0.9)
    with pytest.raises(ValueError, match=r"`values` must be between 0 and 1; got 1.5 at index 1"):
        uniformity([0.5, 1.5])
    with pytest.raises(ValueError, match=r"`predictive` must be draws of shape \(draws, 2\)"):
        pit([0.0, 1.0], np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"`outcomes` must be 0 or 1; got 2 at index 1"):
        reliability([0.5, 0.5], [0, 2])
    with pytest.raises(ValueError, match=r"`probabilities` must be rows that sum to 1"):
        reliability([[0.5, 0.6]], [0])
    with pytest.raises(ValueError, match=r"`outcomes` must be labels from 0 to 1; got 2 at index 0"):
        reliability([[0.5, 0.5]], [2])
