"""Laws of exponential families, over every family of the package."""

import importlib
import inspect
import pkgutil
from functools import cache

import equinox as eqx
import jax
import numpy as np
import pytest

import tractable.distributions
from tractable.distributions.bounded import Beta
from tractable.distributions.circular import VonMises
from tractable.distributions.continuous import Laplace, Normal
from tractable.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.expfam import (
    ExponentialFamily,
    expfam_entropy,
    expfam_kl,
    expfam_log_prob,
    mean_stats,
    per_unit,
)
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.multivariate import Dirichlet, Multinomial
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import (
    ChiSquared,
    Exponential,
    Gamma,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Pareto,
    Weibull,
)
from tractable.distributions.wishart import InverseWishart, Wishart

SQUARE, OTHER = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.4], [-0.4, 1.0]])
REALS, POSITIVES, COUNTS = np.array([-1.5, 0.2, 3.0]), np.array([0.2, 1.1, 4.0]), np.array([0.0, 1.0, 4.0])
SHARES = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])

# A member, another of its family (None: two are not comparable), and points of the support.
MEMBERS = {
    "Normal": (lambda: Normal(0.5, 1.5), lambda: Normal(-1.0, 0.7), REALS),
    "Laplace": (lambda: Laplace(0.5, 1.5), lambda: Laplace(0.5, 0.7), REALS),
    "VonMises": (lambda: VonMises(0.5, 1.5), lambda: VonMises(-1.0, 0.7), REALS),
    "Weibull": (lambda: Weibull(2.5, 1.5), lambda: Weibull(2.5, 0.7), POSITIVES),
    "HalfNormal": (lambda: HalfNormal(1.5), lambda: HalfNormal(0.7), POSITIVES),
    "LogNormal": (lambda: LogNormal(0.5, 1.5), lambda: LogNormal(-1.0, 0.7), POSITIVES),
    "Exponential": (lambda: Exponential(1.5), lambda: Exponential(0.4), POSITIVES),
    "Gamma": (lambda: Gamma(2.5, 1.5), lambda: Gamma(0.8, 2.0), POSITIVES),
    "InverseGamma": (lambda: InverseGamma(2.5, 1.5), lambda: InverseGamma(0.8, 2.0), POSITIVES),
    "ChiSquared": (lambda: ChiSquared(3.0), lambda: ChiSquared(5.5), POSITIVES),
    "Pareto": (lambda: Pareto(2.5, 1.5), lambda: Pareto(0.8, 1.5), POSITIVES + 1.5),
    "Beta": (lambda: Beta(2.5, 0.8), lambda: Beta(1.0, 3.0), np.array([0.1, 0.5, 0.95])),
    "Bernoulli": (lambda: Bernoulli(0.3), lambda: Bernoulli(0.8), np.array([0.0, 1.0])),
    "Categorical": (
        lambda: Categorical(SHARES[0]),
        lambda: Categorical(SHARES[1]),
        np.array([0.0, 1.0, 2.0]),
    ),
    "Binomial": (lambda: Binomial(7, 0.3), lambda: Binomial(7, 0.8), COUNTS),
    "Geometric": (lambda: Geometric(0.3), lambda: Geometric(0.8), COUNTS),
    "Poisson": (lambda: Poisson(2.5), lambda: Poisson(0.8), COUNTS),
    "NegativeBinomial": (lambda: NegativeBinomial(2.5, 0.3), lambda: NegativeBinomial(2.5, 0.8), COUNTS),
    "Multinomial": (
        lambda: Multinomial(4, SHARES[0]),
        lambda: Multinomial(4, SHARES[1]),
        np.array([[1.0, 2.0, 1.0], [4.0, 0.0, 0.0]]),
    ),
    "Dirichlet": (lambda: Dirichlet([0.7, 2.0, 3.5]), lambda: Dirichlet([1.5, 1.0, 2.0]), SHARES),
    "Gaussian": (
        lambda: Gaussian([0.5, -1.0], SQUARE),
        lambda: Gaussian([0.0, 1.0], OTHER),
        np.array([[0.0, 1.0], [2.0, -1.0]]),
    ),
    "Wishart": (lambda: Wishart(4.5, OTHER), lambda: Wishart(3.0, SQUARE), np.stack([SQUARE, OTHER])),
    "InverseWishart": (
        lambda: InverseWishart(4.5, OTHER),
        lambda: InverseWishart(3.0, SQUARE),
        np.stack([SQUARE, OTHER]),
    ),
    "NormalGamma": (
        lambda: NormalGamma(0.3, 2.0, 2.5, 1.5),
        lambda: NormalGamma(-1.0, 0.5, 0.8, 2.0),
        np.array([[0.0, 1.0], [0.5, 0.3]]),
    ),
    "NormalInverseWishart": (
        lambda: NormalInverseWishart([0.5, -1.0], 2.0, 4.5, OTHER),
        lambda: NormalInverseWishart([0.0, 1.0], 0.5, 3.0, SQUARE),
        np.stack([np.vstack([[0.5, 0.0], SQUARE]), np.vstack([[1.0, -1.0], OTHER])]),
    ),
}
VARYING_BASE = {"Binomial", "ChiSquared", "LogNormal", "Multinomial", "NegativeBinomial", "Pareto", "Poisson"}
VARYING_BASE |= {"Weibull"}
families = pytest.mark.parametrize("name", list(MEMBERS))


