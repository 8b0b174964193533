"""Finite distributions: likelihoods from counts, impossible outcomes, weighted data, bad input."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tractable.distributions.discrete import (
    Bernoulli,
    Categorical,
    DiscreteUniform,
    Empirical,
    Finite,
    PointMass,
    categorical_mle,
    grouped_log_likelihood,
)
from tractable.distributions.expfam import log_likelihood, maximum_likelihood


def test_bernoulli_likelihood_and_its_maximum():
    x, mu = np.array([1.0, 0, 1, 1, 0, 1, 1]), 0.3
    m, n = x.sum(), x.size
    expected = m * np.log(mu) + (n - m) * np.log(1 - mu)
    np.testing.assert_allclose(log_likelihood(Bernoulli(mu), x), expected, rtol=1e-14)
    fitted = maximum_likelihood(Bernoulli(0.5), x)
    np.testing.assert_allclose(fitted.probs, m / n, rtol=1e-14)


def test_bernoulli_moments_and_entropy():
    coin = Bernoulli(0.3)
    np.testing.assert_allclose([coin.mean, coin.variance], [0.3, 0.21], rtol=1e-15)
    np.testing.assert_allclose(coin.entropy(), -(0.3 * np.log(0.3) + 0.7 * np.log(0.7)), rtol=1e-15)
    rare = Bernoulli(logits=-800.0)
    assert float(rare.log_prob(1)) == -800.0
    assert float(Bernoulli(logits=-40.0).entropy()) == pytest.approx(41 * np.exp(-40), rel=1e-13)


def test_a_certain_coin():
    coin = Bernoulli(np.array([0.0, 1.0]))
    np.testing.assert_array_equal(coin.logits, [-np.inf, np.inf])
    assert float(coin.log_prob(np.array([0.0, 1.0]))) == 0
    assert float(coin.log_prob(np.array([0.0, 0.0]))) == -np.inf
    assert float(coin.entropy()) == 0
    np.testing.assert_array_equal(coin.sample(jr.key(0), (50,)), np.tile([0, 1], (50, 1)))


def test_categorical_maximum_likelihood_from_counts():
    counts = np.array([3.0, 1.0, 0.0, 4.0])
    fit = categorical_mle(counts)
    np.testing.assert_allclose(fit.distribution.probs, counts / 8, rtol=1e-15)
    assert fit.unseen == (2,)
    assert "Labels [2] were never seen" in repr(fit)
    sequence = np.array([0, 3, 3, 1, 0, 3, 0, 3])
    np.testing.assert_allclose(fit.log_likelihood, log_likelihood(fit.distribution, sequence), rtol=1e-14)
    np.testing.assert_allclose(
        fit.log_likelihood, 3 * np.log(3 / 8) + np.log(1 / 8) + 4 * np.log(0.5), rtol=1e-14
    )
    assert float(log_likelihood(fit.distribution, np.array([0, 2]))) == -np.inf
    again = maximum_likelihood(Categorical(np.full(4, 0.25)), sequence)
    np.testing.assert_allclose(again.probs, counts / 8, rtol=1e-15)


def test_multiplier_of_the_maximum_is_the_number_of_observations():
    counts = jnp.array([3.0, 1.0, 4.0])
    slope = jax.grad(lambda theta: (counts * jnp.log(theta)).sum())(counts / 8)
    np.testing.assert_allclose(slope, 8.0, rtol=1e-14)  # the gradient is -lambda times that of the constraint


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
)
def test_grouped_is_sequential(sequence, weights):
    categorical = Categorical(logits=np.log(weights))
    counts = np.bincount(sequence, minlength=3).astype(float)
    padded = np.append(np.array(sequence, float), np.zeros(12 - len(sequence)))
    use = np.arange(12) < len(sequence)
    grouped = grouped_log_likelihood(categorical, counts)
    np.testing.assert_allclose(
        grouped, log_likelihood(categorical, padded, use.astype(float)), rtol=1e-12, atol=1e-13
    )


def test_unnormalised_weights_and_impossible_labels():
    free = Categorical(logits=np.array([1.0, -np.inf, 3.0]) + 500)
    np.testing.assert_allclose(free.probs, np.exp([1, -np.inf, 3]) / np.exp([1, 3]).sum(), rtol=1e-13)
    np.testing.assert_array_equal(free.log_prob(np.array([1.0, 3.0])), -np.inf)
    draws = np.asarray(free.sample(jr.key(0), (2000,)))
    assert set(np.unique(draws)) == {0, 2}
    assert float(Categorical(logits=np.array([0.0, -800.0])).log_prob(1.0)) == -800.0
    slope = jax.grad(lambda w: Categorical(logits=w).log_prob(0.0))(jnp.array([1.0, -jnp.inf, 3.0]))
    np.testing.assert_allclose(slope, [1 - free.probs[0], 0.0, -free.probs[2]], rtol=1e-13)


def test_many_labels_are_searched():
    weights = np.random.default_rng(0).random(1000)
    large = Categorical(weights / weights.sum())
    draws = np.asarray(large.sample(jr.key(0), (20_000,)))
    grouped = np.bincount(draws, minlength=1000).reshape(20, 50).sum(1)
    assert stats.chisquare(grouped, 20_000 * np.asarray(large.probs).reshape(20, 50).sum(1)).pvalue > 1e-4
    np.testing.assert_array_equal(large.icdf(large.cdf(np.arange(0.0, 999.0, 37))), np.arange(0.0, 999.0, 37))


def test_rows_of_weights_are_independent_labels():
    probs = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    rows = Categorical(probs)
    assert rows.shape == (2,)
    np.testing.assert_allclose(
        rows.log_prob(np.array([[0, 2], [1, 0]])), np.log([0.2 * 0.1, 0.3 * 0.6]), rtol=1e-14
    )
    draws = np.asarray(rows.sample(jr.key(0), (4000,)))
    means = probs @ np.arange(3)
    np.testing.assert_allclose(draws.mean(0), means, atol=5 * 0.8 / np.sqrt(4000))


def test_a_finite_distribution_knows_its_moments():
    values, probs = np.array([5.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25])
    coins = Finite(values, probs)
    np.testing.assert_allclose(coins.mean, values @ probs, rtol=1e-15)
    np.testing.assert_allclose(coins.variance, values**2 @ probs - (values @ probs) ** 2, rtol=1e-14)
    np.testing.assert_array_equal(coins.values, [1.0, 2.0, 5.0])
    np.testing.assert_allclose(
        coins.log_prob(np.array([1.0, 5.0, 3.0])), [np.log(0.5), np.log(0.25), -np.inf]
    )
    np.testing.assert_array_equal(coins.mode, 1.0)


def test_empirical_distribution_of_data():
    data = np.array([3.0, 1.0, 1.0, 2.0])
    empirical = Empirical(data)
    np.testing.assert_allclose(empirical.prob(np.array([1.0, 2.0, 2.5])), [0.5, 0.25, 0.0])
    np.testing.assert_allclose([empirical.mean, empirical.std], [data.mean(), data.std()], rtol=1e-15)
    np.testing.assert_array_equal(empirical.icdf(np.array([0.25, 0.5, 0.51, 0.75, 0.76])), [1, 1, 2, 2, 3])
    np.testing.assert_allclose(empirical.cdf(np.array([0.0, 1.0, 2.9, 3.0])), [0, 0.5, 0.75, 1])


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=6, max_size=6))
def test_weights_are_repetitions(pairs):
    values, weights = (np.array(column, float) for column in zip(*pairs))
    if weights.sum() == 0:
        weights[0] = 1.0
    weighted = Empirical(values, weights)
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    levels = np.array([0.1, 0.25, 0.5, 0.9])
    expected = repeated[np.ceil(levels * repeated.size - 1e-9).astype(int) - 1]
    np.testing.assert_array_equal(weighted.icdf(levels), expected)
    points = np.array([-3.0, 0.0, 1.5, 3.0])
    np.testing.assert_allclose(
        weighted.cdf(points), (repeated[:, None] <= points).mean(0), rtol=1e-13, atol=1e-15
    )
    np.testing.assert_allclose(weighted.prob(points), (repeated[:, None] == points).mean(0), rtol=1e-13)


def test_values_of_weight_zero_are_never_drawn():
    some = Empirical([1.0, 2.0, 3.0], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(some.sample(jr.key(0), (100,)), 2.0)
    np.testing.assert_array_equal(some.icdf(np.array([1e-300, 0.5, 0.999])), 2.0)
    assert float(some.log_prob(1.0)) == -np.inf


def test_a_point_mass_is_certain():
    point = PointMass(2.5)
    np.testing.assert_array_equal(point.log_prob(np.array([2.5, 2.0])), [0.0, -np.inf])
    np.testing.assert_array_equal(point.cdf(np.array([2.4, 2.5])), [0.0, 1.0])
    assert float(point.entropy()) == 0 == float(point.variance)
    assert point.discrete


def test_a_die():
    die = DiscreteUniform(1, 6)
    np.testing.assert_allclose([die.mean, die.variance], [3.5, 35 / 12], rtol=1e-15)
    np.testing.assert_array_equal(die.icdf(np.arange(1, 7) / 6), np.arange(1, 7))
    assert np.issubdtype(die.sample(jr.key(0), (2,)).dtype, np.integer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bernoulli(1.5), r"`probs` must be between 0.0 and 1.0; got 1.5"),
        (lambda: Bernoulli(), r"`probs` must be given, or else `logits`, and not both; got neither"),
        (lambda: Bernoulli(0.5, logits=0.0), r"got both"),
        (lambda: Bernoulli(logits=np.nan), r"`logits` must be a number or an infinity, not NaN; got nan"),
        (lambda: Categorical([0.5, 0.6]), r"`probs` must be probabilities .* sum to 1"),
        (lambda: Categorical(0.5), r"`probs` must be an array with at least 1 axes"),
        (lambda: Categorical(logits=[-np.inf, -np.inf]), r"`logits` must be logarithms of weights"),
        (lambda: Finite([1.0, 1.0], [0.5, 0.5]), r"`values` must be distinct; got 1.0 more than once"),
        (lambda: Finite([1.0, 2.0], [0.5, 0.4]), r"`probs` must be probabilities"),
        (lambda: Finite([1.0, 2.0], [0.5, 0.3, 0.2]), r"`probs` must be as long as `values` \(2\)"),
        (lambda: Empirical([]), r"`values` must be at least one number"),
        (lambda: Empirical([1.0, np.nan]), r"`values` must be finite; got nan at index 1"),
        (
            lambda: Empirical([1.0, 2.0], [1.0, -1.0]),
            r"`weights` must be zero or positive, and finite; got -1.0",
        ),
        (lambda: Empirical([1.0, 2.0], [0.0, 0.0]), r"`weights` must be positive in total"),
        (lambda: DiscreteUniform(3, 1), r"`low` must be at most `high` = 1.0; got 3.0"),
        (lambda: DiscreteUniform(0.5, 1), r"`low` must be a whole number"),
        (lambda: categorical_mle([0, 0]), r"`counts` must be positive in total"),
        (
            lambda: categorical_mle([1, -1]),
            r"`counts` must be zero or positive, and finite; got -1.0 at index 1",
        ),
        (
            lambda: grouped_log_likelihood(Categorical([0.5, 0.5]), [1, 2, 3]),
            r"`counts` must be of shape \(2,\)",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
