r"""Whether a log-density has other modes than the one at hand: short climbs from near and from far.

Starts.      The home of the search, its mirror image (signs and labels are what posteriors are symmetric in),
             and pairs of points on both sides of the home at several scales, in space in which the density
             is about as wide as one.
Climb.       Steepest ascent with the step of Barzilai and Borwein, halved where the density would fall. It
             has settled when its last steps gain nearly nothing; what has not is no mode. It need only tell
             the basin, not the digits of the mode: no curvature is kept, and a step costs $O(d)$.
Separate.    Between two modes the density falls, along the straight line, below both.
Limits.      What no climb ends in is not found: a narrow spike beside the middle of a slab, modes beyond the
             largest scale, or among very many.
Cost.        At most `num_looks` evaluations of density and gradient; nothing is compiled.
References.  Barzilai and Borwein (1988).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["Mode", "find_modes", "tells_more"]

_SCALES = (4.0, 16.0, 64.0)
_STEPS = 40  # of a climb
_SETTLED = 0.02  # nats that the last three steps of a climb gain in all
_DIP = 2.0  # nats below the lower of two modes
_PIECES = 8  # of the line between two modes
_LOWER = 6.0  # nats below the highest: a mode of equal width has then less than 0.3 % of the mass
_TOLD = 5.0  # nats by which a density is higher than its slopes say

Look = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Mode(NamedTuple):
    """Where a climb settled, and the log-density there."""

    point: np.ndarray
    value: float


class _OutOfLooks(Exception):
    pass


def find_modes(
    value_and_slope: Look,
    home: np.ndarray,
    numbers: np.random.Generator,
    spread: float | int = 1.0,
    num_looks: int = 500,
) -> list[Mode]:
    """Separate modes of about the same height, that of `home` first if its climb settled."""
    look, found = _counted(value_and_slope, num_looks), []
    try:
        for start in _starts(home, numbers, float(spread)):
            mode = _climb(look, start)
            if mode is not None and all(_apart(look, mode, other) for other in found):
                found.append(mode)
    except _OutOfLooks:
        pass
    best = max((mode.value for mode in found), default=-np.inf)
    return [mode for mode in found if mode.value >= best - _LOWER - 0.25 * home.size]


def tells_more(mode: Mode, point: np.ndarray, value: float, slope: np.ndarray) -> bool:
    r"""Whether a mode is much higher than a quadratic with this `slope` at `point` would be,
    $\frac12 g^\top(m - x)$: a spike."""
    return bool(mode.value - value - 0.5 * slope @ (mode.point - point) > _TOLD)


def _starts(home: np.ndarray, numbers: np.random.Generator, spread: float) -> Iterator[np.ndarray]:
    yield home
    yield -home
    for scale in (*_SCALES, *_SCALES[:2]):
        noise = numbers.uniform(-spread * scale, spread * scale, home.shape)
        yield home + noise
        yield home - noise


def _counted(value_and_slope: Look, most: int) -> Look:
    left = most

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal left
        if left == 0:
            raise _OutOfLooks
        left -= 1
        return value_and_slope(x)

    return look


def _usable(value: float, slope: np.ndarray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(slope).all())


def _climb(look: Look, x: np.ndarray) -> Mode | None:
    """Where the climb from `x` settles; nothing if it does not, or begins where there is no density."""
    value, slope = look(x)
    if not _usable(value, slope):
        return None
    step, gains = 1 / max(float(np.linalg.norm(slope)), 1e-12), [np.inf] * 3
    for _ in range(_STEPS):
        taken = _rise(look, x, value, slope, step)
        if taken is None:
            return Mode(x, value) if sum(gains) < 1 else None
        new, higher, tilt = taken
        moved, bend = new - x, slope - tilt
        curvature = float(moved @ bend)
        length = float(moved @ moved)
        step = length / curvature if curvature > 1e-12 * length else 4 * step
        gains = [*gains[1:], higher - value]
        x, value, slope = new, higher, tilt
        if sum(gains) < _SETTLED:
            return Mode(x, value)
    return None


def _rise(
    look: Look, x: np.ndarray, value: float, slope: np.ndarray, step: float
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """The first point along the slope, nearer and nearer, that is not lower."""
    for shrink in 0.25 ** np.arange(8):
        new = x + shrink * step * slope
        higher, tilt = look(new)
        if _usable(higher, tilt) and higher >= value:
            return new, higher, tilt
    return None


def _apart(look: Look, a: Mode, b: Mode) -> bool:
    floor = min(a.value, b.value) - _DIP
    if np.allclose(a.point, b.point, atol=1e-2):
        return False
    shares = (np.arange(_PIECES - 1) + 1) / _PIECES
    middle_first = shares[np.argsort(np.abs(shares - 0.5))]
    values = (look(a.point + share * (b.point - a.point))[0] for share in middle_first)
    return any(not value >= floor for value in values)
