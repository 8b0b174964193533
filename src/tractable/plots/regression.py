"""Pictures of Bayesian regression: predictive bands, evidence surfaces, equivalent kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check, check_length
from tractable.core.types import ArrayLike
from tractable.plots.display import Display

__all__ = ["EquivalentKernelDisplay", "EvidenceSurfaceDisplay", "PredictiveBandDisplay"]


class PredictiveBandDisplay(Display):
    """The predictive mean along one column with interval bands, draws and data.

    `bands` has one (level, lower, upper) each, `draws` one curve per row, `data` the points seen.
    """

    def __init__(self, x: ArrayLike, mean: ArrayLike, bands: Sequence[tuple], *, draws: Any = None,
                 data: tuple | None = None, xlabel: str = "x", ylabel: str = "y"):  # fmt: skip
        self.x, self.mean = np.asarray(x, float), np.asarray(mean, float)
        check_length("mean", self.mean, "x", self.x)
        self.bands, self.draws, self.data = tuple(bands), draws, data
        self.xlabel, self.ylabel = xlabel, ylabel

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, y: ArrayLike | None = None, *, column: int = 0,
                       levels: Sequence[float] = (0.5, 0.95), num_points: int = 200, num_draws: int = 0,
                       margin: float = 0.1, random_state: Any = 0, ax: Axes | None = None):  # fmt: skip
        """Predict along `column` of `X`, from a `margin` before its least to one after its greatest value;
        other columns stay at their medians.

        With `num_draws`, curves drawn from the posterior where the model has them (`sample_functions`).
        """
        rows = np.asarray(X, float)
        rows = rows[:, None] if rows.ndim == 1 else rows
        values = rows[:, column]
        extra = margin * np.ptp(values)
        x = np.linspace(values.min() - extra, values.max() + extra, num_points)
        grid = np.tile(np.median(rows, axis=0), (num_points, 1))
        grid[:, column] = x
        bands = [(level, *estimator.predict_interval(grid, level)) for level in sorted(levels, reverse=True)]
        draws = _draws(estimator, grid, num_draws, random_state)
        data = None if y is None else (values, np.asarray(y, float))
        names = getattr(estimator, "feature_names_in_", None)
        label = f"column {column}" if names is None else str(names[column])
        shown = cls(x, estimator.predict(grid), bands, draws=draws, data=data, xlabel=label)
        return shown.plot(ax=ax)

    def plot(self, ax: Axes | None = None, *, color: str = "tab:blue") -> "PredictiveBandDisplay":
        """Draw it; `ax_` and `figure_` are set."""
        ax = self._on(ax, 6, 4)
        for k, (level, lower, upper) in enumerate(self.bands):
            shade = 0.15 + 0.2 * k / max(len(self.bands), 1)
            ax.fill_between(
                self.x, lower, upper, color=color, alpha=shade, lw=0, label=f"{level:.0%} interval"
            )
        if self.draws is not None:
            ax.plot(self.x, np.asarray(self.draws).T, color="tab:orange", lw=0.7, alpha=0.7)
        ax.plot(self.x, self.mean, color=color, label="predictive mean")
        if self.data is not None:
            ax.plot(*self.data, "o", ms=3, color="0.2", label="data")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend(fontsize="small")
        return self


class EvidenceSurfaceDisplay(Display):
    """The log evidence over two hyperparameters on logarithmic axes, below its maximum, with the best."""

    def __init__(self, first: ArrayLike, second: ArrayLike, log_evidence: ArrayLike, *,
                 names: tuple[str, str] = ("alpha", "beta"), best: tuple | None = None):  # fmt: skip
        self.first, self.second = np.asarray(first, float), np.asarray(second, float)
        self.log_evidence, self.names, self.best = np.asarray(log_evidence, float), names, best
        shape = (len(self.first), len(self.second))
        check(self.log_evidence.shape == shape, "log_evidence", f"of shape {shape}", self.log_evidence.shape)

    @classmethod
    def from_function(cls, log_evidence: Callable[[float, float], Any], first: ArrayLike,
                      second: ArrayLike, *, names: tuple[str, str] = ("alpha", "beta"),
                      ax: Axes | None = None):  # fmt: skip
        """Evaluate a function of two numbers on the grid of `first` and `second`."""
        a, b = np.asarray(first, float), np.asarray(second, float)
        values = np.array([[float(log_evidence(u, v)) for v in b] for u in a])
        i, j = np.unravel_index(np.nanargmax(values), values.shape)
        return cls(a, b, values, names=names, best=(a[i], b[j])).plot(ax=ax)

    @classmethod
    def from_model(cls, fit: Any, *, num_points: int = 60, decades: float = 2.0, ax: Axes | None = None):
        """The surface around the maximum of an `EvidenceFit`, so many `decades` to either side."""
        best = float(fit.alpha), float(fit.noise_precision)
        alphas, betas = (value * np.logspace(-decades, decades, num_points) for value in best)
        surface = jax.vmap(jax.vmap(fit.spectrum.log_evidence, (None, 0)), (0, None))
        values = surface(jnp.asarray(alphas), jnp.asarray(betas))
        return cls(alphas, betas, values, best=best).plot(ax=ax)

    def plot(self, ax: Axes | None = None, *, depth: float = 20.0) -> "EvidenceSurfaceDisplay":
        """Draw contours down to `depth` nats below the maximum; `ax_` and `figure_` are set."""
        ax = self._on(ax, 5, 4)
        below = self.log_evidence - np.nanmax(self.log_evidence)
        levels = -depth * np.linspace(1, 0, 15) ** 2
        filled = ax.contourf(self.first, self.second, below.T, levels=levels, extend="min", cmap="viridis")
        self.figure_.colorbar(filled, ax=ax, label="log evidence below its maximum")
        if self.best is not None:
            ax.plot(*self.best, "r+", ms=12, label="maximum")
            ax.legend(fontsize="small")
        ax.set(xscale="log", yscale="log", xlabel=self.names[0], ylabel=self.names[1])
        return self


class EquivalentKernelDisplay(Display):
    """How much each training target counts in the predictive mean at a few points."""

    def __init__(self, x: ArrayLike, points: ArrayLike, kernel: ArrayLike):
        self.x, self.points = np.asarray(x, float), np.asarray(points, float)
        self.kernel = np.asarray(kernel, float)
        shape = (len(self.points), len(self.x))
        check(self.kernel.shape == shape, "kernel", f"of shape {shape}", self.kernel.shape)

    @classmethod
    def from_model(cls, model: Any, x: ArrayLike, points: ArrayLike, *, ax: Axes | None = None):
        """Rows $k(x^*, x_n)$ of the equivalent kernel of a `BayesianLinear` model of one variable."""
        x, points = np.asarray(x, float), np.asarray(points, float)
        return cls(x, points, model.equivalent_kernel(points[:, None], x[:, None])).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> "EquivalentKernelDisplay":
        """Draw one curve per point; `ax_` and `figure_` are set."""
        ax = self._on(ax, 6, 3)
        order = np.argsort(self.x)
        for point, row in zip(self.points, self.kernel):
            (line,) = ax.plot(self.x[order], row[order], label=f"at {point:.3g}")
            ax.axvline(point, color=line.get_color(), lw=0.7, ls="--")
        ax.axhline(0, color="0.7", lw=0.7)
        ax.set(xlabel="training input", ylabel="weight of its target")
        ax.legend(fontsize="small")
        return self


def _draws(estimator: Any, grid: np.ndarray, num_draws: int, random_state: Any) -> Any:
    model = getattr(estimator, "model_", None)
    if num_draws == 0:
        return None
    able = hasattr(model, "sample_functions")
    check(able, "num_draws", "0 for a model without posterior curves", num_draws)
    return np.asarray(model.sample_functions(jr.key(int(random_state)), grid, num_draws))  # pyright: ignore
