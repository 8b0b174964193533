r"""Maps onto structured matrices: triangular, positive definite, correlation, each from a vector of free
numbers.

Volume.      A matrix is measured by its free entries: the lower triangle with the diagonal for Cholesky
             factors and covariances (as the Wishart density is), the strict lower triangle for correlations
             and their factors (as the LKJ density is).
Identities.  $A = LL^\top$ has $|\partial A/\partial L| = 2^d\prod_i L_{ii}^{d-i+1}$; a correlation $R =
             LL^\top$ with unit rows in $L$ has $\prod_j L_{jj}^{d-j}$. Partial correlations $z_{ij} = \tanh
             x_{ij}$ break the unit length of a row: $L_{ij} = z_{ij}\prod_{k<j}(1 - z_{ik}^2)^{1/2}$.
Cost.        $O(d^2)$ for factors, $O(d^3)$ for $LL^\top$ and back.
References.  Muirhead (1982) theorem 2.1.9; Lewandowski, Kurowicka and Joe (2009).
"""

import math
from abc import abstractmethod
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection, Chain
from tractable.bijections.elementwise import Tanh
from tractable.core.checks import check, check_shape
from tractable.core.linalg import symmetrise
from tractable.core.support import Support, correlation, correlation_cholesky, lower_cholesky, psd
from tractable.core.types import Array

__all__ = [
    "CholeskyToCorrelation", "CholeskyToCovariance", "FillTriangular", "OntoCorrelation",
    "OntoCorrelationCholesky", "OntoLowerCholesky", "OntoPositiveDefinite",
]  # fmt: skip


class _VectorToMatrix(Bijection):
    ranks: ClassVar[tuple[int | None, int | None]] = (1, 2)


class _MatrixToMatrix(Bijection):
    ranks: ClassVar[tuple[int | None, int | None]] = (2, 2)


class FillTriangular(_VectorToMatrix):
    r"""$d(d+1)/2$ numbers into a lower triangle, row by row; volume is kept.

    >>> FillTriangular().forward(jnp.array([1.0, 2.0, 3.0])).tolist()
    [[1.0, 0.0], [2.0, 3.0]]
    """

    def _forward(self, x):
        return _fill(x, _dimension(x.size, 0), 0), jnp.zeros((), x.dtype)

    def _inverse(self, y):
        _check_square("y", y)
        return y[np.tril_indices(y.shape[0])], jnp.zeros((), y.dtype)


class OntoLowerCholesky(_VectorToMatrix):
    r"""`FillTriangular`, then the exponential on the diagonal: $\log|\det| = \sum_i \log L_{ii}$."""

    def _forward(self, x):
        filled = _fill(x, _dimension(x.size, 0), 0)
        diagonal = jnp.diagonal(filled)
        return _with_diagonal(filled, jnp.exp(diagonal)), diagonal.sum()

    def _inverse(self, y):
        _check_square("y", y)
        log_diagonal = jnp.log(jnp.diagonal(y))
        return _with_diagonal(y, log_diagonal)[np.tril_indices(y.shape[0])], -log_diagonal.sum()

    @property
    def codomain(self) -> Support:
        return lower_cholesky


class _FromCholesky(_MatrixToMatrix):
    """Products of lower triangles with themselves."""

    def _inverse(self, y):
        _check_square("y", y)
        lower = jnp.linalg.cholesky(y)
        return lower, -self._log_det(lower)

    @abstractmethod
    def _log_det(self, lower: Array) -> Array:
        """Of the map at one triangle."""


class CholeskyToCovariance(_FromCholesky):
    r"""$A = LL^\top$, with $\log|\det| = d\log 2 + \sum_i (d - i + 1)\log L_{ii}$ between the lower
    triangles."""

    def _forward(self, x):
        _check_square("x", x)
        return symmetrise(x @ x.T), self._log_det(x)

    def _log_det(self, lower: Array) -> Array:
        d = lower.shape[0]
        return d * math.log(2) + (jnp.arange(d, 0, -1, lower.dtype) * jnp.log(jnp.diagonal(lower))).sum()

    @property
    def domain(self) -> Support:
        return lower_cholesky

    @property
    def codomain(self) -> Support:
        return psd


