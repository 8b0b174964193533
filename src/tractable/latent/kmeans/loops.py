"""The compiled primitives of Lloyd's iteration, for many rows: `sweeps` has the same functions in NumPy.

Cost.        A row that its bounds hold is three numbers read; another one is copied once, and its scores are
             read once. All room comes from outside: arrays that a loop makes cost more to compile.
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np

__all__ = ["gather", "settle"]

_compiled: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
_table, _vector, _codes = "float64[:, ::1]", "float64[::1]", "int32[::1]"
_ROOM = 1.0 + 8 * float(np.finfo(float).eps)


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(
    f"UniTuple(int64, 2)({_table}, {_vector}, {_table}, {_codes}, {_table}, {_table}, int64, int64, boolean, "
    f"{_table}, int64[::1])",
    **_compiled,
)
@no_type_check
def gather(X, origin, values, labels, bounds, moves, start, stop, everything, rows, places):
    """As `sweeps.gather`."""
    width, most, count = X.shape[1], rows.shape[0], 0
    i = start
    while i < stop and count < most:
        own = labels[i]
        low = bounds[i, 1] - moves[own, 1]
        if everything or bounds[i, 0] + moves[own, 0] >= low:
            total = 0.0
            for j in range(width):
                x = X[i, j] - origin[j]
                rows[count, j] = x
                away = x - values[own, j]
                total += away * away
            exact = math.sqrt(total) * _ROOM
            if everything or exact > max(low, moves[own, 2]):
                places[count] = i
                count += 1
            else:
                bounds[i, 0] = exact - moves[own, 0]
        i += 1
    return i, count


@numba.njit(
    f"int64(float32[:, ::1], float64, float64, {_table}, {_table}, int64[::1], int64, {_vector}, {_codes}, "
    f"{_table}, {_table}, boolean, {_table})",
    **_compiled,
)
@no_type_check
def settle(
    scores, error, reach, values, rows, places, count, weights, labels, bounds, moves, everything, sums
):
    """As `sweeps.settle`."""
    num_centres, width = values.shape
    changed = 0
    for r in range(count):
        i = places[r]
        length = 0.0
        for j in range(width):
            length += rows[r, j] * rows[r, j]
        slack = error * (math.sqrt(length) + reach) ** 2
        best, second, own = scores[r, 0], np.float32(np.inf), 0
        for c in range(1, num_centres):
            value = scores[r, c]
            if value < best:
                second, best, own = best, value, c
            elif value < second:
                second = value
        beyond = max(2 * (second - slack) + length, 0.0)
        if num_centres > 1 and not second - best > 2 * slack:
            nearest, beyond = np.inf, np.inf
            for c in range(num_centres):
                total = 0.0
                for j in range(width):
                    total += (rows[r, j] - values[c, j]) ** 2
                if total < nearest:
                    beyond, nearest, own = nearest, total, c
                elif total < beyond:
                    beyond = total
        exact = 0.0
        for j in range(width):
            exact += (rows[r, j] - values[own, j]) ** 2
        old = labels[i]
        bounds[i, 0] = math.sqrt(exact) * _ROOM - moves[own, 0]
        bounds[i, 1] = math.sqrt(beyond) / _ROOM + moves[own, 1]
        if everything or own != old:
            labels[i] = own
            changed += 1
            weight = weights[i]
            for j in range(width):
                sums[own, j] += weight * rows[r, j]
            sums[own, width] += weight
            if not everything:
                for j in range(width):
                    sums[old, j] -= weight * rows[r, j]
                sums[old, width] -= weight
    return changed
