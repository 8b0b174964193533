"""What a linear-Gaussian system answers: filtered and smoothed states, forecasts, the steady state.

Shapes.      Times first, `(T, ...)`, for one series; `(N, T, ...)` for many.
Cost.        None: records. Covariances that series share are views of one array.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field

__all__ = ["FilteredStates", "Forecast", "SmoothedStates", "SteadyState"]


class FilteredStates(Module):
    """The state at each time, given the readings before it (`predicted`) and with its own."""

    predicted_mean: Any
    predicted_cov: Any
    mean: Any
    cov: Any
    log_densities: Any = field(about="of each reading given those before")

    @property
    def log_likelihood(self) -> Any:
        """The log-density of all readings, of each series."""
        return self.log_densities.sum(-1)


class SmoothedStates(Module):
    """The state at each time given all readings; `cross` is the covariance of a state with the next."""

    mean: Any
    cov: Any
    cross: Any
    log_likelihood: Any

    @property
    def deviation(self) -> Any:
        """The standard deviation of each entry."""
        return np.sqrt(np.maximum(np.diagonal(self.cov, axis1=-2, axis2=-1), 0.0))


class Forecast(Module):
    """Readings after the last one: mean and covariance at each step, and those of the states."""

    mean: Any
    cov: Any
    state_mean: Any
    state_cov: Any

    @property
    def deviation(self) -> Any:
        """The standard deviation of each entry of a reading."""
        return np.sqrt(np.maximum(np.diagonal(self.cov, axis1=-2, axis2=-1), 0.0))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """The ends of the central interval of each entry."""
        from scipy.special import ndtri

        check(0 < level < 1, "level", "between 0 and 1", level)
        half = ndtri(0.5 + level / 2) * self.deviation
        return self.mean - half, self.mean + half

    def log_score(self, y: Any) -> Any:
        """The log-density of what came, entry by entry (marginal at each step); NaN where it is missing."""
        z = (np.asarray(y, float).reshape(self.mean.shape) - self.mean) / self.deviation
        return -0.5 * (z**2 + np.log(2 * np.pi)) - np.log(self.deviation)


class SteadyState(Module):
    """The covariances to which a filter settles, its gain, and how fast errors of the start are forgotten."""

    predicted_cov: Any
    cov: Any
    gain: Any
    innovation_cov: Any
    radius: float = field(about="largest modulus of an eigenvalue of the closed loop")
