r"""Growing a tree and walking it: the sequential loops behind trees, forests and boosting.

Growth.      Nodes wait on a stack (the left child first) or, with a limit on leaves, in order of gain. A
             node's rows are a range of one index array, which a split partitions stably.
Nodes.       Children are made in pairs, so the right child is the left one plus one; a leaf has feature -1.
Walking.     A row goes left if $x_j \le t$; a missing entry goes where the node says.
Cost.        $O(d\,n)$ for each level, and $O(\text{depth})$ for each row that is walked.
References.  Breiman et al. (1984) chapters 3 and 8.
"""

from typing import Any, no_type_check

import numba
import numpy as np

from tractable.supervised.trees.arrays import VARIANCE
from tractable.supervised.trees.split_loops import best_split, impurity_of, workspace

__all__ = ["add_leaf_values", "grow", "leaves_of", "weakest_links"]

_compiled = numba.njit(nogil=True, cache=True)
# called from compiled code alone: nothing to call them from Python is made
_inner: Any = numba.njit(  # pyright: ignore[reportCallIssue]
    nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
)


@_compiled
@no_type_check
def grow(codes, labels, targets, weights, rows, num_classes, criterion, limits, max_features, seed):
    """Node arrays of the tree grown on `rows` (which are permuted): splits, values and spread.

    `codes` is `(columns, rows)`; `limits` is (depth, least weight of a leaf, leaves, least gain), with -1
    for no limit on depth and leaves. Returns integers (feature, low, high, left, missing left, missing seen)
    with splits still in codes, values, and (weight, impurity, gain).
    """
    depth_limit, least, leaf_limit, least_gain = limits
    num_rows, num_columns = rows.size, codes.shape[0]
    most = 2 * num_rows - 1
    if leaf_limit > 0:
        most = min(most, 2 * np.int64(leaf_limit) - 1)
    if 0 <= depth_limit < 30:
        most = min(most, 2 ** (np.int64(depth_limit) + 1) - 1)
    places = np.zeros((most, 9), np.int64)  # as returned, and start, stop and depth
    moments = np.empty((most, 3))  # weight, impurity, gain
    values = np.empty((most, num_classes))
    work = workspace(num_rows, num_classes)
    features, state = np.arange(num_columns), np.empty(1, np.uint64)
    state[0] = seed | np.uint64(1)
    places[0, 7] = num_rows
    waiting = np.empty(most + 1, np.int64)
    num_waiting, num_nodes, num_leaves = np.int64(0), np.int64(1), 1
    spare = np.empty(num_rows, rows.dtype)
    whole = 0.0
    for i in range(num_rows):
        whole += weights[rows[i]]
    opened, gain_limit = 0, least_gain * whole
    while True:
        for node in range(num_nodes - 1, opened - 1, -1):  # the left child last, so that it is taken first
            _open(node, codes, labels, targets, weights, rows, criterion, depth_limit, least,
                  gain_limit, max_features, features, state, work, places, moments, values)  # fmt: skip
            if places[node, 0] >= 0:
                waiting[num_waiting] = node
                num_waiting += 1
        opened = num_nodes
        if num_waiting == 0 or (leaf_limit > 0 and num_leaves >= leaf_limit):
            break
        node = _next(waiting, num_waiting, moments, leaf_limit > 0)
        num_waiting -= 1
        _divide(node, num_nodes, codes, rows, spare, places)
        num_nodes += 2
        num_leaves += 1
    for i in range(num_waiting):  # leaves that a limit left undivided
        places[waiting[i], 0] = -1
    return places[:num_nodes, :6].copy(), values[:num_nodes].copy(), moments[:num_nodes].copy()


@_inner
@no_type_check
def _open(node, codes, labels, targets, weights, rows, criterion, depth_limit, least, least_gain,
          max_features, features, state, work, places, moments, values):  # fmt: skip
    """The value and spread of a new node, and its best split unless it is a leaf (feature -1)."""
    mine = rows[places[node, 6] : places[node, 7]]
    total, weight, pure = values[node], 0.0, True
    classes, sums = work[8], work[9]
    for k in range(total.size):
        total[k] = 0.0
    for i in range(mine.size):
        row = mine[i]
        weight += weights[row]
        classes[i], sums[i, 0], sums[i, 1] = labels[row], weights[row], weights[row]
        if criterion == VARIANCE:
            total[0] += weights[row] * (targets[row] - targets[mine[0]])
            pure = pure and targets[row] == targets[mine[0]]
        else:
            total[labels[row]] += weights[row]
            pure = pure and labels[row] == labels[mine[0]]
    moments[node, 0], places[node, 0], places[node, 3] = weight, -1, -1
    if criterion == VARIANCE:
        centre = targets[mine[0]] + total[0] / weight
        moments[node, 1] = _deviations(mine, targets, centre, sums) / weight
        total[0] = 0.0
        scale, before = moments[node, 1] * weight, 0.0
    else:
        centre = 0.0
        moments[node, 1] = impurity_of(total, weight, criterion)
        scale, before = weight, _parent_score(total, weight, moments[node, 1], criterion)
    if not pure and places[node, 8] != depth_limit and weight >= 2 * least:
        found = best_split(codes, mine, total, features, max_features, least, scale, criterion, state, work)
        moments[node, 2] = found[0] - before
        if found[1] >= 0 and (least_gain <= 0 or moments[node, 2] >= least_gain):
            places[node, 0], places[node, 1], places[node, 2] = found[1], found[2], found[3]
            places[node, 4] = found[4]
    if criterion == VARIANCE:
        total[0] = centre
    else:
        for k in range(total.size):
            total[k] /= weight


