"""f-divergences: worked numbers, conjugates, the variational bound, and the study of separated supports."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from tractable.distributions.atoms import PointMass
from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Geometric, Poisson
from tractable.distributions.divergence import kl, kl_probs
from tractable.distributions.f_divergence import (
    f_divergence,
    f_divergence_estimate,
    jensen_shannon,
    l1_distance,
    optimal_critic,
    pinsker_gap,
    total_variation,
    variational_bound,
)
from tractable.distributions.f_generators import GENERATORS, alpha_generator, check_generator, generator_of
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.renyi import hellinger, renyi
from tractable.distributions.transport import wasserstein

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
NAMED = [*GENERATORS.values(), alpha_generator(0.3), alpha_generator(2.5), alpha_generator(-0.7)]


def simplex(size):
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: np.array(w, float) / sum(w))


def test_worked_numbers():
    """p = (.5, .3, .2), q = (.2, .3, .5): TV .3 (half the L1 distance), JS .0664143144; coins: L1 = 1/3."""
    np.testing.assert_allclose(total_variation(P, Q), 0.3, rtol=1e-14)
    np.testing.assert_allclose(l1_distance(P, Q), 0.6, rtol=1e-14)
    np.testing.assert_allclose(jensen_shannon(P, Q), 0.0664143144, atol=5e-11)
    coins = np.array([0.5, 0.5]), np.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(l1_distance(*coins), 1 / 3, rtol=1e-13)
    assert float(pinsker_gap(*coins)) > 0


@pytest.mark.parametrize("generator", NAMED, ids=lambda g: g.name)
def test_definition_on_states(generator):
    """sum q f(p / q), with f in its defining form."""
    expected = (Q * np.asarray(generator.function(jnp.asarray(P / Q)))).sum()
    np.testing.assert_allclose(f_divergence(P, Q, generator), expected, rtol=1e-12)


@pytest.mark.parametrize("generator", NAMED, ids=lambda g: g.name)
def test_generators_are_convex_with_right_derivatives_and_limits(generator):
    check_generator(generator.function)
    t = jnp.array([0.2, 0.9, 1.7, 6.0])
    slope = jax.vmap(jax.grad(generator.function))(t)
    np.testing.assert_allclose(generator.derivative(t), slope, rtol=1e-10, atol=1e-12)
    only_p, only_q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    expected = generator.at_zero + generator.at_infinity
    np.testing.assert_allclose(f_divergence(only_p, only_q, generator), expected, rtol=1e-12)


@pytest.mark.parametrize("generator", NAMED, ids=lambda g: g.name)
def test_conjugate_is_the_supremum(generator):
    """f*(u) = sup_t ut - f(t) by numerical search, and equality in Fenchel's inequality at u = f'(t)."""
    t = jnp.array([0.3, 0.8, 2.0, 5.0])
    u = generator.derivative(t)
    np.testing.assert_allclose(generator.conjugate(u), t * u - generator.function(t), rtol=1e-9, atol=1e-11)
    value = jax.jit(generator.function)
    for v in np.asarray(u)[1:3]:
        found = minimize_scalar(
            lambda s, v=v: float(value(np.exp(s))) - v * np.exp(s), bounds=(-6, 4), method="bounded"
        )
        np.testing.assert_allclose(float(generator.conjugate(jnp.asarray(v))), -found.fun, atol=1e-8)


@given(simplex(4), simplex(4), st.sampled_from(sorted(GENERATORS)))
def test_not_negative_and_zero_for_equals(p, q, name):
    assert float(f_divergence(p, q, name)) >= -1e-15
    assert abs(float(f_divergence(p, p, name))) < 1e-15


@given(simplex(4), simplex(4))
def test_bounds_between_divergences(p, q):
    """Pinsker; JS <= log 2; H^2 <= TV <= H sqrt(2 - H^2); KL <= log(1 + chi^2)."""
    tv, h, js = (float(f(p, q)) for f in (total_variation, hellinger, jensen_shannon))
    assert float(pinsker_gap(p, q)) >= -1e-14
    assert -1e-15 <= js <= np.log(2) + 1e-14
    assert h**2 <= tv + 1e-14
    assert tv <= h * np.sqrt(2 - h**2) + 1e-12
    assert float(kl_probs(p, q)) <= np.log1p(float(f_divergence(p, q, "chi_square"))) + 1e-12


@given(simplex(4), simplex(4))
def test_jensen_shannon_is_the_mean_divergence_to_the_middle(p, q):
    m = (p + q) / 2
    np.testing.assert_allclose(jensen_shannon(p, q), (kl_probs(p, m) + kl_probs(q, m)) / 2, atol=1e-14)
    np.testing.assert_allclose(jensen_shannon(p, q), jensen_shannon(q, p), atol=1e-15)


def test_normals_by_quadrature():
    """TV of N(0, 1) and N(1, 1) is 2 Phi(1/2) - 1; unequal scales against SciPy, with kinks where densities
    cross.
    """
    np.testing.assert_allclose(
        total_variation(Normal(0.0, 1.0), Normal(1.0, 1.0)), 2 * norm.cdf(0.5) - 1, rtol=1e-12
    )
    p, q = norm(0.0, 1.0), norm(1.0, 2.0)
    gap = [
        quad(lambda x: abs(p.pdf(x) - q.pdf(x)) / 2, a, a + 2, epsabs=1e-13, limit=200)[0]
        for a in range(-20, 20, 2)
    ]
    ours = f_divergence_estimate(Normal(0.0, 1.0), Normal(1.0, 2.0), "total_variation")
    np.testing.assert_allclose(ours.value, sum(gap), rtol=1e-9)
    assert bool(ours.certified)
    exact = hellinger(Normal(0.0, 1.0), Normal(1.0, 2.0)) ** 2
    np.testing.assert_allclose(
        f_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0), "squared_hellinger"), exact, rtol=1e-11
    )
    np.testing.assert_allclose(
        f_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0), "kl"),
        kl(Normal(0.0, 1.0), Normal(1.0, 2.0)),
        rtol=1e-11,
    )
    np.testing.assert_allclose(
        f_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0), "chi_square"),
        jnp.expm1(renyi(Normal(0.0, 1.0), Normal(1.0, 2.0), 2.0)),
        rtol=1e-11,
    )
    assert np.isinf(f_divergence(Normal(0.0, 2.0), Normal(0.0, 1.0), "chi_square"))  # s1^2 >= 2 s2^2


def test_uniforms_overlap():
    """U(0, 2) and U(1, 3): TV 1/2, JS (log 2)/2, KL infinite."""
    p, q = Uniform(0.0, 2.0), Uniform(1.0, 3.0)
    np.testing.assert_allclose(total_variation(p, q), 0.5, rtol=1e-9)
    np.testing.assert_allclose(jensen_shannon(p, q), np.log(2) / 2, rtol=1e-9)
    assert np.isinf(f_divergence(p, q, "kl"))


def test_counts_by_summation():
    k = np.arange(300)
    p, q = np.exp(np.asarray(Poisson(3.0).log_prob(k))), np.exp(np.asarray(Geometric(0.3).log_prob(k)))
    np.testing.assert_allclose(
        total_variation(Poisson(3.0), Geometric(0.3)), np.abs(p - q).sum() / 2, rtol=1e-12
    )


def test_draws_for_vectors():
    """TV of N(0, I) and N(d, I) is 2 Phi(|d|/2) - 1 in any dimension; every term is bounded by one."""
    p, q = Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.array([0.6, 0.8]), jnp.eye(2))
    estimate = f_divergence_estimate(p, q, "total_variation", key=jr.key(0))
    assert estimate.method == "monte_carlo"
    assert abs(float(estimate.value) - (2 * norm.cdf(0.5) - 1)) < 5 * float(estimate.standard_error)
    js = f_divergence_estimate(p, q, "jensen_shannon", key=jr.key(1))
    line = float(jensen_shannon(Normal(0.0, 1.0), Normal(1.0, 1.0)))
    assert abs(float(js.value) - line) < 5 * float(js.standard_error)
    with pytest.raises(ValueError, match=r"`key` must be given for distributions of shape \(2,\)"):
        total_variation(p, q)


@pytest.mark.parametrize("generator", NAMED, ids=lambda g: g.name)
def test_variational_bound_is_tight_at_the_optimal_critic(generator):
    best = generator.derivative(jnp.asarray(P / Q))

    def bound(critic):
        return variational_bound(critic, critic, generator, p_weights=P, q_weights=Q)

    value = float(f_divergence(P, Q, generator))
    np.testing.assert_allclose(bound(best), value, rtol=1e-12)
    worse = [float(bound(best + 0.05 * np.array(d))) for d in ((1, 0, 0), (0, -1, 1), (-1, 0.5, 0))]
    assert all(w <= value + 1e-14 for w in worse)


def test_variational_bound_from_samples():
    """With the optimal critic the sample bound estimates the divergence of two normals without bias."""
    p, q = Normal(0.0, 1.0), Normal(1.0, 1.0)
    critic = optimal_critic(p, q, "kl")
    key_p, key_q = jr.split(jr.key(2))
    at_p, at_q = critic(p.sample(key_p, (20_000,))), critic(q.sample(key_q, (20_000,)))
    bound = float(variational_bound(at_p, at_q, "kl"))
    spread = np.sqrt(np.var(at_p) / 20_000 + np.var(np.exp(at_q - 1)) / 20_000)
    assert abs(bound - float(kl(p, q))) < 5 * spread


def test_functions_of_ones_own():
    """A plain convex function gives the named divergence: values, limits and conjugate found numerically."""
    own = generator_of(lambda t: (t - 1) ** 2)
    np.testing.assert_allclose(f_divergence(P, Q, own), f_divergence(P, Q, "chi_square"), rtol=1e-12)
    assert np.isinf(f_divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0]), own))
    half = np.array([1.0, 0.0])
    np.testing.assert_allclose(f_divergence(half, np.array([0.5, 0.5]), own), 1.0, rtol=1e-12)
    u = jnp.array([-1.5, 0.3, 2.0, -5.0])
    np.testing.assert_allclose(own.conjugate(u), GENERATORS["chi_square"].conjugate(u), atol=1e-9)
    mixed = f_divergence(P, Q, lambda t: t * jnp.log(t) + 0.5 * jnp.abs(t - 1))
    np.testing.assert_allclose(mixed, kl_probs(P, Q) + total_variation(P, Q), rtol=1e-12)


def test_functions_that_are_not_divergences_are_refused():
    with pytest.raises(ValueError, match="`f` must be convex on t > 0; got a dent near t ="):
        f_divergence(P, Q, lambda t: jnp.sqrt(t) - 1)
    with pytest.raises(ValueError, match=r"`f` must be zero at t = 1; got 1\.0\. Subtract f"):
        f_divergence(P, Q, lambda t: t**2)
    with pytest.raises(ValueError, match="`f` must be one of kl, reverse_kl"):
        f_divergence(P, Q, "wasserstein")


def test_separated_supports():
    """Parallel lines at distance theta: KL infinite both ways, JS log 2 without a slope, W1 = |theta| with
    one.
    """
    theta = 0.3
    near, far = PointMass(0.0), PointMass(theta)
    assert np.isinf(kl(near, far))
    assert np.isinf(kl(far, near))
    np.testing.assert_allclose(jensen_shannon(near, far), np.log(2), rtol=1e-14)
    np.testing.assert_allclose(total_variation(near, far), 1.0, rtol=1e-14)
    assert float(jax.grad(lambda t: jensen_shannon(near, PointMass(t)))(theta)) == 0.0
    np.testing.assert_allclose(wasserstein(near, far), theta, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda t: wasserstein(near, PointMass(t)))(theta), 1.0, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda t: wasserstein(near, PointMass(t)))(-theta), -1.0, rtol=1e-14)
    assert float(jensen_shannon(near, PointMass(0.0))) == 0.0
    # Two narrow densities saturate as well: the slope of JS is zero to rounding, that of W1 is one.
    slope = jax.grad(lambda t: jensen_shannon(Normal(0.0, 0.01), Normal(t, 0.01)))(theta)
    assert abs(float(slope)) < 1e-12
