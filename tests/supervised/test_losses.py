"""Losses by hand, decisions by minimising the expected loss, the ROC curve by counting pairs."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.counts import Poisson
from tractable.distributions.discrete import Categorical
from tractable.distributions.gaussian import Gaussian
from tractable.supervised.selection.losses import (
    absolute_loss,
    bayes_decision,
    confusion_matrix,
    gaussian_nll,
    mean_decision,
    negative_log_likelihood,
    pinball_loss,
    quantile_decision,
    reject_loss_matrix,
    roc_curve,
    squared_loss,
    zero_one_loss,
)

RNG = np.random.default_rng(0)


def test_losses_of_single_rows():
    assert zero_one_loss([0, 1, 2], [0, 2, 2]).tolist() == [0, 1, 0]
    assert zero_one_loss(np.array(["a", "b"]), np.array(["a", "a"])).tolist() == [0, 1]
    assert squared_loss([1.0, 2.0], [3.0, 2.5]).tolist() == [4.0, 0.25]
    assert absolute_loss([1.0, 2.0], [3.0, 2.5]).tolist() == [2.0, 0.5]
    assert pinball_loss([1.0, 3.0], [2.0, 2.0], 0.9).tolist() == pytest.approx([0.1, 0.9])


def test_gaussian_noise_is_squared_loss_up_to_scale_and_constant():
    y, h, scale = RNG.normal(size=20), RNG.normal(size=20), 0.7
    expected = ((y - h) ** 2).sum() / (2 * scale**2) + 20 * 0.5 * np.log(2 * np.pi * scale**2)
    assert gaussian_nll(y, h, scale).sum() == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(gaussian_nll(y, h, scale), -stats.norm(h, scale).logpdf(y), rtol=1e-12)
    # without one half the sum of squares is the density of variance one half
    np.testing.assert_allclose(gaussian_nll(y, h, 0.5**0.5), (y - h) ** 2 + 0.5 * np.log(np.pi), rtol=1e-12)


def test_any_distribution_is_a_loss():
    y, h = RNG.normal(size=6), RNG.normal(size=6)
    found = negative_log_likelihood(Normal(h, 0.7), y)
    np.testing.assert_allclose(found, gaussian_nll(y, h, 0.7), rtol=1e-12)
    rates = np.array([1.0, 2.0, 5.0])
    found = negative_log_likelihood(Poisson(rates), [0, 3, 4])
    np.testing.assert_allclose(found, -stats.poisson(rates).logpmf([0, 3, 4]), rtol=1e-10)
    p = RNG.dirichlet(np.ones(3), 4)
    codes = np.array([0, 2, 1, 1])
    np.testing.assert_allclose(
        negative_log_likelihood(Categorical(p), codes), -np.log(p[np.arange(4), codes]), rtol=1e-10
    )
    both = Gaussian(jnp.zeros((2, 3)), jnp.eye(3))
    points = RNG.normal(size=(2, 3))
    expected = -stats.multivariate_normal(np.zeros(3)).logpdf(points)
    np.testing.assert_allclose(negative_log_likelihood(both, points), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="one unit per row"):
        negative_log_likelihood(Normal(0.0, 1.0), [0.0])
    with pytest.raises(ValueError, match=r"`targets` must be one per unit \(6,\)"):
        negative_log_likelihood(Normal(h, 1.0), [0.0])


def test_decisions_minimise_their_expected_losses():
    skewed = stats.gamma(2.0)
    draws = skewed.ppf((np.arange(20_000) + 0.5) / 20_000)
    grid = np.linspace(0.2, 5.0, 481)
    for loss, best in (
        (lambda h: squared_loss(draws, np.full_like(draws, h)), skewed.mean()),
        (lambda h: absolute_loss(draws, np.full_like(draws, h)), skewed.median()),
        (lambda h: pinball_loss(draws, np.full_like(draws, h), 0.8), skewed.ppf(0.8)),
    ):
        assert grid[np.argmin([loss(h).mean() for h in grid])] == pytest.approx(best, abs=0.011)
    predicted = StudentT(5.0, jnp.asarray([1.0, 2.0]), 3.0)
    np.testing.assert_allclose(mean_decision(predicted), [1.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(
        quantile_decision(predicted, 0.9), stats.t(5, [1.0, 2.0], 3.0).ppf(0.9), rtol=1e-8
    )


@given(st.integers(0, 1000))
def test_bayes_decision_has_the_least_expected_loss(seed):
    generator = np.random.default_rng(seed)
    probs, losses = generator.dirichlet(np.ones(3), 5), generator.uniform(0, 9, (3, 4))
    for p, action in zip(probs, bayes_decision(probs, losses)):
        expected = [sum(p[c] * losses[c, a] for c in range(3)) for a in range(4)]
        assert expected[action] == min(expected)
    np.testing.assert_array_equal(bayes_decision(probs), probs.argmax(1))
    deferred = bayes_decision(probs, reject_loss_matrix(3, 0.4)) == 3
    np.testing.assert_array_equal(deferred, probs.max(1) < 0.6)


def test_confusion_matrix_and_roc_agree_with_scikit_learn():
    y, h = RNG.integers(0, 3, 60), RNG.integers(0, 3, 60)
    np.testing.assert_array_equal(confusion_matrix(y, h), metrics.confusion_matrix(y, h))
    truth, scores = RNG.integers(0, 2, 80), RNG.normal(size=80).round(1)  # with ties
    curve = roc_curve(truth, scores)
    pairs = np.sign(scores[truth == 1][:, None] - scores[truth == 0])
    assert curve.area == pytest.approx((pairs.mean() + 1) / 2, rel=1e-12)
    assert curve.area == pytest.approx(metrics.roc_auc_score(truth, scores), rel=1e-12)
    assert (curve.false_alarms[-1], curve.hits[-1]) == (1.0, 1.0)
    assert "area" in repr(curve)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: squared_loss([1.0], [1.0, 2.0]), "`predictions` must be as long as `targets`"),
        (lambda: gaussian_nll([1.0], [1.0], 0.0), "`scale` must be positive; got 0.0"),
        (lambda: bayes_decision([[0.5, 0.6]]), "`probs` must be probabilities that sum to 1"),
        (lambda: bayes_decision([[0.5, 0.5]], [[1.0]]), r"`loss_matrix` must be one row per class \(2\)"),
        (lambda: roc_curve([1, 1], [0.1, 0.2]), "`targets` must be 0 and 1, both present"),
        (lambda: confusion_matrix([0, 5], [0, 1], 2), "`targets` must be from 0 to 1; got 5"),
        (lambda: reject_loss_matrix(2, 2.0), "`cost` must be from 0 to 1; got 2.0"),
        (lambda: pinball_loss([1.0], [1.0], 1.0), "`quantile` must be between 0 and 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
