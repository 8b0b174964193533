"""Rows far apart: the probabilities of k-means++ by enumeration, powers, weights, copies."""

from itertools import permutations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.seeding import far_apart, nearest_of

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


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_frequencies_are_the_probabilities(power):
    weights, count = np.array([1.0, 2.0, 1.0, 0.5]), 40_000
    draw = lambda key: far_apart(key, ROWS, 3, weights=weights, power=power)  # noqa: E731
    drawn = np.asarray(jax.lax.map(draw, jr.split(jr.key(1), count)))
    for order in permutations(range(4), 3):
        p = _probability(order, weights, power)
        share = (drawn == np.array(order)).all(1).mean()
        assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / count)


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
