"""Losses: worked slopes, decompositions, label dropout by enumeration, what they refuse."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural import (
    binary_cross_entropy,
    cross_entropy,
    half_squared,
    label_smoothed,
    spread,
    squared,
)
from tractable.neural.losses import dropped_label, margin, smoothed_target, smoothing_parts, softmax_squared

Z = jnp.array([0.3, -1.2, 2.0, 0.4])
P = np.exp(Z) / np.exp(Z).sum()


def test_squares_and_their_half():
    output, target = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.0, 1.0, 0.5])
    assert float(squared(output, target)) == 10.0
    np.testing.assert_allclose(jax.grad(half_squared)(output, target), output - target)
    assert float(half_squared(jnp.array([3.0]), 1.0)) == 2.0  # a network of one output
    with pytest.raises(ValueError, match=r"`target` must be of shape \(3,\); got shape \(2,\)"):
        squared(output, target[:2])


def test_cross_entropies_and_their_slopes():
    np.testing.assert_allclose(cross_entropy(Z, 2), -np.log(P[2]), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(cross_entropy)(Z, 2), P - np.eye(4)[2], atol=1e-15)
    q = np.array([0.1, 0.0, 0.6, 0.3])
    np.testing.assert_allclose(cross_entropy(Z, q), -(q * np.log(P)).sum(), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(cross_entropy)(Z, q), P - q, atol=1e-15)
    assert float(cross_entropy(jnp.array([0.0, -jnp.inf]), jnp.array([1.0, 0.0]))) == 0.0
    assert float(cross_entropy(jnp.array([1000.0, 0.0]), 1)) == 1000.0
    for wrong in (4, -1):  # no such class: not silently the last one
        assert np.isnan(cross_entropy(Z, wrong))
    s = 1 / (1 + np.exp(-0.7))
    np.testing.assert_allclose(binary_cross_entropy(0.7, 1), -np.log(s), rtol=1e-14)
    np.testing.assert_allclose(binary_cross_entropy(0.7, 0), -np.log(1 - s), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(binary_cross_entropy)(0.7, 1.0), s - 1, rtol=1e-14)
    assert float(binary_cross_entropy(-800.0, 1)) == 800.0
    assert np.isnan(binary_cross_entropy(0.7, -1))  # codes -1 and 1 have no least loss
    with pytest.raises(
        ValueError, match=r"`target` must be of shape \(4,\); got shape \(\)\. A class is a whole"
    ):
        cross_entropy(Z, 2.0)


def test_squares_of_a_saturated_softmax_have_no_slope():
    z, y = jnp.array([10.0, 0.0, 0.0]), 1
    entropy, squares = jax.grad(cross_entropy)(z, y), jax.grad(softmax_squared)(z, y)
    np.testing.assert_allclose(entropy, [0.99990921, -0.9999546, 0.0000454], atol=5e-9)
    np.testing.assert_allclose(squares, [0.00027233, -0.00018156, -0.00009077], atol=5e-9)
    p = np.exp(z) / np.exp(z).sum()
    formula = 2 * (np.diag(p) - np.outer(p, p)) @ (p - np.eye(3)[1])
    np.testing.assert_allclose(squares, formula, rtol=1e-10)


def test_label_smoothing_as_worked_and_in_two_parts():
    np.testing.assert_allclose(smoothed_target(0, 4, 0.1), [0.925, 0.025, 0.025, 0.025], rtol=1e-15)
    for noise in (None, np.array([0.5, 0.25, 0.25, 0.0])):
        u = np.full(4, 0.25) if noise is None else noise
        target = 0.8 * np.eye(4)[2] + 0.2 * u
        np.testing.assert_allclose(smoothed_target(2, 4, 0.2, noise), target, rtol=1e-15)
        loss = label_smoothed(Z, 2, 0.2, noise)
        np.testing.assert_allclose(loss, cross_entropy(Z, target), rtol=1e-14)
        label, other = smoothing_parts(Z, 2, noise)
        np.testing.assert_allclose([label, other], [-np.log(P[2]), -(u * np.log(P)).sum()], rtol=1e-14)
        np.testing.assert_allclose(loss, 0.8 * label + 0.2 * other, rtol=1e-14)
        slope = jax.grad(partial(label_smoothed, amount=0.2, noise=noise))(Z, 2)
        np.testing.assert_allclose(slope, P - target, atol=1e-15)
        dropout = 0.8 * cross_entropy(Z, 2) + 0.2 * sum(u[k] * cross_entropy(Z, k) for k in range(4))
        np.testing.assert_allclose(loss, dropout, rtol=1e-14)  # labels redrawn from the noise, marginalised
    with pytest.raises(ValueError, match=r"`amount` must be from 0 to 1; got 1\.5"):
        smoothed_target(0, 4, 1.5)


def test_dropped_labels_have_the_frequencies_of_the_smoothed_target():
    noise = jnp.array([0.5, 0.3, 0.2, 0.0])
    draws = jax.vmap(lambda key: dropped_label(key, 3, 4, 0.4, noise))(jr.split(jr.key(0), 4000))
    share = np.bincount(draws, minlength=4) / 4000
    expected = np.asarray(smoothed_target(3, 4, 0.4, noise))
    z = (share - expected) / np.sqrt(expected * (1 - expected) / 4000)
    assert abs(z).max() < 4, z


def test_spread_and_margin():
    a = jnp.array([0.5, 0.3, 0.9])
    np.testing.assert_allclose(spread(a, 0, 0.2), 0.0 + 0.6**2, rtol=1e-12)
    np.testing.assert_allclose(margin(a, 2), 0.5 * (0.4**2 + 0.2**2), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(spread)(a, 0, 0.2), [-2 * 0.6, 0, 2 * 0.6], rtol=1e-12)
    assert np.isnan(spread(a, 3))
    with pytest.raises(
        ValueError, match="`target` must be a whole number or probabilities; got dtype float64"
    ):
        margin(a, 1.0)
