"""The search on the host: walls, coordinates, Newton steps, separated directions, verdicts."""

import numpy as np
import pytest
import scipy.optimize

from tractable.core.iterate import Status
from tractable.optim.host import minimise_on_host, whitening
from tractable.optim.newton import newton_direction


def bowl(point):
    """A quadratic with curvatures 1 and 400, and nothing (NaN) to the left of -3."""
    x = np.asarray(point)
    inside = x[0] > -3
    value = 0.5 * (x[0] + 1) ** 2 + 200 * (x[1] - 2) ** 2 if inside else np.nan
    return value, np.array([x[0] + 1, 400 * (x[1] - 2)])


def test_search_finds_a_minimum_beside_a_wall():
    run = minimise_on_host(bowl, np.array([8.0, -5.0]), max_steps=80, tol=1e-9)
    np.testing.assert_allclose(run.state, [-1.0, 2.0], atol=1e-6)
    assert run.status is Status.converged
    assert int(run.evaluations) == len(run.values) < 40
    assert minimise_on_host(bowl, np.array([8.0, -5.0]), max_steps=3, tol=1e-9).status is Status.exhausted
    with pytest.raises(ValueError, match="`function` must be finite at `start`"):
        minimise_on_host(bowl, np.array([-4.0, 0.0]), max_steps=3, tol=1e-9)


def test_search_in_coordinates_of_unit_curvature_takes_two_evaluations():
    spread = whitening(bowl, np.array([0.0, 1.5]), 1.0)
    np.testing.assert_allclose(spread, np.diag([1.0, 0.05]), atol=1e-6)
    run = minimise_on_host(bowl, np.array([0.0, 1.95]), spread, max_steps=20, tol=1e-6)
    np.testing.assert_allclose(run.state, [-1.0, 2.0], atol=1e-6)
    assert int(run.evaluations) == 2
    np.testing.assert_allclose(whitening(bowl, np.array([0.0, 1.5]), 0.01)[0, 0], 2.0)  # no longer than that


def test_search_without_any_descent_says_so():
    """The gradient promises what no step keeps, as where rounding has the last word."""
    run = minimise_on_host(
        lambda x: (1.0 + np.abs(x).sum(), np.ones(2)), np.zeros(2), max_steps=500, tol=1e-9
    )
    assert run.status is Status.stalled
    np.testing.assert_allclose(run.state, np.zeros(2), atol=1e-12)
    assert int(run.evaluations) < 100


def curved(x):
    """Rosenbrock's valley with its Hessian."""
    hessian = scipy.optimize.rosen_hess(x)
    return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x), hessian


@pytest.mark.parametrize("stop", ["gradient", "decrement", "value"])
@pytest.mark.parametrize("start", [[-1.2, 1.0], [5.0, -3.0]])
def test_newton_and_quasi_newton_reach_the_same_minimum(stop, start):
    by_hessian = minimise_on_host(curved, start, tol=1e-10, stop=stop)
    assert by_hessian.status is Status.converged
    np.testing.assert_allclose(by_hessian.state, [1.0, 1.0], atol=1e-7)
    there = np.asarray(scipy.optimize.rosen_hess([1.0, 1.0]))
    np.testing.assert_allclose(np.asarray(by_hessian.curvature), there, rtol=1e-3)
    learnt = minimise_on_host(lambda x: curved(x)[:2], start, tol=1e-8)
    np.testing.assert_allclose(learnt.state, [1.0, 1.0], atol=1e-6)
    assert int(by_hessian.evaluations) < int(learnt.evaluations)


def test_a_quadratic_takes_one_newton_step_unseen():
    matrix, centre = np.diag([1.0, 1e6]), np.array([1e-4, -1e-5])
    found = minimise_on_host(
        lambda x: (0.5 * (x - centre) @ matrix @ (x - centre), matrix @ (x - centre), matrix),
        np.zeros(2), tol=1.0, stop="decrement",
    )  # fmt: skip
    assert int(found.evaluations) == 1
    np.testing.assert_allclose(found.state, centre, rtol=1e-12)


def test_a_judge_ends_the_search():
    ended = minimise_on_host(
        curved, [5.0, -3.0], judge=lambda walk: Status.stalled if walk.value < 1000 else None
    )
    assert ended.status is Status.stalled
    assert float(ended.value) > 1e-3


def test_newton_direction_scales_and_leaves_silent_directions_alone():
    a = np.diag([1e24, 1.0, 1e-24])
    np.testing.assert_allclose(newton_direction(a, np.diag(a)), -np.ones(3), rtol=1e-12)
    np.testing.assert_allclose(
        newton_direction(np.ones((2, 2)), np.array([2.0, 2.0])), [-1.0, -1.0], rtol=1e-10
    )
    # negative curvature counts by its size: the direction still descends
    np.testing.assert_allclose(newton_direction(np.diag([2.0, -4.0]), np.array([2.0, 4.0])), [-1.0, -1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, "`tol` must be zero or positive"),
        ({"stop": "soon"}, "`stop` must be one of"),
        ({"max_steps": 0}, "`max_steps` must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        minimise_on_host(curved, [0.0, 0.0], **options)


def test_a_maximum_with_its_hessian_is_no_minimum():
    """Steps by the size of the curvature would otherwise stop at a saddle and say so of a minimum."""
    signs = np.array([2.0, -4.0])
    found = minimise_on_host(lambda x: (0.5 * (signs * x**2).sum(), signs * x, np.diag(signs)), np.zeros(2))
    assert found.status is Status.saddle
    learnt = minimise_on_host(lambda x: (0.5 * (x**2).sum(), x), np.ones(2))
    assert "a stationary point" in learnt.verdict.sentence


@pytest.mark.parametrize("factor", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("constant", [0.0, 1e10])
def test_constants_and_units_change_no_verdict_on_the_host(factor, constant):
    def moved(x):
        value, slope = bowl(x)
        return factor * (value + constant), factor * slope

    run = minimise_on_host(moved, np.array([8.0, -5.0]), max_steps=80)
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state, [-1.0, 2.0], atol=1e-6)
