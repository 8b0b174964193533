r"""Iteration, written twice in the whole library: `run` for a fixed length, `run_until` for a tolerance.

Loop.      $s_{k+1}, v_k = \mathrm{step}(s_k)$ until $|v_k - v_{k-1}| \le \mathrm{tol}\,(1 + |v_k|)$ or `max_steps`.
Used by.   EM, k-means, value iteration, loopy belief propagation, optimisers, samplers, the power method.
Cost.      One compiled program; the trace of `run_until` is padded with NaN to `max_steps`.
"""

import enum
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module
from tractable.core.types import Array, Float, Int, Scalar

__all__ = ["Run", "Status", "run", "run_until"]

State = TypeVar("State")


class Status(enum.IntEnum):
    """How an iteration ended; each member knows the sentence that a person should read."""

    converged = 0
    exhausted = 1
    not_finite = 2
    completed = 3
    interrupted = 4

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def ok(self) -> bool:
        """Whether the result may be used as it is."""
        return self in (Status.converged, Status.completed)


_SENTENCES = {
    Status.converged: "Converged: the objective changed by less than the tolerance.",
    Status.exhausted: "Stopped at max_steps before the tolerance was met; raise max_steps or tol, or look at the trace.",
    Status.not_finite: "The objective became NaN or infinite; the last finite state is kept. Look at the data's scale.",
    Status.completed: "Completed the requested number of steps; nothing was tested for convergence.",
    Status.interrupted: "Interrupted: the state is the one after the last whole step; resume to go on.",
}


class Run(Module, Generic[State]):
    """What an iterative algorithm returns: the last state, what it recorded, and how it ended."""

    state: State
    trace: Any
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def status(self) -> Status:
        return Status(int(self.code))

    @property
    def values(self) -> np.ndarray:
        """The recorded values of the steps that were made, without padding."""
        return np.asarray(self.trace)[: int(self.num_steps)]

    def __repr__(self) -> str:
        """One line that never hides the verdict."""
        if not isinstance(self.code, jax.Array) or isinstance(self.code, jax.core.Tracer):
            return f"Run(state={type(self.state).__name__})"
        return f"Run(state={type(self.state).__name__}, num_steps={int(self.num_steps)}: {self.status.sentence})"


def run(
    step: Callable[[State, Any], tuple[State, Any]], start: State, inputs: Any = None, *, num_steps: int | None = None
) -> Run[State]:
    """Apply `step(state, input)` once per leading entry of `inputs` (or `num_steps` times), stacking what it reports."""
    state, trace = jax.lax.scan(step, start, inputs, length=num_steps)
    steps = num_steps if num_steps is not None else jax.tree.leaves(inputs)[0].shape[0]
    return Run(state, trace, jnp.asarray(steps), jnp.asarray(int(Status.completed)))


def run_until(
    step: Callable[[State], tuple[State, Float[Array, ""]]], start: State, *, max_steps: int, tol: float | Scalar
) -> Run[State]:
    """Apply `step` until the value that it reports settles.

    >>> halve = lambda x: (x / 2, x)
    >>> run_until(halve, jnp.asarray(1.0), max_steps=100, tol=1e-6)
    Run(state=ArrayImpl, num_steps=21: Converged: the objective changed by less than the tolerance.)
    """

    def settled(k, value, before):
        return (k > 1) & (jnp.abs(value - before) <= tol * (1 + jnp.abs(value)))

    def proceed(carry):
        k, _, _, value, before = carry
        return (k < max_steps) & jnp.isfinite(value) & ~settled(k, value, before)

    def advance(carry):
        k, state, trace, value, _ = carry
        state_next, value_next = step(state)
        keep = jnp.isfinite(value_next)
        state = jax.tree.map(lambda new, old: jnp.where(keep, new, old), state_next, state)
        return k + 1, state, trace.at[k].set(value_next), value_next, value

    empty = jnp.full(max_steps, jnp.nan)
    first = (jnp.asarray(0), start, empty, jnp.asarray(-1e300, empty.dtype), jnp.asarray(1e300, empty.dtype))
    k, state, trace, value, before = jax.lax.while_loop(proceed, advance, first)
    stopped = jnp.where(settled(k, value, before), int(Status.converged), int(Status.exhausted))
    return Run(state, trace, k, jnp.where(jnp.isfinite(value), stopped, int(Status.not_finite)))
