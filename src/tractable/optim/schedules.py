r"""Step-size schedules, and whether they let stochastic gradients converge.

Schedule.    $a_t$ for $t = 0, 1, 2, \dots$; `PowerLaw` is $a_t = c\,(t + t_0)^{-p}$: constant ($p = 0$),
             inverse root ($p = 1/2$) and inverse time ($p = 1$).
Conditions.  $\sum_t a_t = \infty$ (or the run stalls: it can travel no farther than
             $\sum_t a_t \max\|g_t\|$), $a_t \to 0$ (or noise never dies out), and for almost sure convergence
             $\sum_t a_t^2 < \infty$ (Robbins and Monro).
Judgement.   A power law is judged exactly. Any other function is judged by sums over blocks
             $2^k \le t < 2^{k+1}$: for $a_t \approx t^{-p}$ their ratio tends to $2^{1-p}$. That is a numeric
             judgement: no finite number of steps separates $1/t$ from $1/(t \log^2 t)$.
Cost.        One evaluation of the schedule for each of `horizon` steps.
References.  Robbins and Monro (1951); Bottou, Curtis and Nocedal (2018) section 4.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import zeta

from tractable.core.checks import check_count, check_nonnegative
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import nonnegative, positive
from tractable.core.types import Array, Float, Scalar
from tractable.core.verdict import Verdict

__all__ = ["PowerLaw", "ScheduleReport", "check_schedule", "constant", "inverse_root", "inverse_time"]

# Exponents closer to a boundary than this are taken to be on it.
_RESOLUTION = 0.005


class PowerLaw(Module):
    r"""$a_t = c\,(t + t_0)^{-p}$ for $t = 0, 1, \dots$

    >>> [float(PowerLaw(2.0, 1.0)(t)) for t in range(3)]
    [2.0, 1.0, 0.6666666666666666]
    """

    scale: Float[Array, ""] = field(support=positive, default=1.0)
    power: Float[Array, ""] = field(support=nonnegative, default=0.5)
    delay: Float[Array, ""] = field(support=positive, default=1.0)

    def __call__(self, t: Any) -> Array:
        return self.scale * (t + self.delay) ** -self.power


def constant(rate: float | Scalar) -> PowerLaw:
    """The same step for ever: fast at first, then it hovers around the minimum at a distance set by noise."""
    return _power_law(rate, 0.0)


def inverse_time(scale: float | Scalar = 1.0, delay: float | Scalar = 1.0) -> PowerLaw:
    r"""$a_t = c/(t + t_0)$: meets all three conditions; slow where $c < 1/\mu$ of the problem."""
    return _power_law(scale, 1.0, delay)


def inverse_root(scale: float | Scalar = 1.0, delay: float | Scalar = 1.0) -> PowerLaw:
    r"""$a_t = c/\sqrt{t + t_0}$: robust for convex problems; its squares do not sum."""
    return _power_law(scale, 0.5, delay)


class ScheduleReport(Module):
    """Which conditions a schedule meets, and whether that is known exactly or judged from numbers."""

    sum_diverges: bool = field(static=True)
    tends_to_zero: bool = field(static=True)
    squares_sum: bool = field(static=True)
    exact: bool = field(static=True)
    total: float = field(static=True)  # of all steps: infinite, or how far unit gradients can carry a run

    @property
    def robbins_monro(self) -> bool:
        """Whether all conditions for almost sure convergence are met."""
        return self.sum_diverges and self.tends_to_zero and self.squares_sum

    @property
    def verdict(self) -> Verdict:
        """What to expect of a run with this schedule, and how that is known."""
        source = "exact, a power law" if self.exact else "a numeric judgement from finitely many steps"
        return Verdict(self.robbins_monro, f"{self._expected()} ({source})", {"total": self.total})

    def _expected(self) -> str:
        if not self.sum_diverges:
            return f"Stalls: it moves at most {self.total:.4g} times the largest gradient. Decay more slowly."
        if not self.tends_to_zero:
            return "Hovers: with noisy gradients the error stops at a level set by the step. Let it decay."
        if not self.squares_sum:
            return "Converges in mean; almost sure convergence needs a faster decay or averaged iterates."
        return "Meets the conditions of Robbins and Monro."


def check_schedule(
    schedule: Callable[[Any], Any] | float | Scalar, *, horizon: int = 2**18
) -> ScheduleReport:
    """Judge a schedule: a number, a `PowerLaw`, or any function of the step that JAX can trace.

    >>> check_schedule(inverse_time()).robbins_monro, check_schedule(lambda t: 0.5**t).total
    (True, 2.0)
    """
    if not callable(schedule):
        schedule = constant(schedule)
    if isinstance(schedule, PowerLaw):
        return _judge_power(schedule)
    horizon = check_count("horizon", horizon, least=64)
    steps = np.asarray(_evaluate(schedule, 1 << (horizon.bit_length() - 1)))
    fix = "A step must not go uphill: see the index, which is the step."
    check_nonnegative("schedule", steps, fix)
    return _judge_numbers(steps)


def _power_law(scale: float | Scalar, power: float, delay: float | Scalar = 1.0) -> PowerLaw:
    return PowerLaw(jnp.asarray(scale, float), jnp.asarray(power, float), jnp.asarray(delay, float))


def _judge_power(schedule: PowerLaw) -> ScheduleReport:
    power = float(schedule.power)
    hurwitz = float(zeta(power, float(schedule.delay))) if power > 1 else np.inf  # the sum of all steps
    summed = float(schedule.scale) * hurwitz
    return ScheduleReport(power <= 1, power > 0, power > 0.5, True, summed)


@program
def _evaluate(schedule: Callable, horizon: int) -> Array:
    return jax.vmap(lambda t: jnp.asarray(schedule(t), float))(jnp.arange(horizon))


def _judge_numbers(steps: np.ndarray) -> ScheduleReport:
    """Exponents of decay from the last two blocks of doubling length."""
    half, quarter = len(steps) // 2, len(steps) // 4
    last, before = steps[half:], steps[quarter:half]

    def exponent(late: float, early: float) -> float:
        if late == 0:
            return np.inf
        return float(np.log2(early / late)) if early > 0 else -np.inf

    decay = exponent(last.max(), before.max())
    sum_decay = 1 + exponent(last.sum(), before.sum())
    square_decay = 1 + exponent((last**2).sum(), (before**2).sum())
    diverges = sum_decay <= 1 + _RESOLUTION
    ratio = 0.0 if np.isinf(sum_decay) else 2.0 ** (1 - sum_decay)
    total = np.inf if diverges else float(steps.sum() + last.sum() * ratio / (1 - ratio))
    return ScheduleReport(diverges, decay > _RESOLUTION, square_decay > 1 + _RESOLUTION, False, total)
