"""Laws of univariate distributions, over every family of the package.

Each case is evaluated once, in a few calls of shapes that all its relatives share, so that little is
compiled; every law then reads what it needs. Quadrature uses panels between SciPy's quantiles, or edges given
with the case.
"""

import importlib
import inspect
import pkgutil
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import tractable.distributions
from tests.laws.cases_univariate import CASES
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily, mean_stats

BY_NAME = {case.name: case for case in CASES}
LEVELS = np.array([1e-8, 1e-3, 0.05, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6])
NUM_DRAWS = 8000
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def over(cases):
    return pytest.mark.parametrize("name", [case.name for case in cases])


every = over(CASES)
densities = over([case for case in CASES if not case.discrete])
masses = over([case for case in CASES if case.discrete])
known_to_scipy = over([case for case in CASES if case.scipy is not None])
exponential_families = over([case for case in CASES if isinstance(case.build(), ExponentialFamily)])


@cache
def member(name):
    return BY_NAME[name].build()


@cache
def rule(name):
    """Points and weights of a sum or integral over all mass, padded to one length for each kind."""
    case = BY_NAME[name]
    if case.discrete:
        points = np.concatenate([case.atoms, np.full(512 - case.atoms.size, case.atoms[0])])
        return points, (np.arange(512) < case.atoms.size).astype(float)
    edges = case.panel_edges()
    half = np.diff(edges)[:, None] / 2
    points = (edges[1:, None] + edges[:-1, None]) / 2 + half * NODES
    weights = half * WEIGHTS
    pad = 1536 - points.size
    return np.append(points.ravel(), np.full(pad, points[0, 0])), np.append(weights.ravel(), np.zeros(pad))


@cache
def log_probs(name):
    """At the nodes of the rule, inside (eight points), and outside (padded to four by NaN)."""
    case = BY_NAME[name]
    outside = np.append(case.outside, np.full(4 - case.outside.size, np.nan))
    values = np.asarray(member(name).log_prob(np.concatenate([rule(name)[0], case.inside, outside])))
    return values[:-12], values[-12:-4], values[-4:]


def log_prob_at(name, x):
    """At any few points, in a call of the shape that is compiled already."""
    padded = np.append(x, np.full(rule(name)[0].size + 12 - x.size, x[0]))
    return np.asarray(member(name).log_prob(padded))[: x.size]


@cache
def quantiles(name):
    return np.asarray(member(name).icdf(LEVELS))


@cache
def draws(name):
    return np.asarray(member(name).sample(jr.key(len(name)), (NUM_DRAWS,)))


@eqx.filter_jit
def _slopes(distribution, x):
    return jax.grad(lambda pair: pair[0].log_prob(pair[1]).sum())((distribution, x))


@eqx.filter_jit
def _pairs_one_at_a_time(distribution, pairs):
    return jax.vmap(distribution.expand((2,)).log_prob)(pairs)


@every
def test_total_mass_is_one(name):
    assert np.exp(log_probs(name)[0]) @ rule(name)[1] == pytest.approx(1, abs=1e-10)


@over([case for case in CASES if "no_moments" not in case.tags])
def test_entropy_is_the_expected_surprise(name):
    log_prob, (_, weights) = log_probs(name)[0], rule(name)
    possible = log_prob > -np.inf
    expected = -(weights[possible] * np.exp(log_prob[possible])) @ log_prob[possible]
    np.testing.assert_allclose(member(name).entropy(), expected, rtol=1e-10, atol=1e-12)


@over([case for case in CASES if case.scipy is None and not {"circular", "no_moments"} & case.tags])
def test_moments_are_expectations(name):
    points, weights = rule(name)
    mass = weights * np.exp(log_probs(name)[0])
    mean = mass @ points
    np.testing.assert_allclose(member(name).mean, mean, rtol=1e-10)
    np.testing.assert_allclose(member(name).variance, mass @ (points - mean) ** 2, rtol=1e-9, atol=1e-14)


@every
def test_off_support_is_impossible_and_nan_stays_nan(name):
    outside = log_probs(name)[2]
    given = BY_NAME[name].outside.size
    assert (outside[:given] == -np.inf).all()
    assert np.isnan(outside[given:]).all()


@known_to_scipy
def test_density_agrees_with_scipy(name):
    case, known = BY_NAME[name], BY_NAME[name].scipy()
    expected = known.logpmf(case.inside) if case.discrete else known.logpdf(case.inside)
    np.testing.assert_allclose(log_probs(name)[1], expected, rtol=1e-10, atol=1e-14)


