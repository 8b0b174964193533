r"""Least squares to the last digit that the data hold: scaled pivoted QR
with refinement, conditioning reported.

Problem.     $\min_\theta \sum_i w_i (y_i - x_i^\top\theta)^2 + \sum_j \lambda_j\theta_j^2$; where
             many solutions are equally good, the one of least norm (an intercept is free: it is not
             part of the norm).
Method.      Columns are scaled by powers of two, which is exact. $\sqrt{W} A P = Q R$ with pivoting; the
             augmented system $r + A\theta = y$, $A^\top W r = 0$ is refined with residuals of twice the
             digits, on the unrounded rows, so that weights and scaling cost nothing. The rank is decided on
             the scaled columns: $|R_{kk}| > \epsilon\max(n, p)|R_{11}|$.
Tall rows.   The Gram matrix of shifted rows, block by block, if its condition allows (the condition number of
             the columns is at most $10^3$), with a refinement on the rows; else a QR over blocks of rows.
Cost.        $O(n p^2)$; memory for a copy of the rows, for tall ones only for a block.
References.  Bjorck (1967, 1996); Golub and Van Loan (2013) chapter 5; Demmel et al. (2008).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg

from tractable.core.checks import check_nonnegative
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.core.verdict import Verdict
from tractable.supervised.linear.compensated import Pair, add_pairs, augmented_residual, plain_residual
from tractable.supervised.linear.tall import Solution, by_blocks, by_gram

__all__ = ["LeastSquares", "least_squares", "orthonormal_columns"]

sl: Any = scipy.linalg  # its stubs cannot tell what its options return
_EPS = float(np.finfo(float).eps)
_STEPS = 8  # of refinement at most; two are the rule, more only near the edge of float64
_TALL = 2048  # rows from which the Gram matrix is tried first
_LARGE = 20_000_000  # entries from which no orthogonal factor is kept
_INVERSE = 4_000_000  # products up to which the covariance is refined as well


class LeastSquares(Module):
    """A least-squares solution with what it can be trusted for.

    `coefficients` has a column per target where `y` has; with an intercept it comes first. `inverse` is
    $(A^\\top W A + \\Lambda)^{-1}$ (the pseudo-inverse where the rank is short), `condition` that of the
    scaled columns, `change` the relative size of the last refinement.
    """

    coefficients: Float[Array, "p *k"]
    inverse: Float[Array, "p p"]
    residual_sum: Float[Array, "*k"]
    target_sum: Float[Array, "*k"]
    rank: Int[Array, ""]
    condition: Scalar
    change: Scalar
    method: str = field(static=True)

    @property
    def digits(self) -> int:
        """The digits of the coefficients that rounding in the data alone leaves, at worst."""
        condition = float(self.condition)
        return max(0, int(-np.log10(_EPS * condition))) if np.isfinite(condition) else 0

    @property
    def num_solutions(self) -> float:
        r"""The number of exact solutions of $A\theta = y$: 0, 1 or infinity."""
        exact = np.asarray(self.residual_sum) <= (1e3 * _EPS) ** 2 * np.asarray(self.target_sum)
        deficient = int(self.rank) < self.coefficients.shape[0]
        return 0.0 if not exact.all() else np.inf if deficient else 1.0

    @property
    def verdict(self) -> Verdict:
        """How far to trust the coefficients."""
        rank, size = int(self.rank), self.coefficients.shape[0]
        numbers = {"rank": rank, "condition": float(self.condition), "digits": self.digits}
        sentence = f"Full rank; the data determine about {self.digits} digits."
        if rank < size:
            sentence = f"Rank {rank} of {size}: dependent columns; of all best fits this has the least norm."
        elif self.digits < 4:
            head = f"Ill-conditioned ({float(self.condition):.1e})"
            sentence = f"{head}: exact for these numbers, but their rounding leaves {self.digits} digits."
        return Verdict(rank == size and self.digits >= 4, sentence, numbers)


def least_squares(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    intercept: bool = False,
    penalty: Any = 0.0,
) -> LeastSquares:
    r"""$\arg\min_\theta \sum_i w_i (y_i - x_i^\top\theta)^2 + \sum_j\lambda_j\theta_j^2$, to the last digits.

    `penalty` is one $\lambda$ or one per column; the intercept, a first column of ones, has none.

    >>> X, y = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0]
    >>> least_squares(X, y, penalty=0.5).coefficients.round(7)
    Array([0.8780488, 0.9756098], dtype=float64)
    """
    rows, targets, row_weights = Rows.of(X, y, weights, target="numbers")
    n, p = rows.shape
    ridge = np.broadcast_to(np.asarray(penalty, float), (p,)).copy()
    check_nonnegative("penalty", ridge)
    columns = targets.reshape(n, -1)
    found = None
    if n >= _TALL and n >= 8 * (p + 1):
        found = by_gram(rows, columns, row_weights, ridge, intercept)
        if found is None and rows.size > _LARGE:
            found = by_blocks(rows, columns, row_weights, ridge, intercept)
    found = found or _by_factor(rows, columns, row_weights, ridge, intercept)
    vector = targets.ndim == 1
    sums = row_weights @ (columns - (row_weights @ columns / row_weights.sum() if intercept else 0.0)) ** 2
    return LeastSquares(
        jnp.asarray(found.coefficients[:, 0] if vector else found.coefficients),
        jnp.asarray(found.inverse),
        jnp.asarray(found.residual_sum[0] if vector else found.residual_sum),
        jnp.asarray(sums[0] if vector else sums),
        jnp.asarray(found.rank),
        jnp.asarray(float(found.condition)),
        jnp.asarray(float(found.change)),
        found.method,
    )


def orthonormal_columns(rows: np.ndarray, weights: np.ndarray, intercept: bool) -> np.ndarray:
    r"""$Z$ with the span of the columns (and of the constant) and $Z^\top W Z = I$: as many as the rank."""
    design = np.column_stack([np.ones(len(rows)), rows]) if intercept else rows
    roots = np.sqrt(weights)
    factor = _Factor.of(design / _powers_of_two(_norms(roots[:, None] * design)), roots)
    return factor.Q[:, : factor.rank] / roots[:, None]


class _Factor(NamedTuple):
    """$\\sqrt W A P = Q R$ of scaled columns, with the rank that $R$ shows."""

    Q: np.ndarray
    R: np.ndarray
    pivot: np.ndarray
    roots: np.ndarray
    rank: int
    condition: float

    @classmethod
    def of(cls, A: np.ndarray, roots: np.ndarray) -> "_Factor":
        weighted = roots[:, None] * A
        n, p = A.shape
        options: dict[str, Any] = {"mode": "economic", "check_finite": False}
        if n > 2 * p:  # pivoting a small triangle instead of tall columns is several times as fast
            first, triangle = sl.qr(weighted, overwrite_a=True, **options)
            second, R, pivot = sl.qr(triangle, pivoting=True, **options)
            Q = first @ second
        else:
            Q, R, pivot = sl.qr(weighted, pivoting=True, overwrite_a=True, **options)
        diagonal = np.abs(np.diag(R))
        rank = int((diagonal > max(n, p) * _EPS * diagonal[0]).sum())
        values = sl.svdvals(R[:rank, :rank]) if rank else np.ones(1)
        condition = values[0] / values[-1] if rank == p else np.inf
        return cls(Q, R, pivot, roots, rank, float(condition))

    def correct(self, upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""$(r, x)$ with $r + A x = f$, $A^\top W r = g$ in working precision."""
        weighted = self.roots[:, None] * upper
        share = sl.solve_triangular(self.R, lower[self.pivot], trans="T", check_finite=False)
        within = self.Q.T @ weighted - share
        x = np.empty_like(lower)
        x[self.pivot] = sl.solve_triangular(self.R, within, check_finite=False)
        return (weighted - self.Q @ within) / self.roots[:, None], x


