"""Variational families: densities against SciPy and change of variables, draws against moments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.bijections.support import unconstrain
from tractable.inference.variational.families import (
    FAMILIES,
    Flow,
    FullRank,
    LowRank,
    MeanField,
    Structured,
    make_family,
)
from tractable.inference.variational.surrogates import check_gradient, surrogate

LOC = np.array([0.5, -1.0, 2.0])
LOWER = np.array([[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 0.6]])
POINT = np.array([0.1, 0.4, 1.5])
GAUSSIANS = {
    "mean_field": MeanField(LOC, [0.5, 1.5, 0.7]),
    "full_rank": FullRank(LOC, LOWER),
    "low_rank": LowRank(LOC, [0.5, 0.4, 0.7], [[1.0, 0.2], [-0.3, 0.6], [0.1, 0.9]]),
    "structured": Structured(
        FullRank(LOC[:2], LOWER[:2, :2]), LOC[2:], [[0.7, -0.4]], [0.3], (True, True, False)
    ),
}


@jax.jit
def described(family, point, noise):
    x, log_prob = family.forward_and_log_prob(noise)
    slopes = jax.jacfwd(family.forward)(noise)
    return family.mean, family.cov, family.log_prob(point), family.entropy(), x, log_prob, slopes


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussian_members_have_the_density_and_entropy_of_their_covariance(name):
    family = GAUSSIANS[name]
    noise = np.random.default_rng(0).normal(size=family.noise_dim)
    answers = described(family, jnp.asarray(POINT), jnp.asarray(noise))
    mean, cov, at_point, entropy, x, log_prob, slopes = (np.asarray(a) for a in answers)
    np.testing.assert_allclose(cov, slopes @ slopes.T, atol=1e-12)  # what the map makes of noise
    peer = stats.multivariate_normal(mean, cov)
    np.testing.assert_allclose([at_point, entropy], [peer.logpdf(POINT), peer.entropy()], rtol=1e-11)
    np.testing.assert_allclose(log_prob, peer.logpdf(x), rtol=1e-10)
    if name == "structured":
        np.testing.assert_allclose(cov[2, :2], np.array([0.7, -0.4]) @ cov[:2, :2], rtol=1e-12)


@pytest.mark.parametrize("name", ["coupling", "spline", "autoregressive"])
def test_flows_are_densities_by_change_of_variables(name):
    family = make_family(name, LOC, scale=0.7, layers=1, key=jr.key(1))

    # away from the identity, where mistakes would hide
    def bend(a):
        return a + 0.3 * np.sin(np.arange(a.size)).reshape(a.shape)

    moved = jax.tree.map(bend, family.bijection)
    family = eqx.tree_at(lambda f: f.bijection, family, moved)
    noise = jnp.array([0.3, -0.8, 0.5])

    @eqx.filter_jit
    def everything(family, noise):
        x, log_prob = family.forward_and_log_prob(noise)
        volume = jnp.linalg.slogdet(jax.jacfwd(family.forward)(noise))[1]
        return log_prob, volume, family.log_prob(x), family.distribution.log_prob(x)

    log_prob, volume, again, distribution = (float(v) for v in everything(family, noise))
    base = float(stats.norm.logpdf(np.asarray(noise)).sum())
    np.testing.assert_allclose(log_prob, base - volume, rtol=1e-8)
    np.testing.assert_allclose([again, distribution], log_prob, rtol=1e-8)
    assert family.has_cheap_density == (name != "autoregressive")


@pytest.mark.parametrize("name", FAMILIES[:3])
def test_named_families_start_around_the_given_place(name):
    family = make_family(name, LOC, scale=0.2, key=jr.key(0))
    np.testing.assert_allclose(np.asarray(family.mean), LOC)
    np.testing.assert_allclose(np.diagonal(family.cov), 0.04, rtol=0.2)
    free, rebuild = unconstrain(family)
    again = rebuild(free)[0]
    np.testing.assert_allclose(np.asarray(again.cov), np.asarray(family.cov), rtol=1e-12)
    draws, log_probs = family.sample_and_log_prob(jr.key(2), 4000)
    z = (np.asarray(draws).mean(0) - LOC) / np.sqrt(np.diagonal(family.cov) / 4000)
    assert np.abs(z).max() < 5
    error = np.asarray(log_probs).std() / np.sqrt(4000)
    assert abs(-np.asarray(log_probs).mean() - float(family.entropy())) < 5 * error


PRECISION = np.linalg.inv(np.array([[1.0, 0.5, 0.0], [0.5, 2.0, -0.3], [0.0, -0.3, 0.7]]))


def target(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x


def exact_elbo(free, rebuild):
    family = rebuild(free)[0]
    spread = jnp.trace(jnp.asarray(PRECISION) @ family.cov)
    return -0.5 * (family.mean @ jnp.asarray(PRECISION) @ family.mean + spread) + family.entropy()


@pytest.mark.parametrize("gradient", ["sticking", "pathwise", "entropy", "score"])
def test_every_gradient_of_the_bound_is_unbiased(gradient):
    free, rebuild = unconstrain(GAUSSIANS["full_rank"])
    noise = jr.normal(jr.key(5), (3000, 4, 3))

    @jax.jit
    def slopes(free, noise):
        def handle(free, z):
            return surrogate(target, rebuild(free)[0], z, gradient=gradient)

        return jax.vmap(jax.grad(handle, has_aux=True), (None, 0))(free, noise)

    gradients, bounds = (np.asarray(a) for a in slopes(free, noise))
    truth = np.asarray(jax.grad(exact_elbo)(free, rebuild))
    z = (gradients.mean(0) - truth) / (gradients.std(0) / np.sqrt(3000))
    assert np.abs(z).max() < 5
    bound_z = (bounds.mean() - float(exact_elbo(free, rebuild))) / (bounds.std() / np.sqrt(3000))
    assert abs(bound_z) < 5


def test_sticking_has_no_variance_at_the_posterior():
    exact = FullRank(np.zeros(3), np.linalg.cholesky(np.linalg.inv(PRECISION)))
    free, rebuild = unconstrain(exact)
    noise = jr.normal(jr.key(6), (2, 3))

    @jax.jit
    def slopes(free):
        def slope(**options):
            return jax.grad(lambda f: surrogate(target, rebuild(f)[0], noise, **options)[0])(free)

        return [slope(alpha=alpha) for alpha in (1.0, 0.5, 0.0)], slope(gradient="pathwise")

    held, through = slopes(free)
    np.testing.assert_allclose(np.asarray(held), 0.0, atol=1e-12)
    assert np.abs(np.asarray(through)).max() > 1e-3


def test_doubly_reparameterised_gradient_has_the_mean_of_the_plain_one():
    alpha = 0.3
    near = FullRank(np.array([0.2, 0.0, -0.1]), 0.95 * np.linalg.cholesky(np.linalg.inv(PRECISION)))
    free, rebuild = unconstrain(near)
    noise = jr.normal(jr.key(7), (6000, 4, 3))

    @jax.jit
    def both(free, noise):
        def slope(gradient):
            def handle(free, z):
                return surrogate(target, rebuild(free)[0], z, gradient=gradient, alpha=alpha)[0]

            return jax.vmap(jax.grad(handle), (None, 0))(free, noise)

        return slope("sticking"), slope("pathwise")

    double, plain = (np.asarray(a) for a in both(free, noise))
    gap = double - plain
    assert np.abs(gap.mean(0) / (gap.std(0) / np.sqrt(6000))).max() < 5
    assert double.var(0).sum() < plain.var(0).sum()


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`family` must be one of 'mean_field', 'full_rank'"):
        make_family("diagonal", LOC)
    with pytest.raises(ValueError, match='`dim` must be at least 2 for the family "coupling"'):
        make_family("coupling", [0.0], key=jr.key(0))
    with pytest.raises(ValueError, match="`is_global` must be true for some entries, not for all"):
        Structured.around(LOC, [True, True, True])
    with pytest.raises(ValueError, match="`rank` must be a whole number from 1 to 3"):
        make_family("low_rank", LOC, rank=4, key=jr.key(0))
    with pytest.raises(ValueError, match="`num_draws` must be at least 2 for the leave-one-out"):
        check_gradient("score", GAUSSIANS["full_rank"], 1, 1.0)
    with pytest.raises(ValueError, match=r'`alpha` must be 1 \(the ELBO\) with gradient="score"'):
        check_gradient("score", GAUSSIANS["full_rank"], 4, 0.5)
    flow = make_family("coupling", LOC, layers=1, key=jr.key(0))
    assert isinstance(flow, Flow)
    with pytest.raises(ValueError, match="`gradient` must be one without a closed-form entropy for a flow"):
        check_gradient("entropy", flow, 4, 1.0)
