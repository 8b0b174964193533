"""The Kullback-Leibler divergence: worked numbers, methods and their errors, infinities, transformations."""

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest

from tractable.bijections.elementwise import Exp
from tractable.distributions.atoms import Empirical, Finite, PointMass
from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Cauchy, Normal, StudentT
from tractable.distributions.counts import Binomial, Geometric, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.divergence import (
    kl,
    kl_estimate,
    kl_probs,
    register_kl,
    reverse_kl,
    symmetrised_kl,
)
from tractable.distributions.expfam import expfam_kl
from tractable.distributions.gamma import Gamma, InverseGamma
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.information import cross_entropy, entropy
from tractable.distributions.kl_conjugate import dirichlet_kl, inverse_wishart_kl, normal_inverse_wishart_kl
from tractable.distributions.mixture import Mixture
from tractable.distributions.multinomial import Multinomial
from tractable.distributions.multivariate import Dirichlet, MultivariateStudentT
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.positive import HalfNormal
from tractable.distributions.transformed import Transformed
from tractable.distributions.waiting import Exponential, Weibull
from tractable.distributions.wishart import InverseWishart

COINS = np.array([0.5, 0.5]), np.array([2 / 3, 1 / 3])


def test_coins():
    """P = (1/2, 1/2), Q = (2/3, 1/3): .0588915, .0566330, symmetrised .0577623."""
    p, q = COINS
    np.testing.assert_allclose(kl(p, q), 0.0588915, atol=5e-8)
    np.testing.assert_allclose(reverse_kl(p, q), 0.0566330, atol=5e-8)
    np.testing.assert_allclose(symmetrised_kl(p, q), 0.0577623, atol=5e-8)
    np.testing.assert_allclose(kl(Bernoulli(0.5), Bernoulli(1 / 3)), kl(p, q), rtol=1e-13)


def test_three_states_against_uniform():
    """p = (.5, .25, .25) against uniform u: KL(p || u) = .0588915, KL(u || p) = .0566330."""
    p, u = np.array([0.5, 0.25, 0.25]), np.full(3, 1 / 3)
    np.testing.assert_allclose(kl_probs(p, u), 0.0588915, atol=5e-8)
    np.testing.assert_allclose(kl_probs(u, p), 0.0566330, atol=5e-8)


def test_cross_entropy_decomposes():
    """H(P, Q) = H(P) + KL(P || Q), for arrays and for distributions."""
    p, q = COINS
    np.testing.assert_allclose(cross_entropy(p, q), entropy(p) + kl(p, q), rtol=1e-13)
    a, b = Normal(0.3, 1.2), Normal(-0.1, 0.7)
    np.testing.assert_allclose(kl(a, b), cross_entropy(a, b) - a.entropy(), rtol=1e-12)


def test_gaussians():
    """N(0, I) against N((1, 0), 2I): .4431472; the diagonal form is a Normal of two coordinates."""
    p, q = Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.array([1.0, 0.0]), 2 * jnp.eye(2))
    np.testing.assert_allclose(kl(p, q), 0.4431472, atol=5e-8)
    diagonal = kl(Normal(jnp.zeros(2), 1.0), Normal(jnp.array([1.0, 0.0]), jnp.sqrt(2.0)))
    np.testing.assert_allclose(diagonal, kl(p, q), rtol=1e-13)


def test_nearly_equal_distributions_keep_their_digits():
    """At a relative change of 1e-6 the textbook form keeps four digits; mpmath says what is right."""
    mpmath.mp.dps = 40
    ratio = mpmath.mpf(1.000001)
    exact = float((ratio**2 - 1 - mpmath.log(ratio**2)) / 2)
    np.testing.assert_allclose(kl(Normal(0.0, 1.000001), Normal(0.0, 1.0)), exact, rtol=1e-9)
    p = Gaussian(jnp.zeros(3), 1.000001**2 * jnp.eye(3))
    np.testing.assert_allclose(kl(p, Gaussian(jnp.zeros(3), jnp.eye(3))), 3 * exact, rtol=1e-9)
    tiny = mpmath.mpf(1e-6) ** 2
    far = float((tiny - 1 - mpmath.log(tiny)) / 2)
    np.testing.assert_allclose(kl(Normal(0.0, 1e-6), Normal(0.0, 1.0)), far, rtol=1e-14)
    a, b = mpmath.mpf(0.3), mpmath.mpf(0.3000003)
    coin = float(a * mpmath.log(a / b) + (1 - a) * mpmath.log((1 - a) / (1 - b)))
    np.testing.assert_allclose(kl(Bernoulli(0.3), Bernoulli(0.3000003)), coin, rtol=1e-8)


