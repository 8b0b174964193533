r"""The passes over the tables of a junction tree: collect, distribute, read off, trace back, draw.

Collect.     $\psi_b = \prod_{f \in b} f \prod_{c} \mu_c$; $\mu_b(s) = \sum_r \psi_b(s, r)$, or the maximum.
Distribute.  $\beta_b(s, r) = \psi_b(s, r)\,P(s) / \mu_b(s)$, $P(s)$ from the parent's $\beta$; $0/0 = 0$.
Range.       Linear tables are exact as long as no product of non-zero numbers underflows: the logs of the
             ratios of the largest to the least non-zero entry of the operands of a bag add up to at most
             `WIDEST`. Messages are brought to maximum one where that bound would be passed on the way; if it
             is passed inside one bag, the pass up is done in log space. After it every number is a
             probability, for which underflow is harmless.
Cost.        A few operations per step of the layout, and a few passes over the cells.
References.  Lauritzen and Spiegelhalter (1988); Jensen, Lauritzen and Olesen (1990).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np

from tractable.messages.junction_layout import Layout, Step
from tractable.messages.junction_links import Link, reduce_blocks, spread, total
from tractable.messages.junction_potentials import Potentials

__all__ = [
    "Tables", "collect", "collect_logs", "collect_maxima", "distribute", "draw",
    "empty_tables", "marginals", "multiply_small", "trace_back",
]  # fmt: skip

WIDEST = 600.0  # exp(-600) = 1e-261 leaves room for the sums; the least normal double is 2e-308
SCALE_FROM = 350.0  # the bound on the range from which messages are measured, and brought to maximum one
TINY = 1e-300  # below every message that is not zero
CHUNK_CELLS = 1 << 20
Rows = Mapping[int, np.ndarray]  # likelihoods, or their logs, by variable


class Tables(NamedTuple):
    """The cells of all bags and the messages of all separators."""

    cells: np.ndarray
    messages: np.ndarray


def empty_tables(layout: Layout) -> Tables:
    """Tables of the sizes that the layout says, to be filled by a pass up."""
    num_cells, num_messages = layout.num_cells
    return Tables(np.empty(num_cells), np.empty(num_messages))


def collect(
    layout: Layout, factors: Potentials, rows: Rows, clamped: Mapping[int, int], tables: Tables
) -> float | None:
    """The pass up in linear numbers: the log of the total, or None where they could not hold it."""
    wide, messages, log_total = _ranges(layout, factors.spread, rows), tables.messages, 0.0
    for step in _products(layout, factors.linear, rows, clamped, tables, np.multiply, factors.base):
        reduce_blocks(step.own, step.starts, tables.cells, np.add, messages[step.own.block])
        widths = [wide[b] for b in step.bags]
        widest = max(widths)
        if widest > WIDEST:
            return None
        if widest > SCALE_FROM or step.grows:
            log_scale, widths = _scale(step, tables)
            log_total += log_scale
        for parent, width in zip(step.parents, widths):
            wide[parent] += width
        if step.is_root:
            log_total += _log_sum(messages[step.own.block])
    return log_total


def collect_logs(
    layout: Layout, factors: Potentials, rows: Rows, clamped: Mapping[int, int], tables: Tables
) -> float:
    """The pass up in log space; tables become probabilities of a bag given its separator, up to factors."""
    cells, log_total, sent = tables.cells, 0.0, np.empty_like(tables.messages)
    for step in _products(layout, factors.logs, rows, clamped, Tables(cells, sent), np.add):
        peaks, mass = sent[step.own.block], tables.messages[step.own.block]
        reduce_blocks(step.own, step.starts, cells, np.maximum, peaks)
        spread(step.own, np.where(peaks > -np.inf, -peaks, 0.0), cells, np.add)
        part = cells[step.own.cells]
        np.exp(part, out=part)
        reduce_blocks(step.own, step.starts, cells, np.add, mass)
        with np.errstate(divide="ignore"):
            peaks += np.log(mass)  # the log of the message
        if step.is_root:
            log_total += float(peaks.sum())
    return log_total


def collect_maxima(
    layout: Layout, factors: Potentials, rows: Rows, clamped: Mapping[int, int], tables: Tables
) -> float:
    """The pass up with maxima of logs: the log of the largest value of all."""
    largest = 0.0
    for step in _products(layout, factors.logs, rows, clamped, tables, np.add):
        peaks = tables.messages[step.own.block]
        reduce_blocks(step.own, step.starts, tables.cells, np.maximum, peaks)
        if step.is_root:
            largest += float(peaks.sum())
    return largest


def distribute(layout: Layout, tables: Tables) -> None:
    """The pass from the roots: tables and messages become the probabilities of bags and separators."""
    for step in reversed(layout.steps):
        first, sent = step.own.block.start, tables.messages[step.own.block]
        above = np.ones(sent.size) if step.is_root else np.zeros(sent.size)
        for link in step.above:
            total(link, tables.cells, above[link.block.start - first : link.block.stop - first])
        np.maximum(sent, TINY, out=sent)  # where the message is zero so is what comes from above
        np.divide(above, sent, out=sent)
        spread(step.own, sent, tables.cells, np.multiply)
        sent[...] = above


def marginals(layout: Layout, tables: Tables) -> np.ndarray:
    """The probabilities of the states of every variable, from the smallest bag or separator that holds it."""
    (from_messages, from_tables), single = layout.homes
    out = np.zeros(int(layout.plan.sizes.sum()))
    for (cells, states), source in ((from_messages, tables.messages), (from_tables, tables.cells)):
        if cells.size:
            out += np.bincount(states, source.take(cells), out.size)
    for _, is_bag, link in single:
        total(link, tables.cells if is_bag else tables.messages, out[link.block])
    return out


def trace_back(layout: Layout, tables: Tables) -> np.ndarray:
    """The states of a maximiser, from the roots down; of equal ones the first block cell is taken."""
    states = np.zeros(layout.sizes.size, np.int64)
    for b in range(len(layout.live) - 1, -1, -1):
        shared, own, table = _split(layout, tables, b)
        row = 0
        for v in shared:
            row = row * int(layout.sizes[v]) + int(states[v])
        shape = [int(layout.sizes[v]) for v in own]
        states[own] = np.unravel_index(int(table[row].argmax()), shape) if own else 0
    return states


def draw(layout: Layout, tables: Tables, uniforms: np.ndarray, out: np.ndarray) -> None:
    """Exact draws from the probabilities of the bags, from the roots down; one row of uniforms per draw."""
    for b in range(len(layout.live) - 1, -1, -1):
        shared, own, table = _split(layout, tables, b)
        if not own:
            continue  # all of its own variables are clamped
        row = np.zeros(out.shape[0], np.int64)
        for v in shared:
            row = row * int(layout.sizes[v]) + out[:, v]
        last = table.shape[1] - 1 - (table[:, ::-1] > 0.0).argmax(axis=1)  # rounding must not pass it
        for low in range(0, row.size, max(1, CHUNK_CELLS // table.shape[1])):
            part = slice(low, low + max(1, CHUNK_CELLS // table.shape[1]))
            sums = table[row[part]].cumsum(axis=1)
            chosen = (sums <= (uniforms[part, b] * sums[:, -1])[:, None]).sum(axis=1)
            places = np.unravel_index(
                np.minimum(chosen, last[row[part]]), [int(layout.sizes[v]) for v in own]
            )
            for v, states in zip(own, places):
                out[part, v] = states


def multiply_small(
    layout: Layout, numbers: np.ndarray, moved: np.ndarray | None, cells: np.ndarray, ufunc: np.ufunc
) -> None:
    """Set each small table to the product (the sum, for logs) of its factors, moved to the clamped states."""
    for r, (places, index, factor) in enumerate(layout.rounds):
        index = index if moved is None else index + moved[factor]
        if r == 0:
            np.take(numbers, index, out=cells[places], mode="clip")  # other modes copy first
        else:
            cells[places] = ufunc(cells[places], numbers[index])


def _products(
    layout: Layout, numbers: np.ndarray, rows: Rows, clamped: Mapping[int, int], tables: Tables,
    ufunc: np.ufunc, base: np.ndarray | None = None,
) -> Iterator[Step]:  # fmt: skip
    """The steps from the leaves up, each with its tables made: factors times likelihoods times messages.

    Large tables are made when their turn comes, and stay in the cache while their message is; `base` is what
    `multiply_small` would find.
    """
    cells, moved = tables.cells, layout.shifts(clamped) if clamped else None
    if base is None:
        multiply_small(layout, numbers, moved, cells, ufunc)
    else:
        cells[...] = base
    rows_of = defaultdict(list)
    for v, row in rows.items():
        rows_of[layout.plan.buckets[v]].append((v, row))
    for step in layout.steps:
        large = step.own.index is None
        for link, block in _operands(layout, step, numbers, moved, tables.messages, ufunc):
            spread(link, block, cells, None if large else ufunc)
            large = False
        if large:  # nothing was there to set it
            cells[step.own.cells] = 1.0 if ufunc is np.multiply else 0.0
        for b in step.bags if rows else ():
            for v, row in rows_of[b]:
                _multiply_row(layout, b, v, row, cells, ufunc)
        yield step


def _operands(
    layout: Layout, step: Step, numbers: np.ndarray, moved: np.ndarray | None, messages: np.ndarray,
    ufunc: np.ufunc,
) -> Iterator[tuple[Link, np.ndarray]]:  # fmt: skip
    """What meets the tables of a step: groups of factors of a large table, and messages from below."""
    for factors, link in step.groups:
        views = [
            np.ndarray(
                shape, np.float64, numbers, 8 * (start + (0 if moved is None else int(moved[f]))), strides
            )
            for f, start, shape, strides in factors
        ]
        yield link, np.ascontiguousarray(reduce(ufunc, views)).reshape(-1)
    for link in step.below:
        yield link, messages[link.block]


def _multiply_row(
    layout: Layout, b: int, v: int, row: np.ndarray, cells: np.ndarray, ufunc: np.ufunc
) -> None:
    """Multiply (add, for logs) a likelihood into the bag that its variable leaves."""
    axes, table = layout.live[b], cells[layout.cells[b]]
    if v in axes:
        after = axes[axes.index(v) + 1 :]
        view = table.reshape(-1, row.size, layout.size(after))
        ufunc(view, row[None, :, None], out=view)
    else:  # one state
        ufunc(table, row[0], out=table)


def _ranges(layout: Layout, spreads: np.ndarray, rows: Rows) -> list[float]:
    """A bound on the logs of the non-zero entries of each bag without its messages; one more for no bag."""
    wide = np.bincount(layout.factor_homes, spreads, len(layout.live) + 1).astype(float).tolist()
    for v, row in rows.items():  # their maximum is one
        wide[layout.plan.buckets[v]] -= math.log(min((x for x in row.tolist() if x > 0.0), default=1.0))
    return wide


def _scale(step: Step, tables: Tables) -> tuple[float, list[float]]:
    """Bring the largest message of each bag to one, tables too: the log of it all, and the ranges left."""
    sent = tables.messages[step.own.block]
    peaks = np.maximum.reduceat(sent, step.bag_starts)
    peaks = np.where(peaks > 0.0, peaks, 1.0)
    lengths = np.diff(np.append(step.bag_starts, sent.size))
    factors = np.repeat(1.0 / peaks, lengths)
    spread(step.own, factors, tables.cells, np.multiply)
    sent *= factors
    least = np.minimum.reduceat(np.where(sent > 0.0, sent, 1.0), step.bag_starts)
    return float(np.log(peaks).sum()), (-np.log(least)).tolist()


def _log_sum(mass: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(mass).sum())


def _split(layout: Layout, tables: Tables, b: int) -> tuple[list[int], list[int], np.ndarray]:
    """The shared and the own variables of a bag, and its table with a row for each state of the shared."""
    shared, live = layout.shared[b], layout.live[b]
    num = layout.messages[b].stop - layout.messages[b].start
    return shared, live[len(shared) :], tables.cells[layout.cells[b]].reshape(num, -1)
