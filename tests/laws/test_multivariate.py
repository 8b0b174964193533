"""Laws of distributions over vectors and matrices, run on every member of the registry."""

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
    return np.asarray(built(name).log_prob(draws(name)))


def scaled(distribution, factor):
    """The same distribution with every parameter, other than a total, multiplied by `factor`."""
    names = [
        f.name
        for f in distribution.__dataclass_fields__.values()
        if "rank" in f.metadata and f.name != "total"
    ]
    values = [getattr(distribution, name) * factor for name in names]
    return eqx.tree_at(lambda d: [getattr(d, name) for name in names], distribution, values)


def within(values, expected, what):
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
def test_log_prob_is_that_of_an_independent_source(case):
    np.testing.assert_allclose(
        built(case.name).log_prob(case.inside), case.log_density(case.inside), rtol=1e-10, atol=1e-12
    )


@each
def test_density_integrates_to_one(case):
    points, weights = case.quadrature()
    total = weights @ np.exp(np.asarray(built(case.name).log_prob(points)))
    np.testing.assert_allclose(total, 1, rtol=1e-10)


@each
def test_impossible_points_have_log_prob_minus_infinity_and_a_finite_gradient(case):
    d = built(case.name)
    values, slopes = jax.vmap(lambda x: jax.jvp(lambda f: scaled(d, f).log_prob(x), (1.0,), (1.0,)))(
        case.outside * 1.0
    )
    np.testing.assert_array_equal(values, -np.inf)
    np.testing.assert_array_equal(slopes, 0)


@each
def test_nan_stays_nan(case):
    point = np.array(case.inside[0], float)
    point.flat[0] = np.nan
    assert np.isnan(built(case.name).log_prob(point))


@each
def test_gradients_agree_with_differences(case):
    d, step = built(case.name), 1e-6

    def total(factor):
        return scaled(d, factor).log_prob(case.inside)

    ahead, behind = total(1 + step), total(1 - step)
    slope = jax.jvp(total, (1.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-5)
    parameters = jax.grad(lambda d: d.log_prob(case.inside).sum())(d)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(parameters))
    if not d.discrete:
        assert np.isfinite(jax.grad(lambda x: d.log_prob(x).sum())(jnp.asarray(case.inside, float))).all()


@each
def test_jit_and_vmap_change_nothing(case):
    d = built(case.name)
    expected = d.log_prob(case.inside)
    np.testing.assert_allclose(jax.jit(lambda d, x: d.log_prob(x))(d, case.inside), expected, rtol=1e-13)
    np.testing.assert_allclose(jax.vmap(d.log_prob)(case.inside), expected, rtol=1e-13)


@each
def test_leading_axes_are_independent_units(case):
    one = built(case.name)
    other = scaled(one, 1.25)
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), one, other)
    assert both.shape == (2, *one.shape)
    pairs = np.stack([case.inside, case.inside[::-1]], 1)
    expected = one.log_prob(case.inside) + other.log_prob(case.inside[::-1])
    np.testing.assert_allclose(both.log_prob(pairs), expected, rtol=1e-12)
    np.testing.assert_allclose(both.mean, np.stack([one.mean, other.mean]), rtol=1e-12)
    np.testing.assert_allclose(both.variance, np.stack([one.variance, other.variance]), rtol=1e-12)
    np.testing.assert_allclose(both.entropy(), one.entropy() + other.entropy(), rtol=1e-12)
    for name in ("mode", "covariance"):
        if hasattr(one, name):
            np.testing.assert_allclose(
                getattr(both, name), np.stack([getattr(one, name), getattr(other, name)])
            )
    sample = both.sample(jr.key(0), (4, 3))
    assert sample.shape == (4, 3, 2, *one.shape)
    assert (both.log_prob(sample) > -np.inf).all()
    assert len(np.unique(np.asarray(sample).reshape(24, -1), axis=0)) > (1 if one.discrete else 23)


