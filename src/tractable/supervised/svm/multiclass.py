r"""Several classes by one machine for each pair, over one set of support vectors.

Model.       For classes $a < b$ a machine on their rows alone; a positive decision is a vote for $b$. The
             class with the most votes wins; among equals the one with the larger sum of decisions.
Scores.      $s_c = \mathrm{votes}_c + m_c/(3(|m_c| + 1))$ with $m_c$ the sum of the signed decisions for $c$:
             the order of the scores is that of the votes, ties broken; their differences are graded.
Sharing.     The kernel matrix of all rows is computed once where it fits into memory, and each pair takes its
             part; prediction multiplies one kernel matrix with all coefficients.
Cost.        $\binom k2$ machines on $2/k$ of the rows each.
References.  Knerr, Personnaz and Dreyfus (1990); Hsu and Lin (2002).
"""

import os
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.interrupts import heard, in_threads
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Values
from tractable.core.verdict import Verdict
from tractable.kernels.base import Kernel
from tractable.kernels.nonstationary import Linear
from tractable.supervised.svm.bounds import leave_one_out_changes
from tractable.supervised.svm.gram import expand_kernel, kernel_matrix
from tractable.supervised.svm.smo import SMALL, solve_dual
from tractable.supervised.svm.steps import CONVERGED

__all__ = ["PairwiseMachine", "class_scores", "fit_pairwise"]

_SHARED = 4096  # rows up to which the kernel matrix of all is kept
INEXACT, EXACT, UNSOLVED = 0, 1, 2  # unsolved: a singular system, or too many unknowns for the loop
_LARGEST_SYSTEM = 128  # vectors on the margin up to which the loop solves for them itself; above, LAPACK


