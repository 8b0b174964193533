r"""Convex programs: the Lagrangian, the dual function, Slater's condition, and a proof of optimality.

Primal.      $p^\star = \min_x f(x)$ with $g(x) \le 0$, $h(x) = 0$, for convex $f$, $g$ and affine $h$.
Dual.        $d(\lambda, \nu) = \min_x L(x, \lambda, \nu)$ is concave (a minimum of functions affine in the
             multipliers) and $d \le p^\star$ for $\lambda \ge 0$; its gradient is $(g, h)$ at the minimiser.
             $d^\star = \max_{\lambda \ge 0} d = p^\star$ where Slater's condition holds.
Slater.      Some $x$ with $g(x) < 0$ and $h(x) = 0$, looked for by phase I: $\min_{x, s} s$ with
             $g(x) \le s$, $s \ge -1$.
Cost.        One unconstrained minimisation per value of the dual.
References.  Boyd and Vandenberghe (2004) chapter 5 and section 11.4.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Bool, Float, PyTree, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.constrained import ConstrainedMinimum, minimise_constrained, unconstrained_minimum
from tractable.optim.kkt import KKTReport, constraint_values, kkt_report

__all__ = ["ConvexProgram", "DualValue", "SlaterPoint"]

Function = Callable[..., Any]


class DualValue(Module):
    r"""$d(\lambda, \nu)$, where the Lagrangian is least, and whether there is such a point.

    The value is $-\infty$ where no minimiser was found. `gradient` is that of the dual: the constraints at
    the minimiser, inequalities first.
    """

    value: Scalar
    minimiser: PyTree
    gradient: Float[Array, " m"]
    bounded: Bool[Array, ""]


class SlaterPoint(Module):
    """A point and the margin by which it meets every inequality: positive under Slater's condition."""

    point: PyTree
    margin: Scalar
    search: ConstrainedMinimum = field(show=False)

    @property
    def holds(self) -> bool:
        """Whether the point is strictly feasible."""
        return bool(self.margin > 1e-7) and float(self.search.report.equality) <= 1e-6

    @property
    def verdict(self) -> Verdict:
        """Whether the condition holds, and how the search for the point ended."""
        words = "holds" if self.holds else "was not met"
        sentence = (
            f"Slater's condition {words}: margin {float(self.margin):.3g}. {self.search.status.sentence}"
        )
        return Verdict(self.holds, sentence, {"margin": self.margin})


class ConvexProgram(Module):
    """`objective(x, *args)`, `inequality(x, *args)` at most zero, `equality(x, *args)` zero.

    Convexity is the caller's claim (`optim.convexity` can test it); without it the dual is still a bound.

    >>> program = ConvexProgram(lambda x: x**2, lambda x: 2.0 - x)
    >>> float(program.dual(2.0, start=0.0).value)
    3.0
    """

    objective: Function
    inequality: Function | None = None
    equality: Function | None = None
    args: tuple = ()

    @property
    def constraints(self) -> tuple[Function | None, Function | None]:
        """Inequality and equality, as the solvers take them."""
        return self.inequality, self.equality

    def lagrangian(
        self,
        x: PyTree,
        inequality_multipliers: ArrayLike | None = None,
        equality_multipliers: ArrayLike | None = None,
    ) -> Scalar:
        r"""$f(x) + \lambda^\top g(x) + \nu^\top h(x)$."""
        g, h = constraint_values(self.constraints, x, self.args)
        lam, nu = _flat(inequality_multipliers), _flat(equality_multipliers)
        return self.objective(x, *self.args) + lam @ g + nu @ h

    def dual(
        self,
        inequality_multipliers: ArrayLike | None = None,
        equality_multipliers: ArrayLike | None = None,
        *,
        start: PyTree,
        tol: float = 1e-10,
    ) -> DualValue:
        r"""$d(\lambda, \nu)$, the Lagrangian minimised from `start`; differentiable in the multipliers."""
        lam, nu = _flat(inequality_multipliers), _flat(equality_multipliers)
        start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
        return _dual(self, lam, nu, start, jnp.asarray(tol))

    def solve(self, start: PyTree, *, max_steps: int = 50, tol: float = 1e-8) -> ConstrainedMinimum:
        """The minimum by `minimise_constrained`."""
        return minimise_constrained(
            self.objective,
            start,
            equality=self.equality,
            inequality=self.inequality,
            args=self.args,
            max_steps=max_steps,
            tol=tol,
        )

    def slater(self, start: PyTree) -> SlaterPoint:
        """A strictly feasible point, if there is one: phase I from `start`."""
        start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
        state = (start, jnp.maximum(1.0 - _margin(self, start), 0.0))
        search = minimise_constrained(
            _excess,
            state,
            equality=self._kept_equality(),
            inequality=_Relaxed(self.inequality),
            args=self.args,
        )
        point = search.state[0]
        return SlaterPoint(point, _margin(self, point), search)

    def report(
        self,
        x: PyTree,
        inequality_multipliers: ArrayLike | None = None,
        equality_multipliers: ArrayLike | None = None,
        *,
        tol: float = 1e-6,
    ) -> KKTReport:
        """The KKT conditions of a candidate, Slater's condition included."""
        return kkt_report(
            self.objective,
            x,
            inequality=self.inequality,
            equality=self.equality,
            inequality_multipliers=inequality_multipliers,
            equality_multipliers=equality_multipliers,
            args=self.args,
            slater=self.slater(x).margin,
            tol=tol,
        )

    def _kept_equality(self) -> Function | None:
        return None if self.equality is None else _OfPoint(self.equality)


class _OfPoint(Module):
    """A constraint on the point of a pair (point, excess)."""

    function: Function

    def __call__(self, state: tuple, *args: Any) -> Any:
        return self.function(state[0], *args)


class _Relaxed(Module):
    """Phase I: all inequalities at most the excess, the excess at least minus one."""

    function: Function | None

    def __call__(self, state: tuple, *args: Any) -> Array:
        point, excess = state
        g, _ = constraint_values((self.function, None), point, args)
        return jnp.concatenate([g - excess, jnp.ravel(-1.0 - excess)])


def _flat(multipliers: ArrayLike | None) -> Array:
    return jnp.zeros(0) if multipliers is None else jnp.ravel(as_float("multipliers", multipliers))


def _excess(state: tuple, *args: Any) -> Scalar:
    return state[1]


@program
def _margin(program: ConvexProgram, point: PyTree) -> Scalar:
    """By how much the worst inequality is met; one where there are none."""
    return -constraint_values((program.inequality, None), point, program.args)[0].max(initial=-1.0)


@program
def _dual(program: ConvexProgram, lam: Array, nu: Array, start: PyTree, tol: Array) -> DualValue:
    flat, unravel = ravel_pytree(start)
    held = jax.lax.stop_gradient((lam, nu))  # Danskin: the minimiser's own change does not count

    x, _, found = unconstrained_minimum(lambda x: program.lagrangian(unravel(x), *held), flat, tol)
    value = program.lagrangian(unravel(x), lam, nu)
    g, h = constraint_values(program.constraints, unravel(x), program.args)
    bounded = found & jnp.isfinite(value)
    return DualValue(jnp.where(bounded, value, -jnp.inf), unravel(x), jnp.concatenate([g, h]), bounded)
