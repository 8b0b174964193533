"""The compiled sums of tree growth by histograms; the twin of those in `supervised.trees.histograms`.

The bits are the same: each cell adds its rows in their order.
"""

from typing import no_type_check

import numba

__all__ = ["add_rows"]


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(
    "void(uint8[:, ::1], int32[::1], int32[::1], float64[:, ::1], int64[::1], int64[::1], "
    "float64[:, :, :, ::1])",
    nogil=True, cache=True, error_model="numpy",
)  # fmt: skip
@no_type_check
def add_rows(codes, rows, slots, amounts, columns, own, sums):
    """Add the three amounts of each row to the cell of its slot, column and code, for some of the columns."""
    for c in own:
        j = columns[c]
        for i in range(rows.size):
            slot, code = slots[i], codes[j, rows[i]]
            sums[0, slot, c, code] += amounts[0, i]
            sums[1, slot, c, code] += amounts[1, i]
            sums[2, slot, c, code] += amounts[2, i]
