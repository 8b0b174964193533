r"""The lines of one table at any level, and what is known of their errors.

Few rows.    `interior.least_check_loss` on all of them.
Many rows.   A part of them gives a start. The check loss rounded off by a logistic law of width $h$,
             $\tau r + h\log(1 + e^{-r/h})$, is minimised on all rows by Newton steps. Only rows near that
             line can still change sides: those far away enter a problem of the near ones by their slope, and
             are looked at again. Where none of them changed sides, the answer is that of all rows.
Errors.      $\hat\beta - \beta = (H + \Lambda)^{-1}(u - \Lambda\beta)$ with $\mathrm{Cov}\,u = \tau(1 - \tau)
             \sum_iw_iz_iz_i^\top$, $H = \sum_iw_if_iz_iz_i^\top$ and $f_i$ the density of the noise at the
             line, by a kernel of Hall and Sheather's width (Powell). Under the prior $N(0, A^{-1})$ the
             expected square is $(H + \Lambda)^{-1}(\mathrm{Cov}\,u + \Lambda A^{-1}\Lambda)(H +
             \Lambda)^{-1}$. The rows that the line meets say nothing about $f$ and are left out.
Cost.        $O(np^2)$ for each of some fifteen steps; with many rows, for four of them.
References.  Portnoy and Koenker (1997) for the sides that are known; He et al. (2023) for smoothed losses;
             Powell (1991); Hall and Sheather (1988).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from tractable.core.iterate import Status
from tractable.supervised.bayes_linear.evidence import profile_evidence
from tractable.supervised.bayes_linear.spectrum import spectrum_of
from tractable.supervised.bayes_linear.statistics import regression_statistics
from tractable.supervised.generalised.design import predictor, row_pass
from tractable.supervised.generalised.engine import mode_of
from tractable.supervised.linear.products import over_rows
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.sums import _standard
from tractable.supervised.quantile.interior import CheckFit, least_check_loss

__all__ = ["Line", "Table", "bandwidth"]

_MANY = 30_000  # rows beyond which most of them are put aside
_SEARCHED = 10_000
_NEAR = (5_000, 50, 4)  # rows that are not put aside: at least, for each coefficient, times $n^{2/3}$
_ROUNDS = 8
_MET = 1e-7  # in units of the targets: a residual that is zero but for rounding
_LEAST_NOISE = 1e-3  # in units of the targets: that a prior is measured by
_NORMAL = float(np.sqrt(2 * np.pi))


class Line(NamedTuple):
    """The coefficients at one level, the density of the noise there, and what the search says."""

    beta: np.ndarray
    density: float
    gap: float
    num_steps: int
    status: Status


class Table:
    """Standardised rows whose targets have about unit size, and lines through them."""

    def __init__(self, rows: StandardRows):
        self.rows, self.total = rows, rows.total
        self.many = len(rows.x) > _MANY
        self.z = None if self.many else rows.design()
        self._parts: dict[int, Table] = {}
        self._gram: np.ndarray | None = None
        self._residuals: np.ndarray | None = None

    def part(self, most: int) -> "Table":
        """At most so many of the rows, evenly."""
        share = -(-len(self.rows.x) // most)
        if share > 1 and share not in self._parts:
            self._parts[share] = Table(self.rows.every(share))
        return self._parts[share] if share > 1 else self

    def line(self, level: float, ridge: np.ndarray) -> Line:
        """Of least check loss at a level, with this diagonal of a quadratic penalty."""
        found = self._of_many(level, ridge) if self.many else self._of_few(level, ridge)
        return Line(found.beta, self.density(found.beta, level)[0], found.gap, found.num_steps, found.status)

    def _of_few(self, level: float, ridge: np.ndarray) -> CheckFit:
        return least_check_loss(self.rows.design() if self.z is None else self.z, self.rows.y,
                                self.rows.weights, level, ridge)  # fmt: skip

    def _of_many(self, level: float, ridge: np.ndarray) -> CheckFit:
        rows, total = self.rows, self.total
        some = self.part(_SEARCHED)
        start = some.line(level, ridge * some.total / total).beta
        beta, steps = self._smoothed(level, ridge, start)
        residual = rows.y - predictor(rows, beta)
        least, each, times = _NEAR
        near = np.zeros(len(residual), bool)
        count = int(max(least, each * rows.size, times * len(residual) ** (2 / 3)))
        for _ in range(_ROUNDS):
            near[np.argpartition(np.abs(residual), min(count, len(near) - 1))[:count]] = True
            side = residual > 0
            slope = np.where(near, 0.0, rows.weights * (side - (1 - level)))
            z = _standard_rows(rows, near)
            found = least_check_loss(z, rows.y[near], rows.weights[near], level, ridge, _pull(rows, slope))
            steps += found.num_steps
            residual = rows.y - predictor(rows, found.beta)
            wrong = ~near & (side != (residual > 0))
            if not wrong.any():
                return found._replace(num_steps=steps)
            near, count = near | wrong, 2 * count
        return self._of_few(level, ridge)

    def _smoothed(self, level: float, ridge: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, int]:
        """Close to the line, by Newton steps on a smooth loss."""
        y, width = self.rows.y, 0.3 * len(self.rows.y) ** (-1 / 3)

        def terms(cut: slice, eta: np.ndarray) -> tuple:
            r = (y[cut] - eta) / width
            below = expit(-r)
            value = -width * (level * r + np.logaddexp(0.0, -r))
            return value, level - below, below * (1 - below) / width

        found = mode_of(lambda b: row_pass(self.rows, b, terms), start, ridge, self.total, tol=1e-7)
        return found.beta, found.num_steps

    def density(self, beta: np.ndarray, level: float) -> tuple[float, np.ndarray]:
        r"""The mean of $f_i$ over the rows, and $w_if_i$ of each; rows that the line meets are left out."""
        weights = self.rows.weights
        residual = self.rows.y - predictor(self.rows, beta)
        seen = np.abs(residual) > _MET
        met = float(weights[~seen].sum()) / self.total
        scale = _scale(residual[seen], weights[seen]) if met < 1 else 0.0
        if scale == 0:
            return np.inf, np.zeros(len(weights))
        width = scale * bandwidth(level, self.total)
        each = np.exp(-0.5 * (residual / width) ** 2) * np.where(seen, weights, 0.0) / (width * _NORMAL)
        each /= 1 - met
        return float(each.sum() / self.total), each

    def marginal_density(self, level: float) -> float:
        """The density of the noise about a level of it, where its median is a line that least squares finds:
        what a penalty is measured by before the line is known."""
        if self._residuals is None:
            self._residuals = self._noise()
        residual, weights = self._residuals, self.rows.weights
        width = max(_scale(residual, weights), _LEAST_NOISE) * bandwidth(level, self.total)
        away = (residual - weighted_quantiles(residual, weights, level)) / width
        return float(weights @ np.exp(-0.5 * away**2) / (self.total * width * _NORMAL))

    def _noise(self) -> np.ndarray:
        """Residuals of the linear model of highest evidence, as large as that says the noise is."""
        rows = self.rows
        z, shift = rows.design()[:, int(rows.intercept) :], rows.intercept
        if self.total <= 1 + shift:
            return rows.y - shift * rows.y.mean()
        spectrum = spectrum_of(regression_statistics(z, rows.y, rows.weights), intercept=shift)
        alpha, beta = profile_evidence(spectrum)
        residual = rows.y - z @ spectrum.weights(alpha, beta)
        residual -= shift * (rows.weights @ residual) / self.total
        size = float(np.sqrt(rows.weights @ residual**2 / self.total))
        return residual / (size * np.sqrt(beta)) if size > _MET else residual

    def gram(self) -> np.ndarray:
        r"""$\sum_iw_iz_iz_i^\top$, computed once."""
        if self._gram is None:
            self._gram = _products(self.rows, self.rows.weights)
        return self._gram

    def covariance(self, line: Line, level: float, ridge: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """The expected squares of the errors of a line, under a prior of such `variances`."""
        if not np.isfinite(line.density):
            return np.zeros((self.rows.size,) * 2)
        each = self.density(line.beta, level)[1]
        bend = _products(self.rows, each)
        noise = level * (1 - level) * self.gram() + np.diag(ridge**2 * variances)
        inverse = np.linalg.pinv(bend + np.diag(ridge), rcond=1e-12, hermitian=True)
        return inverse @ noise @ inverse


def bandwidth(level: float, total: float) -> float:
    r"""Hall and Sheather's, for ranks, as a difference of normal quantiles: the width of a kernel over the
    deviation of the noise.

    >>> round(bandwidth(0.5, 1000.0), 3)
    0.246
    """
    quantile = ndtri(level)
    peak = np.exp(-0.5 * quantile**2) / _NORMAL
    share = total ** (-1 / 3) * ndtri(0.975) ** (2 / 3) * (1.5 * peak**2 / (2 * quantile**2 + 1)) ** (1 / 3)
    share = min(share, 0.9 * level, 0.9 * (1 - level))
    return float(ndtri(level + share) - ndtri(level - share)) / 2


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, levels: Any) -> Any:
    """Values with so much of the weight at or below them, in the middle where there are many of those."""
    order = np.argsort(values, kind="stable")
    ends, last = np.cumsum(weights[order]), len(values) - 1
    goals, slack = np.asarray(levels) * ends[-1], 1e-12 * ends[-1]
    low, high = np.searchsorted(ends, goals - slack), np.searchsorted(ends, goals + slack)
    return 0.5 * (values[order][np.minimum(low, last)] + values[order][np.minimum(high, last)])


def _scale(values: np.ndarray, weights: np.ndarray) -> float:
    """The deviation, or that of a normal law with the same quartiles where that is smaller."""
    mean = weights @ values / weights.sum()
    sd = float(np.sqrt(weights @ (values - mean) ** 2 / weights.sum()))
    low, high = weighted_quantiles(values, weights, (0.25, 0.75))
    robust = float(high - low) / 1.349
    return min(sd, robust) if robust > 0 else sd


def _standard_rows(rows: StandardRows, chosen: np.ndarray) -> np.ndarray:
    z = (rows.x[chosen] - rows.centre) / rows.scale
    return np.column_stack([np.ones(len(z)), z]) if rows.intercept else z


def _pull(rows: StandardRows, slopes: np.ndarray) -> np.ndarray:
    r"""$\sum_is_iz_i$ over standardised rows."""
    args = (rows.x, rows.centre, 1 / rows.scale, rows.size)

    def part(low: int, high: int) -> np.ndarray:
        return np.sum([slopes[cut] @ z for cut, z in _standard(*args, low, high)], axis=0)

    return np.sum(over_rows(part, len(slopes)), axis=0)


def _products(rows: StandardRows, weights: np.ndarray) -> np.ndarray:
    r"""$\sum_iw_iz_iz_i^\top$."""
    share = weights / rows.weights
    return row_pass(rows, np.zeros(rows.size), lambda cut, eta: (eta, eta, share[cut]))[2]
