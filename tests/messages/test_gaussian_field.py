"""Sparse Gaussians: every layout against dense NumPy, gradients, draws, improper fields, one program."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractable.core.iterate import count_traces
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.cost import Budget, TooLarge
from tractable.messages.gaussian_chain import GaussianChain
from tractable.messages.gaussian_field import GaussianField, log_integral, plan_field


def with_priors(rows, cols, num_rows, dim):
    """A pattern with one more row for each variable alone."""
    own = np.arange(dim)
    return np.r_[rows, num_rows + own], np.r_[cols, own], (num_rows + dim, dim)


def chain(length, size=1, border=0):
    """States of `size` that depend on all of the state before; readings that the border shifts."""
    pairs = [(t * size + i, t * size + j - size) for t in range(1, length) for i in range(size)
             for j in range(size)]  # fmt: skip
    rows, cols = map(list, zip(*pairs))
    own = list(range(size, length * size))
    rows, cols = rows + own, cols + own
    for b in range(border):
        rows, cols = rows + list(range(length * size)), cols + [length * size + b] * (length * size)
    return with_priors(np.array(rows), np.array(cols), length * size, length * size + border)


def groups(rng, num_rows, num_groups, fixed):
    """Rows with the effect of a group and `fixed` effects."""
    group = np.r_[np.arange(num_groups), rng.integers(0, num_groups, num_rows - num_groups)]
    rows, cols = np.arange(num_rows), [group, *(np.full(num_rows, num_groups + b) for b in range(fixed))]
    return with_priors(np.tile(rows, 1 + fixed), np.concatenate(cols), num_rows, num_groups + fixed)


def crossed(rng, num_rows, first, second):
    """Rows with effects of two ways of grouping."""
    one = np.r_[np.arange(first), rng.integers(0, first, num_rows - first)]
    other = rng.permutation(np.r_[np.arange(second), rng.integers(0, second, num_rows - second)])
    cols = np.r_[one, first + other]
    return with_priors(np.tile(np.arange(num_rows), 2), cols, num_rows, first + second)


def nested(num_outer, num_inner):
    """Effects of inner groups around those of outer ones, and one mean of all."""
    dim = num_outer * (num_inner + 1) + 1
    inner = np.arange(num_outer * num_inner)
    outer = num_outer * num_inner + inner // num_inner
    tops = num_outer * num_inner + np.arange(num_outer)
    rows = np.r_[inner, inner, len(inner) + np.arange(num_outer), len(inner) + np.arange(num_outer)]
    cols = np.r_[inner, outer, tops, np.full(num_outer, dim - 1)]
    return with_priors(rows, cols, len(inner) + num_outer, dim)


def full(num_rows, dim):
    rows, cols = np.divmod(np.arange(num_rows * dim), dim)
    return rows, cols, (num_rows, dim)


def numbers(rng, rows, shape):
    return jnp.asarray(rng.normal(size=len(rows))), jnp.asarray(rng.normal(size=shape[0]))


def dense(rows, cols, shape, values, offset):
    """Log-integral, mean and covariance by dense algebra."""
    is_traced = isinstance(values, jax.core.Tracer) or isinstance(offset, jax.core.Tracer)
    matrix: Any = np.zeros(shape)
    if is_traced:
        matrix = jnp.zeros(shape).at[rows, cols].set(values)
    else:
        values, offset = np.asarray(values), np.asarray(offset)
        matrix[rows, cols] = values
    linalg: Any = jnp.linalg if is_traced else np.linalg
    precision, force = matrix.T @ matrix, -matrix.T @ offset
    mean = linalg.solve(precision, force)
    rest = offset + matrix @ mean
    value = -0.5 * (rest @ rest + linalg.slogdet(precision)[1] - shape[1] * np.log(2 * np.pi))
    return value, mean, linalg.inv(precision)


def agrees(plan, pattern, values, offset):
    rows, cols, shape = pattern
    field = GaussianField.of(plan, values, offset)
    value, mean, cov = dense(rows, cols, shape, values, offset)
    assert bool(field.regular)
    np.testing.assert_allclose(field.log_integral, value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(field.mean, mean, rtol=1e-7, atol=1e-8 * float(np.abs(mean).max()))
    scale = float(np.abs(cov).max())
    np.testing.assert_allclose(field.variances(), np.diag(cov), rtol=1e-7, atol=1e-8 * scale)
    order = np.argsort(rows, kind="stable")
    first, second = cols[order][:-1], cols[order][1:]
    shared = rows[order][:-1] == rows[order][1:]
    found = field.covariances(first[shared], second[shared])
    np.testing.assert_allclose(found, cov[first[shared], second[shared]], rtol=1e-6, atol=1e-8 * scale)
    matrix = np.zeros(shape)
    matrix[rows, cols] = values
    np.testing.assert_allclose(field.row_variances(), np.diag(matrix @ cov @ matrix.T), atol=1e-8)


RNG = np.random.default_rng(0)
PATTERNS = {
    "chain with border": (chain(40, 2, 2), None, "chain of 40 blocks of 2, border of 2"),
    "one": (full(1, 1), None, "dense, 1 variable"),
    "full": (full(12, 5), None, "dense, 5 variables"),
    "wide blocks": (chain(12, 6), [], "chain of 3 blocks of 24"),
    "long": (chain(200), None, "chain of 100 blocks of 2"),
    "groups": (groups(RNG, 120, 30, 2), [30, 31], "30 blocks of 1, border of 2"),
    "crossed": (crossed(RNG, 60, 20, 6), list(range(20, 26)), "20 blocks of 1, border of 6"),
    "nested": (nested(12, 5), [72], "12 blocks of 6, border of 1"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_every_layout_equals_dense_algebra(name):
    pattern, border, words = PATTERNS[name]
    rows, cols, shape = pattern
    plan = plan_field(rows, cols, shape, border=border)
    assert str(plan) == words
    values, offset = numbers(np.random.default_rng(1), rows, shape)
    agrees(plan, pattern, values, offset)


@pytest.mark.parametrize("name", PATTERNS)
def test_gradients_are_those_of_dense_algebra(name):
    (rows, cols, shape), border, _ = PATTERNS[name]
    plan = plan_field(rows, cols, shape, border=border)
    values, offset = numbers(np.random.default_rng(2), rows, shape)
    found = jax.jit(jax.grad(log_integral, (1, 2)))(plan, values, offset)
    told = jax.jit(jax.grad(lambda v, e: dense(rows, cols, shape, v, e)[0], (0, 1)))(values, offset)
    for ours, theirs in zip(found, told):
        np.testing.assert_allclose(
            ours, theirs, rtol=1e-6, atol=1e-8 * max(1.0, float(jnp.abs(theirs).max()))
        )


@given(st.data())
@settings(max_examples=6)
def test_random_patterns_and_borders(data):
    """Disconnected ones too; the oracle is dense."""
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    dim, extra = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 6))
    entries = np.unique(rng.integers(0, [max(extra, 1), dim], (3 * extra, 2)), axis=0)
    pattern = with_priors(entries[:, 0], entries[:, 1], max(extra, 1), dim)
    chosen = data.draw(st.sampled_from([None, [], list(range(dim // 2)), list(range(dim))]))
    agrees(plan_field(*pattern, border=chosen), pattern, *numbers(rng, pattern[0], pattern[2]))


def test_layouts_that_are_found():
    rng = np.random.default_rng(3)
    assert str(plan_field(*groups(rng, 919, 85, 3))) == "85 blocks of 1, border of 3"
    assert str(plan_field(*chain(1000, 2, 3))) == "chain of 1000 blocks of 2, border of 3"
    assert str(plan_field(*crossed(rng, 2000, 500, 50))) == "500 blocks of 1, border of 50"
    assert str(plan_field(*nested(300, 4))) == "300 chains of 3 blocks of 3, border of 1"
    rows, cols, shape = chain(400)
    alone = np.arange(300)
    both = np.r_[rows, shape[0] + alone], np.r_[cols, shape[1] + alone], (shape[0] + 300, shape[1] + 300)
    assert len(plan_field(*both, border=[]).banks) == 2  # a chain, and many variables by themselves


def test_a_state_space_model_has_the_evidence_of_its_chain():
    """Evidence, means and variances of T = 200, with residuals that state the model."""
    rng, length = np.random.default_rng(4), 200
    move, noise = np.array([[0.9, 0.2], [0.1, 0.7]]), np.diag([0.5, 0.3])
    look, error, ys = np.array([[1.0, 0.5]]), np.array([[0.4]]), rng.normal(size=(length, 1))
    model = GaussianChain(
        Gaussian(np.zeros(2), np.eye(2)),
        LinearGaussian(move, np.zeros(2), noise**2),
        LinearGaussian(look, np.zeros(1), error**2),
    )
    matrix, offset = np.zeros((3 * length, 2 * length)), np.zeros(3 * length)
    for t in range(length):
        here, at = slice(2 * t, 2 * t + 2), slice(3 * t, 3 * t + 2)
        matrix[at, here] = np.linalg.inv(noise) if t else np.eye(2)
        if t:
            matrix[at, 2 * t - 2 : 2 * t] = -np.linalg.inv(noise) @ move
        matrix[3 * t + 2, here], offset[3 * t + 2] = -look[0] / error[0, 0], ys[t, 0] / error[0, 0]
    rows, cols = np.nonzero(matrix)
    plan = plan_field(rows, cols, matrix.shape)
    assert str(plan) == "chain of 200 blocks of 2"
    field = GaussianField.of(plan, jnp.asarray(matrix[rows, cols]), jnp.asarray(offset))
    spreads = (length - 1) * np.log(noise[0, 0] * noise[1, 1]) + length * np.log(error[0, 0])
    evidence = field.log_integral - spreads - 0.5 * 3 * length * np.log(2 * np.pi)
    smooth = model.smooth(ys)
    np.testing.assert_allclose(evidence, smooth.log_evidence, rtol=0, atol=1e-9)
    np.testing.assert_allclose(field.mean.reshape(length, 2), smooth.marginals.mean, atol=1e-10)
    variances = np.diagonal(smooth.marginals.cov, axis1=1, axis2=2)
    np.testing.assert_allclose(field.variances().reshape(length, 2), variances, rtol=1e-9)


@pytest.mark.parametrize("name", ["chain with border", "nested"])
def test_draws_have_mean_and_covariance(name):
    (rows, cols, shape), border, _ = PATTERNS[name]
    plan = plan_field(rows, cols, shape, border=border)
    rng, count = np.random.default_rng(5), 20_000
    values = jnp.asarray(0.3 * rng.normal(size=len(rows)) + 1.0)
    field = GaussianField.of(plan, values, jnp.asarray(rng.normal(size=shape[0])))
    draws = np.asarray(jax.jit(jax.vmap(field.draw))(jr.split(jr.key(0), count)))
    _, mean, cov = dense(rows, cols, shape, values, jnp.zeros(shape[0]))
    sd = np.sqrt(np.diag(cov))
    assert np.abs((draws.mean(0) - field.mean) / sd).max() < 5 / np.sqrt(count)
    correlation = np.cov(draws.T) / np.outer(sd, sd)
    assert np.abs(correlation - cov / np.outer(sd, sd)).max() < 6 * np.sqrt(2 / count)
    assert mean.shape == draws.shape[1:]


def test_an_improper_field_is_said_to_be_so():
    rows, cols, (num_rows, dim) = chain(50)
    walk = rows < num_rows - dim  # without the rows of one variable
    keep = walk & (rows > 0)
    plan = plan_field(rows[keep], cols[keep], (num_rows, dim))
    rng = np.random.default_rng(6)
    steps = rng.uniform(0.5, 2.0, num_rows)[rows[keep]]
    values = jnp.asarray(np.where(rows[keep] == cols[keep], steps, -steps))
    field = GaussianField.of(plan, values, jnp.zeros(num_rows))
    assert not bool(field.regular)
    assert np.isnan(field.log_integral)
    assert np.isnan(field.mean).all()
    assert np.isnan(field.draw(jr.key(0))).all()


def test_new_numbers_and_new_indices_run_the_same_program():
    counted = count_traces(log_integral)
    compiled = jax.jit(jax.value_and_grad(counted, (1, 2)))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        pattern = groups(rng, 200, 40, 2)
        plan = plan_field(*pattern, border=[40, 41])
        compiled(plan, *numbers(rng, pattern[0], pattern[2]))
    assert counted.count == 1


@pytest.mark.thorough
def test_many_fields_at_once_and_second_derivatives():
    pattern = chain(6, 1, 1)
    plan = plan_field(*pattern, border=[6])
    pairs = [numbers(np.random.default_rng(seed), pattern[0], pattern[2]) for seed in range(3)]
    values, offsets = (jnp.stack(parts) for parts in zip(*pairs))
    many = jax.jit(jax.vmap(log_integral, in_axes=(None, 0, 0)))(plan, values, offsets)
    np.testing.assert_allclose(many, [log_integral(plan, *pair) for pair in pairs], rtol=1e-12)
    found = jax.jit(jax.hessian(log_integral, 2))(plan, *pairs[0])
    told = jax.jit(jax.hessian(lambda e: dense(*pattern, values[0], e)[0]))(offsets[0])
    np.testing.assert_allclose(found, told, atol=1e-8)


def test_refusals():
    with pytest.raises(ValueError, match="every column at least once; got none of column \\[1\\]"):
        plan_field([0, 1], [0, 2], (2, 3))
    with pytest.raises(ValueError, match="different places"):
        plan_field([0, 0], [0, 0], (1, 1))
    with pytest.raises(ValueError, match="from 0 to 1"):
        plan_field([0, 2], [0, 1], (2, 2))
    with pytest.raises(TooLarge, match="dense border of 5 "):
        plan_field(*full(12, 5), budget=Budget(max_bytes=100))
