"""Densities on an interval: worked numbers, modes, fits, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import special, stats

from tractable.distributions.bounded import Beta, TruncatedNormal, Uniform, VonMises
from tractable.distributions.expfam import maximum_likelihood


def test_beta_posterior_of_seven_heads_in_ten():
    posterior = Beta(9.0, 5.0)
    np.testing.assert_allclose(posterior.mean, 0.6428571, atol=5e-8)
    np.testing.assert_allclose(posterior.mode, 8 / 12, rtol=1e-15)
    np.testing.assert_allclose(posterior.variance, 9 * 5 / (14**2 * 15), rtol=1e-14)
    np.testing.assert_allclose(posterior.prob(0.5), stats.beta(9, 5).pdf(0.5), rtol=1e-13)


def test_beta_mode_and_limits():
    a, b = jnp.array([2.0, 1.0, 0.5, 3.0, 0.5]), jnp.array([3.0, 1.0, 0.5, 1.0, 2.0])
    np.testing.assert_array_equal(Beta(a, b).mode, [1 / 3, np.nan, np.nan, 1.0, 0.0])
    assert float(Beta(1.0, 1.0).log_prob(0.0)) == pytest.approx(0, abs=1e-15)
    assert float(Beta(0.5, 1.0).log_prob(0.0)) == np.inf
    assert float(Beta(2.0, 1.0).log_prob(0.0)) == -np.inf
    slopes = jax.grad(lambda a, x: Beta(a, 1.0).log_prob(x), (0, 1))(2.0, 1.0)
    np.testing.assert_allclose(slopes, [0.5, 1.0], rtol=1e-14)


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (0.05, 0.2), (1e3, 2e3), (0.3, 50.0)])
def test_beta_fit_recovers_its_parameters(a, b):
    means = special.digamma(a) - special.digamma(a + b), special.digamma(b) - special.digamma(a + b)
    fitted = Beta(1.0, 1.0).from_stats(tuple(map(jnp.asarray, means)))
    np.testing.assert_allclose([fitted.a, fitted.b], [a, b], rtol=1e-9)


def test_beta_maximum_likelihood_beats_its_neighbours():
    x = np.array([0.1, 0.4, 0.35, 0.8, 0.6])
    fitted = maximum_likelihood(Beta(1.0, 1.0), x)
    best = float(fitted.log_prob(x).sum())
    for step in (-0.01, 0.01):
        assert float(Beta(fitted.a + step, fitted.b).log_prob(x).sum()) < best
        assert float(Beta(fitted.a, fitted.b + step).log_prob(x).sum()) < best
    assert best == pytest.approx(
        stats.beta(*stats.beta.fit(x, floc=0, fscale=1)[:2]).logpdf(x).sum(), rel=1e-6
    )


def test_beta_entropy_of_large_parameters_is_that_of_a_normal():
    a, b = 2e9, 3e9
    np.testing.assert_allclose(
        Beta(a, b).entropy(), 0.5 * np.log(2 * np.pi * np.e * a * b / (a + b) ** 3), rtol=1e-9
    )


def test_beta_draws_of_tiny_parameters_sit_at_the_ends():
    draws = np.asarray(Beta(1e-3, 1e-3).sample(jr.key(0), (4000,)))
    share = ((draws == 0) | (draws == 1) | (draws < 1e-9) | (draws > 1 - 1e-9)).mean()
    assert share > 0.95
    assert abs(draws.mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize("kappa", [0.0, 1e-3, 0.5, 2.0, 50.0, 1e5])
def test_von_mises_fit_recovers_its_concentration(kappa):
    length = special.i1e(kappa) / special.i0e(kappa)
    means = length * np.cos(2.5), length * np.sin(2.5)
    fitted = VonMises(0.0, 1.0).from_stats(tuple(map(jnp.asarray, means)))
    np.testing.assert_allclose(fitted.concentration, kappa, rtol=1e-12 * max(1, kappa**1.2), atol=1e-15)
    if kappa > 0:
        np.testing.assert_allclose(fitted.loc, 2.5, rtol=1e-12)


def test_von_mises_is_circular():
    angle = VonMises(3.0, 4.0)
    np.testing.assert_allclose(
        angle.log_prob(-np.pi + 0.01), angle.log_prob(np.pi - 0.01 + 2 * (3.0 - np.pi) + 0.0), rtol=1e-1
    )
    np.testing.assert_allclose(VonMises(3.0 + 2 * np.pi, 4.0).log_prob(1.0), angle.log_prob(1.0), rtol=1e-13)
    np.testing.assert_allclose(VonMises(3.0 + 2 * np.pi, 4.0).mean, 3.0, rtol=1e-14)
    draws = np.asarray(angle.sample(jr.key(0), (8000,)))
    assert (np.abs(draws) <= np.pi).all()
    centre = np.exp(1j * draws).mean()
    np.testing.assert_allclose(np.angle(centre), 3.0, atol=5 * np.sqrt(1 / (8000 * 4)))
    np.testing.assert_allclose(1 - np.abs(centre), angle.variance, atol=5 * 0.2 / np.sqrt(8000))
    np.testing.assert_allclose(angle.variance, 1 - special.i1(4) / special.i0(4), rtol=1e-13)


def test_von_mises_of_large_concentration_is_normal():
    angle, normal = VonMises(0.3, 1e8), stats.norm(0.3, 1e-4)
    x = 0.3 + 1e-4 * np.array([-3.0, 0.5, 2.0])
    np.testing.assert_allclose(angle.cdf(x), normal.cdf(x), rtol=1e-7)
    draws = np.asarray(angle.sample(jr.key(1), (8000,)))
    assert stats.kstest(draws, normal.cdf).pvalue > 1e-4
    np.testing.assert_allclose(angle.variance, 0.5e-8, rtol=1e-8)


def test_von_mises_natural_slope_at_zero_is_zero():
    family = VonMises(0.0, 1.0)
    slopes = jax.grad(lambda eta: family.log_normaliser(eta))((jnp.asarray(0.0), jnp.asarray(0.0)))
    np.testing.assert_array_equal(slopes, [0.0, 0.0])


def test_truncated_normal_with_one_or_no_bound():
    x = np.array([-3.0, 0.5, 2.0])
    np.testing.assert_allclose(TruncatedNormal(1.0, 2.0).log_prob(x), stats.norm(1, 2).logpdf(x), rtol=1e-14)
    half = TruncatedNormal(1.0, 2.0, high=1.0)
    np.testing.assert_allclose(half.mean, 1 - 2 * np.sqrt(2 / np.pi), rtol=1e-13)
    np.testing.assert_allclose(half.variance, 4 * (1 - 2 / np.pi), rtol=1e-13)
    slopes = jax.grad(lambda loc, scale: TruncatedNormal(loc, scale).log_prob(0.5), (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(slopes, [-0.125, -0.5 + 1 / 32], rtol=1e-12)


def test_truncated_normal_between_narrow_bounds_is_uniform():
    narrow = TruncatedNormal(0.0, 1.0, -1e-6, 1e-6)
    np.testing.assert_allclose(narrow.variance, 4e-12 / 12, rtol=1e-10)
    np.testing.assert_allclose(narrow.entropy(), np.log(2e-6), rtol=1e-10)
    high = 30.0 + 1e-9
    far = TruncatedNormal(0.0, 1.0, 30.0, high)
    np.testing.assert_allclose(far.log_prob(30.0 + 5e-10), -np.log(high - 30.0), rtol=1e-9)


def test_truncated_normal_draws_far_out():
    draws = np.asarray(TruncatedNormal(0.0, 1.0, 50.0).sample(jr.key(0), (4000,)))
    assert (draws >= 50).all()
    assert stats.kstest((draws - 50) * 50, lambda t: 1 - np.exp(-t - t**2 / 5000)).pvalue > 1e-4


def test_bad_bounds_are_named():
    with pytest.raises(ValueError, match=r"`low` must be below `high` = 1.0; got 1.0"):
        Uniform(1.0, 1.0)
    with pytest.raises(ValueError, match=r"`low` must be below `high` = 0.0; got 2.0 at index 1"):
        TruncatedNormal(0.0, 1.0, np.array([-1.0, 2.0]), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"`a` must be positive"):
        Beta(-1.0, 1.0)
    with pytest.raises(ValueError, match=r"`concentration` must be zero or positive"):
        VonMises(0.0, -1.0)
