"""Entropic transport: the fixed point, the limits of small and large entropy, certificates and verdicts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractable.core import Status
from tractable.distributions.sinkhorn import sinkhorn, sinkhorn_divergence
from tractable.distributions.transport import optimal_transport, transport_cost

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(size=(20, 2)) + 0.5
A, B = RNG.random(30) + 0.1, RNG.random(20) + 0.1
A, B = A / A.sum(), B / B.sum()
COST = np.asarray(transport_cost(X, Y))


def plain_sinkhorn(cost, a, b, epsilon, steps):
    """The textbook iteration, which overflows for small epsilon."""
    kernel, u = np.exp(-cost / epsilon), np.ones(len(a))
    for _ in range(steps):
        v = b / (kernel.T @ u)
        u = a / (kernel @ v)
    return u[:, None] * kernel * v[None]


def test_matches_the_plain_iteration():
    found = sinkhorn(COST, A, B, epsilon=0.5)
    assert found.status is Status.converged
    np.testing.assert_allclose(found.plan, plain_sinkhorn(COST, A, B, 0.5, 3000), atol=1e-9)


def test_value_is_the_regularised_cost_of_the_plan():
    """Primal = dual: <P, C> + eps KL(P || a x b) equals the value from the potentials."""
    found = sinkhorn(COST, A, B, epsilon=0.5, tol=1e-12)
    plan = np.asarray(found.plan)
    entropy = (plan * np.log(plan / np.outer(A, B))).sum()
    np.testing.assert_allclose(found.value, found.transport_cost + 0.5 * entropy, rtol=1e-10)
    np.testing.assert_allclose(plan.sum(1), A, atol=1e-12)
    np.testing.assert_allclose(plan.sum(0), B, atol=1e-11)


def test_small_entropy_approaches_the_linear_program():
    """The plain kernel underflows at this epsilon; <P, C> lies within eps (H(a) + H(b)) above the optimum."""
    found = sinkhorn(COST, A, B, epsilon=1e-3, tol=1e-6, max_steps=40_000, num_scales=8)
    exact = float(optimal_transport(COST, A, B).cost)
    entropies = -(A * np.log(A)).sum() - (B * np.log(B)).sum()
    assert found.status is Status.converged
    assert exact - 1e-4 <= float(found.transport_cost) <= exact + 1e-3 * entropies
    assert float(found.value) <= exact + 1e-3 * entropies


def test_large_entropy_gives_the_independent_plan():
    found = sinkhorn(COST, A, B, epsilon=1e6)
    np.testing.assert_allclose(found.plan, np.outer(A, B), rtol=1e-4)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.1, 1.0]))
def test_converges_on_random_problems(seed, epsilon):
    """Over-relaxation must not break convergence: any costs, any weights (zeros included)."""
    rng = np.random.default_rng(seed)
    cost, a = rng.random((30, 20)) ** 3, rng.random(30)
    a[rng.integers(0, 30)] = 0.0
    found = sinkhorn(cost, a, B, epsilon=epsilon, tol=1e-8, max_steps=20_000)
    assert found.status is Status.converged, found
    np.testing.assert_allclose(found.plan.sum(0), B, atol=2e-8)
    np.testing.assert_allclose(found.plan.sum(1), a / a.sum(), atol=2e-8)


def test_verdict_tells_an_unfinished_run():
    found = sinkhorn(COST, A, B, epsilon=0.01, tol=1e-12, max_steps=20)
    assert found.status is Status.exhausted
    assert "max_steps" in repr(found)
    assert float(found.marginal_error) > 1e-12
    assert np.isnan(sinkhorn_divergence(X[:20], Y, epsilon=0.01, tol=1e-12, max_steps=20))


def test_gradients_follow_from_the_plan():
    """d value / dC = P by the envelope theorem, and differences agree with the gradient in the weights."""

    def value(cost, weights):
        return sinkhorn(cost, weights, B, epsilon=0.5, tol=1e-12).value

    by_cost, by_weight = jax.jit(jax.grad(value, (0, 1)))(COST, A)
    np.testing.assert_allclose(by_cost, sinkhorn(COST, A, B, epsilon=0.5, tol=1e-12).plan, atol=1e-12)
    nudge = np.zeros(30)
    nudge[:2] = 1e-5, -1e-5
    numeric = (value(COST, A + nudge) - value(COST, A - nudge)) / 2e-5
    np.testing.assert_allclose(by_weight[0] - by_weight[1], numeric, rtol=1e-6)


def test_divergence_is_debiased():
    np.testing.assert_allclose(sinkhorn_divergence(X, X, epsilon=0.5), 0.0, atol=1e-12)
    apart = sinkhorn_divergence(X, X + 3.0, epsilon=0.5)
    np.testing.assert_allclose(apart, 2 * 9.0, rtol=1e-6)  # a shift by c costs |c|^2, whatever epsilon


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match="`epsilon` must be a positive number"):
        sinkhorn(COST, epsilon=0.0)
    with pytest.raises(ValueError, match=r"`a` must be one number per point, shape \(30,\)"):
        sinkhorn(COST, B, epsilon=1.0)
    with pytest.raises(ValueError, match="`cost` must be a matrix with at least one entry"):
        sinkhorn(jnp.zeros(3), epsilon=1.0)
