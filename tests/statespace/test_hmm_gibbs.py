"""Gibbs sampling of hidden Markov models: the joint law of parameters and rows, and a known posterior."""

import jax.random as jr
import numpy as np
import pytest

from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.statespace import Gaussians, HiddenMarkov
from tractable.statespace.hmm.gibbs import MarkovPrior, gibbs, sweep

TIMES = 4


@pytest.mark.thorough
def test_parameters_and_rows_have_their_joint_law():
    """Geweke: alternate the sweep with new rows; the parameters then have their prior."""
    random = np.random.default_rng(0)
    prior = MarkovPrior(initial=2.0, transition=1.5, stickiness=1.0, symbols=2.0)
    hmm = HiddenMarkov([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]])
    kept = []
    for _ in range(600):
        _, rows = hmm.sample(jr.key(int(random.integers(2**31))), TIMES)
        _, hmm = sweep(random, hmm, hmm.gathered(rows), prior)
        kept.append([hmm.initial[0], hmm.transition[0, 0], hmm.transition[1, 0], hmm.emissions.table[1, 0]])
    found = np.array(kept)
    batches = found.reshape(20, 30, -1).mean(1)  # successive draws depend on each other
    error = batches.std(0, ddof=1) / np.sqrt(20)
    expected = np.array([0.5, 2.5 / 4.0, 1.5 / 4.0, 0.5])
    assert (np.abs(found.mean(0) - expected) < 4 * error).all()
    second = np.array([2 * 3 / (4 * 5), 2.5 * 3.5 / (4 * 5), 1.5 * 2.5 / (4 * 5), 2 * 3 / (4 * 5)])
    spread = (batches := (found**2).reshape(20, 30, -1).mean(1)).std(0, ddof=1) / np.sqrt(20)
    assert (np.abs(batches.mean(0) - second) < 4 * spread).all()


@pytest.mark.thorough
def test_one_state_has_its_conjugate_posterior():
    rows = np.random.default_rng(0).normal(2.0, 1.0, size=(30, 1))
    prior = NormalInverseWishart([0.0], 0.1, 4.0, [[2.0]])
    hmm = HiddenMarkov([1.0], [[1.0]], Gaussians([[0.0]], np.ones((1, 1, 1))))
    draws = gibbs(hmm, rows, MarkovPrior(component=prior), key=0, num_draws=150, num_warmup=1, progress=False)
    means = draws.emissions[0][:, 0, 0]
    kappa = 0.1 + 30
    centre = rows.sum() / kappa
    scatter = 2.0 + ((rows - rows.mean()) ** 2).sum() + 0.1 * 30 / kappa * rows.mean() ** 2
    expected = scatter / (4.0 + 30 - 2)  # of the variance
    assert abs(means.mean() - centre) < 4.5 * np.sqrt(expected / kappa / 150)
    assert abs(draws.emissions[1].mean() - expected) < 4.5 * draws.emissions[1].std() / np.sqrt(150)
    np.testing.assert_allclose(draws.states, 1.0)


def test_states_are_found_and_zeros_stay():
    true = HiddenMarkov(
        [1.0, 0.0, 0.0], [[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]], np.eye(3) * 0.85 + 0.05
    )
    drawn = [true.sample(jr.key(i), 60) for i in range(4)]
    prior = MarkovPrior(stickiness=2.0)
    found = gibbs(true, [x for _, x in drawn], prior, key=1, num_draws=60, num_warmup=20, progress=False)
    states = np.concatenate([z for z, _ in drawn])
    assert np.mean(found.states.argmax(1) == states) > 0.85
    assert (found.transition[:, 0, 2] == 0).all()
    np.testing.assert_allclose(found.mean_transition.sum(1), 1.0)
    np.testing.assert_allclose(found.states.sum(1), 1.0)
    assert np.isfinite(found.log_likelihood).all()
