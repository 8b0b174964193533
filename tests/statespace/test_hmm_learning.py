"""Learning hidden Markov models: worked steps, ascent, chunks, weights, priors, paths, labels, draws."""

from fractions import Fraction

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tests.statespace.test_hmm import ABC, CREAM, ICE, LETTERS
from tractable.core.chunks import chunks
from tractable.distributions import Poisson
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.inference import EM, HardEM, OnlineEM, best_of
from tractable.statespace import Gaussians, HiddenMarkov
from tractable.statespace.hmm.gaussian_emissions import GaussianMixtures, StudentTs
from tractable.statespace.hmm.learning import fit_labelled, start_gaussian, start_symbols, with_prior
from tractable.statespace.hmm.linear_emissions import LinearGaussians

EYES = np.tile(np.eye(2), (2, 1, 1))
TRUE = HiddenMarkov([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], Gaussians([[0.0, 0.0], [3.0, 1.0]], EYES))
SEQUENCES = [TRUE.sample(jr.key(i), n)[1] for i, n in enumerate((50, 30, 80))]
MOVES = [[0.6, 0.4], [0.4, 0.6]]


def start(emissions):
    return HiddenMarkov([0.5, 0.5], MOVES, emissions)


PLAIN = start(Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES))


def fractions(*texts):
    return [float(Fraction(text)) for text in texts]


def step(hmm, x):
    return hmm.m_step(hmm.e_step(hmm.gathered(x), None)[0])


def test_one_step_of_baum_welch_on_ice_cream():
    new = step(ICE, CREAM)
    np.testing.assert_allclose(new.initial, [0.936629, 0.063371], atol=5e-7)
    np.testing.assert_allclose(new.transition, [[0.537201, 0.462800], [0.753410, 0.246590]], atol=1.1e-6)
    np.testing.assert_allclose(
        new.emissions.table, [[0.183756, 0, 0.816244], [0.714996, 0, 0.285004]], atol=5e-7
    )


def test_one_step_of_baum_welch_by_fractions():
    new = step(LETTERS, ABC)
    moves = [fractions("720/1969", "1249/1969"), fractions("575/1264", "689/1264")]
    np.testing.assert_allclose(new.transition, moves, rtol=1e-12)
    table = [fractions("1", "0", "0"), fractions("7438/19033", "7730/19033", "3865/19033")]
    np.testing.assert_allclose(new.emissions.table, table, rtol=1e-12)
    np.testing.assert_allclose(new.initial, [0.8, 0.2], rtol=1e-12)
    assert np.exp(new.log_likelihood(ABC)) == pytest.approx(6.47829299e-4, rel=1e-8)


FAMILIES = {
    "full": Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES),
    "tied": Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES, "tied"),
    "diagonal": Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES, "diagonal"),
    "spherical": Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES, "spherical"),
    "mixtures": GaussianMixtures(
        [[0.5, 0.5], [0.5, 0.5]],
        Gaussians([[1.0, 0], [0, 0], [2, 1], [3, 1]], np.tile(np.eye(2), (4, 1, 1))),
    ),
    "student": StudentTs(Gaussians([[1.0, 0.0], [2.0, 1.0]], EYES), [4.0, 4.0]),
    "autoregressive": LinearGaussians(
        np.array([[[0.0, 0.1, 0], [0, 0, 0.1]], [[0.0, -0.1, 0], [1, 0, -0.1]]]), EYES, lags=1
    ),
}


@pytest.mark.cheap
@pytest.mark.parametrize("name", FAMILIES)
def test_the_evidence_never_falls(name):
    run = tr.fit(start(FAMILIES[name]), SEQUENCES, EM(max_steps=15))
    values = np.asarray(run.values)
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1
    model = run.state
    again = float(np.sum(model.log_likelihood(SEQUENCES)))
    assert again >= values[-1] - 1e-9 * abs(again)


def test_families_of_counts_climb_and_find_their_rates():
    true = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], Poisson(jnp.array([1.0, 8.0])))
    _, x = true.sample(jr.key(3), 400)
    run = tr.fit(HiddenMarkov([0.5, 0.5], MOVES, lambda k: Poisson(2.0 + 3.0 * k)), x, EM(max_steps=40))
    assert (np.diff(np.asarray(run.values)) > -1e-9).all()
    rates = np.sort(np.asarray(run.state.emissions.components.rate))
    assert abs(rates[0] - 1) < 4.5 * np.sqrt(1 / 150)
    assert abs(rates[1] - 8) < 4.5 * np.sqrt(8 / 150)


def test_one_state_is_maximum_likelihood():
    rows = np.concatenate(SEQUENCES)
    one = HiddenMarkov([1.0], [[1.0]], Gaussians([[0.0, 0.0]], EYES[:1]))
    found = tr.fit(one, SEQUENCES, EM()).state.emissions
    np.testing.assert_allclose(found.means[0], rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariances[0], np.cov(rows.T, bias=True), rtol=1e-12)


