"""Langevin dynamics: the bias of unadjusted steps certifies itself, MALA has none, noise finds every mode."""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.iterate import run
from tractable.inference import MALA, annealed_langevin, langevin
from tractable.inference.samplers.langevin import unadjusted_variance


def standard(x):
    return -0.5 * x @ x


def score(x, sigma):
    """Of a quarter of the mass at -4 and the rest at 4, blurred by `sigma`."""

    def log_p(x):
        each = -0.5 * (x[0] - jnp.array([-4.0, 4.0])) ** 2 / (0.25 + sigma**2)
        return jax.nn.logsumexp(each + jnp.log(jnp.array([0.25, 0.75])))

    return jax.grad(log_p)(x)


@jax.jit
def corrected(key):
    sampler = MALA(1.0)

    def step(state, key):
        state, info = sampler.step(standard, state, key)
        return state, (state.position, info.acceptance)

    return run(step, sampler.init(standard, jnp.zeros(2), jr.key(0)), jr.split(key, 20_000)).trace


def main() -> None:
    biased = langevin(jax.grad(standard), [0.0, 0.0], key=jr.key(1), step_size=0.5, num_steps=20_000)
    print(biased)
    print(f"variance {biased.draws.var():.3f}, by theory {unadjusted_variance(0.5):.6f}")
    assert abs(biased.stein.value - 8 / 7) < 5 * biased.stein.standard_error

    draws, acceptance = corrected(jr.key(2))
    print(f"MALA: variance {draws.var():.3f}, acceptance {acceptance.mean():.2f}")
    assert abs(draws.var() - 1) < 0.05

    start = 8 * jr.normal(jr.key(3), (1000, 1))
    found = annealed_langevin(score, start, jnp.geomspace(8.0, 0.1, 10), key=jr.key(4), num_steps=60)
    print(found)
    print(f"share of the left mode {(found.draws < 0).mean():.2f}, in truth 0.25")
    assert abs((found.draws < 0).mean() - 0.25) < 0.1


if __name__ == "__main__":
    main()
