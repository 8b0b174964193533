r"""Classes in order: one line and a threshold between each class and the next (cumulative logits).

Model.       $P(y \le k \mid x) = \sigma(t_k - \beta^\top z)$ with thresholds $t_1 < \dots < t_{K-1}$: the
             log-odds of being above any threshold rise alike with $x$. $\beta \sim N(0, \alpha^{-1}I)$ for
             standardised columns, $\alpha^{-1/2} \sim \mathrm{Exp}(2.3)$, $t_k \sim N(\hat t_k, 2^2)$ about
             the log-odds of the shares.
Likelihood.  With $u = t_k - \eta$, $l = t_{k-1} - \eta$: $\log p = \log\sigma(u) + \log\sigma(-l) + \log(1 -
             e^{l-u})$, concave in all unknowns. Thresholds out of order are a wall.
Predictive.  Gauss and Hermite in $\bar t - \eta$ at each node of $\log\alpha$; the gaps between thresholds
             are those of the mode.
Cost.        $O(n(d^2 + K))$ per pass.
References.  McCullagh (1980), "Regression models for ordinal data".
"""

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.supervised.generalised.design import Columns, design_of, predictor
from tractable.supervised.generalised.engine import (
    Hyper,
    Mode,
    given_precision,
    laplace_evidence,
    mode_of,
    nodes_of,
)
from tractable.supervised.linear.products import over_rows
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.sums import _standard

__all__ = ["OrdinalLinear", "fit_ordinal"]

_HYPER = Hyper(np.array([2.0]), np.array([3.0]), np.array([2.0]), np.array([2.3]))
_SPREAD = 2.0  # prior deviation of a threshold from that of the shares
_MANY, _SEARCHED = 30_000, 15_000
_FEW_ROWS, _FEW_COLUMNS = 3_000, 100
_POINTS = np.polynomial.hermite_e.hermegauss(9)


class OrdinalLinear(Ended, HostResult):
    """A posterior: normal laws of thresholds and coefficients of standardised columns at weighted nodes.

    `thresholds` (k, K - 1) are those of each node, `means` (k, p) the coefficients, `covs` the covariances of
    both, thresholds first.
    """

    weights: Any
    thresholds: Any
    means: Any = field(show=False)
    covs: Any = field(show=False)
    precisions: Any
    log_evidence: float
    shares: Any
    centre: Any = field(show=False)
    scale: Any = field(show=False)
    turn: Any = field(show=False)
    num_steps: int
    code: int

    @property
    def columns(self) -> Columns:
        return Columns(self.centre, self.scale, self.turn, False)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result."""
        numbers = {"log_evidence": self.log_evidence, "precision": float(self.weights @ self.precisions)}
        return Verdict(self.status.ok, self.ending, numbers)

    def predict_proba(self, X: ArrayLike | Rows) -> np.ndarray:
        """The probability of each class of each row, integrated over what was estimated."""
        z, rest = self.columns(X)
        middle = _middle(self.shares)
        size, total = len(middle), np.zeros((len(z), len(middle) + 1))
        points, shares = _POINTS[0], _POINTS[1] / _POINTS[1].sum()
        parts = zip(self.weights, self.thresholds, self.means, self.covs, self.precisions)
        for weight, gates, beta, cov, alpha in parts:
            side = np.column_stack([np.broadcast_to(middle, (len(z), size)), -z])
            spread = np.sqrt(np.maximum(((side @ cov) * side).sum(1) + rest / alpha, 0.0))
            eta = z @ beta
            for point, share in zip(points, shares):
                below = expit(gates + (point * spread - eta)[:, None])
                ends = np.column_stack([np.zeros(len(z)), below, np.ones(len(z))])
                total += weight * share * np.diff(ends, axis=1)
        return total

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and deviations of the coefficients of the columns as they came."""
        size = self.thresholds.shape[1]
        parts = zip(self.means, self.covs[:, size:, size:], self.precisions)
        values, variances = (np.stack(each) for each in zip(*(self.columns.back(*part) for part in parts)))
        mean = self.weights @ values
        return mean, np.sqrt(self.weights @ (variances + (values - mean) ** 2))

    def gates(self) -> np.ndarray:
        """The thresholds for the columns as they came."""
        return self.weights @ self.thresholds + self.coefficients()[0] @ self.centre


