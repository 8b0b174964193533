r"""Rows of kernels, column by column, and exponentials by polynomials: what a machine needs one row at a
time.

Rows.        Inner products or squared distances of one point with all, then a function of each entry; the
             columns
             of the points are contiguous, so every pass is vectorised.
Exponential. $e^{-s/2} = 2^k e^r$ with whole $k$ and $|r| \le \tfrac12\log 2$ (single precision: $\log 2$): a
             polynomial
             in $r$, and $2^k$ as bits. Relative error of some $10^{-15}$, or $10^{-6}$ in single precision.
Used by.     supervised.svm.loops, supervised.svm.smo, supervised.svm.gram.
Cost.        A fifth of a nanosecond per column and entry, one to two for an exponential.
"""

import math
from typing import no_type_check

import numba
import numpy as np

__all__ = [
    "GAUSSIAN",
    "LINEAR",
    "OUTSIDE",
    "POLYNOMIAL",
    "expand_rows",
    "exponentials_of_products",
    "fill_row",
]

OUTSIDE, LINEAR, POLYNOMIAL, GAUSSIAN = -1, 0, 1, 2

_compiled = numba.njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"}
)


@_compiled
@no_type_check
def expand_rows(kernel, points, coefficients, out):
    """Adds the kernel expansion of other points (one per row) to `out`, one entry per column of the
    kernel."""
    kind, numbers, columns = kernel
    row = np.empty(columns.shape[1], columns.dtype)
    for s in range(points.shape[0]):
        fill_row(kind, numbers, columns, points[s], row)
        for k in range(row.size):
            out[k] += coefficients[s] * row[k]


@_compiled
@no_type_check
def exponentials_of_products(table, squares, other_squares):
    """exp(-|x - z|^2/2) in place of inner products; distances that rounding makes negative are zero."""
    for n in range(table.shape[0]):
        row, own = table[n], squares[n]
        for k in range(row.size):
            row[k] = max(own + other_squares[k] - 2.0 * row[k], 0.0)
        _exponential(row)


@_compiled
@no_type_check
def fill_row(kind, numbers, columns, point, row):
    """One row of the kernel: $c$ times $x.z$, $(x.z + o)^p$ or $exp(-|x - z|^2/2)$; `numbers` is c, o, p."""
    row[:] = 0
    if kind == GAUSSIAN:
        for d in range(point.size):
            column, centre = columns[d], point[d]
            for k in range(row.size):
                away = column[k] - centre
                row[k] += away * away
        _exponential(row)
    else:
        for d in range(point.size):
            column, factor = columns[d], point[d]
            for k in range(row.size):
                row[k] += factor * column[k]
    if kind == POLYNOMIAL:
        for k in range(row.size):
            base, power = row[k] + numbers[1], 1.0
            for _ in range(int(numbers[2])):
                power *= base
            row[k] = power
    if numbers[0] != 1.0:
        for k in range(row.size):
            row[k] *= numbers[0]


@_compiled
@no_type_check
def _exponential(row):
    """exp(-row/2) in place: a polynomial in the rest modulo log 2, and the power of two as bits."""
    if row.itemsize == 8:
        _exponential_double(row)
    else:
        _exponential_single(row)


@_compiled
@no_type_check
def _exponential_double(row):
    shifted, rest = np.empty(row.size), np.empty(row.size)
    for k in range(row.size):
        x = max(-0.7213475204444817 * row[k], -1022.0)  # in powers of two
        whole = math.floor(x + 0.5)
        rest[k] = x - whole
        shifted[k] = whole + 6755399441055744.0  # 1.5 * 2^52: the whole part is in the low bits
    bits = shifted.view(np.int64)
    for k in range(row.size):
        bits[k] = (bits[k] << 52) + 4607182418800017408  # the exponent of one
    scale = bits.view(np.float64)
    for k in range(row.size):
        r = 0.6931471805599453 * rest[k]
        p = 1.6059043836821613e-10 * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        row[k] = scale[k] * ((p * r + 1.0) * r + 1.0)


@_compiled
@no_type_check
def _exponential_single(row):
    bits, rest = np.empty(row.size, np.int32), np.empty(row.size, np.float32)
    for k in range(row.size):
        x = max(np.float32(-0.7213475204444817) * np.float32(row[k]), np.float32(-126.0))
        whole = np.int32(x - np.float32(0.5))  # truncated towards zero: x is never positive
        bits[k] = (whole + np.int32(127)) << np.int32(23)
        rest[k] = np.float32(0.6931471805599453) * (x - np.float32(whole))
    scale = bits.view(np.float32)
    for k in range(row.size):
        r = rest[k]
        p = np.float32(1 / 720.0) * r + np.float32(1 / 120.0)
        p = p * r + np.float32(1 / 24.0)
        p = p * r + np.float32(1 / 6.0)
        p = p * r + np.float32(0.5)
        p = p * r + np.float32(1.0)
        row[k] = scale[k] * (p * r + np.float32(1.0))
