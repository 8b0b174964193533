"""A vehicle that cruises or turns: which of two linear motions is on, and where it is, from its positions."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.statespace import SwitchingLinearSystem


def main() -> None:
    cruise = np.array(
        [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    angle = 0.5
    turn = cruise.copy()
    turn[2:, 2:] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    system = SwitchingLinearSystem(
        [0.9, 0.1],
        [[0.95, 0.05], [0.1, 0.9]],
        np.stack([cruise, turn]),
        0.01 * np.eye(4),
        np.eye(2, 4),
        0.2 * np.eye(2),
        np.array([0.0, 0.0, 1.0, 0.0]),
        0.1 * np.eye(4),
    )
    modes, states, readings = system.sample(jr.key(0), 60)
    y = readings[0]
    kim = system.filter(y, method="kim")
    right = float(((kim.modes[:, 1] > 0.5) == (modes[0] == 1)).mean())
    distance = float(jnp.sqrt(((kim.mean - states[0])[:, :2] ** 2).sum(1)).mean())
    raw = float(jnp.sqrt(((y - states[0][:, :2]) ** 2).sum(1)).mean())
    print(kim, f"modes right {right:.0%}; distance {distance:.2f}, of the readings {raw:.2f}", sep="\n")
    assert right > 0.8
    assert distance < raw
    # what was merged is compared with particles, whose states stay exact
    particles = system.particle_filter(y, key=jr.key(1), num_particles=300)
    print(particles.log_likelihood)
    gap = abs(float(kim.log_likelihood) - float(particles.log_likelihood.value))
    print(f"merging changed the log-likelihood by {gap:.3f}")
    assert gap < 0.5
    # for a short stretch all paths of modes can be followed
    exact = system.filter(y[:8], method="exact")
    assert np.abs(np.asarray(system.filter(y[:8]).modes - exact.modes)).max() < 0.05


if __name__ == "__main__":
    main()
