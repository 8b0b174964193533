r"""Linear quantile regression at a grid of levels: lines, their errors, and the predictive law of a row.

Model.       $Q_\tau(y \mid x) = b_\tau + w_\tau^\top x$ for each of the levels $\tau$.
Prior.       $w_\tau \sim N(0, \alpha^{-1}I)$ for standardised columns. A line has errors of precision $P =
             f^2G/\tau(1 - \tau)$ with $G = \sum_iw_iz_iz_i^\top$ and the density $f$ of the noise at it, so
             that the penalty $\tfrac\lambda2\lVert w\rVert^2$ beside the check loss that stands for the prior
             has $\lambda = \alpha\,\tau(1 - \tau)/f$. "evidence" is the $\alpha$ under which lines like
             those at three levels are most probable, $\sum\log N(\hat w_\tau \mid 0, P^{-1} + \alpha^{-1}I)$,
             beside $\alpha^{-1/2} \sim \mathrm{Exp}(2.3)$ in deviations of the target.
Order.       Lines cross somewhere; the quantiles of a row are put in order (Chernozhukov et al.), which
             brings them nearer to the true ones.
Calm.        The gaps of a law are made of lines whose slopes differ only as much as the rows can show
             (`_calm`): most of what differs between neighbouring lines is noise.
Predictive.  A new row is beyond $\hat Q_\tau(x)$ more often than the level says, by what is not known of the
             line: $q_\tau = m \pm\sqrt{(\hat Q_\tau - m)^2 + \Phi^{-1}(\tau)^2v_\tau(x)}$ about the median,
             $v_\tau(x)$ the expected square of the error of $\hat Q_\tau(x)$, exact for normal noise. Tails
             are exponential (`law`), as wide as the excesses of the rows say. No gap between neighbours is
             less than a fifth of its usual share of the whole width, nor that less than a fifth of the usual.
Cost.        For each level some fifteen passes of $O(np^2)$; four with more than 30,000 rows.
References.  Koenker and Bassett (1978); Koenker (2005); Chernozhukov, Fernandez-Val and Galichon (2010);
             James and Stein (1961).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.supervised.generalised.design import Columns, design_of
from tractable.supervised.quantile.law import QuantileLaw
from tractable.supervised.quantile.search import Line, Table, weighted_quantiles

__all__ = ["QuantileLinear", "fit_quantiles", "usual_levels"]

_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_BEYOND = 5.0  # rows beyond a level that it needs, one for two columns besides
_RATE = 2.3  # of the exponential prior of the coefficients' deviation, in deviations of the target
_PART = 5_000  # rows that choose the prior
_SHAPED = 20_000  # rows that show the usual shape of the law
_LEAST = 0.2  # of a usual gap
_WORTH = 5.0  # excesses for which the exponential tail that continues the last gap counts


class QuantileLinear(Ended, HostResult):
    """Lines of standardised columns at `levels` (m,): `beta` (m, p), with expected squares of their errors
    `covs` (m, p, p), and the `calm` ones (m, p) that laws are made of.

    `precision` is that of the prior, zero without one; `shares` (m - 1,) are usual gaps between neighbours
    over the width of a law, `width` is that, and `tails` two factors.
    """

    levels: Any
    beta: Any = field(show=False)
    calm: Any = field(show=False)
    covs: Any = field(show=False)
    precision: float
    gap: float = field(about="the largest distance of an objective from its lower bound, relative")
    shares: Any = field(show=False)
    width: float
    tails: Any
    level: float = field(about="what targets are counted from")
    size: float = field(about="the unit of the targets")
    centre: Any = field(show=False)
    scale: Any = field(show=False)
    turn: Any = field(show=False)
    num_steps: int
    code: int
    has_intercept: bool = field(static=True)

    @property
    def columns(self) -> Columns:
        return Columns(self.centre, self.scale, self.turn, self.has_intercept)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result."""
        numbers = {"gap": self.gap, "precision": self.precision}
        return Verdict(self.status.ok, self.ending, numbers)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (m, 1 + d) for the columns as they came, the intercept first, and their standard
        errors."""
        alpha = self.precision or np.inf
        found = [self.columns.back(beta, cov, alpha) for beta, cov in zip(self.beta, self.covs)]
        values, variances = (np.stack(part) for part in zip(*found))
        values = values * self.size
        if self.has_intercept:
            values[:, 0] += self.level
        return values, self.size * np.sqrt(np.maximum(variances, 0.0))

    def quantiles(self, X: ArrayLike | Rows) -> np.ndarray:
        """The fitted quantiles of each row (n, m), in order."""
        z, _ = self.columns(X)
        return self.level + self.size * np.sort(z @ self.beta.T, axis=1)

    def predict_dist(self, X: ArrayLike | Rows, *, errors: bool = True) -> QuantileLaw:
        """The law of each row; without `errors` that of the fitted quantiles as they are."""
        z, rest = self.columns(X)
        places = np.sort(z @ self.beta.T, axis=1)
        if errors:
            middle = int(np.flatnonzero(self.levels == 0.5)[0])
            calm = np.sort(z @ self.calm.T, axis=1)
            calm += (places - calm)[:, middle : middle + 1]  # one median
            places = _widened(calm, self._variances(z, rest), self.levels, middle)
            places = _apart(places, self.shares, self.width, middle)
        left, right = _tails(places, self.levels, self.tails)
        moved = self.level + self.size * places
        return QuantileLaw.of(self.levels, moved, self.size * left, self.size * right)

    def _variances(self, z: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Of the errors of the lines at each row, (n, m)."""
        unseen = rest / self.precision if self.precision > 0 else 0.0
        return np.stack([np.maximum(((z @ cov) * z).sum(1), 0.0) + unseen for cov in self.covs], 1)


