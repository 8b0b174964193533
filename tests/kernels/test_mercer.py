"""Eigenfunctions with closed forms, expansions, random functions, and the space of a kernel."""

import math

import jax.random as jr
import numpy as np
import pytest

from tractable.kernels.mercer import Mercer, RKHSFunction, integral_operator, mercer_expansion
from tractable.kernels.nonstationary import Linear, Wiener
from tractable.kernels.stationary import RBF, Matern32

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)
POINTS, MEASURE = (NODES + 1) / 2, WEIGHTS / 2  # the uniform measure on [0, 1]
GRID = np.linspace(0.05, 0.95, 7)


def test_eigenfunctions_of_brownian_motion():
    """min(s, t) on [0, 1]: 1/((i - 1/2) pi)^2 and sqrt2 sin((i - 1/2) pi t)."""
    rates = (np.arange(4) + 0.5) * math.pi
    want = math.sqrt(2) * np.sin(rates[None] * GRID[:, None])
    errors = []
    for count in (60, 240):  # the kink of the kernel leaves an error of order 1/n^2
        nodes, weights = np.polynomial.legendre.leggauss(count)
        found = mercer_expansion(Wiener(), (nodes + 1) / 2, 4, weights=weights / 2)
        functions = np.asarray(found.eigenfunctions(GRID))
        errors.append(np.abs(functions * np.sign((functions * want).sum(0)) - want).max())
    np.testing.assert_allclose(found.eigenvalues, 1 / rates**2, rtol=1e-3)
    assert errors[1] < errors[0] / 10
    assert errors[1] < 1e-3


