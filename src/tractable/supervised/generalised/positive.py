r"""Families of positive numbers with a logarithmic link: Gamma; and times until an event, which may be
censored, Weibull and log-normal.

Gamma.       Mean $\mu = e^\eta$ and shape $a = e^\theta$ (variance $\mu^2/a$): with $d = \eta - \log y$,
             $t = -a(d + e^{-d} - 1)$.
Accelerated  $\log y = \eta + \sigma\epsilon$ with $\sigma = e^\theta$: the columns stretch time. With
failure      $u = (\log y - \eta)/\sigma$, Weibull: $\log p = u - e^u - \log\sigma - \log y$ and
time.        $\log P(Y > y) = -e^u$; log-normal: those of a normal $u$.
Censoring.   A target below zero stands for "longer than $|y|$": `censor` writes it so, and only the two
             families of times read it.
References.  McCullagh and Nelder (1989), chapter 8; Kalbfleisch and Prentice (2002), chapter 2.
"""

from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv, gammaln, log_ndtr, ndtr, ndtri

from tractable.core.support import positive
from tractable.supervised.generalised.family import (
    HALF_LOG_2PI,
    Family,
    refuse,
    refuse_constant,
    stirling_error,
)

__all__ = ["Gamma", "LogNormalTime", "WeibullTime", "censor"]


def censor(y: np.ndarray, event: np.ndarray) -> np.ndarray:
    """Times with the sign that says whether the event was seen."""
    return np.where(event, y, -y)


class Gamma(Family):
    r"""Mean $e^\eta$ and shape $a = e^\theta$."""

    name = "gamma"
    shape_mean = (0.0,)
    shape_spread = (2.5,)
    support = positive

    def check(self, y: np.ndarray) -> None:
        refuse(y, y > 0, "positive", "Model zeros apart: they have no density.")
        refuse_constant(y, "numbers")

    def start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        scaled = np.log(y) - offset
        top = scaled.max()
        return float(top + np.log(weights @ np.exp(scaled - top) / weights.sum()))

    def shape_start(self, y, weights, offset):
        spread = _spread(np.log(y) - offset, weights)
        return [float(-2 * np.log(spread))]

    def terms(self, y, eta, shape):
        d, a = eta - np.log(y), np.exp(shape[0])
        fall = np.expm1(-d)
        return -a * (d + fall), a * fall, a * (fall + 1)

    def rest(self, y, shape):
        return 0.5 * shape[0] - HALF_LOG_2PI - stirling_error(np.exp(shape[0])) - np.log(y)

    def cdf(self, y, eta, shape):
        a = np.exp(shape[0])
        return gammainc(a, a * np.exp(np.log(y) - eta))

    def survival(self, y, eta, shape):
        a = np.exp(shape[0])
        return gammaincc(a, a * np.exp(np.log(y) - eta))

    def icdf(self, p, eta, shape):
        a = np.exp(shape[0])
        return gammaincinv(a, p) / a * np.exp(eta)

    def mean(self, eta, shape):
        return np.exp(eta)

    def variance(self, eta, shape):
        return np.exp(2 * eta - shape[0])

    def sample(self, generator, eta, shape):
        a = np.broadcast_to(np.exp(shape[0]), np.shape(eta))
        return generator.standard_gamma(a) / a * np.exp(eta)


class _Time(Family):
    r"""$\log y = \eta + \sigma\epsilon$ with one shape number $\theta = \log\sigma$."""

    shape_mean = (-0.5,)
    shape_spread = (2.0,)
    support = positive

    def check(self, y: np.ndarray) -> None:
        refuse(np.abs(y), np.abs(y) > 0, "positive", "A time of zero has no logarithm.")
        seen = int((y > 0).sum())
        fix = "Without an event nothing says how long it takes."
        if not seen:
            refuse(y, y > 0, "times with at least one event", fix)
        refuse_constant(np.abs(y), "times")

    def start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        return float(weights @ (np.log(np.abs(y)) - offset) / weights.sum())

    def shape_start(self, y, weights, offset):
        return [float(np.log(_spread(np.log(np.abs(y)) - offset, weights)))]

    def _standard(self, y: Any, eta: Any, shape: Any) -> tuple[Any, Any, Any]:
        """Whether the event was seen, the standardised logarithm, and the scale."""
        sigma = np.exp(shape[0])
        return y > 0, (np.log(np.abs(y)) - eta) / sigma, sigma

    def rest(self, y, shape):
        return np.where(y > 0, -shape[0] - np.log(np.abs(y)), 0.0)


class WeibullTime(_Time):
    r"""$P(Y > y) = \exp(-(y/e^\eta)^{1/\sigma})$."""

    name = "weibull"

    def terms(self, y, eta, shape):
        seen, u, sigma = self._standard(y, eta, shape)
        hazard = np.exp(u)
        return np.where(seen, u, 0.0) - hazard, (hazard - seen) / sigma, hazard / sigma**2

    def cdf(self, y, eta, shape):
        return -np.expm1(-np.exp(self._standard(y, eta, shape)[1]))

    def survival(self, y, eta, shape):
        return np.exp(-np.exp(self._standard(y, eta, shape)[1]))

    def icdf(self, p, eta, shape):
        return np.exp(eta + np.exp(shape[0]) * np.log(-np.log1p(-p)))

    def mean(self, eta, shape):
        return np.exp(eta + gammaln(1 + np.exp(shape[0])))

    def variance(self, eta, shape):
        sigma = np.exp(shape[0])
        first = gammaln(1 + sigma)
        return np.exp(2 * (eta + first)) * np.expm1(gammaln(1 + 2 * sigma) - 2 * first)

    def sample(self, generator, eta, shape):
        waited = generator.standard_exponential(np.shape(eta))
        return np.exp(eta + np.exp(shape[0]) * np.log(waited))


class LogNormalTime(_Time):
    r"""$\log y \sim N(\eta, \sigma^2)$."""

    name = "log_normal"

    def terms(self, y, eta, shape):
        seen, u, sigma = self._standard(y, eta, shape)
        tail = log_ndtr(-u)
        far = u > 1e4  # there the ratio is u + 1/u to the last digit, and the difference of logs has none
        near = np.where(far, 0.0, u)
        ratio = np.exp(-0.5 * near**2 - HALF_LOG_2PI - np.where(far, 0.0, tail))
        ratio = np.where(far, u + 1 / np.where(far, u, 1.0), ratio)
        bend = np.where(far, 1.0, np.maximum(ratio * (ratio - u), 0.0))
        value = np.where(seen, -0.5 * u**2 - HALF_LOG_2PI, tail)
        return value, np.where(seen, u, ratio) / sigma, np.where(seen, 1.0, bend) / sigma**2

    def cdf(self, y, eta, shape):
        return ndtr(self._standard(y, eta, shape)[1])

    def survival(self, y, eta, shape):
        return ndtr(-self._standard(y, eta, shape)[1])

    def icdf(self, p, eta, shape):
        return np.exp(eta + np.exp(shape[0]) * ndtri(p))

    def mean(self, eta, shape):
        return np.exp(eta + 0.5 * np.exp(2 * shape[0]))

    def variance(self, eta, shape):
        square = np.exp(2 * shape[0])
        return np.exp(2 * eta + square) * np.expm1(square)

    def sample(self, generator, eta, shape):
        return np.exp(eta + np.exp(shape[0]) * generator.standard_normal(np.shape(eta)))


def _spread(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted standard deviation, positive."""
    mean = weights @ values / weights.sum()
    return float(max(np.sqrt(weights @ (values - mean) ** 2 / weights.sum()), 1e-8))
