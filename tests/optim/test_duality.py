"""Convex programs: the worked dual, ascent, saddle points, Slater's condition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracles.active_sets import quadratic_minimum
from tractable.core.iterate import Status
from tractable.optim.convex import ConvexProgram
from tractable.optim.duality import dual_ascent, saddle_point

# minimise x^2 with x at least 2
SQUARE = ConvexProgram(lambda x: x**2, lambda x: 2.0 - x)

GENERATOR = np.random.default_rng(0)
FACTOR = GENERATOR.normal(size=(3, 3))
P, Q = FACTOR @ FACTOR.T + np.eye(3), GENERATOR.normal(size=3)
G, H = GENERATOR.normal(size=(4, 3)), np.full(4, 0.1)
A, B = np.ones((1, 3)), np.array([0.5])


def quadratic(x, P, Q, G, H, A, B):
    return 0.5 * x @ P @ x + Q @ x


def upper(x, P, Q, G, H, A, B):
    return G @ x - H


def level(x, P, Q, G, H, A, B):
    return A @ x - B


PROGRAM = ConvexProgram(quadratic, upper, level, tuple(jnp.asarray(v) for v in (P, Q, G, H, A, B)))


def test_worked_dual_function():
    multipliers = jnp.asarray([0.0, 1.0, 2.0, 4.0, 6.0, 8.0])
    found = jax.jit(jax.vmap(lambda m: SQUARE.dual(m, start=0.0)))(multipliers)
    np.testing.assert_allclose(found.value, [0.0, 1.75, 3.0, 4.0, 3.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(found.value, 2 * multipliers - multipliers**2 / 4, atol=1e-9)
    np.testing.assert_allclose(found.minimiser, multipliers / 2, atol=1e-9)
    slope = jax.jit(jax.vmap(jax.grad(lambda m: SQUARE.dual(m, start=0.0).value)))(multipliers)
    np.testing.assert_allclose(slope, 2 - multipliers / 2, atol=1e-9)  # the constraint at the minimiser
    np.testing.assert_allclose(found.gradient[:, 0], slope, atol=1e-9)


def test_worked_dual_ascent():
    found = dual_ascent(SQUARE, 0.0)
    assert found.status is Status.converged
    np.testing.assert_allclose(found.inequality_multipliers, [4.0], atol=1e-6)
    np.testing.assert_allclose(
        [found.state, found.primal_value, found.dual_value], [2.0, 4.0, 4.0], atol=1e-6
    )
    assert "Optimal" in repr(found)


def test_worked_saddle_point():
    found = saddle_point(SQUARE, 0.0)
    assert found.status is Status.converged
    np.testing.assert_allclose(found.state, 2.0, atol=1e-6)
    np.testing.assert_allclose(found.inequality_multipliers, [4.0], atol=1e-6)
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-6)


@pytest.fixture(scope="module")
def exact():
    return quadratic_minimum(P, Q, G, H, A, B)


@pytest.mark.parametrize("solver", [dual_ascent, saddle_point])
def test_both_solvers_meet_the_enumeration(solver, exact):
    found = solver(PROGRAM, jnp.zeros(3))
    x, z, y = exact
    assert found.status is Status.converged, found
    np.testing.assert_allclose(found.state, x, atol=1e-5)
    np.testing.assert_allclose(found.inequality_multipliers, z, atol=1e-4)
    np.testing.assert_allclose(found.equality_multipliers, y, atol=1e-4)


def test_the_dual_is_concave_and_below_the_minimum(exact):
    x = exact[0]
    best = 0.5 * x @ P @ x + Q @ x
    generator = np.random.default_rng(1)
    first, second = generator.uniform(0, 3, (20, 4)), generator.uniform(0, 3, (20, 4))
    dual = jax.jit(jax.vmap(lambda lam: PROGRAM.dual(lam, jnp.asarray([0.3]), start=jnp.zeros(3)).value))
    low, high, middle = (np.asarray(dual(jnp.asarray(v))) for v in (first, second, (first + second) / 2))
    assert (low <= best + 1e-9).all()
    assert (middle >= (low + high) / 2 - 1e-9).all()


def test_a_lagrangian_without_a_minimum_is_minus_infinity():
    line = ConvexProgram(lambda x: x, lambda x: -x)
    assert float(line.dual(0.5, start=1.0).value) == -np.inf
    assert float(line.dual(1.0, start=1.0).value) == 0.0
    assert not bool(line.dual(0.5, start=1.0).bounded)


def test_slater_condition():
    assert SQUARE.slater(0.0).holds
    np.testing.assert_allclose(
        SQUARE.slater(0.0).margin, 1.0, atol=1e-5
    )  # the search stops at a margin of one
    touching = ConvexProgram(lambda x: x, lambda x: x**2)  # feasible at zero only
    assert not touching.slater(1.0).holds
    both = PROGRAM.slater(jnp.zeros(3))
    assert both.holds
    np.testing.assert_allclose(A @ np.asarray(both.point), B, atol=1e-6)
    assert (G @ np.asarray(both.point) < H).all()


def test_report_with_slater_is_a_proof():
    report = SQUARE.report(2.0, 4.0)
    assert report.ok
    assert "Slater's condition holds" in report.verdict.sentence
    assert "Slater margin" in repr(report)
    wrong = SQUARE.report(2.5, 4.0)
    assert not wrong.ok
    assert "complementarity" in wrong.verdict.sentence


def test_solve_agrees_with_the_enumeration(exact):
    found = PROGRAM.solve(jnp.zeros(3))
    np.testing.assert_allclose(found.state, exact[0], atol=1e-8)
    np.testing.assert_allclose(found.inequality_multipliers, exact[1], atol=1e-7)
    np.testing.assert_array_equal(found.active, exact[1] > 0)
