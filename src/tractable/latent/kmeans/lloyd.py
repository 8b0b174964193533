r"""Lloyd's iteration in memory: rows go to the nearest centre, centres to the mean of their rows.

Cost.        $J = \sum_i w_i\|x_i - m_{l_i}\|^2$. Neither half-step raises it, and there are finitely many
             partitions (at most $k^n$; those that centres can make are $n^{O(kd)}$): without a tolerance the
             iteration ends at a partition that is its own successor. That is a local minimum, seldom the
             least.
Pruning.     A centre that moves by $\delta$ changes distances by at most $\delta$. Of each row an upper bound
             $u$ on the distance to its own centre and a lower bound $l$ on that to all others are kept, and
             half the distance $s$ from its centre to the next one: while $u \le \max(l, s)$ the label stands,
             unread. The bounds allow for rounding, so that labels are those of the plain iteration.
Trace.       $J = \sum_i w_i\|x_i\|^2 - \sum_j\|\sum_{l_i = j} w_i x_i\|^2/N_j$ after each mean, for nothing;
             sums change with the rows that change their label. At the end both are computed anew.
Empty.       A cluster without rows takes the row that costs most (one at a time, never a copy of another
             centre): the cost falls. Where every row lies on a centre it stays where it is.
Cost.        $O(nkd)$ for the first step, then about $O(n)$ and what the bounds let through.
References.  Lloyd (1982); Hamerly (2010); Inaba, Katoh and Imai (1994) for the number of partitions.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.assignment import Centres, block_rows, group_sums, in_spans, scores_of
from tractable.core.iterate import Status
from tractable.core.progress import progress_bar
from tractable.latent.kmeans.sweeps import primitives

__all__ = ["Path", "lloyd"]

_EPS = float(np.finfo(float).eps)


class Path(NamedTuple):
    """Where an iteration ended, and how: the cost after each step, and how many empty clusters were
    filled."""

    centres: np.ndarray
    labels: np.ndarray
    cost: float
    trace: np.ndarray
    status: Status
    num_filled: int


def lloyd(
    X: np.ndarray, weights: np.ndarray | None, start: np.ndarray, *, max_steps: int, tol: float, progress: Any
) -> Path:
    """Iterate until no label changes, or the centres move by less than `tol` times the mean variance of a
    column (the sum of their squared moves)."""
    state = _State(X, weights, start)
    trace, status, least = [], Status.exhausted, tol * state.mean_variance
    with progress_bar(max_steps, "k-means", progress=progress) as bar:
        for _ in range(max_steps):
            changed = state.assign()
            trace.append(state.update())
            bar.advance(cost=trace[-1], changed=changed)
            if changed == 0 and state.is_exact:
                status = Status.converged
                break
            if changed == 0:
                state.refresh()
            elif tol > 0 and state.moved <= least:
                status = Status.converged
                break
    state.assign()
    trace[-1] = min(trace[-1], cost := state.cost())
    return Path(state.centres, state.labels, cost, np.asarray(trace), status, state.num_filled)


class _State:
    """Labels, bounds, sums and centres, all counted from the mean of the rows."""

    def __init__(self, X: np.ndarray, weights: np.ndarray | None, start: np.ndarray):
        (num_rows, width), k = X.shape, len(start)
        self.X, self.weights = X, np.ones(num_rows) if weights is None else weights
        self.origin, self.scatter = _moments(X, self.weights)
        self.mean_variance = self.scatter / self.weights.sum() / width
        self.values = start - self.origin
        self.labels, self.bounds = np.zeros(num_rows, np.int32), np.zeros((num_rows, 2))
        self.moves, self.sums = np.zeros((k, 3)), np.zeros((k, width + 1))
        self.gather, self.settle = primitives(num_rows * width * k)
        self.is_first, self.is_exact, self.moved, self.num_filled = True, False, np.inf, 0

    @property
    def centres(self) -> np.ndarray:
        return self.values + self.origin

    def assign(self) -> int:
        """Every row to its nearest centre; how many rows changed their label."""
        table = Centres.of(self.values)
        self.moves[:, 2] = _half_separations(self.values)
        found = in_spans(lambda span: self._assign_span(span, table), len(self.X), self.values.size)
        self.sums += np.sum([change for change, _ in found], 0)
        count = sum(changed for _, changed in found)
        self.is_exact = self.is_first or (self.is_exact and count == 0)
        self.is_first = False
        return count

    def _assign_span(self, span: slice, table: Centres) -> tuple[np.ndarray, int]:
        """The change of the sums, and the number of rows that changed."""
        k, width = self.values.shape
        size = min(block_rows(k), span.stop - span.start)
        rows, places = np.empty((size, width)), np.empty(size, np.int64)
        room, change = np.empty((size, k), table.table.dtype), np.zeros_like(self.sums)
        low, changed = span.start, 0
        while low < span.stop:
            low, count = self.gather(
                self.X, self.origin, self.values, self.labels, self.bounds, self.moves, low, span.stop,
                self.is_first, rows, places,
            )  # fmt: skip
            scores_of(rows[:count], table, room[:count])
            changed += self.settle(
                table, room, rows, places, count, self.weights, self.labels, self.bounds, self.moves,
                self.is_first, change,
            )  # fmt: skip
        return change, changed

    def update(self) -> float:
        """Centres to the means; the cost."""
        counts = self.sums[:, -1]
        # after subtractions of weights nothing may be a little more than nothing
        empty = np.bincount(self.labels, minlength=len(counts)) == 0
        if empty.any():
            self._fill(np.flatnonzero(empty))
            counts, empty = self.sums[:, -1], np.bincount(self.labels, minlength=len(counts)) == 0
        safe = np.where(empty, 1.0, counts)[:, None]
        means = np.where(empty[:, None], self.values, self.sums[:, :-1] / safe)
        self._move(means)
        inside = np.einsum("kd,kd->k", self.sums[:, :-1], means)
        return max(self.scatter - float(inside[~empty].sum()), 0.0)

    def _move(self, means: np.ndarray) -> None:
        moves = np.sqrt(np.einsum("kd,kd->k", means - self.values, means - self.values))
        reach = np.abs(means).max(initial=0.0)
        self.moved, self.values = float(moves @ moves), means
        moves = moves * (1 + 8 * _EPS) + 4 * _EPS * reach * np.sqrt(means.shape[1]) * (moves > 0)
        self.moves[:, 0] += moves
        far = int(np.argmax(moves))
        rest = np.delete(moves, far).max(initial=0.0)
        self.moves[:, 1] += np.where(np.arange(len(moves)) == far, rest, moves[far])

    def refresh(self) -> None:
        """Sums from all rows, in place of those that were changed row by row."""
        k = len(self.values)

        def work(span: slice) -> np.ndarray:
            return group_sums(self.X[span] - self.origin, self.labels[span], self.weights[span], k)

        self.sums = np.sum(in_spans(work, len(self.X)), 0)
        self.update()
        self.is_exact = True

    def costs(self) -> np.ndarray:
        """What each row costs with its centre."""
        found = np.empty(len(self.X))

        def work(span: slice) -> None:
            for low in range(span.start, span.stop, 4096):
                part = slice(low, min(low + 4096, span.stop))
                away = self.X[part] - self.origin - self.values[self.labels[part]]
                found[part] = np.einsum("nd,nd->n", away, away)

        in_spans(work, len(self.X))
        return found * self.weights

    def cost(self) -> float:
        return float(self.costs().sum())

    def _fill(self, empty: np.ndarray) -> None:
        """Give each empty cluster the row that costs most; it takes the row's sums with it."""
        costs = self.costs()
        for cluster in empty:
            row = int(costs.argmax())
            if costs[row] <= 0:  # every row lies on a centre: fewer distinct rows than clusters
                return
            away = self.X[row] - self.origin
            term = self.weights[row] * np.append(away, 1.0)
            self.sums[self.labels[row]] -= term
            self.sums[cluster] += term
            self.labels[row], self.bounds[row] = cluster, (np.inf, -np.inf)
            near = np.einsum("nd,nd->n", self.X - self.X[row], self.X - self.X[row])
            costs = np.minimum(costs, near * self.weights)
            self.num_filled += 1


def _half_separations(values: np.ndarray) -> np.ndarray:
    """Half the distance from each centre to the next: nearer rows have no other centre."""
    if len(values) == 1:
        return np.full(1, np.inf)
    found = np.empty(len(values))
    for low in range(0, len(values), 64):
        away = values[low : low + 64, None] - values[None]
        squared = np.einsum("nkd,nkd->nk", away, away)
        squared[np.arange(len(squared)), np.arange(low, low + len(squared))] = np.inf
        found[low : low + 64] = squared.min(1)
    return np.sqrt(found) / 2 * (1 - 8 * _EPS)


def _moments(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean of the rows, and the sum of squared distances from it."""
    shares = weights / weights.sum()
    origin = np.sum(in_spans(lambda span: shares[span] @ X[span], len(X)), 0)

    def squares(span: slice) -> float:
        away = X[span] - origin
        return float(np.einsum("nd,nd->n", away, away) @ weights[span])

    return origin, float(sum(in_spans(squares, len(X))))
