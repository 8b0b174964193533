"""Rain or sprinkler? Gibbs sampling in a small network and its exact answer; then five hundred diseases."""

import jax
import jax.random as jr
import numpy as np

from tractable.core.iterate import run
from tractable.distributions.tables import ConditionalTable, JointTable, product
from tractable.inference import factor_gibbs, noisy_or_network
from tractable.inference.gibbs.noisy_or import NoisyOrGibbs

NETWORK = [
    JointTable("cloudy", [0.5, 0.5]),
    ConditionalTable("sprinkler", "cloudy", [[0.5, 0.5], [0.9, 0.1]]),
    ConditionalTable("rain", "cloudy", [[0.8, 0.2], [0.2, 0.8]]),
    ConditionalTable("wet", ["sprinkler", "rain"], [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]),
]


def main() -> None:
    evidence = {"sprinkler": 1, "wet": 1}
    found, joint = factor_gibbs(NETWORK, evidence, key=jr.key(0)), product(NETWORK)
    print(found)
    for name in ("cloudy", "rain"):
        estimate, exact = found.prob({name: 1}), float(joint.prob({name: 1}, given=evidence))
        print(f"P({name} = 1 | sprinkler, wet) = {exact:.7f}, by Gibbs sampling {estimate}")
        assert abs(float(estimate.value) - exact) < 5 * float(estimate.standard_error)

    network = noisy_or_network(jr.key(1), 500, 2000, leak=(1e-4, 1e-3))
    truth, symptoms = network.sample(jr.key(2))
    sampler = NoisyOrGibbs(network, symptoms)

    @jax.jit
    def chain(key):
        key_start, key_init, key_run = jr.split(key, 3)
        state = sampler.init(sampler.log_density, sampler.start(key_start), key_init)

        def step(state, key):
            state, _ = sampler.step(sampler.log_density, state, key)
            return state, state.position

        return run(step, state, jr.split(key_run, 150)).trace

    share, ill = np.asarray(chain(jr.key(3)))[50:].mean(0), np.asarray(truth) == 1
    print(f"{int(np.sum(symptoms))} symptoms, {ill.sum()} diseases: P = {share[ill].mean():.3f} for these on "
          f"average, {share[~ill].mean():.4f} for the others")  # fmt: skip
    assert share[ill].mean() > 0.9
    assert share[~ill].mean() < 0.02


if __name__ == "__main__":
    main()
