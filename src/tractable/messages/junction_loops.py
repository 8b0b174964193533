r"""The compiled passes over the tables of a junction tree: collect, distribute, read off, trace back, draw.

Layout.      The axes of a bag run from the last variable to be eliminated to the first. Its separator is
             then the block of leading axes, so a message up is a sum over contiguous blocks, and the
             separator of a child is a subsequence of its parent's axes: neighbours merge into long loops.
Collect.     $\psi_b = \prod_{f \in b} f \prod_{c} \mu_c$; $\mu_b(s) = \sum_r \psi_b(s, r)$, maximum one.
Distribute.  $\beta_b(s, r) = \psi_b(s, r)\,P(s) / \mu_b(s)$, $P(s)$ from the parent's $\beta$; $0/0 = 0$.
Range.       Linear tables are exact as long as no product of non-zero numbers underflows: the logs of the
             ratios of the largest to the least non-zero entry of the operands of a bag add up to at most
             `WIDEST`. Else the pass up is done in log space. After it every number is a probability, for
             which underflow is harmless.
Cost.        A few passes over the bags, about a nanosecond per cell each.
References.  Lauritzen and Spiegelhalter (1988); Jensen, Lauritzen and Olesen (1990).
"""

import math
from typing import no_type_check

import numba
import numpy as np

from tractable.messages.junction_arrays import LINEAR, LOG, WIDEST
from tractable.messages.junction_axes import merge_axes, sum_into
from tractable.messages.junction_bags import close, combine, open_separator, walk_space

__all__ = ["collect", "distribute", "draw", "marginals", "trace_back"]

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_compiled = numba.njit(nogil=True, cache=True)
_reassociated = numba.njit(nogil=True, cache=True, fastmath={"reassoc"})


def collect(mode, layout, clamp, potentials, soft, tables, messages, scales):
    """The pass towards the roots: the log of the total, and whether linear tables could hold it.

    `potentials` is (numbers, where each factor starts, log-ranges), `soft` the same by variable (-1: none);
    `clamp[v]` is the state of a variable with evidence, or 0. `scales` keeps what messages were divided by.
    """
    table_at, message_at = layout.offsets
    places = tables, table_at, messages, message_at, scales
    return _collect(mode, layout.plan, layout.sizes, clamp, potentials, soft, *places)


def distribute(layout, tables, messages, scales):
    """The pass from the roots: tables and messages become the probabilities of bags and separators."""
    table_at, message_at = layout.offsets
    _distribute(layout.plan, layout.sizes, tables, table_at, messages, message_at, scales)


def marginals(layout, tables, messages, out, out_at):
    """The probabilities of the states of every variable, from the smallest bag or separator that holds it."""
    table_at, message_at = layout.offsets
    _marginals(layout.plan, layout.sizes, tables, table_at, messages, message_at, out, out_at)


def trace_back(layout, tables):
    """The states of a maximiser, from the roots down; of equal ones the first block cell is taken."""
    return _trace_back(layout.plan, layout.sizes, tables, *layout.offsets)


def draw(layout, tables, uniforms, out):
    """Exact draws from the probabilities of the bags, from the roots down; one row of uniforms per draw."""
    table_at, message_at = layout.offsets
    _draw(layout.plan, layout.sizes, tables, table_at, message_at, uniforms, out)


