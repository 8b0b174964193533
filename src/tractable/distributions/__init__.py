"""Layer 3: distributions, Gaussian algebra, exponential families, conjugacy, divergences, information, tables."""

from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.continuous import Normal

__all__ = ["Distribution", "Normal", "Univariate"]
