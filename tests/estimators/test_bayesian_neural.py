"""Bayesian networks as estimators: evidence, columns that fill up, shares of uncertainty, overfitting."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tractable.core.storage import load
from tractable.estimators import BayesianLinearRegressor, BayesianNeuralClassifier, BayesianNeuralRegressor
from tractable.inference.curvature.kronecker import KroneckerPrecision
from tractable.neural.bayes.laplace import NetworkLaplace
from tractable.neural.bayes.likelihoods import NormalNoise
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import state_network
from tractable.neural.mlp import MLP


def waves(num_rows, seed):
    numbers = np.random.default_rng(seed)
    X = numbers.uniform(-2, 2, (num_rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * numbers.normal(size=num_rows)


def test_laws_hold_their_share_and_know_where_no_rows_were(tmp_path):
    X, y = waves(60, 0)
    new, targets = waves(400, 1)
    model = BayesianNeuralRegressor((8,), random_state=0).fit(X, y)
    line = BayesianLinearRegressor().fit(X, y)
    assert model.verdict_.ok
    assert model.log_evidence_ > line.log_evidence_ + 5
    assert model.log_score(new, targets) > line.log_score(new, targets) + 0.5
    lower, upper = model.predict_interval(new, 0.9)
    assert 0.83 < np.mean((lower <= targets) & (targets <= upper)) < 0.97
    split = model.predict_uncertainty(np.array([[0.0, 0.0], [9.0, -9.0]]))
    assert split.epistemic[1] > 30 * split.epistemic[0]
    assert 0.15 < float(split.aleatoric[0]) ** 0.5 < 0.25
    scaled = BayesianNeuralRegressor((8,), random_state=0).fit(X, 1000 * y + 7)
    assert abs(scaled.log_evidence_ - model.log_evidence_ + 60 * np.log(1000)) < 1e-4
    tr.save(tmp_path / "net", model.model_)
    units = model.units_
    again = load(tmp_path / "net").outputs((new - units.centre) / units.size)[0][:, 0]
    np.testing.assert_array_equal(units.back(again), model.predict(new))


def test_columns_that_fill_up_change_no_evidence():
    X, y = waves(40, 3)
    model = BayesianNeuralRegressor((4,), random_state=0).fit(X, y)
    fitted, units = model.model_, model.units_
    assert fitted.sizes == (8, 4, 1)
    first = np.asarray(fitted.mode)[:32].reshape(4, 8)
    assert np.abs(first[:, 2:]).max() < 1e-12
    biases, second, last = np.split(np.asarray(fitted.mode)[32:], [4, 8])
    network = eqx.tree_at(
        lambda n: [part for layer in n.layers for part in (layer.weight, layer.bias)],
        MLP((2, 4, 1), "tanh", key=jr.key(0), dtype=float),
        [jnp.asarray(part) for part in (first[:, :2], biases, second[None], last)],
    )
    base = np.concatenate([np.full(8, 2.0), np.ones(4), np.full(4, 4.0), np.ones(1)])
    prior = NormalWeights(fitted.prior.factor, jnp.asarray(base), jnp.asarray(np.repeat([0, 1], [12, 5])))
    noise = NormalNoise(float(fitted.density.log_scale))
    data = (X - units.centre) / units.size, (y - units.target_centre) / units.target_size
    weights, stated = state_network(network, data, noise, prior)
    plain = NetworkLaplace(search=False).approximation(stated, weights, jr.key(0))
    assert abs(float(plain.evidence) - fitted.log_evidence) < 1e-9
    assert np.allclose(plain.predict(data[0][:5]).value, fitted.predict(data[0][:5]).value, atol=1e-12)
    assert np.allclose(plain.predict(data[0][:5]).std, fitted.predict(data[0][:5]).std, rtol=1e-10)


@pytest.mark.thorough
def test_wide_networks_take_kronecker_factors():
    X, y = waves(60, 0)
    model = BayesianNeuralRegressor((40, 16), random_state=0).fit(X, y)
    assert isinstance(model.model_.precision, KroneckerPrecision)
    assert model.verdict_.ok
    new, targets = waves(200, 1)
    assert model.log_score(new, targets) > -0.3


def test_noise_alone_is_refused_and_classes_have_shares():
    numbers = np.random.default_rng(0)
    X, y = numbers.normal(size=(24, 10)), numbers.normal(size=24)
    refused = BayesianNeuralRegressor((8,), random_state=0).fit(X, y)
    assert not refused.verdict_.ok
    assert refused.verdict_.sentence.startswith("Overfitted")
    X, y = waves(60, 0)
    model = BayesianNeuralClassifier((8,), random_state=0).fit(X, y > 0)
    assert model.score(X, y > 0) > 0.7
    split, probs = model.predict_uncertainty(X), model.predict_proba(X)
    total = np.asarray(split.aleatoric) + np.asarray(split.epistemic)
    assert np.allclose(total, -(probs * np.log(probs)).sum(1), atol=1e-12)
    assert (np.asarray(split.epistemic) > 0).all()
