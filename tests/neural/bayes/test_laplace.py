"""Laplace's approximation of networks: exact where networks are linear, refused where it must be."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

from tractable.inference.curvature.gauss_newton import ggn, ggn_diagonal
from tractable.neural.bayes import laplace
from tractable.neural.bayes.chains import NetworkChains
from tractable.neural.bayes.curvature import unit_curvature
from tractable.neural.bayes.kronecker import kronecker_factors
from tractable.neural.bayes.laplace import NetworkLaplace
from tractable.neural.bayes.likelihoods import LogitClasses, NormalNoise
from tractable.neural.bayes.posterior import weight_posterior
from tractable.neural.bayes.predictive import normal_prediction
from tractable.neural.bayes.statement import state_network
from tractable.supervised.bayes_linear.evidence import maximise_evidence
from tractable.supervised.bayes_linear.statistics import regression_statistics

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.7 + 0.3 * RNG.normal(size=30)
NEW = RNG.normal(size=(4, 3))
NOISE = NormalNoise(np.log(0.4))
WAVES = np.sort(RNG.uniform(-2, 2, 40))[:, None]
HEIGHTS = np.sin(2 * WAVES[:, 0]) + 0.2 * RNG.normal(size=40)


def line(in_size=3, use_bias=True):
    return eqx.nn.Linear(in_size, 1, use_bias=use_bias, key=jr.key(0))


def small(width=5, seed=0):
    return eqx.nn.MLP(1, 1, width, 1, activation=jnp.tanh, key=jr.key(seed))


def closed_form(alpha, noise, new):
    """Evidence and predictive of a Bayesian line, by dense normal algebra."""
    rows, others = (np.hstack([x, np.ones((len(x), 1))]) for x in (X, new))
    cov = rows @ rows.T / alpha + noise**2 * np.eye(len(X))
    cross = others @ rows.T / alpha
    mean = cross @ np.linalg.solve(cov, Y)
    spread = others @ others.T / alpha - cross @ np.linalg.solve(cov, cross.T)
    return multivariate_normal(np.zeros(len(X)), cov).logpdf(Y), mean, np.diag(spread)


@pytest.mark.parametrize("form", ["full", "kronecker", "last_layer"])
def test_a_linear_network_is_exact(form):
    post = weight_posterior(line(), (X, Y), NetworkLaplace(form), key=0, likelihood=NOISE, prior=2.0)
    evidence, mean, spread = closed_form(2.0, 0.4, NEW)
    found = post.predict(NEW)
    assert abs(float(post.log_evidence.value) - evidence) < 1e-10 * abs(evidence)
    assert np.abs(found.value - mean).max() < 1e-9
    assert np.abs(found.epistemic - spread).max() < 1e-10
    assert np.abs(found.aleatoric - 0.16).max() < 1e-12


def test_rows_left_out_are_those_of_fits_without_them():
    post = weight_posterior(line(), (X, Y), key=0, likelihood=NOISE, prior=2.0)
    rows = np.hstack([X, np.ones((30, 1))])
    for i in (0, 7):
        seen = np.arange(30) != i
        precision = rows[seen].T @ rows[seen] / 0.16 + 2.0 * np.eye(4)
        mean = rows[i] @ np.linalg.solve(precision, rows[seen].T @ Y[seen] / 0.16)
        variance = rows[i] @ np.linalg.solve(precision, rows[i]) + 0.16
        assert abs(post.left_out.value[i] - mean) < 1e-8
        assert abs(post.left_out.std[i] ** 2 - variance) < 1e-10


@pytest.mark.parametrize("form", ["full", "kronecker"])
def test_a_weight_of_two_is_the_row_twice_and_padding_changes_nothing(form):
    counts = np.where(np.arange(30) < 10, 2.0, 1.0)
    counts[-3:] = 0.0
    twice = np.repeat(np.arange(30), counts.astype(int))
    method = NetworkLaplace(form, max_rounds=6, num_draws=1)
    own = weight_posterior(line(), (X, Y), method, key=0, row_weights=counts)
    other = weight_posterior(line(), (X[twice], Y[twice]), method, key=0)
    assert abs(float(own.log_evidence.value / other.log_evidence.value) - 1) < 1e-10
    assert abs(own.noise / other.noise - 1) < 1e-10
    assert np.allclose(own.predict(NEW).value, other.predict(NEW).value, rtol=1e-10, atol=1e-10)
    assert np.allclose(own.predict(NEW).std, other.predict(NEW).std, rtol=1e-10)
    assert own.left_out.value.shape == (27,)
    weights, stated = state_network(line(), (X, Y), NOISE, 2.0)
    padded = stated.padded()
    assert padded.num_rows == 32
    assert abs(float(padded.log_joint(weights) / stated.log_joint(weights)) - 1) < 1e-12
    plain, filled = (
        np.asarray(unit_curvature(each, weights, form, 0).precision(jnp.ones(()), each.prior).covariance())
        for each in (stated, padded)
    )
    assert np.allclose(plain, filled, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="`row_weights` must be left out for this method"):
        weight_posterior(line(), (X, Y), "ensemble", key=0, row_weights=counts)


def test_prior_and_noise_are_those_of_highest_evidence():
    method = NetworkLaplace(pseudo_weights=0.0, tol=1e-9, max_rounds=200)
    post = weight_posterior(line(use_bias=False), (X, Y), method, key=0, prior="equal")
    best = maximise_evidence(regression_statistics(X, Y))
    assert abs(float(post.stated.prior.factor[0]) / float(best.alpha) - 1) < 1e-6
    assert abs(post.noise**-2 / float(best.noise_precision) - 1) < 1e-6
    assert abs(float(post.log_evidence.value) - float(best.log_evidence)) < 1e-8
    assert abs(float(post.effective.sum()) - float(best.effective_parameters)) < 1e-5


def test_many_weights_are_tuned_by_the_diagonal_of_the_full_form(monkeypatch):
    monkeypatch.setattr(laplace, "_DENSE", 3)
    post, other = (
        weight_posterior(line(), (X, Y), NetworkLaplace(form, max_rounds=4, num_draws=1), key=0)
        for form in ("full", "diagonal")
    )
    assert post.noise == other.noise
    cov = np.asarray(post.precision.covariance())
    rows = np.hstack([X / np.sqrt(3), np.ones((30, 1))])  # in units of the prior
    prior = np.asarray(post.stated.prior.factor)[np.asarray(post.stated.prior.layer)]
    np.testing.assert_allclose(cov, np.linalg.inv(rows.T @ rows / post.noise**2 + np.diag(prior)), rtol=1e-9)


def test_the_forms_are_parts_of_the_dense_matrix():
    weights, stated = state_network(small(), (WAVES, HEIGHTS), "normal", 1.0)

    @jax.jit
    def forms():
        full, diagonal, kronecker = (
            unit_curvature(stated, weights, form, 0).precision(jnp.ones(()), stated.prior)
            for form in ("full", "diagonal", "kronecker")
        )
        return full.covariance(), diagonal.variances(), kronecker.covariance(), kronecker.variances()

    dense, diagonal, kronecker, variances = map(np.asarray, forms())
    inverse = np.linalg.inv(dense)
    assert np.allclose(1 / diagonal, np.diag(inverse), rtol=1e-9)
    blocks = [np.kron(outer, inner) for inner, outer in kronecker_factors(stated, weights)]
    # rows of [W b]: the biases of the first layer stand after its weights
    order = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    first = np.linalg.inv(blocks[0] + np.eye(10))[np.ix_(order, order)]
    assert np.allclose(kronecker[:10, :10], first, atol=1e-10)
    assert np.allclose(variances[:10], np.diag(first), atol=1e-10)
    last = kronecker[10:, 10:]  # the outputs are linear in the last layer: exact
    assert np.allclose(np.linalg.inv(last), inverse[10:, 10:], rtol=1e-8)


def test_the_diagonal_is_that_of_the_matrix():
    def model(w, x):
        return jnp.tanh(w[:2] * x) * w[2:]

    def loss(f, y):
        return 0.5 * ((f - y) ** 2).sum()

    w, x, y = jnp.array([0.3, -1.0, 2.0, 0.5]), jnp.array([0.1, 0.7, -2.0]), jnp.zeros((3, 2))
    assert np.allclose(ggn_diagonal(model, loss, w, x, y), jnp.diag(ggn(model, loss, w, x, y)), rtol=1e-12)


@pytest.mark.thorough
def test_predictions_stand_beside_those_of_long_chains():
    data = (WAVES, HEIGHTS)
    post = weight_posterior(small(), data, key=1)
    judge = weight_posterior(small(), data, NetworkChains(num_draws=500), key=1)
    assert post.verdict.ok
    assert judge.verdict.ok
    assert float(judge.stated.likelihood.log_scale) == float(post.stated.likelihood.log_scale)
    rows = np.linspace(-2, 2, 9)[:, None]
    ours, theirs = post.predict(rows), judge.predict(rows)
    assert np.abs(ours.value - theirs.value).max() < 0.5 * theirs.std.min()
    ratio = ours.std / theirs.std  # the edges, where few rows tell, are the worst
    assert ratio.min() > 0.9
    assert ratio.max() < 1.25
    assert abs(np.log(ratio)).mean() < 0.1
    assert post.predict([[30.0]]).novelty[0] > 0.9 > 0.5 > ours.novelty.mean()


@pytest.mark.thorough
def test_evidence_chooses_the_network_that_made_the_rows():
    straight = 2 * WAVES[:, 0] + 0.2 * RNG.normal(size=40)

    def evidence(network, targets):
        return float(weight_posterior(network, (WAVES, targets), key=0).log_evidence.value)

    assert evidence(line(1), straight) > evidence(small(), straight) + 1
    assert evidence(small(), HEIGHTS) > evidence(line(1), HEIGHTS) + 10


def test_an_overfitted_mode_is_refused():
    few = (WAVES[::4], HEIGHTS[::4])
    tight = weight_posterior(small(20), few, key=0, likelihood=NormalNoise(np.log(0.05)), prior=1e-2)
    assert not tight.verdict.ok
    assert tight.verdict.sentence.startswith("Overfitted")
    assert float(tight.effective.sum()) > 9.5  # of ten rows


def test_weights_that_are_at_no_mode_are_refused():
    method = NetworkLaplace(search=False)
    post = weight_posterior(small(), (WAVES, HEIGHTS), method, key=0, likelihood=NOISE, prior=1.0)
    assert not post.verdict.ok
    assert post.verdict.sentence.startswith("Not at a mode")


def test_draws_have_the_covariance_of_the_gaussian():
    post = weight_posterior(
        line(), (X, Y), NetworkLaplace(num_draws=4000), key=0, likelihood=NOISE, prior=2.0
    )
    rows = np.hstack([X, np.ones((30, 1))])
    cov = np.linalg.inv(rows.T @ rows / 0.16 + 2 * np.eye(4))
    found = np.cov(np.asarray(post.draws).T)
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 4000)
    assert (np.abs(found - cov) < 4.5 * error).all()
    sampled = dataclasses.replace(post, linearised=False).predict(NEW)
    assert np.allclose(sampled.std, post.predict(NEW).std, rtol=0.02)


def test_probabilities_of_several_classes_are_integrals():
    root = np.array([[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.7, 0.3, 1.1]])
    mean, (nodes, shares) = np.array([0.5, -0.2, 0.1]), np.polynomial.hermite_e.hermegauss(30)
    z = np.stack(np.meshgrid(nodes, nodes, nodes), -1).reshape(-1, 3)
    weights = np.prod(np.stack(np.meshgrid(shares, shares, shares), -1).reshape(-1, 3), 1)
    wanted = weights @ softmax(mean + z @ root.T, axis=1) / weights.sum()
    density = LogitClasses(num_classes=3, outputs=3)
    found = normal_prediction(density, mean[None], (root @ root.T)[None]).probs[0]
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.thorough
def test_classes_are_predicted_with_their_shares():
    x = np.concatenate([RNG.normal(-1.2, 0.7, (40, 2)), RNG.normal(1.2, 0.7, (40, 2))])
    y = np.repeat([0.0, 1.0], 40)
    network = eqx.nn.MLP(2, 1, 6, 1, activation=jnp.tanh, key=jr.key(2))
    post = weight_posterior(network, (x, y), key=0, likelihood="classes")
    assert post.verdict.ok
    with pytest.raises(ValueError, match="`targets` must be a whole number from 0 to 1"):
        post.judge(x, y + 1)
    found = post.predict(np.array([[2.0, 2.0], [-2.0, -2.0], [2.0, -2.0]]))
    assert (found.probs.argmax(1)[:2] == [1, 0]).all()
    assert np.allclose(found.probs.sum(1), 1)
    total = -(found.probs * np.log(found.probs)).sum(1)
    assert np.allclose(found.aleatoric + found.epistemic, total, atol=1e-12)
    assert (found.epistemic > 0).all()
    assert found.epistemic[2] > found.epistemic[:2].max()
    double = eqx.nn.Linear(2, 3, key=jr.key(0))
    three = weight_posterior(double, (x, np.repeat([0.0, 1.0, 2.0, 1.0], 20)), key=0, likelihood="classes")
    assert three.predict(x).probs.shape == (80, 3)
