"""Pictures of kernels hold what they were given."""

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.kernels.nonstationary import Sigmoid, Wiener
from tractable.kernels.stationary import RBF, Matern12
from tractable.plots.kernels import KernelDisplay


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_distance_and_heat_map_show_the_kernel():
    display = KernelDisplay.from_kernel(2.0 * RBF(0.5), num_points=41).plot()
    x, y = display.ax_.lines[0].get_data()
    np.testing.assert_allclose(y, 2 * np.exp(-0.5 * (np.asarray(x) / 0.5) ** 2), rtol=1e-12)
    assert display.ax_.get_title() == "2.0 * RBF(length_scale=0.5)"
    figure, ax = plt.subplots()
    display.plot("heatmap", ax=ax)
    assert display.figure_ is figure
    np.testing.assert_array_equal(ax.collections[0].get_array().reshape(41, 41), display.gram)


def test_paths_have_the_covariance_of_the_kernel():
    display = KernelDisplay.from_kernel(
        Matern12(), low=0.0, high=2.0, num_points=8, num_paths=4000, key=jr.key(0)
    )
    products = display.paths[:, :, None] * display.paths[:, None, :]
    z = (products.mean(0) - display.gram) / (products.std(0) / np.sqrt(4000))
    assert np.abs(z).max() < 5
    few = KernelDisplay.from_kernel(Wiener(), low=0.0, num_points=8, num_paths=3, key=jr.key(1)).plot("paths")
    assert len(few.ax_.lines) == 3


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match="`kernel` must be a covariance to draw functions"):
        KernelDisplay.from_kernel(Sigmoid(1.0, -1.0), num_points=8, key=jr.key(0))
    display = KernelDisplay.from_kernel(RBF(), num_points=8)
    with pytest.raises(ValueError, match="`kind` must be one that was computed"):
        display.plot("paths")
    with pytest.raises(ValueError, match="`kind` must be one of 'distance'"):
        display.plot("contour")
