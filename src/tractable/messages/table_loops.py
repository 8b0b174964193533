r"""Products into and sums out of a large contiguous table along any of its axes, as compiled loops.

Axes.        An operand is known by its stride along each axis of the table (0: it lacks the axis).
             Neighbouring axes along which it runs on, or which it lacks, merge: few long loops are left.
Cost.        One pass over the table, about a nanosecond per cell; two seconds to compile once per machine,
             which tables of many thousands of cells repay.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["apply_operand", "sum_into"]

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_compiled = numba.njit(nogil=True, cache=True)
_reassociated = numba.njit(nogil=True, cache=True, fastmath={"reassoc"})


@_compiled
@no_type_check
def apply_operand(op, table, operand, dims, strides):
    """Set (`op` 0), multiply (1) or add (2) the operand into the table, for all cells."""
    m = dims.size
    steps, at = np.zeros(m, np.int64), 0
    rows, row_stride, columns, stride = dims[m - 2], strides[m - 2], dims[m - 1], strides[m - 1]
    tile = rows * columns
    for cell in range(0, table.size, tile):
        part = table[cell : cell + tile]
        if op == 0:
            _set_tile(part, operand, at, rows, row_stride, columns, stride)
        elif op == 1:
            _multiply_tile(part, operand, at, rows, row_stride, columns, stride)
        else:
            _add_tile(part, operand, at, rows, row_stride, columns, stride)
        at = _advance(at, dims, strides, steps)


@_compiled
@no_type_check
def sum_into(table, out, dims, strides):
    """Add every cell of the table to its entry of `out`."""
    m = dims.size
    steps, at = np.zeros(m, np.int64), 0
    rows, row_stride, columns, stride = dims[m - 2], strides[m - 2], dims[m - 1], strides[m - 1]
    tile = rows * columns
    for cell in range(0, table.size, tile):
        _sum_tile(table[cell : cell + tile], out, at, rows, row_stride, columns, stride)
        at = _advance(at, dims, strides, steps)


@_compiled
@no_type_check
def _advance(at, dims, strides, steps):
    """The operand's place after the next step of the outer axes, all but the last two."""
    d = dims.size - 3
    while d >= 0:
        steps[d] += 1
        at += strides[d]
        if steps[d] < dims[d]:
            return at
        at -= strides[d] * dims[d]
        steps[d] = 0
        d -= 1
    return at


@_compiled
@no_type_check
def _set_tile(table, operand, at, rows, row_stride, columns, stride):
    cell = 0
    for i in range(rows):
        place = at + i * row_stride
        for j in range(columns):
            table[cell + j] = operand[place + j * stride]
        cell += columns


@_compiled
@no_type_check
def _add_tile(table, operand, at, rows, row_stride, columns, stride):
    cell = 0
    for i in range(rows):
        place = at + i * row_stride
        for j in range(columns):
            table[cell + j] += operand[place + j * stride]
        cell += columns


@_compiled
@no_type_check
def _multiply_tile(table, operand, at, rows, row_stride, columns, stride):
    cell = 0
    if columns == 2:  # two states are common: a loop over two columns costs more than its body
        for i in range(rows):
            place = at + i * row_stride
            table[cell] *= operand[place]
            table[cell + 1] *= operand[place + stride]
            cell += 2
        return
    for i in range(rows):
        place = at + i * row_stride
        if stride == 0:
            number = operand[place]
            for j in range(columns):
                table[cell + j] *= number
        elif stride == 1:
            for j in range(columns):
                table[cell + j] *= operand[place + j]
        else:
            for j in range(columns):
                table[cell + j] *= operand[place + j * stride]
        cell += columns


@_reassociated
@no_type_check
def _sum_tile(table, out, at, rows, row_stride, columns, stride):
    cell = 0
    if columns == 2 and row_stride == 0:
        first, second = 0.0, 0.0
        for i in range(rows):
            first += table[2 * i]
            second += table[2 * i + 1]
        out[at] += first
        out[at + stride] += second
        return
    for i in range(rows):
        place = at + i * row_stride
        if stride == 0:
            total = 0.0
            for j in range(columns):
                total += table[cell + j]
            out[place] += total
        elif stride == 1:
            for j in range(columns):
                out[place + j] += table[cell + j]
        else:
            for j in range(columns):
                out[place + j * stride] += table[cell + j]
        cell += columns
