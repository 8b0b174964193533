"""Displays of model selection draw the numbers that they were given."""

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.model_selection import KFold

from tractable.plots.selection import BiasVarianceDisplay, LearningCurveDisplay, ValidationCurveDisplay
from tractable.supervised.selection.validation import validation_curve

X = np.random.default_rng(0).uniform(-1, 1, (40, 1))
Y = X[:, 0] ** 2


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def _polynomial(degree):
    return lambda X, y: lambda new, w=np.polyfit(X[:, 0], y, degree): np.polyval(w, new[:, 0])


def test_validation_curve_marks_the_best_value():
    folds = KFold(4, shuffle=True, random_state=0)
    curve = validation_curve(_polynomial, [0, 1, 2], X, Y, folds, name="degree")
    shown = ValidationCurveDisplay.from_model(_polynomial, [0, 1, 2], X, Y, folds, name="degree")
    fitted, left_out, best = shown.ax_.lines
    np.testing.assert_allclose(fitted.get_ydata(), curve.train.mean(1))
    np.testing.assert_allclose(left_out.get_ydata(), curve.test.mean(1))
    assert best.get_xdata()[0] == 2
    assert shown.ax_.get_xlabel() == "degree"
    assert shown.figure_ is shown.ax_.figure
    named = ValidationCurveDisplay.from_model(lambda _: _polynomial(1), ["a", "b"], X, Y, folds)
    assert [t.get_text() for t in named.ax_.get_xticklabels()] == ["a", "b"]


def test_learning_curve_draws_on_given_axes():
    _, ax = plt.subplots()
    folds = KFold(4, shuffle=True, random_state=0)
    shown = LearningCurveDisplay.from_model(_polynomial(1), X, Y, [5, 30], folds, key=jr.key(1), ax=ax)
    assert shown.ax_ is ax
    assert ax.lines[1].get_xdata().tolist() == [5, 30]


def test_bias_variance_parts_add_up():
    def draw(key):
        x = np.asarray(jr.uniform(key, (10, 1)))
        return x, x[:, 0] ** 2

    points = np.linspace(0, 1, 5)[:, None]
    shown = BiasVarianceDisplay.from_model(
        _polynomial, [0, 1], draw, points, points[:, 0] ** 2, key=jr.key(0), noise=0.5, num_data_sets=4
    )
    bias, variance, both, expected = (line.get_ydata() for line in shown.ax_.lines)
    np.testing.assert_allclose(bias + variance, both)
    np.testing.assert_allclose(both + 0.5, expected)
