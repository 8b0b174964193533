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

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count, check_option, to_device
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.host import minimise_on_host
from tractable.optim.minimise import Minimum

__all__ = ["ProcessFit", "Searched", "ascend", "rebuilt"]

Evaluate = Callable[[Array, Rebuild, Any], tuple[Array, Array, Any]]


class Searched:
    """What a result with the `run` of a search has: how that ended."""

    run: Any

    @property
    def verdict(self) -> Verdict:
        status = self.run.status
        return Verdict(status.ok, status.sentence, {"num_steps": self.run.num_steps})


class ProcessFit(Searched, Module):
    """The process with the hyperparameters found, its log-evidence (or what bounds or approximates it), and
    how the search went."""

    process: Any
    log_evidence: Scalar
    run: Minimum = field(show=False)


@program
def rebuilt(rebuild: Rebuild, free: Array) -> Any:
    """The model whose free numbers are given, in one program."""
    return rebuild(free)[0]


def ascend(
    evaluate: Evaluate,
    model: Any,
    memory: Any,
    *,
    max_steps: int,
    tol: float | int,
    stop: str = "gradient",
    spread: float | int | None = None,
) -> tuple[Any, Scalar, Minimum, Any]:
    """The model at the maximum of `evaluate(free, rebuild, memory) -> (value, slope, memory)` over its free
    numbers, from its own; the value there (without the prior), the search as that of a minimum (with it), and
    the memory that the best evaluation left.

    >>> squares = lambda x, rebuild, n: (3 - (x**2).sum(), -2 * x, n)
    >>> found, value, _, _ = ascend(squares, {"x": np.array([2.0])}, 0, max_steps=9, tol=1e-8)
    >>> round(float(found["x"][0]), 6), float(value)
    (0.0, 3.0)
    """
    max_steps = check_count("max_steps", max_steps)
    check(tol >= 0, "tol", "zero or positive", tol)
    check_option("stop", stop, ("gradient", "value"))
    check(spread is None or spread > 0, "spread", "positive or None", spread)
    free, rebuild = unconstrain(model)
    origin = np.asarray(free)
    precision = 0.0 if spread is None else spread**-2
    best = _Best(np.inf, memory)

    def down(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope, left = evaluate(to_device(point), rebuild, best.memory)
        gap = point - origin
        height = 0.5 * precision * float(gap @ gap) - float(value)
        best.offer(height, left)
        return height, precision * gap - np.asarray(slope)

    run = minimise_on_host(down, origin, max_steps=max_steps, tol=float(tol), stop=stop)
    gap = np.asarray(run.state) - origin
    value = to_device(np.asarray(0.5 * precision * float(gap @ gap) - float(run.value)))
    return rebuilt(rebuild, run.state), value, run, best.memory


class _Best:
    """What the best evaluation so far left for the next."""

    def __init__(self, height: float, memory: Any):
        self.height, self.memory = height, memory

    def offer(self, height: float, memory: Any) -> None:
        if height < self.height:
            self.height, self.memory = height, memory
