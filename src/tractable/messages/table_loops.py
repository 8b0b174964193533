r"""Products into and sums out of a large contiguous table along any of its axes, as compiled loops.

Tiles.       The last two axes of a table make a tile of `rows` by `columns`; `starts` says where in the
             operand each next tile begins, the strides how it runs on inside (0: it lacks the axis).
Numbers.     Places are unsigned: an index that cannot be negative is not tested for it, and loops run on
             vectors. Pairs have loops of their own, since a loop over two columns costs more than its body.
Cost.        One pass over the table, half a nanosecond per cell; two seconds to compile once per machine,
             which tables of many thousands of cells repay.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["apply_operand", "sum_into"]

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_compiled = numba.njit(nogil=True, cache=True, fastmath={"reassoc"})


@_compiled
@no_type_check
def apply_operand(op, table, operand, starts, rows, row_stride, columns, stride):
    """Set (`op` 0), multiply (1) or add (2) the operand into the table, for all cells."""
    zero, one, two, cell = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(0)
    for k in range(starts.size):
        place = starts[k]
        if columns == two:
            for _ in range(rows):
                first, second = operand[place], operand[place + stride]
                if op == 1:
                    first, second = table[cell] * first, table[cell + one] * second
                elif op == 2:
                    first, second = table[cell] + first, table[cell + one] + second
                table[cell], table[cell + one] = first, second
                cell, place = cell + two, place + row_stride
            continue
        for _ in range(rows):
            if op == 0:
                for j in range(columns):
                    table[cell + j] = operand[place + j * stride]
            elif op == 2:
                for j in range(columns):
                    table[cell + j] += operand[place + j * stride]
            elif stride == zero:
                number = operand[place]
                for j in range(columns):
                    table[cell + j] *= number
            elif stride == one:
                for j in range(columns):
                    table[cell + j] *= operand[place + j]
            else:
                for j in range(columns):
                    table[cell + j] *= operand[place + j * stride]
            cell, place = cell + columns, place + row_stride


@_compiled
@no_type_check
def sum_into(table, out, starts, rows, row_stride, columns, stride):
    """Add every cell of the table to its entry of `out`."""
    zero, one, two, cell = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(0)
    for k in range(starts.size):
        place = starts[k]
        if columns == two and row_stride == zero:
            first, second = 0.0, 0.0
            for _ in range(rows):
                first += table[cell]
                second += table[cell + one]
                cell += two
            out[place] += first
            out[place + stride] += second
            continue
        if columns == two:
            for _ in range(rows):
                out[place] += table[cell]
                out[place + stride] += table[cell + one]
                cell, place = cell + two, place + row_stride
            continue
        for _ in range(rows):
            if stride == zero:
                total = 0.0
                for j in range(columns):
                    total += table[cell + j]
                out[place] += total
            elif stride == one:
                for j in range(columns):
                    out[place + j] += table[cell + j]
            else:
                for j in range(columns):
                    out[place + j * stride] += table[cell + j]
            cell, place = cell + columns, place + row_stride
