r"""Laws of rows that are known by some of their quantiles: linear between them, exponential beyond.

Law.         $Q(\tau_k) = q_k$, linear in $\tau$ between neighbours: the density is $(\tau_{k+1} -
             \tau_k)/(q_{k+1} - q_k)$ there. Beyond the ends $P(Y \le y) = \tau_1e^{(y - q_1)/s}$ and
             $P(Y > y) = (1 - \tau_m)e^{-(y - q_m)/t}$.
Atoms.       Quantiles that are equal are an atom: the distribution function jumps, the density is infinite.
Moments.     $E[Y] = \sum_k(\tau_{k+1} - \tau_k)\frac{q_k + q_{k+1}}2 + \tau_1(q_1 - s) + (1 - \tau_m)(q_m +
             t)$, and the squares alike.
Cost.        $O(nm)$ for $n$ rows and $m$ levels.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.support import Support, real
from tractable.core.types import ArrayLike, Key
from tractable.supervised.row_law import RowLaw

__all__ = ["QuantileLaw"]


class QuantileLaw(RowLaw):
    r"""One law for each row: `levels` $\tau$ (m,), `places` $q$ (n, m), tails $s$ `left`, $t$ `right`.

    >>> law = QuantileLaw.of([0.25, 0.5, 0.75], [[-1.0, 0.0, 2.0]], [1.0], [2.0])
    >>> law.icdf(0.625).tolist(), law.cdf(2.0).tolist(), law.mean.tolist()
    ([1.0], [0.75], [0.625])
    """

    levels: Any
    places: Any = field(show=False)
    left: Any = field(show=False)
    right: Any = field(show=False)

    @classmethod
    def of(cls, levels: ArrayLike, places: ArrayLike, left: ArrayLike, right: ArrayLike) -> "QuantileLaw":
        """The law with these quantiles, which must not fall, and tails, which must not be negative."""
        parts: Any = [np.asarray(part, float) for part in (levels, places, left, right)]
        tau, q, s, t = parts
        inside = tau.ndim == 1 and len(tau) > 0 and tau[0] > 0 and tau[-1] < 1 and (np.diff(tau) > 0).all()
        check(bool(inside), "levels", "rising, and between 0 and 1", tau)
        check(q.ndim == 2 and q.shape[1] == len(tau), "places", f"of shape (n, {len(tau)})", q.shape)
        check(bool((np.diff(q, axis=1) >= 0).all()), "places", "quantiles that do not fall", "some that do")
        for name, tail in (("left", s), ("right", t)):
            check(tail.shape == (len(q),), name, f"of shape ({len(q)},)", tail.shape)
            check(bool((tail >= 0).all()), name, "zero or positive", "other numbers")
        return cls(*parts)

    @property
    def num_rows(self) -> int:
        return len(self.places)

    @property
    def support(self) -> Support:
        return real

    @property
    def discrete(self) -> bool:
        return False

    def rows(self, places: Any) -> "QuantileLaw":
        """The law of some rows."""
        parts: Any = (self.levels, self.places[places], self.left[places], self.right[places])
        return QuantileLaw(*parts)

    def row_log_probs(self, x: Any) -> np.ndarray:
        """The log-density of each row, of shape `x.shape`: `log_prob` before its sum."""
        x = self._broadcast("x", x)
        k, low, high = self._around(x)
        tau, last = self.levels, len(self.levels)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.r_[tau[0], np.diff(tau), 1 - tau[-1]][k]
            width = np.where(k == 0, self.left, np.where(k == last, self.right, high - low))
            fall = np.where(k == 0, (x - high) / self.left, np.where(k == last, (low - x) / self.right, 0.0))
            found = np.log(ends) - np.log(width) + np.where(fall == 0, 0.0, fall)
        atom = (x[..., None] == self.places).sum(-1) > 1
        outside = np.isinf(x) | (np.isinf(fall) & (fall < 0))
        found = np.where(atom, np.inf, np.where(outside, -np.inf, found))
        return np.where(np.isnan(x), np.nan, found)

    def cdf(self, x: Any) -> np.ndarray:
        r"""$P(Y \le x)$ for each row."""
        return self._share(x)[0]

    def survival(self, x: Any) -> np.ndarray:
        r"""$P(Y > x)$ for each row."""
        return self._share(x)[1]

    def icdf(self, p: Any) -> np.ndarray:
        r"""The quantile: the smallest $x$ with $P(Y \le x) \ge p$, for each row; NaN outside [0, 1]."""
        p, tau = self._broadcast("p", p), self.levels
        k = np.searchsorted(tau, p, side="left")
        low, high = (self._place(k + shift) for shift in (-1, 0))
        under, over = tau[np.maximum(k - 1, 0)], tau[np.minimum(k, len(tau) - 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = low + (high - low) * ((p - under) / np.where(over > under, over - under, 1.0))
            first = high + np.where(self.left > 0, self.left * np.log(p / tau[0]), 0.0)
            final = low - np.where(self.right > 0, self.right * np.log((1 - p) / (1 - tau[-1])), 0.0)
        found = np.where(k == 0, first, np.where(k == len(tau), final, inner))
        return np.where((p >= 0) & (p <= 1), found, np.nan)

    @property
    def mean(self) -> Any:
        """The expectation of each row."""
        return self._moments()[0]

    @property
    def variance(self) -> Any:
        """The variance of each row."""
        return self._moments()[1]

    @takes_key
    def sample(self, key: Key, shape: Any = ()) -> Any:
        """Independent draws, of shape `shape + self.shape`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return self.icdf(generator(key).random(shape + self.shape))

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Of differences from the middle, which keep their digits."""
        tau, middle = self.levels, self.places[:, self.places.shape[1] // 2]
        q = self.places - middle[:, None]
        a, b, shares = q[:, :-1], q[:, 1:], np.diff(tau)
        first, last = q[:, 0] - self.left, q[:, -1] + self.right
        mean = (0.5 * (a + b)) @ shares + tau[0] * first + (1 - tau[-1]) * last
        square = ((a * a + a * b + b * b) / 3) @ shares
        square += tau[0] * (first**2 + self.left**2) + (1 - tau[-1]) * (last**2 + self.right**2)
        return middle + mean, np.maximum(square - mean**2, 0.0)

    def _share(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Both tails at `x`."""
        x, tau = self._broadcast("x", x), self.levels
        k, low, high = self._around(x)
        under, over = tau[np.maximum(k - 1, 0)], tau[np.minimum(k, len(tau) - 1)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.where(high > low, (x - low) / np.where(high > low, high - low, 1.0), 0.0)
            inner = under + (over - under) * share
            below = tau[0] * np.exp((x - high) / self.left)
            above = (1 - tau[-1]) * np.where(self.right > 0, np.exp((low - x) / self.right), 0.0)
        lower = np.where(k == 0, below, np.where(k == len(tau), 1 - above, inner))
        upper = np.where(k == 0, 1 - below, np.where(k == len(tau), above, 1 - inner))
        unknown = np.isnan(x)
        return np.where(unknown, np.nan, lower), np.where(unknown, np.nan, upper)

    def _around(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many quantiles are at most `x`, the last of them and the next."""
        k = sum((x >= place).astype(int) for place in self.places.T)
        k = np.asarray(k)
        return k, self._place(k - 1), self._place(k)

    def _place(self, k: np.ndarray) -> np.ndarray:
        rows = np.broadcast_to(np.arange(len(self.places)), k.shape)
        return self.places[rows, np.clip(k, 0, self.places.shape[1] - 1)]
