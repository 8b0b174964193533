"""The conjugate pairs, each beside SciPy's densities of the same prior and likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tractable.distributions.bounded import Beta, Uniform
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianPrecision
from tractable.distributions.multivariate import Dirichlet, Multinomial
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import Exponential, Gamma, InverseGamma, Pareto
from tractable.distributions.wishart import InverseWishart, Wishart

__all__ = ["CASES", "ConjugateCase"]


@dataclass(frozen=True)
class ConjugateCase:
    """A prior, a likelihood, data, and the two log-densities by SciPy; `span` bounds a scalar parameter."""

    name: str
    prior: Callable[[], Any]
    likelihood: Callable[[], Any]
    data: np.ndarray
    thetas: np.ndarray
    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any, Any], Any]
    span: tuple[float, float] | None = None

    def __str__(self) -> str:
        return self.name


SQUARE = np.array([[1.0, 0.3], [0.3, 0.5]])
OTHER = np.array([[2.0, -0.4], [-0.4, 1.0]])
CENTRE = np.array([0.5, -1.0])
VECTORS = np.array([[0.3, -0.2], [1.5, -1.1], [-0.4, 0.9], [0.8, -2.0]])
NUMBERS = np.array([0.4, 2.3, -0.9, 1.2])
POSITIVES = np.array([0.4, 2.3, 0.9, 1.2])
COUNTS = np.array([3.0, 0.0, 2.0, 5.0])
FLIPS = np.array([1.0, 0.0, 1.0, 1.0])
PROBS = np.array([0.15, 0.5, 0.8])
SHARES = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.34, 0.33, 0.33]])
LABELS = np.array([0.0, 2.0, 2.0, 1.0])
ALPHA = np.array([0.7, 2.0, 3.5])
TRIPLES = np.array([[1.0, 2.0, 1.0], [4.0, 0.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 3.0]])


def _beta(theta):
    return stats.beta.logpdf(theta, 2.5, 1.5)


def _gamma(theta):
    return stats.gamma.logpdf(theta, 2.5, scale=1 / 1.5)


def _normal_gamma(theta):
    mean, precision = theta
    return stats.norm.logpdf(mean, 0.3, (2.0 * precision) ** -0.5) + _gamma(precision)


def _normal_inverse_wishart(theta):
    mean, cov = theta[0], theta[1:]
    of_mean = stats.multivariate_normal.logpdf(mean, CENTRE, cov / 2.0)
    return of_mean + stats.invwishart.logpdf(cov, 4.5, OTHER)


def _categorical(theta, x):
    return np.log(theta)[x.astype(int)]


# log_likelihood(theta, x) takes all rows at once.
CASES = (
    ConjugateCase(
        "beta-bernoulli", lambda: Beta(2.5, 1.5), lambda: Bernoulli, FLIPS, PROBS, _beta,
        lambda theta, x: stats.bernoulli.logpmf(x, theta), (0, 1),
    ),
    ConjugateCase(
        "beta-binomial", lambda: Beta(2.5, 1.5), lambda: Binomial(7, 0.5), COUNTS, PROBS, _beta,
        lambda theta, x: stats.binom.logpmf(x, 7, theta), (0, 1),
    ),
    ConjugateCase(
        "beta-geometric", lambda: Beta(2.5, 1.5), lambda: Geometric, COUNTS, PROBS, _beta,
        lambda theta, x: stats.geom.logpmf(x, theta, loc=-1), (0, 1),
    ),
    ConjugateCase(
        "beta-negative-binomial", lambda: Beta(2.5, 1.5), lambda: NegativeBinomial(2.5, 0.5), COUNTS, PROBS,
        _beta, lambda theta, x: stats.nbinom.logpmf(x, 2.5, theta), (0, 1),
    ),
    ConjugateCase(
        "dirichlet-categorical", lambda: Dirichlet(ALPHA), lambda: Categorical, LABELS, SHARES,
        lambda theta: stats.dirichlet.logpdf(theta, ALPHA), _categorical,
    ),
    ConjugateCase(
        "dirichlet-multinomial", lambda: Dirichlet(ALPHA), lambda: Multinomial(4, SHARES[0]), TRIPLES, SHARES,
        lambda theta: stats.dirichlet.logpdf(theta, ALPHA),
        lambda theta, x: stats.multinomial.logpmf(x, 4, theta),
    ),
    ConjugateCase(
        "gamma-poisson", lambda: Gamma(2.5, 1.5), lambda: Poisson, COUNTS, POSITIVES, _gamma,
        lambda theta, x: stats.poisson.logpmf(x, theta), (0, 40),
    ),
    ConjugateCase(
        "gamma-exponential", lambda: Gamma(2.5, 1.5), lambda: Exponential, POSITIVES, POSITIVES, _gamma,
        lambda theta, x: stats.expon.logpdf(x, scale=1 / theta), (0, 40),
    ),
    ConjugateCase(
        "gamma-gamma", lambda: Gamma(2.5, 1.5), lambda: Gamma(0.8, 1.0), POSITIVES, POSITIVES, _gamma,
        lambda theta, x: stats.gamma.logpdf(x, 0.8, scale=1 / theta), (0, 40),
    ),
    ConjugateCase(
        "gamma-normal", lambda: Gamma(2.5, 1.5), lambda: Normal(0.3, 1.0), NUMBERS, POSITIVES, _gamma,
        lambda theta, x: stats.norm.logpdf(x, 0.3, theta**-0.5), (0, 40),
    ),
    ConjugateCase(
        "inverse-gamma-normal", lambda: InverseGamma(2.5, 1.5), lambda: Normal(0.3, 1.0), NUMBERS, POSITIVES,
        lambda theta: stats.invgamma.logpdf(theta, 2.5, scale=1.5),
        lambda theta, x: stats.norm.logpdf(x, 0.3, theta**0.5), (0, 2000),
    ),
    ConjugateCase(
        "normal-normal", lambda: Normal(0.3, 1.4), lambda: Normal(0.0, 0.7), NUMBERS, NUMBERS,
        lambda theta: stats.norm.logpdf(theta, 0.3, 1.4), lambda theta, x: stats.norm.logpdf(x, theta, 0.7),
        (-15, 15),
    ),
    ConjugateCase(
        "gaussian-gaussian", lambda: Gaussian(CENTRE, OTHER), lambda: Gaussian(np.zeros(2), SQUARE), VECTORS,
        VECTORS, lambda theta: stats.multivariate_normal.logpdf(theta, CENTRE, OTHER),
        lambda theta, x: stats.multivariate_normal.logpdf(x, theta, SQUARE),
    ),
    ConjugateCase(
        "normal-gamma-normal", lambda: NormalGamma(0.3, 2.0, 2.5, 1.5), lambda: Normal, NUMBERS,
        np.array([[0.0, 1.0], [0.5, 0.3], [-1.0, 2.0]]), _normal_gamma,
        lambda theta, x: stats.norm.logpdf(x, theta[0], theta[1] ** -0.5),
    ),
    ConjugateCase(
        "normal-inverse-wishart-gaussian", lambda: NormalInverseWishart(CENTRE, 2.0, 4.5, OTHER),
        lambda: Gaussian, VECTORS, np.stack([np.vstack([CENTRE, SQUARE]), np.vstack([VECTORS[0], OTHER])]),
        _normal_inverse_wishart, lambda theta, x: stats.multivariate_normal.logpdf(x, theta[0], theta[1:]),
    ),
    ConjugateCase(
        "inverse-wishart-gaussian", lambda: InverseWishart(4.5, OTHER), lambda: Gaussian(CENTRE, np.eye(2)),
        VECTORS, np.stack([SQUARE, OTHER]), lambda theta: stats.invwishart.logpdf(theta, 4.5, OTHER),
        lambda theta, x: stats.multivariate_normal.logpdf(x, CENTRE, theta),
    ),
    ConjugateCase(
        "wishart-gaussian", lambda: Wishart(4.5, OTHER), lambda: GaussianPrecision(CENTRE, np.eye(2)),
        VECTORS, np.stack([SQUARE, OTHER]), lambda theta: stats.wishart.logpdf(theta, 4.5, OTHER),
        lambda theta, x: stats.multivariate_normal.logpdf(x, CENTRE, np.linalg.inv(theta)),
    ),
    ConjugateCase(
        "pareto-uniform", lambda: Pareto(2.5, 1.5), lambda: Uniform, POSITIVES, np.array([2.4, 3.0, 8.0]),
        lambda theta: stats.pareto.logpdf(theta, 2.5, scale=1.5),
        lambda theta, x: stats.uniform.logpdf(x, 0, theta), (1.5, 1e4),
    ),
)  # fmt: skip
