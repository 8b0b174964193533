r"""Iteration, written once for the whole library: `run` for a fixed length, `run_until` for a tolerance.

Loop.        $s_{k+1}, v_k = \mathrm{step}(s_k)$ until $|v_k - v_{k-1}| \le \mathrm{tol}\,(1 + |v_k|)$, or for
             `max_steps`.
Cost.        One compiled program each; the trace of `run_until` is padded with NaN to `max_steps`.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, is_concrete, is_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Bool, Float, Int, Scalar

__all__ = ["Ended", "Run", "Status", "TraceCounter", "bisect", "count_traces", "run", "run_until"]

State = TypeVar("State")


class Status(enum.IntEnum):
    """How an iteration ended; each member knows the sentence that a person should read."""

    converged = 0
    exhausted = 1
    not_finite = 2
    completed = 3
    interrupted = 4
    stalled = 5
    decreased = 6
    infeasible = 7
    unbounded = 8
    saddle = 9
    stopped = 10

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def ok(self) -> bool:
        """Whether the result may be used as it is."""
        return self in (Status.converged, Status.completed, Status.stopped)


_SENTENCES = {
    Status.converged: "Converged: the objective changed by less than the tolerance.",
    Status.exhausted: "Stopped at max_steps before the tolerance was met; "
    "raise max_steps or tol, or look at the trace.",
    Status.not_finite: "The objective became NaN or infinite; the last finite state is kept. "
    "Look at the data's scale.",
    Status.completed: "Completed the requested number of steps; nothing was tested for convergence.",
    Status.stalled: "Stalled: rounding prevents any further progress before the tolerance is met; "
    "look at the gradient.",
    Status.decreased: "The objective fell where it can only rise: the steps disagree with the objective. "
    "Do not use the result.",
    Status.infeasible: "Infeasible: no point that meets all constraints was found; "
    "in a convex problem there is none.",
    Status.unbounded: "Unbounded: the objective falls without end where the constraints hold.",
    Status.saddle: "Stationary, but no minimum: the objective curves downwards there. "
    "Start elsewhere, or a little beside.",
    Status.stopped: "Stopped early: the held-out loss had not fallen for as long as was asked; "
    "the best state is kept.",
    Status.interrupted: "Interrupted: the state is that after the last whole step or block; resume to go on.",
}


class Ended:
    """What a result with a `code` has: how the iteration behind it ended."""

    code: Any

    @property
    def status(self) -> Status:
        shape = np.shape(self.code)
        fix = "Take one of them: `jax.tree.map(lambda leaf: leaf[0], run)`."
        check(shape == (), "status", "asked of one run", f"a stack of runs of shape {shape}", fix)
        return Status(int(self.code))

    @property
    def ending(self) -> str:
        """How it ended, for the verdict of a fit: a user need not know what a tolerance was about."""
        return "Converged." if self.status is Status.converged else self.status.sentence


class Run(Ended, Module, Generic[State]):
    """What an iterative algorithm returns: the last state, what it recorded, and how it ended."""

    state: State
    trace: Any = field(show=False)
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def values(self) -> Any:
        """The recorded values of the steps that were made, without padding."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: int(self.num_steps)], self.trace)


def run(
    step: Callable[[State, Any], tuple[State, Any]],
    start: State,
    inputs: Any = None,
    *,
    num_steps: int | None = None,
) -> Run[State]:
    """Apply `step(state, input)` once per entry of `inputs` (or `num_steps` times), stacking its reports."""
    steps = num_steps_of(inputs, num_steps)
    state, trace = jax.lax.scan(step, start, inputs, length=steps)
    return Run(state, trace, jnp.asarray(steps), jnp.asarray(int(Status.completed)))


