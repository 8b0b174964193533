"""Pictures of variational inference: the lines are the numbers of the result."""

from types import SimpleNamespace

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.inference.variational.families import MeanField
from tractable.inference.variational.gradients import GradientEstimate, race
from tractable.plots.variational import plot_bound, plot_contours, plot_race


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_bound_line_and_verdict():
    post = SimpleNamespace(
        trace=np.array([-5.0, -3.0, -2.5, -2.4]), num_steps=400, elbo=-2.39, elbo_standard_error=0.01,
        k_hat=0.31, status=Status.converged, verdict="Good: fine.",
    )  # fmt: skip
    ax = plot_bound(post, last=0.5)
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, [-2.5, -2.4])
    np.testing.assert_allclose(x, [300, 400])
    assert "k_hat 0.31" in ax.get_title()
    assert "converged" in ax.get_title()
    with pytest.raises(ValueError, match="`last` must be above 0"):
        plot_bound(post, last=0.0)


def test_contours_hold_the_named_masses():
    family = MeanField([0.0, 0.0], [1.0, 1.0])
    ax = plot_contours(family.log_prob, family, low=[-5.0, -5.0], high=[5.0, 5.0], num=161)
    lines = ax.collections[1]
    # a standard normal holds 10, 50, 90 % inside squared radii -2 log(1 - share)
    radii = np.sqrt(-2 * np.log(1 - np.array([0.9, 0.5, 0.1])))
    for path, radius in zip(lines.get_paths(), radii):
        np.testing.assert_allclose(np.hypot(*path.vertices.T), radius, atol=0.06)
    with pytest.raises(ValueError, match="`low` must be two numbers below `high`"):
        plot_contours(family.log_prob, family, low=[1.0, 1.0], high=[0.0, 2.0])


def test_race_bars_are_the_variances():
    table = race(
        {
            "one": GradientEstimate(jnp.array([1.0, 3.0])),
            "two": GradientEstimate(jnp.array([0.0, 4.0])),
            "exact": GradientEstimate(jnp.array([2.0]), jnp.ones(1)),
        }
    )
    ax = plot_race(table)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [2.0, 8.0])
