r"""The sequential loops of support vector machines: each pair of coefficients depends on all pairs before it.

Problem.     $\min_\beta \tfrac12\beta^\top K\beta - t^\top\beta + \varepsilon\sum_i|\beta_i|$ with
             $l_i \le \beta_i \le h_i$ and the sum over each range of coefficients fixed.
Directions.  $g = K\beta - t$; the slope upwards is $g_i + u_i$, downwards $g_i + v_i$, where $u_i$ is
             $\varepsilon$ ($\beta_i \ge 0$), $-\varepsilon$, or $\infty$ at the upper bound, and $v_i$ is
             $\varepsilon$ ($\beta_i > 0$), $-\varepsilon$, or $-\infty$ at the lower one.
Pair.        $i$ has the least slope upwards; $j$ the largest gain $(g_j + v_j - g_i - u_i)^2/\eta_{ij}$ with
             $\eta_{ij} = K_{ii} + K_{jj} - 2K_{ij}$. The step moves both by slope$/\eta$, up to a bound or to
             zero, where $|\beta|$ has its kink. Least slope and largest gain are reductions without branches.
Rows.        A row of $K$ is computed where it is first needed and kept (`svm_row_loops`); kernels that are
             not in there bring their rows from outside.
Used by.     supervised.svm.smo (pairs, single coefficients), supervised.svm.machine (linear dual descent).
Cost.        Three vectorised passes over the coefficients per step, one more per feature for a new row.
References.  Platt (1998); Fan, Chen and Lin (2005); Hsieh et al. (2008).
"""

from typing import no_type_check

import numba
import numpy as np

from tractable.supervised.svm.row_loops import OUTSIDE, fill_row

__all__ = ["compact_rows", "descend_linear", "step_pairs", "step_singles"]

# `nnan` lets minima and maxima be vectorised; infinities are meant and stay
_compiled = numba.njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"}
)

CONVERGED, MISSING, BUDGET = 0, 1, 2
_LEAST_CURVATURE = 1e-12  # relative to the diagonal: a pair of equal points gives no more than this


@_compiled
@no_type_check
def step_pairs(state, epsilon, ranges, kernel, store, tol, budget):
    """Pair steps until the slopes agree within `tol`; returns (code, row that is missing, steps made).

    `state` is (coefficients, gradient, lower, upper, offsets up, offsets down, diagonal of the kernel),
    `kernel` (kind, numbers, columns of the points), `store` (rows, slot of each point, last use, free slots,
    number of free slots and clock).
    """
    beta, gradient, low, high, up, down, diagonal = state
    cache, slot = store[0], store[1]
    gain = np.empty(beta.size)
    for step in range(budget):
        part, i, rise, worst = _least_slope(gradient, up, down, ranges)
        if worst <= tol:
            return CONVERGED, i, step
        if not _ensure(i, kernel, store):
            return MISSING, i, step
        row_i = cache[slot[i]]
        start, stop = ranges[part], ranges[part + 1]
        best = _gains(gain, gradient, down, diagonal, row_i, diagonal[i], rise, start, stop)
        j = _find(gain, best, start, stop)
        if not _ensure(j, kernel, store):
            return MISSING, j, step
        row_j = cache[slot[j]]
        both = diagonal[i] + diagonal[j]
        length = (gradient[j] + down[j] - rise) / _curvature(both, row_i[j])
        length = _move(beta, low, high, i, j, length)
        for k in range(gradient.size):
            gradient[k] += length * (row_i[k] - row_j[k])
        _offsets(beta, low, high, epsilon, up, down, i)
        _offsets(beta, low, high, epsilon, up, down, j)
    return BUDGET, -1, budget


@_compiled
@no_type_check
def step_singles(state, epsilon, kernel, store, tol, budget):
    """Single steps on the coefficient with the steepest slope: the problem without a sum to keep."""
    beta, gradient, low, high, up, down, diagonal = state
    cache, slot = store[0], store[1]
    for step in range(budget):
        i, sign, worst = -1, 1.0, tol
        for k in range(beta.size):
            if -(gradient[k] + up[k]) > worst:
                i, sign, worst = k, 1.0, -(gradient[k] + up[k])
            if gradient[k] + down[k] > worst:
                i, sign, worst = k, -1.0, gradient[k] + down[k]
        if i < 0:
            return CONVERGED, i, step
        if not _ensure(i, kernel, store):
            return MISSING, i, step
        target = beta[i] + sign * worst / max(diagonal[i], 1e-300)
        if sign > 0:
            target = min(target, 0.0 if beta[i] < 0 else high[i])
        else:
            target = max(target, 0.0 if beta[i] > 0 else low[i])
        change, row = target - beta[i], cache[slot[i]]
        beta[i] = target
        for k in range(beta.size):
            gradient[k] += change * row[k]
        _offsets(beta, low, high, epsilon, up, down, i)
    return BUDGET, -1, budget


