r"""Families of laws by their special functions: Student, log-normal, gamma, beta, Weibull, Poisson, negative
binomial.

Each family is a line of a table: names of its parameters (those of the distribution of the same name), the
log-density, the distribution function, the quantile where it has a closed form, mean and variance. Parameters
are arrays `(rows,)`, or `(rows, members)` of mixtures with `weights`.

Cost.        One special function per row.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tractable.race.laws import Laws

__all__ = ["FAMILIES", "FamilyLaws"]


class _Family(NamedTuple):
    parameters: tuple[str, ...]
    log_density: Callable
    cdf: Callable
    quantile: Callable
    mean: Callable
    variance: Callable
    discrete: bool = False


def _student_log(y, v, m, s):
    z = (y - m) / s
    return -0.5 * (v + 1) * np.log1p(z**2 / v) - np.log(s) - 0.5 * np.log(v) - special.betaln(v / 2, 0.5)


def _student_mean(v, m, s):
    return np.where(v > 1, m, np.nan)


def _student_variance(v, m, s):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(v > 2, s**2 * v / (v - 2), np.where(v > 1, np.inf, np.nan))


def _positive(function: Callable, below: float) -> Callable:
    """A function of positive values; `below` elsewhere."""

    def safe(y, *parameters):
        inside = y > 0
        return np.where(inside, function(np.where(inside, y, 1.0), *parameters), below)

    return safe


def _beta_log(y, a, b):
    inside = (y > 0) & (y < 1)
    x = np.where(inside, y, 0.5)
    found = special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
    return np.where(inside, found, -np.inf)


def _weibull_log(y, k, s):
    z = y / s
    return np.log(k / s) + (k - 1) * np.log(z) - z**k


def _weibull_variance(k, s):
    return s**2 * (special.gamma(1 + 2 / k) - special.gamma(1 + 1 / k) ** 2)


def _count(function: Callable) -> Callable:
    def safe(y, *parameters):
        whole = (y >= 0) & (y == np.floor(y))
        return np.where(whole, function(np.where(whole, y, 0.0), *parameters), -np.inf)

    return safe


def _poisson_cdf(y, rate):
    return np.where(y >= 0, special.gammaincc(np.maximum(np.floor(y), 0) + 1, rate), 0.0)


def _negative_binomial_log(y, r, p):
    return (
        special.gammaln(y + r) - special.gammaln(y + 1) - special.gammaln(r)
        + special.xlogy(r, p) + special.xlog1py(y, -p)
    )  # fmt: skip


def _negative_binomial_cdf(y, r, p):
    return np.where(y >= 0, special.betainc(r, np.maximum(np.floor(y), 0) + 1, p), 0.0)


def _poisson_reach(level, rate):
    return rate + 12 * np.sqrt(rate) + 40


def _negative_binomial_reach(level, r, p):
    mean = r * (1 - p) / p
    return mean + 60 * np.sqrt(mean / p) + 60


FAMILIES = {
    "StudentT": _Family(
        ("degrees", "loc", "scale"), _student_log, lambda y, v, m, s: special.stdtr(v, (y - m) / s),
        lambda p, v, m, s: m + s * special.stdtrit(v, p), _student_mean, _student_variance,
    ),
    "LogNormal": _Family(
        ("loc", "scale"),
        _positive(lambda y, m, s: -0.5 * ((np.log(y) - m) / s) ** 2 - np.log(y * s)
                  - 0.5 * np.log(2 * np.pi), -np.inf),
        _positive(lambda y, m, s: special.ndtr((np.log(y) - m) / s), 0.0),
        lambda p, m, s: np.exp(m + s * special.ndtri(p)), lambda m, s: np.exp(m + s**2 / 2),
        lambda m, s: np.expm1(s**2) * np.exp(2 * m + s**2),
    ),
    "Gamma": _Family(
        ("concentration", "rate"),
        _positive(lambda y, a, b: a * np.log(b) + (a - 1) * np.log(y) - b * y - special.gammaln(a), -np.inf),
        _positive(lambda y, a, b: special.gammainc(a, b * y), 0.0),
        lambda p, a, b: special.gammaincinv(a, p) / b, lambda a, b: a / b, lambda a, b: a / b**2,
    ),
    "Beta": _Family(
        ("a", "b"), _beta_log, lambda y, a, b: special.betainc(a, b, np.clip(y, 0, 1)),
        lambda p, a, b: special.betaincinv(a, b, p), lambda a, b: a / (a + b),
        lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    ),
    "Weibull": _Family(
        ("concentration", "scale"), _positive(_weibull_log, -np.inf),
        _positive(lambda y, k, s: -np.expm1(-((y / s) ** k)), 0.0),
        lambda p, k, s: s * (-np.log1p(-p)) ** (1 / k), lambda k, s: s * special.gamma(1 + 1 / k),
        _weibull_variance,
    ),
    "Poisson": _Family(
        ("rate",), _count(lambda y, rate: special.xlogy(y, rate) - rate - special.gammaln(y + 1)),
        _poisson_cdf, _poisson_reach, lambda rate: rate, lambda rate: rate, True,
    ),
    "NegativeBinomial": _Family(
        ("total", "probs"), _count(_negative_binomial_log), _negative_binomial_cdf, _negative_binomial_reach,
        lambda r, p: r * (1 - p) / p, lambda r, p: r * (1 - p) / p**2, True,
    ),
}  # fmt: skip


class FamilyLaws(Laws):
    """Laws of one family by their parameters, one per row.

    >>> FamilyLaws("Poisson", (np.array([2.0]),)).quantile(0.5).tolist()
    [2.0]
    """

    def __init__(self, name: str, parameters: tuple[np.ndarray, ...]):
        self.name, self.family, self.parameters = name, FAMILIES[name], parameters
        self.discrete = self.family.discrete

    @classmethod
    def of(cls, name: str, distribution: Any) -> "FamilyLaws":
        """Those of a distribution of the family."""
        found = (np.asarray(getattr(distribution, each), float) for each in FAMILIES[name].parameters)
        return cls(name, tuple(np.broadcast_to(each, distribution.shape) for each in found))

    def __len__(self) -> int:
        return len(self.parameters[0])

    def log_density(self, y):
        return self.family.log_density(np.asarray(y, float), *self.parameters)

    def cdf(self, y):
        return self.family.cdf(np.asarray(y, float), *self.parameters)

    @property
    def mean(self):
        return self.family.mean(*self.parameters)

    @property
    def variance(self):
        return self.family.variance(*self.parameters)

    def take(self, rows):
        return FamilyLaws(self.name, tuple(each[rows] for each in self.parameters))

    def bounds(self, level):
        found = self.family.quantile(level, *self.parameters)
        return (np.zeros(len(self)), found) if self.discrete else (found, found)

    def place(self, level):
        if not self.discrete:
            return self.bounds(level)[0]
        z = special.ndtri(level)  # twice the reach of a normal law above the mean: counts are skewed
        return np.maximum(self.mean + np.where(z > 0, 2.0, 1.0) * z * self.std, 0.0)

    def quantile(self, level):
        return super().quantile(level) if self.discrete else self.bounds(level)[0]
