r"""The compiled primitives of tree growth: best splits of nodes, and their partition, for much work at once.

Twin.        `supervised.trees.splits` has the same functions in NumPy: same arguments, same bits.
Split.       The codes of a column in a node are sorted (insertion for few rows, else radix); one scan sums
             the statistics on the left and scores every boundary, missing entries on the right, then on the
             left.
Cost.        $O(m)$ for each column of a node with $m$ rows. All room comes from outside: arrays that a loop
             makes cost more to compile than the loop.
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np

__all__ = ["best_splits", "partition"]

_SMALL = 48  # below, insertion beats radix passes
_compiled: Any = {"nogil": True, "cache": True, "error_model": "numpy"}
_ints, _floats = "int64[:, ::1]", "float64[:, ::1]"


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(
    f"void(int32[:, ::1], int32[::1], float64[::1], {_floats}, int32[::1], {_ints}, uint64[::1], "
    f"int64, int64, float64, float64, {_ints}, {_floats}, {_floats}, "
    f"{_ints}, uint64[:, ::1], {_floats}, {_floats}, int32[::1])",
    **_compiled,
)
@no_type_check
def best_splits(
    codes, labels, targets, weights, rows, nodes, keys, criterion, max_features, least, tie,
    places, values, moments, draws, order, items, sums, kinds,
):  # fmt: skip
    """As `splits.best_splits`, with room: `draws` (features, swaps, spots, counts), keys, items, sums."""
    num_columns, num_values = codes.shape[0], values.shape[1]
    for v in range(nodes.shape[0]):
        tree, start, stop, may = nodes[v, 0], nodes[v, 1], nodes[v, 2], nodes[v, 3]
        count, first = stop - start, rows[start]
        weight, spread, pure = 0.0, 0.0, True
        for k in range(num_values):
            values[v, k] = 0.0
        for i in range(count):
            row = rows[start + i]
            mass = weights[tree, row]
            weight += mass
            kinds[i] = labels[row]
            items[0, i] = items[1, i] = mass
            if criterion == 2:
                values[v, 0] += mass * (targets[row] - targets[first])
                pure = pure and targets[row] == targets[first]
            else:
                values[v, labels[row]] += mass
                pure = pure and labels[row] == labels[first]
        centre = 0.0
        if criterion == 2:
            centre = targets[first] + values[v, 0] / weight
            for i in range(count):
                away = targets[rows[start + i]] - centre
                items[0, i] *= away
                spread += items[0, i] * away
            values[v, 0] = 0.0
        moments[v, 0], moments[v, 1], moments[v, 2] = weight, spread, -np.inf
        slack = tie * (spread if criterion == 2 else weight)
        visited = tried = 0
        while (
            may == 1 and not pure and weight >= 2 * least
            and visited < num_columns and (visited < max_features or tried == 0)
        ):  # fmt: skip
            if max_features < num_columns:
                x = keys[v] + np.uint64(visited + 1) * np.uint64(0x9E3779B97F4A7C15)
                x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                x = (x ^ (x >> np.uint64(31))) >> np.uint64(32)
                other = visited + np.int64((x * np.uint64(num_columns - visited)) >> np.uint64(32))
                draws[1, visited] = other
                draws[0, visited], draws[0, other] = draws[0, other], draws[0, visited]
            column = draws[0, visited]
            sums[3, visited] = -np.inf
            visited += 1
            low, high, known = np.int64(2147483647), np.int64(-1), 0
            absent = 0.0
            for k in range(num_values):
                sums[2, k] = 0.0
            for i in range(count):
                code = np.int64(codes[column, rows[start + i]])
                if code < 0:
                    sums[2, kinds[i]] += items[0, i]
                    absent += items[1, i]
                else:
                    order[0, known] = (np.uint64(code) << np.uint64(32)) | np.uint64(i)
                    known += 1
                    low, high = min(low, code), max(high, code)
            if known == 0 or (low == high and known == count):
                continue
            tried += 1
            at = 0
            if known <= _SMALL:
                for i in range(1, known):
                    key, j = order[0, i], i - 1
                    while j >= 0 and order[0, j] > key:
                        order[0, j + 1] = order[0, j]
                        j -= 1
                    order[0, j + 1] = key
            else:
                shift = 0
                while (high - low) >> shift:  # codes less the lowest: as few digits as the range needs
                    for b in range(257):
                        draws[3, b] = 0
                    for i in range(known):
                        digit = ((np.int64(order[at, i] >> np.uint64(32)) - low) >> shift) & 255
                        draws[3, digit + 1] += 1
                    for b in range(256):
                        draws[3, b + 1] += draws[3, b]
                    for i in range(known):
                        digit = ((np.int64(order[at, i] >> np.uint64(32)) - low) >> shift) & 255
                        order[1 - at, draws[3, digit]] = order[at, i]
                        draws[3, digit] += 1
                    at = 1 - at
                    shift += 8
            top = -np.inf
            for missing_left in range(2 if known < count else 1):
                mass = absent if missing_left == 1 else 0.0
                for k in range(num_values):
                    sums[0, k] = 0.0
                base = missing_left * count
                run = 0.0
                for i in range(known):
                    key = order[at, i]
                    place = np.int64(key & np.uint64(0xFFFFFFFF))
                    run += items[1, place]
                    sums[0, kinds[place]] += items[0, place]
                    items[2, base + i] = -np.inf
                    if i + 1 < known:
                        if (order[at, i + 1] >> np.uint64(32)) == (key >> np.uint64(32)):
                            continue
                    elif known == count or missing_left == 1:
                        continue
                    here = run + mass
                    rest = weight - here
                    if here >= least and rest >= least and rest > 0:
                        one, two = 0.0, 0.0
                        for k in range(num_values):
                            left = sums[0, k] + sums[2, k] if missing_left == 1 else sums[0, k]
                            right = values[v, k] - left
                            if criterion == 1:
                                if left > 0:
                                    one += left * math.log(left / here)
                                if right > 0:
                                    two += right * math.log(right / rest)
                            else:
                                one += left * left
                                two += right * right
                        score = one + two
                        if criterion != 1:
                            score = (one * rest + two * here) / (here * rest)
                        items[2, base + i] = score
                        top = max(top, score)
            sums[3, visited - 1] = top
            i = 0
            while top > -np.inf and items[2, i] < top - slack:  # of equal boundaries the first
                i += 1 if i != known - 1 else count - known + 1
            missing_left = 1 if i >= count else 0
            i -= missing_left * count
            draws[2, 4 * visited - 4] = np.int64(order[at, i] >> np.uint64(32))
            draws[2, 4 * visited - 3] = -1
            if i + 1 < known:
                draws[2, 4 * visited - 3] = np.int64(order[at, i + 1] >> np.uint64(32))
            draws[2, 4 * visited - 2] = missing_left
            draws[2, 4 * visited - 1] = column
        places[v, 0] = -1
        for c in range(visited):
            moments[v, 2] = max(moments[v, 2], sums[3, c])
        for c in range(visited):  # of equal columns the first
            if sums[3, c] > -np.inf and sums[3, c] >= moments[v, 2] - slack:
                moments[v, 2] = sums[3, c]
                places[v, 0], places[v, 1] = draws[2, 4 * c + 3], draws[2, 4 * c]
                places[v, 2], places[v, 3] = draws[2, 4 * c + 1], draws[2, 4 * c + 2]
                break
        if max_features < num_columns:
            for c in range(visited - 1, -1, -1):  # the columns in their own order for the next node
                other = draws[1, c]
                draws[0, c], draws[0, other] = draws[0, other], draws[0, c]
        if criterion == 2:
            values[v, 0] = centre


@numba.njit(f"void(int32[:, ::1], int32[::1], {_ints}, {_ints}, {_ints}, int32[::1])", **_compiled)
@no_type_check
def partition(codes, rows, spans, places, ends, spare):
    """As `splits.partition`, with room for the rows that go right."""
    for v in range(spans.shape[0]):
        column, low, missing_left = places[v, 0], places[v, 1], places[v, 3]
        at, others, missing = spans[v, 0], 0, 0
        for i in range(spans[v, 0], spans[v, 1]):
            row = rows[i]
            code = codes[column, row]
            if code < 0:
                missing = 1
            if (code >= 0 and code <= low) or (code < 0 and missing_left == 1):
                rows[at] = row
                at += 1
            else:
                spare[others] = row
                others += 1
        for i in range(others):
            rows[at + i] = spare[i]
        ends[v, 0], ends[v, 1] = at, missing
