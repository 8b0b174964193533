r"""Families of counts with a logarithmic link: Poisson and negative binomial.

Poisson.     $\mu = e^\eta$: $t = y(d - (e^d - 1))$ with $d = \eta - \log y$; for $y = 0$, $t = -e^\eta$.
Negative     variance $\mu + \mu^2/r$ with $\theta = -\log r$: with $v = y(e^d - 1)/(y + r)$,
binomial.    $t = yd - (y + r)\log(1 + v)$, slope $y - (y + r)s$ and curvature $(y + r)s(1 - s)$ for
             $s = \mu/(\mu + r)$. As $\theta \to -\infty$ it is the Poisson.
Exposure.    Counts over a time or an area $e$ have the offset $\log e$: $E[y] = e\,e^{x^\top\beta}$.
References.  Cameron and Trivedi (2013), chapters 3 and 4.
"""

from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, expit, gammainc, gammaincc

from tractable.core.support import counts
from tractable.supervised.generalised.family import HALF_LOG_2PI, Family, refuse, stirling_error

__all__ = ["NegativeBinomial", "Poisson"]

_MOST = 2.0**62  # larger draws do not fit into whole numbers


class Counts(Family):
    """What both share: whole numbers as targets, and the rate of all rows as the start."""

    discrete = True
    intercept_spread = 2.0
    support = counts

    def check(self, y: np.ndarray) -> None:
        fix = "Give counts, and the time or area over which they were counted as `exposure`."
        refuse(y, (y >= 0) & (y == np.floor(y)), "whole numbers from zero", fix)

    def start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        """The rate with half an event more: zeros alone have one too."""
        top = offset.max()
        return float(np.log(weights @ y + 0.5) - np.log(weights @ np.exp(offset - top)) - top)

    def mean(self, eta: Any, shape: Any) -> Any:
        return np.exp(eta)


class Poisson(Counts):
    r"""$P(y) = \mu^ye^{-\mu}/y!$ with $\mu = e^\eta$."""

    name = "poisson"

    def terms(self, y, eta, shape):
        some, mu = y > 0, np.exp(eta)
        d = eta - np.log(np.where(some, y, 1.0))
        value = np.where(some, y * (d - np.expm1(np.where(some, d, 0.0))), -mu)
        return value, y - mu, mu

    def rest(self, y, shape):
        some = y > 0
        safe = np.where(some, y, 1.0)
        return np.where(some, -0.5 * np.log(safe) - HALF_LOG_2PI - stirling_error(safe), 0.0)

    def cdf(self, y, eta, shape):
        return gammaincc(np.floor(y) + 1, np.exp(eta))

    def survival(self, y, eta, shape):
        return gammainc(np.floor(y) + 1, np.exp(eta))

    def variance(self, eta, shape):
        return np.exp(eta)

    def sample(self, generator, eta, shape):
        return _drawn(generator, np.exp(eta))


class NegativeBinomial(Counts):
    r"""$P(y) = \frac{\Gamma(y + r)}{y!\,\Gamma(r)}(1 - s)^rs^y$ with $s = \mu/(\mu + r)$ and one shape number
    $\theta = -\log r$: the variance is $\mu + e^\theta\mu^2$."""

    name = "negative_binomial"
    shape_mean = (-1.0,)
    shape_spread = (2.0,)

    def shape_start(self, y, weights, offset):
        mean = weights @ y / weights.sum()
        excess = weights @ (y - mean) ** 2 / weights.sum() - mean
        return [float(np.clip(np.log(max(excess, 1e-3) / max(mean, 1e-3) ** 2), -5.0, 3.0))]

    def terms(self, y, eta, shape):
        some, log_r = y > 0, -shape[0]
        r = np.exp(log_r)
        s = expit(eta - log_r)
        d = np.where(some, eta - np.log(np.where(some, y, 1.0)), 0.0)
        rise = np.where(some, np.log1p(y * np.expm1(d) / (y + r)), np.logaddexp(0.0, eta - log_r))
        return y * d - (y + r) * rise, y - (y + r) * s, (y + r) * s * (1 - s)

    def rest(self, y, shape):
        some, r = y > 0, np.exp(-shape[0])
        safe = np.where(some, y, 1.0)
        roots = 0.5 * (np.log(r) - np.log(safe + r) - np.log(safe)) - HALF_LOG_2PI
        errors = stirling_error(safe + r) - stirling_error(r) - stirling_error(safe)
        return np.where(some, roots + errors, 0.0)

    def cdf(self, y, eta, shape):
        return betainc(np.exp(-shape[0]), np.floor(y) + 1, expit(-eta - shape[0]))

    def survival(self, y, eta, shape):
        return betaincc(np.exp(-shape[0]), np.floor(y) + 1, expit(-eta - shape[0]))

    def variance(self, eta, shape):
        return np.exp(eta) * (1 + np.exp(eta + shape[0]))

    def sample(self, generator, eta, shape):
        r = np.exp(-shape[0])
        return _drawn(
            generator, generator.standard_gamma(np.broadcast_to(r, np.shape(eta))) * np.exp(eta) / r
        )


def _drawn(generator: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Poisson draws; rates past the largest whole numbers are drawn from the normal law, as numbers."""
    large = rate > 1e15
    draws = generator.poisson(np.where(large, 1.0, rate)).astype(float)
    normal = generator.standard_normal(np.shape(rate)) if np.any(large) else 0.0
    return np.where(large, np.floor(rate + np.sqrt(rate) * normal), draws)
