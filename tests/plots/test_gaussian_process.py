"""Pictures of processes: what is drawn is what was computed."""

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.gp.regression import GaussianProcess
from tractable.kernels.stationary import RBF
from tractable.plots.gaussian_process import ProcessDisplay

X = np.linspace(-2, 2, 20)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_a_posterior_with_data_and_paths():
    post = GaussianProcess(RBF(1.0), 0.1).posterior([0.0, 1.0], [1.0, 0.5])
    display = ProcessDisplay.from_model(post, X, num_paths=2, key=jr.key(0))
    lines = display.ax_.get_lines()
    assert len(lines) == 4
    np.testing.assert_allclose(lines[2].get_ydata(), post.mean(X), rtol=1e-12)
    np.testing.assert_allclose(lines[3].get_xydata(), [[0.0, 1.0], [1.0, 0.5]])
    band = display.ax_.collections[0].get_paths()[0].vertices
    top = np.asarray(post.latent(X).icdf(0.975)).max()
    assert band[:, 1].max() == pytest.approx(top, rel=1e-9)
    assert display.figure_ is display.ax_.figure


def test_a_prior():
    display = ProcessDisplay.from_model(GaussianProcess(4.0 * RBF(1.0), mean=1.0), X)
    band = display.ax_.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(1 + 2 * 1.959963985, rel=1e-8)
    with pytest.raises(ValueError, match="`key` must be given"):
        ProcessDisplay.from_model(GaussianProcess(RBF(1.0)), X, num_paths=1)
