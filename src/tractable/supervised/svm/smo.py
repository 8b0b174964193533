r"""Sequential minimal optimisation of the duals of support vector machines, with an exact finish.

Problem.     $\min_\beta \tfrac12\beta^\top K\beta - t^\top\beta + \varepsilon\sum_i|\beta_i|$ with
             $l_i \le \beta_i \le h_i$ and $\sum\beta$ fixed over each range of coefficients (or free).
             Classification is $\beta_i = \alpha_i y_i$, $t = y$, $\varepsilon = 0$; regression
             $\beta_i = \alpha_i - \hat\alpha_i$, $t$ the targets.
Certificate. `violation` is the largest difference between a slope downwards and a slope upwards: zero exactly
             at the minimum. `objective` is the minimum; minus it bounds the primal from below.
Finish.      At the solution the coefficients strictly inside their bounds solve a linear system,
             $K_{FF}\beta_F + b = t_F - \varepsilon\,\mathrm{sign}\,\beta_F - K_{FB}\beta_B$. Once the set $F$
             is right, solving it removes what is left of the tolerance.
Shrinking.   Coefficients at a bound whose slope keeps them there leave the loop with their columns; at the
             end the slopes of all are recomputed, and the loop goes on with all if any is out of order.
Cost.        About one row of $K$ per support vector, two to four steps each; memory up to `memory` bytes.
References.  Platt (1998); Fan, Chen and Lin (2005); Joachims (1999).
"""

from typing import Any

import numpy as np
import scipy.linalg as sl

from tractable.core.checks import check
from tractable.core.interrupts import heard
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module, field
from tractable.core.types import Values
from tractable.kernels.base import Kernel
from tractable.supervised.svm import steps
from tractable.supervised.svm.gram import direct_kernel, expand_kernel, kernel_diagonal, kernel_matrix

__all__ = ["DualSolution", "solve_dual"]

_WHOLE = 3000  # rows up to which the whole matrix is computed at once
_BLOCK = 64  # rows of a kernel from outside that are computed together
SMALL = 1000  # coefficients up to which steps are taken in NumPy, as long as they are few
_PATIENCE = 20_000  # steps of one problem that take about as long as compiling
_LARGEST_FINISH = 600  # free coefficients up to which the linear system is solved


class DualSolution(Ended, Module):
    """Coefficients, slopes and bias of a dual problem, with what certifies them."""

    coefficients: np.ndarray
    gradient: np.ndarray
    multipliers: np.ndarray  # of the fixed sums, one per range: the common slope
    objective: float
    violation: float
    num_steps: int
    exact: bool
    code: int = field(static=True)


def solve_dual(
    kernel: Kernel | None,
    X: np.ndarray,
    target: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    epsilon: float = 0.0,
    ranges: tuple[int, ...] | None = None,
    start: np.ndarray | None = None,
    gram: np.ndarray | None = None,
    tol: float = 1e-3,
    max_steps: int | None = None,
    memory: float = 1e9,
    shrink: bool = True,
    finish: bool = True,
) -> DualSolution:
    """The minimum of the dual over $l \\le \\beta \\le h$ with the sum over each range of indices kept.

    `ranges` are the cuts of the ranges, `(0, n)` for one, and `()` for no sum to keep. `gram` is the kernel
    matrix where it is at hand; `start` must lie inside the bounds and have the sums that are to be kept.
    """
    n = len(target)
    start = np.zeros(n) if start is None else np.array(start, float)
    inside = (start >= low) & (start <= high)
    check(bool(inside.all()), "start", "inside the bounds", f"{(~inside).sum()} coefficients outside")
    if gram is None and n <= _WHOLE:
        assert kernel is not None
        gram = kernel_matrix(kernel, X)
    work = _Work(
        kernel,
        X,
        np.asarray(target, float),
        low,
        high,
        epsilon,
        (0, n) if ranges is None else ranges,
        start,
        gram,
        np.float64 if gram is not None or tol < 1e-5 else np.float32,
        memory,
    )
    budget = max(10_000_000, 100 * n) if max_steps is None else max_steps
    exact, goal = False, tol
    status = work.descend(goal, budget, shrink)
    for _ in range(4 if finish else 0):  # a smaller tolerance where the free set was not right yet
        exact = status.ok and work.finish()
        if exact or not status.ok or len(work.free) > _LARGEST_FINISH:
            break
        goal /= 100.0
        status = work.descend(goal, budget - work.num_steps, shrink)
    if not status.ok and work.violation() <= tol:  # only the finer goal was missed
        status = Status.converged
    return work.solution(exact, status)


