"""Log-densities far in the tails and at huge parameters, against arithmetic with sixty digits."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from tractable.distributions import (
    Bernoulli,
    Beta,
    BetaBinomial,
    Binomial,
    Gamma,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    VonMises,
)

DIGITS = mp.mp.dps = 60


def log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def log_choose(n, k):
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def poisson(k, rate):
    return k * mp.log(rate) - rate - mp.loggamma(k + 1)


def binomial(k, n, p):
    return log_choose(n, k) + k * mp.log(p) + (n - k) * mp.log1p(-p)


def student(x, nu):
    constant = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - mp.log(nu * mp.pi) / 2
    return constant - (nu + 1) / 2 * mp.log1p(x**2 / nu)


def von_mises(x, kappa):
    return kappa * mp.cos(x) - mp.log(2 * mp.pi * mp.besseli(0, kappa))


CASES = {
    "normal at 40 sigma": (Normal(0.0, 1.0), 40.0, lambda x: -(x**2) / 2 - mp.log(2 * mp.pi) / 2),
    "normal, tiny scale": (
        Normal(1.0, 1e-150),
        1.0,
        lambda x: -mp.log(mp.mpf(1e-150)) - mp.log(2 * mp.pi) / 2,
    ),
    "poisson 1e8 at the mode": (Poisson(1e8), 1e8, lambda k: poisson(k, mp.mpf(1e8))),
    "poisson 1e8 near the mode": (Poisson(1e8), 1e8 + 12345, lambda k: poisson(k, mp.mpf(1e8))),
    "poisson 1e8 far away": (Poisson(1e8), 3e8, lambda k: poisson(k, mp.mpf(1e8))),
    "poisson 1e8 at zero": (Poisson(1e8), 0.0, lambda k: poisson(k, mp.mpf(1e8))),
    "binomial 1e8": (Binomial(1e8, 0.25), 25_000_017.0, lambda k: binomial(k, mp.mpf(1e8), mp.mpf(0.25))),
    "beta at 1e-300": (
        Beta(2.5, 3.5),
        1e-300,
        lambda x: mp.log(x) * 1.5 + mp.log1p(-x) * 2.5 - log_beta(2.5, 3.5),
    ),
    "beta next to one": (
        Beta(2.5, 3.5),
        1 - 2**-53,
        lambda x: mp.log(x) * 1.5 + mp.log1p(-x) * 2.5 - log_beta(2.5, 3.5),
    ),
    "gamma 1e6": (
        Gamma(1e6, 2.0),
        5e5,
        lambda x: 1e6 * mp.log(2) + (mp.mpf(1e6) - 1) * mp.log(x) - 2 * x - mp.loggamma(1e6),
    ),
    "student 1e8": (StudentT(1e8, 0.0, 1.0), 7.0, lambda x: student(x, mp.mpf(1e8))),
    "student in the tail": (StudentT(3.0, 0.0, 1.0), 1e200, lambda x: student(x, mp.mpf(3))),
    "von mises 1e4": (VonMises(0.0, 1e4), 0.05, lambda x: von_mises(x, mp.mpf(1e4))),
    "bernoulli, logits -800": (Bernoulli(logits=-800.0), 1.0, lambda x: -800 - mp.log1p(mp.exp(-800))),
    "bernoulli, logits 700": (Bernoulli(logits=700.0), 1.0, lambda x: -mp.log1p(mp.exp(-700))),
    "negative binomial": (
        NegativeBinomial(1e6, 0.25),
        3e6,
        lambda k: log_choose(k + 1e6 - 1, k) + 1e6 * mp.log(0.25) + k * mp.log1p(-mp.mpf(0.25)),
    ),
    "beta-binomial": (
        BetaBinomial(1e6, 2.0, 3.0),
        4e5,
        lambda k: log_choose(mp.mpf(1e6), k) + log_beta(k + 2, 1e6 - k + 3) - log_beta(2, 3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_log_density_keeps_ten_digits(name):
    distribution, point, oracle = CASES[name]
    expected = oracle(mp.mpf(point))
    found = mp.mpf(float(distribution.log_prob(point)))
    assert abs(found - expected) <= mp.mpf(10) ** -10 * abs(expected), (float(found), float(expected))


def test_normal_tail_keeps_its_digits():
    expected = float(mp.log(mp.erfc(mp.mpf(40) / mp.sqrt(2)) / 2))
    np.testing.assert_allclose(Normal(0.0, 1.0).log_survival(40.0), expected, rtol=1e-12)
    np.testing.assert_allclose(Normal(0.0, 1.0).log_cdf(-40.0), expected, rtol=1e-12)


@pytest.mark.parametrize(("level", "quantile"), [(0.025, -1.959964), (0.5, 0.0), (0.975, 1.959964)])
def test_normal_quantiles(level, quantile):
    np.testing.assert_allclose(Normal(0.0, 1.0).icdf(level), quantile, atol=5e-7)


def test_leading_axes_keep_the_digits_too():
    rates = jnp.array([1e8, 4.0])
    expected = [float(poisson(mp.mpf(1e8), mp.mpf(1e8)) + poisson(mp.mpf(2), mp.mpf(4)))]
    np.testing.assert_allclose(Poisson(rates).log_prob(jnp.array([[1e8, 2.0]])), expected, rtol=1e-11)
