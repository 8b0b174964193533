"""Pathfinder: the BFGS algebra, exact Gaussians, several paths on several modes, refusals."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.core.iterate import Status
from tractable.inference.variational.pathfinder import InverseHessian, pathfinder
from tractable.optim.quasi_newton import History, inverse_update

COV = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, 0.3], [0.1, 0.3, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])


def gaussian(x, precision):
    return -0.5 * (x - MEAN) @ precision @ (x - MEAN)


def test_low_rank_inverse_is_the_recursion_of_updates():
    random = np.random.default_rng(0)
    diagonal = np.array([0.5, 1.5, 1.0, 2.0])
    hessian = np.diag([3.0, 1.0, 0.5, 2.0]) + 0.3
    steps = random.normal(size=(2, 4))
    changes = steps @ hessian
    dense = jnp.diag(jnp.asarray(diagonal))
    for s, y in zip(steps, changes):
        dense = inverse_update(dense, jnp.asarray(s), jnp.asarray(y))
    empty = np.zeros((1, 4))
    history = History(
        jnp.asarray(np.concatenate([empty, steps])),
        jnp.asarray(np.concatenate([empty, changes])),
        jnp.asarray([0.0, *(1 / (s @ y) for s, y in zip(steps, changes))]),
        jnp.asarray(1.0),
    )
    point, slope = random.normal(size=4), random.normal(size=4)
    member = InverseHessian.of(jnp.asarray(diagonal), history, jnp.asarray(point), jnp.asarray(slope))
    np.testing.assert_allclose(np.asarray(member.cov), np.asarray(dense), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.asarray(member.mean), point + np.asarray(dense) @ slope, rtol=1e-9)
    peer = stats.multivariate_normal(np.asarray(member.mean), np.asarray(dense))
    x = random.normal(size=4)
    np.testing.assert_allclose(float(member.log_prob(jnp.asarray(x))), peer.logpdf(x), rtol=1e-9)


@pytest.fixture(scope="module")
def single():
    precision = jnp.asarray(np.linalg.inv(COV))
    return pathfinder(gaussian, jnp.zeros(3), key=jr.key(0), args=(precision,), num_elbo_draws=20)


def test_a_gaussian_is_found_almost_exactly(single):
    evidence = 0.5 * (3 * np.log(2 * np.pi) + np.linalg.slogdet(COV)[1])
    assert single.status is Status.converged
    np.testing.assert_allclose(np.asarray(single.q.mean), MEAN, atol=1e-3)
    assert evidence - 0.05 < float(single.elbo) < evidence + 0.02
    assert float(single.k_hat) < 0.7
    draws = np.asarray(single.resample(jr.key(1), 1000))
    z = (draws.mean(0) - MEAN) / np.sqrt(np.diag(COV) / 500)
    assert np.abs(z).max() < 5
    assert "elbos" in repr(single)
    assert np.asarray(single.sample(jr.key(2), (2, 3))).shape == (2, 3, 3)


def two_modes(x):
    """Weights 0.9 and 0.1 at +4 and -4, with unit variances."""
    left = jnp.log(0.1) - 0.5 * ((x + 4.0) ** 2).sum()
    right = jnp.log(0.9) - 0.5 * ((x - 4.0) ** 2).sum()
    return jnp.logaddexp(left, right)


def test_several_paths_reach_several_modes_and_keep_the_draws_of_both():
    post = pathfinder(
        two_modes, jnp.zeros(1) - 0.1, key=jr.key(4), num_paths=8, spread=3.0, num_draws=400, history=3
    )
    assert post.elbos.shape == (8,)
    np.testing.assert_allclose(float(post.elbo), float(np.asarray(post.elbos).max()), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(post.q.mean), 4.0, atol=0.05)  # the heavier mode
    points = np.asarray(post.draws)[:, 0]
    assert (points < -2).any()
    assert (points > 2).any()
    drawn = np.asarray(post.resample(jr.key(5), 2000))[:, 0]
    # weights are taken under the mixture of the paths: 9 to 1 however many paths went where
    found = post.expectation(lambda x: (x[0] > 0).astype(float))
    assert abs(float(found.value) - 0.9) < 4 * float(found.standard_error) < 0.1
    assert abs((drawn > 0).mean() - 0.9) < 0.03
    assert abs(float(post.log_evidence.value) - 0.5 * np.log(2 * np.pi)) < 4 * float(
        post.log_evidence.standard_error
    )
    assert not post.verdict.ok  # the one Gaussian of the best path has one mode


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`log_density` must be finite at `start`; got nan"):
        pathfinder(lambda x: jnp.nan * x.sum(), jnp.zeros(2), key=jr.key(0))
    with pytest.raises(ValueError, match="`num_paths` must be a whole number of at least 1"):
        pathfinder(lambda x: -(x**2).sum(), jnp.zeros(2), key=jr.key(0), num_paths=0)
    with pytest.raises(ValueError, match="`log_density` must be a function that returns one number"):
        pathfinder(jax.numpy.sin, jnp.zeros(2), key=jr.key(0))
