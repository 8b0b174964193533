r"""Whether a log-density jumps where chains walk: gradients do not see jumps, so no trajectory reports them.

Test.        Between two points the log-density $\ell$ is compared with the sum of its slopes,
             $\ell(b) - \ell(a) - \frac12(g_a + g_b)^\top(b - a)$: for a smooth density this falls as the cube
             of the distance when the interval is halved, at a jump it stays. The interval with the largest
             remainder is halved until it is tiny; what is left is a jump.
Cost.        About twenty evaluations on each of at most fifteen lines, within a budget.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tractable.core.module import Module

__all__ = ["Jump", "find_jump"]

_PIECES, _HALVINGS = 12, 20
_SMALLEST_JUMP = 0.05  # of the log-density
_REACH = 3.5  # standard deviations, past which little is
_AXES, _PAIRS = 10, 6
_FARTHEST = 1e100  # chains of an improper density may be beyond
_MOST_NAMED = 50  # coordinates that are looked at one by one


class Jump(Module):
    """A place where a log-density jumps, the size, and the coordinates along which it does."""

    point: np.ndarray
    size: float
    coordinates: tuple[int, ...]


def find_jump(
    value_and_slope: Callable[[np.ndarray], tuple[float, np.ndarray]],
    draws: np.ndarray,
    num_looks: int = 100,
) -> Jump | None:
    """A jump on one of a few lines through `draws`, shape `(n, d)`, or `None` if none is met; no line is
    begun after `num_looks` evaluations."""
    looks = 0

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal looks
        looks += 1
        return value_and_slope(x)

    for a, b in _lines(draws):
        jump = _between(look, a, b) if looks < num_looks else None
        if jump is not None:
            return jump
    return None


def _lines(draws: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Along some coordinates, from one end of the draws past the other; and between draws far apart."""
    draws = draws[(np.abs(draws) < _FARTHEST).all(1)]
    count, dim = draws.shape
    if count < 2:
        return
    mean, reach = draws.mean(0), _REACH * draws.std(0)
    for i in np.unique(np.linspace(0, dim - 1, min(dim, _AXES)).astype(int)):
        step = np.where(np.arange(dim) == i, reach, 0.0)
        if np.isfinite(step).all() and step.any():
            yield mean - step, mean + step
    yield from pairwise(draws[np.linspace(0, count - 1, min(count, _PAIRS)).astype(int)])


def _between(look: Callable, a: np.ndarray, b: np.ndarray) -> Jump | None:
    ends = [(x, *look(x)) for x in np.linspace(a, b, _PIECES + 1)]
    low, high = max(pairwise(ends), key=_remainder)
    for _ in range(_HALVINGS):
        if not _remainder((low, high)) > _SMALLEST_JUMP:  # NaN ends the search too
            return None
        middle = 0.5 * (low[0] + high[0])
        centre = (middle, *look(middle))
        low, high = max([(low, centre), (centre, high)], key=_remainder)
    return Jump(low[0], _remainder((low, high)), _along(look, low, high))


def _remainder(ends: tuple[Any, Any]) -> float:
    """What the slopes do not explain of the difference between two points."""
    (x, value, slope), (y, other, tilt) = ends
    with np.errstate(invalid="ignore"):
        rest = abs(other - value - 0.5 * (slope + tilt) @ (y - x))
    return float(rest) if np.isfinite(rest) else 0.0  # a wall to zero density is met as a divergence


def _along(look: Callable, low: tuple, high: tuple) -> tuple[int, ...]:
    """The coordinates of which a move of one alone crosses the jump."""
    whole, found = abs(high[1] - low[1]), []
    for i in range(min(low[0].size, _MOST_NAMED)):
        moved = low[0].copy()
        moved[i] = high[0][i]
        if abs(look(moved)[0] - low[1]) > 0.5 * whole:
            found.append(i)
    return tuple(found)
