r"""Least check loss of rows: a linear program of special form, by an interior-point method with its gap.

Problem.     $\min_\beta\sum_iw_i\rho_\tau(y_i - z_i^\top\beta) + \tfrac12\beta^\top\Lambda\beta -
             g^\top\beta$ with $\rho_\tau(r) = \max(\tau r, (\tau - 1)r)$ and a diagonal $\Lambda \ge 0$; rows
             whose side is known enter through $g$ alone.
Dual.        Shares $a_i \in [0, 1]$, one where the residual is positive and zero where it is negative:
             $\sum_iw_i(a_i - 1 + \tau)z_i + g = \Lambda\beta$. With $y - Z\beta = p - q$ and $s = 1 - a$ the
             answer has $p_is_i = q_ia_i = 0$.
Step.        Mehrotra's, towards $p_is_i = q_ia_i = \sigma\mu$: one Gram matrix
             $Z^\top D^{-1}WZ + \Lambda$ with $D = p/s + q/a$ for two right sides. The target is the same for
             every copy of a row, so that a weight of two is the row twice all along the path; where many
             $\beta$ are best, one near their middle is found.
Certificate. $\sum_iw_i(p_is_i + q_ia_i)$ is the gap between the objective and its lower bound.
Cost.        $O(np^2)$ per step, 10 to 20 steps.
References.  Koenker and Bassett (1978); Portnoy and Koenker (1997); Mehrotra (1992).
"""

from typing import NamedTuple

import numpy as np

from tractable.core.iterate import Status
from tractable.optim.newton import newton_direction
from tractable.supervised.selection.losses import pinball_loss

__all__ = ["CheckFit", "least_check_loss"]

_BACK = 0.9995  # of the way to the wall
_PATIENCE = 15  # steps without a smaller error: rounding has the last word
_FLOOR = 1e-3  # of the total weight: what counts as an objective where rows are met exactly


class CheckFit(NamedTuple):
    """The coefficients, the shares $a$ of the rows, the gap over the objective, the steps, how it ended."""

    beta: np.ndarray
    shares: np.ndarray
    gap: float
    num_steps: int
    status: Status


class _Point(NamedTuple):
    beta: np.ndarray
    above: np.ndarray  # p
    below: np.ndarray  # q
    shares: np.ndarray  # a
    rest: np.ndarray  # s

    def moved(self, d: "_Point", primal: float, dual: float) -> "_Point":
        steps = (primal, primal, primal, dual, dual)
        return _Point(*(value + step * by for value, step, by in zip(self, steps, d)))


def least_check_loss(
    z: np.ndarray, y: np.ndarray, weights: np.ndarray, level: float, ridge: np.ndarray,
    pull: np.ndarray | None = None, *, unit: float = 1.0, tol: float = 1e-11, max_steps: int = 200,
) -> CheckFit:  # fmt: skip
    r"""The coefficients of least check loss at a `level`, with `ridge` the diagonal of $\Lambda$, `pull` $g$.

    `unit` is the size of the targets. It ends where the gap is at most `tol` of the objective.

    >>> y = np.array([1.0, 2.0, 5.0])
    >>> least_check_loss(np.ones((3, 1)), y, np.ones(3), 0.5, np.zeros(1)).beta.round(9).tolist()
    [2.0]
    """
    g, total = np.zeros(z.shape[1]) if pull is None else pull, float(weights.sum())
    point = _first(z, y, weights, level, ridge, g, unit)
    best, last, count, status = (np.inf, point), 0, 0, Status.exhausted
    for count in range(max_steps + 1):
        mu, wrong = _state(z, weights, level, ridge, g, point)
        objective = float(weights @ pinball_loss(point.above, point.below, level)) + _FLOOR * total * unit
        error = max(2 * total * mu / objective, np.abs(wrong).max(initial=0.0) / total)
        if error < best[0]:
            best, last = (error, point), count
        if not np.isfinite(error) or count > last + _PATIENCE:
            status = Status.stalled
            break
        if error <= tol or count == max_steps:
            status = Status.converged if error <= tol else Status.exhausted
            break
        with np.errstate(all="ignore"):  # what is not finite ends the search
            point = _step(z, y, weights, ridge, point, mu, wrong)
    error, point = best
    status = Status.converged if error <= 1e3 * tol else status  # rounding has the last word
    return CheckFit(point.beta, point.shares, float(error), count, status)


