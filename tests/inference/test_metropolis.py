"""Metropolis-Hastings against exact matrices, exact laws, and closed forms of its acceptance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as ss

from tests.inference.many_chains import SMALLEST, assert_invariant, hard_density, moved
from tractable.core.accept import accept
from tractable.core.iterate import count_traces
from tractable.core.module import Module
from tractable.distributions.continuous import Normal, StudentT
from tractable.inference.chains.finite_chains import metropolis_matrix
from tractable.inference.samplers.adaptive_metropolis import AdaptiveMetropolis
from tractable.inference.samplers.metropolis import (
    IndependenceMetropolis,
    Metropolis,
    MultiplicativeWalk,
    RandomWalkMetropolis,
)
from tractable.inference.samplers.scale_sweep import scale_sweep


def normal_density(x):
    return -0.5 * (x**2).sum()


class TableProposal(Module):
    """Whole numbers, from a matrix of probabilities of the new state (rows) after the old (columns)."""

    logits: jax.Array

    def sample(self, key, x):
        return jr.categorical(key, self.logits[:, x])

    def log_prob(self, new, given):
        return self.logits[new, given]


class Flip(Module):
    """One of two binary labels, flipped."""

    symmetric = True

    def sample(self, key, x):
        return x ^ jax.nn.one_hot(jr.randint(key, (), 0, 2), 2, dtype=x.dtype)


# the rule


def test_accept_has_the_probability_that_it_reports():
    ratios = jnp.log(jnp.asarray([0.0, 0.03, 0.5, 1.0, 2.0]))
    accepted, probability = accept(jr.key(0), jnp.broadcast_to(ratios, (40_000, 5)))
    expected = np.array([0, 0.03, 0.5, 1, 1])
    np.testing.assert_allclose(probability[0], expected, atol=1e-15)
    rate = np.asarray(accepted).mean(0)
    np.testing.assert_array_equal(rate[[0, 3, 4]], [0, 1, 1])
    assert (np.abs(rate - expected) <= 5 * np.sqrt(expected * (1 - expected) / 40_000)).all()


@pytest.mark.parametrize("kind", [jnp.float32, jnp.float64])
def test_accept_at_the_edges(kind):
    """No overflow, no warning; a ratio that is not a number is never accepted."""
    edges = jnp.asarray([jnp.nan, -jnp.inf, jnp.inf, 1e4, -1e4], kind)
    accepted, probability = accept(jr.key(1), edges)
    np.testing.assert_array_equal(accepted, [False, False, True, True, False])
    np.testing.assert_array_equal(probability, [0, 0, 1, 1, 0])
    assert probability.dtype == kind


# on finite spaces


@pytest.mark.parametrize("symmetric", [True, False])
def test_one_step_has_the_exact_transition_matrix(symmetric):
    """From each of four states, the frequencies of the next state against the column of the matrix."""
    weights = np.array([5.0, 3.0, 8.0, 1.0])
    asymmetric = np.random.default_rng(0).dirichlet(np.ones(4), 4).T
    q = np.full((4, 4), 0.25) if symmetric else asymmetric
    sampler = Metropolis(TableProposal(jnp.log(q)))
    log_weights = jnp.log(weights)
    starts = np.repeat(np.arange(4), 5000)
    result = moved(sampler, lambda x: log_weights[x], starts, 2, 1)
    ends = np.asarray(result.state.position).reshape((4, 5000))
    counts = np.stack([np.bincount(row, minlength=4) for row in ends], 1)
    exact = np.asarray(metropolis_matrix(weights, q))
    z = (counts - 5000 * exact) / np.sqrt(5000 * exact * (1 - exact))
    assert np.abs(z).max() < 5, z
    # the reported acceptance has the mean of the rule over the proposals
    ratio = np.minimum(1, (weights[:, None] * q.T) / (weights[None, :] * q))
    acceptance = np.asarray(result.trace[2].acceptance).reshape((4, 5000))
    spread = acceptance.std(1) / np.sqrt(5000)
    assert (np.abs(acceptance.mean(1) - (q * ratio).sum(0)) <= 5 * spread + 1e-12).all()


def test_posterior_of_a_network_given_evidence():
    """Cloudy and rain given a wet lawn under a running sprinkler, from the joint at the evidence alone."""
    cloudy, sprinkler, rain = np.array([0.5, 0.5]), np.array([0.5, 0.1]), np.array([[0.8, 0.2], [0.2, 0.8]])
    wet = np.array([0.9, 0.99])
    joint = cloudy[:, None] * sprinkler[:, None] * rain * wet[None, :]
    table = jnp.log(joint)
    starts = np.zeros((400, 2), int)
    result = moved(Metropolis(Flip()), lambda x: table[x[0], x[1]], starts, 3, 150)
    draws = np.asarray(result.trace[0])[50:]  # burn-in
    means = draws.mean(0)  # of each chain
    error = means.std(0, ddof=1) / np.sqrt(400)
    assert (np.abs(means.mean(0) - [0.1747573, 0.3203883]) < 5 * error).all()
    assert error.max() < 0.01


# on the line and in space


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param(0.5, marks=pytest.mark.slow),
        [0.5, 1.0, 0.2],
        np.array([[0.5, 0.0, 0.0], [0.3, 1.0, 0.1], [0.0, 0.2, 0.2]]),
    ],
    ids=["none", "scalar", "diagonal", "full"],
)
def test_random_walks_leave_hard_laws_invariant(scale):
    result = assert_invariant(RandomWalkMetropolis(0.4, scale))
    info = result.trace[2]
    assert not np.asarray(info.undefined).any()
    np.testing.assert_array_equal(info.num_gradients, 1)


def gamma_density(x):
    inside = (x > 0).all()
    safe = jnp.where(inside, x, 1.0)
    return jnp.where(inside, (jnp.log(safe) - safe).sum(), -jnp.inf)


class Uncorrected(MultiplicativeWalk):
    symmetric = True


def test_asymmetric_proposals_need_their_correction():
    """A walk of logarithms leaves a gamma invariant, and without its correction another law."""
    starts = ss.gamma(2.0).rvs((5000, 2), random_state=np.random.default_rng(0))
    right = moved(Metropolis(MultiplicativeWalk(0.8)), gamma_density, starts, 4, 12)
    wrong = moved(Metropolis(Uncorrected(0.8)), gamma_density, starts, 4, 12)
    assert ss.kstest(np.asarray(right.state.position).ravel(), ss.gamma(2.0).cdf).pvalue > SMALLEST
    # what it samples instead: density times x^-1, an exponential
    assert ss.kstest(np.asarray(wrong.state.position).ravel(), ss.gamma(2.0).cdf).pvalue < 1e-50


def test_independence_proposal_of_the_target_has_ratio_one():
    target = Normal(jnp.asarray([1.0, -2.0]), jnp.asarray([0.5, 3.0]))
    result = moved(
        IndependenceMetropolis(target), lambda x: target.log_prob(x) + 7.0, np.zeros((500, 2)), 5, 20
    )
    np.testing.assert_allclose(result.trace[2].acceptance, 1.0, atol=1e-13)
    xs = np.asarray(result.trace[0])
    assert (np.diff(xs, axis=0) != 0).all()  # every proposal was taken
    flat = xs[:, :, 1].ravel()
    assert ss.kstest(flat, ss.norm(-2.0, 3.0).cdf).pvalue > SMALLEST


def test_independence_proposals_with_heavier_tails():
    starts = np.random.default_rng(1).normal(size=(5000, 1))
    proposal = StudentT(jnp.asarray([3.0]), jnp.asarray([0.5]), jnp.asarray([1.5]))
    result = moved(IndependenceMetropolis(proposal), normal_density, starts, 6, 10)
    assert ss.kstest(np.asarray(result.state.position)[:, 0], ss.norm.cdf).pvalue > SMALLEST
    assert 0.5 < float(result.trace[2].acceptance.mean()) < 0.9


def test_acceptance_of_a_random_walk_on_a_normal():
    """In one dimension it is (2/pi) atan(2/s) for steps of standard deviation s."""
    sizes = np.array([0.2, 1.0, 4.0])
    sweep = scale_sweep(normal_density, [0.3], sizes, key=jr.key(7), num_draws=4000, num_chains=8)
    expected = 2 / np.pi * np.arctan(2 / (2.38 * sizes))
    np.testing.assert_allclose(sweep.acceptance, expected, atol=0.02)  # five errors of correlated draws
    assert float(sweep.best) == 1.0
    assert "Best: step_size 1" in sweep.verdict.sentence
    assert "end of the sweep" not in sweep.verdict.sentence


def test_the_sweep_shows_what_too_small_and_too_large_steps_cost():
    sizes = [0.03, 0.3, 1.0, 3.0, 1000.0]
    sweep = scale_sweep(normal_density, jnp.zeros(5), sizes, key=jr.key(8))
    worth = np.asarray(sweep.effective_sample_size)
    assert worth.argmax() == 2
    assert worth[2] > 2 * worth[1] > 4 * worth[0]
    assert worth[4] == 0  # nothing moved: not worth a single draw, though constant draws have a time of one
    assert np.asarray(sweep.squared_jump).argmax() == 2
    assert (np.diff(np.asarray(sweep.acceptance)) < 0).all()
    assert repr(sweep).endswith(sweep.verdict.sentence)
    narrow = scale_sweep(normal_density, jnp.zeros(5), [0.1, 0.2, 0.3, 0.4, 0.8], key=jr.key(8))
    assert "It is at an end of the sweep" in narrow.verdict.sentence


def test_the_sweep_reports_a_density_that_is_not_a_number():
    def broken(x):
        return jnp.where(x[0] > 1, jnp.nan, normal_density(x))

    sweep = scale_sweep(broken, [0.0], [0.5, 1.0], key=jr.key(9), num_draws=50, num_warmup=0)
    assert "not a number" in sweep.verdict.sentence


def two_modes(x):
    return jnp.logaddexp(-0.5 * ((x - 6) ** 2).sum(), -0.5 * ((x + 6) ** 2).sum())


def test_exploration_and_exploitation_of_two_modes():
    """Short steps are accepted and never leave the mode where they began; long ones are rejected and do."""
    starts = np.full((200, 1), 6.0)
    short, long = (moved(RandomWalkMetropolis(step), two_modes, starts, 10, 400) for step in (0.3, 5.0))
    crossed = [float((np.asarray(r.state.position) < 0).mean()) for r in (short, long)]
    acceptance = [float(r.trace[2].acceptance.mean()) for r in (short, long)]
    assert crossed[0] == 0
    assert abs(crossed[1] - 0.5) < 5 * np.sqrt(0.25 / 200)
    assert acceptance[0] > 0.7 > 0.3 > acceptance[1]


# adaptation


LOWER = np.array([[0.01, 0.0, 0.0], [0.5, 1.0, 0.0], [3.0, -20.0, 5.0]])


def correlated(x):
    z = jax.scipy.linalg.solve_triangular(jnp.asarray(LOWER), x - 3, lower=True)
    return -0.5 * z @ z


def test_adaptive_metropolis_learns_mean_covariance_and_length():
    result = moved(AdaptiveMetropolis(), correlated, np.zeros((4, 3)), 11, 8000)
    state, info = result.state, result.trace[2]
    cov = np.asarray(jax.vmap(lambda s: s.cov)(state))
    # about 900 effective draws behind each number: five standard errors
    white = np.linalg.solve(LOWER, np.linalg.solve(LOWER, cov.mean(0)).T)  # the identity if cov is exact
    np.testing.assert_allclose(white, np.eye(3), atol=5 * np.sqrt(2 / 900))
    gap = np.linalg.solve(LOWER, np.asarray(state.mean).mean(0) - 3)
    np.testing.assert_allclose(gap, 0, atol=5 / np.sqrt(900))
    np.testing.assert_allclose(np.asarray(info.acceptance)[4000:].mean(), 0.234, atol=0.02)
    np.testing.assert_array_equal(state.num_learnt, 8000)
    # and the draws of the second half are those of the target, though the scales span three decades
    draws = np.asarray(result.trace[0])[4000:].reshape((-1, 3))
    np.testing.assert_allclose(draws.std(0), np.sqrt(np.diag(LOWER @ LOWER.T)), rtol=5 / np.sqrt(2 * 900))


def test_updates_are_those_of_the_dense_recursion():
    """The factor of the learnt covariance against the formula with whole matrices."""
    result = moved(AdaptiveMetropolis(scale=[0.5, 2.0, 1.0]), hard_density, np.full((1, 3), 0.5), 12, 60)
    xs = np.asarray(result.trace[0])[:, 0]
    mean, cov, log_step = np.full(3, 0.5), np.diag([0.25, 4.0, 1.0]), 0.0
    for n, (x, acceptance) in enumerate(zip(xs, np.asarray(result.trace[2].acceptance)[:, 0])):
        gamma = 3 / (n + 9)
        cov = (1 - gamma) * cov + gamma * np.outer(x - mean, x - mean)
        mean = mean + gamma * (x - mean)
        log_step += (n + 1) ** -0.6 * (acceptance - 0.234)
    state = jax.tree.map(lambda leaf: leaf[0], result.state)
    np.testing.assert_allclose(state.cov, cov, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(state.log_step, log_step, rtol=1e-10)


def test_frozen_adaptive_metropolis_is_a_random_walk():
    scale = np.array([[0.5, 0.0, 0.0], [0.3, 1.0, 0.0], [0.0, 0.1, 0.2]])
    result = assert_invariant(AdaptiveMetropolis(scale, adapting=jnp.asarray(False)))
    np.testing.assert_array_equal(result.state.num_learnt, 0)
    np.testing.assert_allclose(result.state.lower[0], scale, atol=1e-12)
    walk = assert_invariant(RandomWalkMetropolis(1.0, scale))
    np.testing.assert_allclose(result.state.position, walk.state.position, atol=1e-9)  # key for key


# sizes, kinds, faults


def test_many_dimensions_and_single_precision():
    starts = jnp.asarray(np.random.default_rng(2).normal(size=(8, 300)), jnp.float32)
    for sampler in (RandomWalkMetropolis(), AdaptiveMetropolis()):
        result = moved(sampler, normal_density, starts, 13, 50)
        assert result.state.position.dtype == jnp.float32
        assert result.state.log_density.dtype == jnp.float32
        assert 0.1 < float(result.trace[2].acceptance.mean()) < 0.4  # the best length holds in 300 dimensions


def test_a_region_without_numbers_is_never_entered_and_is_reported():
    def broken(x):
        return jnp.where(x[0] > 0.5, jnp.nan, normal_density(x))

    result = moved(RandomWalkMetropolis(), broken, np.zeros((50, 1)), 14, 100)
    assert np.asarray(result.trace[0]).max() <= 0.5
    assert 0.1 < np.asarray(result.trace[2].undefined).mean() < 0.6


def test_another_step_size_does_not_compile_again():
    counted = count_traces(normal_density)

    @eqx.filter_jit
    def once(sampler, x, key):
        return sampler.step(counted, sampler.init(counted, x, key), key)

    for step_size in (0.1, 0.5, 2.0):
        once(RandomWalkMetropolis(step_size), jnp.zeros(2), jr.key(15))
    assert counted.count == 2  # one to begin, one to step


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomWalkMetropolis(0.0), r"`step_size` must be positive and finite; got 0.0"),
        (lambda: RandomWalkMetropolis(1.0, [1.0, -1.0]), r"`scale` must be positive"),
        (
            lambda: RandomWalkMetropolis(1.0, np.ones((2, 2))),
            r"(?s)`scale` must be a matrix of full rank.*never reached",
        ),
        (
            lambda: RandomWalkMetropolis(1.0, np.ones((2, 3))),
            r"`scale` must be a number, a vector or a square matrix",
        ),
        (lambda: AdaptiveMetropolis(np.nan), r"`scale` must be finite; got nan"),
        (
            lambda: AdaptiveMetropolis(target_acceptance=1.5),
            r"`target_acceptance` must be between 0 and 1; got 1.5",
        ),
        (lambda: MultiplicativeWalk(-1.0), r"`scale` must be positive"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_calls_are_refused():
    key = jr.key(0)
    with pytest.raises(ValueError, match=r"`scale` must be of shape \(3,\); got shape \(2,\)"):
        RandomWalkMetropolis(1.0, [1.0, 1.0]).init(normal_density, jnp.zeros(3), key)
    with pytest.raises(ValueError, match=r"`position` must be a vector of numbers; got shape \(\)"):
        RandomWalkMetropolis().init(normal_density, 0.0, key)
    with pytest.raises(ValueError, match=r"`position` must be finite; got nan at index 1"):
        RandomWalkMetropolis().init(normal_density, [0.0, np.nan], key)
    with pytest.raises(
        ValueError, match=r"`log_density` must be a function that returns one number; got shape \(2,\)"
    ):
        RandomWalkMetropolis().init(lambda x: x, jnp.zeros(2), key)
    with pytest.raises(TypeError, match=r"`proposal` must be an object with `sample\(key, x\)`"):
        Metropolis(normal_density)
    with pytest.raises(TypeError, match=r"`distribution` must be an object with `sample\(key\)`"):
        IndependenceMetropolis(3.0)
    with pytest.raises(ValueError, match=r"`step_sizes` must be positive and finite"):
        scale_sweep(normal_density, [0.0], [1.0, 0.0], key=key)
    with pytest.raises(
        ValueError, match=r"`sampler` must be a sampler with a `step_size`; got AdaptiveMetropolis"
    ):
        scale_sweep(normal_density, [0.0], [1.0], key=key, sampler=AdaptiveMetropolis())
