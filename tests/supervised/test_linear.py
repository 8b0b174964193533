"""Ordinary, generalised and least-norm regression against dense algebra, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from tractable.supervised.basis import Polynomial
from tractable.supervised.linear.least_squares import (
    generalised_least_squares,
    minimum_norm,
    ordinary_least_squares,
)

GENERATOR = np.random.default_rng(11)
X = GENERATOR.normal(size=(40, 3)) + np.array([0.0, 5.0, -2.0])
Y = X @ [1.0, -2.0, 0.5] + 3 + 0.3 * GENERATOR.normal(size=40)
DESIGN = np.column_stack([np.ones(40), X])


def test_line_of_fifty_rows_by_normal_equations_and_lstsq():
    x = np.random.default_rng(0).normal(size=50)
    y = 3.4 * x + 0.9 + 0.3 * np.random.default_rng(1).normal(size=50)
    design = np.column_stack([x, np.ones(50)])
    normal = np.linalg.solve(design.T @ design, design.T @ y)
    lstsq = np.linalg.lstsq(design, y, rcond=None)[0]
    model = ordinary_least_squares(x, y)
    np.testing.assert_allclose([model.coefficients[0], model.intercept], normal, rtol=1e-13)
    np.testing.assert_allclose([model.coefficients[0], model.intercept], lstsq, rtol=1e-13)
    errors = model.standard_errors
    assert abs(float(model.coefficients[0]) - 3.4) < 5 * errors[1]
    assert abs(float(model.intercept) - 0.9) < 5 * errors[0]


def test_errors_intervals_and_predictions_meet_their_formulas():
    model = ordinary_least_squares(X, Y)
    inverse = np.linalg.inv(DESIGN.T @ DESIGN)
    theta = inverse @ DESIGN.T @ Y
    residual = Y - DESIGN @ theta
    s = np.sqrt(residual @ residual / 36)
    np.testing.assert_allclose(model.scale, s, rtol=1e-12)
    np.testing.assert_allclose(model.cov, s**2 * inverse, rtol=1e-10, atol=1e-14)
    low, high = model.interval(0.9)
    reach = stats.t.ppf(0.95, 36) * s * np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(low, theta - reach, rtol=1e-10)
    np.testing.assert_allclose(high, theta + reach, rtol=1e-10)
    np.testing.assert_allclose(model.r_squared, LinearRegression().fit(X, Y).score(X, Y), rtol=1e-12)
    predicted = model.predict_dist(X[:5])
    spread = s * np.sqrt(1 + np.einsum("ij,jk,ik->i", DESIGN[:5], inverse, DESIGN[:5]))
    expected = stats.t.logpdf(Y[:5], 36, DESIGN[:5] @ theta, spread)
    np.testing.assert_allclose(predicted.log_prob(Y[:5]), expected.sum(), rtol=1e-9)


def test_leverage_is_the_diagonal_of_the_hat_matrix():
    model = ordinary_least_squares(X, Y)
    hat = DESIGN @ np.linalg.inv(DESIGN.T @ DESIGN) @ DESIGN.T
    np.testing.assert_allclose(model.leverage(X), np.diag(hat), rtol=1e-10)
    assert model.leverage(X).sum() == pytest.approx(4, rel=1e-12)


def test_maximum_likelihood_of_a_curve():
    x = np.linspace(-1, 1, 30)
    y = np.sin(3 * x) + 0.1 * GENERATOR.normal(size=30)
    model = ordinary_least_squares(x, y, basis=Polynomial(4))
    powers = x[:, None] ** np.arange(5)
    theta = np.polynomial.polynomial.polyfit(x, y, 4)
    np.testing.assert_allclose(model.coefficients, theta, rtol=1e-11)
    noise = ((y - powers @ theta) ** 2).mean()
    np.testing.assert_allclose(model.noise_variance, noise, rtol=1e-12)
    # no other weights or noise precision have a higher likelihood
    best = stats.norm.logpdf(y, model.predict(x), np.sqrt(model.noise_variance)).sum()
    for change in GENERATOR.normal(size=(20, 6)) * 1e-3:
        other = stats.norm.logpdf(y, powers @ (theta + change[:5]), np.sqrt(noise) * np.exp(change[5])).sum()
        assert other < best
    half = (y - model.predict(x)) ** 2 / (2 * noise) + 0.5 * np.log(2 * np.pi * noise)
    np.testing.assert_allclose(best, -half.sum(), rtol=1e-13)


def test_generalised_least_squares_with_a_known_covariance():
    root = GENERATOR.normal(size=(40, 40))
    R = root @ root.T + 5 * np.eye(40)
    precision = np.linalg.inv(R)
    cov = np.linalg.inv(DESIGN.T @ precision @ DESIGN)
    theta = cov @ DESIGN.T @ precision @ Y
    model = generalised_least_squares(X, Y, R)
    np.testing.assert_allclose(model.solution.coefficients, theta, rtol=1e-9)
    np.testing.assert_allclose(model.cov, cov, rtol=1e-9)
    diagonal = GENERATOR.uniform(0.1, 4, 40)
    by_vector, by_matrix = (generalised_least_squares(X, Y, noise) for noise in (diagonal, np.diag(diagonal)))
    np.testing.assert_allclose(by_vector.cov, np.linalg.inv(DESIGN.T / diagonal @ DESIGN), rtol=1e-10)
    np.testing.assert_allclose(by_vector.solution.coefficients, by_matrix.solution.coefficients, rtol=1e-12)
    weighted = ordinary_least_squares(X, Y, 1 / diagonal)
    np.testing.assert_allclose(by_vector.coefficients, weighted.coefficients, rtol=1e-13)
    # the covariance is that of the estimate: unbiased draws of the noise scatter like it
    draws = np.random.default_rng(5).normal(size=(4000, 40)) * np.sqrt(diagonal)
    gain = np.asarray(by_vector.cov) @ DESIGN.T / diagonal
    scatter = np.cov((draws @ gain.T).T)
    ratio = np.diag(scatter) / np.diag(np.asarray(by_vector.cov))
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 4000)


def test_singular_noise_is_refused():
    with pytest.raises(ValueError, match="`noise` must be positive definite; got smallest eigenvalue"):
        generalised_least_squares(X, Y, np.ones((40, 40)))
    with pytest.raises(ValueError, match=r"`noise` must be positive variances; got 0\.0"):
        generalised_least_squares(X, Y, np.r_[0.0, np.ones(39)])


def test_least_norm_is_the_pseudo_inverse_and_the_lagrangian_formula():
    wide, target = GENERATOR.normal(size=(4, 9)), GENERATOR.normal(size=4)
    model = minimum_norm(wide, target)
    np.testing.assert_allclose(
        model.coefficients, wide.T @ np.linalg.solve(wide @ wide.T, target), rtol=1e-12
    )
    np.testing.assert_allclose(model.coefficients, np.linalg.pinv(wide) @ target, rtol=1e-12)
    assert (int(model.solution.rank), model.solution.num_solutions) == (4, np.inf)
    multiplier = -2 * np.linalg.solve(wide @ wide.T, target)
    np.testing.assert_allclose(model.coefficients, -wide.T @ multiplier / 2, rtol=1e-12)
    with pytest.raises(ValueError, match="`rows` must be more than coefficients; got 0 left over"):
        model.predict_dist(wide)


def test_several_targets_are_as_many_fits():
    both = ordinary_least_squares(X, np.stack([Y, Y**2], axis=1))
    for k, y in enumerate((Y, Y**2)):
        one = ordinary_least_squares(X, y)
        np.testing.assert_allclose(both.coefficients[:, k], one.coefficients, rtol=1e-12)
        np.testing.assert_allclose(
            both.predict_dist(X).variance[:, k], one.predict_dist(X).variance, rtol=1e-10
        )
        np.testing.assert_allclose(both.standard_errors[:, k], one.standard_errors, rtol=1e-10)


def test_the_table_states_fit_and_verdict():
    model = ordinary_least_squares(X, Y)
    text = repr(model)
    assert "40 rows, rank 4, 36 degrees of freedom" in text
    assert "Full rank; the data determine about" in text
    assert f"{float(model.coefficients[1]):.6g}" in text
    constant = ordinary_least_squares(np.column_stack([X, X[:, 0]]), Y)
    assert "Rank 4 of 5: dependent columns" in repr(constant)
    wide = repr(ordinary_least_squares(np.eye(40), np.arange(40.0), intercept=False))
    assert "x23" in wide
    assert "x24" not in wide
    assert "... and 16 more\n" in wide
    assert "<td>" in model._repr_html_()


def test_wrong_columns_are_named():
    with pytest.raises(ValueError, match="`X` must be rows of 3 columns; got 2 columns"):
        ordinary_least_squares(X, Y).predict(X[:, :2])
