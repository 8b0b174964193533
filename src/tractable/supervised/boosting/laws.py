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
| negative binomial, mean $m$, size $r$ | $\log m, \log r$ | $\frac{mr}{m + r}$, an integral |
| Bernoulli | log-odds | $p(1 - p)$ |
| classes | logits | $p_k(1 - p_k)$ |

Integral.    $r^2\bigl\{\int_0^\infty \frac{t e^{-rt}}{1 - e^{-t}}\bigl[1 - (1 + \tfrac mr(1 - e^{-t}))^{-r}
             \bigr]dt - \frac{m}{r(r + m)}\bigr\}$, by the generating function of the counts; a trapezoid in
             $\log t$.
Limits.      A step of a logarithm is at most one before it is shrunk: an outlier may not overflow it.
Cost.        Elementwise on the host; 64 points for the integral.
References.  Amari (1998); Duan et al. (2020); Rigby and Stasinopoulos (2005).
"""

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import (
    digamma,
    expit,
    gammaincinv,
    gammaln,
    log_expit,
    logsumexp,
    ndtri,
    polygamma,
    stdtrit,
)

from tractable.core.checks import check, check_option, to_device
from tractable.distributions.base import Distribution

__all__ = ["LAWS", "Law", "law_of"]

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_GRID = np.linspace(-16.0, 4.5, 65)  # log t relative to -log r: beyond, the integrand is below rounding
_DEGREES = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 1e3)


class Law:
    """One family: `num_parameters` coordinates of each row, which trees add to."""

    name: ClassVar[str] = ""
    parameters: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[tuple[float, ...]] = ()  # of one step of each coordinate
    has_units: ClassVar[bool] = False  # whether targets may be centred and scaled
    identity: ClassVar[bool] = False  # whether the first coordinate is the mean itself
    target: ClassVar[str] = "numbers"

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def crossed(self) -> bool:
        """Whether later coordinates describe what the first leaves over: they are fitted to its out-of-fold
        values, since what a fit has seen looks less noisy than it is."""
        return self.num_parameters > 1

    def check(self, y: np.ndarray) -> None:
        """Refuse targets that the law cannot produce."""

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The coordinates that fit all rows alike."""
        raise NotImplementedError

    def slope(self, k: int, theta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of each row's log-density in coordinate `k`, and its information."""
        raise NotImplementedError

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The log-density (or mass) of each row's target."""
        raise NotImplementedError

    def log_density(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The same for targets as they came: `log_prob` of a log-normal is that of logarithms. An impossible
        target has minus infinity."""
        ok = self.possible(y)
        return np.where(ok, self.log_prob(theta, np.where(ok, y, 1.0)), -np.inf)

    def possible(self, y: np.ndarray) -> np.ndarray:
        """Which targets the law can produce."""
        return np.ones(len(y), bool)

    def distribution(self, theta: np.ndarray) -> Distribution:
        """The law of each row."""
        raise NotImplementedError

    def quantile(self, theta: np.ndarray, p: float) -> np.ndarray:
        """The quantile of each row, on the host where SciPy has it: nothing is compiled."""
        made: Any = self.distribution(theta)
        return np.asarray(made.icdf(p))

    def moments(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each row."""
        raise NotImplementedError

    def tuned(self, theta: np.ndarray, y: np.ndarray, weights: np.ndarray) -> "Law":
        """The law with what is common to all rows fitted to held-out coordinates."""
        return self


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


class BernoulliLaw(Law):
    name, parameters, limits, target = "bernoulli", ("log-odds",), (4.0,), "classes"

    def start(self, y, weights):
        share = (weights @ y + 1) / (weights.sum() + 2)
        return np.array([np.log(share / (1 - share))])

    def slope(self, k, theta, y):
        p = expit(theta[:, 0])
        return y - p, np.maximum(p * (1 - p), 1e-16)

    def log_prob(self, theta, y):
        return log_expit(np.where(y == 1, theta[:, 0], -theta[:, 0]))

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        return np.stack([expit(-theta[:, 0]), expit(theta[:, 0])], axis=1)


class ClassesLaw(Law):
    """Any number of classes, with one logit each."""

    name, target = "classes", "classes"

    def __init__(self, num_classes: int):
        self.num_classes = num_classes
        self.parameters = tuple(f"logit {k}" for k in range(num_classes))  # pyright: ignore
        self.limits = (4.0,) * num_classes  # pyright: ignore

    @property
    def crossed(self) -> bool:
        return False

    def start(self, y, weights):
        counts = np.bincount(y.astype(int), weights, self.num_classes) + 1
        return np.log(counts / counts.sum())

    def slope(self, k, theta, y):
        p = self.probabilities(theta)[:, k]
        return (y == k) - p, np.maximum(p * (1 - p), 1e-16)

    def log_prob(self, theta, y):
        return theta[np.arange(len(y)), y.astype(int)] - logsumexp(theta, axis=1)

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        odds = np.exp(theta - theta.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)


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


def _is_count(y: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y == np.floor(y))


def _counts(y: np.ndarray, name: str) -> None:
    bad = ~_is_count(y)
    got = y[bad][0] if bad.any() else None
    fix = "Use `law='gamma'` for positive numbers, 'normal' for others."
    check(not bad.any(), "y", f"counts 0, 1, 2, ... for the law {name!r}", got, fix)
