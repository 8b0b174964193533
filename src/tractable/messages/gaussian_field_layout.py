r"""Layouts of sparse Gaussians: which variables are the border, and which form blocks and chains.

Graph.       Two variables are joined if a row of the pattern holds both: then $(J^\top J)_{ij}$ is not zero.
Border.      Candidates: none, all, those with more neighbours than some threshold, all but an independent
             set. What is left falls into connected components.
Blocks.      A small component is one block; of a large one the sets at equal distance from an end of it are
             a chain, since neighbours differ in distance by at most one.
Banks.       Components of like size are padded to one shape. The predicted seconds decide throughout.
Cost.        A few passes over the pattern for each of some ten candidates.
References.  Rue and Held (2005) section 2.4; Cuthill and McKee (1969); George and Liu (1981), level sets.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tractable.messages.gaussian_field_cost import Bank, bank_seconds, border_seconds, round_size

__all__ = ["Layout", "lay_out", "rounded"]

_MOST_PAIRS = 20_000_000  # that are looked at; of wider rows the fullest columns join the border first
_NUM_THRESHOLDS = 10
_MOST_BANKS = 4


class Layout(NamedTuple):
    """Where each variable stands: its bank (-1: the border), block, chain and slot in the block."""

    banks: tuple[Bank, ...]
    border: int  # places, padded
    bank: np.ndarray
    block: np.ndarray
    chain: np.ndarray
    slot: np.ndarray
    seconds: float  # predicted, without the assembly


def lay_out(
    rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int], border: np.ndarray | None = None
) -> Layout:
    """The cheapest layout for a pattern, or that with this border."""
    from scipy import sparse

    pattern = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, cols)), shape=shape)
    forced = _full_columns(pattern) if border is None else np.isin(np.arange(shape[1]), border)
    free = np.flatnonzero(~forced)
    some = pattern[:, free]
    graph = sparse.csr_matrix(some.T @ some)
    graph.setdiag(0)
    graph.eliminate_zeros()
    best: Layout | None = None
    for inside in _candidates(graph) if border is None else [np.arange(len(free))]:
        chosen = free[inside]
        found = _arranged(graph[inside][:, inside] if len(inside) else None, chosen, shape[1], best)
        if found is not None and (best is None or found.seconds < best.seconds):
            best = found
    assert best is not None  # everything in the border is always a layout
    return best


def _full_columns(pattern) -> np.ndarray:
    """The columns that join the border at once, since the pairs in their rows would be too many."""
    forced = np.zeros(pattern.shape[1], bool)
    counts = np.diff(pattern.tocsc().indptr)
    order = np.argsort(-counts, kind="stable")
    taken = 0
    while np.square((pattern[:, ~forced].getnnz(axis=1)).astype(float)).sum() > _MOST_PAIRS:
        taken = max(1, 2 * taken)
        forced[order[:taken]] = True
    return forced


def _candidates(graph) -> list[np.ndarray]:
    """Sets of variables outside the border."""
    size = graph.shape[0]
    degrees = np.diff(graph.indptr)
    found = [np.zeros(0, int), np.arange(size)]
    steps = np.unique(degrees)
    if len(steps) > 1:
        gaps = np.argsort(-(steps[1:] + 1.0) / (steps[:-1] + 1.0), kind="stable")[: _NUM_THRESHOLDS // 2]
        even = np.unique(np.linspace(0, len(steps) - 2, _NUM_THRESHOLDS - len(gaps)).astype(int))
        found += [np.flatnonzero(degrees <= steps[at]) for at in np.union1d(gaps, even)]
    if size and degrees.max(initial=0) > 0:
        found.append(_independent(graph, degrees))
    return found


def _independent(graph, degrees: np.ndarray) -> np.ndarray:
    """Variables of which no two are neighbours, those with few neighbours first."""
    start, others = graph.indptr, graph.indices
    barred = np.zeros(len(degrees), bool)
    taken = []
    for place in np.argsort(degrees, kind="stable").tolist():
        if not barred[place]:
            taken.append(place)
            barred[others[start[place] : start[place + 1]]] = True
    return np.sort(np.array(taken, int))


# --- one candidate -------------------------------------------------------------------------------------


def _arranged(graph, chosen: np.ndarray, dim: int, best: Layout | None) -> Layout | None:
    """The layout with `chosen` outside the border; nothing where its border alone costs more than `best`."""
    border = rounded(dim - len(chosen))
    seconds = border_seconds(border)
    if best is not None and seconds >= best.seconds:
        return None
    bank, block = np.full(dim, -1, np.int32), np.zeros(dim, np.int32)
    chain, slot = np.zeros(dim, np.int32), np.zeros(dim, np.int32)
    outside = np.ones(dim, bool)
    outside[chosen] = False
    slot[outside] = np.arange(dim - len(chosen))
    if not len(chosen):
        return Layout((), border, bank, block, chain, slot, seconds)
    parts = _components(graph)
    lengths, sizes = _shapes(parts, border + 1)
    groups = _grouped(lengths, sizes, border + 1)
    banks = []
    for number, members in enumerate(groups):
        made = Bank(int(lengths[members].max()), len(members), int(sizes[members].max()))
        made = made._replace(count=rounded(made.count, len(groups) > 1))
        seconds += bank_seconds(made, border + 1)
        banks.append(made)
        which = np.full(parts.count, -1)
        which[members] = np.arange(len(members))
        own = np.flatnonzero(which[parts.label] >= 0)
        at = chosen[own]
        bank[at], chain[at] = number, which[parts.label[own]]
        block[at], slot[at] = _blocks(parts, own, lengths, sizes)
    return Layout(tuple(banks), border, bank, block, chain, slot, seconds)


class _Parts(NamedTuple):
    """Connected components: of each variable its component and its distance from an end of it."""

    count: int
    label: np.ndarray
    level: np.ndarray
    size: np.ndarray  # of each component
    depth: np.ndarray  # levels of each component
    width: np.ndarray  # variables in the fullest level


def _components(graph) -> _Parts:
    from scipy.sparse import csgraph

    count, label = csgraph.connected_components(graph, directed=False)
    size = np.bincount(label, minlength=count)
    level = np.zeros(len(label), int)
    if size.max() > 2:
        start = np.unique(label, return_index=True)[1]
        for _ in range(3):  # from anywhere to an end (all that is farthest), back, and through once more
            level = csgraph.dijkstra(graph, False, start, unweighted=True, min_only=True).astype(int)
            farthest = np.zeros(count, int)
            np.maximum.at(farthest, label, level)
            start = np.flatnonzero(level == farthest[label])
    depth = np.zeros(count, int)
    np.maximum.at(depth, label, level + 1)
    inside = np.bincount((np.cumsum(depth) - depth)[label] + level)  # variables of each level
    width = np.maximum.reduceat(inside, np.cumsum(depth) - depth)
    return _Parts(count, label, level, size, depth, width)


def _shapes(parts: _Parts, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """For each component the number and the size of its blocks."""
    kinds, which = np.unique(np.stack([parts.size, parts.depth, parts.width], 1), axis=0, return_inverse=True)
    lengths, sizes = np.ones(len(kinds), int), np.ones(len(kinds), int)
    for place, (size, depth, width) in enumerate(kinds.tolist()):
        merged = [times for times in (1, 2, 4, 8) if times < depth]
        options = [(1, round_size(size)), *((-(-depth // times), times * width) for times in merged)]
        costs = [bank_seconds(Bank(length, 1, k), columns) for length, k in options]
        lengths[place], sizes[place] = options[int(np.argmin(costs))]
    return lengths[which.reshape(-1)], sizes[which.reshape(-1)]


def _blocks(parts: _Parts, own: np.ndarray, lengths: np.ndarray, sizes: np.ndarray) -> tuple:
    """Block and slot of these variables: levels merged by equal numbers, slots in order."""
    label = parts.label[own]
    merged = -(-parts.depth[label] // lengths[label])
    block = parts.level[own] // merged
    order = np.lexsort((own, block, label))
    new = np.r_[True, (np.diff(label[order]) != 0) | (np.diff(block[order]) != 0)]
    first = np.flatnonzero(new)
    slot = np.empty(len(own), int)
    slot[order] = np.arange(len(own)) - first[np.cumsum(new) - 1]
    return block, slot


def _grouped(lengths: np.ndarray, sizes: np.ndarray, columns: int) -> list[np.ndarray]:
    """Components in banks: by like shapes first, then joined while that is no dearer, or banks too many."""
    shapes = np.stack([_round_all(lengths), _round_all(sizes)], 1)
    kinds, which = np.unique(shapes, axis=0, return_inverse=True)
    which = which.reshape(-1)
    groups = [
        (tuple(kind), int(np.sum(which == place)), [place]) for place, kind in enumerate(kinds.tolist())
    ]

    def seconds(group) -> float:
        (length, size), count, _ = group
        return bank_seconds(Bank(length, count, size), columns)

    def joined(a, b):
        return ((max(a[0][0], b[0][0]), max(a[0][1], b[0][1])), a[1] + b[1], a[2] + b[2])

    while len(groups) > 1:
        rises = [seconds(joined(a, b)) - seconds(a) - seconds(b) for a, b in pairwise(groups)]
        at = int(np.argmin(rises))
        if rises[at] > 0 and len(groups) <= _MOST_BANKS:
            break
        groups[at : at + 2] = [joined(groups[at], groups[at + 1])]
    return [np.flatnonzero(np.isin(which, group[2])) for group in groups]


def _round_all(counts: np.ndarray) -> np.ndarray:
    kinds, which = np.unique(counts, return_inverse=True)
    return np.array([round_size(kind) for kind in kinds.tolist()])[which]


def rounded(count: int, wanted: bool = True) -> int:
    """A count with at most an eighth added, so that few shapes arise."""
    if count <= 8 or not wanted:
        return count
    grain = 1 << (count.bit_length() - 4)
    return -(-count // grain) * grain
