r"""Bayesian logistic regression by Laplace's approximation, the prior fixed or chosen by evidence.

Prior.       $w \sim N(m_0, A^{-1})$; $A = \mathrm{diag}(f + \alpha r)$ with $\alpha$ of largest evidence.
Posterior.   $w_{MAP}$ minimises $E(w) + \tfrac12(w - m_0)^\top A(w - m_0)$; the negative Hessian of the
             log-posterior there, $S^{-1} = A + \sum_i w_i\sigma_i(1 - \sigma_i)\phi_i\phi_i^\top$, *is* the
             precision, and $q = N(w_{MAP}, S)$.
Evidence.    $\log p(y) \approx -E(w_{MAP}) - \tfrac12(w_{MAP} - m_0)^\top A(w_{MAP} - m_0)
             + \tfrac12\log|A| - \tfrac12\log|S^{-1}|$.
Predictive.  $a = w^\top\phi_*$ is $N(w_{MAP}^\top\phi_*, \phi_*^\top S\phi_*)$; the class probability is the
             integral of $\sigma(a)$ (`inference.curvature.moderated`).
Cost.        A Newton search; by evidence about 25 of them, each from the last answer.
References.  Bishop (2006) section 4.5; MacKay (1992).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, namespace, offender
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Ended
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import softplus
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.inference.curvature.moderated import moderated_probability
from tractable.supervised.logistic.newton import NewtonFit, StandardRows, Sweep, binary_rows, newton

__all__ = [
    "BayesianLogistic", "StandardPosterior", "fit_bayes_logistic", "laplace_logistic", "mode_and_precision",
    "sample_logistic",
]  # fmt: skip

_INTERCEPT_SCALE = 10.0  # prior deviation of the log-odds at the mean of the columns
SPAN = (np.log(1e-6), np.log(1e8))  # of the prior precision that evidence may choose


class StandardPosterior(Ended, Module):
    r"""What is known of a posterior of the coefficients of standardised rows $(x - c)/s$.

    `precision` is $\alpha$, the prior precision of standardised coefficients, NaN where a whole matrix was
    given; `edge` says that the evidence has no maximum among the precisions that were searched.
    """

    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    log_evidence: Scalar
    precision: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    has_intercept: bool = field(static=True)
    edge: bool = field(static=True)

    @classmethod
    def of(cls, rows: StandardRows, evidence: Any, alpha: Any, ended: tuple, edge: bool, *parts: Any) -> Any:
        """The posterior of a search over these rows that `ended` after so many steps, by a status."""
        numbers = (rows.centre, rows.scale, evidence, alpha, ended[0], int(ended[1]))
        fields: Any = (*map(jnp.asarray, numbers), rows.intercept, edge, *parts)
        return cls(*fields)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result."""
        more = " The evidence has no maximum inside the range searched: the columns may say nothing."
        numbers = {"log_evidence": self.log_evidence, "precision": self.precision}
        return Verdict(self.status.ok, self.ending + (more if self.edge else ""), numbers)

    def design(self, X: ArrayLike | Rows) -> Any:
        """Standardised rows with a leading one."""
        x = points(X, self.centre.shape[0])
        xp = namespace(self, x)
        z = (x - xp.asarray(self.centre)[None]) / xp.asarray(self.scale)[None]
        return xp.column_stack([xp.ones(len(z)), z]) if self.has_intercept else z


