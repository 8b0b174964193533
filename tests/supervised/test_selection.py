"""Cross-validation by loops, leave-one-out by its formula, bias and variance."""

import jax.random as jr
import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedShuffleSplit

from tractable.datasets import iris
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant
from tractable.supervised.selection.bias_variance import bias_variance, bias_variance_curve
from tractable.supervised.selection.losses import absolute_loss
from tractable.supervised.selection.validation import (
    cross_validate,
    grid_search,
    learning_curve,
    leave_one_out,
    validation_curve,
)

RNG = np.random.default_rng(0)
_X = RNG.uniform(-1, 1, (40, 1))
_T = np.sin(3 * _X[:, 0]) + 0.2 * RNG.normal(size=40)


def _polynomial(degree, ridge=1e-9):
    def fit(X, y):
        powers = np.vander(X[:, 0], degree + 1)
        weights = np.linalg.solve(powers.T @ powers + ridge * np.eye(degree + 1), powers.T @ y)
        return lambda new: np.vander(new[:, 0], degree + 1) @ weights

    return fit


def test_cross_validation_is_a_loop_over_folds():
    folds = list(KFold(5, shuffle=True, random_state=0).split(_X))
    found = cross_validate(_polynomial(3), _X, _T, folds)
    losses = np.empty(40)
    for seen, held in folds:
        weights = np.polyfit(_X[seen, 0], _T[seen], 3)
        losses[held] = (np.polyval(weights, _X[held, 0]) - _T[held]) ** 2
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)
    assert found.mean == pytest.approx(losses.mean(), rel=1e-6)
    assert found.standard_error == pytest.approx(losses.std(ddof=1) / np.sqrt(40), rel=1e-6)
    assert found.gap > 0
    other = cross_validate(_polynomial(3), _X, _T, folds, absolute_loss)
    assert other.mean == pytest.approx(np.sqrt(losses).mean(), rel=1e-6)
    assert f"mean            {found.mean:.6g}\n" in repr(found)


def test_leave_one_out_has_the_closed_form_of_least_squares():
    powers = np.vander(_X[:, 0], 4)
    hat = powers @ np.linalg.pinv(powers)
    residuals = (_T - hat @ _T) / (1 - np.diag(hat))
    found = leave_one_out(_polynomial(3, 0.0), _X, _T)
    np.testing.assert_allclose(found.losses, residuals**2, rtol=1e-8)
    assert found.total == pytest.approx((residuals**2).sum(), rel=1e-9)
    labels = np.array(["a", "a", "b", "b", "b"])  # any learner, any targets: the majority of the others

    def majority(X, y):
        values, counts = np.unique(y, return_counts=True)
        return lambda new: np.repeat(values[counts.argmax()], len(new))

    assert leave_one_out(majority, np.zeros((5, 1)), labels).losses.tolist() == [1, 1, 1, 1, 1]


def test_learning_curves_meet_as_rows_grow():
    X = RNG.uniform(-1, 1, (400, 1))
    y = np.sin(3 * X[:, 0]) + 0.2 * RNG.normal(size=400)
    folds = KFold(4, shuffle=True, random_state=1)
    curve = learning_curve(_polynomial(4), X, y, [8, 30, 300], folds, key=jr.key(2))
    train, test = curve.train.mean(1), curve.test.mean(1)
    assert (np.diff(test) < 0).all()
    assert test[0] - train[0] > 10 * (test[-1] - train[-1])
    whole = cross_validate(_polynomial(4), X, y, folds)
    np.testing.assert_allclose(curve.test[-1], whole.test_losses, rtol=1e-9)
    assert "least loss on rows left out at rows = 300" in repr(curve)


