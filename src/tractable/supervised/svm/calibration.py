r"""Probabilities from decision values that never contradict the decisions.

Sigmoid.     Platt: $P(+\mid f) = \sigma(-(Af + B))$; where $B \ne 0$ it says "more likely negative" of rows
             that the machine calls positive. Two-sided: $P(+\mid f) = \sigma(a_\pm f)$ with one positive
             slope for each side, as many parameters, one half exactly at $f = 0$.
Classes.     $P(c\mid s) \propto \exp(a\,s_c)$ of the scores $s_c$ of the classes, $a > 0$: the same order as
             the scores.
Isotonic.    The monotone step function of least squares: any shape, for many rows.
Fit.         Least log-loss on decision values that did not see their row: leave-one-out by the span rule, or
             cross-validation. Targets are $(N_+ + 1)/(N_+ + 2)$ and $1/(N_- + 2)$ instead of one and zero, so
             that separable data give finite slopes. Each fit is the zero of one monotone function.
Cost.        $O(n)$ per evaluation, some forty of them.
References.  Platt (1999); Zadrozny and Elkan (2002).
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import expit, log_expit, softmax

from tractable.core.checks import check, namespace
from tractable.core.module import Module
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Values
from tractable.optim.host import minimise_on_host

__all__ = [
    "IsotonicCurve", "PlattSigmoid", "ScoreTemperature", "TwoSidedSigmoid", "fit_isotonic", "fit_platt",
    "fit_temperature", "fit_two_sided",
]  # fmt: skip

_FARTHEST = 1e4  # slopes stay within this factor of one over the mean size of a decision value


class TwoSidedSigmoid(Module):
    """$P(+\\mid f) = \\sigma(a_- f)$ for $f < 0$ and $\\sigma(a_+ f)$ for $f \\ge 0$."""

    below: float
    above: float

    def __call__(self, decisions: ArrayLike) -> Values:
        xp, f = _values(self, decisions)
        return _sigmoid(xp, xp.where(f < 0, self.below, self.above) * f)


class PlattSigmoid(Module):
    """$P(+\\mid f) = \\sigma(\\mathrm{slope}\\,f + \\mathrm{shift})$."""

    slope: float
    shift: float

    def __call__(self, decisions: ArrayLike) -> Values:
        xp, f = _values(self, decisions)
        return _sigmoid(xp, self.slope * f + self.shift)


class IsotonicCurve(Module):
    """A rising curve through (decision, probability), straight in between and level outside."""

    decisions: np.ndarray
    probs: np.ndarray

    def __call__(self, decisions: ArrayLike) -> Values:
        xp, f = _values(self, decisions)
        return xp.interp(f, xp.asarray(self.decisions), xp.asarray(self.probs))


class ScoreTemperature(Module):
    """$P(c\\mid s) \\propto \\exp(a\\,s_c)$."""

    slope: float

    def __call__(self, scores: ArrayLike) -> Values:
        xp, s = _values(self, scores)
        odds = xp.exp(self.slope * (s - s.max(1, keepdims=True)))
        return odds / odds.sum(1, keepdims=True)


def fit_two_sided(decisions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> TwoSidedSigmoid:
    """The two slopes of least log-loss."""
    f, _, mass, targets = _prepared(decisions, y, weights)
    slopes = []
    for side in (f < 0, f >= 0):
        g, t, w = f[side], targets[side], mass[side]
        slopes.append(_rising_zero(lambda a, g=g, t=t, w=w: float(w @ (g * (expit(a * g) - t))), f, mass))
    return TwoSidedSigmoid(*slopes)


def fit_platt(decisions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> PlattSigmoid:
    """Platt's two parameters by Newton's method."""
    f, _, mass, targets = _prepared(decisions, y, weights)
    size, share = _size(f, mass), mass / mass.sum()
    columns = np.column_stack([f / size, np.ones_like(f)])

    def loss(v):
        z = columns @ v
        p = expit(z)
        value = -share @ (targets * log_expit(z) + (1 - targets) * log_expit(-z))
        slope, curvature = share * (p - targets), share * p * (1 - p)
        return value, slope @ columns, (columns * curvature[:, None]).T @ columns

    found = np.asarray(minimise_on_host(loss, np.zeros(2), tol=1e-10).state)
    return PlattSigmoid(float(found[0] / size), float(found[1]))


def fit_isotonic(decisions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> IsotonicCurve:
    """The monotone step function of least squares through the labels, joined by lines."""
    from scipy.optimize import isotonic_regression

    f, signs, mass, _ = _prepared(decisions, y, weights)
    points, place = np.unique(f, return_inverse=True)
    total = np.bincount(place, mass)
    share = np.bincount(place, mass * (signs > 0)) / total
    return IsotonicCurve(points, np.asarray(isotonic_regression(share, weights=total).x))


def fit_temperature(
    scores: ArrayLike, codes: ArrayLike, weights: ArrayLike | None = None
) -> ScoreTemperature:
    """The slope of least log-loss for scores of classes; one pseudo-row of even chances keeps it finite."""
    s, labels, mass = Rows.of(scores, codes, weights, target="class")
    centred = s - s.mean(1, keepdims=True)
    own = centred[np.arange(len(labels)), labels]
    spread = float(np.sqrt((mass @ (centred**2).sum(1)) / mass.sum()))
    check(spread > 0, "scores", "different for different classes", "equal scores")
    typical = spread * (np.arange(s.shape[1]) == 0) - spread / s.shape[1]

    below = centred - centred.max(1, keepdims=True)

    def slope(a):
        odds = np.exp(a * below)
        expected = (odds * centred).sum(1) / odds.sum(1)
        return float(mass @ (expected - own)) + float(softmax(a * typical) @ typical)

    return ScoreTemperature(_rising_zero(slope, np.array([spread]), np.ones(1)))


def _values(curve: Module, decisions: Any) -> tuple[Any, Any]:
    xp = namespace(curve, decisions)
    return xp, xp.asarray(decisions, float)


def _sigmoid(xp: Any, x: Any) -> Any:
    return expit(x) if xp is np else jax.nn.sigmoid(x)


def _prepared(decisions: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> tuple[np.ndarray, ...]:
    rows = Rows.of(decisions, y, weights, target="sign")
    f, signs, mass = rows.X[:, 0], rows.signs, rows.weights
    positive, negative = mass[signs > 0].sum(), mass[signs < 0].sum()
    return f, signs, mass, np.where(signs > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))


def _size(f: np.ndarray, mass: np.ndarray) -> float:
    return float(mass @ np.abs(f) / mass.sum()) or 1.0


def _rising_zero(function: Callable[[float], float], f: np.ndarray, mass: np.ndarray) -> float:
    """The zero of a rising function of a positive slope, or the end of the range that it points to."""
    from scipy.optimize import brentq

    unit = 1.0 / _size(f, mass)
    low, high = unit / _FARTHEST, unit * _FARTHEST
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    found: Any = brentq(function, low, high, xtol=1e-14 * unit, rtol=np.float64(1e-13), maxiter=500)
    return float(found)
