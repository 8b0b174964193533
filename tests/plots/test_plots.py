"""Pictures: what is drawn is what was given."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.distributions import Normal, Poisson
from tractable.plots.distributions import plot_density, plot_ellipse
from tractable.plots.predictive import plot_coefficients, plot_intervals


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_density_line_is_the_density():
    ax = plot_density(Normal(1.0, 2.0))
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(np.trapezoid(y, x), 0.998, atol=1e-3)
    np.testing.assert_allclose(x[np.argmax(y)], 1.0, atol=0.02)


def test_mass_of_counts_is_drawn_at_whole_numbers():
    ax = plot_density(Poisson(3.0))
    segments = ax.collections[0].get_segments()
    heights = {round(s[0][0]): s[1][1] for s in segments}
    np.testing.assert_allclose(heights[2], 9 / 2 * np.exp(-3), rtol=1e-12)


def test_density_of_several_coordinates_is_refused():
    with pytest.raises(ValueError, match=r"`distribution` must be of shape \(\); got shape \(3,\)"):
        plot_density(Normal(jnp.zeros(3), 1.0))


def test_ellipse_has_the_right_mahalanobis_radius():
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    ax = plot_ellipse(mean, cov, masses=(0.9,))
    points = np.stack(ax.lines[0].get_data(), axis=1) - mean
    radius = np.einsum("ni,ij,nj->n", points, np.linalg.inv(cov), points)
    np.testing.assert_allclose(radius, -2 * np.log(0.1), rtol=1e-10)


def test_intervals_count_what_is_inside():
    observed = np.array([0.0, 5.0, 2.0, 3.0])
    ax = plot_intervals(observed, np.zeros(4), np.full(4, -1.0), np.full(4, 2.5))
    assert "50% of 4" in ax.get_title()
    inside = next(line for line in ax.lines if line.get_label() == "observed, inside")
    assert sorted(inside.get_ydata()) == [0.0, 2.0]


def test_intervals_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="`upper` must be as long as `observed`"):
        plot_intervals([1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [1.0])


def test_coefficients_are_labelled_top_down():
    ax = plot_coefficients(["a", "b"], [1.0, 2.0], [0.0, 1.0], [2.0, 3.0])
    labels = {
        tick.get_text(): position
        for tick, position in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True)
    }
    assert labels["a"] > labels["b"]
