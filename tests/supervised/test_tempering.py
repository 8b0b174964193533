"""Calibration by rows that were held out: exact averages, folds that deal out weight, statistics that add."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tractable.core.rows import Rows
from tractable.supervised.selection.held_out import (
    calibrated_by_folds,
    calibrated_by_votes,
    held_out_blocks,
    is_refusal,
)
from tractable.supervised.selection.tempering import TemperedShares

GENERATOR = np.random.default_rng(0)
PROBS = GENERATOR.dirichlet([1.0, 1.0, 1.0], 40)
CODES = np.array([GENERATOR.choice(3, p=p) for p in PROBS])
COUNTS = np.bincount(CODES, minlength=3)


def by_hand(probs, codes, weights, counts, new):
    """The average over all members, each written out."""
    total, base = counts.sum(), (counts + 1) / (counts.sum() + len(counts))
    lifts = np.geomspace(1 / (total + 1), 0.5, 4)
    members = [(0.0, 0.5, 0.5)] + [(a, e, 0.5 / 52) for a in np.geomspace(1 / 16, 4, 13) for e in lifts]
    mass, answers = [], []
    for power, lift, prior in members:
        told = [base * (((1 - lift) * p + lift * base) / base) ** power for p in (*probs, *new)]
        told = np.array([row / row.sum() for row in told])
        own = told[np.arange(len(codes)), codes]
        mass.append(prior * np.prod(own**weights))
        answers.append(told[len(codes) :])
    return np.einsum("m,mnk->nk", np.array(mass) / np.sum(mass), np.array(answers))


def test_the_average_is_that_written_out():
    weights = GENERATOR.integers(0, 3, 40).astype(float)
    new = GENERATOR.dirichlet([0.3, 0.3, 0.3], 5)
    found = TemperedShares.of(COUNTS).add(PROBS, CODES, weights)
    np.testing.assert_allclose(found(new), by_hand(PROBS, CODES, weights, COUNTS, new), rtol=1e-10)
    np.testing.assert_allclose(jax.jit(found.__call__)(new), found(new), rtol=1e-10)
    assert 0 < found.belief < 1
    assert "base rate" in found.verdict.sentence


def test_statistics_add_and_a_weight_of_two_is_the_row_twice():
    blank = TemperedShares.of(COUNTS)
    whole, parts = blank.add(PROBS, CODES), blank.add(PROBS[:15], CODES[:15]).add(PROBS[15:], CODES[15:])
    np.testing.assert_allclose(whole.log_likelihood, parts.log_likelihood, rtol=1e-12)
    twice = blank.add(np.repeat(PROBS, 2, 0), np.repeat(CODES, 2))
    np.testing.assert_allclose(blank.add(PROBS, CODES, np.full(40, 2.0))(PROBS), twice(PROBS), rtol=1e-12)


def test_the_impossible_is_lifted_and_noise_says_the_base_rate():
    certain = np.eye(2)[GENERATOR.integers(0, 2, 400)]
    codes = GENERATOR.integers(0, 2, 400)
    blank = TemperedShares.of(np.bincount(codes))
    noise = blank.add(certain, codes)(np.eye(2))
    assert np.abs(noise - blank.base).max() < 0.06
    sure = blank.add(np.eye(2)[codes], codes)(np.eye(2))
    assert 0.99 < sure[0, 0] < 1  # four hundred right answers are no proof
    with pytest.raises(ValueError, match="`counts` must be weights of classes"):
        TemperedShares.of([0.0, 0.0])


def table(weights=None):
    X = np.random.default_rng(1).integers(0, 4, (60, 2)).astype(float)
    y = (X[:, 0] + np.random.default_rng(2).normal(size=60) > 1.5).astype(int)
    return Rows.of(X, y, weights, target="class", num_classes=2)


def contents(blocks):
    """The weight of each distinct row that is held out, fold by fold."""
    return [{(*row, code): w for row, code, w in zip(held.X.tolist(), held.y, held.weights)}
            for _, held in blocks]  # fmt: skip


def test_folds_deal_out_every_unit_once_whatever_the_order_and_units():
    rows = table()
    total = {}
    for seen, held in held_out_blocks(rows):
        assert seen.weights.sum() + held.weights.sum() == 60
        for row, code, weight in zip(held.X, held.y, held.weights):
            total[(*row, code)] = total.get((*row, code), 0.0) + weight
    counted = {}
    for row, code in zip(rows.X, rows.y):
        counted[(*row, code)] = counted.get((*row, code), 0.0) + 1
    assert total == counted
    order = np.random.default_rng(3).permutation(60)
    first, second = contents(held_out_blocks(rows)), contents(held_out_blocks(rows.take(order)))
    assert first == second
    scaled = replace(rows, X=rows.X * 2 + 8)
    moved = [{(a * 2 + 8, b * 2 + 8, c): w for (a, b, c), w in fold.items()} for fold in first]
    assert contents(held_out_blocks(scaled)) == moved


def test_a_weight_is_so_many_rows_in_the_folds():
    rows = table(np.random.default_rng(4).integers(1, 4, 60).astype(float))
    copies = rows.take(np.repeat(np.arange(60), rows.weights.astype(int)))
    again = replace(copies, weights=np.ones(copies.num_rows))
    assert contents(held_out_blocks(rows)) == contents(held_out_blocks(again))


def test_refusals_say_nothing_and_faults_are_raised():
    def refusing(seen, new):
        raise ValueError("`n_neighbors` must be at most 3; got 5.")

    def broken(seen, new):
        raise ValueError("operands could not be broadcast")

    found = calibrated_by_folds(table(), refusing)
    assert found.belief == pytest.approx(0.5)
    with pytest.raises(ValueError, match="broadcast"):
        calibrated_by_folds(table(), broken)
    assert is_refusal(ValueError("`X` must not separate the classes"))


def test_votes_of_few_rows_are_not_enough():
    rows = table()
    votes = np.full((60, 2), np.nan)
    votes[:20] = 0.5
    assert calibrated_by_votes(rows, votes) is None
    votes[:40] = 0.5
    assert calibrated_by_votes(rows, votes) is not None