def _by_factor(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: np.ndarray, intercept: bool
) -> Solution:
    """The accurate way: everything in memory, refined on rows that were never rounded."""
    n = len(rows)
    design = np.column_stack([np.ones(n), rows]) if intercept else rows
    penalised = np.flatnonzero(ridge)
    extra = np.zeros((len(penalised), design.shape[1]))
    extra[np.arange(len(penalised)), penalised + intercept] = 1.0
    A, w = np.concatenate([design, extra]), np.concatenate([weights, ridge[penalised]])
    b = np.concatenate([targets, np.zeros((len(penalised), targets.shape[1]))])
    roots = np.sqrt(w)
    scale, unit = _powers_of_two(_norms(roots[:, None] * A)), _powers_of_two(np.abs(b).max(0))
    A, b = A / scale, b / unit
    factor = _Factor.of(A, roots)
    if factor.rank < A.shape[1]:
        x, inverse, change = _least_norm(factor, A, b, scale, intercept)
        r, method = b - A @ x, "pivoted QR, least norm"
    else:
        r, x, inverse, change = _refined(factor, A, w, b)
        method = "pivoted QR with refinement"
    inverse = inverse / scale[:, None] / scale
    sums = weights @ (r[:n] ** 2) * unit**2
    return Solution(x / scale[:, None] * unit, inverse, sums, factor.rank, factor.condition, change, method)