def test_development_set_chooses_the_setting_of_best_accuracy():
    X, y = iris().features, iris().target
    X = np.c_[X, RNG.normal(size=(150, 12))]
    split = next(StratifiedShuffleSplit(1, test_size=0.4, random_state=3).split(X, y))
    train, test = split

    def shrunk(shrinkage):
        return lambda a, b: fit_gaussian_discriminant(a, b, shrinkage=shrinkage).predict

    values = [0.0, 0.2, 0.5, 1.0]
    search = grid_search(shrunk, {"shrinkage": values}, X, y, [split])
    accuracy = [(shrunk(v)(X[train], y[train])(X[test]) == y[test]).mean() for v in values]
    np.testing.assert_allclose(1 - search.means, accuracy)
    assert search.best == {"shrinkage": values[int(np.argmax(accuracy))]}
    curve = validation_curve(shrunk, values, X, y, [split], name="shrinkage")
    np.testing.assert_allclose(1 - curve.test[:, 0], accuracy)
    assert curve.best == search.best["shrinkage"]
    limit = search.means.min() + search.results[int(search.means.argmin())].standard_error
    assert search.simplest == {"shrinkage": values[int(np.flatnonzero(search.means <= limit)[0])]}


def test_grids_are_products():
    folds = KFold(4, shuffle=True, random_state=4)
    search = grid_search(_polynomial, {"degree": [1, 3], "ridge": [1e-9, 1.0, 1e6]}, _X, _T, folds)
    assert len(search.settings) == 6
    assert search.settings[4] == {"degree": 3, "ridge": 1.0}
    one = cross_validate(_polynomial(3, 1.0), _X, _T, folds)
    assert search.results[4].mean == one.mean
    assert search.best == {"degree": 3, "ridge": 1e-9}
    assert "best      {degree: 3" in repr(search)


def _noisy_sinusoid(key):
    key_x, key_noise = jr.split(key)
    x = np.asarray(jr.uniform(key_x, (25,)))
    return x[:, None], np.sin(2 * np.pi * x) + 0.3 * np.asarray(jr.normal(key_noise, (25,)))


def _bumps(ridge):
    centres = np.linspace(0, 1, 24)

    def features(x):
        return np.c_[np.ones(len(x)), np.exp(-((x[:, :1] - centres) ** 2) / (2 * 0.1**2))]

    def fit(X, y):
        phi = features(X)
        weights = np.linalg.solve(phi.T @ phi + ridge * np.eye(25), phi.T @ y)
        return lambda new: features(new) @ weights

    return fit


def test_bias_variance_of_a_hundred_noisy_sinusoids():
    points = np.linspace(0, 1, 50)[:, None]
    truth = np.sin(2 * np.pi * points[:, 0])
    log_ridge = np.array([2.6, 1.0, -0.3, -2.4])
    found = bias_variance_curve(
        lambda r: _bumps(np.exp(r)), log_ridge, _noisy_sinusoid, points, truth, key=jr.key(0), noise=0.09
    )
    assert (np.diff(found.mean_squared_bias) < 0).all()  # less regularisation, less bias
    assert (np.diff(found.mean_variance) > 0).all()  # and more variance
    assert found.best in (-0.3, 1.0)  # the best is between the extremes
    squared = ((found.predictions - truth) ** 2).mean((1, 2))
    np.testing.assert_allclose(found.mean_squared_bias + found.mean_variance, squared, rtol=1e-10)
    fresh = jr.split(jr.key(1), 100)  # the parts add up to the error on new targets
    errors = []
    for predictions, key in zip(found.predictions[1], fresh):
        errors.append(((truth + 0.3 * np.asarray(jr.normal(key, (50,))) - predictions) ** 2).mean())
    assert abs(np.mean(errors) - found.expected_loss[1]) <= 5 * np.std(errors) / 10
    assert f"best               {found.best}" in repr(found)

    def nothing(X, y):
        return lambda new: np.zeros(len(new))

    constant = bias_variance(nothing, _noisy_sinusoid, points, truth, key=jr.key(2), num_data_sets=3)
    assert constant.mean_variance[0] == 0
    assert constant.mean_squared_bias[0] == pytest.approx((truth**2).mean())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leave_one_out(_polynomial(1), _X[:1], _T[:1]), "`y` must be at least two rows; got 1"),
        (lambda: grid_search(_polynomial, {}, _X, _T, []), "`grid` must be values for each name"),
        (lambda: cross_validate(_polynomial(1), _X, _T, []), "`folds` must be a splitter of scikit-learn"),
        (
            lambda: cross_validate(lambda X, y: lambda new: 0.0, _X, _T, KFold(2)),
            "`predictions` must be as long as `targets`",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
