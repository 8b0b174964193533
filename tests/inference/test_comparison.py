"""Models beside each other: posterior over models, Bayes factors, averages, Occam's razor."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal, norm

from tractable.core.estimate import Estimate
from tractable.distributions.continuous import Normal
from tractable.inference.evidence.comparison import (
    average_log_prob,
    average_predictive,
    bayes_factor,
    expected_log_bayes_factor,
    model_posterior,
    polynomial_evidences,
)


def test_posterior_over_models():
    evidences, prior = np.array([-1000.0, -1001.5, -1003.0]), np.array([0.2, 0.5, 0.3])
    w = np.exp(evidences + 1000) * prior
    post = model_posterior(evidences, prior)
    np.testing.assert_allclose(post.probs, w / w.sum(), rtol=1e-12)
    assert post.best == "model 0"


def test_the_table_says_whether_errors_could_change_the_order():
    close = model_posterior({"a": Estimate(jnp.asarray(-3.0), jnp.asarray(0.5)), "b": -3.2})
    assert "Undecided: the two best differ by 0.2 with an error of 0.5" in repr(close)
    clear = model_posterior({"a": -10.0, "b": -3.0})
    lines = repr(clear).splitlines()
    assert lines[1].startswith("b")
    assert lines[-1] == "b leads by 7 nats of evidence."


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (0.5, "not worth more than a bare mention, for the first"),
        (-2.0, "positive, for the second"),
        (4.0, "strong, for the first"),
        (-6.0, "very strong, for the second"),
        (0.0, "none either way"),
    ],
)
def test_bayes_factor_and_its_words(gap, words):
    found = bayes_factor(
        Estimate(jnp.asarray(gap - 7), jnp.asarray(0.3)), Estimate(jnp.asarray(-7.0), jnp.asarray(0.4))
    )
    np.testing.assert_allclose(found.value, gap, atol=1e-12)
    np.testing.assert_allclose(found.standard_error, 0.5, rtol=1e-12)
    assert found.words == words


def test_expected_log_bayes_factor_is_a_divergence():
    """All 2^6 sequences of a coin under a fair coin and under a uniform prior: sums over data sets."""
    heads = np.array([sum(s) for s in itertools.product([0, 1], repeat=6)])
    fair, unknown = np.full(64, 6 * np.log(0.5)), betaln(heads + 1, 7 - heads)
    np.testing.assert_allclose(np.exp(unknown).sum(), 1, rtol=1e-12)
    for first, second in ((fair, unknown), (unknown, fair)):
        expected = (np.exp(first) * (first - second)).sum()
        np.testing.assert_allclose(expected_log_bayes_factor(first, second), expected, rtol=1e-10)
        assert expected > 0
    assert float(expected_log_bayes_factor(fair, fair)) == 0
    gaussians = expected_log_bayes_factor(Normal(0.0, 1.0), Normal(1.0, 2.0))
    np.testing.assert_allclose(gaussians, np.log(2) + 2 / 8 - 0.5, rtol=1e-12)


def test_averages_of_predictions():
    post = model_posterior([-1.0, -2.0])
    p = 1 / (1 + np.exp(-1))
    mixture = average_predictive([Normal(0.0, 1.0), Normal(3.0, 2.0)], post)
    y = np.array([-1.0, 0.5, 4.0])
    expected = np.log(p * norm.pdf(y) + (1 - p) * norm(3, 2).pdf(y))
    np.testing.assert_allclose(mixture.log_prob(y), expected, rtol=1e-10)
    logs = np.stack([norm.logpdf(y), norm(3, 2).logpdf(y)])
    np.testing.assert_allclose(average_log_prob(logs, post), expected, rtol=1e-10)
    np.testing.assert_allclose(mixture.mean, 3 * (1 - p), rtol=1e-12)
    impossible = average_log_prob([[-np.inf], [-1.0]], [0.5, 0.5])
    np.testing.assert_allclose(impossible, [-1 - np.log(2)], rtol=1e-12)


def test_polynomial_evidences_are_those_of_the_marginal_gaussian():
    rng = np.random.default_rng(0)
    x, y = np.linspace(-1, 1, 9), rng.normal(size=9)
    found = polynomial_evidences(x, y, 3, prior_scale=1.5, noise=0.7)
    for degree in range(4):
        design = x[:, None] ** np.arange(degree + 1)
        cov = 0.49 * np.eye(9) + 2.25 * design @ design.T
        np.testing.assert_allclose(found[degree], multivariate_normal(np.zeros(9), cov).logpdf(y), rtol=1e-9)


@pytest.mark.parametrize("truth", [0, 1, 2, 3])
def test_occam_prefers_the_smallest_degree_that_explains(truth):
    """On average over data from each degree, the evidence is largest there, although larger degrees fit no
    worse."""
    rng = np.random.default_rng(truth)
    x = np.linspace(-1, 1, 100)
    signal = np.polynomial.polynomial.polyval(x, np.array([0.5, -1.0, 1.0, -1.0])[: truth + 1])
    sets = [signal + 0.1 * rng.normal(size=100) for _ in range(10)]
    mean = np.mean([polynomial_evidences(x, y, 6, noise=0.1) for y in sets], 0)
    assert mean.argmax() == truth
    assert (np.diff(mean[truth:]) < 0).all()


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`log_evidences` must be at least one"):
        model_posterior([])
    with pytest.raises(ValueError, match=r"`prior` must be one per model \(2\)"):
        model_posterior([-1.0, -2.0], [1.0])
    with pytest.raises(ValueError, match=r"`log_evidences` must be numbers"):
        model_posterior([np.nan, -2.0])
    with pytest.raises(ValueError, match=r"`log_probs` must be as long as `probs` \(2\); got 3"):
        average_log_prob(np.zeros((3, 2)), [0.5, 0.5])
    with pytest.raises(ValueError, match=r"`y` must be as long as `x` \(3\); got 2"):
        polynomial_evidences(np.zeros(3), np.zeros(2), 1)
