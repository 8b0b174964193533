"""Exact tails: log-densities and log-probabilities against mpmath, where textbook forms lose their digits."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from tractable.distributions.bounded import Beta, TruncatedNormal, VonMises
from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Logistic, Normal, StudentT
from tractable.distributions.counts import BetaBinomial, Binomial, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli
from tractable.distributions.incomplete import log_beta_tails, log_gamma_tails
from tractable.distributions.positive import Gamma
from tractable.distributions.special import (
    deviance,
    digamma_minus_log,
    inverse_digamma,
    log1p_minus,
    log1p_square,
    log_beta,
    log_binomial,
    log_choose,
    log_ndtr,
    log_ndtri,
    log_poisson,
    stirling_error,
)

DIGITS = mp.mp.dps = 50


def assert_near(found, expected, rtol=1e-10, atol=0.0):
    """Compare with numbers of 50 digits; the error is taken before anything is rounded."""
    for ours, exact in zip(np.ravel(np.asarray(found)), np.ravel(expected), strict=True):
        error = abs(mp.mpf(float(ours)) - exact)
        assert error <= rtol * abs(exact) + atol, f"{ours} for {mp.nstr(exact, 20)}"


def exact(function, *columns):
    return [function(*(mp.mpf(value.item()) for value in row)) for row in np.broadcast(*columns)]


def log_factorial(x):
    return mp.loggamma(x + 1)


def binomial(k, n, p):
    ways = log_factorial(n) - log_factorial(k) - log_factorial(n - k)
    return ways + k * mp.log(p) + (n - k) * mp.log1p(-p)


def beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def beta_density(x, a, b):
    return (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - beta(a, b)


def gamma_density(x, a, rate):
    return a * mp.log(rate) + (a - 1) * mp.log(x) - rate * x - mp.loggamma(a)


def student_density(x, nu):
    return -beta(nu / 2, mp.mpf(1) / 2) - mp.log(nu) / 2 - (nu + 1) / 2 * mp.log1p(x**2 / nu)


def negative_binomial(k, r, p):
    ways = mp.loggamma(k + r) - mp.loggamma(k + 1) - mp.loggamma(r)
    return ways + r * mp.log(p) + k * mp.log1p(-p)


def beta_binomial(k, n, a, b):
    ways = log_factorial(n) - log_factorial(k) - log_factorial(n - k)
    return ways + beta(k + a, n - k + b) - beta(a, b)


def von_mises_share(x, loc, kappa):
    nodes = [-mp.pi, *(edge for edge in (-2, -1, 0, 1, 2) if edge < x), x]
    return mp.quad(lambda t: mp.exp(kappa * mp.cos(t - loc)), nodes) / (2 * mp.pi * mp.besseli(0, kappa))


def gamma_tail(a, x):
    """log P(a, x) where x < a, else log Q(a, x), by quadrature relative to the end."""
    front = a * mp.log(x) - x - mp.loggamma(a)
    reach = [mp.mpf(k) * 3 / mp.sqrt(a) for k in range(40)]
    if x < a:
        nodes = [v for v in reach if v < 1] + [mp.mpf(1)]
        return front + mp.log(mp.quad(lambda s: mp.exp((a - 1) * mp.log1p(-s) + x * s), nodes))
    return front + mp.log(mp.quad(lambda s: mp.exp((a - 1) * mp.log1p(s) - x * s), [*reach, mp.inf]))


def test_normal_at_forty_deviations():
    x = np.array([40.0, -40.0, 1e3])
    assert_near(Normal().log_prob(x), exact(lambda v: -(v**2) / 2 - mp.log(2 * mp.pi) / 2, x))
    upper = exact(lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2), x)
    assert_near(Normal().log_survival(x), upper)
    assert_near(Normal().log_cdf(-x), upper)


@pytest.mark.parametrize("rate", [1e8, 37.5])
def test_poisson_mass(rate):
    k = np.array([0.0, 1.0, 30.0, 99_990_000.0, 1e8, 1e8 + 3e4, 3e8, 1e4])
    assert_near(
        Poisson(rate).log_prob(k), exact(lambda v: v * mp.log(rate) - rate - log_factorial(v), k), 1e-13
    )


def test_binomial_mass():
    n, p = 100_000_000, 0.3
    k = np.array([0.0, 1.0, 29_990_000.0, 3e7, 30_010_000.0, 5e7, 1e8 - 1, 1e8])
    assert_near(Binomial(n, p).log_prob(k), exact(binomial, k, n, p), 1e-12)


def test_a_certain_outcome_of_a_tiny_probability():
    assert_near(Binomial(10, 1e-300).log_prob(0.0), [-10 * mp.mpf(1e-300)], 1e-12)


def test_negative_binomial_mass():
    k = np.array([0.0, 3.0, 2e8, 1e9])
    for total, p in [(2.5, 0.3), (1e8, 0.3), (0.01, 1e-6)]:
        assert_near(NegativeBinomial(total, p).log_prob(k), exact(negative_binomial, k, total, p), 1e-12)


def test_beta_binomial_mass():
    for n, a, b in [(12, 2.0, 3.0), (100_000_000, 2.0, 3.0), (1000, 1e6, 2e6), (50, 0.01, 0.02)]:
        k = np.array([0.0, 1.0, n // 3, n])
        assert_near(BetaBinomial(n, a, b).log_prob(k), exact(beta_binomial, k, n, a, b), 1e-12)


def test_beta_density_at_both_ends():
    x = np.array([1e-300, 1e-17, 0.5, 0.333334, 1 - 1e-16, 1 - 1e-9])
    for a, b in [(2.0, 3.0), (0.5, 0.5), (1e6, 2e6), (0.5, 1e6), (1.0, 1.0)]:
        assert_near(Beta(a, b).log_prob(x), exact(beta_density, x, a, b), 1e-12, 1e-15)


def test_gamma_density_of_large_concentration():
    x = np.array([1e-300, 0.5, 9.9e5, 1e6, 1.01e6, 5e6])
    for a, rate in [(1e6, 1.0), (1e6, 3.7), (2.5, 2.0), (0.01, 2.0)]:
        assert_near(Gamma(a, rate).log_prob(x), exact(gamma_density, x, a, rate), 1e-12)


def test_student_density_of_many_degrees():
    x = np.array([0.0, 1.0, -40.0, 1e5, 1e200])
    for nu in (1e8, 3.5, 0.1):
        assert_near(StudentT(nu).log_prob(x), exact(student_density, x, nu), 1e-12)
    assert float(StudentT(1e8).entropy()) == pytest.approx(float(Normal().entropy()) + 1e-8, abs=1e-12)


def test_von_mises_density_of_large_concentration():
    x = np.array([0.0, 1e-3, -0.01, 1.0, 3.0])
    for kappa in (1e6, 2.0):
        normaliser = mp.log(2 * mp.pi * mp.besseli(0, kappa))
        found = VonMises(0.0, kappa).log_prob(x)
        assert_near(found, exact(lambda v, k=kappa, z=normaliser: k * mp.cos(v) - z, x), 1e-12)


def test_bernoulli_of_extreme_log_odds():
    logits = np.array([800.0, -800.0, 40.0])
    found = [Bernoulli(logits=value).log_prob(np.array([0.0, 1.0])) for value in logits]
    expected = [[-mp.log1p(mp.exp(s * mp.mpf(v))) for s in (1, -1)] for v in logits]
    assert_near(found, expected, atol=1e-300)


def test_cauchy_and_logistic_far_out():
    x = np.array([-1e200, -1e10, 1e10])
    assert_near(Cauchy().log_prob(x), exact(lambda v: -mp.log(mp.pi) - mp.log1p(v**2), x))
    assert_near(Cauchy().log_cdf(x), exact(lambda v: mp.log(mp.atan2(1, -v) / mp.pi), x))
    y = np.array([-800.0, 30.0, 800.0])
    assert_near(Logistic().log_cdf(y), exact(lambda v: -mp.log1p(mp.exp(-v)), y), atol=1e-300)
    assert_near(
        Laplace().log_survival(y),
        exact(lambda v: -v - mp.log(2) if v > 0 else mp.log1p(-mp.exp(v) / 2), y),
        atol=1e-300,
    )
    assert_near(Gumbel().log_survival(y[1:]), exact(lambda v: mp.log(-mp.expm1(-mp.exp(-v))), y[1:]))


@pytest.mark.parametrize("low", [30.0, 1e3, 1e6])
def test_truncated_normal_far_in_the_tail(low):
    x = low + np.array([0.0, 0.5, 3.0]) / low
    mass = mp.log(mp.erfc(mp.mpf(low) / mp.sqrt(2)) / 2)
    expected = exact(lambda v: -(v**2) / 2 - mp.log(2 * mp.pi) / 2 - mass, x)
    tail = TruncatedNormal(0.0, 1.0, low)
    assert_near(tail.log_prob(x), expected, 1e-10)
    inverse_mills = mp.exp(-(mp.mpf(low) ** 2) / 2 - mp.log(2 * mp.pi) / 2 - mass)
    assert_near(tail.mean, [inverse_mills], 1e-15)
    assert_near(tail.variance, [1 + low * inverse_mills - inverse_mills**2], 1e-12)
    median = mp.findroot(lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2) - mass + mp.log(2), low + 0.7 / low)
    assert_near(tail.icdf(0.5), [median], 1e-15)


def test_gamma_tails_in_logarithms():
    a = np.array([0.5, 2.5, 2.5, 50.0, 300.0, 1e5, 1e8, 1e8, 1e8])
    x = np.array([1e-300, 1e-100, 900.0, 1.0, 5.0, 1.01e5, 1e8 - 5e4, 1e8, 1e8 + 8e4])
    below, above = log_gamma_tails(a, x)
    assert_near(np.where(x < a, below, above), exact(gamma_tail, a, x), 1e-12)


def test_gamma_tails_against_mpmath():
    a = np.repeat([0.1, 1.0, 3.3, 20.0, 63.0, 65.0], 4)
    x = a * np.tile([0.2, 0.9, 1.3, 4.0], 6)
    below, above = log_gamma_tails(a, x)
    assert_near(below, [mp.log(mp.gammainc(p, 0, q, regularized=True)) for p, q in zip(a, x)], 1e-12, 1e-15)
    assert_near(
        above, [mp.log(mp.gammainc(p, q, mp.inf, regularized=True)) for p, q in zip(a, x)], 1e-12, 1e-15
    )


def test_beta_tails_against_mpmath():
    a = np.array([0.1, 0.5, 2.5, 40.0, 0.5, 3.0, 70.0, 200.0, 1.0])
    b = np.array([0.3, 0.5, 3.0, 2.0, 500.0, 400.0, 80.0, 70.0, 1e-3])
    for scale in (0.3, 0.95, 1.02):
        x = np.minimum(scale * a / (a + b), 0.99)
        below, above = log_beta_tails(a, b, x, 1 - x)
        exact_below = [mp.log(mp.betainc(p, q, 0, v, regularized=True)) for p, q, v in zip(a, b, x)]
        exact_above = [
            mp.log(mp.betainc(q, p, 0, 1 - mp.mpf(v), regularized=True)) for p, q, v in zip(a, b, x)
        ]
        assert_near(below, exact_below, 1e-12, 1e-15)
        assert_near(above, exact_above, 1e-12, 1e-15)


def test_binomial_tail_of_a_large_total():
    n, p, k = (
        100_000_000,
        0.3,
        29_960_000,
    )  # 8.7 deviations below the mean: the ratio of neighbours sums the tail
    term, total, j = mp.mpf(1), mp.mpf(0), k
    while term > 1e-30:
        total += term
        term *= mp.mpf(j) * (1 - mp.mpf(p)) / ((n - j + 1) * mp.mpf(p))
        j -= 1
    assert_near(
        Binomial(n, p).log_cdf(float(k)), [binomial(mp.mpf(k), mp.mpf(n), mp.mpf(p)) + mp.log(total)], 1e-12
    )


def test_von_mises_distribution_function():
    x = np.array([-3.0, -1.0, 0.5, 1.0, 3.0])
    for loc, kappa in [(0.5, 2.0), (0.5, 0.0), (3.0, 8.0)]:
        shares = exact(von_mises_share, x, loc, kappa)
        angle = VonMises(loc, kappa)
        assert_near(angle.cdf(x), shares, 1e-12)
        assert_near(angle.cdf(angle.icdf(np.array([float(v) for v in shares]))), shares, 1e-12)


def test_stirling_error_and_deviance():
    x = np.array([1e-3, 0.5, 0.999, 1.0, 1.7, 12.0, 1e4, 1e12])
    half = mp.mpf(1) / 2
    assert_near(
        stirling_error(x),
        exact(lambda v: log_factorial(v) - (v + half) * mp.log(v) + v - half * mp.log(2 * mp.pi), x),
        1e-14,
    )
    assert_near(digamma_minus_log(x), exact(lambda v: mp.digamma(v) - mp.log(v), x), 1e-12)
    assert_near(inverse_digamma(np.array([float(mp.digamma(v)) for v in x])), x, 1e-12)
    m = np.array([0.7, 0.5 + 1e-9, 100.0, 1.0 + 1e-7, 1e-300, 11.0, 1e4 + 1, 1.1e12])
    assert_near(deviance(x, m), exact(lambda v, u: v * mp.log(v / u) + u - v, x, m), 1e-13)
    u = np.array([-0.999, -0.2, -1e-5, 1e-300, 1e-8, 0.24, 0.26, 50.0])
    assert_near(log1p_minus(u)[4:], exact(lambda v: mp.log1p(v) - v, u[4:]), 1e-14)
    assert_near(
        log1p_square(np.array([1e-100, 1e7, 1e200])),
        exact(lambda v: mp.log1p(v**2), [1e-100, 1e7, 1e200]),
        1e-14,
    )


def test_coefficients_of_real_arguments():
    k = np.array([0.0, 0.3, 0.5, 2.5, 1e4, 1e8])
    m = np.array([7.0, 1e8, 0.2, 30.0, 0.5, 3e8])
    ways = exact(lambda a, b: log_factorial(a + b) - log_factorial(a) - log_factorial(b), k, m)
    assert_near(log_choose(k, m), ways, 1e-13)
    assert_near(log_beta(k[1:], m[1:]), exact(beta, k[1:], m[1:]), 1e-13)
    with_powers = [
        w + a * mp.log(0.25) + b * mp.log(0.75) for w, a, b in zip(ways, map(mp.mpf, k), map(mp.mpf, m))
    ]
    assert_near(log_binomial(k, m, 0.25, 0.75), with_powers, 1e-12)
    assert_near(
        log_poisson(k, 0.7), exact(lambda v: v * mp.log(0.7) - mp.mpf(0.7) - log_factorial(v), k), 1e-13
    )


def test_normal_logarithms():
    x = np.array([-1e6, -40.0, -20.01, -19.99, -1.0, 0.0, 5.0, 8.0])
    values = [
        mp.log(mp.erfc(-v / mp.sqrt(2)) / 2) if v < 0 else mp.log1p(-mp.erfc(v / mp.sqrt(2)) / 2)
        for v in map(mp.mpf, x)
    ]
    assert_near(log_ndtr(x), values, 1e-14)
    assert_near(log_ndtri(np.array([float(v) for v in values[:6]])), x[:6], 1e-14, 1e-16)


def test_quantiles_of_both_tails_at_1e_minus_300():
    for family in (Gamma(2.5, 2.0), StudentT(3.5), Normal()):
        assert float(family.survival(family.inverse_survival(1e-300))) == pytest.approx(1e-300, rel=1e-11)
        assert float(family.cdf(family.icdf(1e-300))) == pytest.approx(1e-300, rel=1e-11)


def test_single_precision_stays_single():
    a, x = jnp.float32(2.5), jnp.asarray([0.5, 2.0], jnp.float32)
    gamma = Gamma(a, jnp.float32(2.0))
    for value in (gamma.log_prob(x), gamma.cdf(x), gamma.icdf(x / 4), gamma.mean):
        assert value.dtype == jnp.float32
    np.testing.assert_allclose(gamma.cdf(gamma.icdf(x / 4)), x / 4, rtol=2e-6)
