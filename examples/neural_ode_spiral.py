"""Spirals learnt from noisy pieces of paths by a neural differential equation, and run from a new start."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from tractable.neural import NeuralODE, TimeField, solve_ode
from tractable.optim import Adam, minimise_batches

TIMES = np.linspace(0.0, 5.0, 51)
PIECE = 11


def spiral(t, y):
    return jnp.array([[-0.1, 2.0], [-2.0, -0.1]]) @ y**3


def piece_loss(model, row):
    """The mean square error of a path that begins at the first reading of a piece."""
    path = model.path(row[0], TIMES[: len(row)])
    return jnp.mean((path - row) ** 2)


def main() -> None:
    starts = jnp.array([[1.6, 0.0], [1.2, 0.0], [0.0, 1.4], [0.9, 0.0], [1.4, 0.1]])
    paths = np.asarray(jax.vmap(lambda start: solve_ode(spiral, start, TIMES, method="rk4", steps=5))(starts))
    seen = paths[:4] + 0.01 * np.asarray(jr.normal(jr.key(0), paths[:4].shape))
    pieces = np.concatenate([seen[:, i : i + PIECE] for i in range(0, 41, 4)])
    model = NeuralODE(TimeField(2, 32, 2, dtype=jnp.float64, key=jr.key(1)), method="rk4", steps=1)
    found = minimise_batches(
        piece_loss,
        model,
        pieces,
        Adam(optax.cosine_decay_schedule(0.01, 1000)),
        key=jr.key(2),
        batch=11,
        epochs=250,
        progress=False,
    )
    path = np.asarray(found.state.path(starts[4], TIMES))
    errors = np.sqrt(((path - paths[4]) ** 2).sum(1))
    print(f"loss {found.values[0]:.3f} to {found.values[-1]:.5f}")
    print(f"a path from a new start is {errors.max():.3f} away at most, over {TIMES[-1]:.0f} units of time")
    assert errors.max() < 0.35


if __name__ == "__main__":
    main()
