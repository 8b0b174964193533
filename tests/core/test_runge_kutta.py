"""Explicit Runge-Kutta steps against printed numbers, their orders, and their stability."""

import numpy as np
import pytest

from tractable.core.runge_kutta import TABLEAUS, runge_kutta_step, stability_factor


def walked(method, steps, field=lambda t, y: y, end=1.0):
    y, h = np.ones(()), end / steps
    path = [float(y)]
    for k in range(steps):
        y = runge_kutta_step(field, k * h, y, h, method)
        path.append(float(y))
    return path


def test_growth_by_the_printed_numbers():
    euler, classic = walked("euler", 10), walked("rk4", 10)
    np.testing.assert_allclose(euler[1:4], [1.1, 1.21, 1.331], rtol=1e-14)
    assert abs(euler[10] - 2.5937424601) < 1e-10
    assert abs(classic[1] - 1.1051708333) < 1e-10
    assert abs(classic[3] - 1.3498584971) < 1e-10


@pytest.mark.cheap
@pytest.mark.parametrize("method", TABLEAUS)
def test_the_error_falls_with_the_order_of_the_rule(method):
    # dy/dt = -2 t y^2 has y = 1 / (1 + t^2): neither linear nor free of time
    ends = [walked(method, steps, lambda t, y: -2 * t * y**2)[-1] for steps in (40, 80)]
    first, second = (abs(end - 0.5) for end in ends)
    assert abs(np.log2(first / second) - TABLEAUS[method].order) < 0.15


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("method", "edge"), [("euler", -2.0), ("midpoint", -2.0), ("heun", -2.0), ("rk4", -2.785293563405282)]
)
def test_stability_ends_where_theory_says(method, edge):
    z = np.array([edge + 1e-6, edge - 1e-6])
    inside, outside = np.abs(stability_factor(z, method))
    assert inside < 1 < outside
    # the factor is the rule's own matrix form 1 + z b'(I - zA)^-1 1, also for complex z
    rule, point = TABLEAUS[method], -0.3 + 1.1j
    size = len(rule.weights)
    A = np.zeros((size, size))
    for i, row in enumerate(rule.stages):
        A[i, : len(row)] = row
    wanted = 1 + point * np.array(rule.weights) @ np.linalg.solve(np.eye(size) - point * A, np.ones(size))
    np.testing.assert_allclose(stability_factor(point, method), wanted, rtol=1e-14)
    # the path itself falls or grows accordingly
    assert abs(walked(method, 40, lambda t, y: -y, end=40 * (-edge - 0.1))[-1]) < 1
    assert abs(walked(method, 40, lambda t, y: -y, end=40 * (-edge + 0.1))[-1]) > 1


def test_steps_take_trees_and_name_a_wrong_method():
    state = {"angle": np.array([1.0]), "speed": np.array([0.0])}
    turned = runge_kutta_step(lambda t, s: {"angle": s["speed"], "speed": -s["angle"]}, 0.0, state, 0.1)
    np.testing.assert_allclose(turned["angle"], np.cos(0.1), atol=1e-7)
    with pytest.raises(ValueError, match="`method` must be one of 'euler'"):
        runge_kutta_step(lambda t, y: y, 0.0, 1.0, 0.1, "rk5")
