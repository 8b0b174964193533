"""Finite distributions: worked numbers of likelihoods and moments, validity, and what was never seen."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.distributions import (
    Bernoulli,
    Categorical,
    Empirical,
    Finite,
    PointMass,
    categorical_mle,
    grouped_log_likelihood,
    maximum_likelihood,
)


def test_bernoulli_moments_and_likelihood():
    coin = Bernoulli(0.3)
    np.testing.assert_allclose([coin.mean, coin.variance], [0.3, 0.21], rtol=1e-14)
    tosses = jnp.array([1.0, 0.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(coin.log_prob(tosses).sum(), 3 * np.log(0.3) + 2 * np.log(0.7), rtol=1e-14)
    np.testing.assert_allclose(coin.entropy(), -0.3 * np.log(0.3) - 0.7 * np.log(0.7), rtol=1e-14)


def test_bernoulli_maximum_likelihood_is_the_share_of_ones():
    fitted = maximum_likelihood(Bernoulli(0.5), jnp.array([1.0, 0.0, 1.0, 1.0]))
    np.testing.assert_allclose(fitted.probs, 0.75, rtol=1e-14)


def test_certain_coins_have_impossible_sides():
    assert float(Bernoulli(1.0).log_prob(0.0)) == -np.inf
    assert float(Bernoulli(1.0).log_prob(1.0)) == 0.0
    assert float(Bernoulli(0.0).entropy()) == 0.0


def test_categorical_maximum_likelihood_and_what_was_never_seen():
    fit = categorical_mle([3, 0, 1])
    np.testing.assert_allclose(fit.distribution.probs, [0.75, 0.0, 0.25], rtol=1e-14)
    assert fit.unseen == (1,)
    assert float(fit.distribution.log_prob(1)) == -np.inf


def test_grouped_and_sequential_log_likelihood_agree():
    distribution = Categorical(jnp.array([0.5, 0.3, 0.2]))
    rows = jnp.array([0.0, 0.0, 1.0, 2.0, 0.0, 1.0])
    grouped = grouped_log_likelihood(distribution, [3, 2, 1])
    np.testing.assert_allclose(grouped, distribution.log_prob(rows).sum(), rtol=1e-13)


def test_finite_distribution_over_given_numbers():
    die = Finite(jnp.array([1.0, 2.0, 10.0]), jnp.array([0.5, 0.25, 0.25]))
    np.testing.assert_allclose(die.mean, 3.5, rtol=1e-14)
    np.testing.assert_allclose(die.variance, 0.5 + 1.0 + 25.0 - 3.5**2, rtol=1e-14)
    np.testing.assert_allclose(die.log_prob(jnp.array([2.0, 3.0])), [np.log(0.25), -np.inf])
    draws = np.asarray(die.sample(jr.key(0), (20_000,)))
    share = (draws == 1.0).mean()
    assert abs(share - 0.5) < 5 * np.sqrt(0.25 / 20_000)


def test_probabilities_that_do_not_sum_to_one_are_refused_by_name():
    with pytest.raises(ValueError, match="`probs` must be probabilities that are zero or positive"):
        Categorical(jnp.array([0.5, 0.6]))
    with pytest.raises(ValueError, match="`probs`"):
        Bernoulli(1.5)


def test_empirical_distribution_counts_its_rows():
    sample = Empirical(jnp.array([3.0, 1.0, 3.0, 2.0]))
    np.testing.assert_allclose(sample.mean, 2.25, rtol=1e-14)
    np.testing.assert_allclose(sample.cdf(2.5), 0.5, rtol=1e-14)
    np.testing.assert_allclose(sample.log_prob(3.0), np.log(0.5), rtol=1e-14)
    weighted = Empirical(jnp.array([3.0, 1.0, 2.0]), jnp.array([2.0, 1.0, 1.0]))
    np.testing.assert_allclose(weighted.mean, sample.mean, rtol=1e-14)


def test_point_mass_is_certain():
    np.testing.assert_allclose(PointMass(2.0).log_prob(jnp.array([2.0, 2.1])), [0.0, -np.inf])
