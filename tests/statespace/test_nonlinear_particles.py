"""Particle filters of nonlinear systems beside the Kalman filter and the grid."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles.kalman import dense_chain
from tractable.core.module import Module
from tractable.core.types import Array
from tractable.messages.gaussian_beliefs import Grid
from tractable.statespace.nonlinear.system import NonlinearSystem

A, H = np.array([[0.8, 0.4], [-0.4, 0.8]]), np.array([[1.0, 0.5], [0.0, 1.0]])
Q, R = np.diag([0.3, 0.2]), np.diag([0.5, 0.8])
START = (np.zeros(2), np.eye(2))
LINEAR = NonlinearSystem(lambda x: jnp.asarray(A) @ x, Q, lambda x: jnp.asarray(H) @ x, R, *START)
YS = np.random.default_rng(0).normal(size=(10, 2))
YS[3], YS[6, 1] = np.nan, np.nan
MEAN, COV, EVIDENCE = dense_chain(START, (A, np.zeros(2), Q), (H, np.zeros(2), R), YS)

ONE = np.eye(1)
BENT = NonlinearSystem(
    lambda x: 0.9 * x + jnp.sin(2 * x),
    0.2 * np.eye(1),
    lambda x: x**2 / 2,
    0.3 * np.eye(1),
    np.ones(1),
    np.eye(1),
)
BENT_YS = np.array([0.3, 1.2, np.nan, 2.0, 0.9, 1.5])


def scores(estimate, truth):
    return (np.asarray(estimate.value) - truth) / np.asarray(estimate.standard_error)


@pytest.mark.parametrize("proposal", ["auxiliary", "bootstrap", "guided"])
def test_particles_agree_with_the_kalman_filter_whatever_moves_them(proposal):
    options = {"num_particles": 400, "num_replicates": 16, "ess_threshold": 1.0}
    found = LINEAR.particle_filter(YS, key=0, proposal=proposal, **options)
    assert abs(float(scores(found.log_evidence, EVIDENCE))) < 4
    assert np.abs(scores(found.mean, LINEAR.filter(YS).filtered.mean)).max() < 5
    if proposal == "auxiliary":  # where the observation is linear, the weights are equal after each reading
        np.testing.assert_allclose(found.ess[:, 1:], 400, rtol=1e-9)
        paths = LINEAR.sample_paths(found, key=1, num_paths=100)
        assert np.abs(scores(paths.mean, MEAN.reshape((-1, 2)))).max() < 5


@pytest.mark.slow
@pytest.mark.parametrize("proposal", ["auxiliary", "guided"])
def test_the_likelihood_is_unbiased_with_few_particles(proposal):
    """Twelve particles, 4000 filters: the mean of the likelihoods is the likelihood."""
    options = {"num_particles": 12, "num_replicates": 4000, "history": False, "resampling": "multinomial"}
    found = BENT.particle_filter(BENT_YS, key=2, proposal=proposal, **options)
    exact = BENT.grid_filter(BENT_YS, Grid.uniform(-7.0, 7.0, 281))
    assert exact.verdict.ok
    ratio = np.exp(np.asarray(found.increments).sum(1) - float(exact.log_likelihood))
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std(ddof=1) / np.sqrt(4000)


@pytest.mark.thorough
def test_the_grid_agrees_with_the_kalman_filter():
    """One dimension with a gap, and two with coupled states: increments, means, covariances, smoother."""
    line = NonlinearSystem(
        lambda x: 0.9 * x + 0.2, 0.5 * np.eye(1), lambda x: x, 0.7 * np.eye(1), np.zeros(1), np.eye(1)
    )
    ys = np.array([0.5, -1.0, np.nan, 2.0])
    found = line.grid_filter(ys, Grid.uniform(-9.0, 9.0, 121))
    exact = line.smooth(ys, rule="extended")
    np.testing.assert_allclose(found.log_increments, exact.filter.log_densities, atol=1e-9)
    np.testing.assert_allclose(found.mean(found.filtered), exact.filter.filtered.mean, atol=1e-8)
    np.testing.assert_allclose(found.cov(found.smoothed), exact.marginals.cov, atol=1e-8)
    assert found.verdict.ok
    flat = LINEAR.grid_filter(YS[:4], (Grid.uniform(-5.5, 5.5, 31), Grid.uniform(-5.5, 5.5, 31)))
    _, _, evidence = dense_chain(START, (A, np.zeros(2), Q), (H, np.zeros(2), R), YS[:4])
    np.testing.assert_allclose(flat.log_likelihood, evidence, atol=1e-4)
    np.testing.assert_allclose(flat.mean(flat.filtered), LINEAR.filter(YS[:4]).filtered.mean, atol=1e-4)


def test_a_grid_that_is_too_narrow_or_too_coarse_says_so():
    narrow = BENT.grid_filter(BENT_YS, Grid.uniform(-1.0, 1.0, 121))
    assert "off the grid" in narrow.verdict.sentence
    sharp = NonlinearSystem(
        BENT.transition, 2.0 * np.eye(1), BENT.observation, 1e-4 * np.eye(1), np.ones(1), np.eye(1)
    )
    coarse = sharp.grid_filter(BENT_YS, Grid.uniform(-8.0, 8.0, 121))
    assert coarse.verdict.sentence.startswith("Too coarse")


@pytest.mark.thorough
def test_gaussian_filters_beside_the_grid():
    """Where the system is bent, moments are off and say so; particles are right."""
    exact = BENT.grid_filter(BENT_YS, Grid.uniform(-7.0, 7.0, 281))
    found = BENT.particle_filter(BENT_YS, key=3, num_particles=500, num_replicates=16)
    assert abs(float(scores(found.log_evidence, float(exact.log_likelihood)))) < 4
    assert np.abs(scores(found.mean, exact.mean(exact.filtered))).max() < 5
    gap = abs(float(BENT.log_likelihood(BENT_YS)) - float(exact.log_likelihood))
    assert gap > 0.1
    assert not BENT.filter(BENT_YS).verdict.ok


class Bent(Module):
    """Functions of which the parameters are leaves: another value is no other program."""

    by: Array


class Move(Bent):
    def __call__(self, x):
        return 0.8 * x + self.by * jnp.sin(2 * x)


class Look(Bent):
    def __call__(self, x):
        return x + self.by * x**2


@pytest.mark.slow
def test_what_is_called_good_is_close():
    """Systems from nearly linear to very bent: no verdict of the unscented filter is wrong by 0.15 nats."""
    rng, grid, gaps = np.random.default_rng(0), Grid.uniform(-7.0, 7.0, 241), {True: [], False: []}
    for seed in range(40):
        bends = [jnp.asarray(bend) for bend in 10 ** rng.uniform(-3, 0, 2) * rng.choice([-1, 1], 2)]
        system = NonlinearSystem(Move(bends[0]), 0.2 * ONE, Look(bends[1]), 0.3 * ONE, np.zeros(1), 0.5 * ONE)
        y = system.sample(jr.key(seed), 20)[1][0]
        exact, found = system.grid_filter(y, grid), system.filter(y)
        assert exact.verdict.ok
        gap = abs(float(found.log_likelihood - exact.log_likelihood))
        gaps[found.verdict.ok].append(gap)
    assert len(gaps[True]) > 5
    assert max(gaps[True]) < 0.15
    assert np.median(gaps[False]) > 0.1


@pytest.mark.cheap
@pytest.mark.parametrize("size", [1, 3])
def test_a_law_that_has_seen_a_reading_is_the_conditional_normal(size):
    from scipy.stats import multivariate_normal

    from tractable.messages.gaussian_steps import Step
    from tractable.statespace.nonlinear.particles import Informed, Moved, roots_of, whitens_of

    rng = np.random.default_rng(size)
    mean, H, c, y = (
        rng.normal(size=2),
        rng.normal(size=(size, 2)),
        rng.normal(size=size),
        rng.normal(size=size),
    )
    P, N = (a @ a.T + 0.2 * np.eye(len(a)) for a in (rng.normal(size=(2, 2)), rng.normal(size=(size, size))))
    law = Moved(jnp.asarray(mean), roots_of(jnp.asarray(P)), whitens_of(jnp.asarray(P)))
    seen = Informed(law, Step(jnp.asarray(H), jnp.asarray(c), jnp.asarray(N)), jnp.asarray(y))
    S = H @ P @ H.T + N
    gain = P @ H.T @ np.linalg.inv(S)
    exact = multivariate_normal(mean + gain @ (y - H @ mean - c), P - gain @ S @ gain.T)
    x = rng.normal(size=2)
    before = multivariate_normal(mean, P).logpdf(x)
    assert float(law.log_prob(jnp.asarray(x))) == pytest.approx(before, rel=1e-10)
    assert float(seen.log_ratio(jnp.asarray(x))) == pytest.approx(before - exact.logpdf(x), rel=1e-10)
    assert float(seen.promise()) == pytest.approx(multivariate_normal(H @ mean + c, S).logpdf(y), rel=1e-10)
    draws = np.asarray(jax.vmap(seen.sample)(jr.split(jr.key(0), 4000)))
    white = np.linalg.solve(np.linalg.cholesky(exact.cov), (draws - exact.mean).T)
    assert np.abs(white.mean(1)).max() < 4.5 / np.sqrt(4000)
    assert np.abs(white @ white.T / 4000 - np.eye(2)).max() < 4.5 * np.sqrt(2 / 4000)


def test_guided_particles_where_the_noise_of_the_state_is_singular():
    """Level and slope, of which only the slope is driven: no density, yet the filter is exact on average."""
    from tractable.statespace import LinearGaussianSystem

    A, Q = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [0.0, 0.3]])
    known = (np.array([[1.0, 0.0]]), np.array([[0.5]]), np.zeros(2), np.eye(2))
    y = np.array([0.3, 1.0, 2.1, 2.4, 3.5])[:, None]
    exact = float(LinearGaussianSystem(A, Q, *known).log_likelihood(y))
    system = NonlinearSystem(lambda x: jnp.asarray(A) @ x, Q, lambda x: x[:1], known[1], *known[2:])
    found = system.particle_filter(y, key=jr.key(0), proposal="guided", num_particles=500)
    error = float(found.log_evidence.standard_error)
    assert abs(float(found.log_evidence.value) - exact) < 4 * error < 0.4
