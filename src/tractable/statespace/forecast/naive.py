r"""Forecasts without a fit: the last reading, the last season, drift; with closed-form spread.

Naive.       A random walk: $y_{T+h} \sim N(y_T, h\sigma^2)$.
Seasonal.    A random walk of each season: $y_{T+h} \sim N(y_{T+h-mk}, k\sigma^2)$, $k = \lceil h/m\rceil$.
Drift.       A walk with drift $b = (y_T - y_1)/(T - 1)$: variance $\sigma^2(h + h^2/(T - 1))$.
Gaps.        What is missing adds its steps: after $g$ gaps the last reading is $h + g$ steps away.
Cost.        $O(T)$.
References.  Hyndman and Athanasopoulos (2021) sections 5.2 and 5.5.
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Naive", "NaiveFit"]


class Naive(NamedTuple):
    """The last reading `season` steps before, and so on; with `drift`, a slope (without season)."""

    season: int = 1
    drift: bool = False

    @property
    def name(self) -> str:
        return "drift" if self.drift else "naive" if self.season == 1 else f"seasonal naive {self.season}"

    @property
    def least(self) -> int:
        """Readings that the spread needs."""
        return 2 * self.season + 1

    def fit(self, z: np.ndarray, near: Any = None) -> "NaiveFit":
        """The spread of the steps, by gaps in the number of steps."""
        totals, steps, count = 0.0, [], 0
        for phase in range(self.season):
            at = np.flatnonzero(~np.isnan(z[phase :: self.season]))
            seen = z[phase :: self.season][at]
            if self.drift and len(at) > 1:
                slope = (seen[-1] - seen[0]) / (at[-1] - at[0])
                steps.append((np.diff(seen) - slope * np.diff(at)) ** 2 / np.diff(at))
                count -= 1
            else:
                steps.append(np.diff(seen) ** 2 / np.diff(at))
        squares = np.concatenate(steps)
        totals, count = float(squares.sum()), count + len(squares)
        return NaiveFit(self, np.sqrt(totals / max(count, 1)))


class NaiveFit(NamedTuple):
    """A walk with the deviation of its steps."""

    model: Naive
    sd: float
    df: float = np.inf

    @property
    def name(self) -> str:
        return self.model.name

    def origins(self, z: np.ndarray, at: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and deviations of the `steps` readings from each place of `at` on, given those before it."""
        found = [self._ahead(z[:o], steps) for o in at]
        return np.stack([mean for mean, _ in found]), np.stack([sd for _, sd in found])

    def _ahead(self, z: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        last, away, slope, error = self._start(z, steps)
        return last + slope * away, self.sd * np.sqrt(away + away**2 * error)

    def _start(self, z: np.ndarray, steps: int) -> Any:
        """The last reading of each step's season, how many walks away it is, the slope and its variance."""
        m, seen = self.model.season, ~np.isnan(z)
        where = len(z) + np.arange(steps)
        last = np.array(
            [np.max(np.flatnonzero(seen & (np.arange(len(z)) % m == w % m)), initial=-1) for w in where[:m]]
        )
        last = np.where(last < 0, np.flatnonzero(seen)[-1], last)[np.arange(steps) % m]
        away = np.maximum(-(-(where - last) // m), 1).astype(float)
        if not self.model.drift:
            return z[last], away, 0.0, 0.0
        places = np.flatnonzero(seen)
        span = max(int(places[-1] - places[0]), 1)
        return z[last], away, (z[places[-1]] - z[places[0]]) / span, 1.0 / span

    def paths(self, rng: np.random.Generator, z: np.ndarray, steps: int, count: int) -> np.ndarray:
        """Joint draws of the next readings `(count, steps)`."""
        last, away, slope, error = self._start(z, steps)
        m = self.model.season
        walks = np.zeros((count, steps))
        for h in range(steps):
            before = walks[:, h - m] if h >= m else 0.0
            passed = away[h] - (away[h - m] if h >= m else 0.0)
            walks[:, h] = before + self.sd * np.sqrt(passed) * rng.standard_normal(count)
        slopes = slope + self.sd * np.sqrt(error) * rng.standard_normal((count, 1))
        return last + slopes * away + walks
