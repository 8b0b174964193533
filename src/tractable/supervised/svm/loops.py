r"""The sequential loops of support vector machines: each pair of coefficients depends on all pairs before it.

Problem.     $\min_\beta \tfrac12\beta^\top K\beta - t^\top\beta + \varepsilon\sum_i|\beta_i|$ with
             $l_i \le \beta_i \le h_i$ and the sum over each range of coefficients fixed.
Directions.  $g = K\beta - t$; the slope upwards is $g_i + u_i$, downwards $g_i + v_i$, where $u_i$ is
             $\varepsilon$ ($\beta_i \ge 0$), $-\varepsilon$, or $\infty$ at the upper bound, and $v_i$ is
             $\varepsilon$ ($\beta_i > 0$), $-\varepsilon$, or $-\infty$ at the lower one.
Pair.        $i$ has the least slope upwards; $j$ the largest gain $(g_j + v_j - g_i - u_i)^2/\eta_{ij}$ with
             $\eta_{ij} = K_{ii} + K_{jj} - 2K_{ij}$. The step moves both by slope$/\eta$, up to a bound or to
             zero, where $|\beta|$ has its kink. Least slope and largest gain are reductions without branches.
Rows.        A row of $K$ is computed where it is first needed and kept (`row_loops`); kernels that are not in
             there bring their rows from outside.
Cost.        Three vectorised passes over the coefficients per step, one more per feature for a new row.
References.  Platt (1998); Fan, Chen and Lin (2005); Hsieh et al. (2008).
"""

from typing import no_type_check

import numpy as np

from tractable.supervised.svm.row_loops import compiled, fill_row, inner
from tractable.supervised.svm.steps import BUDGET, CONVERGED, LEAST_CURVATURE, MISSING

__all__ = ["compact_rows", "descend_linear", "least_slope", "offsets", "step_pairs", "step_singles"]


@compiled
@no_type_check
def step_pairs(state, epsilon, spans, joint, kernel, store, tol, budget):
    """Pair steps until the slopes agree within `tol`; returns (code, row that is missing, steps made).

    `state` is (coefficients, gradient, lower, upper, offsets up, offsets down, diagonal of the kernel, room
    for gains), `spans` (start, stop) of the coefficients that take part, with one sum to keep for each span,
    or one for all of them where they are `joint`; `kernel` (kind, numbers, columns of the points, room for
    exponents) or None where rows come from outside, `store` (rows, slot of each point, last use, free slots,
    number of free slots and clock).
    """
    beta, gradient, low, high, up, down, diagonal, gain = state
    cache, slot = store[0], store[1]
    for step in range(budget):
        first, last, rise, worst = least_slope(gradient, up, down, spans, joint)
        if worst <= tol:
            return CONVERGED, -1, step
        i = _find_slope(gradient, up, rise, spans, first, last)
        if not _ensure(i, kernel, store):
            return MISSING, i, step
        row_i = cache[slot[i]]
        best = _gains(gain, gradient, down, diagonal, row_i, diagonal[i], rise, spans, first, last)
        j = _find(gain, best, spans, first, last)
        if not _ensure(j, kernel, store):
            return MISSING, j, step
        row_j = cache[slot[j]]
        both = diagonal[i] + diagonal[j]
        length = (gradient[j] + down[j] - rise) / _curvature(both, row_i[j])
        length = _move(beta, low, high, i, j, length)
        for s in range(spans.shape[0]):
            start, stop = spans[s, 0], spans[s, 1]
            part, gained, lost = gradient[start:stop], row_i[start:stop], row_j[start:stop]
            for k in range(part.size):
                part[k] += length * (gained[k] - lost[k])
        offsets(beta, low, high, epsilon, up, down, i)
        offsets(beta, low, high, epsilon, up, down, j)
    return BUDGET, -1, budget


@compiled
@no_type_check
def step_singles(state, epsilon, kernel, store, tol, budget):
    """Single steps on the coefficient with the steepest slope: the problem without a sum to keep."""
    beta, gradient, low, high, up, down, diagonal, _ = state
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
        target = beta[i] + sign * worst / (diagonal[i] if diagonal[i] > 1e-300 else 1e-300)
        if sign > 0:
            end = 0.0 if beta[i] < 0 else high[i]
            target = end if end < target else target
        else:
            end = 0.0 if beta[i] > 0 else low[i]
            target = end if end > target else target
        change, row = target - beta[i], cache[slot[i]]
        beta[i] = target
        for k in range(beta.size):
            gradient[k] += change * row[k]
        offsets(beta, low, high, epsilon, up, down, i)
    return BUDGET, -1, budget


