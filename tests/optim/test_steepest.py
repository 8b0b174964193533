"""The steepest direction: search against formula, and the line that misses the minimum."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.optim.steepest import distance_to_line, steepest_direction


def valley(x, scales):
    return jnp.sum(scales * x**2)


def test_search_over_unit_directions_finds_the_negative_gradient():
    report = steepest_direction(valley, np.array([1.0, 3.0]), args=(jnp.array([2.0, 0.5]),))
    gradient = np.array([4.0, 3.0])  # (2 a x, 2 b y)
    np.testing.assert_allclose(report.predicted, -gradient / 5, rtol=1e-14)
    np.testing.assert_allclose(report.found, -gradient / 5, atol=2 * np.pi / 10_000)
    assert report.angle < 2 * np.pi / 10_000
    assert "angle" in repr(report)


def test_random_directions_come_close_in_more_dimensions():
    point, scales = np.array([1.0, -2.0, 0.5]), jnp.array([1.0, 2.0, 3.0])
    report = steepest_direction(valley, point, args=(scales,), key=jr.key(0), num_directions=40_000)
    # a cap of angle r holds the share r^2/4 of the sphere: here nine directions on average
    assert report.angle < 0.03


@pytest.mark.parametrize(
    ("a", "b", "point", "meets"),
    [
        (2.0, 2.0, (1.0, 3.0), True),
        (2.0, 0.5, (0.0, 3.0), True),
        (2.0, 0.5, (1.0, 0.0), True),
        (2.0, 0.5, (1.0, 3.0), False),
    ],
)
def test_line_of_steepest_descent_meets_the_origin_only_on_circles_and_axes(a, b, point, meets):
    x, y = point
    distance = distance_to_line(point, (-2 * a * x, -2 * b * y), (0.0, 0.0))
    # from 2 a x0 (y - y0) = 2 b y0 (x - x0): the distance of the origin from that line
    expected = abs(2 * a * x * -y - 2 * b * y * -x) / np.hypot(2 * a * x, 2 * b * y)
    np.testing.assert_allclose(distance, expected, atol=1e-14)
    assert (float(distance) < 1e-12) is meets


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match="`key` must be given in more than two dimensions; got None"):
        steepest_direction(jnp.sum, np.ones(3))
    with pytest.raises(ValueError, match="`point` must be of at least two entries; got 1"):
        steepest_direction(jnp.sum, np.ones(1))
    with pytest.raises(ValueError, match=r"`point` must be of shape \(any,\); got shape \(2, 2\)"):
        steepest_direction(jnp.sum, np.ones((2, 2)))
