"""Gaussian latents of programs: both routes against marginal covariances, colours, draws, singular priors."""

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.core.iterate import count_traces
from tractable.programs.gaussian_block import choose_route, colour_columns, plan_sparse, whitened


def marginal(jacobian, offset):
    r"""$\log \int N(z; 0, I) e^{-|e|^2/2} dz$ by the covariance $I + J J^\top$ of the residuals."""
    cov = np.eye(len(offset)) + jacobian @ jacobian.T
    return -0.5 * (offset @ np.linalg.solve(cov, offset) + np.linalg.slogdet(cov)[1])


@pytest.mark.cheap
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 7), (4, 4), (1, 1), (0, 3)])
def test_the_dense_route_equals_the_marginal_covariance(shape):
    rng = np.random.default_rng(0)
    jacobian, offset = rng.normal(size=shape), rng.normal(size=shape[0])
    found = jax.jit(lambda j, e: whitened(lambda z: e + j @ z, shape[1]))(jacobian, offset)
    np.testing.assert_allclose(found.log_integral, marginal(jacobian, offset), rtol=1e-12, atol=1e-14)
    mean = -np.linalg.solve(np.eye(shape[1]) + jacobian.T @ jacobian, jacobian.T @ offset)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 3), (2, 6)])
def test_draws_of_the_dense_route(shape):
    rng, count = np.random.default_rng(1), 40_000
    jacobian, offset = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(size=shape[0]))
    found = whitened(lambda z: offset + jacobian @ z, shape[1])
    draws = np.asarray(jax.jit(jax.vmap(found.draw))(jr.split(jr.key(0), count)))
    cov = np.linalg.inv(np.eye(shape[1]) + jacobian.T @ jacobian)
    sd = np.sqrt(np.diag(cov))
    assert np.abs((draws.mean(0) - found.mean) / sd).max() < 4.5 / np.sqrt(count)
    assert np.abs((np.cov(draws.T) - cov) / np.outer(sd, sd)).max() < 4.5 * np.sqrt(2 / count)


@pytest.mark.parametrize("shape", [(6, 3), (2, 6)])
def test_gradients_of_the_dense_route(shape):
    """Of parameters inside the residuals, against automatic derivatives of the marginal covariance."""
    rng = np.random.default_rng(2)
    jacobian, offset = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(size=shape[0]))

    def ours(theta):
        return whitened(
            lambda z: (offset + jnp.sin(theta[0] * jacobian) @ z) / theta[1], shape[1]
        ).log_integral

    def theirs(theta):
        j, e = jnp.sin(theta[0] * jacobian) / theta[1], offset / theta[1]
        cov = jnp.eye(shape[0]) + j @ j.T
        return -0.5 * (e @ jnp.linalg.solve(cov, e) + jnp.linalg.slogdet(cov)[1])

    theta = jnp.array([0.7, 1.3])
    np.testing.assert_allclose(jax.jit(jax.grad(ours))(theta), jax.jit(jax.grad(theirs))(theta), rtol=1e-10)


def test_a_process_whose_covariance_is_nearly_singular():
    """Condition 1e14: the root enters, no inverse of the covariance; 60 digits for the marginal."""
    n, noise = 12, 0.1
    x = np.linspace(0, 1, n)
    gram = np.exp(-0.5 * (x[:, None] - x[None]) ** 2 / 0.6**2)
    gram = gram + 5e-14 * np.eye(n)
    assert np.linalg.cond(gram) > 1e13
    y, lower = np.sin(6 * x), np.linalg.cholesky(gram)
    found = whitened(lambda z: (jnp.asarray(y) - jnp.asarray(lower) @ z) / noise, n)
    with mpmath.workdps(60):
        cov = mpmath.matrix((gram / noise**2 + np.eye(n)).tolist())
        e = mpmath.matrix((y / noise).tolist())
        value = -((e.T * mpmath.lu_solve(cov, e))[0] + mpmath.log(mpmath.det(cov))) / 2
    np.testing.assert_allclose(float(found.log_integral), float(value), rtol=1e-11)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
