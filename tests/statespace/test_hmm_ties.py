"""Ties of hidden Markov models beside the conditions of a maximum, mixtures of rows, and plain tables."""

import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tractable.distributions import Mixture, Normal
from tractable.inference import EM, HardEM, OnlineEM
from tractable.statespace import Gaussians, HiddenMarkov
from tractable.statespace.hmm.emissions import Symbols
from tractable.statespace.hmm.gibbs import MarkovPrior, gibbs, sweep
from tractable.statespace.hmm.learning import fit_labelled, with_prior
from tractable.statespace.hmm.sequences import as_sequences
from tractable.statespace.hmm.ties import SharedEmissions, draw_laws, equal_cells, ladder, prior_counts

ROW = [0.5, 0.3, 0.2]
TABLE = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
DATA = [[0, 1, 2, 2], [2, 0, 0, 1], [1, 1, 0, 2]]
STAY = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.0, 0.4, 0.6]])
CIRCLE = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
CASES = {
    "rows": ([0.4, 0.4, 0.2], [ROW, [0.1, 0.8, 0.1], ROW], [0, 1, 0]),
    "cells": ([0.4, 0.4, 0.2], CIRCLE, [[0, 1, 2], [2, 0, 1], [1, 2, 0]]),
    "staying": ([0.4, 0.4, 0.2], STAY, np.where(np.eye(3) > 0, 5, -1)),
    "everything": (ROW, [ROW] * 3, np.tile(np.arange(3), (4, 1))),
    "equal": ([1.0, 0.0, 0.0], ladder(3, 0.7), equal_cells(ladder(3, 0.7))),
}


def tied(name):
    initial, transition, ties = CASES[name]
    return HiddenMarkov(initial, transition, TABLE, ties)


def enumerated(hmm, sequences):
    """Expected counts of first states and of moves, path by path."""
    first, moves, log_evidence = np.zeros(3), np.zeros((3, 3)), 0.0
    A, start = np.asarray(hmm.transition), np.asarray(hmm.initial)
    for x in sequences:
        paths = np.array(list(itertools.product(range(3), repeat=len(x))))
        joint = start[paths[:, 0]] * A[paths[:, :-1], paths[:, 1:]].prod(1) * TABLE[paths, x].prod(1)
        for path, share in zip(paths, joint / joint.sum()):
            first[path[0]] += share
            np.add.at(moves, (path[:-1], path[1:]), share)
        log_evidence += np.log(joint.sum())
    return first, moves, log_evidence


def slope_left(hmm, counts):
    """What is left of the slope of sum n log p in the free probabilities, beside multiples of the rows' sums:
    the objective is concave and the constraints linear, so zero means the maximum."""
    numbers, cells = np.array(hmm.ties), np.concatenate([[np.asarray(hmm.initial)], hmm.transition])
    names = np.where(numbers < 0, 1000 + np.arange(numbers.size).reshape(numbers.shape), numbers)
    free, where = np.unique(names, return_inverse=True)
    where = where.reshape(names.shape)
    total, value = np.bincount(where.ravel(), counts.ravel()), np.zeros(len(free))
    value[where] = cells
    assert np.abs(value[where] - cells).max() < 1e-12  # the ties hold
    np.testing.assert_allclose(cells.sum(1), 1.0, rtol=1e-12)
    assert (value[total > 0] > 0).all()
    used = value > 0
    sums = np.stack([np.bincount(row, minlength=len(free)) for row in where])[:, used].astype(float)
    slope = total[used] / value[used]
    multipliers = np.linalg.lstsq(sums.T, slope, rcond=None)[0]
    return np.abs(slope - sums.T @ multipliers).max()


@pytest.mark.cheap
@pytest.mark.parametrize("name", CASES)
def test_the_step_is_the_maximum_of_the_expected_log_joint(name):
    hmm = tied(name)
    first, moves, log_evidence = enumerated(hmm, DATA)
    stats, found = hmm.e_step(hmm.gathered(DATA), None)
    assert float(found) == pytest.approx(log_evidence, rel=1e-12)
    np.testing.assert_allclose(stats.transition, moves, atol=1e-12)
    better = hmm.m_step(stats)
    assert slope_left(better, np.concatenate([first[None], moves])) < 1e-8
    prior = with_prior(hmm, initial=1.5, transition=2.0, stickiness=0.5)
    pseudo = np.concatenate([[prior.pseudo.initial], prior.pseudo.transition])
    mode = prior.m_step(stats).model
    assert slope_left(mode, np.concatenate([first[None], moves]) + pseudo) < 1e-8


