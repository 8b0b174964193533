"""What pictures are drawn on: axes that are given, or those of a new figure."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["Display", "axes_of"]


def axes_of(ax: Axes | None, width: float | int, height: float | int) -> Axes:
    """`ax`, or the axes of a new figure of this size in inches."""
    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


class Display:
    """A picture in scikit-learn's manner: a class method computes, `plot` draws, and `ax_` and `figure_` are
    what was drawn on."""

    ax_: Axes
    figure_: Figure

    def _on(self, ax: Axes | None, width: float | int, height: float | int) -> Axes:
        """The axes to draw on, which are remembered."""
        self.ax_ = axes_of(ax, width, height)
        figure: Any = self.ax_.get_figure(root=True)
        self.figure_ = figure
        return self.ax_
