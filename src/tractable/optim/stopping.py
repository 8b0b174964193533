r"""When a gradient is zero: a rule that neither a constant added to $f$ nor the units of $f$ and $x$ change.

Units.       A gradient is small or large beside what the search has seen of the objective: the secant
             $c = \|\Delta g\|/\|\Delta x\|$ of the last step, the length
             $\ell = \max(\|x\|, \|x - x_0\|)$, the fall $f_0 - f$ and the steepest slope on the way.
Rule.        Either the step $\|g\|/c$ that is left is below $\mathrm{tol}\,\ell$, or the fall
             $\|g\|^2/c$ that is left is below $2\,\mathrm{tol}^2 \min(f_0 - f, 1 + |f|, 1 + |f_0|)$; and the
             slope has fallen to a hundredth of the steepest, which it does not at a kink. The sizes of $f$
             only make the rule stricter: a start on a wall must not make everything after it look flat.
Cost.        A few products.
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar

__all__ = ["Course", "fall_in_units", "is_flat"]

_KINK = 0.01


def fall_in_units(first: Any, value: Any) -> Any:
    """The fall so far, at most the sizes of the two values and one; for numbers, NumPy and JAX alike."""
    fall, sizes = first - value, (1 + abs(first), 1 + abs(value))
    least = fall * (fall > 0)
    for size in sizes:
        least = least + (size - least) * (size < least)
    return least


def is_flat(norm: Any, steepest: Any, curvature: Any, length: Any, fall: Any, tol: Any) -> Any:
    """The rule above; for numbers, NumPy and JAX alike."""
    near = norm <= tol * curvature * length
    low = norm * norm <= 2 * tol * tol * fall * curvature
    return (norm == 0) | ((near | low) & (norm <= _KINK * steepest))


class Course(Module):
    """What a search has seen of its objective, in units that later slopes can be compared with."""

    start: Float[Array, " n"]
    first: Scalar
    steepest: Scalar
    curvature: Scalar

    @staticmethod
    def begin(point: Float[Array, " n"], value: Scalar, slope: Float[Array, " n"]) -> "Course":
        """Nothing seen but the start."""
        return Course(point, value, jnp.abs(slope).max(), jnp.zeros_like(value))

    def after(self, step: Float[Array, " n"], change: Float[Array, " n"], slope: Array) -> "Course":
        """With a step and the change of the slope along it; a step of rounding teaches nothing."""
        moved = jnp.linalg.norm(step)
        secant = jnp.linalg.norm(change) / jnp.where(moved > 0, moved, 1.0)
        steepest = jnp.maximum(self.steepest, jnp.abs(slope).max())
        return Course(self.start, self.first, steepest, jnp.where(moved > 0, secant, self.curvature))

    def length(self, point: Float[Array, " n"]) -> Scalar:
        """The size of the unknowns, or how far they have come."""
        return jnp.maximum(jnp.abs(point).max(), jnp.abs(point - self.start).max())

    def flat(self, point: Array, value: Scalar, slope: Array, tol: Any) -> Any:
        """Whether the slope at a point is zero within the tolerance."""
        fall = fall_in_units(self.first, value)
        norm = jnp.abs(slope).max()
        return is_flat(norm, self.steepest, self.curvature, self.length(point), fall, tol)
