"""A pendulum seen through the sine of its angle: filters by moments, an ensemble and particles compared."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.statespace import NonlinearSystem

STEP, GRAVITY = 0.05, 9.81


def swing(x):
    """Angle and speed one step later."""
    return jnp.array([x[0] + STEP * x[1], x[1] - GRAVITY * STEP * jnp.sin(x[0])])


def seen(x):
    return jnp.sin(x[:1])


def error(means, truth) -> float:
    return float(np.sqrt(np.mean((np.asarray(means)[:, 0] - np.asarray(truth)[:, 0]) ** 2)))


def main() -> None:
    noise = 0.3 * jnp.array([[STEP**3 / 3, STEP**2 / 2], [STEP**2 / 2, STEP]])
    system = NonlinearSystem(swing, noise, seen, 0.1 * jnp.eye(1), jnp.array([1.2, 0.0]), 0.1 * jnp.eye(2))
    states, readings = system.sample(jr.key(1), 80)
    truth, y = states[0], readings[0].at[40:50].set(jnp.nan)  # the camera was covered
    errors = {}
    for rule in ("extended", "unscented"):
        found = system.filter(y, rule=rule)
        errors[rule] = error(found.filtered.mean, truth)
        print(
            f"{rule}: error of the angle {errors[rule]:.3f}, log-likelihood {float(found.log_likelihood):.3f}"
        )
        print(f"  {found.verdict}")
    smooth = system.smooth(y, rule="unscented")
    errors["smoothed"] = error(smooth.marginals.mean, truth)
    ensemble = system.ensemble_filter(y, key=jr.key(2), num_members=300)
    errors["ensemble"] = error(ensemble.mean, truth)
    particles = system.particle_filter(y, key=jr.key(3), proposal="guided", num_particles=300)
    errors["particles"] = error(particles.mean.value, truth)
    print({name: round(value, 3) for name, value in errors.items()})
    print(particles.log_evidence)
    # the moments are close to what the particles estimate without bias, and the future helps
    gap = abs(float(system.log_likelihood(y, rule="unscented")) - float(particles.log_evidence.value))
    assert gap < 1.0
    assert max(errors.values()) < 0.4
    assert errors["smoothed"] < errors["unscented"]


if __name__ == "__main__":
    main()
