"""Layer 10: pictures. Functions that take a result and return the Matplotlib axes that they drew on."""

from tractable.plots.chains import plot_autocorrelation as plot_autocorrelation
from tractable.plots.chains import plot_effective_size as plot_effective_size
from tractable.plots.chains import plot_energy as plot_energy
from tractable.plots.chains import plot_pair as plot_pair
from tractable.plots.chains import plot_ranks as plot_ranks
from tractable.plots.chains import plot_running_mean as plot_running_mean
from tractable.plots.chains import plot_trace as plot_trace
from tractable.plots.distributions import plot_density as plot_density
from tractable.plots.distributions import plot_ellipse as plot_ellipse
from tractable.plots.evidence import plot_coverage as plot_coverage
from tractable.plots.evidence import plot_k_hat as plot_k_hat
from tractable.plots.evidence import plot_reliability as plot_reliability
from tractable.plots.evidence import plot_risk_coverage as plot_risk_coverage
from tractable.plots.evidence import plot_weights as plot_weights
from tractable.plots.optim import plot_bounds as plot_bounds
from tractable.plots.optim import plot_descent as plot_descent
from tractable.plots.optim import plot_rate as plot_rate
from tractable.plots.optim import plot_step_study as plot_step_study
from tractable.plots.particles import plot_ess as plot_ess
from tractable.plots.particles import plot_filter as plot_filter
from tractable.plots.particles import plot_temperatures as plot_temperatures
from tractable.plots.predictive import plot_coefficients as plot_coefficients
from tractable.plots.predictive import plot_intervals as plot_intervals
from tractable.plots.variational import plot_bound as plot_bound
from tractable.plots.variational import plot_contours as plot_contours
from tractable.plots.variational import plot_race as plot_race
