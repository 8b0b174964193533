"""Normal-Gamma and normal-inverse-Wishart: factors, marginals, conjugacy by brute force, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as stats

from tractable.bijections.support import unconstrain
from tractable.distributions.expfam import maximum_likelihood
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart

SIZE = 20_000  # as in the laws: the same compiled program draws
LOC = np.array([1.0, -2.0])
SCALE = np.array([[2.0, 0.6], [0.6, 1.0]])


def test_a_normal_gamma_is_a_one_dimensional_normal_inverse_wishart():
    """cov = 1 / precision, degrees 2a, scale 2b; the Jacobian is cov^-2."""
    pairs = np.array([[1.0, 0.5], [-2.0, 3.0], [0.3, 0.01]])
    priors = NormalGamma(1.0, 2.0, 2.5, 4.0), NormalInverseWishart(np.ones(1), 2.0, 5.0, np.array([[8.0]]))
    points = np.stack([pairs[:, 0], 1 / pairs[:, 1]], -1)[:, :, None]
    expected = priors[0].log_prob(pairs) + 2 * np.log(pairs[:, 1])
    np.testing.assert_allclose(priors[1].log_prob(points), expected, rtol=1e-12)


@eqx.filter_jit
def shifted(prior, sums):
    return prior.from_natural(tuple(a + jnp.asarray(b) for a, b in zip(prior.natural, sums, strict=True)))


def test_posterior_is_prior_plus_statistics():
    """Prior times likelihood is the member whose natural parameters the data have moved, up to a constant."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4, 2)) + 1
    prior = NormalInverseWishart(LOC, 3.0, 5.0, SCALE)
    moved = (-len(y) / 2, -0.5 * y.T @ y, y.sum(0), -len(y) / 2)
    posterior = shifted(prior, moved)
    points = np.asarray(prior.sample(jr.key(0), (SIZE,)))[:5]
    likelihood = [stats.multivariate_normal(p[0], p[1:]).logpdf(y).sum() for p in points]
    evidence = np.asarray(prior.log_prob(points)) + likelihood - np.asarray(posterior.log_prob(points))
    np.testing.assert_allclose(evidence, evidence[0], rtol=1e-11)
    np.testing.assert_allclose(posterior.mean_scale, 7.0)
    np.testing.assert_allclose(posterior.degrees, 9.0)
    np.testing.assert_allclose(posterior.loc, (3 * LOC + y.sum(0)) / 7, rtol=1e-12)
    # the evidence, by the chain of predictive t laws
    chained, current = 0.0, prior
    for row in y:
        k, v = float(current.mean_scale), float(current.degrees)
        shape = np.asarray(current.scale) * (k + 1) / (k * (v - 1))
        chained += stats.multivariate_t(np.asarray(current.loc), shape, v - 1).logpdf(row)
        added = (-0.5, -0.5 * np.outer(row, row), row, -0.5)
        current = shifted(current, added)
    np.testing.assert_allclose(evidence[0], chained, rtol=1e-10)


def test_normal_gamma_posterior_by_quadrature():
    y = np.array([0.3, 1.9, 1.1])
    prior = NormalGamma(1.0, 2.0, 2.5, 4.0)
    moved = (len(y) / 2, -0.5 * (y**2).sum(), y.sum(), -len(y) / 2)
    posterior = shifted(prior, moved)
    mean, precision = np.meshgrid(np.linspace(-2, 4, 401), np.linspace(1e-3, 4, 401), indexing="ij")
    grid = np.stack([mean, precision], -1)
    likelihood = sum(stats.norm(mean, precision**-0.5).logpdf(v) for v in y)
    weights = np.exp(np.asarray(prior.log_prob(grid)) + likelihood)
    expected = (weights[..., None] * grid).sum((0, 1)) / weights.sum()
    np.testing.assert_allclose(posterior.mean, expected, rtol=2e-4)


