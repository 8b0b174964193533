"""Pictures of margins show the lines and points of the machine."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.estimators.svm import SupportVectorClassifier
from tractable.plots.margins import BandwidthDisplay, MarginDisplay
from tractable.supervised.svm.machine import SupportVectorMachine
from tractable.supervised.svm.study import bandwidth_study, xor

ROWS, SIGNS = np.array([[1.0, 1.0], [-1.0, -1.0], [2.0, 1.5]]), np.array([1.0, -1.0, 1.0])


def test_the_street_of_a_machine():
    machine = SupportVectorMachine.fit(ROWS, SIGNS, C=10.0)
    shown = MarginDisplay.from_model(machine, ROWS, SIGNS)
    np.testing.assert_allclose(shown.ax_.lines[-1].get_xydata(), ROWS[[0, 1]])  # the ringed rows
    assert "width 2.83" in shown.ax_.get_title()
    drawn = [path for c in shown.ax_.collections for path in c.get_paths() if len(path.vertices)]
    values = [machine.decision(path.vertices) for path in drawn]
    assert any(np.allclose(v, 1.0, atol=0.02) for v in values)
    plt.close(shown.figure_)


def test_estimators_and_studies():
    X, y = xor(40)
    labels = np.where(y > 0, "same", "other")
    shown = MarginDisplay.from_estimator(SupportVectorClassifier().fit(X, labels), X, labels)
    names = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert names == ["-1", "+1", "support vectors"]
    plt.close(shown.figure_)
    study = bandwidth_study(X, y, X, y, [0.1, 1.0])
    curves = BandwidthDisplay.from_model(study)
    np.testing.assert_allclose(curves.ax_.lines[2].get_ydata(), study.support_share)
    plt.close(curves.figure_)
    with pytest.raises(ValueError, match=r"`X` must be rows of two columns"):
        MarginDisplay.from_model(SupportVectorMachine.fit(ROWS[:, :1], SIGNS), ROWS[:, :1], SIGNS)
