"""Switching systems beside the mixture over all paths of modes; ensembles beside the Kalman filter."""

import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import logsumexp

from tests.oracles.kalman import dense_chain
from tractable.statespace.nonlinear.switching import SwitchingLinearSystem
from tractable.statespace.nonlinear.system import NonlinearSystem

START = (np.array([0.2, 0.0]), np.eye(2))
PI, CHAIN = np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.3, 0.7]])
MOVES = np.array([[[1.0, 0.5], [0.0, 0.9]], [[0.3, -0.8], [0.8, 0.3]]])
OFFSETS = np.array([[0.0, 0.1], [0.5, 0.0]])
NOISES = np.stack([0.05 * np.eye(2), 0.4 * np.eye(2)])
LOOK, ERRORS = np.array([[1.0, 0.0]]), np.array([[[0.1]], [[0.5]]])
SYSTEM = SwitchingLinearSystem(PI, CHAIN, MOVES, NOISES, LOOK, ERRORS, *START, OFFSETS)
YS = np.array([0.3, 0.8, np.nan, -0.5, 1.0])[:, None]


def all_paths(ys):
    """Weights, last means and covariances of all paths of modes, by dense conditioning of each."""
    logs, means, covs, paths = [], [], [], list(itertools.product(range(2), repeat=len(ys)))
    for path in paths:
        z = np.array(path)
        prior = np.log(PI[z[0]]) + np.log(CHAIN[z[:-1], z[1:]]).sum()
        move = (MOVES[z[1:]], OFFSETS[z[1:]], NOISES[z[1:]])
        mean, cov, evidence = dense_chain(START, move, (LOOK, np.zeros(1), ERRORS[z]), ys)
        logs.append(prior + evidence)
        means.append(mean)
        covs.append(cov)
    return np.array(paths), np.array(logs), np.array(means), np.array(covs)


def mixture(weights, means, covs):
    """Mean and covariance of Gaussians with weights."""
    mean = weights @ means
    apart = means - mean
    return mean, np.einsum("n,nab->ab", weights, covs) + np.einsum("n,na,nb->ab", weights, apart, apart)


def test_enumeration_is_the_dense_mixture():
    found = SYSTEM.filter(YS, method="exact")
    for length in (1, 4, 5):  # every time is a mixture of its own
        paths, logs, means, covs = all_paths(YS[:length])
        weights = np.exp(logs - logsumexp(logs))
        mean, cov = mixture(weights, means[:, -2:], covs[:, -2:, -2:])
        np.testing.assert_allclose(found.log_densities[:length].sum(), logsumexp(logs), rtol=1e-10)
        np.testing.assert_allclose(found.modes[length - 1, 1], weights @ (paths[:, -1] == 1), atol=1e-10)
        np.testing.assert_allclose(found.mean[length - 1], mean, atol=1e-10)
        np.testing.assert_allclose(found.cov[length - 1], cov, atol=1e-10)
    assert found.verdict.ok


def test_exact_smoothing_is_the_dense_mixture_and_verdicts_are_distances_from_it():
    paths, logs, means, covs = all_paths(YS)
    weights, exact = np.exp(logs - logsumexp(logs)), SYSTEM.smooth(YS, method="exact")
    for t in range(len(YS)):
        here = slice(2 * t, 2 * t + 2)
        mean, cov = mixture(weights, means[:, here], covs[:, here, here])
        np.testing.assert_allclose(exact.mean[t], mean, atol=1e-10)
        np.testing.assert_allclose(exact.cov[t], cov, atol=1e-10)
        np.testing.assert_allclose(exact.modes[t, 1], weights @ (paths[:, t] == 1), atol=1e-10)
    assert exact.log_likelihood == pytest.approx(logsumexp(logs), rel=1e-10)
    assert exact.verdict.ok
    for method in ("kim", "corrected"):
        found = SYSTEM.smooth(YS, method=method)
        scale = np.sqrt(np.diagonal(exact.cov, axis1=1, axis2=2))
        np.testing.assert_allclose(found.gap[0], np.abs(found.modes - exact.modes).max(), rtol=1e-9)
        np.testing.assert_allclose(found.gap[1], np.abs((found.mean - exact.mean) / scale).max(), rtol=1e-9)
        assert found.verdict.ok == (found.gap.max() <= 0.05)
        last = SYSTEM.filter(YS, method="kim")
        np.testing.assert_allclose(found.modes[-1], last.modes[-1], atol=1e-12)
        np.testing.assert_allclose(found.mean[-1], last.mean[-1], atol=1e-12)


