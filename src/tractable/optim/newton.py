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

import jax
import jax.numpy as jnp

from tractable.core.module import field
from tractable.core.types import Array, Float
from tractable.optim.linesearch import Trial, backtracking
from tractable.optim.objective import Iterate, Method, Objective

__all__ = ["GaussNewton", "Newton"]


class Newton(Method):
    """Second-order steps with the exact Hessian."""

    damping: float | Array = 0.0
    search: bool = field(static=True, default=True)

    def init(self, objective: Objective, start: Array) -> Iterate:
        return Iterate.at(objective, start, ())

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        curvature = self.curvature(objective, iterate.point)
        direction = -_solve(curvature, iterate.gradient, self.damping, safe=self.search)
        one = jnp.ones_like(iterate.value)
        if self.search:
            return iterate.moved(backtracking(objective.value_and_grad, iterate.trial, direction, one), ())
        point = iterate.point + direction
        value, gradient = objective.value_and_grad(point)
        return iterate.moved(Trial(one, point, value, gradient, jnp.isfinite(value), jnp.asarray(1)), ())

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


def _solve(curvature: Array, gradient: Array, damping: float | Array, *, safe: bool) -> Array:
    """The damped step; with `safe`, negative curvature counts by its size and flat directions stay put."""
    if not safe:
        return jnp.linalg.solve(curvature + damping * jnp.eye(gradient.size, dtype=gradient.dtype), gradient)
    values, vectors = jnp.linalg.eigh(curvature)
    size = jnp.abs(values) + damping
    flat = size <= jnp.finfo(size.dtype).eps * size.size * size.max()
    projected = vectors.T @ gradient
    return vectors @ jnp.where(flat, 0.0, projected / jnp.where(flat, 1.0, size))
