"""Pictures of topics say what the models say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.latent.topics.gibbs import collapsed_gibbs
from tractable.latent.topics.lda import LatentDirichletAllocation
from tractable.latent.topics.plsa import ProbabilisticLSA

TABLE = np.array([[4, 3, 0, 0], [3, 5, 0, 1], [0, 0, 4, 4], [0, 1, 2, 5]])
NAMES = ["cat", "dog", "bond", "stock"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_topics_show_their_words_and_sizes():
    model = tr.fit(LatentDirichletAllocation.random(2, 4, key=0), tr.latent.as_corpus(TABLE).rows).state
    axes = tr.plot(model, NAMES, count=2)
    shown = [[label.get_text() for label in ax.get_yticklabels()] for ax in axes]
    assert sorted(map(sorted, shown)) == sorted(map(sorted, model.top_words(2, NAMES)))
    widths = [patch.get_width() for patch in axes[0].patches]
    assert widths == sorted(widths, reverse=True)


def test_shares_fill_the_bars():
    chain = collapsed_gibbs(TABLE, 2, key=0, num_sweeps=30)
    ax = tr.plot(chain, kind="shares")
    heights = np.array([patch.get_height() for patch in ax.patches]).reshape(2, 4)
    np.testing.assert_allclose(heights.sum(0), 1)
    np.testing.assert_allclose(np.sort(heights[0]), np.sort(chain.shares[:, 0]))
    aspects = ProbabilisticLSA.random(2, 4, 4, key=0)
    assert len(tr.plot(aspects, kind="shares").patches) == 8
    model = LatentDirichletAllocation.random(2, 4, key=0)
    with pytest.raises(ValueError, match="`documents` must be given"):
        tr.plot(model, kind="shares")
    estimator = tr.estimators.LatentDirichletAllocation(2, random_state=0).fit(TABLE)
    assert len(tr.plot(estimator, TABLE, kind="shares").patches) == 8


def test_the_trace_shades_what_was_kept():
    chain = collapsed_gibbs(TABLE, 2, key=0, num_sweeps=30, num_kept=10)
    ax = tr.plot(chain, kind="trace")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), chain.trace)
    box = ax.patches[0].get_bbox()
    assert (box.x0, box.x1) == (20.5, 30.5)
