r"""The lasso and the elastic net, with a certificate: coordinate descent or ISTA, and paths with warm starts.

Objective.   $\frac12\sum_n w_n (y_n - x_n^\top\theta)^2 + \lambda\|\theta\|_1 + \frac12\mu\|\theta\|^2$; an
             intercept is free.
Conventions. `sum` is the line above: coordinates are soft-thresholded at $\lambda$. `half` has the penalty
             $\frac12\lambda\|\theta\|_1$: the threshold is $\lambda/2$. `mean` divides the squares by $\sum_n
             w_n$, as scikit-learn does: the threshold is $\lambda\sum_n w_n$. $\mu$ is scaled alike, except
             that `half` already writes it with its half.
Certificate. With $r = y - X\theta$ shrunk into $\|X^\top u\|_\infty \le \lambda$, the dual value
             $\frac12\|y\|^2 - \frac12\|y - u\|^2$ bounds the optimum from below: the gap is what may be left.
Method.      On the Gram matrix of scaled, centred columns; the last step solves the equations of the active
             columns exactly, where their signs agree.
Cost.        $O(n p^2)$ once, then $O(p^2)$ per sweep; the number of rows never recompiles.
References.  Tibshirani (1996); Friedman, Hastie and Tibshirani (2010); Kim et al. (2007) for the gap.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from scipy.special import stdtrit

from tractable.core.checks import check, check_count, check_nonnegative, check_option, namespace
from tractable.core.iterate import Run, run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Scalar, Values
from tractable.core.verdict import Verdict
from tractable.distributions.student import StudentT
from tractable.optim.minimise import minimise
from tractable.optim.proximal import L1Penalty, ProximalGradient, coordinate_descent
from tractable.supervised.linear.least_squares import student_around
from tractable.supervised.linear.solvers import least_squares

__all__ = ["LassoModel", "LassoPath", "lasso", "lasso_path"]

CONVENTIONS = ("sum", "half", "mean")


class LassoModel(Module):
    """A fitted lasso: sparse coefficients, the gap that certifies them, and how the search ended.

    `value` and `gap` are in the units of the `sum` convention; `gap` is the most that `value`
    can be too high.
    """

    coefficients: Float[Array, " p"]
    intercept: Scalar
    strength: Scalar
    ridge: Scalar
    value: Scalar
    gap: Scalar
    total: Scalar
    inverse: Float[Array, "q q"]
    scale: Scalar
    degrees: Scalar
    run: Run
    title: str = field(static=True, default="Lasso")

    @property
    def active(self) -> np.ndarray:
        """The columns whose coefficients are not zero."""
        return np.flatnonzero(np.asarray(self.coefficients))

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective at zero."""
        return float(self.gap) / float(self.total) if float(self.total) > 0 else 0.0

    def predict(self, X: ArrayLike | Rows) -> Values:
        xp = namespace(self, X)
        rows = xp.asarray(points(X, self.coefficients.shape[0]))
        return rows @ xp.asarray(self.coefficients) + xp.asarray(self.intercept)

    def predict_dist(self, X: ArrayLike | Rows) -> StudentT:
        """Student's t around the prediction, given the columns that were chosen: that others might have been
        is not included, nor that the coefficients are shrunk."""
        rows = points(X, self.coefficients.shape[0])
        xp = namespace(self, rows)
        A = xp.column_stack([xp.ones(len(rows)), rows])
        return student_around(A, self.predict(X), self.inverse, self.scale, self.degrees)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the t-interval of each coefficient, the intercept (if any) first, given the
        columns that were chosen: those of the others are zero."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        errors = float(self.scale) * np.sqrt(np.diag(np.asarray(self.inverse)))
        reach = stdtrit(float(self.degrees), 0.5 + level / 2) * errors
        middle = np.r_[float(self.intercept), np.asarray(self.coefficients)]
        used = slice(None) if reach[0] > 0 else slice(1, None)
        return (middle - reach)[used], (middle + reach)[used]

    @property
    def verdict(self) -> Verdict:
        """The gap where it certifies the optimum; else how the search ended, and the gap."""
        left, active = self.relative_gap, len(self.active)
        size = f"{active} of {self.coefficients.shape[0]} columns are active"
        bound = f"at most {left:.1e} of the objective at zero is left to gain"
        ends = f"Certified: {bound}" if left < 1e-9 else f"{self.run.status.sentence} ({bound})"
        return Verdict(left < 1e-9, f"{ends}; {size}.", {"relative_gap": left, "num_active": active})


class LassoPath(Module):
    """Coefficients of a decreasing sequence of strengths (in the `sum` convention), each from the one
    before."""

    strengths: Float[Array, " m"]
    coefficients: Float[Array, "m p"]
    intercepts: Float[Array, " m"]
    gaps: Float[Array, " m"]
    codes: Array

    @property
    def verdict(self) -> Verdict:
        """How many of the searches converged, and the largest gap."""
        settled, gap = int((np.asarray(self.codes) == 0).sum()), float(np.max(self.gaps))
        sentence = f"{settled} of {len(self.codes)} converged, largest gap {gap:.1e}."
        return Verdict(settled == len(self.codes), sentence, {"num_converged": settled, "gap": gap})


