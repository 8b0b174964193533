r"""The search for the best split of one node, exact, over columns of integer codes.

Codes.       Each column is coded once by the ranks of its distinct values (missing: -1), so a node never
             compares floats: few codes are counted (a histogram of $(\text{code}, \text{class})$ cells),
             many are sorted by radix. Both leave the same items in ascending order, and one scan reads them.
Score.       Left and right statistics $s_L, s_R$ with weights $W_L, W_R$: $\|s_L\|^2/W_L + \|s_R\|^2/W_R$ for
             Gini (class weights) and for variance (sums of deviations from the node's mean), and
             $\sum_k s_k \log (s_k / W)$ of both sides for entropy. Parent score taken off, it is the decrease
             of weight times impurity.
Missing.     Missing entries are tried on the right and on the left; of equals the right.
Ties.        A later split must be better by $10^{-12}$ of the node's scale: rounding does not decide.
Cost.        $O(m)$ for each column of a node with $m$ rows, or $O(m + \text{codes})$ where codes are few.
References.  Breiman, Friedman, Olshen and Stone (1984).
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np

from tractable.supervised.trees.arrays import ENTROPY, GINI, TIE

__all__ = ["best_split", "impurity_of", "random_below", "workspace"]

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
# called from compiled code alone: nothing to call them from Python is made
_inner: Any = numba.njit(  # pyright: ignore[reportCallIssue]
    nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
_SMALL = 48  # below, insertion beats two radix passes


@_inner
@no_type_check
def random_below(state, bound):
    """A random whole number below `bound` from a 64-bit xorshift state, which moves on."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    high = (x * np.uint64(2685821657736338717)) >> np.uint64(32)
    return np.int64((high * np.uint64(bound)) >> np.uint64(32))


@_inner
@no_type_check
def workspace(num_rows, num_classes):
    """Scratch arrays: 0 codes, 1 keys, 2 spare keys, 3 codes, 4 classes and 5 sums of items, 6 cells,
    7 sums of left, right, missing and the weight of missing, and for each row of the node 8 its
    class, 9 its sums."""
    cells = 2 * num_rows + 2
    return (
        np.empty(num_rows, np.int32),
        np.empty(num_rows, np.uint64),
        np.empty(num_rows, np.uint64),
        np.empty(cells, np.int32),
        np.empty(cells, np.int32),
        np.empty((cells, 2)),
        np.zeros((cells, 2)),
        np.zeros((4, num_classes)),
        np.empty(num_rows, np.int32),
        np.empty((num_rows, 2)),
    )


@_inner
@no_type_check
def impurity_of(sums, weight, criterion):
    """Gini $1 - \\sum p^2$ or entropy $-\\sum p \\log p$ of class weights."""
    found = 1.0 if criterion == GINI else 0.0
    for k in range(sums.size):
        share = sums[k] / weight
        if criterion == GINI:
            found -= share * share
        elif share > 0:
            found -= share * math.log(share)
    return max(found, 0.0)


@_inner
@no_type_check
def best_split(codes, rows, total, features, max_features, least, scale, criterion, state, work):
    """(score, feature, last code on the left, first code on the right, whether missing goes left).

    Columns are visited in order if all are, else drawn without replacement; constant ones take a place, but
    at least one column that varies is tried. The feature is -1 if no split is allowed.
    """
    num_columns = codes.shape[0]
    drawn = max_features < num_columns
    best = (-np.inf, -1, -1, -1, False)
    visited, tried = 0, 0
    while visited < num_columns and (visited < max_features or tried == 0):
        if drawn:
            other = visited + random_below(state, num_columns - visited)
            features[visited], features[other] = features[other], features[visited]
        column = features[visited]
        visited += 1
        count = _order_items(codes[column], rows, total.size, work)
        if count < 0:
            continue
        tried += 1
        for missing_left in range(2):
            if missing_left and not work[7][3, 0] > 0:
                break
            score, at = _scan(count, total, missing_left == 1, least, best[0], TIE * scale, criterion, work)
            if at >= 0:
                high = work[3][at + 1] if at + 1 < count else -1
                best = (score, column, work[3][at], high, missing_left == 1)
    return best


@_inner
@no_type_check
def _order_items(column, rows, num_classes, work):
    """Items of the node in ascending order of code; -1 if the column is constant here.

    Missing entries are summed apart: their statistics in `work[7][2]`, their weight in `work[7][3, 0]`.
    """
    codes, missing, classes, sums = work[0], work[7], work[8], work[9]
    missing[3, 0] = 0.0
    for k in range(num_classes):
        missing[2, k] = 0.0
    low, high, present = np.int64(2147483647), np.int64(-1), np.int64(0)
    for i in range(rows.size):
        code = column[rows[i]]
        codes[i] = code
        if code < 0:
            missing[2, classes[i]] += sums[i, 0]
            missing[3, 0] += sums[i, 1]
        else:
            present += 1
            low, high = min(low, np.int64(code)), max(high, np.int64(code))
    if present == 0 or (low == high and present == rows.size):
        return -1
    width = high - low + 1
    if width * num_classes <= 2 * present:
        return _count_items(rows.size, num_classes, low, width, work)
    return _sort_items(rows.size, low, width, present, work)


