r"""Recursive least squares: one measurement at a time, with the covariance of the estimate.

Model.       $y_k = X_k\theta + \eta_k$, $\eta_k \sim N(0, R_k)$, with $X_k$ of shape (m, d); a belief
             $\theta \sim N(\theta_0, P_0)$ before the first.
Update.      $S = X P X^\top + R$, $K = P X^\top S^{-1}$, $\theta \leftarrow \theta + K(y - X\theta)$, and one
             of joseph       $P \leftarrow (I - K X) P (I - K X)^\top + K R K^\top$ (right for any gain),
             short        $P \leftarrow (I - K X) P$, gain         $P \leftarrow P - P X^\top S^{-1} X P$,
             information  $P^{-1} \leftarrow P^{-1} + X^\top R^{-1} X$, with $K = P X^\top R^{-1}$ after it:
             equal at this gain, which minimises the trace of $P$; any gain leaves the estimate unbiased.
Ridge.       $\theta_0 = 0$, $P_0 = (\sigma^2/\lambda) I$, $R = \sigma^2$ give batch ridge with
             penalty $\lambda$ and $P_n = \sigma^2 (X^\top X + \lambda I)^{-1}$; $P_0 \to \infty$
             gives batch least squares.
Forgetting.  $P \leftarrow P / \rho$ before each measurement: after $k$ more it counts $\rho^k$.
Cost.        $O(d^2 m + m^3)$ per measurement (information: $O(d^3)$); one program for many row counts.
References.  Simon (2006) chapter 3; Bierman (1977).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_finite,
    check_option,
    check_shape,
    has_values,
    namespace,
)
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Run, run
from tractable.core.linalg import psd_solve, symmetrise
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows, level_and_size, points
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.gaussian import Gaussian, condition
from tractable.distributions.gaussian_forms import to_covariance, to_information
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.distributions.student import StudentT

__all__ = ["RecursiveModel", "RecursiveTrace", "recursive_least_squares", "recursive_update", "ridge_prior"]

FORMS = ("gain", "joseph", "short", "information")


class RecursiveTrace(NamedTuple):
    """What each measurement recorded: the estimate after it, the innovation and the trace of the covariance.

    `energy` is $e^\\top S^{-1} e$ of the innovation $e$; its sum over measurements of unit noise estimates
    $n\\sigma^2$.
    """

    mean: Array
    innovation: Array
    trace: Array
    energy: Array


class RecursiveModel(Module):
    r"""A regression that rows may be added to for ever: a belief about the coefficients, and about the noise.

    The belief is that of unit noise, over columns less `column_centre`, over `column_scale` (the mean and the
    standard deviation of the first rows where there is a constant, which comes first; else zero and
    their size), so that the prior is relative to the data's scale; `target_centre` is taken from the target.
    `energy` over `count` estimates the variance of the noise: with the improper prior $1/\sigma^2$ the
    prediction is Student's t of `count` degrees, exactly. Forgotten rows count less in both, and in
    `prior_precision`.
    """

    belief: Gaussian
    energy: Scalar
    count: Scalar
    column_scale: Float[Array, " p"]
    column_centre: Float[Array, " p"]
    target_centre: Scalar
    prior_precision: Scalar
    forgetting: float = 1.0
    form: str = field(static=True, default="gain")
    has_intercept: bool = field(static=True, default=True)

    @classmethod
    def start(
        cls,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        penalty: float | int = 1e-3,
        forgetting: float = 1.0,
        form: str = "gain",
        intercept: bool = True,
    ) -> "RecursiveModel":
        """The model before any row, with centres and scales from the rows `X` and targets `y` to come."""
        rows, zero = np.asarray(X, float), jnp.zeros(())
        mass = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
        centre, size = level_and_size(rows, mass, intercept)
        level = float(np.average(np.asarray(y, float), weights=mass)) if intercept and y is not None else 0.0
        constant = np.ones(int(intercept))
        scale, centre = np.concatenate([constant, size]), np.concatenate([0 * constant, centre])
        units = (jnp.asarray(scale), jnp.asarray(centre), jnp.asarray(level), jnp.asarray(float(penalty)))
        prior = ridge_prior(len(scale), penalty)
        return cls(prior, zero, zero, *units, float(forgetting), form, intercept)

    @property
    def coefficients(self) -> Any:
        xp = namespace(self)
        return (xp.asarray(self.belief.mean) / xp.asarray(self.column_scale))[int(self.has_intercept) :]

    @property
    def intercept(self) -> Any:
        if not self.has_intercept:
            return 0.0
        xp = namespace(self)
        shift = xp.asarray(self.column_centre)[1:] @ self.coefficients
        return xp.asarray(self.belief.mean)[0] + xp.asarray(self.target_centre) - shift

    @property
    def effective_parameters(self) -> Any:
        r"""$p - \lambda\,\mathrm{tr}P$: how many coefficients the rows, and not the prior, determine."""
        xp, size = namespace(self), self.belief.mean.shape[0]
        return size - xp.asarray(self.prior_precision) * xp.trace(xp.asarray(self.belief.cov))

    def update(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> "RecursiveModel":
        """The model after more rows."""
        count = np.ones(len(np.asarray(y))) if weights is None else np.asarray(weights, float)
        options = {"weights": count, "form": self.form, "forgetting": self.forgetting}
        targets = np.asarray(y, float) - float(self.target_centre)
        found = recursive_least_squares(self._design(X), targets, self.belief, **options)
        kept = self.forgetting ** np.arange(len(count) - 1, -1, -1.0)
        past = self.forgetting ** len(count)
        energy = past * self.energy + jnp.asarray(kept @ np.asarray(found.trace.energy))
        total = past * self.count + jnp.asarray(kept @ count)
        units = (self.column_scale, self.column_centre, self.target_centre, past * self.prior_precision)
        fixed = (self.forgetting, self.form, self.has_intercept)
        return RecursiveModel(found.state, energy, total, *units, *fixed)

    def predict(self, X: ArrayLike | Rows) -> Any:
        xp = namespace(self, X)
        return self._design(X) @ xp.asarray(self.belief.mean) + xp.asarray(self.target_centre)

    def predict_dist(self, X: ArrayLike | Rows) -> StudentT:
        if has_values(self.count):
            check(float(self.count) > 0, "rows", "given before a prediction", "none")
        xp, A = namespace(self, X), self._design(X)
        spread = 1 + xp.einsum("ij,jk,ik->i", A, xp.asarray(self.belief.cov), A)
        count = xp.asarray(self.count)
        scale = xp.sqrt(xp.asarray(self.energy) / count * spread)
        parts = xp.broadcast_to(count, spread.shape), self.predict(X), scale
        return StudentT(*(jnp.asarray(part) for part in parts))

    def _design(self, X: ArrayLike | Rows) -> Any:
        xp = namespace(self, X)
        rows = xp.asarray(points(X, len(self.column_scale) - self.has_intercept))
        rows = xp.column_stack([xp.ones(len(rows)), rows]) if self.has_intercept else rows
        return (rows - xp.asarray(self.column_centre)[None]) / xp.asarray(self.column_scale)[None]


def ridge_prior(dim: int, penalty: float | int, noise: float | int = 1.0) -> Gaussian:
    r"""$N(0, (\sigma^2/\lambda) I)$: the belief from which recursion gives ridge regression."""
    check(penalty > 0, "penalty", "positive", penalty, "Without a penalty the first belief is flat.")
    return Gaussian(jnp.zeros(dim), noise / penalty * jnp.eye(dim))


def recursive_update(
    belief: Gaussian,
    X: ArrayLike,
    y: ArrayLike,
    noise: ArrayLike = 1.0,
    *,
    form: str = "gain",
    gain: ArrayLike | None = None,
    forgetting: float | Scalar = 1.0,
) -> Gaussian:
    """The belief after one measurement `y` (m,) with rows `X` (m, d) and noise covariance
    `noise` (or a variance).

    Another `gain` (d, m) than the best one is allowed in the Joseph form, the only one right for it.

    >>> after = recursive_update(ridge_prior(1, 1.0), [[1.0]], [2.0])
    >>> round(float(after.mean[0]), 12), round(float(after.cov[0, 0]), 12)
    (1.0, 0.5)
    """
    check_option("form", form, FORMS)
    rows, value = jnp.atleast_2d(as_float("X", X)), jnp.atleast_1d(as_float("y", y))
    check_shape("X", rows, (value.shape[0], belief.mean.shape[0]), "One row per entry of `y`.")
    R = _noise_matrix(noise, value.shape[0])
    if gain is None:
        return _update(belief, rows, value, R, jnp.asarray(forgetting, value.dtype), form)
    check(form == "joseph", "form", "'joseph' where a gain is given", repr(form))
    K = as_float("gain", gain)
    check_shape("gain", K, rows.T.shape, "One column per entry of `y`.")
    return _joseph(Gaussian(belief.mean, belief.cov / forgetting), rows, value, R, K)


def recursive_least_squares(
    X: ArrayLike,
    y: ArrayLike,
    prior: Gaussian,
    noise: ArrayLike = 1.0,
    *,
    weights: ArrayLike | None = None,
    form: str = "gain",
    forgetting: float = 1.0,
) -> Run:
    """The belief after all rows as `run.state`, with a `RecursiveTrace` of every step as `run.trace`.

    `X` is (n, d) with `y` (n,), or (n, m, d) with `y` (n, m) for measurements of m numbers, all of which
    share the covariance `noise`. A weight divides the noise; a row of weight zero is absent.
    """
    check_option("form", form, FORMS)
    check(0 < forgetting <= 1, "forgetting", "in (0, 1]", forgetting)
    rows, values = np.asarray(X, float), np.asarray(y, float)
    check_finite("X", rows)
    check_finite("y", values)
    if rows.ndim == 2:
        rows, values = rows[:, None, :], values.reshape(len(values), -1)
    check_shape("X", rows, (None, None, prior.mean.shape[0]), "Rows (n, d), or measurements (n, m, d).")
    check_shape("y", values, rows.shape[:2], "One entry per row of each measurement.")
    (padded, targets), count = pad_rows((rows, values), weights)
    found = _scan(
        padded, targets, count, prior, _noise_matrix(noise, rows.shape[1]), jnp.asarray(forgetting), form
    )
    kept = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(rows)], found.trace)
    return Run(found.state, kept, jnp.asarray(len(rows)), found.code)


def _noise_matrix(noise: ArrayLike, size: int) -> Array:
    R = as_float("noise", noise)
    R = R * jnp.eye(size) if R.ndim == 0 else R
    check_shape("noise", R, (size, size), "A variance, or a covariance matrix.")
    return R


@program
def _scan(X: Array, y: Array, weights: Array, prior: Gaussian, R: Array, forgetting: Array, form: str) -> Run:
    def step(belief, row):
        rows, value, weight = row
        seen = weight > 0
        noise = R / jnp.where(seen, weight, 1.0)
        after = _update(belief, rows, value, noise, forgetting, form)
        innovation = value - rows @ belief.mean
        spread = rows @ belief.cov @ rows.T / forgetting + noise
        energy = jnp.where(seen, innovation @ psd_solve(spread, innovation), 0.0)
        kept = jax.tree.map(lambda new, old: jnp.where(seen, new, old), after, belief)
        return kept, RecursiveTrace(kept.mean, innovation, jnp.trace(kept.cov), energy)

    return run(step, prior, (X, y, weights))


@partial(jax.jit, static_argnums=5)
def _update(belief: Gaussian, X: Array, y: Array, R: Array, forgetting: Array, form: str) -> Gaussian:
    belief = Gaussian(belief.mean, belief.cov / forgetting)
    if form == "information":
        return _information(belief, X, y, R)
    predicted, cross = LinearGaussian(X, jnp.zeros_like(y), R).marginal(belief)
    if form == "gain":
        return condition(belief, cross, predicted, y)
    K = psd_solve(predicted.cov, cross.T).T
    if form == "joseph":
        return _joseph(belief, X, y, R, K)
    return Gaussian(belief.mean + K @ (y - X @ belief.mean), belief.cov - K @ X @ belief.cov)


def _joseph(belief: Gaussian, X: Array, y: Array, R: Array, K: Array) -> Gaussian:
    rest = jnp.eye(belief.mean.shape[0], dtype=K.dtype) - K @ X
    cov = symmetrise(rest @ belief.cov @ rest.T + K @ R @ K.T)
    return Gaussian(belief.mean + K @ (y - X @ belief.mean), cov)


def _information(belief: Gaussian, X: Array, y: Array, R: Array) -> Gaussian:
    look = LinearGaussian(X, jnp.zeros_like(y), R)
    return to_covariance(look.posterior(to_information(belief), y))