@known_to_scipy
def test_distribution_function_agrees_with_scipy(name):
    case, known = BY_NAME[name], BY_NAME[name].scipy()
    np.testing.assert_allclose(member(name).cdf(case.inside), known.cdf(case.inside), rtol=1e-10, atol=1e-300)
    if not hasattr(member(name), "_tails"):  # else both tails come from one function, and are in test_tails
        expected = known.logsf(case.inside)
        exact = expected > -700  # past this SciPy's own tails underflow
        found = np.asarray(member(name).log_survival(case.inside))
        np.testing.assert_allclose(found[exact], expected[exact], rtol=1e-10, atol=1e-14)


@known_to_scipy
def test_quantiles_agree_with_scipy(name):
    np.testing.assert_allclose(quantiles(name), BY_NAME[name].scipy().ppf(LEVELS), rtol=1e-10, atol=1e-13)


@over([case for case in CASES if case.scipy is not None and "no_mean" not in case.tags])
def test_moments_agree_with_scipy(name):
    known = BY_NAME[name].scipy()
    np.testing.assert_allclose(member(name).mean, known.mean(), rtol=1e-10)
    np.testing.assert_allclose(member(name).variance, known.var(), rtol=1e-10)


@densities
def test_quantile_inverts_the_distribution_function(name):
    np.testing.assert_allclose(member(name).cdf(quantiles(name)), LEVELS, rtol=1e-10, atol=2e-16)


@masses
def test_quantile_is_the_first_value_that_reaches_its_level(name):
    points, weights = rule(name)
    mass = np.exp(log_probs(name)[0]) * weights
    for level, quantile in zip(LEVELS, quantiles(name)):
        assert mass[points <= quantile].sum() >= level - 1e-13
        assert mass[points < quantile].sum() < level


@masses
def test_quantile_of_the_distribution_function_is_the_value(name):
    values = BY_NAME[name].inside
    shares = np.asarray(member(name).cdf(values))
    certain = shares == 1
    found = np.asarray(member(name).icdf(shares))
    np.testing.assert_array_equal(found[~certain], values[~certain])
    assert (found[certain] >= values[certain]).all()


@every
def test_ends_of_the_quantile_function_are_the_ends_of_the_support(name):
    ends = np.asarray(member(name).icdf(np.array([0.0, 1.0, -0.1, 1.1, np.nan, 0.5, 0.5, 0.5])))
    if BY_NAME[name].scipy is not None and name != "Categorical":
        np.testing.assert_array_equal(ends[:2], BY_NAME[name].scipy().support())
    assert np.isnan(ends[2:5]).all()
    assert np.isfinite(ends[5:]).all()


@every
def test_slopes_are_finite_on_and_off_the_support(name):
    case = BY_NAME[name]
    outside = np.append(case.outside, np.full(4 - case.outside.size, case.inside[1]))
    by_parameters, by_point = _slopes(member(name), jnp.asarray(np.concatenate([case.inside, outside])))
    for leaf in jax.tree.leaves(by_parameters):
        assert np.isfinite(leaf).all()
    assert np.isfinite(by_point).all()


@densities
def test_slopes_in_the_point_are_differences(name):
    case = BY_NAME[name]
    x = case.inside[2:6]
    x = np.concatenate([x, x, x])
    _, slope = _slopes(member(name), jnp.asarray(x))
    step = 1e-5 * np.maximum(1e-2, np.abs(x))
    inside = np.concatenate([x[:4] + step[:4], x[:4] - step[:4]])
    values = log_prob_at(name, inside)
    expected = (values[:4] - values[4:]) / (2 * step[:4])
    np.testing.assert_allclose(slope[:4], expected, rtol=1e-5, atol=1e-5)


@every
def test_units_multiply_under_jit_and_vmap(name):
    assert member(name).expand((2,)).shape == (2,)
    pairs = _pairs_one_at_a_time(member(name), BY_NAME[name].inside.reshape(4, 2))
    np.testing.assert_allclose(pairs, log_probs(name)[1].reshape(4, 2).sum(1), rtol=1e-12, atol=1e-13)


