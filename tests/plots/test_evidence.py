"""Pictures of trust: what is drawn is what was given."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.inference.evidence.cross_validation import PredictiveFit
from tractable.inference.trust.calibration import reliability
from tractable.inference.trust.uncertainty import risk_coverage
from tractable.inference.weighted.importance import Weighted
from tractable.plots.evidence import (
    plot_coverage,
    plot_k_hat,
    plot_reliability,
    plot_risk_coverage,
    plot_weights,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_rows_above_the_threshold_are_red():
    fit = PredictiveFit(jnp.zeros(4), jnp.zeros(4), jnp.array([0.1, 0.9, 0.2, 0.65]), 1000, "PSIS-LOO")
    ax = plot_k_hat(fit)
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [1])
    assert ax.get_title() == "1 of 4 rows above 0.67"
    with pytest.raises(ValueError, match=r"`fit` must be the result of `loo`; got WAIC"):
        plot_k_hat(PredictiveFit(jnp.zeros(4), jnp.zeros(4), None, 1000, "WAIC"))


def test_shares_of_the_weights_fall_and_sum_to_one():
    logs = np.append(np.linspace(0, 3, 30), -np.inf)
    shares = plot_weights(Weighted.of(jnp.zeros(31), logs)).lines[0].get_ydata()
    assert (np.diff(shares) < 0).all()
    np.testing.assert_allclose(shares.sum(), 1, rtol=1e-10)


def test_reliability_points_are_the_bins():
    found = reliability([0.1, 0.3, 0.9], [0, 1, 1], num_bins=2)
    points = plot_reliability(found).collections[0].get_offsets()
    np.testing.assert_allclose(points, [[0.2, 0.5], [0.9, 1.0]])


def test_coverage_of_even_values_is_the_diagonal():
    u = (np.arange(1000) + 0.5) / 1000
    line = plot_coverage(u).lines[1]
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata(), atol=2e-3)


def test_risk_is_above_the_oracle():
    ax = plot_risk_coverage(risk_coverage([0.9, 0.2, 0.4], [1.0, 0.0, 1.0]))
    assert (ax.lines[0].get_ydata() >= ax.lines[1].get_ydata() - 1e-12).all()
