r"""A step size that brings the mean acceptance to a target, by dual averaging.

Rule.        With $H_t = \delta - \alpha_t$,
             $\bar H_t = (1 - \frac1{t + t_0})\bar H_{t-1} + \frac1{t + t_0}H_t$:
             $\log\varepsilon_{t+1} = \mu - \frac{\sqrt t}{\gamma}\bar H_t$, and the answer is
             $\log\bar\varepsilon_{t+1} = w_t\log\varepsilon_{t+1} + (1 - w_t)\log\bar\varepsilon_t$,
             $w_t = t^{-\kappa}$.
Cost.        A few numbers.
References.  Nesterov (2009); Hoffman and Gelman (2014).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module
from tractable.core.types import Scalar

__all__ = ["DualAveraging"]

_SHRINKAGE, _DELAY, _DECAY = 0.05, 10.0, 0.75  # gamma, t_0, kappa


class DualAveraging(Module):
    """The search for a step size, as far as it has come."""

    log_step: Any
    log_average: Any
    error: Any
    count: Any
    centre: Any

    @staticmethod
    def of(step_size: Any) -> "DualAveraging":
        """The search that begins at `step_size`."""
        log_step, zero = np.log(np.asarray(step_size, float)), np.zeros(())
        return DualAveraging(log_step, log_step, zero, zero, log_step)

    def update(self, acceptance: Scalar, target: float) -> "DualAveraging":
        """After a step that was accepted with probability `acceptance`."""
        count = self.count + 1
        weight = 1 / (count + _DELAY)
        error = (1 - weight) * self.error + weight * (target - acceptance)
        log_step = self.centre - jnp.sqrt(count) / _SHRINKAGE * error
        share = count**-_DECAY
        average = share * log_step + (1 - share) * self.log_average
        return DualAveraging(log_step, average, error, count, self.centre)