@over([case for case in CASES if not {"no_mean", "no_moments", "circular"} & case.tags])
def test_draws_have_the_mean_and_variance(name):
    x = draws(name).astype(float)
    mean, variance = float(member(name).mean), float(member(name).variance)
    if variance == 0:
        assert (x == mean).all()
        return
    assert abs(x.mean() - mean) < 5 * np.sqrt(variance / NUM_DRAWS)
    spread = np.sqrt(np.mean(((x - mean) ** 2 - variance) ** 2) / NUM_DRAWS)
    assert abs(np.mean((x - mean) ** 2) - variance) < 5 * spread + 1e-12


@densities
def test_draws_follow_the_distribution_function(name):
    case, order = BY_NAME[name], np.sort(draws(name))
    if case.scipy is None:  # the masses of panels
        points = case.panel_edges()[1:]
        masses = (np.exp(log_probs(name)[0]) * rule(name)[1])[: 12 * points.size]
        shares = masses.reshape(-1, 12).sum(1).cumsum()
    else:
        points = order
        shares = case.scipy().cdf(points)
    counted = np.searchsorted(order, points, side="right") / NUM_DRAWS
    # on a grid Kolmogorov's distance is at most the distance itself, so that the bound is safe
    assert stats.kstwobign.sf(np.abs(shares - counted).max() * np.sqrt(NUM_DRAWS)) > 1e-4


@masses
def test_draws_follow_the_masses(name):
    points, weights = rule(name)
    expected = NUM_DRAWS * np.exp(log_probs(name)[0]) * weights
    observed = np.array([(draws(name) == point).sum() for point in points]) * weights
    common = expected > 5
    rest = expected[~common].sum(), observed[~common].sum()
    assert observed.sum() == NUM_DRAWS
    if rest[0] > 5:
        expected, observed = np.append(expected[common], rest[0]), np.append(observed[common], rest[1])
    else:
        expected, observed = expected[common], observed[common]
    if expected.size > 1:
        chi = ((observed - expected) ** 2 / expected).sum()
        assert stats.chi2(expected.size - 1).sf(chi) > 1e-4


@masses
def test_draws_are_whole_numbers_where_the_support_is(name):
    whole = np.issubdtype(draws(name).dtype, np.integer)
    assert whole == (name not in ("Finite", "Empirical", "PointMass"))


@over([case for case in CASES if "no_mode" not in case.tags])
def test_mode_is_where_the_density_is_largest(name):
    weights, mode = rule(name)[1], float(member(name).mode)
    values = np.where(weights > 0, log_probs(name)[0], -np.inf)
    if np.isnan(mode):
        best = np.sort(values)[::-1][:2]
        assert name in ("Uniform", "Beta-half") or best[0] == pytest.approx(best[1], rel=1e-12)
        return
    assert log_prob_at(name, np.array([mode]))[0] >= values.max() - 1e-12


@exponential_families
def test_slope_of_the_log_normaliser_is_the_mean_statistic(name):
    points, weights = rule(name)
    keep = (weights > 0) & (log_probs(name)[0] > -np.inf)
    safe = np.where(keep, points, BY_NAME[name].inside[1])
    mass = np.where(keep, weights * np.exp(log_probs(name)[0]), 0.0)
    for mean, values in zip(mean_stats(member(name)), member(name).stats(jnp.asarray(safe))):
        np.testing.assert_allclose(mean, np.tensordot(mass, np.asarray(values), 1), rtol=1e-9, atol=1e-10)


@exponential_families
def test_mean_statistics_give_the_parameters_back(name):
    family = member(name)
    again = eqx.filter_jit(type(family).from_stats)(family, mean_stats(family))
    shift = 0.0
    if name == "Categorical":  # log-weights are free up to a constant
        shift = jax.nn.logsumexp(family.logits) - jax.nn.logsumexp(again.logits)
    for ours, theirs in zip(jax.tree.leaves(family), jax.tree.leaves(again)):
        np.testing.assert_allclose(theirs + shift, ours, rtol=1e-9)


def test_every_public_family_has_a_case():
    found = set()
    for module in pkgutil.iter_modules(tractable.distributions.__path__):
        for thing in vars(importlib.import_module(f"tractable.distributions.{module.name}")).values():
            family = inspect.isclass(thing) and issubclass(thing, Univariate)
            if family and not inspect.isabstract(thing) and not thing.__abstractvars__:
                found.add(thing)
    missing = {kind.__name__ for kind in found} - {type(case.build()).__name__ for case in CASES}
    # SciPy has neither: tests/distributions/test_normal_mixture.py, tests/supervised/test_recalibration.py
    elsewhere = {"NormalMixture", "Recalibrated"}
    assert not {name for name in missing - elsewhere if not name.startswith("_")}
