"""Several outputs by Kronecker algebra against the dense covariance of all targets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tractable.gp.multi_output import MultiOutputProcess, fit_multi_output
from tractable.gp.regression import GaussianProcess
from tractable.kernels.stationary import RBF

B = np.array([[1.5, 0.9, 0.0], [0.9, 1.0, -0.2], [0.0, -0.2, 0.5]])
NOISE = np.array([0.1, 0.3, 0.05])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (11, 2))
    return X, rng.normal(size=(11, 3)) + np.array([1.0, 0.0, -1.0])


@pytest.fixture(scope="module")
def process():
    return MultiOutputProcess(RBF([0.8, 1.5]), B, NOISE, [0.5, 0.1, -0.2])


def dense(kernel, X):
    return np.kron(B, np.asarray(kernel.gram(X))) + np.kron(np.diag(NOISE), np.eye(len(X)))


def test_evidence_and_predictions_are_those_of_the_dense_covariance(rows, process):
    X, Y = rows
    cov, flat = dense(process.kernel, X), (Y - np.array([0.5, 0.1, -0.2])).T.reshape(-1)
    post = process.posterior(X, Y)
    expected = multivariate_normal(np.zeros(33), cov).logpdf(flat)
    assert float(post.log_evidence) == pytest.approx(expected, rel=1e-11)
    assert float(process.log_evidence(X, Y)) == pytest.approx(expected, rel=1e-11)
    new = np.random.default_rng(1).normal(size=(4, 2))
    cross = np.kron(B, np.asarray(process.kernel.gram(new, X)))
    mean = (cross @ np.linalg.solve(cov, flat)).reshape(3, 4).T + np.array([0.5, 0.1, -0.2])
    before = np.kron(B, np.asarray(process.kernel.gram(new)))
    variance = np.diag(before - cross @ np.linalg.solve(cov, cross.T)).reshape(3, 4).T
    np.testing.assert_allclose(post.latent(new).mean, mean, rtol=1e-9)
    np.testing.assert_allclose(post.latent(new).variance, variance, rtol=1e-9)
    np.testing.assert_allclose(post.predict_dist(new).variance, variance + NOISE, rtol=1e-9)
    assert "num_rows      11" in repr(post)


def test_gradient_is_that_of_the_dense_density(rows):
    """Also where eigenvalues are equal, where eigenvectors have no derivative."""
    X, Y = rows

    def evidence(parts, kronecker):
        length, outputs, noise, means = parts
        if kronecker:
            return MultiOutputProcess(RBF(length), outputs, noise, means).log_evidence(X, Y)
        cov = jnp.kron(outputs, RBF(length).gram(X)) + jnp.kron(jnp.diag(noise), jnp.eye(11))
        return jax.scipy.stats.multivariate_normal.logpdf((Y - means[None]).T.reshape(-1), jnp.zeros(33), cov)

    for outputs in (B, np.eye(3)):
        parts = (jnp.array([0.8, 1.5]), jnp.asarray(outputs), jnp.asarray(NOISE), jnp.array([0.5, 0.1, -0.2]))
        one, other = (jax.jit(jax.grad(lambda p: evidence(p, k)))(parts) for k in (True, False))
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_a_diagonal_is_independent_outputs(rows):
    X, Y = rows
    post = MultiOutputProcess(RBF(1.0), [1.0, 2.0, 0.5], NOISE).posterior(X, Y)
    singles = [
        GaussianProcess(s * RBF(1.0), v).posterior(X, y) for s, v, y in zip((1.0, 2.0, 0.5), NOISE, Y.T)
    ]
    total = sum(float(single.log_evidence) for single in singles)
    assert float(post.log_evidence) == pytest.approx(total, rel=1e-10)
    means = np.stack([np.asarray(single.mean(X[:4])) for single in singles], axis=1)
    np.testing.assert_allclose(post.latent(X[:4]).mean, means, rtol=1e-8)


def test_correlated_outputs_are_learnt():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 6, 40))
    f = np.sin(x)
    Y = np.stack([f, -2 * f], 1) + 0.1 * rng.normal(size=(40, 2))
    start = MultiOutputProcess(RBF(1.0), np.eye(2), [0.1, 0.1])
    fit = fit_multi_output(start, x, Y)
    found = np.asarray(fit.process.coregionalisation)
    assert found[0, 1] / np.sqrt(found[0, 0] * found[1, 1]) < -0.95
    assert float(fit.log_evidence) > float(start.log_evidence(x, Y))
    assert float(fit.log_evidence) == pytest.approx(float(fit.process.log_evidence(x, Y)), rel=1e-9)


def test_bad_input_is_named(process):
    with pytest.raises(ValueError, match="`y` must be rows of 3 outputs"):
        process.posterior([[0.0, 1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="`y` must be as long as `X`"):
        process.posterior([[0.0, 1.0]], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="`means` must be one per output"):
        MultiOutputProcess(RBF(1.0), np.eye(2), 0.1, [0.0])


def test_weights_count_rows_in_the_gradient(rows, process):
    X, Y = rows
    counts = np.array([2, 1, 1, 3, 1, 0, 1, 2, 1, 1, 1])
    place = np.repeat(np.arange(11), counts)
    slope = jax.jit(
        jax.grad(lambda noise, X, Y, w: MultiOutputProcess(RBF(1.0), B, noise).log_evidence(X, Y, w))
    )
    twice = slope(NOISE, X[place], Y[place], np.ones(len(place)))
    np.testing.assert_allclose(slope(NOISE, X, Y, 1.0 * counts), twice, rtol=1e-8)
    with pytest.raises(ValueError, match="`weights`"):
        process.posterior(X, Y, -counts)
