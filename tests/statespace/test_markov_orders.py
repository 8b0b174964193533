"""Chains of higher order, the choice of the order, homogeneity in time, and Gaussian autoregressions."""

import itertools
import math

import jax.random as jr
import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.special import gammaln
from scipy.stats import chi2, multivariate_normal

from tractable.distributions.smoothing import sequence_log_evidence
from tractable.statespace.markov_chain.autoregression import AutoRegression, from_partial_autocorrelations
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.markov_chain.orders import HigherOrderChain, choose_order, homogeneity

SECOND = HigherOrderChain(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]]), 2, ("a", "b"))


def test_order_two_by_hand():
    chain = MarkovChain.fit("abaab", order=2)
    # ab -> a, ba -> a, aa -> b
    np.testing.assert_allclose(chain.table[:3], [[0, 1], [1, 0], [1, 0]])
    assert np.isnan(chain.table[3]).all()
    assert chain.num_parameters == 4
    assert MarkovChain.fit("abcab", order=3).num_parameters == 27 * 2
    smooth = MarkovChain.fit("abaab", order=2, smoothing=1.0)
    np.testing.assert_allclose(smooth.table, [[1 / 3, 2 / 3], [2 / 3, 1 / 3], [2 / 3, 1 / 3], [0.5, 0.5]])
    assert smooth.log_likelihood("aabb") == pytest.approx(math.log(2 / 3 * 1 / 3))
    assert chain.log_likelihood("aaa") == -np.inf
    with pytest.raises(ValueError, match=r"contexts that the fit has seen; got \['b', 'b'\]"):
        chain.log_likelihood("bba")


def test_order_zero_is_independence_and_order_one_the_chain():
    word = "abracadabra"
    zero = MarkovChain.fit(word, order=0)
    np.testing.assert_allclose(zero.table, [np.array([5, 2, 1, 1, 2]) / 11])
    assert zero.log_likelihood(word) == pytest.approx(sum(np.log(word.count(c) / 11) for c in word))
    one = HigherOrderChain.fit(word, 1)
    first = MarkovChain.fit(word)
    np.testing.assert_array_equal(one.table, first.transition)
    assert one.log_likelihood(word) == pytest.approx(
        MarkovChain(first.transition, names=first.names).log_prob(word)
    )


