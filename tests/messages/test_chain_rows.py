"""Many chains at once: against enumeration and log space, at tiny numbers, and at great lengths."""

import itertools

import numpy as np
import pytest

from tractable.messages import chain_loops as loops
from tractable.messages.chain import Chain, forward_backward
from tractable.messages.chain_paths import best_path
from tractable.messages.chain_rows import (
    ChainRows,
    Room,
    best_rows,
    chain_of,
    filter_rows,
    pair_rows,
    passes,
    sample_rows,
    smooth_rows,
    total_rows,
)

LENGTHS = (5, 1, 4)
STARTS = np.array([0, 5, 6, 10])


def made(k=3, *, zeros=False, several=False, spread=1.0, seed=0):
    generator = np.random.default_rng(seed)
    steps = generator.dirichlet(np.ones(k), size=(3 if several else 1, k))
    if zeros:
        steps *= generator.random(steps.shape) < 0.7
    which = generator.integers(0, 3, 10) if several else np.zeros(0, np.int64)
    logs = spread * generator.normal(size=(10, k))
    return ChainRows(logs, steps, generator.dirichlet(np.ones(k)), STARTS, which)


def enumerated(rows, s):
    """The total, marginals and pair marginals of one chain from all its paths, in logarithms."""
    first, stop = rows.starts[s : s + 2]
    k, n = rows.logs.shape[1], stop - first
    paths = np.array(list(itertools.product(range(k), repeat=n)))
    with np.errstate(divide="ignore"):
        logs = np.log(rows.initial)[paths[:, 0]]
        for t in range(n):
            logs = logs + rows.logs[first + t, paths[:, t]]
            if t:
                step = rows.steps[rows.which[first + t] if rows.which.size else 0]
                logs = logs + np.log(step)[paths[:, t - 1], paths[:, t]]
    top = logs.max()
    weights = np.exp(logs - top)
    single, double = np.zeros((n, k)), np.zeros((n, k, k))
    for t in range(n):
        np.add.at(single[t], paths[:, t], weights / weights.sum())
        if t:
            np.add.at(double[t], (paths[:, t - 1], paths[:, t]), weights / weights.sum())
    return top + np.log(weights.sum()), single, double, top


@pytest.mark.cheap
@pytest.mark.parametrize("options", [{}, {"zeros": True, "seed": 3}, {"several": True}, {"spread": 400.0}],
                         ids=["plain", "zeros", "several", "tiny"])  # fmt: skip
def test_all_paths_give_the_same_beliefs_and_totals(options):
    rows = made(**options)
    smoothed, filtered, pairs = (
        smooth_rows(rows, np.array([1.0, 5.0, 2.0])),
        filter_rows(rows),
        pair_rows(rows),
    )
    paths, values, ended = best_rows(rows)
    counts = np.zeros_like(rows.steps)
    for s, weight in enumerate((1.0, 5.0, 2.0)):
        total, single, double, top = enumerated(rows, s)
        part = slice(rows.starts[s], rows.starts[s + 1])
        np.testing.assert_allclose(smoothed.log_totals[s], total, rtol=1e-13)
        np.testing.assert_allclose(filtered.log_totals[s], total, rtol=1e-13)
        np.testing.assert_allclose(total_rows(rows)[s], total, rtol=1e-13)
        np.testing.assert_allclose(smoothed.beliefs[part], single, atol=1e-13)
        np.testing.assert_allclose(filtered.beliefs[part][-1], single[-1], atol=1e-13)
        np.testing.assert_allclose(pairs[part], double, atol=1e-13)
        np.testing.assert_allclose(values[s], top, rtol=1e-13)
        which = rows.which[part][1:] if rows.which.size else np.zeros(LENGTHS[s] - 1, int)
        np.add.at(counts, which, weight * double[1:])
    np.testing.assert_allclose(smoothed.counts, counts, atol=1e-12)
    assert (ended == -1).all()
    assert (paths >= 0).all()


def test_log_space_takes_over_where_small_numbers_would_lose_the_answer():
    """The only state that explains the end is the one that the beginning makes a hundred thousand orders of
    magnitude less probable."""
    n = 400
    logs = np.where(np.arange(n)[:, None] < n - 5, [[0.0, -700.0]], [[-np.inf, 0.0]])
    stay = np.eye(2)[None]
    rows = ChainRows(logs, stay, np.full(2, 0.5), np.array([0, n]))
    assert passes(rows).ended.tolist() == [-2]
    found = smooth_rows(rows)
    assert found.log_totals[0] == pytest.approx(-700.0 * (n - 5) + np.log(0.5), rel=1e-14)
    np.testing.assert_allclose(found.beliefs[:, 1], 1.0)
    assert found.counts[0, 1, 1] == pytest.approx(n - 1)
    drawn = sample_rows(rows, np.random.default_rng(0))
    assert (drawn == 1).all()


def test_what_is_impossible_is_named_and_spoils_no_other_chain():
    rows = made()
    logs = rows.logs.copy()
    logs[3] = -np.inf
    spoilt = rows._replace(logs=logs)
    for found in (filter_rows(spoilt), smooth_rows(spoilt)):
        assert found.impossible.tolist() == [3, -1, -1]
        assert found.log_totals[0] == total_rows(spoilt)[0] == -np.inf
        assert np.isnan(found.beliefs[4]).all()
        assert np.isfinite(found.beliefs[5:]).all()
    np.testing.assert_allclose(smooth_rows(spoilt).log_totals[1:], smooth_rows(rows).log_totals[1:])
    assert best_rows(spoilt)[0][:5].tolist() == [-1] * 5
    assert best_rows(spoilt)[2].tolist() == [3, -1, -1]


