r"""Newton and Gauss-Newton steps, damped so that they always descend.

Step.        $d = -(B + \lambda I)^{-1} g$ with $B$ the Hessian, or $J^\top J$ for $f = \tfrac12\|r(x)\|^2$;
             one full step solves a quadratic.
Damping.     Where $B$ is not positive definite its eigenvalues are replaced by their absolute values, so that
             $d$ descends; a backtracking search shortens steps that overshoot. `damping` adds $\lambda$ on
             top; `search=False` takes raw steps.
Cost.        $O(n^3)$ per step.
References.  Nocedal and Wright (2006) sections 3.3, 6.2 and 10.3.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from jax.flatten_util import ravel_pytree

from tractable.core.checks import namespace
from tractable.core.module import field
from tractable.core.types import Array, Float
from tractable.optim.linesearch import Trial, backtracking
from tractable.optim.objective import Iterate, Method, Objective

__all__ = ["GaussNewton", "Newton", "newton_direction"]


class Newton(Method):
    """Second-order steps with the exact Hessian, or with a `direction(x, *args)` of the caller's, who solves
    with a Hessian of known structure."""

    damping: float | Array = 0.0
    search: bool = field(static=True, default=True)
    direction: Callable[..., Any] | None = field(static=True, default=None)

    def init(self, objective: Objective, start: Array) -> Iterate:
        return Iterate.at(objective, start, ())

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        one = jnp.ones_like(iterate.value)
        if self.search:
            direction = self._direction(objective, iterate)
            return iterate.moved(backtracking(objective.value_and_grad, iterate.trial, direction, one), ())
        curvature = self.curvature(objective, iterate.point)
        damped = curvature + self.damping * jnp.eye(iterate.gradient.size, dtype=one.dtype)
        point = iterate.point - jnp.linalg.solve(damped, iterate.gradient)
        value, gradient = objective.value_and_grad(point)
        return iterate.moved(Trial(one, point, value, gradient, jnp.isfinite(value), jnp.asarray(1)), ())

    def _direction(self, objective: Objective, iterate: Iterate) -> Float[Array, " n"]:
        if self.direction is not None:
            step = ravel_pytree(self.direction(objective.unravel(iterate.point), *objective.args))[0]
            return jnp.where(step @ iterate.gradient < 0, step, -iterate.gradient)  # it must descend
        curvature = self.curvature(objective, iterate.point)
        return newton_direction(curvature, iterate.gradient, self.damping)

    def curvature(self, objective: Objective, point: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The matrix that stands for the Hessian."""
        return objective.hessian(point)


class GaussNewton(Newton):
    r"""Steps with $J^\top J$ in place of the Hessian of $\tfrac12\|r(x)\|^2$, $J$ the Jacobian of
    `residuals(x, *args)`."""

    residuals: Callable[..., Array] = field(static=True, kw_only=True)

    def curvature(self, objective: Objective, point: Float[Array, " n"]) -> Float[Array, "n n"]:
        def flat(x):
            return jnp.ravel(self.residuals(objective.unravel(x), *objective.args))

        jacobian = jax.jacobian(flat)(point)
        return jacobian.T @ jacobian


def newton_direction(curvature: Any, gradient: Any, damping: Any = 0.0) -> Any:
    r"""$-(B + \lambda I)^{-1}g$ for a symmetric $B$, in NumPy for arrays with values and else in JAX.

    Negative curvature counts by its size, and flat directions (less than $10^{-13}$ of the curvature,
    relative to a unit diagonal) stay put. Without damping the matrix is scaled to that diagonal first:
    unknowns of very different size lose nothing.

    >>> newton_direction(np.diag([2.0, 1.0]), np.array([4.0, 3.0])).round(9).tolist()
    [-2.0, -3.0]
    """
    xp = namespace(curvature, gradient, damping)
    diagonal = xp.abs(xp.diag(curvature))
    plain = (damping > 0) | (diagonal <= 0)
    unit = 1 / xp.sqrt(xp.where(plain, 1.0, diagonal))
    scaled, side = curvature * unit[:, None] * unit[None], gradient * unit
    factor = _safe_factor(scaled + damping * np.eye(len(unit))) if xp is np else None
    if factor is not None:
        return -unit * sl.cho_solve((factor, True), side)
    values, vectors = xp.linalg.eigh(scaled)
    size = xp.abs(values) + damping
    flat = size <= max(1e-13, float(np.finfo(size.dtype).eps) * len(unit)) * size.max()
    moved = xp.where(flat, 0.0, (vectors.T @ side) / xp.where(flat, 1.0, size))
    return -unit * (vectors @ moved)


def _safe_factor(matrix: np.ndarray) -> np.ndarray | None:
    """The Cholesky factor of a matrix of unit diagonal, unless it is close to singular."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return factor if np.diag(factor).min(initial=1.0) > 1e-5 else None
