"""Track a target in the plane from noisy readings of its position, with a gap: filter, smoother, forecast."""

import jax.random as jr
import numpy as np

import tractable as tr
from tractable.statespace.linear_systems.discretise import discretise_noise

STEP = 0.5

# position and velocity along each axis; the acceleration is white noise
move, drift = discretise_noise([[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.2]], STEP)
plane = np.eye(2)
system = tr.statespace.LinearGaussianSystem(
    np.kron(plane, move),
    np.kron(plane, drift),
    np.kron(plane, [[1.0, 0.0]]),
    0.5 * plane,
    initial_mean=[0.0, 1.0, 0.0, 0.5],
    initial_cov=np.eye(4),
)

states, readings = system.sample(jr.key(0), 120)
readings = np.array(readings)
readings[50:60] = np.nan  # the target is behind a hill

filtered, smooth = system.filter(readings), system.smooth(readings)
places = np.asarray(states)[:, [0, 2]]
seen = ~np.isnan(readings[:, 0])


def error(found: np.ndarray) -> float:
    """The root mean square distance to the true path, where there are readings."""
    return float(np.sqrt(((found - places)[seen] ** 2).sum(1).mean()))


errors = [error(found) for found in (readings, filtered.mean[:, [0, 2]], smooth.mean[:, [0, 2]])]
print("errors of readings, filter and smoother:", np.round(errors, 3))
spread = [float(np.sqrt(found.cov[59, 0, 0])) for found in (filtered, smooth)]
print("deviation at the end of the gap, filter and smoother:", np.round(spread, 2))
ahead = system.forecast(readings, 10)
low, high = ahead.interval(0.9)
print(f"in ten steps at {ahead.mean[-1].round(1)}, between {low[-1].round(1)} and {high[-1].round(1)}")

assert errors[2] < errors[1] < errors[0]
