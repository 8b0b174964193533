"""Wishart and inverse Wishart: how they are made, limits, small degrees, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma

from tractable.distributions.expfam import maximum_likelihood
from tractable.distributions.matrix import InverseWishart, Wishart
from tractable.distributions.wishart import degrees_from_gap

SIZE = 20_000  # as in the laws: the same compiled program draws
SCALE = np.array([[2.0, 0.6], [0.6, 1.0]])


def test_scatter_of_gaussian_rows_has_the_moments_of_the_wishart():
    rows = np.random.default_rng(0).multivariate_normal(np.zeros(2), SCALE, (20_000, 5))
    scatter = np.einsum("nki,nkj->nij", rows, rows)
    d = Wishart(5.0, SCALE)
    error = scatter.std(0) / np.sqrt(20_000)
    assert (np.abs(scatter.mean(0) - d.mean) < 5 * error).all()
    squares = (scatter - np.asarray(d.mean)) ** 2
    assert (np.abs(squares.mean(0) - d.variance) < 5 * squares.std(0) / np.sqrt(20_000)).all()


def test_one_by_one_wishart_is_a_gamma_variable():
    x = np.array([0.1, 2.0, 30.0])
    law = stats.gamma(2.5 / 2, scale=2 * 3.0)
    d = Wishart(2.5, np.array([[3.0]]))
    np.testing.assert_allclose(d.log_prob(x[:, None, None]), law.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(
        [d.mean[0, 0], d.variance[0, 0], d.entropy()], [law.mean(), law.var(), law.entropy()]
    )
    inverse = InverseWishart(9.0, np.array([[3.0]]))
    law = stats.invgamma(4.5, scale=1.5)
    np.testing.assert_allclose(inverse.log_prob(x[:, None, None]), law.logpdf(x), rtol=1e-12)
    moments = [inverse.mean[0, 0], inverse.variance[0, 0], inverse.entropy()]
    np.testing.assert_allclose(moments, [law.mean(), law.var(), law.entropy()])


def test_entropies_against_scipy():
    for degrees in (1.2, 2.0, 50.0):
        expected = stats.wishart.entropy(degrees, SCALE)
        np.testing.assert_allclose(Wishart(degrees, SCALE).entropy(), expected, rtol=1e-12)
        # H[X^-1] = H[X] + E log|dX^-1/dX| with the Jacobian |X|^-(d + 1)
        log_det = (
            digamma(degrees / 2) + digamma((degrees - 1) / 2) + 2 * np.log(2) + np.linalg.slogdet(SCALE)[1]
        )
        inverse = InverseWishart(degrees, np.linalg.inv(SCALE))
        np.testing.assert_allclose(inverse.entropy(), expected - 3 * log_det, rtol=1e-12)


def test_the_inverse_of_a_draw_has_the_other_law():
    """By the change of variables X -> X^-1, whose Jacobian is |X|^(d + 1)."""
    x = np.array([SCALE, np.diag([1e-6, 3.0]), [[5.0, 2.0], [2.0, 1.0]]])
    inverse = np.linalg.inv(x)
    expected = Wishart(4.5, np.linalg.inv(SCALE)).log_prob(inverse) - 3 * np.linalg.slogdet(x)[1]
    np.testing.assert_allclose(InverseWishart(4.5, SCALE).log_prob(x), expected, rtol=1e-10)


def test_units_of_measurement_do_not_decide_what_is_definite():
    """A variance of 1e-20 beside one of 1e20 is a choice of units; a rank-one matrix is singular in any."""
    units = np.diag([1e-10, 1e10])
    wide = units @ SCALE @ units
    shift = -3 * np.linalg.slogdet(units)[1]
    d = Wishart(5.0, SCALE)
    np.testing.assert_allclose(
        Wishart(5.0, wide).log_prob(units @ d.mode @ units), d.log_prob(d.mode) + shift
    )
    v = np.array([1.0, 3.0, 0.7])
    assert Wishart(5.0, np.eye(3)).log_prob(np.outer(v, v)) == -np.inf


def test_modes_and_where_there_are_none():
    np.testing.assert_allclose(Wishart(5.0, SCALE).mode, 2 * SCALE, rtol=1e-14)
    np.testing.assert_allclose(InverseWishart(5.0, SCALE).mode, SCALE / 8, rtol=1e-14)
    assert np.isnan(Wishart(2.9, SCALE).mode).all()
    slope = jax.jit(jax.grad(lambda x: InverseWishart(5.0, SCALE).log_prob(0.5 * (x + x.T))))(SCALE / 8)
    np.testing.assert_allclose(slope, 0, atol=1e-12)


def test_moments_of_the_inverse_that_do_not_exist():
    assert np.isnan(InverseWishart(3.0, SCALE).mean).all()
    np.testing.assert_allclose(InverseWishart(4.0, SCALE).mean, SCALE, rtol=1e-14)
    assert np.isnan(InverseWishart(5.0, SCALE).variance).all()


def test_draws_with_barely_enough_degrees():
    """At 1.01 degrees the second chi variable has 0.01: its square underflows, its root does not."""
    for d in (Wishart(1.01, SCALE), InverseWishart(1.1, SCALE)):
        draws = np.asarray(d.sample(jr.key(0), (SIZE,)))
        assert np.isfinite(draws).all()
        np.testing.assert_array_equal(draws, draws.swapaxes(1, 2))
    ratio = np.asarray(Wishart(1.01, SCALE).sample(jr.key(1), (SIZE,)))[:, 0, 0] / 2.0
    assert stats.kstest(ratio, stats.chi2(1.01).cdf).pvalue > 1e-4


@given(st.floats(-4.0, 5.0), st.sampled_from([1, 2, 7]))
def test_degrees_are_recovered_from_the_gap(exponent, dim):
    excess = 10.0**exponent
    half = (dim - 1 + excess) / 2
    gap = digamma(half - np.arange(dim) / 2).sum() - dim * np.log(half)
    np.testing.assert_allclose(degrees_from_gap(jnp.asarray(gap), dim) - dim + 1, excess, rtol=1e-8)


def test_maximum_likelihood_is_stationary():
    draws = np.asarray(Wishart(6.0, SCALE).sample(jr.key(2), (SIZE,)))
    for family, rows in ((Wishart(6.0, SCALE), draws), (InverseWishart(6.0, SCALE), np.linalg.inv(draws))):
        fit = eqx.filter_jit(maximum_likelihood)(family, rows)
        slope = jax.jit(jax.grad(lambda d, rows=rows: d.log_prob(rows).mean()))(fit)
        np.testing.assert_allclose(slope.degrees, 0, atol=1e-10)
        np.testing.assert_allclose(slope.scale, 0, atol=1e-9)
        np.testing.assert_allclose(fit.degrees, 6.0, rtol=0.05)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Wishart(1.0, SCALE),
            r"`degrees` must be greater than d - 1 = 1, where d = 2 is the size of `scale`; got 1.0",
        ),
        (
            lambda: Wishart(np.array([3.0, 1.5]), np.eye(3)),
            r"`degrees` must be greater than d - 1 = 2.*; got 1.5 at index 1",
        ),
        (lambda: InverseWishart(0.5, SCALE), r"`degrees` must be greater than d - 1 = 1"),
        (lambda: Wishart(-2.0, SCALE), r"`degrees` must be positive and finite; got -2.0"),
        (lambda: Wishart(3.0, np.ones((2, 2))), r"`scale` must be a symmetric positive definite matrix"),
        (
            lambda: Wishart(3.0, np.array([[1.0, 0.5], [0.4, 1.0]])),
            r"`scale` must be a symmetric positive definite",
        ),
        (lambda: Wishart(3.0, np.ones((2, 3))), r"`scale` must be a symmetric positive definite matrix"),
        (
            lambda: Wishart(3.0, np.ones(2)),
            r"`scale` must be an array with at least 2 axes; got shape \(2,\)",
        ),
        (
            lambda: Wishart(3.0, np.diag([1.0, np.nan])),
            r"`scale` must be a symmetric positive definite matrix",
        ),
        (
            lambda: degrees_from_gap(jnp.asarray(0.1), 2),
            r"`mean_stats` must be averages over two points or more",
        ),
    ],
)
def test_bad_input_is_refused_by_name(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
