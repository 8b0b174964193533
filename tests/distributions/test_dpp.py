"""Determinantal point processes against the listing of all subsets, and the identities of their kernels."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import subsets
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.dpp import DPP
from tractable.distributions.dpp_determinants import (
    greedy_path,
    log_set_weights,
    log_superset_sum,
    squared_residuals,
    squared_volume,
    subset_masks,
)
from tractable.distributions.dpp_kernels import ensemble_kernel, loewner_leq, marginal_kernel

L3 = np.array([[2.8599, -0.4936, -1.8458], [-0.4936, 2.6264, -1.1437], [-1.8458, -1.1437, 2.0522]])
K3 = np.array(
    [
        [0.56604086, -0.16084238, -0.32270402],
        [-0.16084238, 0.62767442, -0.23678384],
        [-0.32270402, -0.23678384, 0.38848805],
    ]
)
# {}, {3}, {2}, {2,3}, {1}, {1,3}, {1,2}, {1,2,3}
P3 = [0.0444610, 0.0912428, 0.1167723, 0.1814830, 0.1271540, 0.1094678, 0.3231247, 0.0062944]
K2 = np.array([[0.3, -0.1], [-0.1, 0.4]])
MASKS = {n: subsets.masks(n) for n in (2, 3, 5)}

# Two sizes only: every new one compiles everything anew.
kernels = st.tuples(st.integers(0, 10**6), st.sampled_from([2, 5]), st.sampled_from([0.1, 1.0, 10.0]))


# --- marginal kernel -------------------------------------------------------------------------------------


def test_marginals_of_the_worked_pair():
    pair = DPP(K=K2)
    np.testing.assert_allclose(pair.inclusion_prob([0]), 0.3, rtol=1e-14)
    np.testing.assert_allclose(pair.inclusion_prob([1]), 0.4, rtol=1e-14)
    np.testing.assert_allclose(pair.inclusion_prob([0, 1]), 0.11, rtol=1e-14)
    assert pair.inclusion_prob([]) == 1
    np.testing.assert_allclose(pair.pair_probs, [[0.3, 0.11], [0.11, 0.4]], rtol=1e-14)
    np.testing.assert_allclose(pair.cov, [[0.21, -0.01], [-0.01, 0.24]], rtol=1e-14)


def test_inclusion_is_the_sum_over_supersets():
    """Items 1, 2, 3 of five: the four supersets of {1, 2, 3}."""
    L = subsets.random_kernel(0, 5)
    process, probs = DPP(L), subsets.set_probs(L)
    np.testing.assert_allclose(
        process.inclusion_prob([0, 1, 2]), subsets.inclusion(probs, [0, 1, 2]), rtol=1e-12
    )
    assert (MASKS[5][:, :3].all(1)).sum() == 4
    for items in ([4], [1, 3], [0, 1, 2, 3, 4]):
        np.testing.assert_allclose(process.inclusion_prob(items), subsets.inclusion(probs, items), rtol=1e-12)


@pytest.mark.parametrize("form", ["L", "K"])
def test_moments_are_those_of_the_listing(form):
    L = subsets.random_kernel(1, 5)
    process, probs, rows = DPP(L), subsets.set_probs(L), MASKS[5]
    process = DPP(K=process.K) if form == "K" else process
    mean = probs @ rows
    second = rows.T @ (probs[:, None] * rows)
    np.testing.assert_allclose(process.mean, mean, rtol=1e-11)
    np.testing.assert_allclose(process.cov, second - np.outer(mean, mean), atol=1e-12)
    np.testing.assert_allclose(process.pair_probs, second, atol=1e-12)
    np.testing.assert_allclose(process.variance, mean * (1 - mean), rtol=1e-11)
    sizes = rows.sum(1)
    np.testing.assert_allclose(process.expected_size, probs @ sizes, rtol=1e-11)
    np.testing.assert_allclose(process.size_variance, probs @ sizes**2 - (probs @ sizes) ** 2, rtol=1e-9)
    np.testing.assert_allclose(process.entropy(), -probs @ np.log(probs), rtol=1e-10)
    assert (np.asarray(process.cov)[~np.eye(5, dtype=bool)] <= 0).all()


@given(kernels)
def test_items_repel_each_other(case):
    """P(i, j in Y) <= P(i) P(j): negative correlation, with equality only for K_ij = 0."""
    seed, count, scale = case
    process = DPP(subsets.random_kernel(seed, count, scale=scale))
    pairs, mean = np.asarray(process.pair_probs), np.asarray(process.mean)
    off = ~np.eye(count, dtype=bool)
    assert (pairs <= np.outer(mean, mean) + 1e-12)[off].all()


# --- validity --------------------------------------------------------------------------------------------


def test_loewner_order():
    broken = np.array([[1.0, -0.5], [-0.5, 1.0]])
    zero, one = np.zeros((2, 2)), np.eye(2)
    np.testing.assert_allclose(np.linalg.eigvalsh(one - broken), [-0.5, 0.5], atol=1e-15)
    np.testing.assert_allclose(np.linalg.det(broken), 0.75)
    assert loewner_leq(zero, broken)
    assert not loewner_leq(broken, one)
    assert loewner_leq(zero, K2)
    assert loewner_leq(K2, one)
    np.testing.assert_allclose(np.linalg.eigvalsh(one - K2), [0.5382, 0.7618], atol=5e-5)
    assert loewner_leq(K2, K2)
    assert not loewner_leq([[0.0, 1.0], [0.0, 0.0]], one)  # the difference is not symmetric
    assert not loewner_leq(one, zero)


def test_contradictory_marginals_are_refused():
    """Both items surely there, yet not surely together."""
    with pytest.raises(ValueError, match=r"`K` must be at most the identity .*; got the eigenvalue 1\.5"):
        DPP(K=np.array([[1.0, -0.5], [-0.5, 1.0]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"L": [[1.0, 2.0], [2.0, 1.0]]}, r"`L` must be positive semi-definite; got the eigenvalue -1\.0"),
        ({"K": [[0.5, 0.6], [0.6, 0.5]]}, r"`K` must be positive semi-definite; got the eigenvalue -0\.0999"),
        ({"L": [[1.0, 2.0], [0.0, 1.0]]}, r"`L` must be symmetric; got entries that differ by 2\.0"),
        ({"L": [[1.0, 2.0]]}, r"`L` must be a square matrix .*; got shape \(1, 2\)"),
        ({"L": [[np.nan, 0.0], [0.0, 1.0]]}, r"`L` must be finite; got nan at index \(0, 0\)"),
        (
            {"L": np.zeros((0, 0))},
            r"`L` must be a square matrix with a row for each item; got shape \(0, 0\)",
        ),
        ({}, r"`L` must be given, or else `K`, not both; got neither"),
        ({"L": [[1.0]], "K": [[0.5]]}, r"`L` must be given, or else `K`, not both; got both"),
    ],
)
def test_bad_kernels_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DPP(**arguments)


# --- exact sets ------------------------------------------------------------------------------------------


def test_exact_sets_of_the_worked_pair():
    pair = DPP(K=K2)
    np.testing.assert_allclose(pair.prob(MASKS[2]), [0.41, 0.29, 0.19, 0.11], rtol=1e-13)
    np.testing.assert_allclose(pair.L, [[0.46341463, -0.24390244], [-0.24390244, 0.70731707]], atol=5e-9)
    np.testing.assert_allclose(np.exp(pair.log_normaliser), 1 / 0.41, rtol=1e-13)
    for method in ("determinant", "inclusion_exclusion"):
        found = [pair.exact_set_prob(np.flatnonzero(row), method=method) for row in MASKS[2]]
        np.testing.assert_allclose(found, [0.41, 0.29, 0.19, 0.11], rtol=1e-13)


def test_exact_sets_three_ways():
    L = subsets.random_kernel(2, 5)
    process, probs = DPP(L), subsets.set_probs(L)
    for method in ("determinant", "inclusion_exclusion"):
        found = [process.exact_set_prob(np.flatnonzero(row), method=method) for row in MASKS[5][::3]]
        np.testing.assert_allclose(found, probs[::3], atol=1e-13)
    np.testing.assert_allclose(DPP(K=process.K).prob(MASKS[5]), probs, atol=1e-13)


def test_sure_items_and_no_items():
    """K with eigenvalue 1 has no L, but set probabilities all the same; K = 0 is the empty set."""
    sure = DPP(K=np.diag([1.0, 0.25]))
    np.testing.assert_allclose(sure.prob(MASKS[2]), [0.0, 0.0, 0.75, 0.25], rtol=1e-14)
    np.testing.assert_allclose(np.exp(sure.set_log_probs()), [0.0, 0.0, 0.75, 0.25], rtol=1e-14)
    assert sure.log_prob(jnp.zeros(2)) == -jnp.inf
    assert sure.log_normaliser == jnp.inf
    np.testing.assert_allclose(np.exp(sure.size_log_probs()), [0.0, 0.75, 0.25], rtol=1e-14)
    nothing = DPP(K=np.zeros((2, 2)))
    np.testing.assert_allclose(nothing.prob(MASKS[2]), [1.0, 0.0, 0.0, 0.0])


def test_diagonal_kernel_is_independent_bernoulli():
    p = np.array([0.2, 0.5, 0.9])
    expected = np.prod(np.where(MASKS[3] == 1, p, 1 - p), axis=1)
    np.testing.assert_allclose(DPP(K=np.diag(p)).prob(MASKS[3]), expected, rtol=1e-13)


# --- ensemble --------------------------------------------------------------------------------------------


def test_ensemble_of_the_worked_triple():
    process = DPP(L3)
    np.testing.assert_allclose(np.exp(process.log_normaliser), 22.49162996, rtol=1e-9)
    np.testing.assert_allclose(process.prob(MASKS[3]), P3, atol=5e-8)
    np.testing.assert_allclose(np.exp(process.set_log_probs()), P3, atol=5e-8)
    np.testing.assert_allclose(process.prob(MASKS[3]).sum(), 1.0, rtol=1e-13)


@given(kernels)
def test_log_prob_is_the_listing(case):
    seed, count, scale = case
    L = subsets.random_kernel(seed, count, scale=scale)
    process = DPP(L)
    expected = subsets.set_probs(L)
    np.testing.assert_allclose(process.prob(subsets.masks(count)), expected, rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(np.exp(process.set_log_probs()), expected, rtol=1e-7, atol=1e-13)
    sizes = [expected[subsets.masks(count).sum(1) == k].sum() for k in range(count + 1)]
    np.testing.assert_allclose(np.exp(process.size_log_probs()), sizes, rtol=1e-7, atol=1e-13)


def test_log_prob_far_out_and_off_support():
    """Eigenvalues of 1e60 overflow the determinants, not their logarithms."""
    wide = DPP(1e60 * np.eye(5))
    np.testing.assert_allclose(wide.log_prob(jnp.ones(5)), -5 * np.log1p(1e-60), atol=1e-12)
    np.testing.assert_allclose(wide.log_prob(jnp.zeros(5)), -5 * np.log(1e60), rtol=1e-14)
    process = DPP(L3)
    assert process.log_prob(jnp.array([0.5, 0.0, 1.0])) == -jnp.inf
    assert process.log_prob(jnp.array([2, 0, 1])) == -jnp.inf
    assert np.isnan(process.log_prob(jnp.array([np.nan, 0.0, 1.0])))


def test_identical_items_never_meet():
    twins = DPP(np.array([[2.0, 2.0], [2.0, 2.0]]))
    assert twins.log_prob(jnp.ones(2)) == -jnp.inf
    np.testing.assert_allclose(twins.prob(MASKS[2]), [0.2, 0.4, 0.4, 0.0], rtol=1e-13)


def test_jit_vmap_grad_and_leading_axes():
    stack = np.stack([L3, 2 * L3])
    both = DPP(stack)
    assert both.shape == (2, 3)
    x = jnp.array([[1, 1, 0], [0, 1, 1]])
    apart = DPP(L3).log_prob(x[0]) + DPP(2 * L3).log_prob(x[1])
    np.testing.assert_allclose(both.log_prob(x), apart, rtol=1e-13)
    np.testing.assert_allclose(both.mean[1], DPP(2 * L3).mean, rtol=1e-13)
    np.testing.assert_allclose(both.log_normaliser, [DPP(L).log_normaliser for L in stack], rtol=1e-13)
    np.testing.assert_allclose(both.expected_size, [DPP(L).expected_size for L in stack], rtol=1e-13)
    lone = jax.jit(jax.vmap(lambda L, y: DPP(L).log_prob(y)))(stack, x)
    np.testing.assert_allclose(lone.sum(), apart, rtol=1e-13)

    def value(L):
        return DPP(L).log_prob(x[0])

    numeric = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = 1e-6
        numeric[i, j] = (_log_prob(L3 + step) - _log_prob(L3 - step)) / 2e-6
    np.testing.assert_allclose(jax.grad(value)(jnp.asarray(L3)), numeric, atol=1e-8)


def _log_prob(L):
    return np.log(np.linalg.det(L[:2, :2])) - np.log(np.linalg.det(L + np.eye(3)))


def test_single_precision_stays_single():
    process = DPP.from_features(np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32))
    assert process.kernel.dtype == np.float32
    assert process.mean.dtype == np.float32
    assert process.log_prob(jnp.zeros(6, np.float32)).dtype == np.float32
    assert marginal_kernel(process.L).dtype == np.float32


# --- features and volumes --------------------------------------------------------------------------------


def test_determinant_is_squared_volume():
    rows = np.random.default_rng(0).normal(size=(5, 7))
    process = DPP.from_features(rows)
    np.testing.assert_allclose(process.L, rows @ rows.T, rtol=1e-13)
    weights = np.exp(log_set_weights(process.L))
    for number in (3, 12, 22, 31):
        chosen = rows[MASKS[5][number] == 1]
        np.testing.assert_allclose(squared_volume(chosen), np.linalg.det(chosen @ chosen.T), rtol=1e-11)
        np.testing.assert_allclose(squared_volume(chosen), weights[number], rtol=1e-11)


def test_volume_recursion():
    """Vol^2 of k + 1 vectors is Vol^2 of k times the squared part of the last that is orthogonal to them."""
    rows = np.random.default_rng(1).normal(size=(4, 6))
    residuals = np.asarray(squared_residuals(rows))
    np.testing.assert_allclose(residuals, subsets.gram_schmidt(rows), rtol=1e-12)
    volumes = [np.linalg.det(rows[:k] @ rows[:k].T) for k in range(1, 5)]
    np.testing.assert_allclose(np.cumprod(residuals), volumes, rtol=1e-11)
    coefficients = np.linalg.lstsq(rows[:3].T, rows[3], rcond=None)[0]
    outside = rows[3] - coefficients @ rows[:3]
    np.testing.assert_allclose(rows[:3] @ outside, 0, atol=1e-13)
    np.testing.assert_allclose(outside @ outside, residuals[3], rtol=1e-12)
    np.testing.assert_allclose(np.diag(np.linalg.cholesky(rows @ rows.T)) ** 2, residuals, rtol=1e-11)
    assert squared_volume(rows[:, :2]) == 0  # four vectors in the plane


def test_rank_bounds_the_size():
    process = DPP.from_features(np.random.default_rng(2).normal(size=(5, 2)))
    large = MASKS[5].sum(1) > 2
    assert process.prob(MASKS[5])[large].max() < 1e-14


def test_quality_times_diversity():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(4, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    quality = np.array([0.5, 1.0, 2.0, 0.0])
    process = DPP.from_quality_diversity(quality, features)
    np.testing.assert_allclose(process.L, np.outer(quality, quality) * (features @ features.T), rtol=1e-13)
    assert process.mean[3] == 0
    with pytest.raises(ValueError, match=r"`features` must be rows of length 1; got .* at index 0\. Divide"):
        DPP.from_quality_diversity(quality, 2 * features)
    with pytest.raises(ValueError, match=r"`quality` must be zero or positive.*; got -1\.0 at index 1"):
        DPP.from_quality_diversity(np.array([0.5, -1.0, 2.0, 0.0]), features)
    with pytest.raises(ValueError, match=r"`quality` must be one number for each item, shape \(4,\)"):
        DPP.from_quality_diversity(np.ones(3), features)


# --- the sum theorem -------------------------------------------------------------------------------------


def test_superset_sum_of_the_worked_triple():
    minors = np.exp(log_set_weights(jnp.asarray(L3)))
    np.testing.assert_allclose(minors[6], 7.2676004, rtol=1e-8)
    np.testing.assert_allclose(minors[7], 0.14157203, rtol=1e-7)
    np.testing.assert_allclose(np.linalg.eigvalsh(L3), [0.01030818, 3.10495858, 4.42323325], atol=5e-9)
    np.testing.assert_allclose(np.exp(log_superset_sum(L3, [0, 1])), 7.4091724, rtol=1e-8)
    np.testing.assert_allclose(np.exp(log_superset_sum(L3, [0, 1])), minors[6] + minors[7], rtol=1e-13)
    np.testing.assert_allclose(np.exp(log_superset_sum(L3, [])), minors.sum(), rtol=1e-13)


@given(kernels)
def test_superset_sums_and_the_chain_to_the_marginal_kernel(case):
    """det((L + I_Abar)(L + I)^-1) = det(I - I_A (L + I)^-1) = det(I_Abar + I_A K) = det(K_A)."""
    seed, count, scale = case
    L = subsets.random_kernel(seed, count, scale=scale)
    identity = np.eye(count)
    inverse = np.linalg.inv(L + identity)
    K = np.asarray(marginal_kernel(L))
    weights = np.exp(log_set_weights(jnp.asarray(L)))
    rows = subsets.masks(count)
    for row in rows:
        items = np.flatnonzero(row)
        inside, outside = np.diag(row), np.diag(1 - row)
        total = weights[(rows >= row).all(1)].sum()
        np.testing.assert_allclose(np.exp(log_superset_sum(L, items)), total, rtol=1e-9)
        chain = [
            np.linalg.det((L + outside) @ inverse),
            np.linalg.det(identity - inside @ inverse),
            np.linalg.det(outside + inside @ K),
            np.linalg.det(K[np.ix_(items, items)]),
        ]
        np.testing.assert_allclose(chain, total / weights.sum(), atol=1e-10)


# --- conversions -----------------------------------------------------------------------------------------


def test_conversion_of_the_worked_triple():
    process = DPP(L3)
    np.testing.assert_allclose(process.K, K3, atol=6e-9)
    np.testing.assert_allclose(process.inclusion_prob([0, 1]), 0.3294191, rtol=1e-7)
    np.testing.assert_allclose(process.expected_size, 1.5822033, rtol=1e-7)
    np.testing.assert_allclose(process.size_variance, 0.3447534, rtol=1e-6)
    np.testing.assert_allclose(process.spectrum[0], [0.010203, 0.75639218, 0.81560815], rtol=1e-6)


@given(kernels)
def test_conversions_are_inverse(case):
    seed, count, scale = case
    L = subsets.random_kernel(seed, count, scale=scale)
    K = marginal_kernel(L)
    np.testing.assert_allclose(
        ensemble_kernel(K), L, rtol=1e-8, atol=1e-9 * np.abs(L).max() * np.linalg.norm(L, 2)
    )
    values = np.linalg.eigvalsh(L)
    np.testing.assert_allclose(np.linalg.eigvalsh(K), values / (1 + values), atol=1e-12)
    np.testing.assert_allclose(K, np.eye(count) - np.linalg.inv(L + np.eye(count)), atol=1e-12)
    np.testing.assert_allclose(np.sort(DPP(L).spectrum[0]), np.sort(values / (1 + values)), atol=1e-12)


def test_eigenvalue_one_has_no_ensemble():
    direction = np.array([[3.0], [4.0]]) / 5
    process = DPP(K=direction @ direction.T)  # always exactly one item
    with pytest.raises(
        ValueError, match=r"`K` must be without the eigenvalue 1 .*; got the eigenvalue (1\.0|0\.99999)"
    ):
        process.L
    np.testing.assert_allclose(process.prob(MASKS[2]), [0.0, 0.64, 0.36, 0.0], atol=1e-15)


# --- most diverse subset ---------------------------------------------------------------------------------


def test_map_of_the_worked_triple():
    process = DPP(L3)
    assert process.map_exact().tolist() == [1, 1, 0]
    assert process.map_greedy().tolist() == [1, 1, 0]
    assert process.map_greedy(1).tolist() == [1, 0, 0]
    assert process.map_greedy(0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="`max_size` must be a whole number from 0 to 3; got 4"):
        process.map_greedy(4)


def test_exact_map_is_the_best_of_the_listing():
    for seed in range(5):
        L = subsets.random_kernel(seed, 5, scale=0.7)
        assert (np.asarray(DPP(L).map_exact()) == MASKS[5][subsets.set_probs(L).argmax()]).all()


def test_greedy_takes_the_largest_gain_each_time():
    L = subsets.random_kernel(4, 12)
    path = greedy_path(jnp.asarray(L), 12)
    chosen = []
    for item, gain in zip(np.asarray(path.items), np.asarray(path.log_gains)):
        rest = [i for i in range(12) if i not in chosen]
        gains = [np.linalg.slogdet(L[np.ix_([*chosen, i], [*chosen, i])])[1] for i in rest]
        before = np.linalg.slogdet(L[np.ix_(chosen, chosen)])[1] if chosen else 0.0
        assert item == rest[int(np.argmax(gains))]
        np.testing.assert_allclose(gain, max(gains) - before, atol=1e-6)
        chosen.append(int(item))
    stops = np.asarray(DPP(L).map_greedy())
    assert (np.flatnonzero(stops) == np.sort(chosen[: int((np.asarray(path.log_gains) > 0).sum())])).all()


def test_greedy_stops_at_the_rank():
    path = greedy_path(jnp.asarray(subsets.random_kernel(5, 8, rank=3)), 5)
    assert (np.asarray(path.items) >= 0).tolist() == [True] * 3 + [False] * 2
    assert np.isneginf(path.log_gains[3:]).all()


# --- conditioning ----------------------------------------------------------------------------------------


def test_conditioning_of_the_worked_triple():
    for process in (DPP(L3), DPP(K=marginal_kernel(L3))):
        given_first = process.condition(included=[0])
        np.testing.assert_allclose(
            given_first.prob(MASKS[2]), [0.2246374, 0.1933920, 0.5708504, 0.0111201], atol=5e-8
        )


@pytest.mark.parametrize("form", ["L", "K"])
@pytest.mark.parametrize(("included", "excluded"), [([1], []), ([], [0, 3]), ([4, 2], [0]), ([], [])])
def test_conditioning_is_bayes_on_the_listing(form, included, excluded):
    L = subsets.random_kernel(6, 5)
    process = DPP(L) if form == "L" else DPP(K=marginal_kernel(L))
    rows, probs = MASKS[5], subsets.set_probs(L)
    agree = (rows[:, included] == 1).all(1) & (rows[:, excluded] == 0).all(1)
    expected = probs[agree] / probs[agree].sum()
    found = process.condition(included, excluded)
    np.testing.assert_allclose(found.prob(subsets.masks(found.shape[0])), expected, rtol=1e-9)


def test_conditional_kernel_formula():
    """L^A = ([(L + I_Abar)^-1]_Abar)^-1 - I."""
    L = subsets.random_kernel(7, 5)
    rest = [0, 2, 3]
    outside = np.diag([1.0, 0.0, 1.0, 1.0, 0.0])
    inverse = np.linalg.inv(L + outside)[np.ix_(rest, rest)]
    np.testing.assert_allclose(
        DPP(L).condition(included=[1, 4]).L, np.linalg.inv(inverse) - np.eye(3), atol=1e-10
    )


def test_marginal_process_is_the_listing_summed():
    L = subsets.random_kernel(8, 5)
    probs = subsets.set_probs(L).reshape((2,) * 5)
    part = DPP(L).marginal([3, 0])
    np.testing.assert_allclose(part.prob(MASKS[2]), probs.sum((1, 2, 4)).T.reshape(-1), rtol=1e-10)


def test_impossible_conditions_are_refused():
    twins = np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0])
    with pytest.raises(
        ImpossibleEvidence, match=r"`included` must be of positive probability; got the items \[0, 1\]"
    ):
        DPP(twins).condition(included=[0, 1])
    with pytest.raises(ImpossibleEvidence, match="positive probability"):
        DPP(K=np.diag([1.0, 0.5])).condition(excluded=[0])
    with pytest.raises(ValueError, match=r"`excluded` must be apart from `included`; got \[1\]"):
        DPP(L3).condition([0, 1], [1])
    with pytest.raises(ValueError, match="an item is left; got all 3 items"):
        DPP(L3).condition([0, 1], [2])
    with pytest.raises(ValueError, match="`items` must be coordinates from 0 to 2; got 3"):
        DPP(L3).inclusion_prob([3])
    with pytest.raises(ValueError, match="`items` must be distinct"):
        DPP(L3).inclusion_prob([1, 1])


def test_enumeration_is_refused_where_it_would_not_end():
    with pytest.raises(
        ValueError, match="`the number of items` must be at most 20 to enumerate all subsets; got 21"
    ):
        DPP(np.eye(21)).entropy()
    with pytest.raises(ValueError, match="at most 20"):
        subset_masks(21)
    with pytest.raises(ValueError, match="`DPP` must be without leading axes here"):
        DPP(np.stack([L3, L3])).set_log_probs()
    with pytest.raises(
        ValueError, match="`method` must be one of 'spectral', 'sequential', 'enumeration'; got 'fast'"
    ):
        DPP(L3).sample(jr.key(0), method="fast")
