"""Mutual information of arrays, Gaussians, rows and channels: loops, closed forms, bounds, errors."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import joint as oracle
from tractable.core.iterate import Status
from tractable.distributions.channels import channel_capacity, mutual_information_lower_bound
from tractable.distributions.divergence import kl_probs
from tractable.distributions.information import conditional_entropy, entropy
from tractable.distributions.information_estimates import (
    neighbour_mutual_information,
    plug_in_mutual_information,
)
from tractable.distributions.mutual_information import (
    gaussian_mutual_information,
    mutual_information,
    pointwise_mutual_information,
)
from tractable.distributions.tables import ConditionalTable, JointTable

cells = st.lists(st.floats(0, 1), min_size=12, max_size=12).filter(lambda w: sum(w) > 1e-2)


def as_joint(weights):
    p = np.asarray(weights).reshape(2, 3, 2)
    return p / p.sum()


@given(cells)
def test_mutual_information_matches_loops(weights):
    p = as_joint(weights)
    table = oracle.outcomes(p, [range(2), range(3), range(2)])
    plain = oracle.mutual_information(table, ["x", "y", "z"], ["x"], ["y"])
    np.testing.assert_allclose(mutual_information(p), plain, atol=1e-12)
    conditional = oracle.mutual_information(table, ["x", "y", "z"], ["x"], ["z"], ["y"])
    np.testing.assert_allclose(mutual_information(p, 0, 2, given=1), conditional, atol=1e-12)


@given(cells)
def test_four_forms_of_mutual_information_agree(weights):
    p = as_joint(weights).sum(2)
    px, py = p.sum(1), p.sum(0)
    value = mutual_information(p)
    np.testing.assert_allclose(value, entropy(px) + entropy(py) - entropy(p), atol=1e-12)
    np.testing.assert_allclose(value, entropy(px) - conditional_entropy(p, given=1), atol=1e-12)
    np.testing.assert_allclose(value, kl_probs(p.ravel(), np.outer(px, py).ravel()), atol=1e-12)
    assert float(value) >= -1e-14


@given(cells)
def test_chain_rule_of_mutual_information(weights):
    p = as_joint(weights)
    both = mutual_information(p, 0, (1, 2))
    np.testing.assert_allclose(
        both, mutual_information(p, 0, 2) + mutual_information(p, 0, 1, given=2), atol=1e-12
    )


def test_information_of_copies_and_of_independent_variables():
    p = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(mutual_information(np.diag(p)), entropy(p), rtol=1e-14)
    np.testing.assert_allclose(mutual_information(np.outer(p, [0.4, 0.6])), 0, atol=1e-16)


def test_high_information_with_zero_covariance():
    joint = np.array([[0, 1 / 3], [1 / 3, 0], [0, 1 / 3]])  # x in (-1, 0, 1), y = x^2 in (0, 1)
    x, y = np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0])
    assert abs(x @ joint @ y - (joint.sum(1) @ x) * (joint.sum(0) @ y)) < 1e-16
    np.testing.assert_allclose(mutual_information(joint), np.log(3) - 2 / 3 * np.log(2), rtol=1e-14)
    np.testing.assert_allclose(mutual_information(joint), 0.636514, atol=5e-7)
    np.testing.assert_allclose(mutual_information(joint, base=2), 0.636514 / np.log(2), atol=1e-6)


def test_pointwise_information_cell_by_cell():
    joint = np.array([[0.3, 0.0], [0.2, 0.5]])
    value = np.asarray(pointwise_mutual_information(joint))
    np.testing.assert_allclose(value[0, 0], np.log(0.3 / (0.3 * 0.5)), rtol=1e-14)
    np.testing.assert_allclose(value[1, 1], np.log(0.5 / (0.7 * 0.5)), rtol=1e-14)
    assert value[0, 1] == -np.inf
    assert np.isnan(pointwise_mutual_information(np.array([[0.5, 0.5], [0.0, 0.0]]))[1]).all()


def test_gradient_is_finite_at_impossible_cells_and_right_elsewhere():
    joint = jnp.array([[0.3, 0.0], [0.2, 0.5]])

    def value(eps):
        return mutual_information(joint + eps * jnp.array([[1.0, 0.0], [0.0, -1.0]]))

    slope = jax.grad(value)(0.0)
    np.testing.assert_allclose(slope, (value(1e-6) - value(-1e-6)) / 2e-6, rtol=1e-6)


def test_bad_axes_are_refused():
    p = np.full((2, 2), 0.25)
    with pytest.raises(ValueError, match=r"`first, second, given` must be without a common axis"):
        mutual_information(p, 0, 0)
    with pytest.raises(ValueError, match=r"`second` must be axes of an array with 2 axes; got \(5,\)"):
        mutual_information(p, 0, 5)
    with pytest.raises(ValueError, match=r"`first, second` must be at least one axis each"):
        mutual_information(p, 0, ())


def test_gaussian_information_of_a_correlation():
    np.testing.assert_allclose(gaussian_mutual_information([[1.0, 0.9], [0.9, 1.0]]), 0.8303656, atol=5e-8)
    np.testing.assert_allclose(
        gaussian_mutual_information([[4.0, 5.4], [5.4, 9.0]]), -0.5 * np.log(1 - 0.81), rtol=1e-13
    )
    np.testing.assert_allclose(gaussian_mutual_information(np.eye(2)), 0, atol=1e-16)


def test_gaussian_blocks_against_dense_determinants():
    root = np.random.default_rng(0).normal(size=(5, 5))
    cov = root @ root.T + np.eye(5)

    def determinant(*axes):
        return np.linalg.slogdet(cov[np.ix_(axes, axes)])[1] if axes else 0.0

    plain = 0.5 * (determinant(0, 1) + determinant(2, 4) - determinant(0, 1, 2, 4))
    np.testing.assert_allclose(gaussian_mutual_information(cov, (0, 1), (2, 4)), plain, rtol=1e-12)
    # Conditional information is that of the conditional covariance (a Schur complement).
    kept, z = [0, 2], [3]
    schur = cov[np.ix_(kept, kept)] - cov[np.ix_(kept, z)] @ cov[np.ix_(z, kept)] / cov[3, 3]
    expected = -0.5 * np.log(1 - schur[0, 1] ** 2 / (schur[0, 0] * schur[1, 1]))
    np.testing.assert_allclose(gaussian_mutual_information(cov, 0, 2, given=3), expected, rtol=1e-11)
    gradient = jax.grad(lambda r: gaussian_mutual_information(jnp.array([[1.0, r], [r, 1.0]])))(0.9)
    np.testing.assert_allclose(gradient, 0.9 / (1 - 0.81), rtol=1e-12)


def test_singular_covariance_is_refused():
    with pytest.raises(ValueError, match=r"`cov` must be a symmetric positive definite matrix; .* infinite"):
        gaussian_mutual_information([[1.0, 1.0], [1.0, 1.0]])


def test_plug_in_is_the_information_of_the_empirical_table():
    x, y = np.array(["a", "b", "a", "c", "b", "a"]), np.array([0, 1, 0, 1, 1, 1])
    table = {}
    for pair in zip(x.tolist(), y.tolist()):
        table[pair] = table.get(pair, 0) + 1 / 6
    expected = oracle.mutual_information(table, ["x", "y"], ["x"], ["y"])
    np.testing.assert_allclose(plug_in_mutual_information(x, y).value, expected, rtol=1e-13)
    corrected = plug_in_mutual_information(x, y, correct_bias=True).value
    np.testing.assert_allclose(corrected, expected - (4 - 3 - 2 + 1) / 12, rtol=1e-13)


def test_bias_correction_centres_the_estimate_for_independent_columns():
    keys = jr.split(jr.key(0), 36)
    draws = np.asarray(jax.vmap(lambda key: jr.randint(key, (200, 2), 0, 4))(keys))
    plain = np.array([plug_in_mutual_information(d[:, 0], d[:, 1]).value for d in draws])
    fixed = np.array([plug_in_mutual_information(d[:, 0], d[:, 1], correct_bias=True).value for d in draws])
    error = fixed.std(ddof=1) / 6
    assert plain.mean() / error > 10  # the truth is zero
    assert abs(fixed.mean()) < 5 * error


def test_neighbour_estimator_equals_its_definition():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    y[:, 0] += x[:, 0]
    found = neighbour_mutual_information(x, y, neighbours=4)
    np.testing.assert_allclose(found.value, oracle.neighbour_information(x, y, 4), rtol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_neighbour_estimator_on_gaussians(rho):
    z = np.asarray(jr.normal(jr.key(7), (30, 500, 2)))
    x, y = z[..., 0], rho * z[..., 0] + np.sqrt(1 - rho**2) * z[..., 1]
    found = [neighbour_mutual_information(a, b) for a, b in zip(x, y)]
    values = np.array([float(f.value) for f in found])
    error = values.std(ddof=1) / np.sqrt(len(values))
    truth = -0.5 * np.log(1 - rho**2)
    assert abs(values.mean() - truth) < 5 * error
    reported = np.mean([float(f.standard_error) for f in found])
    assert 0.5 < reported / values.std(ddof=1) < 2  # rows are nearly independent terms


def test_neighbour_estimator_refuses_ties_and_short_columns():
    x = np.repeat(np.arange(5.0), 4)
    with pytest.raises(
        ValueError, match=r"`x` must be rows whose neighbours lie at positive distances; got row 0 repeated"
    ):
        neighbour_mutual_information(x, x)
    with pytest.raises(
        ValueError, match=r"`neighbours` must be at least 1 and below the number of rows, 3; got 3"
    ):
        neighbour_mutual_information(np.arange(3.0), np.arange(3.0))
    with pytest.raises(ValueError, match=r"`y` must be as long as `x` \(3\); got 2"):
        neighbour_mutual_information(np.arange(3.0), np.arange(2.0), neighbours=1)
    with pytest.raises(ValueError, match=r"`x` must be finite; got nan at index 1"):
        neighbour_mutual_information(np.array([0.0, np.nan, 1.0]), np.arange(3.0), neighbours=1)


@pytest.fixture(scope="module")
def channel():
    """p(c) over three codes, p(x | c) over four outputs (one impossible), and the posterior p(c | x)."""
    prior = np.array([0.2, 0.5, 0.3])
    rows = np.array([[0.7, 0.1, 0.2, 0.0], [0.1, 0.8, 0.1, 0.0], [0.25, 0.25, 0.5, 0.0]])
    joint = prior[:, None] * rows
    evidence = joint.sum(0)
    posterior = np.where(evidence > 0, joint / np.where(evidence > 0, evidence, 1), 1 / 3).T
    return prior, rows, posterior


def test_variational_bound_is_tight_at_the_posterior(channel):
    prior, rows, posterior = channel
    information = mutual_information(prior[:, None] * rows)
    np.testing.assert_allclose(
        mutual_information_lower_bound(prior, rows, posterior), information, rtol=1e-12
    )


@given(st.lists(st.floats(0.01, 1), min_size=12, max_size=12))
def test_variational_bound_lies_below_by_the_mean_divergence(channel, weights):
    prior, rows, posterior = channel
    decoder = np.asarray(weights).reshape(4, 3)
    decoder /= decoder.sum(1, keepdims=True)
    bound = float(mutual_information_lower_bound(prior, rows, decoder))
    information = float(mutual_information(prior[:, None] * rows))
    assert bound <= information + 1e-12
    gap = sum(e * np.sum(p * np.log(p / q)) for e, p, q in zip(prior @ rows, posterior, decoder))
    np.testing.assert_allclose(information - bound, gap, atol=1e-12)


def test_variational_bound_of_a_decoder_that_excludes_what_occurs(channel):
    prior, rows, posterior = channel
    never = posterior.copy()
    never[0] = [0.0, 0.5, 0.5]
    assert mutual_information_lower_bound(prior, rows, never) == -np.inf
    with pytest.raises(ValueError, match=r"`decoder` must be one row per column of `channel` \(3, 4\)"):
        mutual_information_lower_bound(prior, rows, posterior[:3])
    with pytest.raises(ValueError, match=r"`channel` must be rows of probabilities"):
        mutual_information_lower_bound(prior, 2 * rows, posterior)


@given(st.lists(st.floats(-5, 5), min_size=12, max_size=12))
def test_resampling_lemma(channel, numbers):
    """E f(c, x) = E f(c', x), where c' is drawn anew from the posterior given x."""
    prior, rows, _ = channel
    f = jnp.asarray(numbers).reshape(3, 4)

    def value(c, x):
        return f[c.astype(int), x.astype(int)]

    joint = JointTable("c", prior) * ConditionalTable("x", "c", rows)
    posterior = joint.conditional_table("c", "x")
    again = ConditionalTable("again", "x", posterior.probs)
    resampled = (joint * again).expectation(value, "again", "x")
    np.testing.assert_allclose(resampled, np.sum(prior[:, None] * rows * np.asarray(f)), atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "bits"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], 1 + 0.9 * np.log2(0.9) + 0.1 * np.log2(0.1)),  # symmetric
        ([[0.7, 0.3, 0.0], [0.0, 0.3, 0.7]], 0.7),  # erasure
        ([[1.0, 0.0], [0.4, 0.6]], np.log2(1 + 0.6 * 0.4 ** (0.4 / 0.6))),  # one-sided
        ([[1.0, 0.0], [1.0, 0.0]], 0.0),  # useless
        (np.eye(3), np.log2(3)),  # without noise
    ],
)
def test_channel_capacity_of_known_channels(rows, bits):
    run = channel_capacity(np.asarray(rows))
    assert run.status is Status.converged
    capacity = run.state
    np.testing.assert_allclose(capacity.lower / np.log(2), bits, atol=1e-8)
    assert float(capacity.lower) <= bits * np.log(2) + 1e-12
    assert float(capacity.upper) >= bits * np.log(2) - 1e-12
    assert float(capacity.upper - capacity.lower) < 1e-4
    assert (np.diff(run.values) > -1e-14).all()


def test_capacity_bounds_the_information_of_every_input(channel):
    _, rows, _ = channel
    upper = float(channel_capacity(rows).state.upper)
    for weights in np.random.default_rng(2).dirichlet(np.ones(3), size=20):
        assert float(mutual_information(weights[:, None] * rows)) <= upper + 1e-12