def test_what_states_tell_of_modes_brings_the_smoother_nearer():
    """Over series drawn from the system: about half of the distance from all paths."""
    series = np.asarray(SYSTEM.sample(jr.key(0), 9, 20)[2])
    gaps = {m: np.mean([SYSTEM.smooth(y, method=m).gap for y in series], 0) for m in ("kim", "corrected")}
    assert (gaps["corrected"] < 0.7 * gaps["kim"]).all()
    assert (gaps["corrected"] < [0.1, 0.2]).all()


def test_long_series_are_measured_on_their_first_readings():
    ys = np.asarray(SYSTEM.sample(jr.key(1), 30)[2])[0]
    found = SYSTEM.smooth(ys)
    assert found.measured == 10
    np.testing.assert_allclose(found.gap, SYSTEM.smooth(ys[:10]).gap, rtol=1e-9)
    assert "on the first 10 of 30 readings" in found.verdict.sentence
    np.testing.assert_allclose(found.modes.sum(1), 1.0, rtol=1e-12)
    filtered = SYSTEM.filter(ys)
    inside, outside = (np.diagonal(np.asarray(a.cov), axis1=1, axis2=2).sum() for a in (found, filtered))
    assert inside < outside


def test_singular_noises_and_one_reading_are_smoothed():
    """A mode without noise from a known start: the predicted law has no density, and Kim's weights serve."""
    still = SwitchingLinearSystem(
        PI, CHAIN, MOVES, np.zeros((2, 2)), LOOK, ERRORS, START[0], np.zeros((2, 2)), OFFSETS
    )
    exact = still.smooth(YS, method="exact")
    for method in ("kim", "corrected"):
        found = still.smooth(YS, method=method)
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.cov).all()
        np.testing.assert_allclose(found.mean[0], START[0], atol=1e-12)
    assert np.isfinite(exact.mean).all()
    one = SYSTEM.smooth(YS[:1])
    np.testing.assert_allclose(one.mean, SYSTEM.filter(YS[:1], method="exact").mean, atol=1e-12)
    assert one.verdict.ok


@pytest.mark.parametrize("method", ["kim", "imm"])
def test_merging_is_exact_at_first_and_close_after(method):
    exact, found = SYSTEM.filter(YS, method="exact"), SYSTEM.filter(YS, method=method)
    same = 2 if method == "kim" else 1  # times before anything that differs was merged
    np.testing.assert_allclose(found.log_densities[:same], exact.log_densities[:same], rtol=1e-10)
    np.testing.assert_allclose(found.mean[:same], exact.mean[:same], atol=1e-10)
    np.testing.assert_allclose(found.modes, exact.modes, atol=0.05)
    assert not found.verdict.ok
    assert "merged" in repr(found)


def test_modes_that_are_alike_are_one_linear_system():
    system = SwitchingLinearSystem(PI, CHAIN, MOVES[0], NOISES[0], LOOK, ERRORS[0], *START, OFFSETS[0])
    _, _, evidence = dense_chain(START, (MOVES[0], OFFSETS[0], NOISES[0]), (LOOK, np.zeros(1), ERRORS[0]), YS)
    for method in ("kim", "imm"):
        found = system.filter(YS, method=method)
        np.testing.assert_allclose(found.log_likelihood, evidence, rtol=1e-10)
        np.testing.assert_allclose(found.modes[-1], PI @ np.linalg.matrix_power(CHAIN, 4), atol=1e-10)
        assert found.verdict.ok
    mean, cov, _ = dense_chain(START, (MOVES[0], OFFSETS[0], NOISES[0]), (LOOK, np.zeros(1), ERRORS[0]), YS)
    for method in ("kim", "corrected", "exact"):
        found = system.smooth(YS, method=method)
        np.testing.assert_allclose(found.mean.ravel(), mean, atol=1e-10)
        np.testing.assert_allclose(found.cov[1], cov[2:4, 2:4], atol=1e-10)
        assert found.verdict.ok


def test_a_mode_that_cannot_be_reached_stays_away():
    stuck = SwitchingLinearSystem([1.0, 0.0], np.eye(2), MOVES, NOISES, LOOK, ERRORS, *START, OFFSETS)
    _, _, evidence = dense_chain(START, (MOVES[0], OFFSETS[0], NOISES[0]), (LOOK, np.zeros(1), ERRORS[0]), YS)
    for method in ("kim", "imm", "exact"):
        found = stuck.filter(YS, method=method)
        np.testing.assert_allclose(found.log_likelihood, evidence, rtol=1e-10)
        np.testing.assert_array_equal(found.modes[:, 1], 0.0)
    found = stuck.smooth(YS)
    np.testing.assert_array_equal(found.modes[:, 1], 0.0)
    assert found.verdict.ok