def _first(
    z: np.ndarray, y: np.ndarray, weights: np.ndarray, level: float, ridge: np.ndarray, g: np.ndarray,
    unit: float,
) -> _Point:  # fmt: skip
    """Weighted least squares, with room on both sides of each residual, and shares that balance."""
    gram, side = (z * weights[:, None]).T @ z, (weights * y) @ z
    size = max(float(np.mean(np.diag(gram))), 1e-300)
    beta = newton_direction(gram + np.diag(np.minimum(ridge, size)), -side)
    r = y - z @ beta
    total = float(weights.sum())
    room = 0.1 * float(weights @ np.abs(r)) / total + 1e-6 * unit
    sums = weights @ z
    share = 1 - level - float(g @ sums) / max(float(sums @ sums), 1e-300)
    share = np.clip(share, min(0.1, 1 - level), max(0.9, 1 - level))
    shares = np.full(len(y), float(share))
    return _Point(beta, np.maximum(r, 0) + room, np.maximum(-r, 0) + room, shares, 1 - shares)


def _state(
    z: np.ndarray, weights: np.ndarray, level: float, ridge: np.ndarray, g: np.ndarray, point: _Point
) -> tuple[float, np.ndarray]:
    """The mean product of what should be zero, and how far the dual equation is from holding."""
    products = point.above * point.rest + point.below * point.shares
    mu = float(weights @ products) / (2 * float(weights.sum()))
    return mu, (weights * (point.shares - (1 - level))) @ z + g - ridge * point.beta


def _step(
    z: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: np.ndarray, point: _Point, mu: float,
    wrong: np.ndarray,
) -> _Point:  # fmt: skip
    """Mehrotra's: look how far a plain Newton step gets, then aim there with its curvature taken off."""
    _, p, q, a, s = point
    miss = y - z @ point.beta - (p - q)
    curve = weights / (p / s + q / a)
    half = z * np.sqrt(curve)[:, None]
    gram = half.T @ half + np.diag(ridge)
    if not np.isfinite(gram).all():
        return point

    def towards(first: np.ndarray, second: np.ndarray) -> _Point:
        """The direction in which the products change by so much."""
        lacks = miss - first / s + second / a
        d_beta = newton_direction(gram, -((curve * lacks) @ z + wrong))
        d_a = (lacks - z @ d_beta) * (curve / weights)
        return _Point(d_beta, (first + p * d_a) / s, (second - q * d_a) / a, d_a, -d_a)

    plain = towards(-p * s, -q * a)
    ahead = point.moved(plain, *_lengths(point, plain, ridge))
    left = float(weights @ (ahead.above * ahead.rest + ahead.below * ahead.shares)) / 2 / weights.sum()
    goal = mu * min(max(left / mu, 0.0), 1.0) ** 3
    better = towards(goal - p * s - plain.above * plain.rest, goal - q * a - plain.below * plain.shares)
    lengths = _lengths(point, better, ridge)
    return point.moved(better, *(min(1.0, _BACK * length) for length in lengths))


def _lengths(point: _Point, d: _Point, ridge: np.ndarray) -> tuple[float, float]:
    """How far to go until a number would be negative; one length for both where the ridge couples them."""

    def longest(value: np.ndarray, by: np.ndarray) -> float:
        ratio = np.max(-by / value, initial=0.0)
        return min(1.0, 1 / ratio) if ratio > 0 else 1.0

    primal = min(longest(point.above, d.above), longest(point.below, d.below))
    dual = min(longest(point.shares, d.shares), longest(point.rest, d.rest))
    both = min(primal, dual)
    return (both, both) if ridge.any() else (primal, dual)
