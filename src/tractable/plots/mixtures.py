"""Pictures of mixtures: ellipses and memberships, densities on the line, climbs of EM, choices by BIC."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.latent.mixtures.fitting import ComponentChoice, MixtureFit
from tractable.plots.display import axes_of
from tractable.plots.distributions import plot_ellipse

__all__ = ["plot_choice", "plot_climb", "plot_mixture"]


def plot_mixture(
    model: Any, rows: ArrayLike | None = None, *, columns: tuple[int, int] = (0, 1), ax: Axes | None = None
) -> Axes:
    """The components of a mixture (a model, a fit or an estimator) and the rows, each in the colours of the
    components that it may belong to. Two `columns` of a mixture of more; a density where there is one."""
    mixture = _mixture(model)
    ax = axes_of(ax, 5, 4)
    if mixture.dim == 1:
        return _on_the_line(mixture, rows, ax)
    shown = list(columns)
    palette = np.array([to_rgb(f"C{k % 10}") for k in range(mixture.num_components)])
    if rows is not None:
        xs = np.asarray(rows, float)
        ax.scatter(
            *xs[:, shown].T, s=10, c=np.clip(mixture.responsibilities(xs) @ palette, 0, 1), linewidth=0
        )
    for k, (mean, cov) in enumerate(zip(mixture.means, mixture.covariances)):
        before = len(ax.lines)
        plot_ellipse(np.asarray(mean)[shown], np.asarray(cov)[np.ix_(shown, shown)], ax=ax)
        for line in ax.lines[before:]:
            line.set_color(palette[k])
    ax.set(xlabel=f"x{shown[0]}", ylabel=f"x{shown[1]}")
    ax.set_aspect("auto")
    return ax


def plot_climb(fit: MixtureFit, *, ax: Axes | None = None) -> Axes:
    """The objective after each step of EM, which never falls."""
    ax = axes_of(ax, 5, 3)
    ax.plot(np.arange(1, len(fit.values) + 1), fit.values, ".-")
    ax.set(xlabel="step", ylabel="log-evidence")
    return ax


def plot_choice(choice: ComponentChoice, *, ax: Axes | None = None) -> Axes:
    """BIC by the number of components; the lowest is marked."""
    ax = axes_of(ax, 5, 3)
    ax.plot(choice.num_components, choice.bic, ".-")
    best = int(np.argmin(choice.bic))
    ax.plot(choice.num_components[best], choice.bic[best], "o", color="C3", fillstyle="none", markersize=10)
    ax.set(xlabel="components", ylabel="BIC")
    return ax


def _mixture(model: Any) -> Any:
    """The mixture inside a fit or an estimator."""
    for name in ("state", "model_"):
        model = getattr(model, name, model)
    known = hasattr(model, "covariances") and hasattr(model, "responsibilities")
    check(known, "model", "a Gaussian mixture, or a fit of one", type(model).__name__, error=TypeError)
    return model


def _on_the_line(mixture: Any, rows: ArrayLike | None, ax: Axes) -> Axes:
    means, widths = np.ravel(mixture.means), np.sqrt(np.ravel(mixture.covariances))
    grid = np.linspace((means - 4 * widths).min(), (means + 4 * widths).max(), 400)
    joint = np.exp(mixture.log_joint(grid[:, None]))
    if rows is not None:
        ax.hist(np.ravel(np.asarray(rows, float)), bins=40, density=True, color="0.85")
    ax.plot(grid, joint.sum(1), color="0.2")
    for k in range(joint.shape[1]):
        ax.plot(grid, joint[:, k], "--", color=f"C{k % 10}")
    ax.set(xlabel="x", ylabel="density")
    return ax
