r"""Minimisation under smooth equality and inequality constraints, with multipliers and a report.

Problem.     $\min_x f(x)$ with $g(x) \le 0$, $h(x) = 0$.
Search.      Augmented Lagrangian $f + \nu^\top h + \tfrac\rho2\|h\|^2$
             $+ \tfrac1{2\rho}\sum_i [\max(0, \lambda_i + \rho g_i)^2 - \lambda_i^2]$, minimised in $x$; then
             $\nu \leftarrow \nu + \rho h$, $\lambda \leftarrow \max(0, \lambda + \rho g)$, and $\rho$ grows
             where the violation does not fall.
Polish.      Newton on $\nabla_x L = 0$, $h = 0$, $\min(\lambda, -g) = 0$: each inequality is active
             ($g_i = 0$, $\lambda_i \ge 0$) or inactive ($\lambda_i = 0$), and the steps decide which. For
             equalities alone this is Newton on Lagrange's conditions.
Prices.      $-\nu$ and $-\lambda$ are the changes of the minimum per unit of $h$ and $g$: for $h(x) = c$,
             $\partial f^\star/\partial c = -\nu$, the multiplier of the form $\nabla f = \alpha \nabla h$.
Cost.        An unconstrained minimisation per round; $O((n + m + p)^3)$ per Newton step.
References.  Nocedal and Wright (2006) chapters 12, 17 and 18; Qi and Sun (1993).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check, check_count, check_finite
from tractable.core.iterate import run, run_until
from tractable.core.module import Module
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Bool, Float, Int, PyTree, Scalar
from tractable.core.user_code import call_user
from tractable.core.verdict import Verdict
from tractable.optim.constrained_verdict import outcome, place_of
from tractable.optim.kkt import KKTReport, Solved, constraint_values, kkt_report, kkt_residual
from tractable.optim.objective import Objective
from tractable.optim.quasi_newton import LBFGS
from tractable.optim.stopping import Course

__all__ = ["ConstrainedMinimum", "minimise_constrained", "proportions", "unconstrained_minimum"]

_INNER_STEPS = 300
_POLISH = 12
_LARGEST_PENALTY = 1e10

Function = Callable[..., Any]


class ConstrainedMinimum(Solved, Module):
    """The point, its multipliers, and the KKT conditions as a report."""

    state: PyTree
    value: Scalar
    inequality_multipliers: Float[Array, " m"]
    equality_multipliers: Float[Array, " p"]
    inequalities: Float[Array, " m"]
    report: KKTReport
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def verdict(self) -> Verdict:
        """How the search ended: at a local minimum, by the conditions of first and second order."""
        status = self.status
        found = "A local minimum: the conditions hold, and nothing along the constraints curves downwards."
        return Verdict(status.ok, found if status.ok else status.sentence)

    @property
    def active(self) -> Bool[Array, " m"]:
        r"""Which inequalities hold with equality: there $\lambda_i$ outweighs the slack $-g_i$."""
        return self.inequality_multipliers + self.inequalities > 0

    @property
    def prices(self) -> Float[Array, " p"]:
        r"""$\partial f^\star/\partial c$ for $h(x) = c$: how much the minimum rises per unit of each."""
        return -self.equality_multipliers


def minimise_constrained(
    fun: Function,
    start: PyTree,
    *,
    equality: Function | None = None,
    inequality: Function | None = None,
    args: tuple = (),
    max_steps: int = 50,
    tol: float = 1e-8,
) -> ConstrainedMinimum:
    r"""Minimise `fun(x, *args)` where `equality(x, *args)` $= 0$ and `inequality(x, *args)` $\le 0$.

    The start need not be feasible. A local method: for convex problems the report proves the result.

    >>> found = minimise_constrained(lambda x: x @ x, [0.0, 0.0], equality=lambda x: x.sum() - 1.0)
    >>> found.state.round(6).tolist(), found.prices.round(6).tolist()
    ([0.5, 0.5], [1.0])
    """
    given = equality is not None or inequality is not None
    check(given, "equality", "given, or `inequality`", None, "Without constraints use `minimise`.")
    start = as_float("start", start) if isinstance(start, list) else start
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    jax.tree.map(lambda leaf: check_finite("start", leaf), start)
    max_steps = check_count("max_steps", max_steps)
    constraints = (inequality, equality)
    args = as_data(args)
    before, *_ = _values(fun, constraints, start, args)
    fix = "Choose a start at which the objective exists."
    check(bool(np.isfinite(before)), "fun", "finite at `start`", float(before), fix)
    x, lam, nu, steps = _solve(fun, constraints, start, args, jnp.asarray(tol), max_steps)
    value, g, _ = _values(fun, constraints, x, args)
    place = place_of(fun, constraints, x, start, args, lam, nu)
    report = kkt_report(
        fun,
        x,
        inequality=inequality,
        equality=equality,
        inequality_multipliers=lam,
        equality_multipliers=nu,
        args=args,
        tol=100 * tol,
        sizes=place.sizes,
    )
    unravel = ravel_pytree(x)[1]

    def look(points: np.ndarray) -> list:
        return [_values(fun, constraints, unravel(jnp.asarray(p)), args) for p in points]

    code = outcome(float(value), report, place, look)
    return ConstrainedMinimum(x, value, lam, nu, g, report, steps, jnp.asarray(int(code)))


def proportions(counts: ArrayLike) -> tuple[Float[Array, " k"], Scalar]:
    r"""The maximiser $\alpha_l = c_l/\sum_j c_j$ of $\sum_l c_l \log\alpha_l$ on the simplex; its multiplier.

    The multiplier $\sum_j c_j$ is that of $\sum_l c_l\log\alpha_l - \mu(\sum_l\alpha_l - 1)$: the number of
    observations, where the counts are counts.
    """
    c = as_float("counts", counts)
    check(c.ndim == 1 and c.size > 0, "counts", "a vector", f"shape {c.shape}")
    values = None if isinstance(c, Tracer) else np.asarray(c)
    if values is not None:
        fine = bool((values >= 0).all() and np.isfinite(values).all() and values.sum() > 0)
        check(fine, "counts", "zero or positive, finite and not all zero", values.tolist())
    return c / c.sum(), c.sum()


def unconstrained_minimum(
    fun: Callable[[Array], Scalar], start: Float[Array, " n"], tol: Scalar
) -> tuple[Float[Array, " n"], Scalar, Bool[Array, ""]]:
    """The point, the value and whether the gradient vanishes there: L-BFGS inside a compiled program."""
    objective, method = Objective(fun, lambda x: x), LBFGS()

    def step(state):
        iterate, course = state
        moved = method.step(objective, iterate)
        change = moved.point - iterate.point, moved.gradient - iterate.gradient
        return (moved, course.after(*change, moved.gradient)), moved.value

    def flat(state, slack=1.0):
        iterate, course = state
        return course.flat(iterate.point, iterate.value, iterate.gradient, slack * tol)

    def settled(state, value, before):
        return flat(state) | state[0].stalled

    first = method.init(objective, start)
    begun = first, Course.begin(first.point, first.value, first.gradient)
    ended = run_until(step, begun, max_steps=_INNER_STEPS, tol=tol, settled=settled).state
    last = ended[0]
    return last.point, last.value, flat(ended, slack=1e4)  # rounding may stop the search just before `tol`


class _Round(Module):
    """Where the augmented Lagrangian stands after a round."""

    x: Float[Array, " n"]
    lam: Float[Array, " m"]
    nu: Float[Array, " p"]
    penalty: Scalar
    gap: Scalar


@program
def _solve(fun: Function, constraints: tuple, start: PyTree, args: tuple, tol: Array, max_steps: int):
    flat, unravel = ravel_pytree(start)

    def objective(x):
        return call_user("fun", fun, unravel(x), *args)

    def values(x):
        return constraint_values(constraints, unravel(x), args)

    def round_(state):
        moved = _improve(objective, values, state, tol)
        return moved, moved.gap

    g, h = values(flat)
    first = _Round(flat, jnp.zeros_like(g), jnp.zeros_like(h), jnp.asarray(10.0), jnp.asarray(jnp.inf))
    rounds = run_until(
        round_, first, max_steps=max_steps, tol=tol, settled=lambda s, v, b: s.gap <= jnp.sqrt(tol)
    )
    last = rounds.state
    x, lam, nu = _polish(objective, values, (last.x, last.lam, last.nu))
    return unravel(x), lam, nu, rounds.num_steps


def _improve(objective: Callable, values: Callable, state: _Round, tol: Array) -> _Round:
    """Minimise the augmented Lagrangian, then move the multipliers by what is left of the constraints."""
    rho = state.penalty

    def augmented(x):
        g, h = values(x)
        pushed = jnp.maximum(0.0, state.lam + rho * g)
        return (
            objective(x)
            + state.nu @ h
            + 0.5 * rho * h @ h
            + (pushed @ pushed - state.lam @ state.lam) / (2 * rho)
        )

    x, _, _ = unconstrained_minimum(augmented, state.x, tol)
    g, h = values(x)
    lam, nu = jnp.maximum(0.0, state.lam + rho * g), state.nu + rho * h
    gap = jnp.abs(jnp.concatenate([jnp.minimum(lam, -g), h])).max(initial=0.0)
    slow = gap > 0.25 * state.gap
    penalty = jnp.where(slow, jnp.minimum(10 * rho, _LARGEST_PENALTY), rho)
    return _Round(x, lam, nu, penalty, gap)


def _polish(objective: Callable, values: Callable, start: tuple) -> tuple[Array, Array, Array]:
    """Newton on the whole system, by least squares for dependent constraints, never to a worse point."""
    flat, unravel = ravel_pytree(start)

    def residual(z):
        return jnp.concatenate(kkt_residual(objective, values, *unravel(z)))

    def step(z, _):
        r = residual(z)
        trial = z - jnp.linalg.lstsq(jax.jacfwd(residual)(z), r)[0]
        better = jnp.linalg.norm(residual(trial)) < jnp.linalg.norm(r)
        return jnp.where(better, trial, z), None

    return unravel(run(step, flat, num_steps=_POLISH).state)


@program
def _values(fun: Function, constraints: tuple, x: PyTree, args: tuple) -> tuple[Scalar, Array, Array]:
    return fun(x, *args), *constraint_values(constraints, x, args)