def usual_levels(total: float, num_columns: int) -> tuple[float, ...]:
    """From 0.01 to 0.99, those with enough rows beyond them.

    >>> usual_levels(60.0, 2)
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """
    need = (_BEYOND + 0.5 * num_columns) / max(total, 1.0)
    kept = tuple(level for level in _LEVELS if min(level, 1 - level) >= need - 1e-12)
    return kept if len(kept) > 3 else (0.2, 0.35, 0.5, 0.65, 0.8)


def fit_quantiles(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    levels: ArrayLike | str = "auto",
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
) -> QuantileLinear:
    r"""Lines at `levels`, to which 0.5 is added where it is not among them.

    `prior_precision` is $\alpha$ for standardised columns and targets, "evidence", or 0 for no prior: the
    lines of least check loss themselves.

    >>> found = fit_quantiles([[0.0], [1.0], [2.0], [3.0]] * 2, [0, 1, 2, 3, 2, 3, 4, 5], levels=[0.2, 0.8],
    ...                       prior_precision=0)
    >>> found.quantiles([[1.0], [3.0]]).round(2).tolist(), found.verdict
    ([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], Converged.)
    """
    table = Rows.of(X, y, weights, target="number")
    given = _prior_of(prior_precision)
    chosen = _levels_of(levels, float(table.weights.sum()), table.num_columns)
    with one_blas_thread(table.num_columns < 300):
        return _fitted(table, chosen, intercept, given)


def _fitted(table: Rows, levels: np.ndarray, intercept: bool, given: float | None) -> QuantileLinear:
    y, w = np.asarray(table.y, float), table.weights
    base = float(weighted_quantiles(y, w, 0.5)) if intercept else 0.0
    size = float(np.sqrt(w @ (y - base) ** 2 / w.sum())) or 1.0
    rows, columns = design_of(table, intercept)
    problem = Table(rows._replace(y=(rows.y - base) / size))
    slopes = np.r_[np.zeros(int(intercept)), np.ones(rows.size - int(intercept))]
    alpha = _evident_precision(problem, levels, slopes) if given is None else given
    lines, covs = [], []
    for level in levels:
        ridge = slopes * _penalty(problem, level, alpha)
        lines.append(problem.line(level, ridge))
        variances = slopes / alpha if alpha > 0 else 0.0 * slopes
        covs.append(problem.covariance(lines[-1], level, ridge, variances))
    beta, covs = np.stack([line.beta for line in lines]), np.stack(covs)
    calm = _calm(problem.gram(), beta, covs, levels, int(intercept))
    shape = _shape(problem, calm, covs, levels)
    worst = max(lines, key=lambda line: line.gap)
    status = next((line.status for line in lines if not line.status.ok), Status.converged)
    search = sum(line.num_steps for line in lines), int(status), intercept
    parts: Any = (levels, beta, calm, covs, float(alpha), float(worst.gap), *shape, base, size,
                  columns.centre, columns.scale, columns.turn, *search)  # fmt: skip
    return QuantileLinear(*parts)


