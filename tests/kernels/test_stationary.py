"""Stationary kernels: conventions, limits, Bessel functions, distances, and derivatives at zero."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.gaussian_process import kernels as peers

from tractable.bijections.support import unconstrain
from tractable.kernels.distances import table_of_squares
from tractable.kernels.matern import matern
from tractable.kernels.stationary import (
    RBF,
    Cosine,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
)

DIGITS = 30
ROWS = np.random.default_rng(0).normal(size=(8, 3))
_squares = jax.jit(table_of_squares, static_argnames="exact")
POINTS = jnp.asarray([0.0, 1e-9, 0.03, 0.7, 2.5, 9.0, 30.0])


def test_three_conventions_of_the_squared_exponential():
    x, y = np.array([0.2, -1.0, 0.5]), np.array([1.0, 0.3, 0.4])
    squared = ((x - y) ** 2).sum()
    np.testing.assert_allclose(RBF(1.7)(x, y), math.exp(-squared / (2 * 1.7**2)), rtol=1e-14)
    np.testing.assert_allclose(RBF.from_width(1.7)(x, y), math.exp(-squared / 1.7**2), rtol=1e-14)
    np.testing.assert_allclose(RBF.from_gamma(0.4)(x, y), math.exp(-0.4 * squared), rtol=1e-14)
    kernel = RBF(1.7)
    np.testing.assert_allclose(kernel.width**2, 2 * 1.7**2, rtol=1e-14)  # lambda^2 = 2 l^2
    np.testing.assert_allclose(RBF.from_gamma(kernel.gamma).length_scale, 1.7, rtol=1e-14)
    np.testing.assert_allclose(RBF.from_width(kernel.width).length_scale, 1.7, rtol=1e-14)


def test_amplitude_and_relevance_of_columns():
    scales = np.array([0.5, 1.0, 1e6])
    gram = (2.5 * RBF.from_width(scales)).gram(ROWS)
    direct = 2.5 * np.exp(-(((ROWS[:, None] - ROWS[None]) / scales) ** 2).sum(-1))
    np.testing.assert_allclose(gram, direct, rtol=1e-13)
    without = (2.5 * RBF.from_width(scales[:2])).gram(ROWS[:, :2])
    np.testing.assert_allclose(gram, without, rtol=1e-10)  # a column of a huge scale does not matter


def test_matern_worked_numbers():
    """r = 0.7, l = 1.3."""
    got = [float(kernel(1.3)(0.0, 0.7)) for kernel in (Matern12, Matern32, Matern52)]
    np.testing.assert_allclose(got, [0.5836455, 0.7605189, 0.8061300], atol=5e-8)
    again = [float(Matern(nu, 1.3)(0.0, 0.7)) for nu in (0.5, 1.5, 2.5)]
    np.testing.assert_allclose(again, got, rtol=1e-14)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.8, 1.0, 1.7, 2.0, 3.0, 5.5, 30.2])
def test_matern_of_any_order_against_mpmath(nu):
    def exact(z):
        z = mpmath.mpf(float(z))
        factor = 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu)
        return float(factor * z**nu * mpmath.besselk(nu, z)) if z else 1.0

    def slope(z):  # d/d(z^2) of z^nu K_nu(z)
        z = mpmath.mpf(float(z))
        factor = 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu)
        return float(-factor * z ** (nu - 1) * mpmath.besselk(nu - 1, z) / 2)

    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(lambda s: matern(nu, s))))(POINTS**2)
    np.testing.assert_allclose(values, [exact(z) for z in POINTS], rtol=2e-13)
    np.testing.assert_allclose(slopes[1:], [slope(z) for z in POINTS[1:]], rtol=2e-13)
    assert np.isfinite(slopes[0])


def test_matern_half_integers_are_the_general_formula():
    for order in (1.5, 7.5):
        near = jax.jit(matern, static_argnums=0)(order + 1e-9, POINTS**2)  # takes the integral
        np.testing.assert_allclose(matern(order, POINTS**2), near, rtol=1e-7, atol=1e-12)
    assert float(matern(4.5, jnp.array(1e200))) == 0.0


def test_matern_tends_to_the_squared_exponential():
    r = np.linspace(0.0, 3.0, 7)
    gaps = [
        np.abs(Matern(nu, 1.3).gram([0.0], r) - RBF(1.3).gram([0.0], r)).max() for nu in (10.5, 50.5, 400.2)
    ]
    assert gaps[0] > 4 * gaps[1] > 20 * gaps[2]
    assert gaps[2] < 1e-3


def test_matern_refuses_orders_without_meaning():
    for nu in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="`nu` must be positive and finite"):
            Matern(nu)


def test_rational_quadratic_is_a_gamma_mixture_and_tends_to_the_squared_exponential():
    kernel, r = RationalQuadratic(1.4, 0.8), 1.1
    mixture = integrate.quad(
        lambda s: stats.gamma.pdf(s, 0.8, scale=1 / 0.8) * math.exp(-0.5 * s * r**2 / 1.4**2), 0, np.inf
    )[0]
    np.testing.assert_allclose(kernel(0.0, r), mixture, rtol=1e-8)
    np.testing.assert_allclose(RationalQuadratic(1.4, 1e9)(0.0, r), RBF(1.4)(0.0, r), rtol=1e-8)


def test_periodic_is_the_squared_exponential_on_the_circle():
    xs = np.linspace(-4.0, 9.0, 8)
    circle = np.stack([np.cos(xs), np.sin(xs)], axis=1)
    kernel = Periodic(0.8, 2 * math.pi)
    np.testing.assert_allclose(kernel.gram(xs), RBF(0.8).gram(circle), rtol=1e-13)
    direct = np.exp(-2 * np.sin((xs[:, None] - xs[None]) / 2) ** 2 / 0.8**2)
    np.testing.assert_allclose(kernel.gram(xs), direct, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(xs, xs + 2 * math.pi), kernel.gram(xs), rtol=1e-12)
    np.testing.assert_allclose(Periodic(0.8, 0.3)(0.1, 0.1 + 5 * 0.3), 1.0, rtol=1e-12)


def test_agreement_with_scikit_learn():
    pairs = [
        (RBF([0.5, 1.0, 2.0]), peers.RBF([0.5, 1.0, 2.0])),
        (Matern12(0.7), peers.Matern(0.7, nu=0.5)),
        (Matern32(0.7), peers.Matern(0.7, nu=1.5)),
        (Matern52([0.5, 1.0, 2.0]), peers.Matern([0.5, 1.0, 2.0], nu=2.5)),
        (Matern(0.9, 0.7), peers.Matern(0.7, nu=0.9)),
        (RationalQuadratic(0.7, 1.3), peers.RationalQuadratic(0.7, 1.3)),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.gram(ROWS), theirs(ROWS), rtol=1e-10)
    one = ROWS[:, :1]
    np.testing.assert_allclose(Periodic(0.7, 1.9).gram(one), peers.ExpSineSquared(0.7, 1.9)(one), rtol=1e-12)


def test_spectral_mixture_is_the_transform_of_its_density():
    weights, means, widths = [0.7, 0.3], [0.4, 1.1], [0.1, 0.2]
    kernel = SpectralMixture(weights, means, widths)
    for tau in (0.0, 0.3, 1.7):

        def density(w):
            return sum(p * 0.5 * (stats.norm.pdf(w, m, v) + stats.norm.pdf(w, -m, v))
                       for p, m, v in zip(weights, means, widths))  # fmt: skip

        want = integrate.quad(lambda w: density(w) * math.cos(2 * math.pi * w * tau), -4, 4, limit=200)[0]
        np.testing.assert_allclose(kernel(0.5, 0.5 + tau), want, rtol=1e-7)
    with pytest.raises(ValueError, match=r"`bandwidths` must be of shape \(2, any\)"):
        SpectralMixture([1.0, 2.0], [0.1, 0.2], [0.1])
    with pytest.raises(ValueError, match="`frequencies` must be 3 columns wide"):
        kernel.gram(ROWS)


def test_cosine_has_rank_two():
    values = np.linalg.eigvalsh(np.asarray(Cosine([1.0, 2.0, 3.0]).gram(ROWS)))
    assert (np.abs(values[:-2]) < 1e-13).all()
    assert values[-2] > 0.1


# --- derivatives where two points meet ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [(RBF(0.5), 4.0), (Matern32(0.5), 12.0), (Matern52(0.5), 20 / 3), (Matern(2.0, 0.5), 8.0),
     (RationalQuadratic(0.5, 2.0), 4.0), (Periodic(0.5, 1.0), 16 * math.pi**2)],
)  # fmt: skip
def test_mixed_second_derivative_on_the_diagonal(kernel, curvature):
    """The variance of the derivative of a path: the limit of 2(k(0) - k(h))/h^2."""
    point = jnp.array([0.3])
    mixed = jax.jit(jax.jacfwd(jax.grad(lambda a, b: kernel.pair(a, b)), argnums=1))(point, point)
    np.testing.assert_allclose(mixed, [[curvature]], rtol=1e-12)
    of_table = jax.grad(lambda a, b: kernel.gram(a[None], b[None])[0, 0])
    np.testing.assert_allclose(
        jax.jit(jax.jacfwd(of_table, argnums=1))(point, point), [[curvature]], rtol=1e-12
    )


@pytest.mark.parametrize("kernel", [Matern12(), Matern(0.3), Matern(1.0)], ids=repr)
def test_no_gradient_is_nan_where_rows_repeat(kernel):
    rows = jnp.array([[0.0, 1.0], [0.0, 1.0], [2.0, 0.5]])
    free, rebuild = unconstrain(kernel)
    of_free, of_rows = jax.jit(jax.grad(lambda f, x: rebuild(f)[0].gram(x).sum(), argnums=(0, 1)))(free, rows)
    assert np.isfinite(of_free).all()
    assert np.isfinite(of_rows).all()


# --- distances --------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([3, 12, 40]), st.sampled_from([1e-6, 1.0, 1e6]), st.booleans())
def test_squared_distances(seed, columns, scale, exact):
    rng = np.random.default_rng(seed)
    x = scale * rng.normal(size=(5, columns)) + 100 * scale
    y = np.concatenate([x[:2], scale * rng.normal(size=(3, columns))])
    want = ((x[:, None] - y[None]) ** 2).sum(-1)
    got = np.asarray(_squares(jnp.asarray(x), jnp.asarray(y), exact=exact))
    assert (got >= 0).all()
    direct = exact or columns <= 8
    np.testing.assert_allclose(
        got, want, rtol=1e-9, atol=0 if direct else 1e-10 * scale**2 * columns * 100**2
    )
    if direct:
        assert (np.diag(got)[:2] == 0).all()  # equal rows are at distance zero exactly
    own = np.asarray(_squares(jnp.asarray(x), exact=exact))
    assert (np.diag(own) == 0).all()


def test_far_from_the_origin_and_on_any_scale():
    """Times in seconds since 1970, an hour apart; columns scaled by 1e12 and 1e-12."""
    times = 1.7e9 + 3600.0 * np.arange(6)
    np.testing.assert_allclose(Matern12(3600.0).gram(times)[0], np.exp(-np.arange(6.0)), rtol=1e-9)
    for scale in (1e12, 1e-12):
        np.testing.assert_allclose(RBF(scale).gram(scale * ROWS), RBF().gram(ROWS), rtol=1e-12)


def test_repeated_rows_of_many_columns_have_correlation_one():
    rows = np.tile(np.random.default_rng(1).normal(size=(1, 30)) * 10, (2, 1))
    assert float(Matern12().gram(rows, rows)[0, 1]) == 1.0
