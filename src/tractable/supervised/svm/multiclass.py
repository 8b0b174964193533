r"""Several classes by one machine for each pair, over one set of support vectors.

Model.       For classes $a < b$ a machine on their rows alone; a positive decision is a vote for $b$. The
             class with
             the most votes wins; among equals the one with the larger sum of decisions.
Scores.      $s_c = \mathrm{votes}_c + m_c/(3(|m_c| + 1))$ with $m_c$ the sum of the signed decisions for $c$:
             the order
             of the scores is that of the votes, ties broken; their differences are graded.
Sharing.     The kernel matrix of all rows is computed once where it fits into memory, and each pair takes its
             part;
             prediction multiplies one kernel matrix with all coefficients.
Used by.     estimators.svm.
Cost.        $\binom k2$ machines on $2/k$ of the rows each.
References.  Knerr, Personnaz and Dreyfus (1990); Hsu and Lin (2002).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np

from tractable.core.checks import check, check_length
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike
from tractable.kernels.base import Kernel
from tractable.supervised.svm.bounds import leave_one_out_changes
from tractable.supervised.svm.gram import as_rows, expand_kernel, kernel_matrix, weights_of
from tractable.supervised.svm.smo import DualSolution, solve_dual

__all__ = ["PairwiseMachine", "class_scores", "fit_pairwise"]

_SHARED = 4096  # rows up to which the kernel matrix of all is kept


class PairwiseMachine(Module):
    """Machines for all pairs of classes: one column of coefficients each over the union of support
    vectors."""

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

    @property
    def status(self) -> Status:
        return Status(self.code)

    def decisions(self, X: ArrayLike) -> np.ndarray:
        """One column per pair of classes (0, 1), (0, 2), ..., (1, 2), ...; positive for the second."""
        rows = as_rows("X", X)
        centres, coefficients = np.asarray(self.support_vectors), np.asarray(self.coefficients)
        return expand_kernel(self.kernel, rows, centres, coefficients) + np.asarray(self.biases)

    def scores(self, X: ArrayLike) -> np.ndarray:
        """One column per class: votes, and a fraction that breaks ties."""
        return class_scores(self.decisions(X), self.num_classes)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The code of the winning class."""
        decisions = self.decisions(X)
        two = self.num_classes == 2
        return (
            (decisions[:, 0] > 0).astype(int) if two else class_scores(decisions, self.num_classes).argmax(1)
        )

    def __repr__(self) -> str:
        count = f"{len(np.asarray(self.support))} of {self.num_rows} rows support it"
        head = f"{self.kernel!r}, {self.num_classes} classes, {count}, violation={self.violation:.1e}"
        return f"PairwiseMachine({head})\n  {self.status.sentence}"


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
    X: ArrayLike,
    codes: ArrayLike,
    kernel: Kernel,
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
    rows, labels = as_rows("X", X), np.asarray(codes, np.int64)
    check_length("codes", labels, "X", rows)
    count = int(labels.max()) + 1
    check(count > 1, "codes", "of at least two classes", "one class")
    # rows sorted by class: the part of the kernel matrix that a pair needs is four solid blocks
    order = np.argsort(labels, kind="stable")
    bounds, cuts = (
        C * weights_of(weights, len(labels))[order],
        np.searchsorted(labels[order], np.arange(count + 1)),
    )
    blocks = _Blocks(kernel, rows[order], cuts)
    pairs = list(combinations(range(count), 2))
    members = [blocks.members(*pair)[0] for pair in pairs]
    workers = min(len(pairs), os.cpu_count() or 1)

    def solved(pair: tuple[int, int]) -> DualSolution:
        own, signs = blocks.members(*pair)
        low, high = np.where(signs > 0, 0.0, -bounds[own]), np.where(signs > 0, bounds[own], 0.0)
        return solve_dual(
            kernel,
            blocks.rows[own],
            signs,
            low,
            high,
            gram=blocks.table(*pair),
            tol=tol,
            max_steps=max_steps,
            memory=memory / workers,
        )

    with ThreadPoolExecutor(workers) as pool:  # the loops release the interpreter's lock
        found = list(pool.map(solved, pairs))
    machine = _joined(kernel, blocks.rows, order, count, found, members)
    if left_out == 0:
        return machine, None
    chosen = _chosen(len(rows), left_out)
    return machine, (order[chosen], _left_out(machine, blocks, bounds, found, members, chosen))


