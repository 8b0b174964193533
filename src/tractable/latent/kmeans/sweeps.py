r"""The primitives of Lloyd's iteration in NumPy: rows whose label is open, and their new labels.

Arrays.      `bounds[i] = (u_i - p_j, l_i + q_j)` for the row's own centre $j$, where $p_j$ is how far it went
             in all, $q_j$ how far the others went at most, and $u_i$, $l_i$ the bounds when the row was last
             read: `moves[j] = (p_j, q_j, s_j)`, with $s_j$ half the distance to the next centre. The row is
             closed while $u_i + p_j < l_i - q_j$: no bound is written while a label stands.
Twin.        `latent.kmeans.loops` has the same functions compiled, for much work: the same labels, and sums
             that differ in rounding. The choice depends on the work alone.
Cost.        `gather` reads 20 bytes for a row that is closed; `settle` takes the scores of the others.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.core.assignment import Centres, group_sums, nearest_by_scores

__all__ = ["Primitives", "gather", "primitives", "settle"]

MUCH_WORK = 3e8  # rows times columns times centres that pay for compiling
_ROOM = 1.0 + 8 * float(np.finfo(float).eps)

Primitives = tuple[Callable[..., tuple[int, int]], Callable[..., int]]


def primitives(work: float | int) -> Primitives:
    """`gather` and `settle` for so much work."""
    if work < MUCH_WORK:
        return gather, settle
    from tractable.latent.kmeans import loops  # numba: half a second, then what it compiles

    def compiled_settle(table: Centres, scores: np.ndarray, *rest: Any) -> int:
        if scores.dtype != np.float32:  # sizes that single precision cannot hold
            return settle(table, scores, *rest)
        return loops.settle(scores, table.error, table.reach, table.values, *rest)

    return loops.gather, compiled_settle


def gather(
    X: np.ndarray, origin: np.ndarray, values: np.ndarray, labels: np.ndarray, bounds: np.ndarray,
    moves: np.ndarray, start: int, stop: int, everything: bool, rows: np.ndarray, places: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """From row `start` on, copy open rows into `rows` (from the origin) and their indices into `places`,
    until those are full or `stop` is reached: where it got to, and how many there are."""
    stop = min(stop, start + len(rows))
    near, far = bounds[start:stop].T
    own = labels[start:stop]
    active = np.arange(stop - start)
    if not everything:
        active = np.flatnonzero(near + moves[own, 0] >= far - moves[own, 1])
    own = own[active]
    found = X[start + active] - origin
    if not everything:
        away = found - values[own]
        exact = np.sqrt(np.einsum("nd,nd->n", away, away)) * _ROOM
        open_ = exact > np.maximum(far[active] - moves[own, 1], moves[own, 2])
        bounds[start + active, 0] = exact - moves[own, 0]
        active, found = active[open_], found[open_]
    count = len(active)
    rows[:count], places[:count] = found, start + active
    return stop, count


def settle(
    table: Centres, scores: np.ndarray, rows: np.ndarray, places: np.ndarray, count: int, weights: np.ndarray,
    labels: np.ndarray, bounds: np.ndarray, moves: np.ndarray, everything: bool, sums: np.ndarray,
) -> int:  # fmt: skip
    """New labels and bounds of the gathered rows by their scores; `sums` take the change. How many changed
    (all of them where `everything` is asked: there are no sums yet)."""
    rows, places = rows[:count], places[:count]
    new = nearest_by_scores(rows, scores[:count], table)
    old = labels[places]
    bounds[places, 0] = np.sqrt(new.squared) * _ROOM - moves[new.labels, 0]
    bounds[places, 1] = np.sqrt(new.others) / _ROOM + moves[new.labels, 1]
    labels[places] = new.labels
    moved = np.arange(count) if everything else np.flatnonzero(new.labels != old)
    if len(moved):
        some, shares = rows[moved], weights[places[moved]]
        sums += group_sums(some, new.labels[moved], shares, len(sums))
        if not everything:
            sums -= group_sums(some, old[moved], shares, len(sums))
    return len(moved)
