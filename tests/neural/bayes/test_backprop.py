"""Bayes by Backprop: its gradients, its bound and the optimum of that where it is known."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural.bayes.backprop import (
    BayesByBackprop,
    MeanWeights,
    batch_shares,
    divergence,
    negative_bound,
    pruned,
    row_loss,
)
from tractable.neural.bayes.likelihoods import NormalNoise
from tractable.neural.bayes.posterior import weight_posterior
from tractable.neural.bayes.priors import ScaleMixtureWeights
from tractable.neural.bayes.statement import state_network, without_rows
from tractable.neural.bayes.variational import NetworkVariational

RNG = np.random.default_rng(11)
X = RNG.normal(size=(24, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=24)
NOISE = NormalNoise(np.log(0.3))
MIXTURE = ScaleMixtureWeights(0.25, 1.0, 0.1)


class Parts(eqx.Module):
    """A line whose weights are divided over modules, each for some of the columns."""

    modules: list
    ends: tuple = eqx.field(static=True)

    def __init__(self, sizes):
        ends = np.cumsum([0, *sizes])
        self.modules = [eqx.nn.Linear(n, 1, use_bias=False, key=jr.key(i)) for i, n in enumerate(sizes)]
        self.ends = tuple(zip(ends[:-1].tolist(), ends[1:].tolist()))

    def __call__(self, x):
        return sum(own(x[low:high]) for own, (low, high) in zip(self.modules, self.ends))


def stated(prior: object = 2.0):
    return state_network(Parts([3]), (X, Y), NOISE, prior)[1]


def optimum():
    """Mean and standard deviations of the best mean field: those of the posterior's precision matrix."""
    precision = X.T @ X / 0.09 + 2.0 * np.eye(3)
    mean = np.linalg.solve(precision, X.T @ Y / 0.09)
    scale = np.diag(precision) ** -0.5
    bound = -0.5 * len(X) * np.log(2 * np.pi * 0.09) - 0.5 * ((Y - X @ mean) ** 2).sum() / 0.09
    spread = (scale**2 * np.diag(X.T @ X)).sum() / 0.09
    apart = 0.5 * (2 * scale**2 + 2 * mean**2 - 1 - np.log(2 * scale**2)).sum()
    return mean, scale, bound - 0.5 * spread - apart


@pytest.mark.parametrize("prior", [2.0, MIXTURE])
def test_gradients_are_those_of_the_rule_and_of_finite_differences(prior):
    model = stated(prior)
    theta = MeanWeights(jnp.array([0.3, -0.7, 1.1]), jnp.array([-1.0, 0.2, -2.0]))
    noise = jnp.array([0.4, -1.3, 0.8])

    def f(mean, rho):
        return negative_bound(MeanWeights(mean, rho), model, noise, model.inputs, model.targets)

    found = jax.grad(f, (0, 1))(theta.mean, theta.rho)
    scale = np.log1p(np.exp(np.asarray(theta.rho)))
    w = np.asarray(theta.mean) + scale * np.asarray(noise)

    def log_prior(v):
        if prior is MIXTURE:
            parts = [0.25 * np.exp(-0.5 * v**2), 0.75 / 0.1 * np.exp(-0.5 * (v / 0.1) ** 2)]
            return np.log(sum(parts) / np.sqrt(2 * np.pi)).sum()
        return (0.5 * np.log(2.0 / (2 * np.pi)) - v**2).sum()

    def by_hand(mean, rho):
        s = np.log1p(np.exp(rho))
        v = mean + s * np.asarray(noise)
        log_q = (-0.5 * np.asarray(noise) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)).sum()
        fit = (-0.5 * (Y - X @ v) ** 2 / 0.09 - 0.5 * np.log(2 * np.pi * 0.09)).sum()
        return log_q - log_prior(v) - fit

    for which in (0, 1):
        for i in range(3):
            step = [np.zeros(3), np.zeros(3)]
            step[which][i] = 1e-5
            ends = [by_hand(theta.mean + s * step[0], theta.rho + s * step[1]) for s in (1, -1)]
            assert abs(float(found[which][i]) - (ends[0] - ends[1]) / 2e-5) < 1e-5 * max(1, abs(ends[0]))
    # f as a function of w, mean and rho apart: the rule of the update
    around = jax.grad(lambda v: -model.log_joint(v))(jnp.asarray(w)) - noise / scale
    by_mean, by_rho = noise / scale, (noise**2 - 1) / scale / (1 + np.exp(-np.asarray(theta.rho)))
    assert np.allclose(found[0], around + by_mean, rtol=1e-8)
    assert np.allclose(found[1], around * noise / (1 + np.exp(-np.asarray(theta.rho))) + by_rho, rtol=1e-8)