def run_until(
    step: Callable[[State], tuple[State, Float[Array, ""]]],
    start: State,
    *,
    max_steps: int,
    tol: float | int | Scalar,
    settled: Callable[[State, Scalar, Scalar], Bool[Array, ""]] | None = None,
) -> Run[State]:
    """Apply `step` until the value that it reports settles, or until `settled(state, value, value before)`.

    Before the first step `settled` sees the start, with values that no objective takes (about
    $\\mp 10^{307}$): a start that is already good enough takes no step.

    >>> halve = lambda x: (x / 2, x)
    >>> run_until(halve, jnp.asarray(1.0), max_steps=100, tol=1e-6)
    Run(state=4.76837e-07, num_steps=21)
      Converged: the objective changed by less than the tolerance.
    """
    max_steps = check_count("max_steps", max_steps)
    check(not is_concrete(tol) or bool(tol >= 0), "tol", "zero or positive", tol)

    def done(k, state, value, before):
        return (k > 1) & is_close(value, before, tol) if settled is None else settled(state, value, before)

    def proceed(carry):
        k, state, _, value, before = carry
        return (k < max_steps) & jnp.isfinite(value) & ~done(k, state, value, before)

    def advance(carry):
        k, state, trace, value, _ = carry
        state_next, value_next = step(state)
        keep, value_next = jnp.isfinite(value_next), jnp.asarray(value_next, trace.dtype)
        # a key moves on in any case: the step has used the old one up
        state = jax.tree.map(
            lambda new, old: new if is_key(new) else jnp.where(keep, new, old), state_next, state
        )
        return k + 1, state, trace.at[k].set(value_next), value_next, value

    empty = jnp.full(max_steps, jnp.nan)
    beyond = jnp.asarray(jnp.finfo(empty.dtype).max / 4, empty.dtype)
    first = (jnp.asarray(0), start, empty, -beyond, beyond)
    k, state, trace, value, before = jax.lax.while_loop(proceed, advance, first)
    stopped = jnp.where(done(k, state, value, before), int(Status.converged), int(Status.exhausted))
    return Run(state, trace, k, jnp.where(jnp.isfinite(value), stopped, int(Status.not_finite)))


def bisect(
    reached: Callable[[Array], Array], low: Array, high: Array, *, num_steps: int
) -> tuple[Array, Array]:
    """The ends, elementwise, around the point from which on `reached(x)` holds, each step half as far apart.

    >>> _, root = bisect(lambda x: x**2 >= 2, jnp.asarray(1.0), jnp.asarray(2.0), num_steps=40)
    >>> round(float(root), 6)
    1.414214
    """

    def halve(ends, _):
        low, high = ends
        middle = low + (high - low) / 2
        there = reached(middle)
        return (jnp.where(there, low, middle), jnp.where(there, middle, high)), None

    return run(halve, (low, high), num_steps=num_steps).state


class TraceCounter:
    """A function that counts how often Python runs it: under `jit`, how often it is traced and compiled."""

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.function, self.count = function, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self.function(*arguments, **options)


def count_traces(function: Callable) -> TraceCounter:
    """Wrap `function` before `jit`, to test that a new number of rows does not compile again.

    >>> counted = count_traces(lambda x: 2 * x)
    >>> compiled = jax.jit(counted)
    >>> _ = compiled(1.0), compiled(2.0)
    >>> counted.count
    1
    """
    return TraceCounter(function)


def is_close(value: Any, before: Any, tol: Any) -> Any:
    r"""$|v - v'| \le \mathrm{tol}\,(1 + |v|)$: relative for large values, absolute for small ones."""
    return abs(value - before) <= tol * (1 + abs(value))


def num_steps_of(inputs: Any, num_steps: int | None) -> int:
    """The number of steps that `inputs` and `num_steps` agree on."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(inputs)]
    lengths = {shape[0] if shape else -1 for shape in shapes}
    check(len(lengths) <= 1 and -1 not in lengths, "inputs", "arrays with one common leading axis", shapes)
    check(num_steps is not None or len(lengths) == 1, "num_steps", "given where there are no `inputs`", None)
    steps = check_count("num_steps", num_steps, least=0) if num_steps is not None else lengths.pop()
    check(not lengths or lengths == {steps}, "num_steps", f"the length of `inputs`, {lengths}", num_steps)
    return steps
