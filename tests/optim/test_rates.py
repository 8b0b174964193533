"""Rates: bounds that hold on runs, and rates that are known in closed form."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.optim.gradient import GradientDescent
from tractable.optim.minimise import trajectory
from tractable.optim.rates import (
    descent_bound,
    fit_linear_rate,
    fit_power,
    linear_bound,
    stochastic_rate,
    verify_descent,
)
from tractable.optim.schedules import inverse_time

SCALES = np.array([0.5, 2.0, 4.0])
START = np.array([1.0, -2.0, 1.5])


def quadratic(x):
    return 0.5 * jnp.sum(SCALES * x**2)


def isotropic(x):
    return 1.5 * x @ x  # L ||x||^2 / 2 with L = 3


def isotropic_values(step):
    return np.asarray(trajectory(isotropic, START, GradientDescent(step), num_steps=40).values)


def test_half_the_inverse_smoothness_quarters_the_isotropic_quadratic():
    values = isotropic_values(1 / 6)
    np.testing.assert_allclose(values[1:21], values[0] * 0.25 ** np.arange(1, 21), rtol=1e-12)


def test_twice_the_inverse_smoothness_stagnates_and_more_diverges():
    np.testing.assert_allclose(isotropic_values(2 / 3), isotropic_values(2 / 3)[0], rtol=1e-12)
    assert (np.diff(isotropic_values(0.68)) > 0).all()
    assert (np.diff(isotropic_values(0.65)) < 0).all()


def test_bound_values():
    np.testing.assert_allclose(descent_bound(2.0, 0.25, 3, smoothness=2.0), [16.0, 8.0, 16 / 3], rtol=1e-15)
    np.testing.assert_allclose(descent_bound(2.0, 0.5, 2, smoothness=2.0, tight=True), [4.0, 2.0], rtol=1e-15)
    bound = linear_bound(3.0, 2, smoothness=4.0, strong_convexity=1.0)
    np.testing.assert_allclose(bound, [2.25, 27 / 16], rtol=1e-15)


@pytest.mark.parametrize("step", [0.125, 0.05, 0.25])
def test_quadratic_obeys_every_bound(step):
    report = verify_descent(quadratic, START, np.zeros(3), smoothness=4.0, step=step, num_steps=60)
    assert report.holds
    assert "every bound holds" in repr(report)
    values = [0.5 * np.sum(SCALES * (START * (1 - step * SCALES) ** t) ** 2) for t in range(1, 61)]
    np.testing.assert_allclose(report.gaps, values, rtol=1e-10)


def test_logistic_loss_obeys_the_bound():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 3))
    labels = (generator.uniform(size=40) < 0.5).astype(float)

    def loss(w):
        z = features @ w
        return jnp.sum(jnp.logaddexp(0.0, z) - labels * z)

    w = np.zeros(3)
    for _ in range(30):  # Newton, independently
        p = 1 / (1 + np.exp(-features @ w))
        w = w - np.linalg.solve((features.T * p * (1 - p)) @ features, features.T @ (p - labels))
    smoothness = 0.25 * np.linalg.norm(features, 2) ** 2
    report = verify_descent(loss, np.ones(3), w, smoothness=float(smoothness), num_steps=60)
    assert report.holds
    assert (report.step_slack > -report.tol).all()
    assert report.gaps[-1] < report.bounds["1/t bound"][-1]


def test_linear_rate_of_a_strongly_convex_quadratic():
    report = verify_descent(quadratic, START, np.zeros(3), smoothness=4.0, strong_convexity=0.5, num_steps=60)
    assert report.holds
    assert set(report.bounds) == {"1/t bound", "linear bound"}
    # the slowest component shrinks by (1 - mu/L) a step, the gap by its square: below the bound's 1 - mu/L
    np.testing.assert_allclose(report.rate, (1 - 0.5 / 4.0) ** 2, rtol=1e-4)
    assert report.rate < 1 - 0.5 / 4.0


def test_a_wrong_constant_breaks_a_bound_and_says_so():
    report = verify_descent(quadratic, START, np.zeros(3), smoothness=4.0, strong_convexity=2.5, num_steps=60)
    assert not report.holds
    assert "A BOUND IS BROKEN" in repr(report)


def test_each_step_inequality_fails_for_a_point_that_is_no_minimum():
    report = verify_descent(quadratic, START, START * 1.5, smoothness=4.0, num_steps=20)
    assert not report.holds


def test_fits_recover_exact_rates():
    np.testing.assert_allclose(fit_linear_rate(3 * 0.8 ** np.arange(50)), 0.8, rtol=1e-12)
    noisy_end = np.r_[3 * 0.5 ** np.arange(60), np.full(40, 1e-17)]
    np.testing.assert_allclose(fit_linear_rate(noisy_end), 0.5, rtol=1e-6)
    assert np.isnan(fit_linear_rate([1.0, 0.0]))
    times = np.arange(1, 40)
    fit = fit_power(times, 5 * times**-0.75)
    np.testing.assert_allclose(fit.slope, -0.75, rtol=1e-12)
    assert fit.standard_error < 1e-12


def exact_distance(scales, start, schedule, num_steps, noise=1.0):
    """The second moment of each coordinate obeys m' = (1 - a c)^2 m + a^2 s^2."""
    moments, out = start**2, []
    for t in range(num_steps):
        a = schedule(t)
        moments = (1 - a * scales) ** 2 * moments + a**2 * noise**2
        out.append(moments.sum())
    return np.array(out)


