"""Gradient estimators: worked variances by quadrature, unbiasedness, agreement, and clear refusals."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.inference.variational.gradients import (
    GradientEstimate,
    descents,
    leave_one_out,
    pathwise_gradient,
    race,
    score_gradient,
    scores,
)

SLOPE, SHIFT = 2.0, 3.0
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


def square(theta, z):
    return z**2


def normal_log_prob(theta, z):
    return -0.5 * (z - (SLOPE * theta + SHIFT)) ** 2


def normal_draw(theta, noise):
    return SLOPE * theta + SHIFT + noise


# theta, gradient 8 theta + 12, variances of the score with and without the best baseline
WORKED = [(0.0, 12.0, 888.0, 312.0), (-1.5, 0.0, 60.0, 24.0), (1.0, 20.0, 3960.0, 824.0)]


@pytest.mark.parametrize(("theta", "gradient", "plain", "best"), WORKED)
def test_worked_variances_are_exact_by_quadrature(theta, gradient, plain, best):
    z = SLOPE * theta + SHIFT + NODES
    score = score_gradient(square, normal_log_prob, theta, z, weights=NODE_WEIGHTS)
    baseline = score_gradient(square, normal_log_prob, theta, z, weights=NODE_WEIGHTS, baseline="optimal")
    path = pathwise_gradient(square, normal_draw, theta, NODES, weights=NODE_WEIGHTS)
    for estimate, variance in ((score, plain), (baseline, best), (path, 16.0)):
        np.testing.assert_allclose(float(estimate.mean), gradient, atol=1e-9)
        np.testing.assert_allclose(float(estimate.variance), variance, rtol=1e-10)
    given = score_gradient(
        square,
        normal_log_prob,
        theta,
        z,
        weights=NODE_WEIGHTS,
        baseline=(SLOPE * theta + SHIFT) ** 2 + 3,  # mu^2 + 3
    )
    np.testing.assert_allclose(float(given.variance), best, rtol=1e-10)


def test_measured_variances_agree_with_the_worked_ones():
    n = 40_000
    noise = np.asarray(jr.normal(jr.key(0), (n,)))
    z = SHIFT + noise
    estimates = {
        "score": score_gradient(square, normal_log_prob, 0.0, z),
        "score, best baseline": score_gradient(square, normal_log_prob, 0.0, z, baseline="optimal"),
        "score, leave-one-out": score_gradient(square, normal_log_prob, 0.0, z, baseline="leave_one_out"),
        "pathwise": pathwise_gradient(square, normal_draw, 0.0, noise),
    }
    table = race(estimates)
    # the leave-one-out baseline tends to E[f] = 10, for which quadrature gives the variance
    x = SHIFT + NODES
    constant = NODE_WEIGHTS @ ((x**2 - 10) * SLOPE * (x - SHIFT)) ** 2 - 12.0**2
    worked = [888.0, 312.0, constant, 16.0]
    for name, variance in zip(estimates, worked):
        samples = np.asarray(estimates[name].samples)
        error = np.sqrt(((samples - samples.mean()) ** 2).var() / n)
        assert abs(float(table.variances[name]) - variance) < 5 * error, name
        z_score = (float(table.means[name]) - 12.0) / float(estimates[name].standard_error)
        assert abs(z_score) < 5, name
    assert table.largest_z < 5
    lines = repr(table).splitlines()
    assert len(lines) == 6
    assert "largest disagreement" in lines[-1]


def test_expected_score_is_zero_and_the_naive_integral_is_no_expectation():
    z = SHIFT + NODES
    s = np.asarray(scores(normal_log_prob, 0.0, z))
    np.testing.assert_allclose(NODE_WEIGHTS @ s, 0.0, atol=1e-12)
    # d N(z; mu, sigma^2) / d mu = (z - mu)/sigma^2 N, by autodiff, its integral is 0
    mu, sigma = 0.7, 1.3
    grid = np.linspace(-12.0, 13.0, 4001)

    def density(m, x):
        return jnp.exp(-0.5 * ((x - m) / sigma) ** 2) / (sigma * jnp.sqrt(2 * jnp.pi))

    slope = np.asarray(jax.vmap(jax.grad(density), (None, 0))(mu, grid))
    expected = (grid - mu) / sigma**2 * np.asarray(density(mu, grid))
    np.testing.assert_allclose(slope, expected, atol=1e-15)
    np.testing.assert_allclose(np.trapezoid(slope, grid), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.trapezoid(slope * grid**2, grid), 2 * mu, rtol=1e-9)
    assert slope.min() < 0 < slope.max()


def test_parameters_inside_the_function_add_their_own_gradient():
    def function(theta, z):
        return theta * z**2

    z = SLOPE * 0.5 + SHIFT + NODES
    truth = 2 * SLOPE * (SLOPE * 0.5 + SHIFT) * 0.5 + (SLOPE * 0.5 + SHIFT) ** 2 + 1
    score = score_gradient(function, normal_log_prob, 0.5, z, weights=NODE_WEIGHTS)
    path = pathwise_gradient(function, normal_draw, 0.5, NODES, weights=NODE_WEIGHTS)
    np.testing.assert_allclose([float(score.mean), float(path.mean)], truth, rtol=1e-11)


def test_full_covariance_by_cholesky_meets_the_closed_form():
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    theta = np.array([0.3, -0.7, 1.1, 0.4, 0.8])  # mean, then the lower triangle row by row

    def transform(p, noise):
        lower = jnp.array([[1.0, 0.0], [0.0, 0.0]]) * p[2] + jnp.array([[0.0, 0.0], [1.0, 0.0]]) * p[3]
        lower = lower + jnp.array([[0.0, 0.0], [0.0, 1.0]]) * p[4]
        return p[:2] + lower @ noise

    nodes, weight = np.polynomial.hermite_e.hermegauss(5)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weight = np.outer(weight, weight).reshape(-1)
    estimate = pathwise_gradient(
        lambda _, z: z @ jnp.asarray(matrix) @ z, transform, theta, grid, weights=weight / weight.sum()
    )
    lower = np.array([[1.1, 0.0], [0.4, 0.8]])
    of_lower = 2 * matrix @ lower
    expected = [*(2 * matrix @ theta[:2]), of_lower[0, 0], of_lower[1, 0], of_lower[1, 1]]
    np.testing.assert_allclose(np.asarray(estimate.mean), expected, rtol=1e-12)


LOCATION_SCALE = {
    "logistic": (jr.logistic, lambda e: -e - 2 * jnp.log1p(jnp.exp(-e))),
    "gumbel": (jr.gumbel, lambda e: -e - jnp.exp(-e)),
}


@pytest.mark.parametrize("name", LOCATION_SCALE)
def test_location_scale_families_agree_in_the_mean(name):
    draw, base = LOCATION_SCALE[name]
    theta = jnp.array([0.5, 0.2])  # location and log-scale
    noise = draw(jr.key(3), (20_000,))

    def transform(p, e):
        return p[0] + jnp.exp(p[1]) * e

    def log_prob(p, z):
        return base((z - p[0]) * jnp.exp(-p[1])) - p[1]

    def function(_, z):
        return (z - 1.0) ** 2

    path = pathwise_gradient(function, transform, theta, noise)
    score = score_gradient(function, log_prob, theta, transform(theta, noise))
    assert race({"path": path, "score": score}).largest_z < 5
    assert (np.asarray(path.variance) < np.asarray(score.variance)).all()


def test_exact_means_that_differ_are_noticed():
    one, two = (
        GradientEstimate(jnp.array([1.0]), jnp.ones(1)),
        GradientEstimate(jnp.array([2.0]), jnp.ones(1)),
    )
    assert race({"one": one, "two": two}).largest_z > 1e6
    assert race({"one": one, "again": one}).largest_z == 0.0


def test_leave_one_out_is_the_mean_of_the_others():
    values = np.array([1.0, -2.0, 5.0, 0.5])
    expected = [np.delete(values, i).mean() for i in range(4)]
    np.testing.assert_allclose(np.asarray(leave_one_out(jnp.asarray(values))), expected, rtol=1e-14)


def test_descents_reach_the_minimum_and_the_pathwise_path_is_straighter():
    def with_score(theta, key):
        z = SLOPE * theta + SHIFT + jr.normal(key, (8,))
        return score_gradient(square, normal_log_prob, theta, z).mean

    def with_path(theta, key):
        return pathwise_gradient(square, normal_draw, theta, jr.normal(key, (8,))).mean

    paths = descents({"score": with_score, "pathwise": with_path}, 1.0, jr.key(5), rate=0.01, num_steps=400)
    tails = {name: np.asarray(path)[200:] for name, path in paths.items()}
    # at this step size the stationary variance is about rate * variance / (2 * 8 * curvature), curvature 8
    for name, variance in (("score", 60.0), ("pathwise", 16.0)):
        spread = np.sqrt(0.01 * variance / 8 / (2 * 8))
        assert abs(tails[name].mean() + 1.5) < 5 * spread
    assert tails["pathwise"].var() < tails["score"].var()


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`baseline` must be one of 'none', 'optimal', 'leave_one_out'"):
        score_gradient(square, normal_log_prob, 0.0, [1.0, 2.0], baseline="mean")
    with pytest.raises(ValueError, match="`draws` must be at least two"):
        score_gradient(square, normal_log_prob, 0.0, [1.0], baseline="leave_one_out")
    with pytest.raises(ValueError, match="`weights` must be numbers that sum to 1; got a sum of 3"):
        score_gradient(square, normal_log_prob, 0.0, [1.0, 2.0], weights=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"`weights` must be one per draw \(2\)"):
        pathwise_gradient(square, normal_draw, 0.0, [1.0, 2.0], weights=[1.0])
    with pytest.raises(ValueError, match="`estimates` must be at least one"):
        race({})
