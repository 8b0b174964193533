r"""Sums over many rows and few columns: stretches of rows in threads, each with one thread of BLAS.

Products.    $\sum_i w_i z_i z_i^\top$ and $\sum_i w_i z_i$ of $z_i = (x_i, y_i)$, about the origin, with no
             copy of the rows. About the means they are $P - n\,\bar z\bar z^\top$, which loses digits where
             columns are far from zero: `is_near` says whether they are not.
Threads.     Those of a BLAS wait for each other in every product (`core.blas`); those of stretches do not.
Cost.        $O(n d^2)$ in one pass.
References.  Chan, Golub and LeVeque (1983), algorithms for computing the sample variance.
"""

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.interrupts import in_threads

__all__ = ["Products", "over_rows", "products_of"]

STRETCH = 16384  # rows of one stretch at least
_BLOCK = 2048  # rows that stay in a cache from one sum to the next


class Products(NamedTuple):
    """The weight of all rows, the weighted sums of their columns, and of the products of their columns."""

    count: float
    sums: np.ndarray
    products: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.sums / self.count

    @property
    def centred(self) -> np.ndarray:
        """The products about the means."""
        return self.products - self.count * np.outer(self.mean, self.mean)

    def is_near(self, most: float) -> bool:
        """Whether all numbers are finite, and no mean is more than `most` standard deviations from zero."""
        if not np.isfinite(self.products).all():
            return False
        return bool((self.mean**2 * self.count <= most**2 * np.diag(self.centred)).all())


def products_of(rows: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> Products:
    """The products of rows (n, d) beside targets (n, k); a weight of two is the row twice.

    >>> found = products_of(np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]]))
    >>> found.sums.tolist(), found.products.tolist()
    ([3.0, 8.0], [[5.0, 13.0], [13.0, 34.0]])
    """
    d, k = rows.shape[1], rows.shape[1] + targets.shape[1]

    def part(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        sums, products = np.zeros(k), np.zeros((k, k))
        with np.errstate(all="ignore"):  # what is not finite is seen in the sums
            for start in range(low, high, _BLOCK):
                cut = slice(start, min(start + _BLOCK, high))
                x, y = rows[cut], targets[cut]
                if weights is not None:
                    root = np.sqrt(weights[cut])[:, None]
                    x, y, ones = root * x, root * y, root[:, 0]
                else:
                    ones = np.ones(len(x))
                sums[:d] += ones @ x
                sums[d:] += ones @ y
                products[:d, :d] += x.T @ x
                products[:d, d:] += x.T @ y
                products[d:, d:] += y.T @ y
        return sums, products

    found = over_rows(part, len(rows))
    sums, products = (np.sum(each, axis=0) for each in zip(*found))
    products[d:, :d] = products[:d, d:].T
    return Products(float(len(rows) if weights is None else weights.sum()), sums, products)


def over_rows(part: Callable[[int, int], Any], num_rows: int) -> list[Any]:
    """`part(low, high)` of stretches that together are all rows, in threads where the rows are many."""
    count = max(1, min(os.cpu_count() or 1, num_rows // STRETCH))
    ends = [num_rows * i // count for i in range(count + 1)]
    if num_rows < STRETCH:
        return [part(0, num_rows)]
    with one_blas_thread():
        if count == 1:
            return [part(0, num_rows)]
        return list(in_threads(lambda pair: part(*pair), itertools.pairwise(ends), count))
