"""Pictures of model selection: curves of losses, and the parts of the expected loss."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.keys import takes_key
from tractable.core.types import ArrayLike, Key
from tractable.plots.display import Display
from tractable.supervised.selection.bias_variance import BiasVariance, bias_variance_curve
from tractable.supervised.selection.validation import Curve, learning_curve, validation_curve

__all__ = ["BiasVarianceDisplay", "LearningCurveDisplay", "ValidationCurveDisplay"]


class _CurveDisplay(Display):
    """Mean losses on fitted rows and on rows left out, with a band of one standard error over folds."""

    def __init__(self, curve: Curve):
        self.curve = curve

    def plot(self, ax: Axes | None = None, *, logarithmic: bool = False) -> Any:
        """Draw on `ax`, or on a new figure; `logarithmic` is for the horizontal axis."""
        ax = self._on(ax, 5, 3.5)
        values = np.asarray(self.curve.values)
        places = values if values.dtype.kind in "iuf" else np.arange(len(values))
        for losses, label, color in (
            (self.curve.train, "fitted rows", "tab:orange"),
            (self.curve.test, "rows left out", "tab:blue"),
        ):
            mean = losses.mean(1)
            folds = losses.shape[1]
            error = losses.std(1, ddof=1) / np.sqrt(folds) if folds > 1 else np.zeros_like(mean)
            ax.plot(places, mean, "o-", ms=4, color=color, label=label)
            ax.fill_between(places, mean - error, mean + error, color=color, alpha=0.2, lw=0)
        if places is not values:
            ax.set_xticks(places, [str(value) for value in values])
        if logarithmic:
            ax.set_xscale("log")
        ax.set(xlabel=self.curve.name, ylabel="mean loss")
        ax.legend(fontsize="small")
        return self


class LearningCurveDisplay(_CurveDisplay):
    """Losses as a learner sees more rows: a gap that closes is variance, a height that stays is bias."""

    @classmethod
    @takes_key
    def from_model(
        cls, fit: Callable, X: ArrayLike, y: ArrayLike, sizes: Sequence[int], folds: Any, *,
        key: Key, loss: Callable | None = None, ax: Axes | None = None,
    ) -> "LearningCurveDisplay":  # fmt: skip
        """Compute the curve of a learner `fit(X, y) -> predict` and draw it."""
        return cls(learning_curve(fit, X, y, sizes, folds, key=key, loss=loss)).plot(ax)


class ValidationCurveDisplay(_CurveDisplay):
    """Losses along a hyper-parameter, with its best value marked."""

    @classmethod
    def from_model(
        cls, learner: Callable, values: Sequence[Any], X: ArrayLike, y: ArrayLike, folds: Any, *,
        loss: Callable | None = None, name: str = "value", ax: Axes | None = None, logarithmic: bool = False,
    ) -> "ValidationCurveDisplay":  # fmt: skip
        """Compute the curve of `learner(value)` and draw it."""
        curve = validation_curve(learner, values, X, y, folds, loss=loss, name=name)
        return cls(curve).plot(ax, logarithmic=logarithmic)

    def plot(self, ax: Axes | None = None, *, logarithmic: bool = False) -> "ValidationCurveDisplay":
        """Draw on `ax`, or on a new figure; `logarithmic` is for the horizontal axis."""
        super().plot(ax, logarithmic=logarithmic)
        best = int(self.curve.test.mean(1).argmin())
        values = np.asarray(self.curve.values)
        self.ax_.axvline(values[best] if values.dtype.kind in "iuf" else best, color="0.6", ls=":")
        return self


class BiasVarianceDisplay(Display):
    """Squared bias, variance, noise and their sum along settings of a learner."""

    def __init__(self, result: BiasVariance, name: str = "setting"):
        self.result, self.name = result, name

    @classmethod
    @takes_key
    def from_model(
        cls, learner: Callable, settings: Sequence[Any], draw: Callable, points: ArrayLike, truth: ArrayLike,
        *, key: Key, noise: float | int = 0.0, num_data_sets: int = 100, name: str = "setting",
        ax: Axes | None = None,
    ) -> "BiasVarianceDisplay":  # fmt: skip
        """Run the experiment and draw it."""
        result = bias_variance_curve(
            learner, settings, draw, points, truth, key=key, noise=noise, num_data_sets=num_data_sets
        )
        return cls(result, name).plot(ax)

    def plot(self, ax: Axes | None = None) -> "BiasVarianceDisplay":
        """Draw on `ax`, or on a new figure."""
        ax = self._on(ax, 5, 3.5)
        settings = np.asarray(self.result.settings)
        places = settings if settings.dtype.kind in "iuf" else np.arange(len(settings))
        for values, label, style in (
            (self.result.mean_squared_bias, "squared bias", "-"),
            (self.result.mean_variance, "variance", "-"),
            (self.result.mean_squared_bias + self.result.mean_variance, "their sum", "--"),
            (self.result.expected_loss, "expected loss, with noise", "-"),
        ):
            ax.plot(places, values, style, label=label)
        if places is not settings:
            ax.set_xticks(places, [str(value) for value in settings])
        ax.set(xlabel=self.name, ylabel="squared error")
        ax.legend(fontsize="small")
        return self
