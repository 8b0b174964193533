"""Multinomial and Dirichlet-multinomial: enumeration, digits at a total of 1e8, limits, bad input."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest
import scipy.stats as stats

from tractable.distributions.expfam import maximum_likelihood
from tractable.distributions.multivariate import DirichletMultinomial, Multinomial

PROBS = np.array([0.2, 0.3, 0.5])
ALPHA = np.array([0.7, 1.5, 2.3])
TOTAL = 6
SIZE = 20_000  # as in the laws: the same compiled program draws
GRID = np.array([m for m in itertools.product(range(TOTAL + 1), repeat=3) if sum(m) == TOTAL])
BIG = np.array([20_001_000, 29_990_000, 50_009_000])


def exact_multinomial(counts, logits):
    with mpmath.workdps(50):
        m, eta = [mpmath.mpf(int(c)) for c in counts], [mpmath.mpf(float(v)) for v in logits]
        shift = mpmath.log(sum(map(mpmath.exp, eta)))
        coefficient = mpmath.loggamma(sum(m) + 1) - sum(mpmath.loggamma(c + 1) for c in m)
        return float(coefficient + sum(c * (e - shift) for c, e in zip(m, eta, strict=True)))


def exact_dirichlet_multinomial(counts, alpha):
    with mpmath.workdps(50):
        m, a = [mpmath.mpf(int(c)) for c in counts], [mpmath.mpf(float(v)) for v in alpha]
        n, whole, gamma = sum(m), sum(a), mpmath.loggamma
        terms = sum(gamma(c + v) - gamma(v) - gamma(c + 1) for c, v in zip(m, a, strict=True))
        return float(gamma(n + 1) + gamma(whole) - gamma(n + whole) + terms)


@pytest.mark.parametrize(
    ("d", "law"),
    [
        (Multinomial(TOTAL, PROBS), stats.multinomial(TOTAL, PROBS)),
        (DirichletMultinomial(TOTAL, ALPHA), stats.dirichlet_multinomial(ALPHA, TOTAL)),
    ],
    ids=["Multinomial", "DirichletMultinomial"],
)
def test_enumeration(d, law):
    masses = np.asarray(d.prob(GRID))
    np.testing.assert_allclose(masses, law.pmf(GRID), rtol=1e-12)
    np.testing.assert_allclose(masses.sum(), 1, rtol=1e-13)
    mean = masses @ GRID
    np.testing.assert_allclose(d.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(d.covariance, (GRID.T * masses) @ GRID - np.outer(mean, mean), rtol=1e-11)
    np.testing.assert_allclose(d.variance, np.diag(d.covariance), rtol=1e-13)
    np.testing.assert_allclose(d.entropy(), -(masses @ np.log(masses)), rtol=1e-12)


def test_power_of_the_probabilities_belongs_to_the_mass():
    """Without it, only the coefficient is left: 3 for (2, 1), whatever the probabilities."""
    np.testing.assert_allclose(Multinomial(3, np.array([0.2, 0.8])).prob(np.array([2, 1])), 3 * 0.04 * 0.8)


@pytest.mark.parametrize("logits", [np.log(PROBS), np.array([0.3, 0.0, -0.2])])
def test_multinomial_keeps_its_digits_at_a_total_of_a_hundred_million(logits):
    d = Multinomial(1e8, logits=logits)
    np.testing.assert_allclose(d.log_prob(BIG), exact_multinomial(BIG, logits), rtol=1e-11)


@pytest.mark.parametrize("alpha", [[1e6, 2e6, 3e6], [1e-3, 1.0, 5.0], [0.5, 0.5, 0.5]])
def test_dirichlet_multinomial_keeps_its_digits_at_a_total_of_a_hundred_million(alpha):
    d = DirichletMultinomial(1e8, np.array(alpha))
    np.testing.assert_allclose(d.log_prob(BIG), exact_dirichlet_multinomial(BIG, alpha), rtol=1e-13)


def test_entropy_at_a_large_total_is_that_of_the_gaussian_limit():
    """H = log((2 pi e n)^(k-1) prod p)/2 - (1/12n)(3k - 2 - sum 1/p) + O(1/n^2), at n = 1e8."""
    limit = 0.5 * np.log((2 * np.pi * np.e * 1e8) ** 2 * PROBS.prod())
    np.testing.assert_allclose(Multinomial(1e8, PROBS).entropy(), limit, rtol=1e-9)


def test_entropy_with_an_impossible_category():
    pair, padded = Multinomial(TOTAL, PROBS[:2] / 0.5), Multinomial(TOTAL, np.array([0.4, 0.6, 0.0]))
    np.testing.assert_allclose(padded.entropy(), pair.entropy(), rtol=1e-13)
    np.testing.assert_allclose(Multinomial(TOTAL, np.array([1.0, 0.0])).entropy(), 0, atol=1e-13)


def test_entropy_has_forward_derivatives():
    slope = jax.jit(jax.jacfwd(lambda t: DirichletMultinomial(TOTAL, ALPHA + t).entropy()))(0.0)
    step = 1e-5
    difference = [float(DirichletMultinomial(TOTAL, ALPHA + s * step).entropy()) for s in (1, -1)]
    np.testing.assert_allclose(slope, (difference[0] - difference[1]) / (2 * step), rtol=1e-7)


def test_impossible_categories():
    d = Multinomial(4, np.array([0.0, 0.25, 0.75]))
    np.testing.assert_allclose(d.prob(np.array([[0, 1, 3], [1, 1, 2]])), [4 * 0.25 * 0.75**3, 0], rtol=1e-13)
    slope = jax.jit(jax.grad(lambda eta: Multinomial(4, logits=eta).log_prob(jnp.array([0, 3, 1]))))(d.logits)
    np.testing.assert_allclose(slope, [0, 3 - 1, 1 - 3], atol=1e-12)


def test_a_log_probability_of_minus_800_is_kept():
    d = Multinomial(3, logits=np.array([0.0, -800.0]))
    np.testing.assert_allclose(d.log_prob(np.array([[2, 1], [0, 3]])), [-800 + np.log(3), -2400], rtol=1e-14)


def test_total_zero_is_certain():
    for d in (Multinomial(0, PROBS), DirichletMultinomial(0, ALPHA)):
        assert d.log_prob(np.zeros(3)) == 0
        np.testing.assert_array_equal(d.sample(jr.key(0), (SIZE,)), 0)
        np.testing.assert_allclose(d.entropy(), 0, atol=1e-14)


def test_one_trial_is_a_categorical_draw():
    np.testing.assert_allclose(Multinomial(1, PROBS).prob(np.eye(3)), PROBS, rtol=1e-14)
    np.testing.assert_allclose(
        DirichletMultinomial(1, ALPHA).prob(np.eye(3)), ALPHA / ALPHA.sum(), rtol=1e-13
    )


def test_large_concentration_is_multinomial():
    d, limit = DirichletMultinomial(TOTAL, 1e9 * PROBS), Multinomial(TOTAL, PROBS)
    np.testing.assert_allclose(d.log_prob(GRID), limit.log_prob(GRID), rtol=1e-6)


def test_logits_are_probabilities_up_to_a_constant():
    d = Multinomial(TOTAL, logits=np.log(PROBS) + 7.0)
    np.testing.assert_allclose(d.probs, PROBS, rtol=1e-14)
    np.testing.assert_allclose(d.log_prob(GRID), Multinomial(TOTAL, PROBS).log_prob(GRID), rtol=1e-12)


def test_draws_of_a_large_total():
    draws = np.asarray(Multinomial(1e8, PROBS).sample(jr.key(1), (SIZE,)))
    assert draws.dtype == np.int64
    np.testing.assert_array_equal(draws.sum(-1), 10**8)
    z = (draws - 1e8 * PROBS) / np.sqrt(1e8 * PROBS * (1 - PROBS))
    assert (np.abs(z.mean(0)) < 5 / np.sqrt(SIZE)).all()
    assert (np.abs((z**2).mean(0) - 1) < 5 * np.sqrt(2 / SIZE)).all()


def test_draws_never_fall_into_an_impossible_category():
    for gap in range(3):
        probs = np.delete(np.array([0.5, 0.5, 0.0]), 2)
        probs = np.insert(probs, gap, 0.0)
        draws = np.asarray(Multinomial(1000, probs).sample(jr.key(3), (SIZE,)))
        np.testing.assert_array_equal(draws.sum(-1), 1000)
        np.testing.assert_array_equal(draws[:, gap], 0)


def test_units_with_different_totals():
    d = Multinomial(jnp.array([2.0, 5.0]), np.broadcast_to(PROBS, (2, 3)))
    draws = np.asarray(d.sample(jr.key(2), (50, 40)))
    np.testing.assert_array_equal(draws.sum(-1), np.broadcast_to([2, 5], (50, 40, 2)))
    parts = [stats.multinomial(n, PROBS).logpmf(draws[..., i, :]) for i, n in enumerate((2, 5))]
    np.testing.assert_allclose(d.log_prob(draws), sum(parts), rtol=1e-11)


def test_maximum_likelihood_is_the_mean_share():
    rows = np.array([[3, 2, 1], [1, 4, 1], [2, 0, 4]])
    np.testing.assert_allclose(
        maximum_likelihood(Multinomial(6, PROBS), rows).probs, rows.sum(0) / 18, rtol=1e-13
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Multinomial(2.5, PROBS), r"`total` must be a whole number from 0 to inf; got 2.5"),
        (lambda: Multinomial(-1, PROBS), r"`total` must be a whole number from 0 to inf; got -1"),
        (
            lambda: Multinomial(3, np.array([0.2, 0.3])),
            r"`probs` must be probabilities .* sum to 1 .*; got \[0.2, 0.3\]",
        ),
        (lambda: Multinomial(3, np.array([1.2, -0.2])), r"`probs` must be probabilities"),
        (lambda: Multinomial(3, np.array([np.nan, 1.0])), r"`probs` must be probabilities"),
        (
            lambda: Multinomial(3, np.array(1.0)),
            r"`probs` must be an array with at least 1 axes; got shape \(\)",
        ),
        (lambda: Multinomial(3, np.array([1.0])), r"`logits` must be at least two entries"),
        (lambda: Multinomial(3), r"`probs` must be given, or else `logits`, and not both; got neither"),
        (
            lambda: Multinomial(3, PROBS, logits=PROBS),
            r"`probs` must be given, or else `logits`, and not both; got both",
        ),
        (lambda: Multinomial(3, logits=np.array([np.nan, 0.0])), r"`logits` must be logarithms of weights"),
        (lambda: DirichletMultinomial(3.1, ALPHA), r"`total` must be a whole number"),
        (lambda: DirichletMultinomial(3, -ALPHA), r"`concentration` must be positive"),
        (
            lambda: Multinomial(np.ones(2), np.full((3, 2), 0.5)),
            r"`Multinomial` must have parameters whose shapes",
        ),
    ],
)
def test_bad_input_is_refused_by_name(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
