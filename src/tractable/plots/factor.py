"""Pictures of factors: variances by direction, loadings, rows with axes, and what a reconstruction keeps."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.plots.display import axes_of

__all__ = ["plot_axes", "plot_biplot", "plot_dimension", "plot_loadings", "plot_reconstruction", "plot_scree"]


def _model(result: Any) -> Any:
    """The model of an estimator or of a fit, or the model itself."""
    return getattr(result, "model_", getattr(result, "model", result))


def plot_scree(result: Any, *, ax: Axes | None = None) -> Axes:
    """The share of each direction in the variance, and of all up to it."""
    found = _model(result)
    shares = np.asarray(found.explained_ratio)
    places = np.arange(1, len(shares) + 1)
    ax = axes_of(ax, 5, 3.5)
    ax.bar(places, shares, color="tab:blue", alpha=0.7, label="each")
    ax.plot(places, np.cumsum(shares), "o-", ms=4, color="tab:orange", label="up to it")
    ax.set(xlabel="component", ylabel="share of the variance", ylim=(0, 1.05))
    ax.legend(fontsize="small")
    return ax


def plot_loadings(result: Any, *, names: Any = None, ax: Axes | None = None) -> Axes:
    """The weight of each column in each component, blue below zero and red above."""
    table = _loadings(_model(result))
    largest = float(np.abs(table).max()) or 1.0
    ax = axes_of(ax, 1.5 + 0.6 * table.shape[1], 1 + 0.3 * len(table))
    drawn = ax.imshow(table, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    ax.set_xticks(np.arange(table.shape[1]), np.arange(1, table.shape[1] + 1))
    ax.set_yticks(np.arange(len(table)), _names(result, names, len(table)))
    ax.set(xlabel="component", ylabel="column")
    ax.figure.colorbar(drawn, ax=ax, label="loading")
    return ax


def plot_biplot(result: Any, X: ArrayLike, *, names: Any = None, ax: Axes | None = None) -> Axes:
    """Rows along the first two components, with an arrow for each column."""
    model = _model(result)
    scores, table = np.asarray(model.transform(X)), _loadings(model)
    check(scores.shape[1] >= 2, "result", "of at least two components", scores.shape[1])
    ax = axes_of(ax, 5, 5)
    ax.plot(scores[:, 0], scores[:, 1], ".", ms=3, color="0.6")
    reach = np.abs(scores[:, :2]).max() / max(np.abs(table[:, :2]).max(), 1e-300)
    for name, arrow in zip(_names(result, names, len(table)), table[:, :2] * 0.8 * reach):
        ax.annotate("", arrow, (0, 0), arrowprops={"arrowstyle": "->", "color": "tab:red"})
        ax.text(1.08 * arrow[0], 1.08 * arrow[1], str(name), color="tab:red", ha="center", fontsize="small")
    ax.set(xlabel="component 1", ylabel="component 2")
    return ax


def plot_axes(result: Any, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Rows of two columns with the principal axes, each as long as two standard deviations."""
    found, rows = _model(result), np.asarray(X, float)
    check(rows.ndim == 2 and rows.shape[1] == 2, "X", "rows of two columns", f"shape {rows.shape}")
    ax = axes_of(ax, 5, 5)
    ax.plot(rows[:, 0], rows[:, 1], ".", ms=3, color="0.6")
    for direction, variance in zip(np.asarray(found.components), np.asarray(found.variances)):
        arrow = 2 * np.sqrt(variance) * direction * np.asarray(found.scale)
        ax.annotate(
            "", found.mean + arrow, found.mean, arrowprops={"arrowstyle": "->", "lw": 2, "color": "tab:red"}
        )
    ax.set(xlabel="column 0", ylabel="column 1", aspect="equal")
    return ax


def plot_reconstruction(result: Any, X: ArrayLike, *, row: int = 0, ax: Axes | None = None) -> Axes:
    """One row, and the nearest point of the subspace."""
    model = _model(result)
    one = np.asarray(X, float)[row]
    again = np.asarray(model.reconstruct(one[None]))[0]
    ax = axes_of(ax, 6, 3)
    ax.plot(one, "o-", ms=3, color="0.5", label=f"row {row}")
    ax.plot(again, ".-", color="tab:blue", label="reconstruction")
    ax.set(xlabel="column", ylabel="value")
    ax.legend(fontsize="small")
    return ax


def plot_dimension(result: Any, *, ax: Axes | None = None) -> Axes:
    """The log-evidence of each number of components below the best."""
    ax = axes_of(ax, 5, 3.5)
    for scores, label in ((result.log_evidence, "Laplace evidence"), (result.bic, "BIC")):
        ax.plot(result.num_components, scores - np.max(scores), "o-", ms=4, label=label)
    ax.axvline(result.best, color="0.6", ls=":")
    ax.set(xlabel="number of components", ylabel="log-evidence below the best")
    ax.legend(fontsize="small")
    return ax


def _loadings(model: Any) -> np.ndarray:
    """One row for each column of the table, one column for each component."""
    if hasattr(model, "loadings"):
        return np.asarray(model.loadings)
    return np.asarray(model.components).T * np.sqrt(np.asarray(model.variances))


def _names(result: Any, names: Any, count: int) -> list:
    found = names if names is not None else getattr(result, "feature_names_in_", None)
    return list(found) if found is not None else [f"x{j}" for j in range(count)]
