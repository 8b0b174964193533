r"""Regression whose noise grows or shrinks with the columns: a linear mean and a linear log-scale.

Model.       $y_i = b + \beta^\top z_i + e^{s_i}\epsilon_i$, $s_i = c + \gamma^\top z_i$ for a standardised
             target (with a least noise of $10^{-4}$); $\beta \sim N(0, \alpha_m^{-1}I)$, $\gamma \sim
             N(0, \alpha_s^{-1}I)$, exponential priors of both deviations, normal ones of the intercepts.
Levels.      Given $\gamma$, $\beta$ is exactly normal and is integrated out. What is left,
             $\log p(y \mid \gamma) - \tfrac12\gamma^\top A\gamma$, has the slope $\omega_i(r_i^2 + v_i) - 1$
             in $s_i$, with $\omega = e^{-2s}$, the residual $r$ at the posterior mean and $v$ its variance;
             steps use the curvature $2\omega_ir_i^2 + 2\omega_iv_i(1 - \omega_iv_i)$ less what $\beta$
             follows, $4M^\top SM$ with $M = \sum_i\omega_ir_iz_iz_i^\top$, the evidence the
             information $2(1 - \omega_iv_i)^2$. A density of $\beta$ and $\gamma$ together would have
             its maximum where the noise vanishes.
Predictive.  A mixture of $N(m, v + e^{2s})$ over the nodes of both precisions and over $s$.
Cost.        Two passes of $O(np^2)$ per step.
References.  Smyth (2002), "An efficient algorithm for REML in heteroscedastic regression"; Harvey (1976).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl

from tractable.core.blas import one_blas_thread
from tractable.core.checks import to_device
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows, level_and_size
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.generalised.design import Columns, design_of, predictor
from tractable.supervised.generalised.engine import (
    Hyper,
    given_precision,
    laplace_evidence,
    mode_of,
    nodes_of,
)
from tractable.supervised.generalised.family import refuse_constant
from tractable.supervised.generalised.mixed import MixedLaw
from tractable.supervised.linear.products import over_rows
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.sums import _standard

__all__ = ["HeteroscedasticLinear", "fit_heteroscedastic"]

_HYPER = Hyper(np.array([1.0, 3.0]), np.full(2, 3.0), np.array([1.0, 3.0]), np.array([2.3, 4.6]))
_SPREADS = 10.0, 2.0  # prior deviations of the intercepts of mean and log-scale
_MANY, _SEARCHED = 30_000, 15_000
_FEW_ROWS, _FEW_COLUMNS = 3_000, 60
_FALL = 1e-9  # of the objective per row, at which the steps of the log-scale end
_LEAST = 1e-4  # of the target's deviation: noise below it is rounding, and has no evidence
_LOG_2PI = float(np.log(2 * np.pi))


class Given(NamedTuple):
    """What is known of the mean for given scales: its law, the evidence, residuals and leverages."""

    beta: np.ndarray
    root: np.ndarray  # the Cholesky factor of its precision
    log_evidence: float
    residual: np.ndarray
    leverage: np.ndarray


class HeteroscedasticLinear(Ended, HostResult):
    """A posterior: normal laws of the coefficients of mean and log-scale at weighted nodes.

    `means`, `covs` are those of the mean of the standardised target, `scale_means`, `scale_covs` those of the
    log-scale; `precisions` (k, 2) are those of the two priors. `low` and `size` are centre and size of the
    target.
    """

    weights: Any
    means: Any = field(show=False)
    covs: Any = field(show=False)
    scale_means: Any = field(show=False)
    scale_covs: Any = field(show=False)
    precisions: Any
    log_evidence: float
    centre: Any = field(show=False)
    scale: Any = field(show=False)
    turn: Any = field(show=False)
    num_steps: int
    code: int
    low: float
    size: float
    num_points: int = field(static=True)

    @property
    def columns(self) -> Columns:
        return Columns(self.centre, self.scale, self.turn, True)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result."""
        mean, scale = self.weights @ self.precisions
        numbers = {"log_evidence": self.log_evidence, "precision": mean, "scale_precision": scale}
        return Verdict(self.status.ok, self.ending, numbers)

    def predict_dist(self, X: ArrayLike | Rows) -> MixedLaw:
        """The predictive law of each row: a mixture of normals."""
        z, rest = self.columns(X)
        mean, variance = _moments(z, rest, self.means, self.covs, self.precisions[:, 0])
        level, spread = _moments(z, rest, self.scale_means, self.scale_covs, self.precisions[:, 1])
        points, shares = np.polynomial.hermite_e.hermegauss(self.num_points)
        s = level[:, :, None] + np.sqrt(spread)[:, :, None] * points
        eta = np.repeat(mean, self.num_points, 1)
        total = np.logaddexp(_log_variance(s), np.log(np.maximum(variance, 1e-300))[:, :, None]) / 2
        weights = np.outer(self.weights, shares / shares.sum()).ravel()
        return MixedLaw.of("normal", weights, eta, total.reshape(1, len(z), -1), self.low, self.size)

    def split(self, X: ArrayLike | Rows) -> UncertaintySplit:
        """The predictive variance of each row: noise (aleatoric) and coefficients (epistemic)."""
        z, rest = self.columns(X)
        mean, variance = _moments(z, rest, self.means, self.covs, self.precisions[:, 0])
        level, spread = _moments(z, rest, self.scale_means, self.scale_covs, self.precisions[:, 1])
        between = (mean - (mean @ self.weights)[:, None]) ** 2
        noise, unsure = np.exp(2 * level + 2 * spread) @ self.weights, (variance + between) @ self.weights
        return UncertaintySplit(*(to_device(part * self.size**2) for part in (noise, unsure)))

    def coefficients(self, which: str = "mean") -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and deviations of the mean's or the log-scale's coefficients, intercept first."""
        own = which == "mean"
        means, covs = (self.means, self.covs) if own else (self.scale_means, self.scale_covs)
        found = [self.columns.back(*part) for part in zip(means, covs, self.precisions[:, 0 if own else 1])]
        values, variances = (np.stack(each) for each in zip(*found))
        if own:
            values, variances = values * self.size, variances * self.size**2
        values[:, 0] += self.low if own else np.log(self.size)
        mean = self.weights @ values
        return mean, np.sqrt(self.weights @ (variances + (values - mean) ** 2))


class _Problem:
    """One table: the evidence of both precisions, each search from the last answer."""

    def __init__(self, rows: StandardRows, given: tuple[float | None, float | None] = (None, None)):
        self.rows, self.precisions, self.num_steps, self.status = rows, given, 0, Status.converged
        spread = np.log(np.sqrt(max(rows.weights @ rows.y**2 / rows.total, 1e-30)))
        self.last = np.r_[spread, np.zeros(rows.size - 1)]

    def both(self, phi: np.ndarray) -> np.ndarray:
        """The logarithms of both precisions, of which `phi` has those that were not given."""
        free = iter(phi)
        return np.array([next(free) if a is None else np.log(a) for a in self.precisions])

    def prior(self, phi: float, spread: float) -> np.ndarray:
        return np.r_[spread**-2, np.full(self.rows.size - 1, np.exp(phi))]

    def given(self, gamma: np.ndarray, prior: np.ndarray) -> Given:
        r"""The mean's posterior, and $\log p(y \mid \gamma)$."""
        rows, log_variance = self.rows, _log_variance(predictor(self.rows, gamma))
        omega = rows.weights * np.exp(-log_variance)
        side, gram = rows.gram(omega * rows.y, omega)
        root = sl.cholesky(gram + np.diag(prior), lower=True)
        beta = sl.cho_solve((root, True), side)
        residual = rows.y - predictor(rows, beta)
        fit = -0.5 * float(omega @ residual**2) - 0.5 * float(prior @ beta**2)
        gain = 0.5 * np.log(prior).sum() - np.log(np.diag(root)).sum()
        log_evidence = fit + gain - 0.5 * float(rows.weights @ log_variance) - 0.5 * rows.total * _LOG_2PI
        return Given(beta, root, log_evidence, residual, _leverages(rows, root))

    def solve(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, Given, float]:
        """Coefficients of the log-scale with their covariance, the mean given them, and the evidence."""
        phi = self.both(phi)
        rows, prior = self.rows, self.prior(phi[0], _SPREADS[0])

        def sweep(gamma: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            try:
                found = self.given(gamma, prior)
            except (np.linalg.LinAlgError, ValueError):  # scales that are no numbers: a wall
                return np.inf, np.zeros_like(gamma), np.eye(len(gamma))
            s = predictor(rows, gamma)
            omega, share = np.exp(-_log_variance(s)), np.exp(2 * s - _log_variance(s))
            square, used = omega * found.residual**2, np.clip(omega * found.leverage, 0.0, 1.0)
            bend = 2 * rows.weights * share**2 * (square + used * (1 - used))
            slope, curvature = rows.gram(-rows.weights * share * (square + used - 1), bend)
            moved = _crossed(rows, share * omega * found.residual)
            turned = sl.solve_triangular(found.root, moved, lower=True)
            return -found.log_evidence, slope, curvature - 4 * turned.T @ turned

        own = self.prior(phi[1], _SPREADS[1])
        found = mode_of(sweep, self.last, own, rows.total, tol=_FALL, max_steps=40)
        self.last, self.num_steps, self.status = found.beta, self.num_steps + found.num_steps, found.status
        given = self.given(found.beta, prior)
        s = predictor(rows, found.beta)
        free = np.clip(1 - np.exp(-_log_variance(s)) * given.leverage, 0.0, 1.0)
        fisher = rows.gram(s, 2 * rows.weights * (np.exp(2 * s - _log_variance(s)) * free) ** 2)[1]
        evidence, cov = laplace_evidence(found._replace(hessian=fisher + np.diag(own)), own)
        return found.beta, cov, given, evidence

    def evidence(self, phi: np.ndarray) -> float:
        return self.solve(phi)[-1]


def fit_heteroscedastic(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    prior_precision: float | int | str = "evidence",
    scale_precision: float | int | str = "evidence",
) -> HeteroscedasticLinear:
    """The posterior of a line whose noise has a linear log-scale.

    The precisions are those of the priors of the mean's and of the log-scale's coefficients, for a target and
    columns of unit deviation; "evidence" integrates over one.

    >>> x = np.linspace(0, 1, 200)
    >>> y = 3 * x + np.exp(2 * x - 2) * np.random.default_rng(0).normal(size=200)
    >>> found = fit_heteroscedastic(x, y)
    >>> found.coefficients("scale")[0].round(1).tolist()
    [-2.1, 2.0]
    """
    table = Rows.of(X, y, weights, target="number")
    first = given_precision("prior_precision", prior_precision)
    fixed = (first, given_precision("scale_precision", scale_precision))
    free = [i for i, a in enumerate(fixed) if a is None]
    refuse_constant(np.asarray(table.y), "numbers")
    low, size = level_and_size(np.asarray(table.y, float)[:, None], table.weights)
    targets = (np.asarray(table.y, float) - low[0]) / size[0]
    table = Rows.of(table.X, targets, table.weights, target="number")
    with one_blas_thread(table.num_columns < 300):
        rows, columns = design_of(table, True)
        problem, count = _Problem(rows, fixed), len(rows.x)
        few = count <= _FEW_ROWS and rows.size <= _FEW_COLUMNS
        some = _Problem(rows.every(count // _SEARCHED), fixed) if count > _MANY else problem
        nodes = nodes_of(some.evidence, Hyper(*(each[free] for each in _HYPER)), many=few)
        problem.last = some.last
        found = [problem.solve(phi) for phi in nodes.phi]
    log_total = nodes.log_total
    if some is not problem:  # the same width of the precisions' law, about the evidence of all rows
        peak = nodes.phi[0]
        log_total += found[0][-1] - some.evidence(peak)
    given, logs = [each[2] for each in found], np.stack([problem.both(phi) for phi in nodes.phi])
    covs = [sl.cho_solve((each.root, True), np.eye(len(each.beta))) for each in given]
    return HeteroscedasticLinear(
        nodes.weights, np.stack([each.beta for each in given]), np.stack(covs),
        np.stack([each[0] for each in found]), np.stack([each[1] for each in found]), np.exp(logs),
        float(log_total - rows.total * np.log(size[0])), columns.centre, columns.scale, columns.turn,
        problem.num_steps, int(problem.status), float(low[0]), float(size[0]), 5 if few else 3,
    )  # fmt: skip


def _log_variance(s: np.ndarray) -> np.ndarray:
    """Of noise of log-scale `s`, beside the least noise."""
    return np.logaddexp(2 * s, 2 * np.log(_LEAST))


def _leverages(rows: StandardRows, root: np.ndarray) -> np.ndarray:
    r"""$z_i^\top(LL^\top)^{-1}z_i$ of every row."""
    args = (rows.x, rows.centre, 1 / rows.scale, rows.size)
    back = sl.solve_triangular(root, np.eye(len(root)), lower=True).T

    def part(low: int, high: int) -> np.ndarray:
        each = [((z @ back) ** 2).sum(1) for _, z in _standard(*args, low, high)]
        return np.concatenate(each) if each else np.zeros(0)

    return np.concatenate(over_rows(part, len(rows.x)))


def _crossed(rows: StandardRows, amounts: np.ndarray) -> np.ndarray:
    r"""$\sum_i w_ia_iz_iz_i^\top$ for amounts of any sign."""
    args, amounts = (rows.x, rows.centre, 1 / rows.scale, rows.size), rows.weights * amounts

    def part(low: int, high: int) -> np.ndarray:
        each = [z.T @ (amounts[cut, None] * z) for cut, z in _standard(*args, low, high)]
        return np.sum(each, axis=0)

    return np.sum(over_rows(part, len(rows.x)), axis=0)


def _moments(z: Any, rest: Any, means: Any, covs: Any, precisions: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a linear predictor at each node, both (n, k)."""
    spread = [((z @ cov) * z).sum(1) + rest / alpha for cov, alpha in zip(covs, precisions)]
    return z @ means.T, np.maximum(np.stack(spread, 1), 0.0)
