r"""Laws whose parameters are boosted: slopes of the log-density, and Fisher's information for each parameter.

Coordinates. Each law is written in real coordinates $\theta$ in which Fisher's information is diagonal (for
             classes its diagonal is taken), so that natural steps go parameter by parameter.

| law | coordinates | information |
|---|---|---|
| normal | $\mu, \log\sigma$ | $1/\sigma^2,\; 2$ |
| Student, $\nu$ degrees | $\mu, \log\sigma$ | $\frac{\nu + 1}{(\nu + 3)\sigma^2},\; \frac{2\nu}{\nu + 3}$ |
| log-normal | those of $\log y$ | as the normal |
| gamma, mean $m$, shape $k$ | $\log m, \log k$ | $k,\; k^2\psi'(k) - k$ |
| Poisson | $\log m$ | $m$ |
| negative binomial, mean $m$, size $r$ | $\log m, \log r$ | $\frac{mr}{m + r}$, an integral (`count_laws`) |
| Bernoulli | log-odds | $p(1 - p)$ |
| classes | logits | $p_k(1 - p_k)$ |

Limits.      A step of a logarithm is at most one before it is shrunk: an outlier may not overflow it.
Cost.        Elementwise on the host.
References.  Amari (1998); Duan et al. (2020); Rigby and Stasinopoulos (2005).
"""

import math
from typing import Any

import numpy as np
from scipy.special import (
    digamma,
    gammaincinv,
    gammaln,
    ndtri,
    polygamma,
    stdtrit,
)

from tractable.core.checks import check, check_option, to_device
from tractable.supervised.boosting.count_laws import NegativeBinomialLaw, PoissonLaw
from tractable.supervised.boosting.law import Law

__all__ = ["LAWS", "law_of"]

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_DEGREES = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 1e3)


class NormalLaw(Law):
    name, parameters, limits = "normal", ("loc", "log scale"), (math.inf, 1.0)
    has_units = identity = True

    def start(self, y, weights):
        mean = np.average(y, weights=weights)
        return np.array([mean, 0.5 * np.log(np.average((y - mean) ** 2, weights=weights))])

    def slope(self, k, theta, y):
        z = (y - theta[:, 0]) * np.exp(-theta[:, 1])
        if k == 0:
            return z * np.exp(-theta[:, 1]), np.exp(-2 * theta[:, 1])
        return z * z - 1, np.full(len(y), 2.0)

    def log_prob(self, theta, y):
        z = (y - theta[:, 0]) * np.exp(-theta[:, 1])
        return -0.5 * z * z - theta[:, 1] - _HALF_LOG_TAU

    def distribution(self, theta):
        from tractable.distributions.continuous import Normal

        return Normal(to_device(theta[:, 0]), to_device(np.exp(theta[:, 1])))

    def quantile(self, theta, p):
        return theta[:, 0] + np.exp(theta[:, 1]) * ndtri(p)

    def moments(self, theta):
        return theta[:, 0], np.exp(2 * theta[:, 1])


class StudentLaw(Law):
    """Student's t; the degrees of freedom are common to all rows."""

    name, parameters, limits = "student", ("loc", "log scale"), (math.inf, 1.0)
    has_units = identity = True

    def __init__(self, degrees: float = 5.0):
        self.degrees = degrees

    def start(self, y, weights):
        start = NormalLaw().start(y, weights)
        return start - np.array([0.0, 0.5 * math.log(self.degrees / (self.degrees - 2))])

    def slope(self, k, theta, y):
        nu, z = self.degrees, (y - theta[:, 0]) * np.exp(-theta[:, 1])
        pull = (nu + 1) * z / (nu + z * z)
        if k == 0:
            return pull * np.exp(-theta[:, 1]), (nu + 1) / (nu + 3) * np.exp(-2 * theta[:, 1])
        return pull * z - 1, np.full(len(y), 2 * nu / (nu + 3))

    def log_prob(self, theta, y):
        nu, z = self.degrees, (y - theta[:, 0]) * np.exp(-theta[:, 1])
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu * math.pi)
        return constant - (nu + 1) / 2 * np.log1p(z * z / nu) - theta[:, 1]

    def distribution(self, theta):
        from tractable.distributions.student import StudentT

        degrees = np.full(len(theta), float(self.degrees))
        return StudentT(to_device(degrees), to_device(theta[:, 0]), to_device(np.exp(theta[:, 1])))

    def quantile(self, theta, p):
        return theta[:, 0] + np.exp(theta[:, 1]) * stdtrit(self.degrees, p)

    def moments(self, theta):
        return theta[:, 0], np.exp(2 * theta[:, 1]) * self.degrees / (self.degrees - 2)

    def tuned(self, theta, y, weights):
        def with_spread(degrees: float) -> tuple[float, float]:
            """A change of degrees goes with one of the scale, so that the middle stays where it is."""
            shifted = theta + np.array([0.0, _middle(degrees) - _middle(self.degrees)])
            return float(weights @ StudentLaw(degrees).log_prob(shifted, y)), degrees

        return StudentLaw(max(map(with_spread, _DEGREES))[1])