@_inner
@no_type_check
def _count_items(num_rows, num_classes, low, width, work):
    """One item for each cell (code, class) that occurs; the cells are left empty for the next column."""
    codes, item_codes, item_classes, items, cells = work[0], work[3], work[4], work[5], work[6]
    classes, sums = work[8], work[9]
    for i in range(num_rows):
        if codes[i] >= 0:
            cell = (codes[i] - low) * num_classes + classes[i]
            cells[cell, 0] += sums[i, 0]
            cells[cell, 1] += sums[i, 1]
    count = 0
    for code in range(width):
        for k in range(num_classes):
            cell = code * num_classes + k
            if cells[cell, 1] > 0:
                item_codes[count], item_classes[count] = code + low, k
                items[count, 0], items[count, 1] = cells[cell, 0], cells[cell, 1]
                cells[cell, 0] = cells[cell, 1] = 0.0
                count += 1
    return count


@_inner
@no_type_check
def _sort_items(num_rows, low, width, present, work):
    """One item for each row, sorted by code; rows with the same code keep their order."""
    codes, keys, spare = work[0], work[1], work[2]
    item_codes, item_classes, items, classes, sums = work[3], work[4], work[5], work[8], work[9]
    count = 0
    for i in range(num_rows):
        if codes[i] >= 0:
            keys[count] = (np.uint64(codes[i] - low) << np.uint64(32)) | np.uint64(i)
            count += 1
    bits = 1
    while (width - 1) >> bits:
        bits += 1
    if present <= _SMALL:
        _sort_small(keys, present)
    else:
        digit = 8 if present < 4096 else 11
        shift = 0
        while shift < bits:
            _radix_pass(keys, spare, present, 32 + shift, digit)
            keys, spare = spare, keys
            shift += digit
    for i in range(present):
        at = np.int64(keys[i] & np.uint64(0xFFFFFFFF))
        item_codes[i] = np.int64(keys[i] >> np.uint64(32)) + low
        item_classes[i] = classes[at]
        items[i, 0], items[i, 1] = sums[at, 0], sums[at, 1]
    return present


@_inner
@no_type_check
def _sort_small(keys, count):
    for i in range(1, count):
        key, j = keys[i], i - 1
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


@_inner
@no_type_check
def _radix_pass(keys, spare, count, shift, digit):
    """`keys` in the order of one digit, written to `spare`."""
    mask, move = np.uint64((1 << digit) - 1), np.uint64(shift)
    starts = np.zeros(2049, np.int32)
    for i in range(count):
        starts[np.int64((keys[i] >> move) & mask) + 1] += 1
    for b in range(1 << digit):
        starts[b + 1] += starts[b]
    for i in range(count):
        bucket = np.int64((keys[i] >> move) & mask)
        spare[starts[bucket]] = keys[i]
        starts[bucket] += 1


@_inner
@no_type_check
def _scan(count, total, missing_left, least, best, tie, criterion, work):
    """The best score above `best` and its boundary, or -1; missing entries on the side that is asked for."""
    item_codes, item_classes, items, sums = work[3], work[4], work[5], work[7]
    left, right, found, whole = sums[0], sums[1], -1, sums[3, 0]
    for i in range(count):
        whole += items[i, 1]
    for k in range(total.size):
        left[k] = sums[2, k] if missing_left else 0.0
        right[k] = total[k] - left[k]
    weight = sums[3, 0] if missing_left else 0.0
    last = count if sums[3, 0] > 0 and not missing_left else count - 1
    for i in range(last):
        k = item_classes[i]
        left[k] += items[i, 0]
        right[k] -= items[i, 0]
        weight += items[i, 1]
        if i + 1 < count and item_codes[i + 1] == item_codes[i]:
            continue
        rest = whole - weight
        if weight >= least and rest >= least and rest > 0:  # beside huge weights, tiny ones round to nothing
            score = _score(left, right, weight, rest, criterion)
            if score > best + tie:
                found, best = i, score
    return best, found


@_inner
@no_type_check
def _score(left, right, left_weight, right_weight, criterion):
    if criterion == ENTROPY:
        found = 0.0
        for k in range(left.size):
            if left[k] > 0:
                found += left[k] * math.log(left[k] / left_weight)
            if right[k] > 0:
                found += right[k] * math.log(right[k] / right_weight)
        return found
    squares_left, squares_right = 0.0, 0.0
    for k in range(left.size):
        squares_left += left[k] * left[k]
        squares_right += right[k] * right[k]
    return (squares_left * right_weight + squares_right * left_weight) / (left_weight * right_weight)
