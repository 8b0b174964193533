"""Pictures of classifiers: what is drawn is what the classifier says."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.estimators.logistic import BayesianLogisticClassifier
from tractable.plots.classification import CalibrationDisplay, DecisionRegionDisplay, RiskCoverageDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 2))
    y = np.where(x[:, 0] - x[:, 1] + generator.logistic(size=120) > 0, "yes", "no")
    return BayesianLogisticClassifier(prior_precision=1.0).fit(x, y), x, y


def test_regions_hold_the_probabilities_of_the_grid(fitted):
    estimator, x, y = fitted
    shown = DecisionRegionDisplay.from_estimator(estimator, x, y, resolution=15)
    point = np.array([[shown.first[3, 7], shown.second[3, 7]]])
    np.testing.assert_allclose(shown.probabilities[3, 7], estimator.predict_proba(point)[0], rtol=1e-10)
    assert shown.first.min() < x[:, 0].min() < x[:, 0].max() < shown.first.max()
    image = shown.ax_.images[0].get_array()
    certain = shown.probabilities.max(2)
    low, high = (
        np.unravel_index(certain.argmin(), certain.shape),
        np.unravel_index(certain.argmax(), certain.shape),
    )
    assert image[low].sum() > image[high].sum()
    assert [text.get_text() for text in shown.ax_.get_legend().get_texts()] == ["no", "yes"]
    assert shown.figure_ is shown.ax_.figure
    with pytest.raises(ValueError, match=r"`X` must be of two columns; got shape \(120, 1\)"):
        DecisionRegionDisplay.from_estimator(estimator, x[:, :1])


def test_calibration_points_are_the_bins(fitted):
    estimator, x, y = fitted
    shown = CalibrationDisplay.from_estimator(estimator, x, y, num_bins=1)
    p = estimator.predict_proba(x)[:, 1]
    np.testing.assert_allclose(shown.ax_.collections[0].get_offsets(), [[p.mean(), (y == "yes").mean()]])
    with pytest.raises(ValueError, match=r"`y` must be among the classes \['no', 'yes'\]"):
        CalibrationDisplay.from_estimator(estimator, x, np.full(120, "maybe"))


def test_risk_at_full_coverage_is_the_share_of_errors(fitted):
    estimator, x, y = fitted
    shown = RiskCoverageDisplay.from_estimator(estimator, x, y)
    np.testing.assert_allclose(shown.found.risk[-1], (estimator.predict(x) != y).mean(), rtol=1e-10)
    np.testing.assert_allclose(shown.ax_.lines[0].get_ydata(), shown.found.risk)
