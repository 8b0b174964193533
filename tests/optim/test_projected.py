"""Projections against the definition (nearest member, by a general solver), and the methods built on them."""

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from tractable.core import Status
from tractable.optim import minimise
from tractable.optim.projected import (
    AffineSet,
    Box,
    HalfSpace,
    L1Ball,
    L2Ball,
    ProbabilitySimplex,
    ProjectedGradient,
)
from tractable.optim.proximal import L1Penalty, ProximalGradient, coordinate_descent, soft_threshold

NORMAL = np.array([1.0, -2.0, 0.5, 0.0])
MATRIX = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 2.0]])
SETS = {
    "ball": (L2Ball(1.5), [{"type": "ineq", "fun": lambda x: 2.25 - x @ x}]),
    "box": (Box(-0.5, 1.0), [{"type": "ineq", "fun": lambda x: np.r_[x + 0.5, 1.0 - x]}]),
    "simplex": (
        ProbabilitySimplex(1.0),
        [{"type": "ineq", "fun": lambda x: x}, {"type": "eq", "fun": lambda x: x.sum() - 1}],
    ),
    "half-space": (HalfSpace(NORMAL, 0.3), [{"type": "ineq", "fun": lambda x: 0.3 - NORMAL @ x}]),
    "affine": (
        AffineSet(MATRIX, jnp.array([1.0, 2.0])),
        [{"type": "eq", "fun": lambda x: MATRIX @ x - [1.0, 2.0]}],
    ),
}
POINTS = arrays(float, 4, elements=st.floats(-5, 5))


@pytest.mark.parametrize("name", SETS)
@given(point=POINTS)
def test_projection_is_the_nearest_member(name, point):
    convex, constraints = SETS[name]
    found = np.asarray(convex.project(jnp.asarray(point)))
    oracle = minimize(
        lambda x: 0.5 * np.sum((x - point) ** 2),
        found * 0.9 + 0.02,
        jac=lambda x: x - point,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    distance = np.linalg.norm(found - point)
    assert distance <= np.linalg.norm(oracle.x - point) + 1e-6
    np.testing.assert_allclose(convex.project(jnp.asarray(found)), found, atol=1e-9)


@given(point=POINTS)
def test_l1_ball_projection(point):
    found = np.asarray(L1Ball(1.0).project(jnp.asarray(point)))
    assert np.abs(found).sum() <= 1 + 1e-9
    # optimality: for every vertex v of the ball, (point - found) . (v - found) <= 0
    vertices = np.r_[np.eye(4), -np.eye(4)]
    assert ((vertices - found) @ (point - found)).max() <= 1e-9


@given(first=POINTS, second=POINTS)
def test_projections_do_not_expand_distances(first, second):
    for convex in [SETS[name][0] for name in SETS] + [L1Ball(1.0)]:
        moved = convex.project(jnp.asarray(first)) - convex.project(jnp.asarray(second))
        assert np.linalg.norm(moved) <= np.linalg.norm(first - second) + 1e-9


def test_unit_ball_formula():
    y = jnp.array([3.0, 4.0])
    np.testing.assert_allclose(L2Ball().project(y), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_array_equal(L2Ball().project(0.1 * y), 0.1 * y)


def test_projected_gradient_finds_the_nearest_point_of_the_ball():
    target = jnp.array([2.0, 1.0])
    run = minimise(lambda x: jnp.sum((x - target) ** 2), jnp.zeros(2), ProjectedGradient(onto=L2Ball()))
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state, np.array([2.0, 1.0]) / np.sqrt(5), rtol=1e-8)


def test_portfolio_on_the_simplex_meets_slsqp():
    generator = np.random.default_rng(0)
    cov = generator.normal(size=(4, 4))
    cov, gain = cov @ cov.T + 0.1 * np.eye(4), generator.normal(size=4)

    def loss(x):
        return 0.5 * x @ cov @ x - gain @ x

    run = minimise(loss, jnp.full(4, 0.25), ProjectedGradient(onto=ProbabilitySimplex()), max_steps=2000)
    oracle = minimize(
        loss, np.full(4, 0.25), constraints=SETS["simplex"][1], method="SLSQP", options={"ftol": 1e-15}
    )
    np.testing.assert_allclose(run.state, oracle.x, atol=1e-5)
    assert run.value <= oracle.fun + 1e-9


def lasso_problem():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(50, 10))
    return features, 3 * features[:, 0] - features[:, 1] + 0.1 * generator.normal(size=50)


def test_proximal_gradient_solves_the_lasso():
    features, target = lasso_problem()
    strength = 5.0

    def loss(w, x, y):
        return 0.5 * jnp.sum((x @ w - y) ** 2)

    method = ProximalGradient(penalty=L1Penalty(strength))
    run = minimise(loss, np.zeros(10), method, args=(features, target), max_steps=2000, tol=1e-12)
    w = np.asarray(run.state)
    slope = features.T @ (features @ w - target)
    active = w != 0
    np.testing.assert_allclose(
        slope[active], -strength * np.sign(w[active]), rtol=1e-6
    )  # subgradient condition
    assert (np.abs(slope[~active]) <= strength).all()
    assert active.sum() == 2


def test_coordinate_descent_meets_proximal_gradient_and_keeps_constant_columns_at_zero():
    features, target = lasso_problem()
    features = np.c_[features, np.zeros(50)]
    penalty = L1Penalty(5.0, 0.5)
    run = coordinate_descent(features.T @ features, features.T @ target, penalty)
    w = np.asarray(run.state)
    slope = features.T @ (features @ w - target) + 0.5 * w
    active = w != 0
    assert run.status is Status.converged
    assert w[-1] == 0
    np.testing.assert_allclose(slope[active], -5.0 * np.sign(w[active]), rtol=1e-9)
    assert (np.abs(slope[~active]) <= 5.0).all()


def test_soft_threshold_is_the_proximal_map_of_the_absolute_value():
    grid = np.linspace(-4, 4, 800_001)
    for y in (-2.0, -0.3, 0.0, 0.7, 3.0):
        best = grid[np.argmin(0.5 * (grid - y) ** 2 + 0.8 * np.abs(grid))]
        np.testing.assert_allclose(soft_threshold(jnp.asarray(y), 0.8), best, atol=1e-5)
