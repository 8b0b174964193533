"""Samplers of determinantal point processes against the probabilities of all subsets."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tests.oracles import subsets
from tractable.distributions.dpp import DPP
from tractable.distributions.dpp_applications import (
    Minibatches,
    compare_minibatches,
    diverse_documents,
    diverse_minibatches,
    tf_idf,
)
from tractable.distributions.dpp_sampling import dual_draws, projection_draw, sequential_draws, spectral_draws
from tractable.distributions.kdpp import KDPP

L3 = np.array([[2.8599, -0.4936, -1.8458], [-0.4936, 2.6264, -1.1437], [-1.8458, -1.1437, 2.0522]])
DRAWS = 40_000
# The statistic of a right sampler is above this once in a million keys; the keys are fixed.
LIMIT = 1e-6


def _counts(draws, count):
    return np.bincount(subsets.set_index(draws), minlength=2**count)


def _p_value(draws, probs):
    cells = int((probs > 0).sum())
    return stats.chi2(cells - 1).sf(subsets.chi_square(_counts(draws, int(np.log2(len(probs)))), probs))


@pytest.mark.parametrize("method", [None, "spectral", "sequential", "enumeration"])
def test_draws_have_the_probabilities_of_all_eight_sets(method):
    probs = subsets.set_probs(L3)
    draws = np.asarray(DPP(L3).sample(jr.key(0), (DRAWS,), method=method))
    error = np.sqrt(probs * (1 - probs) / DRAWS)
    z = (_counts(draws, 3) / DRAWS - probs) / error
    assert np.abs(z).max() < 5
    assert _p_value(draws, probs) > LIMIT


def test_single_draws_over_many_keys():
    """One draw at a time takes another route than many, and `vmap` goes over both."""
    draws = jax.jit(jax.vmap(DPP(L3).sample))(jr.split(jr.key(11), 10_000))
    assert _p_value(np.asarray(draws), subsets.set_probs(L3)) > LIMIT


def test_draws_where_no_ensemble_exists():
    """Eigenvalues 1, 0.6 and 0: at least one item, at most two, and no L."""
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    values = np.array([1.0, 0.6, 0.0])
    process = DPP(K=(vectors * values) @ vectors.T)
    probs = np.array([process.exact_set_prob(np.flatnonzero(row)) for row in subsets.masks(3)])
    probs = np.where(probs < 1e-12, 0.0, probs)
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-12)
    for draws in (
        spectral_draws(jr.key(1), *process.spectrum, DRAWS),
        sequential_draws(jr.key(2), process.K, DRAWS),
        process.sample(jr.key(3), (DRAWS,), method="enumeration"),
    ):
        assert _p_value(np.asarray(draws), probs / probs.sum()) > LIMIT


def test_certain_impossible_and_dependent_items():
    values = jnp.array([0.0, 0.3, 1.0])
    draws = np.asarray(spectral_draws(jr.key(4), values, jnp.eye(3), DRAWS))
    assert (draws[:, 0] == 0).all()
    assert (draws[:, 2] == 1).all()
    assert abs(draws[:, 1].mean() - 0.3) < 5 * np.sqrt(0.21 / DRAWS)
    twins = DPP.from_features(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0]]))
    for draws in (
        spectral_draws(jr.key(5), *twins.spectrum, DRAWS),
        sequential_draws(jr.key(6), twins.K, DRAWS),
    ):
        assert not (draws[:, 0] & draws[:, 1]).any()
        assert draws.sum(1).max() == 2


def test_a_wrong_kernel_is_noticed():
    """The tests above can fail: draws of the independent process with the same marginals are rejected."""
    mean = DPP(L3).mean
    draws = spectral_draws(jr.key(2), mean, jnp.eye(3), DRAWS)
    assert _p_value(np.asarray(draws), subsets.set_probs(L3)) < 1e-100


def test_dual_draws_from_features():
    features = np.random.default_rng(1).normal(size=(5, 2))
    draws = np.asarray(dual_draws(jr.key(3), jnp.asarray(features), DRAWS))
    probs = subsets.set_probs(features @ features.T)
    probs = np.where(subsets.masks(5).sum(1) > 2, 0.0, probs)
    assert draws.sum(1).max() <= 2
    assert _p_value(draws, probs / probs.sum()) > LIMIT


@pytest.mark.parametrize("method", ["spectral", "sequential"])
def test_inclusion_of_pairs_among_many_items(method):
    """Eighty items: sizes fall into two capacities of the spectral sampler; every pair against det K_A."""
    points = np.random.default_rng(2).uniform(size=(80, 2))
    L = 0.8 * np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / (2 * 0.1**2))
    process = DPP(L)
    draws = np.asarray(process.sample(jr.key(4), (2000,), method=method))
    found, expected = draws.T @ draws / 2000, np.asarray(process.pair_probs)
    z = (found - expected) / np.sqrt(expected * (1 - expected) / 2000)
    assert np.abs(z).max() < 5.5  # 3,240 different pairs
    assert abs(np.std(z[np.triu_indices(80)]) - 1) < 0.1
    sizes = draws.sum(1)
    assert abs(sizes.mean() - process.expected_size) < 5 * np.sqrt(process.size_variance / 2000)
    assert sizes.min() <= 20 < sizes.max()


def test_projection_draw_has_exactly_its_rank():
    vectors = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 3)))[0]
    probs = np.array([np.linalg.det((vectors @ vectors.T)[np.ix_(r, r)]) for r in _triples()])
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-12)
    uniforms = np.random.default_rng(4).uniform(size=(DRAWS, 3))
    draw = jax.jit(jax.vmap(lambda u: projection_draw(jnp.asarray(vectors), jnp.asarray(3), u)))
    draws = np.asarray(draw(uniforms))
    assert (draws.sum(1) == 3).all()
    table = np.zeros(32)
    table[subsets.set_index(np.array([np.isin(np.arange(5), r) for r in _triples()]).astype(int))] = probs
    assert _p_value(draws.astype(int), table) > LIMIT


def _triples():
    return [(i, j, k) for i in range(5) for j in range(i + 1, 5) for k in range(j + 1, 5)]


def test_chain_reaches_the_process():
    """Thinned until nearly independent: toggles alone, toggles with swaps, swaps alone (fixed size)."""
    probs, pairs = subsets.set_probs(L3), subsets.set_probs(L3, 2)
    for key, swap_prob in ((6, 0.0), (7, 0.5)):
        run = DPP(L3).chain(jr.key(key), 10_000, thin=20, swap_prob=swap_prob)
        assert run.status.ok
        assert _p_value(np.asarray(run.trace.masks)[20:], probs) > LIMIT
        assert 0 < run.trace.acceptance.mean() < 1
    masks = np.asarray(KDPP(L3, 2).chain(jr.key(9), 10_000, thin=20).trace.masks)
    assert (masks.sum(1) == 2).all()
    assert _p_value(masks[20:], pairs) > LIMIT


def test_chain_of_many_items_has_the_right_marginals():
    points = np.random.default_rng(4).uniform(size=(30, 2))
    L = 3 * np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / (2 * 0.2**2))
    process = DPP(L)
    masks = np.asarray(process.chain(jr.key(8), 2050, thin=60).trace.masks)[50:]
    batches = masks.reshape(40, 50, 30).mean(1)  # batch means: what correlation is left is in the error
    z = (batches.mean(0) - np.asarray(process.mean)) / (batches.std(0, ddof=1) / np.sqrt(40))
    assert np.abs(z).max() < 5
    assert abs(masks.sum(1).mean() - process.expected_size) < 0.1


def test_chain_arguments_are_checked():
    with pytest.raises(ValueError, match=r"`swap_prob` must be at least 0 and below 1; got 1\.0"):
        DPP(L3).chain(jr.key(0), 10, swap_prob=1.0)
    with pytest.raises(ValueError, match="`thin` must be a whole number of at least 1; got 0"):
        DPP(L3).chain(jr.key(0), 10, thin=0)
    with pytest.raises(ValueError, match="without the eigenvalue 1"):
        DPP(K=np.eye(2)).chain(jr.key(0), 10)


def test_shapes_keys_and_leading_axes():
    process = DPP(L3)
    for method in ("spectral", "sequential", "enumeration"):
        draws = process.sample(jr.key(10), (200, 200), method=method)
        flat = process.sample(jr.key(10), (DRAWS,), method=method)
        assert draws.dtype == jnp.result_type(int)
        assert (draws == flat.reshape(200, 200, 3)).all()
    stack = DPP(np.stack([1e-9 * np.eye(3), 1e9 * np.eye(3)]))
    draws = stack.sample(jr.key(11), (50,))
    assert draws.shape == (50, 2, 3)
    assert draws[:, 0].sum() == 0
    assert (draws[:, 1] == 1).all()


def test_samplers_make_no_new_program_for_a_new_key():
    K = DPP(L3).K
    values, vectors = DPP(L3).spectrum
    sequential_draws(jr.key(0), K, DRAWS)
    spectral_draws(jr.key(0), values, vectors, DRAWS)
    before = sequential_draws._cache_size(), spectral_draws._cache_size()
    sequential_draws(jr.key(1), K, DRAWS)
    spectral_draws(jr.key(1), values, vectors, DRAWS)
    assert (sequential_draws._cache_size(), spectral_draws._cache_size()) == before


# --- applications ----------------------------------------------------------------------------------------


def _clusters():
    """Linear regression on four tight clusters: a similarity, and the gradient of each row's loss."""
    rng = np.random.default_rng(5)
    centres = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    x = np.repeat(centres, 15, axis=0) + 0.3 * rng.normal(size=(60, 2))
    y = x @ [1.0, -2.0] + 0.1 * rng.normal(size=60)
    gradients = (x @ [0.2, 0.3] - y)[:, None] * x
    similarity = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 2)
    return similarity, gradients


