"""A pendulum whose motion nobody wrote down: an LSTM Kalman filter beside one that knows the equations."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import NeuralKalman
from tractable.neural.carried import Constant, Recurrent
from tractable.neural.neural_kalman import tracking_loss
from tractable.optim import Adam, minimise_batches
from tractable.statespace import NonlinearSystem

STEP, GRAVITY = 0.1, 9.81
FIRST = jnp.array([0.8, 0.0]), jnp.diag(jnp.array([0.3, 0.3]))


def swing(x):
    """Angle and speed one step later."""
    speed = x[1] - GRAVITY * STEP * jnp.sin(x[0])
    return jnp.stack([x[0] + STEP * speed, speed])


def error(means, states) -> float:
    return float(np.sqrt(np.mean((np.asarray(means) - np.asarray(states)) ** 2)))


def main() -> None:
    noise, seen = jnp.diag(jnp.array([1e-3, 1e-2])), jnp.array([[1.0, 0.0]])
    system = NonlinearSystem(swing, noise, lambda x: x[:1], 0.1 * jnp.eye(1), *FIRST)
    states, readings = system.sample(jr.key(0), 30, num_paths=100)
    readings = readings.at[:, 15:19].set(jnp.nan)  # the camera was covered
    motion = Recurrent(2, 2, 16, residual=True, key=jr.key(1))
    model = NeuralKalman(motion, Recurrent(2, 2, 4, bias=-4.0, key=jr.key(2)), Constant([-2.0]), seen, *FIRST)
    trained = minimise_batches(
        tracking_loss, model, (readings[:80], states[:80]), Adam(0.01), key=jr.key(3), batch=20, epochs=40,
        progress=False,
    )  # fmt: skip
    errors = {"untrained": [], "neural": [], "extended": []}
    for y, x in zip(readings[80:], states[80:]):
        errors["untrained"].append(error(model.filter(y).filtered.mean, x))
        errors["neural"].append(error(trained.state.filter(y).filtered.mean, x))
        errors["extended"].append(error(system.filter(y, rule="extended").filtered.mean, x))
    means = {name: float(np.mean(each)) for name, each in errors.items()}
    print(f"loss {trained.values[0]:.3f} to {trained.values[-1]:.3f}")
    print("error of angle and speed on new swings:", {name: round(value, 3) for name, value in means.items()})
    assert means["neural"] < 0.5 * means["untrained"]
    assert means["neural"] < 1.15 * means["extended"]


if __name__ == "__main__":
    main()
