"""The verbs `fit`, `posterior` and `predict` over models of several packages."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tractable.core import Status
from tractable.core.types import Array
from tractable.distributions import (
    Bernoulli,
    Beta,
    Distribution,
    Gamma,
    Gaussian,
    JointTable,
    LinearGaussian,
    Mixture,
    Normal,
    Poisson,
    RegressionPrior,
)
from tractable.inference import EM, EvidenceAscent
from tractable.supervised.bayes_linear.posterior import bayesian_linear
from tractable.supervised.linear.least_squares import ordinary_least_squares
from tractable.supervised.svm.machine import SupportVectorMachine

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2))
Y = X @ [1.0, -2.0] + 0.1 * RANDOM.normal(size=40)
PROCESS = tr.gp.GaussianProcess(tr.kernels.RBF([1.0, 1.0]), 0.01)


def test_fit_by_the_statistics_of_a_mixture_and_by_the_algorithm_that_is_named():
    rows = np.r_[RANDOM.normal(-2, 1, 100), RANDOM.normal(2, 1, 100)]
    start = Mixture([0.5, 0.5], Normal(jnp.array([-1.0, 1.0]), jnp.ones(2)))
    found = tr.fit(start, rows)
    np.testing.assert_array_equal(found.state.components.loc, EM().fit(start, rows).state.components.loc)
    climbed = tr.fit(start, rows, EvidenceAscent())
    np.testing.assert_allclose(climbed.state.components.loc, found.state.components.loc, atol=1e-2)


def test_fit_by_the_model_itself():
    assert float(tr.fit(Poisson(1.0), np.array([1, 2, 6])).rate) == 3.0
    np.testing.assert_allclose(tr.fit(Gaussian, X).mean, X.mean(0))
    machine = tr.fit(SupportVectorMachine, (X, np.sign(Y)), C=10.0)
    assert (machine.predict(X) == np.sign(Y)).all()
    line = tr.fit(ordinary_least_squares, (X, Y))
    np.testing.assert_allclose(line.coefficients, [1.0, -2.0], atol=0.1)
    estimator = tr.fit(tr.estimators.LinearRegressor(), (X, Y))
    np.testing.assert_allclose(estimator.predict(X), line.predict(X))
    process = tr.fit(PROCESS, (X, Y))
    assert float(process.log_evidence) > float(PROCESS.log_evidence(X, Y))


def test_fit_of_the_tables_of_a_network():
    frame = pd.DataFrame({"rain": ["no", "yes", "no", "yes"], "wet": ["no", "yes", "no", "no"]})
    net = tr.fit(tr.graphs.BayesNet, frame, structure={"rain": (), "wet": ("rain",)})
    after = tr.posterior(net, {"wet": "yes"})
    np.testing.assert_allclose(list(after["rain"].values()), net.query("rain", {"wet": "yes"}).probs)


def test_posterior_of_conjugate_pairs_processes_and_regressions():
    after = tr.posterior(Beta(2.0, 2.0), Bernoulli, np.array([1, 1, 1, 0]))
    assert (float(after.a), float(after.b)) == (5.0, 3.0)
    once, twice = tr.posterior(PROCESS, X, Y), tr.posterior(PROCESS, (X, Y))
    np.testing.assert_array_equal(tr.predict(once, X[:3]).mean, tr.predict(twice, X[:3]).mean)
    prior = RegressionPrior(np.zeros(2), np.eye(2), 1.0, 1.0)
    np.testing.assert_allclose(tr.posterior(prior, X, Y).loc, [1.0, -2.0], atol=0.1)
    table = JointTable(["a", "b"], [[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(tr.posterior(table, {"b": 1}).probs, [1 / 3, 2 / 3])


def test_posterior_of_a_log_density_is_sampled():
    def log_density(x: Array, y: Array) -> Array:
        return -0.5 * ((y - x) ** 2).sum() - 0.5 * x**2

    found = tr.posterior(
        log_density, np.ones(3), start=jnp.zeros(()), key=jr.key(0), num_draws=500, progress=False
    )
    np.testing.assert_allclose(found.expectation(lambda x: x).value, 0.75, atol=0.1)
    with pytest.raises(ValueError, match="`start, key` must be given with a log-density"):
        tr.posterior(log_density, np.ones(3))


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (lambda: tr.posterior(PROCESS, X, Y), X[:3]),
        (lambda: bayesian_linear(X, Y, 1.0, 100.0), X[:3]),
        (lambda: tr.fit(ordinary_least_squares, (X, Y)), X[:3]),
        (lambda: tr.fit(tr.estimators.LinearRegressor(), (X, Y)), X[:3]),
        (lambda: tr.fit(tr.estimators.LogisticClassifier(), (X, Y > 0)), X[:3]),
        (lambda: LinearGaussian(jnp.eye(2), jnp.zeros(2), jnp.eye(2)), X[0]),
        (lambda: Gamma(2.0, 1.0), Poisson),
    ],
)
def test_predict_gives_a_distribution(model, x):
    assert isinstance(tr.predict(model(), x), Distribution)


def test_predictions_are_those_of_the_model():
    np.testing.assert_allclose(tr.predict(Beta(5.0, 3.0), Bernoulli).mean, 5 / 8)
    line = tr.fit(ordinary_least_squares, (X, Y))
    np.testing.assert_allclose(tr.predict(line, X[:3]).mean, line.predict(X[:3]))


def test_what_the_verbs_do_not_know_is_refused_by_name():
    with pytest.raises(TypeError, match="`model` must be one with `fit`"):
        tr.fit(object(), X)
    with pytest.raises(TypeError, match="`model` must be one with `posterior`"):
        tr.posterior(object(), X)
    with pytest.raises(TypeError, match="`model` must be one with `predict_dist`"):
        tr.predict(object(), X)
    with pytest.raises(TypeError, match="`algorithm` must be an option object"):
        tr.fit(Poisson(1.0), X, algorithm=3)
    assert (
        tr.fit(Mixture([1.0], Normal(jnp.zeros(1), jnp.ones(1))), np.arange(3.0)).status is Status.converged
    )