class _Problem:
    """One table: the evidence of the precision, each search from the last answer."""

    def __init__(self, rows: StandardRows, base: np.ndarray, alpha: float | None):
        self.rows, self.base, self.alpha, self.size = rows, base, alpha, len(base)
        self.codes = rows.y.astype(int)
        self.num_steps, self.status = 0, Status.converged
        self.last = np.zeros(self.size + rows.size - 1)

    def prior(self, phi: np.ndarray) -> np.ndarray:
        alpha = np.exp(phi[0]) if self.alpha is None else self.alpha
        return np.r_[np.full(self.size, _SPREAD**-2), np.full(self.rows.size - 1, alpha)]

    def sweep(self, unknown: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        rows, k, size = self.rows, self.codes, self.size
        gates = np.r_[-np.inf, self.base + unknown[:size], np.inf]
        if (np.diff(gates) <= 0).any():
            return np.inf, np.zeros_like(unknown), np.eye(len(unknown))
        eta, w = predictor(rows, np.r_[0.0, unknown[size:]]), rows.weights
        u, low = gates[k + 1] - eta, gates[k] - eta
        width = gates[k + 1] - gates[k]
        tie = 1 / np.expm1(width)  # zero where an end is infinite
        value = log_expit(u) + log_expit(-low) + np.log(-np.expm1(-width))
        above, below = w * expit(u) * expit(-u), w * expit(low) * expit(-low)
        rise, fall = w * (expit(-u) + tie), -w * (expit(low) + tie)
        narrow = w * tie * (1 + tie)
        slope, curvature = rows.gram(rise + fall, above + below)
        gradient = np.r_[-_sums(rise, k, fall, k - 1, size), slope[1:]]
        gates_bend = np.diag(_sums(above + narrow, k, below + narrow, k - 1, size))
        beside = np.bincount(k, narrow, size + 1)[1:size]
        gates_bend[np.arange(size - 1), np.arange(1, size)] = -beside
        gates_bend[np.arange(1, size), np.arange(size - 1)] = -beside
        cross = -_crossed(rows, above, below, k, size)
        return -float(w @ value), gradient, np.block([[gates_bend, cross], [cross.T, curvature[1:, 1:]]])

    def solve(self, phi: np.ndarray) -> tuple[Mode, float, np.ndarray]:
        prior = self.prior(phi)
        found = mode_of(self.sweep, self.last, prior, self.rows.total)
        self.last, self.num_steps, self.status = found.beta, self.num_steps + found.num_steps, found.status
        return found, *laplace_evidence(found, prior)

    def evidence(self, phi: np.ndarray) -> float:
        return self.solve(phi)[1]


def fit_ordinal(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    prior_precision: float | int | str = "evidence",
) -> OrdinalLinear:
    """The posterior of cumulative logits; `y` are codes 0, 1, ... in the order of the classes.

    >>> found = fit_ordinal([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 1, 2, 2])
    >>> found.predict_proba([[-1.0], [6.0]]).argmax(1).tolist(), found.verdict
    ([0, 2], Converged.)
    """
    table = Rows.of(X, y, weights, target="class", num_classes=num_classes)
    counts = np.bincount(np.asarray(table.y), table.weights, table.num_classes)
    check(len(counts) > 1, "y", "of at least two classes", "one class")
    shares = (counts + 0.5) / (counts.sum() + 0.5 * len(counts))
    base = logit(np.cumsum(shares)[:-1])
    alpha = given_precision("prior_precision", prior_precision)
    plain = Rows.of(table.X, np.asarray(table.y, float), table.weights, target="number")
    with one_blas_thread(table.num_columns < 300):
        rows, columns = design_of(plain, True)
        problem, count = _Problem(rows, base, alpha), len(rows.x)
        few = count <= _FEW_ROWS and rows.size <= _FEW_COLUMNS
        some = _Problem(rows.every(count // _SEARCHED), base, alpha) if count > _MANY else problem
        hyper = _HYPER if alpha is None else Hyper(*(np.zeros(0) for _ in range(4)))
        nodes = nodes_of(some.evidence, hyper, many=few)
        problem.last = some.last
        found = [problem.solve(phi) for phi in nodes.phi]
    log_total = nodes.log_total
    if some is not problem:  # the same width of the precision's law, about the evidence of all rows
        log_total += found[0][1] - some.evidence(nodes.phi[0])
    size = len(base)
    precisions = np.exp(nodes.phi[:, 0]) if alpha is None else np.array([alpha])
    return OrdinalLinear(
        nodes.weights, np.stack([mode.beta[:size] + base for mode, *_ in found]),
        np.stack([mode.beta[size:] for mode, *_ in found]), np.stack([cov for *_, cov in found]), precisions,
        float(log_total), shares, columns.centre, columns.scale, columns.turn, problem.num_steps,
        int(problem.status),
    )  # fmt: skip


def _middle(shares: np.ndarray) -> np.ndarray:
    """How far each threshold stands for all of them: by the rows about it."""
    return (shares[:-1] + shares[1:]) / (shares[:-1] + shares[1:]).sum()


def _sums(first: Any, places: Any, second: Any, others: Any, size: int) -> np.ndarray:
    """Sums by threshold of what rows have at their upper and at their lower one."""
    own = np.bincount(places, first, size + 1)[:size]
    return own + np.bincount(others + 1, second, size + 1)[1:]


def _crossed(rows: StandardRows, above: Any, below: Any, k: Any, size: int) -> np.ndarray:
    r"""$\sum_ia_iz_i^\top$ by threshold."""
    args = (rows.x, rows.centre, 1 / rows.scale, rows.size)

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((size + 2, rows.size - 1))
        for cut, z in _standard(*args, low, high):
            for code in np.unique(k[cut]):
                own = k[cut] == code
                total[code + 1] += above[cut][own] @ z[own, 1:]
                total[code] += below[cut][own] @ z[own, 1:]
        return total[1:-1]

    return np.sum(over_rows(part, len(rows.x)), axis=0)
