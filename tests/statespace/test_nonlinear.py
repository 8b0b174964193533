"""Filters by moments: exact where the system is linear, the mode where they iterate, honest elsewhere."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize

from tests.oracles.kalman import dense_chain
from tractable.statespace.nonlinear.rules import RULES, Cubature, Draws, Hermite, Taylor, Unscented
from tractable.statespace.nonlinear.system import NonlinearSystem

A, H = np.array([[0.8, 0.4], [-0.4, 0.8]]), np.array([[1.0, 0.5], [0.0, 1.0]])
Q, R = np.array([[0.3, 0.1], [0.1, 0.2]]), np.diag([0.5, 0.8])
START = (np.array([0.3, -0.2]), np.eye(2))
T = 7


def turned(x, t, u):
    return jnp.asarray(A) @ x + 0.1 * t + u


def seen(x, t, u):
    return jnp.asarray(H) @ x - 0.2 + u


def swing(x):
    return jnp.array([x[0] + 0.1 * x[1], x[1] - 0.98 * jnp.sin(x[0])])


def sine(x):
    return jnp.sin(x[:1])


PENDULUM = NonlinearSystem(
    swing, jnp.diag(jnp.array([1e-4, 1e-2])), sine, 0.05 * jnp.eye(1), jnp.array([0.5, 0.0]), 0.1 * jnp.eye(2)
)


def linear_case():
    """A linear system with offsets that depend on time and inputs, noises of each time, and gaps."""
    rng = np.random.default_rng(0)
    moves, looks = Q[None] * rng.uniform(0.5, 2, (T - 1, 1, 1)), R[None] * rng.uniform(0.5, 2, (T, 1, 1))
    inputs, ys = rng.normal(size=(T, 2)), rng.normal(size=(T, 2))
    ys[2], ys[4, 0], ys[0, 1] = np.nan, np.nan, np.nan
    offsets = 0.1 * np.arange(T)[:, None] + inputs
    exact = dense_chain(START, (A, offsets[:-1], moves), (H, inputs - 0.2, looks), ys)
    return NonlinearSystem(turned, moves, seen, looks, *START), ys, inputs, exact


@pytest.mark.parametrize("rule", list(RULES))
def test_every_rule_is_exact_for_a_linear_system(rule):
    system, ys, inputs, (mean, cov, evidence) = linear_case()
    found = system.smooth(ys, inputs, rule=rule)
    np.testing.assert_allclose(found.marginals.mean.reshape(-1), mean, atol=1e-10)
    for t in range(T):
        np.testing.assert_allclose(
            found.marginals.cov[t], cov[2 * t : 2 * t + 2, 2 * t : 2 * t + 2], atol=1e-10
        )
    np.testing.assert_allclose(found.cross[3], cov[6:8, 8:10], atol=1e-10)
    np.testing.assert_allclose(found.filter.log_likelihood, evidence, rtol=1e-10)
    assert found.verdict.ok
    assert "Exact" in repr(found)


@pytest.mark.thorough
def test_square_roots_and_iterations_change_nothing_for_a_linear_system():
    system, ys, inputs, (mean, _, evidence) = linear_case()
    found = system.smooth(ys, inputs, rule="cubature", iterations=3, passes=2, form="square-root")
    np.testing.assert_allclose(found.marginals.mean.reshape(-1), mean, atol=1e-10)
    np.testing.assert_allclose(found.filter.log_likelihood, evidence, rtol=1e-10)
    assert float(found.change) < 1e-10


def test_a_known_start_and_a_drift_without_noise_are_exact_too():
    system = NonlinearSystem(
        lambda x: jnp.asarray(A) @ x,
        np.zeros((2, 2)),
        lambda x: jnp.asarray(H) @ x,
        R,
        START[0],
        np.diag([1.0, 0.0]),
    )
    ys = np.random.default_rng(1).normal(size=(T, 2))
    mean, _, evidence = dense_chain(
        (START[0], np.diag([1.0, 0.0])), (A, np.zeros(2), np.zeros((2, 2))), (H, np.zeros(2), R), ys
    )
    for rule in ("unscented", "extended"):
        found = system.filter(ys, rule=rule)
        np.testing.assert_allclose(found.log_likelihood, evidence, rtol=1e-9)
        np.testing.assert_allclose(found.filtered.mean[-1], mean[-2:], atol=1e-9)


@pytest.mark.thorough
def test_rules_by_moments_that_are_known():
    """y = (x0^2, x0 x1) for x ~ N(m, P): means, covariance and slope in closed form."""
    m, P = jnp.array([0.5, -1.0]), jnp.array([[0.6, 0.2], [0.2, 0.9]])

    def products(x):
        return jnp.array([x[0] ** 2, x[0] * x[1]])

    mean = np.array([m[0] ** 2 + P[0, 0], m[0] * m[1] + P[0, 1]])
    slope = np.array([[2 * m[0], 0.0], [m[1], m[0]]])
    left = np.array(
        [[2 * P[0, 0] ** 2, 2 * P[0, 0] * P[0, 1]], [2 * P[0, 0] * P[0, 1], P[0, 0] * P[1, 1] + P[0, 1] ** 2]]
    )
    for rule in (Taylor(2), Hermite(3), Hermite(6)):
        found = rule(products, m, P)
        np.testing.assert_allclose(found.weights, slope, atol=1e-10)
        np.testing.assert_allclose(found.weights @ m + found.bias, mean, atol=1e-10)
        np.testing.assert_allclose(found.residual, left, atol=1e-10)
    for rule in (Unscented(), Cubature(), Unscented(kappa=1.0, beta=0.0)):  # exact to degree three
        found = rule(products, m, P)
        np.testing.assert_allclose(found.weights @ m + found.bias, mean, atol=1e-10)
        np.testing.assert_allclose(found.weights, slope, atol=1e-10)
    drawn = Draws(4000)(products, m, P)
    np.testing.assert_allclose(drawn.weights @ m + drawn.bias, mean, atol=1e-10)  # second moments are matched
    np.testing.assert_allclose(drawn.residual, left, atol=0.3)


def test_iterated_tangents_end_at_the_mode():
    """One reading: the iterated extended filter is Gauss-Newton for log p(x) + log p(y | x)."""
    system = NonlinearSystem(swing, np.eye(2), lambda x: jnp.exp(x[:1]) + x[1:], 0.1 * np.eye(1), *START)

    def cost(x):
        gap = x - START[0]
        return 0.5 * gap @ gap + 0.5 * (2.5 - np.exp(x[0]) - x[1]) ** 2 / 0.1

    best = minimize(cost, START[0], method="BFGS", options={"gtol": 1e-10}).x
    found = system.filter([2.5], rule="extended", iterations=30)
    np.testing.assert_allclose(found.filtered.mean[0], best, atol=1e-6)
    once = system.filter([2.5], rule="extended")
    assert np.abs(once.filtered.mean[0] - best).max() > 0.1
    closer = system.filter([2.5], rule="unscented", iterations=5)
    assert np.isfinite(closer.log_likelihood)


@pytest.mark.thorough
def test_passes_of_tangents_end_at_the_most_probable_path():
    _, ys = PENDULUM.sample(jr.key(0), 12)
    ys = ys[0].at[4].set(jnp.nan)
    found = PENDULUM.smooth(ys, rule="extended", passes=15)
    assert float(found.change) < 1e-8

    def log_joint(path):
        gap = path[0] - PENDULUM.initial_mean
        moved = path[1:] - jax.vmap(swing)(path[:-1])
        read = jnp.where(jnp.isnan(ys), 0.0, jnp.nan_to_num(ys) - jax.vmap(sine)(path))
        scale = jnp.diag(PENDULUM.transition_cov)[None]
        return -0.5 * ((gap**2).sum() / 0.1 + (moved**2 / scale).sum() + (read**2).sum() / 0.05)

    slope = jax.grad(log_joint)(found.marginals.mean)
    assert np.abs(np.asarray(slope)).max() < 1e-6
    first = jax.grad(log_joint)(PENDULUM.smooth(ys, rule="extended").marginals.mean)
    assert np.abs(np.asarray(first)).max() > 1e-2


def test_a_forecast_goes_on_without_readings():
    system, ys, inputs, _ = linear_case()
    ahead = system.forecast(ys[:4], 3, inputs)
    gaps = np.concatenate([ys[:4], np.full((3, 2), np.nan)])
    offsets = 0.1 * np.arange(T)[:, None] + inputs
    mean, cov, _ = dense_chain(
        START, (A, offsets[:-1], system.transition_cov), (H, inputs - 0.2, system.observation_cov), gaps
    )
    np.testing.assert_allclose(ahead.states.mean.reshape(-1), mean[8:], atol=1e-10)
    np.testing.assert_allclose(ahead.readings.mean[2], H @ mean[-2:] - 0.2 + inputs[-1], atol=1e-10)
    spread = H @ cov[-2:, -2:] @ H.T + system.observation_cov[-1]
    np.testing.assert_allclose(ahead.readings.cov[2], spread, atol=1e-10)


def test_paths_have_the_moments_of_the_model():
    system, _, inputs, _ = linear_case()
    states, readings = system.sample(jr.key(1), T, 4000, inputs)
    assert states.shape == (4000, T, 2)
    offsets = 0.1 * np.arange(T)[:, None] + inputs
    nothing = np.full((T, 2), np.nan)
    mean, cov, _ = dense_chain(START, (A, offsets[:-1], system.transition_cov), (H, inputs, R), nothing)
    error = np.sqrt(np.diag(cov) / 4000)
    assert np.abs((np.asarray(states).mean(0).reshape(-1) - mean) / error).max() < 4.5
    gap = np.asarray(readings) - np.asarray(states) @ H.T + 0.2 - inputs
    assert np.abs(gap[:, 3].var(0) / np.diag(system.observation_cov[3]) - 1).max() < 4.5 * np.sqrt(2 / 4000)


def test_the_verdict_tells_linear_from_not():
    ys = PENDULUM.sample(jr.key(2), 12)[1][0]
    bent = PENDULUM.filter(ys)
    assert not bent.verdict.ok
    assert "compare" in bent.verdict.sentence.lower()
    assert bent.nonlinearity.shape == (12,)
    still = NonlinearSystem(swing, 1e-3 * np.eye(2), sine, 0.1 * np.eye(1), np.zeros(2), 1e-3 * np.eye(2))
    odd = NonlinearSystem(jnp.sin, np.eye(1), lambda x: x, np.eye(1), [0.0], np.eye(1)).filter([np.nan] * 12)
    assert not odd.verdict.ok  # three points of an odd function lie on a line
    near = still.filter(np.full(12, 0.01))
    assert near.verdict.ok
    assert near.verdict.sentence.startswith("Good")


@pytest.mark.thorough
def test_the_likelihood_has_a_gradient():
    """By finite differences, through roots, points and updates."""

    def log_likelihood(scale, rule):
        system = NonlinearSystem(
            swing, scale * 0.01 * jnp.eye(2), sine, 0.05 * jnp.eye(1), jnp.zeros(2), 0.1 * jnp.eye(2)
        )
        return system.log_likelihood(jnp.array([0.2, 0.3, 0.1]), rule=rule)

    for rule in ("unscented", "extended"):
        slope = jax.grad(log_likelihood)(1.0, rule)
        ends = [float(log_likelihood(s, rule)) for s in (1 - 1e-5, 1 + 1e-5)]
        np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-5, rtol=1e-5)


def test_a_parameter_that_the_functions_captured_has_a_gradient():
    def log_likelihood(slope, shift):
        system = NonlinearSystem(
            lambda x: slope * x,
            0.1 * np.eye(1),
            lambda x, by=shift: jnp.sin(x) + by,
            0.2 * np.eye(1),
            [0.0],
            np.eye(1),
        )
        return system.log_likelihood([0.1, 0.2, 0.3], rule="extended")

    found = jax.grad(log_likelihood, (0, 1))(0.9, 0.1)
    for place, slope in enumerate(found):
        ends = [
            float(log_likelihood(*(np.array([0.9, 0.1]) + sign * 1e-5 * np.eye(2)[place])))
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


def test_slips_are_named():
    with pytest.raises(ValueError, match=r"`y` must be finite, or NaN; got inf at index \(1, 0\)"):
        PENDULUM.filter([0.1, np.inf])
    with pytest.raises(
        ValueError, match=r"`transition` must be a function that returns a vector of 2; got shape"
    ):
        NonlinearSystem(lambda x: x[0], Q, sine, np.eye(1), *START).filter([0.1, 0.2])
    with pytest.raises(TypeError, match=r"`observation` must be written with JAX; got NumPy"):
        NonlinearSystem(swing, Q, lambda x: np.sin(x[:1]) * np.asarray(x)[:1], np.eye(1), *START).filter(
            [0.1]
        )
    with pytest.raises(ValueError, match=r"`inputs` must be given, one row for each of 1 times"):
        NonlinearSystem(turned, Q, sine, np.eye(1), *START).filter([0.1])
    with pytest.raises(ValueError, match=r"`y` must be of shape \(times, 1\)"):
        PENDULUM.filter(np.zeros((0, 1)))
    with pytest.raises(ValueError, match=r"`rule` must be one of 'extended'"):
        PENDULUM.filter([0.1], rule="exact")
    with pytest.raises(ValueError, match=r"`transition_cov` must be one matrix, or 1 for 2 times"):
        NonlinearSystem(swing, np.stack([Q] * 3), sine, np.eye(1), *START).filter([0.1, 0.2])
    with pytest.raises(ValueError, match=r"`num` must be at least 4"):
        PENDULUM.filter([0.1], rule=Draws(2))


def test_a_function_that_is_no_number_is_named_by_the_time_of_the_reading():
    system = NonlinearSystem(
        lambda x: jnp.sqrt(x), np.eye(1), lambda x: x, np.eye(1), np.array([-4.0]), 0.01 * np.eye(1)
    )
    with pytest.raises(ValueError, match=r"`system`.*NaN at time 1"):
        system.log_likelihood([-4.0, 0.1, 0.2])
    with pytest.raises(ValueError, match="`y` must be of shape"):
        system.forecast(np.zeros((3, 2)), 2)
