"""Hidden Markov estimators: every form of sequences, fitted attributes, missing rows, slips."""

import jax.random as jr
import numpy as np
import pytest

from tractable.estimators import CategoricalHMM, GaussianHMM
from tractable.statespace import Gaussians, HiddenMarkov

TRUE = HiddenMarkov(
    [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], Gaussians([[0.0, 0.0], [4.0, 1.0]], np.tile(np.eye(2), (2, 1, 1)))
)
DRAWN = [TRUE.sample(jr.key(i), n) for i, n in enumerate((60, 40, 100))]
PARTS, LENGTHS = [rows for _, rows in DRAWN], [60, 40, 100]
STATES = np.concatenate([states for states, _ in DRAWN])
FLAT = np.concatenate(PARTS)


def test_every_form_gives_one_fit():
    made = GaussianHMM(2, random_state=0).fit(FLAT, lengths=LENGTHS)
    padded = np.zeros((3, 100, 2))
    for s, part in enumerate(PARTS):
        padded[s, : len(part)] = part
    mask = np.arange(100)[None] < np.array(LENGTHS)[:, None]
    forms = [((FLAT, LENGTHS), {}), (PARTS, {}), ((padded, mask), {})]
    for X, options in forms:
        other = GaussianHMM(2, random_state=0).fit(X, **options)
        np.testing.assert_allclose(other.transmat_, made.transmat_, rtol=1e-12)
    old_style = GaussianHMM(2, random_state=0).fit(FLAT, LENGTHS)
    assert np.array_equal(old_style.means_, made.means_)
    assert made.score(FLAT, lengths=LENGTHS) == pytest.approx(made.score(PARTS), rel=1e-12)
    assert made.score(FLAT) != pytest.approx(made.score(PARTS), rel=1e-6)


def test_states_are_found_and_attributes_are_those_of_the_model():
    made = GaussianHMM(2, covariance_type="full", random_state=0).fit(FLAT, lengths=LENGTHS)
    order = np.argsort(made.means_[:, 0])
    agree = np.mean(order.argsort()[made.predict(FLAT, LENGTHS)] == STATES)
    assert agree > 0.95
    assert np.array_equal(made.labels_, made.predict(FLAT, LENGTHS))
    assert made.startprob_.shape == (2,)
    assert made.covars_.shape == (2, 2, 2)
    np.testing.assert_allclose(made.predict_proba(FLAT, LENGTHS).sum(1), 1.0)
    value, path = made.decode(FLAT, LENGTHS)
    assert value == pytest.approx(float(np.sum(made.model_.viterbi(PARTS)[1])), rel=1e-12)
    assert path.shape == (200,)
    rows, states = made.sample(5, random_state=1)
    assert rows.shape == (5, 2)
    assert states.shape == (5,)
    assert made.converged_
    assert (np.diff(made.lower_bounds_) > -1e-8).all()


def test_missing_rows_and_shapes_of_covariance():
    gaps = FLAT.copy()
    gaps[3], gaps[10, 1] = np.nan, np.nan
    for shape in ("full", "tied", "diag", "spherical"):
        made = GaussianHMM(2, covariance_type=shape, random_state=0, n_iter=30).fit(gaps, lengths=LENGTHS)
        assert made.covars_.shape == (2, 2, 2)
        assert np.isfinite(made.predict_proba(gaps, LENGTHS)).all()


@pytest.mark.thorough
def test_symbols_in_every_form():
    hmm = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    parts = [hmm.sample(jr.key(i), 300)[1] for i in range(2)]
    made = CategoricalHMM(2, random_state=0, n_init=2).fit(parts)
    column = np.concatenate(parts)[:, None]
    other = CategoricalHMM(2, random_state=0, n_init=2).fit(column, [300, 300])
    np.testing.assert_allclose(made.emissionprob_, other.emissionprob_, rtol=1e-12)
    assert made.emissionprob_.shape == (2, 3)
    assert made.score(parts) > float(np.sum(hmm.log_likelihood(parts))) - 1e-6
    assert made.predict(parts).shape == (600,)
    assert CategoricalHMM(2, n_features=5, random_state=0).fit(parts).emissionprob_.shape == (2, 5)
    with pytest.raises(ValueError, match=r"whole numbers from 0 to 2; got 7.0 at time 1 of sequence 0"):
        made.predict([np.array([0, 7])])
    with pytest.raises(ValueError, match="`X` must be one column of symbols; got 2 columns"):
        CategoricalHMM().fit(np.zeros((4, 2)))


@pytest.mark.parametrize(("symbol", "said"), [(-1, "got -1"), (0.5, "got 0.5"), (10**9, "got 1e[+]09")])
def test_symbols_that_are_no_numbers_of_symbols_are_named(symbol, said):
    with pytest.raises(ValueError, match=said):
        CategoricalHMM(2, random_state=0).fit(np.array([[0], [1], [symbol]]))
