"""Binary logistic regression: worked numbers, every solver, odds ratios, scales, weights, compile counts."""

import jax.random as jr
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from tractable.core.iterate import Status
from tractable.core.rows import Rows
from tractable.optim.gradient import Adam
from tractable.supervised.linear import products as products_module
from tractable.supervised.logistic import binary as binary_module
from tractable.supervised.logistic import newton as newton_module
from tractable.supervised.logistic.binary import (
    fit_logistic,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
)
from tractable.supervised.logistic.newton import StandardRows, newton
from tractable.supervised.logistic.sums import gram_pass, logistic_pass

X3 = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
Y3 = np.array([0.0, 0.0, 1.0])
THETA = np.array([-1.0, 1.0])


def table(num_rows=120, dim=3, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, dim))
    y = (x @ np.linspace(1, -1, dim) + 0.4 + generator.logistic(size=num_rows) > 0).astype(int)
    return x, y


def reference(x, y, penalty, weights=None):
    """The minimum found by SciPy from the formula, intercept first."""
    w = np.ones(len(y)) if weights is None else weights

    def objective(theta):
        eta = theta[0] + x @ theta[1:]
        slope = w * (expit(eta) - y)
        value = w @ (np.logaddexp(0, eta) - y * eta) + 0.5 * penalty * theta[1:] @ theta[1:]
        return value, np.concatenate([[slope.sum()], x.T @ slope + penalty * theta[1:]])

    start = np.zeros(x.shape[1] + 1)
    return minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10}).x


def test_worked_loss_and_gradient():
    np.testing.assert_allclose(logistic_loss(THETA, X3, Y3), 1.31967056, atol=1e-8)
    np.testing.assert_allclose(logistic_gradient(THETA, X3, Y3), [0.5, -0.03788284], atol=1e-8)
    with mpmath.workdps(30):
        exact = sum(mpmath.log(1 + mpmath.exp(x[1] - 1)) - y * (x[1] - 1) for x, y in zip(X3, Y3))
    np.testing.assert_allclose(logistic_loss(THETA, X3, Y3), float(exact), rtol=1e-15)


def test_gradient_and_hessian_are_differences_of_the_loss():
    x, y = table(8, 2, 3)
    theta, step, w = np.array([0.3, -0.7]), 1e-5, np.arange(1.0, 9.0)
    moves = step * np.eye(2)
    slope = [
        (logistic_loss(theta + m, x, y, w) - logistic_loss(theta - m, x, y, w)) / (2 * step) for m in moves
    ]
    np.testing.assert_allclose(logistic_gradient(theta, x, y, w), slope, rtol=1e-8)
    rows = [
        (logistic_gradient(theta + m, x, y, w) - logistic_gradient(theta - m, x, y, w)) / (2 * step)
        for m in moves
    ]
    np.testing.assert_allclose(logistic_hessian(theta, x, w), np.array(rows), rtol=1e-8)


def test_a_hopeless_row_has_a_finite_loss():
    assert float(logistic_loss([1.0], [[-800.0]], [1.0])) == 800.0


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("away", [0.0, 1.0, 1e6])  # sums over plain rows; the others standardise each row
def test_one_pass_is_the_written_sum(shift, away):
    x, y = table(77, 3, 5)
    w, centre, inverse = np.linspace(0.5, 2, 77), away * np.array([0.1, -0.2, 0.0]), np.array([1.0, 2.0, 0.5])
    x = x + centre
    beta = np.array([0.3, -0.4, 0.5, 0.1])[1 - shift :]
    z = np.column_stack([np.ones(77), (x - centre) * inverse])[:, 1 - shift :]
    s = expit(z @ beta)
    loss, gradient, hessian = logistic_pass(x, y.astype(float), w, centre, inverse, beta, 5, 70)
    part = slice(5, 70)
    np.testing.assert_allclose(loss, -(w * (y * np.log(s) + (1 - y) * np.log(1 - s)))[part].sum(), rtol=1e-12)
    np.testing.assert_allclose(gradient, z[part].T @ (w * (s - y))[part], rtol=1e-11)
    full = z[part].T @ (z * (w * s * (1 - s))[:, None])[part]
    np.testing.assert_allclose(hessian, full, rtol=1e-11, atol=1e-13)
    again = gram_pass(x, w * (s - y), w * s * (1 - s), centre, inverse, 3 + shift, 5, 70)
    np.testing.assert_allclose(again[0], gradient, rtol=1e-10)
    np.testing.assert_allclose(again[1], hessian, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_newton_meets_an_independent_minimum(penalty):
    x, y = table()
    fitted = fit_logistic(x, y, penalty=penalty)
    np.testing.assert_allclose([fitted.intercept, *fitted.coefficients], reference(x, y, penalty), atol=1e-7)
    assert fitted.status is Status.converged
    design = np.column_stack([np.ones(len(x)), x])
    theta = np.array([fitted.intercept, *fitted.coefficients])
    slope = logistic_gradient(theta, design, y) + penalty * np.array([0, *fitted.coefficients])
    np.testing.assert_allclose(slope, 0, atol=1e-10)
    precision = logistic_hessian(theta, design) + penalty * np.diag([0.0, 1, 1, 1])
    np.testing.assert_allclose(fitted.covariance, np.linalg.inv(precision), rtol=1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "irls", "gradient"])
