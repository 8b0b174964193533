"""Probabilities, increasing vectors and unit vectors: conventions of volume, extremes, the gradient of the
softmax.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.bijections.simplex import (
    OntoOrdered,
    OntoPositiveOrdered,
    OntoSphere,
    Softmax,
    StickBreaking,
    softmax_gradient,
)

LIKELIHOODS = np.asarray(jr.uniform(jr.key(0), (20, 3), minval=0.01))  # p(x_n | z = k)


@pytest.mark.parametrize("map_", [StickBreaking(), Softmax()])
def test_volume_is_that_of_the_dirichlet_density(map_):
    # Density times volume, summed over a fine grid of the free plane, is the probability of the simplex.
    a = np.array([2.0, 3.0, 1.5])
    step = 0.1
    axis = np.arange(-16, 16, step)
    grid = jnp.asarray(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    probs, log_dets = jax.jit(jax.vmap(map_.forward_and_log_det))(grid)
    probs = np.asarray(probs)
    log_p = ((a - 1) * np.log(probs)).sum(1) + stats.dirichlet(a).logpdf([1 / 3, 1 / 3, 1 / 3])
    log_p -= ((a - 1) * np.log(1 / 3)).sum()
    np.testing.assert_allclose((np.exp(log_p + np.asarray(log_dets))).sum() * step**2, 1.0, rtol=1e-6)


def test_sticks_of_a_dirichlet_are_independent_betas():
    a, x = np.array([2.0, 3.0, 1.5, 0.7]), np.array([0.3, -1.0, 0.8])
    probs, log_det = StickBreaking().forward_and_log_det(x)
    v = 1 / (1 + np.exp(-(x - np.log([3.0, 2.0, 1.0]))))
    sticks = stats.beta(a[:-1], np.cumsum(a[::-1])[::-1][1:]).logpdf(v) + np.log(v * (1 - v))
    np.testing.assert_allclose(
        stats.dirichlet(a).logpdf(np.asarray(probs)) + float(log_det), sticks.sum(), rtol=1e-12
    )


@pytest.mark.parametrize("map_", [StickBreaking(), Softmax()])
def test_far_points_keep_small_probabilities(map_):
    x = np.array([-300.0, 300.0, 5.0])
    probs, log_det = map_.forward_and_log_det(x)
    assert (np.asarray(probs) > 0).all()
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-15)
    back, inverse_log_det = map_.inverse_and_log_det(probs)
    np.testing.assert_allclose(back, x, rtol=1e-13)
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-13)


def _log_likelihood(logits):
    return jnp.log(jnp.asarray(LIKELIHOODS) @ jax.nn.softmax(logits)).sum()


def test_gradient_in_logits_is_responsibilities_minus_expected_counts():
    logits = jnp.asarray([0.4, -1.0, 0.3])
    theta = np.asarray(jax.nn.softmax(logits))
    joint = LIKELIHOODS * theta
    responsibilities = joint / joint.sum(1, keepdims=True)
    expected = responsibilities.sum(0) - 20 * theta
    np.testing.assert_allclose(jax.grad(_log_likelihood)(logits), expected, rtol=1e-12)
    in_theta = (LIKELIHOODS / joint.sum(1, keepdims=True)).sum(0)  # dL/dtheta
    np.testing.assert_allclose(softmax_gradient(theta, in_theta), expected, rtol=1e-12)


def test_steps_along_the_gradient_stay_on_the_simplex_and_reach_the_em_fixed_point():
    theta = np.full(3, 1 / 3)
    for _ in range(3000):  # EM, as the oracle
        joint = LIKELIHOODS * theta
        theta = (joint / joint.sum(1, keepdims=True)).mean(0)

    def step(logits, _):
        new = logits + 0.2 * jax.grad(_log_likelihood)(logits)
        return new, (_log_likelihood(new), jax.nn.softmax(new))

    logits, (values, path) = jax.jit(lambda start: jax.lax.scan(step, start, None, length=3000))(jnp.zeros(3))
    np.testing.assert_allclose(np.asarray(path).sum(1), 1.0, rtol=1e-14)
    assert (np.diff(values) > -1e-10).all()
    np.testing.assert_allclose(jax.nn.softmax(logits), theta, atol=1e-6)


def test_softmax_with_the_last_state_as_reference():
    probs, log_det = Softmax().forward_and_log_det(np.log([2.0, 3.0]))
    np.testing.assert_allclose(probs, [2 / 6, 3 / 6, 1 / 6], rtol=1e-15)
    np.testing.assert_allclose(log_det, np.log(2 * 3 * 1 / 6**3), rtol=1e-14)


def test_increasing_vectors():
    np.testing.assert_allclose(
        OntoOrdered().forward(np.array([-1.0, 0.0, np.log(2.0)])), [-1.0, 0.0, 2.0], atol=1e-15
    )
    np.testing.assert_allclose(OntoPositiveOrdered().forward(np.log([1.0, 2.0])), [1.0, 3.0], rtol=1e-15)


def test_volume_of_the_sphere():
    # 4 pi = integral of the surface factor over the plane, in polar coordinates with r = tan(t / 2).
    t = (np.arange(2000) + 0.5) * np.pi / 2000
    r, jacobian = np.tan(t / 2), 0.5 / np.cos(t / 2) ** 2
    points = jnp.asarray(np.stack([r, np.zeros_like(r)], 1))
    log_dets = np.asarray(jax.jit(jax.vmap(lambda x: OntoSphere().forward_and_log_det(x)[1]))(points))
    total = (2 * np.pi * r * np.exp(log_dets) * jacobian).sum() * np.pi / 2000
    np.testing.assert_allclose(total, 4 * np.pi, rtol=1e-6)


def test_far_points_come_near_the_pole_and_return():
    for x in (np.array([1e8, -2e8]), np.array([1e160, 3e160]), np.zeros(2)):
        y, log_det = OntoSphere().forward_and_log_det(x)
        np.testing.assert_allclose(OntoSphere().inverse(y), x, rtol=1e-14)
        np.testing.assert_allclose(
            log_det, 2 * (np.log(2.0) - 2 * np.log(np.hypot(1.0, np.hypot(*x)))), rtol=1e-14
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: softmax_gradient(np.ones((2, 2)), np.ones((2, 2))),
            r"`theta` must be one vector of probabilities",
        ),
        (
            lambda: softmax_gradient(np.full(2, 0.5), np.ones(1)),
            r"`gradient` must be of the shape of `theta` \(2,\)",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
