"""Diagonal state-space layers against dense linear systems; convolution, recurrence and steps agree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import run
from tractable.neural import DiagonalSSM
from tractable.statespace import LinearSystem, discretise

modes = eqx.filter_jit(lambda layer, x: (layer(x), layer.recur(x)[1]))


def dense(layer, channel):
    """One channel as a real system of twice as many states, from its parameters alone."""
    pairs = layer.frequency.shape[1]
    A, B, C = np.zeros((2 * pairs, 2 * pairs)), np.zeros((2 * pairs, 1)), np.zeros((1, 2 * pairs))
    for n in range(pairs):
        real, imag = -np.exp(float(layer.log_decay[channel, n])), float(layer.frequency[channel, n])
        A[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = [[real, -imag], [imag, real]]
        B[2 * n] = 1.0
        C[0, 2 * n : 2 * n + 2] = (
            2 * float(layer.readout[channel, n, 0]),
            -2 * float(layer.readout[channel, n, 1]),
        )
    return LinearSystem(A, B, C)


@pytest.mark.cheap
@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_a_channel_is_the_discretised_dense_system(method):
    layer = DiagonalSSM(2, 3, method=method, steps=(0.05, 0.3), dtype=jnp.float64, key=jr.key(0))
    x = jr.normal(jr.key(1), (40, 2))
    found = modes(layer, x)
    for channel in range(2):
        held = discretise(dense(layer, channel), float(jnp.exp(layer.log_step[channel])), method)
        # outputs are read after the input of their time
        now = LinearSystem(held.A, held.B, held.C @ held.A, held.C @ held.B, held.step)
        wanted = now.simulate(x[:, channel]).outputs[:, 0] + float(layer.skip[channel]) * np.asarray(
            x[:, channel]
        )
        for mode in found:
            np.testing.assert_allclose(mode[:, channel], wanted, atol=1e-12)


@pytest.mark.cheap
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-10), ("float32", 1e-5)])
def test_modes_agree_at_ten_thousand_steps(dtype, tol):
    # the slowest channels that the range allows: rounding has the longest time to grow
    options = {"initial": "linear", "steps": (1e-3, 1e-3), "dtype": jnp.dtype(dtype)}
    layer = DiagonalSSM(3, 16, key=jr.key(0), **options)
    x = jr.normal(jr.key(1), (10_000, 3), jnp.dtype(dtype))
    convolved, recurred = modes(layer, x)
    assert convolved.dtype == recurred.dtype == dtype
    assert float(jnp.abs(convolved).max()) > 1
    np.testing.assert_allclose(convolved, recurred, rtol=0, atol=tol)
    if dtype == "float32":  # with states of single precision the modes are further apart than that
        rounded = single_precision(layer, x)
        assert float(jnp.abs(convolved - rounded).max()) > tol


@eqx.filter_jit
def single_precision(layer, x):
    factor, gain = (
        part.astype(jnp.complex64) for part in (jnp.exp(layer._discrete()[0]), layer._discrete()[1])
    )

    def step(state, u):
        state = factor * state + u[:, None]
        return state, 2 * (gain * state).sum(1).real + layer.skip * u

    return run(step, jnp.zeros(factor.shape, jnp.complex64), x).trace


def test_steps_continue_a_sequence():
    layer = DiagonalSSM(3, 4, initial="linear", key=jr.key(2))
    x = jr.normal(jr.key(3), (12, 3), jnp.float32)
    state, before = layer.recur(x[:9])
    outputs = [*before]
    for row in x[9:]:
        state, y = layer.step(state, row)
        outputs.append(y)
    np.testing.assert_allclose(jnp.stack(outputs), layer(x), atol=1e-5)
    assert state.shape == layer.start().shape  # whatever the length was


def test_no_parameters_are_unstable():
    layer = DiagonalSSM(2, 3, initial="inverse", dtype=jnp.float64, key=jr.key(4))
    for shift in (-800.0, -40.0, 5.0, 300.0):  # decays from zero to far beyond any use
        moved = eqx.tree_at(lambda one: one.log_decay, layer, layer.log_decay + shift)
        convolved, recurred = modes(moved, jnp.ones((50, 2)))
        assert np.isfinite(convolved).all()
        np.testing.assert_allclose(convolved, recurred, rtol=1e-9, atol=1e-9)
    assert (layer.poles.real < 0).all()


def test_gradients_of_the_convolution_are_those_of_the_recurrence():
    layer = DiagonalSSM(2, 2, dtype=jnp.float64, key=jr.key(5))
    x, weights = jr.normal(jr.key(6), (2, 30, 2))

    @eqx.filter_jit
    def slopes(layer):
        by = (lambda one: (weights * one(x)).sum(), lambda one: (weights * one.recur(x)[1]).sum())
        return tuple(eqx.filter_grad(one)(layer) for one in by)

    for a, b in zip(*(jax.tree.leaves(one) for one in slopes(layer))):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_padding_at_the_end_changes_nothing_before_it():
    layer = DiagonalSSM(2, 3, dtype=jnp.float64, key=jr.key(7))
    x = jr.normal(jr.key(8), (20, 2))
    longer = jnp.concatenate([x, jnp.zeros((11, 2))])
    np.testing.assert_allclose(layer(longer)[:20], layer(x), atol=1e-12)


def test_slips_are_named():
    layer = DiagonalSSM(2, 3, key=jr.key(9))
    for x, said in (
        (jnp.ones((0, 2)), "`x` must be of shape .length, 2., at least one time; got shape .0, 2."),
        (jnp.ones((4, 3)), "got shape .4, 3.. One sequence at a time"),
        (jnp.ones((4, 2)).at[1, 0].set(jnp.nan), "`x` must be finite; got nan at index .1, 0."),
    ):
        with pytest.raises(ValueError, match=said):
            layer(x)
    for options, said in (
        ({"steps": (0.1, 0.01)}, "`steps` must be two positive numbers, ascending"),
        ({"steps": (-0.1, 0.01)}, "`steps` must be two positive numbers"),
        ({"method": "tustin"}, "`method` must be one of 'zoh', 'bilinear'"),
        ({"initial": "random"}, "`initial` must be one of 'legs'"),
        ({"pairs": 0}, "`pairs` must be a whole number of at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            DiagonalSSM(2, key=jr.key(0), **options)
