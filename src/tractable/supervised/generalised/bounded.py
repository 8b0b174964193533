r"""Families of proportions, and of any number with a normal law: beta with a logistic link, normal.

Beta.        Mean $\mu = 1/(1 + e^{-\eta})$, precision $\phi = e^\theta$: $y \sim \mathrm{Beta}(\mu\phi, (1 -
             \mu)\phi)$, variance $\mu(1 - \mu)/(1 + \phi)$. The curvature is the expected one,
             $\phi^2\mu^2(1 - \mu)^2[\psi'(\mu\phi) + \psi'((1 - \mu)\phi)]$, which is never negative.
Normal.      Mean $\eta$ and $\theta = \log\sigma$: the law of `heteroscedastic`.
References.  Ferrari and Cribari-Neto (2004), "Beta regression for modelling rates and proportions".
"""

import numpy as np
from scipy.special import (
    betainc,
    betaincc,
    betaincinv,
    expit,
    gammaln,
    log_expit,
    logit,
    ndtr,
    ndtri,
    psi,
    zeta,
)

from tractable.core.support import real, unit_interval
from tractable.supervised.generalised.family import HALF_LOG_2PI, Family, refuse, refuse_constant

__all__ = ["Beta", "Normal"]


class Beta(Family):
    r"""Mean $1/(1 + e^{-\eta})$ and precision $\phi = e^\theta$."""

    name = "beta"
    shape_mean = (2.0,)
    shape_spread = (2.5,)
    fall = 1e-10  # steps by the expected curvature close in by a factor each
    support = unit_interval
    line = (logit, expit, lambda v: log_expit(v) + log_expit(-v))

    def check(self, y: np.ndarray) -> None:
        fix = "Give other `bounds`, or model the ends apart: a beta law has no density there."
        refuse(y, (y > 0) & (y < 1), "inside the bounds, and not on them", fix)
        refuse_constant(y, "numbers")

    def start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        return float(logit(weights @ y / weights.sum()))

    def shape_start(self, y, weights, offset):
        mean = weights @ y / weights.sum()
        square = weights @ (y - mean) ** 2 / weights.sum()
        return [float(np.log(max(mean * (1 - mean) / max(square, 1e-300) - 1, 0.1)))]

    def terms(self, y, eta, shape):
        phi, mu, other = np.exp(shape[0]), expit(eta), expit(-eta)
        a, b, odds = mu * phi, other * phi, logit(y)
        value = a * odds - gammaln(a) - gammaln(b)
        slope = phi * mu * other * (odds - psi(a) + psi(b))
        return value, slope, (phi * mu * other) ** 2 * (zeta(2, a) + zeta(2, b))

    def rest(self, y, shape):
        phi = np.exp(shape[0])
        return gammaln(phi) + (phi - 1) * np.log1p(-y) - np.log(y)

    def cdf(self, y, eta, shape):
        phi = np.exp(shape[0])
        return betainc(expit(eta) * phi, expit(-eta) * phi, y)

    def survival(self, y, eta, shape):
        phi = np.exp(shape[0])
        return betaincc(expit(eta) * phi, expit(-eta) * phi, y)

    def icdf(self, p, eta, shape):
        phi = np.exp(shape[0])
        return betaincinv(expit(eta) * phi, expit(-eta) * phi, p)

    def mean(self, eta, shape):
        return expit(eta)

    def variance(self, eta, shape):
        return np.exp(log_expit(eta) + log_expit(-eta) - np.log1p(np.exp(shape[0])))

    def sample(self, generator, eta, shape):
        phi = np.exp(shape[0])
        return generator.beta(expit(eta) * phi, expit(-eta) * phi)


class Normal(Family):
    r"""Mean $\eta$ and deviation $e^\theta$."""

    name = "normal"
    shape_mean = (0.0,)
    shape_spread = (2.0,)
    support = real
    line = (np.copy, np.copy, np.zeros_like)

    def check(self, y: np.ndarray) -> None:
        refuse_constant(y, "numbers")

    def terms(self, y, eta, shape):
        sigma = np.exp(shape[0])
        u = (y - eta) / sigma
        return -0.5 * u**2, u / sigma, np.ones_like(u) / sigma**2

    def rest(self, y, shape):
        return -shape[0] - HALF_LOG_2PI

    def cdf(self, y, eta, shape):
        return ndtr((y - eta) / np.exp(shape[0]))

    def survival(self, y, eta, shape):
        return ndtr((eta - y) / np.exp(shape[0]))

    def icdf(self, p, eta, shape):
        return eta + np.exp(shape[0]) * ndtri(p)

    def mean(self, eta, shape):
        return eta + 0 * shape[0]

    def variance(self, eta, shape):
        return np.exp(2 * shape[0]) + 0 * eta

    def sample(self, generator, eta, shape):
        return eta + np.exp(shape[0]) * generator.standard_normal(np.shape(eta))