class PairwiseMachine(Ended, Module):
    """Machines for all pairs of classes: a column of coefficients each over the union of support vectors."""

    kernel: Kernel
    support_vectors: np.ndarray
    coefficients: np.ndarray
    biases: np.ndarray
    support: np.ndarray
    dual_values: np.ndarray
    violation: float
    num_steps: int
    num_rows: int
    num_classes: int = field(static=True)
    code: int = field(static=True)

    def decisions(self, X: ArrayLike | Rows) -> Values:
        """One column per pair of classes (0, 1), (0, 2), ..., (1, 2), ...; positive for the second."""
        rows = points(X, self.support_vectors.shape[1])
        return expand_kernel(self.kernel, rows, self.support_vectors, self.coefficients) + self.biases[None]

    def scores(self, X: ArrayLike | Rows) -> Values:
        """One column per class: votes, and a fraction that breaks ties."""
        return class_scores(self.decisions(X), self.num_classes)

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The code of the winning class."""
        decisions = self.decisions(X)
        two = self.num_classes == 2
        return (
            (decisions[:, 0] > 0).astype(int) if two else class_scores(decisions, self.num_classes).argmax(1)
        )

    @property
    def verdict(self) -> Verdict:
        """How many rows support it, and how far the worst pair is from its minimum."""
        count, violation = len(np.asarray(self.support)), float(self.violation)
        how = f"violation={violation:.1e}. {self.status.sentence}"
        sentence = f"{count} of {self.num_rows} rows support it, {how}"
        return Verdict(self.status.ok, sentence, {"support": count, "violation": violation})


def class_scores(decisions: ArrayLike, num_classes: int) -> np.ndarray:
    """Votes of the pairs, plus a fraction below one third in size from the sums of their decisions."""
    pairwise = np.asarray(decisions, float)
    votes, sums = (np.zeros((len(pairwise), num_classes)) for _ in range(2))
    for column, (a, b) in enumerate(combinations(range(num_classes), 2)):
        second = pairwise[:, column] > 0
        votes[:, b] += second
        votes[:, a] += ~second
        sums[:, b] += pairwise[:, column]
        sums[:, a] -= pairwise[:, column]
    return votes + sums / (3 * (np.abs(sums) + 1))


def fit_pairwise(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    kernel: Kernel | None = None,
    C: float = 1.0,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-3,
    max_steps: int | None = None,
    memory: float = 1e9,
    left_out: int = 0,
) -> tuple[PairwiseMachine, tuple[np.ndarray, np.ndarray] | None]:
    """The machines of all pairs of the classes 0, 1, ..., and leave-one-out decisions of `left_out` rows.

    The second result is None, or (rows, decisions): each row with the decisions of the machines that have
    not seen it, by the span rule for pairs that have.
    """
    rows = Rows.of(X, y, weights, target="class", absent="keep")
    count, kernel = rows.num_classes, Linear() if kernel is None else kernel
    check(count > 1, "y", "of at least two classes", "one class")
    # rows sorted by class: the part of the kernel matrix that a pair needs is four solid blocks
    order = np.argsort(rows.y, kind="stable")
    cuts = np.searchsorted(rows.y[order], np.arange(count + 1))
    problem = _Pairs(kernel, rows.X[order], cuts, C * rows.weights[order], tol, max_steps, memory)
    coefficients, report = problem.solve()
    machine = _joined(problem, order, count, coefficients, report)
    if left_out == 0:
        return machine, None
    chosen = _chosen(rows.num_rows, left_out)
    return machine, (order[chosen], _left_out(machine, problem, coefficients, chosen))


class _Pairs:
    """Rows sorted by class, their kernel matrix where it is small enough to keep, and duals of all pairs."""

    def __init__(self, kernel, rows, cuts, bounds, tol, max_steps, memory):
        self.kernel, self.rows, self.bounds = kernel, rows, bounds
        self.options = {"tol": tol, "max_steps": max_steps}
        self.gram = kernel_matrix(kernel, rows) if len(rows) <= _SHARED else None
        spans = np.column_stack([cuts[:-1], cuts[1:]])
        self.members = np.array([(spans[a], spans[b]) for a, b in combinations(range(len(spans)), 2)])
        self.workers = min(len(self.members), os.cpu_count() or 1)
        self.memory = memory / self.workers

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """One row of coefficients for each pair, and of (bias, minimum, violation, steps, status)."""
        count, size = len(self.members), len(self.rows)
        coefficients, report = np.zeros((count, size)), np.zeros((count, 5))
        rest = np.arange(count)
        sizes = (self.members[:, :, 1] - self.members[:, :, 0]).sum(1)
        if self.gram is not None and count > 1 and (sizes**2).sum() > SMALL**2:
            rest = self._together(coefficients, report)
        if len(rest):
            self._spread(lambda chosen: [self._alone(int(p), coefficients, report) for p in chosen], rest)
        return coefficients, report

    def _spread(self, solve: Callable[[np.ndarray], Any], pairs: Values) -> None:
        """Pairs over threads: the loops release the interpreter's lock."""
        if self.workers == 1:
            heard(solve, pairs)
            return
        shares = [pairs[start :: self.workers].copy() for start in range(self.workers)]
        list(in_threads(solve, shares, self.workers))

    def _together(self, coefficients: Values, report: Values) -> Values:
        """Pairs with views of one kernel matrix, in one call per thread; which are left to be finished."""
        gradients, outcome = np.zeros_like(coefficients), np.zeros_like(report)
        self._spread(
            lambda chosen: self._loop(chosen, coefficients, gradients, outcome), np.arange(len(report))
        )
        middle, violation, steps, code, kind = outcome.T
        size = np.abs(coefficients)
        free = (size > 0) & (size < self.bounds)
        count = free.sum(1)
        slope = np.where(count > 0, (gradients * free).sum(1) / np.maximum(count, 1), middle)
        minimum = 0.5 * ((coefficients * gradients).sum(1) - size.sum(1))
        missed = (code != CONVERGED) & (violation > self.options["tol"])
        status = np.where(missed, int(Status.exhausted), int(Status.converged))
        report[:] = np.column_stack([-slope, minimum, np.maximum(violation, 0.0), steps, status])
        return np.flatnonzero((kind == UNSOLVED) | ~np.isfinite(slope))

    def _loop(self, chosen: Values, *results: np.ndarray) -> None:
        """Room for one thread, and its pairs."""
        from tractable.supervised.svm.pair_loops import solve_pairs  # numba, then what it compiles

        gram, size = self.gram, len(self.rows)
        assert gram is not None
        work = (*np.empty((4, size)), np.array(np.diagonal(gram)), np.empty(size))
        places, most = np.arange(size), min(_LARGEST_SYSTEM, size)
        store = (gram, places, np.zeros(size, np.int64), places, np.zeros(2, np.int64))
        system = (np.empty((most + 4, most)), np.empty(most, np.int64))
        options = (True, self.options["tol"], self.options["max_steps"] or max(10_000_000, 100 * size))
        solve_pairs(self.members, chosen, self.bounds, work, store, system, options, *results)

    def _alone(self, pair: int, coefficients: Values, report: Values) -> None:
        """One pair with a copy of its part, or rows of the kernel that are computed when they are needed."""
        (a, b), (c, d) = self.members[pair]
        own, signs = np.r_[a:b, c:d], np.repeat([-1.0, 1.0], [b - a, d - c])
        bounds = self.bounds[own]
        low, high = np.where(signs > 0, 0.0, -bounds), np.where(signs > 0, bounds, 0.0)
        gram = self.gram if self.gram is None or len(self.members) == 1 else self.gram[np.ix_(own, own)]
        found = solve_dual(
            self.kernel, self.rows[own], signs, low, high, start=coefficients[pair, own], gram=gram,
            memory=self.memory, **self.options,
        )  # fmt: skip
        coefficients[pair, own] = found.coefficients
        steps = report[pair, 3] + found.num_steps
        report[pair] = -found.multipliers[0], found.objective, found.violation, steps, found.code


def _joined(
    problem: _Pairs, order: np.ndarray, count: int, coefficients: np.ndarray, report: np.ndarray
) -> PairwiseMachine:
    held = np.flatnonzero(coefficients.any(0))
    worst = np.lexsort([report[:, 2], report[:, 4] != int(Status.converged)])[-1]
    return PairwiseMachine(
        problem.kernel, problem.rows[held], np.ascontiguousarray(coefficients[:, held].T),
        report[:, 0].copy(), order[held], -report[:, 1], float(report[worst, 2]), int(report[:, 3].sum()),
        len(problem.rows), count, int(report[worst, 4]),
    )  # fmt: skip


def _chosen(num_rows: int, most: int) -> np.ndarray:
    """All rows, or as many as asked for, in an order that does not follow that of the table."""
    if num_rows <= most:
        return np.arange(num_rows)
    return np.sort(generator(0).permutation(num_rows)[:most])


def _left_out(
    machine: PairwiseMachine, problem: _Pairs, coefficients: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Decisions of all pairs for the chosen rows, less what each row itself contributes to its own pairs."""
    rows, gram = problem.rows, problem.gram
    if gram is None:
        decisions = machine.decisions(rows[chosen])
    else:
        held = np.flatnonzero(coefficients.any(0))
        decisions = (coefficients[:, held] @ gram[held])[:, chosen].T + np.asarray(machine.biases)
    for column, beta in enumerate(coefficients):
        free = (beta != 0) & (np.abs(beta) < problem.bounds)
        decisions[:, column] -= leave_one_out_changes(machine.kernel, rows, beta, free, chosen, gram=gram)
    return decisions