@each
def test_draws_lie_in_the_support_and_are_of_the_right_kind(case):
    assert np.isfinite(densities(case.name)).all()
    kind = np.integer if built(case.name).discrete else np.floating
    assert np.issubdtype(draws(case.name).dtype, kind)


@each
def test_moments_of_draws(case):
    d, x = built(case.name), draws(case.name)
    within(x, np.asarray(d.mean), "mean")
    within((x - np.asarray(d.mean)) ** 2, np.asarray(d.variance), "variance")
    if hasattr(d, "covariance"):
        centred = x - np.asarray(d.mean)
        within(centred[:, :, None] * centred[:, None, :], np.asarray(d.covariance), "covariance")


@each
def test_projections_of_draws_follow_their_known_laws(case):
    x = draws(case.name)
    assert case.projections
    for project, law in case.projections:
        values = project(x)
        if built(case.name).discrete:
            counts = np.bincount(values.astype(int), minlength=6)
            p = stats.chisquare(counts, law.pmf(np.arange(6)) * NUM_DRAWS).pvalue
        else:
            p = stats.kstest(values, law.cdf).pvalue
        assert p > 1e-4


@each
def test_entropy_is_the_mean_of_minus_log_prob(case):
    within(-densities(case.name), float(built(case.name).entropy()), "entropy")


@each
def test_no_draw_is_more_probable_than_the_mode(case):
    d = built(case.name)
    mode = d.mode if hasattr(d, "mode") else None
    if mode is not None and np.isfinite(mode).all():
        assert densities(case.name).max() <= d.log_prob(mode) + 1e-12
        nearby = 0.999 * mode + 0.001 * jnp.asarray(
            case.inside[1], float
        )  # the supports with a mode are convex
        if case.name != "LKJCholesky":
            assert d.log_prob(nearby) < d.log_prob(mode)


@each_family
def test_natural_form_is_the_density(case):
    d = built(case.name)
    np.testing.assert_allclose(
        expfam_log_prob(d, case.inside), d.log_prob(case.inside), rtol=1e-10, atol=1e-12
    )


@each_family
def test_gradient_of_the_log_normaliser_is_the_mean_of_the_statistics(case):
    d = built(case.name)
    statistics = jax.jit(jax.vmap(d.stats))(jnp.asarray(draws(case.name), float))
    for values, expected in zip(statistics, mean_stats(d), strict=True):
        within(np.asarray(values), np.asarray(expected), "statistics")


@each_family
def test_parameters_return_from_natural_and_from_mean_statistics(case):
    d = built(case.name)
    for back in (
        d.from_natural(d.natural),
        d.from_stats(mean_stats(d)),
        jax.jit(d.from_stats)(mean_stats(d)),
    ):
        assert type(back) is type(d)
        np.testing.assert_allclose(back.mean, d.mean, rtol=1e-10)
        np.testing.assert_allclose(back.variance, d.variance, rtol=1e-9)
        np.testing.assert_allclose(back.log_prob(case.inside), d.log_prob(case.inside), rtol=1e-9)


@each_family
def test_entropy_from_the_log_normaliser(case):
    d = built(case.name)
    if case.name == "Multinomial":  # its base measure varies with the counts
        with pytest.raises(AttributeError, match="base measure"):
            expfam_entropy(d)
    else:
        np.testing.assert_allclose(expfam_entropy(d), d.entropy(), rtol=1e-10)


@each_family
def test_fit_is_differentiable(case):
    """The derivative of the fitted parameters along the statistics, against a difference of two fits."""
    d = built(case.name)
    start, end = mean_stats(d), mean_stats(scaled(d, 1.01))

    def fitted(t):
        moved = jax.tree.map(lambda a, b: a + t * (b - a), start, end)
        return d.from_stats(moved).log_prob(case.inside[:1]).sum()

    slope = jax.jit(jax.grad(fitted))(0.5)
    difference = (jax.jit(fitted)(0.5 + 1e-4) - jax.jit(fitted)(0.5 - 1e-4)) / 2e-4
    np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-8)
