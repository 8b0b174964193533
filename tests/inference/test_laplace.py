"""Laplace's approximation: worked numbers, conjugate models, several modes, constraints, curvature forms."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.special as sps
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from tractable.core import Status
from tractable.core.iterate import count_traces
from tractable.core.module import Module, field
from tractable.core.support import positive, real
from tractable.inference.curvature.laplace import laplace
from tractable.inference.curvature.precision import (
    DensePrecision,
    LowRankPrecision,
    hessian_diagonal,
    top_eigenpairs,
)


def leaning(z):
    return -(z**2) / 2 + jax.nn.log_sigmoid(20 * z + 4)


def logistic(theta, y):
    fit = y * jax.nn.log_sigmoid(theta) + (1 - y) * jax.nn.log_sigmoid(-theta)
    return fit.sum() - 0.5 * theta**2 - 0.5 * jnp.log(2 * jnp.pi)


def regression(weights, x, y):
    """A linear model with unit noise and unit prior: everything about it is Gaussian."""
    residual = y - x @ weights
    constants = -0.5 * (y.size + weights.size) * jnp.log(2 * jnp.pi)
    return -0.5 * residual @ residual - 0.5 * weights @ weights + constants


def rows(num_rows=12, dim=4, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, dim))
    return x, x @ np.arange(1.0, dim + 1) + generator.normal(size=num_rows)


def test_worked_density_with_a_sigmoid():
    post = laplace(leaning, 0.0)
    np.testing.assert_allclose(post.mode, 0.0774795810, atol=1e-9)
    np.testing.assert_allclose(1 / post.gaussian.cov[0, 0], 2.5435885, atol=1e-6)
    np.testing.assert_allclose(post.gaussian.cov[0, 0], 0.3931453, atol=1e-6)
    np.testing.assert_allclose(jnp.exp(post.log_height), 0.9931406, atol=1e-6)
    np.testing.assert_allclose(jnp.exp(post.log_evidence.value), 1.5609077, atol=1e-6)
    exact = quad(lambda z: np.exp(-(z**2) / 2) * sps.expit(20 * z + 4), -10, 10, points=[-0.2], epsabs=1e-12)[
        0
    ]
    np.testing.assert_allclose(exact, 1.4511894, atol=1e-6)
    assert post.ok
    assert post.skewed
    assert "not to be trusted" in post.verdict.sentence


def test_worked_evidence_of_a_logistic_model():
    post = laplace(logistic, 0.0, args=(jnp.array([1.0, 1.0, 0.0]),))
    np.testing.assert_allclose(post.log_evidence.value, -2.2833585, atol=1e-6)

    def integrand(t):
        return sps.expit(t) ** 2 * sps.expit(-t) * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)

    np.testing.assert_allclose(np.log(quad(integrand, -12, 12)[0]), -2.2700164, atol=1e-6)
    assert not post.skewed


def test_skewness_is_the_standardised_third_derivative():
    # log f = a log z - z has mode a, curvature 1/a and third derivative 2/a^2: skewness 2/sqrt(a)
    post = laplace(lambda z, a: a * jnp.log(z) - z, 5.0, args=(9.0,))
    np.testing.assert_allclose(post.mode, 9.0, rtol=1e-9)
    np.testing.assert_allclose(jnp.abs(post.skewness), [2 / 3], rtol=1e-8)
    stirling = 9 * np.log(9) - 9 + 0.5 * np.log(2 * np.pi * 9)
    np.testing.assert_allclose(post.log_evidence.value, stirling, rtol=1e-12)


@pytest.fixture(scope="module")
def linear():
    x, y = rows()
    return x, y, laplace(regression, np.zeros(4), args=(x, y))


def test_linear_model_is_exact(linear):
    x, y, post = linear
    precision = x.T @ x + np.eye(4)
    np.testing.assert_allclose(post.mode, np.linalg.solve(precision, x.T @ y), rtol=1e-10)
    np.testing.assert_allclose(post.gaussian.cov, np.linalg.inv(precision), rtol=1e-10)
    exact = multivariate_normal(np.zeros(12), np.eye(12) + x @ x.T).logpdf(y)
    np.testing.assert_allclose(post.log_evidence.value, exact, rtol=1e-12)
    np.testing.assert_allclose(post.skewness, 0.0, atol=1e-9)


def test_density_and_draws_are_those_of_the_gaussian(linear):
    _, _, post = linear
    oracle = multivariate_normal(np.asarray(post.gaussian.mean), np.asarray(post.gaussian.cov))
    draws = np.asarray(post.sample(jr.key(1), (2000,)))
    np.testing.assert_allclose(post.log_prob(draws[:20]), oracle.logpdf(draws[:20]), rtol=1e-10)
    centred = (draws - oracle.mean) @ np.linalg.cholesky(np.linalg.inv(oracle.cov))
    assert np.abs(centred.mean(0)).max() < 5 / np.sqrt(2000)
    assert np.abs(centred.T @ centred / 2000 - np.eye(4)).max() < 5 * np.sqrt(2 / 2000)


def test_linearised_predictive_of_a_linear_function_is_exact(linear):
    x, _, post = linear
    predictive = post.predictive(lambda w, x: x @ w, jnp.asarray(x[:3]))
    np.testing.assert_allclose(predictive.mean, x[:3] @ np.asarray(post.mode), rtol=1e-12)
    np.testing.assert_allclose(predictive.cov, x[:3] @ np.asarray(post.gaussian.cov) @ x[:3].T, rtol=1e-10)
    stacked = jax.vmap(lambda row: post.predictive(lambda w, x: x @ w, row))(jnp.asarray(x[:3]))
    np.testing.assert_allclose(stacked.cov[:, 0, 0], np.diag(predictive.cov), rtol=1e-10)


def test_new_data_of_one_shape_do_not_compile_again():
    counted = count_traces(regression)
    x, y = rows()
    laplace(counted, np.zeros(4), args=(x, y))
    traced = counted.count
    laplace(counted, np.ones(4), args=(x + 1.0, y - 1.0))
    assert counted.count == traced


def two_bumps(x):
    return jnp.logaddexp(
        jnp.log(0.3) - 0.5 * ((x - 4) / 0.5) ** 2 - jnp.log(0.5), jnp.log(0.7) - 0.5 * (x + 4) ** 2
    ) - 0.5 * jnp.log(2 * jnp.pi)


def test_dominant_mode_is_kept_and_the_others_are_noted():
    post = laplace(two_bumps, 3.0, other_starts=(-3.0, -2.5, 5.0))
    np.testing.assert_allclose(post.mode, -4.0, atol=1e-6)
    np.testing.assert_allclose(jnp.exp(post.log_evidence.value), 0.7, rtol=1e-6)
    assert len(post.others) == 1
    np.testing.assert_allclose(jnp.exp(post.others[0].log_evidence.value), 0.3, rtol=1e-6)
    np.testing.assert_allclose(post.total_log_evidence, 0.0, atol=1e-6)
    assert "1 separate mode(s)" in repr(post)


class Scale(Module):
    mean: jax.Array = field(support=real)
    rate: jax.Array = field(support=positive)


def gamma_and_normal(model, a):
    return (a - 1) * jnp.log(model.rate) - model.rate - 0.5 * (model.mean - 2.0) ** 2


def test_constrained_parameters_use_free_coordinates():
    # log rate has density exp(a u - e^u): mode log a and curvature a, so that rate 'MAP' is a, not a - 1
    post = laplace(gamma_and_normal, Scale(0.0, 1.0), args=(8.0,))
    np.testing.assert_allclose(post.mode.rate, 8.0, rtol=1e-8)
    np.testing.assert_allclose(post.gaussian.cov, np.diag([1.0, 1 / 8]), atol=1e-9)
    stirling = 8 * np.log(8) - 8 + 0.5 * np.log(2 * np.pi / 8)
    np.testing.assert_allclose(post.log_evidence.value, stirling + 0.5 * np.log(2 * np.pi), rtol=1e-10)
    point = Scale(1.5, 6.0)
    flat = multivariate_normal([2.0, np.log(8)], np.diag([1.0, 1 / 8])).logpdf([1.5, np.log(6.0)])
    np.testing.assert_allclose(post.log_prob(point), flat - np.log(6.0), rtol=1e-9)
    draws = post.sample(jr.key(0), (500,))
    assert bool((draws.rate > 0).all())
    np.testing.assert_allclose(jnp.log(draws.rate).mean(), np.log(8), atol=5 * np.sqrt(1 / 8 / 500))
    assert post.log_prob(draws).shape == (500,)
    assert "rate" in repr(post)


def test_supports_by_name():
    post = laplace(lambda p: 7 * jnp.log(p["rate"]) - p["rate"], {"rate": 1.0}, supports={"rate": positive})
    np.testing.assert_allclose(post.mode["rate"], 8.0, rtol=1e-8)


def bowl(x, matrix):
    return -x @ matrix @ x


def test_saddle_is_called_what_it_is():
    post = laplace(bowl, np.zeros(2), args=(jnp.diag(jnp.asarray([1.0, -0.5])),))
    assert not post.ok
    assert "Not positive definite" in post.verdict.sentence
    with pytest.raises(
        ValueError, match="`gaussian` must be asked of a result that is `ok`; got Not positive"
    ):
        post.gaussian
    with pytest.raises(ValueError, match="`log_evidence` must be asked of a result"):
        post.log_evidence
    assert "Reparametrise or add a prior" in repr(post)


def test_flat_direction_is_not_positive_definite():
    post = laplace(bowl, np.array([1.0, 0.0]), args=(jnp.ones((2, 2)),))
    assert not post.ok
    assert "flat direction" in post.verdict.sentence


def test_search_that_stops_early_is_not_ok():
    post = laplace(
        lambda x: -jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        np.array([-1.2, 1.0, 1.0, 1.0]),
        max_steps=2,
        curvature="diagonal",
    )
    assert not post.ok
    assert post.status is Status.exhausted
    assert "Not at the mode" in post.verdict.sentence


def test_scales_of_any_size_keep_their_digits():
    sizes = np.array([1e-8, 1.0, 1e8])
    correlation = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]])
    matrix = DensePrecision.of(jnp.asarray(correlation * np.outer(sizes, sizes)))
    assert bool(matrix.positive)
    np.testing.assert_allclose(matrix.log_det(), np.linalg.slogdet(correlation)[1], rtol=1e-10)
    expected = np.linalg.inv(correlation) / np.outer(sizes, sizes)
    np.testing.assert_allclose(matrix.covariance(), expected, rtol=1e-9)


def spiked(dim=30, rank=3, seed=2):
    generator = np.random.default_rng(seed)
    factor = 3 * generator.normal(size=(dim, rank))
    return np.diag(generator.uniform(0.5, 2.0, size=dim)), factor


@jax.jit
def spectrum(matrix, prior):
    return LowRankPrecision.of(lambda v: matrix @ v, jnp.diag(matrix), 3, prior)


def test_low_rank_form_recovers_a_spiked_precision():
    base, factor = np.eye(30) * 1.5, spiked()[1]
    matrix = jnp.asarray(base + factor @ factor.T)
    low = spectrum(matrix, jnp.full(30, 1.5))
    v = np.arange(30.0)

    @jax.jit
    def parts(low):
        return low.covariance(), low.log_det(), jax.vmap(low.root)(jnp.eye(30)), low.quadratic(jnp.asarray(v))

    covariance, log_det, roots, quadratic = (np.asarray(part) for part in parts(low))
    np.testing.assert_allclose(covariance, np.linalg.inv(matrix), atol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(matrix)[1], rtol=1e-10)
    np.testing.assert_allclose(roots.T @ roots, np.linalg.inv(matrix), atol=1e-9)
    np.testing.assert_allclose(quadratic, v @ np.asarray(matrix) @ v, rtol=1e-10)


def test_low_rank_form_without_a_prior_keeps_the_diagonal():
    base, factor = spiked()
    matrix = jnp.asarray(base + factor @ factor.T)
    low = spectrum(matrix, None)
    np.testing.assert_allclose(jnp.diag(low.matrix.dense()), np.diag(matrix), rtol=1e-12)
    values, vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(
        low.matrix.factor @ low.matrix.factor.T,
        (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T,
        atol=1e-6,
    )


def test_top_eigenpairs_with_repeated_values():
    matrix = jnp.diag(jnp.asarray([5.0, 5.0, 5.0, 1.0, 0.5, 0.1, 0.0]))
    values, vectors = jax.jit(lambda m: top_eigenpairs(lambda v: m @ v, 7, 3))(matrix)
    np.testing.assert_allclose(values, 5.0, rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("form", ["diagonal", "low_rank"])
def test_cheaper_forms_of_an_actual_posterior(form):
    x, y = rows(40, 6, seed=5)
    post = laplace(regression, np.zeros(6), args=(x, y), curvature=form, rank=6, prior_precision=1.0)
    matrix = x.T @ x + np.eye(6)
    expected = np.linalg.inv(matrix) if form == "low_rank" else np.diag(1 / np.diag(matrix))
    np.testing.assert_allclose(post.gaussian.cov, expected, atol=1e-10)
    assert post.ok
    np.testing.assert_allclose(post.mode, np.linalg.solve(matrix, x.T @ y), atol=1e-6)


def test_diagonal_of_a_hessian():
    x = jnp.asarray([0.3, -1.0, 2.0])

    def fun(x):
        return jnp.sin(x[0] * x[1]) + x[2] ** 3 * x[0]

    found, whole = jax.jit(lambda x: (hessian_diagonal(fun, x), jax.hessian(fun)(x)))(x)
    np.testing.assert_allclose(found, np.diag(whole), rtol=1e-12)


def test_result_works_under_jit_and_vmap(linear):
    _, _, post = linear
    points = jnp.stack([post.mode, post.mode + 0.1])
    values = jax.jit(lambda p, x: jax.vmap(p.log_prob)(x))(post, points)
    np.testing.assert_allclose(values, post.log_prob(points), rtol=1e-12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`log_density` must be finite at the start; got -?inf"):
        laplace(lambda x: jnp.log(x), 0.0)
    with pytest.raises(ValueError, match="`curvature` must be one of 'dense', 'diagonal', 'low_rank'"):
        laplace(leaning, 0.0, curvature="full")
    with pytest.raises(ValueError, match="`log_density` must be a function that returns one number"):
        laplace(lambda x: -(x**2), np.zeros(2))
    with pytest.raises(TypeError, match="`n` must be a float to be moved"):
        laplace(leaning, {"n": np.arange(3)})
    with pytest.raises(ValueError, match="`curvature` must be a name for constrained starts"):
        laplace(gamma_and_normal, Scale(0.0, 1.0), args=(8.0,), curvature=lambda p, a: DensePrecision.of(a))
    with pytest.raises(ValueError, match="`other_starts` must be shaped like `start`"):
        laplace(leaning, 0.0, other_starts=(np.zeros(2),))
    with pytest.raises(ValueError, match="`x` must be shaped like the start"):
        laplace(leaning, 0.0).log_prob({"a": 1.0, "b": 2.0})
