r"""Predictive laws of rows on the host: one object for many rows, whatever model they come from.

Laws.        `log_density` is a density, or a mass where `discrete`; `cdf`, `quantile`, `mean`, `variance`.
             A distribution of the package becomes the law of its family (nothing is compiled); one of a
             family that is not listed is asked itself.
Quantiles.   Closed form for a family; elsewhere bisection between bounds, whole numbers where `discrete`.
Score.       $\mathrm{CRPS}(F, y) = \int (F(x) - 1[x \ge y])^2\,dx$: a sum over whole numbers, or both sides
             of $y$ by Gauss-Legendre in $u$ with $x = y \pm s\sinh u$.
Cost.        $O(n)$ special functions for each call; 50 times that for a quantile by bisection.
References.  Gneiting and Raftery (2007).
"""

from typing import Any

import numpy as np
from scipy import special

from tractable.core.checks import check
from tractable.supervised.row_law import RowLaw

__all__ = ["Laws", "NormalLaws", "laws_of"]

_HALVINGS = 50
_POINTS = np.polynomial.legendre.leggauss(48)
_LOG_2PI = float(np.log(2 * np.pi))
_MEMBERS = 24  # of a mixture of normals over a grid
_LONG = 3000  # whole numbers that are summed one by one


class Laws:
    """Laws of rows: what all kinds share."""

    discrete = False

    def __len__(self) -> int:
        raise NotImplementedError

    def log_density(self, y: Any) -> np.ndarray:
        """Of one target per row."""
        raise NotImplementedError

    def cdf(self, y: Any) -> np.ndarray:
        """The probability of at most `y`, one per row."""
        raise NotImplementedError

    @property
    def mean(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def variance(self) -> np.ndarray:
        raise NotImplementedError

    def take(self, rows: Any) -> "Laws":
        """The laws of some rows."""
        raise NotImplementedError

    def bounds(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Places between which the quantile lies."""
        raise NotImplementedError

    def place(self, level: float) -> np.ndarray:
        """Near the quantile, at no cost: where integrals have their nodes; it rises with the level."""
        low, high = self.bounds(level)
        return 0.5 * (low + high)

    def quantile(self, level: float) -> np.ndarray:
        """The least value not exceeded with probability `level`, of each row."""
        low, high = (np.array(end, float) for end in self.bounds(level))
        if self.discrete:
            low, high = np.floor(low) - 1, np.ceil(high)
        for _ in range(_HALVINGS):
            middle = np.floor(0.5 * (low + high)) if self.discrete else 0.5 * (low + high)
            reached = self.cdf(middle) >= level
            if self.discrete and np.all(high - low <= 1):
                break
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high if self.discrete else 0.5 * (low + high)

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def median(self) -> np.ndarray:
        return self.quantile(0.5)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def sample(self, generator: np.random.Generator, count: int = 1) -> np.ndarray:
        """Draws, one row per row and one column per draw."""
        return np.stack([self._drawn(generator.random(len(self))) for _ in range(count)], 1)

    def _drawn(self, u: np.ndarray) -> np.ndarray:
        return np.array([self.take(slice(i, i + 1)).quantile(float(p))[0] for i, p in enumerate(u)])

    def pit(self, y: Any) -> np.ndarray:
        """$F(y)$, the middle of its jump where there is one."""
        above = self.cdf(y)
        return 0.5 * (above + self.cdf(np.asarray(y, float) - 1)) if self.discrete else above

    def crps(self, y: Any) -> np.ndarray:
        """The continuous ranked probability score; smaller is better, in units of the target."""
        y = np.asarray(y, float)
        low, high = np.minimum(self.quantile(1e-5), y), np.maximum(self.quantile(1 - 1e-5), y)
        if self.discrete and np.max(high - low, initial=0) <= _LONG:
            steps = np.arange(int(np.max(high - low, initial=0)) + 1)
            terms = ((self.cdf(low + k) - (low + k >= y)) ** 2 * (low + k < high) for k in steps)
            return sum(terms, np.zeros(len(y)))
        unit = np.maximum(self.quantile(0.75) - self.quantile(0.25), 1e-6 * (high - low) + 1e-300)
        total = np.zeros(len(y))
        for side, far in ((-1.0, y - low), (1.0, high - y)):
            top = np.arcsinh(far / unit)
            for node, weight in zip(*_POINTS):
                u = 0.5 * top * (node + 1)
                below = self.cdf(y + side * unit * np.sinh(u))
                part = below if side < 0 else 1 - below
                total += weight * 0.5 * top * unit * np.cosh(u) * part**2
        return total


class NormalLaws(Laws):
    """Mixtures of normals, `(rows, members)`; one member is a normal law."""

    def __init__(self, weights: Any, loc: Any, scale: Any):
        loc, scale = np.asarray(loc, float), np.asarray(scale, float)
        loc, scale = np.broadcast_arrays(*(a[:, None] if a.ndim == 1 else a for a in (loc, scale)))
        self.weights, self.loc, self.scale = np.broadcast_to(weights, loc.shape), loc, scale

    def __len__(self) -> int:
        return len(self.loc)

    def log_density(self, y):
        z = (np.asarray(y, float)[:, None] - self.loc) / self.scale
        each = -0.5 * z**2 - np.log(self.scale) - 0.5 * _LOG_2PI
        if each.shape[1] == 1:
            return each[:, 0]
        with np.errstate(divide="ignore"):
            return special.logsumexp(each + np.log(self.weights), axis=1)

    def cdf(self, y):
        z = (np.asarray(y, float)[:, None] - self.loc) / self.scale
        return np.minimum((self.weights * special.ndtr(z)).sum(1), 1.0)  # weights add to one but for rounding

    @property
    def mean(self):
        return (self.weights * self.loc).sum(1)

    @property
    def variance(self):
        around = self.loc - self.mean[:, None]
        return (self.weights * (self.scale**2 + around**2)).sum(1)

    def take(self, rows):
        return NormalLaws(self.weights[rows], self.loc[rows], self.scale[rows])

    def bounds(self, level):
        ends = self.loc + special.ndtri(level) * self.scale
        return ends.min(1), ends.max(1)

    def quantile(self, level):
        if self.loc.shape[1] == 1:
            return self.loc[:, 0] + special.ndtri(level) * self.scale[:, 0]
        return super().quantile(level)


class _HostLaws(Laws):
    """A distribution that answers row by row on the host."""

    def __init__(self, distribution: Any):
        self.distribution, self.discrete = distribution, bool(distribution.discrete)
        self.cdf, self.log_density = distribution.cdf, distribution.row_log_probs

    def __len__(self) -> int:
        return self.distribution.shape[0]

    def quantile(self, level):
        return self.distribution.icdf(level)

    @property
    def mean(self):
        return self.distribution.mean

    @property
    def variance(self):
        return self.distribution.variance

    def take(self, rows):
        return _HostLaws(self.distribution.rows(rows))

    def bounds(self, level):
        found = self.quantile(level)
        return found, found


class _Asked(Laws):
    """A distribution of a family that is not listed, asked itself; rows are padded to few lengths."""

    def __init__(self, distribution: Any, rows: Any = None):
        self.distribution = distribution
        count = int(np.prod(distribution.shape))
        self.rows = np.arange(count) if rows is None else rows
        self.count, self.discrete = count, bool(getattr(distribution, "discrete", False))

    def __len__(self) -> int:
        return len(self.rows)

    def _whole(self, function: Any, y: Any) -> np.ndarray:
        filled = np.full(self.count, float(np.asarray(y, float)[0]) if len(self) else 0.0)
        filled[self.rows] = y
        return np.asarray(function(filled))[self.rows]

    def log_density(self, y):
        from tractable.supervised.selection.losses import negative_log_likelihood

        return self._whole(lambda v: -negative_log_likelihood(self.distribution, v), y)

    def cdf(self, y):
        return self._whole(self.distribution.cdf, y)

    def quantile(self, level):
        return np.broadcast_to(np.asarray(self.distribution.icdf(level)), (self.count,))[self.rows]

    @property
    def mean(self):
        return np.broadcast_to(np.asarray(self.distribution.mean), (self.count,))[self.rows]

    @property
    def variance(self):
        return np.broadcast_to(np.asarray(self.distribution.variance), (self.count,))[self.rows]

    def take(self, rows):
        return _Asked(self.distribution, self.rows[rows])

    def bounds(self, level):
        found = self.quantile(level)
        return found, found


def laws_of(distribution: Any) -> Laws:
    """The laws of a predictive distribution with one unit per row.

    >>> from tractable.distributions.continuous import Normal
    >>> laws_of(Normal([0.0, 1.0], 1.0)).cdf([0.0, 1.0]).tolist()
    [0.5, 0.5]
    """
    from tractable.race.families import FAMILIES, FamilyLaws

    name = type(distribution).__name__
    if isinstance(distribution, Laws):
        return distribution
    if name in ("Normal", "NormalMixture"):
        weights = getattr(distribution, "weights", 1.0)
        shape = distribution.shape
        loc, scale = (np.asarray(a, float) for a in (distribution.loc, distribution.scale))
        if name == "Normal":
            loc, scale = np.broadcast_to(loc, shape), np.broadcast_to(scale, shape)
        return NormalLaws(*_fewer(np.asarray(weights, float), loc, scale))
    if isinstance(distribution, RowLaw):
        return _HostLaws(distribution)
    if name in FAMILIES:
        return FamilyLaws.of(name, distribution)
    return _Asked(distribution)


def _fewer(weights: np.ndarray, loc: np.ndarray, scale: np.ndarray) -> tuple:
    """A mixture over a grid with neighbours merged, mean and variance kept: a grid has thousands of members,
    and what distinguishes them is their scale, which is put in order first."""
    if loc.ndim < 2 or loc.shape[1] <= _MEMBERS or weights.ndim > 1:
        return weights, loc, scale
    order = np.argsort(scale.mean(0), kind="stable")
    w, m, s = weights[order], loc[:, order], scale[:, order]
    group = np.minimum((np.cumsum(w) - 0.5 * w) * _MEMBERS / w.sum(), _MEMBERS - 1).astype(int)
    belongs = np.eye(_MEMBERS)[group] * w[:, None]  # (members before, after)
    totals = belongs.sum(0)
    used = totals > 0
    share = belongs[:, used] / totals[used]
    centre = m @ share
    square = (s**2 + m**2) @ share - centre**2
    return totals[used] / totals.sum(), centre, np.sqrt(np.maximum(square, (s @ share) ** 2 * 0.25))
