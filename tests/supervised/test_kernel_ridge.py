"""Kernel ridge and least-squares machines against dense algebra, primal ridge, and refits."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Peer

from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF
from tractable.supervised.linear.kernel_ridge import KernelRidge, kernel_descent
from tractable.supervised.svm.gram import kernel_matrix
from tractable.supervised.svm.least_squares import AsymmetricMachine, LeastSquaresMachine

DESIGN, TARGETS = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 3.0])


def table(n=30, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 2))
    y = np.where((X**2).sum(1) + 0.3 * generator.normal(size=n) > 1.2, 1.0, -1.0)
    return X, y, np.sin(2 * X[:, 0]) + X[:, 1] + 3.0


class Directed(RBF):
    """A kernel that is not symmetric: the second point counts by its first coordinate."""

    def pair(self, x, y):
        return super().pair(x, y) * (1.5 + 0.3 * y[0])

    def _gram(self, x, y):
        return super()._gram(x, y) * (1.5 + 0.3 * (x if y is None else y)[None, :, 0])


def test_kernel_ridge_has_the_worked_coefficients():
    fitted = KernelRidge.fit(DESIGN, TARGETS, Linear(), 0.5)
    np.testing.assert_allclose(fitted.coefficients, [0.2439024, 0.2926829, 0.3414634], atol=5e-8)
    np.testing.assert_allclose(DESIGN.T @ fitted.coefficients, [0.8780488, 0.9756098], atol=5e-8)


def test_kernel_ridge_is_ridge_among_the_features():
    X, _, t = table()
    features = np.column_stack([np.ones(30), np.sqrt(2) * X, X**2, np.sqrt(2) * X[:, :1] * X[:, 1:]])
    weights = np.linalg.solve(features.T @ features + 0.7 * np.eye(6), features.T @ t)
    fitted = KernelRidge.fit(X, t, Polynomial(2, 1.0), 0.7)
    np.testing.assert_allclose(fitted.predict(X), features @ weights, atol=1e-9)
    peer = Peer(alpha=0.3, kernel="rbf", gamma=0.5).fit(X, t)
    np.testing.assert_allclose(KernelRidge.fit(X, t, RBF(1.0), 0.3).predict(X), peer.predict(X), atol=1e-10)


def test_leaving_out_is_refitting():
    X, _, t = table()
    for fit in (KernelRidge.fit, LeastSquaresMachine.fit):
        whole, without = fit(X, t, RBF(1.0), 0.3), fit(np.delete(X, 7, 0), np.delete(t, 7), RBF(1.0), 0.3)
        assert whole.left_out[7] == pytest.approx(float(without.predict(X[7:8])[0]), abs=1e-10)


def test_the_variance_is_that_of_the_process():
    X, _, t = table()
    fitted, K = KernelRidge.fit(X, t, RBF(1.0), 0.3), kernel_matrix(RBF(1.0), X)
    A = K + 0.3 * np.eye(30)
    new = np.array([[0.0, 0.0], [9.0, 9.0]])
    cross = kernel_matrix(RBF(1.0), new, X)
    s2 = t @ np.linalg.solve(A, t) / 30
    truth = s2 * (1.3 - np.einsum("ij,ij->i", cross, np.linalg.solve(A, cross.T).T))
    np.testing.assert_allclose(fitted.variance(new), truth, rtol=1e-10)

    def log_evidence(s):
        return -0.5 * (t @ np.linalg.solve(s * A, t) + np.linalg.slogdet(s * A)[1])

    assert log_evidence(s2) > max(log_evidence(0.99 * s2), log_evidence(1.01 * s2))


def test_kernelised_descent_is_descent_step_by_step():
    X, _, t = table()
    rows, rate = np.column_stack([X, np.ones(30)]), 0.005
    path, w = kernel_descent(rows @ rows.T, t, learning_rate=rate, num_steps=300), np.zeros(3)
    for step in range(300):
        w = w - 2 * rate * rows.T @ (rows @ w - t)
        np.testing.assert_allclose(rows.T @ path[step], w, atol=1e-9)
    np.testing.assert_allclose(w, np.linalg.lstsq(rows, t, rcond=None)[0], atol=1e-4)
    with pytest.raises(ValueError, match=r"`learning_rate` must be positive and below"):
        kernel_descent(rows @ rows.T, t, learning_rate=1.0, num_steps=3)


def test_least_squares_classes_solve_the_written_system():
    X, y, _ = table()
    gamma, fitted = 2.0, LeastSquaresMachine.fit(*table()[:2], RBF(1.0), 2.0)
    omega = y[:, None] * kernel_matrix(RBF(1.0), X) * y
    system = np.block([[np.zeros((1, 1)), y[None]], [y[:, None], omega + np.eye(30) / gamma]])
    found = np.linalg.solve(system, np.r_[0.0, np.ones(30)])
    np.testing.assert_allclose(np.r_[fitted.bias, fitted.multipliers(y)], found, atol=1e-12)
    alpha = fitted.multipliers(y)
    np.testing.assert_allclose(y * fitted.decision(X), 1 - alpha / gamma, atol=4e-14)  # alpha = gamma e
    assert abs(alpha @ y) < 1e-13
    wrong = np.block(
        [[np.zeros((1, 1)), y[None]], [y[:, None], kernel_matrix(RBF(1.0), X) + np.eye(30) / gamma]]
    )
    assert np.abs(np.linalg.solve(wrong, np.r_[0.0, np.ones(30)]) - found).max() > 0.1  # K is not Omega


def test_least_squares_regression_is_kernel_ridge_with_a_free_bias():
    X, _, t = table()
    fitted = LeastSquaresMachine.fit(X, t, RBF(1.0), 4.0)
    K = kernel_matrix(RBF(1.0), X)
    inverse = np.linalg.inv(K + np.eye(30) / 4.0)
    bias = inverse.sum(0) @ t / inverse.sum()  # the bias that minimises the penalised sum of squares
    np.testing.assert_allclose(fitted.bias, bias, rtol=1e-10)
    ridge = KernelRidge.fit(X, t - bias, RBF(1.0), 0.25)
    np.testing.assert_allclose(fitted.predict(X), ridge.predict(X) + bias, atol=1e-10)
    wide = KernelRidge.fit(X, t, RBF(1.0) + 1e8, 0.25)  # a bias with almost no penalty
    np.testing.assert_allclose(fitted.predict(X), wide.predict(X), atol=1e-5)


def test_the_asymmetric_machine_with_a_symmetric_kernel_is_the_least_squares_one():
    X, y, _ = table()
    plain, both = LeastSquaresMachine.fit(X, y, RBF(1.0), 2.0), AsymmetricMachine.fit(X, y, RBF(1.0), 2.0)
    for coefficients in (both.source_coefficients, both.target_coefficients):
        np.testing.assert_allclose(coefficients, plain.coefficients, atol=2e-13)
    assert both.source_bias == pytest.approx(plain.bias, abs=1e-13)
    assert both.target_bias == pytest.approx(plain.bias, abs=1e-13)


def test_the_asymmetric_machine_is_a_stationary_point():
    X, y, _ = table()
    kernel, gamma = Directed(1.0), 2.0
    both = AsymmetricMachine.fit(X, y, kernel, gamma)
    K = np.asarray(kernel.gram(X, X))
    assert np.abs(K - K.T).max() > 0.1
    alpha, beta = both.target_coefficients * y, both.source_coefficients * y
    np.testing.assert_allclose(y * both.source_decision(X), 1 - alpha / gamma, atol=1e-10)
    np.testing.assert_allclose(y * both.target_decision(X), 1 - beta / gamma, atol=1e-10)
    assert abs(alpha @ y) < 1e-10
    assert abs(beta @ y) < 1e-10
    assert np.abs(both.source_decision(X) - both.target_decision(X)).max() > 1e-3
    assert (both.predict(X) == y).mean() > 0.9


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`penalty` must be positive and finite; got 0\.0"):
        KernelRidge.fit(DESIGN, TARGETS, Linear(), 0.0)
    with pytest.raises(ValueError, match=r"`gamma` must be positive and finite"):
        LeastSquaresMachine.fit(DESIGN, TARGETS, Linear(), -1.0)
    with pytest.raises(ValueError, match=r"`weights` must be positive for at least one row"):
        KernelRidge.fit(DESIGN, TARGETS, Linear(), 1.0, weights=np.zeros(3))
