r"""Exponential families: natural parameters, statistics, and everything that follows from the log-normaliser.

Family.      $p(x \mid \eta) = h(x) \exp\{\langle \eta, t(x) \rangle - A(\eta)\}$.
Identities.  $\nabla A = E[t(x)]$, $\nabla^2 A = \mathrm{Cov}[t(x)]$ (the Fisher information in $\eta$); maximum likelihood sets the model's
             mean statistics to the data's.
Used by.     Every closed-form M-step, naive Bayes, discriminants, CAVI, distributions.conjugate.
Cost.        $O(1)$ per point for the statistics; fitting depends on the data only through their sum.
References.  Wainwright and Jordan (2008) chapter 3.
"""

from abc import abstractmethod
from typing import Any

from tractable.core.types import Array, Scalar
from tractable.distributions.base import Distribution

__all__ = ["ExponentialFamily"]

Natural = tuple[Array, ...]


class ExponentialFamily(Distribution):
    """A distribution with natural parameters and statistics; each method speaks of one unit (elementwise for `Univariate`)."""

    @property
    @abstractmethod
    def natural(self) -> Natural:
        r"""$\eta$, a tuple of arrays."""

    @abstractmethod
    def stats(self, x: Array) -> Natural:
        r"""$t(x)$, a tuple of the same shapes as `natural`."""

    @abstractmethod
    def log_base(self, x: Array) -> Scalar:
        r"""$\log h(x)$."""

    @abstractmethod
    def log_normaliser(self, natural: Natural) -> Scalar:
        r"""$A(\eta)$ as a function of $\eta$, so that it can be differentiated."""

    @abstractmethod
    def from_natural(self, natural: Natural) -> Any:
        r"""The member with natural parameters $\eta$ (fixed parameters, such as a binomial's total, are kept from `self`)."""

    @abstractmethod
    def from_stats(self, mean_stats: Natural) -> Any:
        r"""The member whose expected statistics are `mean_stats`: maximum likelihood from averages of `stats`."""
