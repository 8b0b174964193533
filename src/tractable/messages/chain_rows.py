r"""Many chains of different lengths at once, on the host: their rows lie one after the other.

Model.       Chain $s$ has the rows from `starts[s]` to `starts[s + 1]`: $p(x) \propto \pi(x_1)\prod_t
             \phi_t(x_t) \prod_t A_{u_t}(x_{t-1}, x_t)$, with one step matrix for all rows or the matrix
             `which[t]` of several into row $t$.
Loops.       Scaled recursions (`chain_loops`) that know what they lost. A chain whose digits small numbers
             would take goes through log space (`chain.forward_backward`), padded to a bucket of lengths.
Sums.        $\sum_t p(x_{t-1} = i, x_t = j)$ in the loop that joins the messages of both sides.
Cost.        $O(nK^2)$ and memory for four numbers per row and state.
References.  Rabiner (1989).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from tractable.core.chunks import bucket_size
from tractable.core.interrupts import heard, in_threads
from tractable.messages import chain_loops as loops
from tractable.messages.chain import Chain, forward_backward
from tractable.messages.chain_paths import sample_paths

__all__ = [
    "ChainRows", "Room", "RowBeliefs", "best_rows", "chain_of", "filter_rows", "log_messages", "pair_rows",
    "passes", "sample_rows", "smooth_rows", "total_rows",
]  # fmt: skip

_LONG = 20_000_000  # products that take a tenth of a second
_SIDES = 2_000_000  # products from which on both sides go at once
_NARROW = 16


class ChainRows(NamedTuple):
    """Log-potentials `logs` (n, k) of rows, `steps` (m, k, k) and `initial` (k,) as they are, not in
    logarithms; `which` (n,) chooses the step matrix into each row, and is empty where there is one."""

    logs: np.ndarray
    steps: np.ndarray
    initial: np.ndarray
    starts: np.ndarray
    which: np.ndarray = np.zeros(0, np.int64)

    @property
    def work(self) -> int:
        """Products along all chains."""
        return self.logs.shape[0] * self.logs.shape[1] ** 2

    @property
    def last(self) -> np.ndarray:
        """The last row of each chain."""
        return self.starts[1:] - 1


class RowBeliefs(NamedTuple):
    """What is believed of each row (n, k), the log-total of each chain, and where a chain becomes impossible
    (-1: nowhere; its beliefs are NaN and its log-total is -inf). `counts` sums the beliefs of pairs, for each
    step matrix."""

    beliefs: np.ndarray
    log_totals: np.ndarray
    impossible: np.ndarray
    counts: np.ndarray | None = None


class Room:
    """Memory that one fit uses at every step: new pages cost more than the recursions of a few states.

    A block is lent to one pass at a time; a second thread gets a block of its own.
    """

    def __init__(self) -> None:
        self._spare: list[np.ndarray] = []

    def __reduce__(self) -> tuple:
        return Room, ()  # what is sent elsewhere finds its own

    @contextmanager
    def lent(self, rows: ChainRows) -> Iterator[np.ndarray]:
        """Numbers enough for the messages of these rows."""
        n, k = rows.logs.shape
        size = n * (3 * k + 4)
        block = self._spare.pop() if self._spare else np.empty(size)
        block = block if block.size >= size else np.empty(size)
        yield block
        self._spare[:] = [block]


class Passes(NamedTuple):
    """Messages of one or both sides, with the potentials of rows scaled to one at most."""

    shares: np.ndarray
    tops: np.ndarray
    arrived: np.ndarray
    scales: np.ndarray
    beta: np.ndarray
    ended: np.ndarray


def passes(rows: ChainRows, both: bool = True, block: np.ndarray | None = None) -> Passes:
    """The recursions; `ended` is -1 for chains that they could carry to the end (see `chain_loops`). A
    `block` that is lent holds what is returned."""
    n, k = rows.logs.shape
    size = n * (3 * k + 4)
    block = np.empty(size) if block is None else block[:size]
    shares, arrived, beta = block[: 3 * n * k].reshape(3, n, k)
    tops, scales, *errors = block[3 * n * k :].reshape(4, n)
    if not loops.pays(rows.work):  # whole columns, where nothing is compiled
        tops = _tops(rows.logs)
        _each(np.subtract, rows.logs, np.where(tops > -np.inf, tops, 0.0), shares)
    else:
        loops.loop(loops.lift, rows.work)(rows.logs, tops, shares)
    np.exp(shares, out=shares)
    ended, behind = (np.full(len(rows.starts) - 1, -1) for _ in range(2))
    steps = np.ascontiguousarray(rows.steps, float)
    turned = np.ascontiguousarray(steps.swapaxes(1, 2))
    one = (shares, rows.logs, steps, rows.which, rows.initial, rows.starts, arrived, scales, errors[0], ended)
    other = (shares, rows.logs, turned, rows.which, rows.starts, beta, errors[1], behind)
    tasks: list[Any] = [(loops.loop(loops.forward, rows.work), one)]
    if both:
        tasks.append((loops.loop(loops.backward, rows.work), other))
    if rows.work < _SIDES:
        for function, arguments in tasks:
            function(*arguments)
    else:
        run = heard if rows.work >= _LONG else lambda function, *arguments: function(*arguments)
        list(in_threads(lambda task: run(task[0], *task[1]), tasks))
    if both:
        _doubt(rows, arrived, shares, scales, beta, errors, ended)
        ended = np.where((ended == -1) & (behind == -2), -2, ended)
    return Passes(shares, tops, arrived, scales, beta, ended)


def filter_rows(rows: ChainRows) -> RowBeliefs:
    """Beliefs of each row from the rows up to it, and the totals.

    >>> rows = ChainRows(np.log([[0.9, 0.2], [0.9, 0.2]]), np.array([[[0.7, 0.3], [0.3, 0.7]]]),
    ...                  np.full(2, 0.5), np.array([0, 2]))
    >>> found = filter_rows(rows)
    >>> found.beliefs.round(6).tolist(), np.exp(found.log_totals).round(6).tolist()
    ([[0.818182, 0.181818], [0.883357, 0.116643]], [0.3515])
    """
    done = passes(rows, both=False)
    beliefs = _normalised(done.arrived * done.shares)
    return _finished(rows, done, beliefs, None, "filtered")


def total_rows(rows: ChainRows) -> np.ndarray:
    """The log-total of each chain; -inf for one that is impossible."""
    done = passes(rows, both=False)
    return _finished(rows, done, done.arrived, None, "filtered").log_totals


def smooth_rows(
    rows: ChainRows, weights: np.ndarray | None = None, block: np.ndarray | None = None
) -> RowBeliefs:
    """Beliefs of each row from its whole chain, the totals, and the sums of beliefs of pairs.

    With `weights`, one per chain, the pairs of a chain count so often. A `block` that a `Room` lends holds
    the beliefs.
    """
    done = passes(rows, block=block)
    share = np.ones(len(rows.starts) - 1) if weights is None else np.asarray(weights, float)
    counts = np.zeros(rows.steps.shape)
    whole = np.where(done.ended == -1, share, 0.0)
    run = loops.loop(loops.join, rows.work)
    _long(
        rows, run, done.arrived, done.shares, done.beta, done.scales, rows.which, rows.starts, whole, counts
    )
    return _finished(rows, done, done.beta, rows.steps * counts, "marginals", share)


def pair_rows(rows: ChainRows) -> np.ndarray:
    """The belief of each row and the one before it, (n, k, k); zero for the first of a chain."""
    n, k = rows.logs.shape
    which = rows.which if rows.which.size else np.zeros(n, np.int64)
    each = ChainRows(rows.logs, rows.steps[which], rows.initial, rows.starts, np.arange(n))
    counts = smooth_rows(each).counts
    assert counts is not None
    return counts.reshape(n, k, k)


def best_rows(rows: ChainRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best path of each chain (n,), its log-value, and where the chain becomes impossible."""
    n, k = rows.logs.shape
    with np.errstate(divide="ignore"):
        steps, initial = np.log(rows.steps), np.log(rows.initial)
    turned = np.ascontiguousarray(steps.swapaxes(1, 2))
    pointers, paths = np.zeros((n, k), np.int16 if k < 2**15 else np.int64), np.zeros(n, np.int64)
    scales, ended = np.zeros(n), np.full(len(rows.starts) - 1, -1)
    run = loops.loop(loops.best, rows.work)
    _long(rows, run, rows.logs, turned, rows.which, initial, rows.starts, pointers, paths, scales, ended)
    return paths, np.where(ended == -1, _sum_each(scales, rows.starts), -np.inf), ended


