"""Processes of fixed size: elementary symmetric polynomials, probabilities, marginals, draws."""

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.oracles import subsets
from tractable.distributions.dpp import DPP
from tractable.distributions.dpp_determinants import log_elementary_symmetric, log_leave_one_out
from tractable.distributions.kdpp import KDPP

L3 = np.array([[2.8599, -0.4936, -1.8458], [-0.4936, 2.6264, -1.1437], [-1.8458, -1.1437, 2.0522]])


def test_worked_triple():
    totals = [np.exp(KDPP(L3, k).log_normaliser) for k in (1, 2, 3)]
    np.testing.assert_allclose(totals, [7.5385, 13.8115579, 0.1415720], rtol=1e-6)
    pairs = KDPP(L3, 2)
    found = pairs.prob(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]))
    np.testing.assert_allclose(found, [0.5261970, 0.1782644, 0.2955386], atol=5e-8)
    assert pairs.map_exact().tolist() == [1, 1, 0]
    assert pairs.map_greedy().tolist() == [1, 1, 0]


def test_similar_neurons_worked_pairs():
    """Three vectors (1,0,0), (0,1,0), (1,1,0) with L = exp(-squared distance)."""
    L = np.exp(-np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    found = KDPP(L, 2).prob(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]))
    np.testing.assert_allclose(found, [0.36210969, 0.31894516, 0.31894516], atol=5e-9)


@given(
    st.integers(0, 10**6), st.sampled_from([1, 3]), st.sampled_from([3, 5]), st.sampled_from([0.1, 1.0, 10.0])
)
def test_everything_is_the_listing(seed, size, rank, scale):
    L = subsets.random_kernel(seed, 5, rank=rank, scale=scale)
    process, rows = KDPP(L, size), subsets.masks(5)
    probs = subsets.set_probs(L, size)
    np.testing.assert_allclose(process.prob(rows), probs, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(process.mean, probs @ rows, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(process.mean.sum(), size, atol=1e-9)
    np.testing.assert_allclose(process.variance, process.mean * (1 - process.mean), atol=1e-15)


def test_entropy_and_exact_map():
    L = subsets.random_kernel(1, 5)
    probs = subsets.set_probs(L, 3)
    positive = probs[probs > 0]
    np.testing.assert_allclose(KDPP(L, 3).entropy(), -positive @ np.log(positive), rtol=1e-11)
    assert (np.asarray(KDPP(L, 3).map_exact()) == subsets.masks(5)[probs.argmax()]).all()


def test_process_is_a_mixture_over_its_size():
    """P(Y) = P(|Y| = k) P(Y | k), and |Y| is a sum of Bernoulli variables with the eigenvalues of K."""
    L = subsets.random_kernel(2, 5)
    process, rows = DPP(L), subsets.masks(5)
    log_size = process.size_log_probs()
    values = np.linalg.eigvalsh(L)
    np.testing.assert_allclose(np.exp(log_size), subsets.bernoulli_sum(values / (1 + values)), atol=1e-13)
    for k in (0, 2, 5):
        chosen = rows[rows.sum(1) == k]
        expected = process.log_prob(chosen)
        np.testing.assert_allclose(KDPP(L, k).log_prob(chosen) + log_size[k], expected, rtol=1e-9)


def test_elementary_symmetric_against_listing_and_high_precision():
    values = np.array([0.3, 2.0, 0.0, 5.0, 1e-3, 4.0])
    for order in (0, 3, 6):
        expected = subsets.elementary_symmetric(values, order)
        np.testing.assert_allclose(
            np.exp(log_elementary_symmetric(jnp.asarray(values), order)), expected, rtol=1e-13
        )
    # A thousand values over twelve decades: e_80 is outside double precision.
    values = np.exp(np.random.default_rng(0).uniform(-14, 14, size=1000))
    table = [mpmath.mpf(1)] + [mpmath.mpf(0)] * 80
    for value in values:
        for order in range(80, 0, -1):
            table[order] += table[order - 1] * mpmath.mpf(value)
    expected = float(mpmath.log(table[80]))
    np.testing.assert_allclose(log_elementary_symmetric(jnp.asarray(values), 80), expected, rtol=1e-12)
    assert expected > 710


def test_gradient_at_zero_and_repeated_eigenvalues():
    values = jnp.array([0.0, 2.0, 3.0])
    slope = jax.grad(log_elementary_symmetric)(values, 2)
    np.testing.assert_allclose(slope, np.array([5.0, 3.0, 2.0]) / 6, rtol=1e-13)
    np.testing.assert_allclose(np.exp(log_leave_one_out(values, 2)), [5.0, 3.0, 2.0], rtol=1e-13)
    x = jnp.array([1, 1, 0])
    slope = jax.grad(lambda L: KDPP(L, 2).log_prob(x))(jnp.eye(3))
    np.testing.assert_allclose(slope, np.diag([1, 1, -2]) / 3, atol=1e-13)

    def value(features):
        return KDPP(features @ features.T, 2).log_prob(x)

    features = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)))  # rank two of three
    step = jnp.zeros((3, 2)).at[2, 1].set(1e-6)
    numeric = (value(features + step) - value(features - step)) / 2e-6
    np.testing.assert_allclose(jax.grad(value)(features)[2, 1], numeric, rtol=1e-6)


