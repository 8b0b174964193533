r"""Laws made of laws: mixtures of models, logarithms of targets, whole numbers, and honest ranks.

Mixture.     $p(y) = \sum_k w_k\,p_k(y)$ with the members' weights.
Logarithm.   $z = \log(y)$ follows the inner law: $\log p(y) = \log p_z(\log y) - \log y$, so densities of
             models of $y$ and of $\log y$ are of the same measure.
Whole.       A law of numbers as one of counts: $P(k) = F(k + \frac12) - F(k - \frac12)$, all below a half
             is 0.
Ranks.       With the map $G$ of `supervised.selection.recalibration`, $F^*(y) = G(F(y))$ has the density
             $G'(F(y))\,p(y)$, and of counts the mass $G(F(k)) - G(F(k - 1))$.
Cost.        That of the members.
References.  Dawid (1984); Ranjan and Gneiting (2010) for recalibrated mixtures.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from tractable.race.laws import Laws, NormalLaws
from tractable.supervised.selection.recalibration import RankMap

__all__ = ["ClassLaws", "LogLaws", "MixedLaws", "RankedLaws", "WholeLaws", "log_ranks", "mixed"]

_LEVELS = special.expit(np.linspace(-18, 18, 181))  # at which integrals have their nodes


class _ByMass(Laws):
    """Laws whose mean and variance are integrals of their own distribution function."""

    @property
    def mean(self) -> np.ndarray:
        return _moments(self)[0]

    @property
    def variance(self) -> np.ndarray:
        return _moments(self)[1]


class MixedLaws(Laws):
    """One mixture per row of laws of several models."""

    def __init__(self, weights: Sequence[float] | np.ndarray, members: Sequence[Laws]):
        kept = [(float(w), member) for w, member in zip(weights, members) if w > 0]
        self.weights, self.members = np.array([w for w, _ in kept]), [member for _, member in kept]
        self.discrete = all(member.discrete for member in self.members)

    def __len__(self) -> int:
        return len(self.members[0])

    def log_density(self, y):
        logs = np.stack([member.log_density(y) for member in self.members], 1)
        return special.logsumexp(logs + np.log(self.weights), axis=1)

    def cdf(self, y):
        return np.minimum(sum(w * member.cdf(y) for w, member in zip(self.weights, self.members)), 1.0)

    @property
    def mean(self):
        return sum(w * member.mean for w, member in zip(self.weights, self.members))

    @property
    def variance(self):
        mean = self.mean
        parts = zip(self.weights, self.members)
        return sum(w * (member.variance + (member.mean - mean) ** 2) for w, member in parts)

    def take(self, rows):
        return MixedLaws(self.weights, [member.take(rows) for member in self.members])

    def bounds(self, level):
        lows, highs = zip(*(member.bounds(level) for member in self.members))
        return np.min(lows, 0), np.max(highs, 0)

    def place(self, level):
        return sum(w * member.place(level) for w, member in zip(self.weights, self.members))

    def quantile(self, level):
        return self.members[0].quantile(level) if len(self.members) == 1 else super().quantile(level)


class ClassLaws(Laws):
    """Probabilities of classes, `(rows, classes)`; targets are codes."""

    discrete = True

    def __init__(self, shares: np.ndarray):
        self.shares = np.asarray(shares, float)

    def __len__(self) -> int:
        return len(self.shares)

    def log_density(self, y):
        with np.errstate(divide="ignore"):
            return np.log(self.shares[np.arange(len(self.shares)), np.asarray(y, int)])

    def take(self, rows):
        return ClassLaws(self.shares[rows])


def mixed(weights: Sequence[float] | np.ndarray, members: Sequence[Laws]) -> Laws:
    """The mixture of what several models say: of classes again probabilities."""
    if len(members) == 1:
        return members[0]
    if isinstance(members[0], ClassLaws):
        shares = sum(w * each.shares for w, each in zip(weights, members))  # pyright: ignore
        return ClassLaws(shares / np.sum(weights))
    return MixedLaws(weights, members)


class LogLaws(Laws):
    """Positive targets whose logarithm follows the inner law."""

    def __init__(self, inner: Laws):
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def log_density(self, y):
        y = np.asarray(y, float)
        logs = np.log(np.where(y > 0, y, 1.0))
        return np.where(y > 0, self.inner.log_density(logs) - logs, -np.inf)

    def cdf(self, y):
        y = np.asarray(y, float)
        return np.where(y > 0, self.inner.cdf(np.log(np.where(y > 0, y, 1.0))), 0.0)

    def bounds(self, level):
        low, high = self.inner.bounds(level)
        return np.exp(low), np.exp(high)

    def quantile(self, level):
        return np.exp(self.inner.quantile(level))

    def place(self, level):
        return np.exp(self.inner.place(level))

    @property
    def mean(self):
        return self._powers(1) if isinstance(self.inner, NormalLaws) else _moments(self)[0]

    @property
    def variance(self):
        if isinstance(self.inner, NormalLaws):
            return self._powers(2) - self._powers(1) ** 2
        return _moments(self)[1]

    def _powers(self, k: int) -> np.ndarray:
        parts = np.exp(k * self.inner.loc + 0.5 * (k * self.inner.scale) ** 2)  # pyright: ignore
        return (self.inner.weights * parts).sum(1)  # pyright: ignore

    def take(self, rows):
        return LogLaws(self.inner.take(rows))


class WholeLaws(_ByMass):
    """Counts by the mass of an inner law of numbers in cells of one."""

    discrete = True

    def __init__(self, inner: Laws):
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def log_density(self, y):
        y = np.asarray(y, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            mass = np.log(np.maximum(self.cdf(y) - self.cdf(y - 1), 0.0))
            # far out the difference has no digits left: the middle of the cell has
            tail = self.inner.log_density(y)
        found = np.where(mass > -25, mass, tail)
        return np.where((y >= 0) & (y == np.floor(y)), found, -np.inf)

    def cdf(self, y):
        y = np.floor(np.asarray(y, float))
        return np.where(y >= 0, self.inner.cdf(y + 0.5), 0.0)

    def bounds(self, level):
        low, high = self.inner.bounds(level)
        return np.maximum(np.floor(low - 0.5), 0.0), np.maximum(np.ceil(high + 0.5), 0.0)

    def place(self, level):
        return np.maximum(self.inner.place(level), 0.0)

    def quantile(self, level):
        return np.maximum(np.ceil(self.inner.quantile(level) - 0.5), 0.0)

    def take(self, rows):
        return WholeLaws(self.inner.take(rows))


class RankedLaws(_ByMass):
    """Laws whose ranks are moved by a map that held-out rows chose."""

    def __init__(self, inner: Laws, ranks: RankMap):
        self.inner, self.ranks, self.discrete = inner, ranks, inner.discrete

    def __len__(self) -> int:
        return len(self.inner)

    def log_density(self, y):
        if self.discrete:
            mass = self.cdf(y) - self.cdf(np.asarray(y, float) - 1)
            logs = self.inner.log_density(y)  # far out a difference has no digits left
            with np.errstate(divide="ignore"):
                return np.where(mass > 1e-12, np.log(np.maximum(mass, 1e-300)), logs)
        return self.inner.log_density(y) + self.ranks.log_slope(*log_ranks(self.inner, y))

    def cdf(self, y):
        u = np.clip(self.inner.cdf(y), 0.0, 1.0)  # a sum of shares may pass one by rounding
        with np.errstate(divide="ignore"):
            return self.ranks.ranks(np.log(u), np.log1p(-u))[0]

    def _back(self, level: float) -> float:
        return min(max(self.ranks.back(level)[0], 1e-300), 1 - 1e-16)

    def bounds(self, level):
        return self.inner.bounds(self._back(level))

    def place(self, level):
        return self.inner.place(level)

    def quantile(self, level):
        return self.inner.quantile(self._back(level))

    def take(self, rows):
        return RankedLaws(self.inner.take(rows), self.ranks)


def log_ranks(laws: Laws, y: Any, places: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The logarithms of ranks and of their complements; of counts at `places` within their jumps."""
    u = laws.cdf(y)
    if laws.discrete and places is not None:
        u = u - (1 - places) * (u - laws.cdf(np.asarray(y, float) - 1))
    u = np.clip(u, 1e-15, 1 - 1e-15)
    return np.log(u), np.log1p(-u)


def _moments(laws: Laws) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance by the mass between places that crowd where the mass is."""
    places = np.stack([laws.place(level) for level in _LEVELS])
    places = np.maximum.accumulate(np.floor(places) if laws.discrete else places, 0)
    if laws.discrete:
        places[0] = -1.0
    below = np.stack([laws.cdf(place) for place in places])
    below[0], below[-1] = 0.0, 1.0
    mass = np.diff(below, axis=0)
    low, high = places[:-1] + (1.0 if laws.discrete else 0.0), places[1:]  # cells (low, high]
    middle = 0.5 * (low + high)
    mean = (mass * middle).sum(0)
    width = np.maximum(high - low, 0.0)
    spread = width * (width + (2.0 if laws.discrete else 0.0)) / 12
    return mean, (mass * ((middle - mean) ** 2 + spread)).sum(0)
