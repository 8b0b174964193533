r"""Convex quadratic programs, with duals and a certificate.

Problem.     $\min_x \tfrac12 x^\top P x + q^\top x$ with $G x \le h$ and $A x = b$, $P$ positive
             semi-definite.
Dual.        $\max -\tfrac12 x^\top P x - h^\top z - b^\top y$ with $P x + q + G^\top z + A^\top y = 0$,
             $z \ge 0$.
Proof.       Duality gap and both residuals. Infeasible problems end with a Farkas certificate, unbounded ones
             with a feasible point and a ray. Where the interior point proves nothing, linear programs do
             (`certificates`), and what they prove solvable is solved again from a feasible point.
Cost.        That of `interior_point`, and two or three linear programs where there is no solution.
References.  Boyd and Vandenberghe (2004) chapter 11.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_finite,
    check_shape,
    is_concrete,
)
from tractable.core.iterate import Status
from tractable.core.linalg import symmetrise
from tractable.core.support import psd
from tractable.core.types import Array, ArrayLike
from tractable.optim.certificates import Rows, descent_ray, farkas, feasible_point
from tractable.optim.interior_point import QuadraticProgram, QuadraticSolution, interior_point

__all__ = ["QuadraticProgram", "QuadraticSolution", "quadratic_program"]


def quadratic_program(
    P: ArrayLike,
    q: ArrayLike,
    G: ArrayLike | None = None,
    h: ArrayLike | None = None,
    A: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    max_steps: int = 60,
    tol: float = 1e-9,
) -> QuadraticSolution:
    r"""$\min \tfrac12 x^\top P x + q^\top x$ with $G x \le h$, $A x = b$.

    Leave out the constraints that are not there.

    >>> found = quadratic_program([[2.0]], [0.0], [[-1.0]], [-2.0])  # x^2 with x at least 2
    >>> found.x.round(6).tolist(), found.inequality_multipliers.round(6).tolist()
    ([2.0], [4.0])
    """
    given, steps = _program(P, q, G, h, A, b), check_count("max_steps", max_steps)
    found = interior_point(given, jnp.asarray(tol), steps)
    known = all(map(is_concrete, jax.tree.leaves((given, found.code))))
    return found if not known or found.status.ok else _explained(given, found, tol, steps)


def _program(P: Any, q: Any, G: Any, h: Any, A: Any, b: Any) -> QuadraticProgram:
    P, q = as_float("P", P), as_float("q", q)
    check(q.ndim == 1 and q.size > 0, "q", "a vector", f"shape {q.shape}")
    check_shape("P", P, (q.size, q.size))
    if is_concrete(P):
        check_finite("P", P)
        convex = bool(np.asarray(psd.contains(np.asarray(P))))
        fix = "The problem is not convex; `minimise_constrained` looks for a local minimum."
        smallest = np.linalg.eigvalsh((np.asarray(P) + np.asarray(P).T) / 2)[0] if not convex else 0.0
        check(convex, "P", psd.words, f"smallest eigenvalue {smallest:.4g}", fix)
    check_finite("q", q)
    G, h = _rows("G", G, "h", h, q)
    A, b = _rows("A", A, "b", b, q)
    return QuadraticProgram(symmetrise(P), q, G, h, A, b)


def _rows(name: str, matrix: Any, other: str, vector: Any, q: Array) -> tuple[Array, Array]:
    if matrix is None and vector is None:
        return jnp.zeros((0, q.size), q.dtype), jnp.zeros(0, q.dtype)
    missing = name if matrix is None else other
    must = f"given with the other of `{name}`, `{other}`"
    check(matrix is not None and vector is not None, missing, must, None)
    matrix, vector = as_float(name, matrix), as_float(other, vector)
    check_shape(name, matrix, (None, q.size), "One row per constraint, one column per unknown.")
    check_shape(other, vector, matrix.shape[:1])
    check_finite(name, matrix)
    check_finite(other, vector)
    return matrix, vector


def _explained(
    given: QuadraticProgram, found: QuadraticSolution, tol: float, max_steps: int
) -> QuadraticSolution:
    """Why no solution was found, proved by linear programs; else the solution, from a feasible point."""
    P, q, *rest = (np.asarray(leaf, float) for leaf in jax.tree.leaves(given))
    rows = Rows.of(*rest)
    proof = farkas(rows)
    if proof is not None:
        z, y = map(jnp.asarray, proof)
        code = jnp.asarray(int(Status.infeasible))
        return dataclasses.replace(found, inequality_multipliers=z, equality_multipliers=y, code=code)
    point, ray = feasible_point(rows), descent_ray(P, q, rows)
    if point is not None and ray is not None:
        x, code = jnp.asarray(point), jnp.asarray(int(Status.unbounded))
        slack, value = given.h - given.G @ x, given.primal(x)
        return dataclasses.replace(found, x=x, slack=slack, value=value, ray=jnp.asarray(ray), code=code)
    if point is None:
        return found if found.status is Status.infeasible else _undecided(found)
    moved = _moved(given, jnp.asarray(point), jnp.asarray(max(np.abs(point).max(), rows.size) or 1.0))
    again = interior_point(moved[0], jnp.asarray(tol), max_steps)
    return _back(given, again, *moved[1:]) if again.status.ok else _undecided(found)


def _undecided(found: QuadraticSolution) -> QuadraticSolution:
    """A claim without a proof is not made."""
    proved = found.status not in (Status.infeasible, Status.unbounded)
    return found if proved else dataclasses.replace(found, code=jnp.asarray(int(Status.stalled)))


def _moved(given: QuadraticProgram, point: Array, unit: Array) -> tuple[QuadraticProgram, Array, Array]:
    r"""The problem in $u$ with $x = x_0 + r u$: centred at a feasible point, in units of its size."""
    q = unit * (given.q + given.P @ point)
    h, b = given.h - given.G @ point, given.b - given.A @ point
    return QuadraticProgram(unit**2 * given.P, q, unit * given.G, h, unit * given.A, b), point, unit


def _back(given: QuadraticProgram, again: QuadraticSolution, point: Array, unit: Array) -> QuadraticSolution:
    x, z, y = point + unit * again.x, again.inequality_multipliers, again.equality_multipliers
    slack, value, dual = given.h - given.G @ x, given.primal(x), given.dual(x, z, y)
    return dataclasses.replace(again, x=x, slack=slack, value=value, dual_value=dual)
