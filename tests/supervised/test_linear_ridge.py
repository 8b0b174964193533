"""Ridge in primal, dual and spectral form; penalties chosen from data; bias and variance of the
experiment."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge, RidgeCV

from tractable import datasets
from tractable.supervised.basis import GaussianBumps
from tractable.supervised.linear.ridge import choose_penalty, ridge, ridge_path

GENERATOR = np.random.default_rng(2)
X = GENERATOR.normal(size=(30, 6)) @ np.diag([1.0, 2.0, 0.5, 1.0, 1.0, 3.0]) + 1.0
Y = X @ [1.0, 0.0, -1.0, 2.0, 0.0, 0.3] + GENERATOR.normal(size=30)
W = GENERATOR.integers(0, 4, 30).astype(float)


def test_worked_example():
    for form in ("primal", "dual"):
        model = ridge([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0], 0.5, intercept=False, form=form)
        np.testing.assert_allclose(model.coefficients, [0.8780488, 0.9756098], atol=5e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_primal_equals_dual_and_scikit_learn(intercept):
    wide = GENERATOR.normal(size=(8, 12)) + 0.5
    target = GENERATOR.normal(size=8)
    for rows, y in ((X, Y), (wide, target)):
        primal, dual = (ridge(rows, y, 0.7, intercept=intercept, form=form) for form in ("primal", "dual"))
        rounding = np.finfo(float).eps * float(dual.solution.condition) ** 2  # of the system that it solves
        largest = float(np.abs(primal.coefficients).max())
        np.testing.assert_allclose(dual.coefficients, primal.coefficients, rtol=0, atol=rounding * largest)
        np.testing.assert_allclose(dual.solution.inverse, primal.solution.inverse, atol=1e-13)
        np.testing.assert_allclose(dual.scale, primal.scale, rtol=1e-10)
        oracle = Ridge(0.7, fit_intercept=intercept).fit(rows, y)
        np.testing.assert_allclose(primal.coefficients, oracle.coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(primal.intercept, oracle.intercept_, rtol=1e-9, atol=1e-12)


def test_weights_meet_scikit_learn():
    oracle = Ridge(2.0).fit(X, Y, sample_weight=W)
    for form in ("primal", "dual"):
        model = ridge(X, Y, 2.0, W, form=form)
        np.testing.assert_allclose(model.coefficients, oracle.coef_, rtol=1e-10)


def test_limits_are_least_squares_least_norm_and_zero():
    small, large = ridge(X, Y, 1e-10, intercept=False), ridge(X, Y, 1e12, intercept=False)
    np.testing.assert_allclose(small.coefficients, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-8)
    assert np.abs(large.coefficients).max() < 1e-8
    wide, target = GENERATOR.normal(size=(4, 9)), GENERATOR.normal(size=4)
    near = ridge(wide, target, 1e-9, intercept=False).coefficients
    np.testing.assert_allclose(near, np.linalg.pinv(wide) @ target, atol=1e-8)
    centred = ridge(X, Y, 1e12)
    assert float(centred.intercept) == pytest.approx(Y.mean(), abs=1e-8)  # the intercept is not shrunk


def test_path_and_effective_degrees_of_freedom():
    path = ridge_path(X, Y, W)
    for penalty in (0.0, 0.3, 20.0):
        model = ridge(X, Y, penalty, W)
        np.testing.assert_allclose(
            path.coefficients(penalty)[:, 0], model.coefficients, rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(path.intercept(penalty)[0], model.intercept, rtol=1e-10)
        np.testing.assert_allclose(path.residual_sum(penalty)[0], model.solution.residual_sum, rtol=1e-11)
        assert W.sum() - path.effective_dof(penalty) == pytest.approx(float(model.degrees), rel=1e-11)
    rows = np.sqrt(W)[:, None] * (X - W @ X / W.sum())
    hat = rows @ np.linalg.solve(rows.T @ rows + 0.3 * np.eye(6), rows.T)
    assert path.effective_dof(0.3) == pytest.approx(np.trace(hat) + 1, rel=1e-12)
    assert path.path([0.3, 20.0]).shape == (2, 6, 1)


def test_leave_one_out_is_what_refitting_without_each_row_gives():
    grid = np.logspace(-1, 1, 4)
    errors = []
    for penalty in grid:
        left = [
            Y[i] - ridge(np.delete(X, i, 0), np.delete(Y, i), penalty).predict(X[i : i + 1])[0]
            for i in range(30)
        ]
        errors.append(np.mean(np.square(left)))
    assert choose_penalty(X, Y, penalties=grid) == grid[np.argmin(errors)]
    assert choose_penalty(X, Y, penalties=grid) == RidgeCV(alphas=grid).fit(X, Y).alpha_
    fine = choose_penalty(X, Y)
    score = RidgeCV(alphas=[fine, 0.9 * fine, 1.1 * fine]).fit(X, Y)
    assert score.alpha_ == fine  # polished: neighbours are worse


def test_gcv_and_folds_meet_their_definitions():
    path = ridge_path(X, Y)
    rows, y = X - X.mean(0), Y - Y.mean()
    hat = rows @ np.linalg.solve(rows.T @ rows + 2.0 * np.eye(6), rows.T) + 1 / 30
    residual = Y - hat @ Y - 0 * y
    assert path.gcv(2.0) == pytest.approx(
        30 * residual @ residual / np.trace(np.eye(30) - hat) ** 2, rel=1e-10
    )
    grid = np.array([0.01, 1.0, 30.0])
    fold = np.arange(30) % 5
    errors = [
        sum(
            ((Y[fold == k] - Ridge(a).fit(X[fold != k], Y[fold != k]).predict(X[fold == k])) ** 2).sum()
            for k in range(5)
        )
        for a in grid
    ]
    assert choose_penalty(X, Y, criterion="cv", penalties=grid) == grid[np.argmin(errors)]


def test_evidence_is_the_marginal_density():
    path = ridge_path(X, Y, intercept=False)
    penalty = 1.7
    cov = np.eye(30) + X @ X.T / penalty
    noise = Y @ np.linalg.solve(cov, Y) / 30
    expected = stats.multivariate_normal(np.zeros(30), noise * cov).logpdf(Y)
    assert path.log_evidence(penalty) == pytest.approx(expected, rel=1e-10)
    best = choose_penalty(X, Y, criterion="evidence", intercept=False)
    assert path.log_evidence(best) >= max(path.log_evidence(best * f) for f in (0.8, 0.95, 1.05, 1.25))


def test_noisy_sinusoid_has_the_stated_mean_and_noise():
    table = datasets.noisy_sinusoid(20_000, noise=0.2, seed=4)
    x = table.features[:, 0]
    left = table.target - np.sin(2 * np.pi * x)
    assert x.min() >= 0
    assert x.max() <= 1
    assert abs(left.mean()) < 5 * 0.2 / np.sqrt(20_000)
    assert abs(left.std() / 0.2 - 1) < 5 / np.sqrt(40_000)
    assert abs(np.corrcoef(left, x)[0, 1]) < 5 / np.sqrt(20_000)


def test_bias_falls_and_variance_rises_as_the_penalty_falls():
    tables, centres, width = datasets.ridge_experiment()
    assert (len(tables), len(tables[0]), len(centres)) == (100, 25, 24)
    assert len({table.target[0] for table in tables}) == 100
    basis, grid = GaussianBumps(centres, width), np.linspace(0, 1, 50)
    truth, bias, variance = np.sin(2 * np.pi * grid), [], []
    paths = [ridge_path(basis(table.features), table.target) for table in tables]
    for log_penalty in (2.6, -0.31, -2.4):
        penalty = np.exp(log_penalty)
        fits = np.stack([basis(grid) @ p.coefficients(penalty)[:, 0] + p.intercept(penalty) for p in paths])
        bias.append(((fits.mean(0) - truth) ** 2).mean())
        variance.append(fits.var(0).mean())
    assert bias[0] > 10 * bias[1] > 20 * bias[2]
    assert variance[0] < variance[1] < variance[2]


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="`form` must be one of 'auto', 'primal', 'dual'; got 'both'"):
        ridge(X, Y, 1.0, form="both")
    with pytest.raises(ValueError, match="`penalty` must be zero or positive, and finite; got -1"):
        ridge(X, Y, -1)
    with pytest.raises(ValueError, match="`penalties` must be positive"):
        choose_penalty(X, Y, penalties=[0.0, 1.0])
