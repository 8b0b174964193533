r"""Proximal gradient: a smooth objective plus a penalty with a simple proximal map (the lasso), and
coordinate descent.

Problem.     $\min_x f(x) + h(x)$ with $f$ smooth. Step: $x \leftarrow \mathrm{prox}_{a h}(x - a \nabla f(x))$
             with $\mathrm{prox}_{a h}(y) = \arg\min_x \tfrac12\|x - y\|^2 + a h(x)$; a projection is the map
             of an indicator.
Step size.   Backtracked until $f(x^+) \le f(x) + \nabla f^\top (x^+ - x) + \|x^+ - x\|^2/2a$, so no constant
             is needed.
Cost.        One gradient per step, plus the values that backtracking needs.
References.  Beck and Teboulle (2009); Friedman, Hastie and Tibshirani (2010).
"""

from abc import abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check_shape
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import nonnegative
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.optim.objective import Iterate, Method, Objective

__all__ = [
    "L1Penalty",
    "Penalty",
    "ProximalGradient",
    "coordinate_descent",
    "majorised_step",
    "soft_threshold",
]


def soft_threshold(y: Array, amount: float | Array) -> Array:
    r"""$\mathrm{sign}(y) \max(|y| - a, 0)$: the proximal map of $a\|x\|_1$."""
    return jnp.sign(y) * jnp.maximum(jnp.abs(y) - amount, 0.0)


class Penalty(Module):
    """A convex penalty with its proximal map."""

    @abstractmethod
    def value(self, x: Array) -> Scalar:
        """The penalty at `x`."""

    @abstractmethod
    def proximal(self, y: Array, length: Scalar) -> Array:
        """The proximal map with step `length`."""


class L1Penalty(Penalty):
    r"""$\lambda_1 \|x\|_1 + \tfrac12 \lambda_2 \|x\|_2^2$: the lasso, or with `ridge` the elastic net."""

    strength: Float[Array, "..."] = field(support=nonnegative, default=1.0)
    ridge: Float[Array, "..."] = field(support=nonnegative, default=0.0)

    def value(self, x: Array) -> Scalar:
        return (self.strength * jnp.abs(x)).sum() + 0.5 * (self.ridge * x**2).sum()

    def proximal(self, y: Array, length: Scalar) -> Array:
        return soft_threshold(y, length * self.strength) / (1 + length * self.ridge)


def majorised_step(
    objective: Objective,
    iterate: Iterate,
    proximal: Callable[[Array, Scalar], Array],
    penalty: Callable[[Array], Scalar],
    shrink: float | Array,
) -> Iterate:
    """One proximal step whose length is shrunk until the quadratic model lies above the objective.

    The iterate's memory is the last accepted length, its value the penalised objective and its gradient that
    of the smooth part.
    """
    smooth = iterate.value - penalty(iterate.point)
    rounding = 4 * jnp.finfo(smooth.dtype).eps * jnp.abs(smooth)

    def probe(length, count):
        point = proximal(iterate.point - length * iterate.gradient, length)
        move = point - iterate.point
        value, gradient = objective.value_and_grad(point)
        model = smooth + iterate.gradient @ move + move @ move / (2 * length)
        return length, point, value, gradient, value <= model + rounding, count

    def go_on(carry):
        return ~carry[4] & (carry[5] < 60)

    first = probe(iterate.memory / shrink, jnp.asarray(1))
    length, point, value, gradient, fine, count = jax.lax.while_loop(
        go_on, lambda carry: probe(shrink * carry[0], carry[5] + 1), first
    )
    return Iterate(point, value + penalty(point), gradient, length, iterate.evaluations + count, ~fine)


class ProximalGradient(Method):
    """Proximal gradient steps for a smooth objective plus a penalty; `run.value` includes the penalty."""

    penalty: Penalty = field(kw_only=True)
    first_step: float | Array = 1.0
    shrink: float | Array = 0.5

    def init(self, objective: Objective, start: Array) -> Iterate:
        iterate = Iterate.at(objective, start, jnp.asarray(self.first_step, start.dtype))
        value = iterate.value + self.penalty.value(start)
        return Iterate(start, value, iterate.gradient, iterate.memory, iterate.evaluations, iterate.stalled)

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        return majorised_step(objective, iterate, self.penalty.proximal, self.penalty.value, self.shrink)

    @property
    def smooth(self) -> bool:
        return False

    def slope(self, point: Array, gradient: Array, memory: Array) -> Array:
        """The proximal gradient with the last step's length: zero exactly where a subgradient vanishes."""
        return (point - self.penalty.proximal(point - memory * gradient, memory)) / memory


def coordinate_descent(
    gram: ArrayLike,
    shift: ArrayLike,
    penalty: L1Penalty,
    *,
    start: ArrayLike | None = None,
    max_steps: int = 1000,
    tol: float = 1e-10,
) -> Run:
    r"""Minimise $\tfrac12 x^\top G x - b^\top x + \lambda_1\|x\|_1 + \tfrac12\lambda_2\|x\|^2$ one coordinate
    at a time, each exactly.

    With $G = X^\top X$ and $b = X^\top y$ this is the lasso; a step is one sweep over the coordinates.
    Constant columns ($G_{ii} = 0$) stay at zero. The reported value is the largest change, so that the sweep
    that changes nothing ends the search.
    """
    gram, shift = as_float("gram", gram), as_float("shift", shift)
    check_shape("gram", gram, (shift.size, shift.size), "It is the square matrix of the quadratic.")
    first = jnp.zeros_like(shift) if start is None else as_float("start", start)
    return _sweeps(gram, shift, penalty, first, jnp.asarray(tol), max_steps)


@program
def _sweeps(gram: Array, shift: Array, penalty: L1Penalty, start: Array, tol: Array, max_steps: int) -> Run:
    strength = jnp.broadcast_to(penalty.strength, shift.shape)
    ridge = jnp.broadcast_to(penalty.ridge, shift.shape)

    def sweep(x):
        def update(i, x):
            rest = shift[i] - gram[i] @ x + gram[i, i] * x[i]
            size = gram[i, i] + ridge[i]
            best = soft_threshold(rest, strength[i]) / jnp.where(size > 0, size, 1.0)
            return x.at[i].set(jnp.where(size > 0, best, 0.0))

        moved = jax.lax.fori_loop(0, x.size, update, x)
        return moved, jnp.abs(moved - x).max()

    def settled(x, change, before):
        return (change >= 0) & (change <= tol * jnp.maximum(jnp.abs(x).max(), jnp.abs(start).max()))

    return run_until(sweep, start, max_steps=max_steps, tol=tol, settled=settled)