def test_conjugate_priors_on_the_host_are_the_bregman_form_of_each_unit():
    """Arrays of NumPy: one number per unit, the same as the Bregman divergence of the log-normaliser."""
    numbers = np.random.default_rng(0)
    roots = numbers.normal(size=(3, 4, 4))
    scales, degrees = roots @ roots.swapaxes(1, 2) + np.eye(4), np.array([4.5, 6.0, 60.0])
    prior = InverseWishart(np.array(5.0), np.eye(4))
    found = inverse_wishart_kl(InverseWishart(degrees, scales), prior)
    assert type(found) is np.ndarray
    exact = [expfam_kl(InverseWishart(*pair), prior) for pair in zip(degrees, scales)]
    np.testing.assert_allclose(found, exact, rtol=1e-10)
    shares, weights = np.array([[0.3, 2.0, 5.0], [1.0, 1.0, 0.1]]), np.array([1.0, 0.5, 2.0])
    exact = [expfam_kl(Dirichlet(row), Dirichlet(weights)) for row in shares]
    np.testing.assert_allclose(dirichlet_kl(Dirichlet(shares), Dirichlet(weights)), exact, rtol=1e-10)
    means = numbers.normal(size=(3, 4))
    wide = NormalInverseWishart(np.zeros(4), np.array(0.5), np.array(5.0), np.eye(4))
    posterior = NormalInverseWishart(means, np.array([1.0, 0.5, 9.0]), degrees, scales)
    exact = kl(jax.tree.map(jnp.asarray, posterior), jax.tree.map(jnp.asarray, wide))
    np.testing.assert_allclose(normal_inverse_wishart_kl(posterior, wide).sum(), exact, rtol=1e-12)
    near = InverseWishart(np.array(5.0), np.eye(4) * (1 + 1e-9))
    assert float(inverse_wishart_kl(near, prior)) == pytest.approx(2.5 * 4 * 0.5e-18, rel=1e-6)


def test_certain_outcomes_and_deep_tails():
    """Probabilities 0 and 1 obey 0 log 0 = 0; e^-800 is a number like any other."""
    np.testing.assert_allclose(kl(Bernoulli(1.0), Bernoulli(0.25)), np.log(4.0), rtol=1e-13)
    assert np.isinf(kl(Bernoulli(0.25), Bernoulli(1.0)))
    np.testing.assert_allclose(kl(Bernoulli(0.5), Bernoulli(logits=-800.0)), 400 - np.log(2.0), rtol=1e-13)
    np.testing.assert_allclose(kl(Poisson(0.0), Poisson(2.0)), 2.0, rtol=1e-14)
    assert np.isinf(kl(Poisson(2.0), Poisson(0.0)))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])),
        (Uniform(0.0, 2.0), Uniform(0.0, 1.0)),
        (Normal(1000.0, 1.0), HalfNormal(1.0)),  # the mass below zero underflows, and still is not nothing
        (Normal(0.0, 1.0), Poisson(1.0)),
        (Categorical(np.array([0.2, 0.3, 0.5])), Categorical(np.array([0.5, 0.5]))),
        (Binomial(5, 0.5), Binomial(3, 0.5)),
        (Multinomial(5, np.array([0.5, 0.5])), Multinomial(4, np.array([0.5, 0.5]))),
        (PointMass(1.0), Normal(0.0, 1.0)),
        (PointMass(1.0), PointMass(2.0)),
        (Poisson(1.0), PointMass(1.0)),
        (Cauchy(0.0, 1.0), Normal(0.0, 1.0)),  # the tail of x^2 against a Cauchy diverges
        (Exponential(1.0), InverseGamma(2.0, 1.0)),  # so does 1/x against a density that is positive at zero
        (Gaussian(jnp.zeros(2), jnp.diag(jnp.array([1.0, 0.0]))), Gaussian(jnp.zeros(2), jnp.eye(2))),
    ],
    ids=str,
)
def test_infinite_where_q_excludes_what_p_allows(p, q):
    assert np.isposinf(kl(p, q))


def test_point_masses_and_data():
    np.testing.assert_allclose(kl(PointMass(2.0), Poisson(3.0)), -Poisson(3.0).log_prob(2.0), rtol=1e-13)
    assert float(kl(PointMass(2.0), PointMass(2.0))) == 0.0
    data = Empirical(np.array([1.0, 2.0, 2.0, 5.0]))
    expected = -np.asarray(Poisson(3.0).log_prob(np.array([1.0, 2.0, 2.0, 5.0]))).mean() - 1.5 * np.log(2.0)
    np.testing.assert_allclose(kl(data, Poisson(3.0)), expected, rtol=1e-12)
    p, q = Finite(np.array([0.5, 2.0]), COINS[0]), Finite(np.array([0.5, 2.0]), COINS[1])
    np.testing.assert_allclose(kl(p, q), kl_probs(*COINS), rtol=1e-13)


