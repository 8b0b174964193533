"""Neural ODEs against closed forms, and their gradients against the derivative of a matrix exponential."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.linalg import expm, expm_frechet

from tractable.neural import NeuralODE, ResidualNetwork, TimeField, solve_ode
from tractable.neural.residual import ResidualBlock


class Linear(eqx.Module):
    weights: jax.Array

    def __call__(self, t, y):
        return self.weights @ y


WEIGHTS = np.array([[-0.3, 2.0], [-1.5, -0.1]])
START = np.array([1.0, -0.5])


def growth(t, y):
    return y


def test_fixed_steps_reproduce_the_printed_numbers():
    times = np.arange(11) * 0.1
    euler = solve_ode(growth, jnp.ones(1), times, method="euler", steps=1)[:, 0]
    np.testing.assert_allclose(euler[jnp.array([1, 2, 3])], [1.1, 1.21, 1.331], rtol=1e-13)
    assert abs(float(euler[10]) - 2.5937424601) < 1e-10
    classic = solve_ode(growth, jnp.ones(1), times[:2], method="rk4", steps=1)
    assert abs(float(classic[1, 0]) - 1.1051708333) < 1e-10


@pytest.mark.thorough
def test_both_gradients_are_those_of_the_matrix_exponential():
    direction = np.array([0.7, -1.3])
    exact = expm(WEIGHTS)
    slope = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            bump = np.zeros((2, 2))
            bump[i, j] = 1.0
            slope[i, j] = direction @ expm_frechet(WEIGHTS, bump, compute_expm=False) @ START

    def value(weights, start, gradient):
        end = NeuralODE(Linear(weights), tol=1e-10, gradient=gradient)(start)
        return direction @ end

    for gradient in ("backpropagation", "adjoint"):
        asked = jax.jit(jax.value_and_grad(lambda w, s, g=gradient: value(w, s, g), (0, 1)))
        found, (by_weights, by_start) = asked(jnp.asarray(WEIGHTS), jnp.asarray(START))
        assert abs(float(found) - direction @ exact @ START) < 1e-8
        np.testing.assert_allclose(by_weights, slope, atol=1e-8)
        np.testing.assert_allclose(by_start, direction @ exact, atol=1e-8)


def test_a_residual_network_is_eulers_rule():
    field = TimeField(3, 8, 1, dtype=jnp.float64, key=jr.key(0))
    start = jr.normal(jr.key(1), (3,))
    network = ResidualNetwork([lambda h: field(0.0, h)] * 5, step=0.2)
    euler = NeuralODE(field, method="euler", steps=5)
    np.testing.assert_allclose(network(start), euler(start), rtol=0, atol=1e-14)
    # the sum of what the branches said, and the limit of many thin blocks
    path, total = [start], jnp.zeros(3)
    for block in network.blocks:
        total = total + block.branch(path[-1])
        path.append(block(path[-1]))
    np.testing.assert_allclose(network(start), start + 0.2 * total, atol=1e-14)
    smooth = NeuralODE(field, tol=1e-10)(start)
    errors = [
        float(jnp.abs(NeuralODE(field, method="euler", steps=n)(start) - smooth).max()) for n in (50, 100)
    ]
    assert 1.9 < errors[0] / errors[1] < 2.1


def test_the_jacobian_of_a_dead_block_is_the_identity():
    block = ResidualBlock(lambda h: jnp.zeros_like(h))
    np.testing.assert_array_equal(jax.jacobian(block)(jnp.ones(3)), np.eye(3))


def test_time_runs_backward_and_trees_are_states():
    class Spring(eqx.Module):
        def __call__(self, t, state):
            return {"place": state["speed"], "speed": -state["place"] + 0 * t}

    start = {"place": jnp.ones(1), "speed": jnp.zeros(1)}
    there = solve_ode(Spring(), start, [0.0, 1.0, 2.0], tol=1e-9)
    np.testing.assert_allclose(there["place"][:, 0], np.cos([0, 1, 2]), atol=1e-7)
    last = jax.tree.map(lambda leaf: leaf[-1], there)
    back = solve_ode(Spring(), last, [2.0, 0.0], method="rk4", steps=400)
    np.testing.assert_allclose(back["place"][-1], [1.0], atol=1e-7)


def test_single_precision_stays_single_precision():
    layer = NeuralODE(TimeField(2, 4, 1, with_time=True, key=jr.key(2)), method="rk4", steps=3)
    single = layer(jnp.ones(2, jnp.float32))
    assert single.dtype == jnp.float32
    adaptive = NeuralODE(layer.field, tol=1e-5)(jnp.ones(2, jnp.float32))
    assert adaptive.dtype == jnp.float32
    np.testing.assert_allclose(single, adaptive, atol=1e-3)


def test_what_has_no_solution_is_refused():
    with pytest.raises(Exception, match="`field` must have a solution up to the last"):
        solve_ode(lambda t, y: y**2, jnp.ones(1), [0.0, 2.0], max_steps=64)  # infinite at 1
    with pytest.raises(ValueError, match="`start` must be finite; got nan at index 1"):
        solve_ode(growth, np.array([1.0, np.nan]), [0.0, 1.0])
    with pytest.raises(ValueError, match="`times` must be strictly increasing or decreasing"):
        solve_ode(growth, [1.0], [0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`times` must be a list of at least two"):
        solve_ode(growth, [1.0], [0.0])
    with pytest.raises(ValueError, match="`gradient` must be backpropagation for fixed steps"):
        solve_ode(growth, [1.0], [0.0, 1.0], method="rk4", gradient="adjoint")
    with pytest.raises(ValueError, match="`branch` must be a function that keeps the shape"):
        ResidualBlock(lambda h: h[:1])(jnp.ones(2))
