"""Acting and handing over; drift, for a network as for a Gaussian process."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tractable.neural.bayes.ensembles import DeepEnsemble
from tractable.neural.bayes.likelihoods import NormalNoise
from tractable.neural.bayes.monitoring import hand_over, monitor_network
from tractable.neural.bayes.posterior import weight_posterior
from tractable.supervised.selection.uncertainty import Prediction

RNG = np.random.default_rng(8)


def pendulum(count):
    """Whether a swing from an angle and a speed goes over the top, seen with noise."""
    states = RNG.uniform(-3, 3, (count, 2))
    energy = 0.5 * states[:, 1] ** 2 + 1 - np.cos(states[:, 0])
    return states, (energy + 0.6 * RNG.normal(size=count) > 2).astype(float)


def test_the_risk_of_what_is_acted_on_falls_with_what_is_handed_over():
    network = eqx.nn.MLP(2, 1, 8, 1, activation=jnp.tanh, key=jr.key(0))
    post = weight_posterior(network, pendulum(150), key=0, likelihood="classes")
    held, answers = pendulum(300)
    error = post.predict(held).probs.argmax(1) != answers
    rules = [hand_over(post, held, answers, risk) for risk in (1.0, 0.05, 0.02)]
    shares = [rule.chosen.coverage for rule in rules]
    risks = [rule.chosen.risk for rule in rules]
    assert shares[0] == 1
    assert shares[0] > shares[1] > shares[2] > 0.1
    assert risks[0] > 0.1 > 0.05 >= risks[1] >= risks[2]
    fresh, truth = pendulum(300)
    acts = rules[1].acts(fresh)
    wrong = post.predict(fresh).probs.argmax(1) != truth
    assert wrong[acts].mean() < wrong.mean()
    assert wrong[acts].mean() < 0.5 * wrong[~acts].mean()
    safe = hand_over(post, held, answers, 0.1, failure=0.1).chosen
    assert safe.bound <= 0.1
    assert safe.coverage <= hand_over(post, held, answers, 0.1).chosen.coverage
    assert error.mean() == rules[0].chosen.risk


@pytest.mark.thorough
def test_numbers_are_handed_over_where_they_are_unlike_the_rows():
    x = np.sort(RNG.uniform(-2, 0.5, 40))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * RNG.normal(size=40)
    network = eqx.nn.MLP(1, 1, 5, 1, activation=jnp.tanh, key=jr.key(0))
    post = weight_posterior(network, (x, y), key=0)
    rows = RNG.uniform(-2, 3, (60, 1))
    rule = hand_over(post, rows, np.sin(2 * rows[:, 0]) + 0.1 * RNG.normal(size=60), 0.02)
    assert rule.acts([[-1.0], [6.0]]).tolist() == [True, False]


def test_a_value_with_a_small_deviation_is_to_be_trusted_more():
    """The predictions 5 ± 0.1 and 5 ± 5."""
    sure, unsure = Prediction.normal(5.0, 0.1), Prediction.normal(5.0, 5.0)
    assert np.allclose(sure.interval(0.95), (4.804, 5.196), atol=5e-4)
    assert np.allclose(unsure.interval(0.95), (-4.800, 14.800), atol=5e-4)
    assert sure.surer_than(unsure)


def test_watching_a_line_is_the_algebra_of_normals():
    x, new = RNG.normal(size=(20, 2)), RNG.normal(size=(15, 2))
    weights = np.array([1.0, -0.5])
    y, later = x @ weights + 0.3 * RNG.normal(size=20), new @ weights + 0.3 * RNG.normal(size=15)
    line = eqx.nn.Linear(2, 1, use_bias=False, key=jr.key(0))
    post = weight_posterior(line, (x, y), key=0, likelihood=NormalNoise(np.log(0.3)), prior=1.0)
    seen = monitor_network(post, new, later)
    every, targets = np.vstack([x, new]), np.concatenate([y, later])
    cov = every @ every.T + 0.09 * np.eye(35)
    whole = multivariate_normal(np.zeros(35), cov).logpdf(targets)
    first = multivariate_normal(np.zeros(20), cov[:20, :20]).logpdf(y)
    assert abs(float(seen.log_density.sum()) - (whole - first)) < 1e-8
    assert seen.alarm is None
    assert seen.verdict.ok
    assert monitor_network(post, new, later + 3.0 * (np.arange(15) > 5)).alarm in range(6, 10)
    other = weight_posterior(line, (x, y), DeepEnsemble(2), key=0, likelihood=NormalNoise(0.0), prior=1.0)
    with pytest.raises(TypeError, match="jointly normal"):
        monitor_network(other, new, later)
