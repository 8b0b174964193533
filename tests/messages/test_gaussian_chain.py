"""Gaussian chains: every method and form against the dense joint normal, missing entries, singular noise."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles.kalman import dense_chain, kalman_filter, kalman_smoother
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_chain import GaussianChain

T, D, M = 7, 3, 2
WAYS = [
    ("scan", "covariance"),
    ("scan", "square-root"),
    ("parallel", "covariance"),
    ("parallel", "square-root"),
]
UPDATES = [("scan", "joseph"), ("scan", "information")]


def spd(rng, *shape):
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(shape[-1])


@pytest.fixture(scope="module")
def varying():
    """A chain with its own matrices and offsets at each step, and readings of which some are missing."""
    rng = np.random.default_rng(0)
    initial = rng.normal(size=D), spd(rng, D)
    move = 0.6 * rng.normal(size=(T - 1, D, D)), rng.normal(size=(T - 1, D)), spd(rng, T - 1, D)
    look = rng.normal(size=(T, M, D)), rng.normal(size=(T, M)), spd(rng, T, M)
    ys = rng.normal(size=(T, M))
    ys[2], ys[4, 1], ys[-1, 0] = np.nan, np.nan, np.nan
    return initial, move, look, ys


def built(initial, move, look):
    return GaussianChain(Gaussian(*initial), LinearGaussian(*move), LinearGaussian(*look))


@pytest.mark.parametrize(("method", "form"), WAYS + UPDATES)
def test_every_way_equals_the_dense_joint_normal(varying, method, form):
    initial, move, look, ys = varying
    mean, cov, evidence = dense_chain(initial, move, look, ys)
    chain = built(initial, move, look)
    found = chain.smooth(ys, method=method, form=form)
    np.testing.assert_allclose(chain.log_evidence(ys, method=method, form=form), evidence, rtol=1e-12)
    np.testing.assert_allclose(found.log_evidence, evidence, rtol=1e-12)
    for t in range(T):
        here = slice(t * D, (t + 1) * D)
        np.testing.assert_allclose(found.marginals.mean[t], mean[here], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.marginals.cov[t], cov[here, here], rtol=1e-10, atol=1e-11)
        filtered = dense_chain(initial, move, look, np.where(np.arange(T)[:, None] <= t, ys, np.nan))
        np.testing.assert_allclose(found.filter.filtered.mean[t], filtered[0][here], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.filter.filtered.cov[t], filtered[1][here, here], atol=1e-11)
        before = dense_chain(initial, move, look, np.where(np.arange(T)[:, None] < t, ys, np.nan))
        np.testing.assert_allclose(found.filter.predicted.mean[t], before[0][here], rtol=1e-10, atol=1e-11)
    for t in range(T - 1):
        two = slice(t * D, (t + 2) * D)
        np.testing.assert_allclose(found.pair(t).mean, mean[two], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.pair(t).cov, cov[two, two], rtol=1e-10, atol=1e-11)


def test_one_matrix_for_all_steps_is_the_kalman_filter_and_smoother():
    rng = np.random.default_rng(1)
    initial, move, look = (
        (rng.normal(size=D), spd(rng, D)),
        0.5 * rng.normal(size=(D, D)),
        rng.normal(size=(M, D)),
    )
    drift, noise, ys = spd(rng, D), spd(rng, M), rng.normal(size=(T, M))
    chain = built(initial, (move, np.zeros(D), drift), (look, np.zeros(M), noise))
    means, covs, evidence = kalman_filter(*initial, move, drift, look, noise, ys)
    smooth = kalman_smoother(means, covs, move, drift)
    for method, form in WAYS:
        found = chain.smooth(ys, method=method, form=form)
        np.testing.assert_allclose(found.filter.filtered.mean, means, atol=1e-10)
        np.testing.assert_allclose(found.marginals.mean, smooth[0], atol=1e-10)
        np.testing.assert_allclose(found.marginals.cov, smooth[1], atol=1e-10)
        np.testing.assert_allclose(found.log_evidence, evidence, rtol=1e-11)


@pytest.mark.parametrize("method", ["scan", "parallel"])
def test_draws_have_the_moments_of_the_dense_posterior(varying, method):
    initial, move, look, ys = varying
    mean, cov, _ = dense_chain(initial, move, look, ys)
    chain, num = built(initial, move, look), 40_000
    draws = chain.sample_paths(jr.key(0), ys, num, method=method).reshape(num, T * D)
    errors = (draws.mean(0) - mean) / np.sqrt(np.diag(cov) / num)
    assert np.abs(errors).max() < 4.5
    spread = np.sqrt(np.diag(cov))
    gaps = (np.cov(draws.T) - cov) / np.outer(spread, spread) * np.sqrt(num / 2)
    assert np.abs(gaps).max() < 5.5


def test_simulated_paths_and_readings_have_the_moments_of_the_model(varying):
    initial, move, look, _ = varying
    chain, num = built(initial, move, look), 40_000
    states, readings = chain.simulate(jr.key(1), T, num)
    mean, cov, _ = dense_chain(initial, move, look, np.full((T, M), np.nan))
    errors = (np.asarray(states).reshape(num, -1).mean(0) - mean) / np.sqrt(np.diag(cov) / num)
    assert np.abs(errors).max() < 4.5
    expected = np.einsum("tmd,td->tm", look[0], mean.reshape(T, D)) + look[1]
    spread = np.einsum(
        "tmd,tde,tme->tm", look[0], [cov[i : i + D, i : i + D] for i in range(0, T * D, D)], look[0]
    )
    spread = np.sqrt((spread + np.einsum("tmm->tm", look[2])) / num)
    assert np.abs((np.asarray(readings).mean(0) - expected) / spread).max() < 4.5


@pytest.mark.parametrize(("method", "form"), [way for way in WAYS if way[0] == "scan"])
def test_singular_noise_known_starts_and_exact_readings(method, form):
    """An autoregression in companion form: drift of rank one, read without noise, from a known state."""
    rng = np.random.default_rng(2)
    move = np.array([[0.5, -0.3, 0.2], [1.0, 0, 0], [0, 1.0, 0]])
    drift, look = np.diag([0.7, 0, 0]), np.array([[1.0, 0, 0]])
    initial = np.array([0.3, 0.1, -0.2]), np.diag([0.5, 0.0, 0.0])
    parts = initial, (move, np.zeros(3), drift), (look, np.zeros(1), np.zeros((1, 1)))
    ys = rng.normal(size=(6, 1))
    ys[3] = np.nan
    mean, cov, evidence = dense_chain(*parts, ys)
    chain = built(*parts)
    found = chain.smooth(ys, method=method, form=form)
    np.testing.assert_allclose(found.log_evidence, evidence, rtol=1e-11)
    np.testing.assert_allclose(np.ravel(found.marginals.mean), mean, atol=1e-10)
    for t in range(6):
        here = slice(3 * t, 3 * t + 3)
        np.testing.assert_allclose(found.marginals.cov[t], cov[here, here], atol=1e-10)
    np.testing.assert_allclose(found.pair(2).cov, cov[6:12, 6:12], atol=1e-10)
    draws = chain.sample_paths(jr.key(0), ys, 100, form=form)
    np.testing.assert_allclose(draws[:, :3, 0], np.broadcast_to(ys[:3, 0], (100, 3)), atol=1e-7)


def test_a_state_without_any_noise_is_the_same_number_throughout():
    """Parallel too: no drift, a noisy reading each; the posterior is that of one number."""
    ys = np.array([[1.0], [2.0], [4.0]])
    chain = built(
        (np.zeros(1), np.eye(1)),
        (np.eye(1), np.zeros(1), np.zeros((1, 1))),
        (np.eye(1), np.zeros(1), np.eye(1)),
    )
    for method, form in WAYS:
        found = chain.smooth(ys, method=method, form=form)
        np.testing.assert_allclose(found.marginals.mean, np.full((3, 1), 7 / 4), atol=1e-12)
        np.testing.assert_allclose(found.marginals.cov, np.full((3, 1, 1), 1 / 4), atol=1e-12)
        np.testing.assert_allclose(found.cross, np.full((2, 1, 1), 1 / 4), atol=1e-12)


@pytest.mark.parametrize(("method", "form"), WAYS)
def test_gradients_are_finite_and_right(varying, method, form):
    initial, move, look, ys = varying

    def evidence(scale):
        moved = move[0] * scale[0], move[1], move[2] * scale[1]
        return built(initial, moved, (look[0], look[1], look[2] * scale[2])).log_evidence(
            ys, method=method, form=form
        )

    at, step = np.array([1.0, 0.8, 1.3]), 1e-5
    slope = jax.grad(evidence)(jnp.asarray(at))
    for i in range(3):
        up, down = at.copy(), at.copy()
        up[i], down[i] = up[i] + step, down[i] - step
        expected = [
            dense_chain(
                initial, (move[0] * s[0], move[1], move[2] * s[1]), (look[0], look[1], look[2] * s[2]), ys
            )[2]
            for s in (up, down)
        ]
        assert float(slope[i]) == pytest.approx((expected[0] - expected[1]) / (2 * step), rel=1e-7)


def test_readings_that_the_model_excludes_have_no_density():
    same = built(
        (np.zeros(1), np.eye(1)),
        (np.eye(1), np.zeros(1), np.zeros((1, 1))),
        (np.eye(1), np.zeros(1), np.zeros((1, 1))),
    )
    assert np.isnan(same.log_evidence(np.array([[1.0], [2.0]])))
    assert np.isfinite(same.log_evidence(np.array([[1.0], [np.nan]])))


def test_ten_thousand_steps_cost_ten_times_a_thousand():
    chain = built(
        (np.zeros(2), np.eye(2)),
        (np.array([[1.0, 0.1], [-0.1, 0.98]]), np.zeros(2), 0.01 * np.eye(2)),
        (np.array([[1.0, 0.0]]), np.zeros(1), np.eye(1)),
    )
    _, ys = chain.simulate(jr.key(3), 10_000)
    found = {way: chain.smooth(ys[0, :3_000], method=way[0], form=way[1]) for way in WAYS}
    first = found[WAYS[0]]
    for other in found.values():
        np.testing.assert_allclose(other.log_evidence, first.log_evidence, rtol=1e-11)
        np.testing.assert_allclose(other.marginals.mean, first.marginals.mean, atol=1e-10)
        np.testing.assert_allclose(other.marginals.cov, first.marginals.cov, atol=1e-10)

    def work(num, way):
        method, form = way
        made = jax.make_jaxpr(lambda ys: chain.smooth(ys, method=method, form=form).marginals.mean)
        return cells_written(made(ys[0, :num]).jaxpr)

    for way in WAYS:  # prefix products of blocks write every entry once for each level
        assert 9 < work(10_000, way) / work(1_000, way) < (11 if way[0] == "scan" else 16)


def cells_written(jaxpr):
    """The numbers that all operations of a program write, those of a loop as often as it runs."""
    total = 0
    for equation in jaxpr.eqns:
        parts = [getattr(part, "jaxpr", part) for part in equation.params.values()]
        inside = sum(cells_written(part) for part in parts if hasattr(part, "eqns"))
        total += equation.params.get("length", 1) * inside + sum(v.aval.size for v in equation.outvars)
    return total


def test_mistakes_are_named(varying):
    initial, move, look, ys = varying
    chain = built(initial, move, look)
    with pytest.raises(ValueError, match="`ys` must be"):
        chain.smooth(ys[:, :1])
    with pytest.raises(ValueError, match="`ys` must be"):
        chain.smooth(ys[:4])
    with pytest.raises(ValueError, match="`method` must be"):
        chain.filter(ys, method="fast")
    with pytest.raises(ValueError, match="`transition` must"):
        built(initial, (np.eye(2), np.zeros(2), np.eye(2)), look)