@_compiled
@no_type_check
def _collect(mode, plan, sizes, clamp, potentials, soft, tables, table_at, messages, message_at, scales):
    num = plan.parent.size
    walk, stride_of = walk_space(plan), np.zeros(sizes.size, np.int64)
    message_spread, log_total = np.zeros(num), 0.0
    for b in range(num):
        table = tables[table_at[b] : table_at[b + 1]]
        message = messages[message_at[b] : message_at[b + 1]]
        sent = (messages, message_at, message_spread)
        wide = combine(mode != LINEAR, plan, b, sizes, clamp, potentials, soft, sent, table, stride_of, walk)
        if mode == LINEAR and wide > WIDEST:
            return log_total, False
        _send(mode, table, message, table.size // message.size)
        scales[b], message_spread[b], log_scale = _scale(mode, message)
        log_total += log_scale
        if log_total == -np.inf:
            return log_total, True
    if mode == LOG:
        _to_conditionals(tables, table_at, messages, message_at, scales)
    return log_total, True


@_compiled
@no_type_check
def _distribute(plan, sizes, tables, table_at, messages, message_at, scales):
    num, widest = plan.parent.size, 1
    for b in range(num):
        widest = max(widest, message_at[b + 1] - message_at[b])
    dims, strides, steps = walk_space(plan)
    stride_of, above = np.zeros(sizes.size, np.int64), np.empty(widest)
    for b in range(num - 1, -1, -1):
        table = tables[table_at[b] : table_at[b + 1]]
        message = messages[message_at[b] : message_at[b + 1]]
        p, start = plan.parent[b], plan.bag_start[b]
        if p < 0:
            above[0] = 1.0
        else:
            above[: message.size] = 0.0
            open_separator(plan, b, sizes, stride_of)
            m = merge_axes(
                plan.bag_variables, plan.bag_start[p], plan.bag_start[p + 1], sizes, stride_of, dims, strides
            )
            close(plan.bag_variables, start, start + plan.separator[b], stride_of)
            sum_into(tables[table_at[p] : table_at[p + 1]], above, np.int64(0), dims, strides, steps, m)
        _rescale(table, message, above, scales[b])


@_compiled
@no_type_check
def _marginals(plan, sizes, tables, table_at, messages, message_at, out, out_at):
    home = _homes(plan, sizes, table_at, message_at)
    dims, strides, steps = walk_space(plan)
    stride_of = np.zeros(sizes.size, np.int64)
    for v in range(sizes.size):
        if sizes[v] == 1:
            out[out_at[v]] = 1.0
            continue
        b = home[v] if home[v] >= 0 else -home[v] - 1
        low, high = plan.bag_start[b], plan.bag_start[b + 1]
        stride_of[v] = 1
        if home[v] >= 0:
            m = merge_axes(plan.bag_variables, low, high, sizes, stride_of, dims, strides)
            sum_into(tables[table_at[b] : table_at[b + 1]], out, out_at[v], dims, strides, steps, m)
        else:
            high = low + plan.separator[b]
            m = merge_axes(plan.bag_variables, low, high, sizes, stride_of, dims, strides)
            sum_into(messages[message_at[b] : message_at[b + 1]], out, out_at[v], dims, strides, steps, m)
        stride_of[v] = 0


@_compiled
@no_type_check
def _trace_back(plan, sizes, tables, table_at, message_at):
    states = np.zeros(sizes.size, np.int64)
    for b in range(plan.parent.size - 1, -1, -1):
        block = (table_at[b + 1] - table_at[b]) // (message_at[b + 1] - message_at[b])
        start = table_at[b] + block * _row(plan, b, sizes, states)
        _set_states(plan, b, sizes, states, int(np.argmax(tables[start : start + block])))
    return states


@_compiled
@no_type_check
def _draw(plan, sizes, tables, table_at, message_at, uniforms, out):
    for n in range(out.shape[0]):
        for b in range(plan.parent.size - 1, -1, -1):
            block = (table_at[b + 1] - table_at[b]) // (message_at[b + 1] - message_at[b])
            start = table_at[b] + block * _row(plan, b, sizes, out[n])
            rest = uniforms[n, b] * tables[start : start + block].sum()
            chosen = -1
            for r in range(block):
                if tables[start + r] > 0.0:
                    chosen = r
                    rest -= tables[start + r]
                    if rest < 0.0:
                        break
            _set_states(plan, b, sizes, out[n], chosen)


@_compiled
@no_type_check
def _homes(plan, sizes, table_at, message_at):
    """The smallest table with each variable: bag `b`, or the separator of bag `b` as `-b - 1`."""
    home, fewest = np.zeros(sizes.size, np.int64), np.full(sizes.size, np.inf)
    for b in range(plan.parent.size):
        low, high = plan.bag_start[b], plan.bag_start[b + 1]
        cells, above = table_at[b + 1] - table_at[b], message_at[b + 1] - message_at[b]
        for k in range(low, high):
            v, shared = plan.bag_variables[k], k < low + plan.separator[b]
            if shared and above < fewest[v]:
                fewest[v], home[v] = above, -b - 1
            elif not shared and cells < fewest[v]:
                fewest[v], home[v] = cells, b
    return home


@_compiled
@no_type_check
def _row(plan, b, sizes, states):
    row = 0
    for k in range(plan.bag_start[b], plan.bag_start[b] + plan.separator[b]):
        v = plan.bag_variables[k]
        row = row * sizes[v] + states[v]
    return row


@_compiled
@no_type_check
def _set_states(plan, b, sizes, states, cell):
    for k in range(plan.bag_start[b + 1] - 1, plan.bag_start[b] + plan.separator[b] - 1, -1):
        v = plan.bag_variables[k]
        states[v] = cell % sizes[v]
        cell //= sizes[v]


@_reassociated
@no_type_check
def _send(mode, table, message, block):
    """Sums, maxima or logs of sums of exponentials of contiguous blocks."""
    for s in range(message.size):
        total, at = (0.0 if mode == LINEAR else -np.inf), s * block
        if mode == LINEAR:
            for r in range(block):
                total += table[at + r]
        else:
            for r in range(block):
                total = max(total, table[at + r])
            if mode == LOG and total > -np.inf:
                peak, total = total, 0.0
                for r in range(block):
                    total += math.exp(table[at + r] - peak)
                total = peak + math.log(total)
        message[s] = total


@_compiled
@no_type_check
def _scale(mode, message):
    """Bring the largest entry to one (zero in log space): the factor, the log-range that is left, its log."""
    peak, least = -np.inf, np.inf
    for s in range(message.size):  # the library's maximum takes a second to compile
        peak = max(peak, message[s])
    if mode != LINEAR:
        if peak > -np.inf:
            for s in range(message.size):
                message[s] -= peak
        return 1.0, 0.0, peak
    if peak == 0.0:
        return 1.0, 0.0, -np.inf
    for s in range(message.size):
        message[s] /= peak
        if 0.0 < message[s] < least:
            least = message[s]
    return peak, -math.log(least), math.log(peak)


@_compiled
@no_type_check
def _to_conditionals(tables, table_at, messages, message_at, scales):
    """Log tables become conditional probabilities of a bag given its separator, which need no range."""
    for b in range(scales.size):
        block = (table_at[b + 1] - table_at[b]) // (message_at[b + 1] - message_at[b])
        for s in range(message_at[b], message_at[b + 1]):
            start = table_at[b] + (s - message_at[b]) * block
            peak, total = -np.inf, 0.0
            for cell in range(start, start + block):
                peak = max(peak, tables[cell])
            for cell in range(start, start + block):
                tables[cell] = math.exp(tables[cell] - peak) if peak > -np.inf else 0.0
                total += tables[cell]
            messages[s] = total
        scales[b] = 1.0


@_compiled
@no_type_check
def _rescale(table, message, above, scale):
    block = table.size // message.size
    for s in range(message.size):
        ratio = above[s] / (message[s] * scale) if message[s] > 0.0 else 0.0
        message[s] = above[s]
        for cell in range(s * block, (s + 1) * block):
            table[cell] *= ratio
