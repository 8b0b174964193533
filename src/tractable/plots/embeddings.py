"""Pictures of embeddings: the points, and how distances in them compare with those given (Shepard)."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial.distance import pdist

from tractable.core.checks import check
from tractable.core.dissimilarity import condensed_distances
from tractable.core.host_random import generator
from tractable.plots.display import axes_of

__all__ = ["plot_embedding", "plot_shepard"]

_MOST = 20_000  # pairs that are drawn


def plot_embedding(result: Any, colour: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """The first two coordinates of an embedding (or of a fitted estimator of one).

    `colour` is a number or a class for each row, `labels` are words beside the points.
    """
    places = _places(result)
    ax = axes_of(ax, 5, 4)
    xs, ys = places[:, 0], places[:, 1] if places.shape[1] > 1 else np.zeros(len(places))
    given = None if colour is None else np.asarray(colour)
    check(given is None or len(given) == len(places), "colour", f"one for each of {len(places)} rows", given)
    if given is None or given.dtype.kind in "OUSb":
        classes = [None] if given is None else list(np.unique(given))
        for name in classes:
            own = slice(None) if name is None else given == name
            ax.scatter(xs[own], ys[own], s=14, label=None if name is None else str(name))
        if given is not None:
            ax.legend(fontsize="small")
    else:
        shown = ax.scatter(xs, ys, c=given, s=14)
        ax.get_figure(root=True).colorbar(shown, ax=ax)  # pyright: ignore[reportOptionalMemberAccess]
    for x, y, text in zip(xs, ys, [] if labels is None else labels):
        ax.annotate(str(text), (x, y), xytext=(3, 3), textcoords="offset points", fontsize="small")
    ax.set(xlabel="first coordinate", ylabel="second coordinate" if places.shape[1] > 1 else "")
    if not hasattr(getattr(result, "model_", result), "next_eigenvalue"):
        ax.set_aspect("equal", adjustable="datalim")  # distances mean something
    return ax


def plot_shepard(result: Any, X: Any = None, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Distances in the embedding against those given, one point for each pair (20,000 of them at most).

    Results of `metric_mds` know what they were given; others are told the rows or distances. On the dotted
    line nothing is lost. For an ordinal scaling the disparities are drawn as steps.
    """
    model, places = getattr(result, "model_", result), _places(result)
    used = getattr(result, "metric", "euclidean") if metric is None else metric
    known = getattr(model, "given", None)
    check(X is not None or known is not None, "X", "given: rows, or distances with `metric`", None)
    given: Any = known if X is None else condensed_distances(X, used)
    found = pdist(places)
    check(len(given) == len(found), "X", f"rows with {len(found)} pairs", f"{len(given)} pairs")
    chosen = np.arange(len(found))
    if len(found) > _MOST:
        chosen = np.sort(generator(0).choice(len(found), _MOST, replace=False))
    ax = axes_of(ax, 4.5, 4.5)
    ax.plot(given[chosen], found[chosen], ".", ms=3, alpha=0.5, label="pairs")
    wanted = getattr(model, "disparities", given)
    if X is None and not np.array_equal(wanted, given):
        order = np.lexsort((wanted, given))
        ax.step(given[order], wanted[order], where="post", color="tab:red", lw=1, label="disparities")
    else:
        top = float(given.max(initial=0.0))
        ax.plot([0, top], [0, top], color="0.5", ls=":", label="equal")
    ax.set(xlabel="distance given", ylabel="distance in the embedding")
    ax.legend(fontsize="small")
    return ax


def _places(result: Any) -> np.ndarray:
    return np.asarray(result.embedding_ if hasattr(result, "embedding_") else result.points)