@_compiled
@no_type_check
def _ensure(i, kernel, store):
    """Whether the row of a point is in the store, computing it where there is a free slot."""
    kind, numbers, columns = kernel
    cache, slot, stamp, free, counts = store
    counts[1] += 1
    if slot[i] < 0:
        if kind == OUTSIDE or counts[0] == 0:
            return False
        counts[0] -= 1
        slot[i] = free[counts[0]]
        fill_row(kind, numbers, columns, columns[:, i].copy(), cache[slot[i], : columns.shape[1]])
    stamp[slot[i]] = counts[1]
    return True


@_compiled
@no_type_check
def descend_linear(rows, signs, bounds, alpha, weights, seed, tol, max_epochs):
    """Dual coordinate ascent on the linear hinge machine without a sum to keep, rows in a new order each
    epoch.

    `alpha` and `weights` are moved in place; returns the epochs made and the worst slope in the last one.
    """
    np.random.seed(seed)  # noqa: NPY002
    order, curvatures = np.arange(signs.size), (rows * rows).sum(1)
    worst = np.inf
    for epoch in range(max_epochs):
        worst = 0.0
        np.random.shuffle(order)  # noqa: NPY002
        for i in order:
            slope = -1.0
            for d in range(weights.size):
                slope += signs[i] * rows[i, d] * weights[d]
            stuck = (alpha[i] <= 0 and slope >= 0) or (alpha[i] >= bounds[i] and slope <= 0)
            if stuck or curvatures[i] == 0.0:
                continue
            worst = max(worst, abs(slope))
            moved = min(max(alpha[i] - slope / curvatures[i], 0.0), bounds[i])
            change = (moved - alpha[i]) * signs[i]
            alpha[i] = moved
            for d in range(weights.size):
                weights[d] += change * rows[i, d]
        if worst <= tol:
            return epoch + 1, worst
    return max_epochs, worst


@_compiled
@no_type_check
def compact_rows(cache, slots, keep):
    """Moves the kept columns of the used slots to the front, in place."""
    for s in range(slots.size):
        row = cache[slots[s]]
        for k in range(keep.size):
            row[k] = row[keep[k]]


@_compiled
@no_type_check
def _least_slope(gradient, up, down, ranges):
    """The range whose slopes disagree most: (range, index of the least slope upwards, its value, gap)."""
    part, least, worst = 0, 0.0, -np.inf
    for p in range(ranges.size - 1):
        low, high = np.inf, -np.inf
        for k in range(ranges[p], ranges[p + 1]):
            low = min(low, gradient[k] + up[k])
            high = max(high, gradient[k] + down[k])
        if high - low > worst:
            part, least, worst = p, low, high - low
    for k in range(ranges[part], ranges[part + 1]):
        if gradient[k] + up[k] == least:
            return part, k, least, worst
    return part, -1, least, -np.inf


@_compiled
@no_type_check
def _gains(gain, gradient, down, diagonal, row, own, rise, start, stop):
    """The gain of each partner of a coefficient, and the largest."""
    best = 0.0
    for k in range(start, stop):
        fall = gradient[k] + down[k] - rise
        both = own + diagonal[k]
        curvature = _curvature(both, row[k])
        fall = max(fall, 0.0)
        gain[k] = fall * fall / curvature
        best = max(best, gain[k])
    return best


@_compiled
@no_type_check
def _curvature(both, cross):
    """$K_{ii} + K_{jj} - 2K_{ij}$, or next to nothing for equal points, which differ by labels alone."""
    return max(both - 2.0 * cross, _LEAST_CURVATURE * both + 1e-300)


@_compiled
@no_type_check
def _find(values, value, start, stop):
    for k in range(start, stop):
        if values[k] == value:
            return k
    return start


@_compiled
@no_type_check
def _move(beta, low, high, i, j, length):
    """Adds to one coefficient what it takes from the other, exactly to a bound or to zero where it ends."""
    room_i = -beta[i] if beta[i] < 0 else high[i] - beta[i]
    room_j = beta[j] if beta[j] > 0 else beta[j] - low[j]
    length = min(length, min(room_i, room_j))
    end_i, end_j = (0.0 if beta[i] < 0 else high[i]), (0.0 if beta[j] > 0 else low[j])
    beta[i] = end_i if length == room_i else beta[i] + length
    beta[j] = end_j if length == room_j else beta[j] - length
    return length


@_compiled
@no_type_check
def _offsets(beta, low, high, epsilon, up, down, i):
    """The slopes of the penalty and of the bounds at one coefficient."""
    up[i] = np.inf if beta[i] >= high[i] else (epsilon if beta[i] >= 0 else -epsilon)
    down[i] = -np.inf if beta[i] <= low[i] else (epsilon if beta[i] > 0 else -epsilon)
