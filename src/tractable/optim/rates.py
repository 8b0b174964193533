r"""How fast first-order methods converge: the bound, the run that must obey it, and the rate that is seen.

Convex.      Gradient descent with step $\eta \le 1/(2L)$:
             $f(x_t) - f^* \le \|x_0 - x^*\|^2/(\eta t)$, because each step obeys
             $\|x_{t+1} - x^*\|^2 \le \|x_t - x^*\|^2 - \eta\,(f(x_t) - f^*)$ and $f(x_t)$ falls; for
             $\eta \le 1/L$ the constant is half of that.
Strong.      With $\eta = 1/L$: $f(x_t) - f^* \le (1 - \mu/L)^t (f(x_0) - f^*)$.
Edge.        On $f = \tfrac{L}{2}\|x\|^2$ a step multiplies $x$ by $1 - \eta L$: $f$ is quartered at
             $\eta = 1/(2L)$, stays at $2/L$ and grows above.
Stochastic.  On a strongly convex problem with bounded noise, $a_t = c/\sqrt t$ gives
             $E\|x_t - x^*\|^2 = O(1/\sqrt t)$; for merely convex ones only the averaged iterate is bounded,
             $E f(\bar x_t) - f^* = O(\log t/\sqrt t)$.
Cost.        That of the runs.
References.  Nesterov (2018) section 2.1; Bottou, Curtis and Nocedal (2018) section 4.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_shape
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.core.verdict import Verdict
from tractable.optim.gradient import GradientDescent
from tractable.optim.minimise import trajectory
from tractable.optim.schedules import inverse_root

__all__ = [
    "DescentReport",
    "PowerFit",
    "StochasticRate",
    "descent_bound",
    "fit_linear_rate",
    "fit_power",
    "linear_bound",
    "stochastic_rate",
    "verify_descent",
]


def descent_bound(
    distance: float, step: float, num_steps: int, *, smoothness: float, tight: bool = False
) -> Float[np.ndarray, " steps"]:
    r"""$\|x_0 - x^*\|^2/(\eta t)$ for $t = 1, \dots, T$; `tight` halves it and allows $\eta \le 1/L$.

    >>> descent_bound(2.0, 0.25, 4, smoothness=2.0)
    array([16.        ,  8.        ,  5.33333333,  4.        ])
    """
    largest = (1 if tight else 0.5) / smoothness
    words = f"positive and at most {'1/L' if tight else '1/(2L)'} = {largest:.6g}"
    check(0 < step <= largest * (1 + 1e-12), "step", words, step, "The theorem needs it.")
    times = np.arange(1, check_count("num_steps", num_steps) + 1)
    return distance**2 / ((2 if tight else 1) * step * times)


def linear_bound(
    gap: float, num_steps: int, *, smoothness: float, strong_convexity: float
) -> Float[np.ndarray, " steps"]:
    r"""$(1 - \mu/L)^t\,(f(x_0) - f^*)$ for $t = 1, \dots, T$: gradient descent with step $1/L$."""
    fine = 0 < strong_convexity <= smoothness
    check(fine, "strong_convexity", f"positive and at most the smoothness, {smoothness}", strong_convexity)
    times = np.arange(1, check_count("num_steps", num_steps) + 1)
    return gap * (1 - strong_convexity / smoothness) ** times


class DescentReport(Module):
    """Gaps of a run of gradient descent beside the bounds that theory gives them."""

    gaps: Float[np.ndarray, " steps"]  # $f(x_t) - f^*$ for t = 1, ..., T
    bounds: dict[str, np.ndarray]  # of the gaps
    step_slack: Float[np.ndarray, " steps"]  # of the inequality that every single step must obey
    rate: float = field(static=True)  # by which the gap shrinks per step, fitted
    tol: float = field(static=True)

    @property
    def holds(self) -> bool:
        """Whether the run obeys every bound and every step its inequality."""
        below = all(bool((self.gaps <= bound + self.tol).all()) for bound in self.bounds.values())
        return below and bool((self.step_slack >= -self.tol).all())

    @property
    def verdict(self) -> Verdict:
        """Whether theory and run agree."""
        said = "every bound holds" if self.holds else "A BOUND IS BROKEN"
        return Verdict(self.holds, f"Gradient descent: {said}; factor {self.rate:.4g} a step.")

    def _columns(self) -> dict[str, Any]:
        last = len(self.gaps)
        times = np.array(sorted({1, *(t for k in range(20) if (t := 2**k) < last), last}))
        gaps = {"f - f*": self.gaps, **self.bounds}
        return {"t": times} | {name: np.asarray(values)[times - 1] for name, values in gaps.items()}


def verify_descent(
    fun: Callable[..., Any],
    start: ArrayLike,
    minimiser: ArrayLike,
    *,
    smoothness: float,
    strong_convexity: float | None = None,
    step: float | None = None,
    args: tuple = (),
    num_steps: int = 100,
) -> DescentReport:
    r"""Run gradient descent and hold it against the theory; the step is $1/(2L)$ unless one is given.

    With `strong_convexity` the step is $1/L$ and the linear bound is checked too.
    """
    start, minimiser = as_float("start", start), as_float("minimiser", minimiser)
    check_shape("minimiser", minimiser, start.shape)
    strong = strong_convexity is not None
    step = (1 if strong else 0.5) / smoothness if step is None else step
    path = trajectory(fun, start, GradientDescent(step), args=args, num_steps=num_steps)
    values, best = np.asarray(path.values), float(fun(minimiser, *args))
    gaps = values - best
    away = ((np.asarray(path.points) - np.asarray(jnp.ravel(minimiser))) ** 2).sum(axis=1)
    fast = step > 0.5 / smoothness * (1 + 1e-12)
    bound = descent_bound(float(np.sqrt(away[0])), step, num_steps, smoothness=smoothness, tight=fast)
    bounds = {"1/t bound": bound}
    if strong_convexity is not None:
        bounds["linear bound"] = linear_bound(
            gaps[0], num_steps, smoothness=smoothness, strong_convexity=strong_convexity
        )
    # For steps between 1/(2L) and 1/L the same derivation leaves the factor 2(1 - step L), not 1.
    factor = 2 * (1 - step * smoothness) if fast else 1.0
    slack = away[:-1] - factor * step * gaps[:-1] - away[1:]
    tol = 1e-12 * float(1 + abs(values).max() + away.max())
    return DescentReport(gaps[1:], bounds, slack, fit_linear_rate(gaps, tol), tol)


def fit_linear_rate(gaps: ArrayLike, floor: float = 1e-14) -> float:
    r"""The factor $C$ of $f(x_t) - f^* \approx \mathrm{const}\cdot C^t$, by least squares on the logarithms.

    Only the later half of the steps whose gap is above `floor` is used: early steps hold fast components,
    and below the floor there is only rounding. NaN where fewer than two such steps are left.
    """
    gaps = np.asarray(gaps, float)
    count = int(np.argmax(gaps <= floor)) if (gaps <= floor).any() else len(gaps)
    times = np.arange(count // 2, count)
    if len(times) < 2:
        return float("nan")
    return float(np.exp(np.polyfit(times, np.log(gaps[times]), 1)[0]))


class PowerFit(Module):
    r"""$v_t \approx c\,t^{p}$: the slope $p$ in log-log coordinates, with its standard error."""

    slope: float = field(static=True)
    standard_error: float = field(static=True)


def fit_power(times: ArrayLike, values: ArrayLike) -> PowerFit:
    """The power of `times` that `values` follow, by least squares on the logarithms."""
    x, y = np.log(np.asarray(times, float)), np.log(np.asarray(values, float))
    check(len(x) == len(y) and len(x) >= 3, "values", "as many as `times`, and at least 3", len(y))
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    return PowerFit(slope, float(np.sqrt(residual @ residual / (len(x) - 2) / (centred @ centred))))


class StochasticRate(Module):
    r"""$E\|x_t - x^*\|^2$ after $t = 1, \dots, T$ steps over many runs, and the power of $t$ it follows."""

    squared_distance: Float[Array, " steps"]
    standard_error: Float[Array, " steps"]
    fit: PowerFit


def stochastic_rate(
    curvatures: ArrayLike,
    schedule: Callable[[Any], Any] | None = None,
    *,
    key: Key,
    start: ArrayLike | None = None,
    noise: float = 1.0,
    num_steps: int = 4096,
    num_runs: int = 256,
) -> StochasticRate:
    r"""Run stochastic gradients on $\tfrac12 \sum_j c_j x_j^2$ with noise of standard deviation `noise`.

    The step sizes are $1/\sqrt t$ unless a `schedule` (of $t = 0, 1, \dots$) is given. The power is fitted
    over the last nine tenths of the steps, at times spaced evenly in $\log t$.
    """
    curvatures = as_float("curvatures", curvatures)
    check_shape("curvatures", curvatures, (None,))
    check(bool((np.asarray(curvatures) > 0).all()), "curvatures", "positive", curvatures)
    first = jnp.ones_like(curvatures) if start is None else as_float("start", start)
    check_shape("start", first, curvatures.shape)
    num_steps = check_count("num_steps", num_steps, least=32)
    chosen = inverse_root() if schedule is None else schedule
    keys, num_runs = jr.split(key, num_steps), check_count("num_runs", num_runs, least=2)
    mean, error = _runs(curvatures, chosen, first, jnp.asarray(noise), keys, num_runs)
    times = np.unique(np.geomspace(num_steps // 10, num_steps, 40).astype(int))
    return StochasticRate(mean, error, fit_power(times, np.asarray(mean)[times - 1]))


@program
def _runs(curvatures: Array, schedule, start: Array, noise: Array, keys: Array, num_runs: int):
    def step(carry, key):
        t, x = carry
        drawn = noise * jr.normal(key, x.shape, x.dtype)
        x = x - schedule(t) * (jax.vmap(lambda row: curvatures * row)(x) + drawn)
        squares = (x**2).sum(axis=1)
        return (t + 1, x), (squares.mean(), squares.std(ddof=1) / jnp.sqrt(num_runs))

    first = (jnp.asarray(0), jnp.tile(start, (num_runs, 1)))
    return run(step, first, keys).trace