def test_stochastic_gradients_follow_the_exact_moments_and_the_inverse_root():
    scales = np.array([0.5, 1.0])
    found = stochastic_rate(scales, key=jr.key(0), num_steps=2000, num_runs=400)
    exact = exact_distance(scales, np.ones(2), lambda t: (t + 1) ** -0.5, 2000)
    at = [0, 10, 100, 500, 1999]
    z = (np.asarray(found.squared_distance) - exact)[at] / np.asarray(found.standard_error)[at]
    assert np.abs(z).max() < 5
    # The stationary level is a_t/(2c): E|x|^2 ~ t^(-1/2)
    times = np.unique(np.geomspace(200, 2000, 40).astype(int))
    np.testing.assert_allclose(fit_power(times, exact[times - 1]).slope, -0.5, atol=0.02)
    np.testing.assert_allclose(found.fit.slope, -0.5, atol=0.08)
    assert "slope=-0." in repr(found)


def test_inverse_time_gives_the_faster_rate():
    found = stochastic_rate(
        np.array([1.0, 2.0]), inverse_time(2.0, 4.0), key=jr.key(1), num_steps=2000, num_runs=400
    )
    np.testing.assert_allclose(found.fit.slope, -1.0, atol=0.08)


def test_bad_constants_are_refused():
    with pytest.raises(ValueError, match=r"`step` must be positive and at most 1/\(2L\) = 0.25; got 0.3"):
        descent_bound(1.0, 0.3, 5, smoothness=2.0)
    with pytest.raises(ValueError, match=r"`step` must be positive and at most 1/L = 0.5; got 0.6"):
        descent_bound(1.0, 0.6, 5, smoothness=2.0, tight=True)
    with pytest.raises(ValueError, match="`strong_convexity` must be positive and at most the smoothness"):
        linear_bound(1.0, 5, smoothness=1.0, strong_convexity=2.0)
    with pytest.raises(ValueError, match=r"`minimiser` must be of shape \(3,\); got shape \(2,\)"):
        verify_descent(quadratic, START, np.zeros(2), smoothness=4.0)
    with pytest.raises(ValueError, match="`curvatures` must be positive"):
        stochastic_rate(np.array([1.0, -1.0]), key=jr.key(0))
    with pytest.raises(ValueError, match="`values` must be as many as `times`, and at least 3; got 2"):
        fit_power([1.0, 2.0], [1.0, 2.0])
