"""Energy along a path, Hamiltonian against random-walk draws, microcanonical chains that tune themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.iterate import run
from tractable.inference import HMC, EnsembleMAMS, RandomWalkMetropolis
from tractable.inference.samplers.leapfrog import euler, trajectory
from tractable.inference.trust.autocorrelation import autocorrelation_time

SCALES = jnp.geomspace(0.2, 1.0, 10)


def log_density(x):
    return -0.5 * ((x / SCALES) ** 2).sum()


@eqx.filter_jit
def chain(sampler, state, key, num_steps):
    def step(state, key):
        state, info = sampler.step(log_density, state, key)
        return state, (state.position, info.num_gradients)

    return run(step, state, jr.split(key, num_steps))


def main() -> None:
    for name, options in (("leapfrog", {}), ("Euler", {"integrator": euler})):
        _, energy = trajectory(lambda x: -0.5 * x @ x, [1.0], [0.0], step_size=0.1, num_steps=20, **options)
        print(f"{name:<10}energy 0.5 -> {energy[-1]:.7f}")
    assert abs(energy[-1] - 0.5 * 1.01**20) < 1e-9  # Euler's grows by one per cent per step

    worth = {}
    for sampler, num_steps in ((HMC(0.3, 6, jitter=0.2), 2000), (RandomWalkMetropolis(0.35), 12_000)):
        start = sampler.init(log_density, jnp.zeros(10), jr.key(0))
        draws, evaluations = chain(sampler, start, jr.key(1), num_steps).trace
        slowest = max(float(autocorrelation_time(column)) for column in draws.T)
        worth[type(sampler).__name__] = num_steps / slowest / float(evaluations.sum())
    print("effective draws per evaluation:", {name: round(value, 4) for name, value in worth.items()})
    assert worth["HMC"] > 4 * worth["RandomWalkMetropolis"]

    learning = EnsembleMAMS()
    state = learning.init(log_density, jax.random.normal(jr.key(2), (16, 10)), jr.key(3))
    state = chain(learning, state, jr.key(4), 300).state
    positions, gradients = chain(EnsembleMAMS(adapting=False), state, jr.key(5), 300).trace
    print(
        f"sixteen chains: {gradients.mean():.1f} gradients per draw, scales {positions.std((0, 1)).round(2)}"
    )
    assert jnp.allclose(positions.std((0, 1)), SCALES, rtol=0.1)


if __name__ == "__main__":
    main()