class BayesianLogistic(StandardPosterior):
    r"""A Gaussian over the coefficients of standardised rows, intercept first.

    `log_evidence` is Laplace's, or the lower bound where `method` is "variational".
    """

    posterior: Gaussian
    method: str = field(static=True, default="Laplace")

    @property
    def coefficients(self) -> Any:
        """The posterior mean of the coefficients of the columns as they came."""
        xp = namespace(self)
        return xp.asarray(self.posterior.mean)[int(self.has_intercept) :] / xp.asarray(self.scale)

    @property
    def intercept(self) -> Any:
        """The posterior mean of the intercept for the columns as they came."""
        base = self.posterior.mean[0] if self.has_intercept else 0.0
        return base - self.coefficients @ namespace(self).asarray(self.centre)

    @property
    def deviations(self) -> Any:
        """The posterior deviations of the coefficients of the columns as they came."""
        xp = namespace(self)
        spread = xp.sqrt(xp.diag(xp.asarray(self.posterior.cov)))[int(self.has_intercept) :]
        return spread / xp.asarray(self.scale)

    def log_odds(self, X: ArrayLike | Rows) -> tuple[Any, Any]:
        r"""Mean and variance of $w^\top\phi$ for each row."""
        z, xp = self.design(X), namespace(self, X)
        mean, cov = xp.asarray(self.posterior.mean), xp.asarray(self.posterior.cov)
        return z @ mean, xp.maximum(((z @ cov) * z).sum(1), 0.0)

    def predict_proba(self, X: ArrayLike | Rows, method: str = "exact", **options: Any) -> Any:
        r"""$\int\sigma(a)\,N(a \mid \mu_a, \sigma_a^2)\,da$ of each row; see `moderated_probability`."""
        return moderated_probability(*self.log_odds(X), method, **options)


def laplace_logistic(
    features: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    prior_precision: ArrayLike | str = 1.0,
    prior_mean: ArrayLike | None = None,
) -> BayesianLogistic:
    r"""Laplace's posterior for features $\phi$ taken as they are, without an intercept of its own.

    `prior_precision` is a number, one per column, a matrix, or "evidence" for the shared
    number of largest evidence.

    >>> found = laplace_logistic([[1.0], [1.0], [1.0]], [1, 1, 0])
    >>> round(float(found.log_evidence), 7), found.verdict
    (-2.2833585, Converged.)
    """
    rows = binary_rows(features, y, weights, None)
    p = rows.size
    mean = np.zeros(p) if prior_mean is None else np.asarray(as_float("prior_mean", prior_mean), float)
    check(mean.shape == (p,), "prior_mean", f"of shape ({p},)", f"shape {mean.shape}")
    if isinstance(prior_precision, str):
        return _posterior(rows, *mode_and_precision(rows, rows.logistic, prior_precision, mean=mean))
    given = np.asarray(as_float("prior_precision", prior_precision), float)
    check(given.shape in ((), (p,), (p, p)), "prior_precision", f"(), ({p},) or ({p}, {p})", given.shape)
    matrix = given if given.ndim == 2 else np.diag(np.broadcast_to(given, (p,)))
    ok = np.isfinite(matrix).all() and np.linalg.eigvalsh(matrix)[0] > 0
    check(ok, "prior_precision", "positive definite and finite", offender(given, np.asarray(False)))
    found = newton(rows.logistic, mean.copy(), matrix, rows.total, mean=mean)
    alpha = float(given) if given.ndim == 0 else np.nan
    return _posterior(rows, found, log_evidence(found, matrix, mean), alpha, False)


def fit_bayes_logistic(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
    spread: float | int | None = None,
) -> BayesianLogistic:
    r"""Laplace's posterior with $N(0, \alpha^{-1})$ on the coefficients of standardised columns.

    $\alpha$ is given, or the one of largest evidence; with `spread` $s$ its logarithm is $N(0, s^2)$ before.
    Without that, $\alpha$ falls towards zero where classes can be separated, and a normal posterior, wide in
    all directions, no longer knows on which side a row is. The log-odds at the mean of the columns is
    $N(0, 10^2)$: wide beside any log-odds that rows can show, and proper, so that the evidence is one.
    """
    rows = binary_rows(X, y, weights, intercept)
    return _posterior(rows, *mode_and_precision(rows, rows.logistic, prior_precision, spread=spread))


