# ruff: noqa: E731
"""Dependence against brute force: every element is changed, and what changes with it is in the pattern."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.programs.random_functions import LOOSE, MARKS, TIGHT, changes, inputs, random_function
from tractable.distributions import Bernoulli, Categorical, Gaussian, Normal
from tractable.programs import carry_lags, element_sets
from tractable.programs.dependence import dependence, depends_on, patterns, rests_on
from tractable.programs.host_values import HOST
from tractable.programs.tape import evaluate, record


def matrices(function, arguments, moving=None):
    """The patterns of a function's outputs as dense arrays; of zeros where there is no dependence."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    values = jax.tree.leaves(arguments)
    moving = [True] * len(values) if moving is None else moving
    width = sum(np.size(value) for value, mark in zip(values, moving) if mark)
    found = dependence(closed, moving, values)
    sizes = [int(np.prod(each.shape)) for each in jax.tree.leaves(shapes)]
    return [np.zeros((n, width), bool) if m is None else m.toarray() for m, n in zip(found, sizes)]


def drawn(seed, names):
    rng = np.random.default_rng(seed)
    function = random_function(rng, list(names))
    arguments = [jnp.asarray(each) for each in inputs(rng)]
    return function, arguments, changes(function, rng)


@pytest.mark.parametrize("first", [0, 40, 80])
def test_exact_for_generic_functions(first):
    for seed in range(first, first + 40):
        function, arguments, truth = drawn(seed, TIGHT)
        for found, true in zip(matrices(function, arguments, MARKS), truth):
            np.testing.assert_array_equal(found, true, err_msg=f"seed {seed}")


@pytest.mark.parametrize("first", [0, 40, 80])
def test_misses_nothing(first):
    names, entries, needed = [*TIGHT, *LOOSE, *LOOSE], 0, 0
    for seed in range(first, first + 40):
        function, arguments, truth = drawn(1_000_000 + seed, names)
        for found, true in zip(matrices(function, arguments, MARKS), truth):
            assert not (true & ~found).any(), f"seed {seed}"
            entries, needed = entries + found.sum(), needed + true.sum()
    assert needed > 0.75 * entries  # and says little more than it must


def test_sites_of_a_program():
    county, x = np.array([0, 1, 1, 2]), np.ones(4)

    def program(alpha, beta, sigma, y):
        law = Normal(alpha[county] + beta * x, sigma)
        return law.loc, jax.vmap(lambda loc, v: Normal(loc, sigma).log_prob(v))(law.loc, y), law.scale

    arguments = (jnp.ones(3), 1.0, 1.0, jnp.zeros(4))
    loc, log_probs, scale = matrices(program, arguments, [True, True, True, False])
    groups = np.eye(3, dtype=bool)[county]
    np.testing.assert_array_equal(loc, np.column_stack([groups, np.ones(4, bool), np.zeros(4, bool)]))
    np.testing.assert_array_equal(log_probs, np.column_stack([groups, np.ones((4, 2), bool)]))
    assert scale.tolist() == [[False] * 4 + [True]]
    closed = jax.make_jaxpr(program)(*arguments)
    assert depends_on(closed, [True, True, True, False]) == [{0, 1}, {0, 1, 2}, {2}]


