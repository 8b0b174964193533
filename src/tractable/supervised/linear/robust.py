r"""Robust regression: an outlier moves least squares without bound, and these hardly at all.

Losses.      Absolute: $\sum_n w_n |r_n|$ (the median line), exactly by a linear program or by reweighting.
             Huber: $\rho(r/s) = r^2/2s^2$ up to $|r| = cs$ and linear beyond, with the robust scale
             $s = \mathrm{median}|r| / 0.6745$. Student: $r_n \sim t_\nu(0, s)$ by maximum likelihood.
Reweighting. Each is a sequence of weighted least-squares problems with weights $1/|r|$, $\min(1, cs/|r|)$ and
             $(\nu + 1)/(\nu + r^2/s^2)$. The last is EM: the weight is $E[\tau_n \mid r_n]$ where
             $r_n \sim N(0, s^2/\tau_n)$, $\tau_n \sim \mathrm{Gamma}(\nu/2, \nu/2)$.
Prediction.  The scale of the noise is that of the residuals without the $p$ least, which the line was bent
             to meet. A median knows a scale as well as 37 % (of a normal) or
             48 % (of a Laplace) of $n - p$ degrees of freedom would: the prediction is Student's t with as
             many (of $d$ and $\nu$ together $1/(1/d + 1/\nu)$), or a Laplace of the mean scale.
Program.     $\min_\theta\|y - A\theta\|_1$ has the dual $\max y^\top d$, $A^\top d = 0$, $|d_n| \le w_n$: few
             rows, and its prices are $\theta$.
Cost.        One least-squares problem per step, on an orthonormal basis of the columns; one linear program.
             All on the host: nothing is compiled.
References.  Huber (1964); Holland and Welsch (1977); Lange, Little and Taylor (1989); Koenker (2005).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from scipy.special import gammaln, stdtrit

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_option, has_values, namespace, to_device
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Laplace
from tractable.distributions.student import StudentT
from tractable.optim.linear_program import linear_program
from tractable.supervised.linear.least_squares import quadratic_forms
from tractable.supervised.linear.solvers import least_squares, orthonormal_columns

__all__ = ["RobustModel", "robust_regression"]

LOSSES = ("huber", "absolute", "student")
_NORMAL_QUARTILE = 0.6744897501960817  # the median of |z| for standard normal z
_LOG_2 = float(np.log(2.0))  # and for a standard Laplace variable
_SMALLEST = 1e-13  # of the target's spread: below it residuals are rounding


class RobustModel(Ended, Module):
    """A robust fit: coefficients, the scale of the noise, and the weight that each row kept.

    `row_weights` are one for a row that is believed and near zero for an outlier; `scale` is the loss's.
    `noise_scale` is the parameter of the noise, Normal (huber), Laplace (absolute) or Student's t of
    `degrees`, known as well as `freedom` degrees of freedom allow; `inverse` is the covariance of all
    coefficients (the intercept first) for noise of scale one.
    """

    coefficients: Float[Array, " p"]
    intercept: Scalar
    scale: Scalar
    degrees: Scalar
    noise_scale: Scalar
    freedom: Scalar
    inverse: Float[Array, "q q"] = field(show=False)
    row_weights: Float[Array, " n"] = field(show=False)
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    loss: str = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """How the fit ended, and how many rows it all but ignores."""
        light = int((np.asarray(self.row_weights) < 0.3).sum())
        sentence = f"{light} rows all but ignored. {self.status.sentence}"
        return Verdict(self.status.ok, sentence, {"ignored": light})

    def predict(self, X: ArrayLike | Rows) -> Any:
        xp = namespace(self, X)
        rows = points(X, self.coefficients.shape[0])
        return rows @ xp.asarray(self.coefficients) + xp.asarray(self.intercept)

    def predict_dist(self, X: ArrayLike | Rows) -> Distribution:
        """A new target at each row: noise, coefficients and the scale of the noise are all unknown."""
        xp, loc = namespace(self, X), self.predict(X)
        scale = jnp.asarray(xp.asarray(self.noise_scale) * xp.sqrt(1 + self._leverage(X)))
        self._check_freedom()
        if self.loss == "absolute":
            return Laplace(jnp.asarray(loc), scale * _mean_stretch(float(self.freedom)))
        degrees = self.freedom if self.loss == "huber" else 1 / (1 / self.freedom + 1 / self.degrees)
        return StudentT(jnp.broadcast_to(degrees, scale.shape), jnp.asarray(loc), scale)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the t-interval of each coefficient, the intercept (if any) first."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        self._check_freedom()
        errors = float(self.noise_scale) * np.sqrt(np.diag(np.asarray(self.inverse)))
        middle = np.asarray(self.coefficients)
        middle = np.r_[float(self.intercept), middle] if len(errors) > len(middle) else middle
        reach = stdtrit(float(self.freedom), 0.5 + level / 2) * errors
        return middle - reach, middle + reach

    def _check_freedom(self) -> None:
        fix = "`predict` gives the line; RidgeRegressor and BayesianLinearRegressor have intervals here."
        must = "more rows than coefficients for the scale of the noise"
        if has_values(self.freedom):
            count = f"{len(self.row_weights)} rows for {len(self.inverse)}"
            least = 1.0 if self.loss == "absolute" else 0.0  # the mean of an unknown scale exists above one
            check(float(self.freedom) > least, "X", must, count, fix)

    def _leverage(self, X: ArrayLike | Rows) -> Any:
        xp, rows = namespace(self, X), points(X, self.coefficients.shape[0])
        ones = len(self.inverse) > rows.shape[1]
        return quadratic_forms(xp.column_stack([xp.ones(len(rows)), rows]) if ones else rows, self.inverse)


def robust_regression(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
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
    table = Rows.of(X, y, weights, target="number")
    rows, count = table.X, table.weights
    problem = _Problem.of(rows, table.y, count, intercept)
    if loss == "absolute" and method != "irls":
        found = _linear_program(problem)
    else:
        found = _reweighted(problem, _LOSSES[loss](degrees if loss == "student" else tuning), tol, max_steps)
    fitted = problem.level + problem.unit * (problem.Z @ found.coefficients)
    theta = np.asarray(least_squares(rows, fitted, count, intercept=intercept).coefficients)
    split = (theta[1:], theta[0]) if intercept else (theta, 0.0)
    noise_scale, freedom = problem.noise(found, loss)
    believed = least_squares(rows, fitted, count * found.weights, intercept=intercept)
    numbers = (*split, problem.unit * found.scale, float(degrees), problem.unit * noise_scale, freedom,
               np.asarray(believed.inverse), found.weights, found.num_steps, found.code)  # fmt: skip
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

    def noise(self, found: "_Found", loss: str) -> tuple[float, float]:
        """The scale of the noise, and the degrees of freedom that it is known with (zero: not at all)."""
        total, used = self.count.sum(), self.Z.shape[1]
        left = float(total - used)
        if left <= 0:
            return 0.0, 0.0
        residual = np.abs(self.target - self.Z @ found.coefficients)
        if loss == "student":
            return float(found.scale * np.sqrt(total / left)), left
        quartile, share = (_NORMAL_QUARTILE, 0.37) if loss == "huber" else (_LOG_2, 0.48)
        scale = _weighted_median(residual, self.count, float(used)) / quartile
        return _floor(scale), share * left


class _Found(NamedTuple):
    coefficients: np.ndarray
    scale: float
    weights: np.ndarray
    num_steps: int
    code: int


class _Huber(NamedTuple):
    """$\\min(1, cs/|r|)$ with the scale $\\mathrm{median}|r|/0.6745$."""

    tuning: float

    def scale(self, residual: np.ndarray, count: np.ndarray, strength: np.ndarray | None) -> float:
        return _floor(_weighted_median(residual, count) / _NORMAL_QUARTILE)

    def strength(self, residual: np.ndarray, scale: float) -> np.ndarray:
        return np.minimum(1.0, self.tuning * scale / np.maximum(residual, np.finfo(float).tiny))

    kept = strength


class _Absolute(_Huber):
    """$1/|r|$; a row on the line would have infinite weight."""

    def strength(self, residual: np.ndarray, scale: float) -> np.ndarray:
        return 1 / np.maximum(residual, 1e-9)


class _Student(NamedTuple):
    r"""$(\nu + 1)/(\nu + r^2/s^2)$, or $E[\tau \mid r]$; the scale is that of the weighted residuals."""

    degrees: float

    def scale(self, residual: np.ndarray, count: np.ndarray, strength: np.ndarray | None) -> float:
        if strength is None:
            return _floor(_weighted_median(residual, count) / _NORMAL_QUARTILE)
        return _floor(float(np.sqrt((count * strength) @ residual**2 / count.sum())))

    def strength(self, residual: np.ndarray, scale: float) -> np.ndarray:
        return (self.degrees + 1) / (self.degrees + (residual / scale) ** 2)

    def kept(self, residual: np.ndarray, scale: float) -> np.ndarray:
        return np.minimum(1.0, self.strength(residual, scale))


_LOSSES: dict[str, Callable[[float], Any]] = {"huber": _Huber, "absolute": _Absolute, "student": _Student}


def _linear_program(problem: _Problem) -> _Found:
    """The vertex that the dual program's prices give, recomputed from the rows that it passes through."""
    Z, y, w = problem.Z, problem.target, problem.count
    answer = linear_program(y, equality=(Z.T, np.zeros(Z.shape[1])), low=-w, high=w, maximise=True)
    if not answer.status.ok:
        return _Found(problem.start(), np.nan, np.ones(len(y)), 0, int(Status.exhausted))
    theta, x = np.asarray(answer.equality_dual), np.asarray(answer.x)
    inside = np.flatnonzero(np.abs(x) < w * (1 - 1e-9))
    cost = w @ np.abs(y - Z @ theta)
    if len(inside) == Z.shape[1] and np.linalg.cond(Z[inside]) < 1e12:
        vertex = np.linalg.solve(Z[inside], y[inside])
        theta = vertex if w @ np.abs(y - Z @ vertex) <= cost * (1 + 1e-12) else theta
    residual = np.abs(y - Z @ theta)
    scale = _floor(_weighted_median(residual, w) / _LOG_2)
    gap = w @ residual - y @ x
    code = Status.converged if gap <= 1e-7 * (1 + w @ np.abs(y)) else Status.exhausted
    kept = np.minimum(1.0, scale / np.maximum(residual, scale))
    return _Found(theta, scale, kept, int(answer.num_steps), int(code))


