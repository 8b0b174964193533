r"""Residuals with twice the digits: what refinement of a least-squares solution needs.

Identity.    $a + b = s + e$ and $a b = p + e$ exactly, with $s, p$ the rounded results and $e$ their errors,
             which are collected and added last.
System.      $r + A x = b$, $A^\top W r = c$: with $c = 0$ the least-squares solution and its residual, with
             $b = 0$, $c = -I$ the columns of $(A^\top W A)^{-1}$.
Cost.        About thirty operations per entry of $A$ and right-hand side.
References.  Dekker (1971); Ogita, Rump and Oishi (2005); Bjorck (1967).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tractable.supervised.linear.loops import lower_residual, upper_residual

__all__ = ["Pair", "add_pairs", "augmented_residual", "plain_residual", "row_blocks", "subtract_products"]

_BLOCK = 1 << 18


class Pair(NamedTuple):
    """An array as an unevaluated sum of two, with about 32 digits."""

    high: np.ndarray
    low: np.ndarray

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Pair":
        return cls(np.zeros(shape), np.zeros(shape))


def add_pairs(a: Pair, correction: np.ndarray) -> Pair:
    """A pair plus a plain array, again as a pair."""
    total, error = _two_sum(a.high, correction)
    return _two_sum(total, error + a.low)


def augmented_residual(
    A: np.ndarray, weights: np.ndarray, b: np.ndarray, c: np.ndarray, r: Pair, x: Pair
) -> tuple[np.ndarray, np.ndarray]:
    r"""$b - r - A x$ and $c - A^\top W r$, correct to about the last digit however much cancels.

    `b`, `r` have a column per right-hand side, as have `c` and `x`.
    """
    A, weights, b, c = (np.ascontiguousarray(a) for a in (A, weights, b, c))
    r, x = (Pair(np.ascontiguousarray(a.high), np.ascontiguousarray(a.low)) for a in (r, x))
    return upper_residual(A, b, *r, *x), np.add(*lower_residual(A, weights, c, np.zeros_like(c), *r))


def plain_residual(A: np.ndarray, b: np.ndarray, x: Pair) -> np.ndarray:
    r"""$b - A x$, correct to about the last digit however much cancels."""
    A, b = np.ascontiguousarray(A), np.ascontiguousarray(b)
    nothing = Pair.zeros(b.shape)
    return upper_residual(A, b, *nothing, np.ascontiguousarray(x.high), np.ascontiguousarray(x.low))


def subtract_products(c: Pair, A: np.ndarray, weights: np.ndarray, r: np.ndarray) -> Pair:
    r"""$c - A^\top W r$ as a pair, so that blocks of rows may follow one another without loss."""
    A, weights, r = (np.ascontiguousarray(a) for a in (A, weights, r))
    return Pair(*lower_residual(A, weights, *c, r, np.zeros_like(r)))


def row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Slices of the rows with about $2^{18}$ entries each: temporaries stay in the processor's cache."""
    size = max(64, _BLOCK // max(num_columns, 1))
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def _two_sum(a: np.ndarray, b: np.ndarray) -> Pair:
    """$a + b$ and the error of that rounded sum."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))
