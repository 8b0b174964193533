"""Pictures of kernels: against the distance, as a heat map, with functions drawn from the prior."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check, check_count, check_option
from tractable.core.keys import takes_key
from tractable.core.types import Key
from tractable.kernels.base import Kernel
from tractable.kernels.checks import psd_report
from tractable.kernels.mercer import mercer_expansion
from tractable.plots.display import Display

__all__ = ["KernelDisplay"]

_KINDS = ("distance", "heatmap", "paths")


class KernelDisplay(Display):
    """A kernel of one column on a grid: `plot("distance")`, `plot("heatmap")` or `plot("paths")`.

    >>> from tractable.kernels.stationary import RBF
    >>> KernelDisplay.from_kernel(RBF(), num_points=5).gram.shape
    (5, 5)
    """

    def __init__(self, points: np.ndarray, gram: np.ndarray, paths: np.ndarray | None = None, name: str = ""):
        self.points, self.gram, self.paths, self.name = points, gram, paths, name

    @classmethod
    @takes_key
    def from_kernel(
        cls, kernel: Kernel, *, low: float = -3.0, high: float = 3.0, num_points: int = 200,
        num_paths: int = 4, key: Key | None = None,
    ) -> "KernelDisplay":  # fmt: skip
        """Evaluate a kernel between `low` and `high`; with a `key`, draw functions from the prior too."""
        count = check_count("num_points", num_points, least=2)
        points = np.linspace(low, high, count)
        gram = np.asarray(kernel.gram(points))
        return cls(points, gram, _draws(kernel, points, gram, key, num_paths), repr(kernel))

    def plot(self, kind: str = "distance", *, ax: Axes | None = None) -> "KernelDisplay":
        """Draw on `ax`, or on axes of its own; they are kept in `ax_` and `figure_`."""
        check_option("kind", kind, _KINDS)
        check(kind != "paths" or self.paths is not None, "kind", "one that was computed", "'paths'",
              "Make the display with a `key`.")  # fmt: skip
        ax = self._on(ax, 5, 4 if kind == "heatmap" else 3)
        getattr(self, f"_plot_{kind}")(ax)
        ax.set_title(self.name, fontsize="small", wrap=True)
        return self

    def _plot_distance(self, ax: Axes) -> None:
        """The kernel between the middle of the grid and every point of it."""
        middle = len(self.points) // 2
        ax.plot(self.points - self.points[middle], self.gram[middle], color="tab:blue")
        ax.axhline(0, color="0.8", lw=1)
        ax.set(xlabel=f"x' - x, at x = {self.points[middle]:.3g}", ylabel="k(x, x')")

    def _plot_heatmap(self, ax: Axes) -> None:
        largest = float(np.abs(self.gram).max())
        picture = ax.pcolormesh(
            self.points, self.points, self.gram, cmap="RdBu_r", vmin=-largest, vmax=largest
        )
        ax.figure.colorbar(picture, ax=ax)
        ax.set(xlabel="x'", ylabel="x", aspect="equal")
        ax.invert_yaxis()  # as a matrix is written

    def _plot_paths(self, ax: Axes) -> None:
        """Functions from the prior, with the band of two standard deviations."""
        width = 2 * np.sqrt(np.diag(self.gram))
        ax.fill_between(self.points, -width, width, color="0.92", label="two standard deviations")
        ax.plot(self.points, np.asarray(self.paths).T, lw=1)
        ax.set(xlabel="x", ylabel="f(x)")
        ax.legend(fontsize="small")


def _draws(
    kernel: Kernel, points: np.ndarray, gram: np.ndarray, key: Key | None, num_paths: int
) -> np.ndarray | None:
    """Functions at the grid points by their Karhunen-Loeve expansion, which is exact there up to rounding."""
    if key is None:
        return None
    report = psd_report(gram)
    check(kernel.traits.symmetric and report.psd, "kernel", "a covariance to draw functions", repr(report))
    expansion = mercer_expansion(kernel, points, len(points), tol=1e-15)
    scales = jnp.sqrt(expansion.eigenvalues)
    normals = jr.normal(key, (check_count("num_paths", num_paths), len(scales)))
    return np.asarray((normals * scales[None, :]) @ expansion.values.T)