def test_sums_reach_far_into_the_range():
    """Means of 3, 3000 and a half-infinite range; different totals have no closed form and are summed."""
    np.testing.assert_allclose(
        kl(Poisson(3000.0), Poisson(3010.0)), kl(Poisson(3000.0), Poisson(3010.0), "sum"), rtol=1e-11
    )
    k = np.arange(200)
    log_p, log_q = np.asarray(Poisson(3.0).log_prob(k)), np.asarray(Geometric(0.3).log_prob(k))
    estimate = kl_estimate(Poisson(3.0), Geometric(0.3))
    np.testing.assert_allclose(estimate.value, (np.exp(log_p) * (log_p - log_q)).sum(), rtol=1e-12)
    assert estimate.method == "sum"
    assert float(estimate.standard_error) < 1e-14
    few = kl_estimate(Binomial(3, 0.5), Binomial(5, 0.5))
    assert few.method == "sum"
    np.testing.assert_allclose(few.value, _binomials(3, 5), rtol=1e-12)


def _binomials(n, m):
    from scipy.stats import binom

    k = np.arange(n + 1)
    return (binom(n, 0.5).pmf(k) * (binom(n, 0.5).logpmf(k) - binom(m, 0.5).logpmf(k))).sum()


def test_quadrature_where_there_is_no_closed_form():
    """Against mpmath: Student's t and a normal; a mixture of narrow, distant modes and a normal."""
    mpmath.mp.dps = 20

    def integral(log_p, log_q, cuts):
        return float(mpmath.quad(lambda x: mpmath.exp(log_p(x)) * (log_p(x) - log_q(x)), cuts))

    def normal(x, m, s):
        return -((x - m) ** 2) / (2 * s**2) - mpmath.log(s) - mpmath.log(2 * mpmath.pi) / 2

    c = mpmath.loggamma(3) - mpmath.loggamma(2.5) - mpmath.log(5 * mpmath.pi) / 2
    student = integral(
        lambda x: c - 3 * mpmath.log1p(x**2 / 5),
        lambda x: normal(x, 0.5, 2),
        [-mpmath.inf, -10, 0, 10, mpmath.inf],
    )
    estimate = kl_estimate(StudentT(5.0), Normal(0.5, 2.0))
    np.testing.assert_allclose(estimate.value, student, rtol=1e-10)
    assert estimate.method == "quadrature"
    two = Mixture(np.array([0.25, 0.75]), Normal(np.array([-40.0, 3.0]), np.array([0.01, 0.5])))

    def both(x):
        return mpmath.log(mpmath.exp(normal(x, -40, 0.01)) / 4 + 3 * mpmath.exp(normal(x, 3, 0.5)) / 4)

    exact = integral(both, lambda x: normal(x, 0, 20), [-40.2, -40.05, -40, -39.95, -39.8])
    exact += integral(both, lambda x: normal(x, 0, 20), [-3, 0, 3, 6, 9])
    np.testing.assert_allclose(kl(two, Normal(0.0, 20.0)), exact, rtol=1e-9)


def test_an_integral_that_is_not_certain_is_not_a_number():
    """E[x^2] under t(2.05) converges too slowly for eight digits: `kl` says NaN, the estimate says how far it
    came.
    """
    estimate = kl_estimate(StudentT(2.05), Normal(0.0, 1.0))
    assert not bool(estimate.certified)
    assert float(estimate.standard_error) > 1e-6
    assert np.isnan(kl(StudentT(2.05), Normal(0.0, 1.0)))


def test_draws_for_vectors_without_a_closed_form():
    p, q = MultivariateStudentT(5.0, jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.zeros(2), jnp.eye(2))
    estimate = kl_estimate(p, q, key=jr.key(0))
    assert estimate.method == "monte_carlo"
    assert not bool(estimate.certified)
    # E[log p] - E[log q] with E|x|^2 = 10/3 and the entropy of the multivariate t
    exact = float(-p.entropy() + jnp.log(2 * jnp.pi) + 5 / 3)
    assert abs(float(estimate.value) - exact) < 5 * float(estimate.standard_error)
    with pytest.raises(
        ValueError, match=r"`key` must be given; got None\. MultivariateStudentT and Gaussian have no"
    ):
        kl(p, q)


def test_members_of_a_family_with_other_fixed_parameters_are_integrated():
    """Weibull densities of different concentrations are not one exponential family."""

    class Own(Weibull):
        """A subclass has no rule of its own."""

    p, q = Own(2.5, 1.3), Own(1.2, 0.7)
    assert kl_estimate(p, q).method == "quadrature"
    np.testing.assert_allclose(kl(p, q), kl(Weibull(2.5, 1.3), Weibull(1.2, 0.7)), rtol=1e-8)
    assert kl_estimate(p, Own(2.5, 0.7)).method == "closed_form"
    np.testing.assert_allclose(kl(p, Own(2.5, 0.7)), kl(Weibull(2.5, 1.3), Weibull(2.5, 0.7)), rtol=1e-10)


