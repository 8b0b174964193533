"""Recurrent cells against loops of NumPy, their gradients, padding, and how gradients flow."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.matrixcalculus import central_difference
from tractable.neural.gradient_flow import gradient_flow, memory_jacobian
from tractable.neural.lstm_backward import lstm_states
from tractable.neural.recurrent import GRUCell, LSTMCell, RNNCell, pad_sequences, unroll
from tractable.neural.recurrent_network import RecurrentNetwork

D, H, T = 2, 3, 6
XS = np.random.default_rng(0).normal(size=(T, D))
CELLS = [RNNCell, LSTMCell, GRUCell]


def make(kind, **options):
    """A cell in double precision with all biases away from zero."""
    cell = kind(D, H, key=jr.key(1), dtype=jnp.float64, **options)
    leaves, tree = jax.tree.flatten(cell)
    noise = np.random.default_rng(1)
    return jax.tree.unflatten(tree, [leaf + 0.3 * noise.normal(size=leaf.shape) for leaf in leaves])


def logistic(z):
    return 1 / (1 + np.exp(-z))


def oracle(cell, xs):
    """The outputs of a cell one number at a time, from the formulas of the gates."""
    W, b = np.asarray(cell.weight), np.asarray(cell.bias)
    h, C, outputs = np.zeros(H), np.zeros(H), []
    for x in xs:
        if isinstance(cell, GRUCell):
            both, own = x @ W[H:] + b, h @ W[:H]
            r, z = logistic(both[:H] + own[:H]), logistic(both[H : 2 * H] + own[H : 2 * H])
            n = np.tanh(both[2 * H :] + r * (own[2 * H :] + np.asarray(cell.recurrent_bias)))
            h = (1 - z) * n + z * h
        else:
            gates = np.concatenate([h, x]) @ W + b
            if isinstance(cell, RNNCell):
                h = np.tanh(gates)
            else:
                i, f, o = (logistic(gates[k * H : (k + 1) * H]) for k in range(3))
                C = f * C + i * np.tanh(gates[3 * H :])
                h = o * np.tanh(C)
        outputs.append(h)
    return np.array(outputs)


@pytest.mark.cheap
@pytest.mark.parametrize("kind", CELLS)
def test_outputs_are_those_of_the_formulas_and_of_single_steps(kind):
    cell = make(kind)
    outputs, last = unroll(cell, XS)
    np.testing.assert_allclose(outputs, oracle(cell, XS), atol=1e-14)
    state = cell.start()
    for x in XS:
        state = cell(jnp.asarray(x), state)
    for stepped, run in zip(jax.tree.leaves(state), jax.tree.leaves(last)):
        np.testing.assert_allclose(stepped, run, atol=1e-14)


def test_worked_numbers_of_the_lstm_and_of_forgetting():
    zero = LSTMCell(1, 1, forget_bias=0.0, key=jr.key(0), dtype=jnp.float64)
    zero = jax.tree.map(jnp.zeros_like, zero)
    h, C = zero(jnp.ones(1), (jnp.zeros(1), jnp.full(1, 0.5)))
    assert C[0] == 0.25
    np.testing.assert_allclose(h[0], 0.12245933, atol=5e-9)
    for bias, kept in ((1.0, 0.73106), (3.0, 0.95257), (5.0, 0.99331)):
        cell = LSTMCell(1, 1, forget_bias=bias, key=jr.key(0), dtype=jnp.float64)
        cell = jax.tree.map(lambda leaf: leaf * (leaf.ndim == 1), cell)  # no weights: biases alone
        _, C = cell(jnp.zeros(1), (jnp.zeros(1), jnp.ones(1)))
        np.testing.assert_allclose(C[0], kept, atol=5e-6)


def test_backward_pass_of_the_lstm_is_that_of_autodiff_and_of_differences():
    cell, weights = make(LSTMCell), np.random.default_rng(2).normal(size=(2, T, H))

    def seen(states):
        return (states[0] * weights[0]).sum() + (states[1] ** 2 * weights[1]).sum()

    def by_hand(recurrent, h, C, projected):
        return seen(lstm_states(recurrent, h, C, projected))

    def by_steps(recurrent, h, C, projected):
        def step(state, row):
            i, f, o, new = jnp.split(row + state[0] @ recurrent, 4)
            C = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(new)
            state = jax.nn.sigmoid(o) * jnp.tanh(C), C
            return state, state

        return seen(jax.lax.scan(step, (h, C), projected)[1])

    at = cell.weight[:H], jnp.full(H, 0.2), jnp.full(H, -0.4), cell.project(jnp.asarray(XS))
    found, wanted = (jax.jit(jax.grad(f, (0, 1, 2, 3)))(*at) for f in (by_hand, by_steps))
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    by_weight = central_difference(
        lambda w: by_hand(jnp.reshape(jnp.asarray(w), (H, 4 * H)), *at[1:]), at[0].ravel()
    )
    np.testing.assert_allclose(found[0].ravel(), np.ravel(by_weight), atol=1e-7)


@pytest.mark.cheap
@pytest.mark.parametrize("kind", CELLS)
def test_padding_changes_no_digit_and_no_gradient(kind):
    cell = make(kind)

    def loss(cell, xs, length):
        outputs, last = unroll(cell, xs, length=length)
        return (outputs**2).sum() + sum((leaf**3).sum() for leaf in jax.tree.leaves(last)), (outputs, last)

    both = jax.jit(jax.value_and_grad(loss, has_aux=True))
    zeros, noise = np.array(XS), np.array(XS)
    zeros[4:], noise[4:] = 0, np.nan
    one, other = both(cell, zeros, 4), both(cell, noise, 4)
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)))
    alone, last = unroll(cell, XS[:4])
    np.testing.assert_array_equal(one[0][1][0][:4], alone)
    np.testing.assert_array_equal(cell.output(one[0][1][1]), cell.output(last))
    assert (one[0][1][0][4:] == 0).all()


def test_empty_and_wrong_sequences():
    cell = make(LSTMCell)
    outputs, last = unroll(cell, np.zeros((0, D)))
    assert outputs.shape == (0, H)
    assert (last[1] == 0).all()
    outputs, last = unroll(cell, XS, length=0)
    assert (outputs == 0).all()
    assert (last[0] == 0).all()
    with pytest.raises(ValueError, match=r"`inputs` must be of shape \(any, 2\)"):
        unroll(cell, XS[None])
    with pytest.raises(ValueError, match=r"`inputs` must be finite; got nan at index \(1, 0\)"):
        unroll(cell, np.where(np.arange(T)[:, None] == 1, np.nan, XS))
    with pytest.raises(ValueError, match=r"`length` must be from 0 to the 6 places"):
        unroll(cell, XS, length=7)
    compiled = jax.jit(lambda length: unroll(cell, XS, length=length)[1])
    assert [bool(np.isnan(np.asarray(compiled(n))).all()) for n in (-1, 0, 6, 7)] == [
        True,
        False,
        False,
        True,
    ]
    with pytest.raises(ValueError, match=r"`sequences` must be at least one"):
        pad_sequences([])
    with pytest.raises(ValueError, match=r"`sequences\[1\]` must be of entries of shape \(2,\)"):
        pad_sequences([np.zeros((3, 2)), np.zeros((3, 1))])
    rows, lengths = pad_sequences(iter([[], [1, 2]]))  # without entries: still tokens
    assert rows.dtype == int
    assert lengths.tolist() == [0, 2]
    with pytest.raises(TypeError, match="`inputs` must be a number or an array of numbers"):
        RecurrentNetwork(D, H, 1, key=jr.key(0))([[1.0, 2.0], [3.0]])


def test_network_of_pairs_and_of_tokens():
    network = RecurrentNetwork(D, H, 2, num_layers=2, cell="gru", key=jr.key(0), dtype=jnp.float64)
    rows, lengths = pad_sequences([XS, XS[:3]])
    answers = jax.vmap(network)((jnp.asarray(rows), jnp.asarray(lengths)))
    np.testing.assert_allclose(answers, [network(XS), network(XS[:3])], atol=1e-14)
    reader = RecurrentNetwork(D, H, 5, vocabulary=5, read="all", key=jr.key(0), dtype=jnp.float64)
    tokens, state, rows = np.array([1, 4, 0]), reader.start(), []
    for token in tokens:
        state, row = reader.step(state, token)
        rows.append(row)
    np.testing.assert_allclose(rows, reader(tokens), atol=1e-14)
    with pytest.raises(ValueError, match=r"`tokens` must be from 0 to 4.*got 5 at index 2"):
        reader(np.array([1, 4, 5]))


def test_jacobian_of_the_memory_by_the_corrected_formula():
    # one unit: f = sig(.7h + .2x + 1), i = sig(-.4h + .5x), new = tanh(.9h - .3x)
    cell = LSTMCell(1, 1, key=jr.key(0), dtype=jnp.float64)
    weight, bias = jnp.array([[-0.4, 0.7, 0.0, 0.9], [0.5, 0.2, 0.0, -0.3]]), jnp.array([0.0, 1.0, 0.0, 0.0])
    cell = jax.tree.unflatten(jax.tree.structure(cell), [weight, bias])
    o, C, x = jnp.array([0.6]), jnp.array([0.8]), jnp.array([0.3])
    found = memory_jacobian(cell, o, C, x)
    np.testing.assert_allclose(found.total, 0.9543215, atol=5e-8)
    # with a factor C in the last term, as it is sometimes printed, it is another number
    wrong = found.kept + found.through_forgetting + 0.8 * found.through_writing
    np.testing.assert_allclose(wrong, 0.9281010, atol=5e-8)
    wide = make(LSTMCell)
    o, C, x = jnp.array([0.6, 0.2, 0.9]), jnp.array([0.8, -0.3, 0.1]), jnp.asarray(XS[0])
    by_autodiff = jax.jacobian(lambda C: wide(x, (o * jnp.tanh(C), C))[1])(C)
    np.testing.assert_allclose(memory_jacobian(wide, o, C, x).total, by_autodiff, atol=1e-14)


def linear_cell(radius):
    """A vanilla cell whose Jacobian at zero is a matrix of that spectral radius."""
    cell = RNNCell(1, 4, key=jr.key(3), dtype=jnp.float64)
    matrix = np.random.default_rng(5).normal(size=(4, 4))
    weight = cell.weight.at[:4].set(matrix * radius / np.abs(np.linalg.eigvals(matrix)).max())
    return jax.tree.unflatten(jax.tree.structure(cell), [weight, jnp.zeros(4)])


def test_gradients_vanish_below_a_radius_of_one_and_explode_above():
    steps = 400
    for radius in (0.8, 1.25):
        flow = gradient_flow(linear_cell(radius), np.zeros((steps, 1)))
        np.testing.assert_allclose(flow.spectral_radii, radius, rtol=1e-10)
        np.testing.assert_allclose(flow.rate, np.log(radius), atol=5 / steps)
    cell = make(RNNCell)
    flow = gradient_flow(cell, XS)
    product = np.eye(H)
    for t in reversed(range(T)):
        state = cell.start()
        for x in XS[:t]:
            state = cell(jnp.asarray(x), state)
        product = product @ jax.jacobian(lambda s: cell(jnp.asarray(XS[t]), s))(state)
        np.testing.assert_allclose(flow.log_norms[T - t], np.log(np.linalg.norm(product, 2)), atol=1e-10)


def test_memory_of_the_lstm_is_a_highway():
    xs = np.random.default_rng(7).normal(size=(200, D))
    open_gate = gradient_flow(LSTMCell(D, H, forget_bias=5.0, key=jr.key(1), dtype=jnp.float64), xs).rate
    plain_gate = gradient_flow(LSTMCell(D, H, forget_bias=0.0, key=jr.key(1), dtype=jnp.float64), xs).rate
    vanilla = gradient_flow(RNNCell(D, H, key=jr.key(1), dtype=jnp.float64), xs).rate
    # what is kept of the memory alone is sig(5) and sig(0) a step
    assert open_gate > -0.02
    assert plain_gate < -0.3
    assert vanilla < -0.3
