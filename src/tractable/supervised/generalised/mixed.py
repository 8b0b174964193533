r"""The predictive law of each row: a mixture over what is not known of the linear predictor and the shape.

Model.       $p(y_i) = \sum_k w_k\,p(y_i \mid \eta_{ik}, \theta_{ik})$ with the density of a `Family`.
Quantiles.   Newton steps on the line (in $\log y$, or the log-odds) inside a bracket; for counts, galloping
             and halving of whole numbers.
Cost.        $O(nk)$ for a density, some ten times that for a quantile.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.support import Support, bounded
from tractable.core.types import Key
from tractable.supervised.generalised.families import FAMILIES
from tractable.supervised.row_law import RowLaw

__all__ = ["MixedLaw"]

_ROUNDS = 200
_SLACK = 1e-13  # of a probability: rounding of a distribution function


class MixedLaw(RowLaw):
    r"""One mixture for each row: `weights` $w$ of shape (k,), `eta` (n, k), `shapes` $\theta$ (s, n, k)
    or (s, 1, k).

    `low` and `size` move the target: $y = \mathrm{low} + \mathrm{size}\,x$ with $x$ of the family.

    >>> law = MixedLaw.of("poisson", np.array([1.0]), np.log([[2.0], [3.0]]))
    >>> law.mean.round(6).tolist(), law.icdf(0.5).tolist()
    ([2.0, 3.0], [2.0, 3.0])
    """

    weights: Any
    eta: Any = field(show=False)
    shapes: Any = field(show=False)
    low: float
    size: float
    family: str = field(static=True)

    @classmethod
    def of(
        cls, family: str, weights: Any, eta: Any, shapes: Any = None, low: Any = 0.0, size: Any = 1.0
    ) -> "MixedLaw":
        """The law of `family` with these parameters."""
        none = np.zeros((0, 1, len(weights)))
        given = none if shapes is None else np.asarray(shapes)
        parts: Any = (np.asarray(weights), np.asarray(eta), given, float(low), float(size), family)
        return cls(*parts)

    def __check_init__(self) -> None:
        check(self.family in FAMILIES, "family", f"one of {sorted(FAMILIES)}", repr(self.family))

    @property
    def num_rows(self) -> int:
        return len(self.eta)

    @property
    def support(self) -> Support:
        own = FAMILIES[self.family].support
        return bounded(self.low, self.low + self.size) if self.family == "beta" else own

    @property
    def discrete(self) -> bool:
        return FAMILIES[self.family].discrete

    def rows(self, places: Any) -> "MixedLaw":
        """The law of some rows."""
        shapes = self.shapes[:, places] if self.shapes.shape[1] > 1 else self.shapes
        return MixedLaw(self.weights, self.eta[places], shapes, self.low, self.size, self.family)

    def row_log_probs(self, x: Any) -> np.ndarray:
        """The log-density of each row, of shape `x.shape`: `log_prob` before its sum."""
        x = self._broadcast("x", x)
        u = (x - self.low) / self.size
        inside = np.asarray(FAMILIES[self.family].support.contains(u)) & np.isfinite(u)
        safe = np.where(inside, u, 0.5 if not self.discrete else 0.0)[..., None]
        with np.errstate(all="ignore"):
            each = FAMILIES[self.family].log_prob(safe, self.eta, self.shapes)
        found = logsumexp(each + np.log(self.weights), axis=-1) - np.log(self.size)
        return np.where(np.isnan(x), np.nan, np.where(inside, found, -np.inf))

    def cdf(self, x: Any) -> np.ndarray:
        r"""$P(Y \le x)$ for each row."""
        return self._tail("cdf", x, 0.0, 1.0)

    def survival(self, x: Any) -> np.ndarray:
        r"""$P(Y > x)$ for each row."""
        return self._tail("survival", x, 1.0, 0.0)

    def icdf(self, p: Any) -> np.ndarray:
        r"""The quantile: the smallest $x$ with $P(Y \le x) \ge p$, for each row; NaN outside [0, 1]."""
        p = self._broadcast("p", p)
        if p.ndim > 1:
            return np.stack([self.icdf(each) for each in p])
        inner = (p > 0) & (p < 1)
        safe = np.where(inner, p, 0.5)
        found = self._whole_quantile(safe) if self.discrete else self._quantile(safe)
        first, last = self._ends()
        ends = np.where(p == 0, first, np.where(p == 1, last, np.nan))
        return np.where(inner, self.low + self.size * found, ends)

    @property
    def mean(self) -> Any:
        """The expectation of each row."""
        with np.errstate(over="ignore"):
            means = FAMILIES[self.family].mean(self.eta, self.shapes)
        return self.low + self.size * (means @ self.weights)

    @property
    def variance(self) -> Any:
        """The variance of each row, by the law of total variance."""
        family = FAMILIES[self.family]
        with np.errstate(over="ignore", invalid="ignore"):
            means = family.mean(self.eta, self.shapes)
            around = means - (means @ self.weights)[:, None]
            return self.size**2 * ((family.variance(self.eta, self.shapes) + around**2) @ self.weights)

    @takes_key
    def sample(self, key: Key, shape: Any = ()) -> Any:
        """Independent draws, of shape `shape + self.shape`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        random = generator(key)
        full = shape + self.shape
        ends = np.cumsum(self.weights)
        label = np.searchsorted(ends, random.random(full) * ends[-1], side="right").clip(max=len(ends) - 1)
        row = np.broadcast_to(np.arange(len(self.eta)), full)
        shapes = [s[row if len(s) > 1 else 0, label] for s in self.shapes]
        draws = FAMILIES[self.family].sample(random, self.eta[row, label], shapes)
        return self.low + self.size * draws

    def _ends(self) -> tuple[float, float]:
        if self.family == "normal":
            return -np.inf, np.inf
        return self.low, self.low + self.size if self.family == "beta" else np.inf

    def _tail(self, which: str, x: Any, below: float, above: float) -> np.ndarray:
        x = self._broadcast("x", x)
        first, last = self._ends()
        under = x < first if self.discrete else x <= first
        outside = under | (x >= last)
        u = np.where(outside | np.isnan(x), self.low + 0.5 * self.size, x)
        found = self._raw(which, (u - self.low) / self.size)
        return np.where(np.isnan(x), np.nan, np.where(under, below, np.where(outside, above, found)))

    def _raw(self, which: str, u: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            shares = getattr(FAMILIES[self.family], which)(u[..., None], self.eta, self.shapes)
        return np.minimum(shares @ self.weights, 1.0)  # weights add to one but for rounding

    def _excess(self, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """F(u) - p, from the smaller tail."""
        found, lower = np.empty(len(p)), p < 0.5
        for side, which in ((lower, "cdf"), (~lower, "survival")):
            if side.any():
                share = self.rows(side)._raw(which, u[side])
                found[side] = share - p[side] if which == "cdf" else (1 - p[side]) - share
        return found

    def _middle(self, p: np.ndarray) -> np.ndarray:
        """The quantile at the mean of the parameters: where searches begin."""
        with np.errstate(all="ignore"):
            shapes = np.broadcast_to(self.shapes @ self.weights, (len(self.shapes), len(p)))
            return FAMILIES[self.family].icdf(p, self.eta @ self.weights, shapes)

    def _quantile(self, p: np.ndarray) -> np.ndarray:
        """Newton steps on the line, inside of the bracket found so far; rows that are done are left out."""
        family = FAMILIES[self.family]
        forth, back, log_slope = family.line
        middle, width = self._middle(p), 1.0
        if self.eta.shape[1] == 1:
            return middle
        with np.errstate(divide="ignore"):  # a start at an end of the support begins beside it
            v = np.nan_to_num(forth(middle), posinf=37.0, neginf=-700.0)
        low, high = np.full(len(p), -np.inf), np.full(len(p), np.inf)
        active = np.arange(len(p))
        for _ in range(_ROUNDS):
            law, at, u = self.rows(active), v[active], back(v[active])
            gap = law._excess(u, p[active])
            low[active] = np.where(gap < 0, at, low[active])
            high[active] = np.where(gap < 0, high[active], at)
            with np.errstate(all="ignore"):
                each = family.log_prob(u[:, None], law.eta, law.shapes)
                newton = at - gap / (np.exp(each + log_slope(at)[:, None]) @ self.weights)
            left, right = low[active], high[active]
            known = np.isfinite(left) & np.isfinite(right)
            middle = 0.5 * np.where(known, left, 0.0) + 0.5 * np.where(known, right, 0.0)
            safe = np.where(known, middle, at + np.where(gap < 0, width, -width))
            moved = np.where((newton >= left) & (newton <= right) & np.isfinite(newton), newton, safe)
            v[active], width = moved, min(2 * width, 1e6)
            tail = np.minimum(p[active], 1 - p[active])
            done = (np.abs(gap) <= 1e-9 * tail) | (np.abs(moved - at) <= 1e-13 * np.abs(moved))
            if not len(active := active[~done]):  # the last step squares what is left
                break
        return back(v)

    def _whole_quantile(self, p: np.ndarray) -> np.ndarray:
        """Galloping from a normal guess, then halving; a share within rounding of `p` has reached it."""
        slack = _SLACK * np.where(p < 0.5, p, 1.0)
        guess = self.mean + self.std * ndtri(p)
        k = np.maximum(np.floor(np.where(np.isfinite(guess), guess, 0.0)), 0.0)
        low, high, step = np.full(len(p), -1.0), np.full(len(p), np.inf), np.ones(len(p))
        active = np.arange(len(p))
        while len(active):
            at = k[active]
            hit = self.rows(active)._excess(at, p[active]) >= -slack[active]
            high[active], low[active] = np.where(hit, at, high[active]), np.where(hit, low[active], at)
            left, right, reach = low[active], high[active], step[active]
            known, step[active] = np.isfinite(right) & (left > -1), 2 * reach
            gallop = np.where(hit, np.maximum(at - reach, left + 1), at + reach)
            k[active] = np.maximum(np.where(known, np.floor(0.5 * left + 0.5 * right), gallop), 0.0)
            wide = ~np.isfinite(right) | (right - left > np.maximum(1.0, 4e-16 * left))
            active = active[wide & (at < 1e300)]
        return high
