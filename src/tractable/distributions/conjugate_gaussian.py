r"""The conjugate pairs of Gaussian likelihoods: an unknown mean, an unknown covariance, or both.

Model.       $x \sim N(m, \Sigma)$ with a prior on $m$ (Normal, Gaussian), on $\Sigma$ (InverseGamma,
             InverseWishart), on $\Sigma^{-1}$ (Gamma, Wishart), on both (NormalGamma, NormalInverseWishart).
Identity.    With $n$ rows of mean $\bar x$ and scatter $S$ about it, the normal-inverse-Wishart posterior has
             $\kappa' = \kappa + n$, $m' = (\kappa m + n\bar x)/\kappa'$, $\nu' = \nu + n$ and
             $\Psi' = \Psi + S + \frac{\kappa n}{\kappa'}(\bar x - m)(\bar x - m)^\top$.
Cost.        $O(n d^2 + d^3)$.
References.  Gelman et al. (2013) sections 2.5-2.6, 3.2-3.6; Murphy (2012) section 4.6.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import multigammaln

from tractable.core.factors import positive_definite_factor, psd_inverse
from tractable.core.linalg import symmetrise
from tractable.core.numerics import log_gamma
from tractable.core.types import Array
from tractable.distributions.conjugate_registry import register_conjugate
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.expfam import weigh
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianPrecision
from tractable.distributions.multivariate import MultivariateStudentT
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import Gamma, InverseGamma
from tractable.distributions.wishart import InverseWishart, Wishart

__all__: list[str] = []

_LOG_2PI = float(np.log(2 * np.pi))


# One precision: t(r) = (log r, r); one variance: t(v) = (log v, 1/v)


@register_conjugate(
    Gamma,
    Normal,
    lambda model, precision: Normal(model.loc, 1 / jnp.sqrt(precision)),
    known=("loc",),
    predict=lambda d, model: StudentT(2 * d.concentration, model.loc, jnp.sqrt(d.rate / d.concentration)),
)
def _gamma_normal(model: Any, x: Array):
    return (jnp.full_like(x, 0.5), -0.5 * (x - model.loc) ** 2), jnp.full_like(x, -0.5 * _LOG_2PI)


@register_conjugate(
    InverseGamma,
    Normal,
    lambda model, variance: Normal(model.loc, jnp.sqrt(variance)),
    known=("loc",),
    predict=lambda d, model: StudentT(2 * d.concentration, model.loc, jnp.sqrt(d.scale / d.concentration)),
)
def _inverse_gamma_normal(model: Any, x: Array):
    return (jnp.full_like(x, -0.5), -0.5 * (x - model.loc) ** 2), jnp.full_like(x, -0.5 * _LOG_2PI)


# A mean: t(m) = (m, m^2). The evidence is taken at the posterior mean: far from zero, b(x) and A would cancel


@register_conjugate(
    Normal,
    Normal,
    lambda model, mean: Normal(mean, model.scale),
    known=("scale",),
    predict=lambda d, model: Normal(d.loc, jnp.hypot(d.scale, model.scale)),
    anchor=lambda d: d.loc,
)
def _normal_normal(model: Any, x: Array):
    precision = jnp.broadcast_to(model.scale**-2, x.shape)
    return (x * precision, -0.5 * precision), -0.5 * (x**2 * precision + _LOG_2PI - jnp.log(precision))


@register_conjugate(
    Gaussian,
    Gaussian,
    lambda model, mean: Gaussian(mean, model.cov),
    known=("cov",),
    predict=lambda d, model: Gaussian(d.mean, d.cov + model.cov),
    anchor=lambda d: d.mean,
)
def _gaussian_gaussian(model: Any, x: Array):
    factor = positive_definite_factor(model.cov)
    base = -0.5 * ((factor.half_solve(x) ** 2).sum() + factor.log_det() + x.size * _LOG_2PI)
    return (factor.solve(x), -0.5 * psd_inverse(model.cov)), base


# A mean and a precision or covariance. Rows are centred before they are squared: a large mean costs no digits


def _centred(rows: Array, weights: Array) -> tuple[Array, Array, Array]:
    total = weights.sum()
    mean = weigh(weights, rows) / jnp.where(total > 0, total, 1.0)
    return total, mean, rows - mean[None]


def _fold_normal_gamma(d: NormalGamma, model: Any, rows: Array, weights: Array) -> NormalGamma:
    total, mean, away = _centred(rows, weights)
    k = d.precision_scale + total
    pull = d.precision_scale * total / k * (mean - d.loc) ** 2
    loc = d.loc + total / k * (mean - d.loc)
    return NormalGamma(loc, k, d.concentration + total / 2, d.rate + 0.5 * (weigh(weights, away**2) + pull))


@register_conjugate(
    NormalGamma,
    Normal,
    lambda _, theta: Normal(theta[0], 1 / jnp.sqrt(theta[1])),
    predict=lambda d, _: StudentT(
        2 * d.concentration, d.loc, jnp.sqrt(d.rate / d.concentration * (1 + 1 / d.precision_scale))
    ),
    fold=_fold_normal_gamma,
    log_normaliser=lambda d: (
        log_gamma(d.concentration) - d.concentration * jnp.log(d.rate) - 0.5 * jnp.log(d.precision_scale)
    ),
)
def _normal_gamma_normal(model: Any, x: Array):
    half = jnp.full_like(x, 0.5)
    return (half, -0.5 * x**2, x, -half), jnp.full_like(x, -0.5 * _LOG_2PI)


def _fold_normal_inverse_wishart(
    d: NormalInverseWishart, model: Any, rows: Array, weights: Array
) -> NormalInverseWishart:
    total, mean, away = _centred(rows, weights)
    k = d.mean_scale + total
    gap = mean - d.loc
    away = jnp.where(weights[:, None] > 0, away, 0.0)
    scatter = (away * weights[:, None]).T @ away + d.mean_scale * total / k * jnp.outer(gap, gap)
    return NormalInverseWishart(d.loc + total / k * gap, k, d.degrees + total, symmetrise(d.scale + scatter))


def _predict_normal_inverse_wishart(d: NormalInverseWishart, model: Any) -> MultivariateStudentT:
    degrees = d.degrees - d.loc.size + 1
    return MultivariateStudentT(degrees, d.loc, d.scale * (1 + 1 / d.mean_scale) / degrees)


def _normal_inverse_wishart_log_normaliser(d: NormalInverseWishart) -> Array:
    half, dim = d.degrees / 2, d.loc.size
    log_det = positive_definite_factor(d.scale / 2).log_det()
    return multigammaln(half, dim) - half * log_det - dim / 2 * jnp.log(d.mean_scale)


@register_conjugate(
    NormalInverseWishart,
    Gaussian,
    lambda _, theta: Gaussian(theta[0], theta[1:]),
    predict=_predict_normal_inverse_wishart,
    fold=_fold_normal_inverse_wishart,
    log_normaliser=_normal_inverse_wishart_log_normaliser,
)
def _normal_inverse_wishart_gaussian(model: Any, x: Array):
    half = jnp.asarray(0.5)
    return (-half, -0.5 * jnp.outer(x, x), x, -half), jnp.asarray(-0.5 * x.size * _LOG_2PI)


@register_conjugate(
    InverseWishart,
    Gaussian,
    lambda model, cov: Gaussian(model.mean, cov),
    known=("mean",),
    predict=lambda d, model: _scatter_predictive(d.degrees, d.scale, model.mean),
)
def _inverse_wishart_gaussian(model: Any, x: Array):
    away = x - model.mean
    return (jnp.asarray(-0.5), -0.5 * jnp.outer(away, away)), jnp.asarray(-0.5 * x.size * _LOG_2PI)


def _scatter_predictive(degrees: Array, scale: Array, mean: Array) -> MultivariateStudentT:
    left = degrees - mean.size + 1
    return MultivariateStudentT(left, mean, scale / left)


@register_conjugate(
    Wishart,
    GaussianPrecision,
    lambda model, precision: GaussianPrecision(model.mean, precision),
    known=("mean",),
    predict=lambda d, model: _scatter_predictive(d.degrees, psd_inverse(d.scale), model.mean),
)
def _wishart_gaussian(model: Any, x: Array):
    away = x - model.mean
    return (jnp.asarray(0.5), -0.5 * jnp.outer(away, away)), jnp.asarray(-0.5 * x.size * _LOG_2PI)
