"""Layer 10: pictures. Functions that take a result and return the Matplotlib axes that they drew on."""

from tractable.plots.chains import (
    plot_autocorrelation,
    plot_effective_size,
    plot_energy,
    plot_pair,
    plot_ranks,
    plot_running_mean,
    plot_trace,
)
from tractable.plots.distributions import plot_density, plot_ellipse
from tractable.plots.evidence import (
    plot_coverage,
    plot_k_hat,
    plot_reliability,
    plot_risk_coverage,
    plot_weights,
)
from tractable.plots.optim import plot_bounds, plot_descent, plot_rate, plot_step_study
from tractable.plots.particles import plot_ess, plot_filter, plot_temperatures
from tractable.plots.predictive import plot_coefficients, plot_intervals
from tractable.plots.variational import plot_bound, plot_contours, plot_race

__all__ = [
    "plot_autocorrelation", "plot_bound", "plot_bounds", "plot_coefficients", "plot_contours",
    "plot_coverage", "plot_density", "plot_descent", "plot_effective_size", "plot_ellipse", "plot_energy",
    "plot_ess", "plot_filter", "plot_intervals", "plot_k_hat", "plot_pair", "plot_race", "plot_ranks",
    "plot_rate", "plot_reliability", "plot_risk_coverage", "plot_running_mean", "plot_step_study",
    "plot_temperatures", "plot_trace", "plot_weights",
]  # fmt: skip
