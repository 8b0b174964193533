"""How this library samples the six posteriors: `mcmc` with its defaults, or another sampler by name."""

import importlib
from collections.abc import Callable

import numpy as np

from benchmarks._mcmc_peers import Answer
from benchmarks._mcmc_problems import Problem

CHAINS, DRAWS = 4, 1000
MODULES = {"NUTS": "nuts", "HMC": "hmc", "MALA": "langevin", "MAMS": "mams", "SliceSampler": "slice"}


def sampler(problem: Problem, variant: str) -> Callable[..., Answer]:
    """`mcmc` from the origin of real space; `variant` is `NUTS` or the name of another sampler."""
    import jax.random as jr

    from benchmarks._mcmc_densities import DENSITIES
    from tractable.core.support import positive
    from tractable.inference.chains.mcmc import mcmc

    module = importlib.import_module(f"tractable.inference.samplers.{MODULES[variant]}")
    names = problem.positive
    start = {name: np.full(s, float(name in names)) for name, s in problem.shapes.items()}
    options = {
        "args": (problem.data,),
        "supports": dict.fromkeys(names, positive),
        "num_chains": CHAINS,
        "num_draws": DRAWS,
        "progress": False,
    }

    def run(seed: int, count: bool = False) -> Answer:
        method = getattr(module, variant)()
        post = mcmc(DENSITIES[problem.name], start, method, key=jr.key(seed), **options)
        post.summary()
        draws = {name: np.asarray(post.draws[name]) for name in problem.shapes}
        return Answer(draws, int(post.num_gradients), int(np.sum(post.info.diverging)))

    return run