def test_draws_have_the_probabilities_of_the_listing():
    L = subsets.random_kernel(3, 5, rank=3)  # as many items as the rank allows
    probs = subsets.set_probs(L, 3)
    draws = np.asarray(KDPP(L, 3).sample(jr.key(0), (40_000,)))
    assert (draws.sum(1) == 3).all()
    counts = np.bincount(subsets.set_index(draws), minlength=32)
    z = (counts / 40_000 - probs)[probs > 0] / np.sqrt(probs * (1 - probs) / 40_000)[probs > 0]
    assert np.abs(z).max() < 5
    assert stats.chi2(9).sf(subsets.chi_square(counts, probs)) > 1e-6


def test_draws_at_the_ends():
    L = subsets.random_kernel(4, 4)
    assert (np.asarray(KDPP(L, 4).sample(jr.key(1), (10,))) == 1).all()
    assert (np.asarray(KDPP(L, 0).sample(jr.key(2), (10,))) == 0).all()
    assert KDPP(L, 0).log_prob(jnp.zeros(4)) == 0
    assert KDPP(L, 2).log_prob(jnp.ones(4)) == -jnp.inf
    features = np.random.default_rng(2).normal(size=(4, 3))
    np.testing.assert_allclose(KDPP.from_features(features, 3).L, features @ features.T, rtol=1e-13)


def test_large_ground_set():
    """Four hundred items, twenty chosen: marginals sum to twenty, and the draws agree with them."""
    points = np.random.default_rng(3).uniform(size=(400, 2))
    L = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / (2 * 0.2**2)) + 0.01 * np.eye(400)
    process = KDPP(L, 20)
    mean = np.asarray(process.mean)
    np.testing.assert_allclose(mean.sum(), 20, rtol=1e-10)
    draws = np.asarray(process.sample(jr.key(4), (100,)))
    assert (draws.sum(1) == 20).all()
    left = points[:, 0] < 0.5
    counts = draws[:, left].sum(1)
    assert abs(counts.mean() - mean[left].sum()) < 5 * counts.std(ddof=1) / 10


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (4, "`size` must be a whole number from 0 to 3; got 4"),
        (-1, "`size` must be a whole number from 0 to 3; got -1"),
        (2, "`size` must be at most the rank of `L`, 1; got 2"),
    ],
)
def test_impossible_sizes_are_refused(size, message):
    with pytest.raises(ValueError, match=message):
        KDPP(np.ones((3, 3)), size)


def test_bad_kernel_is_refused():
    with pytest.raises(ValueError, match=r"`L` must be positive semi-definite; got the eigenvalue -1\.0"):
        KDPP(np.array([[1.0, 2.0], [2.0, 1.0]]), 1)