@pytest.mark.cheap
@pytest.mark.parametrize("kind", ["uniform", "geometric"])
def test_the_batches_of_an_epoch_add_to_the_whole_bound(kind):
    model = stated()
    theta, noise = MeanWeights.around(jnp.array([0.5, -0.5, 0.1]), 0.2), jnp.array([1.0, -0.2, 0.3])
    sizes = [10, 10, 4]
    shares = batch_shares(sizes, kind)
    assert abs(shares.sum() - 1) < 1e-12
    if kind == "geometric":
        assert np.allclose(shares, [2.0 ** (3 - i) / (2**3 - 1) for i in (1, 2, 3)])
    ends = np.cumsum([0, *sizes])
    batches = [
        negative_bound(theta, model, noise, model.inputs[low:high], model.targets[low:high], share)
        for low, high, share in zip(ends[:-1], ends[1:], shares)
    ]
    whole = negative_bound(theta, model, noise, model.inputs, model.targets)
    assert abs(float(sum(batches)) - float(whole)) < 1e-9 * abs(float(whole))
    # the rows' losses: their means over batches are the batches' losses over their numbers of rows
    table = jnp.stack([jnp.asarray(shares), jnp.asarray(sizes, float)])
    keys = jr.split(jr.key(1), 24)
    total = 0.0
    for i, (low, high) in enumerate(itertools.pairwise(ends)):
        rows = [
            row_loss(
                theta,
                (model.inputs[j], model.targets[j]),
                without_rows(model),
                table,
                key=keys[j],
                step=jnp.asarray(i),
            )
            for j in range(low, high)
        ]
        total += float(sum(rows))
    fits = 0.0
    noises = [jr.normal(key, (3,)) for key in jr.split(jr.key(1), 24)]  # those of the rows
    for own, x, y in zip(noises, model.inputs, model.targets):
        pair = [theta.family.forward(sign * own) for sign in (1, -1)]
        fits += sum(float(model.row_log_prob(w, x, y)) for w in pair) / 2
    assert abs(total - (float(divergence(theta, model)) - fits)) < 1e-8 * abs(total)


@pytest.mark.parametrize("sizes", [[3], [1, 2], [1, 1, 1]])
def test_however_weights_are_divided_the_optimum_is_that_of_mean_field(sizes):
    mean, scale, bound = optimum()
    method = BayesByBackprop(epochs=2000, batch=24, learning_rate=0.02)
    post = weight_posterior(Parts(sizes), (X, Y), method, key=3, likelihood=NOISE, prior=2.0)
    assert np.abs(np.asarray(post.family.mean) - mean).max() < 1e-3
    assert np.abs(np.asarray(post.family.scale) - scale).max() < 1e-3
    found = post.bound
    assert abs(float(found.value) - bound) < 4 * float(found.standard_error) + 1e-3


@pytest.mark.parametrize("kind", ["geometric", "uniform"])
def test_mini_batches_reach_the_same_optimum(kind):
    mean, scale, _ = optimum()
    method = BayesByBackprop(epochs=1000, batch=10, learning_rate=0.02, kl_weights=kind)
    post = weight_posterior(Parts([3]), (X, Y), method, key=3, likelihood=NOISE, prior=2.0)
    assert np.abs(np.asarray(post.family.mean) - mean).max() < 5e-3
    assert np.abs(np.asarray(post.family.scale) / scale - 1).max() < 0.05


@pytest.mark.thorough
def test_the_library_of_variational_families_finds_the_same():
    mean, scale, _bound = optimum()
    method = NetworkVariational(method="lbfgs")
    post = weight_posterior(Parts([2, 1]), (X, Y), method, key=0, likelihood=NOISE, prior=2.0)
    assert np.abs(np.asarray(post.family.mean) - mean).max() < 1e-3
    assert np.abs(np.asarray(post.family.scale) - scale).max() < 1e-3
    assert post.verdict.ok or "k_hat" in post.verdict.numbers


@pytest.mark.thorough
def test_weights_of_low_signal_are_pruned():
    rows = np.hstack([X[:, :1], RNG.normal(size=(24, 4))])
    targets = 2 * rows[:, 0] + 0.3 * RNG.normal(size=24)
    method = BayesByBackprop(epochs=300, batch=24)
    line = eqx.nn.Linear(5, 1, use_bias=False, key=jr.key(0))
    post = weight_posterior(line, (rows, targets), method, key=3, likelihood=NOISE, prior=MIXTURE)
    less = pruned(post, 0.8)
    assert (np.asarray(less.draws)[:, 1:] == 0).all()
    assert (np.asarray(less.draws)[:, 0] != 0).all()
    error = [np.mean((p.predict(rows).value - targets) ** 2) for p in (post, less)]
    assert error[1] < error[0] + 0.1
    with pytest.raises(ValueError, match="share"):
        pruned(post, 1.0)
