r"""Steps of sequential minimal optimisation in NumPy, for small problems: nothing is compiled.

Twin.        `supervised.svm.loops` has the same steps as loops for large problems; its header says what a
             step is. Which of them runs depends on the size of the problem and on the steps it has taken.
Cost.        About twenty microseconds per step up to some hundreds of coefficients.
"""

import numpy as np

__all__ = ["BUDGET", "CONVERGED", "LEAST_CURVATURE", "MISSING", "step_pairs", "step_singles"]

CONVERGED, MISSING, BUDGET = 0, 1, 2
LEAST_CURVATURE = 1e-12  # relative to the diagonal: a pair of equal points gives no more than this


def step_pairs(
    state: tuple[np.ndarray, ...],
    epsilon: float,
    spans: np.ndarray,
    gram: np.ndarray,
    tol: float,
    budget: int,
) -> tuple[int, int, int]:
    """As `loops.step_pairs` with the whole kernel matrix at hand."""
    beta, gradient, low, high, up, down, diagonal, _ = state
    ranges = [slice(start, stop) for start, stop in spans.tolist()]
    part = ranges[0]
    for step in range(budget):
        rises, falls = gradient + up, gradient + down
        if len(ranges) > 1:
            part = max(ranges, key=lambda own: falls[own].max() - rises[own].min())
        i = part.start + int(rises[part].argmin())
        rise = rises[i]
        fall = falls[part] - rise
        if fall.max() <= tol:
            return CONVERGED, -1, step
        both = diagonal[i] + diagonal[part]
        curvature = np.maximum(both - 2.0 * gram[i, part], LEAST_CURVATURE * both + 1e-300)
        np.maximum(fall, 0.0, out=fall)
        j = int((fall * fall / curvature).argmax())
        length, j = fall[j] / curvature[j], part.start + j
        room_i = -beta[i] if beta[i] < 0 else high[i] - beta[i]
        room_j = beta[j] if beta[j] > 0 else beta[j] - low[j]
        length = min(length, room_i, room_j)
        end_i, end_j = (0.0 if beta[i] < 0 else high[i]), (0.0 if beta[j] > 0 else low[j])
        beta[i] = end_i if length == room_i else beta[i] + length
        beta[j] = end_j if length == room_j else beta[j] - length
        gradient += length * (gram[i] - gram[j])
        for k in (i, j):
            _offsets(state, epsilon, k)
    return BUDGET, -1, budget


def step_singles(
    state: tuple[np.ndarray, ...], epsilon: float, gram: np.ndarray, tol: float, budget: int
) -> tuple[int, int, int]:
    """As `loops.step_singles` with the whole kernel matrix at hand."""
    beta, gradient, low, high, up, down, diagonal, _ = state
    for step in range(budget):
        rises, falls = -(gradient + up), gradient + down
        i, k = int(rises.argmax()), int(falls.argmax())
        sign, worst = (1.0, rises[i]) if rises[i] >= falls[k] else (-1.0, falls[k])
        i = i if sign > 0 else k
        if worst <= tol:
            return CONVERGED, -1, step
        target = beta[i] + sign * worst / max(diagonal[i], 1e-300)
        if sign > 0:
            target = min(target, 0.0 if beta[i] < 0 else high[i])
        else:
            target = max(target, 0.0 if beta[i] > 0 else low[i])
        gradient += (target - beta[i]) * gram[i]
        beta[i] = target
        _offsets(state, epsilon, i)
    return BUDGET, -1, budget


def _offsets(state: tuple[np.ndarray, ...], epsilon: float, i: int) -> None:
    """The slopes of the penalty and of the bounds at one coefficient."""
    beta, _, low, high, up, down, _, _ = state
    up[i] = np.inf if beta[i] >= high[i] else (epsilon if beta[i] >= 0 else -epsilon)
    down[i] = -np.inf if beta[i] <= low[i] else (epsilon if beta[i] > 0 else -epsilon)
