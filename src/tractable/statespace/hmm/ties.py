r"""Hidden Markov models that share: probabilities of moves tied to each other, states that emit alike.

Ties.        Cells of the rows $(\pi; A)$ with the same number have the same probability; -1 is a cell of its
             own. Rows that share a number share all their tied numbers, each equally often, and what these
             leave is divided by each row for itself. So whole rows are one law, steps of a ladder are alike,
             or only the probability of staying is common.
M-step.      With $N_l$ expected moves in the cells of number $l$, $m_l$ of them in each row, and $N$ in all
             rows of the law: $p_l = N_l/(m_l N)$; the cells $u$ of row $i$ alone share the mass $N_U/N$ of
             all such, $\propto n_{iu}$. It is the exact maximum of $\sum n \log A$ under the ties.
Prior.       Dirichlet exponents $\alpha - 1$ of cells; those of one number are added over one row, and are
             the mean over the rows of the law: what is shared has its prior once. Draws are exact under it.
Emissions.   State $k$ emits as group $g(k)$: the shares of the states of a group are added.
Cost.        $O(K^2)$ beside the untied step.
References.  Young and Woodland (1994); Rabiner (1989) section IV.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, namespace
from tractable.core.module import field
from tractable.statespace.hmm.emissions import Emissions

__all__ = ["SharedEmissions", "Ties", "as_ties", "draw_laws", "equal_cells", "ladder", "maximise_laws",
           "obeys", "prior_counts"]  # fmt: skip

Ties = tuple[tuple[int, ...], ...]
_NEAR = 1e-6  # tied probabilities that differ by less were meant to be the same


class SharedEmissions(Emissions):
    """States that emit alike: state `k` as group `groups[k]` of `shared`. Copies of a state learn together.

    >>> from tractable.statespace.hmm.emissions import Symbols
    >>> SharedEmissions(Symbols([[0.9, 0.1], [0.2, 0.8]]), (0, 0, 1)).num_states
    3
    """

    shared: Emissions
    groups: tuple[int, ...] = field(static=True)

    def __init__(self, shared: Emissions, groups: Any):
        named, count = np.asarray(groups), shared.num_states
        fine = named.ndim == 1 and named.dtype.kind in "iu" and bool(((named >= 0) & (named < count)).all())
        check(fine, "groups", f"one whole number from 0 to {count - 1} per state", groups)
        self.shared, self.groups = shared, tuple(int(g) for g in named)

    @property
    def row_ndim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.shared.row_ndim

    @property
    def num_states(self) -> int:
        return len(self.groups)

    @property
    def table(self) -> Any:
        """The probabilities of symbols, (k, v); None for other emissions."""
        table = getattr(self.shared, "table", None)
        return None if table is None else np.asarray(table)[list(self.groups)]

    def log_prob(self, sequences):
        return namespace(self, sequences).asarray(self.shared.log_prob(sequences))[:, np.array(self.groups)]

    def stats(self, sequences, shares):
        return self.shared.stats(sequences, np.asarray(shares) @ self._members())

    def from_stats(self, stats):
        return SharedEmissions(self.shared.from_stats(stats), self.groups)

    def expected_log_prob(self, stats):
        return self.shared.expected_log_prob(stats)

    def draw(self, generator, states, inputs=None):
        return self.shared.draw(generator, np.array(self.groups)[states], inputs)

    def moments(self):
        mean, variance = self.shared.moments()
        return np.asarray(mean)[list(self.groups)], np.asarray(variance)[list(self.groups)]

    def _members(self) -> np.ndarray:
        return np.eye(self.shared.num_states)[list(self.groups)]


class _Laws(NamedTuple):
    """Numbers of cells, -1 for their own; the law of each row and number; rows of a law; repeats in a row."""

    labels: np.ndarray
    law: np.ndarray
    law_of: np.ndarray
    size: np.ndarray
    repeats: np.ndarray


def ladder(num_states: int, stay: float = 0.8, reach: int = 1) -> np.ndarray:
    """A transition from left to right: stay, or go up to `reach` states on; the last state is not left.

    >>> ladder(3, 0.75).tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    """
    check(0 <= stay < 1, "stay", "at least zero and below one", stay)
    check(num_states >= 1 and reach >= 1, "reach", "one or more, of one state or more", (num_states, reach))
    steps = np.subtract.outer(np.arange(num_states), np.arange(num_states)) * -1
    ahead = (steps > 0) & (steps <= reach)
    count = ahead.sum(1, keepdims=True)
    return np.where(count > 0, (1 - stay) * ahead / np.maximum(count, 1), 0.0) + np.diag(
        np.where(count[:, 0] > 0, stay, 1.0)
    )


def equal_cells(transition: Any) -> np.ndarray:
    """Ties that a matrix shows: cells of equal probability, among rows that hold the same probabilities.

    >>> equal_cells(ladder(3, 0.75)).tolist()
    [[4, 3, 2], [2, 4, 3], [0, 0, 1]]
    """
    cells = np.round(np.asarray(transition, float), 9)
    _, kind = np.unique(np.sort(cells.reshape(-1, cells.shape[-1]), 1), axis=0, return_inverse=True)
    row = np.broadcast_to(kind.reshape(-1, 1), (kind.size, cells.shape[-1]))
    pairs = np.stack([row.ravel(), cells.ravel()], 1)
    _, labels = np.unique(pairs, axis=0, return_inverse=True)
    return np.asarray(labels.reshape(cells.shape))


def as_ties(ties: Any, shape: tuple[int, ...]) -> Ties | None:
    """Numbers of the cells of $(\\pi; A)$ as rows of a tuple, from any of the forms: one number per state
    (rows of equal number are one law), an array like the transition, or one with the initial row first."""
    if ties is None:
        return None
    given, k = np.asarray(ties), shape[-1]
    rows = int(np.prod(shape[:-1]))
    forms = ((k,), tuple(shape), (1 + rows, k))
    fine = given.dtype.kind in "iu" and given.shape in forms
    check(fine, "ties", f"whole numbers of shape {', '.join(map(str, forms))}", f"shape {given.shape}")
    if given.ndim == 1:
        named = np.unique(given, return_inverse=True)[1]
        offset = np.repeat(np.arange(rows // k) * k, k)
        given = (offset + np.tile(named, rows // k))[:, None] * k + np.arange(k)
    if given.shape != (1 + rows, k):
        given = np.concatenate([np.full((1, k), -1), given.reshape(rows, k)])
    made = tuple(tuple(int(cell) for cell in row) for row in given)
    _laws(made)
    return made


def obeys(ties: Ties, initial: Any, transition: Any) -> None:
    """Raise where cells that are tied differ, and name them."""
    laws, cells = _laws(ties), _joined(initial, transition)
    tied, num = laws.labels >= 0, len(laws.law_of)
    most, least = np.full(num, -np.inf), np.full(num, np.inf)
    np.maximum.at(most, laws.labels[tied], cells[tied])
    np.minimum.at(least, laws.labels[tied], cells[tied])
    wrong = np.flatnonzero(most - least > _NEAR)
    if len(wrong):
        here = np.argwhere(laws.labels == wrong[0])
        values = cells[tuple(here.T)]
        (a, i), (b, j) = here[values.argmin()], here[values.argmax()]
        got = f"{values.min():.6g} and {values.max():.6g} in rows {a - 1} and {b - 1}, columns {i} and {j}"
        fix = "Row -1 is `initial`. Start from probabilities that are the same where they are tied."
        check(False, "transition", "the same in cells that `ties` makes one", got, fix)


def maximise_laws(ties: Ties, initial: Any, moves: Any, before: tuple[Any, Any]) -> tuple[Any, Any]:
    """The probabilities of highest expected log-likelihood under the ties; a law never used stays."""
    laws, old = _laws(ties), _joined(*before)
    counts, tied = _joined(initial, moves), laws.labels >= 0
    total, number, own = _sums(laws, counts)
    share = np.bincount(laws.law, own.sum(1), len(laws.size)) / np.where(total > 0, total, 1.0)
    each = number / np.where(total > 0, total, 1.0)[laws.law_of] / laws.repeats
    inside = _split(own, np.where(tied, 0.0, old))
    made = np.where(tied, np.append(each, 0.0)[laws.labels], share[laws.law][:, None] * inside)
    return _parted(np.where((total > 0)[laws.law][:, None], made, old), np.shape(moves))


def prior_counts(ties: Ties, initial: Any, moves: Any) -> tuple[Any, Any]:
    r"""Imaginary counts $\alpha - 1$ of cells such that what is shared has its prior once."""
    laws, counts = _laws(ties), _joined(initial, moves)
    once = np.where(laws.labels >= 0, counts / laws.size[laws.law][:, None], counts)
    return _parted(once, np.shape(moves))


def draw_laws(
    random: np.random.Generator, ties: Ties, counts: tuple[Any, Any], alpha: tuple[Any, Any],
    like: tuple[Any, Any],
) -> tuple[Any, Any]:  # fmt: skip
    """Probabilities drawn from their posterior given counted moves, under the ties; zeros stay zero."""
    laws, possible = _laws(ties), _joined(*like) > 0
    exponents = np.where(possible, _joined(*alpha) - 1, 0.0)
    seen, tied = np.where(possible, _joined(*counts), 0.0), laws.labels >= 0
    _, number, own = _sums(laws, seen)
    _, extra, own_extra = _sums(laws, exponents)
    can = np.bincount(laws.labels[tied], possible[tied], len(laws.law_of)) > 0
    free = np.bincount(laws.law, (possible & ~tied).any(1), len(laws.size)) > 0
    shared = 1 + number + extra / laws.size[laws.law_of]
    left = 1 + np.bincount(laws.law, (own + own_extra).sum(1), len(laws.size))
    alone = np.bincount(laws.law_of[can], minlength=len(laws.size)) == 0
    proper = bool((shared[can] > 0).all() and (left[free & ~alone] > 0).all())
    check(proper, "prior", "of concentrations so large that tied laws are proper", "a law without density")
    mass = np.where(can, random.standard_gamma(np.where(can, shared, 1.0)), 0.0)
    rest = np.where(free, random.standard_gamma(np.where(free & ~alone, left, 1.0)), 0.0)
    whole = rest + np.bincount(laws.law_of, mass, len(laws.size))
    each = mass / whole[laws.law_of] / laws.repeats
    cells = np.where(possible & ~tied, seen + exponents + 1, 1.0)
    gammas = np.where(possible & ~tied, random.standard_gamma(cells), 0.0)
    inside = _split(gammas, gammas)
    made = np.where(tied, np.append(each, 0.0)[laws.labels], (rest / whole)[laws.law][:, None] * inside)
    return _parted(made, np.shape(like[1]))


@lru_cache(maxsize=32)
def _laws(ties: Ties) -> _Laws:
    """What the numbers say, with those of single cells taken away."""
    given = np.array(ties)
    names, where, often = np.unique(given, return_inverse=True, return_counts=True)
    where = where.reshape(given.shape)
    kept = (names >= 0) & (often > 1)
    labels = np.where(kept, np.cumsum(kept) - 1, -1)[where]
    lists = np.sort(labels, 1)
    loose = (lists < 0).all(1)
    keys = np.concatenate([np.where(loose, np.arange(len(lists)), -1)[:, None], lists], 1)
    _, law = np.unique(keys, axis=0, return_inverse=True)
    law = law.reshape(-1)
    rows, columns = np.nonzero(labels >= 0)
    found = np.unique(np.stack([labels[rows, columns], law[rows]]), axis=1)
    must = "such that rows that share a number share all tied numbers, equally often"
    clash = np.flatnonzero(np.diff(found[0]) == 0)
    check(not len(clash), "ties", must, f"number {names[kept][found[0][clash]][:1]} in unlike rows")
    size = np.bincount(law)
    repeats = np.bincount(labels[rows, columns], minlength=int(kept.sum())) // size[found[1]]
    return _Laws(labels, law, found[1], size, repeats)


def _sums(laws: _Laws, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of laws, of numbers, and of the cells that are their own."""
    tied = laws.labels >= 0
    total = np.bincount(laws.law, counts.sum(1), len(laws.size))
    number = np.bincount(laws.labels[tied], counts[tied], len(laws.law_of))
    return total, number, np.where(tied, 0.0, counts)


def _split(counts: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Shares of each row; those of `otherwise` where nothing was counted."""
    some = counts.sum(1, keepdims=True) > 0
    used = np.where(some, counts, otherwise)
    total = used.sum(1, keepdims=True)
    return used / np.where(total > 0, total, 1.0)


def _joined(initial: Any, transition: Any) -> np.ndarray:
    moves = np.asarray(transition, float)
    return np.concatenate([np.asarray(initial, float)[None], moves.reshape(-1, moves.shape[-1])])


def _parted(cells: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return cells[0], cells[1:].reshape(shape)
