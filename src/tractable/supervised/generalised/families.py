"""The families by name: what a fitted model and its file hold is the name alone."""

from tractable.supervised.generalised.bounded import Beta, Normal
from tractable.supervised.generalised.counts import NegativeBinomial, Poisson
from tractable.supervised.generalised.family import Family
from tractable.supervised.generalised.positive import Gamma, LogNormalTime, WeibullTime

__all__ = ["FAMILIES"]

FAMILIES: dict[str, Family] = {
    family.name: family()
    for family in (Poisson, NegativeBinomial, Gamma, Beta, Normal, WeibullTime, LogNormalTime)
}
