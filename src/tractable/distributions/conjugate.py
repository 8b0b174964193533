r"""The conjugate pairs, each stated by what its likelihood adds to the prior; and the verbs that use them.

Statement.   For each pair, $s(x)$ and $b(x)$ in
             $\log p(x \mid \theta) = \langle s(x), t(\theta)\rangle + b(x)$, with $t$ the statistics of the
             prior; the posterior, the evidence and the predictive follow.
Pairs.       Beta: Bernoulli, Binomial, Geometric, NegativeBinomial. Dirichlet: Categorical, Multinomial.
             Gamma: Poisson, Exponential, Gamma (its rate). Pareto: the end of a Uniform from zero.
             Those of Gaussian likelihoods are in distributions.conjugate_gaussian.
Cost.        $O(n)$.
References.  Gelman et al. (2013) chapters 2-3; Murphy (2012) section 4.6; Fink (1997).
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.numerics import log_gamma, xlogy
from tractable.core.support import nonnegative
from tractable.core.types import Array
from tractable.distributions import conjugate_gaussian as _gaussian_pairs  # noqa: F401  (fills the registry)
from tractable.distributions.bounded import Beta, Uniform
from tractable.distributions.conjugate_registry import (
    ConjugatePair,
    Predictive,
    add_statistics,
    find_pair,
    known_pairs,
    log_evidence,
    posterior,
    predictive,
    register_conjugate,
)
from tractable.distributions.counts import BetaBinomial, Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.multivariate import Dirichlet, DirichletMultinomial, Multinomial
from tractable.distributions.positive import Exponential, Gamma, Pareto

__all__ = [
    "ConjugatePair", "Predictive", "add_statistics", "find_pair", "known_pairs", "log_evidence", "posterior",
    "predictive", "register_conjugate",
]  # fmt: skip

# Probabilities: t(p) = (log p, log(1 - p)), or log p_k


@register_conjugate(Beta, Bernoulli, lambda _, p: Bernoulli(p), predict=lambda d, _: Bernoulli(d.mean))
def _beta_bernoulli(model: Any, x: Array):
    return (x, 1 - x), jnp.zeros_like(x)


@register_conjugate(
    Beta,
    Binomial,
    lambda model, p: Binomial(model.total, p),
    known=("total",),
    predict=lambda d, model: BetaBinomial(model.total, d.a, d.b),
)
def _beta_binomial(model: Any, x: Array):
    return (x, model.total - x), model.log_base(x)


@register_conjugate(Beta, Geometric, lambda _, p: Geometric(p))
def _beta_geometric(model: Any, x: Array):
    return (jnp.ones_like(x), x), jnp.zeros_like(x)


@register_conjugate(
    Beta, NegativeBinomial, lambda model, p: NegativeBinomial(model.total, p), known=("total",)
)
def _beta_negative_binomial(model: Any, x: Array):
    return (jnp.broadcast_to(model.total, x.shape), x), model.log_base(x)


@register_conjugate(
    Dirichlet, Categorical, lambda _, p: Categorical(p), predict=lambda d, _: Categorical(d.mean)
)
def _dirichlet_categorical(model: Any, x: Array):
    return model.stats(x), jnp.zeros_like(x)


@register_conjugate(
    Dirichlet,
    Multinomial,
    lambda model, p: Multinomial(model.total, p),
    known=("total",),
    predict=lambda d, model: DirichletMultinomial(model.total, d.concentration),
)
def _dirichlet_multinomial(model: Any, x: Array):
    return (x,), model.log_base(x)


# Rates: t(r) = (log r, r)


@register_conjugate(
    Gamma,
    Poisson,
    lambda _, rate: Poisson(rate),
    predict=lambda d, _: NegativeBinomial(d.concentration, d.rate / (1 + d.rate)),
)
def _gamma_poisson(model: Any, x: Array):
    return (x, -jnp.ones_like(x)), model.log_base(x)


@register_conjugate(Gamma, Exponential, lambda _, rate: Exponential(rate))
def _gamma_exponential(model: Any, x: Array):
    return (jnp.ones_like(x), -x), jnp.zeros_like(x)


@register_conjugate(
    Gamma, Gamma, lambda model, rate: Gamma(model.concentration, rate), known=("concentration",)
)
def _gamma_gamma(model: Any, x: Array):
    c = jnp.broadcast_to(model.concentration, x.shape)
    return (c, -x), xlogy(c - 1, x) - log_gamma(c)


# The end of an interval: the statistic is a maximum, which takes the place of a sum


def _fold_pareto(d: Pareto, model: Any, rows: Array, weights: Array) -> Pareto:
    spread = weights.reshape((-1,) + (1,) * (rows.ndim - 1))
    largest = jnp.where(spread > 0, rows, 0.0).max(0, initial=0.0)
    return Pareto(d.concentration + weights.sum(), jnp.maximum(d.scale, largest))


@register_conjugate(
    Pareto,
    Uniform,
    lambda _, end: Uniform(jnp.zeros_like(end), end),
    fold=_fold_pareto,
    log_normaliser=lambda d: -jnp.log(d.concentration) - d.concentration * jnp.log(d.scale),
    support=nonnegative,
)
def _pareto_uniform(model: Any, x: Array):
    return (), jnp.zeros_like(x)