def test_contexts_as_states_are_the_same_process():
    lifted = SECOND.as_first_order()
    assert lifted.names == (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"))
    for word in itertools.product("ab", repeat=4):
        pairs = list(itertools.pairwise(word))
        assert SECOND.log_likelihood([list(word)]) == pytest.approx(lifted.log_prob(pairs))


def test_draws_of_order_two_are_fitted_back_and_chosen():
    draws = SECOND.sample(jr.key(0), 6000, "ab")
    fitted = MarkovChain.fit(draws, order=2)
    np.testing.assert_allclose(fitted.table, SECOND.table, atol=4.5 * np.sqrt(0.25 / 500))
    choice = choose_order(draws, 4)
    assert choice.verdict.ok
    assert choice.best == 2
    assert choice.num_parameters.tolist() == [1, 2, 4, 8, 16]
    assert (np.diff(choice.log_likelihood) >= -1e-9).all()  # orders are nested
    independent = choose_order(np.random.default_rng(0).integers(0, 3, 3000), 2)
    assert independent.best == 0


def test_the_evidence_integrates_the_rows_out():
    """By the chain of predictives, and by the gamma functions of a Dirichlet written out."""
    word, alpha = [0, 1, 1, 0, 2, 0, 1], 0.7
    counts, total = np.zeros((3, 3)), 0.0
    for i, j in itertools.pairwise(word):
        total += math.log((counts[i, j] + alpha) / (counts[i].sum() + 3 * alpha))
        counts[i, j] += 1
    choice = choose_order(word, 1, smoothing=alpha)
    assert choice.log_evidence[1] == pytest.approx(total)
    by_hand = gammaln(3 * alpha) - gammaln(counts[0].sum() + 3 * alpha)
    by_hand += (gammaln(counts[0] + alpha) - gammaln(alpha)).sum()
    assert sequence_log_evidence(counts[0], alpha) == pytest.approx(by_hand)


def test_orders_are_compared_on_the_same_symbols_by_a_ratio():
    rng = np.random.default_rng(1)
    word = rng.integers(0, 2, 400)
    choice = choose_order(word, 1)
    pairs = np.array([[np.sum((word[:-1] == i) & (word[1:] == j)) for j in (0, 1)] for i in (0, 1)])
    expected = pairs.sum(1, keepdims=True) * pairs.sum(0) / pairs.sum()
    ratio = 2 * (pairs * np.log(pairs / expected)).sum()  # the test of independence in a table
    assert choice.p_value[0] == pytest.approx(chi2.sf(ratio, 1))


def test_a_change_of_the_matrix_is_noticed():
    first = MarkovChain([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5]).sample(jr.key(0), 400, 5)
    second = MarkovChain([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]).sample(jr.key(1), 400, 5)
    assert homogeneity(first).verdict.ok
    changed = homogeneity(np.concatenate([first, second], 1))
    assert not changed.verdict.ok
    assert changed.degrees == 2
    np.testing.assert_allclose(changed.matrices[0], [[0.9, 0.1], [0.2, 0.8]], atol=0.05)


@pytest.mark.thorough
def test_p_values_of_homogeneity_are_uniform():
    paths = MarkovChain([[0.7, 0.3], [0.4, 0.6]], [0.5, 0.5]).sample(jr.key(3), 300, 400)
    values = np.array([homogeneity(path).p_value for path in paths])
    assert abs((values < 0.1).mean() - 0.1) <= 4 * np.sqrt(0.09 / 400)
    assert abs(values.mean() - 0.5) <= 4 * np.sqrt(1 / 12 / 400)


def dense_log_likelihood(model, series):
    cov = toeplitz(model.autocovariances(len(series) - 1))
    return multivariate_normal(np.full(len(series), model.mean), cov).logpdf(series)


@pytest.mark.cheap
@pytest.mark.parametrize("coefficients", [[0.6], [0.5, 0.3], [1.2, -0.7, 0.2]])
def test_exact_likelihood_is_the_joint_normal(coefficients):
    model = AutoRegression(coefficients, 0.7, 2.0)
    series = model.sample(jr.key(0), 40)
    assert model.log_likelihood(series) == pytest.approx(dense_log_likelihood(model, series), rel=1e-11)
    assert model.log_likelihood(series[:2]) == pytest.approx(
        dense_log_likelihood(model, series[:2]), rel=1e-11
    )
    conditional = model.log_likelihood(series, method="conditional")
    k = model.order
    assert conditional == pytest.approx(model.log_likelihood(series) - model.log_likelihood(series[:k]))


def test_autocovariances_and_means_are_those_of_the_recursion():
    model = AutoRegression([0.5, 0.3], 1.0, 2.0)
    response = np.zeros(400)
    response[0] = 1.0
    for t in range(1, 400):
        response[t] = 0.5 * response[t - 1] + (0.3 * response[t - 2] if t > 1 else 0.0)
    expected = [2.0 * response[h:] @ response[: 400 - h] for h in range(6)]
    np.testing.assert_allclose(model.autocovariances(5), expected, rtol=1e-9)
    assert model.mean == pytest.approx(5.0)
    one = AutoRegression([0.8], 0.0, 1.0).autocovariances(3)
    np.testing.assert_allclose(one, 0.8 ** np.arange(4) / (1 - 0.64))


def test_conditional_fit_is_least_squares():
    series = AutoRegression([0.5, -0.3], 2.0, 1.5).sample(jr.key(2), 500)
    model = AutoRegression.fit(series, 2)
    X = np.column_stack([np.ones(498), series[1:-1], series[:-2]])
    solved, rest = np.linalg.lstsq(X, series[2:])[:2]
    np.testing.assert_allclose([model.intercept, *model.coefficients], solved, rtol=1e-9)
    assert model.noise == pytest.approx(rest[0] / 498)
    shifted = AutoRegression.fit(series + 1e9, 2)
    np.testing.assert_allclose(shifted.coefficients, model.coefficients, rtol=1e-5)
    both = AutoRegression.fit([series, series[:100]], 2, weights=[1.0, 2.0])
    copies = AutoRegression.fit([series, series[:100], series[:100]], 2)
    np.testing.assert_allclose(both.coefficients, copies.coefficients, rtol=1e-9)
    assert both.noise == pytest.approx(copies.noise)


def test_exact_fit_is_the_highest_and_stationary():
    series = AutoRegression([0.9], 0.5, 1.0).sample(jr.key(5), 60)
    exact = AutoRegression.fit(series, 1, method="exact")
    best = exact.log_likelihood(series)
    for change in np.eye(3) * 1e-3:
        for sign in (1, -1):
            phi, c, noise = np.array([exact.coefficients[0], exact.intercept, exact.noise]) + sign * change
            assert AutoRegression([phi], c, noise).log_likelihood(series) <= best
    trending = np.cumsum(np.ones(30)) + np.sin(np.arange(30.0))
    assert AutoRegression.fit(trending, 2, method="exact").is_stationary


def test_partial_autocorrelations_give_every_stationary_model():
    rng = np.random.default_rng(0)
    for partial in rng.uniform(-0.99, 0.99, (20, 4)):
        assert AutoRegression(from_partial_autocorrelations(partial)).is_stationary
    assert not AutoRegression([1.0]).is_stationary
    assert not AutoRegression([0.6, 0.5]).verdict.ok


def test_forecasts_are_conditional_normals():
    """Means and variances of the next five, from the dense joint normal."""
    model = AutoRegression([0.5, 0.3], 1.0, 2.0)
    series = model.sample(jr.key(1), 30)
    found = model.forecast(series, 5, level=0.8)
    cov = toeplitz(model.autocovariances(34))
    gain = np.linalg.solve(cov[:30, :30], cov[:30, 30:]).T
    np.testing.assert_allclose(found.mean, model.mean + gain @ (series - model.mean), rtol=1e-9)
    np.testing.assert_allclose(found.variance, np.diag(cov[30:, 30:] - gain @ cov[:30, 30:]), rtol=1e-9)
    np.testing.assert_allclose(found.upper - found.lower, 2 * 1.2815515655446004 * np.sqrt(found.variance))
    far = model.forecast(series, 500)
    assert far.mean[-1] == pytest.approx(model.mean)
    assert far.variance[-1] == pytest.approx(model.autocovariances(0)[0])


def test_simulations_have_the_moments_and_follow_their_start():
    model = AutoRegression([0.5, 0.3], 1.0, 2.0)
    paths = model.sample(jr.key(0), 3, 20_000)
    cov = toeplitz(model.autocovariances(2))
    np.testing.assert_allclose(paths.mean(0), model.mean, atol=4.5 * np.sqrt(cov[0, 0] / 20_000))
    np.testing.assert_allclose(np.cov(paths.T), cov, atol=4.5 * np.sqrt(2 / 20_000) * cov[0, 0])
    still = AutoRegression([0.5, 0.25], 1.0, 0.0)
    np.testing.assert_allclose(still.sample(jr.key(0), 3, start=[4.0, 8.0]), [6.0, 6.0, 5.5])
    np.testing.assert_allclose(still.forecast([4.0, 8.0], 3).mean, [6.0, 6.0, 5.5])
    walk = AutoRegression([1.0], 0.0, 1.0)
    np.testing.assert_allclose(walk.forecast([3.0], 4).variance, [1, 2, 3, 4])


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AutoRegression([1.1]).autocovariances(2), "stationary; got an eigenvalue of modulus 1.1"),
        (lambda: AutoRegression.fit([1.0, np.nan, 2.0, 1.0], 1), "finite; got nan at index 1"),
        (lambda: AutoRegression.fit(np.ones(20), 1), "varied enough for 1 coefficients"),
        (lambda: AutoRegression.fit([1.0, 2.0], 2), "more than 4 values long"),
        (lambda: AutoRegression([0.5], 0.0, -1.0), "a variance, zero or positive; got -1.0"),
        (lambda: AutoRegression([0.5, 0.1]).forecast([1.0], 3), "at least 2 values; got 1"),
        (lambda: MarkovChain.fit(np.arange(100), order=9), r"so small that 100\^"),
        (lambda: choose_order([0, 1], 5), "below the length of the longest sequence"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
