"""Metropolis-Hastings twice: as a matrix that can be proved, and as a chain that is compared with it."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.inference import Metropolis, check_kernel, scale_sweep
from tractable.inference.chains.finite_chains import metropolis_matrix, total_variation_path

WEIGHTS = np.array([5.0, 3.0, 8.0, 1.0])


class AnyState(Module):
    """Every state with the same probability, whatever the present one."""

    symmetric = True

    def sample(self, key, x):
        return jr.randint(key, (), 0, 4)


def main() -> None:
    matrix = metropolis_matrix(WEIGHTS, np.full((4, 4), 0.25))
    report = check_kernel(matrix, WEIGHTS)
    print(np.asarray(matrix).round(4))
    print(report)
    assert report.verdict.ok
    path = total_variation_path(matrix, 8, [0.0, 0.0, 0.0, 1.0])
    print("distance to the target after t steps from the last state:", np.asarray(path).round(4))
    assert path[-1] < 0.01 < path[0]

    # the same sampler as a chain: how often it visits each state, and how it leaves the first one
    sampler, log_weights = Metropolis(AnyState()), jnp.log(WEIGHTS)

    def step(state, key):
        state, _ = sampler.step(lambda x: log_weights[x], state, key)
        return state, state.position

    start = sampler.init(lambda x: log_weights[x], jnp.asarray(3), jr.key(0))
    visits = np.asarray(jax.jit(lambda keys: run(step, start, keys).trace)(jr.split(jr.key(1), 50_000)))
    shares = np.bincount(visits, minlength=4) / visits.size
    after_first = np.bincount(visits[1:][visits[:-1] == 0], minlength=4) / (visits[:-1] == 0).sum()
    print("shares     ", shares.round(4), " exact", (WEIGHTS / 17).round(4))
    print("after 0    ", after_first.round(4), " exact", np.asarray(matrix[:, 0]).round(4))
    assert np.abs(shares - WEIGHTS / 17).max() < 0.02
    assert np.abs(after_first - np.asarray(matrix[:, 0])).max() < 0.02

    # on the real line the length of the steps decides
    sweep = scale_sweep(lambda x: -0.5 * x @ x, jnp.zeros(5), [0.03, 0.1, 0.3, 1.0, 3.0, 10.0], key=jr.key(2))
    print(sweep)
    assert float(sweep.best) == 1.0


if __name__ == "__main__":
    main()
