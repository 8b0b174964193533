r"""The duals of many pairs of classes over one kernel matrix, each solved to rounding, in one compiled call.

Views.       Rows are sorted by class: the coefficients of a pair are two spans of the same indices that the
             kernel matrix has, so that nothing of the matrix is copied.
Finish.      Among the coefficients $F$ strictly inside their bounds a minimum has equal slopes:
             $K_{FF}\delta + \lambda 1 = -g_F$, $1^\top\delta = 0$. With $K_{FF} = LL^\top$, $z = -L^{-1}g_F$
             and $u = L^{-1}1$: $\lambda = u^\top z/u^\top u$ and $\delta = L^{-\top}(z - \lambda u)$. Both
             right-hand sides are two more rows of the factorisation.
Cost.        As `supervised.svm.loops` for each pair, and $|F|^3/3$ for its finish.
References.  Fan, Chen and Lin (2005).
"""

import math
from typing import no_type_check

from tractable.supervised.svm.loops import least_slope, offsets, step_pairs
from tractable.supervised.svm.multiclass import EXACT, INEXACT, UNSOLVED
from tractable.supervised.svm.row_loops import compiled, inner
from tractable.supervised.svm.steps import CONVERGED

__all__ = ["solve_pairs"]

_ROUNDING = 2e-9  # of slopes whose targets are one
_SINGULAR = 1e-10  # least pivot, relative to the diagonal


@compiled
@no_type_check
def solve_pairs(members, chosen, bounds, work, store, system, options, coefficients, gradients, report):
    """Solves the chosen pairs from zero: `coefficients`, `gradients` and `report` get a row for each.

    `members` has the two spans of each pair. `work` is room for bounds and offsets, the diagonal of the
    kernel, and room for gains; `system` is room for a matrix, four rows more than columns, and for a list of
    its indices. `options` are whether spans are joint (they are), the tolerance and the most steps. `report`
    gets the middle of the slopes, the violation, steps, code of the descent and kind of the finish.
    """
    low, high, up, down, diagonal, gain = work
    joint, tol, budget = options
    for p in chosen:
        gradient, spans, outcome = gradients[p], members[p], report[p]
        state = (coefficients[p], gradient, low, high, up, down, diagonal, gain)
        _begin(state, bounds, spans)
        goal, steps, code, kind = 3.0 * tol, 0, CONVERGED, INEXACT
        for _ in range(10):  # the free set may be right before the tolerance is met; if not, a smaller one
            code, _, made = step_pairs(state, 0.0, spans, joint, None, store, goal, budget - steps)
            steps += made
            if code != CONVERGED:
                break
            kind = _finish(state, spans, joint, store[0], system[0], system[1])
            if kind != INEXACT:
                break
            goal /= 10.0
        _, _, least, gap = least_slope(gradient, up, down, spans, joint)
        outcome[0], outcome[1], outcome[2], outcome[3], outcome[4] = least + 0.5 * gap, gap, steps, code, kind


@inner
@no_type_check
def _begin(state, bounds, spans):
    """Coefficients of zero: at the upper bound for the first class, at the lower for the second."""
    beta, gradient, low, high, up, down, _, _ = state
    for s in range(2):
        for k in range(spans[s, 0], spans[s, 1]):
            beta[k], gradient[k] = 0.0, 1.0 - 2.0 * s
            low[k], high[k] = (s - 1) * bounds[k], s * bounds[k]
            offsets(beta, low, high, 0.0, up, down, k)


@inner
@no_type_check
def _finish(state, spans, joint, gram, system, inside):
    """Solves for the free coefficients exactly; keeps the result where it meets all conditions."""
    beta, gradient, low, high, up, down, _, trial = state
    most, count = system.shape[1], _free(beta, low, high, spans, inside)
    if count > most:
        return UNSOLVED
    if count > 0 and not _solve(gram, gradient, system, inside, count):
        return UNSOLVED
    change, before = system[most + 2], system[most + 3]
    for a in range(count):
        if not low[inside[a]] < beta[inside[a]] + change[a] < high[inside[a]]:
            return INEXACT
    for a in range(count):
        before[a] = beta[inside[a]]
        beta[inside[a]] += change[a]
    _slopes(beta, trial, spans, gram)
    if least_slope(trial, up, down, spans, joint)[3] <= _ROUNDING:
        for s in range(2):
            for k in range(spans[s, 0], spans[s, 1]):
                gradient[k] = trial[k]
        return EXACT
    for a in range(count):
        beta[inside[a]] = before[a]
    return INEXACT


@inner
@no_type_check
def _free(beta, low, high, spans, inside):
    """Puts the coefficients strictly between their bounds into a list; how many there are."""
    count = 0
    for s in range(2):
        for k in range(spans[s, 0], spans[s, 1]):
            if low[k] < beta[k] < high[k]:
                if count < inside.size:
                    inside[count] = k
                count += 1
    return count


@inner
@no_type_check
def _solve(gram, gradient, system, inside, count):
    """What the free coefficients lack, in the second to last row of `system`; False for a singular matrix."""
    for a in range(count + 2):
        row = system[a]
        for b in range(a + 1 if a < count else count):
            other = system[b]
            value = 1.0 if a > count else -gradient[inside[b]]
            if a < count:
                value = gram[inside[a], inside[b]]
            for c in range(b):
                value -= row[c] * other[c]
            if a > b:
                row[b] = value / other[b]
            elif value > _SINGULAR * gram[inside[a], inside[a]]:
                row[b] = math.sqrt(value)
            else:
                return False
    z, u, change = system[count], system[count + 1], system[system.shape[0] - 2]
    across, length = 0.0, 0.0
    for a in range(count):
        across += u[a] * z[a]
        length += u[a] * u[a]
    for a in range(count):
        change[a] = z[a] - across / length * u[a]
    for a in range(count - 1, -1, -1):
        row = system[a]
        change[a] /= row[a]
        for b in range(a):
            change[b] -= change[a] * row[b]
    return True


@inner
@no_type_check
def _slopes(beta, gradient, spans, gram):
    """The gradient from the coefficients."""
    for s in range(2):
        for k in range(spans[s, 0], spans[s, 1]):
            gradient[k] = 1.0 - 2.0 * s
    for s in range(2):
        for i in range(spans[s, 0], spans[s, 1]):
            if beta[i] != 0.0:
                row, factor = gram[i], beta[i]
                for t in range(2):
                    part, own = gradient[spans[t, 0] : spans[t, 1]], row[spans[t, 0] : spans[t, 1]]
                    for k in range(part.size):
                        part[k] += factor * own[k]