def lasso(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    penalty: float | int = 1.0,
    weights: ArrayLike | None = None,
    *,
    ridge: float | int = 0.0,
    intercept: bool = True,
    convention: str = "sum",
    method: str = "coordinate",
    tol: float = 1e-11,
    max_steps: int = 10_000,
) -> LassoModel:
    r"""The minimum of $\frac12\sum_n w_n (y_n - \theta_0 - x_n^\top\theta)^2 + \lambda\|\theta\|_1 +
    \frac12\mu\|\theta\|^2$.

    `penalty` is $\lambda$ and `ridge` is $\mu$, in the `convention` named; `method` is `coordinate` or
    `ista`.

    >>> model = lasso(np.eye(3), [3.0, -1.0, 0.2], 0.5, intercept=False)
    >>> model.coefficients.round(12)
    Array([ 2.5, -0.5,  0. ], dtype=float64)
    """
    check_option("method", method, ("coordinate", "ista"))
    problem = _Problem.of(X, y, weights, intercept)
    strength, mu = _strengths(penalty, ridge, convention, problem.count)
    found = _search(problem, strength, mu, method, tol, check_count("max_steps", max_steps))
    theta = _polish(problem, np.asarray(found.state), strength, mu)
    value, gap = problem.certify(theta, strength, mu)
    coefficients, constant = problem.unscaled(theta)
    title = "Lasso" if mu == 0 else "Elastic net"
    spread = problem.spread(theta, mu, intercept)
    numbers = (coefficients, constant, strength, mu, value, gap, 0.5 * problem.square, *spread)
    fields: Any = [*(jnp.asarray(number) for number in numbers), found, title]
    return LassoModel(*fields)


def lasso_path(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    strengths: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    ridge: float | int = 0.0,
    intercept: bool = True,
    num: int = 50,
    tol: float = 1e-10,
    max_steps: int = 10_000,
) -> LassoPath:
    r"""Solutions along decreasing strengths, each started from the last, in the `sum` convention.

    By default from $\lambda_{\max} = \|X^\top y\|_\infty$, where all coefficients are zero, to
    a thousandth of it.
    """
    problem = _Problem.of(X, y, weights, intercept)
    # a hair above, so that rounding leaves no coefficient at the first
    largest = float(np.abs(problem.shift * problem.scale).max()) * problem.unit * (1 + 1e-14)
    given = largest * np.logspace(0, -3, check_count("num", num)) if strengths is None else strengths
    sequence = -np.sort(-np.asarray(given, float))
    check(
        sequence.size > 0 and bool((sequence >= 0).all()), "strengths", "zero or positive", sequence.tolist()
    )
    thresholds = sequence[:, None] / (problem.scale * problem.unit)
    ridges = ridge / problem.scale**2
    codes, points = _follow(problem.gram, problem.shift, thresholds, ridges, float(tol), max_steps)
    polished = [_polish(problem, x, float(s), float(ridge)) for x, s in zip(np.asarray(points), sequence)]
    gaps = [problem.certify(x, float(s), float(ridge))[1] for x, s in zip(polished, sequence)]
    pairs = [problem.unscaled(x) for x in polished]
    arrays = (sequence, np.stack([c for c, _ in pairs]), np.array([b for _, b in pairs]), np.array(gaps))
    return LassoPath(*(jnp.asarray(a) for a in (*arrays, codes)))


