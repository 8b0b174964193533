r"""Rows that are far apart, to begin a clustering with: k-means++, exactly, with few looks at the rows.

Rule.        The first row in proportion to its weight $w_i$; each next one in proportion to $w_i\,D_i^p$,
             with $D_i$ the distance to the nearest row chosen so far. $p = 2$ is k-means++; $p = 0$ draws
             rows without regard to distance, $p = \infty$ takes the farthest row.
Bound.       With $p = 2$ the expected sum of squared distances is at most $8(\log k + 2)$ times the least;
             with $p = \infty$ the largest distance is at most twice the least possible.
Rejection.   Distances only fall. So a row drawn in proportion to old ones, $w_i\tilde D_i^p$, and kept with
             probability $(D_i/\tilde D_i)^p$ has exactly the law above, and distances of all rows are
             computed anew only when few are kept: a handful of times, not $k$ times.
Trials.      Of several rows so drawn the one is taken that lowers $\sum_i w_i D_i^p$ most, estimated on
             `max(2^14, 64 k)` rows drawn by weight (all rows, where there are no more).
Cost.        $O(nd)$ a few times, and $O(k^2 d)$; $O(nkd)$ for the farthest rows.
References.  Arthur and Vassilvitskii (2007); Gonzalez (1985) (farthest first); Shah, Agrawal and Jaiswal
             (2025) (rejection).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.assignment import in_spans, nearest_centres
from tractable.core.checks import check, check_count, check_finite, check_nonnegative
from tractable.core.geometry import squared_distances
from tractable.core.host_random import generator
from tractable.core.types import Array, ArrayLike, Int, Key

__all__ = ["far_apart", "nearest_of", "usual_trials"]

_SAMPLE = 1 << 14
_BLOCK = 1 << 12


def far_apart(
    key: Key | np.ndarray,
    rows: ArrayLike,
    count: int,
    *,
    weights: ArrayLike | None = None,
    power: float = 2.0,
    trials: int = 1,
) -> Int[np.ndarray, " count"]:
    """The indices of `count` rows far apart, drawn by k-means++; copies are chosen only when nothing else is
    left. `usual_trials(count)` is a good number of trials for a clustering.

    >>> import jax.random as jr
    >>> sorted(far_apart(jr.key(0), [[0.0], [0.0], [5.0]], 2, power=np.inf).tolist())[1]
    2
    """
    X = np.asarray(rows, float)
    check(X.ndim == 2, "rows", "a table with 2 axes", f"shape {X.shape}")
    check_finite("rows", X)
    shares = np.ones(len(X)) if weights is None else np.asarray(weights, float)
    check(shares.shape == (len(X),), "weights", f"of shape ({len(X)},), one per row", f"shape {shares.shape}")
    check_nonnegative("weights", shares)
    count = check_count("count", count, most=int(np.count_nonzero(shares)))
    check(bool(power >= 0), "power", "zero or positive", power)
    numbers = generator(key)
    if power == 0:
        return numbers.choice(len(X), count, replace=False, p=shares / shares.sum())
    if np.isinf(power):
        return _farthest(numbers, X, count, shares)
    return _Draws(numbers, X, shares, float(power), check_count("trials", trials)).choose(count)


def usual_trials(count: int) -> int:
    r"""$2 + \lfloor\log k\rfloor$ rows to choose each next one among.

    >>> usual_trials(50)
    5
    """
    return 2 + int(np.log(count))


def nearest_of(rows: ArrayLike, centres: ArrayLike) -> Int[Array, " n"]:
    """The index of the centre nearest to each row."""
    return jnp.argmin(squared_distances(rows, centres), axis=1)


class _Draws:
    """Rows chosen so far, and squared distances of all rows to those chosen before the last look."""

    def __init__(self, numbers: Any, X: np.ndarray, weights: np.ndarray, power: float, trials: int):
        self.numbers, self.X, self.weights, self.half, self.trials = numbers, X, weights, power / 2, trials
        self.chosen: list[int] = [int(_by_mass(numbers, np.cumsum(weights), 1)[0])]
        self.seen = 0  # how many of the chosen the distances know
        self.squared = np.full(len(X), np.inf)

    def choose(self, count: int) -> np.ndarray:
        self._look()
        sample = self._sample(count) if self.trials > 1 else None
        while len(self.chosen) < count:
            found = self._candidates()
            if found is None:
                return np.array(self.chosen + self._copies(count - len(self.chosen)))
            best = 0 if sample is None else sample.best(self.X[found])
            self.chosen.append(int(found[best]))
        return np.array(self.chosen)

    def _look(self) -> None:
        """Distances to all chosen rows."""
        new = self.X[self.chosen[self.seen :]]
        self.squared = np.minimum(self.squared, nearest_centres(self.X, new).squared)
        self.seen = len(self.chosen)
        largest = self.squared.max()
        mass = self.weights * (self.squared / (largest if largest > 0 else 1.0)) ** self.half
        self.total = np.cumsum(mass)

    def _candidates(self) -> np.ndarray | None:
        """As many rows as there are trials, by the law; None where every row is a copy of a chosen one."""
        found: list[int] = []
        patience = int(np.clip(len(self.X) // 100, 8 * self.trials, 4096))
        while len(found) < self.trials:
            if self.total[-1] == 0:
                return None
            size = self.trials if self.seen == len(self.chosen) else 4 * self.trials
            drawn = _by_mass(self.numbers, self.total, size)
            kept = (
                self.numbers.random(size) * self.squared[drawn] ** self.half < self._now(drawn) ** self.half
            )
            found.extend(drawn[kept].tolist())
            patience -= size
            if patience < 0 and self.seen < len(self.chosen):
                self._look()
        return np.array(found[: self.trials])

    def _now(self, drawn: np.ndarray) -> np.ndarray:
        """The squared distances of few rows to all chosen ones; a copy has zero."""
        away = self.X[drawn][:, None] - self.X[self.chosen[self.seen :]][None]
        new = np.einsum("nkd,nkd->nk", away, away).min(1, initial=np.inf)
        return np.minimum(self.squared[drawn], new)

    def _copies(self, count: int) -> list[int]:
        """Rows that are copies of chosen ones, by weight."""
        left = self.weights.copy()
        left[self.chosen] = 0
        return self.numbers.choice(len(left), count, replace=False, p=left / left.sum()).tolist()

    def _sample(self, count: int) -> "_Sample":
        most = max(_SAMPLE, 64 * count)
        few = len(self.X) <= most
        places = np.arange(len(self.X)) if few else _by_mass(self.numbers, np.cumsum(self.weights), most)
        weights = self.weights if few else np.ones(most)
        return _Sample(self.X[places], weights, self.squared[places], self.half)


class _Sample:
    """Rows on which candidates are compared, with their distances to what was chosen."""

    def __init__(self, rows: np.ndarray, weights: np.ndarray, squared: np.ndarray, half: float):
        self.origin = rows.mean(0)
        self.rows, self.weights, self.squared, self.half = rows - self.origin, weights, squared, half
        self.lengths = np.einsum("nd,nd->n", self.rows, self.rows)

    def best(self, candidates: np.ndarray) -> int:
        """The candidate that leaves least; it counts as chosen from now on."""
        centres = candidates - self.origin
        table = centres @ self.rows.T
        table *= -2
        table += self.lengths
        table += np.einsum("kd,kd->k", centres, centres)[:, None]
        np.clip(table, 0.0, self.squared, out=table)
        left = (table if self.half == 1 else table**self.half) @ self.weights
        best = int(left.argmin())
        self.squared = table[best]
        return best


def _by_mass(numbers: Any, cumulative: np.ndarray, count: int) -> np.ndarray:
    """Indices in proportion to a mass given by its running sums; of mass zero never."""
    drawn = np.searchsorted(cumulative, numbers.random(count) * cumulative[-1], side="right")
    last = np.searchsorted(cumulative, cumulative[-1])  # the last row of positive mass
    return np.minimum(drawn, last)


def _farthest(numbers: Any, X: np.ndarray, count: int, weights: np.ndarray) -> np.ndarray:
    """The first row by weight, then always the farthest (of equals the first); rows of no weight never."""
    chosen = [int(_by_mass(numbers, np.cumsum(weights), 1)[0])]
    near = np.where(weights > 0, np.inf, -1.0)

    def work(span: slice) -> None:
        for low in range(span.start, span.stop, _BLOCK):
            part = slice(low, min(low + _BLOCK, span.stop))
            away = X[part] - X[chosen[-1]]
            near[part] = np.minimum(near[part], np.einsum("nd,nd->n", away, away))

    while len(chosen) < count:
        in_spans(work, len(X), X.shape[1])
        near[chosen[-1]] = -1.0
        chosen.append(int(near.argmax()))
    return np.array(chosen)
