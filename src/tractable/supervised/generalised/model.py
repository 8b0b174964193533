r"""Generalised linear models with one linear predictor: the posterior by Laplace, the rest integrated over.

Model.       $y_i \sim p(\cdot \mid \eta_i, \theta)$, $\eta_i = o_i + b + \beta^\top z_i$ with offsets $o$ and
             standardised columns $z$; $\beta \sim N(0, \alpha^{-1}I)$, $b \sim N(b_0, s^2)$ about the fit
             without columns, $\alpha^{-1/2} \sim \mathrm{Exp}(2.3)$, and a normal prior for the shape
             $\theta$.
Posterior.   A normal for $(b, \beta)$ at each node of $(\log\alpha, \theta)$ (`engine`).
Predictive.  $\int p(y \mid \eta, \theta)\,p(\eta, \theta \mid D)$: at each node Gauss and Hermite in $\eta$.
Large        More than 30,000 rows are searched on a part of them; then the shape moves to the top of a
tables.      parabola through three fits to all rows, and one fit to all rows ends it.
Cost.        $O(np^2)$ per pass; for $10^6$ rows about ten passes over all of them.
References.  McCullagh and Nelder (1989); Rue, Martino and Chopin (2009).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_shape
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.supervised.generalised.design import Columns, design_of, row_pass, row_sum
from tractable.supervised.generalised.engine import (
    Hyper,
    Mode,
    Nodes,
    given_precision,
    laplace_evidence,
    mode_of,
    nodes_of,
)
from tractable.supervised.generalised.families import FAMILIES
from tractable.supervised.generalised.mixed import MixedLaw
from tractable.supervised.logistic.newton import StandardRows

__all__ = ["GeneralisedLinear", "Prepared", "fit_generalised", "fitted", "log_offset", "prepared"]

_ALPHA = (2.0, 3.0)  # centre and scale of the search of the log-precision
_RATE = 2.3  # of the exponential prior of the coefficients' deviation: above one with probability 0.1
_MANY = 30_000  # rows beyond which a part of them is searched
_SEARCHED = 15_000
_FEW_ROWS, _FEW_COLUMNS = 3_000, 100  # up to which hyperparameters are integrated over
_NUDGE = 0.02  # of a shape number, for the parabola through fits to all rows


class GeneralisedLinear(Ended, HostResult):
    """A posterior: normal laws of the coefficients of standardised columns at weighted nodes.

    `weights` (k,) of the nodes, `means` (k, p), `covs` (k, p, p), `shapes` (k, s), `precisions` (k,) of the
    prior. `base` is what the intercept is counted from. Draws of chains are nodes of equal weight without
    `covs`; `chains` is then the verdict on them.
    """

    weights: Any
    means: Any = field(show=False)
    covs: Any = field(show=False)
    shapes: Any
    precisions: Any
    log_evidence: float
    base: float
    centre: Any = field(show=False)
    scale: Any = field(show=False)
    turn: Any = field(show=False)
    num_steps: int
    code: int
    low: float
    size: float
    family: str = field(static=True)
    has_intercept: bool = field(static=True)
    num_points: int = field(static=True)
    chains: Verdict | None = field(show=False, default=None)

    @property
    def columns(self) -> Columns:
        return Columns(self.centre, self.scale, self.turn, self.has_intercept)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result."""
        numbers = {"log_evidence": self.log_evidence, "precision": float(self.weights @ self.precisions)}
        if self.chains is None:
            return Verdict(self.status.ok, self.ending, numbers)
        told = f"Mode: {self.ending} Draws: {self.chains.sentence}"
        return Verdict(self.status.ok and self.chains.ok, told, numbers | self.chains.numbers)

    def predictors(self, X: ArrayLike | Rows, offset: ArrayLike | None = None) -> tuple[Any, Any]:
        """Mean and variance of the linear predictor of each row at each node, both (n, k)."""
        z, rest = self.columns(X)
        add = self.base + (0.0 if offset is None else np.asarray(offset, float)[:, None])
        mean = z @ self.means.T + add
        spread = rest[:, None] / self.precisions
        if self.covs is not None:
            spread = spread + np.stack([((z @ cov) * z).sum(1) for cov in self.covs], 1)
        return mean, np.maximum(spread, 0.0)

    def predict_dist(self, X: ArrayLike | Rows, offset: ArrayLike | None = None) -> MixedLaw:
        """The predictive law of each row."""
        mean, variance = self.predictors(X, offset)
        points, shares = np.polynomial.hermite_e.hermegauss(self.num_points)
        eta = mean[:, :, None] + np.sqrt(variance)[:, :, None] * points
        weights = np.outer(self.weights, shares / shares.sum()).ravel()
        shapes = np.repeat(self.shapes, self.num_points, 0).T[:, None]
        return MixedLaw.of(self.family, weights, eta.reshape(len(eta), -1), shapes, self.low, self.size)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and deviations for the columns as they came, the intercept first."""
        covs = [None] * len(self.means) if self.covs is None else self.covs
        parts = zip(self.means, covs, self.precisions)
        found = [self.columns.back(*part) for part in parts]
        values, variances = (np.stack(each) for each in zip(*found))
        if self.has_intercept:
            values[:, 0] += self.base
        mean = self.weights @ values
        return mean, np.sqrt(self.weights @ (variances + (values - mean) ** 2))


class _Problem:
    """One table and one family: the evidence of hyperparameters, each search from the last answer."""

    def __init__(self, family: Any, rows: StandardRows, offset: np.ndarray, base: float, alpha: float | None):
        self.family, self.rows, self.alpha = family, rows, alpha
        self.offset = offset + base
        self.total, self.num_steps, self.status = rows.total, 0, Status.converged
        self.last = np.zeros(rows.size)

    def part(self, share: int) -> "_Problem":
        problem = _Problem(self.family, self.rows.every(share), self.offset[::share], 0.0, self.alpha)
        return problem

    def split(self, phi: np.ndarray) -> tuple[float, np.ndarray]:
        """The precision of the prior and the shape numbers."""
        if self.alpha is not None:
            return self.alpha, phi
        return float(np.exp(phi[0])), phi[1:]

    def prior(self, alpha: float) -> np.ndarray:
        each = np.full(self.rows.size, alpha)
        if self.rows.intercept:
            each[0] = self.family.intercept_spread**-2
        return each

    def solve(self, phi: np.ndarray) -> tuple[Mode, float, np.ndarray]:
        """The mode, its evidence and the posterior covariance."""
        alpha, shape = self.split(phi)
        rows, prior = self.rows, self.prior(alpha)
        y, offset, family = rows.y, self.offset, self.family
        rest = row_sum(rows, lambda targets: family.rest(targets, shape))

        def terms(cut: slice, eta: np.ndarray) -> tuple:
            return family.terms(y[cut], eta + offset[cut], shape)

        def sweep(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            return row_pass(rows, beta, terms)

        found = mode_of(sweep, self.last, prior, self.total, tol=family.fall)
        self.last, self.num_steps = found.beta, self.num_steps + found.num_steps
        self.status = found.status
        evidence, cov = laplace_evidence(found, prior)
        return found, evidence + rest, cov

    def evidence(self, phi: np.ndarray) -> float:
        return self.solve(phi)[1]


def fit_generalised(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    family: str,
    offset: ArrayLike | None = None,
    event: ArrayLike | None = None,
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
    bounds: tuple[float, float] = (0.0, 1.0),
    check_targets: bool = True,
) -> GeneralisedLinear:
    r"""The posterior of a generalised linear model.

    `family` is one of `families.FAMILIES` but "normal" (see `heteroscedastic`). `offset` is added to the
    linear predictor of each row; `event` says of each time whether it ended by the event (else it is
    censored); `prior_precision` is $\alpha$, or "evidence" to integrate over it; `bounds` are those of
    proportions.

    >>> found = fit_generalised([[0.0], [1.0], [2.0], [3.0]] * 5, [1, 2, 4, 9] * 5, family="poisson")
    >>> found.coefficients()[0].round(1).tolist(), found.verdict
    ([0.0, 0.7], Converged.)
    """
    options: Any = {"offset": offset, "event": event, "bounds": bounds, "check_targets": check_targets}
    return fitted(prepared(X, y, weights, family, intercept, prior_precision, **options))


class Prepared(NamedTuple):
    """A checked table as one problem, and what its answer is to be told in."""

    problem: _Problem
    hyper: Hyper
    columns: Columns
    base: float
    low: float
    size: float


def prepared(
    X: Any, y: Any, weights: Any, family: str, intercept: bool, given: Any, *, offset: Any = None,
    event: Any = None, bounds: tuple[float, float] = (0.0, 1.0), check_targets: bool = True,
) -> Prepared:  # fmt: skip
    """The problem of `fit_generalised`."""
    from tractable.supervised.generalised.positive import censor

    table = Rows.of(X, y, weights, target="number", absent="keep")
    law, (low, high) = FAMILIES[family], bounds if family == "beta" else (0.0, 1.0)
    targets = (np.asarray(table.y, float) - low) / (high - low)
    if event is not None:
        targets = censor(targets, _flags(event, len(targets)))
    shift = np.zeros(len(targets)) if offset is None else np.asarray(offset, float)
    check_shape("offset", shift, (len(targets),))
    check(bool(np.isfinite(shift).all()), "offset", "finite", "NaN or infinity")
    keep = table.weights > 0
    if check_targets:
        law.check(targets[keep] if not keep.all() else targets)
    table, shift = Rows.of(table.X[keep], targets[keep], table.weights[keep], target="number"), shift[keep]
    rows, columns = design_of(table, intercept)
    base = law.start(rows.y, rows.weights, shift) if intercept else 0.0
    alpha = given_precision("prior_precision", given)
    problem, hyper = _Problem(law, rows, shift, base, alpha), _hyper(law, rows, shift, alpha is None)
    return Prepared(problem, hyper, columns, float(base), float(low), float(high - low))


def _hyper(law: Any, rows: StandardRows, offset: np.ndarray, searched: bool) -> Hyper:
    """The prior of the shape numbers, and before them of the log-precision where it is `searched`."""
    means, spreads = list(law.shape_mean), list(law.shape_spread)
    start = law.shape_start(rows.y, rows.weights, offset)
    if searched:
        means, spreads, start = [_ALPHA[0], *means], [_ALPHA[1], *spreads], [_ALPHA[0], *start]
    rates = [_RATE] * searched + [0.0] * len(law.shape_mean)
    return Hyper(*(np.array(each, float) for each in (means, spreads, start, rates)))


def fitted(task: Prepared) -> GeneralisedLinear:
    """Laplace's posterior of a prepared problem."""
    problem, columns, rows = task.problem, task.columns, task.problem.rows
    with one_blas_thread(len(columns.centre) < 300):
        nodes = _searched(problem, task.hyper)
        found = [problem.solve(phi) for phi in nodes.phi]
    parts = [problem.split(phi) for phi in nodes.phi]
    shapes = np.array([shape for _, shape in parts]).reshape(len(parts), -1)
    extra = -float(rows.weights.sum()) * np.log(task.size)
    return GeneralisedLinear(
        nodes.weights, np.stack([mode.beta for mode, _, _ in found]), np.stack([cov for *_, cov in found]),
        shapes, np.array([a for a, _ in parts]), float(nodes.log_total + extra), task.base, columns.centre,
        columns.scale, columns.turn, problem.num_steps, int(problem.status), task.low, task.size,
        problem.family.name, columns.intercept, _num_points(rows, found),
    )  # fmt: skip


