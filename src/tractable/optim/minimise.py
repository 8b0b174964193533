r"""`minimise`: one entry to every method, one result with its verdict.

Problem.     $\min_x f(x; \mathrm{args})$ for any pytree $x$ of floats.
Stopping.    `stop="gradient"`: converged when
             $\max_i |\partial_i f| \le \mathrm{tol}\,(1 + \min(|f|, |f_0|))$ (for constrained methods, the
             projected or proximal gradient); `stalled` when rounding prevents any decrease before that.
             `"step"`: when $\max_i |\Delta x_i| \le \mathrm{tol}\,(1 + \max_i |x_i|)$;
             `"value"`: when $|\Delta f| \le \mathrm{tol}\,(1 + |f|)$. The last two also stop a method that
             creeps: look at `gradient_norm`.
Cost.        One compiled program per function, method and shapes; data in `args` may change without compiling
             again.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check, check_count, check_option, is_concrete
from tractable.core.iterate import Run, Status, is_close, run, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.objective import Iterate, Method, Objective
from tractable.optim.quasi_newton import LBFGS

__all__ = ["Minimum", "Trajectory", "minimise", "trajectory"]

Gradient = Callable[..., Any] | str | None

_CONVERGED = {
    "gradient": "Converged: the gradient is below the tolerance.",
    "step": "Converged: the point moved by less than the tolerance.",
    "value": Status.converged.sentence,
}


class Minimum(Run):
    """The point with the lowest objective found, and how the search ended."""

    value: Scalar
    gradient_norm: Scalar
    evaluations: Int[Array, ""]
    stop: str = field(static=True, default="gradient")

    @property
    def verdict(self) -> Verdict:
        """How the search ended, and by which rule where it converged."""
        status = self.status
        sentence = _CONVERGED[self.stop] if status is Status.converged else status.sentence
        return Verdict(status.ok, sentence, {"value": self.value, "gradient_norm": self.gradient_norm})


def minimise(
    fun: Callable[..., Scalar],
    start: Any,
    method: Method | None = None,
    *,
    args: tuple = (),
    max_steps: int = 200,
    tol: float | Scalar = 1e-8,
    stop: str = "gradient",
    gradient: Gradient = None,
) -> Minimum:
    r"""Minimise `fun(x, *args)` from `start`, until the rule named by `stop` holds.

    The gradient is automatic, or `gradient(x, *args)`, or for black boxes `gradient="numeric"`.

    >>> minimise(lambda x: (x - 3.0) ** 2, 0.0).state
    Array(3., dtype=float64)
    """
    max_steps = check_count("max_steps", max_steps)
    check(not is_concrete(tol) or bool(tol >= 0), "tol", "zero or positive", tol)
    check_option("stop", stop, tuple(_CONVERGED))
    start, method = _checked(start, method, gradient)
    found = _search(fun, method, start, args, jnp.asarray(tol), max_steps, stop, gradient)
    if is_concrete(found.value):
        fix = "Choose a start at which the objective and its gradient exist."
        check(bool(jnp.isfinite(found.value)), "fun", "finite at `start`", float(found.value), fix)
    return found


class Trajectory(Module):
    """Every point that a method visits, the start first, with value and gradient there."""

    points: Float[Array, "steps n"]
    values: Float[Array, " steps"]
    gradients: Float[Array, "steps n"]


def trajectory(
    fun: Callable[..., Scalar],
    start: Any,
    method: Method | None = None,
    *,
    args: tuple = (),
    num_steps: int = 50,
    gradient: Gradient = None,
) -> Trajectory:
    """The path of `num_steps` steps without any stopping rule: for pictures and for checks of rates."""
    num_steps = check_count("num_steps", num_steps)
    start, method = _checked(start, method, gradient)
    return _path(fun, method, start, args, num_steps, gradient)


def _checked(start: Any, method: Method | None, gradient: Gradient) -> tuple[Any, Method]:
    """The start as floats and the method, with what the types cannot say checked."""
    fix = "Pass a function of `x` and `args`, or leave it out."
    known = gradient is None or callable(gradient) or gradient == "numeric"
    check(known, "gradient", "a function, 'numeric' or None", repr(gradient), fix)
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    check(bool(jax.tree.leaves(start)), "start", "at least one number", "none")
    known = method is None or isinstance(method, Method)
    fix = "Pass an object, such as `LBFGS()` or `Newton()`."
    check(known, "method", "a method of `tractable.optim`", repr(method), fix, TypeError)
    return start, LBFGS() if method is None else method


@program
def _path(fun, method: Method, start: Any, args: tuple, num_steps: int, gradient: Gradient) -> Trajectory:
    flat, unravel = ravel_pytree(start)
    objective = Objective(fun, unravel, args, gradient)

    def step(iterate, _):
        moved = method.step(objective, iterate)
        return moved, (moved.point, moved.value, moved.gradient)

    first = method.init(objective, flat)
    path = run(step, first, num_steps=num_steps).trace
    beginning = (first.point, first.value, first.gradient)
    rows = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), beginning, path)
    return Trajectory(*rows)


@program
def _search(
    fun,
    method: Method,
    start: Any,
    args: tuple,
    tol: Array,
    max_steps: int,
    stop: str,
    gradient: Gradient,
) -> Minimum:
    flat, unravel = ravel_pytree(start)
    objective = Objective(fun, unravel, args, gradient)
    first = method.init(objective, flat)

    def step(state):
        iterate, _ = state
        moved = method.step(objective, iterate)
        return (moved, _relative_change(moved, iterate)), moved.value

    def flat_enough(iterate):
        # The smaller of the two values: an objective that runs away must not look flat for its size.
        size = jnp.minimum(jnp.abs(iterate.value), jnp.abs(first.value))
        return method.residual(objective, iterate) <= tol * (1 + size)

    def settled(state, value, before):
        iterate, change = state
        met = {
            "gradient": lambda: flat_enough(iterate),
            "step": lambda: change <= tol,
            "value": lambda: is_close(value, before, tol),
        }[stop]()
        return met | iterate.stalled

    never = jnp.asarray(jnp.inf, flat.dtype)
    found = run_until(step, (first, never), max_steps=max_steps, tol=tol, settled=settled)
    last = found.state[0]
    finished = found.code == int(Status.converged)
    stalled = finished & last.stalled & ~flat_enough(last)
    code = jnp.where(stalled, int(Status.stalled), found.code)
    norm = method.residual(objective, last)
    point, count = unravel(last.point), found.num_steps
    return Minimum(point, found.trace, count, code, last.value, norm, last.evaluations, stop)


def _relative_change(moved: Iterate, before: Iterate) -> Scalar:
    return jnp.abs(moved.point - before.point).max() / (1 + jnp.abs(moved.point).max())