def test_a_bijection_changes_nothing():
    p, q = Normal(jnp.array([0.1, 0.4]), 0.5), Normal(jnp.zeros(2), 0.9)
    np.testing.assert_allclose(kl(Transformed(p, Exp()), Transformed(q, Exp())), kl(p, q), rtol=1e-13)


def test_rows_of_probabilities_and_batches():
    p, q = np.array([[0.5, 0.5], [0.1, 0.9]]), COINS[1]
    rows = np.array([kl_probs(row, q) for row in p])
    np.testing.assert_allclose(kl_probs(p, q), rows, rtol=1e-14)
    scales = jnp.array([0.5, 1.0, 2.0])
    batch = jax.jit(jax.vmap(lambda s: kl(Normal(0.0, s), Normal(0.0, 1.0))))(scales)
    np.testing.assert_allclose(
        batch, [kl(Normal(0.0, s), Normal(0.0, 1.0)) for s in (0.5, 1.0, 2.0)], rtol=1e-14
    )
    single = kl(Normal(jnp.zeros((2, 3)), 1.0), Normal(1.0, 2.0))
    np.testing.assert_allclose(single, 6 * kl(Normal(0.0, 1.0), Normal(1.0, 2.0)), rtol=1e-13)


def test_gradients_of_quadrature_match_the_closed_form():
    """Inside jit, with an end of the support that moves with a parameter (Leibniz' rule)."""

    @jax.jit
    def both(scale):
        p = Normal(0.3, scale)
        return kl(p, Normal(0.0, 1.0), "quadrature"), kl(p, Normal(0.0, 1.0))

    numeric, exact = jax.jacfwd(both)(0.7)
    np.testing.assert_allclose(numeric, exact, rtol=1e-10)
    moving = jax.grad(lambda high: kl(Uniform(0.0, high), Exponential(1.0)))(2.0)
    np.testing.assert_allclose(moving, -1 / 2 + 1 / 2, atol=1e-10)  # KL = -log h + h/2


def test_float32_stays_float32():
    p, q = Normal(jnp.float32(0.0), jnp.float32(1.0)), Normal(jnp.float32(1.0), jnp.float32(2.0))
    for method in ("closed_form", "quadrature"):
        value = kl(p, q, method)
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, 0.4431472, rtol=2e-6)


def test_a_rule_of_ones_own_joins_the_registry():
    class Certain(PointMass):
        """A class that the registry has not seen."""

    @register_kl(Certain, Certain)
    def certain_kl(p, q):
        return jnp.where(p.value == q.value, 0.0, 7.0)

    estimate = kl_estimate(Certain(1.0), Certain(2.0))
    assert (estimate.method, float(estimate.value)) == ("closed_form", 7.0)
    with pytest.raises(TypeError, match="`second` must be a class of distributions"):
        register_kl(Certain, float)  # pyright: ignore


def test_the_estimate_says_how_it_was_computed():
    assert repr(kl_estimate(Normal(0.0, 1.0), Normal(1.0, 2.0))) == "0.443147181 ± 0.0e+00 (closed_form)"


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match="`p` must be probabilities that are zero or positive and sum to 1"):
        kl_probs(np.array([0.5, 0.6]), COINS[1])
    with pytest.raises(ValueError, match="`q` must be probabilities of 2 states, like `p`; got 3 states"):
        kl_probs(COINS[0], np.full(3, 1 / 3))
    with pytest.raises(TypeError, match="`q` must be a distribution; got ndarray"):
        kl(Normal(0.0, 1.0), COINS[0])
    with pytest.raises(ValueError, match="`method` must be"):
        kl(Normal(0.0, 1.0), Normal(0.0, 1.0), "guess")
    with pytest.raises(ValueError, match="`method` must be quadrature for Normal; got sum"):
        kl(Normal(0.0, 1.0), Normal(0.0, 1.0), "sum")
    with pytest.raises(ValueError, match="`method` must be another for StudentT and Normal; got closed_form"):
        kl(StudentT(3.0), Normal(0.0, 1.0), "closed_form")
    with pytest.raises(
        ValueError, match=r"`q` must be of a shape that broadcasts with that of `p`, \(2,\); got \(3,\)"
    ):
        kl(Normal(jnp.zeros(2), 1.0), Normal(jnp.zeros(3), 1.0))
    with pytest.raises(ValueError, match="`q` must be over draws of unit shape"):
        kl(Gamma(1.0, 1.0), Gaussian(jnp.zeros(2), jnp.eye(2)))