def _num_points(rows: StandardRows, found: list) -> int:
    """How many points the linear predictor needs: three where it is known to a tenth in all fitted rows."""
    if len(rows.x) > _FEW_ROWS:
        return 3
    z = rows.design()
    return 3 if max(((z @ cov) * z).sum(1).max() for *_, cov in found) < 0.01 else 5


def _searched(problem: _Problem, hyper: Hyper) -> Nodes:
    """The nodes of all rows: searched on a part of them where they are very many."""
    count = len(problem.rows.x)
    if count <= _MANY:
        many = count <= _FEW_ROWS and problem.rows.size <= _FEW_COLUMNS
        return nodes_of(problem.evidence, hyper, many=many)
    some = problem.part(count // _SEARCHED)
    phi = nodes_of(some.evidence, hyper, many=False).phi[0]
    problem.last = some.last
    size, log_total = len(problem.family.shape_mean), 0.0
    axes = np.eye(len(phi))[len(phi) - size :]
    for axis in axes:
        low, top, high = (problem.evidence(phi + step * axis) for step in (-_NUDGE, 0.0, _NUDGE))
        bend = 2 * top - low - high
        if bend > 0:
            phi = phi + axis * np.clip(0.5 * _NUDGE * (high - low) / bend, -5 * _NUDGE, 5 * _NUDGE)
            log_total += 0.5 * np.log(2 * np.pi * _NUDGE**2 / bend)
    log_total += problem.evidence(phi) + hyper.log_prior(phi)
    if len(phi) > size:  # the width of the log-precision's law is that of its number of coefficients
        log_total += 0.5 * np.log(4 * np.pi / problem.rows.size)
    return Nodes(phi[None], np.ones(1), float(log_total))


def log_offset(exposure: ArrayLike | None, num_rows: int) -> np.ndarray | None:
    """The offset of counts over so much time or area each."""
    if exposure is None:
        return None
    amount = np.asarray(exposure, float)
    check_shape("exposure", amount, (num_rows,))
    check(
        bool((np.isfinite(amount) & (amount > 0)).all()), "exposure", "positive and finite", "other numbers"
    )
    return np.log(amount)


def _flags(event: ArrayLike, num_rows: int) -> np.ndarray:
    flags = np.asarray(event)
    check_shape("event", flags, (num_rows,))
    check(
        bool(np.isin(flags, (0, 1)).all()), "event", "0 (censored) or 1 (seen) for each row", "other values"
    )
    return flags.astype(bool)