def test_moments_that_do_not_exist():
    low, middle = NormalGamma(1.0, 2.0, 0.5, 4.0), NormalGamma(1.0, 2.0, 0.8, 4.0)
    np.testing.assert_array_equal(low.mean, [np.nan, 0.125])
    assert np.isnan(low.variance[0])
    np.testing.assert_array_equal(middle.variance, [np.inf, 0.05])
    assert np.isnan(NormalGamma(1.0, 2.0, 0.4, 4.0).mode).all()
    np.testing.assert_allclose(middle.mode, [1.0, 0.075], rtol=1e-12)
    few, some = NormalInverseWishart(LOC, 3.0, 2.0, SCALE), NormalInverseWishart(LOC, 3.0, 2.5, SCALE)
    assert np.isnan(few.mean).all()
    np.testing.assert_array_equal(some.mean[0], LOC)
    assert np.isnan(some.mean[1:]).all()
    np.testing.assert_array_equal(some.variance[0], np.inf)


def test_modes_are_stationary():
    prior, mode = NormalInverseWishart(LOC, 3.0, 5.0, SCALE), np.concatenate([LOC[None], SCALE / 9])
    np.testing.assert_allclose(prior.mode, mode, rtol=1e-14)
    slope = jax.jit(jax.grad(lambda c: prior.log_prob(jnp.concatenate([LOC[None], 0.5 * (c + c.T)]))))(
        SCALE / 9
    )
    np.testing.assert_allclose(slope, 0, atol=1e-11)
    pair = NormalGamma(1.0, 2.0, 2.5, 4.0)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: pair.log_prob(x)))(pair.mode), 0, atol=1e-12)


def test_maximum_likelihood_is_stationary():
    for prior in (NormalGamma(1.0, 2.0, 2.5, 4.0), NormalInverseWishart(LOC, 3.0, 6.0, SCALE)):
        rows = prior.sample(jr.key(1), (SIZE,))
        fit = eqx.filter_jit(maximum_likelihood)(prior, rows)
        slope = jax.jit(jax.grad(lambda d, rows=rows: d.log_prob(rows).mean()))(fit)
        assert all(np.abs(leaf).max() < 1e-8 for leaf in jax.tree.leaves(slope))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NormalGamma(0.0, 0.0, 1.0, 1.0), r"`precision_scale` must be positive and finite; got 0.0"),
        (lambda: NormalGamma(0.0, 1.0, -1.0, 1.0), r"`concentration` must be positive and finite; got -1.0"),
        (lambda: NormalGamma(np.nan, 1.0, 1.0, 1.0), r"`loc` must be finite; got nan"),
        (
            lambda: NormalInverseWishart(LOC, 3.0, 1.0, SCALE),
            r"`degrees` must be greater than d - 1 = 1, where d = 2",
        ),
        (
            lambda: NormalInverseWishart(LOC, 3.0, 5.0, np.eye(3)),
            r"`scale` must be 2 by 2, one row for each entry of",
        ),
        (lambda: NormalInverseWishart(LOC, 0.0, 5.0, SCALE), r"`mean_scale` must be positive"),
        (
            lambda: NormalInverseWishart(LOC, 3.0, 5.0, SCALE - 3),
            r"`scale` must be a symmetric positive definite",
        ),
        (
            lambda: NormalGamma(0.0, 1.0, 1.0, 1.0).log_prob(np.ones(3)),
            r"`x` must be an array whose last axes",
        ),
    ],
)
def test_bad_input_is_refused_by_name(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


@pytest.mark.parametrize(
    "prior",
    [NormalGamma(1.0, 2.0, 2.5, 4.0), NormalInverseWishart(LOC, 3.0, 5.0, SCALE)],
    ids=["pair", "matrix"],
)
def test_values_have_free_numbers(prior):
    """`unconstrain` goes there and back, and its log-determinant is that of the Jacobian (lower triangle)."""
    value = prior.sample(jr.key(3))
    free, rebuild = unconstrain({"theta": value}, supports={"theta": prior.support})
    np.testing.assert_allclose(rebuild(free)[0]["theta"], value, rtol=1e-12)

    def entries(u):
        theta = rebuild(u)[0]["theta"]
        return theta if theta.ndim == 1 else jnp.concatenate([theta[0], theta[1:][np.tril_indices(2)]])

    jacobian = np.asarray(jax.jacfwd(entries)(free))
    assert float(rebuild(free)[1]) == pytest.approx(np.linalg.slogdet(jacobian)[1], rel=1e-10)
    assert bool(prior.support.contains(rebuild(free + 0.3)[0]["theta"]))
