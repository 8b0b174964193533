"""Gaussian algebra against SciPy, dense NumPy algebra and worked numbers."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import multivariate_normal

from tractable.distributions.expfam import log_likelihood, maximum_likelihood
from tractable.distributions.gaussian import Gaussian, condition, condition_observed

MEAN = np.array([0.3, -1.0, 2.0])
COV = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.7]])


@pytest.fixture(scope="module")
def gaussian():
    return Gaussian(MEAN, COV)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).multivariate_normal(MEAN, COV, 40)


def random_cov(rng, d):
    root = rng.normal(size=(d, d))
    return root @ root.T + 0.1 * np.eye(d)


def schur(mean, cov, a, b, value):
    gain = cov[np.ix_(a, b)] @ np.linalg.inv(cov[np.ix_(b, b)])
    return mean[a] + gain @ (value - mean[b]), cov[np.ix_(a, a)] - gain @ cov[np.ix_(b, a)]


# Density, entropy, draws


def test_log_prob_matches_scipy(gaussian, rows):
    expected = multivariate_normal(MEAN, COV).logpdf(rows)
    np.testing.assert_allclose(gaussian.log_prob(rows), expected, rtol=1e-12)


def test_leading_axes_are_independent_gaussians(rows):
    covs = np.stack([COV, np.eye(3), 2 * COV])
    stacked = Gaussian(MEAN, covs)
    assert stacked.mean.shape == stacked.shape == (3, 3)
    expected = sum(multivariate_normal(MEAN, c).logpdf(x) for c, x in zip(covs, rows[:3], strict=True))
    np.testing.assert_allclose(stacked.log_prob(rows[:3]), expected, rtol=1e-12)


def test_entropy_is_half_the_log_of_the_scaled_determinant(gaussian):
    expected = 0.5 * np.log((2 * np.pi * np.e) ** 3 * np.linalg.det(COV))
    np.testing.assert_allclose(gaussian.entropy(), expected, rtol=1e-13)
    np.testing.assert_allclose(gaussian.entropy(), multivariate_normal(MEAN, COV).entropy(), rtol=1e-13)


def test_mahalanobis_is_the_root_of_the_quadratic_form(gaussian, rows):
    expected = [mahalanobis(x, MEAN, np.linalg.inv(COV)) for x in rows[:5]]
    np.testing.assert_allclose(gaussian.mahalanobis(rows[:5]), expected, rtol=1e-12)


def test_mahalanobis_is_euclidean_for_the_identity():
    point = jnp.asarray([3.0, 4.0, 0.0])
    standard = Gaussian(np.zeros(3), np.eye(3))
    assert float(standard.mahalanobis(point)) == pytest.approx(5.0, rel=1e-15)
    assert np.isfinite(jax.grad(standard.mahalanobis)(jnp.zeros(3))).all()


def test_draws_have_the_mean_and_covariance(gaussian):
    n = 40_000
    draws = np.asarray(gaussian.sample(jr.key(0), (n,)))
    z = (draws.mean(0) - MEAN) / np.sqrt(np.diag(COV) / n)
    assert np.abs(z).max() < 5
    errors = np.cov(draws.T) - COV
    spread = np.sqrt((np.outer(np.diag(COV), np.diag(COV)) + COV**2) / n)
    assert np.abs(errors / spread).max() < 5


def test_gradient_of_log_prob_in_the_parameters(gaussian):
    x = jnp.asarray([1.0, 0.0, 1.0])
    slope = jax.grad(lambda m: Gaussian(m, COV).log_prob(x))(jnp.asarray(MEAN))
    np.testing.assert_allclose(slope, np.linalg.solve(COV, np.asarray(x) - MEAN), rtol=1e-12)
    slope = jax.grad(lambda c: Gaussian(MEAN, c).log_prob(x))(jnp.asarray(COV))
    inverse, r = np.linalg.inv(COV), np.linalg.solve(COV, np.asarray(x) - MEAN)
    np.testing.assert_allclose(0.5 * (slope + slope.T), 0.5 * (np.outer(r, r) - inverse), rtol=1e-11)


def test_pathwise_gradient_of_a_draw_is_finite_at_equal_eigenvalues():
    def total(cov):
        return Gaussian(jnp.zeros(3), cov).sample(jr.key(1)).sum()

    assert np.isfinite(jax.vmap(jax.grad(total))(np.stack([np.eye(3)] * 2))).all()


def test_float32_stays_float32():
    single = Gaussian(np.zeros(3, np.float32), np.eye(3, dtype=np.float32))
    x = jnp.zeros(3, jnp.float32)
    draw = jax.eval_shape(lambda key: single.sample(key), jr.key(0))
    assert single.log_prob(x).dtype == draw.dtype == jnp.float32
    np.testing.assert_allclose(single.log_prob(x), -1.5 * np.log(2 * np.pi), rtol=1e-6)


# Singular covariances: no density, but draws


@hypothesis.given(st.integers(2, 6), st.integers(0, 10**6))
def test_rank_deficient_covariance_never_gives_a_number(d, seed):
    rng = np.random.default_rng(seed)
    root = np.zeros((6, 6))
    root[:d, : d - 1] = rng.normal(size=(d, d - 1)) * np.exp(rng.normal(size=(d, 1)))
    root[range(d, 6), range(d, 6)] = 1.0  # one shape for all cases: one compilation
    singular = Gaussian(np.zeros(6), root @ root.T)
    assert np.isnan(singular.log_prob(np.zeros(6)))
    assert np.isnan(singular.log_prob(root @ np.ones(6)))
    assert np.isnan(singular.entropy())


def test_draws_of_a_singular_covariance_stay_on_its_plane():
    root = np.array([[1.0, 0.5, -2.0]]).T
    n = 40_000
    draws = np.asarray(Gaussian(MEAN, root @ root.T).sample(jr.key(2), (n,))) - MEAN
    along = draws @ root[:, 0] / (root**2).sum()
    np.testing.assert_allclose(draws, along[:, None] * root.T, atol=1e-7)
    assert abs(along.mean()) < 5 / np.sqrt(n)
    assert abs((along**2).mean() - 1) < 5 * np.sqrt(2 / n)


def test_tiny_variance_is_not_singular():
    scales = np.array([1.0, 1e-10, 1e6])
    x = scales * np.array([0.5, -1.0, 2.0])
    expected = multivariate_normal(np.zeros(3), np.eye(3)).logpdf(x / scales) - np.log(scales).sum()
    np.testing.assert_allclose(Gaussian(np.zeros(3), np.diag(scales**2)).log_prob(x), expected, rtol=1e-12)


# Missing entries


def test_missing_entries_are_marginalised_exactly(gaussian, rows):
    point, patterns = rows[0], list(itertools.product([True, False], repeat=3))
    points = np.array([np.where(seen, point, np.nan) for seen in patterns])
    expected = [
        multivariate_normal(MEAN[i], COV[np.ix_(i, i)]).logpdf(point[i]) if len(i) else 0.0
        for i in (np.flatnonzero(seen) for seen in patterns)
    ]
    np.testing.assert_allclose(jax.jit(Gaussian.log_prob_observed)(gaussian, points), expected, rtol=1e-12)


def test_gradient_with_missing_entries_is_finite(gaussian):
    point = jnp.asarray([1.0, np.nan, 0.5])
    slope = jax.grad(lambda m: Gaussian(m, COV).log_prob_observed(point))(jnp.asarray(MEAN))
    kept = [0, 2]
    expected = np.linalg.solve(COV[np.ix_(kept, kept)], np.asarray(point)[kept] - MEAN[kept])
    np.testing.assert_allclose(slope, [expected[0], 0.0, expected[1]], rtol=1e-12)


# Marginals and conditionals


def test_conditional_of_the_worked_example():
    posterior = Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 2.0]]).conditional([1], np.ones(1))
    np.testing.assert_allclose(posterior.mean, [0.4], rtol=1e-14)
    np.testing.assert_allclose(posterior.cov, [[0.68]], rtol=1e-14)


def test_marginal_selects_in_the_given_order(gaussian):
    part = gaussian.marginal([2, 0])
    np.testing.assert_array_equal(part.mean, MEAN[[2, 0]])
    np.testing.assert_array_equal(part.cov, COV[np.ix_([2, 0], [2, 0])])
    np.testing.assert_array_equal(gaussian.marginal(-1).mean, MEAN[[2]])


@hypothesis.given(st.integers(0, 10**6), st.permutations(range(4)))
def test_joint_density_is_marginal_times_conditional(seed, order):
    rng = np.random.default_rng(seed)
    mean, cov, x = rng.normal(size=4), random_cov(rng, 4), rng.normal(size=4)
    known, rest = sorted(order[:2]), sorted(order[2:])
    joint = Gaussian(mean, cov)
    posterior = joint.conditional(known, x[known])
    expected_mean, expected_cov = schur(mean, cov, rest, known, x[known])
    np.testing.assert_allclose(posterior.mean, expected_mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.cov, expected_cov, rtol=1e-7, atol=1e-9)
    total = joint.marginal(known).log_prob(x[known]) + posterior.log_prob(x[rest])
    np.testing.assert_allclose(total, joint.log_prob(x), rtol=1e-8)


# Conditioning on a value and on a belief


@pytest.fixture(scope="module")
def partition():
    rng = np.random.default_rng(3)
    mean, cov = rng.normal(size=5), random_cov(rng, 5)
    x, y = Gaussian(mean[:3], cov[:3, :3]), Gaussian(mean[3:], cov[3:, 3:])
    return mean, cov, x, cov[:3, 3:], y


def test_condition_on_a_value_is_the_dense_conditional(partition):
    mean, cov, x, cross, y = partition
    value = np.array([0.5, -2.0])
    posterior = condition(x, cross, y, value)
    expected_mean, expected_cov = schur(mean, cov, [0, 1, 2], [3, 4], value)
    np.testing.assert_allclose(posterior.mean, expected_mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.cov, expected_cov, rtol=1e-9)
    np.testing.assert_array_equal(posterior.cov, np.asarray(posterior.cov).T)


def test_condition_on_a_belief_averages_the_conditionals(partition):
    """If $y$ is believed to be $N(m, V)$, then $x$ is the mixture of $p(x | y)$ over that belief."""
    mean, cov, x, cross, y = partition
    belief_mean, belief_cov = np.array([1.0, 0.2]), np.array([[0.3, 0.1], [0.1, 0.4]])
    posterior = condition(x, cross, y, Gaussian(belief_mean, belief_cov))
    expected_mean, fixed_cov = schur(mean, cov, [0, 1, 2], [3, 4], belief_mean)
    gain = np.linalg.solve(cov[3:, 3:], cov[3:, :3]).T
    np.testing.assert_allclose(posterior.mean, expected_mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.cov, fixed_cov + gain @ belief_cov @ gain.T, rtol=1e-9)


def test_an_unchanged_belief_changes_nothing(partition):
    _, _, x, cross, y = partition
    same = condition(x, cross, y, y)
    np.testing.assert_allclose(same.mean, x.mean, rtol=1e-13)
    np.testing.assert_allclose(same.cov, x.cov, rtol=1e-10)


def test_condition_under_vmap_and_jit(partition):
    _, _, x, cross, y = partition
    values = jnp.asarray([[0.0, 1.0], [2.0, -1.0], [0.3, 0.3]])
    many = jax.vmap(jax.jit(lambda v: condition(x, cross, y, v)))(values)
    for i, value in enumerate(values):
        np.testing.assert_allclose(many.mean[i], condition(x, cross, y, value).mean, rtol=1e-12)


def test_covariance_stays_positive_semidefinite_over_many_readings():
    """Readings without noise drive the covariance to zero, where rounding is largest."""
    rng = np.random.default_rng(5)
    belief = Gaussian(np.zeros(4), random_cov(rng, 4))
    scale = float(np.abs(belief.cov).max())
    for _ in range(60):
        h = jnp.asarray(rng.normal(size=(1, 4)))
        seen = Gaussian(h @ belief.mean, h @ belief.cov @ h.T + 1e-9)
        belief = condition(belief, belief.cov @ h.T, seen, np.zeros(1))
        assert np.linalg.eigvalsh(belief.cov).min() > -1e-15 * scale
    assert np.linalg.eigvalsh(belief.cov).max() < 1e-8


def test_a_value_that_is_known_already_cannot_be_conditioned_on(partition):
    _, _, x, _, _ = partition
    twice = Gaussian(np.zeros(2), np.ones((2, 2)))
    cross = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"`y.cov` must be positive definite; got \[\[1.0, 1.0\], \[1.0"):
        condition(x, cross, twice, np.zeros(2))
    assert np.isnan(jax.jit(lambda v: condition(x, cross, twice, v))(jnp.zeros(2)).mean).all()


def test_jitter_is_what_was_asked_for(partition):
    _, _, x, cross, y = partition
    jittered = condition(x, cross, y, np.ones(2), jitter=0.1)
    wider = Gaussian(y.mean, y.cov + 0.1 * np.trace(y.cov) / 2 * np.eye(2))
    np.testing.assert_allclose(jittered.mean, condition(x, cross, wider, np.ones(2)).mean, rtol=1e-12)


def test_condition_observed_uses_the_entries_that_are_there(partition):
    _, _, x, cross, y = partition
    some = condition_observed(x, cross, y, np.array([np.nan, 0.7]))
    expected = condition(x, cross[:, 1:], y.marginal([1]), np.array([0.7]))
    np.testing.assert_allclose(some.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(some.cov, expected.cov, rtol=1e-12)
    nothing = condition_observed(x, cross, y, np.full(2, np.nan))
    np.testing.assert_array_equal(nothing.mean, x.mean)
    np.testing.assert_array_equal(nothing.cov, x.cov)


# Maximum likelihood


@pytest.mark.parametrize("ddof", [0, 1])
def test_fit_matches_numpy(rows, ddof):
    fitted = Gaussian.fit(rows, ddof=ddof)
    np.testing.assert_allclose(fitted.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(fitted.cov, np.cov(rows.T, ddof=ddof), rtol=1e-12)


def test_weight_two_is_the_row_twice_and_weight_zero_is_absent(rows):
    weights = np.ones(40)
    weights[0], weights[1] = 2.0, 0.0
    weighted = Gaussian.fit(np.where(np.arange(40)[:, None] == 1, np.inf, rows), weights)
    copied = Gaussian.fit(np.concatenate([rows[:1], rows[:1], rows[2:]]))
    np.testing.assert_allclose(weighted.mean, copied.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.cov, copied.cov, rtol=1e-12)


def test_fit_from_statistics_and_at_a_stationary_point(rows):
    fitted = Gaussian.fit(rows)
    by_statistics = maximum_likelihood(Gaussian(np.zeros(3), np.eye(3)), rows)
    np.testing.assert_allclose(by_statistics.cov, fitted.cov, rtol=1e-10)
    slopes = jax.grad(lambda g: log_likelihood(g, rows))(fitted)
    assert np.abs(slopes.mean).max() < 1e-10
    assert np.abs(slopes.cov + slopes.cov.T).max() < 1e-9


def test_dataset_log_likelihood_formula(rows):
    fitted = Gaussian.fit(rows)
    n, d = rows.shape
    expected = -n / 2 * np.log(np.linalg.det(fitted.cov)) - n * d / 2 - n * d / 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_likelihood(fitted, rows), expected, rtol=1e-12)


def test_a_large_mean_costs_no_digits(rows):
    fitted = Gaussian.fit(rows + 1e8)
    np.testing.assert_allclose(fitted.cov, np.cov((rows + 1e8).T, ddof=0), rtol=1e-7)


def test_one_gaussian_underfits_two_clusters():
    """The single-Gaussian fit of a bimodal data set: mean between the modes, where the data are not."""
    xs = np.concatenate([np.full((50, 1), -3.0), np.full((50, 1), 3.0)]) + np.linspace(-1, 1, 100)[:, None]
    fitted = Gaussian.fit(xs)
    np.testing.assert_allclose(fitted.mean, xs.mean(0), atol=1e-12)
    assert float(fitted.prob(np.zeros(1))) > float(fitted.prob(np.array([3.0])))


@pytest.mark.parametrize(
    ("xs", "weights", "ddof", "message"),
    [
        (np.c_[np.arange(5.0), np.ones(5)], None, 0, r"`xs` must be free of constant columns; got columns"),
        (
            np.c_[np.arange(5.0), 2 * np.arange(5.0)],
            None,
            0,
            "`xs` must be rows that span all columns; got 5",
        ),
        (np.arange(5.0), None, 0, r"`xs` must be a matrix of rows, shape \(n, d\); got shape \(5,\)"),
        (np.array([[1.0, 2.0], [np.nan, 0.0]]), None, 0, r"`xs` must be finite; got nan at index \(1, 0\)"),
        (np.eye(2), np.ones(3), 0, r"`weights` must be one number per row, shape \(2,\)"),
        (np.eye(2), np.array([1.0, -1.0]), 0, "`weights` must be zero or positive, and finite; got -1.0 at"),
        (np.eye(2), None, 2, "`weights` must be more than ddof = 2 in total; got 2.0"),
    ],
)
def test_data_without_a_fit_are_refused(xs, weights, ddof, message):
    with pytest.raises(ValueError, match=message):
        Gaussian.fit(xs, weights, ddof=ddof)


def test_inside_jit_a_constant_column_gives_nan_not_a_number():
    xs = jnp.asarray(np.c_[np.arange(5.0), np.ones(5)])
    assert np.isnan(jax.jit(lambda xs: Gaussian.fit(xs).log_prob(xs[0]))(xs))


# Bad input


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        (0.0, 1.0, r"`mean` must be a vector; got shape \(\). For one number use `Normal`"),
        (np.zeros(2), np.eye(3), r"`mean` must be as long as `cov` is wide \(3\); got length 2"),
        (np.zeros(2), np.zeros((2, 3)), r"`cov` must be a square matrix; got shape \(2, 3\)"),
        (np.zeros(2), -np.eye(2), "`cov` must be a symmetric positive semi-definite matrix; got"),
        (np.zeros(2), [[1.0, 0.5], [0.0, 1.0]], "`cov` must be a symmetric positive semi-definite matrix"),
        (np.zeros(2), [[1.0, np.nan], [np.nan, 1.0]], "`cov` must be a symmetric positive semi-definite"),
        ([0.0, np.nan], np.eye(2), "`mean` must be finite; got nan at index 1"),
        (np.zeros((3, 2)), np.stack([np.eye(2)] * 4), r"`mean` must be of leading axes that broadcast"),
    ],
)
def test_bad_parameters_are_refused_by_name(mean, cov, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(mean, cov)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.marginal([0, 0]), r"`indices` must be distinct; got \[0, 0\]"),
        (lambda g: g.marginal([3]), "`indices` must be coordinates from 0 to 2; got 3 at index 0"),
        (lambda g: g.marginal([]), "`indices` must be a non-empty list of whole numbers"),
        (lambda g: g.conditional([0, 1, 2], np.zeros(3)), "`indices_known` must be fewer than all 3 coord"),
        (lambda g: g.conditional([0], np.zeros(2)), r"`values` must be of shape \(1,\); got shape \(2,\)"),
        (lambda g: g.log_prob(np.zeros(2)), r"`x` must be an array whose last axes have shape \(3,\)"),
        (lambda g: condition(g, np.eye(2), g, np.zeros(3)), r"`cross` must be of shape \(3, 3\); got shape"),
        (lambda g: condition(g, np.eye(3), g, np.zeros(2)), r"`given` must be of shape \(3,\); got shape"),
        (lambda g: g.expand((2,)).mahalanobis(np.zeros((2, 3))), "`Gaussian` must be without leading axes"),
    ],
)
def test_bad_calls_are_refused_by_name(gaussian, call, message):
    with pytest.raises(ValueError, match=message):
        call(gaussian)


def test_a_missing_argument_is_refused():
    with pytest.raises(TypeError, match="cov"):
        Gaussian(np.zeros(2))
