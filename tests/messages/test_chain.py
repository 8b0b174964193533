"""Chains: both methods against enumeration, totals at every node, best paths, draws, and great lengths."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import count_traces
from tractable.messages.chain import Chain, contract_chain, forward_backward
from tractable.messages.chain_paths import best_path, best_paths, sample_paths
from tractable.messages.semirings import Expectation, KBest

N, K = 6, 3
GENERATOR = np.random.default_rng(0)
NODES = GENERATOR.normal(size=(N, K))
PAIRS = GENERATOR.normal(size=(N - 1, K, K))
IMPOSSIBLE = np.where(GENERATOR.random(PAIRS.shape) < 0.3, -np.inf, PAIRS)
ONE = GENERATOR.normal(size=(K, K))
PATHS = np.array(list(itertools.product(range(K), repeat=N)))


def values(nodes, pairs):
    """The log-potential of every path."""
    steps = np.broadcast_to(pairs, (N - 1, K, K))
    out = [
        sum(nodes[k, p[k]] for k in range(N)) + sum(steps[k, p[k], p[k + 1]] for k in range(N - 1))
        for p in PATHS
    ]
    return np.array(out)


def exact(nodes, pairs):
    """The total, the marginals and the pair marginals by enumeration."""
    weights = np.exp(values(nodes, pairs))
    single, double = np.zeros((N, K)), np.zeros((N - 1, K, K))
    for path, weight in zip(PATHS, weights):
        for k in range(N):
            single[k, path[k]] += weight
        for k in range(N - 1):
            double[k, path[k], path[k + 1]] += weight
    return np.log(weights.sum()), single / weights.sum(), double / weights.sum()


@pytest.mark.parametrize("method", ["scan", "parallel", "loop"])
@pytest.mark.parametrize("pairs", [PAIRS, IMPOSSIBLE, ONE], ids=["per-step", "zeros", "homogeneous"])
def test_both_methods_equal_enumeration(method, pairs):
    beliefs = forward_backward(Chain(NODES, pairs), method=method)
    total, single, double = exact(NODES, pairs)
    np.testing.assert_allclose(beliefs.log_total, total, rtol=1e-13)
    np.testing.assert_allclose(beliefs.log_totals, np.full(N, total), rtol=1e-13)  # the same at every node
    np.testing.assert_allclose(beliefs.marginals, single, atol=1e-14)
    np.testing.assert_allclose(beliefs.pair_marginals, double, atol=1e-14)
    first = np.exp(NODES[0]) / np.exp(NODES[0]).sum()
    np.testing.assert_allclose(beliefs.filtered[0], first, atol=1e-14)
    np.testing.assert_allclose(beliefs.filtered[-1], single[-1], atol=1e-14)


def test_the_messages_are_those_of_the_definition():
    beliefs = forward_backward(Chain(NODES, PAIRS))
    alpha, beta = np.ones((N, K)), np.ones((N, K))
    for k in range(1, N):
        alpha[k] = (alpha[k - 1] * np.exp(NODES[k - 1])) @ np.exp(PAIRS[k - 1])
        beta[-k - 1] = np.exp(PAIRS[-k]) @ (beta[-k] * np.exp(NODES[-k]))
    np.testing.assert_allclose(np.exp(beliefs.forward + beliefs.forward_scales[:, None]), alpha, rtol=1e-12)
    np.testing.assert_allclose(np.exp(beliefs.backward + beliefs.backward_scales[:, None]), beta, rtol=1e-12)


def test_the_best_paths_in_order():
    for pairs in (PAIRS, IMPOSSIBLE):
        logs = values(NODES, pairs)
        order = np.argsort(-logs)[:5]
        found = best_paths(Chain(NODES, pairs), 5)
        np.testing.assert_allclose(found.log_values, logs[order], rtol=1e-12)
        assert np.array_equal(found.paths, PATHS[order])
        single = best_path(Chain(NODES, pairs))
        assert np.array_equal(single.paths, PATHS[order[0]])
        np.testing.assert_allclose(single.log_values, logs[order[0]], rtol=1e-12)


def test_few_paths_ties_and_the_max_plus_chain():
    identity = np.where(np.eye(K, dtype=bool), 0.0, -np.inf)
    found = best_paths(Chain(np.zeros((N, K)), identity), 5)
    assert found.log_values.tolist() == [0, 0, 0, -np.inf, -np.inf]
    assert found.paths.tolist() == [[0] * N, [1] * N, [2] * N, [-1] * N, [-1] * N]
    assert best_path(Chain(np.zeros((N, K)), identity)).paths.tolist() == [0] * N
    f1, f2 = np.log([[0.3, 0.2], [0.1, 0.4]]), np.log([[0.1, 0.5], [0.2, 0.2]])
    best = best_path(Chain(np.zeros((3, 2)), np.stack([f1, f2])))
    assert best.paths.tolist() == [0, 0, 1]
    assert float(best.log_values) == pytest.approx(-1.8971200, abs=5e-8)


def test_any_semiring_contracts_a_chain():
    chain, logs = Chain(NODES, IMPOSSIBLE), values(NODES, IMPOSSIBLE)
    assert float(contract_chain(chain)) == pytest.approx(np.log(np.exp(logs).sum()), rel=1e-13)
    assert float(contract_chain(chain, "max_sum")) == pytest.approx(logs.max(), rel=1e-13)
    assert int(contract_chain(chain, "counting")) == np.isfinite(logs).sum()
    np.testing.assert_allclose(contract_chain(chain, KBest(4)), np.sort(logs)[::-1][:4], rtol=1e-13)
    probs = np.exp(logs[np.isfinite(logs)])
    probs /= probs.sum()
    entropy = Expectation.entropy(contract_chain(chain, "expectation"))
    assert float(entropy) == pytest.approx(-(probs * np.log(probs)).sum(), rel=1e-12)


def test_draws_have_the_frequencies_of_the_paths():
    draws = np.asarray(sample_paths(Chain(NODES, IMPOSSIBLE), jr.key(0), 20_000))
    probs = np.exp(values(NODES, IMPOSSIBLE))
    probs /= probs.sum()
    counts = np.bincount(draws @ K ** np.arange(N - 1, -1, -1), minlength=K**N)
    assert (counts[probs == 0] == 0).all()
    common = probs > 5e-4
    scores = (counts - 20_000 * probs)[common] / np.sqrt(20_000 * probs * (1 - probs))[common]
    assert np.abs(scores).max() < 5
    assert np.mean(scores**2) < 1.5


def test_padding_changes_nothing_and_lengths_share_a_program():
    padded = np.concatenate([NODES, GENERATOR.normal(size=(4, K))])
    whole = forward_backward(Chain(NODES, ONE))
    for method in ("scan", "parallel"):
        part = forward_backward(Chain(padded, ONE, length=N), method=method)
        assert float(part.log_total) == pytest.approx(float(whole.log_total), rel=1e-13)
        np.testing.assert_allclose(part.marginals[:N], whole.marginals, atol=1e-14)
    short, long = Chain(padded, ONE, length=N), Chain(padded, ONE, length=N + 4)
    assert np.array_equal(best_path(short).paths[:N], best_path(Chain(NODES, ONE)).paths)
    counted = count_traces(lambda chain: forward_backward(chain).log_total)
    compiled = jax.jit(counted)
    assert compiled(short) != compiled(long)
    assert counted.count == 1


def test_gradients_are_marginals_and_batches_are_vmapped():
    def log_total(nodes, pairs):
        return forward_backward(Chain(nodes, pairs)).log_total

    single, double = jax.jit(jax.grad(log_total, (0, 1)))(jnp.asarray(NODES), jnp.asarray(IMPOSSIBLE))
    _, nodes, pairs = exact(NODES, IMPOSSIBLE)
    np.testing.assert_allclose(single, nodes, atol=1e-13)
    np.testing.assert_allclose(double, pairs, atol=1e-13)
    both = jax.vmap(log_total, (0, None))(jnp.stack([NODES, NODES + 1]), jnp.asarray(PAIRS))
    np.testing.assert_allclose(both[1] - both[0], N, rtol=1e-12)


def test_what_is_impossible_has_no_total_and_no_paths():
    none = Chain(NODES, np.full((N - 1, K, K), -np.inf))
    beliefs = forward_backward(none)
    assert float(beliefs.log_total) == -np.inf
    assert np.isnan(beliefs.marginals).all()
    assert best_path(none).paths.tolist() == [-1] * N
    assert (np.asarray(sample_paths(none, jr.key(0), 2)) == -1).all()


def test_the_logarithms_of_tiny_products_survive_both_methods():
    swap = np.array([[-800.0, 0.0, -800.0], [0.0, -800.0, -800.0], [-800.0, -800.0, -800.0]])
    only = np.full((N, K), -np.inf)
    only[0, 0] = only[-1, 0] = 0.0  # five swaps cannot return: one step must cost 800
    only[1:-1] = 0.0
    totals = [
        float(forward_backward(Chain(only, swap), method=m).log_total) for m in ("scan", "parallel", "loop")
    ]
    paths = values(only, swap)
    top = paths.max()
    expected = top + np.log(np.exp(paths - top).sum())
    assert top == -800
    np.testing.assert_allclose(totals, expected, rtol=1e-13)


def test_twenty_thousand_positions():
    n = 20_000
    generator = np.random.default_rng(1)
    nodes, pairs = generator.normal(size=(n, 2)) - 5.0, np.log([[0.9, 0.1], [0.2, 0.8]])
    chain = Chain(nodes, pairs)
    beliefs = forward_backward(chain)
    message, total = np.ones(2), 0.0
    for row in np.exp(nodes):
        message = message * row
        scale = message.sum()
        total += np.log(scale)
        message = message / scale @ np.exp(pairs)
    assert float(beliefs.log_total) == pytest.approx(total, rel=1e-12)
    assert np.ptp(np.asarray(beliefs.log_totals)) <= 1e-9 * abs(total)
    np.testing.assert_allclose(np.asarray(beliefs.marginals).sum(1), 1.0, atol=1e-14)
    assert best_path(chain).paths.shape == (n,)
    path = np.asarray(sample_paths(chain, jr.key(2)))[0]
    share, marginals = path.mean(), np.asarray(beliefs.marginals)[:, 1]
    assert abs(share - marginals.mean()) < 5 * 3 * np.sqrt(
        0.25 / n
    )  # neighbours agree: variance up to ninefold


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chain(np.zeros(3), ONE), r"`log_nodes` must be of shape \(positions, states\)"),
        (lambda: Chain(NODES, np.zeros((2, 2))), r"`log_pairs` must be of shape \(3, 3\) or \(5, 3, 3\)"),
        (lambda: Chain(NODES * np.nan, ONE), "`log_nodes` must be finite, or -inf"),
        (lambda: Chain(NODES, ONE, length=7), "`length` must be a whole number from 1 to 6; got 7"),
        (
            lambda: forward_backward(Chain(NODES, ONE), method="fast"),
            "`method` must be one of 'auto', 'scan', 'parallel', 'loop'",
        ),
        (lambda: best_paths(Chain(NODES, ONE), 0), "`num_paths` must be a whole number of at least 1"),
    ],
)
def test_bad_chains_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_chain_of_one_position_and_what_is_printed():
    for method in ("scan", "parallel"):
        one = forward_backward(Chain(NODES[:1], ONE), method=method)
        assert float(one.log_total) == pytest.approx(np.log(np.exp(NODES[0]).sum()), rel=1e-14)
    assert repr(forward_backward(Chain(NODES, PAIRS))).startswith(
        "ChainBeliefs(6 positions, 3 states: exact, log"
    )
