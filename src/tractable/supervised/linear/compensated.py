r"""Residuals with twice the digits: what refinement of a least-squares solution needs.

Identity.    $a + b = s + e$ and $a b = p + e$ exactly, with $s, p$ the rounded results and $e$ their errors,
             which are collected and added last.
System.      $r + A x = b$, $A^\top W r = c$: with $c = 0$ the least-squares solution and its residual, with
             $b = 0$, $c = -I$ the columns of $(A^\top W A)^{-1}$.
Cost.        About thirty operations per entry of $A$ and right-hand side: in NumPy for few entries, in loops
             that are compiled once for many.
References.  Dekker (1971); Ogita, Rump and Oishi (2005); Bjorck (1967).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Pair", "add_pairs", "augmented_residual", "plain_residual", "row_blocks", "subtract_products"]

_BLOCK = 1 << 18
_FEW = 100_000  # entries times right-hand sides up to which NumPy is faster than compiling
_SPLITTER = 134217729.0  # 2^27 + 1: cuts a float64 into two halves whose products are exact


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
    return _upper(A, b, r, x), np.add(*_lower(A, weights, Pair(c, np.zeros_like(c)), r))


def plain_residual(A: np.ndarray, b: np.ndarray, x: Pair) -> np.ndarray:
    r"""$b - A x$, correct to about the last digit however much cancels."""
    return _upper(A, b, Pair.zeros(b.shape), x)


def subtract_products(c: Pair, A: np.ndarray, weights: np.ndarray, r: np.ndarray) -> Pair:
    r"""$c - A^\top W r$ as a pair, so that blocks of rows may follow one another without loss."""
    return _lower(A, weights, c, Pair(r, np.zeros_like(r)))


def row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Slices of the rows with about $2^{18}$ entries each: temporaries stay in the processor's cache."""
    size = max(64, _BLOCK // max(num_columns, 1))
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def _two_sum(a: np.ndarray, b: np.ndarray) -> Pair:
    """$a + b$ and the error of that rounded sum."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def _upper(A: np.ndarray, b: np.ndarray, r: Pair, x: Pair) -> np.ndarray:
    """$b - r - A x$, one column per right-hand side, each entry correct to about the last digit."""
    if A.size * b.shape[1] > _FEW:
        return _loops().upper_residual(*(np.ascontiguousarray(a) for a in (A, b, *r, *x)))
    total, lost = _two_sum(b, -r.high)
    lost = lost - r.low
    for j in range(A.shape[1]):
        term, error = _two_product(A[:, j, None], -x.high[j])
        lost = lost + (error - A[:, j, None] * x.low[j])
        total, error = _two_sum(total, term)
        lost = lost + error
    return total + lost


def _lower(A: np.ndarray, weights: np.ndarray, c: Pair, r: Pair) -> Pair:
    """$c - A^T W r$ as a sum and what rounding lost of it, one column per right-hand side."""
    if A.size * c.high.shape[1] > _FEW:
        return Pair(*_loops().lower_residual(*(np.ascontiguousarray(a) for a in (A, weights, *c, *r))))
    high, low = _two_product(-weights[:, None], r.high)
    low = low - weights[:, None] * r.low
    terms, errors = _two_product(A[:, :, None], high[:, None])
    lost = (errors + A[:, :, None] * low[:, None]).sum(0) + c.low
    while len(terms) > 1:  # rows are added in pairs, what is lost of each pair is kept
        half = len(terms) // 2
        added, errors = _two_sum(terms[:half], terms[half : 2 * half])
        lost = lost + errors.sum(0)
        terms = np.concatenate([added, terms[2 * half :]])
    total, error = _two_sum(c.high, terms.sum(0))
    return Pair(total, lost + error)


def _two_product(a: np.ndarray, b: np.ndarray) -> Pair:
    """$a b$ and the error of that rounded product."""
    product = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return Pair(product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2))


def _split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = _SPLITTER * a
    upper = scaled - (scaled - a)
    return upper, a - upper


def _loops() -> Any:
    from tractable.supervised.linear import loops  # numba: half a second, then what it compiles

    return loops
