r"""Euclidean projections on convex sets, and gradient descent that stays inside one.

Projection.  $P_C(y) = \arg\min_{x \in C} \|x - y\|^2$; it does not expand distances.
Descent.     $x \leftarrow P_C(x - a \nabla f(x))$; $x$ is optimal exactly when it is a fixed point.
Cost.        $O(n)$, $O(n \log n)$ for the simplex and the L1 ball, $O(n^3)$ for the PSD cone, one
             factorisation for an affine set.
References.  Boyd and Vandenberghe (2004) section 8.1; Held, Wolfe and Crowder (1974); Duchi et al. (2008).
"""

from abc import abstractmethod

import jax.numpy as jnp

from tractable.core.module import Module, field
from tractable.core.support import positive, real
from tractable.core.types import Array, Float, Scalar
from tractable.optim.objective import Iterate, Method, Objective
from tractable.optim.proximal import majorised_step

__all__ = [
    "AffineSet",
    "Box",
    "ConvexSet",
    "HalfSpace",
    "L1Ball",
    "L2Ball",
    "ProbabilitySimplex",
    "ProjectedGradient",
]


class ConvexSet(Module):
    """A closed convex set that knows the nearest member to any point."""

    @abstractmethod
    def project(self, y: Array) -> Array:
        """The member of the set nearest to `y`."""

    def distance(self, y: Array) -> Scalar:
        """The Euclidean distance from `y` to the set."""
        return jnp.linalg.norm(jnp.ravel(y - self.project(y)))


class L2Ball(ConvexSet):
    r"""$\|x\|_2 \le r$: $P(y) = y / \max(1, \|y\|/r)$."""

    radius: Float[Array, ""] = field(support=positive, default=1.0)

    def project(self, y: Array) -> Array:
        return y / jnp.maximum(1.0, jnp.linalg.norm(y) / self.radius)


class Box(ConvexSet):
    r"""$l \le x \le u$, entry by entry; $\|x\|_\infty \le r$ is `Box(-r, r)`."""

    low: Array | float = -1.0
    high: Array | float = 1.0

    def project(self, y: Array) -> Array:
        return jnp.clip(y, self.low, self.high)


class ProbabilitySimplex(ConvexSet):
    r"""$x \ge 0$, $\sum_i x_i = s$: subtract the threshold at which the positive parts sum to $s$."""

    total: Float[Array, ""] = field(support=positive, default=1.0)

    def project(self, y: Array) -> Array:
        ranked = jnp.sort(y)[::-1]
        threshold = (jnp.cumsum(ranked) - self.total) / jnp.arange(1, y.size + 1)
        last = jnp.sum(ranked > threshold) - 1
        return jnp.maximum(y - threshold[last], 0.0)


class L1Ball(ConvexSet):
    r"""$\|x\|_1 \le r$: the sizes are projected on a simplex, the signs kept."""

    radius: Float[Array, ""] = field(support=positive, default=1.0)

    def project(self, y: Array) -> Array:
        onto = ProbabilitySimplex(self.radius).project(jnp.abs(y))
        return jnp.where(jnp.abs(y).sum() <= self.radius, y, jnp.sign(y) * onto)


class HalfSpace(ConvexSet):
    r"""$a^\top x \le b$."""

    normal: Float[Array, " n"] = field(support=real, rank=1)
    offset: Float[Array, ""] = field(support=real, default=0.0)

    def project(self, y: Array) -> Array:
        excess = jnp.maximum(self.normal @ y - self.offset, 0.0)
        return y - excess / (self.normal @ self.normal) * self.normal


class AffineSet(ConvexSet):
    r"""$A x = b$: $P(y) = y - A^+ (A y - b)$, by least squares, so that dependent rows are welcome."""

    matrix: Float[Array, "m n"] = field(support=real, rank=2)
    target: Float[Array, " m"] = field(support=real, rank=1)

    def project(self, y: Array) -> Array:
        return y - jnp.linalg.lstsq(self.matrix, self.matrix @ y - self.target)[0]


class ProjectedGradient(Method):
    """Gradient steps projected back on a convex set, with the step size found by backtracking."""

    onto: ConvexSet = field(kw_only=True)
    first_step: float | Array = 1.0
    shrink: float | Array = 0.5

    def init(self, objective: Objective, start: Array) -> Iterate:
        return Iterate.at(objective, self.onto.project(start), jnp.asarray(self.first_step, start.dtype))

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        def project(y, length):
            return self.onto.project(y)

        return majorised_step(objective, iterate, project, lambda x: jnp.zeros((), x.dtype), self.shrink)

    @property
    def smooth(self) -> bool:
        return False

    def slope(self, point: Array, gradient: Array, memory: Array) -> Array:
        """The projected gradient: the move of the last step's length after projection, per unit of it."""
        return (point - self.onto.project(point - memory * gradient)) / memory
