r"""Convex quadratic programs by an interior-point method, with duals and a certificate.

Problem.     $\min_x \tfrac12 x^\top P x + q^\top x$ with $G x \le h$ and $A x = b$, $P$ positive
             semi-definite.
Dual.        $\max -\tfrac12 x^\top P x - h^\top z - b^\top y$ with $P x + q + G^\top z + A^\top y = 0$,
             $z \ge 0$.
Steps.       Mehrotra's predictor and corrector on $G x + s = h$, $s_i z_i = \mu$: an affine step chooses the
             centring $\sigma = (\mu_{\mathrm{aff}}/\mu)^3$, one factorisation serves both. Each step is taken
             in a proximal ($10^{-9}$) version of the Newton system, so that flat directions do no harm; the
             residuals are those of the problem itself, and so is the solution.
Proof.       Duality gap and both residuals at the end; infeasible problems end with $z \ge 0$,
             $G^\top z + A^\top y \approx 0$ and $h^\top z + b^\top y < 0$ (no $x$ of length below 1/`tol` can
             exist), unbounded ones with a direction $d$, $P d = 0$, $G d \le 0$, $A d = 0$, $q^\top d < 0$.
Cost.        $O((n + p)^3 + m n^2)$ per step, 10 to 25 steps; one compiled program per shape, `vmap` welcome.
References.  Mehrotra (1992); Nocedal and Wright (2006) section 16.6; Boyd and Vandenberghe (2004) chapter 11.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_finite,
    check_shape,
    is_concrete,
)
from tractable.core.iterate import Status, run_until
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.support import psd
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.optim.kkt import Solved

__all__ = ["QuadraticProgram", "QuadraticSolution", "quadratic_program"]

_PROXIMAL = 1e-9
_REFINEMENTS = 2
_PROOF = 1e-7  # a certificate of impossibility holds for all points of length below 1/_PROOF, in scaled rows
_TO_BOUNDARY = 0.995


class QuadraticProgram(Module):
    """The data of one problem, checked by `quadratic_program`."""

    P: Float[Array, "n n"]
    q: Float[Array, " n"]
    G: Float[Array, "m n"]
    h: Float[Array, " m"]
    A: Float[Array, "p n"]
    b: Float[Array, " p"]

    def primal(self, x: Float[Array, " n"]) -> Scalar:
        r"""$\tfrac12 x^\top P x + q^\top x$."""
        return 0.5 * x @ self.P @ x + self.q @ x

    def dual(self, x: Float[Array, " n"], z: Float[Array, " m"], y: Float[Array, " p"]) -> Scalar:
        r"""$-\tfrac12 x^\top P x - h^\top z - b^\top y$: a lower bound where the gradient condition holds."""
        return -0.5 * x @ self.P @ x - self.h @ z - self.b @ y

    def stationarity(self, x: Float[Array, " n"], z: Float[Array, " m"], y: Float[Array, " p"]) -> Array:
        r"""$P x + q + G^\top z + A^\top y$."""
        return self.P @ x + self.q + self.G.T @ z + self.A.T @ y


class QuadraticSolution(Solved, Module):
    """The point, the multipliers, and what certifies them (or the absence of a solution)."""

    x: Float[Array, " n"]
    inequality_multipliers: Float[Array, " m"]
    equality_multipliers: Float[Array, " p"]
    slack: Float[Array, " m"]
    value: Scalar
    dual_value: Scalar
    residual: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def gap(self) -> Scalar:
        """Primal minus dual value: what the value may still be off by."""
        return self.value - self.dual_value


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
    return _solve(_program(P, q, G, h, A, b), jnp.asarray(tol), check_count("max_steps", max_steps))


class _Point(Module):
    x: Float[Array, " n"]
    s: Float[Array, " m"]
    z: Float[Array, " m"]
    y: Float[Array, " p"]
    code: Int[Array, ""]


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


@jax.jit(static_argnames="max_steps")
def _solve(given: QuadraticProgram, tol: Array, max_steps: int) -> QuadraticSolution:
    program, sizes = _scaled(given)

    def step(point):
        moved = _mehrotra(program, point)
        judged = _Point(moved.x, moved.s, moved.z, moved.y, _judge(program, moved, tol))
        return judged, _residual(program, judged)

    def settled(point, value, before):
        return point.code != int(Status.exhausted)

    run = run_until(step, _first(program), max_steps=max_steps, tol=tol, settled=settled)
    p = _unscaled(run.state, *sizes)
    value, dual = given.primal(p.x), given.dual(p.x, p.z, p.y)
    broken = (run.code == int(Status.not_finite)) & (p.code == int(Status.exhausted))
    code = jnp.where(broken, int(Status.not_finite), p.code)
    return QuadraticSolution(p.x, p.z, p.y, p.s, value, dual, _residual(given, p), run.num_steps, code)


def _scaled(given: QuadraticProgram) -> tuple[QuadraticProgram, tuple[Array, Array, Array]]:
    """Rows of length one and an objective of size one: the same solution, whatever the units of each row."""

    def size(values):
        return jnp.where(values > 0, values, 1.0)

    rows, levels = size(jnp.linalg.norm(given.G, axis=1)), size(jnp.linalg.norm(given.A, axis=1))
    cost = size(jnp.maximum(jnp.abs(given.P).max(), jnp.abs(given.q).max()))
    G, A = given.G / rows[:, None], given.A / levels[:, None]
    program = QuadraticProgram(given.P / cost, given.q / cost, G, given.h / rows, A, given.b / levels)
    return program, (rows, levels, cost)


def _unscaled(p: _Point, rows: Array, levels: Array, cost: Array) -> _Point:
    return _Point(p.x, p.s * rows, p.z * cost / rows, p.y * cost / levels, p.code)


def _first(program: QuadraticProgram) -> _Point:
    """The least-squares point; slacks and multipliers are its residuals, moved inside together."""
    solve = _newton_solver(program, jnp.ones_like(program.h))
    x, y = solve(program.G.T @ program.h - program.q, program.b)
    slack = program.h - program.G @ x

    def inside(v):
        return v + jnp.maximum(0.0, 1 - v.min(initial=1.0))

    return _Point(x, inside(slack), inside(-slack), y, jnp.asarray(int(Status.exhausted)))


def _newton_solver(program: QuadraticProgram, weights: Array):
    r"""Solves $(P + G^\top W G) u + A^\top v = r$, $A u = r'$; factored once, with proximal terms.

    Refinement against the system without those terms removes their effect where it has a solution.
    """
    n, p = program.q.size, program.b.size
    top = program.P + (program.G.T * weights[None]) @ program.G
    exact = jnp.block([[top, program.A.T], [program.A, jnp.zeros((p, p), top.dtype)]])
    signs = jnp.concatenate([jnp.ones(n, top.dtype), -jnp.ones(p, top.dtype)])
    factor = jsl.lu_factor(exact + _PROXIMAL * jnp.diag(signs))

    def solve(first, second):
        right = jnp.concatenate([first, second])
        both = jsl.lu_solve(factor, right)
        for _ in range(_REFINEMENTS):
            both = both + jsl.lu_solve(factor, right - exact @ both)
        return both[:n], both[n:]

    return solve


def _mehrotra(program: QuadraticProgram, point: _Point) -> _Point:
    """One predictor-corrector step."""
    x, s, z, y = point.x, point.s, point.z, point.y
    count = max(s.size, 1)
    gradient = program.stationarity(x, z, y)
    gap_g, gap_a = program.G @ x + s - program.h, program.A @ x - program.b
    solve = _newton_solver(program, z / s)

    def direction(target):  # s z + s dz + z ds = target
        pushed = (z * gap_g + target - s * z) / s
        dx, dy = solve(-gradient - program.G.T @ pushed, -gap_a)
        ds = -gap_g - program.G @ dx
        return dx, ds, (target - s * z - z * ds) / s, dy

    mu = s @ z / count
    _, ds, dz, _ = direction(jnp.zeros_like(s))
    after = (s + _longest(s, ds) * ds) @ (z + _longest(z, dz) * dz) / count
    centring = (after / jnp.where(mu > 0, mu, 1.0)) ** 3
    dx, ds, dz, dy = direction(centring * mu - ds * dz)
    length = _TO_BOUNDARY * jnp.minimum(_longest(s, ds), _longest(z, dz))
    length = jnp.where(length >= 0.9 * _TO_BOUNDARY, jnp.maximum(length, _full(s, ds, z, dz)), length)
    return _Point(x + length * dx, s + length * ds, z + length * dz, y + length * dy, point.code)


def _longest(v: Array, dv: Array) -> Scalar:
    """The largest step of at most one that keeps `v` from becoming negative."""
    falling = dv < 0
    return jnp.minimum(1.0, jnp.where(falling, -v / jnp.where(falling, dv, -1.0), jnp.inf).min(initial=1.0))


def _full(s: Array, ds: Array, z: Array, dz: Array) -> Scalar:
    """One, if a whole step stays strictly inside: then nothing is gained by stopping short of it."""
    inside = ((s + ds) > (1 - _TO_BOUNDARY) * s).all() & ((z + dz) > (1 - _TO_BOUNDARY) * z).all()
    return jnp.where(inside, 1.0, 0.0)


def _residual(program: QuadraticProgram, p: _Point) -> Scalar:
    """The largest violation of the two feasibilities, each relative to the size of its data."""
    gradient = program.stationarity(p.x, p.z, p.y)
    primal = jnp.concatenate([program.G @ p.x + p.s - program.h, program.A @ p.x - program.b])
    sizes = jnp.concatenate([program.h, program.b])
    return jnp.maximum(
        jnp.abs(gradient).max() / (1 + jnp.abs(program.q).max()),
        jnp.abs(primal).max(initial=0.0) / (1 + jnp.abs(sizes).max(initial=0.0)),
    )


def _judge(program: QuadraticProgram, p: _Point, tol: Array) -> Array:
    """Optimal, or proved infeasible, or proved unbounded, or not yet."""
    value = program.primal(p.x)
    gap = jnp.abs(value - program.dual(p.x, p.z, p.y))
    close = jnp.maximum(gap, p.s @ p.z) <= tol * (1 + jnp.abs(value))
    optimal = (_residual(program, p) <= tol) & close
    strength = -(program.h @ p.z + program.b @ p.y)
    rows = jnp.abs(program.G.T @ p.z + program.A.T @ p.y).max()
    infeasible = (strength > 0) & (rows <= _PROOF * strength)
    fall = -(program.q @ p.x)
    rises = jnp.maximum(program.G @ p.x, 0.0).max(initial=0.0)
    drift = jnp.maximum(jnp.abs(program.P @ p.x).max(), jnp.abs(program.A @ p.x).max(initial=0.0))
    unbounded = (fall > 0) & (jnp.maximum(rises, drift) <= _PROOF * fall)
    other = jnp.where(unbounded, int(Status.unbounded), int(Status.exhausted))
    other = jnp.where(infeasible, int(Status.infeasible), other)
    return jnp.where(optimal, int(Status.converged), other)
