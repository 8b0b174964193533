r"""The passes over the tables of a small junction tree by NumPy: nothing to compile, a few calls per bag.

Passes.      Those of messages.junction_loops, with the same arguments and the same answers: collect,
             distribute, read off, trace back, draw. An operand is a view of its numbers with the shape of the
             table, with stride 0 along the axes it lacks.
Cost.        About 10 microseconds per bag and factor, then a nanosecond per cell.
References.  Lauritzen and Spiegelhalter (1988); Jensen, Lauritzen and Olesen (1990).
"""

import numpy as np

from tractable.messages.junction_layout import BYTES, Layout, Step

__all__ = ["LINEAR", "LOG", "MAX", "WIDEST", "collect", "distribute", "draw", "marginals", "trace_back"]

LINEAR, LOG, MAX = 0, 1, 2
WIDEST = 600.0  # exp(-600) = 1e-261 leaves room for the sums; the least normal double is 2e-308
Numbers = tuple[np.ndarray, np.ndarray, np.ndarray]


def collect(
    mode: int,
    layout: Layout,
    clamp: np.ndarray,
    potentials: Numbers,
    soft: Numbers,
    tables: np.ndarray,
    messages: np.ndarray,
    scales: np.ndarray,
) -> tuple[float, bool]:
    """The pass towards the roots: the log of the total, and whether linear tables could hold it.

    `potentials` is (numbers, where each factor starts, log-ranges), `soft` the same by variable (-1: none);
    `clamp[v]` is the state of a variable with evidence, or 0. `scales` keeps what messages were divided by.
    """
    message_at, log_total = layout.offsets[1], 0.0
    places = _shifted(layout, clamp, potentials[1]).tolist(), soft[1].tolist(), message_at.tolist()
    spreads = potentials[2].tolist(), soft[2].tolist(), [0.0] * len(layout.steps)
    numbers = potentials[0], soft[0], messages
    for b, (step, table, message) in enumerate(_bags(layout, tables, messages)):
        wide = _combine(mode, step, table, numbers, places, spreads)
        if mode == LINEAR and wide > WIDEST:
            return log_total, False
        _send(mode, table, message)
        scales[b], spreads[2][b], log_scale = _scale(mode, message)
        log_total += log_scale
        if log_total == -np.inf:
            return log_total, True
    if mode == LOG:
        _to_conditionals(layout, tables, messages, scales)
    return log_total, True


def distribute(layout: Layout, tables: np.ndarray, messages: np.ndarray, scales: np.ndarray) -> None:
    """The pass from the roots: tables and messages become the probabilities of bags and separators."""
    bags = list(_bags(layout, tables, messages))
    for b in range(len(bags) - 1, -1, -1):
        step, table, message = bags[b]
        above = np.ones(1) if step.parent < 0 else bags[step.parent][1].sum(axis=step.summed).reshape(-1)
        ratio = np.divide(above, message * scales[b], out=np.zeros(message.size), where=message > 0.0)
        message[...] = above
        table.reshape(message.size, -1)[...] *= ratio[:, None]


def marginals(
    layout: Layout, tables: np.ndarray, messages: np.ndarray, out: np.ndarray, out_at: np.ndarray
) -> None:
    """The probabilities of the states of every variable, from the smallest bag or separator that holds it."""
    bags, sizes, start = list(_bags(layout, tables, messages)), layout.sizes.tolist(), out_at.tolist()
    for v, (home, others) in enumerate(layout.homes):
        if sizes[v] == 1:
            out[start[v]] = 1.0
        elif home >= 0:
            out[start[v] : start[v] + sizes[v]] = bags[home][1].sum(axis=others)
        else:
            step, _, message = bags[-home - 1]
            table = message.reshape(step.shape[: step.num_shared])
            out[start[v] : start[v] + sizes[v]] = table.sum(axis=others)


def trace_back(layout: Layout, tables: np.ndarray) -> np.ndarray:
    """The states of a maximiser, from the roots down; of equal ones the first block cell is taken."""
    states, table_at = np.zeros(layout.sizes.size, np.int64), layout.offsets[0].tolist()
    for b in range(len(layout.steps) - 1, -1, -1):
        step = layout.steps[b]
        table = tables[table_at[b] : table_at[b + 1]].reshape(step.shape)
        given = table[tuple(states[v] for v in step.variables[: step.num_shared])]
        for v, state in zip(step.variables[step.num_shared :], np.unravel_index(given.argmax(), given.shape)):
            states[v] = state
    return states


