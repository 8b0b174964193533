"""Particle filters and smoothers against the Kalman filter and smoother, and where they must say no."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from tests.oracles.kalman import kalman_filter, kalman_smoother
from tractable.core.iterate import count_traces
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.inference.particles.filter import particle_filter
from tractable.inference.particles.replicates import evidence_of_replicates, mean_of_replicates
from tractable.inference.particles.smoothing import backward_sample, lineages

A, Q, S = 0.9, 0.5, 0.7  # x' = A x + Q e, y = x + S e
ARGS = (jnp.asarray(A), jnp.asarray(Q), jnp.asarray(S))
START = Normal(0.0, 1.0)


def walk(x, t, a, q, s):
    return Normal(a * x, q)


def look(x, y, t, a, q, s):
    return Normal(x, s).log_prob(y)


def best_guess(x, y, t, a, q, s):
    """The transition conditioned on the observation: the proposal of least variance."""
    precision = 1 / q**2 + 1 / s**2
    return Normal((a * x / q**2 + y / s**2) / precision, 1 / jnp.sqrt(precision))


def simulated(times=30, seed=0):
    generator = np.random.default_rng(seed)
    x = np.zeros(times)
    x[0] = generator.normal()
    for t in range(1, times):
        x[t] = A * x[t - 1] + Q * generator.normal()
    return x + S * generator.normal(size=times)


def exact(ys):
    """Means, variances, log-likelihood, smoothing means and variances."""
    move, move_cov, look_cov = np.array([[A]]), np.array([[Q**2]]), np.array([[S**2]])
    means, covs, log_likelihood = kalman_filter(
        [0.0], [[1.0]], move, move_cov, np.eye(1), look_cov, ys[:, None]
    )
    smooth_means, smooth_covs = kalman_smoother(means, covs, move, move_cov)
    return means[:, 0], covs[:, 0, 0], log_likelihood, smooth_means[:, 0], smooth_covs[:, 0, 0]


def filtered(ys, seed=1, **options):
    options = {"num_particles": 500, "num_replicates": 16, "args": ARGS} | options
    return particle_filter(START, walk, look, ys, key=jr.key(seed), **options)


def scores(estimate, truth):
    return (np.asarray(estimate.value) - truth) / np.asarray(estimate.standard_error)


YS = simulated()
GAPS = np.where(np.isin(np.arange(30), [0, 7, 8, 9, 29]), np.nan, YS)


@pytest.fixture(scope="module")
def plain():
    return filtered(YS)


def test_linear_gaussian_case_agrees_with_the_kalman_filter(plain):
    means, variances, log_likelihood, *_ = exact(YS)
    assert np.abs(scores(plain.mean, means)).max() < 5
    assert np.abs(scores(plain.variance, variances)).max() < 5
    found = plain.log_evidence
    assert abs(float(found.value) - log_likelihood) < 4 * float(found.standard_error) < 0.4
    # the errors are those that the particles should have: about sd / sqrt(N R), not larger by much
    assert float(plain.mean.standard_error.mean()) < 3 * np.sqrt(variances.mean() / (500 * 16))
    lower, upper = (np.asarray(q) for q in plain.quantile([0.05, 0.95]))
    np.testing.assert_allclose(lower, means - 1.6448536 * np.sqrt(variances), atol=0.1)
    np.testing.assert_allclose(upper, means + 1.6448536 * np.sqrt(variances), atol=0.1)
    assert plain.verdict.sentence.startswith("Good")
    assert repr(plain).endswith(plain.verdict.sentence)


@pytest.mark.parametrize("guide", [None, best_guess], ids=["bootstrap", "guided"])
@pytest.mark.thorough
def test_missing_rows_are_skipped(guide):
    means, variances, log_likelihood, *_ = exact(GAPS)
    found = filtered(GAPS, seed=2, proposal=guide)
    assert np.abs(scores(found.mean, means)).max() < 5
    assert np.abs(scores(found.variance, variances)).max() < 5
    assert abs(float(scores(found.log_evidence, log_likelihood))) < 4
    np.testing.assert_array_equal(np.asarray(found.increments)[:, [0, 7, 8, 9, 29]], 0.0)


def test_guided_weights_depend_on_the_parents_alone(plain):
    """With the best proposal p(x' | x, y) the weight is p(y | x), whatever x' was drawn."""
    guided = filtered(YS, seed=3, proposal=best_guess)
    t = int(np.flatnonzero(np.asarray(guided.resampled)[0])[0])
    history = guided.history
    parents = np.asarray(history.particles)[0, t - 1][np.asarray(history.ancestors)[0, t]]
    logs = norm.logpdf(YS[t], A * parents, np.hypot(Q, S))
    np.testing.assert_allclose(history.log_weights[0, t], logs - logsumexp(logs), rtol=1e-9)
    assert float(guided.resampled.mean()) < float(plain.resampled.mean())
    assert float(guided.log_evidence.standard_error) < float(plain.log_evidence.standard_error)


@pytest.mark.parametrize(
    ("scheme", "threshold"), [("systematic", 0.5), ("multinomial", 1.0), ("residual", 0.0)]
)
def test_the_likelihood_is_unbiased_with_few_particles(scheme, threshold):
    """Twelve particles, five times, 8000 filters: the mean of the likelihoods themselves is the likelihood.

    Taken eight at a time, the stated errors of the log-likelihood cover the truth as they should.
    """
    ys, count = YS[:5], 8000
    found = filtered(
        ys, num_particles=12, num_replicates=count, resampling=scheme, ess_threshold=threshold, history=False
    )
    logs, truth = np.asarray(found.increments).sum(1), exact(ys)[2]
    ratio = np.exp(logs - truth)
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std(ddof=1) / np.sqrt(count)
    assert ratio.std() > 0.05  # it is the mean that is right, not each of them
    shares = np.asarray(found.resampled).mean(0)
    assert {0.5: 0 < shares[1:].mean() < 1, 1.0: (shares[1:] > 0.99).all(), 0.0: shares.max() == 0}[threshold]
    estimates = [
        evidence_of_replicates(jnp.asarray(group), "eight") for group in logs[:1600].reshape((-1, 8))
    ]
    z = np.array([(float(e.value) - truth) / float(e.standard_error) for e in estimates])
    assert 0.8 < z.std() < 1.6  # a t distribution with seven degrees of freedom: sqrt(7/5) = 1.18


def test_smoothers_agree_with_the_kalman_smoother(plain):
    means, variances = exact(YS)[3:]
    drawn = backward_sample(plain, walk, key=jr.key(4), num_paths=60, args=ARGS)
    traced = lineages(plain)
    for smooth in (drawn, traced):
        assert np.abs(scores(smooth.mean, means)).max() < 5
        second = smooth.expectation(lambda x: x**2)
        assert np.abs(scores(second, variances + means**2)).max() < 5
    # the last time is the filter's own
    np.testing.assert_allclose(traced.mean.value[-1], plain.mean.value[-1], rtol=1e-10)
    assert traced.num_distinct[:, 0].mean() < drawn.num_distinct[:, 0].mean() < 60
    assert "distinct particles or more" in repr(drawn)


def test_lineages_follow_the_ancestors_and_degenerate_over_long_series():
    found = filtered(simulated(100), num_particles=20, num_replicates=2, ess_threshold=1.0)
    traced = lineages(found)
    ancestors, particles = np.asarray(found.history.ancestors)[1], np.asarray(found.history.particles)[1]
    index, path = 13, []
    for t in range(99, -1, -1):
        path.append(particles[t, index])
        index = ancestors[t, index]
    np.testing.assert_array_equal(np.asarray(traced.paths)[1, :, 13], path[::-1])
    assert int(traced.num_distinct[1, 0]) == 1
    assert "Degenerate up to time" in traced.verdict.sentence
    assert "backward_sample" in traced.verdict.sentence


def test_two_dimensional_states_and_observations():
    turn = np.array([[0.8, 0.4], [-0.4, 0.8]])
    view = np.array([[1.0, 0.5]])
    ys = np.random.default_rng(5).normal(size=(12, 1))
    means, covs, log_likelihood = kalman_filter(
        np.zeros(2), np.eye(2), turn, 0.3 * np.eye(2), view, 0.5 * np.eye(1), ys
    )
    found = particle_filter(
        Gaussian(jnp.zeros(2), jnp.eye(2)),
        lambda x, t: Gaussian(jnp.asarray(turn) @ x, 0.3 * jnp.eye(2)),
        lambda x, y, t: Normal((jnp.asarray(view) @ x)[0], np.sqrt(0.5)).log_prob(y[0]),
        ys, key=jr.key(6), num_particles=300, num_replicates=16,
    )  # fmt: skip
    assert np.abs(scores(found.mean, means)).max() < 5
    assert np.abs(scores(found.variance, np.einsum("tii->ti", covs))).max() < 5
    assert abs(float(scores(found.log_evidence, log_likelihood))) < 4
    assert found.quantile([0.5]).shape == (1, 12, 2)


def test_a_simulator_with_a_pytree_state_is_enough():
    """The count of up-steps of a coin, seen without noise: every density is a sum over a table."""

    def begin(key):
        return {"count": jnp.zeros((), int)}

    def flip(x, t):
        return lambda key: {"count": x["count"] + jr.bernoulli(key, 0.3).astype(int)}

    def exactly(x, y, t):
        return jnp.where(x["count"] == y, 0.0, -jnp.inf)

    found = particle_filter(
        begin, flip, exactly, [0.0, 0.0, 1.0, 1.0], key=jr.key(7), num_particles=400, num_replicates=16
    )
    truth = np.log(0.7 * 0.3 * 0.7)
    assert abs(float(scores(found.log_evidence, truth))) < 4
    np.testing.assert_allclose(found.mean["count"].value, [0, 0, 1, 1], rtol=1e-12)


def test_new_observations_of_the_same_length_do_not_compile_again():
    seen = count_traces(look)
    for seed in range(3):
        particle_filter(
            START,
            walk,
            seen,
            simulated(6, seed),
            key=jr.key(seed),
            num_particles=16,
            num_replicates=2,
            args=ARGS,
        )
        if seed == 0:
            first = seen.count
    assert seen.count == first


def test_a_lost_filter_says_so_and_is_not_a_number_after():
    def never_negative(x, y, t):
        logs = jnp.where((t == 2) & (y < 0), -jnp.inf, -0.5 * (x - y) ** 2)
        return jnp.where(y > 100, jnp.nan, logs)

    drift, ys = (lambda x, t: Normal(x, 1.0)), [0.0, 1.0, -1.0, 0.0]
    found = particle_filter(START, drift, never_negative, ys, key=jr.key(8), num_particles=20)
    assert float(found.log_evidence.value) == -np.inf
    assert not found.log_evidence.status.ok
    assert np.isfinite(found.mean.value[:2]).all()
    assert np.isnan(found.mean.value[2:]).all()
    assert "8 of 8 filters lost the observations, the first at time 2" in found.verdict.sentence
    ys = [0.0, 200.0, 1.0, 0.0]
    undefined = particle_filter(START, drift, never_negative, ys, key=jr.key(9), num_particles=20)
    assert "not a number at time 1" in undefined.verdict.sentence
    assert np.isnan(undefined.log_evidence.value)


def test_an_outlier_is_called_weak_and_one_filter_unknown(plain):
    far = np.where(np.arange(30) == 20, 9.0, YS)
    assert filtered(far).verdict.sentence.startswith("Weak: at time 20")
    alone = jax.tree.map(lambda leaf: leaf[:1], plain)
    assert alone.verdict.sentence.startswith("Unknown: one filter has no standard error")
    assert float(alone.log_evidence.standard_error) == np.inf
    assert np.isinf(alone.mean.standard_error).all()


def test_bad_input_is_refused_by_name(plain):
    ys = np.ones((4, 2))
    ys[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"`observations` must be seen or .*; got NaN in part of row 2"):
        filtered(ys)
    with pytest.raises(ValueError, match=r"`observations` must be one row per time; got shape \(0,\)"):
        filtered(np.zeros(0))
    with pytest.raises(ValueError, match=r"`resampling` must be one of .*'systematic'"):
        filtered(YS, resampling="optimal")
    with pytest.raises(ValueError, match=r"`ess_threshold` must be a share from 0 to 1; got 1.5"):
        filtered(YS, ess_threshold=1.5)
    with pytest.raises(ValueError, match=r"`observation_log_density` must be one number; got shape \(2,\)"):
        filtered(np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"`history` must be kept for this"):
        dataclasses.replace(plain, history=None).quantile(0.5)
    with pytest.raises(
        TypeError, match=r"`transition` must be a function that returns something with a dens"
    ):
        backward_sample(plain, lambda x, t: lambda key: x, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`probs` must be from 0 to 1"):
        plain.quantile([1.5])


def test_errors_of_replicates():
    """Log-normal evidences: value and error by hand; weighted means reduce to plain ones."""
    logs = jnp.array([0.1, -0.2, 0.4, 0.0])
    found = evidence_of_replicates(logs, "four filters")
    np.testing.assert_allclose(found.value, np.log(np.mean(np.exp(np.asarray(logs)))), rtol=1e-12)
    s2 = np.var(np.asarray(logs), ddof=1)
    np.testing.assert_allclose(found.standard_error, np.sqrt(s2 / 4 + s2**2 / 6), rtol=1e-12)
    values = jnp.array([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0], [0.0, 1.0]])
    equal = mean_of_replicates(values, jnp.full(4, 7.0))
    np.testing.assert_allclose(equal.value, np.asarray(values).mean(0), rtol=1e-12)
    np.testing.assert_allclose(equal.standard_error, np.asarray(values).std(0, ddof=1) / 2, rtol=1e-12)
    assert not evidence_of_replicates(jnp.array([0.0, -jnp.inf]), "two").status.ok