class _Blocks:
    """Rows sorted by class, and their kernel matrix where it is small enough to keep."""

    def __init__(self, kernel: Kernel, rows: np.ndarray, cuts: np.ndarray):
        self.rows, self.cuts = rows, cuts
        self.gram = kernel_matrix(kernel, rows) if len(rows) <= _SHARED else None

    def slices(self, a: int, b: int) -> tuple[slice, slice]:
        return slice(self.cuts[a], self.cuts[a + 1]), slice(self.cuts[b], self.cuts[b + 1])

    def members(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of two classes, and signs that are positive for the second."""
        first, second = (np.arange(part.start, part.stop) for part in self.slices(a, b))
        return np.concatenate([first, second]), np.repeat([-1.0, 1.0], [len(first), len(second)])

    def table(self, a: int, b: int) -> np.ndarray | None:
        if self.gram is None or len(self.cuts) == 3:
            return self.gram
        (p, q), n = self.slices(a, b), self.cuts[a + 1] - self.cuts[a]
        table = np.empty((n + q.stop - q.start,) * 2)
        table[:n, :n], table[:n, n:], table[n:, n:] = self.gram[p, p], self.gram[p, q], self.gram[q, q]
        table[n:, :n] = self.gram[q, p]
        return table


def _joined(
    kernel: Kernel,
    rows: np.ndarray,
    order: np.ndarray,
    count: int,
    found: list[DualSolution],
    members: list[np.ndarray],
) -> PairwiseMachine:
    coefficients = np.zeros((len(rows), len(found)))
    for column, (solution, own) in enumerate(zip(found, members)):
        coefficients[own, column] = solution.coefficients
    held = np.flatnonzero((coefficients != 0).any(1))
    biases = np.array([-solution.multipliers[0] for solution in found])
    worst = max(found, key=lambda solution: (not solution.status.ok, solution.violation))
    return PairwiseMachine(
        kernel,
        rows[held],
        coefficients[held],
        biases,
        order[held],
        np.array([-solution.objective for solution in found]),
        worst.violation,
        sum(solution.num_steps for solution in found),
        len(rows),
        count,
        worst.code,
    )


def _chosen(num_rows: int, most: int) -> np.ndarray:
    """All rows, or as many as asked for, in an order that does not follow that of the table."""
    if num_rows <= most:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:most])


def _left_out(
    machine: PairwiseMachine,
    blocks: _Blocks,
    bounds: np.ndarray,
    found: list[DualSolution],
    members: list[np.ndarray],
    chosen: np.ndarray,
) -> np.ndarray:
    """Decisions of all pairs for the chosen rows, less what each row itself contributes to its own pairs."""
    coefficients = np.zeros((len(blocks.rows), len(found)))
    for column, (solution, own) in enumerate(zip(found, members)):
        coefficients[own, column] = solution.coefficients
    if blocks.gram is None:
        decisions = machine.decisions(blocks.rows[chosen])
    else:
        held = np.flatnonzero((coefficients != 0).any(1))
        decisions = blocks.gram[np.ix_(chosen, held)] @ coefficients[held] + np.asarray(machine.biases)
    for column, beta in enumerate(coefficients.T):
        free = (beta != 0) & (np.abs(beta) < bounds)
        decisions[:, column] -= leave_one_out_changes(
            machine.kernel, blocks.rows, beta, free, chosen, gram=blocks.gram
        )
    return decisions
