r"""Watching predictions at work: is each new target still what the rows before it predict?

Ahead.       For targets that are jointly normal under a model, with $L L^\top$ their covariance in the order
             of the rows, $z = L^{-1}(y - m)$ are the errors of all one-step-ahead predictions in units of
             their standard deviations $L_{tt}$: independent standard normals, and the sum of all
             $\log p(y_t \mid y_{1:t-1})$ is the evidence.
Alarm.       For an alternative $q$ (shifted by up to two deviations, wider or narrower) that begins at time
             $s$ with probability $\pi_s = 1/(s(s + 1))$, $E_t = \sum_{s \le t}\pi_s\prod_{i = s}^t
             q(z_i)/p(z_i) + \sum_{s > t}\pi_s$ has mean one under the model: the chance that its average over
             the alternatives ever exceeds $1/\delta$ is below $\delta$, however long the watch (Ville).
Cost.        One triangular solve; linear in the rows for the alarm.
References.  Ville (1939); Shiryaev (1963); Ramdas et al. (2023), game-theoretic statistics.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from tractable.core.factors import normal_log_density
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.types import Array, Float
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import Normal

__all__ = ["PredictiveMonitor", "log_odds", "one_step_ahead"]

_SHIFTS = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
_SCALES = np.array([0.5, 2.0])


class PredictiveMonitor(Module):
    r"""The prediction of each row from those before, its standardised `error`, and the odds of a drift.

    `log_odds[t]` is $\log E_t$: above $-\log\delta$ (`level` is $\delta$) the process has drifted away.
    """

    predicted: Normal
    error: Float[Array, " n"]
    log_density: Float[Array, " n"]
    log_odds: Float[Array, " n"]
    level: float = field(static=True)

    @property
    def alarm(self) -> int | None:
        """The first row at which the model is given up; None where it never is."""
        over = np.flatnonzero(np.asarray(self.log_odds) >= -np.log(self.level))
        return int(over[0]) if over.size else None

    @property
    def verdict(self) -> Verdict:
        """Whether the targets are still what the process predicts."""
        numbers = {"alarm": self.alarm, "largest_log_odds": float(np.max(self.log_odds)), "level": self.level}
        if self.alarm is None:
            return Verdict(True, "No drift: the targets are what the rows before them predict.", numbers)
        chance = f"a process that holds gives this alarm with probability below {self.level:g}"
        return Verdict(False, f"Drift: the model is given up at row {self.alarm} ({chance}).", numbers)


def one_step_ahead(
    y: Float[Array, " n"], residuals: Float[Array, " n"], factor: Any, trusted: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Each target's predicted mean and scale, its standardised error, its log-density, and the log-odds of a
    drift, from the factor of the covariance of all; the first `trusted` rows are not judged."""
    error = factor.half_solve(residuals)
    scale = jnp.diag(factor.lower)
    density = normal_log_density(error**2, 2 * jnp.log(scale), 1)
    return y - scale * error, scale, error, density, log_odds(error, trusted)


def log_odds(error: Float[Array, " n"], trusted: Array) -> Float[Array, " n"]:
    """The log of $E_t$, averaged over the alternatives."""
    z = error[:, None]
    shifted = z * _SHIFTS[None] - 0.5 * _SHIFTS[None] ** 2
    scaled = -jnp.log(_SCALES)[None] - 0.5 * z**2 * (_SCALES[None] ** -2 - 1)
    ratios = jnp.concatenate([shifted, scaled], axis=1)
    times = jnp.arange(1, len(error) + 1, dtype=error.dtype) - trusted

    def step(log_mass: Array, row: tuple[Array, Array]) -> Any:
        t, ratio = row
        judged = t > 0
        safe = jnp.where(judged, t, 1.0)
        begun = jnp.logaddexp(log_mass, -jnp.log(safe) - jnp.log1p(safe)) + ratio
        log_mass = jnp.where(judged, begun, log_mass)
        later = jnp.where(judged, -jnp.log1p(safe), 0.0)  # the changes that are yet to come
        return log_mass, logsumexp(jnp.logaddexp(log_mass, later)) - jnp.log(len(ratio))

    start = jnp.full(ratios.shape[1], -jnp.inf, error.dtype)
    return run(step, start, (times, ratios)).trace
