"""Track a moving point with noisy readings: filter, smoother and a missing reading, all by conditioning."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.gaussian import Gaussian, condition, condition_observed
from tractable.distributions.gaussian_forms import to_covariance, to_information
from tractable.distributions.linear_gaussian import LinearGaussian, product


def main() -> None:
    move = LinearGaussian(np.array([[1.0, 1.0], [0.0, 1.0]]), np.zeros(2), 0.01 * np.eye(2))
    look = LinearGaussian(np.array([[1.0, 0.0]]), np.zeros(1), np.eye(1))
    state, path, readings = jnp.asarray([0.0, 0.5]), [], []
    for key in jr.split(jr.key(0), 30):
        key_move, key_look = jr.split(key)
        state = move(state).sample(key_move)
        path.append(state)
        readings.append(look(state).sample(key_look))
    readings[10] = jnp.full(1, jnp.nan)  # the sensor was off

    belief, filtered, predicted = Gaussian(np.zeros(2), 10 * np.eye(2)), [], []
    for y in readings:
        ahead, cross = move.marginal(belief)
        predicted.append((ahead, cross))
        reading, seen = look.marginal(ahead)
        belief = condition_observed(ahead, seen, reading, y)
        filtered.append(belief)
    smoothed = [belief]
    for i in reversed(range(29)):
        ahead, cross = predicted[i + 1]
        smoothed.insert(0, condition(filtered[i], cross, ahead, smoothed[0]))

    truth = np.array(path)[:, 0]
    raw, filtering, smoothing = (
        np.sqrt(np.nanmean((estimate - truth) ** 2))
        for estimate in (
            np.array(readings)[:, 0],
            np.array([b.mean[0] for b in filtered]),
            np.array([b.mean[0] for b in smoothed]),
        )
    )
    print(f"error of the position: readings {raw:.3f}, filter {filtering:.3f}, smoother {smoothing:.3f}")
    assert smoothing < filtering < raw

    both, log_scale = product(filtered[5], filtered[6])  # the same fusion, by adding information
    added, same_scale = product(to_information(filtered[5]), to_information(filtered[6]))
    assert np.allclose(both.mean, to_covariance(added).mean)
    assert np.isclose(log_scale, same_scale)


if __name__ == "__main__":
    main()