def _middle(degrees: float) -> float:
    """How far the log-scale of Student's t lies below a normal one of the same quartiles."""
    return math.log(ndtri(0.75) / stdtrit(degrees, 0.75))


class LogNormalLaw(NormalLaw):
    name, identity = "lognormal", False

    def check(self, y):
        _positive(y, self.name)

    def log_density(self, theta, y):
        logs = np.log(np.where(y > 0, y, 1.0))
        return np.where(y > 0, self.log_prob(theta, logs) - logs, -np.inf)

    def distribution(self, theta):
        from tractable.distributions.positive import LogNormal

        return LogNormal(to_device(theta[:, 0]), to_device(np.exp(theta[:, 1])))

    def quantile(self, theta, p):
        return np.exp(super().quantile(theta, p))

    def moments(self, theta):
        spread = np.exp(2 * theta[:, 1])
        mean = np.exp(theta[:, 0] + spread / 2)
        return mean, mean**2 * np.expm1(spread)


class GammaLaw(Law):
    name, parameters, limits = "gamma", ("log mean", "log shape"), (1.0, 1.0)

    def check(self, y):
        _positive(y, self.name)

    def possible(self, y):
        return y > 0

    def start(self, y, weights):
        mean = np.average(y, weights=weights)
        gap = np.log(mean) - np.average(np.log(y), weights=weights)  # Minka's start of the shape
        shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * max(gap, 1e-12))
        return np.log([mean, shape])

    def slope(self, k, theta, y):
        shape, ratio = np.exp(theta[:, 1]), y * np.exp(-theta[:, 0])
        if k == 0:
            return shape * (ratio - 1), shape
        slope = shape * (1 + theta[:, 1] - digamma(shape) + np.log(ratio) - ratio)
        return slope, _gamma_information(shape)

    def log_prob(self, theta, y):
        shape, log_ratio = np.exp(theta[:, 1]), np.log(y) - theta[:, 0]
        ahead = shape * (theta[:, 1] + log_ratio - np.exp(log_ratio)) - gammaln(shape)
        return ahead - np.log(y)

    def distribution(self, theta):
        from tractable.distributions.gamma import Gamma

        shape = np.exp(theta[:, 1])
        return Gamma(to_device(shape), to_device(np.exp(theta[:, 1] - theta[:, 0])))

    def quantile(self, theta, p):
        return gammaincinv(np.exp(theta[:, 1]), p) * np.exp(theta[:, 0] - theta[:, 1])

    def moments(self, theta):
        return np.exp(theta[:, 0]), np.exp(2 * theta[:, 0] - theta[:, 1])


def _gamma_information(shape: np.ndarray) -> np.ndarray:
    r"""$k^2\psi'(k) - k$; for large shapes by its series, where the difference has no digits."""
    large = shape > 1e4
    safe = np.where(large, 1.0, shape)
    return np.where(large, 0.5 + 1 / (6 * shape), safe**2 * polygamma(1, safe) - safe)


LAWS: dict[str, Any] = {
    law.name: law for law in (NormalLaw, StudentLaw, LogNormalLaw, GammaLaw, PoissonLaw, NegativeBinomialLaw)
}


def law_of(name: str) -> Law:
    """The law of that name, as it is before any row is seen."""
    check_option("law", name, tuple(LAWS))
    return LAWS[name]()


def _positive(y: np.ndarray, name: str) -> None:
    low = float(y.min(initial=np.inf))
    check(low > 0, "y", f"positive for the law {name!r}", low, "Use `law='normal'` or 'student'.")
