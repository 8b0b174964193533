"""Explicit features against the kernels that they write out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.kernels.features import (
    monomial_exponents,
    polynomial_features,
    product_features,
    rbf_series_error,
    rbf_series_features,
)
from tractable.kernels.nonstationary import HomogeneousPolynomial, Polynomial, ProductFeature
from tractable.kernels.stationary import RBF

ROWS = np.random.default_rng(0).normal(size=(6, 3))


def test_monomials_of_the_squared_inner_product_in_two_columns():
    """phi = (x1^2, sqrt2 x1 x2, x2^2): (1, 2).(3, 4) gives 121."""
    phi = np.asarray(polynomial_features([[1.0, 2.0], [3.0, 4.0], [3.0, -1.0]], 2))
    np.testing.assert_allclose(phi[0], [1, 2 * np.sqrt(2), 4], rtol=1e-14)
    np.testing.assert_allclose(phi[0] @ phi[1], 121.0, rtol=1e-14)
    np.testing.assert_allclose(phi[0] @ phi[2], 1.0, rtol=1e-13)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_features_of_polynomial_kernels(degree):
    phi = polynomial_features(ROWS, degree)
    np.testing.assert_allclose(phi @ phi.T, HomogeneousPolynomial(degree).gram(ROWS), rtol=1e-11, atol=1e-12)
    shifted = polynomial_features(ROWS, degree, offset=0.7)
    np.testing.assert_allclose(
        shifted @ shifted.T, Polynomial(degree, 0.7).gram(ROWS), rtol=1e-11, atol=1e-12
    )


def test_exponents_are_all_of_one_degree():
    table = monomial_exponents(4, 3)
    assert table.shape == (20, 4)
    assert (table.sum(1) == 3).all()
    assert len({tuple(row) for row in table}) == 20
    assert monomial_exponents(3, 0).tolist() == [[0, 0, 0]]


def test_all_products_of_distinct_columns():
    rows = np.random.default_rng(1).normal(size=(5, 4))
    phi = product_features(rows)
    assert phi.shape == (5, 16)
    np.testing.assert_allclose(phi @ phi.T, ProductFeature().gram(rows), rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 0.2])
def test_series_of_the_gaussian_kernel_errs_within_its_bound(gamma):
    exact = np.asarray(RBF.from_gamma(gamma).gram(ROWS))
    worst = []
    for order in (0, 3, 7):
        phi = rbf_series_features(ROWS, order, gamma)
        error = np.abs(np.asarray(phi @ phi.T) - exact)
        bound = np.asarray(rbf_series_error(ROWS, ROWS, order, gamma))
        assert (error <= bound + 1e-14).all()
        worst.append(error.max())
    assert worst[0] > worst[1] > worst[2]
    np.testing.assert_allclose(np.diag(error), np.diag(bound), atol=1e-14)  # equal points attain the bound


def test_series_converges_on_the_line():
    """gamma = 1/2: exp(-x^2/2) exp(-y^2/2) sum (x y)^n / n!."""
    phi = rbf_series_features([0.5, -1.2], 21)
    np.testing.assert_allclose(phi[0] @ phi[1], np.exp(-0.5 * 1.7**2), rtol=1e-12)


def test_derivatives_of_features_at_zero_are_finite():
    slope = jax.jacfwd(lambda x: polynomial_features(x[None], 2)[0])(jnp.zeros(2))
    np.testing.assert_array_equal(slope, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynomial_features(ROWS, 0), "`degree` must be a whole number of at least 1"),
        (lambda: polynomial_features(ROWS, 2, offset=-1.0), "`offset` must be at least zero"),
        (lambda: polynomial_features(np.ones((2, 50)), 9), "`degree` must be low enough"),
        (lambda: product_features(np.ones((2, 30))), "`X` must be narrow enough"),
        (lambda: rbf_series_features(ROWS, 2, gamma=0.0), "`gamma` must be positive"),
        (lambda: polynomial_features([[np.nan]], 2), "`X` must be finite"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
