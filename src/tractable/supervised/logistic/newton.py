r"""Newton's method on log-linear likelihoods with a Gaussian prior: one pass over the rows per step.

Problem.     $\min_\beta \sum_i w_i\,\ell(y_i, z_i^\top\beta)
             + \tfrac12(\beta - \beta_0)^\top P(\beta - \beta_0)$ over standardised rows
             $z = (x - c)/s$, with a leading one for the intercept.
Step.        $\beta \leftarrow \beta - t\,(H + P)^{-1} g$ by `optim.host`, $t$ shrunk until the objective
             falls. Iteratively reweighted least squares is this step with $t = 1$.
Stopping.    The decrement $\sqrt{g^\top(H + P)^{-1}g / \sum_i w_i}$ is at most $10^{-7}$ ($10^{-6}$ for
             200,000 rows or more: the errors of the coefficients are far larger) and the step moves
             no coefficient by more than $10^{-3}$; the last step is taken then, which squares the error.
             Without a prior, a step that stays long while the decrement vanishes shows separated rows.
Warm start.  Tables of more than 200,000 rows are fitted on every sixteenth row first.
Cost.        $O(np^2 + p^3)$ per step, about six steps; four for large tables.
References.  Nocedal and Wright (2006) section 3.3; Bach (2010), "Self-concordant
             analysis for logistic regression".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from tractable.core.checks import check
from tractable.core.iterate import Status
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.optim.host import Walk, minimise_on_host
from tractable.supervised.linear.products import over_rows
from tractable.supervised.logistic.sums import gram_pass, logistic_pass

__all__ = [
    "NewtonFit",
    "StandardRows",
    "binary_rows",
    "logistic_start",
    "newton",
]

_DECREMENT = 1e-7
_MANY = 200_000
_SHARE = 16
_LOG_2PI = float(np.log(2 * np.pi))

Sweep = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


class NewtonFit(NamedTuple):
    """Where the search ended: the point, the loss without the prior, the full Hessian there, and how."""

    beta: np.ndarray
    loss: float
    hessian: np.ndarray
    status: Status
    num_steps: int
    direction: np.ndarray


class StandardRows(NamedTuple):
    """Rows with their weights, and the centre and scale by which every pass standardises them.

    A constant column beside an intercept has scale one: it is zero in every row and gets no coefficient.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    constant: np.ndarray
    intercept: bool

    @staticmethod
    def of(rows: Rows, intercept: bool) -> "StandardRows":
        """Centre and scale need not be those of all rows: a large table is judged by a part of it, except
        for columns that do not vary there."""
        x, y, weights = rows.X, np.asarray(rows.y, float), rows.weights
        share = _SHARE if len(x) >= _MANY else 1
        some, part = x[::share], weights[::share]
        centre, scale = _moments(some, part, intercept)
        flat = scale == 0
        if share > 1 and flat.any():
            centre[flat], scale[flat] = _moments(x[:, flat], weights, intercept)
        constant = scale == 0
        return StandardRows(x, y, weights, centre, np.where(constant, 1.0, scale), constant, intercept)

    @property
    def size(self) -> int:
        """The number of coefficients, the intercept included."""
        return self.x.shape[1] + int(self.intercept)

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def design(self) -> np.ndarray:
        """The standardised rows themselves, a leading one included."""
        z = (self.x - self.centre) / self.scale
        return np.column_stack([np.ones(len(z)), z]) if self.intercept else z

    def back(self) -> np.ndarray:
        r"""The matrix $T$ with $(b, w) = T\beta$: $w = \beta/s$ and $b = \beta_0 - c^\top w$."""
        scaled = np.diag(1 / self.scale)
        if not self.intercept:
            return scaled
        top = np.concatenate([[1.0], -self.centre / self.scale])
        return np.vstack([top, np.column_stack([np.zeros(len(scaled)), scaled])])

    def split(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercept for the rows as they came; `beta` may have a column per class."""
        coefficients = beta[int(self.intercept) :].T / self.scale
        base = beta[0] if self.intercept else np.zeros(beta.shape[1:])
        return coefficients, np.asarray(base - coefficients @ self.centre)

    def penalty(self, strength: float | int, sizes: ArrayLike | None = None) -> np.ndarray:
        r"""The diagonal precision of $\beta$ that stands for $\tfrac\lambda2\sum_j u_j^2w_j^2$ with
        `sizes` $u$ (ones where not given), the intercept free."""
        units = np.ones(len(self.scale)) if sizes is None else np.asarray(sizes, float)
        ok = units.shape == self.scale.shape and bool((units > 0).all())
        check(ok, "sizes", f"{len(self.scale)} positive numbers, one per column", sizes)
        with np.errstate(over="ignore"):
            each = strength * (units / self.scale) ** 2
        return np.concatenate([[0.0], each]) if self.intercept else each

    def every(self, share: int) -> "StandardRows":
        """Each `share`-th row, standardised alike."""
        parts = (np.ascontiguousarray(a[::share]) for a in (self.x, self.y, self.weights))
        return self._replace(**dict(zip(("x", "y", "weights"), parts)))

    def logistic(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss, gradient and Hessian of the logistic likelihood."""
        inverse = 1 / self.scale
        args = (self.x, self.y, self.weights, self.centre, inverse, np.ascontiguousarray(beta))
        parts = over_rows(lambda low, high: logistic_pass(*args, low, high), len(self.x))
        loss, gradient, hessian = (np.sum(part, axis=0) for part in zip(*parts))
        return float(loss), gradient, hessian

    def probit(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        r"""Loss, gradient and Hessian of $p(y = 1) = \Phi(\eta)$.

        With $m = \varphi(q)/\Phi(q)$ at $q = (2y - 1)\eta$, the loss is $-\log\Phi(q)$, its slope $-m$ and
        its curvature $m(m + q)$.
        """
        sign = 2 * self.y - 1
        margin = sign * self.predictor(beta)
        log_cdf = log_ndtr(margin)
        far = margin < -1e4  # there m = |q| + 1/|q| to the last digit, and the difference of logs has none
        near = np.exp(-0.5 * (np.where(far, 0.0, margin) ** 2 + _LOG_2PI) - np.where(far, 0.0, log_cdf))
        ratio = np.where(far, -margin - 1 / np.where(far, margin, 1.0), near)
        residual = -self.weights * sign * ratio
        curvature = self.weights * np.where(far, 1.0, ratio * (ratio + margin))
        gradient, hessian = self.gram(residual, np.maximum(curvature, 0.0))
        return float(-(self.weights @ log_cdf)), gradient, hessian

    def predictor(self, beta: np.ndarray) -> np.ndarray:
        r"""$z_i^\top\beta$ of every row; `beta` may have a column per class."""
        shift = int(self.intercept)
        parts = [
            ((part - self.centre) / self.scale) @ beta[shift:] for part, _ in _parts(self.x, self.weights)
        ]
        return np.concatenate(parts) + (beta[0] if self.intercept else 0.0)

    def gram(self, residuals: np.ndarray, curvatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""$\sum_i r_i z_i$ and $\sum_i h_i z_i z_i^\top$."""
        args = (self.x, residuals, curvatures, self.centre, 1 / self.scale, self.size)
        parts = over_rows(lambda low, high: gram_pass(*args, low, high), len(self.x))
        gradient, hessian = (np.sum(part, axis=0) for part in zip(*parts))
        return gradient, hessian


def binary_rows(
    X: ArrayLike | Rows, y: ArrayLike | None, weights: ArrayLike | None, intercept: bool | None
) -> StandardRows:
    """Checked rows of targets 0 and 1, standardised; with `intercept=None` taken as they are."""
    rows = Rows.of(X, y, weights, target="binary")
    if intercept is not None:
        return StandardRows.of(rows, intercept)
    d = rows.num_columns
    plain = (np.zeros(d), np.ones(d), np.zeros(d, bool), False)
    return StandardRows(rows.X, np.asarray(rows.y, float), rows.weights, *plain)


def newton(
    sweep: Sweep,
    start: np.ndarray,
    precision: np.ndarray,
    total: float,
    *,
    mean: np.ndarray | None = None,
    max_steps: int = 100,
) -> NewtonFit:
    r"""Minimise `sweep` plus the quadratic of `precision` (a diagonal or a matrix) about `mean`.

    `sweep(beta)` gives loss, gradient and Hessian; `total` is the sum of the weights.
    """
    prior = np.diag(precision) if precision.ndim == 1 else precision
    centre = np.zeros_like(start) if mean is None else mean
    free = not prior.any()

    def objective(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss, gradient, hessian = sweep(beta)
        away = beta - centre
        pull = prior @ away
        return (loss + 0.5 * float(away @ pull)) / total, (gradient + pull) / total, (hessian + prior) / total

    def judge(walk: Walk) -> Status | None:
        runs_away = free and walk.decrement <= 1e-4 and walk.longest > 0.1
        return Status.stalled if runs_away else None  # long steps for no gain: no maximum that way

    tol = _DECREMENT * (10 if total >= _MANY else 1)
    options: Any = {"max_steps": max_steps + 1, "tol": tol, "stop": "decrement", "judge": judge}
    found = minimise_on_host(objective, start, **options)
    beta, direction = np.asarray(found.state), np.asarray(found.direction)
    seen = beta - direction - centre if found.status is Status.converged else beta - centre
    loss = total * float(found.value) - 0.5 * float(seen @ prior @ seen)
    hessian = total * np.asarray(found.curvature)
    return NewtonFit(beta, loss, hessian, found.status, int(found.evaluations) - 1, direction)


def logistic_start(rows: StandardRows, precision: np.ndarray) -> np.ndarray:
    """Zero; for a large table, the fit to every sixteenth row if that is better."""
    zero = np.zeros(rows.size)
    if len(rows.x) < _MANY:
        return zero
    some = rows.every(_SHARE)
    share = some.total / rows.total
    return newton(some.logistic, zero, precision * share, some.total, max_steps=8).beta


def _parts(x: np.ndarray, weights: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stretches of rows that fit the cache while they are standardised."""
    size = max(1, 2**18 // x.shape[1])
    return [(x[i : i + size], weights[i : i + size]) for i in range(0, len(x), size)]


def _moments(x: np.ndarray, weights: np.ndarray, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean (zero without an intercept) and deviation from it; zero for a constant column."""
    low, high = x.min(0), x.max(0)
    centre = np.where(low == high, low, weights @ x / weights.sum()) if intercept else np.zeros(x.shape[1])
    largest = np.maximum(high - centre, centre - low)
    safe = np.where(largest > 0, largest, 1.0)  # squares of the ratios neither overflow nor vanish
    square = sum(part_weights @ ((part - centre) / safe) ** 2 for part, part_weights in _parts(x, weights))
    return centre, largest * np.sqrt(square / weights.sum())
