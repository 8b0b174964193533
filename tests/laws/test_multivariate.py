"""Laws of distributions over vectors and matrices, run on every member of the registry.

Points are padded to one number of rows and quantities are computed together: few programs are compiled.
"""

import functools
import importlib
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as stats

from tests.laws.cases_multivariate import CASES
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.expfam import ExponentialFamily, expfam_entropy, expfam_log_prob, mean_stats
from tractable.distributions.multivariate import Multinomial

NUM_DRAWS = 20_000
BY_NAME = {case.name: case for case in CASES}
FAMILIES = [case for case in CASES if isinstance(case.build(), ExponentialFamily)]
MODULES = ("matrix", "multinomial", "multivariate", "normal_priors", "wishart")

each = pytest.mark.parametrize("case", CASES, ids=str)
each_family = pytest.mark.parametrize("case", FAMILIES, ids=str)


@functools.cache
def built(name):
    return BY_NAME[name].build()


@functools.cache
def draws(name):
    return np.asarray(built(name).sample(jr.key(20), (NUM_DRAWS,)))


@functools.cache
def densities(name):
    return log_prob(built(name), draws(name))


def log_prob(distribution, points):
    """The log-density at each row, computed on a fixed number of rows."""
    points = np.asarray(points, float)
    padded = np.concatenate([points, np.repeat(points[:1], NUM_DRAWS - len(points), 0)])
    return np.asarray(distribution.log_prob(padded))[: len(points)]


@eqx.filter_jit
def moments(distribution):
    """Everything that a distribution knows about itself; an attribute that it lacks is missing."""
    names = [name for name in ("mean", "variance", "mode", "covariance") if hasattr(type(distribution), name)]
    fields = [f.name for f in distribution.__dataclass_fields__.values() if f.name in ("mean", "covariance")]
    known = {name: getattr(distribution, name) for name in {*names, *fields}}
    return known | {"entropy": distribution.entropy()}


@eqx.filter_jit
def slopes(distribution, points):
    """Log-densities by `vmap`, and the derivatives of their sum in all parameters and in the points."""

    def total(both):
        values = jax.vmap(both[0].log_prob)(both[1])
        return values.sum(), values

    return jax.grad(total, has_aux=True)((distribution, points))


@eqx.filter_jit
def of_two_units(both, pairs):
    return both.log_prob(pairs), moments(both)


@eqx.filter_jit
def natural_facts(d, inside, sample):
    """The natural form, mean statistics, statistics of draws, parameters by both ways back, the entropy."""
    expected = mean_stats(d)
    again = d.from_natural(d.natural), d.from_stats(expected)
    entropy = None if isinstance(d, Multinomial) else expfam_entropy(d)
    return expfam_log_prob(d, inside), expected, jax.vmap(d.stats)(sample), again, entropy


def of_family(case, d):
    return natural_facts(d, jnp.asarray(case.inside, float), jnp.asarray(draws(case.name), float))


def scaled(distribution, factor):
    """The same distribution with every parameter, other than a total, multiplied by `factor`."""
    names = parameters(distribution)
    values = [getattr(distribution, name) * factor for name in names]
    return eqx.tree_at(lambda d: [getattr(d, name) for name in names], distribution, values)


def parameters(distribution):
    fields = distribution.__dataclass_fields__.values()
    return [f.name for f in fields if "rank" in f.metadata and f.name != "total"]


def assert_within(values, expected, what):
    """The mean of each column of `values` lies within five standard errors of `expected`."""
    error = values.std(0) / np.sqrt(len(values))
    difference = np.abs(values.mean(0) - expected)
    assert (difference <= 5 * error + 1e-12).all(), f"{what}: z = {difference / np.maximum(error, 1e-300)}"


def test_every_public_distribution_has_a_case():
    covered = {type(built(case.name)) for case in CASES}
    for name in MODULES:
        module = importlib.import_module(f"tractable.distributions.{name}")
        members = {getattr(module, public) for public in module.__all__}
        kinds = {m for m in members if inspect.isclass(m) and issubclass(m, Distribution)}
        assert kinds - covered == set(), name
        assert not any(issubclass(kind, Univariate) for kind in kinds)


@each
def test_draws_lie_in_the_support_and_are_of_the_right_kind(case):
    assert np.isfinite(densities(case.name)).all()
    kind = np.integer if built(case.name).discrete else np.floating
    assert np.issubdtype(draws(case.name).dtype, kind)


@each
def test_log_prob_is_that_of_an_independent_source(case):
    expected = case.log_density(case.inside)
    np.testing.assert_allclose(log_prob(built(case.name), case.inside), expected, rtol=1e-10, atol=1e-12)


@each
def test_density_integrates_to_one(case):
    points, weights = case.quadrature()
    np.testing.assert_allclose(weights @ np.exp(log_prob(built(case.name), points)), 1, rtol=1e-10)


@each
def test_impossible_points_have_log_prob_minus_infinity(case):
    np.testing.assert_array_equal(log_prob(built(case.name), case.outside), -np.inf)


@each
def test_nan_stays_nan(case):
    point = np.array(case.inside[:1], float)
    point.flat[0] = np.nan
    assert np.isnan(log_prob(built(case.name), point)).all()