@inner
@no_type_check
def _ensure(i, kernel, store):
    """Whether the row of a point is in the store, computing it where there is a free slot."""
    cache, slot, stamp, free, counts = store
    counts[1] += 1
    if slot[i] < 0:
        if kernel is None:  # known while compiling: nothing of what fills a row is compiled then
            return False
        if counts[0] == 0:
            return False
        counts[0] -= 1
        slot[i] = free[counts[0]]
        fill_row(kernel, i, cache[slot[i]])
    stamp[slot[i]] = counts[1]
    return True


@compiled
@no_type_check
def descend_linear(rows, signs, bounds, curvatures, order, alpha, weights, tol, max_epochs):
    """Dual coordinate ascent on the linear hinge machine without a sum to keep, in a new order each epoch.

    `alpha`, `weights` and `order` are moved in place; returns the epochs made and the last worst slope.
    """
    worst, draw = np.inf, 1
    for epoch in range(max_epochs):
        worst = 0.0
        for place in range(order.size):
            draw = (draw * 1103515245 + 12345) & 2147483647  # a congruential generator: its high bits choose
            other = place + ((draw * (order.size - place)) >> 31)
            i = order[other]
            order[other] = order[place]
            order[place] = i
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


@compiled
@no_type_check
def compact_rows(cache, slots, keep):
    """Moves the kept columns of the used slots to the front, in place."""
    for s in range(slots.size):
        row = cache[slots[s]]
        for k in range(keep.size):
            row[k] = row[keep[k]]


@inner
@no_type_check
def least_slope(gradient, up, down, spans, joint):
    """Where slopes disagree most: (first span, last span, least slope upwards, largest downwards less it)."""
    count, first, least, worst = spans.shape[0], 0, 0.0, -np.inf
    low, high = np.inf, -np.inf
    for s in range(count):
        if not joint:
            low, high = np.inf, -np.inf
        start, stop = spans[s, 0], spans[s, 1]
        slopes, upwards, downwards = gradient[start:stop], up[start:stop], down[start:stop]
        for k in range(slopes.size):
            rise, fall = slopes[k] + upwards[k], slopes[k] + downwards[k]
            low = rise if rise < low else low
            high = fall if fall > high else high
        if high - low > worst or joint:
            first, least, worst = s, low, high - low
    return (0, count, least, worst) if joint else (first, first + 1, least, worst)


@inner
@no_type_check
def _find_slope(gradient, up, least, spans, first, last):
    for s in range(first, last):
        for k in range(spans[s, 0], spans[s, 1]):
            if gradient[k] + up[k] == least:
                return k
    return spans[first, 0]


@inner
@no_type_check
def _gains(gain, gradient, down, diagonal, row, own, rise, spans, first, last):
    """The gain of each partner of a coefficient, and the largest."""
    best = 0.0
    for s in range(first, last):
        start, stop = spans[s, 0], spans[s, 1]
        slopes, downwards, cross = gradient[start:stop], down[start:stop], row[start:stop]
        others, gains = diagonal[start:stop], gain[start:stop]
        for k in range(slopes.size):
            fall = slopes[k] + downwards[k] - rise
            fall = fall if fall > 0.0 else 0.0
            value = fall * fall / _curvature(own + others[k], cross[k])
            gains[k] = value
            best = value if value > best else best
    return best


@inner
@no_type_check
def _curvature(both, cross):
    """$K_{ii} + K_{jj} - 2K_{ij}$, or next to nothing for equal points, which differ by labels alone."""
    curvature, least = both - 2.0 * cross, LEAST_CURVATURE * both + 1e-300
    return curvature if curvature > least else least


@inner
@no_type_check
def _find(values, value, spans, first, last):
    for s in range(first, last):
        for k in range(spans[s, 0], spans[s, 1]):
            if values[k] == value:
                return k
    return spans[first, 0]


@inner
@no_type_check
def _move(beta, low, high, i, j, length):
    """Adds to one coefficient what it takes from the other, exactly to a bound or to zero where it ends."""
    room_i = -beta[i] if beta[i] < 0 else high[i] - beta[i]
    room_j = beta[j] if beta[j] > 0 else beta[j] - low[j]
    length = room_i if room_i < length else length
    length = room_j if room_j < length else length
    end_i, end_j = (0.0 if beta[i] < 0 else high[i]), (0.0 if beta[j] > 0 else low[j])
    beta[i] = end_i if length == room_i else beta[i] + length
    beta[j] = end_j if length == room_j else beta[j] - length
    return length


@inner
@no_type_check
def offsets(beta, low, high, epsilon, up, down, i):
    """The slopes of the penalty and of the bounds at one coefficient."""
    up[i] = np.inf if beta[i] >= high[i] else (epsilon if beta[i] >= 0 else -epsilon)
    down[i] = -np.inf if beta[i] <= low[i] else (epsilon if beta[i] > 0 else -epsilon)