@pytest.mark.parametrize("at", [0, 3])
def test_what_lent_memory_held_before_is_not_seen(at):
    rows = made(spread=400.0, zeros=True, seed=3)
    logs = rows.logs.copy()
    logs[at] = -np.inf  # the rest of the first chain is never reached
    for spoilt in (rows, rows._replace(logs=logs)):
        room = Room()
        with room.lent(spoilt) as block:
            block[:] = np.nan
        with room.lent(spoilt) as block:
            assert np.isnan(block).all()
            lent = smooth_rows(spoilt, block=block)
            for one, other in zip(lent, smooth_rows(spoilt)):
                np.testing.assert_array_equal(one, other)
            with room.lent(spoilt) as other:
                assert not np.shares_memory(block, other)


def test_interpreted_and_compiled_loops_give_the_same_bits():
    rows = made(spread=200.0, zeros=True, seed=3)
    shares = np.exp(rows.logs - rows.logs.max(1, keepdims=True))

    def run(pick):
        out = [np.zeros((10, 3)), np.zeros(10), np.zeros(10), np.zeros(3, np.int64)]
        ahead = (shares, rows.logs, rows.steps, rows.which, rows.initial, rows.starts)
        pick(loops.forward)(*ahead, *out)
        beta, errors = np.zeros((10, 3)), np.zeros(10)
        turned = np.ascontiguousarray(rows.steps.swapaxes(1, 2))
        pick(loops.backward)(shares, rows.logs, turned, rows.which, rows.starts, beta, errors, out[3])
        counts, weights = np.zeros(rows.steps.shape), np.array([1.0, 0.0, 2.5])
        found, messages = out[0], beta.copy()
        pick(loops.join)(found, shares, messages, out[1], rows.which, rows.starts, weights, counts)
        return [*out, beta, errors, messages, counts]

    for plain, compiled in zip(run(lambda f: f), run(lambda f: loops.loop(f, 10**9))):
        assert np.array_equal(plain, compiled)


@pytest.mark.parametrize("k", [3, 6])
def test_loops_that_were_interpreted_often_before_give_the_same_bits(k, monkeypatch):
    rows = made(k, spread=200.0, zeros=True, seed=3)

    def answers(before):
        each = (loops.forward, loops.backward, loops.join, loops.best, loops.draw)
        monkeypatch.setattr(loops, "_interpreted", dict.fromkeys(each, before))
        paths = sample_rows(rows, np.random.default_rng(0), 5)
        return [*smooth_rows(rows), total_rows(rows), *best_rows(rows), paths]

    for fresh, used in zip(answers(0), answers(10**9)):
        np.testing.assert_array_equal(fresh, used)


@pytest.mark.parametrize("several", [False, True])
def test_the_loop_gives_the_messages_of_the_scan(several):
    generator = np.random.default_rng(1)
    nodes, pairs = generator.normal(size=(12, 3)), generator.normal(size=(11, 3, 3) if several else (3, 3))
    for length in (None, 9):
        chain = Chain(nodes, pairs, length=length)
        one, other = forward_backward(chain, method="loop"), forward_backward(chain, method="scan")
        n = length or 12
        for name in ("marginals", "filtered", "pair_marginals", "log_totals"):
            short = n - 1 if name == "pair_marginals" else n
            np.testing.assert_allclose(getattr(one, name)[:short], getattr(other, name)[:short], atol=1e-12)
        assert float(one.log_total) == pytest.approx(float(other.log_total), rel=1e-14)


def test_draws_have_the_frequencies_of_the_paths():
    rows = made()
    count = 4000
    draws = sample_rows(rows, np.random.default_rng(0), count)
    expected = smooth_rows(rows).beliefs
    for state in range(3):
        share = (draws == state).mean(0)
        error = np.sqrt(expected[:, state] * (1 - expected[:, state]) / count)
        assert (np.abs(share - expected[:, state]) < 4.5 * error).all()
    pairs = pair_rows(rows)
    both = np.mean((draws[:, 1] == 0) & (draws[:, 2] == 1))
    assert abs(both - pairs[2, 0, 1]) < 4.5 * np.sqrt(pairs[2, 0, 1] / count)


def test_best_paths_are_those_of_the_scan():
    rows = made(seed=5)
    paths, _, _ = best_rows(rows)
    for s in range(3):
        expected = best_path(chain_of(rows, s)).paths
        assert np.array_equal(paths[rows.starts[s] : rows.starts[s + 1]], expected)


def test_a_million_steps_keep_their_digits():
    """Rows that repeat: the total is that of a power of one matrix, found with 50 digits."""
    import mpmath

    n = 1_000_000
    step, shares = [[0.9, 0.1], [0.2, 0.8]], [0.3, 0.0625]
    rows = ChainRows(
        np.tile(np.log(shares), (n, 1)), np.array([step]), np.array([0.5, 0.5]), np.array([0, n])
    )
    with mpmath.workdps(50):
        emission = mpmath.diag([mpmath.exp(mpmath.mpf(float(v))) for v in np.log(shares)])
        matrix = mpmath.matrix(step) * emission
        power = matrix ** (n - 1)
        first = mpmath.matrix([[0.5, 0.5]]) * emission
        exact = mpmath.log(sum(first * power))
        assert float(abs((mpmath.mpf(float(filter_rows(rows).log_totals[0])) - exact) / exact)) < 1e-13
