"""Posterior, predictive, evidence and equivalent kernel with known noise, against dense algebra."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from tractable.distributions.gaussian import Gaussian
from tractable.distributions.regression_conjugate import (
    linear_regression_log_evidence,
    linear_regression_posterior,
)
from tractable.inference.trust.uncertainty import split_variance
from tractable.supervised.basis import GaussianBumps, Polynomial
from tractable.supervised.bayes_linear.posterior import bayesian_linear, bayesian_linear_from
from tractable.supervised.bayes_linear.statistics import RegressionStatistics, regression_statistics

DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
TARGETS = np.array([1.0, 2.0, 3.0])
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(12, 3)) + np.array([2.0, 0.0, -1.0])
Y = X @ [1.0, -2.0, 0.5] + 3.0 + RANDOM.normal(size=12)


def dense_posterior(X, y, prior_mean, prior_cov, beta):
    precision = np.linalg.inv(prior_cov) + beta * X.T @ X
    cov = np.linalg.inv(precision)
    return cov @ (np.linalg.solve(prior_cov, prior_mean) + beta * X.T @ y), cov


def test_worked_example():
    model = bayesian_linear(DESIGN, TARGETS, 1.0, 2.0)
    np.testing.assert_allclose(model.mean, [0.8780488, 0.9756098], atol=5e-8)
    np.testing.assert_allclose(model.cov, [[0.2682927, -0.1463415], [-0.1463415, 0.1707317]], atol=5e-8)
    np.testing.assert_allclose(model.coefficients.cov, model.cov)
    assert "exact" in repr(model)
    assert "-4.5007" in repr(model)


def test_posterior_mean_is_ridge_regression():
    model = bayesian_linear(DESIGN, TARGETS, 1.0, 2.0)
    ridge = np.linalg.solve(DESIGN.T @ DESIGN + 0.5 * np.eye(2), DESIGN.T @ TARGETS)
    np.testing.assert_allclose(model.mean, ridge, rtol=1e-13)


def test_general_and_per_weight_priors_match_dense_algebra_and_the_conjugate_update():
    root = RANDOM.normal(size=(3, 3))
    prior = Gaussian(np.array([1.0, 0.0, -2.0]), root @ root.T + 0.1 * np.eye(3))
    model = bayesian_linear(X, Y, noise_precision=1.7, prior=prior)
    mean, cov = dense_posterior(X, Y, np.asarray(prior.mean), np.asarray(prior.cov), 1.7)
    np.testing.assert_allclose(model.mean, mean, rtol=1e-11)
    np.testing.assert_allclose(model.cov, cov, rtol=1e-10)
    other = linear_regression_posterior(prior, X, Y, noise=1.7**-0.5)
    np.testing.assert_allclose(model.mean, other.mean, rtol=1e-11)
    evidence = linear_regression_log_evidence(prior, X, Y, noise=1.7**-0.5)
    np.testing.assert_allclose(model.log_evidence, evidence, rtol=1e-12)
    each = bayesian_linear(X, Y, [0.5, 2.0, np.inf], 1.7)
    mean, cov = dense_posterior(X[:, :2], Y, np.zeros(2), np.diag([2.0, 0.5]), 1.7)
    np.testing.assert_allclose(each.mean, [*mean, 0.0], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(each.cov)[:2, :2], cov, rtol=1e-11)
    assert np.asarray(each.cov)[2].tolist() == [0.0, 0.0, 0.0]


def test_evidence_is_the_normal_density_of_the_targets():
    model = bayesian_linear(DESIGN, TARGETS, 1.0, 2.0)
    np.testing.assert_allclose(model.log_evidence, -4.5007101, atol=5e-8)
    dense = multivariate_normal.logpdf(TARGETS, np.zeros(3), np.eye(3) / 2 + DESIGN @ DESIGN.T)
    np.testing.assert_allclose(model.log_evidence, dense, rtol=1e-13)
    cov = np.eye(12) / 1.7 + X @ X.T / 0.3
    np.testing.assert_allclose(
        bayesian_linear(X, Y, 0.3, 1.7).log_evidence,
        multivariate_normal.logpdf(Y, np.zeros(12), cov),
        rtol=1e-12,
    )


def test_flat_intercept_is_the_limit_of_a_wide_one():
    model = bayesian_linear(X, Y, 0.3, 1.7, intercept=True)
    wide = 1e7
    cov = np.eye(12) / 1.7 + X @ X.T / 0.3 + wide
    limit = multivariate_normal.logpdf(Y, np.zeros(12), cov) + 0.5 * np.log(2 * np.pi * wide)
    np.testing.assert_allclose(model.log_evidence, limit, rtol=1e-5)
    design = np.column_stack([np.ones(12), X])
    mean, cov = dense_posterior(design, Y, np.zeros(4), np.diag([1e9, 1 / 0.3, 1 / 0.3, 1 / 0.3]), 1.7)
    np.testing.assert_allclose([float(model.offset), *model.mean], mean, rtol=1e-6)
    new = np.array([[1.0, 0.5, 0.5, 3.0]])
    split = model.split(new[:, 1:])
    np.testing.assert_allclose(split.epistemic, [new[0] @ cov @ new[0]], rtol=1e-6)
    w, b = model.sample(jr.key(0), 4000)
    z = (np.asarray(b) - float(model.offset)) / np.sqrt(cov[0, 0])
    assert abs(z.mean()) < 5 / np.sqrt(4000)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / 4000)
    assert abs(np.corrcoef(np.asarray(w)[:, 0], b)[0, 1] - cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])) < 0.05


def test_predictive_worked_example_and_its_parts():
    model = bayesian_linear(DESIGN, TARGETS, 1.0, 2.0)
    predicted = model.predict_dist([[1.0, 3.0]])
    np.testing.assert_allclose([predicted.mean[0], predicted.variance[0]], [3.8048780, 1.4268293], atol=5e-8)
    split = model.split([[1.0, 3.0]])
    np.testing.assert_allclose([split.aleatoric[0], split.epistemic[0]], [0.5, 0.9268293], atol=5e-8)


@given(st.integers(0, 2**31 - 1))
def test_one_more_row_never_widens_the_prediction(seed):
    random = np.random.default_rng(seed)
    rows, y, new = random.normal(size=(6, 3)), random.normal(size=6), random.normal(size=(5, 3))
    model = bayesian_linear(rows[:5], y[:5], 0.7, 1.3)
    after = model.update(rows[5:], y[5:])
    assert (np.asarray(after.split(new).total) <= np.asarray(model.split(new).total) * (1 + 1e-12)).all()


def test_epistemic_part_vanishes_with_data_and_the_noise_stays():
    random = np.random.default_rng(3)
    basis = Polynomial(3)
    model = bayesian_linear_from(RegressionStatistics.none(4), 1.0, 25.0, basis=basis)
    spreads = []
    for _ in range(3):
        x = random.uniform(-1, 1, 4000)
        model = model.update(x, np.sin(3 * x) + 0.2 * random.normal(size=4000))
        split = model.split(np.linspace(-1, 1, 9))
        np.testing.assert_allclose(split.aleatoric, 1 / 25, rtol=1e-15)
        spreads.append(float(split.epistemic.max()))
    assert spreads[0] < 4e-4
    assert spreads[2] < 0.4 * spreads[0]
    # the split by draws of the weights is the same split
    means = model.sample_functions(jr.key(1), np.linspace(-1, 1, 9), 4000)
    drawn = split_variance(means, jnp.full(means.shape, 1 / 25))
    np.testing.assert_allclose(drawn.epistemic, split.epistemic, rtol=5 * np.sqrt(2 / 4000))
    np.testing.assert_allclose(drawn.aleatoric, split.aleatoric, rtol=1e-12)


def test_equivalent_kernel_worked_example():
    model = bayesian_linear(DESIGN, TARGETS, 1.0, 2.0)
    kernel = np.asarray(model.equivalent_kernel([[1.0, 3.0]], DESIGN))[0]
    np.testing.assert_allclose(kernel, [-0.3414634, 0.3902439, 1.1219512], atol=5e-8)
    np.testing.assert_allclose(kernel @ TARGETS, 3.8048780, atol=5e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_equivalent_kernel_smooths_the_targets(intercept):
    basis = GaussianBumps(np.linspace(0, 1, 6), 0.2)
    x = np.sort(RANDOM.uniform(size=30))
    model = bayesian_linear(x, np.sin(6 * x), 0.1, 30.0, basis=basis, intercept=intercept)
    new = np.array([0.1, 0.5])
    kernel = np.asarray(model.equivalent_kernel(new, x))
    np.testing.assert_allclose(kernel @ np.sin(6 * x), model.predict(new), rtol=1e-10)
    features = model.kernel_features(new)
    np.testing.assert_allclose(
        features @ features.T / 30.0, np.asarray(model.equivalent_kernel(new, new)) / 30
    )
    np.testing.assert_allclose((features**2).sum(1) / 30.0, model.split(new).epistemic, rtol=1e-12)


@given(st.permutations(range(12)), st.integers(1, 11), st.booleans())
def test_sequential_updates_equal_the_batch_for_any_order_and_split(order, cut, intercept):
    order = np.array(order)
    first, second = order[:cut], order[cut:]
    batch = bayesian_linear(X, Y, 0.3, 1.7, intercept=intercept)
    parts = bayesian_linear(X[first], Y[first], 0.3, 1.7, intercept=intercept).update(X[second], Y[second])
    for name in ("mean", "cov", "log_evidence", "offset"):
        np.testing.assert_allclose(getattr(parts, name), getattr(batch, name), rtol=1e-10, atol=1e-12)


def test_no_rows_give_the_prior():
    model = bayesian_linear_from(RegressionStatistics.none(2), 4.0, 2.0)
    np.testing.assert_allclose(model.cov, np.eye(2) / 4)
    assert float(model.log_evidence) == 0.0
    twice = RegressionStatistics.none(2) + RegressionStatistics.none(2)
    assert float(twice.count) == 0.0


def test_a_weight_of_two_is_not_only_a_smaller_noise():
    weights = np.array([2.0, 0.0, 1.0, 3.0] * 3)
    kept = weights > 0
    half = np.sqrt(weights[kept])[:, None]
    c = bayesian_linear(half * X[kept], half[:, 0] * Y[kept], 0.3, 1.7)  # noise of variance 1/(beta w)
    d = bayesian_linear(X, Y, 0.3, 1.7, weights=weights)
    np.testing.assert_allclose(c.mean, d.mean, rtol=1e-11)
    assert abs(float(c.log_evidence) - float(d.log_evidence)) > 1.0


def test_chunks_and_parts_have_the_statistics_of_all_rows():
    weights = RANDOM.uniform(0.1, 2.0, 12)
    whole = regression_statistics(X, Y, weights)
    parts = regression_statistics(X, Y, weights, chunk_rows=5)
    z = np.column_stack([X, Y])
    mean = weights @ z / weights.sum()
    scatter = ((z - mean) * weights[:, None]).T @ (z - mean)
    for s in (whole, parts):
        np.testing.assert_allclose(s.mean, mean, rtol=1e-13)
        np.testing.assert_allclose(
            np.asarray(s.factor).T @ np.asarray(s.factor), scatter, rtol=1e-11, atol=1e-12
        )
        rows, targets, w = s.rows(True)
        np.testing.assert_allclose((rows * w[:, None]).T @ targets, scatter[:3, 3], rtol=1e-11)
        np.testing.assert_allclose(w.sum(), weights.sum() - 1)


@pytest.mark.parametrize("apart", [1.0, 1e-7])
@pytest.mark.parametrize("weighted", [False, True])
def test_tall_chunks_have_the_digits_of_a_decomposition(apart, weighted):
    # columns far from dependent go by products, columns that differ in the seventh digit must not
    random = np.random.default_rng(5)
    first, other, noise = random.normal(size=(3, 5000))
    rows = np.column_stack([1e6 + first, 1e6 + first + apart * other])
    y = first + 0.1 * noise
    weights = random.uniform(0.5, 2.0, 5000) if weighted else np.ones(5000)
    found = regression_statistics(rows, y, weights if weighted else None)
    z = np.column_stack([rows, y]).astype(np.longdouble)
    centred = z - (weights @ z) / weights.sum()
    exact = np.linalg.qr((np.sqrt(weights)[:, None] * centred).astype(float), mode="r")
    np.testing.assert_allclose(np.abs(np.diag(found.factor)), np.abs(np.diag(exact)), rtol=1e-9)


def test_columns_of_any_scale_give_the_same_prediction():
    scale = np.array([1e12, 1.0, 1e-12])
    plain = bayesian_linear(X, Y, [1.0, 2.0, 3.0], 1.7, intercept=True)
    scaled = bayesian_linear(X * scale, Y, np.array([1.0, 2.0, 3.0]) * scale**2, 1.7, intercept=True)
    np.testing.assert_allclose(np.asarray(scaled.mean) * scale, plain.mean, rtol=1e-10)
    np.testing.assert_allclose(scaled.split(X * scale).epistemic, plain.split(X).epistemic, rtol=1e-9)
    np.testing.assert_allclose(scaled.log_evidence, plain.log_evidence, rtol=1e-11)


def test_ill_conditioned_design_keeps_its_digits():
    # columns that differ in the seventh digit: the condition number of the normal equations is 1e14
    base = np.linspace(0, 1, 40)
    design = np.column_stack([base, base + 1e-7 * np.cos(20 * base)])
    y = design @ [1.0, 2.0]
    model = bayesian_linear(design, y, 1e-8, 1e12)
    import mpmath

    with mpmath.workdps(60):
        m = mpmath.matrix(design.tolist())
        solution = mpmath.lu_solve(
            m.T * m * mpmath.mpf(10) ** 12 + mpmath.mpf(10) ** -8 * mpmath.eye(2),
            m.T * mpmath.matrix(y.tolist()) * mpmath.mpf(10) ** 12,
        )
    np.testing.assert_allclose(model.mean, [float(solution[0]), float(solution[1])], rtol=1e-7)


def test_constant_column_with_an_intercept_says_nothing():
    design = np.column_stack([X, np.full(12, 1e12 / 3)])
    model = bayesian_linear(design, Y, 0.3, 1.7, intercept=True)
    plain = bayesian_linear(X, Y, 0.3, 1.7, intercept=True)
    assert float(model.mean[3]) == 0.0
    np.testing.assert_allclose(model.mean[:3], plain.mean, rtol=1e-12)
    np.testing.assert_allclose(model.log_evidence, plain.log_evidence, rtol=1e-12)


def test_fewer_rows_than_columns():
    model = bayesian_linear(X[:2], Y[:2], 0.3, 1.7)
    mean, cov = dense_posterior(X[:2], Y[:2], np.zeros(3), np.eye(3) / 0.3, 1.7)
    np.testing.assert_allclose(model.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(model.cov, cov, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y[:3]), {}, r"`y` must be as long as `X` \(12\); got 3"),
        ((X, np.full(12, np.nan)), {}, "`y` must be finite; got NaN in row 0"),
        ((X, Y, -1.0), {}, "`alpha` must be one positive number"),
        ((X, Y, 1.0, 0.0), {}, "`noise_precision` must be one positive"),
        ((X, Y), {"weights": -np.ones(12)}, "`weights` must be zero or positive"),
        ((X, Y), {"prior": Gaussian(np.zeros(2), np.eye(2))}, "`prior` must be a Gaussian of 3 weights"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        bayesian_linear(*arguments, **options)


def test_prediction_of_the_wrong_width_is_named():
    with pytest.raises(ValueError, match="`X` must be rows of 3 columns; got 2 columns"):
        bayesian_linear(X, Y).predict(X[:, :2])
