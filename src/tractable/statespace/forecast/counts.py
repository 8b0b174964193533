r"""Counts: laws on the whole numbers from zero on, and a level of counts that is filtered exactly.

Cells.       A member with law $F$ of $g(y)$ gives the count $k$ the mass between $g(k - \frac12)$ and $g(k +
             \frac12)$; zero has all that lies below $g(\frac12)$. $g$ is the identity, the logarithm or
             $\sqrt{y + 3/8}$, whose Poisson spread is that of a constant.
Level.       $y_t \sim \mathrm{Poisson}(\lambda_t)$, $\lambda_{t+1} = \lambda_t\eta_t/\delta$ with $\eta_t
             \sim \mathrm{Beta}(\delta a, (1 - \delta)a)$ for the gamma belief $(a, b)$ of $\lambda_t$, which
             stays gamma: $a \leftarrow \delta a + y$, $b \leftarrow \delta b + 1$. The reading $h$ steps
             ahead is negative binomial with mean $a/b$ and size $\delta^h a$. Readings that vary more have
             gamma noise of size $r$ too: the negative binomial with that mean and variance, $1 +
             1/\text{size} = (1 + 1/(\delta^h a))(1 + 1/r)$. $\delta$ and $r$ by likelihood on a grid.
Spread.      `widened(c)` is $\Phi(\Phi^{-1}(F)/c)$: of a Gaussian law its stretch about the middle.
Score.       $\mathrm{CRPS} = \sum_k (F(k) - 1[k \ge y])^2$.
References.  Harvey and Fernandes (1989); Anscombe (1948); Gneiting and Raftery (2007).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, gammaln, ndtr, ndtri

from tractable.statespace.forecast.laws import Law

__all__ = ["CountLaw", "CountLevel", "CountLevelFit", "from_scale", "mixture", "to_scale"]

_DISCOUNTS = (0.5, 0.65, 0.75, 0.83, 0.89, 0.93, 0.96, 0.98, 1.0)
_SIZES = (np.inf, 20.0, 8.0, 4.0, 2.0, 1.0, 0.5)
_GRID, _TAIL = 2000, 200  # whole numbers that are summed one by one, and those that stand for a tail


def to_scale(y: Any, scale: str) -> Any:
    """Readings on the scale of the models: "identity", "log" or "root"."""
    y = np.asarray(y, float)
    if scale == "log":
        with np.errstate(divide="ignore"):  # the lower edge of a cell may be zero
            return np.log(y)
    return np.sqrt(np.maximum(y + 0.375, 0.0)) if scale == "root" else y


def from_scale(z: Any, scale: str) -> Any:
    """Readings from the scale of the models."""
    z = np.asarray(z, float)
    if scale == "log":
        return np.exp(z)
    return np.maximum(z, 0.0) ** 2 - 0.375 if scale == "root" else z


class CountLaw(NamedTuple):
    """A mixture of the cells of `base` (its members first) and of negative binomials."""

    base: Law
    scale: str
    mean: np.ndarray  # (..., J) of the negative binomials
    size: np.ndarray
    weights: np.ndarray  # (K + J,)
    factor: Any = 1.0

    def rows(self, use: Any) -> "CountLaw":
        """The laws of some origins."""
        return self._replace(base=self.base.rows(use), mean=self.mean[use], size=self.size[use])

    def widened(self, factor: Any) -> "CountLaw":
        """The law stretched about its middle."""
        return self._replace(factor=self.factor * np.asarray(factor, float))

    def cdf(self, y: Any) -> Any:
        """The probability of at most `y`."""
        return self._stretched(self._mixed(np.asarray(y, float)))

    def rank(self, y: Any) -> Any:
        """The probability of less than `y`, and half that of `y`."""
        y = np.asarray(y, float)
        return 0.5 * (self.cdf(y) + self.cdf(y - 1))

    def log_densities(self, y: Any) -> Any:
        """Of readings under each member, before any stretch, `(..., K + J)`."""
        y = np.asarray(y, float)
        low = np.where(y > 0, to_scale(np.maximum(y - 0.5, 0.0), self.scale), -np.inf)
        cells = self.base.log_masses(low, to_scale(y + 0.5, self.scale))
        found = _log_mass(y[..., None], self.mean, self.size)
        return np.concatenate([cells, np.broadcast_to(found, (*cells.shape[:-1], self.mean.shape[-1]))], -1)

    def log_density(self, y: Any) -> Any:
        """Of readings."""
        y = np.asarray(y, float)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.cdf(y) - self.cdf(y - 1), 0.0))

    def quantile(self, level: Any) -> Any:
        """The least count that is not exceeded with probability `level`."""
        aim = ndtr(np.asarray(self.factor) * ndtri(np.asarray(level, float)))
        aim = np.broadcast_to(aim, np.broadcast_shapes(np.shape(aim), self.base.mean.shape[:-1]))
        low, high = np.full(aim.shape, -1.0), np.ones(aim.shape)
        for _ in range(40):
            short = self._mixed(high) < aim
            if not short.any():
                break
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        while (high - low > 1).any():
            middle = np.floor(0.5 * (low + high))
            short = self._mixed(middle) < aim
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return high

    def expectation(self) -> Any:
        """The mean of the readings."""
        places, widths = self._places()
        return ((1 - self._over(places)) * widths).sum(-1)

    def crps(self, y: Any) -> Any:
        """The ranked probability score; smaller is better, in units of the readings."""
        y = np.asarray(y, float)
        places, widths = self._places(float(np.nanmax(y, initial=0.0)))
        beyond = places >= y[..., None]
        total = ((self._over(places) - beyond) ** 2 * widths).sum(-1)
        return np.where(np.isnan(y), np.nan, total)

    def matched(self, rng: np.random.Generator, paths: np.ndarray) -> Any:
        """Paths `(count, steps)` of the mixture as those of the stretched law."""
        if np.all(np.asarray(self.factor) == 1.0):
            return paths
        low, high = self._mixed(paths - 1), self._mixed(paths)
        drawn = low + rng.random(paths.shape) * (high - low)
        return self.quantile(np.clip(drawn, 1e-12, 1 - 1e-12))

    def _places(self, least: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Whole numbers up to where nothing is left, and how many each stands for."""
        near, far = (max(float(np.max(self.quantile(1 - tail))), least) + 2 for tail in (1e-4, 1e-9))
        dense = np.round(np.linspace(0, near, int(min(near, _GRID)) + 1))
        places = np.unique(np.concatenate([dense, np.round(np.geomspace(near, far + 2, _TAIL))]))
        return places, np.diff(places, append=places[-1] + 1)

    def _over(self, places: np.ndarray) -> Any:
        """The distribution function at each place, behind the axes of the law."""
        return np.stack([self.cdf(np.full(self.base.mean.shape[:-1], k)) for k in places], -1)

    def _mixed(self, y: Any) -> Any:
        """The distribution function before the stretch."""
        edge = to_scale(np.maximum(y, 0.0) + 0.5, self.scale)
        count = len(self.base.df)
        total = self.base._replace(weights=self.weights[:count])._cdf(edge)
        own = self.weights[count:]
        for j in np.flatnonzero(own):
            mean, size = self.mean[..., j], self.size[..., j]
            total = total + own[j] * _negative_binomial(np.maximum(y, 0.0), mean, size)
        return np.where(np.asarray(y) < 0, 0.0, total)

    def _stretched(self, share: Any) -> Any:
        if np.all(np.asarray(self.factor) == 1.0):
            return share
        return ndtr(ndtri(np.clip(share, 0.0, 1.0)) / self.factor)


