"""Counts: large parameters, exact steps of quantiles, entropies, draws, degenerate members, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.distributions.counts import BetaBinomial, Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.expfam import maximum_likelihood


@pytest.mark.parametrize(
    ("family", "known"),
    [
        (lambda: Poisson(1e8), stats.poisson(1e8)),
        (lambda: Poisson(1e4), stats.poisson(1e4)),
        (lambda: Poisson(10.0), stats.poisson(10)),
        (lambda: Binomial(100_000_000, 0.3), stats.binom(100_000_000, 0.3)),
        (lambda: Binomial(1000, 0.999), stats.binom(1000, 0.999)),
        (lambda: Binomial(100, 0.5), stats.binom(100, 0.5)),
    ],
)
def test_draws_and_quantiles_of_large_parameters(family, known):
    count = family()
    draws = np.asarray(count.sample(jr.key(0), (8000,)))
    assert np.issubdtype(draws.dtype, np.integer)
    edges = np.unique(known.ppf(np.linspace(0.05, 0.95, 19)))
    expected = 8000 * np.diff(np.concatenate([[0], known.cdf(edges), [1]]))
    observed = np.diff(np.concatenate([[0], np.searchsorted(np.sort(draws), edges, side="right"), [8000]]))
    assert (observed[expected == 0] == 0).all()
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-4
    levels = np.array([1e-9, 0.1, 0.5, 0.999])
    np.testing.assert_array_equal(count.icdf(levels), known.ppf(levels))


def test_quantiles_are_exact_at_the_steps():
    k = np.arange(0.0, 40.0, 1.7) // 1
    for count in (Poisson(7.3), Binomial(60, 0.3)):
        shares = np.asarray(count.cdf(k))
        np.testing.assert_array_equal(count.icdf(shares), np.where(shares < 1, k, count.support.high))
        np.testing.assert_array_equal(count.icdf(shares * (1 + 1e-12))[:6], k[:6] + 1)
        np.testing.assert_array_equal(count.inverse_survival(count.survival(k)), k)


def entropy(mass):
    mass = mass[mass > 0]
    return -(mass * np.log(mass)).sum()


@pytest.mark.parametrize("rate", [0.1, 3.7, 255.0, 257.0, 5000.0])
def test_poisson_entropy_is_its_sum(rate):
    k = np.arange(int(rate + 40 * np.sqrt(rate) + 60))
    np.testing.assert_allclose(Poisson(rate).entropy(), entropy(stats.poisson(rate).pmf(k)), rtol=1e-11)


def test_entropy_of_enormous_parameters_is_that_of_a_normal():
    rate = 1e12
    expected = 0.5 * np.log(2 * np.pi * np.e * rate) - 1 / (12 * rate)
    np.testing.assert_allclose(Poisson(rate).entropy(), expected, rtol=1e-13)
    np.testing.assert_allclose(
        Binomial(1e12, 0.3).entropy(), 0.5 * np.log(2 * np.pi * np.e * 0.21e12), rtol=1e-12
    )


def test_other_entropies_are_their_sums():
    for total, p in [(1000, 0.4), (3, 0.2), (100_000, 1e-4)]:
        mass = stats.binom(total, p).pmf(np.arange(min(total, 5000) + 1))
        np.testing.assert_allclose(Binomial(total, p).entropy(), entropy(mass), rtol=1e-10)
    for total, p in [(0.3, 0.05), (2.5, 0.3), (31.0, 0.01), (500.0, 0.3)]:
        mass = stats.nbinom(total, p).pmf(np.arange(40_000))
        np.testing.assert_allclose(NegativeBinomial(total, p).entropy(), entropy(mass), rtol=1e-10)
    mass = stats.betabinom(700, 0.5, 0.7).pmf(np.arange(701))
    np.testing.assert_allclose(BetaBinomial(700, 0.5, 0.7).entropy(), entropy(mass), rtol=1e-10)
    mu = 0.2
    np.testing.assert_allclose(
        Geometric(mu).entropy(), entropy(stats.geom(mu).pmf(np.arange(1, 400))), rtol=1e-12
    )


def test_slope_of_the_entropy():
    step = 1e-4
    slope = jax.grad(lambda r: Poisson(r).entropy())(5.0)
    difference = (float(Poisson(5 + step).entropy()) - float(Poisson(5 - step).entropy())) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-7)


def test_beta_binomial_distribution_function_in_both_shapes():
    for n, a, b in [(50, 0.2, 0.3), (200, 30.0, 60.0), (1, 2.0, 3.0)]:
        k = np.arange(n + 1.0)
        mass = stats.betabinom(n, a, b).pmf(k)
        np.testing.assert_allclose(BetaBinomial(n, a, b).cdf(k), mass.cumsum(), rtol=1e-11)
        np.testing.assert_allclose(
            BetaBinomial(n, a, b).survival(k)[:-1], mass[:0:-1].cumsum()[::-1], rtol=1e-11
        )


def test_beta_binomial_is_a_mixture_of_binomials():
    nodes, weights = np.polynomial.legendre.leggauss(60)
    p = (nodes + 1) / 2
    mixture = (weights / 2 * stats.beta(2, 3).pdf(p)) @ stats.binom(12, p[:, None]).pmf(np.arange(13))
    np.testing.assert_allclose(BetaBinomial(12, 2.0, 3.0).prob(np.arange(13.0)), mixture, rtol=1e-12)


def test_fits_from_mean_counts():
    x = np.array([0.0, 2.0, 1.0, 5.0])
    np.testing.assert_allclose(maximum_likelihood(Poisson(1.0), x).rate, 2.0, rtol=1e-15)
    np.testing.assert_allclose(maximum_likelihood(Binomial(8, 0.5), x).probs, 0.25, rtol=1e-14)
    np.testing.assert_allclose(maximum_likelihood(Geometric(0.5), x).probs, 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(maximum_likelihood(NegativeBinomial(3.0, 0.5), x).probs, 3 / 5, rtol=1e-15)


def test_members_that_are_certain():
    np.testing.assert_array_equal(Poisson(0.0).log_prob(np.array([0.0, 1.0])), [0.0, -np.inf])
    np.testing.assert_array_equal(Poisson(0.0).sample(jr.key(0), (5,)), 0)
    np.testing.assert_array_equal(Binomial(3, 1.0).log_prob(np.array([3.0, 2.0])), [0.0, -np.inf])
    np.testing.assert_array_equal(Binomial(3, 1.0).sample(jr.key(0), (5,)), 3)
    np.testing.assert_array_equal(Binomial(0, 0.4).log_prob(np.array([0.0, 1.0])), [0.0, -np.inf])
    np.testing.assert_array_equal(Geometric(1.0).log_prob(np.array([0.0, 1.0])), [0.0, -np.inf])
    np.testing.assert_array_equal(NegativeBinomial(2.0, 1.0).log_prob(np.array([0.0, 1.0])), [0.0, -np.inf])
    assert float(Binomial(3, 1.0).entropy()) == 0


def test_mixed_sizes_in_one_call():
    rate = jnp.array([0.5, 9.0, 11.0, 1e6])
    draws = np.asarray(Poisson(rate).sample(jr.key(3), (4000,)))
    z = (draws.mean(0) - rate) / np.sqrt(rate / 4000)
    assert np.abs(z).max() < 5
    binomial = Binomial(jnp.array([5.0, 50.0, 1e6]), jnp.array([0.5, 0.01, 0.9]))
    draws = np.asarray(binomial.sample(jr.key(4), (4000,)))
    z = (draws.mean(0) - binomial.mean) / np.sqrt(binomial.variance / 4000)
    assert np.abs(z).max() < 5


def test_modes():
    np.testing.assert_array_equal(Poisson(jnp.array([3.5, 3.0, 0.2])).mode, [3.0, np.nan, 0.0])
    np.testing.assert_array_equal(Binomial(jnp.array([10.0, 9.0]), 0.3).mode, [3.0, np.nan])
    np.testing.assert_array_equal(NegativeBinomial(jnp.array([0.5, 4.0]), 0.4).mode, [0.0, 4.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Binomial(2.5, 0.3), r"`total` must be a whole number from 0 to inf; got 2.5"),
        (lambda: Binomial(3), r"`probs` must be given, or else `logits`"),
        (lambda: Poisson(-1.0), r"`rate` must be zero or positive, and finite; got -1.0"),
        (lambda: Geometric(0.0), r"`probs` must be positive; got 0.0. A success must be possible"),
        (lambda: NegativeBinomial(0.0, 0.5), r"`total` must be positive"),
        (lambda: BetaBinomial(3, 1.0, -1.0), r"`b` must be positive"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
