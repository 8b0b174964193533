"""Ensembles, SWAG, dropout and stochastic-gradient chains; priors as penalties; refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural.bayes.chains import StochasticGradientChains
from tractable.neural.bayes.dropout import MonteCarloDropout
from tractable.neural.bayes.ensembles import DeepEnsemble
from tractable.neural.bayes.likelihoods import NormalNoise
from tractable.neural.bayes.mode import find_mode
from tractable.neural.bayes.posterior import METHODS, weight_posterior
from tractable.neural.bayes.priors import LaplaceWeights
from tractable.neural.bayes.statement import redrawn, state_network
from tractable.neural.bayes.swag import SWAG, swag_draws
from tractable.optim.proximal import L1Penalty, coordinate_descent

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(-2, 2, 40))[:, None]
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=40)
ROWS = RNG.normal(size=(24, 3))
TARGETS = ROWS @ [1.0, 0.0, -0.5] + 0.3 * RNG.normal(size=24)
NOISE = NormalNoise(np.log(0.3))


class Dropped(eqx.Module):
    """One hidden layer whose units are left out at random."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        first, second = jr.split(key)
        self.first, self.second = eqx.nn.Linear(1, 5, key=first), eqx.nn.Linear(5, 1, key=second)
        self.dropout = eqx.nn.Dropout(0.2)

    def __call__(self, x, key=None):
        return self.second(self.dropout(jnp.tanh(self.first(x)), key=key))


def line(**options):
    return eqx.nn.Linear(3, 1, use_bias=False, key=jr.key(0), **options)


def small(outputs=1):
    return eqx.nn.MLP(1, outputs, 5, 1, activation=jnp.tanh, key=jr.key(0))


def test_members_are_the_modes_that_single_fits_find():
    post = weight_posterior(small(), (X, Y), DeepEnsemble(3), key=1, likelihood=NOISE, prior=1.0)
    weights, stated = state_network(small(), (X, Y), NOISE, 1.0)
    # the keys of the fit: the door splits, and so does the ensemble
    start = redrawn(stated.rebuild, weights, jr.split(jr.split(jr.key(1))[1])[0], 3)
    heights = [float(stated.log_joint(w)) for w in post.draws]
    alone = [float(stated.log_joint(find_mode(stated, own, tol=1e-5).state)) for own in start]
    assert np.allclose(heights, alone, atol=1e-4)
    found, each = post.predict(X[:4]), np.asarray(post.outputs(X[:4]))[..., 0]
    assert np.allclose(found.value, each.mean(0))
    assert np.allclose(found.std**2, 0.09 + each.var(0))
    density = np.exp(-0.5 * ((0.1 - each) / 0.3) ** 2) / (0.3 * np.sqrt(2 * np.pi))
    assert np.allclose(found.log_prob(np.full(4, 0.1)), np.log(density.mean(0)))
    assert not post.verdict.ok
    judged = post.judge(X, Y, beside=post)
    assert judged.numbers["gain"] == 0
    assert judged.ok


@pytest.mark.thorough
def test_members_by_batches_and_heads_that_know_the_noise():
    heard = (X, Y + (X[:, 0] > 0) * RNG.normal(size=40))
    method = DeepEnsemble(3, epochs=200, batch=40)
    post = weight_posterior(small(2), heard, method, key=1, likelihood="normal_head", held_out=heard)
    noise = np.sqrt(post.predict([[-1.0], [1.0]]).aleatoric)
    assert noise[1] > 1.5 * noise[0]
    assert post.verdict.numbers["num_rows"] == 40


def test_penalties_are_priors():
    weights, ridge = state_network(line(), (ROWS, TARGETS), NOISE, 5.0)
    best = np.linalg.solve(ROWS.T @ ROWS / 0.09 + 5.0 * np.eye(3), ROWS.T @ TARGETS / 0.09)
    assert np.abs(np.asarray(find_mode(ridge, weights).state) - best).max() < 1e-8
    weights, lasso = state_network(line(), (ROWS, TARGETS), NOISE, LaplaceWeights(100.0))
    gram, shift = jnp.asarray(ROWS.T @ ROWS / 0.09), jnp.asarray(ROWS.T @ TARGETS / 0.09)
    best = coordinate_descent(gram, shift, L1Penalty(100.0)).state
    found = np.asarray(find_mode(lasso, weights).state)
    assert np.abs(found - np.asarray(best)).max() < 1e-6
    assert found[1] == 0  # the column that says nothing


def test_the_normal_of_swag_has_the_moments_of_the_iterates():
    iterates = RNG.normal(size=(6, 3)) * [1.0, 2.0, 0.5]
    draws = np.asarray(swag_draws(iterates, 6, jr.key(0), 20_000))
    cov = 0.5 * np.diag(iterates.var(0)) + 0.5 * np.cov(iterates.T)
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 20_000)
    assert (np.abs(np.cov(draws.T) - cov) < 4.5 * error).all()
    assert (np.abs(draws.mean(0) - iterates.mean(0)) < 4.5 * np.sqrt(np.diag(cov) / 20_000)).all()