def draw(layout: Layout, tables: np.ndarray, uniforms: np.ndarray, out: np.ndarray) -> None:
    """Exact draws from the probabilities of the bags, from the roots down; one row of uniforms per draw."""
    table_at = layout.offsets[0].tolist()
    for b in range(len(layout.steps) - 1, -1, -1):
        step = layout.steps[b]
        shared, own = step.variables[: step.num_shared], step.variables[step.num_shared :]
        if not own:
            continue  # all of its own variables are clamped
        given, free = step.shape[: step.num_shared], step.shape[step.num_shared :]
        row = np.zeros(out.shape[0], np.int64)
        for v, size in zip(shared, given):
            row = row * size + out[:, v]
        cells = tables[table_at[b] : table_at[b + 1]].reshape(int(np.prod(given)), -1)
        for v, states in zip(own, np.unravel_index(_chosen(cells, row, uniforms[:, b]), free)):
            out[:, v] = states


def _bags(layout: Layout, tables: np.ndarray, messages: np.ndarray):
    """Each step with its table and its message, as views."""
    table_at, message_at = layout.offsets[0].tolist(), layout.offsets[1].tolist()
    for b, step in enumerate(layout.steps):
        table = tables[table_at[b] : table_at[b + 1]].reshape(step.shape)
        yield step, table, messages[message_at[b] : message_at[b + 1]]


def _shifted(layout: Layout, clamp: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Where the clamped states of each factor start."""
    if not layout.plan.scope_variables.size or not clamp.any():
        return start
    moved = np.append(0, np.cumsum(clamp[layout.plan.scope_variables] * layout.scope_strides))
    return start[:-1] + moved[layout.plan.scope_start[1:]] - moved[layout.plan.scope_start[:-1]]


def _combine(mode: int, step: Step, table: np.ndarray, numbers, places, spreads) -> float:
    """The product of the factors, likelihoods and messages of a bag; the sum of their log-ranges."""
    first, wide = True, 0.0
    for kind, operands in enumerate((step.factors, step.own, step.children)):
        for number, strides in operands:
            at = places[kind][number]
            if at < 0:
                continue  # no likelihood
            view = np.ndarray(step.shape, np.float64, numbers[kind], BYTES * at, strides)
            if first:
                table[...] = view
            elif mode == LINEAR:
                np.multiply(table, view, out=table)
            else:
                np.add(table, view, out=table)
            first, wide = False, wide + spreads[kind][number]
    if first:
        table[...] = 1.0 if mode == LINEAR else 0.0
    return wide


def _send(mode: int, table: np.ndarray, message: np.ndarray) -> None:
    """Sums, maxima or logs of sums of exponentials of contiguous blocks."""
    rows = table.reshape(message.size, -1)
    if mode == LINEAR:
        rows.sum(axis=1, out=message)
        return
    rows.max(axis=1, out=message)
    if mode == LOG:
        sums = np.exp(rows - np.where(message > -np.inf, message, 0.0)[:, None]).sum(axis=1)
        np.add(message, np.log(sums, out=np.zeros(sums.size), where=sums > 0.0), out=message)


def _scale(mode: int, message: np.ndarray) -> tuple[float, float, float]:
    """Bring the largest entry to one (zero in log space): the factor, the log-range that is left, its log."""
    peak = float(message.max())
    if mode != LINEAR:
        if peak > -np.inf:
            message -= peak
        return 1.0, 0.0, peak
    if peak == 0.0:
        return 1.0, 0.0, -np.inf
    message /= peak
    least = float(message.min())
    if least == 0.0:
        least = float(message[message > 0.0].min())
    return peak, -float(np.log(least)), float(np.log(peak))


def _chosen(cells: np.ndarray, row: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """For each draw a column of its row of cells, in proportion to the numbers there."""
    sums = cells.cumsum(axis=1)
    rest, chosen = uniforms * sums[row, -1], np.zeros(row.size, np.int64)
    for r in range(cells.shape[1] - 1):
        chosen += sums[row, r] <= rest
    last = cells.shape[1] - 1 - (cells[:, ::-1] > 0.0).argmax(axis=1)  # rounding must not pass it
    return np.minimum(chosen, last[row])


def _to_conditionals(layout: Layout, tables: np.ndarray, messages: np.ndarray, scales: np.ndarray) -> None:
    """Log tables become conditional probabilities of a bag given its separator, which need no range."""
    for _, table, message in _bags(layout, tables, messages):
        rows = table.reshape(message.size, -1)
        peak = rows.max(axis=1, keepdims=True)
        np.exp(rows - np.where(peak > -np.inf, peak, 0.0), out=rows)
        rows.sum(axis=1, out=message)
    scales[...] = 1.0
