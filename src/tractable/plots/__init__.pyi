"""Layer 10: pictures. Functions that take a result and return the Matplotlib axes that they drew on."""

from tractable.plots.distributions import plot_density, plot_ellipse
from tractable.plots.evidence import (
    plot_coverage,
    plot_k_hat,
    plot_reliability,
    plot_risk_coverage,
    plot_weights,
)
from tractable.plots.optim import plot_bounds, plot_descent, plot_rate, plot_step_study
from tractable.plots.predictive import plot_coefficients, plot_intervals
from tractable.plots.variational import plot_bound, plot_contours, plot_race

__all__ = [
    "plot_bound", "plot_bounds", "plot_coefficients", "plot_contours", "plot_coverage", "plot_density",
    "plot_descent", "plot_ellipse", "plot_intervals", "plot_k_hat", "plot_race", "plot_rate",
    "plot_reliability", "plot_risk_coverage", "plot_step_study", "plot_weights",
]  # fmt: skip
