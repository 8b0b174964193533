r"""Minimisation on the host: NumPy between evaluations, and every step is one evaluation.

Step.        The trial $x + d$ is evaluated. It is taken if $f$ falls enough (`linesearch.falls_enough`); then
             $d$ is the Newton direction where the function gives its curvature, else $-Hg$ with $H$ the BFGS
             estimate of the inverse curvature. Else $d$ shrinks to the minimum of a parabola, and by ten
             where there is no value (a wall).
Host.        For functions that are one call of one compiled program, or NumPy passes over a table: compiling
             a loop around them costs more than small problems take.
Coordinates. The search is in $z$ with $x = x_0 + A z$; `whitening` gives the $A$ in which the curvature at a
             point is one.
Stopping.    `"gradient"` and `"value"` as in `minimise`; `"decrement"` when $\sqrt{g^\top B^{-1} g} \le
             \mathrm{tol}$ and the Newton step moves no coordinate by more than $10^{-3}$: that last step is
             taken, which squares the error. Where the function gives its curvature, a point from which it
             falls is called a saddle; else the verdict says "stationary".
Cost.        One evaluation per step, and $p^2$ for $p$ unknowns ($p^3$ for a Newton direction).
References.  Nocedal and Wright (2006) chapters 3 and 6; Hager and Zhang (2005).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count, check_option, to_device
from tractable.core.iterate import Status
from tractable.core.types import Array
from tractable.optim.curvature import least_eigenvalue
from tractable.optim.linesearch import falls_enough
from tractable.optim.minimise import Minimum
from tractable.optim.newton import newton_direction
from tractable.optim.quasi_newton import inverse_update, is_curved
from tractable.optim.stopping import fall_in_units, is_flat

__all__ = ["HostMinimum", "Walk", "minimise_on_host", "whitening"]

Evaluate = Callable[[Any], tuple]

_FARTHEST = 4.0  # in one quasi-Newton step and coordinate: a factor of 55 for what is positive
_MISSES = 30  # trials in a row without a visible fall: rounding has the last word
_SHORTEST = 1e-10  # of a Newton direction: below it nothing is left to try
_LAST = 1e-3  # the longest move of the Newton step that may be taken unseen
_LONGEST = 2.0  # a unit of a direction about which the curvature says little


class HostMinimum(Minimum):
    """A minimum with the direction that the search would take next, and what it knows of the curvature: the
    Hessian where the function gives it, else the BFGS estimate of its inverse."""

    direction: Array | None = None
    curvature: Array | None = None


class Walk(NamedTuple):
    """Where the search stands, the move that it will try, and what it has learnt."""

    point: Any
    value: Any  # NaN before the first evaluation
    gradient: Any
    curvature: Any  # its inverse, where it is learnt
    scaled: Any  # whether the size of the curvature means anything yet
    move: Any
    direction: Any  # the whole step, of which `move` may be a part
    first: Any  # the value at the start
    change: Any  # of the value, if the last move was taken
    misses: Any  # trials since the value fell
    steepest: Any  # the largest slope seen
    secant: Any  # the change of the gradient per length of the last move that was taken

    @property
    def decrement(self) -> float:
        r"""$\sqrt{-g^\top d}$: by a Newton direction, the root of twice the fall that is left."""
        return float(np.sqrt(max(-float(self.gradient @ self.direction), 0.0)))

    @property
    def longest(self) -> float:
        """The largest change of a coordinate that the whole step would make."""
        return float(np.abs(self.direction).max(initial=0.0))


def minimise_on_host(
    function: Evaluate,
    start: Any,
    axes: Any = None,
    *,
    max_steps: int = 200,
    tol: float = 1e-8,
    stop: str = "gradient",
    judge: Callable[[Walk], Status | None] | None = None,
) -> HostMinimum:
    r"""The minimum of `function` from `start`, in the coordinates of `axes` (None: as they are).

    `function(x)` gives value and gradient, or value, gradient and Hessian; a value that is not finite is a
    wall. Ctrl-C is raised. `judge` may end the search by a status of its own.

    >>> found = minimise_on_host(lambda x: (((x - 3) ** 2).sum(), 2 * (x - 3)), [0.0, 1.0])
    >>> found.state.round(6).tolist(), found.status.name
    ([3.0, 3.0], 'converged')
    """
    max_steps = check_count("max_steps", max_steps)
    check(tol >= 0, "tol", "zero or positive", tol)
    check_option("stop", stop, ("gradient", "value", "decrement"))
    origin = np.asarray(start, getattr(start, "dtype", float))
    turn = None if axes is None else np.asarray(axes)

    def place(z: np.ndarray) -> np.ndarray:
        return np.asarray(origin + (z if turn is None else turn @ z), origin.dtype)

    exact: list[bool] = []  # not empty: the function gives its curvature

    def look(z: np.ndarray) -> tuple:
        value, slope, *curvature = function(place(z))
        exact.extend([True] * len(curvature))
        seen = float(value), np.asarray(slope, float), *(np.asarray(c, float) for c in curvature)
        return seen if turn is None else (seen[0], turn.T @ seen[1], *(turn.T @ c @ turn for c in seen[2:]))

    def step(walk: Walk, _: Any) -> tuple[Walk, Any]:
        walk = Walk(*map(np.asarray, walk))
        after = _tried(walk, *look(walk.point + walk.move))
        return after, np.asarray(after.value)

    def ended(walk: Walk, _: Any = None) -> Status | None:
        own = None if judge is None or np.isnan(walk.value) else judge(walk)
        return _verdict(walk, tol, stop, size) if own is None else own

    zeros = np.zeros(origin.size)
    white, ones = turn is not None, np.eye(origin.size)  # `axes` say what one is, in space and in slope
    seen = (np.inf, 1.0) if white else (0.0, 0.0)
    blank = Walk(zeros, np.nan, zeros, ones, white, zeros, zeros, np.nan, np.inf, 0, *seen)
    size = 1.0 if white else np.abs(origin).max(initial=0.0)
    run = run_in_blocks(step, blank, num_steps=max_steps, judge=ended, compiled=False, partial=False)
    return _found(run, place, origin.dtype, stop, bool(exact))


def _found(run: Any, place: Callable, dtype: Any, stop: str, exact: bool) -> HostMinimum:
    """What the search came to, in the coordinates of the function; `exact` if it gave its curvature."""
    last = Walk(*map(np.asarray, run.state))
    fix = "Choose a start at which the function and its gradient exist."
    check(bool(np.isfinite(last.value)), "function", "finite at `start`", float(run.trace[0]), fix)
    status = Status.exhausted if run.status is Status.completed else run.status
    last_step = stop == "decrement" and status is Status.converged
    point = last.point + last.direction if last_step else last.point
    norm = np.abs(last.gradient).max(initial=0.0)
    least = least_eigenvalue(last.curvature) if exact and status.ok else None
    status = Status.saddle if least is not None and least < 0 else status
    value, norm = (to_device(np.asarray(v, dtype)) for v in (last.value, norm))
    state, direction, curvature = map(to_device, (place(point), last.direction, last.curvature))
    trace, count, code = to_device(np.asarray(run.trace)), run.num_steps, jnp.asarray(int(status))
    return HostMinimum(state, trace, count, code, value, norm, count, stop, least, direction, curvature)


def whitening(function: Evaluate, point: Any, ratio: float) -> np.ndarray:
    r"""$H^{-1/2}$ for `ratio` times the curvature at `point`; no direction longer than `_LONGEST`.

    The curvature is made of differences of gradients: it only has to be right to a few per cent.
    """
    point, step = np.asarray(point), 1e-3
    moves = step * np.eye(point.size)
    slopes = [np.asarray(function(np.asarray(point + move))[1], float) for move in (0 * point, *moves)]
    rows = (np.stack(slopes[1:]) - slopes[0][None]) / step
    values, vectors = np.linalg.eigh(0.5 * ratio * (rows + rows.T))
    lengths = 1 / np.sqrt(np.maximum(np.abs(values), _LONGEST**-2))
    return (vectors * lengths[None]) @ vectors.T


def _tried(walk: Walk, value: float, gradient: np.ndarray, curvature: np.ndarray | None = None) -> Walk:
    """What the value and gradient at the trial make of the walk."""
    known = np.isfinite(value) and np.isfinite(gradient).all()
    if np.isnan(walk.value):
        steepest = max(walk.steepest, np.abs(gradient).max(initial=0.0))
        begun = walk._replace(
            value=value if known else np.nan, gradient=gradient, first=value, steepest=steepest
        )
        return _aimed(begun, curvature) if known else begun
    if not known:
        return walk._replace(move=0.1 * walk.move, change=np.inf, misses=walk.misses + 1)
    slope, rise = walk.gradient @ walk.move, value - walk.value
    rounding = 4 * np.finfo(float).eps * abs(walk.value)
    if not falls_enough(rise, slope, gradient @ walk.move, rounding):
        shrunk = np.clip(-slope / (2 * (rise - slope)), 0.1, 0.5) * walk.move
        return walk._replace(move=shrunk, change=np.inf, misses=walk.misses + 1)
    if curvature is None:
        walk = _learnt(walk, gradient - walk.gradient)
    length = np.linalg.norm(walk.move)
    secant = np.linalg.norm(gradient - walk.gradient) / length if length else walk.secant
    moved = walk._replace(
        point=walk.point + walk.move, value=value, gradient=gradient,
        change=abs(rise), misses=0 if rise < -rounding else walk.misses + 1,
        steepest=max(walk.steepest, np.abs(gradient).max(initial=0.0)), secant=secant,
    )  # fmt: skip
    return _aimed(moved, curvature)


def _aimed(walk: Walk, curvature: np.ndarray | None) -> Walk:
    """The next move: the Newton step, or a quasi-Newton step kept to `_FARTHEST`; before any size is known, a
    short one."""
    if curvature is not None:
        step = newton_direction(curvature, walk.gradient)
        return walk._replace(curvature=curvature, scaled=True, direction=step, move=step)
    step = -walk.curvature @ walk.gradient
    length = np.abs(step).max(initial=0.0)
    if length > 0:
        farthest = _FARTHEST if walk.scaled else min(1.0, length / np.abs(step).sum())
        step = step * min(1.0, farthest / length)
    return walk._replace(direction=step, move=step)


def _learnt(walk: Walk, change: np.ndarray) -> Walk:
    """The inverse curvature after a move; a function that does not curve upwards asks for longer steps."""
    s, y = walk.move, change
    if not is_curved(s, y):
        return walk._replace(curvature=2 * walk.curvature)
    inverse = walk.curvature if walk.scaled else (y @ s) / (y @ y) * np.eye(s.size)
    return walk._replace(curvature=inverse_update(inverse, s, y), scaled=True)


def _verdict(walk: Walk, tol: float, stop: str, size: float) -> Status | None:
    if np.isnan(walk.value):
        return Status.not_finite
    norm, fall = np.abs(walk.gradient).max(initial=0.0), fall_in_units(walk.first, walk.value)
    length = max(size, np.abs(walk.point).max(initial=0.0))
    met = {
        "gradient": bool(is_flat(norm, walk.steepest, walk.secant, length, fall, tol)),
        "value": walk.change <= tol * fall,
        "decrement": walk.decrement <= tol and walk.longest <= _LAST,
    }
    if met[stop] or (stop == "value" and met["gradient"]):
        return Status.converged
    still = bool((walk.point + walk.move == walk.point).all())
    short = stop == "decrement" and np.abs(walk.move).max(initial=0.0) < _SHORTEST * walk.longest
    return Status.stalled if walk.misses >= _MISSES or still or short else None