def test_diverse_minibatches_have_less_gradient_variance():
    similarity, gradients = _clusters()
    size, count = 8, 60
    found = compare_minibatches(jr.key(12), similarity, gradients, size, 3000)
    gap = float(found.uniform - found.diverse)
    assert gap > 3 * float(np.hypot(found.uniform_error, found.diverse_error))
    spread = np.trace(np.cov(gradients.T))
    exact = (1 - size / count) * spread / size
    assert abs(float(found.uniform) - exact) < 5 * float(found.uniform_error)


def test_minibatch_estimates_are_unbiased():
    similarity, gradients = _clusters()
    batches = diverse_minibatches(jr.key(13), similarity, 8, 3000)
    assert all(len(set(row)) == 8 for row in np.asarray(batches.items)[:50].tolist())
    estimates = np.asarray(batches.estimate(jnp.asarray(gradients)))
    z = (estimates.mean(0) - gradients.mean(0)) / (estimates.std(0, ddof=1) / np.sqrt(3000))
    assert np.abs(z).max() < 5
    plain = Minibatches(batches.items, jnp.full((3000, 8), 1 / 8)).estimate(jnp.ones(60))
    np.testing.assert_allclose(plain, 1.0, rtol=1e-14)


def test_diverse_documents_skip_the_copy():
    """Two copies of the most relevant story, and a less relevant one on something else."""
    counts = np.array([[3, 2, 0, 0, 1], [3, 2, 0, 0, 1], [0, 0, 4, 1, 1], [0, 1, 0, 3, 1]])
    rows = tf_idf(counts)
    np.testing.assert_allclose(rows[:, 4], 0.0)  # a word of every document says nothing
    np.testing.assert_allclose(rows[0, :2], [3 * np.log(2), 2 * np.log(4 / 3)], rtol=1e-14)
    chosen = np.asarray(diverse_documents(rows, np.array([1.0, 0.95, 0.6, 0.7]), 3)).tolist()
    assert chosen == [0, 3, 2]
    with pytest.raises(
        ValueError, match="`size` must be at most 3, the number of independent documents; got 4"
    ):
        diverse_documents(rows, np.array([1.0, 0.95, 0.6, 0.7]), 4)
    with pytest.raises(ValueError, match="`rows` must be without documents of zeros only"):
        diverse_documents(np.eye(3) * [1.0, 1.0, 0.0], np.ones(3), 2)


def test_diverse_documents_maximise_the_determinant_of_pairs():
    rng = np.random.default_rng(6)
    rows, relevance = rng.gamma(0.5, size=(10, 30)), rng.uniform(0.5, 1.0, size=10)
    first, second = np.asarray(diverse_documents(rows, relevance, 2))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    L = np.outer(relevance, relevance) * (unit @ unit.T)
    assert first == relevance.argmax()
    gains = [L[first, first] * L[i, i] - L[first, i] ** 2 if i != first else -1.0 for i in range(10)]
    assert second == int(np.argmax(gains))
