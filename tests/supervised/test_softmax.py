"""Softmax regression: the written loss and gradient, scikit-learn's optimum, every solver, freedom."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from tractable.core.iterate import Status
from tractable.core.rows import Rows
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.softmax import (
    fit_softmax,
    softmax_gradient,
    softmax_loss,
    softmax_sweep,
    zero_sum_basis,
)


def table(num_rows=100, dim=3, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, dim))
    scores = x @ generator.normal(size=(dim, classes)) + generator.gumbel(size=(num_rows, classes))
    return x, scores.argmax(1)


def test_loss_and_gradient_are_as_written():
    x, y = table(7)
    theta, w = np.random.default_rng(1).normal(size=(3, 3)), np.arange(1.0, 8.0)
    logs = log_softmax(x @ theta.T, axis=1)
    truth = np.eye(3)[y]
    np.testing.assert_allclose(softmax_loss(theta, x, y, w), -(w[:, None] * truth * logs).sum(), rtol=1e-13)
    expected = [(w[:, None] * (np.exp(logs) - truth))[:, k] @ x for k in range(3)]
    np.testing.assert_allclose(softmax_gradient(theta, x, y, w), expected, rtol=1e-11)
    np.testing.assert_allclose(softmax_gradient(theta, x, y).sum(0), 0, atol=1e-12)


def test_one_pass_is_gradient_and_hessian_of_the_loss():
    x, y = table(30)
    rows, basis = (
        StandardRows.of(Rows.of(x, y, np.linspace(1, 2, 30), target="class"), True),
        zero_sum_basis(3),
    )
    sweep, flat, step = softmax_sweep(rows, y, basis), np.linspace(-0.5, 0.5, 8), 1e-5
    loss, gradient, hessian = sweep(flat)
    theta = basis @ flat.reshape(4, 2).T
    np.testing.assert_allclose(loss, softmax_loss(theta, rows.design(), y, rows.weights), rtol=1e-12)
    moves = step * np.eye(8)
    np.testing.assert_allclose(
        gradient, [(sweep(flat + m)[0] - sweep(flat - m)[0]) / (2 * step) for m in moves], rtol=1e-6
    )
    rows_of = [(sweep(flat + m)[1] - sweep(flat - m)[1]) / (2 * step) for m in moves]
    np.testing.assert_allclose(hessian, rows_of, rtol=1e-6, atol=1e-7)


def test_scikit_learn_has_the_same_optimum():
    x, y = table(150, 4, 3, 2)
    w = np.random.default_rng(3).uniform(0.5, 2, 150)
    peer = LogisticRegression(C=1.0, tol=1e-12, solver="newton-cholesky").fit(x, y, w)
    ours = fit_softmax(x, y, w, penalty=1.0)
    np.testing.assert_allclose(ours.coefficients, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(
        ours.intercepts - ours.intercepts.mean(), peer.intercept_ - peer.intercept_.mean(), atol=1e-6
    )
    np.testing.assert_allclose(ours.predict_proba(x), peer.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "gradient"])
def test_every_optimiser_finds_the_same_minimum(solver):
    x, y = table()
    exact, other = fit_softmax(x, y, penalty=0.5), fit_softmax(x, y, penalty=0.5, solver=solver)
    np.testing.assert_allclose(other.coefficients, exact.coefficients, atol=1e-6)
    assert other.status is Status.converged


def test_two_classes_are_logistic_regression_with_twice_the_penalty():
    x, y = table(60, 2, 2, 4)
    pair, single = fit_softmax(x, y, penalty=1.0), fit_logistic(x, y, penalty=0.5)
    np.testing.assert_allclose(pair.coefficients[1] - pair.coefficients[0], single.coefficients, atol=1e-8)
    np.testing.assert_allclose(pair.predict_proba(x)[:, 1], single.predict_proba(x), atol=1e-9)


def test_coefficients_sum_to_zero_and_scales_do_not_matter():
    x, y = table()
    plain = fit_softmax(x, y)
    np.testing.assert_allclose(plain.coefficients.sum(0), 0, atol=1e-10)
    scaled = fit_softmax(x * [1e12, 1.0, 1e-12], y)
    np.testing.assert_allclose(
        np.asarray(scaled.coefficients) * [1e12, 1.0, 1e-12], plain.coefficients, rtol=1e-6
    )


def test_a_class_without_rows_is_refused():
    x, y = table(30, 2, 2, 5)
    with pytest.raises(ValueError, match=r"`y` must be with rows of every class; got none of class \[2\]"):
        fit_softmax(x, y, num_classes=3, penalty=1.0)


def test_bad_codes_are_named():
    with pytest.raises(ValueError, match=r"`y` must be codes of classes; got dtype <U1"):
        fit_softmax([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match=r"of classes, from 0 to 1; got 2 at index 1"):
        fit_softmax([[0.0], [1.0]], [0, 2], num_classes=2)
