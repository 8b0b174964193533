r"""ChEES: Hamiltonian Monte Carlo in many chains at once that find their own step size, scale and length.

Motion.      Leapfrog steps with mass $1/s^2$ per coordinate, $s$ the scale that the chains have learnt.
Cost.        One gradient per chain and step; no trees, no waiting of one chain for another.
References.  Hoffman, Radul and Sountsov (2021), "An adaptive-MCMC scheme for setting trajectory lengths in
             Hamiltonian Monte Carlo".
"""

import jax.numpy as jnp

from tractable.core.module import field
from tractable.core.types import Array, Key, Scalar
from tractable.inference.samplers.leapfrog import Differentiated, Mass, Phase, leapfrog
from tractable.inference.samplers.manychain import ManyChains
from tractable.inference.samplers.sampler import ChainState

__all__ = ["ChEES"]


class ChEES(ManyChains):
    """Many Hamiltonian chains that tune themselves (`inference.samplers.manychain` says how) while
    `adapting`.

    `init` takes the positions of all chains, one per row; `step` moves them all. At least four chains that
    start apart; sixteen or more find good lengths sooner.
    """

    target_acceptance: float = field(static=True, default=0.651)

    def _begin(self, key: Key, point: ChainState, scale: Array) -> Phase:
        return Phase.of(point, _mass(scale).sample(key, point.position))

    def _advance(self, density: Differentiated, motion: Phase, step_size: Scalar, scale: Array) -> Phase:
        return leapfrog(density, motion, step_size, _mass(scale))

    def _finish(self, start: Phase, end: Phase, scale: Array) -> tuple[Phase, Array, Scalar, Scalar]:
        mass = _mass(scale)
        energy = mass.energy(start.momentum) - start.log_density
        error = mass.energy(end.momentum) - end.log_density - energy
        return end, mass.velocity(end.momentum), error, energy


def _mass(scale: Array) -> Mass:
    return Mass(jnp.asarray(scale) ** -2.0)
