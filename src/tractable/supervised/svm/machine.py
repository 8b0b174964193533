r"""Support vector machines: the widest street between two classes, in any kernel, with its proof.

Primal.      $\min_{w,b} \tfrac12\|w\|^2 + \sum_i C_i\xi_i$ with $y_i(w^\top\phi(x_i) + b) \ge 1 - \xi_i$,
             $\xi_i \ge 0$; $C_i = C w_i$ with the weights of the rows, $C = \infty$ is the hard margin.
Dual.        $\max_\alpha \sum_i\alpha_i - \tfrac12\sum_{ij}\alpha_i\alpha_j y_i y_j k(x_i, x_j)$ with
             $0 \le \alpha_i \le C_i$ and, with a bias, $\sum_i\alpha_i y_i = 0$.
Recovery.    $w = \sum_i\alpha_i y_i\phi(x_i)$; $b$ from the vectors on the margin ($0 < \alpha_i < C_i$);
             $f(x) = \sum_i\alpha_i y_i k(x_i, x) + b$; the street between $f = \pm1$ is $2/\|w\|$ wide.
Proof.       Primal minus dual value is zero at the solution and bounds the error anywhere; `conditions` lists
             the Karush-Kuhn-Tucker residuals, `roles` what each row does.
Cost.        About one kernel row per support vector; prediction is one matrix product.
References.  Cortes and Vapnik (1995); Schölkopf and Smola (2002) chapter 7.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, namespace
from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Values
from tractable.core.verdict import Verdict
from tractable.kernels.base import Kernel
from tractable.kernels.nonstationary import Linear
from tractable.optim.kkt import KKTReport
from tractable.supervised.perceptrons.separability import separability
from tractable.supervised.svm.gram import expand_kernel, kernel_matrix
from tractable.supervised.svm.smo import DualSolution, solve_dual

__all__ = ["Expansion", "MarginRoles", "SupportVectorMachine", "prefer_dual"]


class MarginRoles(Module):
    """What each training row does: indices of the rows of each kind."""

    outside: np.ndarray  # alpha = 0: beyond its margin, contributes nothing
    margin: np.ndarray  # 0 < alpha < C: exactly on its margin
    inside: np.ndarray  # alpha = C, 0 <= slack <= 1: inside the street, on the right side
    wrong: np.ndarray  # alpha = C, slack > 1: on the wrong side

    @property
    def support(self) -> Values:
        """All support vectors."""
        return np.sort(np.concatenate([self.margin, self.inside, self.wrong]))


class Expansion(Ended, Module):
    """A kernel expansion over the rows that a solved dual needs, with its certificate."""

    kernel: Kernel
    support_vectors: np.ndarray
    coefficients: np.ndarray
    support: np.ndarray  # their rows in the training data
    bias: float
    value: float  # of the primal
    dual_value: float
    violation: float
    num_steps: int
    num_rows: int
    code: int = field(static=True)

    @classmethod
    def of(
        cls, kernel: Kernel, X: Values, found: DualSolution, bias: float, value: float, **more: Any
    ) -> Any:
        """The expansion over the rows whose coefficients are not zero."""
        held = np.flatnonzero(found.coefficients)
        return cls(
            kernel, X[held], found.coefficients[held], held, bias + 0.0, float(value), -found.objective,
            found.violation, found.num_steps, len(X), found.code, **more,
        )  # fmt: skip

    @property
    def gap(self) -> float:
        """Primal minus dual value: how far the primal value can be from the least one."""
        return self.value - self.dual_value

    @property
    def primal_weights(self) -> Values:
        """$w = \\sum_i\\beta_i x_i$ of the linear kernel."""
        fix = "Other kernels have no weights on the columns."
        check(type(self.kernel) is Linear, "kernel", "linear to have weights", repr(self.kernel), fix)
        return np.asarray(self.coefficients) @ np.asarray(self.support_vectors)

    def values(self, X: ArrayLike | Rows) -> Values:
        """$f(x) = \\sum_i\\beta_i k(x_i, x) + b$ of each row."""
        rows = points(X, self.support_vectors.shape[1])
        return expand_kernel(self.kernel, rows, self.support_vectors, self.coefficients) + self.bias

    @property
    def verdict(self) -> Verdict:
        """How many rows support it, and how near it is to the minimum."""
        count = len(np.asarray(self.support))
        how = f"gap={float(self.gap):.1e}. {self.status.sentence}"
        sentence = f"{count} of {self.num_rows} rows support it, {how}"
        return Verdict(self.status.ok, sentence, {"support": count, "gap": float(self.gap)})


class SupportVectorMachine(Expansion):
    """A fitted machine of two classes; its coefficients are $\\alpha_i y_i$."""

    bounds: np.ndarray  # C_i of the support vectors
    has_bias: bool = field(static=True)

    @classmethod
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        kernel: Kernel | None = None,
        C: float = 1.0,
        *,
        weights: ArrayLike | None = None,
        bias: bool = True,
        tol: float = 1e-3,
        start: ArrayLike | None = None,
        gram: ArrayLike | None = None,
        max_steps: int | None = None,
        shrink: bool = True,
        finish: bool = True,
    ) -> "SupportVectorMachine":
        """Fit to rows with labels -1 and +1 by sequential minimal optimisation.

        `start` are multipliers to begin with, feasible ones; `gram` is the kernel matrix of the rows where it
        is at hand. With `finish`, a solution with few vectors on the margin is solved to rounding.

        >>> machine = SupportVectorMachine.fit([[1.0, 1.0], [-1.0, -1.0]], [1, -1])
        >>> machine.multipliers.tolist(), machine.primal_weights.tolist(), machine.bias
        ([0.25, 0.25], [0.5, 0.5], 0.0)
        """
        rows = Rows.of(X, y, weights, target="sign", absent="keep")
        signs, kernel = rows.signs, Linear() if kernel is None else kernel
        check(bool(C > 0) and not np.isnan(C), "C", "positive (infinity is the hard margin)", C)
        bounds = C * rows.weights
        low, high = np.where(signs > 0, 0.0, -bounds), np.where(signs > 0, bounds, 0.0)
        begin = None if start is None else np.asarray(start, float) * signs
        table = None if gram is None else np.ascontiguousarray(np.asarray(gram, float))
        if np.isinf(C) and type(kernel) is Linear:  # only columns can be tested, another kernel is tried
            _check_separable(rows.take(rows.weights > 0), bias)
        found = solve_dual(
            kernel, rows.X, signs, low, high, ranges=None if bias else (), start=begin, gram=table, tol=tol,
            max_steps=max_steps, shrink=shrink, finish=finish,
        )  # fmt: skip
        return cls.from_dual(kernel, rows.X, signs, bounds, found)

    @classmethod
    def from_dual(
        cls, kernel: Kernel, X: Values, signs: Values, bounds: Values, found: DualSolution
    ) -> "SupportVectorMachine":
        """The machine of a solved dual, with primal and dual value."""
        beta, has_bias = found.coefficients, len(found.multipliers) == 1
        bias = -float(found.multipliers[0]) if has_bias else 0.0
        decisions = found.gradient + signs + bias
        norm = float(beta @ (found.gradient + signs))
        slack = np.maximum(1.0 - signs * decisions, 0.0)
        charged = (slack > 0) & (bounds > 0) & ~(np.isinf(bounds) & (slack <= 2 * found.violation + 1e-9))
        value = 0.5 * norm + float((bounds[charged] * slack[charged]).sum())
        return cls.of(kernel, X, found, bias, value, bounds=bounds[beta != 0], has_bias=has_bias)

    @property
    def multipliers(self) -> Values:
        """$\\alpha_i \\ge 0$ of every training row."""
        alpha = np.zeros(self.num_rows)
        alpha[np.asarray(self.support)] = np.abs(np.asarray(self.coefficients))
        return alpha

    @property
    def norm(self) -> float:
        """$\\|w\\|$ in the space of the features."""
        table = kernel_matrix(self.kernel, np.asarray(self.support_vectors))
        return float(np.sqrt(max(np.asarray(self.coefficients) @ table @ np.asarray(self.coefficients), 0.0)))

    @property
    def width(self) -> float:
        """$2/\\|w\\|$: the distance between $f = -1$ and $f = 1$ among the features."""
        return 2.0 / self.norm if self.norm > 0 else np.inf

    decision = Expansion.values

    def predict(self, X: ArrayLike | Rows) -> Values:
        """$+1$ where $f(x) \\ge 0$, and $-1$."""
        return namespace(self, X).where(self.decision(X) >= 0, 1, -1)

    def slack(self, X: ArrayLike | Rows, y: ArrayLike | None = None) -> Values:
        """$\\xi_i = (1 - y_i f(x_i))_+$, the hinge loss: above one exactly on the wrong side."""
        rows = Rows.of(X, y, target="sign")
        return np.maximum(1.0 - rows.signs * self.decision(rows), 0.0)

    def roles(self, X: ArrayLike | Rows, y: ArrayLike | None = None) -> MarginRoles:
        """The training rows by their multiplier: outside, on the margin, inside the street, wrong side."""
        alpha, slack = self.multipliers, self.slack(X, y)
        bounded = np.zeros(self.num_rows, bool)
        bounded[np.asarray(self.support)] = np.abs(np.asarray(self.coefficients)) >= np.asarray(self.bounds)
        kinds = (alpha == 0, (alpha > 0) & ~bounded, bounded & (slack <= 1), bounded & (slack > 1))
        return MarginRoles(*[np.flatnonzero(kind) for kind in kinds])

    def conditions(
        self,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        C: float | None = None,
        tol: float = 1e-3,
    ) -> KKTReport:
        """The Karush-Kuhn-Tucker residuals on the training rows; `C` and `weights` as in `fit`.

        Complementarity has two parts, $\\alpha_i(y_i f(x_i) - 1 + \\xi_i)$ and $(C_i - \\alpha_i)\\xi_i$;
        both are divided by $1 + C_i$, so that the report does not depend on the unit of the penalty.
        """
        rows = Rows.of(X, y, weights, target="sign", absent="keep")
        signs, alpha = rows.signs, self.multipliers
        bounds = np.full(len(signs), np.inf) if C is None else C * rows.weights
        bounds[np.asarray(self.support)] = np.asarray(self.bounds)
        decisions = self.decision(rows)
        margin, slack = signs * decisions - 1.0, np.maximum(1.0 - signs * decisions, 0.0)
        finite = np.isfinite(bounds)
        first = np.abs(alpha * (margin + slack)) / (1.0 + np.where(finite, bounds, alpha))
        room = np.where(finite, bounds - alpha, 1.0)
        second = room * slack / (1.0 + np.where(finite, bounds, 0.0))
        excess = np.maximum(np.where(finite, alpha - bounds, 0.0), -alpha)
        total = abs(float(alpha @ signs)) if self.has_bias else 0.0
        complementarity = max(first.max(), second.max())
        parts = (0.0, total / (1.0 + alpha.sum()), 0.0, excess.max(initial=0.0), complementarity)
        return KKTReport(*[jnp.asarray(float(part)) for part in parts], slater=jnp.asarray(1.0), tol=tol)


def prefer_dual(num_rows: int, dim: int, kernel: Kernel | None = None) -> bool:
    """Whether the dual, with one unknown per row, is the smaller problem: kernels, or few rows."""
    return (kernel is not None and type(kernel) is not Linear) or dim > num_rows


def _check_separable(rows: Rows, bias: bool) -> None:
    """A hard margin needs classes that can be separated."""
    report = separability(rows, bias=bias)
    fix = "Allow slack: choose a finite `C`."
    check(report.separable, "y", "separable by a plane for a hard margin", report.verdict, fix)
