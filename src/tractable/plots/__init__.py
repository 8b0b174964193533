"""Layer 10: pictures. Functions that take a result and return the Matplotlib axes that they drew on."""

from tractable.plots.distributions import plot_density, plot_ellipse
from tractable.plots.predictive import plot_coefficients, plot_intervals

__all__ = ["plot_coefficients", "plot_density", "plot_ellipse", "plot_intervals"]