def _calm(gram: np.ndarray, beta: np.ndarray, covs: np.ndarray, levels: np.ndarray, first: int) -> np.ndarray:
    r"""Lines for laws, which are made of gaps: of what differs between neighbours most is noise.

    On each side of the median the slopes differ by $D$ in all, and by $d_k = \omega_kD + e_k$ from one line
    to the next, with the shares $\omega_k$ of the gaps in the width of a usual row. $D$ and each $e_k$ count
    by $1 - \mathrm{tr}\,GN/d^\top Gd$ of their noise $N$ (James and Stein): not at all where the width is
    even, wholly where it surely is not; and the shape is that of all rows unless rows say otherwise.
    """
    middle, moved = int(np.flatnonzero(levels == 0.5)[0]), beta.copy()
    spread, noises = (
        gram[first:, first:],
        [np.sum(gram * cov) - gram[0, 0] * cov[0, 0] * first for cov in covs],
    )

    def counted(step: np.ndarray, low: int, high: int) -> np.ndarray:
        """A difference of two lines without what is likely to be noise."""
        linked = np.sqrt(levels[low] * (1 - levels[high]) / (levels[high] * (1 - levels[low])))
        noise = noises[low] + noises[high] - 2 * linked * np.sqrt(noises[low] * noises[high])
        size = float(step @ spread @ step)
        return step * max(1 - noise / size, 0.0) if size > 0 else step

    for places in (range(middle, -1, -1), range(middle, len(levels))):
        order = list(places)
        if len(order) < 2:
            continue
        ends = sorted((order[0], order[-1]))
        whole, gaps = (beta[order[-1]] - beta[middle])[first:], np.abs(np.diff(beta[order, 0]))
        shares = gaps / gaps.sum() if first and gaps.sum() > 0 else np.full(len(gaps), 1 / len(gaps))
        kept = counted(whole, *ends)
        for share, at, after in zip(shares, order[:-1], order[1:]):
            step = (beta[after] - beta[at])[first:] - share * whole
            moved[after, first:] = moved[at, first:] + share * kept + counted(step, *sorted((at, after)))
    return moved


def _penalty(problem: Table, level: float, alpha: float) -> float:
    """What stands for the prior beside the check loss, by the density at the line of a part of the rows."""
    return alpha * level * (1 - level) / problem.part(_PART).marginal_density(level) if alpha > 0 else 0.0


def _evident_precision(problem: Table, levels: np.ndarray, slopes: np.ndarray) -> float:
    """The precision of the prior under which the lines of three levels are most probable."""
    some = problem.part(_PART)
    shift = int(slopes[0] == 0)
    if len(slopes) == shift:
        return 1.0
    logs = np.linspace(-8.0, 16.0, 241)
    alpha = np.exp(logs)
    value = np.log(_RATE / 2) - 0.5 * logs - _RATE * np.exp(-0.5 * logs)
    for level in (levels[0], 0.5, levels[-1]):
        line = some.line(level, slopes * _penalty(some, level, 1.0))
        value = value + _line_evidence(some, line, level, alpha, shift)
    return float(alpha[np.argmax(value)])


