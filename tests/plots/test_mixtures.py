"""Pictures of mixtures show the numbers that they are made of."""

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.estimators import GaussianMixture
from tractable.latent.mixtures.fitting import choose_components, gaussian_mixture

NUMBERS = np.random.default_rng(0)
X = np.concatenate([NUMBERS.normal(size=(30, 2)), NUMBERS.normal(size=(30, 2)) + 6])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_every_picture_of_mixtures():
    fit = gaussian_mixture(X, 2, key=jr.key(0))
    ax = tr.plot(fit, X)
    assert len(ax.collections[0].get_offsets()) == 60
    centres = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "+"]
    np.testing.assert_allclose(np.sort(centres, axis=0), np.sort(np.asarray(fit.state.means), axis=0))
    climb = tr.plot(fit, kind="climb")
    np.testing.assert_array_equal(climb.lines[0].get_ydata(), fit.values)
    assert tr.plot(fit.state).get_xlabel() == "x0"
    line = tr.plot(GaussianMixture(2, random_state=0).fit(X[:, :1]), X[:, :1])
    grid, density = line.lines[0].get_data()
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
    choice = choose_components(X, [1, 2], key=jr.key(0))
    assert tr.plot(choice).lines[1].get_xdata()[0] == 2
