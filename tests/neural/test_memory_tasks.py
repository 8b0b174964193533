"""Long memory and selection, by theory and by training: models that should solve a task do, others do not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural import DiagonalSSM, RecurrentNetwork, StateSpaceNetwork, predict_rows, squared, train
from tractable.neural.memory_tasks import adding_problem, delayed_recall, selective_copying
from tractable.neural.recurrent import RNNCell, unroll
from tractable.optim import Adam

DELAY, SYMBOLS = 1000, 4


def test_what_is_left_of_an_input_after_a_thousand_steps():
    """A vanilla network whose weights contract forgets geometrically; a state-space channel decays by
    $e^{-\\Delta/2}$ a time, and its gradient is its kernel."""
    cell = RNNCell(2, 8, dtype=jnp.float64, key=jr.key(0))
    layer = DiagonalSSM(2, 4, steps=(1e-3, 1e-3), dtype=jnp.float64, key=jr.key(1))
    x = jnp.zeros((DELAY + 1, 2)).at[0].set(1.0)

    @jax.jit
    def slopes(x):
        ends = (lambda x: unroll(cell, x)[0][-1].sum(), lambda x: layer(x)[-1].sum())
        return [jnp.abs(jax.grad(end)(x)[0]).max() for end in ends]

    vanilla, kept = slopes(x)
    rate = np.abs(np.linalg.eigvals(cell.weight[:8])).max()  # slopes of tanh are at most one
    assert vanilla < 100 * rate**DELAY < 1e-20
    assert kept > 1e-3
    np.testing.assert_allclose(kept, np.abs(layer.kernel(DELAY + 1)[:, DELAY]).max(), rtol=1e-9)


def cross_entropy(logits, token):
    return -jax.nn.log_softmax(logits)[token]


class Last(eqx.Module):
    """What a network says in the end."""

    network: StateSpaceNetwork

    def __call__(self, x):
        return self.network(x)[-1]


class Vanilla(eqx.Module):
    cell: RNNCell
    head: eqx.nn.Linear

    def __call__(self, x):
        return self.head(unroll(self.cell, x)[0][-1])


@pytest.mark.thorough
def test_a_thousand_blanks_are_outlasted_by_a_state_space_and_not_by_a_vanilla_network():
    def data(key, num):
        tokens, wanted = delayed_recall(key, num, DELAY, SYMBOLS)
        return np.asarray(jax.nn.one_hot(tokens, SYMBOLS, dtype=jnp.float32)), np.asarray(wanted)

    rows, held = data(jr.key(0), 256), data(jr.key(5), 200)
    keys = jr.split(jr.key(1))
    space = Last(StateSpaceNetwork(SYMBOLS, SYMBOLS, 16, blocks=1, pairs=8, tokens=False, key=jr.key(1)))
    head = eqx.nn.Linear(16, SYMBOLS, dtype=jnp.float32, key=keys[0])
    vanilla = Vanilla(RNNCell(SYMBOLS, 16, key=keys[1]), head)
    right = []
    for network, epochs in ((space, 14), (vanilla, 8)):
        options = {"method": Adam(1e-2), "batch": 32, "epochs": epochs, "progress": False}
        trained = train(network, rows, cross_entropy, key=jr.key(2), **options).state
        right.append((np.asarray(predict_rows(trained, held[0])).argmax(1) == held[1]).mean())
    assert right[0] > 0.95
    assert right[1] < 0.4  # a quarter by chance


def test_the_best_linear_map_cannot_add_what_is_marked():
    length = 20
    rows, total = (np.asarray(part) for part in adding_problem(jr.key(0), 20_000, length))
    assert (rows[:, : length // 2, 1].sum(1) == 1).all()
    assert (rows[:, length // 2 :, 1].sum(1) == 1).all()
    np.testing.assert_allclose((rows[..., 0] * rows[..., 1]).sum(1), total, rtol=1e-12)
    table = np.column_stack([rows.reshape(len(rows), -1), np.ones(len(rows))])
    gap = table @ np.linalg.lstsq(table, total)[0] - total
    wanted = (1 - 2 / length) / 6  # each number covaries with the sum by (2 / T) / 12
    assert abs((gap**2).mean() - wanted) < 4 * (gap**2).std() / np.sqrt(len(gap))


@pytest.mark.thorough
def test_gates_add_what_is_marked_and_a_vanilla_network_does_not():
    data = [
        tuple(np.asarray(part, np.float32) for part in adding_problem(jr.key(k), n, 30))
        for k, n in ((0, 1024), (9, 400))
    ]
    (rows, totals), (held, wanted) = data
    errors = []
    for cell in ("gru", "rnn"):
        network = RecurrentNetwork(2, 16, 1, cell=cell, key=jr.key(1))
        options = {"method": Adam(1e-2), "epochs": 8, "clip": 1.0, "progress": False}
        trained = train(network, (rows, totals[:, None]), squared, key=jr.key(2), **options).state
        errors.append(np.mean((np.asarray(predict_rows(trained, held)).ravel() - wanted) ** 2))
    assert errors[0] < 0.01
    assert errors[1] > 0.1  # of 1/6 by the mean alone


@pytest.mark.thorough
def test_a_selective_network_learns_to_copy_among_blanks():
    length, count = 16, 2

    def data(key, num):
        tokens, wanted = selective_copying(key, num, length, count, SYMBOLS)
        asked = np.full((num, count), SYMBOLS + 1)  # the places where the copies are to be said
        return np.concatenate([tokens, asked], 1), np.asarray(wanted)

    class Tail(eqx.Module):
        network: StateSpaceNetwork

        def __call__(self, x):
            return self.network(x)[-count:]

    def loss(logits, tokens):
        return jnp.mean(jax.vmap(cross_entropy)(logits, tokens))

    options = {"kind": "selective", "states": 8, "steps": (0.01, 1.0)}
    network = Tail(StateSpaceNetwork(SYMBOLS + 2, SYMBOLS, 16, key=jr.key(1), **options))
    trained = train(
        network, data(jr.key(0), 1024), loss, key=jr.key(2), method=Adam(1e-2), epochs=6, progress=False
    ).state
    held = data(jr.key(9), 400)
    right = np.asarray(predict_rows(trained, held[0])).argmax(2) == held[1]
    assert right.mean() > 0.95