def sample_rows(rows: ChainRows, generator: np.random.Generator, num_paths: int = 1) -> np.ndarray:
    """Independent exact paths (num_paths, n); -1 along a chain that is impossible."""
    done = passes(rows, both=False)
    paths = np.zeros((num_paths, len(rows.logs)), np.int64)
    run = loops.loop(loops.draw, len(rows.logs) * rows.logs.shape[1] * num_paths)
    filtered = _normalised(done.arrived * done.shares)
    steps = np.ascontiguousarray(rows.steps, float)
    for path in paths:
        _long(rows, run, filtered, steps, rows.which, rows.starts, generator.random(len(path)), path)
    for s in np.flatnonzero(done.ended != -1):
        part = slice(rows.starts[s], rows.starts[s + 1])
        paths[:, part] = -1
        if done.ended[s] == -2:
            key = jr.key(int(generator.integers(2**63)))
            drawn = sample_paths(chain_of(rows, s, pad=True), key, num_paths)
            paths[:, part] = np.asarray(drawn)[:, : part.stop - part.start]
    return paths


def chain_of(rows: ChainRows, s: int | np.integer, pad: bool = False) -> Chain:
    """One of the chains in log-potentials; with `pad`, in a length that many share."""
    first, stop = int(rows.starts[s]), int(rows.starts[s + 1])
    nodes = rows.logs[first:stop].copy()
    with np.errstate(divide="ignore"):
        nodes[0] += np.log(rows.initial)
        pairs = np.log(rows.steps[rows.which[first + 1 : stop]] if rows.which.size else rows.steps[0])
    size = bucket_size(stop - first) if pad else stop - first
    extra = size - (stop - first)
    nodes = np.concatenate([nodes, np.zeros((extra, nodes.shape[1]))])
    if pairs.ndim == 3 and extra:
        pairs = np.concatenate([pairs, np.zeros((extra, *pairs.shape[1:]))])
    return Chain(nodes, pairs, length=stop - first if pad else None)


