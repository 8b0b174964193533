r"""Kernel matrices and kernel expansions without compilation, for machines whose rows come and go.

Identity.    $\|x - z\|^2 = \|x\|^2 + \|z\|^2 - 2x^\top z$ about a common centre, so that Gaussian, polynomial
             and linear kernels are one matrix product and one function of its entries.
Expansion.   $f(x) = \sum_j c_j k(x_j, x)$ in blocks of rows: memory stays bounded, the product stays a
             product.
Cost.        $O(nmd)$ in BLAS; other kernels go through their own `gram`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import namespace
from tractable.core.host_random import generator
from tractable.core.types import Values
from tractable.kernels.base import Kernel, Scaled
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF

__all__ = [
    "DirectKernel", "direct_kernel", "expand_kernel", "kernel_diagonal", "kernel_matrix", "merge_rows",
    "row_marks",
]  # fmt: skip

LINEAR, POLYNOMIAL, GAUSSIAN = 0, 1, 2
_BLOCK_ENTRIES = 2**22
_FEW_ENTRIES = 1_000_000  # exponentials up to which NumPy is faster than compiling


class DirectKernel(NamedTuple):
    """A kernel as numbers: $c\\,x^\\top z$, $c\\,(x^\\top z + o)^p$ or $c\\,\\exp(-\\|x - z\\|^2/2)$ of
    $x$ divided by `scale`."""

    kind: int
    numbers: np.ndarray
    scale: np.ndarray

    def points(self, X: Values, centre: Values) -> Values:
        """The rows in the units of the kernel; only distances may be taken about a centre."""
        return (X - centre) / self.scale if self.kind == GAUSSIAN else X / self.scale

    def of_products(self, products: Values, x: Values, z: Values) -> Values:
        """The kernel from the inner products of points, in place."""
        if self.kind == GAUSSIAN:
            _exponentials(products, (x * x).sum(1), (z * z).sum(1))
        elif self.kind == POLYNOMIAL:
            products += self.numbers[1]
            np.power(products, int(self.numbers[2]), out=products)
        if self.numbers[0] != 1.0:
            products *= self.numbers[0]
        return products


def merge_rows(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal rows with equal targets as one: where each first stands, and their summed weights.

    What is left out in leave-one-out is then a distinct row, however often a table repeats it. Rows are first
    compared by one number each, so that a table without repetitions costs one sort.
    """
    marks = row_marks(X, y)
    if len(np.unique(marks)) == len(marks):
        return np.arange(len(marks)), weights
    _, first, place = np.unique(np.column_stack([X, y]), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.bincount(np.ravel(place), weights)[order]


def row_marks(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A number for each row that depends on nothing but the row: equal rows have equal marks.

    Their order is that of a random projection: the same for every arrangement of the same table.
    """
    keys = generator(0).uniform(0.5, 1.5, X.shape[1] + 1)
    return (X * keys[:-1]).sum(1) + keys[-1] * np.asarray(y, float)


def direct_kernel(kernel: Kernel) -> DirectKernel | None:
    """The numbers of a Gaussian, polynomial or linear kernel, or of a multiple of one; None for others."""
    factor = 1.0
    if isinstance(kernel, Scaled):
        factor, kernel = float(kernel.variance), kernel.kernel
    one = np.ones(1)
    if type(kernel) is RBF:
        return DirectKernel(
            GAUSSIAN, np.array([factor, 0.0, 0.0]), np.atleast_1d(np.asarray(kernel.length_scale))
        )
    if type(kernel) is Polynomial:
        numbers = np.array([factor, float(kernel.offset), float(kernel.degree)])
        return DirectKernel(POLYNOMIAL, numbers, one)
    if type(kernel) is Linear:
        return DirectKernel(LINEAR, np.array([factor, 0.0, 1.0]), one)
    return None


def kernel_matrix(kernel: Kernel, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    """$k(x_i, z_j)$ in double precision; without `Z` exactly symmetric."""
    direct = direct_kernel(kernel)
    if direct is None:
        return np.array(kernel.gram(X) if Z is None else kernel.gram(X, Z), float)
    centre = (X if Z is None else Z).mean(0)
    x = direct.points(X, centre)
    z = x if Z is None else direct.points(Z, centre)
    table = direct.of_products(x @ z.T, x, z)
    if Z is None and direct.kind == GAUSSIAN:
        np.fill_diagonal(table, direct.numbers[0])
    return table


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """$k(x_i, x_i)$."""
    direct = direct_kernel(kernel)
    if direct is None:
        return np.array(kernel.diagonal(X), float)
    if direct.kind == GAUSSIAN:
        return np.full(len(X), direct.numbers[0])
    squares = ((X / direct.scale) ** 2).sum(1)
    power = (squares + direct.numbers[1]) ** direct.numbers[2] if direct.kind == POLYNOMIAL else squares
    return direct.numbers[0] * power


def expand_kernel(kernel: Kernel, X: Any, centres: Any, coefficients: Any) -> Any:
    """$\\sum_j k(x, z_j)\\,c_j$ for each row of `X`; `coefficients` is a vector or a column per function."""
    if namespace(kernel, X, centres, coefficients) is not np:
        return kernel.gram(jnp.asarray(X), jnp.asarray(centres)) @ jnp.asarray(coefficients)
    X, centres, coefficients = np.asarray(X), np.asarray(centres), np.asarray(coefficients)
    if len(centres) == 0:
        return np.zeros((len(X), *coefficients.shape[1:]))
    size = max(1, _BLOCK_ENTRIES // len(centres))
    parts = [kernel_matrix(kernel, X[i : i + size], centres) @ coefficients for i in range(0, len(X), size)]
    return np.concatenate(parts)


def _exponentials(table: np.ndarray, squares: np.ndarray, other_squares: np.ndarray) -> None:
    """exp(-|x - z|^2/2) in place of inner products; distances that rounding makes negative are zero."""
    if table.size > _FEW_ENTRIES:
        from tractable.supervised.svm.row_loops import exponentials_of_products

        exponentials_of_products(table, squares, other_squares)
        return
    table -= 0.5 * squares[:, None]
    table -= 0.5 * other_squares
    np.minimum(table, 0.0, out=table)
    np.exp(table, out=table)
