r"""Robust regression: an outlier moves least squares without bound, and these hardly at all.

Losses.      Absolute: $\sum_n w_n |r_n|$ (the median line), exactly by a linear program or by reweighting.
             Huber: $\rho(r/s) = r^2/2s^2$ up to $|r| = cs$ and linear beyond, with the robust scale
             $s = \mathrm{median}|r| / 0.6745$. Student: $r_n \sim t_\nu(0, s)$ by maximum likelihood.
Reweighting. Each is a sequence of weighted least-squares problems with weights $1/|r|$, $\min(1, cs/|r|)$ and
             $(\nu + 1)/(\nu + r^2/s^2)$. The last is EM: the weight is $E[\tau_n \mid r_n]$ where
             $r_n \sim N(0, s^2/\tau_n)$, $\tau_n \sim \mathrm{Gamma}(\nu/2, \nu/2)$.
Program.     $\min_\theta\|y - A\theta\|_1$ has the dual $\max y^\top d$, $A^\top d = 0$, $|d_n| \le w_n$: few
             rows, and its prices are $\theta$.
Cost.        One least-squares problem per step, on an orthonormal basis of the columns; one linear program.
References.  Huber (1964); Holland and Welsch (1977); Lange, Little and Taylor (1989); Koenker (2005).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from scipy.optimize import linprog

from tractable.core.checks import check, check_option, to_device
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Ended, Run, Status, run_until
from tractable.core.linalg import psd_solve
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Laplace, Normal
from tractable.distributions.student import StudentT
from tractable.inference.expectation_maximisation.em import EM
from tractable.supervised.basis import as_rows
from tractable.supervised.linear.rows import regression_rows
from tractable.supervised.linear.solvers import least_squares, orthonormal_columns

__all__ = ["RobustModel", "StudentRegression", "robust_regression"]

LOSSES = ("huber", "absolute", "student")
_NORMAL_QUARTILE = 0.6744897501960817  # the median of |z| for standard normal z
_LOG_2 = float(np.log(2.0))  # and for a standard Laplace variable
_SMALLEST = 1e-13  # of the target's spread: below it residuals are rounding


class RobustModel(Ended, Module):
    """A robust fit: coefficients, the scale of the noise, and the weight that each row kept.

    `row_weights` are one for a row that is believed and near zero for an outlier; `scale` is the parameter of
    the noise: Normal (huber), Laplace (absolute) or Student's t of `degrees`.
    """

    coefficients: Float[Array, " p"]
    intercept: Scalar
    scale: Scalar
    degrees: Scalar
    row_weights: Float[Array, " n"]
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    loss: str = field(static=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        rows = np.asarray(as_rows(X), float)
        width = self.coefficients.shape[0]
        check(rows.shape[1] == width, "X", f"rows of {width} columns", f"{rows.shape[1]} columns")
        return rows @ np.asarray(self.coefficients) + float(self.intercept)

    def predict_dist(self, X: ArrayLike) -> Distribution:
        """The noise around the fitted line; the uncertainty of the coefficients is not included."""
        loc = jnp.asarray(self.predict(X))
        scale = jnp.broadcast_to(self.scale, loc.shape)
        if self.loss == "student":
            return StudentT(jnp.broadcast_to(self.degrees, loc.shape), loc, scale)
        return Laplace(loc, scale) if self.loss == "absolute" else Normal(loc, scale)

    def __repr__(self) -> str:
        light = int((np.asarray(self.row_weights) < 0.3).sum())
        size = f"{self.loss}, {self.coefficients.shape[0]} coefficients, scale {float(self.scale):.4g}"
        return f"RobustModel({size}, {light} rows all but ignored)\n  {self.status.sentence}"


class StudentRegression(Module):
    r"""$y \mid x \sim t_\nu(x^\top\theta, s)$ with $\nu$ known: the model that EM climbs.

    The rows are pairs of features and a target; the statistics are those of a weighted regression.
    """

    coefficients: Float[Array, " p"]
    square_scale: Scalar
    degrees: Scalar

    def e_step(self, rows: tuple[Array, Array], weights: Array) -> tuple[tuple, Scalar]:
        X, y = rows
        residual = y - X @ self.coefficients
        tau = (self.degrees + 1) / (self.degrees + residual**2 / self.square_scale)
        strength = weights * tau
        # deviations from the current line, so that a small scale is not lost in large targets
        stats = (X.T * strength[None]) @ X, X.T @ (strength * residual), strength @ residual**2, weights.sum()
        density = StudentT(self.degrees, jnp.zeros(()), jnp.sqrt(self.square_scale)).log_prob(residual)
        return stats, weights @ density

    def m_step(self, stats: tuple) -> "StudentRegression":
        gram, shift, square, count = stats
        move = psd_solve(gram, shift)
        return StudentRegression(self.coefficients + move, (square - move @ shift) / count, self.degrees)


def robust_regression(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    loss: str = "huber",
    intercept: bool = True,
    tuning: float = 1.345,
    degrees: float = 4.0,
    method: str = "auto",
    tol: float = 1e-10,
    max_steps: int = 1000,
) -> RobustModel:
    r"""A line through most of the rows. `tuning` is $c$ of Huber's loss (1.345: 95 % efficient on normal
    noise), `degrees` is $\nu$ of the Student loss; the absolute loss is solved by a linear program, or
    with `method="irls"` by reweighting.

    >>> model = robust_regression([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0, 400.0], loss="absolute")
    >>> model.coefficients.round(9)
    Array([1.], dtype=float64)
    """
    check_option("loss", loss, LOSSES)
    check_option("method", method, ("auto", "irls") if loss != "absolute" else ("auto", "lp", "irls"))
    for name, value in (("tuning", tuning), ("degrees", degrees)):
        check(bool(value > 0), name, "positive", value)
    rows, targets, count = regression_rows(X, y, weights)
    check(targets.ndim == 1, "y", "one target per row", f"shape {targets.shape}")
    problem = _Problem.of(rows, targets, count, intercept)
    if loss == "absolute" and method != "irls":
        found = _linear_program(problem)
    elif loss == "student":
        found = _expectation_maximisation(problem, degrees, tol, max_steps)
    else:
        found = _reweighted(problem, loss, tuning, tol, max_steps)
    fitted = problem.level + problem.unit * (problem.Z @ found.coefficients)
    theta = np.asarray(least_squares(rows, fitted, count, intercept=intercept).coefficients)
    split = (theta[1:], theta[0]) if intercept else (theta, 0.0)
    numbers = (*split, problem.unit * found.scale, float(degrees), found.weights, found.num_steps, found.code)
    fields: Any = [*(to_device(np.array(number)) for number in numbers), loss]
    return RobustModel(*fields)


class _Problem(NamedTuple):
    """An orthonormal basis of the columns, and the target in units of its own robust spread."""

    Z: np.ndarray
    target: np.ndarray
    count: np.ndarray
    level: float
    unit: float

    @classmethod
    def of(cls, rows: np.ndarray, targets: np.ndarray, count: np.ndarray, intercept: bool) -> "_Problem":
        level = _weighted_median(targets, count) if intercept else 0.0
        spread = np.abs(targets - level)
        unit = _weighted_median(spread, count) or float(spread.max()) or 1.0
        Z = orthonormal_columns(rows, count, intercept) * np.sqrt(count.sum())
        return cls(Z, (targets - level) / unit, count, level, unit)

    def start(self) -> np.ndarray:
        """Least squares: one product, since the columns are orthonormal."""
        return self.Z.T @ (self.count * self.target) / self.count.sum()


class _Found(NamedTuple):
    coefficients: np.ndarray
    scale: float
    weights: np.ndarray
    num_steps: int
    code: int


def _linear_program(problem: _Problem) -> _Found:
    """The vertex that the dual program's prices give, recomputed from the rows that it passes through."""
    Z, y, w = problem.Z, problem.target, problem.count
    answer: Any = linprog(
        -y, A_eq=Z.T, b_eq=np.zeros(Z.shape[1]), bounds=np.column_stack([-w, w]), method="highs"
    )
    if answer.status != 0:
        return _Found(problem.start(), np.nan, np.ones(len(y)), 0, int(Status.exhausted))
    theta = -np.asarray(answer.eqlin.marginals)
    inside = np.flatnonzero(np.abs(answer.x) < w * (1 - 1e-9))
    cost = w @ np.abs(y - Z @ theta)
    if len(inside) == Z.shape[1] and np.linalg.cond(Z[inside]) < 1e12:
        vertex = np.linalg.solve(Z[inside], y[inside])
        theta = vertex if w @ np.abs(y - Z @ vertex) <= cost * (1 + 1e-12) else theta
    residual = np.abs(y - Z @ theta)
    scale = _floor(_weighted_median(residual, w) / _LOG_2)
    gap = w @ residual - y @ answer.x
    settled = gap <= 1e-7 * (1 + w @ np.abs(y))
    kept = np.minimum(1.0, scale / np.maximum(residual, scale))
    return _Found(theta, scale, kept, int(answer.nit), int(Status.converged if settled else Status.exhausted))


