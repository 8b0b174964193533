r"""Binary logistic regression: likelihood, gradient, Hessian, fits by any optimiser, odds ratios.

Model.       $p(y = 1 \mid x) = \sigma(b + w^\top x)$; the link is the logit.
Loss.        $E = -\sum_i w_i[y_i\log\sigma_i + (1 - y_i)\log(1 - \sigma_i)]$,
             $\nabla E = X^\top W(\sigma - y)$, and the convex
             $\nabla^2 E = X^\top W\,\mathrm{diag}(\sigma(1 - \sigma))X$.
Penalty.     $E + \tfrac\lambda2\|w\|^2$ is the MAP problem under $w \sim N(0, \lambda^{-1}I)$ with a flat
             prior on the intercept ($\lambda = 1/C$; $E/N + \alpha\|w\|^2$ has $\alpha = \lambda/2N$).
Errors.      $(\nabla^2 E + \lambda I)^{-1}$ is the covariance of the coefficients; $e^{w_j}$ is the ratio of
             odds per unit of column $j$.
Cost.        $O(nd^2)$ per Newton step, about six steps.
References.  Bishop (2006) section 4.3; McCullagh and Nelder (1989) chapter 4; Albert and Anderson (1984).
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import expit, ndtr, ndtri

from tractable.core.checks import check, check_count, namespace
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import sigmoid, sigmoid_derivative, softplus
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.gradient import FirstOrder, GradientDescent, LineSearchDescent
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton, newton_direction
from tractable.optim.objective import Method
from tractable.optim.quasi_newton import LBFGS
from tractable.optim.schedules import inverse_time
from tractable.optim.stochastic import minimise_batches
from tractable.supervised.logistic.newton import (
    NewtonFit,
    StandardRows,
    binary_rows,
    logistic_start,
    newton,
)
from tractable.supervised.logistic.separation import (
    LikelihoodFit,
    Separation,
    check_options,
    judge_separation,
)

__all__ = [
    "BinaryModel", "LogisticModel", "OddsRatios", "assembled", "finished", "fit_logistic",
    "logistic_gradient", "logistic_hessian", "logistic_loss",
]  # fmt: skip

_METHODS = {"lbfgs": LBFGS(), "gradient": LineSearchDescent(), "irls": Newton()}
_EPOCHS = 50


def logistic_loss(
    coefficients: ArrayLike, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> Scalar:
    r"""$-\sum_i w_i[y_i\log\sigma_i + (1 - y_i)\log(1 - \sigma_i)]$ with $\sigma_i = \sigma(x_i^\top\theta)$.

    >>> float(logistic_loss([-1.0, 1.0], [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [0.0, 0.0, 1.0]).round(8))
    1.31967056
    """
    theta, x, y, w = _arrays(coefficients, X, y, weights)
    eta = x @ theta
    return w @ (softplus(eta) - y * eta)


def logistic_gradient(
    coefficients: ArrayLike, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> Float[Array, " d"]:
    r"""$X^\top W(\sigma(X\theta) - y)$."""
    theta, x, y, w = _arrays(coefficients, X, y, weights)
    return x.T @ (w * (sigmoid(x @ theta) - y))


def logistic_hessian(
    coefficients: ArrayLike, X: ArrayLike, weights: ArrayLike | None = None
) -> Float[Array, "d d"]:
    r"""$X^\top W\,\mathrm{diag}(\sigma(1 - \sigma))X$; the targets do not matter."""
    theta, x, _, w = _arrays(coefficients, X, 0.0, weights)
    return x.T @ ((w * sigmoid_derivative(x @ theta))[:, None] * x)


class OddsRatios(Module):
    r"""$e^{w_j}$ with an interval of the given level, the z-score of $w_j$ and its two-sided p-value."""

    ratio: Float[Array, " d"]
    lower: Float[Array, " d"]
    upper: Float[Array, " d"]
    z: Float[Array, " d"]
    p_value: Float[Array, " d"]
    level: float = field(static=True)
    names: tuple[str, ...] = field(static=True)

    def _columns(self) -> dict[str, Any]:
        ends = {f"{self.level:.0%} from": self.lower, "to": self.upper}
        numbers = {"odds ratio": self.ratio, **ends, "z": self.z, "p-value": self.p_value}
        return {"column": self.names} | {name: np.asarray(values) for name, values in numbers.items()}


class BinaryModel(LikelihoodFit):
    """Coefficients and intercept with their covariance (intercept first), and how the fit ended.

    The covariance is infinite along directions that the rows say nothing about.
    """

    coefficients: Float[Array, " d"]
    intercept: Scalar
    covariance: Float[Array, "p p"] = field(show=False)
    loss: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    penalty: float = field(static=True)
    rank: int = field(static=True)
    separation: Separation | None = None
    has_intercept: bool = field(static=True, default=True)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the fit, in a sentence or two."""
        said, short = super().verdict, self.covariance.shape[0] - self.rank
        if not short or (self.separation is not None and not self.separation.exists):
            return said
        more = f"{short} direction(s) cannot be told apart: coefficients of least size are given."
        return Verdict(said.ok, f"{said} {more}", said.numbers | {"rank": self.rank})

    def predictor(self, X: ArrayLike | Rows) -> Any:
        r"""$b + w^\top x$ of each row."""
        x = points(X, self.coefficients.shape[0])
        xp = namespace(self, x)
        return x @ xp.asarray(self.coefficients) + xp.asarray(self.intercept)


class LogisticModel(BinaryModel):
    """The fit of $p(y = 1 \\mid x) = \\sigma(b + w^\\top x)$."""

    def log_odds(self, X: ArrayLike | Rows) -> Any:
        r"""$b + w^\top x$ of each row."""
        return self.predictor(X)

    def predict_proba(self, X: ArrayLike | Rows) -> Any:
        r"""$\sigma(b + w^\top x)$ of each row."""
        eta = self.predictor(X)
        return expit(eta) if namespace(eta) is np else sigmoid(eta)

    @property
    def standard_errors(self) -> Float[Array, " d"]:
        """Of the coefficients, the intercept left out."""
        return jnp.sqrt(jnp.diag(self.covariance))[int(self.has_intercept) :]

    def odds_ratios(self, level: float | int = 0.95, names: Sequence[str] | None = None) -> OddsRatios:
        """The ratios of odds per unit of each column, with Wald intervals."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        w, error = np.asarray(self.coefficients), np.asarray(self.standard_errors)
        words = tuple(f"column {j}" for j in range(len(w))) if names is None else tuple(map(str, names))
        check(len(words) == len(w), "names", f"one per column ({len(w)})", len(words))
        width = ndtri((1 + level) / 2) * error
        z = np.divide(w, error, out=np.zeros_like(w), where=np.isfinite(error) & (error > 0))
        with np.errstate(over="ignore"):
            ratio, low, high = (jnp.asarray(np.exp(v)) for v in (w, w - width, w + width))
        return OddsRatios(
            ratio, low, high, jnp.asarray(z), jnp.asarray(2 * ndtr(-np.abs(z))), float(level), words
        )


@takes_key
def fit_logistic(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    penalty: float | int = 0.0,
    sizes: ArrayLike | None = None,
    intercept: bool = True,
    solver: str | Method = "newton",
    separated: str = "raise",
    names: Sequence[str] | None = None,
    key: Key | None = None,
    max_steps: int = 200,
    tol: float | int = 1e-9,
) -> LogisticModel:
    r"""Minimise $E(b, w) + \tfrac\lambda2\|w\|^2$ for targets 0 and 1; the intercept is not penalised.

    With `sizes` the penalty is that of coefficients of columns divided by them: no copy of the table is made.
    `solver` is "newton" (one pass over the rows per step, nothing compiled), "lbfgs", "gradient", "irls" (the
    same steps through `optim`), "sgd" (with a `key`), or any method of `optim`. Without a penalty, separated
    classes have no fit: an error names the columns, or with `separated="report"` the model does.

    >>> found = fit_logistic([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> round(float(found.loss), 7), found.verdict
    (2.3474865, Converged.)
    """
    check_options(penalty, separated)
    rows = binary_rows(X, y, weights, intercept)
    prior = rows.penalty(float(penalty), sizes)
    if isinstance(solver, str) and solver == "newton":
        found = newton(rows.logistic, logistic_start(rows, prior), prior, rows.total, max_steps=max_steps)
    else:
        found = _by_method(rows, prior, solver, key, check_count("max_steps", max_steps), tol)
    return finished(LogisticModel, rows, found, penalty, separated, names)


def finished(
    kind: Any, rows: StandardRows, found: NewtonFit, penalty: float | int, separated: str, names: Any
) -> Any:
    """The model of class `kind` that a search found; classes that are apart raise or are reported."""
    settled = bool(penalty) or found.status is Status.converged
    apart = judge_separation(rows, rows.y.astype(int), found.direction, settled, separated, names)
    return assembled(kind, rows, found, penalty, apart)


def assembled(
    kind: Any, rows: StandardRows, found: NewtonFit, penalty: float | int, apart: Separation | None
) -> Any:
    """The model of class `kind` at the point that a search found; of `rows` only the units matter."""
    coefficients, base = rows.split(found.beta)
    rank, spread = covariance_of(found.hessian, rows.back())
    numbers = (coefficients, float(base), spread, found.loss, found.num_steps, int(found.status))
    return kind(*map(jnp.asarray, numbers), float(penalty), rank, apart, rows.intercept)


def covariance_of(hessian: np.ndarray, back: np.ndarray) -> tuple[int, np.ndarray]:
    r"""The rank of a Hessian $H$, and $TH^{-1}T^\top$ with infinite variance where $H$ has no say."""
    diagonal = np.diag(hessian)
    inverse = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian * inverse[:, None] * inverse[None])
    kept = values > 1e-12 * max(values[-1], 0.0)
    part = back @ (vectors[:, kept] * inverse[:, None])
    covariance = part / values[kept] @ part.T
    silent = (np.abs(vectors[:, ~kept]) > 1e-6).any(1)
    covariance[silent, silent] = np.inf
    return int(kept.sum()), covariance


def _by_method(
    rows: StandardRows, prior: np.ndarray, solver: str | Method, key: Key | None, max_steps: int, tol: float
) -> NewtonFit:
    """The fit by a method of `optim`, in coordinates in which every curvature is about one."""
    total = rows.total
    curvature = 0.25 + prior / total
    steps = 1 / np.sqrt(curvature)
    if isinstance(solver, str) and solver == "sgd":
        check(key is not None, "key", "given for the solver 'sgd'", None)
        beta, status, count = _by_batches(rows, prior, steps, GradientDescent(inverse_time(8.0, 8.0)), key)
    elif isinstance(solver, FirstOrder) and key is not None:
        beta, status, count = _by_batches(rows, prior, steps, solver, key)
    else:
        known = solver in _METHODS if isinstance(solver, str) else isinstance(solver, Method)
        must = "'newton', 'lbfgs', 'gradient', 'irls', 'sgd' or a method of `optim`"
        check(known, "solver", must, repr(solver))
        method = _METHODS[solver] if isinstance(solver, str) else solver
        (z, y), w = pad_rows((rows.design(), rows.y), rows.weights)
        args = (z, y, w / total, jnp.asarray(prior / total), jnp.asarray(steps))
        run = minimise(
            _mean_loss, np.zeros(rows.size), method, args=args, max_steps=max_steps, tol=tol, curvature=False
        )
        beta, status, count = np.asarray(run.state) * steps, run.status, int(run.num_steps)
    loss, gradient, hessian = rows.logistic(beta)
    full, slope = hessian + np.diag(prior), gradient + prior * beta
    direction = newton_direction(full, slope)
    vanishing = not prior.any() and float(np.abs(direction).max()) > 0.1
    # a flat likelihood passes for a minimum: separated rows are told by steps that stay long
    status = Status.stalled if vanishing else status
    return NewtonFit(beta, loss, full, status, count, direction)


def _by_batches(rows: StandardRows, prior: np.ndarray, steps: np.ndarray, method: Any, key: Any) -> tuple:
    args = (jnp.asarray(prior / rows.total), jnp.asarray(steps))
    data = (rows.design(), rows.y)
    run = minimise_batches(
        _row_loss, np.zeros(rows.size), data, method, key=key, weights=rows.weights, args=args, epochs=_EPOCHS
    )
    return np.asarray(run.state) * steps, run.status, int(run.num_steps)


def _mean_loss(v: Array, z: Array, y: Array, w: Array, prior: Array, steps: Array) -> Scalar:
    beta = v * steps
    return logistic_loss(beta, z, y, w) + 0.5 * beta @ (prior * beta)


def _row_loss(v: Array, row: tuple[Array, Array], prior: Array, steps: Array) -> Scalar:
    beta = v * steps
    eta = row[0] @ beta
    return softplus(eta) - row[1] * eta + 0.5 * beta @ (prior * beta)


def _arrays(coefficients: Any, X: Any, y: Any, weights: Any) -> tuple[Array, Array, Array, Array]:
    theta, x = jnp.asarray(coefficients, float), jnp.asarray(X, float)
    check(theta.ndim == 1 and x.ndim == 2, "coefficients", "a vector beside a matrix `X`", theta.shape)
    fits = x.shape[1] == theta.shape[0]
    check(fits, "coefficients", f"as many as columns of `X` ({x.shape[1]})", theta.shape[0])
    rows = (x.shape[0],)
    targets = jnp.broadcast_to(jnp.asarray(y, float), rows)
    w = jnp.ones(rows) if weights is None else jnp.broadcast_to(jnp.asarray(weights, float), rows)
    return theta, x, targets, w
