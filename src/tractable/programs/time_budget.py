r"""A budget of time: which method and how many draws fit into it, from the measured cost of one gradient.

Prediction.  A chain of NUTS takes about $G = 8$ gradients per step, and four chains of $w + n$ steps run
             side by side on one processor: $4\,G\,(w + n)\,c$ seconds with $c$ the cost of a gradient, after
             compilation, which takes some multiple of that of the gradient alone.
Choice.      All draws and a warm-up that ends by itself where twice the prediction fits; else fewer draws
             after a short warm-up, no fewer than 250 a chain; else Pathfinder, whose weights say how good it
             is.
Cost.        One program for the gradient, and some evaluations.
"""

import time
from typing import Any, NamedTuple

import jax
import numpy as np

from tractable.core.checks import check
from tractable.core.programs import program
from tractable.core.types import Array
from tractable.inference.target import FlatTarget
from tractable.programs.methods import Task

__all__ = ["Plan", "plan_within"]

_GRADIENTS = 8  # of one step of a chain in a posterior that is not hard
_CHAINS = 4
_USUAL = (400, 1000)  # steps of warm-up, and draws of a chain
_FEWEST = (300, 250)
_COMPILES = 4.0  # times that of one gradient: warm-up, draws, the way back


class Plan(NamedTuple):
    """A method with its options, and a sentence for what was given up."""

    method: str
    num_draws: int | None
    options: dict[str, Any]
    said: str


def plan_within(seconds: float, begun: float, task: Task, method: str, num_draws: int | None) -> Plan:
    """What fits into `seconds` since the time `begun`, where chains would be run."""
    check(seconds > 0, "seconds", "positive", seconds)
    compiling, cost = _measured(task)
    left = seconds - (time.monotonic() - begun) - _COMPILES * compiling
    each = _CHAINS * _GRADIENTS * cost
    steps = max(left, 0.0) / each
    wanted = (_USUAL[0], num_draws or _USUAL[1])
    told = (
        f"{seconds:g} seconds leave about {steps:.0f} steps of four chains at {1e3 * cost:.3g} ms a gradient"
    )
    if steps >= 2 * sum(wanted):
        return Plan(method, num_draws, {}, f"{told}: nothing was given up.")
    if steps >= sum(_FEWEST):
        warmup = int(np.clip(0.5 * steps, _FEWEST[0], _USUAL[0]))
        count = int(np.clip(steps - warmup, _FEWEST[1], wanted[1]))
        said = f"{told}: a warm-up of {warmup} steps, whether chains agree or not, and {count} draws of each."
        return Plan(method, count, {"warmup": warmup}, said)
    return Plan("pathfinder", None, {}, f"{told}: too few. Chains were given up for Pathfinder.")


def _measured(task: Task) -> tuple[float, float]:
    """The seconds that a gradient takes to compile, and those of one evaluation."""
    free, target = FlatTarget.of(task.reduced, task.start, supports=task.supports)
    begun = time.monotonic()
    jax.block_until_ready(_slope(target, free))
    compiling = time.monotonic() - begun
    costs = []
    while len(costs) < 20 and sum(costs) < 0.2:
        begun = time.monotonic()
        jax.block_until_ready(_slope(target, free))
        costs.append(time.monotonic() - begun)
    return compiling, float(np.median(costs))


@program
def _slope(target: FlatTarget, free: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(target)(free)