def test_log_densities():
    vector = lambda z, p: jax.vmap(lambda z: Categorical(probs=p).log_prob(z))(z)
    (found,) = matrices(vector, (jnp.array([0, 1]), jnp.ones(3) / 3))
    np.testing.assert_array_equal(found, [[1, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    (found,) = matrices(
        lambda z, p: jax.vmap(lambda z, p: Bernoulli(p).log_prob(z))(z, p),
        (jnp.array([0, 1]), jnp.full(2, 0.3)),
    )
    np.testing.assert_array_equal(found, [[1, 0, 1, 0], [0, 1, 0, 1]])
    joint = lambda x, mean: Gaussian(mean, jnp.eye(3)).log_prob(x)
    (found,) = matrices(joint, (jnp.zeros(3), jnp.ones(3)))
    assert found.all()


def test_indices_that_are_latent():
    """The index itself and all that it may pick; where one column of it is data, only what that leaves."""
    z, means, table, y = jnp.array([0, 1, 1]), jnp.ones((3, 2)), jnp.ones((3, 2)), jnp.array([1, 0, 1])
    (found,) = matrices(lambda z, means: means[z], (z, means))
    expected = np.zeros((3, 2, 9), bool)
    for n in range(3):
        for d in range(2):
            expected[n, d, [n, 3 + d, 5 + d, 7 + d]] = True
    np.testing.assert_array_equal(found, expected.reshape(6, 9))
    (found,) = matrices(lambda z, table, y: table[z, y], (z, table, y), [True, True, False])
    expected = [
        [n == i for i in range(3)] + [j == y[n] for _ in range(3) for j in range(2)] for n in range(3)
    ]
    np.testing.assert_array_equal(found, expected)
    (found,) = matrices(lambda z: jnp.log(table @ table.T)[z[:-1], z[1:]], (z,))
    np.testing.assert_array_equal(found, [[1, 1, 0], [0, 1, 1]])
    # a latent among values that are known, at known places
    (found,) = matrices(lambda z, t: t[jnp.concatenate([jnp.array([2]), z])], (z[:1], jnp.ones(3)))
    np.testing.assert_array_equal(found, [[0, 0, 0, 1], [1, 1, 1, 1]])
    start = lambda k, v: jax.lax.dynamic_slice(v, (k, 0), (2, 2))
    (found,) = matrices(start, (0, jnp.ones((3, 2))))
    np.testing.assert_array_equal(found, [[1, 1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0, 1]] * 2)
    update = lambda k, v, u: jax.lax.dynamic_update_slice(v, u, (k,))
    (found,) = matrices(update, (0, jnp.ones(3), jnp.ones(1)))
    np.testing.assert_array_equal(found, [[1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [1, 0, 0, 1, 1]])


def test_branches_and_loops():
    v = jnp.ones(3)
    branch = lambda p, v: jax.lax.cond(p > 0, lambda v: v, lambda v: v[::-1] * jnp.ones(3), v)
    np.testing.assert_array_equal(matrices(branch, (1, v), [False, True])[0], np.eye(3))
    np.testing.assert_array_equal(matrices(branch, (0, v), [False, True])[0], np.eye(3)[::-1])
    both = [[1, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 1]]
    np.testing.assert_array_equal(matrices(branch, (1.0, v))[0], both)
    shift = lambda n, v: jax.lax.fori_loop(0, n, lambda i, c: jnp.concatenate([v[:1], c[:-1]]), v)
    np.testing.assert_array_equal(matrices(shift, (2, v), [False, True])[0], np.tri(3))
    assert matrices(shift, (2, v))[0][:, 0].all()  # a latent number of rounds decides on all
    rounds = lambda v: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: 2 * c, v)
    assert matrices(rounds, (v,))[0].all()


def test_calls_and_solves():
    v, a = jnp.ones(3), jnp.eye(3) + jnp.ones((3, 3))
    for wrapped in [
        jax.checkpoint(jnp.sin),
        jax.nn.relu,
        jax.jit(jnp.sin),
        jax.lax.stop_gradient,
        jax.nn.softplus,
    ]:
        np.testing.assert_array_equal(matrices(wrapped, (v,))[0], np.eye(3), err_msg=str(wrapped))
    columns = lambda b: jnp.linalg.solve(a, b)
    np.testing.assert_array_equal(matrices(columns, (jnp.ones((3, 2)),))[0], np.tile(np.eye(2), (3, 3)))
    lower = np.kron(np.eye(2), np.outer(np.tri(3).ravel(), np.ones(9)))  # what is above is zero
    np.testing.assert_array_equal(matrices(jnp.linalg.cholesky, (jnp.stack([a, a]),))[0], lower)
    assert matrices(lambda x: jnp.fft.fft(x).real, (v,))[0].all()
    unknown = lambda x: jax.pure_callback(lambda x: np.asarray(x), jax.ShapeDtypeStruct((3,), v.dtype), x)
    assert matrices(unknown, (v,))[0].all()


def test_keys_are_no_obstacle():
    noisy = lambda key, v: v + jax.random.normal(key, (3,))
    np.testing.assert_array_equal(
        matrices(noisy, (jax.random.key(0), jnp.ones(3)), [False, True])[0], np.eye(3)
    )


def test_what_a_pattern_rests_on():
    closed = jax.make_jaxpr(lambda x, i, y, flag: jnp.where(flag, x[i], y))(jnp.ones(3), 0, 1.0, True)
    assert rests_on(closed, [True, False, False, False]) == {1, 3}
    with pytest.raises(ValueError, match="moving"):
        dependence(closed, [True], [1.0])
    with pytest.raises(ValueError, match="values"):
        dependence(closed, [True, False, False, False], [1.0])


def chain(first, xs, ys):
    """Second-order chain of given values, observed: the density of each step."""

    def step(before, row):
        x, y = row
        mean = 0.3 * before[0] + 0.2 * before[1]
        return (x, before[0]), Normal(mean, 1.0).log_prob(x) + Normal(x, 1.0).log_prob(y)

    return jax.lax.scan(step, first, (xs, ys))[1]


@pytest.mark.parametrize("length", [1000, 100_000])
def test_long_chains_are_windows(length):
    arguments = ((1.0, 1.0), jnp.ones(length), jnp.ones(length))
    closed = jax.make_jaxpr(chain)(*arguments)
    values = jax.tree.leaves(arguments)
    start = time.process_time()
    (found,) = dependence(closed, [True, True, True, False], values)
    assert time.process_time() - start < (1.0 if length == 1000 else 5.0)
    rows = np.repeat(np.arange(length), 3)
    # columns: the last and the one before it, then the chain
    columns = np.stack([np.arange(length) - 1, np.arange(length), np.arange(length) + 1], axis=1) + 1
    columns[0], columns[1] = [0, 1, 2], [0, 2, 3]
    np.testing.assert_array_equal(found.indptr, np.arange(0, 3 * length + 1, 3))
    np.testing.assert_array_equal(rows, np.repeat(np.arange(length), np.diff(found.indptr)))
    np.testing.assert_array_equal(np.sort(found.indices.reshape(length, 3), axis=1), columns)


def test_many_rows_and_latents():
    rng = np.random.default_rng(0)
    county, x = rng.integers(10_000, size=100_000), np.ones(100_000)

    def program(alpha, beta, sigma, y):
        return jax.vmap(lambda loc, v: Normal(loc, sigma).log_prob(v))(alpha[county] + beta * x, y)

    arguments = (jnp.ones(10_000), 1.0, 1.0, jnp.ones(100_000))
    closed = jax.make_jaxpr(program)(*arguments)
    start = time.process_time()
    (found,) = dependence(closed, [True, True, True, False], arguments)
    assert time.process_time() - start < 2.0
    assert found.nnz == 300_000
    np.testing.assert_array_equal(found.indices.reshape(-1, 3)[:, 0], county)


def test_dense_patterns_share_rows():
    """A sum over all latents in every row: one set, however many rows."""
    closed = jax.make_jaxpr(lambda v, x: v.sum() * x)(jnp.ones(10_000), jnp.ones(100_000))
    (found,) = patterns(closed, [True, False], [jnp.ones(10_000), jnp.ones(100_000)])
    assert found.sets.shape == (1, 10_000)
    assert found.num_entries == 10**9
    with pytest.raises(ValueError, match="1000000000 entries"):
        found.to_csr()


def test_beyond_the_limits_patterns_grow_and_never_shrink(monkeypatch):
    walk = lambda x: jax.lax.scan(lambda c, r: (c + r, c * r), 0.0, x)[1]
    exact = matrices(walk, (jnp.ones(12),))[0]
    np.testing.assert_array_equal(exact, np.tri(12))
    monkeypatch.setattr(element_sets, "LIMIT", 20)
    monkeypatch.setattr(element_sets.ElementSets.__init__, "__defaults__", (20,))
    loose = matrices(walk, (jnp.ones(12),))[0]
    assert (loose >= exact).all()
    monkeypatch.undo()
    delay = lambda x: jax.lax.scan(lambda c, r: (jnp.append(c[1:], r), c[0]), jnp.zeros(5), x)[1]
    exact = matrices(delay, (jnp.ones(12),))[0]
    np.testing.assert_array_equal(exact, np.eye(12, k=-5))
    monkeypatch.setattr(carry_lags, "MAX_LAGS", 3)
    loose = matrices(delay, (jnp.ones(12),))[0]
    assert (loose >= exact).all()
    assert loose.sum() > exact.sum()


def test_values_on_the_host_are_those_of_jax():
    """Each primitive of index arithmetic, with numbers of several kinds."""
    i, x = jnp.array([-3, 0, 5]), jnp.array([-1.5, jnp.nan, 2.5])

    def program(i, x):
        j = jnp.where(i < 0, i + 7, i).astype(jnp.int32)
        wide = jnp.broadcast_to(j[:, None], (3, 2)).T.reshape(-1)[::-1][1:5]
        flags = jnp.isfinite(x) & ~(x > 1) | (x == 2.5) | (x <= -9) | (i >= 5) | (i != i)
        numbers = jnp.concatenate(
            [jnp.clip(i, -1, 4), jax.lax.rem(i, jnp.array([2, 2, 3])), jnp.arange(3) - i * 2]
        )
        floats = jnp.floor(jnp.maximum(x, 0.5)) + jnp.minimum(-x, 1.0) * jnp.sign(x)
        return wide, flags, numbers, floats, jnp.squeeze(i[None], 0), x[:1].astype(int), i > 0

    tape = record(jax.make_jaxpr(program)(i, x))
    found = evaluate(tape, tape.outputs, [i, x])
    for slot, expected in zip(tape.outputs, program(i, x)):
        np.testing.assert_array_equal(found[slot], expected)
        assert found[slot].dtype == expected.dtype
    names = {step.name for step in tape.steps}
    assert names <= set(HOST)
    assert len(names) > 20
