r"""`minimise`: one entry to every method, one result with its verdict.

Problem.     $\min_x f(x; \mathrm{args})$ for any pytree $x$ of floats.
Stopping.    Converged when $\max_i |\partial_i f| \le \mathrm{tol}\,(1 + \min(|f|, |f_0|))$ (for constrained
             methods, the projected
             or proximal gradient); `stalled` when rounding prevents any decrease before that.
Used by.     inference.laplace, inference.vi, supervised, gp.
Cost.        One compiled program per function, method and shapes; data in `args` may change without compiling
             again.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check
from tractable.core.iterate import Run, Status, run_until
from tractable.core.types import Array, Int, Scalar
from tractable.optim.objective import Method, Objective
from tractable.optim.quasi_newton import LBFGS

__all__ = ["Minimum", "minimise"]


class Minimum(Run):
    """The point with the lowest objective found, and how the search ended."""

    value: Scalar
    gradient_norm: Scalar
    evaluations: Int[Array, ""]

    def __repr__(self) -> str:
        """One line that never hides the verdict."""
        where = f"value={float(self.value):.6g}, gradient_norm={float(self.gradient_norm):.2g}"
        return f"Minimum({where}, num_steps={int(self.num_steps)}: {self.status.sentence})"


def minimise(
    fun: Callable[..., Scalar],
    start: Any,
    method: Method | None = None,
    *,
    args: tuple = (),
    max_steps: int = 200,
    tol: float = 1e-8,
) -> Minimum:
    r"""Minimise `fun(x, *args)` from `start`.

    >>> minimise(lambda x: (x - 3.0) ** 2, 0.0).state
    Array(3., dtype=float64)
    """
    check(max_steps >= 1, "max_steps", "at least 1", max_steps)
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    method = LBFGS() if method is None else method
    found = _search(fun, method, start, args, jnp.asarray(tol), max_steps)
    fix = "Choose a start at which the objective and its gradient exist."
    check(bool(jnp.isfinite(found.value)), "fun", "finite at `start`", float(found.value), fix)
    return found


@eqx.filter_jit
def _search(fun, method: Method, start: Any, args: tuple, tol: Array, max_steps: int) -> Minimum:
    flat, unravel = ravel_pytree(start)
    objective = Objective(fun, unravel, args)

    def step(iterate):
        moved = method.step(objective, iterate)
        return moved, moved.value

    first = method.init(objective, flat)

    def flat_enough(iterate):
        # The smaller of the two values: an objective that runs away must not look flat for its size.
        size = jnp.minimum(jnp.abs(iterate.value), jnp.abs(first.value))
        return method.residual(objective, iterate) <= tol * (1 + size)

    def settled(iterate, value, before):
        return flat_enough(iterate) | iterate.stalled

    run = run_until(step, first, max_steps=max_steps, tol=tol, settled=settled)
    last = run.state
    finished = run.code == int(Status.converged)
    stalled = finished & last.stalled & ~flat_enough(last)
    code = jnp.where(stalled, int(Status.stalled), run.code)
    norm = method.residual(objective, last)
    return Minimum(unravel(last.point), run.trace, run.num_steps, code, last.value, norm, last.evaluations)
