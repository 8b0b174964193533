"""The lasso and the elastic net: scikit-learn, closed forms, the certificate, paths, scales, weights."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso

from tractable.core import Status
from tractable.core.programs import num_programs
from tractable.supervised.linear.lasso import lasso, lasso_path

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 8)) + 2.0
X[:, 3] = 0.9 * X[:, 0] + 0.1 * X[:, 3]
Y = 3 * X[:, 0] - X[:, 1] + 0.5 * X[:, 5] + 0.3 * GENERATOR.normal(size=60) + 4
W = GENERATOR.integers(0, 3, 60).astype(float)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0])
def test_scikit_learn_is_met(alpha, intercept):
    oracle = Lasso(alpha, fit_intercept=intercept, tol=1e-13, max_iter=200_000).fit(X, Y)
    model = lasso(X, Y, alpha, convention="mean", intercept=intercept)
    np.testing.assert_allclose(model.coefficients, oracle.coef_, atol=1e-9)
    np.testing.assert_allclose(model.intercept, oracle.intercept_, atol=1e-8)
    assert model.run.status is Status.converged
    assert model.relative_gap < 1e-12


def test_elastic_net_with_weights_meets_scikit_learn():
    oracle = ElasticNet(0.3, l1_ratio=0.4, tol=1e-13, max_iter=200_000).fit(X, Y, sample_weight=W)
    model = lasso(X, Y, 0.3 * 0.4, W, ridge=0.3 * 0.6, convention="mean")
    np.testing.assert_allclose(model.coefficients, oracle.coef_, atol=1e-9)
    assert model.relative_gap < 1e-12
    assert "Elastic net" in repr(model)


def test_half_penalty_thresholds_at_half_of_it():
    columns = np.linalg.qr(X)[0]
    shift = columns.T @ Y
    for convention, threshold in (("sum", 1.2), ("half", 0.6), ("mean", 1.2 * 60)):
        expected = np.sign(shift) * np.maximum(np.abs(shift) - threshold, 0)
        model = lasso(columns, Y, 1.2, convention=convention, intercept=False)
        np.testing.assert_allclose(model.coefficients, expected, atol=1e-12)


def test_ista_agrees_with_coordinate_descent():
    by_coordinates = lasso(X[:, :3], Y, 6.0)
    by_gradient = lasso(X[:, :3], Y, 6.0, method="ista")
    np.testing.assert_allclose(by_gradient.coefficients, by_coordinates.coefficients, atol=1e-11)
    np.testing.assert_allclose(by_gradient.run.state, by_coordinates.run.state, atol=1e-8)


def test_certificate_bounds_how_far_from_the_best_a_point_is():
    best = lasso(X, Y, 1.0)
    early = lasso(X, Y, 1.0, max_steps=2)
    residual = Y - X @ np.asarray(best.coefficients) - float(best.intercept)
    value = 0.5 * residual @ residual + 1.0 * np.abs(best.coefficients).sum()
    np.testing.assert_allclose(best.value, value, rtol=1e-12)
    assert early.run.status is Status.exhausted
    assert float(early.value) - float(best.value) <= float(early.gap) * (1 + 1e-9) + 1e-9
    assert float(early.gap) > 1e-6  # not yet there, and it says so
    assert "max_steps" in repr(early)


def test_path_starts_at_zero_and_each_point_is_optimal():
    path = lasso_path(X, Y, num=12)
    assert not np.asarray(path.coefficients[0]).any()
    assert (np.asarray(path.codes) == 0).all()
    largest = np.abs((X - X.mean(0)).T @ (Y - Y.mean())).max()
    np.testing.assert_allclose(path.strengths[0], largest, rtol=1e-12)
    for k in (3, 7, 11):
        oracle = Lasso(float(path.strengths[k]) / 60, tol=1e-13, max_iter=200_000).fit(X, Y)
        np.testing.assert_allclose(path.coefficients[k], oracle.coef_, atol=1e-8)
        np.testing.assert_allclose(path.intercepts[k], oracle.intercept_, atol=1e-7)
    assert float(path.gaps.max()) < 1e-9
    assert "12 of 12 converged" in repr(path)


def test_scales_and_constant_columns():
    scale = np.array([1e12, 1e-12, 1, 1, 1, 1, 1, 1])
    plain, scaled = lasso(X, Y, 0.0), lasso(X * scale, Y * 1e6, 0.0)
    np.testing.assert_allclose(scaled.coefficients * scale, 1e6 * plain.coefficients, rtol=1e-6)
    constant = lasso(np.column_stack([X, np.full(60, 0.1)]), Y, 3.0)
    assert float(constant.coefficients[8]) == 0
    np.testing.assert_allclose(constant.coefficients[:8], lasso(X, Y, 3.0).coefficients, atol=1e-11)


def test_a_new_number_of_rows_does_not_compile_again():
    lasso(X, Y, 1.0)
    before = num_programs()
    for n in (20, 45, 59):
        lasso(X[:n], Y[:n], 2.0)
    assert num_programs() == before


def test_prediction_given_the_chosen_columns():
    model = lasso(X, Y, 20.0)
    active = model.active
    design = np.column_stack([np.ones(60), X[:, active]])
    inverse = np.linalg.inv(design.T @ design)
    residual = Y - model.predict(X)
    degrees = 60 - len(active) - 1
    scale = np.sqrt(residual @ residual / degrees * (1 + np.einsum("ij,jk,ik->i", design, inverse, design)))
    predicted = model.predict_dist(X)
    np.testing.assert_allclose(predicted.scale, scale, rtol=1e-9)
    np.testing.assert_allclose(predicted.loc, model.predict(X), rtol=1e-12)
    assert float(predicted.degrees[0]) == degrees


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="`convention` must be one of 'sum', 'half', 'mean'; got 'double'"):
        lasso(X, Y, 1.0, convention="double")
    with pytest.raises(ValueError, match="`penalty` must be zero or positive, and finite; got -1"):
        lasso(X, Y, -1)
    with pytest.raises(ValueError, match="`y` must be one per row"):
        lasso(X, np.stack([Y, Y], axis=1), 1.0)