def test_every_optimiser_finds_the_same_minimum(solver):
    x, y = table()
    exact = fit_logistic(x, y, penalty=0.5)
    other = fit_logistic(x, y, penalty=0.5, solver=solver)
    np.testing.assert_allclose(other.coefficients, exact.coefficients, atol=1e-7)
    assert other.status is Status.converged


@pytest.mark.parametrize("solver", ["sgd", Adam(0.02)])
def test_stochastic_gradients_come_near(solver):
    x, y = table(400, 2, 7)
    exact = fit_logistic(x, y)
    near = fit_logistic(x, y, solver=solver, key=jr.key(1))
    error = np.abs(np.asarray(near.coefficients) - np.asarray(exact.coefficients))
    assert (error < 0.5 * np.asarray(exact.standard_errors)).all()
    assert "nothing was tested" in near.verdict.sentence


def test_scikit_learn_has_the_same_optimum():
    x, y = table(150, 4, 2)
    w = np.random.default_rng(0).uniform(0.5, 2, 150)
    for strength in (1.0, 0.05):
        peer = LogisticRegression(C=strength, tol=1e-12, solver="newton-cholesky").fit(x, y, w)
        ours = fit_logistic(x, y, w, penalty=1 / strength)
        np.testing.assert_allclose(ours.coefficients, peer.coef_[0], atol=1e-6)
        np.testing.assert_allclose(ours.intercept, peer.intercept_[0], atol=1e-6)
    peer = LogisticRegression(fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(x + 1, y)
    ours = fit_logistic(x + 1, y, penalty=1.0, intercept=False)
    np.testing.assert_allclose(ours.coefficients, peer.coef_[0], atol=1e-6)


@settings(max_examples=10)
@given(st.lists(st.sampled_from([1e-12, 1e-5, 1.0, 1e5, 1e12]), min_size=3, max_size=3))
def test_coefficients_follow_the_scale_of_the_columns(scales):
    x, y = table(60, 3, 4)
    plain, scaled = fit_logistic(x, y), fit_logistic(x * scales + np.array(scales) * 1e3, y)
    np.testing.assert_allclose(np.asarray(scaled.coefficients) * scales, plain.coefficients, rtol=1e-7)
    np.testing.assert_allclose(scaled.loss, plain.loss, rtol=1e-10)


def test_the_penalty_is_on_the_original_coefficients():
    x, y = table(60, 2, 4)
    wide = x * np.array([1e3, 1e-3])
    fitted = fit_logistic(wide, y, penalty=1.0)
    np.testing.assert_allclose(fitted.coefficients, reference(wide, y, 1.0)[1:], rtol=1e-4, atol=1e-9)
    assert abs(float(fitted.coefficients[1])) < 0.1  # it would be 1000 times as large without the penalty


def test_constant_and_repeated_columns_are_harmless():
    x, y = table()
    plain = fit_logistic(x, y, penalty=1.0)
    more = fit_logistic(np.column_stack([x, np.full(len(x), 7e9)]), y, penalty=1.0)
    np.testing.assert_allclose(more.coefficients, [*plain.coefficients, 0.0], atol=1e-9)
    twice = fit_logistic(np.column_stack([x, x[:, 0]]), y)
    np.testing.assert_allclose(twice.loss, fit_logistic(x, y).loss, rtol=1e-10)
    assert "cannot be told apart" in twice.verdict.sentence
    assert np.isinf(twice.standard_errors[np.array([0, 3])]).all()
    assert np.isfinite(twice.standard_errors[1])


def test_odds_ratios_of_a_two_by_two_table():
    counts = {(0, 0): 30, (0, 1): 10, (1, 0): 15, (1, 1): 45}
    x, y, w = (np.array(part, float) for part in zip(*[(a, b, n) for (a, b), n in counts.items()]))
    fitted = fit_logistic(x[:, None], y, w)
    found = fitted.odds_ratios(names=["treated"])
    np.testing.assert_allclose(found.ratio, [45 * 30 / (15 * 10)], rtol=1e-8)
    error = np.sqrt(1 / 30 + 1 / 10 + 1 / 15 + 1 / 45)
    np.testing.assert_allclose(fitted.standard_errors, [error], rtol=1e-6)
    np.testing.assert_allclose(found.upper, np.exp(np.log(9) + norm.ppf(0.975) * error), rtol=1e-6)
    np.testing.assert_allclose(found.p_value, 2 * norm.sf(np.log(9) / error), rtol=1e-5)
    assert "treated" in repr(found)
    with pytest.raises(ValueError, match=r"`names` must be one per column \(1\); got 2"):
        fitted.odds_ratios(names=["a", "b"])


def test_a_bad_start_is_searched_back_from():
    x, y = table()
    rows = StandardRows.of(Rows.of(x, y, target="binary"), True)
    far = newton(rows.logistic, np.full(4, 30.0), rows.penalty(1.0), rows.total)
    near = newton(rows.logistic, np.zeros(4), rows.penalty(1.0), rows.total)
    assert far.status is Status.converged
    np.testing.assert_allclose(far.beta, near.beta, atol=1e-9)


def test_large_tables_start_from_a_part_and_end_at_the_whole(monkeypatch):
    x, y = table(3000, 3, 11)
    x = np.column_stack([x, np.where(np.arange(3000) == 7, 1.0, 0.0)])  # does not vary in the part
    whole = fit_logistic(x, y, penalty=1.0)
    monkeypatch.setattr(newton_module, "_MANY", 1000)
    monkeypatch.setattr(products_module, "STRETCH", 700)
    part = fit_logistic(x, y, penalty=1.0)
    np.testing.assert_allclose(part.coefficients, whole.coefficients, atol=1e-9)
    assert int(part.num_steps) < int(whole.num_steps)


def test_new_row_counts_use_the_same_program():
    before = binary_module._mean_loss
    calls = []
    logistic_mean = lambda *a: (calls.append(1), before(*a))[1]  # noqa: E731
    binary_module._mean_loss = logistic_mean
    try:
        for rows in (70, 90, 120):
            fit_logistic(*table(rows), penalty=1.0, solver="lbfgs")
            first = len(calls) if rows == 70 else first
    finally:
        binary_module._mean_loss = before
    assert len(calls) == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1, 2]}, r"`y` must be 0 or 1; got 2 at index 2"),
        ({"y": [0, 1]}, r"`y` must be as long as `X` \(3\); got 2"),
        ({"X": [[0.0], [np.nan], [1.0]]}, "`X` must be finite; got NaN in column 0, row 1"),
        (
            {"weights": [1.0, -1.0, 1.0]},
            r"`weights` must be zero or positive, and finite; got -1.0 at index 1",
        ),
        ({"weights": [0.0, 0.0, 0.0]}, r"`weights` must be positive for at least one row"),
        ({"penalty": -1.0}, r"`penalty` must be zero or positive"),
        ({"solver": "magic"}, r"`solver` must be 'newton', 'lbfgs'"),
        ({"solver": "sgd"}, r"`key` must be given for the solver 'sgd'"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        fit_logistic(**({"X": [[0.0], [1.0], [2.0]], "y": [0, 1, 0]} | change))