def mixture(
    fits: list[Any], weights: np.ndarray, z: np.ndarray, at: np.ndarray, steps: int, scale: str, count: bool
) -> Any:
    """The law of all members from each place of `at`: of readings, or of counts."""
    plain = [fit for fit in fits if not hasattr(fit, "negative_binomials")]
    found = [fit.origins(z, at, steps) for fit in plain]
    none = np.zeros((len(at), steps, 0))
    means, sds = (np.stack([pair[i] for pair in found], -1) if found else none for i in (0, 1))
    degrees = np.array([fit.df if scale == "identity" else np.inf for fit in plain])
    if not count:
        return Law(means, sds, degrees, weights, scale == "log")
    levels = [fit.negative_binomials(z, at, steps) for fit in fits if hasattr(fit, "negative_binomials")]
    mean, size = (np.stack([pair[i] for pair in levels], -1) if levels else none for i in (0, 1))
    return CountLaw(Law(means, sds, degrees, weights[: len(plain)]), scale, mean, size, weights)


class CountLevel(NamedTuple):
    """A level of counts, on readings that come on a `scale`."""

    scale: str = "identity"
    name: str = "count level"
    least: int = 8

    def fit(self, z: np.ndarray, near: Any = None) -> "CountLevelFit":
        """Discount and size by the likelihood of one-step forecasts, the first few apart."""
        y = np.round(from_scale(z, self.scale))
        pairs = np.array([(d, r) for d in _DISCOUNTS for r in _SIZES])
        a, b = _filtered(y, pairs[:, 0])
        size = _size(a[:-1] * pairs[:, 0], pairs[:, 1])
        mean = a[:-1] / b[:-1]
        use = ~np.isnan(y) & (np.cumsum(~np.isnan(y)) > 4)
        law = _log_mass(y[use, None], mean[use], size[use]).sum(0)
        discount, own = pairs[int(np.argmax(law))]
        return CountLevelFit(self.name, self.scale, float(discount), float(own))