@each
def test_gradients_agree_with_differences_and_are_finite_off_the_support(case):
    d, step = built(case.name), 1e-6
    points = np.concatenate([case.inside, case.outside]).astype(float)
    (by_parameter, by_point), mapped = slopes(d, points)
    np.testing.assert_allclose(mapped, log_prob(d, points), rtol=1e-13)
    along = sum((getattr(by_parameter, name) * getattr(d, name)).sum() for name in parameters(d))
    ahead, behind = (log_prob(scaled(d, 1 + s), case.inside).sum() for s in (step, -step))
    np.testing.assert_allclose(along, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(by_parameter))
    if not d.discrete:
        assert np.isfinite(by_point).all()


@each
def test_leading_axes_are_independent_units(case):
    one, other = built(case.name), scaled(built(case.name), 1.25)
    both = jax.tree.map(lambda a, b: np.stack([a, b]), one, other)
    assert both.shape == (2, *one.shape)
    pairs = np.stack([case.inside, case.inside[::-1]], 1).astype(float)
    joint, known = of_two_units(both, pairs)
    expected = log_prob(one, case.inside) + log_prob(other, case.inside)[::-1]
    np.testing.assert_allclose(joint, expected, rtol=1e-12)
    first, second = moments(one), moments(other)
    np.testing.assert_allclose(known.pop("entropy"), first["entropy"] + second["entropy"], rtol=1e-12)
    for name, value in known.items():
        np.testing.assert_allclose(value, np.stack([first[name], second[name]]), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["Multinomial", "MatrixNormal"])
def test_draws_of_units_are_independent(name):
    one = built(name)
    draws_of_two = np.asarray(one.expand((2,)).sample(jr.key(0), (50, 40)))
    assert draws_of_two.shape == (50, 40, 2, *one.shape)
    assert np.isfinite(log_prob(one, draws_of_two.reshape(-1, *one.shape))).all()
    centred = draws_of_two.reshape(2000, 2, -1) - np.asarray(one.mean).ravel()
    assert_within(centred[:, 0] * centred[:, 1], 0, "products of units")
    assert_within(centred[1:, 0] * centred[:-1, 0], 0, "products of draws")


@each
def test_moments_of_draws(case):
    known, x = moments(built(case.name)), draws(case.name)
    centred = x - np.asarray(known["mean"])
    assert_within(centred, 0, "mean")
    assert_within(centred**2, np.asarray(known["variance"]), "variance")
    if "covariance" in known:
        assert_within(
            centred[:, :, None] * centred[:, None, :], np.asarray(known["covariance"]), "covariance"
        )


@each
def test_projections_of_draws_follow_their_known_laws(case):
    assert case.projections
    for project, law in case.projections:
        values = project(draws(case.name))
        if built(case.name).discrete:
            counts = np.bincount(values.astype(int), minlength=6)
            p = stats.chisquare(counts, law.pmf(np.arange(6)) * NUM_DRAWS).pvalue
        else:
            p = stats.kstest(values, law.cdf).pvalue
        assert p > 1e-4


@each
def test_entropy_is_the_mean_of_minus_log_prob(case):
    assert_within(-densities(case.name), float(moments(built(case.name))["entropy"]), "entropy")


@each
def test_no_draw_is_more_probable_than_the_mode(case):
    mode = moments(built(case.name)).get("mode", np.nan)
    if np.isfinite(mode).all():
        assert densities(case.name).max() <= log_prob(built(case.name), mode[None])[0] + 1e-12


@each_family
def test_natural_form_is_the_density(case):
    d = built(case.name)
    density, expected, statistics, again, entropy = of_family(case, d)
    np.testing.assert_allclose(density, log_prob(d, case.inside), rtol=1e-10, atol=1e-12)
    for values, mean in zip(statistics, expected, strict=True):  # the gradient of the log-normaliser
        assert_within(np.asarray(values), np.asarray(mean), "statistics")
    for back in again:
        assert type(back) is type(d)
        np.testing.assert_allclose(log_prob(back, case.inside), log_prob(d, case.inside), rtol=1e-9)
        for name in set(parameters(d)) - {"logits"}:
            np.testing.assert_allclose(getattr(back, name), getattr(d, name), rtol=1e-10, atol=1e-12)
    if entropy is not None:
        np.testing.assert_allclose(entropy, moments(d)["entropy"], rtol=1e-10, atol=1e-12)


def test_multinomial_has_no_entropy_from_the_log_normaliser():
    with pytest.raises(AttributeError, match="base measure"):  # which varies with the counts
        expfam_entropy(built("Multinomial"))


@each_family
def test_fit_is_differentiable(case):
    """The derivative of fitted parameters along the statistics, against a difference of two fits."""
    d = built(case.name)
    start, end = of_family(case, d)[1], of_family(case, scaled(d, 1.01))[1]

    def fitted(t):
        moved = jax.tree.map(lambda a, b: a + t * (b - a), start, end)
        return sum(leaf.sum() for leaf in jax.tree.leaves(d.from_stats(moved)))

    value_and_slope = jax.jit(jax.value_and_grad(fitted))
    difference = (value_and_slope(0.5 + 1e-4)[0] - value_and_slope(0.5 - 1e-4)[0]) / 2e-4
    np.testing.assert_allclose(value_and_slope(0.5)[1], difference, rtol=1e-5, atol=1e-8)