class _Problem(NamedTuple):
    """Weighted, centred columns of unit length and a target of unit length: tolerances are then relative."""

    columns: np.ndarray
    target: np.ndarray
    gram: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    unit: float
    middle: np.ndarray
    level: float
    count: float
    square: float

    @classmethod
    def of(cls, X: Any, y: Any, weights: Any, intercept: bool) -> "_Problem":
        rows, targets, w = Rows.of(X, y, weights, target="number")
        total = w.sum()
        middle = w @ rows / total if intercept else np.zeros(rows.shape[1])
        level = float(w @ targets / total) if intercept else 0.0
        roots = np.sqrt(w)
        columns, target = roots[:, None] * (rows - middle), roots * (targets - level)
        scale, unit = np.linalg.norm(columns, axis=0), float(np.linalg.norm(target))
        # what is left of a constant column after centring is rounding: its coefficient stays zero
        constant = scale <= 8 * np.finfo(float).eps * np.sqrt(total) * np.abs(middle)
        scale, unit = np.where(constant | (scale == 0), 1.0, scale), unit if unit > 0 else 1.0
        columns, target = np.where(constant, 0.0, columns) / scale, target / unit
        arrays = (columns, target, columns.T @ columns, columns.T @ target, scale)
        return cls(*arrays, unit, middle, level, float(total), float(target @ target) * unit**2)

    def unscaled(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        coefficients = theta / self.scale * self.unit
        return coefficients, self.level - float(self.middle @ coefficients)

    def spread(self, theta: np.ndarray, ridge: float, intercept: bool) -> tuple[np.ndarray, float, float]:
        """The inverse of the active columns' normal matrix (constant first), the noise and its degrees."""
        active = np.flatnonzero(theta)
        inverse = np.zeros((len(theta) + 1, len(theta) + 1))
        columns, mu = self.columns[:, active], ridge / self.scale[active] ** 2
        core = least_squares(columns, self.target, penalty=mu).inverse if active.size else np.zeros((0, 0))
        back = np.concatenate([-self.middle[None, active], np.eye(len(active))]) / self.scale[active]
        places = np.concatenate([[0], active + 1])
        inverse[np.ix_(places, places)] = back @ np.asarray(core) @ back.T
        inverse[0, 0] += 1 / self.count if intercept else 0.0
        residual = self.target - self.columns @ theta
        degrees = max(self.count - len(active) - intercept, 0.0)
        noise = self.unit * np.sqrt(residual @ residual / degrees) if degrees > 0 else np.nan
        return inverse, float(noise), float(degrees)

    def certify(self, theta: np.ndarray, strength: float, ridge: float) -> tuple[float, float]:
        """The objective and its distance at most from the optimum, in the units of the data."""
        threshold, mu = strength / (self.scale * self.unit), ridge / self.scale**2
        residual = self.target - self.columns @ theta
        slope = np.abs(self.columns.T @ residual - mu * theta)
        outside = slope > threshold + 64 * np.finfo(float).eps  # unit columns: less is rounding
        shrink = float((threshold[outside] / slope[outside]).min(initial=1.0))
        energy = float(residual @ residual + (mu * theta) @ theta)
        value = 0.5 * energy + float(threshold @ np.abs(theta))
        dual = shrink * float(self.target @ residual) - 0.5 * shrink**2 * energy
        return value * self.unit**2, max(value - dual, 0.0) * self.unit**2


def _strengths(penalty: Any, ridge: Any, convention: str, count: float) -> tuple[float, float]:
    """Both penalties in the `sum` convention."""
    check_option("convention", convention, CONVENTIONS)
    for name, number in (("penalty", penalty), ("ridge", ridge)):
        check_nonnegative(name, number)
    factor = {"sum": 1.0, "half": 0.5, "mean": count}[convention]
    return factor * float(penalty), (count if convention == "mean" else 1.0) * float(ridge)


def _search(problem: _Problem, strength: float, ridge: float, method: str, tol: float, max_steps: int) -> Run:
    penalty = L1Penalty(
        *(jnp.asarray(a) for a in (strength / (problem.scale * problem.unit), ridge / problem.scale**2))
    )
    if method == "coordinate":
        return coordinate_descent(problem.gram, problem.shift, penalty, tol=tol, max_steps=max_steps)
    start, method_ = np.zeros_like(problem.shift), ProximalGradient(penalty=penalty)
    args = (jnp.asarray(problem.gram), jnp.asarray(problem.shift))
    found = minimise(_quadratic, start, method_, args=args, max_steps=max_steps, tol=tol, curvature=False)
    return Run(found.state, found.trace, found.num_steps, found.code)


def _quadratic(x: Array, gram: Array, shift: Array) -> Array:
    return 0.5 * x @ gram @ x - shift @ x


@program
def _follow(gram, shift, thresholds, ridges, tol, max_steps):
    def step(x, threshold):
        found = coordinate_descent(
            gram, shift, L1Penalty(threshold, ridges), start=x, tol=tol, max_steps=max_steps
        )
        return found.state, (found.code, found.state)

    return run(step, jnp.zeros_like(shift), thresholds).trace


def _polish(problem: _Problem, theta: np.ndarray, strength: float, ridge: float) -> np.ndarray:
    """The exact solution of the active columns' equations, where it keeps their signs and lowers the gap."""
    active = np.flatnonzero(theta)
    if not active.size:
        return theta
    threshold, mu = strength / (problem.scale * problem.unit), ridge / problem.scale**2
    system = problem.gram[np.ix_(active, active)] + np.diag(mu[active])
    right = problem.shift[active] - threshold[active] * np.sign(theta[active])
    try:
        exact = sl.cho_solve(sl.cho_factor(system, check_finite=False), right, check_finite=False)
    except np.linalg.LinAlgError:
        return theta  # dependent columns: many optima, and coordinate descent has found one
    candidate = np.zeros_like(theta)
    candidate[active] = exact
    same = bool((np.sign(exact) == np.sign(theta[active])).all())
    gaps = [problem.certify(x, strength, ridge)[1] for x in (candidate, theta)]
    return candidate if same and gaps[0] <= gaps[1] else theta
