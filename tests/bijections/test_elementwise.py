"""Elementwise maps against high-precision arithmetic, far into both tails, and their images of intervals."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.bijections.base import Image
from tractable.bijections.elementwise import (
    Affine,
    Exp,
    GumbelMap,
    Log,
    Logit,
    Negate,
    NegativeLog,
    Power,
    Sigmoid,
    Softplus,
    Tanh,
)
from tractable.bijections.interval import OntoInterval
from tractable.bijections.monotone import ends
from tractable.core.support import Interval, nonnegative, positive, real, simplex, unit_interval

DIGITS = mp.mp.dps = 400  # 1 - tanh(400) is 1e-347


def _logistic(x):
    return 1 / (1 + mp.exp(-x))


# The map, the function and its derivative in closed form, and arguments where float formulas break.
EXTREMES = {
    "Affine": (
        Affine(1e3, -1e-3),
        lambda x: 1000 - mp.mpf(1e-3) * x,
        lambda x: -mp.mpf(1e-3),
        [-1e12, 0.0, 1e12],
    ),
    "Exp": (Exp(), mp.exp, mp.exp, [-700.0, -1e-12, 0.0, 700.0]),
    "Log": (Log(), mp.log, lambda x: 1 / x, [1e-300, 1.0, 1e300]),
    "NegativeLog": (NegativeLog(), lambda x: -mp.log(x), lambda x: -1 / x, [1e-300, 0.5, 1.0, 1e300]),
    "Sigmoid": (
        Sigmoid(),
        _logistic,
        lambda x: _logistic(x) * _logistic(-x),
        [-700.0, -40.0, 0.0, 40.0, 700.0],
    ),
    "Logit": (
        Logit(),
        lambda p: mp.log(p / (1 - p)),
        lambda p: 1 / (p * (1 - p)),
        [1e-300, 0.5, 1 - 2.0**-53],
    ),
    "Softplus": (Softplus(), lambda x: mp.log1p(mp.exp(x)), _logistic, [-700.0, -40.0, 0.0, 40.0, 1e10]),
    "Tanh": (Tanh(), mp.tanh, lambda x: mp.sech(x) ** 2, [-300.0, -1e-9, 1e-9, 15.0, 300.0]),
    "Power": (Power(-3.0), lambda x: x**-3, lambda x: -3 * x**-4, [1e-90, 1.0, 1e60]),
    "GumbelMap": (
        GumbelMap(2.0, 3.0),
        lambda u: 2 - 3 * mp.log(-mp.log(u)),
        lambda u: -3 / (u * mp.log(u)),
        [1e-300, 0.5, 1 - 2.0**-53],
    ),
    "OntoInterval from the upper end": (
        OntoInterval(-1.0, 0.0),
        lambda x: -_logistic(-x),
        lambda x: _logistic(x) * _logistic(-x),
        [-1.0, 40.0, 700.0],
    ),
    "OntoInterval without an upper end": (
        OntoInterval(0.0, np.inf),
        mp.exp,
        mp.exp,
        [-700.0, 0.0, 700.0],
    ),
}

# The same for the inverse, as a function of the value.
BACKWARDS = {
    "Exp": (Exp(), mp.log, lambda y: 1 / y, [1e-300, 0.5, 1e300]),
    "NegativeLog": (NegativeLog(), lambda y: mp.exp(-y), lambda y: -mp.exp(-y), [-700.0, 1e-9, 700.0]),
    "Sigmoid": (
        Sigmoid(),
        lambda p: mp.log(p / (1 - p)),
        lambda p: 1 / (p * (1 - p)),
        [1e-300, 0.25, 1 - 2.0**-53],
    ),
    "Softplus": (
        Softplus(),
        lambda y: mp.log(mp.expm1(y)),
        lambda y: mp.exp(y) / mp.expm1(y),
        [1e-300, 1e-9, 0.5, 2.0, 1e5],
    ),
    "Tanh": (Tanh(), mp.atanh, lambda y: 1 / (1 - y * y), [-1 + 2.0**-53, -1e-9, 0.5, 1 - 2.0**-53]),
    "Power": (
        Power(-3.0),
        lambda y: y ** (-mp.mpf(1) / 3),
        lambda y: -(y ** (-mp.mpf(4) / 3)) / 3,
        [1e-20, 1.5, 1e20],
    ),
    "GumbelMap": (
        GumbelMap(0.0, 2.0),
        lambda y: mp.exp(-mp.exp(-y / 2)),
        lambda y: mp.exp(-y / 2 - mp.exp(-y / 2)) / 2,
        [-8.0, 0.0, 90.0],
    ),
    "OntoInterval": (
        OntoInterval(-1.0, 0.0),
        lambda y: mp.log((y + 1) / -y),
        lambda y: -1 / (y * (y + 1)),
        [-1 + 2.0**-53, -0.25, -1e-300],
    ),
}

every = pytest.mark.parametrize("name", EXTREMES)


def _at_each(bijection, x):
    return jax.jit(jax.vmap(lambda b, t: b.forward_and_log_det(t), (None, 0)))(bijection, jnp.asarray(x))


def _back_at_each(bijection, y):
    return jax.jit(jax.vmap(lambda b, t: b.inverse_and_log_det(t), (None, 0)))(bijection, jnp.asarray(y))


@every
def test_values_and_slopes_agree_with_high_precision(name):
    bijection, function, derivative, points = EXTREMES[name]
    values, log_slopes = _at_each(bijection, points)
    np.testing.assert_allclose(values, [float(function(mp.mpf(x))) for x in points], rtol=4e-15)
    expected = [float(mp.log(abs(derivative(mp.mpf(x))))) for x in points]
    np.testing.assert_allclose(log_slopes, expected, rtol=4e-15, atol=1e-15)


@pytest.mark.parametrize("name", BACKWARDS)
def test_arguments_and_inverse_slopes_agree_with_high_precision(name):
    bijection, function, derivative, points = BACKWARDS[name]
    values, log_slopes = _back_at_each(bijection, points)
    np.testing.assert_allclose(values, [float(function(mp.mpf(y))) for y in points], rtol=4e-15)
    expected = [float(mp.log(abs(derivative(mp.mpf(y))))) for y in points]
    np.testing.assert_allclose(log_slopes, expected, rtol=4e-15, atol=1e-15)


def test_round_trip_keeps_the_distance_to_the_nearer_end():
    interval = OntoInterval(-1.0, 0.0)
    x = np.array([-30.0, -5.0, 5.0, 500.0])
    np.testing.assert_allclose(_back_at_each(interval, _at_each(interval, x)[0])[0], x, rtol=1e-3)
    np.testing.assert_allclose(_back_at_each(interval, _at_each(interval, x[2:])[0])[0], x[2:], rtol=1e-14)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.booleans())
def test_affine_round_trip(x, scale, falls):
    map_ = Affine(3.0, -scale if falls else scale)
    y, log_det = map_.forward_and_log_det(x)
    np.testing.assert_allclose(map_.inverse(y), x, rtol=1e-9, atol=1e-9 / scale)
    np.testing.assert_allclose(log_det, np.log(scale), rtol=1e-12, atol=1e-15)


def test_log_det_adds_over_entries():
    x = np.array([[0.1, 2.0], [-1.0, 0.3]])
    assert float(Exp().forward_and_log_det(x)[1]) == pytest.approx(x.sum(), rel=1e-15)


@pytest.mark.parametrize(
    ("bijection", "start", "image"),
    [
        (Exp(), real, positive),
        (Log(), positive, real),
        (NegativeLog(), unit_interval, nonnegative),
        (Negate(), real, real),
        (Negate(), positive, Interval(-np.inf, 0.0)),
        (Affine(0.0, 2.0), positive, positive),
        (Affine(1.0, -2.0), unit_interval, Interval(-1.0, 1.0)),
        (Affine(1.0, -2.0).inverted, Interval(-1.0, 1.0), unit_interval),
        (Affine(1.0, 2.0) >> Exp(), real, positive),
        (Exp() >> Affine(1.0, -2.0), real, Interval(-np.inf, 1.0)),
        (Sigmoid(), real, unit_interval),
        (Tanh(), positive, unit_interval),
        (Power(-1.0), Interval(0.5, 2.0), Interval(0.5, 2.0)),
        (GumbelMap(), unit_interval, real),
        (OntoInterval(2.0, 3.0), real, Interval(2.0, 3.0)),
    ],
)
def test_image_of_an_interval_is_the_interval_of_its_ends(bijection, start, image):
    found, inside_jit = bijection.image(start), jax.jit(lambda b: b.image(start))(bijection)
    assert type(found) is type(image)
    expected = ends(image)
    assert expected is not None
    for support in (found, inside_jit):  # a compiled program may know the ends only as numbers
        np.testing.assert_allclose(ends(support)[:2], expected[:2], atol=1e-15)


def test_image_of_another_set_is_judged_by_going_back():
    halved = Affine(0.0, 0.5).image(simplex)
    assert isinstance(halved, Image)
    exponentials = Image(simplex, Exp(), 1)
    inside, outside = np.exp([0.2, 0.3, 0.5]), np.exp([0.2, 0.3, 0.6])
    np.testing.assert_array_equal(
        exponentials.contains(np.stack([inside, outside, -inside])), [True, False, False]
    )
    assert bool(exponentials.contains(exponentials.interior(inside)))


def test_a_direction_follows_the_sign():
    np.testing.assert_array_equal(Affine(0.0, [1.0, -1.0]).increasing, [True, False])
    assert bool((Negate() >> Affine(0.0, -2.0)).increasing)
    assert not bool((Negate() >> Exp()).increasing)
    assert not bool(Negate().inverted.increasing)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Affine(0.0, [1.0, 0.0]), r"`scale` must be different from zero; got 0.0 at index 1"),
        (lambda: Affine(np.nan, 1.0), r"`loc` must be finite; got nan"),
        (lambda: Power(0.0), r"`exponent` must be different from zero"),
        (lambda: GumbelMap(0.0, -1.0), r"`scale` must be positive and finite; got -1.0"),
        (lambda: OntoInterval(1.0, 0.0), r"`low` must be below `high`"),
        (
            lambda: Affine(np.zeros(3), 1.0).forward(0.0),
            r"`x` must be an array to whose shape the parameters' \(3,\)",
        ),
        (
            lambda: Affine(np.zeros(3), 1.0).inverse(np.zeros(2)),
            r"`y` must be an array to whose shape the parameters' \(3,\) broadcasts; got shape \(2,\)",
        ),
        (lambda: Exp().forward(np.array(["one"])), r"`x` must be a real number or an array of real numbers"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_float32_stays_float32():
    for bijection in (Exp(), Sigmoid(), Tanh(), Softplus(), NegativeLog()):
        y, log_det = bijection.forward_and_log_det(jnp.asarray([0.5, 2.0], jnp.float32))
        assert y.dtype == log_det.dtype == jnp.float32


def test_derivatives_of_the_slope_exist_at_the_origin():
    second = jax.grad(jax.grad(lambda x: Tanh().forward_and_log_det(x)[1]))(0.0)
    assert float(second) == pytest.approx(-2.0, rel=1e-14)  # (log sech^2)'' at zero


def test_nan_and_points_off_the_domain_stay_nan():
    assert np.isnan(Exp().forward(np.nan))
    assert np.isnan(Log().forward(-1.0))
