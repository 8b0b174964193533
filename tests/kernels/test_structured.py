"""The edges of composed kernels; their values are in the laws."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.kernels.nonstationary import Linear, Wiener
from tractable.kernels.stationary import RBF, Matern12, Matern52
from tractable.kernels.structured import (
    Exponentiated,
    Modulated,
    Normalised,
    OnColumns,
    PolynomialOf,
    Warped,
    direct_product,
    direct_sum,
)

ROWS = np.random.default_rng(0).uniform(0.2, 2.0, size=(5, 3))


def test_direct_sum_is_symmetric():
    """k_a(x_a, x'_a) + k_b(x_b, x'_b): each kernel sees the same part of both points."""
    kernel = direct_sum((RBF(0.7), 0), (Matern12(), [1, 2]))
    want = RBF(0.7).gram(ROWS[:, 0]) + Matern12().gram(ROWS[:, 1:])
    np.testing.assert_allclose(kernel.gram(ROWS), want, rtol=1e-14)
    product = direct_product((RBF(0.7), 0), (Matern12(), [1, 2]))
    np.testing.assert_allclose(
        product.gram(ROWS), RBF(0.7).gram(ROWS[:, 0]) * Matern12().gram(ROWS[:, 1:]), rtol=1e-14
    )
    for combine in (direct_sum, direct_product):
        with pytest.raises(ValueError, match="`parts` must be at least one pair"):
            combine()


def test_exponential_of_a_linear_kernel_is_the_gaussian_kernel_unnormalised():
    sizes = np.exp(-0.5 * (ROWS**2).sum(1))
    rbf = sizes[:, None] * np.asarray(Exponentiated(Linear()).gram(ROWS)) * sizes[None]
    np.testing.assert_allclose(rbf, RBF().gram(ROWS), rtol=1e-12)
    again = Modulated(Exponentiated(Linear()), lambda x: jnp.exp(-0.5 * x @ x))
    np.testing.assert_allclose(again.gram(ROWS), RBF().gram(ROWS), rtol=1e-12)
    np.testing.assert_allclose(Normalised(Exponentiated(Linear())).gram(ROWS), RBF().gram(ROWS), rtol=1e-12)


def test_warps_by_functions_and_their_domain():
    kernel = Warped(Wiener(), lambda x: x[0] ** 2)
    np.testing.assert_allclose(kernel.gram([1.0, -2.0]), [[1.0, 1.0], [1.0, 4.0]], rtol=1e-14)
    with pytest.raises(ValueError, match=r"`X` must be inside the domain of `map`; got row 1"):
        Warped(RBF(), jnp.log).gram([1.0, -1.0])
    with pytest.raises(ValueError, match=r"`map\(X\)` must be times from zero on"):
        Warped(Wiener(), lambda x: x - 5.0).gram([1.0])
    assert repr(Warped(RBF(), jnp.log)) == "Warped(kernel=RBF(length_scale=1.0), map=log)"


@pytest.mark.parametrize("columns", [[], [0, 0], [-1], np.array([0.5])])
def test_columns_must_be_distinct_numbers(columns):
    with pytest.raises(ValueError, match="`columns` must be distinct column numbers"):
        OnColumns(RBF(), columns)


def test_columns_must_exist():
    with pytest.raises(ValueError, match="`columns` must be below 3, the number of columns; got 5"):
        OnColumns(RBF(), [1, 5]).gram(ROWS)


def test_coefficients_of_a_polynomial_are_not_negative():
    with pytest.raises(ValueError, match="`coefficients` must be zero or positive"):
        PolynomialOf(RBF(), [1.0, -0.5])
    with pytest.raises(ValueError, match="`coefficients` must be"):
        PolynomialOf(RBF(), 1.0)


def test_traits_follow_the_parts():
    smooth = 2.0 * RBF() + Matern52() * RBF(0.3)
    assert smooth.traits.isotropic
    assert smooth.traits.derivatives == 2
    assert not (RBF() + Linear()).traits.stationary
    assert not RBF([1.0, 2.0]).traits.isotropic
    assert RBF([1.0, 2.0]).traits.stationary
    assert (Linear() + 1.0).traits.dot_product
    assert Exponentiated(Linear()).traits.dot_product
    assert np.isnan(Warped(RBF(), jnp.tanh).traits.derivatives)