def test_no_row_has_two_columns_of_one_colour(seed, num_rows, num_columns):
    rng = np.random.default_rng(seed)
    pattern = rng.random((num_rows, num_columns)) < rng.random()
    rows, cols = np.nonzero(pattern)
    colour = colour_columns(rows, cols, num_columns)
    for row in range(num_rows):
        own = colour[pattern[row]]
        assert len(set(own.tolist())) == len(own)
    assert colour.max() < num_columns


def test_colours_of_a_long_chain_are_few():
    steps = np.arange(50_000)
    colour = colour_columns(np.r_[steps, steps], np.r_[steps, steps + 1], 50_001)
    assert colour.max() == 1


def hierarchy(group, num_groups):
    """Rows and columns of the residuals below: a mean, effects of groups, readings."""
    n = len(group)
    effects, readings = 1 + np.arange(num_groups), 1 + num_groups + np.arange(n)
    rows = np.r_[0, effects, effects, readings]
    cols = np.r_[0, np.zeros(num_groups, int), effects, 1 + group]
    return rows, cols, (1 + num_groups + n, 1 + num_groups)


def residuals(group, num_groups, y, tau, sigma):
    """Of the latents themselves, and of their noise."""

    def sparse(x):
        return jnp.concatenate([x[:1] / 5.0, (x[1:] - x[0]) / tau, (y - x[1:][group]) / sigma])

    def dense(z):
        effects = 5.0 * z[0] + tau * z[1:]
        return (y - effects[group]) / sigma

    return sparse, dense


def test_both_routes_agree_and_new_groups_run_the_same_program():
    """Evidence with all constants, its gradient, by both routes; one trace for three data sets."""
    n, num_groups = 120, 15

    def sparse_evidence(theta, route, group, y):
        found = route.of(residuals(group, num_groups, y, *theta)[0])
        spreads = jnp.log(5.0) + num_groups * jnp.log(theta[0]) + n * jnp.log(theta[1])
        return found.log_integral - spreads - 0.5 * (n + num_groups + 1) * jnp.log(2 * jnp.pi)

    def dense_evidence(theta, group, y):
        found = whitened(residuals(group, num_groups, y, *theta)[1], num_groups + 1)
        return found.log_integral - n * jnp.log(theta[1]) - 0.5 * n * jnp.log(2 * jnp.pi)

    counted = count_traces(sparse_evidence)
    sparse = jax.jit(jax.value_and_grad(counted))
    dense = jax.jit(jax.value_and_grad(dense_evidence))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        group = rng.permutation(np.r_[np.arange(num_groups), rng.integers(0, num_groups, n - num_groups)])
        route, y = plan_sparse(*hierarchy(group, num_groups)), jnp.asarray(rng.normal(size=n))
        theta = jnp.array([0.5, 1.5])
        ours, theirs = sparse(theta, route, group, y), dense(theta, group, y)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-11)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9)
        cov = 25.0 + 0.25 * (group[:, None] == group[None]) + 2.25 * np.eye(n)
        told = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * np.pi * cov)[1])
        np.testing.assert_allclose(ours[0], told, rtol=1e-11)
    assert counted.count == 1


def test_the_route_is_chosen_by_cost():
    steps = np.arange(999)
    chain = (
        np.r_[steps, steps, np.arange(999, 2000)],
        np.r_[steps, steps + 1, np.arange(1000), 0],
        (2000, 1000),
    )
    assert choose_route(1000, plan_sparse(*chain)) == "sparse"
    rows, cols = np.divmod(np.arange(40 * 20), 20)
    assert choose_route(40, plan_sparse(rows, cols, (40, 20))) == "dense"


def test_refusals():
    with pytest.raises(ValueError, match="`e` must be a function to a vector"):
        whitened(lambda z: z.sum(), 2)
    with pytest.raises(ValueError, match="`e` must be 3 residuals"):
        plan_sparse([0, 1, 2], [0, 0, 1], (3, 2)).of(lambda x: x)
