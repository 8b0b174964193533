"""The nearest centre: the plain rule in double precision, whatever the scale; sums by label."""

import numpy as np
import pytest

from tractable.core import assignment
from tractable.core.assignment import group_sums, nearest_centres


def _plain(rows, centres):
    squared = ((rows[:, None] - centres[None]) ** 2).sum(-1)
    order = np.sort(squared, 1)
    return squared.argmin(1), order[:, 0], order[:, 1] if len(centres) > 1 else np.full(len(rows), np.inf)


@pytest.mark.cheap
@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-12, 1e100, 1e-100])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_labels_and_distances_are_those_of_the_plain_rule(scale, offset):
    numbers = np.random.default_rng(0)
    rows = scale * (numbers.normal(size=(500, 3)).round(1) + offset)  # rounded: ties happen
    centres = rows[numbers.choice(500, 7, replace=False)]
    labels, squared, others = _plain(rows, centres)
    found = nearest_centres(rows, centres)
    np.testing.assert_allclose(found.squared, squared, rtol=1e-9, atol=1e-18 * (scale * (1 + offset)) ** 2)
    apart = others - squared > 1e-9 * squared  # elsewhere the order of the sums decides
    np.testing.assert_array_equal(found.labels[apart], labels[apart])
    assert (found.others <= others * (1 + 1e-9) + 1e-18 * (scale * (1 + offset)) ** 2).all()


def test_ties_go_to_the_lower_index_and_copies_are_at_zero():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    found = nearest_centres(rows, np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    assert found.labels.tolist() == [1, 0, 0]
    assert found.squared.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_allclose(found.others, [0.0, 1.0, 4.0], atol=1e-4)  # a bound, in single precision


def test_spans_and_threads_change_nothing(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(3000, 4))
    wanted = nearest_centres(rows, rows[:20])
    monkeypatch.setattr(assignment, "SPAN", 256)
    monkeypatch.setattr(assignment, "_CELLS", 1)
    for one, two in zip(wanted, nearest_centres(rows, rows[:20])):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-4)  # the bound is one of single precision
    np.testing.assert_array_equal(wanted.labels, nearest_centres(rows, rows[:20]).labels)


def test_sums_of_groups():
    numbers = np.random.default_rng(2)
    rows, labels, weights = numbers.normal(size=(60, 3)), numbers.integers(0, 5, 60), numbers.random(60)
    found = group_sums(rows, labels, weights, 6)
    for j in range(6):
        held = labels == j
        np.testing.assert_allclose(found[j, :-1], weights[held] @ rows[held], atol=1e-13)
        np.testing.assert_allclose(found[j, -1], weights[held].sum(), atol=1e-13)
    assert not group_sums(rows[:0], labels[:0], None, 2).any()
