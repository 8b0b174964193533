r"""What a Markov chain sampler is: `init` makes a state, `step` moves it and leaves the target invariant.

Contract.    `init(log_density, position, key) -> state`; `step(log_density, state, key) -> (state, Info)`,
             for one chain; both run under `jit` and `vmap`. A state has `position`, `log_density` (of the
             position) and, for samplers that follow gradients, `gradient`. Options are leaves of the sampler.
Spaces.      Samplers in `real` space see one real vector, whatever the start looks like: constraints are
             removed, and the warm-up may recentre and rescale it. Samplers in `native` space see the start
             itself, a pytree with whole numbers, labels or fields as they are.
Tuning.      A sampler with `step_size` and `target_acceptance` is tuned by the warm-up; one that tunes itself
             keeps what it learns in its state and learns only while `adapting` is true.
Cost.        None: names only.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.types import Array, Float, Key, PyTree, Scalar

__all__ = ["ChainState", "Info", "LogDensity", "Sampler", "chain_state"]

LogDensity = Callable[[Any], Scalar]


class Info(Module):
    """What one step of any sampler reports."""

    acceptance: Any  # mean probability with which it accepted what it proposed, in [0, 1]
    num_gradients: Any  # evaluations of the density, with its gradient where the sampler follows one
    diverging: Any = False  # the trajectory left the region where its integrator is stable
    saturated: Any = False  # it was stopped by a limit of work: a full tree, too many expansions
    undefined: Any = False  # it met a density that is not a number
    energy: Any = jnp.nan  # potential plus kinetic energy where the step began; NaN where there is none

    def joined(self) -> "Info":
        """The reports of several steps, along the first axis, as one."""
        return Info(
            acceptance=jnp.mean(self.acceptance, 0),
            num_gradients=jnp.sum(self.num_gradients, 0, dtype=jnp.asarray(self.num_gradients).dtype),
            diverging=jnp.any(self.diverging, 0),
            saturated=jnp.any(self.saturated, 0),
            undefined=jnp.any(self.undefined, 0),
            energy=self.energy[-1],
        )


class ChainState(Module):
    """A point of a chain with what is known there."""

    position: PyTree
    log_density: Scalar
    gradient: Any = None


class Sampler(Module):
    """A Markov transition that leaves a density invariant."""

    space: ClassVar[str] = "real"  # or "native"
    ensemble: ClassVar[bool] = False  # whether a state holds all chains at once, along a leading axis

    @abc.abstractmethod
    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> Any:
        """The state at `position`."""

    @abc.abstractmethod
    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """The next state, and how it was reached."""

    def with_step_size(self, step_size: Any) -> Any:
        """The sampler with another step size; itself where it has none."""
        return eqx.tree_at(lambda s: s.step_size, self, step_size) if hasattr(self, "step_size") else self


def chain_state(log_density: LogDensity, position: Float[Array, " d"]) -> ChainState:
    """The state at `position`, with the gradient of the log-density."""
    value, gradient = jax.value_and_grad(log_density)(position)
    return ChainState(position, value, gradient)
