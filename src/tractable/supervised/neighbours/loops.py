"""The loop of the neighbour search: the smallest entries of each row in one pass.

Cost.        One comparison per entry; an insertion for each new one of the `count` smallest so far.
"""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["smallest_of_sums"]


@numba.njit(cache=True, nogil=True)
@no_type_check
def smallest_of_sums(table, offsets, count):
    """Places and values of the `count` smallest entries of `table[i] + offsets` in each row, in order."""
    rows, columns = table.shape
    places = np.zeros((rows, count), np.int64)
    values = np.full((rows, count), np.inf)
    for i in range(rows):
        worst = np.inf
        for j in range(columns):
            value = table[i, j] + offsets[j]
            if value < worst:
                k = count - 1
                while k > 0 and values[i, k - 1] > value:
                    values[i, k] = values[i, k - 1]
                    places[i, k] = places[i, k - 1]
                    k -= 1
                values[i, k] = value
                places[i, k] = j
                worst = values[i, count - 1]
    return places, values
