r"""Solving a convex program through its dual, or both at once as a saddle point.

Ascent.      $\max_{\lambda \ge 0} d(\lambda)$ by projected gradient:
             $\lambda \leftarrow \max(0, \lambda + a\,g(x(\lambda)))$ with
             $x(\lambda) = \arg\min_x L(x, \lambda)$ eliminated at each step.
Saddle.      $\max_{\lambda \ge 0} \min_x L(x, \lambda)$ with both variables kept, by the extragradient
             method: with $F = (\nabla_x L, -\nabla_\lambda L)$, $\bar z = P(z - a F(z))$,
             $z \leftarrow P(z - a F(\bar z))$, and $a$ halved wherever
             $a\|F(\bar z) - F(z)\| > 0.9\,\|\bar z - z\|$.
Gap.         $f(x) - d(\lambda) \ge 0$ certifies both: neither value can be off by more, once $x$ is feasible.
Cost.        Ascent: a minimisation per step. Saddle: two gradients of $L$ per step, linear convergence where
             $L$ is strongly convex-concave or bilinear.
References.  Arrow, Hurwicz and Uzawa (1958); Korpelevich (1976); Boyd and Vandenberghe (2004) section 5.4.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check_count
from tractable.core.iterate import Status, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, PyTree, Scalar
from tractable.optim.constrained_verdict import place_of
from tractable.optim.convex import ConvexProgram
from tractable.optim.kkt import KKTReport, Solved, constraint_counts, constraint_values, kkt_report
from tractable.optim.minimise import minimise
from tractable.optim.projected import Box, ProjectedGradient

__all__ = ["DualSolution", "dual_ascent", "saddle_point"]


class DualSolution(Solved, Module):
    """A primal point and multipliers, the two values that enclose the optimum, and the KKT report."""

    state: PyTree
    inequality_multipliers: Float[Array, " m"]
    equality_multipliers: Float[Array, " p"]
    primal_value: Scalar
    dual_value: Scalar
    report: KKTReport
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def gap(self) -> Scalar:
        r"""$f(x) - d(\lambda)$: an upper bound on the error of both values once $x$ is feasible."""
        return self.primal_value - self.dual_value


def dual_ascent(
    program: ConvexProgram, start: PyTree, *, max_steps: int = 500, tol: float = 1e-8
) -> DualSolution:
    r"""Maximise the dual over $\lambda \ge 0$ (and free $\nu$); each Lagrangian is minimised from `start`.

    The Lagrangian must have a minimiser for every $\lambda$ on the way, as for strictly convex objectives.

    >>> found = dual_ascent(ConvexProgram(lambda x: x**2, lambda x: 2.0 - x), 0.0)
    >>> float(found.dual_value.round(6)), found.inequality_multipliers.round(6).tolist()
    (4.0, [4.0])
    """
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    count, free = constraint_counts(program.constraints, start, program.args)
    onto = ProjectedGradient(onto=Box(jnp.asarray(np.r_[np.zeros(count), np.full(free, -np.inf)]), jnp.inf))
    first = np.zeros(count + free)
    found = minimise(_negative_dual, first, onto, args=(program, start), max_steps=max_steps, tol=tol)
    lam, nu = (jnp.asarray(part) for part in np.split(np.asarray(found.state), [count]))
    best = program.dual(lam, nu, start=start)
    return _certified(program, best.minimiser, start, lam, nu, best.value, found.num_steps, tol)


def saddle_point(
    program: ConvexProgram,
    start: PyTree,
    *,
    step: float = 1.0,
    max_steps: int = 20_000,
    tol: float = 1e-8,
) -> DualSolution:
    r"""The saddle point of the Lagrangian by the extragradient method, from `start` and zero multipliers.

    `step` is the largest step; it adapts. The dual value reported is $L(x, \lambda)$ at the end.
    """
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    steps = check_count("max_steps", max_steps)
    x, lam, nu, taken = _extragradient(program, start, jnp.asarray(step), jnp.asarray(tol), steps)
    return _certified(program, x, start, lam, nu, _values(program, x, lam, nu)[1], taken, tol)


def _negative_dual(multipliers: Array, program: ConvexProgram, start: PyTree) -> Scalar:
    count, _ = constraint_counts(program.constraints, start, program.args)
    return -program.dual(multipliers[:count], multipliers[count:], start=start).value


class _Saddle(Module):
    z: Float[Array, " n"]
    step: Scalar
    residual: Scalar


@program
def _extragradient(program: ConvexProgram, start: PyTree, step: Array, tol: Array, max_steps: int) -> Any:
    g, h = constraint_values(program.constraints, start, program.args)
    flat, unravel = ravel_pytree((start, jnp.zeros_like(g), jnp.zeros_like(h)))
    low = ravel_pytree((jax.tree.map(lambda v: jnp.full_like(v, -jnp.inf), start), g * 0.0, h - jnp.inf))[0]
    sign = ravel_pytree((jax.tree.map(jnp.ones_like, start), -jnp.ones_like(g), -jnp.ones_like(h)))[0]

    def field_(z):
        return sign * jax.grad(lambda z: program.lagrangian(*unravel(z)))(z)

    def advance(state):
        here = field_(state.z)
        middle = jnp.maximum(state.z - state.step * here, low)
        there = field_(middle)
        moved = jnp.maximum(state.z - state.step * there, low)
        distance = jnp.linalg.norm(middle - state.z)
        short = state.step * jnp.linalg.norm(there - here) <= 0.9 * distance
        residual = jnp.abs(jnp.maximum(state.z - here, low) - state.z).max()
        z = jnp.where(short, moved, state.z)
        length = jnp.where(short, jnp.minimum(1.1 * state.step, step), 0.5 * state.step)
        return _Saddle(z, length, residual), residual

    def settled(state, value, before):
        return state.residual <= tol

    first = _Saddle(flat, step, jnp.asarray(jnp.inf))
    found = run_until(advance, first, max_steps=max_steps, tol=tol, settled=settled)
    return *unravel(found.state.z), found.num_steps


@program
def _values(program: ConvexProgram, x: PyTree, lam: Array, nu: Array) -> tuple[Scalar, Scalar]:
    """The objective and the Lagrangian."""
    return program.objective(x, *program.args), program.lagrangian(x, lam, nu)


def _certified(
    program: ConvexProgram, x: PyTree, start: PyTree, lam: Array, nu: Array, dual: Scalar, steps: Array,
    tol: float,
) -> DualSolution:  # fmt: skip
    primal, _ = _values(program, x, lam, nu)
    place = place_of(program.objective, program.constraints, x, start, program.args, lam, nu)
    report = kkt_report(
        program.objective,
        x,
        inequality=program.inequality,
        equality=program.equality,
        inequality_multipliers=lam,
        equality_multipliers=nu,
        args=program.args,
        tol=100 * max(tol, 1e-10),
        sizes=place.sizes,
    )
    finite = np.isfinite(float(primal)) and np.isfinite(float(dual))
    outcome = Status.converged if report.ok else Status.exhausted if finite else Status.not_finite
    return DualSolution(x, lam, nu, primal, dual, report, steps, jnp.asarray(int(outcome)))
