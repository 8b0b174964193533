"""Displays of Bayesian regression show the numbers of the model."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.estimators.bayes_linear import BayesianLinearRegressor
from tractable.plots.regression import EquivalentKernelDisplay, EvidenceSurfaceDisplay, PredictiveBandDisplay
from tractable.supervised.basis import GaussianBumps

X_ROWS = np.linspace(0, 1, 25)[:, None]
Y = np.sin(6 * X_ROWS[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=25)


@pytest.fixture(scope="module")
def model():
    return BayesianLinearRegressor("evidence", basis=GaussianBumps(np.linspace(0, 1, 6), 0.2)).fit(X_ROWS, Y)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_band_holds_the_intervals_draws_and_data(model):
    shown = PredictiveBandDisplay.from_estimator(model, X_ROWS, Y, num_points=40, num_draws=3)
    level, lower, upper = shown.bands[0]
    grid = np.linspace(-0.1, 1.1, 40)[:, None]
    assert level == 0.95
    np.testing.assert_allclose(np.stack([lower, upper]), np.stack(model.predict_interval(grid, 0.95)))
    np.testing.assert_allclose(shown.mean, model.predict(grid))
    assert len(shown.ax_.lines) == 3 + 2
    assert len(shown.ax_.collections) == 2
    assert shown.figure_ is shown.ax_.figure
    spread = np.abs(np.asarray(shown.draws) - shown.mean)
    assert (spread < 6 * np.sqrt(np.asarray(model.predict_uncertainty(grid).epistemic))).all()


def test_evidence_surface_is_highest_at_the_fit(model):
    shown = EvidenceSurfaceDisplay.from_model(model.run_, num_points=21, decades=1.0)
    assert np.unravel_index(shown.log_evidence.argmax(), (21, 21)) == (10, 10)
    np.testing.assert_allclose(shown.log_evidence.max(), model.log_evidence_, rtol=1e-10)
    assert shown.best == (model.alpha_, model.noise_precision_)
    by_function = EvidenceSurfaceDisplay.from_function(
        lambda a, b: -((np.log(a) - 1) ** 2) - np.log(b) ** 2, np.exp([0.0, 1.0, 2.0]), np.exp([-1.0, 0.0])
    )
    np.testing.assert_allclose(by_function.best, [np.e, 1.0])


def test_equivalent_kernel_rows(model):
    shown = EquivalentKernelDisplay.from_model(model.model_, X_ROWS[:, 0], [0.2, 0.8])
    np.testing.assert_allclose(shown.kernel @ Y, model.predict([[0.2], [0.8]]), rtol=1e-9)
    assert len(shown.ax_.lines) == 5


def test_shapes_are_checked(model):
    with pytest.raises(ValueError, match="`log_evidence` must be of shape"):
        EvidenceSurfaceDisplay([1.0, 2.0], [1.0], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="`kernel` must be of shape"):
        EquivalentKernelDisplay([1.0], [1.0], np.zeros((2, 2)))
    full = BayesianLinearRegressor("full").fit(X_ROWS, Y)
    with pytest.raises(ValueError, match="`num_draws` must be 0"):
        PredictiveBandDisplay.from_estimator(full, X_ROWS, num_draws=2)
