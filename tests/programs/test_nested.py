"""Nested Laplace: values, gradients, weights and verdicts against quadrature and dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, gammaln, logsumexp
from scipy.stats import multivariate_normal, norm

import tractable as tr
from tractable.distributions import Bernoulli, Gaussian, HalfNormal, Normal, Poisson, StudentT
from tractable.messages.gaussian_field import plan_field
from tractable.messages.gaussian_precision import PrecisionField, plan_precision
from tractable.programs.laplace_curvature import plan_curvature
from tractable.programs.marginal_part import MarginalPart
from tractable.programs.nested import nested_structure
from tractable.programs.reduced import reduce
from tractable.programs.structure import find_structure
from tractable.programs.survey import survey

GROUPS = 12
GROUP = np.repeat(np.arange(GROUPS), 3)
COUNTS = np.random.default_rng(0).poisson(
    np.exp(1.0 + 0.7 * np.random.default_rng(1).normal(size=GROUPS))[GROUP]
)


@tr.model
def counts(group, y):
    mean = tr.sample("mean", Normal(0.0, 2.0))
    spread = tr.sample("spread", HalfNormal(1.0))
    with tr.plate("group", GROUPS):
        effect = tr.sample("effect", Normal(mean, spread))
    with tr.plate("row", len(y)):
        tr.sample("y", Poisson(jnp.exp(effect[group])), obs=y)


def _counts_oracle(spread):
    """Log-evidence and mean of the first effect given the spread: groups are independent given the mean."""
    means, z = np.linspace(-3, 5, 161), np.linspace(-9, 9, 181)
    eta = means[:, None] + spread * z[None]
    total, first = norm(0, 2).logpdf(means), None
    for g in range(GROUPS):
        own = COUNTS[g == GROUP]
        terms = own.sum() * eta - len(own) * np.exp(eta) - gammaln(own + 1).sum() + norm.logpdf(z)
        total = total + logsumexp(terms, axis=1) + np.log(z[1] - z[0])
        first = (np.exp(terms - logsumexp(terms, axis=1)[:, None]) * eta).sum(1) if g == 0 else first
    value = logsumexp(total) + np.log(means[1] - means[0])
    return value, np.exp(total - logsumexp(total)) @ first


def _reduced(bound, start, nested=True):
    facts = survey(bound)
    structure = nested_structure(facts) if nested else find_structure(facts)
    return reduce(bound, facts, structure, start), structure


def test_entries_of_a_precision_are_as_good_as_the_matrix():
    rng = np.random.default_rng(0)
    rows, cols = np.r_[np.arange(6), np.arange(6)], np.r_[np.arange(6), np.full(6, 6)]
    plan = plan_field(rows, cols, (6, 7), border=[6])
    first, second = np.r_[np.arange(7), np.arange(6)], np.r_[np.arange(7), np.full(6, 6)]
    entries = plan_precision(plan, first, second)
    values = np.r_[3.0 + rng.random(6), 8.0, rng.normal(size=6)]
    dense = np.zeros((7, 7))
    dense[first, second] = dense[second, first] = values
    force = rng.normal(size=7)
    of = jax.jit(lambda values: PrecisionField.of(entries, values, jnp.asarray(force)))
    found = of(jnp.asarray(values))
    np.testing.assert_allclose(found.mean, np.linalg.solve(dense, force), rtol=1e-12)
    np.testing.assert_allclose(float(found.log_det), np.linalg.slogdet(dense)[1], rtol=1e-12)
    np.testing.assert_allclose(found.covariances(), np.linalg.inv(dense)[first, second], rtol=1e-10)
    root = np.asarray(jax.jit(jax.vmap(found.spread))(jnp.eye(plan.num_places)))
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(dense), atol=1e-12)
    values[6] = -8.0
    assert not of(jnp.asarray(values)).regular


def test_few_products_give_all_entries():
    # four chains of three that a border of one joins
    units = [(i, j) for c in range(4) for i, j in ((3 * c, 3 * c + 1), (3 * c + 1, 3 * c + 2))]
    rows = np.repeat(np.arange(8), 3)
    cols = np.array([[i, j, 12] for i, j in units]).reshape(-1)
    curvature, groups = plan_curvature(rows, cols, (8, 13))
    assert curvature.num_colours == 4
    assert (groups.num_groups, groups.largest, groups.num_border) == (4, 3, 1)

    def phi(x):
        return sum(jnp.exp(x[i] * x[j] + 0.3 * x[12]) + x[i] ** 2 * x[12] ** 2 for i, j in units)

    x = jnp.asarray(np.random.default_rng(0).normal(size=13))
    value, _, entries = jax.jit(lambda x: curvature.of(phi, x))(x)
    dense = np.zeros(curvature.precision.plan.num_inner + curvature.precision.plan.num_places)
    dense[np.asarray(curvature.precision.at)] = entries
    want = np.asarray(jax.jit(jax.hessian(phi))(x))
    first, second = np.nonzero(np.triu(want))
    at = curvature.precision.plan.locate(first, second)
    np.testing.assert_allclose(dense[at], want[first, second], rtol=1e-12)
    assert float(value) == pytest.approx(float(phi(x)))


@pytest.mark.parametrize("noise", ["poisson", "student"])
def test_the_gradient_knows_how_the_mode_moves(noise):
    @tr.model
    def model(group, y):
        mean = tr.sample("mean", Normal(0.0, 2.0))
        spread = tr.sample("spread", HalfNormal(1.0))
        scale = tr.sample("scale", HalfNormal(1.0))
        with tr.plate("group", GROUPS):
            effect = tr.sample("effect", Normal(mean, spread))
        with tr.plate("row", len(y)):
            law = Poisson(scale * jnp.exp(effect[group])) if noise == "poisson" else None
            tr.sample("y", law or StudentT(4.0, effect[group], scale), obs=y)

    y = COUNTS if noise == "poisson" else np.log1p(COUNTS)
    at = {"spread": jnp.asarray(0.8), "scale": jnp.asarray(0.9)}
    reduced, structure = _reduced(model.bind(GROUP, y), at)
    assert structure.nested == ("mean", "effect")
    both = jax.jit(jax.value_and_grad(reduced))
    slopes = both(at)[1]
    for name in at:
        step = 1e-4
        ends = [float(both({**at, name: at[name] + side * step})[0]) for side in (1, -1)]
        np.testing.assert_allclose(float(slopes[name]), (ends[0] - ends[1]) / (2 * step), rtol=2e-6)


@pytest.mark.thorough
def test_below_normal_readings_it_is_the_exact_integral():
    @tr.model
    def model(group, y):
        mean = tr.sample("mean", Normal(0.0, 2.0))
        spread = tr.sample("spread", HalfNormal(1.0))
        with tr.plate("group", GROUPS):
            effect = tr.sample("effect", Normal(mean, spread))
        with tr.plate("row", len(y)):
            tr.sample("y", Normal(effect[group], 0.7), obs=y)

    bound, at = model.bind(GROUP, np.log1p(COUNTS)), {"spread": jnp.asarray(0.4)}
    exact, laplace = (_reduced(bound, at, nested)[0] for nested in (False, True))
    assert laplace.nested is not None
    assert exact.nested is None
    np.testing.assert_allclose(float(laplace(at)), float(exact(at)), rtol=1e-12)


@pytest.mark.thorough
def test_counts_of_groups_agree_with_quadrature_in_each_group():
    post = tr.infer(counts, GROUP, COUNTS, key=0, progress=False)
    assert "Method: nested" in post.explain().sentences[-1]
    assert (post.explain().before, post.explain().after) == (14, 1)
    assert post.verdict.ok, post.verdict
    spreads = np.exp(np.linspace(-10, 1.6, 80))
    found = [_counts_oracle(spread) for spread in spreads]
    logs = np.array([f[0] for f in found]) + np.log(2) + norm.logpdf(spreads) + np.log(spreads)
    weights = np.exp(logs - logsumexp(logs))
    evidence = logsumexp(logs) + np.log(np.log(spreads[1] / spreads[0]))
    error = float(post.log_evidence.standard_error)
    assert error < 0.01
    assert abs(float(post.log_evidence.value) - evidence) < 4 * error
    size = post.verdict.numbers["ess"] / 2
    for draws, want in (
        (post["spread"], weights @ spreads),
        (post["effect"][..., 0], weights @ np.array([f[1] for f in found])),
    ):
        assert abs(draws.mean() - want) < 4 * draws.std() / np.sqrt(size)


def test_weights_mend_a_bad_gaussian():
    @tr.model
    def few(y):
        x = tr.sample("x", Normal(np.zeros(3), 10.0))
        with tr.plate("row", 3):
            tr.sample("y", Bernoulli(jax.nn.sigmoid(x)), obs=y)

    y = np.array([1, 1, 0])
    post = tr.infer(few, y, key=0, method="nested", progress=False)
    grid = np.linspace(-60, 60, 24_001)
    one = norm(0, 10).pdf(grid) * expit(grid)
    total = one.sum() * (grid[1] - grid[0])
    want = (one * grid).sum() * (grid[1] - grid[0]) / total
    laplace = float(_reduced(few.bind(y), {})[0]({}))
    assert abs(laplace - 3 * np.log(total)) > 0.3  # Laplace's method alone is far off
    error = float(post.log_evidence.standard_error)
    assert abs(float(post.log_evidence.value) - 3 * np.log(total)) < 4 * error
    assert error < 0.02
    assert post.verdict.ok, post.verdict
    mean = post["x"].mean((0, 1)) * [1, 1, -1]
    np.testing.assert_array_less(abs(mean - want), 4 * post["x"].std((0, 1)) / np.sqrt(1000))


@pytest.mark.thorough
def test_a_second_mode_is_seen_and_other_methods_take_over():
    @tr.model
    def squares(y):
        with tr.plate("row", len(y)):
            x = tr.sample("x", Normal(0.5, 1.0))
            tr.sample("y", Normal(x**2, 0.2), obs=y)

    y = np.array([1.0, 1.5, 0.8])
    post = tr.infer(squares, y, key=0, method="nested", progress=False)
    assert not post.verdict.ok
    assert post.verdict.numbers["elsewhere"] > 0
    again = tr.infer(squares, y, key=0, progress=False)
    said = " ".join(again.explain().sentences)
    assert "Nested Laplace was tried first" in said
    assert "Chains were tried first. Do not trust these draws: the chains settled in different places" in said
    assert "Method: smc" in said
    line, step = np.linspace(-8, 9, 20001, retstep=True)
    logs = norm.logpdf(y[:, None], line**2, 0.2) + norm.logpdf(line, 0.5, 1.0)
    exact = (logsumexp(logs, axis=1) + np.log(step)).sum()
    assert again.verdict.ok
    assert abs(again.log_evidence.value - exact) < 4 * again.log_evidence.standard_error < 0.4


def _process(x, y):
    height = tr.sample("height", HalfNormal(2.0))
    slope = tr.sample("slope", Normal(0.0, 1.0))
    away = (x[:, None] - x[None, :]) / 1.3
    f = tr.sample("f", Gaussian(0.5 * x, height**2 * jnp.exp(-0.5 * away**2)))
    at = jnp.arange(len(y)) // 2
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(2.0 * f[at] + slope * x[at], 0.3), obs=y)


def test_a_process_is_integrated_in_the_covariance_of_its_readings():
    x = np.linspace(0.0, 6.0, 45)
    y = np.random.default_rng(0).normal(size=90)
    at = {"height": jnp.asarray(0.8)}
    reduced = _reduced(tr.model(_process).bind(x, y), at, nested=False)[0]
    assert isinstance(reduced.gaussian, MarginalPart)
    both = jax.jit(jax.value_and_grad(lambda rest: reduced.gaussian.log_evidence(reduced.bound, rest)))
    value, slope = both(at)

    def oracle(height):
        kernel = height**2 * np.exp(-0.5 * ((x[:, None] - x[None]) / 1.3) ** 2)
        place = np.arange(90) // 2
        cov = 4 * kernel[place][:, place] + np.outer(x[place], x[place]) + 0.09 * np.eye(90)
        return multivariate_normal(x[place], cov).logpdf(y), kernel, cov

    want, kernel, cov = oracle(0.8)
    np.testing.assert_allclose(float(value), want, rtol=1e-10)
    gap = (oracle(0.8 + 1e-4)[0] - oracle(0.8 - 1e-4)[0]) / 2e-4
    np.testing.assert_allclose(float(slope["height"]), gap, rtol=1e-5)
    one = jax.jit(jax.vmap(lambda key: reduced.restored(key, at)))
    draws = one(jax.random.split(jax.random.key(0), 400))
    place = np.arange(90) // 2
    gain = np.linalg.solve(cov, np.stack([y - x[place], x[place]], 1))
    np.testing.assert_allclose(np.mean(draws["slope"]), x[place] @ gain[:, 0], atol=4 * 1.0 / 20)
    mean, spread = np.asarray(draws["f"]).mean(0), np.asarray(draws["f"]).std(0)
    wanted = 0.5 * x + 2 * kernel[:, place] @ gain[:, 0]
    np.testing.assert_array_less(np.abs(mean - wanted), 4.5 * spread / 20)
