"""Pictures of classifiers: regions with their uncertainty, calibration, and risk by coverage.

Displays follow scikit-learn's manner: `from_estimator` computes, `plot` draws, `ax_` and `figure_` are what
was drawn on. A classifier is anything with `classes_` and `predict_proba`.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from tractable.core.checks import check, check_count
from tractable.core.types import ArrayLike
from tractable.inference.trust.calibration import Reliability, reliability
from tractable.inference.trust.uncertainty import RiskCoverage, risk_coverage
from tractable.plots.display import Display
from tractable.plots.evidence import plot_reliability, plot_risk_coverage

__all__ = ["CalibrationDisplay", "DecisionRegionDisplay", "RiskCoverageDisplay"]


class DecisionRegionDisplay(Display):
    """The most probable class over a plane, paler where it is less probable, with contours of certainty.

    Parameters: grids `first` and `second` of the two columns, `probabilities` of shape (rows of the grid,
    columns of the grid, classes), `classes`, and optionally the data.
    """

    def __init__(self, first: np.ndarray, second: np.ndarray, probabilities: np.ndarray, classes: np.ndarray,
                 X: np.ndarray | None = None, y: np.ndarray | None = None):  # fmt: skip
        self.first, self.second, self.probabilities = first, second, probabilities
        self.classes, self.X, self.y = classes, X, y

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike | None = None, *, resolution: int = 120,
        margin: float = 0.1, ax: Axes | None = None,
    ) -> "DecisionRegionDisplay":  # fmt: skip
        """The regions of a classifier of two columns, over the range of `X` and a `margin` around it."""
        rows = np.asarray(X, float)
        columns = rows.ndim == 2 and rows.shape[1] == 2
        check(columns, "X", "of two columns", f"shape {rows.shape}", "Fit the classifier on two columns.")
        count = check_count("resolution", resolution, least=2)
        low, high = rows.min(0), rows.max(0)
        room = margin * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(a - r, b + r, count) for a, b, r in zip(low, high, room)]
        first, second = np.meshgrid(*axes)
        points = np.column_stack([first.ravel(), second.ravel()])
        found = np.asarray(estimator.predict_proba(points)).reshape(count, count, -1)
        labels = None if y is None else np.asarray(y)
        return cls(first, second, found, np.asarray(estimator.classes_), rows, labels).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> "DecisionRegionDisplay":
        """Shade the regions, draw the contours of the largest probability, and the data."""
        ax = self._on(ax, 5, 4)
        palette = np.array([to_rgb(f"C{k % 10}") for k in range(len(self.classes))])
        winner, certainty = self.probabilities.argmax(2), self.probabilities.max(2)
        least = 1 / len(self.classes)
        strength = ((certainty - least) / (1 - least))[..., None]
        image = 1 - 0.6 * strength * (1 - palette[winner])
        box = (self.first[0, 0], self.first[0, -1], self.second[0, 0], self.second[-1, 0])
        ax.imshow(image, origin="lower", extent=box, aspect="auto", interpolation="nearest")
        levels = [level for level in (0.6, 0.75, 0.9) if certainty.min() < level < certainty.max()]
        if levels:
            lines = ax.contour(
                self.first, self.second, certainty, levels=levels, colors="0.4", linewidths=0.7
            )
            ax.clabel(lines, fontsize="x-small", fmt="%.2f")
        if self.X is not None and self.y is not None:
            for k, label in enumerate(self.classes):
                members = self.X[self.y == label]
                ax.scatter(*members.T, s=14, color=palette[k], edgecolor="w", linewidth=0.4, label=str(label))
            ax.legend(fontsize="small")
        ax.set(xlim=box[:2], ylim=box[2:])
        return self


class CalibrationDisplay(Display):
    """Stated probabilities against what happened: the picture of a `Reliability`."""

    def __init__(self, found: Reliability):
        self.found = found

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, num_bins: int = 10, bins: str = "equal_width",
        ax: Axes | None = None,
    ) -> "CalibrationDisplay":  # fmt: skip
        """Of rows that were not used in the fit: for two classes the probability of the second one, for more
        that of the most probable one."""
        probabilities, codes = _probabilities(estimator, X, y)
        stated = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
        return cls(reliability(stated, codes, num_bins=num_bins, bins=bins)).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> "CalibrationDisplay":
        """Draw the bins beside the diagonal."""
        plot_reliability(self.found, ax=self._on(ax, 4, 4))
        return self


class RiskCoverageDisplay(Display):
    """The share of errors among the most confident answers: the picture of a `RiskCoverage`."""

    def __init__(self, found: RiskCoverage):
        self.found = found

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None
    ) -> "RiskCoverageDisplay":
        """Of rows that were not used in the fit; confidence is the largest probability."""
        probabilities, codes = _probabilities(estimator, X, y)
        wrong = (probabilities.argmax(1) != codes).astype(float)
        return cls(risk_coverage(probabilities.max(1), wrong)).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> "RiskCoverageDisplay":
        """Draw the curve beside that of an oracle."""
        plot_risk_coverage(self.found, ax=self._on(ax, 5, 3))
        return self


def _probabilities(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities, and the codes of the true classes; a class that was never seen is refused."""
    probabilities = np.asarray(estimator.predict_proba(X))
    classes, labels = np.asarray(estimator.classes_), np.asarray(y)
    known = np.isin(labels, classes)
    if not known.all():
        check(False, "y", f"among the classes {classes.tolist()}", repr(labels[~known].flat[0]))
    order = np.argsort(classes)
    return probabilities, order[np.searchsorted(classes, labels, sorter=order)]
