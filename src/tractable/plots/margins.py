"""Pictures of margins: the boundary, the street and its support vectors; what the width of a kernel does."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.plots.display import Display
from tractable.supervised.svm.machine import SupportVectorMachine
from tractable.supervised.svm.study import BandwidthStudy

__all__ = ["BandwidthDisplay", "MarginDisplay"]

_GRID = 150


class MarginDisplay(Display):
    """The decision over two columns: the boundary solid, the margins at -1 and +1 dashed, support vectors
    ringed."""

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        decision: np.ndarray,
        rows: np.ndarray,
        signs: np.ndarray,
        support: np.ndarray,
        title: str = "",
    ):
        self.x, self.y, self.decision = x, y, decision
        self.rows, self.signs, self.support, self.title = rows, signs, support, title

    @classmethod
    def from_model(
        cls, machine: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None
    ) -> "MarginDisplay":
        """Draw anything with `decision(X)`, and its training rows with labels -1 and +1."""
        rows, signs = np.asarray(X, float), np.asarray(y, float)
        check(rows.ndim == 2 and rows.shape[1] == 2, "X", "rows of two columns", f"shape {rows.shape}")
        low, high = rows.min(0), rows.max(0)
        pad = 0.15 * np.where(high > low, high - low, 1.0)
        x, v = (np.linspace(low[i] - pad[i], high[i] + pad[i], _GRID) for i in range(2))
        grid = np.stack(np.meshgrid(x, v), axis=-1).reshape(-1, 2)
        heights = np.asarray(machine.decision(grid)).reshape(_GRID, _GRID)
        support, title = np.asarray(getattr(machine, "support", np.zeros(0, int))), ""
        if isinstance(machine, SupportVectorMachine):
            title = f"{len(support)} of {len(signs)} rows support it; width {machine.width:.3g}"
        return cls(x, v, heights, rows, signs, support.astype(int), title).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None
    ) -> "MarginDisplay":
        """Draw a fitted classifier of two classes through its `decision_function`."""
        count = len(estimator.classes_)
        check(count == 2, "estimator", "a classifier of two classes", f"{count} classes")
        signs = np.where(np.asarray(y) == estimator.classes_[1], 1.0, -1.0)
        return cls.from_model(_Decided(estimator), X, signs, ax=ax)

    def plot(self, *, ax: Axes | None = None) -> "MarginDisplay":
        """Draw; `ax_` and `figure_` are set."""
        ax = self._on(ax, 5, 4)
        reach = max(float(np.abs(self.decision).max()), 1e-300)
        ax.contourf(
            self.x, self.y, self.decision, levels=np.linspace(-reach, reach, 21), cmap="RdBu", alpha=0.35
        )
        inside = [level for level in (-1.0, 0.0, 1.0) if self.decision.min() < level < self.decision.max()]
        if inside:
            styles = ["-" if level == 0 else "--" for level in inside]
            ax.contour(self.x, self.y, self.decision, levels=inside, colors="0.2", linestyles=styles)
        for sign, colour, name in ((-1, "tab:red", "-1"), (1, "tab:blue", "+1")):
            own = self.rows[self.signs == sign]
            ax.plot(own[:, 0], own[:, 1], ".", color=colour, label=name)
        ringed = self.rows[self.support]
        if len(ringed):
            ax.plot(
                ringed[:, 0], ringed[:, 1], "o", mfc="none", mec="0.1", ms=8, lw=0.8, label="support vectors"
            )
        ax.set_title(self.title)
        ax.legend(fontsize="small")
        return self


class BandwidthDisplay(Display):
    """Errors and the share of support vectors against the length scale of a Gaussian kernel."""

    def __init__(self, study: BandwidthStudy):
        self.study = study

    @classmethod
    def from_model(cls, study: BandwidthStudy, *, ax: Axes | None = None) -> "BandwidthDisplay":
        """Draw a study."""
        return cls(study).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> "BandwidthDisplay":
        """Draw; `ax_` and `figure_` are set."""
        ax = self._on(ax, 5, 3)
        scales = np.asarray(self.study.length_scales)
        curves = {
            "training error": self.study.train_error,
            "test error": self.study.test_error,
            "share of support vectors": self.study.support_share,
        }
        for name, values in curves.items():
            ax.plot(scales, np.asarray(values), "o-", ms=3, label=name)
        ax.set(xscale="log", xlabel="length scale", ylim=(-0.02, 1.02))
        ax.legend(fontsize="small")
        return self


class _Decided:
    """An estimator as something with `decision`."""

    def __init__(self, estimator: Any):
        self.estimator, self.support = estimator, getattr(estimator, "support_", np.zeros(0, int))

    def decision(self, X: np.ndarray) -> np.ndarray:
        return self.estimator.decision_function(X)
