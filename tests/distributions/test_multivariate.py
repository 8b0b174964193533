"""Dirichlet and multivariate t: worked numbers, digits at extreme parameters, limits, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest
import scipy.stats as stats
from hypothesis import given
from hypothesis import strategies as st

from tractable.distributions.expfam import maximum_likelihood, mean_stats
from tractable.distributions.multivariate import Dirichlet, MultivariateStudentT

SIZE = 20_000  # as in the laws: the same compiled program draws
SCALE = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])


def exact_dirichlet(alpha, x):
    with mpmath.workdps(50):
        a, x = [mpmath.mpf(float(v)) for v in alpha], [mpmath.mpf(float(v)) for v in x]
        powers = sum((v - 1) * mpmath.log(w) for v, w in zip(a, x, strict=True))
        return float(mpmath.loggamma(sum(a)) - sum(map(mpmath.loggamma, a)) + powers)


def exact_dirichlet_entropy(alpha):
    with mpmath.workdps(50):
        a = [mpmath.mpf(float(v)) for v in alpha]
        whole = sum(a)
        normaliser = sum(map(mpmath.loggamma, a)) - mpmath.loggamma(whole)
        return float(
            normaliser
            + (whole - len(a)) * mpmath.digamma(whole)
            - sum((v - 1) * mpmath.digamma(v) for v in a)
        )


def test_dirichlet_worked_numbers():
    d = Dirichlet([100.0, 50.0])
    np.testing.assert_allclose(d.mean, [2 / 3, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(d.mode, [99 / 148, 49 / 148], rtol=1e-14)
    np.testing.assert_allclose(d.std, 0.0383624, atol=5e-8)
    np.testing.assert_allclose(d.prob(d.mode), 10.3622, atol=5e-5)


def test_dirichlet_of_ones_is_uniform_on_the_simplex():
    d = Dirichlet(jnp.ones(3))
    points = np.random.default_rng(0).dirichlet([0.2, 1.0, 3.0], 20)
    np.testing.assert_allclose(d.prob(points), 2.0, rtol=1e-13)
    np.testing.assert_allclose(d.prob(np.eye(3)), 2.0, rtol=1e-13)  # the corners belong to it
    np.testing.assert_allclose(d.entropy(), -np.log(2), rtol=1e-13)
    assert np.isnan(d.mode).all()


def test_total_concentration_sharpens_and_ratios_place():
    flat, sharp = Dirichlet([2.0, 1.0, 3.0]), Dirichlet([200.0, 100.0, 300.0])
    np.testing.assert_allclose(flat.mean, sharp.mean, rtol=1e-14)
    np.testing.assert_allclose(sharp.variance * 601, flat.variance * 7, rtol=1e-13)
    moved = Dirichlet([200.0, 1.0, 3.0])  # one entry alone moves the peak, too
    assert abs(moved.mean[0] - flat.mean[0]) > 0.5


def test_two_shares_are_a_beta_variable():
    for a, b in [(0.4, 2.5), (30.0, 12.0)]:
        d, x = Dirichlet([a, b]), np.array([1e-6, 0.3, 0.7, 0.999])
        law = stats.beta(a, b)
        np.testing.assert_allclose(d.log_prob(np.stack([x, 1 - x], -1)), law.logpdf(x), rtol=1e-10)
        np.testing.assert_allclose(
            [d.mean[0], d.variance[0], d.entropy()], [law.mean(), law.var(), law.entropy()]
        )


@pytest.mark.parametrize(
    ("alpha", "x"),
    [
        ([1e-3, 1e-3, 1e-3], [1e-200, 1e-10, 1 - 1e-10]),
        ([1e-3, 1e-3, 1e-3], [1e-306, 0.5, 0.5]),
        ([1e6, 2e6, 3e6], [0.1669, 0.3331, 0.5]),
        ([1e6, 2e6, 3e6], [1e-9, 0.5, 0.5 - 1e-9]),
        ([1e-3, 5.0, 1e6], [1e-300, 4e-6, 1 - 4e-6]),
        ([1e6, 1e6, 1e-3], [0.5, 0.5 - 1e-300, 1e-300]),
        ([11.0, 30.0, 2.0], [0.99, 0.005, 0.005]),
    ],
)
def test_dirichlet_keeps_its_digits(alpha, x):
    np.testing.assert_allclose(Dirichlet(alpha).log_prob(np.array(x)), exact_dirichlet(alpha, x), rtol=1e-11)


@pytest.mark.parametrize("alpha", [[1e-3] * 3, [1e6, 2e6, 3e6], [1e-3, 1.0, 1e5]])
def test_dirichlet_entropy_keeps_its_digits(alpha):
    np.testing.assert_allclose(Dirichlet(alpha).entropy(), exact_dirichlet_entropy(alpha), rtol=1e-12)


def test_density_on_the_boundary():
    x = jnp.array([0.0, 0.4, 0.6])
    assert Dirichlet([2.0, 1.0, 1.0]).log_prob(x) == -np.inf
    assert Dirichlet([20.0, 1.0, 1.0]).log_prob(x) == -np.inf
    assert Dirichlet([0.5, 1.0, 1.0]).log_prob(x) == np.inf
    np.testing.assert_allclose(Dirichlet([1.0, 2.0, 3.0]).log_prob(x), np.log(60 * 0.4 * 0.36), rtol=1e-13)
    assert Dirichlet([2.0, 0.5, 1.0]).log_prob(jnp.array([0.0, 0.0, 1.0])) == -np.inf  # zero times infinity


def test_dirichlet_mode_needs_a_peak():
    np.testing.assert_allclose(Dirichlet([3.0, 1.0, 2.0]).mode, [2 / 3, 0, 1 / 3], rtol=1e-14)
    assert np.isnan(Dirichlet([3.0, 0.9, 2.0]).mode).all()


def test_draws_of_extreme_concentrations():
    sparse = np.asarray(Dirichlet(jnp.full(3, 1e-3)).sample(jr.key(0), (SIZE,)))
    assert np.isfinite(sparse).all()
    np.testing.assert_allclose(sparse.sum(-1), 1, rtol=1e-12)
    assert stats.chisquare(np.bincount(sparse.argmax(-1), minlength=3)).pvalue > 1e-4
    median = stats.beta(1e-3, 2e-3).ppf(0.5)  # near 1e-125: the Gamma variables behind it all underflow
    assert abs((sparse[:, 0] < median).mean() - 0.5) < 5 * 0.5 / np.sqrt(SIZE)
    sharp = np.asarray(Dirichlet(jnp.array([1e6, 2e6, 3e6])).sample(jr.key(1), (SIZE,)))
    z = (sharp - [1 / 6, 1 / 3, 1 / 2]) / np.sqrt(np.array([5 / 36, 2 / 9, 1 / 4]) / 6e6)
    assert (np.abs(z.mean(0)) < 5 / np.sqrt(SIZE)).all()
    assert (np.abs((z**2).mean(0) - 1) < 5 * np.sqrt(2 / SIZE)).all()


@eqx.filter_jit
def refit(d):
    return d.from_stats(mean_stats(d))


@given(st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3))
def test_dirichlet_is_recovered_from_its_mean_logarithms(exponents):
    alpha = 10.0 ** np.array(exponents)
    np.testing.assert_allclose(refit(Dirichlet(alpha)).concentration, alpha, rtol=1e-8)


def test_dirichlet_maximum_likelihood_is_stationary_and_consistent():
    truth = Dirichlet([0.4, 3.0, 1.5])
    rows = truth.sample(jr.key(3), (SIZE,))
    fit = eqx.filter_jit(maximum_likelihood)(truth, rows)
    slope = jax.jit(jax.grad(lambda d: d.log_prob(rows).mean()))(fit)
    np.testing.assert_allclose(slope.concentration, 0, atol=1e-10)
    np.testing.assert_allclose(fit.concentration, truth.concentration, rtol=0.05)


def test_one_point_has_no_maximum_likelihood():
    with pytest.raises(ValueError, match=r"`mean_stats` must be mean logarithms of two points or more"):
        Dirichlet(jnp.ones(2)).from_stats((jnp.log(jnp.array([0.3, 0.7])),))
    inside_jit = jax.jit(lambda s: Dirichlet(jnp.ones(2)).from_stats((s,)).concentration)
    assert np.isnan(inside_jit(jnp.array([-0.1, -0.1]))).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Dirichlet([1.0, -2.0]), r"`concentration` must be positive and finite; got -2.0 at index 1"),
        (
            lambda: Dirichlet([1.0, np.nan]),
            r"`concentration` must be positive and finite; got nan at index 1",
        ),
        (lambda: Dirichlet(2.0), r"`concentration` must be an array with at least 1 axes; got shape \(\)"),
        (
            lambda: Dirichlet([2.0]),
            r"`concentration` must be at least two entries along its last axis; got shape",
        ),
        (
            lambda: MultivariateStudentT(0.0, np.zeros(3), SCALE),
            r"`degrees` must be positive and finite; got 0.0",
        ),
        (
            lambda: MultivariateStudentT(3.0, np.zeros(2), SCALE),
            r"`scale` must be 2 by 2, one row for each entry of",
        ),
        (
            lambda: MultivariateStudentT(3.0, np.zeros(3), -SCALE),
            r"`scale` must be a symmetric positive definite",
        ),
        (
            lambda: MultivariateStudentT(3.0, [0.0, np.inf, 0.0], SCALE),
            r"`loc` must be finite; got inf at index 1",
        ),
        (
            lambda: Dirichlet(np.ones(3)).log_prob(np.ones(2)),
            r"`x` must be an array whose last axes have shape \(3,\)",
        ),
        (lambda: Dirichlet("abc"), r"`concentration` must be a real number"),
    ],
)
def test_bad_input_is_refused_by_name(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


def test_student_t_with_many_degrees_is_gaussian():
    x = np.array([[1.0, -2.0, 0.5], [4.0, 0.0, 1.0]])
    law = stats.multivariate_normal(np.zeros(3), SCALE)
    d = MultivariateStudentT(1e10, np.zeros(3), SCALE)
    np.testing.assert_allclose(d.log_prob(x), law.logpdf(x), rtol=1e-8)
    np.testing.assert_allclose(d.entropy(), law.entropy(), rtol=1e-9)


def test_student_t_keeps_its_digits_in_the_tail():
    """At z = 1e10 under 1e10 degrees, and under half a degree, against fifty digits."""
    for degrees in (0.5, 7.0, 1e10):
        value = float(
            MultivariateStudentT(degrees, np.zeros(3), np.eye(3)).log_prob(np.array([1e10, 0.0, 0.0]))
        )
        with mpmath.workdps(50):
            v = mpmath.mpf(degrees)
            constant = mpmath.loggamma((v + 3) / 2) - mpmath.loggamma(v / 2) - 1.5 * mpmath.log(v * mpmath.pi)
            expected = float(constant - (v + 3) / 2 * mpmath.log(1 + mpmath.mpf(10) ** 20 / v))
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_student_t_entropy_is_that_of_scipy():
    for degrees in (0.7, 3.0, 50.0):
        d = MultivariateStudentT(degrees, np.zeros(3), SCALE)
        np.testing.assert_allclose(d.entropy(), stats.multivariate_t(np.zeros(3), SCALE, degrees).entropy())


def test_student_t_moments_that_do_not_exist():
    loc = np.array([1.0, 2.0, 3.0])
    one, two = MultivariateStudentT(1.0, loc, SCALE), MultivariateStudentT(2.0, loc, SCALE)
    assert np.isnan(one.mean).all()
    assert np.isnan(one.variance).all()
    np.testing.assert_array_equal(two.mean, loc)
    np.testing.assert_array_equal(two.variance, np.inf)
    np.testing.assert_array_equal(one.mode, loc)


def test_single_precision_is_kept():
    d = Dirichlet(jnp.array([2.0, 3.0], jnp.float32))
    x = jnp.array([0.25, 0.75], jnp.float32)
    assert d.log_prob(x).dtype == jnp.float32
    assert jax.eval_shape(lambda key: d.sample(key), jr.key(0)).dtype == jnp.float32
    np.testing.assert_allclose(d.log_prob(x), stats.beta(2, 3).logpdf(0.25), rtol=1e-6)
