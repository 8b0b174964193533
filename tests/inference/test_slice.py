"""Slice samplers against nested loops, exact laws, quadrature, importance sampling and enumeration."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as ss

from tests.inference.many_chains import SMALLEST, advance, assert_invariant, hard_density, hard_draws, moved
from tests.oracles.slice import cluster_matrix, potts_log_weights, slice_sweep
from tractable.core.iterate import count_traces
from tractable.core.streams import Stream
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.special import log_ndtr
from tractable.inference.chains.finite_chains import (
    check_kernel,
    detailed_balance_error,
    gibbs_kernel,
    gibbs_matrix,
    stationary,
)
from tractable.inference.gibbs.swendsen_wang import SwendsenWang, grid_edges
from tractable.inference.samplers.elliptical import EllipticalSlice
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.slice import SliceSampler


def normal_density(x):
    return -0.5 * (x**2).sum()


# the extended space


def test_the_auxiliary_variable_integrates_out():
    """The integral of pi(x, u) = 1[0 < u < f(x)]/Z over u is f(x)/Z, by midpoints in both variables."""
    x = np.linspace(-12, 5, 4001)
    f = np.exp(2 * x - np.exp(x))
    u = (np.arange(20_000) + 0.5) / 20_000 * f.max()
    below = np.searchsorted(u, f) * (u[1] - u[0])  # the mass of the indicator over u, for each x
    np.testing.assert_allclose(below, f, atol=u[1] - u[0])
    total = below.sum() * (x[1] - x[0])
    np.testing.assert_allclose(below / total, ss.loggamma(2.0).pdf(x), atol=2e-4)


def test_detailed_balance_of_the_extension_on_a_histogram():
    """Columns of 5, 3, 8 and 1 blocks, each block as likely: both conditionals are reversible on (x, u), and
    the chain of x alone is reversible for (5, 3, 8, 1)/17."""
    heights = np.array([5, 3, 8, 1])
    joint = (np.arange(8)[None, :] < heights[:, None]) / 17.0
    np.testing.assert_allclose(joint.sum(1), heights / 17)
    cells = joint.ravel()
    for axis in (0, 1):
        assert float(detailed_balance_error(gibbs_kernel(joint, axis), cells)) < 1e-17
    inside = cells > 0
    sweep = np.asarray(gibbs_matrix(joint, [1, 0]))[np.ix_(inside, inside)]
    np.testing.assert_allclose(stationary(sweep), 1 / 17, rtol=1e-12)
    level = joint / joint.sum(1, keepdims=True)  # u given x
    column = joint / joint.sum(0, keepdims=True)  # x given u
    report = check_kernel(column @ level.T, heights)
    assert report.verdict.ok
    assert float(report.detailed_balance_error) < 1e-16


# the sampler on lines


def lines_of(sampler, stream, size):
    width = np.broadcast_to(np.asarray(sampler.width), (size,))
    if sampler.lines == "direction":
        z = np.asarray(stream.normal(jnp.arange(size)))
        return [width * z / np.linalg.norm(z)]
    order = np.arange(size)
    if sampler.lines == "random":
        order = np.argsort(np.asarray(stream.uniform(jnp.arange(size))))
    return [width[j] * np.eye(size)[j] for j in order]


def hard_density_numpy(x):
    with np.errstate(all="ignore"):
        bounded = np.log(x[2]) + 0.5 * np.log1p(-x[2]) if 0 < x[2] < 1 else -np.inf
        return 2 * x[0] - np.exp(x[0]) - 2 * np.log1p(x[1] ** 2 / 3) + bounded


@pytest.mark.parametrize(
    "sampler",
    [
        SliceSampler(0.7),
        SliceSampler([0.1, 2.0, 3.0], "random", max_expansions=3),
        SliceSampler(1.5, "direction"),
    ],
    ids=["systematic", "random", "direction"],
)
def test_a_step_is_that_of_nested_loops(sampler):
    """Number for number: where it goes, how many densities it takes, and whether it saturates."""
    starts, keys = hard_draws(40, seed=3), jr.split(jr.key(0), 40)
    pairs = jax.vmap(jr.split)(jr.clone(keys))
    result = advance(sampler, hard_density, jnp.asarray(starts), keys[None])
    info = result.trace[2]
    saturations = []
    for i, x in enumerate(starts):
        stream, numbers = (Stream.of(jr.clone(pairs[i, j])) for j in (0, 1))
        lines = lines_of(sampler, stream, 3)
        uniforms = np.asarray(numbers.uniform(jnp.arange(400)))
        expected, count, saturated = slice_sweep(
            hard_density_numpy, x, lines, lambda i, u=uniforms: u[i], sampler.max_expansions
        )
        np.testing.assert_allclose(result.state.position[i], expected, rtol=1e-10, atol=1e-12)
        assert int(info.num_gradients[0, i]) == count
        assert bool(info.saturated[0, i]) == saturated
        saturations.append(saturated)
    assert any(saturations) == (sampler.max_expansions == 3)


@pytest.mark.parametrize(
    "sampler",
    [
        SliceSampler(0.3, max_expansions=2),
        SliceSampler([0.3, 5.0, 1.0], "random"),
        pytest.param(SliceSampler(0.5, "direction"), marks=pytest.mark.slow),
        pytest.param(SliceSampler(), marks=pytest.mark.slow),
        pytest.param(SliceSampler(1.0, max_expansions=0), marks=pytest.mark.slow),
    ],
    ids=["few-expansions", "random", "direction", "systematic", "none"],
)
def test_slices_leave_hard_laws_invariant(sampler):
    result = assert_invariant(sampler, num_steps=5 if sampler.lines != "direction" else 10)
    info = result.trace[2]
    assert not np.asarray(info.undefined).any()
    acceptance = np.asarray(info.acceptance)
    assert ((acceptance > 0) & (acceptance <= 1)).all()


def two_bumps(x):
    return jnp.logaddexp(-0.5 * ((x[0] - 3) / 0.5) ** 2, jnp.log(0.3) - 0.5 * (x[0] + 3) ** 2)


def test_slices_in_several_pieces():
    """Two modes: the slice falls apart, and stepping out may stop in the gap; the law stays all the same."""
    rng = np.random.default_rng(4)
    left = rng.random(10_000) < 0.3 / (0.3 + 0.5)
    starts = np.where(left, rng.normal(-3, 1, 10_000), rng.normal(3, 0.5, 10_000))[:, None]
    result = moved(SliceSampler(1.0), two_bumps, starts, 5, 10)
    ends = np.asarray(result.state.position)[:, 0]
    weight = 0.3 / 0.8

    def cdf(x):
        return weight * ss.norm.cdf(x, -3, 1) + (1 - weight) * ss.norm.cdf(x, 3, 0.5)

    assert ss.kstest(ends, cdf).pvalue > SMALLEST
    assert ((ends < 0) != (starts[:, 0] < 0)).mean() > 0.001  # some cross


def test_it_forgets_a_far_start_without_tuning():
    """From 1000 widths away, with expansions enough, the chains arrive; the effort says so."""
    result = moved(SliceSampler(1.0, max_expansions=3000), normal_density, np.full((300, 1), 1000.0), 6, 20)
    assert ss.kstest(np.asarray(result.state.position)[:, 0], ss.norm.cdf).pvalue > SMALLEST
    effort = np.asarray(result.trace[2].num_gradients)
    assert effort[0].mean() > 1000 > 10 > effort[-1].mean()


def test_limits_are_reported():
    """A flat density without ends saturates its expansions; one that is lost on a line stays where it is."""
    flat = moved(SliceSampler(1.0, max_expansions=4), lambda x: 0.0 * x.sum(), np.zeros((20, 2)), 7, 3)
    info = flat.trace[2]
    assert np.asarray(info.saturated).all()
    np.testing.assert_array_equal(
        info.num_gradients, 2 * (4 + 2 + 1)
    )  # on each line: four steps, two ends, one

    def needle(x):
        return jnp.where(jnp.abs(x[0] - 0.25) < 1e-9, 0.0, -jnp.inf)

    stuck = moved(SliceSampler(1.0, max_shrinks=3), needle, np.full((20, 1), 0.25), 8, 1)
    np.testing.assert_array_equal(stuck.state.position, 0.25)
    assert np.asarray(stuck.trace[2].saturated).all()
    np.testing.assert_array_equal(stuck.trace[2].num_gradients, 5)
    np.testing.assert_array_equal(stuck.trace[2].acceptance, 0)


def test_a_region_without_numbers_is_never_entered_and_is_reported():
    def broken(x):
        return jnp.where(x[0] > 0.5, jnp.nan, normal_density(x))

    result = moved(SliceSampler(), broken, np.zeros((50, 1)), 9, 40)
    assert np.asarray(result.trace[0]).max() <= 0.5
    assert 0.3 < np.asarray(result.trace[2].undefined).mean() < 1


def test_many_dimensions_in_single_precision_and_one_density_per_program():
    counted = count_traces(normal_density)
    starts = jnp.asarray(np.random.default_rng(5).normal(size=(20, 200)), jnp.float32)
    result = moved(SliceSampler(), counted, starts, 10, 3)
    assert result.state.position.dtype == jnp.float32
    draws = np.asarray(result.state.position).ravel()
    assert ss.kstest(draws, ss.norm.cdf).pvalue > SMALLEST
    effort = np.asarray(result.trace[2].num_gradients) / 200
    assert ((effort > 4) & (effort < 7)).all()
    assert counted.count == 2  # to begin, and in the loop


def test_bad_slice_options_are_refused():
    with pytest.raises(ValueError, match=r"`width` must be positive and finite; got 0.0"):
        SliceSampler(0.0)
    with pytest.raises(
        ValueError, match=r"`lines` must be one of 'systematic', 'random', 'direction'; got 'up'"
    ):
        SliceSampler(lines="up")
    with pytest.raises(ValueError, match=r"`max_expansions` must be a whole number of at least 0"):
        SliceSampler(max_expansions=-1)
    with pytest.raises(ValueError, match=r"`width` must be one number, or of shape \(3,\); got shape \(2,\)"):
        SliceSampler([1.0, 2.0]).init(normal_density, jnp.zeros(3), jr.key(0))
    with pytest.raises(ValueError, match=r"`position` must be a vector of numbers; got shape \(2, 2\)"):
        SliceSampler().init(normal_density, jnp.zeros((2, 2)), jr.key(0))


# ellipses

PRIOR = Gaussian(jnp.asarray([1.0, -1.0]), jnp.asarray([[1.0, 0.5], [0.5, 2.0]]))


def test_a_gaussian_likelihood_has_the_conjugate_posterior():
    mean, cov = np.array([1.0, -1.0]), np.array([[1.0, 0.5], [0.5, 2.0]])
    posterior = np.linalg.inv(np.linalg.inv(cov) + 2 * np.eye(2))
    centre = posterior @ (np.linalg.solve(cov, mean) + 2 * np.array([2.0, 2.0]))
    starts = np.random.default_rng(6).multivariate_normal(centre, posterior, 10_000)
    result = moved(EllipticalSlice(PRIOR), lambda f: -((f - 2.0) ** 2).sum(), starts, 11, 10)
    z = np.linalg.solve(np.linalg.cholesky(posterior), (np.asarray(result.state.position) - centre).T)
    assert all(ss.kstest(row, ss.norm.cdf).pvalue > SMALLEST for row in z)
    assert abs(np.corrcoef(z)[0, 1]) < 5 / np.sqrt(10_000)
    assert not np.asarray(result.trace[2].saturated).any()


def test_without_data_it_draws_from_the_prior_at_one_density_per_step():
    starts = np.asarray(PRIOR.sample(jr.key(12), (10_000,)))
    result = moved(EllipticalSlice(PRIOR), lambda f: 0.0 * f.sum(), starts, 13, 2)
    np.testing.assert_array_equal(result.trace[2].num_gradients, 1)
    ends = np.asarray(result.state.position)
    z = np.linalg.solve(np.linalg.cholesky(np.asarray(PRIOR.cov)), (ends - np.asarray(PRIOR.mean)).T)
    assert all(ss.kstest(row, ss.norm.cdf).pvalue > SMALLEST for row in z)
    # f cos(angle) + other sin(angle) with a uniform angle is as often on one side as on the other
    assert abs(np.corrcoef(starts[:, 0], ends[:, 0])[0, 1]) < 5 / np.sqrt(10_000)


def test_two_classified_points_against_quadrature():
    """Labels 1 and 0 at two correlated values with a logit likelihood: moments by a product rule."""
    cov = np.array([[4.0, 3.0], [3.0, 4.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2) @ np.linalg.cholesky(cov).T
    w = np.outer(weights, weights).ravel() / ((1 + np.exp(-grid[:, 0])) * (1 + np.exp(grid[:, 1])))
    w /= w.sum()
    exact = np.array([w @ grid[:, 0], w @ grid[:, 1], w @ grid[:, 0] ** 2, w @ (grid[:, 0] * grid[:, 1])])

    def log_likelihood(f):
        return jax.nn.log_sigmoid(f[0]) + jax.nn.log_sigmoid(-f[1])

    result = moved(
        EllipticalSlice(Gaussian(jnp.zeros(2), jnp.asarray(cov))), log_likelihood, np.zeros((500, 2)), 14, 120
    )
    f = np.asarray(result.trace[0])[20:]
    found = np.stack([f[..., 0], f[..., 1], f[..., 0] ** 2, f[..., 0] * f[..., 1]]).mean(1)
    error = found.std(1, ddof=1) / np.sqrt(500)
    assert (np.abs(found.mean(1) - exact) < 5 * error).all()
    assert (error < 0.05).all()


def classification():
    """Twenty points on the line with labels from a wave, a squared-exponential prior, a probit likelihood."""
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(-3, 3, 20))
    signs = np.where(rng.random(20) < ss.norm.cdf(2 * np.sin(1.5 * x)), 1.0, -1.0)
    cov = 4 * np.exp(-0.5 * (x[:, None] - x[None, :]) ** 2) + 1e-6 * np.eye(20)
    return x, signs, cov


def importance_moments(signs, cov, num=50_000):
    """Posterior means and variances with their errors, from draws about the mode in whitened coordinates."""
    lower = np.linalg.cholesky(cov)
    z = np.zeros(20)
    for _ in range(50):  # Newton; the posterior is log-concave
        t = signs * (lower @ z)
        ratio = np.exp(ss.norm.logpdf(t) - ss.norm.logcdf(t))
        hessian = np.eye(20) + lower.T @ ((ratio * (ratio + t))[:, None] * lower)
        z = z - np.linalg.solve(hessian, z - lower.T @ (signs * ratio))
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    noise = np.random.default_rng(8).normal(size=(num, 20))
    noise *= np.sqrt(9 / np.random.default_rng(9).chisquare(9, num))[:, None]  # Student-t: bounded weights
    draws = z + noise @ root.T
    f = draws @ lower.T
    logs = ss.norm.logcdf(signs * f).sum(1) - 0.5 * (draws**2).sum(1) + 14.5 * np.log1p((noise**2).sum(1) / 9)
    w = np.exp(logs - logs.max())
    w /= w.sum()
    mean = w @ f
    square = (f - mean) ** 2
    variance = w @ square
    errors = np.sqrt(w**2 @ square), np.sqrt(w**2 @ (square - variance) ** 2)
    return mean, variance, *errors


def test_classification_by_a_gaussian_process_against_importance_sampling():
    _, signs, cov = classification()
    mean, variance, mean_error, variance_error = importance_moments(signs, cov)
    labels = jnp.asarray(signs)
    sampler = EllipticalSlice(Gaussian(jnp.zeros(20), jnp.asarray(cov)))
    result = moved(sampler, lambda f: log_ndtr(labels * f).sum(), np.zeros((100, 20)), 15, 300)
    f = np.asarray(result.trace[0])[100:]
    means, variances = f.mean(0), ((f - mean) ** 2).mean(0)  # of each chain
    for found, exact, error in ((means, mean, mean_error), (variances, variance, variance_error)):
        z = (found.mean(0) - exact) / np.hypot(error, found.std(0, ddof=1) / 10)
        assert np.abs(z).max() < 5, z
    assert mean_error.max() < 0.04
    effort = float(result.trace[2].num_gradients.mean())
    assert 1 < effort < 10


@pytest.mark.slow
def test_classification_by_a_gaussian_process_against_hamiltonian_chains():
    _, signs, cov = classification()
    lower, labels = jnp.linalg.cholesky(jnp.asarray(cov)), jnp.asarray(signs)
    sampler = EllipticalSlice(Gaussian(jnp.zeros(20), jnp.asarray(cov)))
    ellipses = moved(sampler, lambda f: log_ndtr(labels * f).sum(), np.zeros((100, 20)), 16, 1000)

    def whitened(z):
        return log_ndtr(labels * (lower @ z)).sum() - 0.5 * z @ z

    chains = moved(HMC(0.3, 8), whitened, np.zeros((100, 20)), 17, 400)
    assert float(chains.trace[2].acceptance.mean()) > 0.8
    first = np.asarray(ellipses.trace[0])[200:].mean(0)
    second = np.asarray(chains.trace[0])[100:].mean(0) @ np.asarray(lower).T
    spread = np.hypot(first.std(0, ddof=1), second.std(0, ddof=1)) / 10
    assert np.abs((first.mean(0) - second.mean(0)) / spread).max() < 5
    assert spread.max() < 0.1


def test_a_singular_prior_keeps_its_plane():
    line = Gaussian(jnp.zeros(2), jnp.ones((2, 2)))
    result = moved(EllipticalSlice(line), lambda f: -((f[0] - 1.0) ** 2), np.zeros((50, 2)), 18, 30)
    xs = np.asarray(result.trace[0])
    np.testing.assert_allclose(xs[..., 0], xs[..., 1], atol=1e-7)
    assert xs.std() > 0.3


def test_ellipses_report_what_stopped_them():
    def needle(f):
        return jnp.where((f == 0).all(), 0.0, -jnp.inf)

    stuck = moved(EllipticalSlice(PRIOR, max_shrinks=4), needle, np.zeros((10, 2)), 19, 1)
    np.testing.assert_array_equal(stuck.state.position, 0)
    assert np.asarray(stuck.trace[2].saturated).all()
    np.testing.assert_array_equal(stuck.trace[2].num_gradients, 4)

    def broken(f):
        return jnp.where(f[0] > 2, jnp.nan, 0.0 * f[0])

    holes = moved(EllipticalSlice(PRIOR), broken, np.zeros((50, 2)), 20, 20)
    assert np.asarray(holes.trace[0])[..., 0].max() <= 2
    assert np.asarray(holes.trace[2].undefined).any()


def test_ellipses_in_single_precision():
    prior = Gaussian(jnp.zeros(100, jnp.float32), jnp.eye(100, dtype=jnp.float32))
    result = moved(
        EllipticalSlice(prior), lambda f: -0.5 * (f**2).sum(), jnp.zeros((100, 100), jnp.float32), 21, 150
    )
    assert result.state.position.dtype == jnp.float32
    variance = np.asarray(result.state.position).var(1)
    assert abs(variance.mean() - 0.5) < 5 * variance.std(ddof=1) / 10


def test_bad_priors_are_refused():
    with pytest.raises(TypeError, match=r"`prior` must be a Gaussian with a `mean` and a `lower` or `cov`"):
        EllipticalSlice(3.0)
    with pytest.raises(ValueError, match=r"`prior` must be one Gaussian over vectors"):
        EllipticalSlice(Gaussian(jnp.zeros((2, 2)), jnp.eye(2)))
    with pytest.raises(ValueError, match=r"`position` must be of shape \(2,\); got shape \(3,\)"):
        EllipticalSlice(PRIOR).init(normal_density, jnp.zeros(3), jr.key(0))


# clusters


def test_cluster_moves_have_the_exact_transition_matrix():
    """A triangle under a field: one step from each labelling, against the sum over all sets of bonds."""
    edges = np.array([[0, 1], [1, 2], [0, 2]])
    coupling = np.array([0.9, 0.4, 1.5])
    weights = np.random.default_rng(10).normal(size=(3, 2))
    matrix = cluster_matrix(edges, coupling, weights)
    labels, logs = potts_log_weights(edges, coupling, weights)
    assert float(detailed_balance_error(matrix, np.exp(logs))) < 1e-15
    sampler = SwendsenWang(edges, coupling, 3, 2, weights)
    np.testing.assert_allclose(jax.vmap(sampler.log_density)(jnp.asarray(labels)), logs, atol=1e-12)
    result = moved(sampler, sampler.log_density, np.repeat(labels, 4000, 0), 22, 1)
    codes = (np.asarray(result.state.position) @ [4, 2, 1]).reshape((8, 4000))
    counts = np.stack([np.bincount(row, minlength=8) for row in codes], 1)
    z = (counts - 4000 * matrix) / np.sqrt(4000 * matrix * (1 - matrix))
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(result.trace[2].acceptance, 1, atol=1e-12)


def assert_labels_match(draws, labels, logs, edges):
    """Shares of every label at every site, and of agreement on every edge."""
    p = np.exp(logs - np.logaddexp.reduce(logs))
    for statistic in (
        lambda x: x[:, :, None] == np.arange(labels.max() + 1)[None, None],
        lambda x: x[:, edges[:, 0]] == x[:, edges[:, 1]],
        lambda x: (x[:, edges[:, 0]] == x[:, edges[:, 1]]).all(1),
    ):
        exact = np.tensordot(p, statistic(labels), 1)
        found = statistic(draws).mean(0)
        z = (found - exact) / np.sqrt(exact * (1 - exact) / len(draws))
        assert np.abs(z).max() < 5, z


def test_an_ising_grid_near_its_critical_coupling():
    """Three by three spins, all 512 states enumerated; every chain starts with all spins alike."""
    edges = grid_edges(3, 3)
    assert len(edges) == 12
    labels, logs = potts_log_weights(edges, np.full(12, 0.9), np.zeros((9, 2)))
    sampler = SwendsenWang(edges, 0.9, 9)
    result = moved(sampler, sampler.log_density, np.zeros((3000, 9), int), 23, 20)
    assert_labels_match(np.asarray(result.state.position), labels, logs, edges)


def test_another_target_is_reached_by_correction():
    """The clusters know nothing of a penalty on the first label of all sites; the ratio does."""
    edges = grid_edges(2, 3)
    labels, logs = potts_log_weights(edges, np.full(7, 0.7), np.zeros((6, 3)))
    sampler = SwendsenWang(edges, 0.7, 6, 3)

    def penalised(x):
        return sampler.log_density(x) - 0.4 * (x == 0).sum()

    result = moved(sampler, penalised, np.ones((3000, 6), int), 24, 30)
    assert_labels_match(np.asarray(result.state.position), labels, logs - 0.4 * (labels == 0).sum(1), edges)
    assert 0.3 < float(result.trace[2].acceptance.mean()) < 0.99


def test_bad_clusters_are_refused():
    edges = grid_edges(2, 2)
    with pytest.raises(ValueError, match=r"`coupling` must be zero or positive; got -1.0.*repel"):
        SwendsenWang(edges, -1.0, 4)
    with pytest.raises(ValueError, match=r"`edges` must be pairs of sites from 0 to 2; got .* at index 1"):
        SwendsenWang(edges, 1.0, 3)
    with pytest.raises(ValueError, match=r"`edges` must be pairs of sites, shape \(edges, 2\)"):
        SwendsenWang([0.5, 1.0], 1.0, 3)
    with pytest.raises(ValueError, match=r"`weights` must be of shape \(4, 2\); got shape \(4, 3\)"):
        SwendsenWang(edges, 1.0, 4, weights=np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"`position` must be whole numbers, one for each of 4 sites"):
        SwendsenWang(edges, 1.0, 4).init(lambda x: 0.0, jnp.zeros(4), jr.key(0))
