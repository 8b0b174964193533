"""Gauss-Newton and Kronecker-factored precisions: dense Hessians, conjugate regression, explicit products."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tractable.inference.curvature.gauss_newton import ggn, ggn_curvature
from tractable.inference.curvature.kronecker import dense_network, kronecker_curvature
from tractable.inference.curvature.laplace import laplace


def squared(output, y):
    return 0.5 * jnp.sum((output - y) ** 2)


def cross_entropy(output, y):
    return jax.nn.logsumexp(output) - output[y]


def network(widths=(2, 4, 3), seed=0):
    generator = np.random.default_rng(seed)
    pairs = itertools.pairwise(widths)
    return [
        (jnp.asarray(generator.normal(size=(o, i))), jnp.asarray(generator.normal(size=o))) for i, o in pairs
    ]


def data(num_rows=7, seed=1):
    generator = np.random.default_rng(seed)
    return jnp.asarray(generator.normal(size=(num_rows, 2))), jnp.asarray(generator.integers(0, 3, num_rows))


def forward(layers, x):
    """The network in NumPy."""
    (w1, b1), (w2, b2) = [tuple(np.asarray(v) for v in layer) for layer in layers]
    return w2 @ np.tanh(w1 @ x + b1) + b2


def test_matrix_is_the_sum_of_jacobian_products():
    layers, (xs, ys) = network(), data()
    flat, unravel = ravel_pytree(layers)
    total = np.zeros((flat.size, flat.size))
    one = jax.jit(jax.jacobian(lambda u, x: dense_network(unravel(u), x)))
    for x in np.asarray(xs):
        jacobian, z = np.asarray(one(flat, x)), forward(layers, x)
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        total += jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian
    np.testing.assert_allclose(ggn(dense_network, cross_entropy, layers, xs, ys), total, atol=1e-10)


def test_it_is_the_hessian_where_residuals_vanish():
    layers, (xs, _) = network(), data()
    ys = jnp.stack([forward(layers, x) for x in np.asarray(xs)])
    flat, unravel = ravel_pytree(layers)

    def loss(u):
        return jax.vmap(lambda x, y: squared(dense_network(unravel(u), x), y))(xs, ys).sum()

    hessian = jax.jit(jax.hessian(loss))(flat)
    np.testing.assert_allclose(ggn(dense_network, squared, layers, xs, ys), hessian, atol=1e-9)


def joint(layers, xs, ys):
    losses = jax.vmap(lambda x, y: squared(dense_network(layers, x), y))(xs, ys)
    return -losses.sum() - 0.25 * sum((leaf**2).sum() for leaf in jax.tree.leaves(layers))


@pytest.mark.parametrize("factored", [False, True], ids=["dense", "kronecker"])
def test_one_layer_with_squared_loss_is_the_conjugate_posterior(factored):
    generator = np.random.default_rng(3)
    xs, ys = generator.normal(size=(9, 2)), generator.normal(size=(9, 3))
    start = [(jnp.zeros((3, 2)), jnp.zeros(3))]
    curvature = kronecker_curvature(squared, 0.5) if factored else ggn_curvature(dense_network, squared, 0.5)
    post = laplace(joint, start, args=(xs, ys), curvature=curvature)
    design = np.c_[xs, np.ones(9)]
    precision = design.T @ design + 0.5 * np.eye(3)
    solution = np.linalg.solve(precision, design.T @ ys)
    np.testing.assert_allclose(post.mode[0][0], solution[:2].T, atol=1e-7)
    # each output has the same covariance; flat order: weights row by row, then the biases
    inverse = np.linalg.inv(precision)
    order = [(o, i) for o in range(3) for i in range(2)] + [(o, 2) for o in range(3)]
    expected = [[inverse[i, j] * (a == b) for b, j in order] for a, i in order]
    np.testing.assert_allclose(post.gaussian.cov, expected, atol=1e-10)
    log_det = 3 * np.linalg.slogdet(precision)[1]
    np.testing.assert_allclose(post.precision.log_det(), log_det, rtol=1e-10)


def test_kronecker_blocks_are_products_of_the_factors():
    layers, (xs, ys) = network(), data()
    found = kronecker_curvature(cross_entropy, 0.3)(layers, xs, ys)
    (w1, b1), (w2, _) = [tuple(np.asarray(v) for v in layer) for layer in layers]
    inner, outer = [np.zeros((3, 3)), np.zeros((5, 5))], [np.zeros((4, 4)), np.zeros((3, 3))]
    for x in np.asarray(xs):
        hidden = np.tanh(w1 @ x + b1)
        z = forward(layers, x)
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        curvature = np.diag(p) - np.outer(p, p)
        back = w2 * (1 - hidden**2)
        for l, (a, j) in enumerate([(np.r_[x, 1], back), (np.r_[hidden, 1], np.eye(3))]):
            inner[l] += np.outer(a, a)
            outer[l] += j.T @ curvature @ j / len(xs)
    start = 0
    covariance = np.asarray(found.covariance())
    for l in range(2):
        outs, ins = len(outer[l]), len(inner[l])
        dense = np.kron(outer[l], inner[l]) + 0.3 * np.eye(outs * ins)  # (o, i) row by row, bias in column i
        order = [o * ins + i for o in range(outs) for i in range(ins - 1)]
        order += [o * ins + ins - 1 for o in range(outs)]
        block = covariance[start : start + outs * ins, start : start + outs * ins]
        np.testing.assert_allclose(block, np.linalg.inv(dense)[np.ix_(order, order)], atol=1e-9)
        start += outs * ins
    assert start == found.size
    z = jr.normal(jr.key(0), (found.size,))
    np.testing.assert_allclose(found.quadratic(found.root(z)), z @ z, rtol=1e-9)


def test_network_posterior_widens_away_from_the_data():
    xs = jnp.linspace(-1.0, 1.0, 20)[:, None]
    ys = jnp.sin(3 * xs)
    start = network((1, 5, 1), seed=4)
    curvature = ggn_curvature(dense_network, squared, 0.5)
    post = laplace(joint, start, args=(xs, ys), curvature=curvature, max_steps=2000)
    assert post.ok, post.verdict
    inside = post.predictive(dense_network, jnp.asarray([0.0]))
    outside = post.predictive(dense_network, jnp.asarray([4.0]))
    assert outside.cov[0, 0] > 2 * inside.cov[0, 0]


def test_bad_input_is_named():
    layers, (xs, ys) = network(), data()
    with pytest.raises(ValueError, match="`targets` must be as long as `inputs` \\(7\\); got 6"):
        ggn(dense_network, cross_entropy, layers, xs, ys[:6])
    with pytest.raises(ValueError, match="`prior_precision` must be zero or positive"):
        kronecker_curvature(squared, -1.0)
    with pytest.raises(ValueError, match="`layers` must be a list of"):
        dense_network([], xs[0])
