"""Pictures of Markov chains draw the numbers that they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.statespace.markov_chain.autoregression import AutoRegression
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.pagerank import pagerank


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_a_chain_has_a_circle_for_each_state_and_an_arrow_for_each_step():
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    chain = MarkovChain(matrix, names=["a", "b", "c"])
    ax = tr.plot(chain)
    drawn = {patch.get_gid() for patch in ax.patches}
    assert drawn == {"a", "b", "c", "a->a", "a->b", "b->c", "c->b"}
    colours = {patch.get_gid(): patch.get_facecolor() for patch in ax.patches}
    assert colours["a"] == (1.0, 1.0, 1.0, 1.0)  # transient
    assert colours["b"] == colours["c"] != colours["a"]
    assert {"a->a", "a->b"} & {p.get_gid() for p in tr.plot(chain, least=0.6).patches} == set()
    with pytest.raises(ValueError, match="at most 40 states"):
        tr.plot(MarkovChain(np.eye(41)))


def test_distances_scores_and_forecasts():
    chain = MarkovChain([[0.7, 0.3], [0.6, 0.4]])
    ax = tr.plot(chain, kind="distance", num_steps=5, starts=[0])
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), chain.total_variation(5, 0))
    ranks = pagerank([(0, 1), (1, 0), (2, 0)])
    bars = tr.plot(ranks, count=2).patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], [score for _, score in ranks.top(2)])
    series = np.sin(np.arange(20.0))
    forecast = AutoRegression([0.5]).forecast(series, 4)
    ax = tr.plot(forecast, series)
    np.testing.assert_allclose(ax.get_lines()[1].get_xydata()[:, 1], forecast.mean)
    assert ax.get_lines()[1].get_xdata()[0] == 20
