r"""An interior-point method for convex quadratic programs: the engine of `quadratic_program`.

Steps.       Mehrotra's predictor and corrector on $G x + s = h$, $s_i z_i = \mu$: an affine step chooses the
             centring $\sigma = (\mu_{\mathrm{aff}}/\mu)^3$, one factorisation serves both. Each step is taken
             in a proximal ($10^{-9}$) version of the Newton system, so that flat directions do no harm; the
             residuals are those of the problem itself, and so is the solution.
Claims.      Optimal by duality gap and both residuals; infeasible by $z \ge 0$ with
             $G^\top z + A^\top y \approx 0$ and $h^\top z + b^\top y < 0$ (no $x$ of length below $10^7$ can
             exist); unbounded by an $x$ that is both feasible and a direction of endless fall.
Cost.        $O((n + p)^3 + m n^2)$ per step, 10 to 25 steps; one compiled program per shape, `vmap` welcome.
References.  Mehrotra (1992); Nocedal and Wright (2006) section 16.6.
"""

import jax.numpy as jnp
import jax.scipy.linalg as jsl

from tractable.core.iterate import Status, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Scalar
from tractable.optim.kkt import Solved

__all__ = ["QuadraticProgram", "QuadraticSolution", "interior_point"]

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
    """The point, the multipliers, and what certifies them (or the absence of a solution).

    Where the constraints contradict each other the multipliers are a Farkas certificate; where the objective
    falls without end, `x` is feasible and `ray` (else zero) the direction in which it falls.
    """

    x: Float[Array, " n"]
    inequality_multipliers: Float[Array, " m"]
    equality_multipliers: Float[Array, " p"]
    slack: Float[Array, " m"]
    value: Scalar
    dual_value: Scalar
    residual: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    ray: Float[Array, " n"] = field(show=False)

    @property
    def gap(self) -> Scalar:
        """Primal minus dual value: what the value may still be off by."""
        return self.value - self.dual_value


class _Point(Module):
    x: Float[Array, " n"]
    s: Float[Array, " m"]
    z: Float[Array, " m"]
    y: Float[Array, " p"]
    code: Int[Array, ""]


@program
def interior_point(given: QuadraticProgram, tol: Array, max_steps: int) -> QuadraticSolution:
    """The solution, or what the steps prove; everything inside one compiled program."""
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
    ray = jnp.where(code == int(Status.unbounded), p.x / jnp.abs(p.x).max(), 0.0)
    left = _residual(given, p)
    return QuadraticSolution(p.x, p.z, p.y, p.s, value, dual, left, run.num_steps, code, ray)


def _scaled(given: QuadraticProgram) -> tuple[QuadraticProgram, tuple[Array, Array, Array, Array]]:
    """Rows of length one, right-hand sides and an objective of size one: the same solution, whatever the
    units of each row, of the unknowns and of the objective."""

    def size(values):
        return jnp.where(values > 0, values, 1.0)

    rows, levels = size(jnp.linalg.norm(given.G, axis=1)), size(jnp.linalg.norm(given.A, axis=1))
    h, b = given.h / rows, given.b / levels
    unit = size(jnp.abs(jnp.concatenate([h, b])).max(initial=0.0))
    P, q = unit**2 * given.P, unit * given.q
    cost = size(jnp.maximum(jnp.abs(P).max(), jnp.abs(q).max()))
    G, A = given.G / rows[:, None], given.A / levels[:, None]
    return QuadraticProgram(P / cost, q / cost, G, h / unit, A, b / unit), (rows, levels, cost, unit)


def _unscaled(p: _Point, rows: Array, levels: Array, cost: Array, unit: Array) -> _Point:
    prices = cost / unit
    return _Point(unit * p.x, unit * p.s * rows, p.z * prices / rows, p.y * prices / levels, p.code)


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
    ray = (fall > 0) & (jnp.maximum(rises, drift) <= _PROOF * fall)
    excess = jnp.maximum(
        jnp.maximum(program.G @ p.x - program.h, 0.0).max(initial=0.0),
        jnp.abs(program.A @ p.x - program.b).max(initial=0.0),
    )
    sides = jnp.concatenate([program.h, program.b])
    unbounded = ray & (excess <= _PROOF * (1 + jnp.abs(sides).max(initial=0.0)))  # the point must be feasible
    other = jnp.where(unbounded, int(Status.unbounded), int(Status.exhausted))
    other = jnp.where(infeasible, int(Status.infeasible), other)
    return jnp.where(optimal, int(Status.converged), other)
