"""Scalar functions against mpmath at the extremes, gradients, worked numbers, and codes of labels."""

import math

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given

from tractable.core import numerics as nm

DIGITS = mp.mp.dps = 50
EXTREMES = [-1e3, -700.0, -50.0, -1.0, -1e-12, 0.0, 1e-12, 1.0, 36.0, 50.0, 700.0, 1e3]


def exact(function, values):
    return np.array([float(function(mp.mpf(float(v)))) for v in values])


def mp_sigmoid(x):
    return 1 / (1 + mp.exp(-x))


@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        (nm.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x))),
        (nm.softplus, lambda x: mp.log1p(mp.exp(x))),
        (nm.sigmoid, mp_sigmoid),
        (nm.sigmoid_derivative, lambda x: mp_sigmoid(x) * mp_sigmoid(-x)),
    ],
)
def test_sigmoid_family_at_extremes(function, oracle):
    x = np.array(EXTREMES)
    expected = exact(oracle, x)
    np.testing.assert_allclose(function(x), expected, rtol=1e-13, atol=1e-300)


def test_sigmoid_worked_numbers_and_symmetry():
    np.testing.assert_allclose(nm.sigmoid(jnp.array([1.0, 3.0, 5.0])), [0.73106, 0.95257, 0.99331], atol=5e-6)
    x = np.linspace(-30, 30, 61)
    np.testing.assert_allclose(nm.sigmoid(-x), 1 - np.asarray(nm.sigmoid(x)), atol=1e-15)
    p = np.asarray(nm.sigmoid(x[20:41]))
    np.testing.assert_allclose(nm.sigmoid_derivative(x[20:41]), p * (1 - p), rtol=1e-11)


def test_logit_keeps_its_digits_at_both_ends_and_in_the_middle():
    p = np.array([1e-300, 1e-20, 0.1, 0.25, 0.5 - 1e-13, 0.5, 0.5 + 1e-13, 0.75, 0.9, 1 - 1e-15])
    expected = exact(lambda q: mp.log(q) - mp.log(1 - q), p)
    np.testing.assert_allclose(nm.logit(p), expected, rtol=2e-14)
    np.testing.assert_array_equal(nm.logit(np.array([0.0, 1.0])), [-np.inf, np.inf])
    assert np.isnan(nm.logit(np.array([-0.1, 1.1]))).all()
    np.testing.assert_allclose(jax.vmap(jax.grad(nm.logit))(p[2:9]), 1 / (p * (1 - p))[2:9], rtol=1e-13)


@given(st.floats(-30, 30))
def test_logit_inverts_sigmoid(x):
    np.testing.assert_allclose(nm.logit(nm.sigmoid(x)), x, rtol=1e-12, atol=1e-14 * math.exp(abs(x)))


def test_odds():
    np.testing.assert_allclose(nm.odds(np.array([0.0, 0.25, 0.5, 0.8])), [0, 1 / 3, 1, 4], rtol=1e-15)
    assert nm.odds(1.0) == np.inf


@pytest.mark.parametrize("x", [1e-300, 1e-20, 1e-8, 0.5, math.log(2), 1.0, 50.0, 800.0])
def test_log1mexp_and_inverse_softplus(x):
    np.testing.assert_allclose(nm.log1mexp(x), exact(lambda v: mp.log(-mp.expm1(-v)), [x])[0], rtol=1e-14)
    np.testing.assert_allclose(
        nm.inverse_softplus(x), exact(lambda v: mp.log(mp.expm1(v)), [x])[0], rtol=1e-13, atol=1e-16
    )


def test_log1mexp_at_its_ends():
    assert nm.log1mexp(0.0) == -np.inf
    assert nm.log1mexp(np.inf) == 0.0
    assert np.isnan(nm.log1mexp(-1.0))


def test_softplus_round_trip():
    y = np.array([1e-10, 0.3, 5.0, 900.0])
    np.testing.assert_allclose(nm.softplus(nm.inverse_softplus(y)), y, rtol=1e-13)


