"""Extremes: huge parameters, far tails in single precision, counts past the integers, slopes at the centre.

Each was once wrong, endless or silent; the oracles have fifty digits.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath as mp
import numpy as np
import pytest

from tractable.distributions import samplers
from tractable.distributions.bounded import Beta, TruncatedNormal, VonMises
from tractable.distributions.continuous import Cauchy, Laplace, Normal, StudentT
from tractable.distributions.counts import BetaBinomial, Binomial, NegativeBinomial, Poisson
from tractable.distributions.discrete import DiscreteUniform
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture
from tractable.distributions.multinomial import DirichletMultinomial, Multinomial
from tractable.distributions.normal_mixture import NormalMixture
from tractable.distributions.positive import Gamma, HalfCauchy, HalfNormal
from tractable.distributions.special import log_ndtr, log_ndtri
from tractable.distributions.truncated import Truncated

DIGITS = mp.mp.dps = 50


def assert_near(found, expected, rtol, atol=0.0):
    for ours, exact in zip(np.ravel(np.asarray(found)), expected, strict=True):
        assert abs(mp.mpf(float(ours)) - exact) <= rtol * abs(exact) + atol, (
            f"{ours} for {mp.nstr(exact, 20)}"
        )


def log_normal_tail(z):
    return mp.log(mp.erfc(mp.mpf(float(z)) / mp.sqrt(2)) / 2)


def student_survival(nu, x):
    nu = mp.mpf(nu)
    front = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - mp.log(nu * mp.pi) / 2
    steps = [x + mp.mpf(k) / 4 for k in range(80)]
    return mp.exp(front) * mp.quad(lambda t: mp.exp(-(nu + 1) / 2 * mp.log1p(t * t / nu)), steps)


@pytest.mark.thorough
def test_student_survival_beyond_a_million_degrees():
    x = np.array([1e-3, 1.0, 3.0, 10.0])
    for nu in (1e7, 1e12, 1e18):
        assert_near(StudentT(nu).survival(x), [student_survival(nu, mp.mpf(v)) for v in x], 1e-12)


def test_beta_survival_beside_a_huge_parameter():
    x = np.array([2e-17, 5e-17, 8e-17, 2e-16])
    tails = [mp.gammainc(50, mp.mpf(v) * 10**18, mp.inf, regularized=True) for v in x]  # its limit, to 1e-15
    assert_near(Beta(50.0, 1e18).survival(x), tails, 1e-12)
    shares = [1 - tail for tail in tails]
    assert_near(Beta(50.0, 1e18).cdf(x), shares, 1e-12)
    assert_near(Beta(50.0, 1e200).survival(x / 1e182), tails, 1e-12)


def test_half_laws_in_both_tails():
    x = np.array([1e-30, 1e-8, 1.0, 9.0, 30.0])
    normal = [mp.log1p(-mp.erfc(mp.mpf(v) / mp.sqrt(2))) for v in x]
    assert_near(HalfNormal().log_cdf(x), normal, 1e-12)
    assert_near(HalfNormal().log_survival(x), [mp.log(mp.erfc(mp.mpf(v) / mp.sqrt(2))) for v in x], 1e-13)
    far = np.array([1e-30, 1e-8, 1.0, 1e9, 1e30])
    beyond = [2 / mp.pi * mp.atan2(1, mp.mpf(v)) for v in far]
    within = [2 / mp.pi * mp.atan2(mp.mpf(v), 1) for v in far]
    assert_near(
        HalfCauchy().log_cdf(far),
        [mp.log(w) if w < b else mp.log1p(-b) for w, b in zip(within, beyond)],
        1e-13,
    )
    assert_near(
        HalfCauchy().log_survival(far),
        [mp.log(b) if b < w else mp.log1p(-w) for w, b in zip(within, beyond)],
        1e-13,
    )


def test_mixture_of_normals_far_out():
    two = NormalMixture([0.25, 0.75], [-1.0, 1.0], [1.0, 0.5])
    assert_near(two.log_cdf(-45.0), [mp.log(mp.mpf(0.25)) + log_normal_tail(44.0)], 1e-13)
    assert_near(two.log_survival(-20.0), [-mp.mpf(0.25) * mp.exp(log_normal_tail(19.0))], 1e-12)


def test_normal_logarithms_in_single_precision():
    z = np.array([5.0, 9.9, 12.0, 14.0, 40.0, 1e4], np.float32)
    expected = [log_normal_tail(v) for v in z]
    assert_near(log_ndtr(-z), expected, 1e-6)
    assert_near(
        log_ndtri(jnp.asarray([float(v) for v in expected], jnp.float32)),
        [-mp.mpf(float(v)) for v in z],
        1e-6,
    )


def test_truncated_normal_far_out_in_single_precision():
    for low in (9.0, 12.0, 15.0, 40.0):
        tail = TruncatedNormal(*map(np.float32, (0.0, 1.0, low, np.inf)))
        excess = np.array([0.1, 0.5, 0.9], np.float32)
        x = np.asarray(tail.icdf(excess))
        assert x.dtype == np.float32
        left = [float(mp.exp(log_normal_tail(v) - log_normal_tail(low))) for v in x]
        np.testing.assert_allclose(left, 1 - excess, atol=2e-6 * low**2)  # the rounding of x is low * 6e-8
        draws = np.asarray(tail.sample(jr.key(1), (64,)))
        assert ((draws >= low) & (draws < low + 20 / low)).all()
    deep = TruncatedNormal(0.0, 1.0, 1e6)  # an exponential law of rate 1e6
    assert float(deep.entropy()) == pytest.approx(1 - np.log(1e6), abs=1e-9)


def test_gamma_quantiles_far_out_in_single_precision():
    for a in (0.05, 2.5, 300.0, 1e5):
        gamma, exact = Gamma(np.float32(a), np.float32(2.0)), Gamma(float(np.float32(a)), 2.0)
        q = np.array([1e-37, 1e-12, 1e-3, 0.3], np.float32)
        np.testing.assert_allclose(
            gamma.inverse_survival(q), exact.inverse_survival(q.astype(float)), rtol=1e-5
        )


@pytest.mark.thorough
def test_counts_past_the_integers_are_refused():
    for law in (
        Poisson(1e20),
        Binomial(1e21, 0.5),
        NegativeBinomial(2.0, 1e-22),
        Multinomial(1e20, [0.5, 0.5]),
        DirichletMultinomial(1e20, [1.0, 1.0]),
    ):
        with pytest.raises(
            ValueError, match=f"`{type(law).__name__}` must be a law whose counts fit into integers"
        ):
            law.sample(jr.key(0), (3,))
    with pytest.raises(ValueError, match="`high` must be a whole number that 64 bits hold"):
        DiscreteUniform(0, 1e19)
    traced = jax.jit(lambda rate, key: Poisson(rate).sample(key, (3,)))(jnp.array(1e20), jr.key(0))
    assert (Poisson(1e20).log_prob(traced) == -np.inf).all()
    assert (Poisson(1e15).sample(jr.key(0), (3,)) > 9e14).all()


def test_counts_past_the_integers_of_single_precision_are_refused():
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match="integers of 32 bits"):
            Poisson(1e10).sample(jr.key(0), (3,))
        assert (np.asarray(Poisson(1e9).sample(jr.key(0), (3,))) > 9e8).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_inversion_ends_where_the_sum_rounds(monkeypatch, dtype):
    last = np.nextafter(np.ones((), dtype), np.zeros((), dtype))
    monkeypatch.setattr(samplers.jr, "uniform", lambda key, shape, kind: jnp.full(shape, last, kind))
    rates = jnp.asarray([0.1, 1.0, 3.3, 7.7, 9.9], dtype)
    none = jnp.exp(-rates)
    counts = np.asarray(samplers._by_inversion(jr.key(0), none, lambda k, rate: rate / k, rates, rates.shape))
    expected = Poisson(rates.astype(float)).inverse_survival(np.full(5, float(jnp.finfo(dtype).eps) / 8))
    assert (counts <= np.asarray(expected)).all()
    assert (counts >= np.asarray(rates)).all()


@pytest.mark.thorough
def test_quantiles_of_a_beta_binomial_of_a_billion():
    law = BetaBinomial(1e9, 2.0, 2.0)
    n, level = mp.mpf(10) ** 9, 1e-12
    k = int(law.icdf(level))

    def mass(j):  # with a = b = 2, P(j) = 6 (j + 1)(n - j + 1) / ((n + 1)(n + 2)(n + 3))
        return 6 * (j + 1) * (n - j + 1) / ((n + 1) * (n + 2) * (n + 3))

    below = mp.fsum(mass(j) for j in range(k))
    assert below < level <= below + mass(k)
    assert_near(law.cdf(float(k)), [below + mass(k)], 1e-12)
    assert float(law.icdf(0.5)) == 5e8
    assert float(law.entropy()) == pytest.approx(
        np.log(1e9) + float(Beta(2.0, 2.0).entropy()) + 2e-9, abs=1e-11
    )


@pytest.mark.thorough
def test_beta_binomial_tails_against_sums():
    for n, a, b in [
        (12, 2.0, 3.0),
        (12, 1e6, 0.1),
        (1, 1e6, 0.1),
        (400, 1e9, 2.0),
        (2, 0.64, 0.64),
        (12, 0.01, 1e8),
    ]:
        k = np.array([0.0, n // 4, n // 2, n - 1])
        log_masses = [
            mp.log(mp.binomial(n, j))
            + mp.log(mp.beta(j + mp.mpf(a), n - j + mp.mpf(b)))
            - mp.log(mp.beta(a, b))
            for j in range(n + 1)
        ]
        masses = [mp.exp(v) for v in log_masses]
        pairs = [(mp.fsum(masses[: int(v) + 1]), mp.fsum(masses[int(v) + 1 :])) for v in k]
        below, above = (
            [mp.log(own) if own < 0.5 else mp.log1p(-rest) for own, rest in both]
            for both in (pairs, [p[::-1] for p in pairs])
        )
        assert_near(BetaBinomial(n, a, b).log_cdf(k), below, 1e-12, 1e-300)
        assert_near(BetaBinomial(n, a, b).log_survival(k), above, 1e-12, 1e-300)


def test_entropy_of_a_negative_binomial_of_a_tiny_probability():
    r, p, split = 0.1, 1e-9, 20_000

    def log_mass(k):
        return mp.loggamma(k + r) - mp.loggamma(k + 1) - mp.loggamma(r) + r * mp.log(p) + k * mp.log1p(-p)

    k = np.arange(float(split))
    head = np.asarray(NegativeBinomial(r, p).log_prob(k))  # right to 1e-12: tests/distributions/test_tails.py
    with mp.workdps(20):
        edges = (
            [mp.mpf(split) - 0.5]
            + [mp.mpf(10) ** e for e in range(5, 11)]
            + [mp.mpf(10) ** 10 * j for j in (2, 4, 8)]
        )
        tail = mp.quad(lambda x: -mp.exp(log_mass(x)) * log_mass(x), edges)  # midpoints: an error of 1e-14
    assert float(NegativeBinomial(r, p).entropy()) == pytest.approx(
        -(np.exp(head) @ head) + float(tail), rel=1e-10
    )


@pytest.mark.thorough
def test_moments_of_truncated_counts_take_bounded_work():
    law = Truncated(Poisson(1e14), 1e14, np.inf)  # half a normal of deviation 1e7
    assert float(law.mean) == pytest.approx(1e14 + 1e7 * np.sqrt(2 / np.pi), abs=1.0)
    assert float(law.variance) == pytest.approx(1e14 * (1 - 2 / np.pi), rel=1e-6)
    assert float(Multinomial(1e12, [0.5, 0.5]).entropy()) == pytest.approx(
        float(Binomial(1e12, 0.5).entropy()), rel=1e-12
    )
    pair, one = DirichletMultinomial(1e9, [2.0, 2.0]), BetaBinomial(1e9, 2.0, 2.0)
    assert float(pair.entropy()) == pytest.approx(float(one.entropy()), rel=1e-9)


CENTRED = [
    StudentT(3.5),
    StudentT(0.3),
    Laplace(),
    Cauchy(),
    Normal(),
    VonMises(0.0, 2.0),
    VonMises(0.0, 0.0),
]


@pytest.mark.parametrize("law", CENTRED, ids=lambda law: type(law).__name__)
@pytest.mark.thorough
def test_slopes_at_the_centre(law):
    points, half = jnp.array([0.0, 1e-200, -1e-20]), jnp.array([0.5])
    density = float(law.prob(0.0))
    slopes = {what: jax.jvp(getattr(law, what), (points,), (jnp.ones(3),))[1] for what in ("log_cdf", "cdf")}
    np.testing.assert_allclose(slopes["cdf"], density, rtol=1e-9)
    np.testing.assert_allclose(slopes["log_cdf"], 2 * density, rtol=1e-9)
    np.testing.assert_allclose(jax.jvp(law.icdf, (half,), (jnp.ones(1),))[1], 1 / density, rtol=1e-9)


@pytest.mark.thorough
def test_von_mises_slopes_in_the_concentration():
    angles = np.linspace(-3, 3, 8)
    for kappa in (0.0, 0.3, 4.0, 200.0):
        ratio = float(mp.besseli(1, kappa) / mp.besseli(0, kappa))
        by_kappa = jax.jacfwd(lambda k: VonMises(0.4, k).log_prob(angles))(kappa)
        np.testing.assert_allclose(by_kappa, np.cos(angles - 0.4) - ratio, rtol=1e-9, atol=1e-12)
    levels, kappa = np.array([0.05, 0.3, 0.5, 0.9]), 4.0
    slopes = jax.jacfwd(lambda k: VonMises(0.4, k).icdf(levels))(kappa)
    differences = (VonMises(0.4, kappa + 1e-5).icdf(levels) - VonMises(0.4, kappa - 1e-5).icdf(levels)) / 2e-5
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-9)


@pytest.mark.thorough
def test_von_mises_draws_follow_the_concentration():
    def mean_cosine(kappa):
        return jnp.cos(VonMises(0.4, kappa).sample(jr.key(2), (8000,)) - 0.4)

    for kappa in (0.5, 30.0):
        ratio = float(mp.besseli(1, kappa) / mp.besseli(0, kappa))
        slopes = np.asarray(jax.jacfwd(mean_cosine)(kappa))
        expected = 1 - ratio**2 - ratio / kappa
        assert abs(slopes.mean() - expected) < 5 * slopes.std() / np.sqrt(8000)
        back = jax.grad(lambda k: mean_cosine(k).mean())(kappa)
        assert float(back) == pytest.approx(slopes.mean(), rel=1e-9)


@pytest.mark.parametrize(
    "build",
    [
        lambda w: Mixture(w, Normal(jnp.array([-1.0, 2.0]), jnp.array([1.0, 0.5]))),
        lambda w: NormalMixture(w, jnp.array([-1.0, 2.0]), jnp.array([1.0, 0.5])),
    ],
)
def test_draws_of_a_mixture_of_numbers_follow_its_weights(build):
    def squares(first):
        return build(jnp.stack([first, 1 - first])).sample(jr.key(5), (8000,)) ** 2

    slopes = np.asarray(jax.jacfwd(squares)(0.3))
    assert abs(slopes.mean() - (2.0 - 4.25)) < 5 * slopes.std() / np.sqrt(8000)
    levels = jnp.array([0.1, 0.5])
    by_weight = jax.jacfwd(lambda w: build(jnp.stack([w, 1 - w])).icdf(levels))(0.3)
    differences = (
        build([0.3 + 1e-6, 0.7 - 1e-6]).icdf(levels) - build([0.3 - 1e-6, 0.7 + 1e-6]).icdf(levels)
    ) / 2e-6
    np.testing.assert_allclose(by_weight, differences, rtol=1e-6)


def test_weights_of_a_mixture_of_vectors_are_refused_through_draws():
    def total(weights, loc):
        law = Mixture(weights, Gaussian(loc, jnp.stack([jnp.eye(2)] * 2)))
        return law.sample(jr.key(0), (8,)).sum()

    weights, loc = jnp.array([0.5, 0.5]), jnp.zeros((2, 2))
    assert float(jax.grad(total, 1)(weights, loc).sum()) == pytest.approx(16.0)
    with pytest.raises(TypeError, match="`weights` must be held fixed where draws of a mixture of vectors"):
        jax.grad(total, 0)(weights, loc)
