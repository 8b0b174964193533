"""The members of the univariate families, with what SciPy or arithmetic knows of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from tests.laws.case import Case
from tractable.distributions.bounded import Beta, TruncatedNormal, Uniform, VonMises
from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Logistic, Normal, StudentT
from tractable.distributions.counts import BetaBinomial, Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import (
    Bernoulli,
    Categorical,
    DiscreteUniform,
    Empirical,
    Finite,
    PointMass,
)
from tractable.distributions.inverse import Tabulated
from tractable.distributions.positive import (
    ChiSquared,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Pareto,
    Weibull,
)
from tractable.distributions.relaxed import BinaryConcrete
from tractable.distributions.truncated import Truncated

__all__ = ["CASES", "UnivariateCase"]

# Four levels per decade: between neighbours every density of the list is smooth enough for 12 Gauss nodes.
_TAIL = np.append(10.0 ** np.arange(-15, -0.4, 0.25), 0.5)


@dataclass(frozen=True)
class UnivariateCase(Case):
    """A case that also knows where to integrate or sum."""

    edges: Any = None  # of panels that cover all mass of a density, where SciPy has no quantiles
    atoms: Any = None  # all values of a discrete distribution that carry mass

    @property
    def discrete(self) -> bool:
        return self.atoms is not None

    def panel_edges(self) -> np.ndarray:
        """Edges between which the density is smooth: quantiles that crowd towards both ends."""
        if self.edges is not None:
            return np.asarray(self.edges, float)
        known = self.scipy()
        inner = np.concatenate([known.ppf(_TAIL), known.isf(_TAIL[::-1])])
        low, high = known.support()
        ends = [[end] if np.isfinite(end) else [] for end in (low, high)]
        return np.unique(np.concatenate([ends[0], inner, ends[1]]))


def _density(name, build, scipy, inside, outside=(), tags=(), edges=None):
    return UnivariateCase(name, build, np.array(inside), np.array(outside), scipy, frozenset(tags), edges)


def _counts(name, build, scipy, inside, outside, tags=(), atoms=None):
    atoms = np.arange(-56.0, 456.0) if atoms is None else np.asarray(atoms, float)
    return UnivariateCase(
        name, build, np.array(inside), np.array(outside), scipy, frozenset(tags), atoms=atoms
    )


_LINE = [-30.0, -3.0, -0.5, 0.25, 1.0, 1.5, 4.0, 40.0]
_HALF = [1e-6, 0.01, 0.3, 1.0, 2.0, 3.5, 7.0, 20.0]
_UNIT = [1e-9, 0.01, 0.2, 0.4, 0.5, 0.7, 0.95, 1 - 1e-9]
_WHOLE = [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 12.0]
_TABLE = ([-1.0, 0.0, 0.5, 2.0], [0.0, 0.3, 0.8, 1.0])

CASES = [
    _density("Normal", lambda: Normal(1.0, 2.0), lambda: stats.norm(1, 2), _LINE),
    _density("StudentT", lambda: StudentT(3.5, 1.0, 2.0), lambda: stats.t(3.5, 1, 2), _LINE),
    _density("StudentT-50", lambda: StudentT(50.0, 1.0, 2.0), lambda: stats.t(50, 1, 2), _LINE),
    _density("Cauchy", lambda: Cauchy(1.0, 2.0), lambda: stats.cauchy(1, 2), _LINE, tags=["no_mean"]),
    _density("Laplace", lambda: Laplace(0.7, 2.0), lambda: stats.laplace(0.7, 2), _LINE),
    _density("Logistic", lambda: Logistic(1.0, 2.0), lambda: stats.logistic(1, 2), _LINE),
    _density("Gumbel", lambda: Gumbel(1.0, 2.0), lambda: stats.gumbel_r(1, 2), [-5.0, *_LINE[1:]]),
    _density("HalfNormal", lambda: HalfNormal(2.0), lambda: stats.halfnorm(scale=2), _HALF, [-1.0, -1e-9]),
    _density(
        "HalfCauchy",
        lambda: HalfCauchy(2.0),
        lambda: stats.halfcauchy(scale=2),
        _HALF,
        [-1.0, -1e-9],
        ["no_mean"],
    ),
    _density(
        "LogNormal",
        lambda: LogNormal(0.3, 0.7),
        lambda: stats.lognorm(0.7, scale=np.exp(0.3)),
        _HALF,
        [-1.0, 0.0],
    ),
    _density("Exponential", lambda: Exponential(2.0), lambda: stats.expon(scale=0.5), _HALF, [-1.0, -1e-9]),
    _density("Gamma", lambda: Gamma(2.5, 2.0), lambda: stats.gamma(2.5, scale=0.5), _HALF, [-1.0, -1e-9]),
    _density("Gamma-half", lambda: Gamma(0.5, 2.0), lambda: stats.gamma(0.5, scale=0.5), _HALF, [-1.0]),
    _density("Gamma-300", lambda: Gamma(300.0, 100.0), lambda: stats.gamma(300, scale=0.01), _HALF, [-1.0]),
    _density(
        "InverseGamma",
        lambda: InverseGamma(3.5, 2.0),
        lambda: stats.invgamma(3.5, scale=2),
        [0.01, *_HALF[1:]],
        [-1.0, 0.0],
    ),
    _density("ChiSquared", lambda: ChiSquared(5.0), lambda: stats.chi2(5), _HALF, [-1.0]),
    _density("Weibull", lambda: Weibull(1.7, 2.0), lambda: stats.weibull_min(1.7, scale=2), _HALF, [-1.0]),
    _density(
        "Pareto",
        lambda: Pareto(5.5, 2.0),
        lambda: stats.pareto(5.5, scale=2),
        [2.0, 2.1, 2.5, 3.0, 4.0, 7.0, 30.0, 1e5],
        [-1.0, 1.9],
    ),
    _density(
        "Uniform",
        lambda: Uniform(-1.0, 3.0),
        lambda: stats.uniform(-1, 4),
        [-1.0, -0.9, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0],
        [-1.1, 3.1],
    ),
    _density("Beta", lambda: Beta(2.0, 3.0), lambda: stats.beta(2, 3), _UNIT, [-0.1, 1.1]),
    _density("Beta-half", lambda: Beta(0.5, 1.5), lambda: stats.beta(0.5, 1.5), _UNIT, [-0.1, 1.1]),
    _density("Beta-200", lambda: Beta(200.0, 300.0), lambda: stats.beta(200, 300), _UNIT, [-0.1, 1.1]),
    _density(
        "TruncatedNormal",
        lambda: TruncatedNormal(1.0, 2.0, 0.0, 4.0),
        lambda: stats.truncnorm(-0.5, 1.5, 1, 2),
        [0.0, 0.1, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0],
        [-0.1, 4.1],
    ),
    _density(
        "VonMises",
        lambda: VonMises(0.5, 2.0),
        None,
        [-3.1, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.1],
        [-3.2, 3.2],
        ["circular"],
        np.linspace(-np.pi, np.pi, 33),
    ),
    _density(
        "Tabulated",
        lambda: Tabulated(*_TABLE),
        lambda: stats.rv_histogram((np.diff(_TABLE[1]), np.array(_TABLE[0])), density=False),
        [-1.0, -0.5, 0.1, 0.3, 0.6, 1.0, 1.5, 1.9],
        [-1.1, 2.1],
        ["no_mode"],
        _TABLE[0],
    ),
    _density(
        "Truncated",
        lambda: Truncated(Weibull(1.7, 2.0), 1.0, 4.0),
        None,
        [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],
        [0.5, 4.5],
        [],
        np.linspace(1, 4, 33),
    ),
    _density(
        "BinaryConcrete",
        lambda: BinaryConcrete(0.4, 1.5),
        None,
        [0.01, 0.1, 0.2, 0.4, 0.5, 0.7, 0.9, 0.99],
        [-0.1, 1.1],
        ["no_moments", "no_mode"],
        1 / (1 + np.exp(-(special.logit(np.append(_TAIL, 1 - _TAIL[-2::-1])) + 0.4) / 1.5)),
    ),
    _counts(
        "Bernoulli", lambda: Bernoulli(0.3), lambda: stats.bernoulli(0.3), [0.0, 1.0] * 4, [-1.0, 2.0, 0.5]
    ),
    _counts(
        "Categorical",
        lambda: Categorical([0.2, 0.5, 0.3]),
        lambda: stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3])),
        [0.0, 1.0, 2.0, 1.0] * 2,
        [-1.0, 3.0, 0.5],
    ),
    _counts(
        "DiscreteUniform",
        lambda: DiscreteUniform(-2, 5),
        lambda: stats.randint(-2, 6),
        [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        [-3.0, 6.0, 0.5],
    ),
    _counts(
        "Finite",
        lambda: Finite([0.5, -1.0, 7.25], [0.2, 0.5, 0.3]),
        None,
        [-1.0, 0.5, 7.25, -1.0] * 2,
        [-2.0, 0.0, 8.0],
        atoms=[-1.0, 0.5, 7.25],
    ),
    _counts(
        "Empirical",
        lambda: Empirical([3.0, 1.0, 1.0, 2.5], [1.0, 2.0, 1.0, 4.0]),
        None,
        [1.0, 2.5, 3.0, 1.0] * 2,
        [0.0, 2.0, 4.0],
        atoms=[1.0, 2.5, 3.0],
    ),
    _counts("PointMass", lambda: PointMass(1.5), None, [1.5] * 8, [1.0, 2.0], atoms=[1.5]),
    _counts("Binomial", lambda: Binomial(12, 0.3), lambda: stats.binom(12, 0.3), _WHOLE, [-1.0, 13.0, 0.5]),
    _counts(
        "Binomial-400",
        lambda: Binomial(400, 0.3),
        lambda: stats.binom(400, 0.3),
        [60.0, *_WHOLE[1:]],
        [-1.0, 401.0],
    ),
    _counts("Geometric", lambda: Geometric(0.3), lambda: stats.geom(0.3, -1), _WHOLE, [-1.0, 0.5]),
    _counts("Poisson", lambda: Poisson(3.7), lambda: stats.poisson(3.7), _WHOLE, [-1.0, 0.5]),
    _counts(
        "Poisson-150", lambda: Poisson(150.0), lambda: stats.poisson(150), [120.0, *_WHOLE[1:]], [-1.0, 0.5]
    ),
    _counts(
        "NegativeBinomial",
        lambda: NegativeBinomial(2.5, 0.3),
        lambda: stats.nbinom(2.5, 0.3),
        _WHOLE,
        [-1.0, 0.5],
    ),
    _counts(
        "BetaBinomial",
        lambda: BetaBinomial(12, 2.0, 3.0),
        lambda: stats.betabinom(12, 2, 3),
        _WHOLE,
        [-1.0, 13.0, 0.5],
        ["no_mode"],
    ),
    _counts(
        "Truncated-counts",
        lambda: Truncated(Geometric(0.3), 2.0, 6.0),
        None,
        [2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 3.0, 2.0],
        [1.0, 7.0, 2.5],
    ),
]
