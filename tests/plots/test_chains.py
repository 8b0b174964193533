"""Pictures of chains: what is drawn is what was given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from tractable.inference.chains.posterior import ChainPosterior as Posterior
from tractable.inference.samplers.sampler import Info
from tractable.inference.trust.effective_size import bulk_effective_size
from tractable.plots.chains import (
    plot_autocorrelation,
    plot_effective_size,
    plot_energy,
    plot_pair,
    plot_ranks,
    plot_running_mean,
    plot_trace,
)


@pytest.fixture(scope="module")
def post():
    rng = np.random.default_rng(0)
    shape = (2, 200)
    diverging = np.zeros(shape, bool)
    diverging[1, [3, 7]] = True
    info = Info(
        np.ones(shape), np.ones(shape), diverging, np.zeros(shape, bool), energy=rng.normal(size=shape)
    )
    return Posterior(
        {"a": rng.normal(size=shape), "b": rng.normal(size=(*shape, 2))}, rng.normal(size=shape), info
    )


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_trace_shows_draws_and_divergences(post):
    ax = plot_trace(post, "b[1]")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), post.draws["b"][0, :, 1])
    np.testing.assert_array_equal(ax.lines[2].get_xdata(), [3, 7])
    assert ax.get_title().startswith("R-hat ")


def test_rank_counts_and_band(post):
    ax = plot_ranks(post, "a", num_bins=10)
    steps = [patch.get_data().values for patch in ax.patches if hasattr(patch, "get_data")]
    ranks = stats.rankdata(post.draws["a"]).reshape(2, 200)
    expected = [np.histogram((row - 1) * 10 // 400, np.arange(11))[0] for row in ranks]
    np.testing.assert_array_equal(steps, expected)
    band = ax.patches[0].get_bbox()
    np.testing.assert_allclose(stats.binom.cdf([band.y0 - 1, band.y1 + 1], 200, 0.1), [0.0, 1.0], atol=0.01)


def test_autocorrelation_of_each_chain(post):
    line = plot_autocorrelation(post, "a", num_lags=5).lines[0].get_ydata()
    x = post.draws["a"][0] - post.draws["a"][0].mean()
    np.testing.assert_allclose(
        line, [(x[: 200 - t] * x[t:]).sum() / (x * x).sum() for t in range(6)], atol=1e-12
    )


def test_pair_marks_the_diverging(post):
    ax = plot_pair(post, "a", "b[0]")
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), post.draws["a"][1, [3, 7]])
    assert len(ax.lines[0].get_xdata()) == 398


def test_energy_needs_energies(post):
    assert plot_energy(post).get_title().startswith("smallest information")
    with pytest.raises(ValueError, match=r"`post` must be of a sampler that records energies"):
        plot_energy(Posterior(post.draws, post.log_density))


def test_running_mean_ends_at_the_mean(post):
    ax = plot_running_mean(post, "a", num_points=4)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [50, 100, 150, 200])
    np.testing.assert_allclose(
        ax.lines[0].get_ydata()[[0, -1]], [post.draws["a"][0, :50].mean(), post.draws["a"][0].mean()]
    )


def test_growth_of_the_effective_size(post):
    ax = plot_effective_size(post, "a", num_points=2)
    expected = [bulk_effective_size(post.draws["a"][:, :n]) for n in (100, 200)]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.lines[2].get_ydata()[0] == 200
