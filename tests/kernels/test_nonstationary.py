"""Kernels of inner products, of products of columns, of networks and of times."""

import itertools
import math

import jax.random as jr
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as peers
from sklearn.metrics import pairwise

from tractable.kernels.checks import falsify_psd
from tractable.kernels.nonstationary import (
    Bilinear,
    CosineSimilarity,
    HomogeneousPolynomial,
    Linear,
    NeuralNetwork,
    Polynomial,
    ProductFeature,
    Sigmoid,
    Wiener,
)
from tractable.kernels.structured import Normalised

ROWS = np.random.default_rng(0).normal(size=(8, 3))


def test_polynomial_worked_numbers():
    x = [1.0, 2.0]
    for kernel in (Polynomial(2, offset=0.0), HomogeneousPolynomial(2)):
        assert float(kernel(x, [3.0, 4.0])) == 121.0
        assert float(kernel(x, [3.0, -1.0])) == 1.0
    assert float(Polynomial(2)(x, [3.0, 4.0])) == 144.0
    assert float(Polynomial(3, offset=0.5)(x, [3.0, -1.0])) == 1.5**3


@pytest.mark.parametrize("degree", [0, -1])
def test_degrees_are_whole_and_positive(degree):
    for kernel in (Polynomial, HomogeneousPolynomial):
        with pytest.raises(ValueError, match="`degree` must be a whole number of at least 1"):
            kernel(degree)


def test_linear_and_cosine_against_scikit_learn():
    np.testing.assert_allclose(Linear().gram(ROWS), pairwise.linear_kernel(ROWS), rtol=1e-13)
    np.testing.assert_allclose(CosineSimilarity().gram(ROWS), pairwise.cosine_similarity(ROWS), rtol=1e-12)
    np.testing.assert_allclose(Normalised(Linear()).gram(ROWS), pairwise.cosine_similarity(ROWS), rtol=1e-12)
    np.testing.assert_allclose((Linear() + 0.49).gram(ROWS), peers.DotProduct(0.7)(ROWS), rtol=1e-12)
    with_slope = 0.3**3 * Polynomial(3, 2.0 / 0.3)
    np.testing.assert_allclose(
        with_slope.gram(ROWS), pairwise.polynomial_kernel(ROWS, degree=3, gamma=0.3, coef0=2.0), rtol=1e-12
    )
    np.testing.assert_allclose(
        Sigmoid(0.2, 0.1).gram(ROWS), pairwise.sigmoid_kernel(ROWS, gamma=0.2, coef0=0.1)
    )


def test_bilinear_is_linear_in_transformed_columns():
    root = np.array([[1.0, 0.0], [0.5, 2.0], [0.3, -0.4]])
    np.testing.assert_allclose(Bilinear(root @ root.T).gram(ROWS), Linear().gram(ROWS @ root), rtol=1e-12)
    with pytest.raises(ValueError, match="`matrix` must be"):
        Bilinear([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"`matrix` must be of shape \(3, 3\); got shape \(2, 2\)"):
        Bilinear(np.eye(2)).gram(ROWS)


def test_zero_has_no_direction():
    rows = ROWS.copy()
    rows[4] = 0.0
    with pytest.raises(ValueError, match=r"`Y` must be without rows of zeros.*at index 4"):
        (2.0 * CosineSimilarity() + Linear()).gram(ROWS, rows)


def test_product_of_columns_is_the_inner_product_of_all_products():
    """All 2^4 monomials without repetition."""
    x, y = np.random.default_rng(1).normal(size=(2, 4))
    subsets = [s for size in range(5) for s in itertools.combinations(range(4), size)]
    explicit = sum(math.prod(x[list(s)]) * math.prod(y[list(s)]) for s in subsets)
    np.testing.assert_allclose(ProductFeature()(x, y), explicit, rtol=1e-13)
    wide = np.random.default_rng(2).normal(size=(3, 40)) / 5  # a scan over the columns
    np.testing.assert_allclose(
        ProductFeature().gram(wide), (1 + wide[:, None] * wide[None]).prod(-1), rtol=1e-12
    )


def test_arcsine_kernel_is_the_covariance_of_random_units():
    """E[erf(w.x~) erf(w.y~)] over normal weights."""
    x, y = np.array([0.5, -1.0]), np.array([1.5, 0.3])
    kernel = NeuralNetwork([1.2, 0.6], 0.5)
    rng, size = np.random.default_rng(0), 200_000
    weights = rng.normal(size=(size, 3)) * np.sqrt([0.5, 1.2, 0.6])
    from scipy.special import erf

    products = erf(weights @ [1.0, *x]) * erf(weights @ [1.0, *y])
    z = (products.mean() - float(kernel(x, y))) / (products.std() / math.sqrt(size))
    assert abs(z) < 5


def test_wiener_is_the_covariance_of_sums_of_steps():
    times = np.array([0.5, 1.0, 2.5, 2.5])
    np.testing.assert_array_equal(Wiener().gram(times), np.minimum(times[:, None], times[None]))
    with pytest.raises(ValueError, match=r"`X` must be times from zero on.*-1\.0 at index \(1, 0\)"):
        Wiener().gram([1.0, -1.0])


@pytest.mark.parametrize("offset", [-1.0, 0.5])
def test_sigmoid_is_not_positive_semidefinite_and_says_so(offset):
    kernel = Sigmoid(1.0, offset)
    assert not kernel.traits.psd
    found = falsify_psd(kernel, jr.key(1))
    assert found.found
    f = found.witness
    np.testing.assert_allclose(f @ kernel.gram(found.points) @ f, found.value, rtol=1e-9)
    assert found.value < 0
