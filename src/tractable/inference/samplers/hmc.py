r"""Hamiltonian Monte Carlo: long moves along level sets of an energy, corrected by one Metropolis test.

Boltzmann.   $\tilde p(x) = e^{-U(x)}$ with $U = -\log\tilde p$; with a momentum $p \sim N(0, M)$,
             $\pi(x, p) \propto e^{-H}$, $H = U + \frac12 p^\top M^{-1} p$, has the target as marginal in $x$.
Step.        Draw $p$; follow $L$ leapfrog steps of size $\epsilon$ to $(x', p')$; accept with probability
             $\min\{1, e^{H(x, p) - H(x', p')}\}$. The map $(x, p) \to (x', -p')$ is its own inverse and keeps
             volume, which is all that the test needs. A random direction of time would change nothing:
             $p$ and $-p$ are equally likely.
Length.      A fixed length resonates: on a Gaussian coordinate of period $2\pi s$ a length near $\pi s$ only
             reflects. With `jitter` the length varies at random, independently of the state, so the target
             stays invariant.
Cost.        $L$ gradients. Steps of $O(d^{-1/4})$ keep the acceptance as the dimension grows.
References.  Neal (2011), "MCMC using Hamiltonian dynamics"; Beskos et al. (2013) (optimal acceptance 0.65).
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.accept import accept
from tractable.core.checks import check_count, check_option
from tractable.core.module import Module, field
from tractable.core.support import positive, unit_interval
from tractable.core.types import Array, Bool, Float, Key, Scalar
from tractable.inference.samplers.leapfrog import Mass, Phase, follow, leapfrog
from tractable.inference.samplers.metropolis import check_acceptance
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler, chain_state

__all__ = ["HMC", "conclude"]


class HMC(Sampler):
    r"""Hamiltonian Monte Carlo with `num_steps` leapfrog steps of `step_size`.

    - `jitter` between 0 and 1: each trajectory has its step size multiplied by a uniform number in
      $[1 - j, 1 + j]$, or, with `vary="num_steps"`, a whole number of steps drawn uniformly from those
      between $(1 - j) L$ and $(1 + j) L$, at least one.
    - `mass`: a vector (a diagonal matrix) or a symmetric positive definite matrix; near the inverse of the
      target's covariance it makes all directions equally long. Under `mcmc` the warm-up does this instead.

    It moves far within a mode; it does not cross deep valleys between modes.
    """

    step_size: Float[Array, ""] = field(support=positive, default=0.1)
    num_steps: int = field(static=True, default=10, converter=lambda value: check_count("num_steps", value))
    jitter: Float[Array, ""] = field(support=unit_interval, default=0.0)
    target_acceptance: float = field(static=True, default=0.8)
    mass: Mass = field(default=None, converter=Mass.of)
    vary: str = field(static=True, default="step_size")
    max_energy_error: float = field(static=True, default=1000.0)

    def __check_init__(self):
        check_option("vary", self.vary, ("step_size", "num_steps"))
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: Float[Array, " d"], key: Key) -> ChainState:
        """The point with its log-density and gradient."""
        return chain_state(log_density, position)

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        """One trajectory from a fresh momentum, accepted or not."""
        key_momentum, key_length, key_accept = jr.split(key, 3)
        density = jax.value_and_grad(log_density)
        step_size, num_steps = self._length(key_length, state.position.dtype)
        start = Phase.of(state, self.mass.sample(key_momentum, state.position))

        def advance(phase):
            return leapfrog(density, phase, step_size, self.mass)

        end = follow(advance, start, num_steps, 2 * self.num_steps)
        energy = self.mass.energy(start.momentum) - start.log_density
        error = self.mass.energy(end.momentum) - end.log_density - energy
        return conclude(key_accept, state, end, error, energy, num_steps, self.max_energy_error)

    def _length(self, key: Key, dtype: Any) -> tuple[Array, int | Array]:
        step_size, uniform = self.step_size.astype(dtype), jr.uniform(key, (), dtype)
        if self.vary == "step_size":
            return step_size * (1 + self.jitter.astype(dtype) * (2 * uniform - 1)), self.num_steps
        low = jnp.maximum(jnp.ceil((1 - self.jitter) * self.num_steps), 1.0)
        high = jnp.floor((1 + self.jitter) * self.num_steps)
        return step_size, (low + jnp.floor(uniform * (high - low + 1))).astype(int)


def conclude(
    key: Key,
    state: ChainState,
    end: Phase,
    error: Scalar,
    energy: Scalar,
    num_gradients: Any,
    max_energy_error: Any,
    saturated: Any = False,
) -> tuple[ChainState, Info]:
    """Accept the end of a trajectory, or stay, by its energy error; with the report of the step."""
    accepted, probability = accept(key, -error)
    info = Info(
        acceptance=probability,
        num_gradients=jnp.asarray(num_gradients),
        diverging=~(error <= max_energy_error),  # an error that is not a number is one
        saturated=jnp.asarray(saturated),
        undefined=end.undefined,
        energy=energy,
    )
    here = ChainState(state.position, state.log_density, state.gradient)
    return choose(accepted, end.rest(), here), info


def choose(accepted: Bool[Array, ""], new: Module, old: Module) -> Any:
    """`new` where accepted, else `old`, leaf by leaf."""
    return jax.tree.map(lambda here, there: jnp.where(accepted, here, there), new, old)