@_inner
@no_type_check
def _deviations(mine, targets, centre, sums):
    """The weighted sum of squares about the centre; each row's weighted deviation is noted."""
    found = 0.0
    for i in range(mine.size):
        away = targets[mine[i]] - centre
        sums[i, 0] = sums[i, 1] * away
        found += sums[i, 0] * away
    return found


@_inner
@no_type_check
def _parent_score(total, weight, impurity, criterion):
    return weight * (1.0 - impurity) if criterion == 0 else -weight * impurity


@_inner
@no_type_check
def _next(waiting, count, moments, best_first):
    """Take the node of largest gain (the oldest of equals), or the one that came last."""
    chosen = count - 1
    if best_first:
        chosen = 0
        for i in range(1, count):
            if moments[waiting[i], 2] > moments[waiting[chosen], 2]:
                chosen = i
    node = waiting[chosen]
    for i in range(chosen, count - 1):
        waiting[i] = waiting[i + 1]
    return node


@_inner
@no_type_check
def _divide(node, num_nodes, codes, rows, spare, places):
    """Partition the rows of a node, stably, and lay out its two children."""
    column, low, missing_left = codes[places[node, 0]], places[node, 1], places[node, 4]
    start, stop = places[node, 6], places[node, 7]
    at, num_right = start, 0
    for i in range(start, stop):
        row = rows[i]
        code = column[row]
        if code < 0:
            places[node, 5] = 1
        if (code >= 0 and code <= low) or (code < 0 and missing_left == 1):
            rows[at] = row
            at += 1
        else:
            spare[num_right] = row
            num_right += 1
    for i in range(num_right):
        rows[at + i] = spare[i]
    places[node, 3] = num_nodes
    places[num_nodes, 6], places[num_nodes, 7] = start, at
    places[num_nodes + 1, 6], places[num_nodes + 1, 7] = at, stop
    places[num_nodes, 8] = places[num_nodes + 1, 8] = places[node, 8] + 1


@_compiled
@no_type_check
def leaves_of(X, feature, threshold, left, missing_left, root):
    """The leaf that each row reaches."""
    found = np.empty(X.shape[0], np.int32)
    for i in range(X.shape[0]):
        node = root
        while feature[node] >= 0:
            x = X[i, feature[node]]
            goes_left = x <= threshold[node] or (x != x and missing_left[node])
            node = left[node] if goes_left else left[node] + 1
        found[i] = node
    return found


@_compiled
@no_type_check
def add_leaf_values(X, feature, threshold, left, missing_left, roots, values, shares, out):
    """Add `shares[t]` times the value of the leaf in each tree `t` to `out`, tree by tree."""
    for t in range(roots.size):
        for i in range(X.shape[0]):
            node = roots[t]
            while feature[node] >= 0:
                x = X[i, feature[node]]
                goes_left = x <= threshold[node] or (x != x and missing_left[node])
                node = left[node] if goes_left else left[node] + 1
            for k in range(values.shape[1]):
                out[i, k] += shares[t] * values[node, k]


@_compiled
@no_type_check
def weakest_links(left, parent, risk):
    r"""For each inner node, the $\alpha$ at which pruning at the weakest link removes it; leaves have
    infinity.

    The link of node $t$ with branch $T_t$ is $g(t) = (R(t) - R(T_t)) / (|T_t| - 1)$.
    """
    count = left.size
    branch_risk, num_leaves = risk.copy(), np.ones(count, np.int64)
    removed, inner = np.full(count, np.inf), left >= 0
    for node in range(count - 1, -1, -1):  # children come after their parents
        if inner[node]:
            branch_risk[node] = branch_risk[left[node]] + branch_risk[left[node] + 1]
            num_leaves[node] = num_leaves[left[node]] + num_leaves[left[node] + 1]
    alpha = 0.0
    while inner[0]:
        weakest, least = -1, np.inf
        for node in range(count):
            if inner[node]:
                link = (risk[node] - branch_risk[node]) / (num_leaves[node] - 1)
                if link < least:
                    weakest, least = node, link
        alpha = max(alpha, least)
        inside = np.zeros(count, np.bool_)
        inside[weakest] = True
        for node in range(weakest, count):
            if node > weakest and inside[parent[node]]:
                inside[node] = True
            if inside[node] and inner[node]:
                inner[node], removed[node] = False, alpha
        lost_risk, lost_leaves = risk[weakest] - branch_risk[weakest], num_leaves[weakest] - 1
        node = weakest
        while node >= 0:
            branch_risk[node] += lost_risk
            num_leaves[node] -= lost_leaves
            node = parent[node]
    return removed
