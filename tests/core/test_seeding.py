"""Rows far apart: the probabilities of k-means++ by enumeration, powers, weights, copies."""

from itertools import permutations

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import kstest

from tractable.core.chunks import chunks
from tractable.core.seeding import far_apart, nearest_of, usual_trials
from tractable.core.seeding_chunks import far_apart_in_chunks

ROWS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [4.0, 4.0]])


def _probability(order, weights, power):
    """The chance of choosing rows in this order, written out."""
    total, chosen = 1.0, []
    for index in order:
        near = [min((np.linalg.norm(row - ROWS[c]) for c in chosen), default=1.0) for row in ROWS]
        mass = weights * np.array(near) ** power
        mass[chosen] = 0
        total *= mass[index] / mass.sum()
        chosen.append(index)
    return total


@pytest.mark.parametrize("power", [2.0, 0.0, 1.0])
@pytest.mark.thorough
def test_frequencies_are_the_probabilities(power):
    weights, count = np.array([1.0, 2.0, 1.0, 0.5]), 1500
    draw = lambda seed: far_apart(np.array([7, seed], np.uint32), ROWS, 3, weights=weights, power=power)  # noqa: E731
    drawn = np.array([draw(seed) for seed in range(count)])
    for order in permutations(range(4), 3):
        p = _probability(order, weights, power)
        share = (drawn == np.array(order)).all(1).mean()
        assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / count)


def test_the_worked_example():
    """{0, 1, 10} with the first row chosen: weights (0, 1, 100)/101."""
    rows, weights = np.array([[0.0], [1.0], [10.0]]), np.array([1.0, 1e-12, 1e-12])  # the first is row 0
    drawn = [far_apart(np.array([3, s], np.uint32), rows, 2, weights=weights) for s in range(1000)]
    first = np.array([pair for pair in drawn if pair[0] == 0])
    share, p = (first[:, 1] == 1).mean(), 1 / 101
    assert len(first) == 1000
    assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / 1000)
    assert not (first[:, 1] == 0).any()


def test_rejection_has_the_law_of_plain_draws():
    """Many rows, whose distances are looked at seldom: each next row by the law given the earlier ones."""
    numbers = np.random.default_rng(0)
    rows, k = numbers.normal(size=(3000, 2)) + 6 * numbers.integers(0, 3, size=(3000, 1)), 12
    uniform = []
    for seed in range(120):
        chosen = far_apart(jr.key(seed), rows, k)
        for t in (2, 5, 11):
            near = ((rows[:, None] - rows[chosen[:t]][None]) ** 2).sum(-1).min(1)
            below = near[: chosen[t]].sum() / near.sum()
            uniform.append(below + near[chosen[t]] / near.sum() * numbers.random())
    assert kstest(uniform, "uniform").pvalue > 1e-3


def test_trials_lower_the_sum_and_weights_are_copies():
    numbers = np.random.default_rng(1)
    rows = numbers.normal(size=(400, 2)) + 8 * numbers.integers(0, 4, size=(400, 2))
    cost = lambda chosen: ((rows[:, None] - rows[chosen][None]) ** 2).sum(-1).min(1).sum()  # noqa: E731
    plain = [cost(far_apart(jr.key(seed), rows, 16)) for seed in range(40)]
    tried = [cost(far_apart(jr.key(seed), rows, 16, trials=usual_trials(16))) for seed in range(40)]
    assert np.mean(tried) < 0.85 * np.mean(plain)
    weights = numbers.integers(0, 4, size=400).astype(float)
    places = np.repeat(np.arange(400), weights.astype(int))
    for trials in (1, 4):
        once = far_apart(jr.key(5), rows, 9, weights=weights, trials=trials)
        twice = far_apart(jr.key(5), rows[places], 9, trials=trials)
        np.testing.assert_array_equal(once, places[twice])


def test_the_farthest_row_with_an_infinite_power():
    for seed in range(5):
        first, second, third = far_apart(jr.key(seed), ROWS, 3, power=jnp.inf).tolist()
        distances = np.linalg.norm(ROWS[:, None] - ROWS[None], axis=-1)
        assert second == distances[first].argmax()
        assert third == np.minimum(distances[first], distances[second]).argmax()


def test_copies_are_chosen_last_and_rows_of_no_weight_never():
    rows = np.repeat([[0.0], [1.0]], 3, 0)
    for seed in range(5):
        chosen = far_apart(jr.key(seed), rows, 6)
        assert sorted(chosen.tolist()) == list(range(6))
        assert rows[chosen[0]] != rows[chosen[1]]
        weighted = far_apart(jr.key(seed), rows, 2, weights=np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
        assert sorted(weighted.tolist()) == [2, 5]


def test_nearest_of_centres_and_messages():
    assert nearest_of(ROWS, ROWS[[0, 3]]).tolist() == [0, 0, 0, 1]
    with pytest.raises(ValueError, match="`count` must be"):
        far_apart(jr.key(0), ROWS, 5)
    with pytest.raises(ValueError, match="`power` must be"):
        far_apart(jr.key(0), ROWS, 2, power=-1.0)


def test_chunks_are_seeded_as_well_as_rows_in_memory():
    numbers = np.random.default_rng(3)
    rows = numbers.normal(size=(3000, 2)) + 9 * numbers.integers(0, 5, size=(3000, 2))
    cost = lambda centres: ((rows[:, None] - centres[None]) ** 2).sum(-1).min(1).sum()  # noqa: E731
    whole = [cost(rows[far_apart(jr.key(s), rows, 25, trials=5)]) for s in range(5)]
    parts = [cost(far_apart_in_chunks(jr.key(s), chunks(rows, 512), 25)) for s in range(5)]
    assert np.mean(parts) < 1.25 * np.mean(whole)
    once = far_apart_in_chunks(jr.key(1), chunks(rows, 512), 25)
    np.testing.assert_array_equal(once, far_apart_in_chunks(jr.key(1), chunks(rows, 512), 25))
    weights = np.where(rows[:, 0] > 20, 1.0, 0.0)  # rows of no weight are never chosen
    assert (far_apart_in_chunks(jr.key(0), chunks(rows, 512, weights), 9)[:, 0] > 20).all()
    with pytest.raises(ValueError, match="`parts` must be readable more than once"):
        far_apart_in_chunks(jr.key(0), chunks(iter(rows), 512), 3)
    with pytest.raises(ValueError, match="`count` must be at most the 2 distinct rows"):
        far_apart_in_chunks(jr.key(0), chunks(np.repeat([[0.0], [1.0]], 9, 0), 8), 3)
