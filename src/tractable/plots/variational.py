"""Pictures of variational inference: the climb of the bound with its verdict, and q against its target."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.inference.variational.gaussian_families import VariationalFamily
from tractable.plots.display import axes_of

__all__ = ["plot_bound", "plot_contours", "plot_race"]


def plot_bound(post: Any, *, ax: Axes | None = None, last: float = 1.0) -> Axes:
    """The bound along the climb, the final ELBO with two standard errors, and the verdict as the title.

    `last` shows the last part of the climb alone (0.5: its second half).
    """
    check(0 < last <= 1, "last", "above 0, at most 1", last)
    trace = np.asarray(post.trace, float)
    steps = np.linspace(0, int(post.num_steps), len(trace) + 1)[1:]
    begin = int((1 - last) * len(trace))
    ax = axes_of(ax, 6, 3.5)
    ax.plot(steps[begin:], trace[begin:], lw=1, label="bound")
    value, error = float(post.elbo), float(post.elbo_standard_error)
    ax.axhline(value, color="C1", lw=1, label=f"ELBO of fresh draws {value:.5g}")
    ax.axhspan(value - 2 * error, value + 2 * error, color="C1", alpha=0.2, lw=0)
    ax.set_xlabel("step")
    ax.set_ylabel("nats")
    ax.set_title(f"{post.status.name}; k_hat {float(post.k_hat):.2f}. {post.verdict}", fontsize=8, wrap=True)
    ax.legend(loc="lower right", fontsize=8)
    return ax


def plot_contours(
    log_density: Callable[[Any], Any],
    family: VariationalFamily,
    *,
    low: ArrayLike,
    high: ArrayLike,
    num: int = 80,
    ax: Axes | None = None,
) -> Axes:
    """Level lines of a two-dimensional target (filled) and of a fitted member (lines) over a box.

    The levels hold 10 %, 50 % and 90 % of the mass that each has inside the box.
    """
    check(family.dim == 2, "family", "over two numbers", f"{family.dim}")
    a, b = np.asarray(low, float), np.asarray(high, float)
    check(a.shape == b.shape == (2,) and bool((a < b).all()), "low", "two numbers below `high`", f"{a}, {b}")
    x, y = np.linspace(a[0], b[0], num), np.linspace(a[1], b[1], num)
    points = jnp.asarray(np.stack(np.meshgrid(x, y), -1).reshape(-1, 2))
    target = np.asarray(jax.vmap(log_density)(points)).reshape(num, num)
    member = np.asarray(jax.vmap(family.log_prob)(points)).reshape(num, num)
    ax = axes_of(ax, 4.5, 4)
    ax.contourf(x, y, target, levels=[*_levels(target), target.max()], cmap="Blues", alpha=0.8)
    ax.contour(x, y, member, levels=_levels(member), colors="C3", linewidths=1.2)
    ax.set_title("target (filled) and approximation (lines)", fontsize=9)
    return ax


def plot_race(race: Any, *, ax: Axes | None = None) -> Axes:
    """The variance per draw of each estimator of a gradient, on a logarithmic scale."""
    totals = {name: float(jnp.sum(variance)) for name, variance in race.variances.items()}
    shown = {name: value for name, value in totals.items() if value > 0}
    ax = axes_of(ax, 5.5, 0.5 + 0.45 * len(shown))
    ax.barh(list(shown), list(shown.values()), color="C0")
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("variance per draw (summed over entries)")
    return ax


def _levels(log_density: np.ndarray) -> list[float]:
    """The heights above which 90 %, 50 % and 10 % of the mass on the grid lies, rising."""
    heights = np.sort(log_density.reshape(-1))[::-1]
    mass = np.cumsum(np.exp(heights - heights[0]))
    return [float(heights[np.searchsorted(mass, share * mass[-1])]) for share in (0.9, 0.5, 0.1)]
