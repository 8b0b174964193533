r"""Rows of kernels, column by column, and exponentials by polynomials: what a machine needs row by row.

Rows.        Inner products or squared distances of one point with all, then a function of each entry; the
             columns of the points are contiguous, so every pass is vectorised.
Exponential. $e^{-s/2} = 2^k e^r$ with whole $k$ and $|r| \le \tfrac12\log 2$ (single precision: $\log 2$): a
             polynomial in $r$, and $2^k$ as bits. Relative error of some $10^{-15}$, or $10^{-6}$ in single
             precision.
Cost.        A fifth of a nanosecond per column and entry, one to two for an exponential. Room for exponents
             comes from outside, as floats and as the same memory in bits: arrays that a loop makes or
             reinterprets cost more to compile than the loop.
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np
from numba.extending import overload

from tractable.supervised.svm.gram import GAUSSIAN, POLYNOMIAL

__all__ = ["compiled", "expand_rows", "exponentials_of_products", "exponents", "fill_row", "inner"]

# `nnan` lets minima and maxima be vectorised; infinities are meant and stay
_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"nnan", "nsz", "reassoc", "contract"},
}
compiled = numba.njit(cache=True, **_OPTIONS)
# for loops that only loops call: without the code by which Python would call them
_ALONE: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = numba.njit(**_OPTIONS, **_ALONE)


def exponents(size: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Room for powers of two, as floats and as their bits."""
    scale = np.empty(size, dtype)
    return scale, scale.view(np.int64 if scale.itemsize == 8 else np.int32)


def exponentials_of_products(table: np.ndarray, squares: np.ndarray, other_squares: np.ndarray) -> None:
    """exp(-|x - z|^2/2) in place of inner products; distances that rounding makes negative are zero."""
    _exponentials_of_products(table, squares, other_squares, *exponents(table.shape[1], table.dtype))


@compiled
@no_type_check
def expand_rows(kernel, chosen, coefficients, row, out):
    """Adds the kernel expansion over chosen points to `out`, one entry per column of the kernel."""
    for s in range(chosen.size):
        fill_row(kernel, chosen[s], row)
        for k in range(row.size):
            out[k] += coefficients[s] * row[k]


@inner
@no_type_check
def fill_row(kernel, i, row):
    """One row of the kernel: $c$ times $x.z$, $(x.z + o)^p$ or $exp(-|x - z|^2/2)$; `numbers` is c, o, p."""
    kind, numbers, columns, scale, bits = kernel
    count = columns.shape[1]
    for k in range(count):
        row[k] = 0
    if kind == GAUSSIAN:
        for d in range(columns.shape[0]):
            column, centre = columns[d], columns[d, i]
            for k in range(count):
                away = column[k] - centre
                row[k] += away * away
        _exponential(row, scale, bits)
    else:
        for d in range(columns.shape[0]):
            column, factor = columns[d], columns[d, i]
            for k in range(count):
                row[k] += factor * column[k]
    if kind == POLYNOMIAL:
        for k in range(count):
            base, power = row[k] + numbers[1], 1.0
            for _ in range(int(numbers[2])):
                power *= base
            row[k] = power
    if numbers[0] != 1.0:
        for k in range(count):
            row[k] *= numbers[0]


@compiled
@no_type_check
def _exponentials_of_products(table, squares, other_squares, scale, bits):
    for n in range(table.shape[0]):
        row, own = table[n], squares[n]
        for k in range(row.size):
            square = own + other_squares[k] - 2 * row[k]
            row[k] = square if square > 0 else 0
        _exponential(row, scale, bits)


def _exponential(row, scale, bits):
    """exp(-row/2) in place: a polynomial in the rest modulo log 2, and the power of two as bits."""
    (_double if row.itemsize == 8 else _single)(row, scale, bits)


@no_type_check
def _double(row, scale, bits):
    for k in range(bits.size):
        x = -0.7213475204444817 * row[k]  # in powers of two
        x = x if x > -1022.0 else -1022.0
        whole = math.floor(x + 0.5)
        row[k] = x - whole
        scale[k] = whole + 6755399441055744.0  # 1.5 * 2^52: the whole part is in the low bits
    for k in range(bits.size):
        bits[k] = (bits[k] << 52) + 4607182418800017408  # the exponent of one
    for k in range(bits.size):
        r = 0.6931471805599453 * row[k]
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


@no_type_check
def _single(row, scale, bits):
    for k in range(bits.size):
        x = np.float32(-0.7213475204444817) * row[k]
        x = x if x > np.float32(-126.0) else np.float32(-126.0)
        whole = np.int32(x - np.float32(0.5))  # truncated towards zero: x is never positive
        bits[k] = (whole + np.int32(127)) << np.int32(23)
        row[k] = np.float32(0.6931471805599453) * (x - np.float32(whole))
    for k in range(bits.size):
        r = row[k]
        p = np.float32(1 / 720.0) * r + np.float32(1 / 120.0)
        p = p * r + np.float32(1 / 24.0)
        p = p * r + np.float32(1 / 6.0)
        p = p * r + np.float32(0.5)
        p = p * r + np.float32(1.0)
        row[k] = scale[k] * (p * r + np.float32(1.0))


@overload(_exponential, jit_options=_OPTIONS)
def _of_precision(row, scale, bits):
    """The polynomial of the precision at hand, chosen while compiling."""
    return _double if row.dtype.bitwidth == 64 else _single