@pytest.mark.thorough
def test_particles_of_modes_agree_with_the_mixture():
    exact = SYSTEM.filter(YS, method="exact")
    found = SYSTEM.particle_filter(YS, key=0, num_particles=100, num_replicates=16)
    for estimate, truth in (
        (found.modes, exact.modes),
        (found.mean, exact.mean),
        (found.log_likelihood, exact.log_likelihood),
    ):
        gap = np.asarray(estimate.value) - np.asarray(truth)
        error = np.asarray(estimate.standard_error)
        assert (np.abs(gap) <= 4.5 * error + 1e-10).all()
    assert found.verdict.ok
    np.testing.assert_allclose(found.cov.value, exact.cov, atol=0.1)
    whole, drawn = SYSTEM.smooth(YS, method="exact"), SYSTEM.particle_smoother(
        YS, key=1, num_particles=100, num_replicates=16
    )  # fmt: skip
    for estimate, truth in ((drawn.modes, whole.modes), (drawn.mean, whole.mean), (drawn.cov, whole.cov)):
        gap = np.asarray(estimate.value) - np.asarray(truth)
        assert (np.abs(gap) <= 4.5 * np.asarray(estimate.standard_error) + 1e-10).all()
    assert drawn.verdict.ok
    assert drawn.num_distinct.shape == (16, 5)


def test_paths_of_modes_states_and_readings():
    modes, states, readings = SYSTEM.sample(jr.key(0), 4, 4000)
    shares = PI @ np.linalg.matrix_power(CHAIN, 3)
    assert abs(float((modes[:, 3] == 1).mean()) - shares[1]) < 4.5 * np.sqrt(shares[1] * shares[0] / 4000)
    first = np.asarray(states)[:, 0] - START[0]
    assert np.abs(first.mean(0)).max() < 4.5 / np.sqrt(4000)
    lively = np.asarray(modes)[:, 2] == 1
    gap = np.asarray(readings)[lively, 2, 0] - np.asarray(states)[lively, 2, 0]
    assert abs(gap.var() / 0.5 - 1) < 4.5 * np.sqrt(2 / lively.sum())


def test_long_series_are_not_enumerated():
    with pytest.raises(ValueError, match=r"`y` must be so short that .*; got 2\*\*20 = 1048576"):
        SYSTEM.filter(np.zeros((20, 1)), method="exact")
    with pytest.raises(
        ValueError, match=r"`transition` must be of shape \(2, 2\), or \(2, 2, 2\) for 2 modes"
    ):
        SwitchingLinearSystem(PI, CHAIN, np.eye(3), NOISES, LOOK, ERRORS, *START)


@pytest.mark.parametrize("method", ["square-root", "stochastic"])
@pytest.mark.thorough
def test_large_ensembles_are_the_kalman_filter(method):
    """Errors fall as 1/sqrt(N): means in standard deviations, the likelihood absolutely."""
    A, H, Q, R = MOVES[0], np.array([[1.0, 0.5], [0.0, 1.0]]), NOISES[0], np.diag([0.5, 0.8])
    system = NonlinearSystem(lambda x: jnp.asarray(A) @ x, Q, lambda x: jnp.asarray(H) @ x, R, *START)
    ys = np.random.default_rng(0).normal(size=(8, 2))
    ys[2], ys[5, 1] = np.nan, np.nan
    exact = system.filter(ys, rule="extended")
    scale = np.sqrt(np.diagonal(np.asarray(exact.filtered.cov), axis1=1, axis2=2))
    gaps = []
    for seed in range(8):
        found = system.ensemble_filter(ys, key=jr.key(seed), num_members=2000, method=method)
        gaps.append((np.asarray(found.mean) - np.asarray(exact.filtered.mean)) / scale)
        assert abs(float(found.log_likelihood - exact.log_likelihood)) < 0.3
    gaps = np.array(gaps)
    assert np.abs(gaps).max() < 8 / np.sqrt(2000)
    assert np.abs(gaps.mean(0)).max() < 5 * gaps.std(0, ddof=1).max() / np.sqrt(8)
    np.testing.assert_allclose(found.cov, exact.filtered.cov, rtol=0.25, atol=0.03)
    assert not found.verdict.ok
    far = system.ensemble_filter(
        ys, key=jr.key(9), num_members=20, method=method, inflation=1.1, localisation=H.T
    )
    assert np.isfinite(far.log_likelihood)


@pytest.mark.parametrize("ask", ["filter", "smooth", "log_likelihood"])
def test_a_reading_without_a_density_is_named_by_its_time(ask):
    still = SwitchingLinearSystem([0.5, 0.5], np.eye(2), [[1.0]], [[0.0]], [[1.0]], [[0.0]], [0.0], [[1.0]])
    with pytest.raises(ValueError, match="singular innovations at time 1"):
        getattr(still, ask)([0.1, 0.2, 0.3])