class _Work:
    """The arrays of a descent; `active` holds the coefficients that have not been shrunk away."""

    def __init__(self, kernel, X, target, low, high, epsilon, ranges, start, gram, dtype, memory):
        self.kernel, self.X, self.target, self.epsilon = kernel, X, target, float(epsilon)
        self.low, self.high = np.ascontiguousarray(low, float), np.ascontiguousarray(high, float)
        self.ranges, self.gram, self.dtype, self.memory = np.asarray(ranges, np.int64), gram, dtype, memory
        self.diagonal = np.array(np.diagonal(gram)) if gram is not None else kernel_diagonal(kernel, X)
        self.direct = direct_kernel(kernel) if gram is None else None
        self.points = self.direct.points(X, X.mean(0)) if self.direct is not None else X
        self.beta, self.num_steps = start, 0
        self.gradient = self.product(start) - target
        self.everything()

    def product(self, beta: Values) -> Values:
        """$K\\beta$, from the support vectors alone."""
        held = np.flatnonzero(beta)
        if len(held) == 0:
            return np.zeros(len(beta))
        if self.gram is not None:
            return beta[held] @ self.gram[held]
        return expand_kernel(self.kernel, self.X, self.X[held], beta[held])

    def everything(self) -> None:
        """All coefficients take part, with an empty store."""
        n = len(self.target)
        self.active, self.cuts = np.arange(n), self.ranges
        self.up, self.down = self.offsets()
        whole = self.gram is not None
        slots = (
            n if whole else max(min(n, int(self.memory / (n * self.dtype().itemsize))), min(n, 2 * _BLOCK))
        )
        cache = self.gram if whole else np.empty((slots, n), self.dtype)
        slot = np.arange(n) if whole else np.full(n, -1)
        counts = np.array([0 if whole else slots, 0])
        self.store = (cache, slot, np.zeros(slots, np.int64), np.arange(slots), counts)
        self.form = None if whole or self.direct is None else self._form(self.points.T)
        self.state = self._state()

    def _form(self, columns: Values) -> tuple:
        """The numbers of a kernel whose rows the loops fill themselves."""
        assert self.direct is not None
        from tractable.supervised.svm.row_loops import exponents

        points = np.ascontiguousarray(columns, self.dtype)
        return (*self.direct[:2], points, *exponents(points.shape[1], self.dtype))

    def _state(self) -> tuple[np.ndarray, ...]:
        beta, room = self.beta, np.empty(len(self.beta))
        return (beta, self.gradient, self.low, self.high, self.up, self.down, self.diagonal, room)

    def offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of the penalty and of the bounds, upwards and downwards."""
        beta, eps = self.beta, self.epsilon
        up = np.where(beta >= self.high, np.inf, np.where(beta >= 0, eps, -eps))
        return up, np.where(beta <= self.low, -np.inf, np.where(beta > 0, eps, -eps))

    def descend(self, tol: float, budget: int, shrink: bool) -> Status:
        """Steps until the slopes of all coefficients agree within `tol`."""
        limit = self.num_steps + budget
        shrink = shrink and self.gram is None and self.direct is not None and len(self.ranges) == 2
        while self.num_steps < limit:
            period = min(limit - self.num_steps, max(1000, len(self.active) // 2) if shrink else limit)
            code, row, made = self._steps(tol, period)
            self.num_steps += made
            if code == steps.MISSING:
                self._serve(row)
            elif code == steps.BUDGET and shrink:
                self._shrink()
            elif code == steps.CONVERGED:
                if len(self.active) == len(self.target):
                    return Status.converged
                self._restore()
        if len(self.active) < len(self.target):
            self._restore()
        return Status.exhausted

    def _steps(self, tol: float, period: int) -> tuple[int, int, int]:
        spans = np.column_stack([self.cuts[:-1], self.cuts[1:]])
        if self.gram is not None and len(self.beta) <= SMALL and self.num_steps < _PATIENCE:
            period = min(period, _PATIENCE - self.num_steps)
            if len(spans) == 0:
                return steps.step_singles(self.state, self.epsilon, self.gram, tol, period)
            return steps.step_pairs(self.state, self.epsilon, spans, self.gram, tol, period)
        from tractable.supervised.svm import loops  # numba: half a second, then what it compiles

        if len(spans) == 0:
            return heard(loops.step_singles, self.state, self.epsilon, self.form, self.store, tol, period)
        pairs = self.state, self.epsilon, spans, False, self.form, self.store
        return heard(loops.step_pairs, *pairs, tol, period)

    def _serve(self, row: int) -> None:
        """Makes room in a full store, and fetches rows of a kernel from outside, the likeliest together."""
        cache, slot, stamp, free, counts = self.store
        if counts[0] < _BLOCK:
            owners = np.flatnonzero(slot >= 0)
            oldest = owners[np.argsort(stamp[slot[owners]])[: max(len(owners) // 2, 1)]]
            free[counts[0] : counts[0] + len(oldest)] = slot[oldest]
            counts[0] += len(oldest)
            slot[oldest] = -1
        if self.direct is None:
            slopes = np.maximum(-(self.gradient + self.up), self.gradient + self.down)
            slopes[slot >= 0] = -np.inf
            slopes[row] = np.inf
            wanted = np.argsort(-slopes)[: min(_BLOCK, counts[0])]
            wanted = wanted[slopes[wanted] > -np.inf]
            counts[0] -= len(wanted)
            slot[wanted] = free[counts[0] : counts[0] + len(wanted)]
            cache[slot[wanted]] = kernel_matrix(self.kernel, self.X[wanted], self.X)

    def _shrink(self) -> None:
        """Drops coefficients that cannot be in a pair, and their columns, where it is worth the copying."""
        beta, gradient, _, _, up, down, _, _ = self.state
        rises, falls = gradient + up, gradient + down
        keep = np.flatnonzero((rises <= falls.max()) | (falls >= rises.min()))
        if len(keep) > 0.8 * len(beta):
            return
        self.beta[self.active] = beta
        cache, slot, stamp, free, counts = self.store
        gone = np.setdiff1d(np.flatnonzero(slot >= 0), keep)
        free[counts[0] : counts[0] + len(gone)] = slot[gone]
        counts[0] += len(gone)
        slot = slot[keep]
        from tractable.supervised.svm.loops import compact_rows

        compact_rows(cache, slot[slot >= 0], keep)
        self.store = (cache, slot, stamp, free, counts)
        self.state = tuple(array[keep] for array in self.state)
        self.active, self.cuts = self.active[keep], np.array([0, len(keep)])
        self.form = self._form(self.points[self.active].T)

    def _restore(self) -> None:
        """The slopes of all coefficients from the support vectors, and all of them active again."""
        self.beta[self.active] = self.state[0]
        held = np.flatnonzero(self.beta)
        self.gradient, room = -self.target, np.empty(len(self.target), self.dtype)
        from tractable.supervised.svm.row_loops import expand_rows

        expand_rows(self._form(self.points.T), held, self.beta[held], room, self.gradient)
        self.everything()

    @property
    def free(self) -> Values:
        """The coefficients strictly inside their bounds and not at the kink."""
        inside = (self.beta > self.low) & (self.beta < self.high)
        return np.flatnonzero(inside & (self.beta != 0))

    def finish(self) -> bool:
        """Solves for the free coefficients exactly; whether the result meets all conditions."""
        free = self.free
        if len(free) > _LARGEST_FINISH:
            return False
        before, beta = (self.beta, self.gradient), self.beta.copy()
        if len(free):
            single = self.dtype is np.float32
            slopes = self.product(beta) - self.target if single else self.gradient
            beta[free] += self._correction(free, slopes[free])
        if ((beta < self.low) | (beta > self.high) | (np.sign(beta) != np.sign(self.beta))).any():
            return False
        self.beta, self.gradient = beta, self.product(beta) - self.target
        self.up, self.down = self.offsets()
        exact = self.violation() <= 1e-9 * (1.0 + float(np.abs(self.target).max()))
        if not exact:
            self.beta, self.gradient = before
            self.up, self.down = self.offsets()
        self.state = self._state()
        return exact

    def _correction(self, free: Values, slopes: Values) -> Values:
        """What the free coefficients lack: equal slopes, unchanged sums; of all solutions the smallest."""
        whole = self.gram is not None
        table = self.gram[np.ix_(free, free)] if whole else kernel_matrix(self.kernel, self.X[free])
        parts = [(free >= a) & (free < b) for a, b in zip(self.ranges[:-1], self.ranges[1:])]
        border = np.array([part for part in parts if part.any()], float).reshape(-1, len(free))
        border *= float(np.abs(np.diagonal(table)).max()) or 1.0  # of the size of the rest
        system = np.block([[table, border.T], [border, np.zeros((len(border), len(border)))]])
        slope = -(slopes + self.epsilon * np.sign(self.beta[free]))
        right = np.concatenate([slope, np.zeros(len(border))])
        (solve,) = sl.get_lapack_funcs(("sysv",), (system,))
        found, failed = solve(system, right)[2:]
        if failed or not np.abs(system @ found - right).max() <= 1e-12 * np.abs(right).max():
            least: Any = sl.lstsq(system, right, lapack_driver="gelsy", check_finite=False)
            found = np.asarray(least[0])
        return found[: len(free)]

    def slopes(self) -> list[tuple[float, float]]:
        """The largest slope downwards and the least upwards of each range; zero is in between without one."""
        up, down = self.gradient + self.up, self.gradient + self.down
        if len(self.ranges) == 0:
            return [(max(float(down.max()), 0.0), min(float(up.min()), 0.0))]
        return [
            (float(down[a:b].max()), float(up[a:b].min())) for a, b in zip(self.ranges[:-1], self.ranges[1:])
        ]

    def violation(self) -> float:
        return max(0.0, *[down - up for down, up in self.slopes()])

    def solution(self, exact: bool, status: Status) -> DualSolution:
        """The common slope of each range is the mean over its free coefficients, or the middle of its gap."""
        slope, free = self.gradient + self.epsilon * np.sign(self.beta), self.free
        common: list[float] = []
        for (down, up), a, b in zip(self.slopes(), self.ranges[:-1], self.ranges[1:]):
            inside = free[(free >= a) & (free < b)]
            ends = [end for end in (down, up) if np.isfinite(end)]
            common.append(float(slope[inside].mean() if len(inside) else np.mean(ends)))
        objective = 0.5 * self.beta @ (self.gradient - self.target) + self.epsilon * np.abs(self.beta).sum()
        return DualSolution(
            self.beta,
            self.gradient,
            np.array(common),
            float(objective),
            self.violation(),
            int(self.num_steps),
            exact,
            int(status),
        )
