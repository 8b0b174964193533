"""Loops of doubled precision over rows, compiled by numba; `linear_compensated` says what they are for."""

from typing import Any, no_type_check

import numba
import numpy as np

__all__ = ["lower_residual", "upper_residual"]

_SPLITTER = 134217729.0  # 2^27 + 1: cuts a float64 into two halves whose products are exact

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_inner = numba.njit(nogil=True, **_options)
_compiled = numba.njit(nogil=True, cache=True)


@_inner
@no_type_check
def _split(a):
    scaled = _SPLITTER * a
    upper = scaled - (scaled - a)
    return upper, a - upper


@_inner
@no_type_check
def _product_error(product, a1, a2, b1, b2):
    return a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


@_inner
@no_type_check
def _sum_error(total, a, b):
    part = total - a
    return (a - (total - part)) + (b - part)


@_compiled
@no_type_check
def upper_residual(A, b, r_high, r_low, x_high, x_low):
    """$b - r - A x$, one column per right-hand side, each entry correct to about the last digit."""
    n, p = A.shape
    result = np.empty_like(b)
    for k in range(b.shape[1]):
        for i in range(n):
            total = b[i, k] - r_high[i, k]
            lost = _sum_error(total, b[i, k], -r_high[i, k]) - r_low[i, k]
            for j in range(p):
                a1, a2 = _split(A[i, j])
                b1, b2 = _split(x_high[j, k])
                term = -(A[i, j] * x_high[j, k])
                lost += _product_error(term, -a1, -a2, b1, b2) - A[i, j] * x_low[j, k]
                fresh = total + term
                lost += _sum_error(fresh, total, term)
                total = fresh
            result[i, k] = total + lost
    return result


@_compiled
@no_type_check
def lower_residual(A, weights, c_high, c_low, r_high, r_low):
    """$c - A^T W r$ as a sum and what rounding lost of it, one column per right-hand side."""
    n, p = A.shape
    high_sums, low_sums = np.empty_like(c_high), np.empty_like(c_high)
    for k in range(c_high.shape[1]):
        total, lost = c_high[:, k].copy(), c_low[:, k].copy()
        for i in range(n):
            w1, w2 = _split(weights[i])
            s1, s2 = _split(r_high[i, k])
            high = -(weights[i] * r_high[i, k])
            low = _product_error(high, -w1, -w2, s1, s2) - weights[i] * r_low[i, k]
            h1, h2 = _split(high)
            for j in range(p):
                a1, a2 = _split(A[i, j])
                term = A[i, j] * high
                fresh = total[j] + term
                error = _product_error(term, a1, a2, h1, h2) + A[i, j] * low
                lost[j] += error + _sum_error(fresh, total[j], term)
                total[j] = fresh
        high_sums[:, k], low_sums[:, k] = total, lost
    return high_sums, low_sums