def _refined(factor: _Factor, A: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[Any, Any, Any, float]:
    """Residual, solution and inverse of the normal matrix, refined together where the inverse needs it."""
    (n, p), k = A.shape, b.shape[1]
    if factor.condition < 1e3 or n * p * p > _INVERSE:
        root = sl.solve_triangular(factor.R, np.eye(p), check_finite=False)
        inverse = np.empty((p, p))
        inverse[np.ix_(factor.pivot, factor.pivot)] = root @ root.T
        r, x, change = _refine(factor, A, w, b, np.zeros((p, k)))
        return r, x, inverse, change
    both = np.concatenate([b, np.zeros((n, p))], axis=1)
    r, x, change = _refine(factor, A, w, both, np.concatenate([np.zeros((p, k)), -np.eye(p)], axis=1))
    return r[:, :k], x[:, :k], 0.5 * (x[:, k:] + x[:, k:].T), change


def _refine(
    factor: _Factor, A: np.ndarray, w: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Solve, then correct by the residual in twice the digits until a correction no longer matters."""
    upper, lower = b, c
    r, x = Pair.zeros(b.shape), Pair.zeros(c.shape)
    change = np.inf
    for _ in range(_STEPS):
        dr, dx = factor.correct(upper, lower)
        r, x = add_pairs(r, dr), add_pairs(x, dx)
        size, before = _relative(dx, x.high), change
        change = min(size, before)
        if size <= 0.25 * _EPS or (size > 0.5 * before and before < 1):  # settled, or no longer gaining
            break
        upper, lower = augmented_residual(A, w, b, c, r, x)
    return r.high + r.low, x.high + x.low, change


def _least_norm(
    factor: _Factor, A: np.ndarray, b: np.ndarray, scale: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """The solution of least norm in the columns' own units, and the pseudo-inverse of the normal matrix."""
    rank, p = factor.rank, A.shape[1]
    kept = np.empty((rank, p))
    kept[:, factor.pivot] = factor.R[:rank]
    kept = kept * scale
    operator = np.zeros((p, rank))
    if intercept and rank:
        rotation, first = sl.qr(kept[:, :1], check_finite=False)
        turned = rotation.T @ kept[:, 1:]
        operator[1:] = _right_inverse(turned[1:]) @ rotation.T[1:]
        operator[0] = (rotation.T[0] - turned[0] @ operator[1:]) / first[0, 0]
    elif rank:
        operator = _right_inverse(kept)
    operator = scale[:, None] * operator @ factor.Q[:, :rank].T * factor.roots
    x = Pair(operator @ b, np.zeros((p, b.shape[1])))
    dx = operator @ plain_residual(A, b, x)
    x = add_pairs(x, dx)
    half = operator / factor.roots
    return x.high, half @ half.T, _relative(dx, x.high)


def _right_inverse(rows: np.ndarray) -> np.ndarray:
    r"""$M^+ = V L^{-\top}$ with $M^\top = V L$, for independent rows."""
    if not rows.shape[0]:
        return np.zeros((rows.shape[1], 0))
    V, L = sl.qr(rows.T, mode="economic", check_finite=False)
    return V @ sl.solve_triangular(L, np.eye(len(L)), trans="T", check_finite=False)


def _norms(columns: np.ndarray) -> np.ndarray:
    """Lengths of the columns, without overflow of their squares."""
    largest = np.abs(columns).max(0)
    safe = np.where(largest > 0, largest, 1.0)
    return largest * np.sqrt(((columns / safe) ** 2).sum(0))


def _powers_of_two(lengths: np.ndarray) -> np.ndarray:
    """The powers of two near the lengths; one where a length is zero."""
    return np.where(lengths > 0, np.exp2(np.round(np.log2(np.where(lengths > 0, lengths, 1.0)))), 1.0)


def _relative(change: np.ndarray, x: np.ndarray) -> float:
    size = np.abs(x).max(0)
    return float((np.abs(change).max(0) / np.where(size > 0, size, 1.0)).max())
