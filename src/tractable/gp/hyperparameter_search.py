r"""The search for hyperparameters: a quasi-Newton method whose every step is one evaluation.

Step.        The trial $x + d$ is evaluated. It is taken if $f$ falls by $10^{-4}\,g^\top d$ at least (where
             rounding hides that, if the slope says so); then $H$, the inverse of the curvature, learns the
             change of the gradient and $d = -H g$. Else $d$ shrinks to the minimum of a parabola, and by ten
             where there is no evidence (a covariance that is singular).
Host.        Steps run in NumPy and one evaluation is one call of one compiled program, which the search on a
             subset, its curvature and the starts share: compiling costs more than small problems take.
Coordinates. The search is in $z$ with $x = x_0 + A z$; `whitening` gives the $A$ in which the curvature at a
             point is one.
Cost.        One value and gradient per step, and $p^2$ for $p$ hyperparameters.
References.  Nocedal and Wright (2006) chapters 3 and 6; Hager and Zhang (2005).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, to_device
from tractable.core.iterate import Status
from tractable.optim.minimise import Minimum
from tractable.optim.quasi_newton import inverse_update

__all__ = ["search", "whitening"]

ValueAndSlope = Callable[[Any], tuple[Any, Any]]

_DECREASE = 1e-4  # of what the slope promises: the least fall that is taken
_FARTHEST = 4.0  # in one step and coordinate: a factor of 55 for what is positive
_MISSES = 30  # trials in a row without a visible fall: rounding has the last word
_LONGEST = 2.0  # a unit of a direction about which the curvature says little


class _Walk(NamedTuple):
    """Where the search stands, the move that it will try, and what it has learnt."""

    point: Any
    value: Any  # NaN before the first evaluation
    gradient: Any
    inverse: Any  # of the curvature
    scaled: Any  # whether the size of `inverse` means anything yet
    move: Any
    first: Any  # the value at the start
    change: Any  # of the value, if the last move was taken
    misses: Any  # trials since the value fell


def search(
    function: ValueAndSlope,
    origin: Any,
    spread: np.ndarray | None = None,
    *,
    max_steps: int,
    tol: float,
    stop: str = "gradient",
) -> Minimum:
    r"""The minimum of `function` from `origin`, in the coordinates of `spread` (None: as they are).

    `stop="gradient"` when $\max_i|\partial_i f| \le \mathrm{tol}(1 + \min(|f|, |f_0|))$ in these
    coordinates, `"value"` when a step changes $f$ by less than $\mathrm{tol}(1 + |f|)$.
    """
    origin = np.asarray(origin)
    axes = np.eye(origin.size) if spread is None else np.asarray(spread)

    def step(walk: _Walk, _: Any) -> tuple[_Walk, Any]:
        walk = _Walk(*map(np.asarray, walk))
        value, slope = function(jnp.asarray(origin + axes @ (walk.point + walk.move), origin.dtype))
        after = _tried(walk, float(value), axes.T @ np.asarray(slope, float))
        return after, after.value

    def judge(walk: _Walk, _: Any) -> Status | None:
        return _verdict(walk, tol, stop)

    zeros = np.zeros(origin.size)
    start = _Walk(zeros, np.nan, zeros, np.eye(origin.size), spread is not None, zeros, np.nan, np.inf, 0)
    run = run_in_blocks(step, start, num_steps=max_steps, judge=judge, compiled=False)
    last, code = run.state, run.code
    fix = "Choose a start at which the evidence and its gradient exist."
    begun = bool(np.isfinite(last.value))
    check(begun, "process", "one with a finite evidence at its start", float(run.trace[0]), fix)
    if run.status is Status.completed:
        code = jnp.asarray(int(Status.exhausted))
    found = jnp.asarray(origin + axes @ np.asarray(last.point), origin.dtype)
    norm, value = (jnp.asarray(part, origin.dtype) for part in (np.abs(last.gradient).max(), last.value))
    return Minimum(
        found, to_device(np.asarray(run.trace)), run.num_steps, code, value, norm, run.num_steps, stop
    )


def whitening(function: ValueAndSlope, point: Any, ratio: float) -> np.ndarray:
    r"""$H^{-1/2}$ for `ratio` times the curvature at `point`; no direction longer than `_LONGEST`.

    The curvature is made of differences of gradients: it only has to be right to a few per cent.
    """
    point, step = np.asarray(point), 1e-3
    axes = step * np.eye(point.size)
    slopes = [np.asarray(function(jnp.asarray(point + axis))[1], float) for axis in (0 * point, *axes)]
    rows = (np.stack(slopes[1:]) - slopes[0][None]) / step
    values, vectors = np.linalg.eigh(0.5 * ratio * (rows + rows.T))
    lengths = 1 / np.sqrt(np.maximum(np.abs(values), _LONGEST**-2))
    return (vectors * lengths[None]) @ vectors.T


def _tried(walk: _Walk, value: float, gradient: np.ndarray) -> _Walk:
    """What the value and gradient at the trial make of the walk."""
    known = np.isfinite(value) and np.isfinite(gradient).all()
    if np.isnan(walk.value):
        begun = walk._replace(value=value if known else np.nan, gradient=gradient, first=value)
        return begun._replace(move=_move(begun)) if known else begun
    if not known:
        return walk._replace(move=0.1 * walk.move, change=np.inf, misses=walk.misses + 1)
    slope, rise = walk.gradient @ walk.move, value - walk.value
    rounding = 4 * np.finfo(float).eps * abs(walk.value)
    level = rise <= rounding and gradient @ walk.move <= (2 * _DECREASE - 1) * slope
    if not (rise <= _DECREASE * slope or level):
        shrunk = np.clip(-slope / (2 * (rise - slope)), 0.1, 0.5) * walk.move
        return walk._replace(move=shrunk, change=np.inf, misses=walk.misses + 1)
    inverse, scaled = _learnt(walk, gradient - walk.gradient)
    moved = walk._replace(
        point=walk.point + walk.move, value=value, gradient=gradient, inverse=inverse, scaled=scaled,
        change=abs(rise), misses=0 if rise < -rounding else walk.misses + 1,
    )  # fmt: skip
    return moved._replace(move=_move(moved))


def _move(walk: _Walk) -> np.ndarray:
    """The quasi-Newton step, kept to `_FARTHEST`; before any size is known, a short one."""
    move = -walk.inverse @ walk.gradient
    length = np.abs(move).max()
    farthest = _FARTHEST if walk.scaled else min(1.0, length / np.abs(move).sum()) if length > 0 else 1.0
    return move * min(1.0, farthest / length) if length > 0 else move


def _learnt(walk: _Walk, change: np.ndarray) -> tuple[np.ndarray, bool]:
    """The inverse curvature after a move; a function that does not curve upwards asks for longer steps."""
    s, y = walk.move, change
    inner = y @ s
    if inner <= 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
        return 2 * walk.inverse, bool(walk.scaled)
    inverse = walk.inverse if walk.scaled else inner / (y @ y) * np.eye(s.size)
    return inverse_update(inverse, s, y), True


def _verdict(walk: _Walk, tol: float, stop: str) -> Status | None:
    if np.isnan(walk.value):
        return Status.not_finite
    size = min(abs(walk.value), abs(walk.first))
    flat = np.abs(walk.gradient).max() <= tol * (1 + size)
    steady = walk.change <= tol * (1 + abs(walk.value))
    if flat or (stop == "value" and steady):
        return Status.converged
    stuck = walk.misses >= _MISSES or bool((walk.point + walk.move == walk.point).all())
    return Status.stalled if stuck else None