def test_chunks_weights_and_forms_change_nothing():
    whole = np.asarray(tr.fit(PLAIN, SEQUENCES, EM(max_steps=5)).values)
    parts = np.asarray(tr.fit(PLAIN, SEQUENCES, EM(max_steps=5), chunk=2).values)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    pair = (np.concatenate(SEQUENCES), [50, 30, 80])
    np.testing.assert_allclose(np.asarray(tr.fit(PLAIN, pair, EM(max_steps=5)).values), whole, rtol=1e-12)
    twice = np.asarray(tr.fit(PLAIN, [*SEQUENCES, SEQUENCES[0]], EM(max_steps=5)).values)
    weighed = np.asarray(tr.fit(PLAIN, SEQUENCES, EM(max_steps=5), weights=[2.0, 1.0, 1.0]).values)
    np.testing.assert_allclose(weighed, twice, rtol=1e-12)
    two = np.asarray(tr.fit(PLAIN, SEQUENCES[:2], EM(max_steps=5)).values)
    absent = np.asarray(tr.fit(PLAIN, SEQUENCES, EM(max_steps=5), weights=[1.0, 1.0, 0.0]).values)
    np.testing.assert_allclose(absent, two, rtol=1e-12)
    padded = np.zeros((2, 50, 2))
    padded[0], padded[1, :30] = SEQUENCES[0], SEQUENCES[1]
    stream = tr.fit(PLAIN, chunks((padded, np.array([50, 30])), 1), EM(max_steps=5))
    np.testing.assert_allclose(np.asarray(stream.values), two, rtol=1e-12)


def test_missing_entries_climb_too():
    gaps = [part.copy() for part in SEQUENCES]
    gaps[0][3], gaps[1][4, 0], gaps[2][7, 1] = np.nan, np.nan, np.nan
    values = np.asarray(tr.fit(PLAIN, gaps, EM(max_steps=10)).values)
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()


def test_zeros_stay_zero():
    ladder = np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]])
    table = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    hmm = HiddenMarkov([1.0, 0.0, 0.0], ladder, table)
    data = [hmm.sample(jr.key(i), 12)[1] for i in range(6)]
    found = tr.fit(hmm, data, EM(max_steps=20)).state
    assert ((np.asarray(found.transition) == 0) == (ladder == 0)).all()
    assert np.asarray(found.initial).tolist() == [1.0, 0.0, 0.0]


def test_best_paths_train_and_the_joint_climbs():
    run = tr.fit(PLAIN, SEQUENCES, HardEM())
    values = np.asarray(run.values)
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert run.status.ok
    _, best = run.state.viterbi(SEQUENCES)
    assert float(np.sum(best)) >= values[-1] - 1e-9 * abs(values[-1])


def test_online_em_comes_near():
    run = tr.fit(PLAIN, SEQUENCES * 4, OnlineEM(passes=2), chunk=2)
    exact = tr.fit(PLAIN, SEQUENCES, EM()).state
    reached = float(np.sum(run.state.log_likelihood(SEQUENCES)))
    assert reached > float(np.sum(exact.log_likelihood(SEQUENCES))) - 5
    assert reached > float(np.sum(PLAIN.log_likelihood(SEQUENCES))) + 20


def test_a_prior_gives_the_posterior_mode():
    prior = with_prior(ICE, initial=2.0, transition=3.0, stickiness=4.0, symbols=1.5)
    sums, _ = ICE.e_step(ICE.gathered(CREAM), None)
    new = prior.m_step(sums).model
    moves = np.asarray(sums.transition) + 2 + 4 * np.eye(2)
    np.testing.assert_allclose(new.transition, moves / moves.sum(1, keepdims=True), rtol=1e-12)
    counts = np.asarray(sums.emissions) + 0.5
    np.testing.assert_allclose(new.emissions.table, counts / counts.sum(1, keepdims=True), rtol=1e-12)
    run = tr.fit(prior, CREAM, EM(max_steps=20))
    assert (np.diff(np.asarray(run.values)) > -1e-10).all()


def test_a_prior_of_gaussians_holds_a_state_with_one_row():
    rows = np.array([[0.0], [0.1], [5.0]])
    hmm = HiddenMarkov([0.5, 0.5], MOVES, Gaussians([[0.0], [5.0]], np.ones((2, 1, 1)), floor=0.0))
    prior = with_prior(hmm, component=NormalInverseWishart([0.0], 0.01, 3.0, [[1.0]]))
    run = tr.fit(prior, rows, EM(max_steps=50))
    assert (np.diff(np.asarray(run.values)) > -1e-9).all()
    assert (np.asarray(run.state.model.emissions.covariances) > 0.05).all()


def test_labelled_sequences_are_counted():
    shape = HiddenMarkov([0.5, 0.5], np.full((2, 2), 0.5), np.full((2, 3), 1 / 3))
    found = fit_labelled(shape, [[0, 1, 2, 0], [1, 1]], [[0, 0, 1, 0], [1, 1]])
    np.testing.assert_allclose(found.initial, [0.5, 0.5])
    np.testing.assert_allclose(found.transition, [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(found.emissions.table, [[2 / 3, 1 / 3, 0], [0, 2 / 3, 1 / 3]])
    smooth = fit_labelled(shape, [[0, 1, 2, 0], [1, 1]], [[0, 0, 1, 0], [1, 1]], smoothing=1.0)
    np.testing.assert_allclose(smooth.emissions.table, [[0.5, 1 / 3, 1 / 6], [1 / 6, 0.5, 1 / 3]])
    drawn = [ICE.sample(jr.key(i), 400) for i in range(10)]
    close = fit_labelled(shape, [x for _, x in drawn], [z for z, _ in drawn])
    assert np.abs(np.asarray(close.transition) - np.asarray(ICE.transition)).max() < 4.5 * np.sqrt(
        0.25 / 1700
    )


def test_starts_find_the_truth():
    starts = [start_gaussian(jr.key(i), SEQUENCES, 2) for i in range(2)]
    best = best_of(starts, SEQUENCES, EM(max_steps=60))
    assert best.values[-1] > np.sum(TRUE.log_likelihood(SEQUENCES)) - 1e-6
    tables = start_symbols(jr.key(0), [[0, 1, 2, 1], [2, 2]], 2, 4)
    assert tables.emissions.table.shape == (2, 4)
