r"""Watching a process at work: is each new target still what the rows before it predict?

Ahead.       The factor of $K_y$ in the order of the rows gives the errors of all one-step-ahead predictions
             (`inference.trust.monitoring`), by which an alarm is raised that seldom is a false one.
Cost.        One Cholesky factor: $O(n^3)$ for $n$ rows in all.
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.checks import check, check_count
from tractable.core.factors import positive_definite_factor
from tractable.core.programs import program
from tractable.core.types import Array
from tractable.distributions.continuous import Normal
from tractable.gp.points import Observed, Table, observe
from tractable.gp.prior import residuals, training_covariance
from tractable.gp.regression import GaussianProcess
from tractable.inference.trust.monitoring import PredictiveMonitor, one_step_ahead

__all__ = ["PredictiveMonitor", "monitor_predictions"]


def monitor_predictions(
    process: GaussianProcess, X: Table, y: Any = None, *, num_trusted: int = 0, level: float = 0.01
) -> PredictiveMonitor:
    """Each target beside what the rows before it predict, in their order, and whether they still fit.

    The first `num_trusted` rows teach without being judged.

    >>> import numpy as np
    >>> from tractable.kernels.stationary import RBF
    >>> X = np.arange(12.0)
    >>> seen = monitor_predictions(GaussianProcess(RBF(3.0), 0.01), X, np.sin(X / 3) + 3 * (X > 8))
    >>> seen.alarm, seen.verdict.ok
    (9, False)
    """
    check(0 < level < 1, "level", "between 0 and 1", level)
    observed = observe(X, y)
    trusted = check_count("num_trusted", num_trusted, 0, observed.num_rows)
    parts = _watched(process, observed, jnp.asarray(trusted))
    loc, scale, error, density, odds = observed.unpadded(parts)
    return PredictiveMonitor(Normal(loc, scale), error, density, odds, float(level))


@program
def _watched(process: GaussianProcess, observed: Observed, trusted: Array) -> tuple[Array, ...]:
    factor = positive_definite_factor(training_covariance(process, observed)[0])
    return one_step_ahead(observed.y, residuals(process, observed), factor, trusted)
