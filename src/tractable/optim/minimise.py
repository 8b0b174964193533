r"""`minimise`: one entry to every method, one result with its verdict.

Problem.     $\min_x f(x; \mathrm{args})$ for any pytree $x$ of floats.
Stopping.    `stop="gradient"`: converged when the gradient (with constraints, the projected or proximal one)
             is zero within `tol`, by a rule that a constant added to $f$ and the units of $f$ and $x$ do not
             change (`optim.stopping`); `stalled` when rounding prevents any decrease before that.
             `"step"`: when $\max_i |\Delta x_i| \le \mathrm{tol}\,\max(\|x\|, \|x - x_0\|)$;
             `"value"`: when $|\Delta f| \le \mathrm{tol}\,\min(f_0 - f, 1 + |f|, 1 + |f_0|)$. The last two
             also stop a method that creeps: look at `gradient_norm`.
Curvature.   At the end of a smooth search the least curvature tells a minimum from a saddle or a maximum
             (`optim.curvature`); with `curvature=False`, and for constrained methods, the verdict says
             "stationary".
Cost.        One compiled program per function, method and shapes; data in `args` may change without compiling
             again.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check, check_count, check_option, is_concrete
from tractable.core.iterate import Run, Status, run, run_until
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, Float, Int, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.curvature import least_curvature
from tractable.optim.objective import Method, Objective
from tractable.optim.quasi_newton import LBFGS
from tractable.optim.stopping import Course, fall_in_units

__all__ = ["Minimum", "Trajectory", "minimise", "trajectory"]

Gradient = Callable[..., Any] | str | None

_CONVERGED = {
    "gradient": "Converged: the gradient is below the tolerance",
    "step": "Converged: the point moved by less than the tolerance",
    "value": "Converged: the objective changed by less than the tolerance",
}
_MINIMUM = ", and no direction curves downwards: a local minimum."
_STATIONARY = ": a stationary point; the curvature was not looked at."


class Minimum(Run):
    """The point with the lowest objective found, and how the search ended."""

    value: Scalar
    gradient_norm: Scalar
    evaluations: Int[Array, ""]
    stop: str = field(static=True, default="gradient")
    least_curvature: float | None = field(static=True, show=False, default=None)

    @property
    def verdict(self) -> Verdict:
        """How the search ended, by which rule where it converged, and at what kind of point.

        `least_curvature` is relative to the largest; None where it was not looked at.
        """
        status = self.status
        kind = _STATIONARY if self.least_curvature is None else _MINIMUM
        sentence = _CONVERGED[self.stop] + kind if status is Status.converged else status.sentence
        names = ("value", "gradient_norm", "least_curvature")
        return Verdict(status.ok, sentence, {name: getattr(self, name) for name in names})


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
    curvature: bool = True,
) -> Minimum:
    r"""Minimise `fun(x, *args)` from `start`, until the rule named by `stop` holds.

    The gradient is automatic, or `gradient(x, *args)`, or for black boxes `gradient="numeric"`. Without
    `curvature` the last point is not tested for being a minimum.

    >>> minimise(lambda x: (x - 3.0) ** 2, 0.0).state
    Array(3., dtype=float64)
    """
    max_steps = check_count("max_steps", max_steps)
    check(not is_concrete(tol) or bool(tol >= 0), "tol", "zero or positive", tol)
    check_option("stop", stop, tuple(_CONVERGED))
    start, method = _checked(start, method, gradient)
    args = as_data(args)
    found = _search(fun, method, start, args, jnp.asarray(tol), max_steps, stop, gradient)
    if is_concrete(found.value):
        fix = "Choose a start at which the objective and its gradient exist."
        check(bool(jnp.isfinite(found.value)), "fun", "finite at `start`", float(found.value), fix)
    known = all(map(is_concrete, jax.tree.leaves((found, args))))
    if not (curvature and method.smooth and known and np.ndim(found.code) == 0 and found.status.ok):
        return found
    return _judged(found, fun, start, args, gradient)


def _judged(found: Minimum, fun: Callable[..., Any], start: Any, args: tuple, gradient: Gradient) -> Minimum:
    """With the least curvature, and called a saddle where that is negative."""
    here, there = (np.asarray(ravel_pytree(tree)[0]) for tree in (found.state, start))
    least = least_curvature(
        lambda rows: _slopes(fun, start, args, gradient, jnp.asarray(rows)), here, here - there
    )
    code = jnp.asarray(int(Status.saddle)) if least is not None and least < 0 else found.code
    return dataclasses.replace(found, code=code, least_curvature=least)


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
    return _path(fun, method, start, as_data(args), num_steps, gradient)


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
def _slopes(fun, like: Any, args: tuple, gradient: Gradient, points: Array) -> Array:
    """The gradients at rows of points, one after another."""
    objective = Objective(fun, ravel_pytree(like)[1], args, gradient)
    return jax.lax.map(lambda x: objective.value_and_grad(x)[1], points)


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
    slope = method.slope(first.point, first.gradient, first.memory)
    course = Course.begin(first.point, first.value, slope)

    def step(state):
        iterate, course, _ = state
        moved = method.step(objective, iterate)
        before, after = (method.slope(i.point, i.gradient, moved.memory) for i in (iterate, moved))
        change = moved.point - iterate.point
        return (moved, course.after(change, after - before, after), jnp.abs(change).max()), moved.value

    def flat_enough(iterate, course):
        slope = method.slope(iterate.point, iterate.gradient, iterate.memory)
        return course.flat(iterate.point, iterate.value, slope, tol)

    def settled(state, value, before):
        iterate, course, change = state
        met = {
            "gradient": lambda: flat_enough(iterate, course),
            "step": lambda: change <= tol * course.length(iterate.point),
            "value": lambda: jnp.abs(value - before) <= tol * fall_in_units(first.value, value),
        }[stop]()
        return met | iterate.stalled

    never = jnp.asarray(jnp.inf, flat.dtype)
    found = run_until(step, (first, course, never), max_steps=max_steps, tol=tol, settled=settled)
    last, course, _ = found.state
    finished = found.code == int(Status.converged)
    stalled = finished & last.stalled & ~flat_enough(last, course)
    code = jnp.where(stalled, int(Status.stalled), found.code)
    norm = jnp.abs(method.slope(last.point, last.gradient, last.memory)).max()
    point, count = unravel(last.point), found.num_steps
    return Minimum(point, found.trace, count, code, last.value, norm, last.evaluations, stop)
