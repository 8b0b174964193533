"""Several players and groups of parameters: alternating steps by hand, frozen parts, noise by key."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.optim import Adam, GradientDescent, Groups, minimise_batches, minimise_players
from tractable.optim.schedules import constant

ROWS = np.zeros((16, 1))


def lower(both, row):
    x, y = both
    return 0.5 * x**2 + 2.0 * x * y + 0.0 * row[0]


def raise_(both, row):
    x, y = both
    return 0.5 * y**2 - 2.0 * x * y + 0.0 * row[0]


@pytest.mark.cheap
@pytest.mark.parametrize("every", [(1, 1), (1, 3)])
def test_players_take_turns_and_see_each_other(every, tmp_path):
    def go(**options):
        methods = [GradientDescent(constant(0.1)), GradientDescent(constant(0.2))]
        return minimise_players(
            (lower, raise_),
            (1.0, -1.0),
            ROWS,
            methods,
            key=jr.key(0),
            batch=4,
            epochs=5,
            every=every,
            **options,
        )

    x, y, met = 1.0, -1.0, []
    for step in range(20):
        met.append(0.5 * x**2 + 2 * x * y)
        if (step + 1) % every[0] == 0:
            x -= 0.1 * (x + 2 * y)
        if (step + 1) % every[1] == 0:
            y -= 0.2 * (y - 2 * x)  # sees the new x
    run = go(checkpoint=tmp_path / "game")
    np.testing.assert_allclose(run.state, [x, y], rtol=1e-12)
    assert run.trace.shape == (5, 2)
    np.testing.assert_allclose(run.trace[:, 0], np.mean(np.reshape(met, (5, 4)), axis=1), rtol=1e-12)
    again = go(checkpoint=tmp_path / "game")
    np.testing.assert_array_equal(again.state, run.state)


def test_groups_have_methods_of_their_own_and_frozen_parts_stay():
    layers = [eqx.nn.Linear(2, 2, key=jr.key(i)) for i in range(3)]

    def loss(layers, row):
        x = row
        for layer in layers:
            x = layer(x)
        return (x**2).sum()

    def group(path):
        return "biases" if path.endswith("bias") else "frozen" if path.startswith("0.") else "weights"

    methods = {"weights": GradientDescent(0.1), "biases": GradientDescent(0.01), "frozen": None}
    rows = np.ones((8, 2))
    run = minimise_batches(loss, layers, rows, Groups(methods, group), key=jr.key(0), batch=8, epochs=1)
    slope = jax.grad(lambda layers: loss(layers, jnp.ones(2)))(layers)
    np.testing.assert_array_equal(run.state[0].weight, layers[0].weight)
    np.testing.assert_allclose(run.state[0].bias, layers[0].bias - 0.01 * slope[0].bias, rtol=1e-12)
    for moved, layer, g in zip(run.state[1:], layers[1:], slope[1:]):
        np.testing.assert_allclose(moved.weight, layer.weight - 0.1 * g.weight, rtol=1e-12)
        np.testing.assert_allclose(moved.bias, layer.bias - 0.01 * g.bias, rtol=1e-12)
    one = Groups({"head": Adam()}, lambda path: path.split(".")[1])
    with pytest.raises(ValueError, match=r"`group_of` must be one of 'head' for '0.weight'; got 'weight'"):
        minimise_batches(loss, layers, rows, one, key=jr.key(0), batch=8, epochs=1)
    with pytest.raises(TypeError, match=r"`methods` must be first-order methods; got 'a': float"):
        Groups({"a": 0.1}, group)


def test_losses_that_name_them_get_a_key_for_each_row_and_the_step():
    def noisy(w, row, *, key, step):
        return w * (jr.normal(key) + 0.0 * row[0]) + step

    def go(**options):
        still = GradientDescent(0.0)
        return minimise_batches(noisy, 1.0, np.zeros((1024, 1)), still, key=jr.key(7), batch=256, **options)

    run = go(epochs=32)
    noise = np.asarray(run.trace) - (4 * np.arange(32) + 1.5)  # the mean of 1024 normal numbers
    assert abs(noise * 32).max() < 4
    assert abs((noise * 32).std() - 1) < 3 / np.sqrt(2 * 32)  # none is used twice: that would double it
    np.testing.assert_array_equal(go(epochs=32, seconds=0).trace, run.trace)
