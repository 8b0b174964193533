"""A mass on a spring: modes, exact and approximate steps, responses, and its position from noisy readings."""

import numpy as np

import tractable as tr
from tractable.statespace.linear_systems.discretise import discretise
from tractable.statespace.linear_systems.system import mass_spring_damper


def main() -> None:
    spring = mass_spring_damper(mass=1.0, damping=0.5, stiffness=2.0)
    stability = spring.stability()
    print(f"{stability.kind}; eigenvalues {np.round(stability.eigenvalues, 4)}")
    print("controllable:", spring.is_controllable(), " observable:", spring.is_observable())

    times = np.arange(0, 20, 0.1)
    exact = spring.simulate(start=[1.0, 0.0], times=times)
    for method in ("euler", "rk4"):
        rough = spring.simulate(start=[1.0, 0.0], times=times, method=method)
        print(f"{method}: largest error {np.abs(rough.states - exact.states).max():.2g}")

    held = discretise(spring, 0.1)
    force = np.sin(times)[:, None]
    assert np.allclose(
        held.simulate(force).outputs, held.convolve(force)
    )  # the impulse response is the kernel
    print("a constant force of one ends at", round(float(spring.step_response([60.0])[0, 0, 0]), 6))

    # the same system with unknown shocks, seen through noise: a Kalman filter
    noisy = tr.statespace.LinearGaussianSystem(
        held.A, 1e-5 * np.eye(2), held.C, [[0.04]], initial_mean=[0.0, 0.0], initial_cov=np.eye(2)
    )
    readings = exact.outputs + 0.2 * np.random.default_rng(0).normal(size=exact.outputs.shape)
    found = noisy.smooth(readings)
    error = np.sqrt(((found.mean - exact.states) ** 2).mean(0))
    print("errors of position and velocity:", error.round(3))
    assert (error < 0.1).all()


if __name__ == "__main__":
    main()
