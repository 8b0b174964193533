r"""What a family of a generalised linear model states: a likelihood with two derivatives, and a law on the
host.

Likelihood.  $\log p(y \mid \eta, \theta) = t(y, \eta, \theta) + r(y, \theta)$ with the linear predictor
             $\eta$ and shape numbers $\theta$; $t$ comes with its slope in $\eta$ and with its curvature
             $-\partial^2t/\partial\eta^2$ (or the expectation of that), and is zero at the best $\eta$ of a
             row, so that large targets keep their digits.
Law.         Density, distribution function, quantiles, moments and draws of a target at $\eta$ and
             $\theta$, elementwise in NumPy: nothing is compiled for a table.
Start.       $\eta$ of a model without columns, about which the intercept has its prior, and the normal prior
             of $\theta$.
References.  McCullagh and Nelder (1989); Loader (2000) for the forms of masses.
"""

from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from tractable.core.checks import check
from tractable.core.support import Support

__all__ = ["Family", "stirling_error"]

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


class Family:
    """A likelihood of one number for each row, given one linear predictor and a few shape numbers.

    Instances have no state: what is here can be asked in any process by the name of the family.
    """

    name: ClassVar[str]
    discrete: ClassVar[bool] = False
    shape_mean: ClassVar[tuple[float, ...]] = ()  # of the normal prior of each shape number
    shape_spread: ClassVar[tuple[float, ...]] = ()
    intercept_spread: ClassVar[float] = 3.0  # prior deviation of the intercept from `start`
    fall: ClassVar[float] = 1e-14  # of the objective per row, below which Newton steps end
    support: ClassVar[Support]
    line: ClassVar[tuple] = (
        np.log,
        np.exp,
        lambda v: v,
    )  # to the line and back, and the logarithm of the slope

    def check(self, y: np.ndarray) -> None:
        """Refuse targets that the family cannot produce, by their row."""
        raise NotImplementedError

    def start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        """The linear predictor, beside the offset, that suits all rows at once."""
        raise NotImplementedError

    def shape_start(self, y: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> list[float]:
        """Where the search for the shape numbers begins."""
        return list(self.shape_mean)

    def terms(self, y: Any, eta: Any, shape: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What depends on the linear predictor, its slope and its (negative) curvature there."""
        raise NotImplementedError

    def rest(self, y: Any, shape: Any) -> Any:
        """What does not."""
        raise NotImplementedError

    def log_prob(self, y: Any, eta: Any, shape: Any) -> Any:
        """The log-density of targets in the support."""
        return self.terms(y, eta, shape)[0] + self.rest(y, shape)

    def cdf(self, y: Any, eta: Any, shape: Any) -> Any:
        raise NotImplementedError

    def survival(self, y: Any, eta: Any, shape: Any) -> Any:
        raise NotImplementedError

    def icdf(self, p: Any, eta: Any, shape: Any) -> Any:
        """Quantiles; families of counts are searched instead."""
        raise NotImplementedError

    def mean(self, eta: Any, shape: Any) -> Any:
        raise NotImplementedError

    def variance(self, eta: Any, shape: Any) -> Any:
        raise NotImplementedError

    def sample(self, generator: np.random.Generator, eta: Any, shape: Any) -> Any:
        raise NotImplementedError


def stirling_error(x: Any) -> np.ndarray:
    r"""$\log\Gamma(x) - [(x - \tfrac12)\log x - x + \tfrac12\log 2\pi]$ for positive numbers, on the host.

    >>> float(stirling_error(np.array([1e9]))[0].round(20))
    8.333333333e-11
    """
    x = np.asarray(x, float)
    large = x > 16
    far = np.where(large, x, 16.0)
    square = far**-2
    found = np.asarray((1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / far)
    near = x[~large]
    found[~large] = gammaln(near) - (near - 0.5) * np.log(near) + near - HALF_LOG_2PI
    return found


def refuse(y: np.ndarray, ok: np.ndarray, must: str, fix: str = "") -> None:
    """Name the first target that is not as it must be, and its row."""
    if not ok.all():
        row = int(np.argmin(ok))
        check(False, "y", must, f"{y[row]:g} in row {row}", fix)


def refuse_constant(y: np.ndarray, what: str) -> None:
    """Equal targets say nothing about a spread."""
    varies = len(y) > 1 and y.min() < y.max()
    got = f"constant targets ({y[0]:g} in all rows)" if len(y) > 1 else "one row (1 sample)"
    check(varies, "y", f"of at least two different {what}, which show a spread", got)
