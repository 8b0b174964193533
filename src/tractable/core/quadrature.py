r"""Quadrature on an interval with known break points, refined until it settles.

Rule.        Gauss-Legendre with 32 nodes on panels between the break points (jumps, kinks, singular points).
             The panels are halved until the answer changes by less than the tolerance: an answer is either
             accurate or refused, with the advice to name the missing break points.
Periodic.    For smooth periodic functions the trapezoidal rule converges faster than any power.
Cost.        32 evaluations per panel; $e^{-irt}$ takes one panel for each 32 radians.
References.  Davis and Rabinowitz (1984) chapter 2.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check

__all__ = ["evaluate", "fourier_integrals", "mean_square", "panels", "periodic_coefficients"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_HALVINGS = 10
_DOUBLINGS = 12
_LEVELS = 40
Function = Callable[[Any], Any]
Number = float | int


def panels(low: Number, high: Number, breaks: Sequence[Number] = (), parts: int = 1) -> np.ndarray:
    """The edges of panels from `low` to `high`: each stretch between break points in `parts` equal pieces."""
    check(low < high, "high", f"larger than `low` = {low}", high)
    inner = sorted({float(b) for b in breaks if low < b < high})
    edges = np.array([low, *inner, high], float)
    fractions = np.arange(parts) / parts
    return np.append((edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel(), high)


def fourier_integrals(
    function: Function,
    rates: np.ndarray,
    low: Number,
    high: Number,
    breaks: Sequence[Number] = (),
    tol: Number = 1e-12,
) -> np.ndarray:
    r"""$\int_{low}^{high} f(t)\,e^{-i r t}\,dt$ for each rate $r$, to `tol` times $\int |f|$.

    `function` takes an array of points. It must be smooth between the break points.
    """
    widest = np.diff(panels(low, high, breaks)).max()
    first = 1 + int(np.abs(rates).max(initial=0.0) * widest / 32)
    before, change = None, np.inf
    for parts in (first << level for level in range(_HALVINGS + 1)):
        value, size = _gauss(function, rates, panels(low, high, breaks, parts))
        change = np.inf if before is None else np.abs(value - before).max(initial=0.0)
        if change <= tol * size:
            return value
        before = value
    fix = "List the points where the function jumps, bends or is singular."
    raise ValueError(f"`breaks` must be given; got integrals that still change by {change:.1e}. {fix}")


def periodic_coefficients(
    function: Function, numbers: np.ndarray, period: Number, start: Number, tol: Number
) -> np.ndarray:
    r"""$c_n = \frac{1}{T}\int f(x)\,e^{-2\pi i n x/T}\,dx$ of a smooth periodic function, for each $n$.

    The trapezoidal rule, with twice as many points until the coefficients settle.
    """
    first = max(6, (4 * len(numbers)).bit_length())
    before, change = None, np.inf
    for size in (1 << level for level in range(first, first + _DOUBLINGS + 1)):
        values = evaluate(function, start + period * np.arange(size) / size)
        value = np.fft.fft(values)[numbers] / size * np.exp(-2j * np.pi * numbers * start / period)
        change = np.inf if before is None else np.abs(value - before).max()
        if change <= tol * np.abs(values).max():
            return value
        before = value
    fix = "Name the jumps and kinks in `breaks` (an empty list if the only one is at the ends)."
    raise ValueError(f"`function` must be smooth as a periodic function; got a change of {change:.1e}. {fix}")


def mean_square(
    function: Function, low: Number, high: Number, breaks: Sequence[Number] = (), floor: Number = 0.0
) -> float:
    r"""$\frac{1}{b - a}\int_a^b |f|^2$; infinite where $f$ is not square-integrable.

    Towards each end of each panel the integral is taken over halves, quarters, eighths, ...: their sum is
    finite if they fall geometrically. A power $|x|^{-p}$ counts as square-integrable up to $p = 0.49$. Below
    `floor` the answer may be rounding.
    """
    before = value = np.nan
    for parts in (2 * 3**level for level in range(6)):  # halves of dyadic pieces would be the same pieces
        edges = panels(low, high, breaks, parts)
        value = sum(_graded(function, *pair) for pair in itertools.pairwise(edges)) / (high - low)
        if value == before or abs(value - before) <= 1e-10 * abs(value) + floor:
            return float(value)
        before = value
    fix = "List the points where the function is singular."
    raise ValueError(
        f"`breaks` must be given; got a mean square that does not settle, near {value:.3g}. {fix}"
    )


def evaluate(function: Function, points: np.ndarray) -> np.ndarray:
    """The values of `function` at an array of points, checked."""
    values = np.asarray(function(points))
    must = f"of one value per point {points.shape}"
    check(values.shape in ((), points.shape), "function", must, f"shape {values.shape}")
    values = np.broadcast_to(values, points.shape)
    ok = np.isfinite(values)
    if not ok.all():
        check(False, "function", "finite between its break points", f"{values[~ok][0]} at {points[~ok][0]}")
    return values


def _nodes(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All nodes and weights on the panels."""
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * _NODES).ravel(), (half[:, None] * _WEIGHTS).ravel()


def _gauss(function: Function, rates: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, float]:
    """The integrals with each rate, and that of the modulus; at most a few million exponentials at a time."""
    total, size = np.zeros(len(rates), complex), 0.0
    step = max(1, 2**16 // max(1, len(rates)))
    for start in range(0, len(edges) - 1, step):
        points, weights = _nodes(edges[start : start + step + 1])
        values = weights * evaluate(function, points)
        total += np.exp(-1j * rates[:, None] * points[None, :]) @ values
        size += np.abs(values).sum()
    return total, size


def _graded(function: Function, low: Number, high: Number) -> float:
    r"""$\int |f|^2$ over one panel, graded towards both of its ends."""
    middle, half = (low + high) / 2, (high - low) / 2
    shares = half * 2.0 ** -np.arange(_LEVELS + 1)
    total = 0.0
    for end, sign in ((low, 1.0), (high, -1.0)):
        edges = end + sign * shares
        edges[0] = middle
        points, weights = _nodes(edges)
        pieces = np.abs(weights) * np.abs(evaluate(function, points)) ** 2
        pieces = pieces.reshape(_LEVELS, -1).sum(1)
        total += pieces.sum() + _tail(pieces)
    return total


def _tail(pieces: np.ndarray) -> float:
    """What is left beyond the last piece, as a geometric series in the ratio of the last eight."""
    if pieces[-1] == 0 or pieces[-9] == 0:
        return 0.0
    ratio = (pieces[-1] / pieces[-9]) ** (1 / 8)
    return np.inf if ratio > 2**-0.02 else float(pieces[-1] * ratio / (1 - ratio))