def test_logdiffexp():
    a, b = np.array([1000.0, -1000.0, 0.0, 0.0, 5.0]), np.array([999.0, -1001.0, -1e-12, -np.inf, 5.0])
    expected = np.array([float(mp.log(mp.exp(mp.mpf(i)) - mp.exp(mp.mpf(j)))) for i, j in zip(a[:4], b[:4])])
    np.testing.assert_allclose(nm.logdiffexp(a, b)[:4], expected, rtol=1e-13)
    assert nm.logdiffexp(a, b)[4] == -np.inf
    assert np.isnan(nm.logdiffexp(1.0, 2.0))
    gradient = jax.grad(nm.logdiffexp, (0, 1))(2.0, -np.inf)
    np.testing.assert_allclose(gradient, [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("temperature", "expected", "digits"),
    [
        (1.0, [0.09003057, 0.24472847, 0.66524096], 5e-9),
        (0.5, [0.01587624, 0.11731043, 0.86681333], 5e-9),
        (0.1, [0.0, 0.0000454, 0.9999546], 5e-8),
        (0.0, [0.0, 0.0, 1.0], 0.0),
    ],
)
def test_softmax_with_temperature_worked_numbers(temperature, expected, digits):
    np.testing.assert_allclose(nm.softmax(jnp.array([1.0, 2.0, 3.0]), temperature), expected, atol=digits)


def test_softmax_goes_to_the_one_hot_code_of_the_largest():
    x = jnp.array([0.3, 2.0, 1.9])
    for temperature in (1e-3, 1e-10, 1e-300, 0.0):
        np.testing.assert_allclose(nm.softmax(x, temperature), [0.0, 1.0, 0.0], atol=1e-40)
    np.testing.assert_allclose(nm.softmax(jnp.array([1.0, 1.0, 0.0]), 0.0), [0.5, 0.5, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(nm.log_softmax(x, 0.0), [-np.inf, 0.0, -np.inf])


def test_softmax_does_not_overflow():
    x = jnp.array([1e3, -1e3, 999.0])
    expected = [float(mp.exp(v) / (mp.exp(1000) + mp.exp(-1000) + mp.exp(999))) for v in (1000, -1000, 999)]
    np.testing.assert_allclose(nm.softmax(x), expected, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(nm.log_softmax(x)[1], -2000 - math.log1p(math.exp(-1)), rtol=1e-15)
    np.testing.assert_allclose(nm.logsumexp(x), 1000 + math.log1p(math.exp(-1)), rtol=1e-15)


def test_softmax_gradients_are_finite_and_right():
    x = jnp.array([1e3, -np.inf, 999.0])
    jacobians = jax.jit(jax.jacobian(nm.softmax, (0, 1)))
    for temperature in (2.0, 0.0):
        for jacobian in jacobians(x, temperature):
            assert np.isfinite(jacobian).all()
    p = np.asarray(nm.softmax(jnp.array([1.0, 2.0, 3.0])))
    jacobian, _ = jacobians(jnp.array([1.0, 2.0, 3.0]), 1.0)
    np.testing.assert_allclose(jacobian, np.diag(p) - np.outer(p, p), atol=1e-16)


def test_softmax_edge_cases():
    with pytest.raises(ValueError, match=r"`temperature` must be zero or positive; got -1\.0"):
        nm.softmax(jnp.ones(2), -1.0)
    assert np.isnan(nm.softmax(jnp.array([np.nan, 1.0]))).all()
    assert np.isnan(nm.softmax(jnp.array([-np.inf, -np.inf]))).all()
    table = jnp.array([[0.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(nm.softmax(table, axis=0).sum(0), [1.0, 1.0], rtol=1e-15)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_softmax_is_a_distribution_that_ignores_shifts(x, shift, temperature):
    p = np.asarray(nm.softmax(np.array(x), temperature))
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)
    moved = np.asarray(nm.softmax(np.array(x) + shift, temperature))
    np.testing.assert_allclose(moved, p, atol=1e-12 * (1 + 2e3 / temperature))


def test_weighted_sums_in_log_space():
    x, w = np.array([-1000.0, -1001.0, np.nan]), np.array([2.0, 3.0, 0.0])
    total = float(mp.log(2 * mp.exp(-1000) + 3 * mp.exp(-1001)))
    np.testing.assert_allclose(nm.weighted_logsumexp(x, w), total, rtol=1e-15)
    np.testing.assert_allclose(nm.log_mean_exp(x, w), total - math.log(5), rtol=1e-15)
    np.testing.assert_allclose(
        nm.log_mean_exp(x[:2]), float(mp.log((mp.exp(-1000) + mp.exp(-1001)) / 2)), rtol=1e-15
    )
    table = np.array([[800.0, 802.0], [-5.0, -5.0]])
    np.testing.assert_allclose(nm.log_mean_exp(table, axis=1), [801 + math.log(math.cosh(1)), -5], rtol=1e-14)
    assert nm.weighted_logsumexp(np.zeros(2), np.zeros(2)) == -np.inf
    gradient = jax.grad(nm.weighted_logsumexp)(jnp.asarray(x), jnp.asarray(w))
    np.testing.assert_allclose(
        gradient, [2 / (2 + 3 / math.e), 3 / math.e / (2 + 3 / math.e), 0.0], rtol=1e-12
    )


def test_safe_log_and_safe_where():
    np.testing.assert_array_equal(nm.safe_log(np.array([0.0, 1.0])), [-np.inf, 0.0])
    assert np.isnan(nm.safe_log(-1.0))
    assert np.isnan(nm.safe_log(np.nan))
    assert jax.grad(nm.safe_log)(0.0) == 0.0
    assert jax.grad(lambda x: nm.safe_where(x > 0, jnp.sqrt, x, 0.0))(0.0) == 0.0


def test_gamma_by_quadrature_recursion_and_logarithm_agree():
    x = np.array([0.2, 0.5, 1.0, 1.5, 3.7, 10.0, 60.0, 170.0])
    expected = exact(mp.gamma, x)
    np.testing.assert_allclose(nm.gamma_integral(x), expected, rtol=1e-13)
    np.testing.assert_allclose(nm.gamma(x), expected, rtol=1e-12)
    np.testing.assert_allclose(nm.log_gamma(x), exact(mp.loggamma, x), rtol=1e-14, atol=1e-15)
    recursive = (x[3:] - 1) * np.asarray(nm.gamma(x[3:] - 1))
    np.testing.assert_allclose(nm.gamma(x[3:]), recursive, rtol=1e-12)
    assert nm.gamma_integral(1.0) == pytest.approx(1.0, rel=1e-14)


def test_factorials_are_exact():
    n = np.array([0, 1, 5, 20, 22, 170, 171])
    expected = [
        1.0,
        1.0,
        120.0,
        float(math.factorial(20)),
        float(math.factorial(22)),
        float(math.factorial(170)),
        np.inf,
    ]
    np.testing.assert_array_equal(nm.factorial(n), expected)
    assert np.isnan(nm.factorial(np.array([-1.0, 0.5]))).all()
    np.testing.assert_allclose(nm.log_factorial(n[:6]), np.log(expected[:6]), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(nm.gamma_integral(n[1:4].astype(float)), nm.factorial(n[1:4] - 1), rtol=1e-13)


def test_one_hot_round_trip():
    labels = jnp.array([2, 0, 1, 2])
    codes = nm.one_hot(labels, 3)
    np.testing.assert_array_equal(codes, np.eye(3)[np.asarray(labels)])
    np.testing.assert_array_equal(nm.from_one_hot(codes), labels)
    np.testing.assert_array_equal(jax.jit(nm.one_hot, static_argnums=1)(labels, 3), codes)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: nm.one_hot(jnp.array([0, 3]), 3),
            ValueError,
            "`labels` must be from 0 to 2; got 3 at index 1",
        ),
        (lambda: nm.one_hot(jnp.array([-1]), 3), ValueError, "got -1 at index 0"),
        (
            lambda: nm.one_hot(jnp.array([0.5]), 3),
            TypeError,
            "whole numbers of an integer dtype; got dtype float64",
        ),
        (
            lambda: nm.one_hot(jnp.array([0]), 0),
            ValueError,
            "`num_classes` must be a whole number of at least 1",
        ),
        (
            lambda: nm.from_one_hot(jnp.array([[1.0, 1.0]])),
            ValueError,
            "`codes` must be zeros with a single one",
        ),
        (
            lambda: nm.binary_to_sign(jnp.array([0, 2])),
            ValueError,
            "`labels` must be 0 or 1; got 2 at index 1",
        ),
        (lambda: nm.sign_to_binary(jnp.array([0])), ValueError, r"`signs` must be -1 or \+1; got 0"),
        (
            lambda: nm.label_codes(["a"], ["b"]),
            ValueError,
            r"`labels` must be among the classes \['b'\]; got 'a'",
        ),
        (lambda: nm.label_codes(["a"], ["a", "a"]), ValueError, "`classes` must be without repeats"),
        (lambda: nm.label_codes([1.0, np.nan]), ValueError, "`labels` must be without NaN"),
    ],
)
def test_bad_labels_are_refused_by_name(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_sign_codes_and_named_classes():
    np.testing.assert_array_equal(nm.binary_to_sign(jnp.array([0, 1, 1])), [-1.0, 1.0, 1.0])
    np.testing.assert_array_equal(nm.sign_to_binary(jnp.array([-1, 1, 1])), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(nm.binary_to_sign(jnp.array([True, False])), [1.0, -1.0])
    classes, codes = nm.label_codes(["dog", "cat", "dog"])
    assert classes.tolist() == ["cat", "dog"]
    np.testing.assert_array_equal(nm.one_hot(codes, 2), [[0, 1], [1, 0], [0, 1]])
    classes, codes = nm.label_codes([[3], [1]], [3, 2, 1])
    assert (classes.tolist(), codes.tolist()) == ([3, 2, 1], [[0], [2]])


def test_gradients_are_finite_at_extremes():
    functions = [
        nm.sigmoid,
        nm.log_sigmoid,
        nm.softplus,
        nm.sigmoid_derivative,
        nm.logsumexp,
        nm.log_mean_exp,
    ]
    gradients = jax.jit(lambda x: [jax.vmap(jax.grad(function))(x) for function in functions])
    assert np.isfinite(gradients(jnp.array(EXTREMES))).all()
