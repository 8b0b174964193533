"""Gaussian chains on the host: the dense joint normal, the compiled chain, scores and settled gains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracles.kalman import dense_chain
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_back import adjoint, score, smoothed_covariances, smoothed_means
from tractable.messages.gaussian_chain import GaussianChain
from tractable.messages.gaussian_host import HostChain, SingularReading, forward, log_densities
from tractable.messages.gaussian_steps import FORMS, Belief, Step
from tractable.messages.gaussian_turned import turn

T, D, M = 7, 3, 2


def spd(rng, *shape):
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(shape[-1])


def case(varying, seed=0):
    rng = np.random.default_rng(seed)
    t, s = (T, T - 1) if varying else (1, 1)
    initial = rng.normal(size=D), spd(rng, D)
    move = 0.6 * rng.normal(size=(s, D, D)), rng.normal(size=(s, D)), spd(rng, s, D)
    look = rng.normal(size=(t, M, D)), rng.normal(size=(t, M)), spd(rng, t, M)
    ys = rng.normal(size=(3, T, M))
    ys[0, 2], ys[0, 4, 1], ys[1, -1, 0], ys[1, 0] = np.nan, np.nan, np.nan, np.nan
    return initial, move, look, ys


def host(initial, move, look):
    return HostChain(
        initial[0][None], initial[1], move[0], move[1][:, None], move[2], look[0], look[1][:, None], look[2]
    )


def wide(parts, count):
    return tuple(np.broadcast_to(part, (count, *part.shape[1:])) for part in parts)


@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.cheap
def test_many_series_with_gaps_of_their_own_equal_the_dense_joint_normal(varying):
    initial, move, look, ys = case(varying)
    chain, times = host(initial, move, look), np.swapaxes(ys, 0, 1)
    passed = forward(chain, times)
    back = adjoint(chain, passed, ~np.isnan(times))
    means, (covs, cross) = smoothed_means(passed, back), smoothed_covariances(chain, passed, back)
    for n in range(3):
        mean, cov, evidence = dense_chain(initial, wide(move, T - 1), wide(look, T), ys[n])
        np.testing.assert_allclose(passed.log_densities[:, n].sum(), evidence, rtol=1e-12)
        np.testing.assert_allclose(means[:, n].ravel(), mean, atol=1e-10)
        for t in range(T):
            here, later = slice(t * D, (t + 1) * D), slice((t + 1) * D, (t + 2) * D)
            np.testing.assert_allclose(covs[t, n], cov[here, here], atol=1e-10)
            if t < T - 1:
                np.testing.assert_allclose(cross[t, n], cov[later, here], atol=1e-10)


def test_series_with_the_same_gaps_share_their_covariances():
    initial, move, look, ys = case(True)
    ys[:] = np.where(np.isnan(ys[:1]), np.nan, ys)
    ys = np.where(np.isnan(ys), 0.3, ys)
    ys[:, 2] = np.nan
    passed = forward(host(initial, move, look), np.swapaxes(ys, 0, 1))
    assert passed.covariances.is_shared
    for n in range(3):
        evidence = dense_chain(initial, move, look, ys[n])[2]
        np.testing.assert_allclose(passed.log_densities[:, n].sum(), evidence, rtol=1e-12)


@pytest.mark.parametrize("varying", [True, False])
@pytest.mark.cheap
def test_the_score_is_the_gradient_of_the_evidence(varying):
    initial, move, look, ys = case(varying, seed=2)
    readings = ys[0]

    def evidence(mean, cov, A, b, Q, C, c, R):
        pick = (lambda x: x) if varying else (lambda x: x[0])
        chain = GaussianChain(
            Gaussian(mean, cov),
            LinearGaussian(pick(A), pick(b), pick(Q)),
            LinearGaussian(pick(C), pick(c), pick(R)),
        )
        return chain.log_evidence(readings)

    leaves = [jnp.asarray(leaf) for leaf in (*initial, *move, *look)]
    slopes = jax.grad(evidence, argnums=tuple(range(8)))(*leaves)
    chain, times = host(initial, move, look), readings[:, None]
    passed, seen = forward(chain, times), ~np.isnan(times)
    found = score(chain, passed, adjoint(chain, passed, seen), seen, np.ones((1, 1)))
    for name, mine, slope in zip(found._fields, found, slopes):
        slope = np.asarray(slope)
        mine = mine[:, 0] if name in ("b", "c") else mine[0] if name == "mean" else mine
        if not varying and name not in ("mean", "cov"):
            mine = mine.sum(0, keepdims=True)
        if name in ("cov", "Q", "R"):
            slope = 0.5 * (slope + np.swapaxes(slope, -1, -2))
        np.testing.assert_allclose(mine, slope, atol=1e-9, err_msg=name)


def test_a_settled_gain_changes_no_digit_that_counts():
    """Ten thousand steps with two gaps, by settled gains and by the compiled chain at every step."""
    A, Q = np.array([[1.0, 0.1], [-0.1, 0.9]]), 0.1 * np.eye(2)
    C, R = np.array([[1.0, 0.5]]), np.eye(1)
    ys = np.random.default_rng(0).normal(size=(3000, 1))
    ys[1500], ys[2000:2005] = np.nan, np.nan
    zeros = np.zeros((1, 1, 2)), np.zeros((1, 1, 1))
    chain = HostChain(
        np.zeros((1, 2)), 10 * np.eye(2), A[None], zeros[0], Q[None], C[None], zeros[1], R[None]
    )
    passed = forward(chain, ys[:, None])
    assert len(passed.covariances.predicted) < 600
    full = GaussianChain(
        Gaussian(np.zeros(2), 10 * np.eye(2)),
        LinearGaussian(A, np.zeros(2), Q),
        LinearGaussian(C, np.zeros(1), R),
    ).smooth(ys)
    back = adjoint(chain, passed, ~np.isnan(ys[:, None]))
    np.testing.assert_allclose(passed.log_densities.sum(), full.log_evidence, rtol=1e-13)
    np.testing.assert_allclose(smoothed_means(passed, back)[:, 0], full.marginals.mean, atol=1e-12)
    covs, cross = smoothed_covariances(chain, passed, back)
    np.testing.assert_allclose(covs, full.marginals.cov, atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(cross, 1, 2), full.cross, atol=1e-12)


def test_readings_without_density_are_named_by_their_time():
    one, zero = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    chain = HostChain(np.zeros((1, 1)), np.eye(1), one, zero, zero, one, zero, zero)
    ys = np.array([np.nan, 1.0, np.nan, 2.0])[:, None, None]
    with pytest.raises(SingularReading) as caught:
        forward(chain, ys)
    assert caught.value.time == 3


@pytest.mark.parametrize("singular", [False, True])
def test_steps_turned_round_are_those_of_the_compiled_chain(singular):
    rng = np.random.default_rng(5)
    A, b, Q = 0.6 * rng.normal(size=(4, D, D)), rng.normal(size=(4, D)), spd(rng, 4, D)
    mean, cov = rng.normal(size=(4, D)), spd(rng, 4, D)
    if singular:  # a start that is known in one direction, and a drift without noise
        cov[1], Q[1], Q[2] = np.diag([1.0, 0.0, 2.0]), 0.0, 0.0
    found = turn(A, b, Q, mean, cov)
    form = FORMS["covariance"]
    step, belief = Step(*map(jnp.asarray, (A, b, Q))), Belief(jnp.asarray(mean), jnp.asarray(cov))
    ahead, back = jax.vmap(form.turn)(step, belief)
    for own, other in zip(found, (ahead.mean, ahead.spread, back.weights, back.bias, back.spread)):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-10)


def test_a_factor_whose_last_pivot_is_rounding_is_singular():
    cov = np.array([[1.0, 1.0], [1.0, 1.0 + np.finfo(float).eps]])
    assert np.linalg.cholesky(cov)[1, 1] > 0
    found = turn(np.eye(2), np.zeros(2), np.zeros((2, 2)), np.zeros(2), cov)
    np.testing.assert_allclose(found.gain, np.full((2, 2), 0.5), atol=1e-12)  # onto what varies


@pytest.mark.parametrize("shifted", [False, True])
def test_the_pass_that_keeps_no_states_has_the_same_densities(shifted):
    rng = np.random.default_rng(5)
    initial, move, look, _ = case(False, seed=5)
    chain = host(initial, (0.5 * move[0], shifted * move[1], move[2]), look)
    ys = rng.normal(size=(500, 2, M))
    np.testing.assert_allclose(log_densities(chain, ys), forward(chain, ys).log_densities, rtol=1e-12)
    ys[7, 0, 1] = np.nan  # series with gaps of their own go time by time
    np.testing.assert_allclose(log_densities(chain, ys), forward(chain, ys).log_densities, rtol=1e-12)
