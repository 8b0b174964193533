r"""The order of leaves that brings neighbours together: branches of a tree turned, nothing else changed.

Problem.     Of the $2^{n-1}$ orders of leaves that a tree allows, the least $\sum_i d(l_i, l_{i+1})$.
Recursion.   With $M_v(u, w)$ the least sum of an order of the leaves under $v$ from $u$ to $w$: for
             $v = (a, b)$, $u$ under $a$ and $w$ under $b$, $M_v(u, w) = \min_{m, k} M_a(u, m) + d(m, k) +
             M_b(k, w)$: two products of matrices in which sums are minima and products are sums. The order
             is read off from the root down.
Cost.        $O(n^3)$ time, $O(n^2)$ memory.
References.  Bar-Joseph, Gifford and Jaakkola (2001); Bar-Joseph et al. (2003).
"""

import numpy as np

__all__ = ["turned_merges"]

Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # leaves of both branches, and M between them


def turned_merges(merges: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Merges with their branches in the best order, for a square table of distances between leaves.

    >>> line = np.array([0.0, 1.0, -2.0])
    >>> turned_merges(np.array([[0, 1], [3, 2]]), np.abs(line[:, None] - line)).tolist()
    [[1, 0], [3, 2]]
    """
    count = len(merges) + 1
    blocks: dict[int, Block] = {}
    for step, (left, right) in enumerate(merges.tolist()):
        (one, a), (other, b) = (_whole(node, count, blocks) for node in (left, right))
        through = _least_sums(a, distances[np.ix_(one, other)])
        blocks[count + step] = (one, other, _least_sums(through, b))
    return _read(merges.copy(), distances, blocks) if count > 1 else merges.copy()


def _read(merges: np.ndarray, distances: np.ndarray, blocks: dict[int, Block]) -> np.ndarray:
    """Turn the branches, from the root down, so that each ends where its best order does."""
    count = len(merges) + 1
    one, other, table = blocks[2 * count - 2]
    row, column = np.unravel_index(table.argmin(), table.shape)
    waiting = [(2 * count - 2, int(one[row]), int(other[column]))]
    while waiting:
        node, first, last = waiting.pop()
        if node < count:
            continue
        one, other, _ = blocks[node]
        left, right = merges[node - count].tolist()
        if first not in one:
            one, other, left, right = other, one, right, left
            merges[node - count] = left, right
        (ones, a), (others, b) = (_whole(n, count, blocks) for n in (left, right))
        begin = a[int(np.flatnonzero(ones == first)[0])]
        end = b[:, int(np.flatnonzero(others == last)[0])]
        joints = begin[:, None] + distances[np.ix_(ones, others)] + end
        m, k = np.unravel_index(joints.argmin(), joints.shape)
        waiting += [(left, first, int(ones[m])), (right, int(others[k]), last)]
    return merges


def _whole(node: int, count: int, blocks: dict[int, Block]) -> tuple[np.ndarray, np.ndarray]:
    """The leaves under a node, and M between all of them: no order begins and ends in one branch."""
    if node < count:
        return np.array([node]), np.zeros((1, 1))
    one, other, table = blocks[node]
    p, q = table.shape
    whole = np.full((p + q, p + q), np.inf)
    whole[:p, p:], whole[p:, :p] = table, table.T
    return np.concatenate([one, other]), whole


def _least_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r"""$\min_k a_{ik} + b_{kj}$ for all $i, j$, along the shorter of the outer axes."""
    if len(a) <= b.shape[1]:
        return np.stack([(row[:, None] + b).min(0) for row in a])
    return np.stack([(a + column).min(1) for column in b.T], 1)
