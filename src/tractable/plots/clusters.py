"""Pictures of a clustering: the evidence for each number of clusters, their profiles, and the rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.latent.factor.principal import PrincipalComponents
from tractable.plots.display import axes_of

__all__ = ["plot_members", "plot_number_of_clusters", "plot_profiles"]

_MOST = 5000  # rows that are drawn


def plot_number_of_clusters(
    numbers: Sequence[int],
    log_evidence: Sequence[float],
    errors: Sequence[float] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """The log-evidence of each number of clusters relative to the best, with bars of two standard errors."""
    ax = axes_of(ax, 5, 3.2)
    heights = np.asarray(log_evidence, float)
    known = np.isfinite(heights)
    check(bool(known.any()), "log_evidence", "finite for some number", heights.tolist())
    away = np.where(known, heights - heights[known].max(), np.nan)
    bars = None if errors is None else 2 * np.asarray(errors, float)
    ax.errorbar(np.asarray(numbers), away, yerr=bars, fmt="o-", capsize=3)
    ax.axhline(0.0, linestyle=":", color="grey")
    ax.set(xlabel="number of clusters", ylabel="log-evidence, relative to the best", xticks=list(numbers))
    return ax


def plot_profiles(
    values: np.ndarray, columns: Sequence[str], clusters: Sequence[str], *, ax: Axes | None = None
) -> Axes:
    """Means of the clusters in standard deviations from those of all rows, a row for each cluster."""
    table = np.asarray(values, float)
    must = f"one row for each of {len(clusters)} clusters, one column for each of {len(columns)} names"
    check(table.shape == (len(clusters), len(columns)), "values", must, f"shape {table.shape}")
    ax = axes_of(ax, 1.5 + 0.55 * len(columns), 1.2 + 0.4 * len(clusters))
    limit = max(1.0, float(np.abs(table).max(initial=0.0)))
    shown = ax.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    ax.get_figure(root=True).colorbar(shown, ax=ax, label="sd from the mean")  # pyright: ignore[reportOptionalMemberAccess]
    ax.set_xticks(range(len(columns)), [_short(name) for name in columns], rotation=60, ha="right")
    ax.set_yticks(range(len(clusters)), list(clusters))
    for (i, j), value in np.ndenumerate(table):
        colour = "white" if abs(value) > 0.6 * limit else "black"
        ax.text(j, i, f"{value:+.1f}", ha="center", va="center", fontsize="x-small", color=colour)
    return ax


def plot_members(features: np.ndarray, shares: np.ndarray, *, ax: Axes | None = None) -> Axes:
    """Rows on their first two principal components (columns in standard deviations), coloured by cluster;
    rows that belong to several are pale. Of many rows some are drawn."""
    rows, shares = np.asarray(features, float), np.asarray(shares, float)
    check(len(rows) == len(shares), "shares", f"one row for each of {len(rows)}", len(shares))
    step = max(1, -(-len(rows) // _MOST))
    rows, shares = rows[::step], shares[::step]
    ax = axes_of(ax, 5.5, 4.2)
    if rows.shape[1] > 2:
        rows = np.asarray(PrincipalComponents.fit(rows, 2, standardise=True).transform(rows))
        ax.set(xlabel="first component", ylabel="second component")
    second = rows[:, 1] if rows.shape[1] > 1 else shares.max(1)
    labels, certainty = shares.argmax(1), shares.max(1)
    least = 1 / shares.shape[1] if shares.shape[1] > 1 else 0.0
    for k in range(shares.shape[1]):
        own = labels == k
        alpha = 0.15 + 0.75 * (certainty[own] - least) / (1 - least)
        ax.scatter(rows[own, 0], second[own], s=12, alpha=np.clip(alpha, 0, 1), label=f"cluster {k + 1}")
    ax.legend(fontsize="small")
    return ax


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:16]}..."
