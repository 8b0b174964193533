"""Wasserstein distances: sorting, quantiles, Gaussians, the linear program and its dual, disjoint
supports.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import sqrtm

from tractable.distributions.atoms import Empirical, PointMass
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.transport import (
    optimal_transport,
    transport_cost,
    wasserstein,
    wasserstein_gaussian,
    wasserstein_samples,
)
from tractable.distributions.waiting import Pareto

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=12), RNG.normal(size=8) + 0.7
A, B = RNG.random(12), RNG.random(8)
COVS = [m @ m.T for m in RNG.normal(size=(2, 3, 3))]


def test_weighted_samples_match_scipy():
    ours = wasserstein_samples(X, Y, x_weights=A, y_weights=B)
    np.testing.assert_allclose(ours, scipy.stats.wasserstein_distance(X, Y, A, B), rtol=1e-13)
    np.testing.assert_allclose(wasserstein(X, Y), scipy.stats.wasserstein_distance(X, Y), rtol=1e-13)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5])
def test_sorting_is_the_linear_program(order):
    cost = np.abs(X[:, None] - Y[None]) ** order
    program = optimal_transport(cost, A, B).cost ** (1 / order)
    np.testing.assert_allclose(wasserstein_samples(X, Y, order, x_weights=A, y_weights=B), program, rtol=1e-9)


@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4), st.integers(-3, 3))
def test_shift_moves_every_point_alike(values, shift):
    """W(x, x + c) = |c| for every order, also with ties; W is symmetric."""
    x = np.array(values, float)
    np.testing.assert_allclose(wasserstein(x, x + shift, 2.0), abs(shift), atol=1e-12)
    other = np.array([0.0, 1.0, -2.0, 0.5])
    np.testing.assert_allclose(wasserstein(x, other), wasserstein(other, x), atol=1e-13)


def test_duality_and_complementary_slackness():
    """Kantorovich: the potentials are feasible, cost the same, and are tight wherever mass moves."""
    cost = RNG.random((12, 8))
    found = optimal_transport(cost, A, B)
    np.testing.assert_allclose(found.plan.sum(1), A / A.sum(), atol=1e-12)
    np.testing.assert_allclose(found.plan.sum(0), B / B.sum(), atol=1e-12)
    slack = cost - found.row_potential[:, None] - found.column_potential[None]
    assert float(slack.min()) > -1e-10
    assert float(jnp.abs(found.plan * slack).max()) < 1e-10
    assert abs(float(found.gap)) < 1e-10


def test_kantorovich_rubinstein_critic_is_lipschitz():
    """For a metric cost the row potential extends to a 1-Lipschitz critic whose means differ by W1."""
    points = RNG.normal(size=(10, 2))
    cost = transport_cost(points, points, 1.0)
    a, b = RNG.random(10), RNG.random(10)
    found = optimal_transport(cost, a, b)
    critic = (np.asarray(cost) - np.asarray(found.column_potential)[None]).min(1)
    assert (np.abs(critic[:, None] - critic[None]) <= np.asarray(cost) + 1e-10).all()
    np.testing.assert_allclose(critic @ (a / a.sum() - b / b.sum()), found.cost, atol=1e-10)


def test_equal_clouds_are_matched_as_the_program_does():
    x, y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 2))
    program = optimal_transport(transport_cost(x, y, 2.0)).cost
    np.testing.assert_allclose(wasserstein(x, y, 2.0) ** 2, program, rtol=1e-10)
    assert wasserstein(x, y[:5]).shape == ()


def test_normals_have_the_closed_form():
    np.testing.assert_allclose(wasserstein(Normal(0.0, 1.0), Normal(1.0, 2.0), 2.0), np.sqrt(2.0), rtol=1e-11)
    rows = wasserstein(Normal(jnp.zeros(3), 1.0), Normal(1.0, 2.0 * jnp.ones(3)), 2.0)
    np.testing.assert_allclose(rows, np.sqrt(6.0), rtol=1e-11)


def test_quantiles_match_the_area_between_distribution_functions():
    """W1 = int |F - G| dx; the two quantile functions cross, which is a kink of the integrand."""
    p, q = scipy.stats.norm(0.3, 1.0), scipy.stats.norm(0.0, 2.5)
    area = sum(
        quad(lambda x: abs(p.cdf(x) - q.cdf(x)), a, b, epsabs=1e-12)[0] for a, b in ((-30, 0.5), (0.5, 30))
    )
    np.testing.assert_allclose(wasserstein(Normal(0.3, 1.0), Normal(0.0, 2.5)), area, rtol=1e-9)


def test_heavy_tails_are_computed_or_refused():
    """E[x^2] is 3 for Pareto(3): W2 to its double is sqrt 3; infinite for Pareto(2), and NaN close by."""
    np.testing.assert_allclose(wasserstein(Pareto(3.0, 1.0), Pareto(3.0, 2.0), 2.0), np.sqrt(3.0), rtol=1e-8)
    assert np.isinf(wasserstein(Pareto(2.0, 1.0), Pareto(2.0, 2.0), 2.0))
    assert np.isnan(wasserstein(Pareto(2.01, 1.0), Pareto(2.01, 2.0), 2.0))


def test_discrete_numbers_are_compared_exactly():
    """W1 = sum |F - G| for counts; a point mass and a normal: W2^2 = (m - v)^2 + s^2."""
    k = np.arange(60)
    gap = np.abs(scipy.stats.poisson(3.0).cdf(k) - scipy.stats.poisson(4.5).cdf(k)).sum()
    np.testing.assert_allclose(wasserstein(Poisson(3.0), Poisson(4.5)), gap, rtol=1e-12)
    np.testing.assert_allclose(wasserstein(PointMass(1.0), Normal(0.0, 2.0), 2.0), np.sqrt(5.0), rtol=1e-10)
    data = Empirical(X, A)
    np.testing.assert_allclose(
        wasserstein(data, Empirical(Y, B)), wasserstein_samples(X, Y, x_weights=A, y_weights=B)
    )


def test_bures_distance_matches_matrix_square_roots():
    p, q = Gaussian(jnp.zeros(3), COVS[0]), Gaussian(jnp.ones(3), COVS[1])
    root = sqrtm(COVS[0])
    expected = 3 + np.trace(COVS[0] + COVS[1] - 2 * sqrtm(root @ COVS[1] @ root)).real
    np.testing.assert_allclose(wasserstein_gaussian(p, q, squared=True), expected, rtol=1e-10)
    np.testing.assert_allclose(wasserstein(p, q, 2.0) ** 2, expected, rtol=1e-10)
    assert float(wasserstein_gaussian(p, p)) < 1e-14


def test_bures_distance_to_a_line():
    """A singular covariance: W2^2 = |m|^2 + 1 + tr S - 2 sqrt(S_11)."""
    flat = Gaussian(jnp.zeros(3), jnp.diag(jnp.array([1.0, 0.0, 0.0])))
    expected = 3 + 1 + np.trace(COVS[1]) - 2 * np.sqrt(COVS[1][0, 0])
    value = wasserstein_gaussian(flat, Gaussian(jnp.ones(3), COVS[1]), squared=True)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_bures_gradient_matches_differences():
    q = Gaussian(jnp.zeros(3), COVS[1])

    @jax.jit
    def squared(cov):
        return wasserstein_gaussian(Gaussian(jnp.zeros(3), cov), q, squared=True)

    slope = jax.grad(squared)(jnp.asarray(COVS[0]))
    nudge = np.zeros((3, 3))
    nudge[0, 1] = nudge[1, 0] = 1e-5
    numeric = (squared(COVS[0] + nudge) - squared(COVS[0] - nudge)) / 2e-5
    np.testing.assert_allclose(slope[0, 1] + slope[1, 0], numeric, rtol=1e-6)


def test_program_gives_envelope_gradients_inside_jit():
    cost = jnp.asarray(RNG.random((4, 3)))
    weights = jnp.asarray([0.1, 0.4, 0.3, 0.2])

    def value(c, a):
        return optimal_transport(c, a).cost

    by_cost, by_weight = jax.jit(jax.grad(value, (0, 1)))(cost, weights)
    np.testing.assert_allclose(by_cost, optimal_transport(cost, weights).plan, atol=1e-12)
    nudge = np.array([1e-5, -1e-5, 0.0, 0.0])
    numeric = (value(cost, weights + nudge) - value(cost, weights - nudge)) / 2e-5
    np.testing.assert_allclose(by_weight[0] - by_weight[1], numeric, rtol=1e-6)


@pytest.mark.parametrize("theta", [0.7, -0.3])
def test_parallel_lines_have_a_distance_with_a_slope(theta):
    """P = {0} x U(0, 1), Q = {theta} x U(0, 1): W1 = |theta| with gradient sign(theta)."""
    heights = jnp.linspace(0.0, 1.0, 6)

    def distance(shift):
        left, right = (jnp.stack([jnp.full(6, at), heights], 1) for at in (0.0, shift))
        return wasserstein(left, right)

    np.testing.assert_allclose(distance(theta), abs(theta), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(distance)(theta), np.sign(theta), rtol=1e-12)
    on_line = jax.grad(lambda shift: wasserstein(jnp.zeros(4), jnp.full(4, shift)))(theta)
    np.testing.assert_allclose(on_line, np.sign(theta), rtol=1e-12)


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match=r"`order` must be a number of at least 1; got 0\.5"):
        wasserstein(X, Y, 0.5)
    with pytest.raises(
        ValueError, match=r"`x_weights` must be zero or positive, and finite; got -1\.0 at index 1"
    ):
        wasserstein_samples(X[:2], Y, x_weights=np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="`cost` must be finite; got nan"):
        optimal_transport(np.array([[np.nan]]))
    with pytest.raises(ValueError, match=r"`order` must be 2 for distributions of shape \(3,\)"):
        wasserstein(Normal(jnp.zeros(3), 1.0), Normal(jnp.ones(3), 1.0))
    with pytest.raises(TypeError, match="`q` must be a distribution exactly if `p` is"):
        wasserstein(Normal(0.0, 1.0), X)
