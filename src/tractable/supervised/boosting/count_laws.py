r"""Counts whose parameters are boosted: Poisson and negative binomial.

Information. Of the logarithm of the size $r$ of a negative binomial law with mean $m$:
             $r^2\bigl\{\int_0^\infty \frac{t e^{-rt}}{1 - e^{-t}}\bigl[1 - (1 + \tfrac mr(1 - e^{-t}))^{-r}
             \bigr]dt - \frac{m}{r(r + m)}\bigr\}$, by the generating function of the counts; a trapezoid in
             $\log t$.
Cost.        Elementwise on the host; 64 points for the integral.
"""

import numpy as np
from scipy.special import digamma, expit, gammaln

from tractable.core.checks import check, to_device
from tractable.supervised.boosting.law import Law

__all__ = ["NegativeBinomialLaw", "PoissonLaw"]

_GRID = np.linspace(-16.0, 4.5, 65)  # log t relative to -log r: beyond, the integrand is below rounding


class PoissonLaw(Law):
    name, parameters, limits = "poisson", ("log mean",), (1.0,)

    def check(self, y):
        _counts(y, self.name)

    def possible(self, y):
        return _is_count(y)

    def start(self, y, weights):
        return np.log([np.average(y, weights=weights)])

    def slope(self, k, theta, y):
        mean = np.exp(theta[:, 0])
        return y - mean, mean

    def log_prob(self, theta, y):
        return y * theta[:, 0] - np.exp(theta[:, 0]) - gammaln(y + 1)

    def distribution(self, theta):
        from tractable.distributions.counts import Poisson

        return Poisson(to_device(np.exp(theta[:, 0])))

    def moments(self, theta):
        return np.exp(theta[:, 0]), np.exp(theta[:, 0])


class NegativeBinomialLaw(Law):
    name, parameters, limits = "negative_binomial", ("log mean", "log size"), (1.0, 1.0)

    def check(self, y):
        _counts(y, self.name)

    def possible(self, y):
        return _is_count(y)

    def start(self, y, weights):
        mean = np.average(y, weights=weights)
        excess = max(np.average((y - mean) ** 2, weights=weights) - mean, 0.01 * mean)
        return np.log([mean, mean**2 / excess])

    def slope(self, k, theta, y):
        mean, size = np.exp(theta).T
        if k == 0:
            return size * (y - mean) / (mean + size), mean * size / (mean + size)
        inner = digamma(y + size) - digamma(size) - np.log1p(mean / size) - (y - mean) / (mean + size)
        return size * inner, _size_information(mean, size)

    def log_prob(self, theta, y):
        mean, size = np.exp(theta).T
        among = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        return among - size * np.log1p(mean / size) + y * (theta[:, 0] - np.log(mean + size))

    def distribution(self, theta):
        from tractable.distributions.counts import NegativeBinomial

        return NegativeBinomial(to_device(np.exp(theta[:, 1])), to_device(expit(theta[:, 1] - theta[:, 0])))

    def moments(self, theta):
        mean, size = np.exp(theta).T
        return mean, mean + mean**2 / size


def _size_information(mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The information of the logarithm of the size; by its limit where the difference has no digits."""
    t = np.exp(_GRID)[None] / size[:, None]
    whole = -np.expm1(-t)
    share = -np.expm1(-size[:, None] * np.log1p(mean[:, None] / size[:, None] * whole))
    inside = t * t * np.exp(-np.exp(_GRID))[None] / whole * share
    integral = inside.sum(1) * (_GRID[1] - _GRID[0])
    found = size**2 * integral - mean * size / (size + mean)
    large = 0.5 * (mean / (mean + size)) ** 2  # the limit of large sizes
    return np.where(found > 1e-8 * size**2 * integral, found, large)


def _is_count(y: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y == np.floor(y))


def _counts(y: np.ndarray, name: str) -> None:
    bad = ~_is_count(y)
    got = y[bad][0] if bad.any() else None
    fix = "Use `law='gamma'` for positive numbers, 'normal' for others."
    check(not bad.any(), "y", f"counts 0, 1, 2, ... for the law {name!r}", got, fix)
