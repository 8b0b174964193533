r"""The dynamic programme of exact treewidth over all sets of vertices, on bit masks.

Recursion.   $T(S \cup \{v\}) = \min_v \max(T(S), |Q(S, v)|)$, $T(\emptyset) = 0$.
Cost.        $O(2^n n^2)$ steps, $2^n$ bytes.
References.  Bodlaender, Fomin, Koster, Kratsch and Thilikos (2006), "On exact algorithms for treewidth".
"""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["least_widths"]

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_compiled = numba.njit(nogil=True, cache=True)


@_compiled
@no_type_check
def least_widths(rows):
    """The least width of eliminating each set of vertices first; the last entry is the treewidth."""
    num = rows.size
    best = np.full(1 << num, 127, np.int8)
    best[0] = 0
    for gone in range(1 << num):
        for v in range(num):
            if not gone >> v & 1:
                width = max(best[gone], _reached(rows, gone, v))
                after = gone | 1 << v
                if width < best[after]:
                    best[after] = width
    return best


@_compiled
@no_type_check
def _reached(rows, gone, v):
    """How many vertices outside `gone` the vertex `v` reaches through it."""
    seen = rows[v] | 1 << v
    waiting = rows[v] & gone
    while waiting:
        lowest = waiting & -waiting
        waiting ^= lowest
        u = 0
        while not lowest >> u & 1:
            u += 1
        fresh = rows[u] & ~seen
        seen |= fresh
        waiting |= fresh & gone
    outside, count = seen & ~gone & ~(1 << v), 0
    while outside:
        outside &= outside - 1
        count += 1
    return count
