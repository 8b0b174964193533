"""Families of laws on the host: parameters of the package's distributions, functions of SciPy's.

Each family is a line of a table: the names of its parameters, and what they are called there.

Cost.        One special function per row; nothing is compiled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tractable.race.laws import Laws

__all__ = ["FAMILIES", "FamilyLaws"]


class _Family(NamedTuple):
    parameters: tuple[str, ...]
    name: str
    arguments: Callable[..., tuple]
    discrete: bool = False


FAMILIES = {
    "StudentT": _Family(("degrees", "loc", "scale"), "t", lambda v, m, s: (v, m, s)),
    "LogNormal": _Family(("loc", "scale"), "lognorm", lambda m, s: (s, 0.0, np.exp(m))),
    "Gamma": _Family(("concentration", "rate"), "gamma", lambda a, b: (a, 0.0, 1 / b)),
    "Beta": _Family(("a", "b"), "beta", lambda a, b: (a, b)),
    "Weibull": _Family(("concentration", "scale"), "weibull_min", lambda k, s: (k, 0.0, s)),
    "Poisson": _Family(("rate",), "poisson", lambda rate: (rate,), True),
    "NegativeBinomial": _Family(("total", "probs"), "nbinom", lambda r, p: (r, p), True),
}


class FamilyLaws(Laws):
    """Laws of one family by their parameters, one per row.

    >>> FamilyLaws("Poisson", (np.array([2.0]),)).quantile(0.5).tolist()
    [2.0]
    """

    def __init__(self, name: str, parameters: tuple[np.ndarray, ...]):
        from scipy import stats

        self.name, self.parameters, family = name, parameters, FAMILIES[name]
        self.discrete = family.discrete
        self.frozen: Any = getattr(stats, family.name)(*family.arguments(*parameters))

    @classmethod
    def of(cls, name: str, distribution: Any) -> "FamilyLaws":
        """Those of a distribution of the family."""
        found = (np.asarray(getattr(distribution, each), float) for each in FAMILIES[name].parameters)
        return cls(name, tuple(np.broadcast_to(each, distribution.shape) for each in found))

    def __len__(self) -> int:
        return len(self.parameters[0])

    def log_density(self, y):
        return self.frozen.logpmf(y) if self.discrete else self.frozen.logpdf(y)

    def cdf(self, y):
        return self.frozen.cdf(y)

    @property
    def mean(self):
        return np.broadcast_to(self.frozen.mean(), len(self))

    @property
    def variance(self):
        return np.broadcast_to(self.frozen.var(), len(self))

    def take(self, rows):
        return FamilyLaws(self.name, tuple(each[rows] for each in self.parameters))

    def bounds(self, level):
        found = self.quantile(level)
        return found, found

    def place(self, level):
        if not self.discrete:
            return self.quantile(level)
        z = special.ndtri(level)  # twice the reach of a normal law above the mean: counts are skewed
        return np.maximum(self.mean + np.where(z > 0, 2.0, 1.0) * z * self.std, 0.0)

    def quantile(self, level):
        return np.asarray(self.frozen.ppf(level), float)
