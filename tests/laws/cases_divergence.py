"""Pairs of distributions with a closed-form divergence, and the same pairs in SciPy or NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.stats as ss

from tractable.bijections.elementwise import Exp
from tractable.distributions.bounded import Beta, Uniform
from tractable.distributions.circular import VonMises
from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Normal
from tractable.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical, DiscreteUniform
from tractable.distributions.gamma import ChiSquared, Gamma, InverseGamma
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianInformation, GaussianPrecision
from tractable.distributions.matrix import MatrixNormal
from tractable.distributions.multinomial import Multinomial
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import HalfCauchy, HalfNormal, LogNormal
from tractable.distributions.transformed import Transformed
from tractable.distributions.waiting import Exponential, Pareto, Weibull
from tractable.distributions.wishart import InverseWishart, Wishart

__all__ = ["FORMS", "NUMBERS", "VECTORS", "Pair"]

COV = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.7]])
OTHER_COV = np.array([[1.0, -0.2, 0.1], [-0.2, 1.5, 0.4], [0.1, 0.4, 2.0]])
MEAN, OTHER_MEAN = np.array([0.3, -1.0, 0.5]), np.array([0.0, 0.4, 0.2])
SMALL, OTHER_SMALL = COV[:2, :2], OTHER_COV[:2, :2]
ALPHA, OTHER_ALPHA = np.array([2.0, 3.0, 0.7]), np.array([1.0, 0.8, 2.5])
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


@dataclass(frozen=True)
class Pair:
    """Two distributions, and what an independent source knows of them."""

    name: str
    p: Callable[[], Any]
    q: Callable[[], Any]
    scipy_p: Callable[[], Any] | None = None  # frozen SciPy distributions for pairs of numbers
    scipy_q: Callable[[], Any] | None = None
    exact: Callable[[], float] | None = None  # the divergence by another formula
    draws: Callable[[np.random.Generator, int], np.ndarray] | None = None  # log p - log q at draws of p
    pieces: tuple[float, ...] = ()  # where SciPy's integral over the line is cut, instead of quantiles
    edge: bool = False  # the ends of the support depend on parameters: no gradient law

    def __str__(self) -> str:
        return self.name


def _gaussian_divergence() -> float:
    """The textbook form, by a general matrix inverse."""
    inverse = np.linalg.inv(OTHER_COV)
    shift = MEAN - OTHER_MEAN
    log_ratio = np.log(np.linalg.det(OTHER_COV) / np.linalg.det(COV))
    return 0.5 * (np.trace(inverse @ COV) + shift @ inverse @ shift - 3 + log_ratio)


def _matrix_normal_divergence() -> float:
    a, b = np.kron(SMALL, COV), np.kron(OTHER_SMALL, OTHER_COV)
    shift = np.arange(6.0).reshape(3, 2).T.ravel() / 10
    inverse = np.linalg.inv(b)
    log_ratio = np.log(np.linalg.det(b) / np.linalg.det(a))
    return 0.5 * (np.trace(inverse @ a) + shift @ inverse @ shift - 6 + log_ratio)


def _dirichlet_draws(rng, n):
    x = ss.dirichlet(ALPHA).rvs(n, random_state=rng).T
    return ss.dirichlet(ALPHA).logpdf(x) - ss.dirichlet(OTHER_ALPHA).logpdf(x)


def _matrix_draws(family, rng, n):
    p, q = family(5.0, SMALL), family(3.5, OTHER_SMALL)
    x = np.moveaxis(p.rvs(n, random_state=rng), 0, -1)
    return p.logpdf(x) - q.logpdf(x)


def _normal_gamma_draws(rng, n):
    precision = ss.gamma(2.5, scale=1 / 1.3).rvs(n, random_state=rng)
    mean = 0.3 + rng.normal(size=n) / np.sqrt(2.0 * precision)

    def log_density(loc, precision_scale, a, b):
        given = ss.norm(loc, 1 / np.sqrt(precision_scale * precision)).logpdf(mean)
        return given + ss.gamma(a, scale=1 / b).logpdf(precision)

    return log_density(0.3, 2.0, 2.5, 1.3) - log_density(-0.2, 1.0, 1.5, 0.7)


def _normal_inverse_wishart_draws(rng, n):
    cov = ss.invwishart(5.0, SMALL).rvs(n, random_state=rng)
    mean = MEAN[:2] + np.einsum("nij,nj->ni", np.linalg.cholesky(cov / 2.0), rng.normal(size=(n, 2)))

    def log_density(loc, mean_scale, degrees, scale):
        shift = mean - loc
        distance = mean_scale * np.einsum("ni,ni->n", shift, np.linalg.solve(cov, shift[..., None])[..., 0])
        given = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * cov / mean_scale)[1])
        return given + ss.invwishart(degrees, scale).logpdf(np.moveaxis(cov, 0, -1))

    return log_density(MEAN[:2], 2.0, 5.0, SMALL) - log_density(OTHER_MEAN[:2], 1.0, 4.0, OTHER_SMALL)


def _counts(probs, other, total) -> float:
    return total * float((probs * np.log(probs / other)).sum())


NUMBERS = [
    Pair(
        "normal",
        lambda: Normal(0.5, 1.3),
        lambda: Normal(-0.2, 0.8),
        lambda: ss.norm(0.5, 1.3),
        lambda: ss.norm(-0.2, 0.8),
    ),
    Pair(
        "log normal",
        lambda: LogNormal(0.2, 0.5),
        lambda: LogNormal(-0.1, 0.9),
        lambda: ss.lognorm(0.5, scale=np.exp(0.2)),
        lambda: ss.lognorm(0.9, scale=np.exp(-0.1)),
    ),
    Pair(
        "half normal",
        lambda: HalfNormal(1.3),
        lambda: HalfNormal(0.8),
        lambda: ss.halfnorm(scale=1.3),
        lambda: ss.halfnorm(scale=0.8),
    ),
    Pair(
        "laplace",
        lambda: Laplace(0.5, 1.3),
        lambda: Laplace(-0.2, 0.8),
        lambda: ss.laplace(0.5, 1.3),
        lambda: ss.laplace(-0.2, 0.8),
        pieces=(-60.0, -0.2, 0.5, 60.0),
    ),
    Pair(
        "cauchy",
        lambda: Cauchy(0.5, 1.3),
        lambda: Cauchy(-0.2, 0.8),
        lambda: ss.cauchy(0.5, 1.3),
        lambda: ss.cauchy(-0.2, 0.8),
    ),
    Pair(
        "half cauchy",
        lambda: HalfCauchy(1.3),
        lambda: HalfCauchy(0.8),
        lambda: ss.halfcauchy(scale=1.3),
        lambda: ss.halfcauchy(scale=0.8),
    ),
    Pair(
        "gumbel",
        lambda: Gumbel(0.5, 1.3),
        lambda: Gumbel(-0.2, 1.9),
        lambda: ss.gumbel_r(0.5, 1.3),
        lambda: ss.gumbel_r(-0.2, 1.9),
    ),
    Pair(
        "exponential",
        lambda: Exponential(1.3),
        lambda: Exponential(0.7),
        lambda: ss.expon(scale=1 / 1.3),
        lambda: ss.expon(scale=1 / 0.7),
    ),
    Pair(
        "gamma",
        lambda: Gamma(2.5, 1.3),
        lambda: Gamma(1.2, 0.7),
        lambda: ss.gamma(2.5, scale=1 / 1.3),
        lambda: ss.gamma(1.2, scale=1 / 0.7),
    ),
    Pair(
        "inverse gamma",
        lambda: InverseGamma(2.5, 1.3),
        lambda: InverseGamma(1.2, 0.7),
        lambda: ss.invgamma(2.5, scale=1.3),
        lambda: ss.invgamma(1.2, scale=0.7),
    ),
    Pair(
        "chi squared",
        lambda: ChiSquared(3.5),
        lambda: ChiSquared(6.0),
        lambda: ss.chi2(3.5),
        lambda: ss.chi2(6.0),
    ),
    Pair(
        "exponential gamma",
        lambda: Exponential(1.3),
        lambda: Gamma(1.2, 0.7),
        lambda: ss.expon(scale=1 / 1.3),
        lambda: ss.gamma(1.2, scale=1 / 0.7),
    ),
    Pair(
        "gamma exponential",
        lambda: Gamma(2.5, 1.3),
        lambda: Exponential(0.7),
        lambda: ss.gamma(2.5, scale=1 / 1.3),
        lambda: ss.expon(scale=1 / 0.7),
    ),
    Pair(
        "weibull",
        lambda: Weibull(2.5, 1.3),
        lambda: Weibull(1.2, 0.7),
        lambda: ss.weibull_min(2.5, scale=1.3),
        lambda: ss.weibull_min(1.2, scale=0.7),
    ),
    Pair(
        "pareto",
        lambda: Pareto(2.5, 1.3),
        lambda: Pareto(1.2, 0.7),
        lambda: ss.pareto(2.5, scale=1.3),
        lambda: ss.pareto(1.2, scale=0.7),
        edge=True,
    ),
    Pair(
        "beta",
        lambda: Beta(2.5, 1.3),
        lambda: Beta(1.2, 1.7),
        lambda: ss.beta(2.5, 1.3),
        lambda: ss.beta(1.2, 1.7),
    ),
    Pair(
        "uniform",
        lambda: Uniform(0.5, 1.5),
        lambda: Uniform(0.0, 3.0),
        lambda: ss.uniform(0.5, 1.0),
        lambda: ss.uniform(0.0, 3.0),
        edge=True,
    ),
    Pair(
        "von mises",
        lambda: VonMises(0.5, 1.3),
        lambda: VonMises(-0.2, 2.4),
        lambda: ss.vonmises(1.3, 0.5),
        lambda: ss.vonmises(2.4, -0.2),
        pieces=(-np.pi, np.pi),
    ),
    Pair(
        "bernoulli",
        lambda: Bernoulli(0.3),
        lambda: Bernoulli(0.6),
        lambda: ss.bernoulli(0.3),
        lambda: ss.bernoulli(0.6),
    ),
    Pair(
        "categorical",
        lambda: Categorical(P),
        lambda: Categorical(Q),
        lambda: ss.rv_discrete(values=([0, 1, 2], P)),
        lambda: ss.rv_discrete(values=([0, 1, 2], Q)),
    ),
    Pair(
        "binomial",
        lambda: Binomial(7, 0.3),
        lambda: Binomial(7, 0.6),
        lambda: ss.binom(7, 0.3),
        lambda: ss.binom(7, 0.6),
    ),
    Pair(
        "geometric",
        lambda: Geometric(0.3),
        lambda: Geometric(0.6),
        lambda: ss.geom(0.3, loc=-1),
        lambda: ss.geom(0.6, loc=-1),
    ),
    Pair(
        "negative binomial",
        lambda: NegativeBinomial(2.5, 0.3),
        lambda: NegativeBinomial(2.5, 0.6),
        lambda: ss.nbinom(2.5, 0.3),
        lambda: ss.nbinom(2.5, 0.6),
    ),
    Pair(
        "poisson",
        lambda: Poisson(3.0),
        lambda: Poisson(4.5),
        lambda: ss.poisson(3.0),
        lambda: ss.poisson(4.5),
    ),
    Pair(
        "discrete uniform",
        lambda: DiscreteUniform(1, 6),
        lambda: DiscreteUniform(0, 9),
        lambda: ss.randint(1, 7),
        lambda: ss.randint(0, 10),
        edge=True,
    ),
    Pair(
        "transformed",
        lambda: Transformed(Normal(0.2, 0.5), Exp()),
        lambda: Transformed(Normal(-0.1, 0.9), Exp()),
        lambda: ss.lognorm(0.5, scale=np.exp(0.2)),
        lambda: ss.lognorm(0.9, scale=np.exp(-0.1)),
    ),
]

_FORMS = {
    "covariance": (lambda m, c: Gaussian(m, c)),
    "precision": (lambda m, c: GaussianPrecision(m, np.linalg.inv(c))),
    "information": (lambda m, c: GaussianInformation(np.linalg.inv(c), np.linalg.inv(c) @ m)),
}

FORMS = [
    Pair(
        f"gaussian {first} {second}",
        lambda first=first: _FORMS[first](MEAN, COV),
        lambda second=second: _FORMS[second](OTHER_MEAN, OTHER_COV),
        exact=_gaussian_divergence,
    )
    for first in _FORMS
    for second in _FORMS
]

VECTORS = [
    FORMS[0],
    Pair(
        "matrix normal",
        lambda: MatrixNormal(jnp.arange(6.0).reshape(3, 2) / 10, COV, SMALL),
        lambda: MatrixNormal(jnp.zeros((3, 2)), OTHER_COV, OTHER_SMALL),
        exact=_matrix_normal_divergence,
    ),
    Pair(
        "multinomial",
        lambda: Multinomial(4, P),
        lambda: Multinomial(4, Q),
        exact=lambda: _counts(P, Q, 4),
    ),
    Pair("dirichlet", lambda: Dirichlet(ALPHA), lambda: Dirichlet(OTHER_ALPHA), draws=_dirichlet_draws),
    Pair(
        "wishart",
        lambda: Wishart(5.0, SMALL),
        lambda: Wishart(3.5, OTHER_SMALL),
        draws=partial(_matrix_draws, ss.wishart),
    ),
    Pair(
        "inverse wishart",
        lambda: InverseWishart(5.0, SMALL),
        lambda: InverseWishart(3.5, OTHER_SMALL),
        draws=partial(_matrix_draws, ss.invwishart),
    ),
    Pair(
        "normal gamma",
        lambda: NormalGamma(0.3, 2.0, 2.5, 1.3),
        lambda: NormalGamma(-0.2, 1.0, 1.5, 0.7),
        draws=_normal_gamma_draws,
    ),
    Pair(
        "normal inverse wishart",
        lambda: NormalInverseWishart(MEAN[:2], 2.0, 5.0, SMALL),
        lambda: NormalInverseWishart(OTHER_MEAN[:2], 1.0, 4.0, OTHER_SMALL),
        draws=_normal_inverse_wishart_draws,
    ),
]
