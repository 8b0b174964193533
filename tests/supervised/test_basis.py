"""Basis functions against their formulas, in NumPy and in JAX, joined and in a regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from tractable.supervised.basis import (
    Bias,
    Functions,
    GaussianBumps,
    Inputs,
    Polynomial,
    Products,
    Sigmoids,
    design_matrix,
)

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(7, 3))


@pytest.mark.parametrize(("degree", "bias"), [(1, True), (3, True), (4, False)])
def test_polynomials_are_all_monomials(degree, bias):
    expected = PolynomialFeatures(degree, include_bias=bias).fit_transform(ROWS)
    np.testing.assert_allclose(Polynomial(degree, bias)(ROWS), expected, rtol=1e-14)
    powers = Polynomial(degree, bias, products=False)(ROWS)
    columns = [ROWS**m for m in range(1, degree + 1)]
    expected = np.column_stack([np.ones((7, 1))] * bias + columns)
    np.testing.assert_allclose(powers, expected, rtol=1e-14)


def test_products_of_distinct_inputs():
    a, b, c = ROWS.T
    one = np.ones(7)
    expected = np.stack([one, a, b, c, a * b, a * c, b * c, a * b * c], axis=1)
    np.testing.assert_allclose(Products()(ROWS), expected, rtol=1e-14)
    np.testing.assert_allclose(Products(2, bias=False)(ROWS), expected[:, 1:7], rtol=1e-14)
    # their inner products are the kernel of all products
    features = Products()(ROWS)
    kernel = np.prod(1 + ROWS[:, None] * ROWS[None], axis=2)
    np.testing.assert_allclose(features @ features.T, kernel, rtol=1e-12)


def test_bumps_and_sigmoids_meet_their_formulas():
    x, centres = np.linspace(-2, 2, 9), np.array([-1.0, 0.0, 1.5])
    away = x[:, None] - centres
    np.testing.assert_allclose(GaussianBumps(centres, 0.7)(x), np.exp(-(away**2) / (2 * 0.49)), rtol=1e-14)
    np.testing.assert_allclose(Sigmoids(centres, 0.3)(x), 1 / (1 + np.exp(-away / 0.3)), rtol=1e-12)
    scales = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(
        GaussianBumps(centres, scales)(x), np.exp(-0.5 * (away / scales) ** 2), rtol=1e-14
    )
    directions = GENERATOR.normal(size=(2, 3))
    expected = 1 / (1 + np.exp(-np.einsum("jk,ijk->ij", directions, ROWS[:, None] - ROWS[None, :2])))
    np.testing.assert_allclose(Sigmoids(ROWS[:2], 1.0, directions)(ROWS), expected, rtol=1e-12)
    assert Sigmoids([0.0], 1e-3)(np.array([-5.0, 5.0])).tolist() == [
        [0.0],
        [1.0],
    ]  # no overflow: exp(-5000) is zero


def test_bases_join_and_callables_count():
    basis = Bias() + Inputs() + Functions(lambda X: np.sin(X[:, 0]), lambda X: X[:, :2] ** 2)
    expected = np.column_stack([np.ones(7), ROWS, np.sin(ROWS[:, 0]), ROWS[:, :2] ** 2])
    np.testing.assert_array_equal(basis(ROWS), expected)
    sequence = [Bias(), Inputs(), lambda X: np.sin(X[:, 0]), lambda X: X[:, :2] ** 2]
    np.testing.assert_array_equal(design_matrix(sequence, ROWS), expected)
    np.testing.assert_array_equal(design_matrix(np.cos, [0.0, 1.0]), np.cos([[0.0], [1.0]]))


def test_rows_of_jax_stay_in_jax_with_gradients():
    basis = Polynomial(2) + GaussianBumps(ROWS[:2], 1.0) + Sigmoids(ROWS[:2], 1.0, ROWS[2:4])
    np.testing.assert_allclose(eqx.filter_jit(basis)(jnp.asarray(ROWS)), basis(ROWS), rtol=1e-12)
    slope = jax.grad(lambda c: GaussianBumps(c, 1.0)(jnp.asarray(ROWS)).sum())(jnp.asarray(ROWS[:2]))
    step = 1e-6 * np.eye(3)[0][None] * np.array([[1.0], [0.0]])
    difference = (
        GaussianBumps(ROWS[:2] + step)(ROWS).sum() - GaussianBumps(ROWS[:2] - step)(ROWS).sum()
    ) / 2e-6
    np.testing.assert_allclose(slope[0, 0], difference, rtol=1e-7)


def test_bad_bases_are_named():
    with pytest.raises(ValueError, match="`scale` must be positive"):
        GaussianBumps([0.0], -1.0)
    with pytest.raises(ValueError, match="`X` must be rows of 1 columns, like the centres; got 3 columns"):
        GaussianBumps([0.0], 1.0)(ROWS)
    with pytest.raises(ValueError, match="`directions` must be given in more than one dimension"):
        Sigmoids(ROWS)
    with pytest.raises(ValueError, match=r"`functions\[0\]` must be one that gives 7 rows; got shape \(3,\)"):
        Functions(lambda X: X[0])(ROWS)
    with pytest.raises(ValueError, match="`degree` must be a whole number of at least 0; got -1"):
        Polynomial(-1)
    with pytest.raises(ValueError, match="`X` must be finite; got NaN in column 0, row 0"):
        Polynomial(1)(np.array([np.nan]))