@takes_key
def sample_logistic(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    key: Key,
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
    spread: float | int | None = None,
    num_draws: int = 1000,
    num_chains: int = 4,
) -> tuple[BayesianLogistic, Any]:
    """Laplace's posterior, and draws of the exact one under the same prior, from `inference.mcmc`.

    The draws are of the coefficients of standardised columns, intercept first.
    """
    from tractable.inference.chains.mcmc import mcmc  # what a Laplace approximation does not need

    table = Rows.of(X, y, weights, target="binary")
    options: Any = {"prior_precision": prior_precision, "spread": spread}
    approximate = fit_bayes_logistic(table, intercept=intercept, **options)
    rows = binary_rows(table, None, None, intercept)
    fixed, relative = prior_parts(rows)
    prior = jnp.asarray(fixed + float(approximate.precision) * relative)
    (z, targets), w = pad_rows((rows.design(), rows.y), rows.weights)
    start = np.asarray(approximate.posterior.mean)
    chains: Any = {"num_draws": num_draws, "num_chains": num_chains, "progress": False}
    return approximate, mcmc(log_joint, start, key=key, args=(z, targets, w, prior), **chains)


def log_joint(beta: Array, z: Array, y: Array, w: Array, precision: Array) -> Scalar:
    """The log-likelihood plus the log-prior, up to a constant."""
    eta = z @ beta
    return -(w @ (softplus(eta) - y * eta)) - 0.5 * beta @ (precision * beta)


def prior_parts(rows: StandardRows) -> tuple[np.ndarray, np.ndarray]:
    """The fixed part of the prior precision (the intercept's), and what the shared precision multiplies."""
    fixed, relative = np.zeros(rows.size), np.ones(rows.size)
    if rows.intercept:
        fixed[0], relative[0] = _INTERCEPT_SCALE**-2, 0.0
    return fixed, relative


def mode_and_precision(
    rows: StandardRows, sweep: Sweep, prior_precision: float | int | str, *, mean: np.ndarray | None = None,
    copies: int = 1, tol: float = 1e-4, spread: float | int | None = None,
) -> tuple[NewtonFit, float, float, bool]:  # fmt: skip
    r"""The mode, its evidence, the shared precision (given, or of largest evidence within `tol` of its
    logarithm, which has a normal prior of deviation `spread` about zero), and whether that is at the edge of
    the range searched.

    Each coefficient has so many `copies`, one for each function of the row, and each search begins at the
    mode of the last.
    """
    fixed, relative = (np.repeat(part, copies) for part in prior_parts(rows))
    centre = np.zeros(fixed.size) if mean is None else mean
    last = centre.copy()

    def fitted(alpha: float) -> tuple[NewtonFit, float]:
        nonlocal last
        matrix = np.diag(fixed + alpha * relative)
        found = newton(sweep, last, matrix, rows.total, mean=centre)
        last = found.beta
        return found, log_evidence(found, matrix, centre)

    if not isinstance(prior_precision, str):
        ok = np.isfinite(prior_precision) and prior_precision > 0
        check(ok, "prior_precision", "positive and finite, or 'evidence'", prior_precision)
        return *fitted(float(prior_precision)), float(prior_precision), False
    known = prior_precision == "evidence"
    check(known, "prior_precision", "'evidence' or a number", repr(prior_precision))
    from scipy.optimize import minimize_scalar

    options: Any = {"bounds": SPAN, "method": "bounded", "options": {"xatol": tol}}
    pull = 0.0 if spread is None else 0.5 / spread**2
    best: Any = minimize_scalar(lambda a: pull * a**2 - fitted(np.exp(a))[1], **options)
    edge = min(best.x - SPAN[0], SPAN[1] - best.x) < 1e-2
    return *fitted(float(np.exp(best.x))), float(np.exp(best.x)), bool(edge)


def log_evidence(found: NewtonFit, prior: np.ndarray, mean: np.ndarray) -> float:
    """Laplace's, from the loss, the prior and the full Hessian at the mode."""
    away = found.beta - mean
    gain = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(found.hessian)[1]
    return -found.loss - 0.5 * float(away @ prior @ away) + 0.5 * float(gain)


def _posterior(
    rows: StandardRows, found: NewtonFit, evidence: float, alpha: float, edge: bool
) -> BayesianLogistic:
    cov = np.linalg.inv(found.hessian)
    gaussian = Gaussian(jnp.asarray(found.beta), jnp.asarray((cov + cov.T) / 2))
    ended = (found.num_steps, found.status)
    return BayesianLogistic.of(rows, evidence, alpha, ended, edge, gaussian)
