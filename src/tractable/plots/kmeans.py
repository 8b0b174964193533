"""Pictures of clusters around centres: cells, the cost of each step, and judges of the number of clusters.

Conventions. Rows are dots in the colour of their cluster, centres are crosses; a cell is where a centre is
             the nearest. Rows of more than two columns are shown by two of them, without cells: those of a
             plane are not those of the space.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.latent.kmeans.choice import ClusterNumbers
from tractable.latent.kmeans.model import Clustering, KMeans
from tractable.plots.display import axes_of

__all__ = ["plot_cells", "plot_cluster_numbers", "plot_cost"]

_MOST = 5000  # dots that can be told apart
_GRID = 200


def plot_cells(
    fitted: Clustering | KMeans | Any, X: Any, *, columns: tuple[int, int] = (0, 1), ax: Axes | None = None
) -> Axes:
    """Rows by cluster, with centres and, in two dimensions, the cells of the centres."""
    model = fitted if isinstance(fitted, KMeans) else getattr(fitted, "model_", None) or fitted.model
    rows = np.asarray(X, float)
    wide = rows.ndim == 2 and rows.shape[1] >= 2
    check(wide, "X", "a table with at least two columns", f"shape {rows.shape}")
    labels = model.labels(rows)
    first, second = columns
    ax = axes_of(ax, 5, 4)
    colours = plt.get_cmap("tab20")(np.arange(model.num_clusters) % 20)
    shown = rows[:: max(1, len(rows) // _MOST)]
    centres = np.asarray(model.centres)
    if rows.shape[1] == 2 and columns == (0, 1):
        low, high = rows.min(0), rows.max(0)
        edge = 0.05 * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(low[j] - edge[j], high[j] + edge[j], _GRID) for j in (0, 1)]
        grid = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
        cells = colours[model.labels(grid)].reshape(_GRID, _GRID, 4)
        extent = (axes[0][0], axes[0][-1], axes[1][0], axes[1][-1])
        ax.imshow(cells, extent=extent, origin="lower", aspect="auto", alpha=0.25, interpolation="nearest")
    dots = colours[labels[:: max(1, len(rows) // _MOST)]]
    ax.scatter(shown[:, first], shown[:, second], s=8, color=dots)
    ax.scatter(centres[:, first], centres[:, second], marker="X", s=70, color="black", label="centres")
    ax.set(xlabel=f"column {first}", ylabel=f"column {second}")
    ax.legend()
    return ax


def plot_cost(fitted: Clustering | Any, *, ax: Axes | None = None) -> Axes:
    """The cost after each step."""
    trace = fitted.trace if isinstance(fitted, Clustering) else fitted.cost_trace_
    ax = axes_of(ax, 5, 3)
    ax.plot(np.arange(1, len(trace) + 1), trace, marker=".")
    ax.set(xlabel="step", ylabel="cost")
    return ax


def plot_cluster_numbers(found: ClusterNumbers, *, ax: Axes | None = None) -> Axes:
    """Each judge from its worst (0) to its best (1) over the numbers of clusters, its choice ringed."""
    ax = axes_of(ax, 6, 3.5)
    with np.errstate(divide="ignore"):
        curves = {
            "gap": found.gap,
            "silhouette": found.silhouette,
            "elbow": -np.log(np.maximum(found.cost, np.finfo(float).tiny)),
            "bic": -found.bic,
        }
    for name, values in curves.items():
        usable = np.where(np.isfinite(values), values, np.nan)
        low, high = np.nanmin(usable), np.nanmax(usable)
        unit = (usable - low) / (high - low) if high > low else np.full(len(usable), 0.5)
        (line,) = ax.plot(found.num_clusters, unit, marker=".", label=f"{name}: {found.choices[name]}")
        chosen = found.num_clusters == found.choices[name]
        size = {"s": 90, "facecolors": "none", "edgecolors": line.get_color()}
        ax.scatter(found.num_clusters[chosen], unit[chosen], **size)
    ax.set(xlabel="clusters", ylabel="worst to best")
    ax.legend()
    return ax