def _reweighted(problem: _Problem, loss: Any, tol: float, max_steps: int) -> _Found:
    """Weighted least squares again and again, until neither the line nor its scale moves."""
    Z, y, w = problem.Z, problem.target, problem.count
    theta = problem.start()
    residual = np.abs(y - Z @ theta)

    def step(line: tuple, _: Any) -> tuple[tuple, Any]:
        theta, scale, residual = np.asarray(line[0]), float(line[1]), np.asarray(line[2])
        strength = loss.strength(residual, scale)
        roots = np.sqrt(w * strength)
        q, r = np.linalg.qr(roots[:, None] * Z)
        moved = sl.solve_triangular(r, q.T @ (roots * y))
        residual = np.abs(y - Z @ moved)
        after = loss.scale(residual, w, strength)
        change = max(np.abs(moved - theta).max() / (scale + np.abs(moved).max()), abs(after / scale - 1))
        return (moved, after, residual), np.asarray(change)

    def judge(line: tuple, changes: Any) -> Status | None:
        if not np.isfinite(changes[-1]):
            return Status.not_finite
        exact = float(line[1]) <= _SMALLEST  # the line passes through most rows, and is the answer
        return Status.converged if exact or changes[-1] <= tol else None

    scale, steps, code = loss.scale(residual, w, None), 0, Status.converged
    if scale > _SMALLEST:
        run = run_in_blocks(
            step, (theta, scale, residual), num_steps=max_steps, judge=judge, compiled=False, partial=False
        )
        theta, residual, scale = np.asarray(run.state[0]), np.asarray(run.state[2]), float(run.state[1])
        steps, code = int(run.num_steps), run.status
    if type(loss) is _Absolute:
        scale = _floor(_weighted_median(residual, w) / _LOG_2)
    ended = Status.exhausted if code is Status.completed else code
    return _Found(theta, scale, loss.kept(residual, scale), steps, int(ended))


def _mean_stretch(freedom: float) -> float:
    r"""$E\sqrt{d/\chi^2_d}$: the mean scale of noise whose scale is known with $d$ degrees of freedom."""
    return float(np.sqrt(0.5 * freedom) * np.exp(gammaln(0.5 * (freedom - 1)) - gammaln(0.5 * freedom)))


def _weighted_median(values: np.ndarray, weights: np.ndarray, without: float = 0.0) -> float:
    """The median of values that count as often as their weights say: the mean of the lower and the upper;
    `without` so much of the weight of the least of them."""
    order = np.argsort(values, kind="stable")
    values, total = values[order], np.cumsum(weights[order])
    half = (total[-1] + without) / 2
    # sums of weights that should be equal to half may differ from it by rounding
    near = 1e-12 * total[-1]
    lower = values[np.argmax(total >= half - near)]
    upper = values[np.argmax(total > half + near)]
    return float(0.5 * (lower + upper))


def _floor(scale: float) -> float:
    return max(scale, _SMALLEST)