def _expectation_maximisation(problem: _Problem, degrees: float, tol: float, max_steps: int) -> _Found:
    start = problem.start()
    residual = np.abs(problem.target - problem.Z @ start)
    scale = _floor(_weighted_median(residual, problem.count) / _NORMAL_QUARTILE)
    model = StudentRegression(jnp.asarray(start), jnp.asarray(scale**2), jnp.asarray(float(degrees)))
    if scale > _SMALLEST:
        run = EM(tol * 1e-3, max_steps).fit(model, (problem.Z, problem.target), weights=problem.count)
        model, steps, code = run.state, int(run.num_steps), int(run.code)
    else:  # the line passes through most rows: the likelihood has no bound, and the line is the answer
        steps, code = 0, int(Status.converged)
    square = max(float(model.square_scale), _SMALLEST**2)
    theta = np.asarray(model.coefficients)
    ratio = (problem.target - problem.Z @ theta) ** 2 / square
    return _Found(
        theta, float(np.sqrt(square)), np.minimum(1.0, (degrees + 1) / (degrees + ratio)), steps, code
    )


def _reweighted(problem: _Problem, loss: str, tuning: float, tol: float, max_steps: int) -> _Found:
    (Z, y), w = pad_rows((problem.Z, problem.target), problem.count)
    options = jnp.asarray([tuning, tol])
    found = _iterate(Z, y, w, jnp.asarray(problem.start()), options, loss, max_steps)
    theta, scale, _ = (np.asarray(part) for part in found.state)
    residual = np.abs(problem.target - problem.Z @ theta)
    if loss == "absolute":
        scale = _floor(_weighted_median(residual, problem.count) / _LOG_2)
    kept = np.minimum(1.0, tuning * scale / np.maximum(residual, np.finfo(float).tiny))
    return _Found(theta, float(scale), kept, int(found.num_steps), int(found.code))


