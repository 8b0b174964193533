r"""Line searches: how far to go along a direction of descent.

Conditions.  Sufficient decrease $f(x + t d) \le f(x) + c_1 t\, g^\top d$ and, for Wolfe, curvature
             $\nabla f(x + t d)^\top d \ge c_2\, g^\top d$. Close to a minimum the decrease is smaller than
             rounding; there the slope decides (Hager and Zhang's approximate condition
             $\nabla f(x + td)^\top d \le (2 c_1 - 1) g^\top d$ with $f$ no larger than its rounding).
Cost.        One value and gradient per trial; the accepted trial's are returned, so that a step that is taken
             at once costs one.
References.  Nocedal and Wright (2006) chapter 3; Lewis and Overton (2013); Hager and Zhang (2005).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.types import Array, Bool, Float, Int, Scalar

__all__ = ["Trial", "backtracking", "falls_enough", "wolfe"]

DECREASE = 1e-4  # of what the slope promises: the least fall that is taken

ValueAndGrad = Callable[[Array], tuple[Scalar, Array]]


class Trial(Module):
    """The step that a search ended with, and what was evaluated there."""

    length: Scalar
    point: Float[Array, " n"]
    value: Scalar
    gradient: Float[Array, " n"]
    accepted: Bool[Array, ""]
    evaluations: Int[Array, ""]

    @staticmethod
    def at(point: Float[Array, " n"], value: Scalar, gradient: Float[Array, " n"]) -> "Trial":
        """No step at all: where a search sets out from."""
        return Trial(jnp.zeros_like(value), point, value, gradient, jnp.asarray(True), jnp.asarray(0))


def falls_enough(rise: Any, slope: Any, steep: Any, rounding: Any, decrease: float = DECREASE) -> Any:
    r"""Whether a move with slope $g^\top d$ at its start and `steep` at its end lowers the value enough.

    The value falls by $c_1 g^\top d$ at least; or it has not risen beyond `rounding`, and the slope says that
    the move is short of the minimum or not far beyond. For NumPy and JAX alike.
    """
    return (rise <= decrease * slope) | ((rise <= rounding) & (steep <= (2 * decrease - 1) * slope))


def backtracking(
    fun: ValueAndGrad,
    start: Trial,
    direction: Float[Array, " n"],
    first: Scalar,
    *,
    decrease: float = DECREASE,
    shrink: float = 0.5,
    max_trials: int = 50,
) -> Trial:
    """Shrink the step until the decrease is sufficient; where rounding hides it, until the slope says so."""
    slope = start.gradient @ direction
    rounding = _rounding(start)

    def probe(length, count):
        point = start.point + length * direction
        value, gradient = fun(point)
        promised, steep = length * slope, length * (gradient @ direction)
        moved = (slope < 0) & jnp.any(point != start.point)  # else steps that go nowhere are taken for ever
        fine = falls_enough(value - start.value, promised, steep, rounding, decrease)
        return Trial(length, point, value, gradient, fine & moved, count)

    def shorter(carry):
        length, trial = carry
        return shrink * length, probe(length, trial.evaluations + 1)

    return _search(shorter, (first, start), max_trials)[1]


def wolfe(
    fun: ValueAndGrad,
    start: Trial,
    direction: Float[Array, " n"],
    first: Scalar,
    *,
    decrease: float = DECREASE,
    curvature: float = 0.9,
    max_trials: int = 30,
) -> Trial:
    """Bracket and interpolate until both Wolfe conditions hold.

    The bracket keeps a low end that decreases enough but is still too steep, and a high end that does not
    decrease enough. A new length is the minimiser of the cubic through both ends, kept away from them;
    without a high end it doubles.
    """
    slope = start.gradient @ direction
    rounding = _rounding(start)

    def probe(length, count):
        point = start.point + length * direction
        value, gradient = fun(point)
        steep = gradient @ direction
        promised, end = length * slope, length * steep
        fine = falls_enough(value - start.value, promised, end, rounding, decrease) & jnp.isfinite(value)
        return Trial(length, point, value, gradient, fine & (steep >= curvature * slope), count), fine, steep

    def narrow(carry):
        length, trial, low, high = carry
        trial, fine, steep = probe(length, trial.evaluations + 1)
        end = (trial.length, trial.value, steep)
        low = jax.tree.map(lambda new, old: jnp.where(fine, new, old), end, low)
        high = jax.tree.map(lambda new, old: jnp.where(fine, old, new), end, high)
        length = jnp.where(jnp.isfinite(high[0]), _between(low, high), 2 * low[0])
        return length, trial, low, high

    low = (jnp.zeros_like(slope), start.value, slope)
    high = (jnp.full_like(slope, jnp.inf), start.value, slope)
    return _search(narrow, (first, start, low, high), max_trials)[1]


def _search(step: Callable[[tuple], tuple], carry: tuple, max_trials: int) -> tuple:
    """Steps until a trial is accepted; the objective has one place in the program, so it is compiled once."""

    def go_on(carry):
        trial = carry[1]
        return (trial.evaluations == 0) | (~trial.accepted & (trial.evaluations < max_trials))

    length, *rest = carry
    return jax.lax.while_loop(go_on, step, (jnp.asarray(length, rest[0].value.dtype), *rest))


def _rounding(start: Trial) -> Scalar:
    """How far two values near that at the start can be apart by rounding alone."""
    return 4 * jnp.finfo(start.value.dtype).eps * jnp.abs(start.value)


def _between(low, high) -> Scalar:
    """The minimiser of the cubic through two ends, kept a tenth of the bracket away from both; else the
    middle."""
    (a, fa, ga), (b, fb, gb) = low, high
    width = b - a
    theta = ga + gb - 3 * (fb - fa) / width
    root = jnp.sqrt(jnp.maximum(theta**2 - ga * gb, 0.0))
    cubic = b - width * (gb + root - theta) / (gb - ga + 2 * root)
    inside = (cubic > a + 0.1 * width) & (cubic < b - 0.1 * width)
    return jnp.where(inside, cubic, a + 0.5 * width)
