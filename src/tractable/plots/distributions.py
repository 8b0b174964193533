"""Pictures of distributions: a density or mass function, and the level ellipses of a Gaussian."""

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.distributions.base import Univariate
from tractable.plots.display import axes_of

__all__ = ["plot_density", "plot_ellipse"]


def plot_density(
    distribution: Univariate,
    *,
    low: float | None = None,
    high: float | None = None,
    ax: Axes | None = None,
    label: str = "",
) -> Axes:
    """The density, or for counts the mass, from `low` to `high` (default: the 0.1 % and 99.9 % quantiles)."""
    check(
        distribution.shape == (),
        "distribution",
        "of shape ()",
        f"shape {distribution.shape}",
        "Plot one coordinate at a time.",
    )
    low = float(distribution.icdf(0.001)) if low is None else low
    high = float(distribution.icdf(0.999)) if high is None else high
    ax = axes_of(ax, 5, 3)
    if distribution.discrete:
        x = np.arange(np.floor(low), np.ceil(high) + 1)
        ax.vlines(x, 0, np.asarray(distribution.prob(x)), lw=3, label=label)
        ax.set_ylabel("mass")
    else:
        x = np.linspace(low, high, 512)
        ax.plot(x, np.asarray(distribution.prob(x)), label=label)
        ax.set_ylabel("density")
    ax.set(xlabel="x")
    ax.set_ylim(bottom=0)
    return ax


def plot_ellipse(
    mean: ArrayLike, cov: ArrayLike, *, masses: tuple[float, ...] = (0.5, 0.9), ax: Axes | None = None
) -> Axes:
    r"""The ellipses $(x - \mu)^\top \Sigma^{-1} (x - \mu) = c$ that hold the given masses of a Gaussian."""
    mean, cov = np.asarray(mean, float), np.asarray(cov, float)
    check(
        mean.shape == (2,) and cov.shape == (2, 2),
        "mean",
        "of shape (2,) with `cov` of shape (2, 2)",
        f"{mean.shape}, {cov.shape}",
    )
    ax = axes_of(ax, 4, 4)
    values, vectors = np.linalg.eigh(cov)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for mass in masses:
        radius = np.sqrt(
            -2 * np.log1p(-mass)
        )  # the chi-square quantile with two degrees of freedom, under the root
        x, y = mean[:, None] + radius * vectors @ (np.sqrt(values)[:, None] * circle)
        ax.plot(x, y, label=f"{mass:.0%}")
    ax.plot(*mean, "+", color="0.3")
    ax.set_aspect("equal")
    return ax
