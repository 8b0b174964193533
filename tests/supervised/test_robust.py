"""Robust regression: one outlier, exact linear programs, fixed points of reweighting, likelihood by EM."""

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import QuantileRegressor

from tractable.core import Status
from tractable.supervised.linear.least_squares import ordinary_least_squares
from tractable.supervised.linear.robust import robust_regression

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(50, 2)) * [1.0, 3.0] + [0.0, 10.0]
Y = 1 + X @ [2.0, -0.5] + 0.3 * GENERATOR.normal(size=50)
SPOILT = Y + np.where(np.arange(50) == 7, 1000.0, 0.0)
DESIGN = np.column_stack([np.ones(50), X])
LOSSES = ("huber", "absolute", "student")


def theta(model):
    return np.r_[float(model.intercept), np.asarray(model.coefficients)]


@pytest.mark.parametrize("loss", LOSSES)
def test_one_outlier_moves_least_squares_but_not_the_robust_fit(loss):
    clean = theta(ordinary_least_squares(X, Y))
    spoilt = theta(ordinary_least_squares(X, SPOILT))
    robust = robust_regression(X, SPOILT, loss=loss)
    assert np.abs(spoilt - clean)[0] > 10
    assert np.abs(theta(robust) - clean).max() < 0.2
    assert robust.status is Status.converged
    assert int(np.argmin(robust.row_weights)) == 7
    assert float(robust.row_weights[7]) < 0.01
    assert "rows all but ignored" in repr(robust)
    # its size no longer matters at all
    far = robust_regression(X, Y + np.where(np.arange(50) == 7, 1e9, 0.0), loss=loss)
    np.testing.assert_allclose(theta(far), theta(robust), atol=1e-4)


def test_absolute_loss_by_program_reweighting_and_scikit_learn():
    exact = robust_regression(X, SPOILT, loss="absolute")
    oracle = QuantileRegressor(quantile=0.5, alpha=0, solver="highs").fit(X, SPOILT)
    np.testing.assert_allclose(exact.coefficients, oracle.coef_, atol=1e-9)
    cost = np.abs(SPOILT - exact.predict(X)).sum()
    assert cost <= np.abs(SPOILT - oracle.predict(X)).sum() * (1 + 1e-12)
    assert (
        np.abs(SPOILT - exact.predict(X)) < 1e-12
    ).sum() == 3  # it passes through as many rows as unknowns
    again = robust_regression(X, SPOILT, loss="absolute", method="irls")
    assert np.abs(SPOILT - again.predict(X)).sum() <= cost * (1 + 1e-8)
    residual = np.abs(SPOILT - exact.predict(X))
    assert float(exact.scale) == pytest.approx(np.median(residual) / np.log(2), rel=1e-9)


def test_huber_is_the_fixed_point_of_its_equations():
    model = robust_regression(X, SPOILT, loss="huber")
    residual = SPOILT - model.predict(X)
    s = np.median(np.abs(residual)) / stats.norm.ppf(0.75)
    assert float(model.scale) == pytest.approx(s, rel=1e-8)
    score = np.clip(residual / s, -1.345, 1.345)
    np.testing.assert_allclose(DESIGN.T @ score, 0, atol=1e-6)

    def cost(t):  # Huber's convex loss at that scale has its minimum there
        r = np.abs(SPOILT - DESIGN @ t) / s
        return np.where(r <= 1.345, r**2 / 2, 1.345 * r - 1.345**2 / 2).sum()

    best = optimize.minimize(cost, theta(model) + 0.01, method="BFGS", options={"gtol": 1e-9})
    assert cost(theta(model)) <= best.fun + 1e-9


def test_student_is_the_maximum_of_the_likelihood():
    model = robust_regression(X, SPOILT, loss="student", degrees=3.0)

    def negative(p):
        return -stats.t.logpdf(SPOILT, 3.0, DESIGN @ p[:3], np.exp(p[3])).sum()

    found = np.r_[theta(model), np.log(float(model.scale))]
    best = optimize.minimize(negative, found + 0.01, method="BFGS", options={"gtol": 1e-7})
    assert negative(found) <= best.fun + 1e-7
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert float(model.noise_scale) == pytest.approx(float(model.scale) * np.sqrt(50 / 47), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_scales_and_dependent_columns(loss):
    plain = robust_regression(X, SPOILT, loss=loss)
    scaled = robust_regression(X * [1e9, 1e-9], SPOILT * 1e-6, loss=loss)
    np.testing.assert_allclose(
        np.asarray(scaled.coefficients) * [1e9, 1e-9] * 1e6, plain.coefficients, rtol=1e-6
    )
    double = robust_regression(np.column_stack([X, X[:, 0]]), SPOILT, loss=loss)
    np.testing.assert_allclose(double.predict(X[:, [0, 1, 0]]), plain.predict(X), atol=1e-6)
    np.testing.assert_allclose(double.coefficients[0], double.coefficients[2], rtol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_on_a_line_are_fitted_exactly(loss):
    x = np.arange(12.0)
    y = 3 - 2 * x
    model = robust_regression(x, y, loss=loss)
    np.testing.assert_allclose(theta(model), [3, -2], atol=1e-9)
    assert 0 < float(model.scale) < 1e-9


def test_noise_of_each_loss_is_its_own_distribution():
    names = {"huber": "StudentT", "absolute": "Laplace", "student": "StudentT"}
    for loss, name in names.items():
        model = robust_regression(X, SPOILT, loss=loss)
        noise = model.predict_dist(X)
        assert type(noise).__name__ == name
        inside = (np.asarray(noise.icdf(0.05)) < Y) & (np.asarray(noise.icdf(0.95)) > Y)
        assert abs(inside.mean() - 0.9) < 5 * np.sqrt(0.09 / 50)


def test_bad_options_are_named():
    with pytest.raises(
        ValueError, match="`loss` must be one of 'huber', 'absolute', 'student'; got 'square'"
    ):
        robust_regression(X, Y, loss="square")
    with pytest.raises(ValueError, match=r"`degrees` must be positive; got -1\.0"):
        robust_regression(X, Y, loss="student", degrees=-1.0)
    with pytest.raises(ValueError, match="`method` must be one of"):
        robust_regression(X, Y, loss="huber", method="lp")
