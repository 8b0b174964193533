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

from collections.abc import Mapping
from functools import reduce

import numpy as np

from tractable.messages.junction_layout import Layout, Step
from tractable.messages.junction_links import reduce_blocks, spread, total
from tractable.messages.junction_potentials import Potentials

__all__ = [
    "Tables", "collect", "collect_logs", "collect_maxima", "distribute", "draw", "marginals",
    "multiply_factors", "trace_back",
]  # fmt: skip

WIDEST = 600.0  # exp(-600) = 1e-261 leaves room for the sums; the least normal double is 2e-308
SCALE_FROM = 350.0  # the bound on the range from which messages are measured, and brought to maximum one
CHUNK_CELLS = 1 << 20
Rows = Mapping[int, np.ndarray]  # likelihoods, or their logs, by variable


class Tables:
    """The cells of all bags and the messages of all separators."""

    def __init__(self, layout: Layout):
        num_cells, num_messages = layout.num_cells
        self.cells, self.messages = np.empty(num_cells), np.empty(num_messages)


def collect(
    layout: Layout, factors: Potentials, rows: Rows, clamped: Mapping[int, int], tables: Tables
) -> float | None:
    """The pass up in linear numbers: the log of the total, or None where they could not hold it."""
    wide = _ranges(layout, factors.spread, rows)
    if factors.base is not None and not clamped:
        tables.cells[...] = factors.base
    else:
        multiply_factors(layout, factors.linear, clamped, tables.cells, np.multiply)
    _multiply_rows(layout, rows, tables.cells, np.multiply)
    cells, messages, log_total = tables.cells, tables.messages, 0.0
    for step in layout.steps:
        for link in step.below:
            spread(link, messages[link.block], cells, np.multiply)
        messages[step.own.block] = reduce_blocks(step.own, step.starts, cells, np.add)
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
    multiply_factors(layout, factors.logs, clamped, tables.cells, np.add)
    _multiply_rows(layout, rows, tables.cells, np.add)
    cells, log_total, sent = tables.cells, 0.0, np.empty_like(tables.messages)
    for step in layout.steps:
        for link in step.below:
            spread(link, sent[link.block], cells, np.add)
        peaks = reduce_blocks(step.own, step.starts, cells, np.maximum)
        spread(step.own, np.where(peaks > -np.inf, -peaks, 0.0), cells, np.add)
        part = cells[step.own.cells]
        np.exp(part, out=part)
        mass = reduce_blocks(step.own, step.starts, cells, np.add)
        tables.messages[step.own.block] = mass
        with np.errstate(divide="ignore"):
            logs_of = np.where(mass > 0.0, peaks + np.log(mass), -np.inf)
        sent[step.own.block] = logs_of
        if step.is_root:
            log_total += float(logs_of.sum())
    return log_total


def collect_maxima(
    layout: Layout, factors: Potentials, rows: Rows, clamped: Mapping[int, int], tables: Tables
) -> float:
    """The pass up with maxima of logs: the log of the largest value of all."""
    multiply_factors(layout, factors.logs, clamped, tables.cells, np.add)
    _multiply_rows(layout, rows, tables.cells, np.add)
    largest = 0.0
    for step in layout.steps:
        for link in step.below:
            spread(link, tables.messages[link.block], tables.cells, np.add)
        peaks = reduce_blocks(step.own, step.starts, tables.cells, np.maximum)
        tables.messages[step.own.block] = peaks
        if step.is_root:
            largest += float(peaks.sum())
    return largest


def distribute(layout: Layout, tables: Tables) -> None:
    """The pass from the roots: tables and messages become the probabilities of bags and separators."""
    for step in reversed(layout.steps):
        sent = tables.messages[step.own.block]
        above = np.ones(sent.size) if step.is_root else np.zeros(sent.size)
        for link in step.above:
            at = slice(link.block.start - step.own.block.start, link.block.stop - step.own.block.start)
            above[at] += total(link, tables.cells)
        ratio = np.divide(above, sent, out=np.zeros(sent.size), where=sent > 0.0)
        spread(step.own, ratio, tables.cells, np.multiply)
        sent[...] = above


def marginals(layout: Layout, tables: Tables) -> np.ndarray:
    """The probabilities of the states of every variable, from the smallest bag or separator that holds it."""
    (from_messages, from_tables), single = layout.homes
    out = np.zeros(int(layout.plan.sizes.sum()))
    for (cells, states), source in ((from_messages, tables.messages), (from_tables, tables.cells)):
        if cells.size:
            out += np.bincount(states, source.take(cells), out.size)
    for _, is_bag, link in single:
        out[link.block] = total(link, tables.cells if is_bag else tables.messages)
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


def multiply_factors(
    layout: Layout, numbers: np.ndarray, clamped: Mapping[int, int], cells: np.ndarray, ufunc: np.ufunc
) -> None:
    """Set every table to the product (the sum, for logs) of its factors at the clamped states."""
    moved, starts = _shifts(layout, clamped), layout.factor_starts
    for r, (places, index, factor) in enumerate(layout.rounds):
        index = index + np.array(moved)[factor] if clamped else index
        if r == 0:
            np.take(numbers, index, out=cells[places], mode="clip")  # other modes copy first
        else:
            cells[places] = ufunc(cells[places], numbers[index])
    neutral = 1.0 if ufunc is np.multiply else 0.0
    for place, groups in layout.groups:
        if not groups:
            cells[place] = neutral
        for k, (factors, link) in enumerate(groups):
            views = [
                np.ndarray(shape, np.float64, numbers, 8 * (starts[f] + moved[f]), strides)
                for f, shape, strides in factors
            ]
            product = np.ascontiguousarray(reduce(ufunc, views)).reshape(-1)
            spread(link, product, cells, ufunc if k else None)


def _multiply_rows(layout: Layout, rows: Rows, cells: np.ndarray, ufunc: np.ufunc) -> None:
    """Multiply (add, for logs) each likelihood into the bag that its variable leaves."""
    for v, row in rows.items():
        b = layout.plan.buckets[v]
        axes = layout.live[b]
        if v in axes:  # else it has one state, and the constant is counted elsewhere
            after = axes[axes.index(v) + 1 :]
            view = cells[layout.cells[b]].reshape(-1, row.size, int(np.prod(layout.sizes[after])))
            ufunc(view, row[None, :, None], out=view)
        else:
            ufunc(cells[layout.cells[b]], row[0], out=cells[layout.cells[b]])


def _shifts(layout: Layout, clamped: Mapping[int, int]) -> list[int]:
    """How far the clamped states move each factor; nothing past the last."""
    if not clamped:
        return [0] * (len(layout.scope_strides) + 1)
    moved = [sum(stride * clamped.get(v, 0) for v, stride in each.items()) for each in layout.scope_strides]
    return [*moved, 0]


def _ranges(layout: Layout, spreads: np.ndarray, rows: Rows) -> list[float]:
    """A bound on the logs of the non-zero entries of each bag without its messages; one more for no bag."""
    wide = (
        np.zeros(len(layout.live) + 1) + np.bincount(layout.factor_homes, spreads, len(layout.live) + 1)
    ).tolist()
    for v, row in rows.items():
        live = row[row > 0.0]
        if live.size:
            wide[layout.plan.buckets[v]] += float(np.log(live.max()) - np.log(live.min()))
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
