"""Worked conjugate updates, the registry and its messages."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import lomax, multivariate_normal, multivariate_t, t

from tractable.distributions.bounded import Beta
from tractable.distributions.conjugate import (
    Predictive,
    add_statistics,
    find_pair,
    known_pairs,
    log_evidence,
    posterior,
    predictive,
    register_conjugate,
)
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Binomial, Geometric, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.distributions.multivariate import Dirichlet, Multinomial
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import Exponential, Gamma, Weibull

TOSSES = np.array([1, 1, 0, 1, 1, 0, 1, 1, 0, 1])  # seven heads in ten


# The coin


def test_beta_bernoulli_worked_example():
    prior = Beta(2.0, 2.0)
    after = posterior(prior, Bernoulli, TOSSES)
    assert (float(after.a), float(after.b)) == (9.0, 5.0)
    assert float(predictive(after, Bernoulli).probs) == pytest.approx(9 / 14, rel=1e-14)
    assert float(predictive(after, Bernoulli).probs) == pytest.approx(0.6428571, abs=5e-8)
    evidence = float(log_evidence(prior, Bernoulli, TOSSES))
    assert evidence == pytest.approx(-6.9777477, abs=5e-8)
    assert evidence == pytest.approx(betaln(9, 5) - betaln(2, 2), rel=1e-13)


def test_prior_mean_is_the_prior_predictive():
    assert float(predictive(Beta(3.0, 1.0), Bernoulli).probs) == pytest.approx(0.75, rel=1e-14)


def test_binomial_counts_the_orders_of_a_sequence():
    """The evidence of seven in ten exceeds that of one sequence by the number of orders."""
    prior = Beta(2.0, 2.0)
    counted = log_evidence(prior, Binomial(10, 0.5), np.array([7.0]))
    ordered = log_evidence(prior, Bernoulli, TOSSES)
    np.testing.assert_allclose(counted - ordered, np.log(120), rtol=1e-12)


# Categories


def test_dirichlet_categorical():
    alpha, labels = np.array([0.5, 1.0, 2.5]), np.array([0, 2, 2, 2, 1, 2])
    counts = np.bincount(labels)
    prior = Dirichlet(alpha)
    np.testing.assert_allclose(predictive(prior, Categorical).probs, alpha / alpha.sum(), rtol=1e-13)
    after = posterior(prior, Categorical, labels)
    np.testing.assert_allclose(after.concentration, alpha + counts, rtol=1e-14)
    expected = (counts + alpha) / (6 + alpha.sum())
    np.testing.assert_allclose(predictive(after, Categorical).probs, expected, rtol=1e-13)
    total = alpha.sum()
    evidence = gammaln(total) - gammaln(total + 6) + (gammaln(alpha + counts) - gammaln(alpha)).sum()
    np.testing.assert_allclose(log_evidence(prior, Categorical, labels), evidence, rtol=1e-12)


def test_dirichlet_of_two_is_the_beta():
    labels = 1 - TOSSES
    np.testing.assert_allclose(
        log_evidence(Dirichlet([2.0, 2.0]), Categorical, labels),
        log_evidence(Beta(2.0, 2.0), Bernoulli, TOSSES),
        rtol=1e-12,
    )
    counted = Multinomial(10, np.array([0.5, 0.5]))
    by_counts = posterior(Dirichlet([2.0, 2.0]), counted, np.array([[7.0, 3.0]]))
    np.testing.assert_allclose(by_counts.concentration, [9.0, 5.0])


def test_expected_counts_update_many_rows_at_once():
    rows = Dirichlet(np.ones((3, 2)))
    counts = np.array([[0.5, 1.5], [0.0, 0.0], [2.0, 1.0]])
    np.testing.assert_allclose(add_statistics(rows, (counts,)).concentration, 1 + counts)


# Rates


def test_gamma_poisson():
    counts = np.array([2.0, 0.0, 5.0])
    after = posterior(Gamma(2.0, 1.0), Poisson, counts)
    assert (float(after.concentration), float(after.rate)) == (9.0, 4.0)
    ahead = predictive(after, Poisson)
    np.testing.assert_allclose(ahead.mean, 9 / 4, rtol=1e-12)
    np.testing.assert_allclose(ahead.variance, 9 / 4 + 9 / 16, rtol=1e-12)  # E[rate] + Var[rate]


def test_predictive_of_waiting_times_is_lomax():
    ahead = predictive(Gamma(2.5, 1.5), Exponential)
    assert isinstance(ahead, Predictive)
    x = np.array([0.1, 1.0, 30.0])
    np.testing.assert_allclose(ahead.log_prob(x), lomax(2.5, scale=1.5).logpdf(x), rtol=1e-12)
    assert float(ahead.log_prob(-1.0)) == -np.inf
    n = 20_000
    draws = np.sort(np.asarray(ahead.sample(jr.key(0), (n,))))
    assert np.abs(lomax(2.5, scale=1.5).cdf(draws) - (np.arange(n) + 0.5) / n).max() < 1.95 / np.sqrt(n)


def test_independent_rates_are_updated_together():
    counts = np.array([[1.0, 4.0, 0.0], [3.0, 6.0, 0.0]])
    after = posterior(Gamma(np.array([1.0, 2.0, 3.0]), 1.0), Poisson, counts)
    np.testing.assert_allclose(after.concentration, [5.0, 12.0, 3.0])
    np.testing.assert_allclose(after.rate, [3.0, 3.0, 3.0])


# Gaussians


def test_gaussian_mean_is_linear_bayes():
    cov, xs = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[1.0, 0.0], [0.4, -2.0]])
    prior = Gaussian(np.zeros(2), 2 * np.eye(2))
    stacked = LinearGaussian(np.tile(np.eye(2), (2, 1)), np.zeros(4), np.kron(np.eye(2), cov))
    expected = stacked.posterior(prior, xs.reshape(-1))
    after = posterior(prior, Gaussian(np.zeros(2), cov), xs)
    np.testing.assert_allclose(after.mean, expected.mean, rtol=1e-10)
    np.testing.assert_allclose(after.cov, expected.cov, rtol=1e-10)
    evidence = stacked.marginal(prior)[0].log_prob(xs.reshape(-1))
    np.testing.assert_allclose(log_evidence(prior, Gaussian(np.zeros(2), cov), xs), evidence, rtol=1e-11)


def test_normal_mean_and_precision():
    xs = np.array([4.0, 6.0, 5.0, 9.0])
    after = posterior(NormalGamma(1.0, 2.0, 3.0, 4.0), Normal, xs)
    rate = 4 + 0.5 * ((xs - 6) ** 2).sum() + 0.5 * 2 * 4 / 6 * (6 - 1) ** 2
    expected = [(2 * 1 + 24) / 6, 6.0, 5.0, rate]
    got = [after.loc, after.precision_scale, after.concentration, after.rate]
    np.testing.assert_allclose(got, expected, rtol=1e-13)
    ahead = t(10.0, expected[0], np.sqrt(rate / 5 * (1 + 1 / 6)))
    np.testing.assert_allclose(predictive(after, Normal).log_prob(3.0), ahead.logpdf(3.0), rtol=1e-11)


def test_normal_inverse_wishart_predictive():
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    ahead = predictive(NormalInverseWishart([1.0, 0.0], 2.0, 5.0, scale), Gaussian)
    oracle = multivariate_t([1.0, 0.0], scale * 1.5 / 4, df=4)
    x = np.array([0.3, 0.8])
    np.testing.assert_allclose(ahead.log_prob(x), oracle.logpdf(x), rtol=1e-11)


def test_one_dimension_of_the_matrix_pair_is_the_scalar_pair():
    xs = np.array([0.3, 1.5, -0.7])
    flat = log_evidence(NormalGamma(0.5, 2.0, 1.5, 0.75), Normal, xs)
    matrix = log_evidence(NormalInverseWishart([0.5], 2.0, 3.0, [[1.5]]), Gaussian, xs[:, None])
    np.testing.assert_allclose(flat, matrix, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_evidence_far_from_zero_keeps_its_digits(offset):
    """Shifting data and prior together changes nothing."""
    xs, cov = np.array([0.25, 1.5, -0.75]), np.array([[1.0, 0.25], [0.25, 0.5]])
    pairs = np.stack([xs, -xs], 1)
    evidences = [
        log_evidence(Normal(offset, 1.0), Normal(0.0, 0.5), xs + offset),
        log_evidence(NormalGamma(offset, 2.0, 1.5, 0.75), Normal, xs + offset),
        log_evidence(Gaussian(np.full(2, offset), cov), Gaussian(np.zeros(2), cov), pairs + offset),
        log_evidence(NormalInverseWishart(np.full(2, offset), 2.0, 3.0, cov), Gaussian, pairs + offset),
    ]
    ones = np.ones((3, 3))
    expected = [
        multivariate_normal(np.zeros(3), 0.25 * np.eye(3) + ones).logpdf(xs),
        multivariate_t(np.zeros(3), 0.5 * (np.eye(3) + ones / 2), df=3.0).logpdf(xs),
        multivariate_normal(np.zeros(6), np.kron(np.eye(3) + ones, cov)).logpdf(pairs.reshape(-1)),
        chain_of_t(np.zeros(2), 2.0, 3.0, cov, pairs),
    ]
    np.testing.assert_allclose(evidences, expected, rtol=1e-9)


def chain_of_t(mean, kappa, nu, scale, rows):
    """The normal-inverse-Wishart evidence, one predictive t and one update at a time."""
    total = 0.0
    for x in rows:
        left = nu - len(mean) + 1
        total += multivariate_t(mean, scale * (kappa + 1) / (kappa * left), df=left).logpdf(x)
        scale = scale + kappa / (kappa + 1) * np.outer(x - mean, x - mean)
        mean, kappa, nu = (kappa * mean + x) / (kappa + 1), kappa + 1, nu + 1
    return total


# Transformations


def test_under_jit_grad_and_vmap():
    slope = jax.jit(jax.grad(lambda a: log_evidence(Beta(a, 2.0), Bernoulli, TOSSES)))(2.0)
    step = 1e-6
    numeric = (
        (betaln(9 + step, 5) - betaln(2 + step, 2) - betaln(9 - step, 5) + betaln(2 - step, 2)) / 2 / step
    )
    np.testing.assert_allclose(slope, numeric, rtol=1e-8)
    many = jax.vmap(lambda xs: posterior(Beta(1.0, 1.0), Bernoulli, xs).a)(jnp.asarray([TOSSES, 1 - TOSSES]))
    np.testing.assert_allclose(many, [8.0, 4.0])


# The registry


def test_a_pair_of_the_users_own():
    """Weibull of known shape $k$: $x^k$ is exponential."""

    @register_conjugate(
        Gamma,
        Weibull,
        lambda model, rate: Weibull(model.concentration, rate ** (-1 / model.concentration)),
        known=("concentration",),
    )
    def _(model, x):
        k = jnp.broadcast_to(model.concentration, x.shape)
        return (jnp.ones_like(x), -(x**k)), jnp.log(k) + (k - 1) * jnp.log(x)

    try:
        xs = np.array([0.5, 1.5])
        after = posterior(Gamma(1.0, 1.0), Weibull(2.0, 1.0), xs)
        assert (float(after.concentration), float(after.rate)) == (3.0, 3.5)
        jacobian = np.log(2 * xs).sum()
        expected = log_evidence(Gamma(1.0, 1.0), Exponential, xs**2) + jacobian
        np.testing.assert_allclose(log_evidence(Gamma(1.0, 1.0), Weibull(2.0, 1.0), xs), expected, rtol=1e-12)
    finally:
        from tractable.distributions import conjugate_registry

        conjugate_registry._PAIRS.pop((Gamma, Weibull))


def test_an_unknown_pair_lists_the_known_ones():
    with pytest.raises(TypeError, match=r"got Beta with Poisson\. Known pairs: .*Gamma with Poisson"):
        find_pair(Beta(1.0, 1.0), Poisson)
    assert ("Beta", "Bernoulli") in known_pairs()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: posterior(Beta(1.0, 1.0), Binomial, TOSSES),
            "`likelihood` must be a member of Binomial that holds",
        ),
        (lambda: posterior(Normal(0.0, 1.0), Normal, TOSSES), "holds its known scale; got the class Normal"),
        (
            lambda: posterior(Beta(1.0, 1.0), Bernoulli, np.array([0, 1, 2])),
            "`data` must be .*; got 2.0 at index 2",
        ),
        (lambda: posterior(Beta(1.0, 1.0), Geometric, np.array([0.5])), "`data` must be a whole number"),
        (
            lambda: posterior(Beta(1.0, 1.0), Bernoulli, 1.0),
            r"`data` must be one number per row, shape \(n,\)",
        ),
        (lambda: posterior(Beta(1.0, 1.0), Bernoulli, np.ones((3, 2))), r"`data` must be one number per row"),
        (
            lambda: posterior(Beta(1.0, 1.0), Bernoulli, TOSSES, np.ones(3)),
            "`weights` must be one number per row",
        ),
        (lambda: posterior(Dirichlet(np.ones((2, 3))), Categorical, TOSSES), "`prior` must be one unit"),
        (
            lambda: posterior(Normal(0.0, 1.0), Normal(0.0, np.ones(2)), TOSSES),
            "`likelihood` must be of shape",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