def _line_evidence(table: Table, line: Line, level: float, alpha: np.ndarray, shift: int) -> np.ndarray:
    r"""$\log N(w^* \mid 0, P^{-1} + \alpha^{-1}I)$ of the free line $w^*$ that was drawn to $\hat w$ by the
    prior of precision one."""
    if not np.isfinite(line.density):
        return np.zeros_like(alpha)
    gram = table.gram()
    if shift:
        gram = gram[1:, 1:] - np.outer(gram[1:, 0], gram[0, 1:]) / gram[0, 0]
    values, vectors = np.linalg.eigh(gram * line.density**2 / (level * (1 - level)))
    keep = values > 1e-10 * max(values[-1], 1e-300)
    d, c = values[keep], vectors[:, keep].T @ line.beta[shift:]
    free = c * (1 + 1 / d)
    share = alpha[:, None] * d / (alpha[:, None] + d)
    return 0.5 * (np.log(share) - share * free**2).sum(1)


def _shape(problem: Table, beta: np.ndarray, covs: np.ndarray, levels: np.ndarray) -> tuple:
    """Usual gaps over the width of a law, that width, and factors of the tails, from a part of the rows."""
    some = problem.part(_SHAPED).rows
    z, w = some.design(), some.weights
    places = np.sort(z @ beta.T, axis=1)
    widths = places[:, -1] - places[:, 0]
    total = float(w @ widths)
    if total == 0:
        return np.diff(levels) / (levels[-1] - levels[0]), 0.0, np.ones(2)
    shares = (w @ np.diff(places, axis=1)) / total
    width = total / float(w.sum())
    places = _apart(places, shares, width, int(np.flatnonzero(levels == 0.5)[0]))
    left, right = _tails(places, levels, np.ones(2))
    factors = []
    for excess, unit in ((places[:, 0] - some.y, left), (some.y - places[:, -1], right)):
        beyond = (excess > 0) & (unit > 0)
        parts = w[beyond] * excess[beyond] / unit[beyond]
        factors.append((_WORTH + parts.sum()) / (_WORTH + w[beyond].sum()))
    return shares, width, np.array(factors)


def _widened(places: np.ndarray, variances: np.ndarray, levels: np.ndarray, middle: int) -> np.ndarray:
    """Quantiles of a new target, of which the lines are not known exactly."""
    away = places - places[:, middle : middle + 1]
    side = np.sign(levels - 0.5)
    wide = side * np.sqrt(away**2 + ndtri(levels) ** 2 * variances)
    return places[:, middle : middle + 1] + np.sort(wide, axis=1)


def _apart(places: np.ndarray, shares: np.ndarray, width: float, middle: int) -> np.ndarray:
    """The same median, and gaps not far below their usual share."""
    whole = np.maximum(places[:, -1] - places[:, 0], _LEAST * width)[:, None]
    gaps = np.maximum(np.diff(places, axis=1), _LEAST * shares * whole)
    up = np.cumsum(gaps[:, middle:], axis=1)
    down = np.cumsum(gaps[:, :middle][:, ::-1], axis=1)[:, ::-1]
    centre = places[:, middle : middle + 1]
    return np.concatenate([centre - down, centre, centre + up], axis=1)


def _tails(places: np.ndarray, levels: np.ndarray, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales of the exponential tails that continue the density of the outer gaps, times factors."""
    gaps, steps = np.diff(places, axis=1), np.diff(levels)
    left = factors[0] * levels[0] * gaps[:, 0] / steps[0]
    return left, factors[1] * (1 - levels[-1]) * gaps[:, -1] / steps[-1]


def _levels_of(levels: Any, total: float, num_columns: int) -> np.ndarray:
    if isinstance(levels, str):
        check(levels == "auto", "levels", "'auto' or numbers between 0 and 1", repr(levels))
        return np.array(usual_levels(total, num_columns))
    given = np.asarray(levels, float).reshape(-1)
    ok = given.size > 0 and bool(((given > 0) & (given < 1)).all())
    check(ok, "levels", "'auto' or numbers between 0 and 1", given.tolist())
    found = np.unique(np.append(given, 0.5))
    check(len(found) > 1, "levels", "others beside 0.5, which show a spread", given.tolist())
    return found


def _prior_of(value: Any) -> float | None:
    must = "'evidence', 0 for no prior, or positive and finite"
    if isinstance(value, str):
        check(value == "evidence", "prior_precision", must, repr(value))
        return None
    check(bool(np.isfinite(value)) and value >= 0, "prior_precision", must, value)
    return float(value)
