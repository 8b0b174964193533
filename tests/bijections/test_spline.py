"""Rational-quadratic splines: knots, tails, the textbook formula, and rounding at extreme slopes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.bijections.coupling import Coupling
from tractable.bijections.spline import RationalQuadraticSpline, SplineFamily

X = np.array([-2.0, -0.5, 0.4, 2.5])
Y = np.array([-3.0, -1.0, 0.8, 1.5])
SLOPES = np.array([0.7, 2.0, 0.3, 1.4])
SPLINE = RationalQuadraticSpline(X, Y, SLOPES)


@jax.jit
def _each(spline, x):
    return jax.vmap(spline.forward_and_log_det)(x)


@jax.jit
def _each_back(spline, y):
    return jax.vmap(spline.inverse_and_log_det)(y)


def _textbook(x):
    """The formula of Gregory and Delbourgo, one point at a time."""
    k = int(np.searchsorted(X, x) - 1)
    w, h = X[k + 1] - X[k], Y[k + 1] - Y[k]
    s, d0, d1, t = h / w, SLOPES[k], SLOPES[k + 1], (x - X[k]) / w
    return Y[k] + h * (s * t**2 + d0 * t * (1 - t)) / (s + (d1 + d0 - 2 * s) * t * (1 - t))


def test_between_knots_it_is_the_textbook_formula():
    points = np.linspace(-1.9, 2.4, 16)
    np.testing.assert_allclose(_each(SPLINE, points)[0], [_textbook(x) for x in points], rtol=1e-13)


def test_knots_are_met_with_their_slopes():
    values, log_slopes = _each(SPLINE, X)
    np.testing.assert_allclose(values, Y, rtol=1e-15)
    np.testing.assert_allclose(log_slopes, np.log(SLOPES), rtol=1e-13, atol=1e-15)
    back, inverse_log_slopes = _each_back(SPLINE, Y)
    np.testing.assert_allclose(back, X, rtol=1e-15)
    np.testing.assert_allclose(inverse_log_slopes, -np.log(SLOPES), rtol=1e-13, atol=1e-15)


def test_value_and_slope_are_continuous_across_knots():
    either_side = np.concatenate([X - 1e-9, X + 1e-9])
    values, log_slopes = _each(SPLINE, either_side)
    np.testing.assert_allclose(values[:4], values[4:], atol=1e-8)
    np.testing.assert_allclose(log_slopes[:4], log_slopes[4:], atol=1e-7)


def test_tails_are_lines():
    points = np.array([-1e6, -2.5, 3.0, 1e6])
    expected = [-3 + 0.7 * (-1e6 + 2), -3 - 0.35, 1.5 + 0.7, 1.5 + 1.4 * (1e6 - 2.5)]
    values, log_slopes = _each(SPLINE, points)
    np.testing.assert_allclose(values, expected, rtol=1e-15)
    np.testing.assert_allclose(log_slopes, np.log([0.7, 0.7, 1.4, 1.4]), rtol=1e-14)
    np.testing.assert_allclose(_each_back(SPLINE, values)[0], points, rtol=1e-14)


@given(st.integers(0, 10_000))
def test_rounding_never_leaves_the_bin(seed):
    rng = np.random.default_rng(seed)
    x_knots, y_knots = (np.cumsum(np.exp(rng.uniform(-3, 3, 4))) for _ in range(2))
    slopes = np.exp(rng.uniform(-12, 12, 4))  # the textbook discriminant goes negative here
    spline = RationalQuadraticSpline(x_knots, y_knots, slopes)
    y = np.sort(np.concatenate([y_knots, rng.uniform(y_knots[0], y_knots[-1], 12)]))
    x, inverse_log_slopes = (np.asarray(r) for r in _each_back(spline, y))
    assert (np.diff(x) >= 0).all()
    assert ((x >= x_knots[0]) & (x <= x_knots[-1])).all()
    again, _ = _each(spline, x)
    slack = 4e-15 * np.maximum(1, np.exp(-inverse_log_slopes)) * np.abs(x_knots).max()
    assert (np.abs(np.asarray(again) - y) <= slack + 1e-13 * np.abs(y)).all()


def test_zeros_of_the_family_are_the_identity():
    family = SplineFamily(bins=4, bound=2.0)
    assert family.num_parameters == 11
    map_ = family(jnp.zeros((5, 11)))
    x = np.array([-3.0, -1.0, 0.1, 1.9, 4.0])
    value, log_det = map_.forward_and_log_det(x)
    np.testing.assert_allclose(value, x, rtol=1e-14)
    np.testing.assert_allclose(log_det, 0.0, atol=1e-13)


def test_a_coupling_of_splines_is_undone():
    layer = Coupling.random(jr.key(0), [True, False, False], family=SplineFamily(3, 2.0), width=4, depth=1)
    x = jnp.asarray([0.3, 1.2, -5.0])
    (y, log_det), (back, inverse_log_det) = jax.jit(
        lambda c, x: (c.forward_and_log_det(x), c.inverse_and_log_det(c.forward(x)))
    )(layer, x)
    np.testing.assert_allclose(back, x, rtol=1e-13)
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-12)
    assert float(y[0]) == 0.3
    assert float(y[2]) == -5.0  # outside the splines the map is the identity
    assert abs(float(y[1]) - 1.2) > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: RationalQuadraticSpline([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]),
            r"`x_knots` must be finite and strictly increasing",
        ),
        (
            lambda: RationalQuadraticSpline([0.0, 1.0], [0.0, 1.0], [1.0, -1.0]),
            r"`slopes` must be positive and finite; got -1.0",
        ),
        (
            lambda: RationalQuadraticSpline([0.0], [0.0], [1.0]),
            r"`x_knots` must be at least two knots; got 1",
        ),
        (lambda: SplineFamily(bins=0), r"`bins` must be at least 1"),
        (lambda: SplineFamily(bins=4, floor=0.5), r"`floor` must be between 0 and 1/bins"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