def log_messages(chain: Chain) -> tuple[np.ndarray, ...] | None:
    """Messages of both sides in logarithms with their scales, as `ChainBeliefs` holds them; None where the
    loop would lose digits, or no path is possible."""
    size = chain.log_nodes.shape[0]
    n = size if chain.length is None else int(chain.length)
    logs, pairs = np.asarray(chain.log_nodes, float)[:n], np.asarray(chain.log_pairs, float)
    heights = np.where(pairs.max((-1, -2)) > -np.inf, pairs.max((-1, -2)), 0.0)
    steps = np.exp(pairs - heights[..., None, None]).reshape((-1, *pairs.shape[-2:]))
    which = np.arange(-1, n - 1) if pairs.ndim == 3 else np.zeros(0, np.int64)
    which = np.maximum(which, 0)
    done = passes(ChainRows(logs, steps, np.ones(logs.shape[1]), np.array([0, n]), which))
    if done.ended[0] != -1:
        return None
    tops = np.where(done.tops > -np.inf, done.tops, 0.0)
    taken = np.broadcast_to(heights, (n - 1,)) if pairs.ndim == 2 else heights[: n - 1]
    left = np.concatenate([[0.0], np.cumsum(np.log(done.scales[:-1]) + tops[:-1] + taken)])
    with np.errstate(divide="ignore"):
        forward, backward = np.log(done.arrived), np.log(done.beta)
    total = left[-1] + np.log(done.scales[-1]) + tops[-1]
    both = np.log((done.arrived * done.shares * done.beta).sum(1)) + tops
    right = total - left - both
    ends = (forward[-1] + logs[-1], backward[-1], left[-1], right[-1])  # into padding the state stays
    parts = zip((forward, backward, left, right), ends)
    return tuple(np.concatenate([part, np.repeat([end], size - n, 0)]) for part, end in parts)


