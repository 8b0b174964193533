r"""The Karush-Kuhn-Tucker conditions: one residual, one report.

Problem.     $\min_x f(x)$ with $g(x) \le 0$ and $h(x) = 0$; $L = f + \lambda^\top g + \nu^\top h$.
Conditions.  Stationarity $\nabla_x L = 0$; primal feasibility $g \le 0$, $h = 0$; dual feasibility
             $\lambda \ge 0$; complementarity $\lambda_i g_i = 0$. The last three for inequalities are one
             equation, $\min(\lambda_i, -g_i) = 0$.
Meaning.     Necessary at a regular minimum; for convex $f$, $g$ and affine $h$ with a strictly feasible point
             (Slater) necessary and sufficient: the report is then a proof of optimality.
Cost.        One gradient and the Jacobians of the constraints.
References.  Boyd and Vandenberghe (2004) sections 5.5 and 5.2.3; Nocedal and Wright (2006) section 12.3.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check
from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, PyTree, Scalar
from tractable.core.verdict import Verdict

__all__ = [
    "KKTReport",
    "Solved",
    "constraint_counts",
    "constraint_values",
    "kkt_report",
    "kkt_residual",
]

Function = Callable[..., Any]


class Solved(Ended):
    """The solution of a constrained problem: how the search ended, in the words of the conditions."""

    @property
    def verdict(self) -> Verdict:
        status = self.status
        optimal = "Optimal: the conditions hold within the tolerance."
        return Verdict(status.ok, optimal if status.ok else status.sentence)


class KKTReport(Module):
    """How far a point and its multipliers are from the conditions; zero everywhere at a solution.

    `slater` is the margin by which some point meets all inequalities strictly (NaN: not looked for).
    """

    stationarity: Scalar
    equality: Scalar
    inequality: Scalar
    dual: Scalar
    complementarity: Scalar
    slater: Scalar
    tol: float = field(static=True, default=1e-6)
    sizes: tuple[float, ...] = field(static=True, show=False, default=(1.0,) * 5)  # in which `tol` counts

    @property
    def rows(self) -> dict[str, Scalar]:
        """The residual of each condition by its name."""
        return {
            "stationarity": self.stationarity,
            "primal feasibility, equality": self.equality,
            "primal feasibility, inequality": self.inequality,
            "dual feasibility": self.dual,
            "complementarity": self.complementarity,
        }

    @property
    def failed(self) -> list[str]:
        """The conditions whose residuals are not within the tolerance."""
        pairs = zip(self.rows.items(), self.sizes)
        return [name for (name, value), size in pairs if not float(value) <= self.tol * size]

    @property
    def ok(self) -> bool:
        """Whether every residual is within the tolerance."""
        return not self.failed

    @property
    def verdict(self) -> Verdict:
        """What follows from the residuals."""
        failed = self.failed
        margin = float(self.slater)
        if failed:
            sentence = f"Not a KKT point: {', '.join(failed)} above {self.tol:.1g}."
        elif np.isnan(margin):
            sentence = (
                "A KKT point. Optimal if the problem is convex and Slater's condition holds (not tested)."
            )
        elif margin > 0:
            sentence = "A KKT point, and Slater's condition holds: optimal if the problem is convex."
        else:
            sentence = "A KKT point; no strictly feasible point was found: optimal if the problem is convex."
        return Verdict(not failed, sentence, {**self.rows, "slater margin": margin})

    def _columns(self) -> dict[str, Any]:
        margin = float(self.slater)
        values = [*map(float, self.rows.values()), margin]
        holds = ["FAILS" if name in self.failed else "holds" for name in self.rows]
        holds.append("not tested" if np.isnan(margin) else "holds" if margin > 0 else "FAILS")
        sizes = [f"{value:.2e}" for value in values]
        return {"condition": [*self.rows, "Slater margin"], "residual": sizes, "": holds}


def kkt_report(
    fun: Function,
    point: PyTree,
    *,
    inequality: Function | None = None,
    equality: Function | None = None,
    inequality_multipliers: ArrayLike | None = None,
    equality_multipliers: ArrayLike | None = None,
    args: tuple = (),
    slater: ArrayLike = jnp.nan,
    tol: float = 1e-6,
    sizes: tuple[float, ...] = (1.0,) * 5,
) -> KKTReport:
    r"""The residuals of a candidate: `inequality(x, *args)` $\le 0$, `equality(x, *args)` $= 0$, arrays.

    `sizes` are the units in which the tolerance counts, for each of the five conditions.

    >>> report = kkt_report(lambda x: x**2, 2.0, inequality=lambda x: 2.0 - x, inequality_multipliers=4.0)
    >>> report.ok
    True
    """
    point = jax.tree.map(lambda leaf: as_float("point", leaf), point)
    constraints = (inequality, equality)
    args = as_data(args)
    counts = constraint_counts(constraints, point, args)
    given = (inequality_multipliers, equality_multipliers)
    names = ("inequality_multipliers", "equality_multipliers")
    multipliers = [_multipliers(*item) for item in zip(names, given, counts)]
    found = _report(fun, constraints, point, args, *multipliers)
    return KKTReport(*found, slater=as_float("slater", slater), tol=tol, sizes=sizes)


def constraint_values(
    constraints: tuple[Function | None, Function | None], point: PyTree, args: tuple
) -> tuple[Float[Array, " m"], Float[Array, " p"]]:
    """The inequality and equality constraints at a point as flat vectors, empty where there are none."""

    def values(function):
        return jnp.zeros(0) if function is None else ravel_pytree(function(point, *args))[0]

    return values(constraints[0]), values(constraints[1])


def constraint_counts(
    constraints: tuple[Function | None, Function | None], point: PyTree, args: tuple
) -> tuple[int, int]:
    """How many inequalities and equalities there are; nothing is computed."""
    g, h = eqx.filter_eval_shape(constraint_values, constraints, point, args)
    return g.size, h.size


def kkt_residual(
    fun: Callable[[Array], Scalar],
    constraints: Callable[[Array], tuple[Array, Array]],
    x: Float[Array, " n"],
    lam: Float[Array, " m"],
    nu: Float[Array, " p"],
) -> tuple[Array, Array, Array]:
    r"""$\nabla_x L$, $\min(\lambda, -g)$ and $h$ at a flat point: all zero exactly at a KKT point."""
    (g, h), pull = jax.vjp(constraints, x)
    return jax.grad(fun)(x) + pull((lam, nu))[0], jnp.minimum(lam, -g), h


@program
def _report(
    fun: Function, constraints: tuple, point: PyTree, args: tuple, lam: Array, nu: Array
) -> tuple[Array, ...]:
    flat, unravel = ravel_pytree(point)

    def values(x):
        return constraint_values(constraints, unravel(x), args)

    stationarity, _, h = kkt_residual(lambda x: fun(unravel(x), *args), values, flat, lam, nu)
    g, _ = values(flat)
    parts = (stationarity, h, jnp.maximum(g, 0.0), jnp.maximum(-lam, 0.0), lam * g)
    return tuple(jnp.abs(part).max(initial=0.0) for part in parts)


def _multipliers(name: str, value: ArrayLike | None, count: int) -> Array:
    if value is None:
        fix = "Without them stationarity cannot be judged."
        check(count == 0, name, f"{count} numbers, one per constraint", "none", fix)
        return jnp.zeros(0)
    array = jnp.ravel(as_float(name, value))
    check(array.size == count, name, f"{count} numbers, one per constraint", f"{array.size} numbers")
    return array
