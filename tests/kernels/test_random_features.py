"""Random Fourier features within their standard error, and Nystrom features within their bound."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.kernels.nonstationary import Linear
from tractable.kernels.random_features import NystromFeatures, pivoted_landmarks, random_fourier_features
from tractable.kernels.stationary import RBF, Matern, Matern32, RationalQuadratic

ROWS = np.random.default_rng(0).normal(size=(6, 3))
KERNELS = [RBF([0.7, 1.5, 2.0]), 2.0 * Matern32(1.2), Matern(0.8), RationalQuadratic(1.1, 0.9)]


@pytest.mark.parametrize(
    ("kernel", "orthogonal"),
    [*((k, False) for k in KERNELS), (KERNELS[0], True), (KERNELS[1], True)],
    ids=repr,
)
def test_fourier_features_are_unbiased(kernel, orthogonal):
    """The mean over independent maps, against its standard error."""
    num_maps, keys = 400, jr.split(jr.key(3), 400)

    def estimate(key):
        phi = random_fourier_features(kernel, 7, 3, key, orthogonal=orthogonal)(ROWS)
        return phi @ phi.T

    draws = np.asarray(jax.jit(jax.vmap(estimate))(keys))
    gram = np.asarray(kernel.gram(ROWS))
    upper = np.triu_indices(6, 1)
    error = draws.std(0)[upper] / np.sqrt(num_maps)
    assert np.abs((draws.mean(0) - gram)[upper] / error).max() < 5
    diagonal = draws[:, np.arange(6), np.arange(6)]
    np.testing.assert_allclose(diagonal, np.broadcast_to(np.diag(gram), (num_maps, 6)), rtol=1e-12)


def test_variance_of_the_features_of_a_gaussian_kernel():
    """(1 + k(2t) - 2 k(t)^2) / (2 m), and less with orthogonal frequencies."""
    kernel, x, y = RBF(), jnp.zeros((1, 3)), jnp.array([[0.9, 0.2, -0.5]])
    keys, others = jr.split(jr.key(0), (2, 4000))

    def estimate(key, orthogonal):
        features = random_fourier_features(kernel, 3, 3, key, orthogonal=orthogonal)
        return (features(x) @ features(y).T)[0, 0]

    plain = np.asarray(jax.jit(jax.vmap(lambda k: estimate(k, False)))(keys))
    tied = np.asarray(jax.jit(jax.vmap(lambda k: estimate(k, True)))(others))
    value, double = float(kernel(x[0], y[0])), float(kernel(x[0], 2 * y[0]))
    want = (1 + double - 2 * value**2) / (2 * 3)
    spread = ((plain - plain.mean()) ** 2).std() / np.sqrt(len(plain))
    assert abs(plain.var() - want) < 5 * spread
    assert tied.var() < 0.8 * want


def test_fourier_features_differentiate_in_the_length_scale():
    def value(scale):
        return random_fourier_features(RBF(scale), 5, 3, jr.key(0))(ROWS).sum()

    numeric = (value(1.3 + 1e-6) - value(1.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(value)(1.3), numeric, rtol=1e-6)


def test_kernels_without_a_density_are_refused():
    with pytest.raises(TypeError, match=r"`kernel` must have a known spectral density; got Linear\(\)"):
        random_fourier_features(Linear(), 5, 3, jr.key(0))
    with pytest.raises(ValueError, match="`X` must be rows of 3 columns"):
        random_fourier_features(RBF(), 5, 3, jr.key(0))(np.ones((2, 2)))


def test_nystrom_is_exact_at_landmarks_and_bounded_elsewhere():
    kernel, rows = RBF(1.5), np.random.default_rng(1).normal(size=(40, 2))
    features = NystromFeatures(kernel, rows[:10])
    phi, gram = np.asarray(features(rows)), np.asarray(kernel.gram(rows))
    np.testing.assert_allclose(phi[:10] @ phi.T, gram[:10], atol=1e-9)
    residual = np.asarray(features.residual(rows))
    assert (residual > -1e-9).all()
    root = np.sqrt(np.maximum(residual, 0) + 1e-9)
    assert (np.abs(phi @ phi.T - gram) <= root[:, None] * root[None] + 1e-9).all()
    assert features.rank == 10
    repeated = NystromFeatures(kernel, np.concatenate([rows[:10], rows[:3]]))
    assert repeated.rank == 10
    assert (len(repeated.landmarks), repeated.rank) == (13, 10)


def test_pivoted_landmarks_are_those_of_the_dense_factor():
    kernel, rows = Matern32(1.0), np.random.default_rng(2).normal(size=(15, 2))
    chosen = pivoted_landmarks(kernel, rows, 6)
    gram = np.asarray(kernel.gram(rows))
    left, order = gram.copy(), []
    for total in np.asarray(chosen.residuals):
        pivot = int(np.argmax(np.diag(left)))
        order.append(pivot)
        left = left - np.outer(left[:, pivot], left[pivot]) / left[pivot, pivot]
        np.testing.assert_allclose(np.trace(left), total, rtol=1e-9)
    assert np.asarray(chosen.indices).tolist() == order
    explained = NystromFeatures(kernel, rows[np.array(order)])
    np.testing.assert_allclose(explained.residual(rows).sum(), chosen.residuals[-1], rtol=1e-6)


def test_pivots_stop_where_nothing_is_left():
    chosen = pivoted_landmarks(Linear(), np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [1.0, 1.0]]), 4)
    np.testing.assert_allclose(chosen.residuals[1:], np.zeros(3), atol=1e-12)
    assert np.asarray(chosen.indices)[0] == 2