@partial(jax.jit, static_argnums=(5, 6))
def _iterate(Z: Array, y: Array, w: Array, start: Array, options: Array, loss: str, max_steps: int) -> Run:
    tuning, tol = options[0], options[1]

    def step(state):
        theta, _, _ = state
        residual = jnp.abs(y - Z @ theta)
        scale = jnp.maximum(_median(residual, w) / _NORMAL_QUARTILE, _SMALLEST)
        roots = jnp.sqrt(w * _robust_weights(residual, scale, tuning, loss))
        q, r = jnp.linalg.qr(roots[:, None] * Z)
        moved = jsl.solve_triangular(r, q.T @ (roots * y))
        change = jnp.abs(moved - theta).max() / (scale + jnp.abs(moved).max())
        return (moved, scale, change), change

    def settled(state, change, before):
        return (change >= 0) & (change <= tol)

    first = (start, jnp.asarray(1.0), jnp.asarray(1.0))
    return run_until(step, first, max_steps=max_steps, tol=tol, settled=settled)


def _robust_weights(residual: Array, scale: Array, tuning: Array, loss: str) -> Array:
    if loss == "absolute":
        return 1 / jnp.maximum(residual, 1e-9)  # a row on the line would have infinite weight
    return jnp.minimum(1.0, tuning * scale / jnp.maximum(residual, jnp.finfo(residual.dtype).tiny))


@jax.jit
def _median(values: Array, weights: Array) -> Array:
    """The median of values that count as often as their weights say: the mean of the lower and the upper."""
    order = jnp.argsort(values)
    values, total = values[order], jnp.cumsum(weights[order])
    half = total[-1] / 2
    # sums of weights that should be equal to half may differ from it by rounding
    near = 1e-12 * total[-1]
    lower = values[jnp.argmax(total >= half - near)]
    upper = values[jnp.argmax(total > half + near)]
    return 0.5 * (lower + upper)


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    (padded,), count = pad_rows((values,), weights)
    return float(_median(padded, count))


def _floor(scale: float) -> float:
    return max(scale, _SMALLEST)
