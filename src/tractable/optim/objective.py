r"""What a minimiser sees: an objective on flat vectors, and the iterate that it moves.

Objective.   $f(x; \mathrm{args})$ with $x \in \mathbb{R}^n$ the flattened start; the arguments are data, so
             one compiled program serves all data of one shape.
Gradient.    Automatic; or the user's own `gradient(x, *args)`; or `"numeric"`, central differences, for black
             boxes. Second derivatives then come from the gradient that was given.
Cost.        A gradient costs a few values; a numeric one $2n$ of them.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Array, Bool, Float, Int, Scalar
from tractable.core.user_code import call_user
from tractable.optim.autodiff.differences import numeric_gradient
from tractable.optim.linesearch import Trial

__all__ = ["Iterate", "Method", "Objective"]


class Objective(Module):
    """A function of a pytree as a function of a flat vector, with its derivatives."""

    fun: Callable[..., Scalar] = field(static=True)
    unravel: Callable[[Array], Any] = field(static=True)
    args: tuple = ()
    gradient: Callable[..., Any] | str | None = field(static=True, default=None)

    def value(self, x: Float[Array, " n"]) -> Scalar:
        r"""$f(x)$."""
        value = call_user("fun", self.fun, self.unravel(x), *self.args)
        got = "None" if value is None else f"shape {jnp.shape(value)}"
        check(got == "shape ()", "fun", "a function that returns one number", got)
        return jnp.asarray(value)

    def value_and_grad(self, x: Float[Array, " n"]) -> tuple[Scalar, Float[Array, " n"]]:
        r"""$f(x)$ and $\nabla f(x)$, by default in one sweep forward and one back."""
        if self.gradient is None:
            return jax.value_and_grad(self.value)(x)
        return self.value(x), self.supplied_gradient(x)

    def supplied_gradient(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The gradient that the user gave, flattened, or central differences."""
        if not callable(self.gradient):
            return numeric_gradient(self.value, x)
        return jnp.asarray(ravel_pytree(self.gradient(self.unravel(x), *self.args))[0], x.dtype)

    def hessian(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        r"""$\nabla^2 f(x)$, forward over reverse; where a gradient was given, the derivative of that."""
        if self.gradient is None:
            return jax.hessian(self.value)(x)
        if callable(self.gradient):
            return jax.jacfwd(self.supplied_gradient)(x)
        rows = jax.vmap(lambda v: numeric_gradient(lambda y: self.supplied_gradient(y) @ v, x))
        return rows(jnp.eye(x.size, dtype=x.dtype))


class Iterate(Module):
    """Where a minimiser stands: the point, what is known there, and what the method remembers."""

    point: Float[Array, " n"]
    value: Scalar
    gradient: Float[Array, " n"]
    memory: Any
    evaluations: Int[Array, ""]
    stalled: Bool[Array, ""]  # no step along the direction lowers the objective: rounding has the last word

    @staticmethod
    def at(objective: Objective, point: Float[Array, " n"], memory: Any) -> "Iterate":
        """The iterate at a point that has not been visited yet."""
        value, gradient = objective.value_and_grad(point)
        return Iterate(point, value, gradient, memory, jnp.asarray(1), jnp.asarray(False))

    @property
    def trial(self) -> Trial:
        """Where a line search sets out from."""
        return Trial.at(self.point, self.value, self.gradient)

    def moved(self, trial: Trial, memory: Any) -> "Iterate":
        """The iterate after a search; a search that failed leaves the point where it was and says so."""
        better = trial.accepted | (trial.value < self.value)
        new, old = (trial.point, trial.value, trial.gradient), (self.point, self.value, self.gradient)
        point, value, gradient = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old)
        return Iterate(point, value, gradient, memory, self.evaluations + trial.evaluations, ~better)


class Method(Module):
    """A rule that moves an iterate; its hyperparameters are leaves."""

    @abstractmethod
    def init(self, objective: Objective, start: Float[Array, " n"]) -> Iterate:
        """The first iterate."""

    @abstractmethod
    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        """The next iterate."""

    @property
    def smooth(self) -> bool:
        """Whether a minimum of what is minimised has no negative curvature: no constraint, no penalty."""
        return True

    def slope(self, point: Float[Array, " n"], gradient: Float[Array, " n"], memory: Any) -> Array:
        """What vanishes exactly where the first-order condition holds, in the units of the gradient."""
        return gradient
