"""Pictures of topics: their words, what documents are made of, and how a fit went.

Conventions. A topic has one colour in all pictures. Bars of words are probabilities in the topic; bars of
             documents are shares, ordered by the topic that each has most of.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.plots.display import axes_of

__all__ = ["plot_shares", "plot_topic_trace", "plot_topics"]


def plot_topics(
    model: Any, vocabulary: Sequence[str] | None = None, *, count: int = 8, most: int = 12, axes: Any = None
) -> list[Axes]:
    """The most probable words of the topics (the largest `most`) as bars, one pair of axes per topic."""
    topics, sizes = _topics_of(model), _sizes_of(model)
    chosen = np.argsort(-sizes, kind="stable")[:most]
    if axes is None:
        columns = min(4, len(chosen))
        rows = -(-len(chosen) // columns)
        size = (2.6 * columns, 0.5 + 0.22 * rows * (count + 3))
        axes = np.ravel(plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1])
    axes = list(np.ravel(axes))
    check(len(axes) >= len(chosen), "axes", f"at least {len(chosen)}", len(axes))
    for k, ax in zip(chosen, axes):
        words = np.argsort(-topics[k], kind="stable")[:count]
        names = [str(w) if vocabulary is None else str(vocabulary[w]) for w in words]
        ax.barh(np.arange(len(words)), topics[k][words], color=f"C{k % 10}")
        ax.set_yticks(np.arange(len(words)), names)
        ax.invert_yaxis()
        ax.set_title(f"topic {k}: {sizes[k] / sizes.sum():.0%} of words", fontsize=9)
    for ax in axes[len(chosen) :]:
        ax.set_axis_off()
    return axes[: len(chosen)]


def plot_shares(model: Any, documents: Any = None, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """What each of the first `most` documents is made of, as stacked bars of topics."""
    shares = _shares_of(model, documents)[:most]
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    ax = axes_of(ax, 8, 3)
    base = np.zeros(len(shares))
    for k in range(shares.shape[1]):
        label = f"topic {k}" if shares.shape[1] <= 10 else None
        ax.bar(
            np.arange(len(shares)), shares[order, k], bottom=base, width=1.0, color=f"C{k % 10}", label=label
        )
        base += shares[order, k]
    ax.set(
        xlabel="documents, by their largest topic", ylabel="share of topics", xlim=(-0.5, len(shares) - 0.5)
    )
    ax.set_ylim(0, 1)
    if shares.shape[1] <= 10:
        ax.legend(fontsize=7, loc="upper right")
    return ax


def plot_topic_trace(chain: Any, *, ax: Axes | None = None) -> Axes:
    """The log-joint of each sweep; the sweeps that were kept are shaded."""
    ax = axes_of(ax, 6, 3)
    trace = np.asarray(chain.trace)
    ax.plot(np.arange(1, len(trace) + 1), trace, lw=1)
    ax.axvspan(len(trace) - chain.kept + 0.5, len(trace) + 0.5, color="C0", alpha=0.12, label="kept")
    ax.set(xlabel="sweep", ylabel="log p(words, topics)")
    ax.legend()
    return ax


def _model_of(model: Any) -> Any:
    """The model behind an estimator or a chain."""
    return getattr(model, "model_", getattr(model, "model", model))


def _topics_of(model: Any) -> np.ndarray:
    found = _model_of(model)
    return np.asarray(found.topics if np.ndim(found.topics) == 2 else found.words)


def _sizes_of(model: Any) -> np.ndarray:
    found = _model_of(model)
    return np.asarray(found.topic_counts.sum(1) if hasattr(found, "topic_counts") else found.topics)


def _shares_of(model: Any, documents: Any) -> np.ndarray:
    if documents is None:
        known = getattr(model, "asymmetric", None)
        held = known.topics if known is not None else getattr(model, "shares", None)
        check(isinstance(held, np.ndarray), "documents", "given where the model holds none", None)
        return np.asarray(held)
    found = _model_of(model)
    return found.fold_in(documents) if hasattr(found, "fold_in") else found.shares(documents)
