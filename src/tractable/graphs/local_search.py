r"""Structures by local search: add, delete or reverse one edge at a time; climb, or walk on with a tabu list.

Gain.        A move changes one family (a reversal two), so that its gain is a difference of family scores and
             only the columns of changed variables are computed again.
Acyclic.     With $R$ the ways of length one or more: $i \to j$ may be added iff not $R_{ji}$, and reversed
             iff no other way leads from $i$ to $j$, $(A R)_{ij} = 0$.
Tabu.        The best move is taken even where it loses; an edge that was changed rests for some steps, unless
             its move leads to a new best. The search ends when no new best came for a while.
Cost.        $O(n^2)$ cached terms per step and one closure; each step counts $O(n)$ new sets of variables.
References.  Heckerman, Geiger and Chickering (1995); Glover (1989); Scutari, Graafland and Gutierrez (2019).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.iterate import Run, Status
from tractable.core.progress import track
from tractable.core.types import Bool, Float, Key
from tractable.graphs.scores import FamilyScores

__all__ = ["Walk", "climb"]

_TENURE = 10  # steps for which a changed edge rests, or half the number of pairs
_PATIENCE = 25  # steps without a new best after which a walk ends
_SMALLEST_GAIN = 1e-9  # relative; equivalent graphs differ by rounding


class Walk(NamedTuple):
    """Where a search stands: the graph, the best graph so far, and which edges rest until when."""

    graph: Bool[np.ndarray, "n n"]
    value: float
    best: Bool[np.ndarray, "n n"]
    best_value: float
    rests_until: np.ndarray
    step: int
    since: int  # steps since the last new best


def climb(
    scores: FamilyScores,
    allowed: Bool[np.ndarray, "n n"] | None = None,
    needed: Bool[np.ndarray, "n n"] | None = None,
    max_parents: int | None = None,
    *,
    tabu: bool = True,
    num_restarts: int = 0,
    key: Key | None = None,
    max_steps: int = 1000,
) -> Run[Walk]:
    """The run of the best of `1 + num_restarts` searches; `run.state.best[i, j]` is the edge from `i` to `j`.

    The first starts without edges (but those `needed`), the others from random changes of the best so far.
    """
    moves = _Moves(scores, allowed, needed, max_parents)
    num_restarts = check_count("num_restarts", num_restarts, least=0)
    check(
        num_restarts == 0 or key is not None,
        "key",
        "given where there are restarts",
        None,
        "Pass `jr.key(0)`.",
    )
    numbers = generator(0 if key is None else key)
    best = _search(moves, moves.start(), tabu, max_steps)
    for _ in track(range(num_restarts), label="Searching"):
        changed = moves.shaken(np.asarray(best.state.best), numbers)
        run = _search(moves, changed, tabu, max_steps)
        if run.state.best_value > best.state.best_value + _SMALLEST_GAIN * (1 + abs(best.state.best_value)):
            best = run
    return best


def _search(moves: "_Moves", graph: np.ndarray, tabu: bool, max_steps: int) -> Run[Walk]:
    patience = _PATIENCE if tabu else 1

    def step(state: Walk, _: None) -> tuple[Walk, np.ndarray]:
        following = moves.step(jax.tree.map(np.asarray, state), tabu)
        return following, np.asarray(following.value)

    def judge(state: Walk, _: np.ndarray) -> Status | None:
        return Status.converged if state.since >= patience else None

    value = moves.value(graph)
    start = Walk(graph, value, graph, value, np.zeros(graph.shape, int), 0, 0)
    run = run_in_blocks(
        step, start, num_steps=check_count("max_steps", max_steps), judge=judge, compiled=False, partial=False
    )
    status = Status.exhausted if run.status is Status.completed else run.status
    return Run(run.state, run.trace, run.num_steps, jnp.asarray(int(status)))


class _Moves:
    """The legal single changes of a graph and their gains; those of unchanged families are remembered."""

    def __init__(
        self,
        scores: FamilyScores,
        allowed: np.ndarray | None,
        needed: np.ndarray | None,
        max_parents: int | None,
    ):
        n = len(scores.names)
        self.scores = scores
        self.allowed = (np.ones((n, n), bool) if allowed is None else allowed) & ~np.eye(n, dtype=bool)
        self.needed = np.zeros((n, n), bool) if needed is None else needed
        self.most = n if max_parents is None else max_parents
        self._columns: dict[tuple[int, int], np.ndarray] = {}

    def start(self) -> np.ndarray:
        return self.needed.copy()

    def value(self, graph: np.ndarray) -> float:
        masks = _masks(graph)
        return math.fsum(self.scores.of_mask(j, mask) for j, mask in enumerate(masks))

    def step(self, state: Walk, tabu: bool) -> Walk:
        """The best move, or none where it does not lead up or there is none."""
        gains = self._gains(state.graph)
        step, value, best_value = int(state.step) + 1, float(state.value), float(state.best_value)
        margin = _SMALLEST_GAIN * (1 + abs(best_value))
        if tabu:
            resting = state.rests_until > step
            gains = np.where(resting & (value + gains <= best_value + margin), -math.inf, gains)
        kind, i, j = np.unravel_index(int(gains.argmax()), gains.shape)
        gain = float(gains[kind, i, j])
        if gain == -math.inf or (not tabu and gain <= margin):  # all rest, or the summit
            return state._replace(step=step, since=int(state.since) + 1)
        graph, rests = _changed(state.graph, int(kind), int(i), int(j)), state.rests_until.copy()
        rests[i, j] = rests[j, i] = step + 1 + min(_TENURE, len(graph) * (len(graph) - 1) // 4)
        value += gain
        if value > best_value + margin:
            return Walk(graph, value, graph, value, rests, step, 0)
        return Walk(graph, value, state.best, best_value, rests, step, int(state.since) + 1)

    def shaken(self, graph: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
        """The graph after random legal changes, about one per variable."""
        for _ in range(max(2, len(graph))):
            legal = np.argwhere(self._legal(graph))
            if len(legal):
                graph = _changed(graph, *map(int, legal[numbers.integers(len(legal))]))
        return graph

    def _legal(self, graph: np.ndarray) -> Bool[np.ndarray, "3 n n"]:
        """Which edges may be added, deleted, reversed."""
        ways = _ways(graph)
        room = graph.sum(0) < self.most
        free = graph & ~self.needed
        add = ~graph & self.allowed & ~ways.T & ~graph.T & room[None, :]
        other = (graph.astype(int) @ ways.astype(int)) > 0
        return np.stack([add, free, free & self.allowed.T & ~other & room[:, None]])

    def _gains(self, graph: np.ndarray) -> Float[np.ndarray, "3 n n"]:
        toggled = np.stack([self._column(j, mask) for j, mask in enumerate(_masks(graph))], axis=1)
        gains = np.stack([toggled, toggled, toggled + toggled.T])
        return np.where(self._legal(graph), gains, -math.inf)

    def _column(self, child: int, parents: int) -> Float[np.ndarray, " n"]:
        """What the child gains from adding or dropping each variable among its parents."""
        key = (child, parents)
        if key not in self._columns:
            base = self.scores.of_mask(child, parents)
            usable = self.allowed[:, child] | [bool(parents >> i & 1) for i in range(len(self.allowed))]
            full = parents.bit_count() >= self.most
            gains = np.zeros(len(usable))
            for i in np.flatnonzero(usable).tolist():
                if not full or parents >> i & 1:
                    gains[i] = self.scores.of_mask(child, parents ^ (1 << i)) - base
            self._columns[key] = gains
        return self._columns[key]


def _masks(graph: np.ndarray) -> list[int]:
    """The parents of each variable as a bit mask, a Python number of as many bits as there are variables."""
    return [sum(1 << int(i) for i in np.flatnonzero(column)) for column in graph.T]


def _ways(graph: np.ndarray) -> Bool[np.ndarray, "n n"]:
    """Which variables are reached from which, by squaring."""
    ways = graph.copy()
    for _ in range(max(1, len(graph).bit_length())):
        ways = ways | (ways.astype(np.float32) @ ways.astype(np.float32) > 0)
    return ways


def _changed(graph: np.ndarray, kind: int, i: int, j: int) -> np.ndarray:
    """With the edge from `i` to `j` added (0), deleted (1) or reversed (2)."""
    changed = graph.copy()
    changed[i, j] = kind == 0
    if kind == 2:
        changed[j, i] = True
    return changed