@pytest.mark.cheap
@pytest.mark.parametrize("algorithm", [EM(max_steps=30), HardEM(), "online"], ids=["em", "hard", "online"])
def test_fits_climb_and_keep_the_ties(algorithm):
    rows = [tied("cells").sample(jr.key(i), 30)[1] for i in range(4)]
    if algorithm == "online":
        run = tr.fit(tied("cells"), rows * 2, OnlineEM(passes=2), chunk=2)
    else:
        run = tr.fit(tied("cells"), rows, algorithm)
        values = np.asarray(run.values)
        assert (np.diff(values) >= -1e-10 * abs(values[0])).all()
        assert values[-1] > values[0]
    A = np.asarray(run.state.transition)
    for shift in range(3):
        np.testing.assert_allclose(np.roll(A[shift], -shift), A[0], rtol=1e-12)
    assert run.state.ties == tied("cells").ties


def test_one_law_for_all_rows_is_a_mixture_of_independent_rows():
    """The first row tied too: each row is drawn anew, and EM is that of a mixture."""
    random = np.random.default_rng(0)
    parts = [random.normal(size=(n, 1)) + 3 * random.integers(0, 2, size=(n, 1)) for n in (20, 31)]
    flat = np.concatenate(parts)[:, 0]
    emissions = Gaussians([[0.5], [2.0]], np.ones((2, 1, 1)), floor=0.0)
    hmm = HiddenMarkov([0.3, 0.7], [[0.3, 0.7]] * 2, emissions, np.tile(np.arange(2), (3, 1)))
    mixture = Mixture([0.3, 0.7], Normal(jnp.array([0.5, 2.0]), jnp.ones(2)))
    run, other = tr.fit(hmm, parts, EM(max_steps=15)), tr.fit(mixture, flat, EM(max_steps=15))
    np.testing.assert_allclose(np.asarray(run.values), np.asarray(other.values), rtol=1e-9)
    np.testing.assert_allclose(run.state.transition, np.tile(other.state.weights, (2, 1)), rtol=1e-8)
    np.testing.assert_allclose(run.state.emissions.means[:, 0], other.state.components.loc, rtol=1e-8)


def test_states_that_share_are_rows_of_a_table_written_twice():
    groups = (0, 1, 0)
    plain = HiddenMarkov(ROW, CIRCLE, TABLE[list(groups)])
    shared = HiddenMarkov(ROW, CIRCLE, SharedEmissions(Symbols(TABLE[:2]), groups))
    np.testing.assert_allclose(shared.log_likelihood(DATA), plain.log_likelihood(DATA), rtol=1e-13)
    np.testing.assert_allclose(shared.forecast(DATA[0], 2).symbols, plain.forecast(DATA[0], 2).symbols)
    np.testing.assert_array_equal(shared.sample(jr.key(0), 20)[1], plain.sample(jr.key(0), 20)[1])
    sums = plain.e_step(plain.gathered(DATA), None)[0].emissions
    counts = np.stack([sums[0] + sums[2], sums[1]])
    step = shared.m_step(shared.e_step(shared.gathered(DATA), None)[0])
    np.testing.assert_allclose(step.emissions.shared.table, counts / counts.sum(1, keepdims=True), rtol=1e-12)
    run = tr.fit(with_prior(shared, symbols=2.0), DATA, EM(max_steps=20))
    assert (np.diff(np.asarray(run.values)) > -1e-10).all()
    labelled = fit_labelled(shared, [[0, 1, 1]], [[0, 2, 1]])
    np.testing.assert_allclose(labelled.emissions.table, [[0.5, 0.5, 0], [0, 1, 0], [0.5, 0.5, 0]])


def test_a_chain_of_copies_learns_what_one_state_lasts():
    """Three copies with one probability of going on: the time in them is a sum of geometric times."""
    emissions = SharedEmissions(Symbols([[0.9, 0.1], [0.2, 0.8]]), (0, 0, 0, 1))
    start = [1.0, 0.0, 0.0, 0.0]
    copies = HiddenMarkov(start, ladder(4, 0.6), emissions, equal_cells(ladder(4, 0.6)))
    data = [np.array([0] * n + [1] * 4) for n in (9, 12, 15)]
    run = tr.fit(copies, data, EM(max_steps=100, tol=1e-13))
    assert (np.diff(np.asarray(run.values)) > -1e-10).all()
    A = np.asarray(run.state.transition)
    assert np.ptp(np.diag(A)[:3]) < 1e-12
    assert A[0, 1] == pytest.approx(3 / 12, rel=1e-3)  # three moves on in twelve rows
    assert np.asarray(run.state.emissions.table)[1, 1] < 1e-4


