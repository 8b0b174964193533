"""Mean field on tables and factor graphs: against loops, never falling, exact where the family allows it."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.variational import mean_field_sweeps
from tractable.core.iterate import Status
from tractable.inference.variational.cavi import discrete_cavi, factor_cavi, never_falls, product_table
from tractable.inference.variational.elbo import discrete_elbo


def random_table(seed, shape=(2, 3, 2)):
    random = np.random.default_rng(seed)
    return np.log(random.dirichlet(np.full(int(np.prod(shape)), 0.7)).reshape(shape)) - 1.5


@given(st.integers(0, 10_000))
def test_sweeps_match_loops_over_cells_and_the_bound_never_falls(seed):
    table = random_table(seed)
    found = discrete_cavi(table)
    uniform = [np.full(n, 1 / n) for n in table.shape]
    _, bounds = mean_field_sweeps(table, uniform, 3)
    made = min(3, len(found.values))
    np.testing.assert_allclose(found.values[:made], bounds[:made], rtol=1e-9)
    assert found.status is Status.converged
    assert (np.diff(found.values) > -1e-10 * (1 + np.abs(found.values[:-1]))).all()
    assert found.elbo <= np.log(np.exp(table).sum()) + 1e-12
    report = discrete_elbo(table, product_table(found.state))
    np.testing.assert_allclose(found.elbo, float(report.elbo), atol=1e-8)


def test_independent_variables_are_solved_exactly_in_one_sweep():
    a, b = np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])
    found = discrete_cavi(np.log(np.outer(a, b)))
    np.testing.assert_allclose(np.asarray(found.state[0]), a, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(found.state[1]), b, rtol=1e-12)
    np.testing.assert_allclose(found.elbo, 0.0, atol=1e-12)


def test_blocks_interpolate_between_mean_field_and_exact():
    table = random_table(3)
    evidence = np.log(np.exp(table).sum())
    split = discrete_cavi(table).elbo
    paired = discrete_cavi(table, blocks=[(2, 0), (1,)])
    whole = discrete_cavi(table, blocks=[(0, 1, 2)])
    assert paired.state[0].shape == (2, 2)
    assert split < paired.elbo + 1e-12
    np.testing.assert_allclose(whole.elbo, evidence, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(whole.state[0]), np.exp(table - evidence), rtol=1e-10)


def test_factor_graph_equals_its_joint_table():
    random = np.random.default_rng(5)
    unary = random.normal(size=(3, 2))
    pair = random.normal(size=(2, 2, 2))
    factors = [((i,), unary[i]) for i in range(3)] + [((0, 1), pair[0]), ((2, 1), pair[1])]
    joint = (
        unary[0][:, None, None] + unary[1][None, :, None] + unary[2][None, None] + pair[0][:, :, None]
        + pair[1].T[None]
    )  # fmt: skip
    graph, table = factor_cavi(factors), discrete_cavi(joint)
    for a, b in zip(graph.state, table.state):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-9)
    np.testing.assert_allclose(graph.elbo, table.elbo, rtol=1e-10)


def test_a_random_start_breaks_a_symmetric_saddle():
    coupling = np.log(np.array([[0.49, 0.01], [0.01, 0.49]]))
    stuck, free = discrete_cavi(coupling), discrete_cavi(coupling, key=jr.key(1))
    np.testing.assert_allclose(np.asarray(stuck.state[0]), 0.5)
    assert free.elbo > stuck.elbo + 0.1


def test_impossible_cells_are_avoided_or_reported():
    table = np.array([[0.0, -np.inf], [-1.0, -2.0]])
    found = discrete_cavi(table, blocks=[(0, 1)])
    assert float(found.state[0][0, 1]) == 0.0
    np.testing.assert_allclose(found.elbo, np.log(np.exp(table).sum()), rtol=1e-12)
    exclusive = discrete_cavi(np.array([[0.0, -np.inf], [-np.inf, 0.0]]))
    assert exclusive.status is Status.not_finite
    assert "NaN or infinite" in repr(exclusive)


def test_a_fall_is_called_by_its_name():
    converged = jnp.asarray(0)
    fallen, risen = jnp.array([-3.0, -2.0, -2.5, jnp.nan]), jnp.array([-3.0, -2.0, jnp.nan, jnp.nan])
    assert int(never_falls(fallen, converged)) == int(Status.decreased)
    assert int(never_falls(risen, converged)) == int(Status.converged)


def test_bad_factors_are_refused_by_name():
    with pytest.raises(ValueError, match=r"`factors\[1\]` must be of length 2 along variable 0; got 3"):
        factor_cavi([((0,), np.zeros(2)), ((0,), np.zeros(3))])
    with pytest.raises(ValueError, match=r"`factors\[0\]` must be a table with 2 axes"):
        factor_cavi([((0, 1), np.zeros(2))])
    with pytest.raises(ValueError, match="`factors` must be over variables without gaps"):
        factor_cavi([((1,), np.zeros(2))])
    with pytest.raises(ValueError, match="`blocks` must be each axis 0 to 1 once"):
        discrete_cavi(np.zeros((2, 2)), blocks=[(0,), (0,)])
    with pytest.raises(ValueError, match=r"`factors\[0\]` must be logarithms below infinity"):
        factor_cavi([((0,), np.array([np.nan, 0.0]))])
