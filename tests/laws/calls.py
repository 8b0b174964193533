"""What a call leaves behind: run as a program, it prints the growth of the process for each public function.

`python -m tests.laws.calls COUNT NAME...` warms each case up and makes COUNT calls more, each with a fresh
closure, a fresh size or a fresh number, and prints a line of JSON: bytes and memory mappings per call, and
seconds. Case `f` is a function of the number of the call. Closures compile at every call; sizes and numbers
must not.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

WARM_UP = 3


def square(x: Any, centre: Any) -> Any:
    return -0.5 * ((x - centre) ** 2).sum()


def draws(k: int) -> Any:
    from tractable.distributions import Gamma

    return Gamma(2.0, 1.0 + k).sample(jr.key(k), (1100 + 7 * k,))


def densities(k: int) -> Any:
    from tractable.distributions import StudentT

    law, points = StudentT(3.0 + k, 0.0, 1.0), np.linspace(-1.0, 1.0, 1100 + 7 * k)
    return law.log_prob(points), law.cdf(points), law.log_prob(0.1 * k)


def minimum(k: int) -> Any:
    from tractable.optim import minimise

    return minimise(lambda x: -square(x, float(k)), jnp.zeros(2))


def minimum_of_data(k: int) -> Any:
    from tractable.optim import minimise

    return minimise(_negative, jnp.zeros(2), args=(float(k),))


def _negative(x: Any, centre: Any) -> Any:
    return -square(x, centre)


def laplace_of_data(k: int) -> Any:
    from tractable.inference import laplace

    return laplace(square, jnp.zeros(2), args=(float(k),))


def weights_of_data(k: int) -> Any:
    from tractable.distributions import Normal
    from tractable.inference import importance

    prior = Normal(jnp.zeros(2), 3 * jnp.ones(2))
    return importance(square, prior, key=jr.key(k), num_draws=500, args=(0.01 * k,))


def chains_of_data(k: int) -> Any:
    from tractable.inference import mcmc

    options = {"num_draws": 20 + k, "warmup": 20, "progress": False}
    return mcmc(square, jnp.zeros(2), key=jr.key(k), args=(float(k),), **options)


def particles_of_data(k: int) -> Any:
    from tractable.distributions import Normal
    from tractable.inference import smc

    prior = Normal(jnp.zeros(2), jnp.ones(2))
    return smc(square, prior, key=jr.key(k), num_particles=100, args=(0.01 * k,))


def climb_of_data(k: int) -> Any:
    from tractable.inference import vi

    return vi(square, jnp.zeros(2), key=jr.key(k), args=(float(k),), method="lbfgs", num_eval=100)


def mixture_of_rows(k: int) -> Any:
    from tests.inference.test_em import start
    from tractable.inference.expectation_maximisation.em import em

    return em(start(), np.random.default_rng(k).normal(size=1100 + 7 * k), max_steps=5)


def chains(k: int) -> Any:
    from tractable.inference import mcmc

    options = {"num_draws": 20, "warmup": 20, "progress": False}
    return mcmc(lambda x: square(x, float(k)), jnp.zeros(2), key=jr.key(k), **options)


def particles(k: int) -> Any:
    from tractable.distributions import Normal
    from tractable.inference import smc

    prior = Normal(jnp.zeros(2), jnp.ones(2))
    return smc(lambda x: square(x, 0.01 * k), prior, key=jr.key(k), num_particles=100)


def climb(k: int) -> Any:
    from tractable.inference import vi

    return vi(lambda x: square(x, float(k)), jnp.zeros(2), key=jr.key(k), max_steps=200, num_eval=100)


def curvature(k: int) -> Any:
    from tractable.inference import laplace

    return laplace(lambda x: square(x, float(k)), jnp.zeros(2))


CHEAP: list[Callable[[int], Any]] = [
    draws, densities, minimum, minimum_of_data, laplace_of_data, weights_of_data, chains_of_data,
    particles_of_data, climb_of_data, mixture_of_rows,
]  # fmt: skip
CASES = {case.__name__: case for case in (*CHEAP, curvature, climb, particles, chains)}


def footprint() -> tuple[int, int]:
    """Resident bytes and memory mappings of this process."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return resident, len(Path("/proc/self/maps").read_text().splitlines())


def measured(case: Callable[[int], Any], count: int) -> dict[str, Any]:
    for k in range(WARM_UP):
        case(k)
    before, begun = footprint(), time.process_time()
    for k in range(WARM_UP, WARM_UP + count):
        case(k)
    seconds, after = time.process_time() - begun, footprint()
    grown = {"bytes": after[0] - before[0], "mappings": after[1] - before[1]}
    return {"case": case.__name__, "count": count, "seconds": round(seconds, 3)} | grown


def main(count: int, names: list[str]) -> None:
    for name in names or [case.__name__ for case in CHEAP]:
        print(json.dumps(measured(CASES[name], count)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