@eqx.filter_jit
def _facts(member, other, points):
    return {
        "natural form": expfam_log_prob(member, points),
        "log_prob": member.log_prob(points),
        "by natural": per_unit((member,), lambda unit: unit.from_natural(unit.natural)),
        "by statistics": per_unit(
            (member,), lambda unit, means: unit.from_stats(means), (mean_stats(member),)
        ),
        "self": expfam_kl(member, member),
        "divergence": expfam_kl(member, other),
    }


@cache
def facts(name):
    build, build_other, points = MEMBERS[name]
    return _facts(build(), build_other(), points)


def assert_same(left, right, rtol):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


def test_every_family_has_a_case():
    found = set()
    for module in pkgutil.iter_modules(tractable.distributions.__path__):
        content = vars(importlib.import_module(f"tractable.distributions.{module.name}"))
        classes = [c for c in content.values() if inspect.isclass(c) and issubclass(c, ExponentialFamily)]
        found |= {c.__name__ for c in classes if not inspect.isabstract(c) and not c.__name__.startswith("_")}
    assert found == set(MEMBERS)


@families
def test_density_is_that_of_the_natural_form(name):
    np.testing.assert_allclose(facts(name)["natural form"], facts(name)["log_prob"], rtol=1e-10, atol=1e-11)


@families
def test_parameters_return_from_natural_parameters(name):
    assert_same(_probs(facts(name)["by natural"]), _probs(MEMBERS[name][0]()), 1e-11)


@families
def test_parameters_return_from_mean_statistics(name):
    """Maximum likelihood of a member's own averages is the member."""
    assert_same(_probs(facts(name)["by statistics"]), _probs(MEMBERS[name][0]()), 1e-7)


@families
def test_divergence_is_zero_from_itself_and_positive_from_others(name):
    np.testing.assert_allclose(facts(name)["self"], 0.0, atol=1e-12)
    assert float(facts(name)["divergence"]) > 1e-3


@families
def test_entropy_from_the_log_normaliser(name):
    member = MEMBERS[name][0]()
    if name in VARYING_BASE:
        with pytest.raises(AttributeError, match="base measure that varies"):
            expfam_entropy(member)
    else:
        np.testing.assert_allclose(expfam_entropy(member), member.entropy(), rtol=1e-9)


def _probs(member):
    """Log-weights are known up to a constant: compare the probabilities that they stand for."""
    return (member.probs, getattr(member, "total", 0.0)) if hasattr(member, "logits") else member