class CountLevelFit(NamedTuple):
    """A level of counts with its discount and the size of its noise."""

    name: str
    scale: str
    discount: float
    size: float
    df: float = np.inf

    def negative_binomials(self, z: np.ndarray, at: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and sizes of the `steps` readings from each place of `at` on, given those before it."""
        y = np.round(from_scale(z, self.scale))
        a, b = (part[np.asarray(at), 0] for part in _filtered(y, np.array([self.discount])))
        faded = a[:, None] * self.discount ** np.arange(1, steps + 1)
        return np.repeat((a / b)[:, None], steps, 1), _size(faded, self.size)

    def origins(self, z: np.ndarray, at: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and deviations of the counts."""
        mean, size = self.negative_binomials(z, at, steps)
        return mean, np.sqrt(mean + mean**2 / size)

    def paths(self, rng: np.random.Generator, z: np.ndarray, steps: int, count: int) -> np.ndarray:
        """Joint draws of the next counts along draws of the rate."""
        y = np.round(from_scale(z, self.scale))
        a, b = (float(part[-1, 0]) for part in _filtered(y, np.array([self.discount])))
        rate, drawn = rng.gamma(a, 1 / b, count), np.empty((count, steps))
        for h in range(steps):
            if self.discount < 1:
                kept = self.discount * a
                rate = rate * rng.beta(kept, a - kept, count) / self.discount
                a = kept
            noise = 1.0 if np.isinf(self.size) else rng.gamma(self.size, 1 / self.size, count)
            drawn[:, h] = rng.poisson(rate * noise)
        return drawn


def _filtered(y: np.ndarray, discounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs $(a, b)$ before each reading and after the last, `(T + 1, discounts)`."""
    # half a reading of the size of the first ones
    first = max(float(np.nanmean(y[:12])), 0.1)
    a, b = (np.empty((len(y) + 1, len(discounts))) for _ in range(2))
    a[0], b[0] = 0.5 * first, 0.5
    for t, value in enumerate(y):
        seen = not np.isnan(value)
        a[t + 1] = discounts * a[t] + (value if seen else 0.0)
        b[t + 1] = discounts * b[t] + seen
    return a, b


def _size(a: Any, own: Any) -> Any:
    wide, noise = 1 / np.maximum(a, 1e-6), 1 / np.asarray(own)
    return 1 / (wide + noise + wide * noise)


def _log_mass(k: Any, mean: Any, size: Any) -> Any:
    share = size / (size + mean)
    return gammaln(k + size) - gammaln(size) - gammaln(k + 1) + size * np.log(share) + k * np.log1p(-share)


def _negative_binomial(k: Any, mean: Any, size: Any) -> Any:
    return betainc(size, np.floor(k) + 1, size / (size + mean))