def _doubt(rows, arrived, shares, scales, beta, errors, ended) -> None:
    """Give up chains where the product of both sides is as small as what either may have lost."""
    if errors[0].any() or errors[1].any():
        at = np.flatnonzero((errors[0] > 0) | (errors[1] > 0))
        norm = (arrived[at] * shares[at] * beta[at]).sum(1) / np.where(scales[at] > 0, scales[at], 1.0)
        lost = at[errors[0][at] + errors[1][at] > loops.LOST * norm]
        chains = np.searchsorted(rows.starts, lost, side="right") - 1
        ended[chains] = np.where(ended[chains] == -1, -2, ended[chains])


def _finished(rows: ChainRows, done: Passes, beliefs: np.ndarray, counts: Any, kind: str,
              weights: np.ndarray | None = None) -> RowBeliefs:  # fmt: skip
    """The answer, with chains that the loops gave up done in log space."""
    with np.errstate(divide="ignore"):
        totals = _sum_each(np.log(done.scales) + done.tops, rows.starts)
    impossible = np.where(done.ended >= 0, done.ended, -1)
    for s in np.flatnonzero(done.ended == -2):
        found = forward_backward(chain_of(rows, s, pad=True), method="scan")
        first, stop = int(rows.starts[s]), int(rows.starts[s + 1])
        totals[s] = float(found.log_total)
        impossible[s] = -1 if totals[s] > -np.inf else _first_impossible(np.asarray(found.filtered))
        beliefs[first:stop] = np.asarray(getattr(found, kind))[: stop - first]
        if counts is not None and weights is not None and weights[s] > 0 and totals[s] > -np.inf:
            pairs = weights[s] * np.asarray(found.pair_marginals)[: stop - first - 1]
            which = rows.which[first + 1 : stop] if rows.which.size else np.zeros(len(pairs), np.int64)
            np.add.at(counts, which, pairs)
    for s in np.flatnonzero(impossible >= 0):
        totals[s] = -np.inf
        cut = int(impossible[s]) if kind == "filtered" else 0
        beliefs[rows.starts[s] + cut : rows.starts[s + 1]] = np.nan
    return RowBeliefs(beliefs, totals, impossible, counts)


def _first_impossible(filtered: np.ndarray) -> int:
    return int(np.isnan(filtered).any(1).argmax())


def _normalised(values: np.ndarray) -> np.ndarray:
    return _each(np.multiply, values, _inverse(_row_sums(values)), values)


def _each(function: Any, values: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> np.ndarray:
    """`function` of the entries of each row and the row's number; of few entries column by column."""
    if values.shape[1] > _NARROW:
        return function(values, numbers[:, None], out=out)
    for j in range(values.shape[1]):
        function(values[:, j], numbers, out=out[:, j])
    return out


def _inverse(values: np.ndarray) -> np.ndarray:
    """One over each value; zero for zero."""
    return np.divide(1.0, values, out=np.zeros(len(values)), where=values > 0)


def _row_sums(values: np.ndarray) -> np.ndarray:
    """Sums along rows of a few entries, column by column: many times faster than along them."""
    if values.shape[1] > _NARROW:
        return values.sum(1)
    total = values[:, 0].copy()
    for j in range(1, values.shape[1]):
        total += values[:, j]
    return total


def _tops(values: np.ndarray) -> np.ndarray:
    if values.shape[1] > _NARROW:
        return values.max(1)
    top = values[:, 0].copy()
    for j in range(1, values.shape[1]):
        np.maximum(top, values[:, j], out=top)
    return top


def _sum_each(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum over each chain; that of long ones in halves of halves, which keeps the digits."""
    if len(starts) - 1 < 64:
        return np.array([values[a:b].sum() for a, b in pairwise(starts)])
    return np.add.reduceat(values, starts[:-1])


def _long(rows: ChainRows, function: Any, *arguments: Any) -> None:
    """A loop that hears Ctrl-C where it may take long."""
    if rows.work < _LONG:
        function(*arguments)
    else:
        heard(function, *arguments)
