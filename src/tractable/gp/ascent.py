r"""Hyperparameters by an approximate evidence, whose every value needs a fixed point of its own.

Problem.     $\max_u \log q(y \mid u)$, where an evaluation looks for a mode or for sites first: it begins at
             those of the best evaluation so far, so that it needs two or three steps instead of ten.
Prior.       With `spread` $s$ the objective has $-\frac12\|u - u_0\|^2/s^2$ besides: normal free numbers
             about the start. The evidence of classes that can be separated rises with the variance of the
             function without end; a weak prior ends it.
Cost.        That of `optim.host`: one call of one program per step.
References.  Rasmussen and Williams (2006) section 5.5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option, to_device
from tractable.core.types import Array, ArrayLike
from tractable.optim.host import minimise_on_host
from tractable.optim.minimise import Minimum

__all__ = ["ascend"]

Evaluate = Callable[[Array, Any], tuple[Array, Array, Any]]


def ascend(
    evaluate: Evaluate,
    start: ArrayLike,
    memory: Any,
    *,
    max_steps: int,
    tol: float | int,
    stop: str = "gradient",
    spread: float | int | None = None,
) -> tuple[Minimum, Array, Any]:
    """The maximum of `evaluate(point, memory) -> (value, slope, memory)` from `start` as the minimum of its
    negative (with the prior), the value there (without it), and the memory that the best evaluation left.

    >>> found, value, _ = ascend(lambda x, n: (3 - (x**2).sum(), -2 * x, n), [2.0], 0, max_steps=9, tol=1e-8)
    >>> round(float(found.state[0]), 6), float(value)
    (0.0, 3.0)
    """
    max_steps = check_count("max_steps", max_steps)
    check(tol >= 0, "tol", "zero or positive", tol)
    check_option("stop", stop, ("gradient", "value"))
    check(spread is None or spread > 0, "spread", "positive or None", spread)
    origin = np.asarray(start, getattr(start, "dtype", float))
    precision = 0.0 if spread is None else spread**-2
    best = _Best(np.inf, memory)

    def down(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope, left = evaluate(to_device(point), best.memory)
        gap = point - origin
        height = 0.5 * precision * float(gap @ gap) - float(value)
        best.offer(height, left)
        return height, precision * gap - np.asarray(slope)

    run = minimise_on_host(down, origin, max_steps=max_steps, tol=float(tol), stop=stop)
    gap = np.asarray(run.state) - origin
    value = 0.5 * precision * float(gap @ gap) - float(run.value)
    return run, to_device(np.asarray(value)), best.memory


class _Best:
    """What the best evaluation so far left for the next."""

    def __init__(self, height: float, memory: Any):
        self.height, self.memory = height, memory

    def offer(self, height: float, memory: Any) -> None:
        if height < self.height:
            self.height, self.memory = height, memory
