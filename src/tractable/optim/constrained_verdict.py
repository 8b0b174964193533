r"""What the last point of a constrained search is: a minimum, a saddle, or proof that there is none.

Units.       Residuals count beside what they are made of: slopes beside $\nabla f$, $\lambda_i \nabla g_i$
             and $\nabla^2 L$ times the length of $x$, constraints beside their slopes times that length. A
             constant added to $f$ and the units of $f$, $x$ and the constraints change nothing.
Saddle.      A KKT point where $\nabla^2 L$ has negative curvature along the constraints that hold the point.
Infeasible.  A point with a violation that no small move lowers; for convex constraints there is then none.
Unbounded.   A ray along which $f$ was seen to fall, and the constraints to hold, through six powers of ten.
Cost.        One Hessian of the Lagrangian; six values where a search has run away.
References.  Nocedal and Wright (2006) sections 12.5 and 17.2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.iterate import Status
from tractable.core.programs import program
from tractable.core.types import Array, PyTree
from tractable.optim.kkt import KKTReport, constraint_values

__all__ = ["Place", "outcome", "place_of"]

Function = Callable[..., Any]


class Place(NamedTuple):
    """The last point, what it has moved by, and what is known there."""

    x: np.ndarray
    moved: np.ndarray
    lam: np.ndarray
    nu: np.ndarray
    g: np.ndarray
    h: np.ndarray
    slope: np.ndarray
    hessian: np.ndarray
    rows: np.ndarray  # of the inequalities
    levels: np.ndarray  # of the equalities

    @property
    def length(self) -> float:
        """The size of the unknowns, or how far they have come."""
        return max(_largest(self.x), _largest(self.moved)) or 1.0

    @property
    def sizes(self) -> tuple[float, ...]:
        """The units of stationarity, equality, inequality, multipliers and complementarity."""
        terms = _largest(self.lam[:, None] * self.rows), _largest(self.nu[:, None] * self.levels)
        slope = max(_largest(self.slope), *terms, _largest(self.hessian) * self.length)
        level, row = (_largest(part) * self.length for part in (self.levels, self.rows))
        return slope, level, row, slope / (_largest(self.rows) or 1.0), slope * self.length

    def curves_down(self) -> bool:
        """Whether the Lagrangian falls on both sides along the constraints that hold the point."""
        held = self.lam > 1e-6 * self.sizes[3]
        normal = np.concatenate([self.levels, self.rows[held]])
        _, singular, turned = np.linalg.svd(normal)
        free = turned[int((singular > 1e-10 * singular.max(initial=0.0)).sum()) :].T
        if not free.shape[1]:
            return False
        values, vectors = np.linalg.eigh(free.T @ self.hessian @ free)
        if values[0] >= -1e-6 * _largest(self.hessian):
            return False
        weak = ~held & (self.g >= -1e-8 * (self.sizes[2] or 1.0))
        along = self.rows[weak] @ (free @ vectors[:, 0])
        return bool((along <= 0).all() or (along >= 0).all())

    def stuck(self) -> bool:
        """Whether no small move lowers the squared violation."""
        excess = np.maximum(self.g, 0.0)
        pull = self.levels.T @ self.h + self.rows.T @ excess
        slopes = max(_largest(self.levels), _largest(self.rows))
        return _largest(pull) <= 1e-3 * slopes * max(_largest(self.h), _largest(excess))


def place_of(
    fun: Function, constraints: tuple, x: PyTree, start: PyTree, args: tuple, lam: Array, nu: Array
) -> Place:
    """What is known of a point and its multipliers, reached from `start`."""
    here, there = (np.asarray(ravel_pytree(tree)[0]) for tree in (x, start))
    return Place(
        here, here - there, *map(np.asarray, (lam, nu, *_slopes(fun, constraints, x, args, lam, nu)))
    )


def outcome(value: float, report: KKTReport, place: Place, look: Callable[[np.ndarray], list]) -> Status:
    """How a search ended; `look(points)` are the objective and both constraints at rows of points."""
    excess, missed = float(report.inequality), float(report.equality)
    if not (np.isfinite(value) and np.isfinite(excess + missed)):
        return Status.not_finite
    if report.ok:
        return Status.saddle if place.curves_down() else Status.converged
    if missed > 1e-4 * place.sizes[1] or excess > 1e-4 * place.sizes[2]:
        return Status.infeasible if place.stuck() else Status.exhausted
    return Status.unbounded if _falls_for_ever(place, look) else Status.exhausted


def _falls_for_ever(place: Place, look: Callable[[np.ndarray], list]) -> bool:
    """Whether the objective falls along the way that the search took, by no less from each power of ten to
    the next, while the constraints hold: what a bounded objective does not do."""
    reach = 10.0 ** np.arange(1, 7)
    seen = look(place.x[None] + reach[:, None] * place.moved[None])
    heights = np.array([float(value) for value, _, _ in seen])
    drops = -np.diff(heights)
    sizes = place.sizes
    kept = [
        _largest(np.maximum(g, 0.0)) <= 1e-4 * t * sizes[2] and _largest(h) <= 1e-4 * t * sizes[1]
        for t, (_, g, h) in zip(reach, seen)
    ]
    steady = (drops > 0).all() and (drops[1:] >= 0.5 * drops[:-1]).all()
    return bool(np.isfinite(heights).all() and steady and all(kept))


def _largest(values: Any) -> float:
    return float(np.abs(np.asarray(values)).max(initial=0.0))


@program
def _slopes(fun: Function, constraints: tuple, x: PyTree, args: tuple, lam: Array, nu: Array) -> tuple:
    """The constraints, the slope of the objective, the Hessian of the Lagrangian, the constraints' slopes."""
    flat, unravel = ravel_pytree(x)

    def values(x):
        return constraint_values(constraints, unravel(x), args)

    def lagrangian(x):
        g, h = values(x)
        return fun(unravel(x), *args) + lam @ g + nu @ h

    slope = jax.grad(lambda x: fun(unravel(x), *args))(flat)
    return *values(flat), slope, jax.hessian(lagrangian)(flat), *jax.jacobian(values)(flat)