def test_eigenvalues_of_the_gaussian_kernel_under_a_normal_measure():
    """With a = 1/4, b = 1/(2 l^2), c = sqrt(a^2 + 2ab), A = a + b + c: sqrt(2a/A) (b/A)^i."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    found = mercer_expansion(RBF(0.8), nodes, 8, weights=weights / weights.sum())
    a, b = 0.25, 1 / (2 * 0.8**2)
    total = a + b + math.sqrt(a**2 + 2 * a * b)
    np.testing.assert_allclose(
        found.eigenvalues, math.sqrt(2 * a / total) * (b / total) ** np.arange(8), rtol=1e-9
    )


def test_eigenfunctions_are_orthonormal_and_decreasing():
    found = mercer_expansion(RBF(0.3), POINTS, 9, weights=MEASURE)
    values = np.asarray(found.values)
    np.testing.assert_allclose(values.T @ (MEASURE[:, None] * values), np.eye(9), atol=1e-12)
    assert (np.diff(found.eigenvalues) < 0).all()
    image = integral_operator(RBF(0.3), values[:, 2], POINTS, MEASURE, at=GRID)
    np.testing.assert_allclose(image, found.eigenvalues[2] * found.eigenfunctions(GRID)[:, 2], rtol=1e-9)
    np.testing.assert_allclose(found.eigenfunctions(POINTS), values, atol=1e-8)


def test_the_integral_operator_is_a_quadrature():
    """For x y and f = y^2 on [0, 1]: x/4."""
    image = integral_operator(Linear(), POINTS**2, POINTS, MEASURE, at=GRID)
    np.testing.assert_allclose(image, GRID / 4, rtol=1e-12)
    with pytest.raises(ValueError, match="`f` must be a vector of 60, one per point"):
        integral_operator(Linear(), [1.0], POINTS, MEASURE)


def test_expansion_converges_to_the_kernel():
    errors = [
        float(mercer_expansion(RBF(0.3), POINTS, terms, weights=MEASURE).error(GRID))
        for terms in (2, 5, 9, 14)
    ]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 1e-9
    full = mercer_expansion(RBF(0.3), POINTS, 14, weights=MEASURE)
    np.testing.assert_allclose(full.share, 1.0, rtol=1e-6)
    assert "eigenvalues=float64[14], share=1.0" in repr(full)


def test_random_functions_have_the_covariance_of_the_kernel():
    found = mercer_expansion(RBF(0.3), POINTS, 14, weights=MEASURE)
    draws = np.asarray(found.sample(jr.key(0), GRID, (4000,)))
    products = draws[:, :, None] * draws[:, None, :]
    z = (products.mean(0) - np.asarray(RBF(0.3).gram(GRID))) / (products.std(0) / math.sqrt(4000))
    assert np.abs(z).max() < 5


def test_a_sample_stands_for_the_measure():
    """Equal weights: the eigenpairs of K/n."""
    rows = np.random.default_rng(0).normal(size=(30, 2))
    found = mercer_expansion(Matern32(), rows, 5)
    values = np.linalg.eigvalsh(np.asarray(Matern32().gram(rows)) / 30)[::-1][:5]
    np.testing.assert_allclose(found.eigenvalues, values, rtol=1e-12)
    np.testing.assert_allclose((np.asarray(found.values) ** 2).mean(0), np.ones(5), rtol=1e-12)
    with pytest.raises(ValueError, match="`weights` must be positive"):
        mercer_expansion(RBF(), rows, 2, weights=np.zeros(30))
    short = mercer_expansion(Linear(), rows, 9)  # a kernel of rank two
    assert isinstance(short, Mercer)
    assert len(short.eigenvalues) == 2


# --- the space of a kernel -------------------------------------------------------------------------------


def test_reproducing_property_and_norm():
    kernel, rng = Matern32(0.8), np.random.default_rng(3)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    a, b = rng.normal(size=5), rng.normal(size=4)
    f, g = RKHSFunction(kernel, x, a), RKHSFunction(kernel, y, b)
    point = np.array([[0.3, -0.7]])
    section = RKHSFunction(kernel, point, [1.0])
    np.testing.assert_allclose(f.inner(section), f(point)[0], rtol=1e-12)  # <f, k(., x)> = f(x)
    np.testing.assert_allclose(section.norm() ** 2, kernel(point[0], point[0]), rtol=1e-12)
    other = RKHSFunction(kernel, x[:1], [1.0])
    np.testing.assert_allclose(section.inner(other), kernel(point[0], x[0]), rtol=1e-12)
    np.testing.assert_allclose(f.norm(), np.sqrt(a @ np.asarray(kernel.gram(x)) @ a), rtol=1e-12)
    np.testing.assert_allclose(f.inner(g), g.inner(f), rtol=1e-12)
    assert float(f.inner(g)) ** 2 <= float(f.inner(f) * g.inner(g))  # Cauchy and Schwarz
    assert abs(float(f(point)[0])) <= float(f.norm()) * float(kernel(point[0], point[0])) ** 0.5


def test_inner_product_by_eigenvalues_is_the_one_by_sections():
    """<f, g> = sum f_i g_i / lambda_i for functions that are sums of sections."""
    kernel = RBF(0.5)
    found = mercer_expansion(kernel, POINTS, 12, weights=MEASURE)
    f = RKHSFunction(kernel, [0.2, 0.7], [1.0, -0.5])
    g = RKHSFunction(kernel, [0.4], [2.0])
    coefficients = [found.coefficients(function(POINTS)) for function in (f, g)]
    np.testing.assert_allclose(found.inner(*coefficients), f.inner(g), rtol=1e-7)
    np.testing.assert_allclose(found.norm(coefficients[0]), f.norm(), rtol=1e-7)


def test_wrong_functions_are_named():
    with pytest.raises(ValueError, match="`coefficients` must be as long as `points`"):
        RKHSFunction(RBF(), [0.0, 1.0], [1.0])
    found = mercer_expansion(RBF(), POINTS, 3, weights=MEASURE)
    with pytest.raises(ValueError, match="`f` must be as long as `points`"):
        found.coefficients([1.0, 2.0])
    with pytest.raises(ValueError, match="`g` must be as long as `eigenvalues`"):
        found.inner([1.0, 2.0, 3.0], [1.0])