def test_drawn_laws_have_the_means_of_their_posterior():
    random, count = np.random.default_rng(0), 2000
    hmm = tied("staying")
    counts = np.array([3.0, 1.0, 0.0]), np.array([[4.0, 2.0, 1.0], [0.0, 5.0, 3.0], [0.0, 2.0, 9.0]])
    alpha = np.ones(3), np.full((3, 3), 1.5)
    like = np.asarray(hmm.initial), np.asarray(hmm.transition)
    draws = [draw_laws(random, hmm.ties, counts, alpha, like) for _ in range(count)]
    first, moves = np.stack([a for a, _ in draws]), np.stack([a for _, a in draws])
    np.testing.assert_allclose(moves.sum(2), 1.0, rtol=1e-12)
    assert (moves[:, 2, 0] == 0).all()
    assert np.ptp(np.diagonal(moves, axis1=1, axis2=2), axis=1).max() < 1e-12
    stay = np.array([1 + 0.5 + 18, 1 + 5 * 0.5 + 8])  # beside leaving: five cells of their own, eight moves
    mean = stay[0] / stay.sum()
    error = np.sqrt(mean * (1 - mean) / (stay.sum() + 1) / count)
    assert abs(moves[:, 0, 0].mean() - mean) < 4.5 * error
    inside = moves[:, 0, 1] / moves[:, 0, 1:].sum(1)  # a Beta(3.5, 2.5) of its own
    assert abs(inside.mean() - 3.5 / 6) < 4.5 * np.sqrt(3.5 * 2.5 / 36 / 7 / count)
    assert abs(first[:, 0].mean() - 4 / 7) < 4.5 * np.sqrt(12 / 49 / 8 / count)


def test_sweeps_keep_ties_and_groups():
    table = SharedEmissions(Symbols(TABLE[:2]), (0, 1, 0))
    hmm = HiddenMarkov([0.4, 0.4, 0.2], CIRCLE, table, CASES["cells"][2])
    draws = gibbs(hmm, DATA, MarkovPrior(stickiness=1.0), key=0, num_draws=5, num_warmup=1, progress=False)
    assert np.ptp(np.diagonal(draws.transition, axis1=1, axis2=2), axis=1).max() < 1e-12
    assert draws.emissions[0].shape == (5, 2, 3)
    assert draws.model.emissions.groups == (0, 1, 0)
    np.testing.assert_allclose(draws.states.sum(1), 1.0)
    assert sweep(np.random.default_rng(1), hmm, hmm.gathered(DATA), MarkovPrior())[1].ties == hmm.ties


def test_what_is_shared_has_its_prior_once():
    first, moves = prior_counts(tied("rows").ties, np.ones(3), np.ones((3, 3)))
    np.testing.assert_allclose(first, 1.0)
    np.testing.assert_allclose(moves[:, 0], [0.5, 1.0, 0.5])
    stack = HiddenMarkov(ROW, np.stack([CIRCLE, CIRCLE]), TABLE, np.stack([CASES["cells"][2]] * 2))
    driven = as_sequences([0, 1, 2, 2], 0, controls=np.array([0, 0, 1, 1]))
    step = fit_labelled(stack, driven, [0, 1, 1, 2])
    np.testing.assert_allclose(step.transition[0][0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(step.transition[1], step.transition[0])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"`transition` must be the same in cells .*rows 2 and 0"):
        HiddenMarkov(ROW, CIRCLE, TABLE, [0, 1, 0])
    with pytest.raises(ValueError, match="`ties` must be such that rows that share a number"):
        HiddenMarkov(ROW, CIRCLE, TABLE, [[0, 1, 2], [0, 3, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match="`ties` must be whole numbers of shape"):
        HiddenMarkov(ROW, CIRCLE, TABLE, [0, 1])
    with pytest.raises(ValueError, match="`groups` must be one whole number from 0 to 2"):
        SharedEmissions(Symbols(TABLE), (0, 3))