class CholeskyToCorrelation(_FromCholesky):
    r"""$R = LL^\top$ for $L$ with unit rows, with $\log|\det| = \sum_j (d - j)\log L_{jj}$ between the strict
    lower triangles."""

    def _forward(self, x):
        _check_square("x", x)
        return _with_diagonal(symmetrise(x @ x.T), jnp.ones(x.shape[0], x.dtype)), self._log_det(x)

    def _log_det(self, lower: Array) -> Array:
        d = lower.shape[0]
        return (jnp.arange(d - 1, -1, -1, lower.dtype) * jnp.log(jnp.diagonal(lower))).sum()

    @property
    def domain(self) -> Support:
        return correlation_cholesky

    @property
    def codomain(self) -> Support:
        return correlation


class OntoCorrelationCholesky(_VectorToMatrix):
    r"""$d(d-1)/2$ numbers onto Cholesky factors with unit rows, through partial correlations.

    $\log|\det| = \sum_{i>j}\{\log(1 - z_{ij}^2) + \tfrac12\sum_{k<j}\log(1 - z_{ik}^2)\}$; back, $x_{ij} =
    \sinh^{-1}(L_{ij}/\sqrt{\sum_{k>j}L_{ik}^2})$.
    """

    def _forward(self, x):
        partial = _fill(x, _dimension(x.size, 1), 1)
        lower, log_left = _break_rows(partial)
        return lower, _break_log_det(partial, log_left)

    def _inverse(self, y):
        _check_square("y", y)
        strict = np.tril_indices(y.shape[0], -1)
        later = _before((y**2)[:, ::-1])[:, ::-1]
        x = jnp.arcsinh(y[strict] / jnp.sqrt(later[strict]))
        partial = _fill(x, y.shape[0], 1)
        return x, -_break_log_det(partial, _break_rows(partial)[1])

    @property
    def codomain(self) -> Support:
        return correlation_cholesky


class OntoPositiveDefinite(Chain):
    r"""$d(d+1)/2$ numbers onto positive definite matrices: $A = LL^\top$ with $\log L_{ii}$ free."""

    def __init__(self):
        self.bijections = (OntoLowerCholesky(), CholeskyToCovariance())

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 2)


class OntoCorrelation(Chain):
    r"""$d(d-1)/2$ numbers onto correlation matrices, through partial correlations."""

    def __init__(self):
        self.bijections = (OntoCorrelationCholesky(), CholeskyToCorrelation())

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 2)


def _dimension(size: int, below: int) -> int:
    """The order of the matrix whose lower triangle, from `below` under the diagonal, has `size` entries."""
    d = (math.isqrt(8 * size + 1) - 1) // 2 + below
    wanted = "d (d - 1) / 2" if below else "d (d + 1) / 2"
    must = f"of length {wanted} for a whole number d"
    check((d - below) * (d - below + 1) // 2 == size, "x", must, f"length {size}")
    return d


def _check_square(name: str, x: Array) -> None:
    check_shape(name, x, (x.shape[0], x.shape[0]))


def _fill(x: Array, d: int, below: int) -> Array:
    return jnp.zeros((d, d), x.dtype).at[np.tril_indices(d, -below)].set(x)


def _with_diagonal(matrix: Array, diagonal: Array) -> Array:
    index = np.arange(matrix.shape[0])
    return matrix.at[index, index].set(diagonal)


def _break_rows(partial: Array) -> tuple[Array, Array]:
    """The factor, and the logarithm of the squared length that is left of each row before each entry."""
    spent = jnp.tril(Tanh()._log_slope(partial), -1)
    log_left = _before(spent)
    direction = jnp.tril(jnp.tanh(partial), -1) + jnp.eye(partial.shape[0], dtype=partial.dtype)
    return direction * jnp.exp(0.5 * log_left), log_left


def _before(matrix: Array) -> Array:
    """The sum of each row before each entry (without the cancellation of a running sum minus the entry)."""
    return jnp.pad(jnp.cumsum(matrix, 1)[:, :-1], ((0, 0), (1, 0)))


def _break_log_det(partial: Array, log_left: Array) -> Array:
    return jnp.tril(Tanh()._log_slope(partial) + 0.5 * log_left, -1).sum()
