"""Pictures of hidden Markov models: what is drawn is what was found."""

import numpy as np
import pytest

import tractable as tr
from tests.statespace.test_hmm import CREAM, ICE


def test_states_and_transitions_are_drawn():
    smoothed = ICE.smooth([CREAM, [0, 1]])
    ax = tr.plot(smoothed, sequence=1)
    assert ax.get_xlim() == (0, 1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["state 0", "state 1"]
    assert tr.plot(ICE.filter(CREAM)).get_title() == "states given the rows so far"
    table = tr.plot(ICE)
    shown = [float(text.get_text()) for text in table.texts]
    np.testing.assert_allclose(shown, np.asarray(ICE.transition).reshape(-1), atol=0.005)
    with pytest.raises(ValueError, match="`sequence` must be a whole number from 0 to 1"):
        tr.plot(smoothed, sequence=2)