@pytest.mark.thorough
def test_swag_stays_around_the_mode():
    method = SWAG(10, rank=5, num_draws=50)
    post = weight_posterior(small(), (X, Y), method, key=1, likelihood=NOISE, prior=1.0, held_out=(X, Y))
    assert post.verdict.ok
    assert post.held_out is not None
    assert np.sqrt(np.mean((post.predict(X).value - np.sin(2 * X[:, 0])) ** 2)) < 0.2


@pytest.mark.thorough
def test_dropout_draws_functions():
    method = MonteCarloDropout(epochs=100, batch=40, num_draws=40)
    post = weight_posterior(Dropped, (X, Y), method, key=1, likelihood=NOISE, prior=1.0)
    outputs = np.asarray(post.outputs(X))
    assert outputs.shape == (40, 40, 1)
    assert (outputs.std(0) > 0).all()
    again = np.asarray(post.outputs(X[:2]))
    assert np.allclose(outputs[:, :2], again)  # a draw has one mask for all rows
    assert np.isclose(post.predict(X).aleatoric, 0.09).all()
    with pytest.raises(ValueError, match="Dropout"):
        weight_posterior(small(), (X, Y), method, key=1, likelihood=NOISE, prior=1.0)


@pytest.mark.parametrize("friction", [1.0, 0.2])
def test_stochastic_chains_have_the_moments_of_the_posterior(friction):
    # with the anchor the gradient of a line is exact in the mean and nearly so in each batch
    step = 0.1 if friction == 1 else 0.02
    method = StochasticGradientChains(step, friction, num_steps=8000, num_draws=1000, batch=12)
    post = weight_posterior(line(), (ROWS, TARGETS), method, key=2, likelihood=NOISE, prior=2.0)
    precision = ROWS.T @ ROWS / 0.09 + 2.0 * np.eye(3)
    cov = np.linalg.inv(precision)
    draws = np.asarray(post.draws)
    mean = np.linalg.solve(precision, ROWS.T @ TARGETS / 0.09)
    assert post.verdict.ok
    assert (np.abs(draws.mean(0) - mean) < 0.2 * np.sqrt(np.diag(cov))).all()
    assert np.allclose(draws.var(0) / np.diag(cov), 1, atol=0.2)


def test_what_cannot_be_is_refused():
    def fit(network, x, y, **options):
        return weight_posterior(network, (x, y), key=0, **options)

    for words, call in {
        "`inputs` must be an array": lambda: fit(line(), ROWS[:, 0], TARGETS),
        "`targets` must be": lambda: fit(line(), ROWS, TARGETS[:5]),
        "`inputs` must be finite": lambda: fit(line(), np.where(ROWS > 2, np.nan, ROWS * np.inf), TARGETS),
        "`targets` must be finite": lambda: fit(line(), ROWS, TARGETS * np.nan),
        "`network` must be of 1 outputs": lambda: fit(small(2), X, Y),
        "`network` must be a function of one row": lambda: fit(line(), X, Y),
        "`targets` must be of two classes": lambda: fit(small(), X, np.ones(40), likelihood="classes"),
        "`targets` must be a whole number": lambda: fit(small(), X, Y, likelihood="classes"),
        "`targets` must be of two values at least": lambda: fit(small(), X, np.ones(40)),
        "`likelihood` must be": lambda: fit(small(), X, Y, likelihood="poisson"),
        "`prior` must be normal": lambda: fit(small(), X, Y, prior=LaplaceWeights(1.0)),
        "`method` must be": lambda: fit(small(), X, Y, method="exact"),
        "`network` must be made of": lambda: fit(eqx.nn.LayerNorm(1), X, Y, method="kronecker_laplace"),
        "`data` must be a pair": lambda: weight_posterior(small(), X, key=0),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()
    assert set(METHODS) >= {"laplace", "chains", "backprop", "ensemble", "swag", "dropout", "sgld"}


def test_one_row_is_enough_for_an_answer():
    post = weight_posterior(line(), (ROWS[:1], TARGETS[:1]), key=0, likelihood=NOISE, prior=2.0)
    x, y = ROWS[0], TARGETS[0]
    mean = x * y / (x @ x + 0.09 * 2.0)
    assert abs(post.predict(ROWS[:1]).value[0] - x @ mean) < 1e-9
    with pytest.raises(ValueError, match="`x` must be of shape"):
        post.predict(X)
    with pytest.raises(ValueError, match="`x` must be at least one row; got none"):
        post.predict(ROWS[:0])
    with pytest.raises(ValueError, match="`y` must be finite; got nan"):
        post.judge(ROWS[:1], [np.nan])
    with pytest.raises(AttributeError, match="log_evidence"):
        _ = weight_posterior(
            line(), (ROWS, TARGETS), DeepEnsemble(2), key=0, likelihood=NOISE, prior=1.0
        ).log_evidence


def test_a_posterior_is_a_tree():
    post = weight_posterior(line(), (ROWS, TARGETS), key=0, likelihood=NOISE, prior=2.0)
    same = jax.tree.map(lambda leaf: leaf, post)
    assert np.allclose(same.predict(ROWS).value, post.predict(ROWS).value)
    assert isinstance(post.network(), eqx.nn.Linear)
