r"""Derivatives from values alone: forward, central and complex-step differences, and how wrong they are.

Formulas.    Forward $\{f(x + h e_i) - f(x)\}/h$, error $O(h) + O(\epsilon/h)$;
             central $\{f(x + h e_i) - f(x - h e_i)\}/2h$, error $O(h^2) + O(\epsilon/h)$;
             complex step $\mathrm{Im}\,f(x + i h e_i)/h$, error $O(h^2)$ and no subtraction, so $h$ can be
             $10^{-20}$ (for $f$ analytic and written in functions that take complex numbers).
Trap.        The error of the first two is a U: too large an $h$ truncates, too small a one cancels. The best
             $h$ is about $\epsilon^{1/2}$ (forward) and $\epsilon^{1/3}$ (central).
Cost.        $n + 1$, $2n$ and $n$ evaluations for $n$ inputs.
References.  Squire and Trapp (1998); Nocedal and Wright (2006) section 8.1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_option
from tractable.core.matrixcalculus import central_difference
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = [
    "StepStudy",
    "central_difference",
    "complex_step",
    "finite_difference",
    "forward_difference",
    "numeric_gradient",
    "step_study",
]

_SCHEMES = ("forward", "central", "complex")


def forward_difference(function: Callable[[Any], Any], x: ArrayLike, step: float = 1e-8) -> Array:
    r"""$\{f(x + h e_i) - f(x)\}/h$ for each entry of $x$; the shape is that of $f(x)$, then that of $x$."""
    x = np.asarray(x, float)
    base = np.asarray(function(x))
    return _stack([(np.asarray(function(x + s)) - base) / step for s in _shifts(x, step)], x.shape)


def complex_step(function: Callable[[Any], Any], x: ArrayLike, step: float = 1e-20) -> Array:
    r"""$\mathrm{Im}\,f(x + i h e_i)/h$ for each entry of $x$: exact to rounding for analytic functions.

    >>> float(complex_step(jnp.sin, 1.0)) == float(np.cos(1.0))
    True
    """
    x = np.asarray(x, float)
    slopes = [np.asarray(function(x + 1j * s)) for s in _shifts(x, step)]
    fix = "Write it in functions that take complex numbers, without `abs`, `max` or comparisons."
    for value in slopes:
        check(np.iscomplexobj(value), "function", "complex where its input is", f"dtype {value.dtype}", fix)
    return _stack([np.imag(value) / step for value in slopes], x.shape)


def finite_difference(
    function: Callable[[Any], Any], x: ArrayLike, *, scheme: str = "central", step: float | None = None
) -> Array:
    """The derivative by one of the three schemes, each with the step that suits it unless one is given."""
    check_option("scheme", scheme, _SCHEMES)
    check(step is None or step > 0, "step", "positive", step)
    rules = {"forward": forward_difference, "central": central_difference, "complex": complex_step}
    return rules[scheme](function, x) if step is None else rules[scheme](function, x, step)


def numeric_gradient(
    function: Callable[[Float[Array, " n"]], Scalar], x: Float[Array, " n"]
) -> Float[Array, " n"]:
    r"""Central differences of a scalar function inside a compiled program, all entries at once.

    The step is $\epsilon^{1/3} \max(1, |x_i|)$, and divided by what was really added after rounding.
    """
    steps = jnp.finfo(x.dtype).eps ** (1 / 3) * jnp.maximum(1.0, jnp.abs(x))
    shifts = jnp.diag(steps)
    above, below = jax.vmap(lambda s: x + s)(shifts), jax.vmap(lambda s: x - s)(shifts)
    return (jax.vmap(function)(above) - jax.vmap(function)(below)) / jnp.diag(above - below)


class StepStudy(Module):
    """The error of each scheme at each step; printed as a table."""

    steps: Float[np.ndarray, " k"]
    errors: dict[str, np.ndarray]

    def _columns(self) -> dict[str, Any]:
        def marked(errors):  # the smallest error of a column is starred
            return [f"{e:.1e}{'*' if k == int(np.argmin(errors)) else ' '}" for k, e in enumerate(errors)]

        return {"step": [f"{s:.0e}" for s in self.steps]} | {n: marked(e) for n, e in self.errors.items()}


def step_study(
    function: Callable[[Any], Any],
    derivative: Callable[[Any], Any],
    x: float,
    steps: Sequence[float] = (1e-1, 1e-4, 1e-8, 1e-12),
    schemes: Sequence[str] = _SCHEMES,
) -> StepStudy:
    """How far each scheme is from the known derivative of a function of one number, for each step."""
    x = float(as_float("x", x))
    exact = float(derivative(x))
    errors = {
        scheme: np.array([
            abs(float(finite_difference(function, x, scheme=scheme, step=step)) - exact) for step in steps
        ])
        for scheme in schemes
    }  # fmt: skip
    return StepStudy(np.asarray(steps, float), errors)


def _shifts(x: np.ndarray, step: float) -> np.ndarray:
    return step * np.eye(x.size).reshape((x.size, *x.shape))


def _stack(slopes: list, shape: tuple[int, ...]) -> Array:
    stacked = np.stack(slopes, axis=-1)
    return jnp.asarray(stacked.reshape(stacked.shape[:-1] + shape))
