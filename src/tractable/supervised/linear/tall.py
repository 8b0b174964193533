r"""Least squares of many rows and few columns, in blocks: a checked Gram matrix, else a QR of blocks.

Gram.        $G = \sum Z^\top W Z$ of rows shifted by the mean of the first block (only with an intercept: the
             shift is then undone exactly). Its Cholesky factor squares the condition number $\kappa$, so it
             is used only if $\kappa \le 10^3$; a refinement on the rows then restores the digits.
Blocks.      $R_b$ = triangle of $(R_{b-1}; \text{block } b)$ carries $Q^\top y$ along as further columns;
             steps $R^\top R\,\delta = A^\top W r$ with $r$ in twice the digits refine what it gives.
Cost.        $O(n p^2)$ in two passes over the rows; memory for one block.
References.  Demmel et al. (2012) for QR by blocks; Bjorck (1987) for the corrected seminormal equations.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from tractable.supervised.linear.compensated import (
    Pair,
    add_pairs,
    plain_residual,
    row_blocks,
    subtract_products,
)
from tractable.supervised.linear.products import over_rows, products_of

__all__ = ["Solution", "by_blocks", "by_gram", "triangle_of_rows"]

sl: Any = scipy.linalg  # its stubs cannot tell what its options return
_EPS = float(np.finfo(float).eps)
_LARGEST_CONDITION = 1e3
_NEAR = 10.0  # standard deviations from zero: the Gram matrix then errs by at most 100 roundings
_BLOCK = 2048  # rows that stay in a cache from one sum to the next


class Solution(NamedTuple):
    """Coefficients (intercept first), inverse of the normal matrix, sums of squared residuals, and how."""

    coefficients: np.ndarray
    inverse: np.ndarray
    residual_sum: np.ndarray
    rank: int
    condition: float
    change: float
    method: str


def by_gram(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: np.ndarray, intercept: bool
) -> Solution | None:
    """The solution through the Gram matrix, or None where its condition would cost digits."""
    shifted, gram = _shifted_gram(rows, targets, weights, intercept)
    q = rows.shape[1] + intercept
    penalty = np.concatenate([np.zeros(int(intercept)), ridge])
    normal = gram[:q, :q] + np.diag(penalty)
    diagonal = np.diag(normal)
    if not (np.isfinite(gram).all() and (diagonal > 0).all()):
        return None
    scale = np.exp2(np.round(0.5 * np.log2(diagonal)))
    equilibrated = normal / scale[:, None] / scale
    values = np.linalg.eigvalsh(equilibrated)
    condition = np.sqrt(values[-1] / values[0]) if values[0] > 0 else np.inf
    if condition > _LARGEST_CONDITION:
        return None
    factor = sl.cho_factor(equilibrated, check_finite=False)

    def solve(right):
        return sl.cho_solve(factor, right / scale[:, None], check_finite=False) / scale[:, None]

    x = solve(gram[:q, q:])
    sums, slope = shifted.misfit(x)
    dx = solve(slope - penalty[:, None] * x)
    sums = sums - 2 * (slope * dx).sum(0) + (dx * (gram[:q, :q] @ dx)).sum(0)
    change = float((np.abs(scale[:, None] * dx).max(0) / _size(scale[:, None] * x)).max())
    back = shifted.back()
    inverse = back @ solve(np.eye(q)) @ back.T
    return Solution(
        shifted.unshift(x + dx), inverse, sums, q, float(condition), change, "Gram matrix, refined"
    )


def by_blocks(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: np.ndarray, intercept: bool
) -> Solution | None:
    """The solution through a QR over blocks of rows, or None where the columns are dependent."""
    n, q = rows.shape[0], rows.shape[1] + intercept
    triangle = triangle_of_rows(rows, targets, weights, ridge, intercept)
    scale = np.exp2(
        np.round(np.log2(np.maximum(np.linalg.norm(triangle[:q, :q], axis=0), np.finfo(float).tiny)))
    )
    Q, R, pivot = sl.qr(triangle[:q, :q] / scale, pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(R))
    if diagonal[-1] <= n * _EPS * diagonal[0]:
        return None
    values = sl.svdvals(R)
    x = np.empty((q, targets.shape[1]))
    x[pivot] = sl.solve_triangular(R, Q.T @ triangle[:q, q:], check_finite=False)
    x, sums, change = _seminormal(rows, targets, weights, ridge, intercept, (R, pivot, scale), x)
    root = sl.solve_triangular(R, np.eye(q), check_finite=False)
    inverse = np.empty((q, q))
    inverse[np.ix_(pivot, pivot)] = root @ root.T
    inverse = inverse / scale[:, None] / scale
    condition = float(values[0] / values[-1])
    return Solution(x / scale[:, None], inverse, sums, q, condition, change, "QR over blocks, refined")


def triangle_of_rows(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: np.ndarray, intercept: bool
) -> np.ndarray:
    r"""The triangle $R$ of $\sqrt W (1, X, Y)$ stacked on the roots of the penalty, block by block."""
    width = rows.shape[1] + intercept + targets.shape[1]
    penalty = np.concatenate([np.zeros(int(intercept)), np.sqrt(ridge), np.zeros(targets.shape[1])])
    triangle = np.diag(penalty)
    for part in row_blocks(rows.shape[0], width):
        block = np.column_stack([*_ones(rows[part], intercept), rows[part], targets[part]])
        stacked = np.concatenate([triangle, np.sqrt(weights[part])[:, None] * block])
        triangle = sl.qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][:width]
    return triangle


def _seminormal(
    rows: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    ridge: np.ndarray,
    intercept: bool,
    factor: tuple,
    x: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Two corrections by residuals of twice the digits; one that does not shrink is not taken."""
    R, pivot, scale = factor
    penalty = np.concatenate([np.zeros(int(intercept)), ridge])[:, None] / scale[:, None] ** 2
    change, pair = np.inf, Pair(x, np.zeros_like(x))
    sums = np.zeros(x.shape[1])
    for _ in range(2):
        sums, left = np.zeros_like(sums), Pair(penalty * pair.high, np.zeros_like(x))
        for part in row_blocks(rows.shape[0], rows.shape[1]):
            A = np.column_stack([*_ones(rows[part], intercept), rows[part]]) / scale
            residual = plain_residual(A, targets[part], pair)
            sums = sums + weights[part] @ residual**2
            left = subtract_products(left, A, weights[part], residual)
        slope = -(left.high + left.low)
        half = sl.solve_triangular(R, slope[pivot], trans="T", check_finite=False)
        dx = np.empty_like(x)
        dx[pivot] = sl.solve_triangular(R, half, check_finite=False)
        size = float((np.abs(dx).max(0) / _size(pair.high)).max())
        if size >= change:
            break
        pair, change = add_pairs(pair, dx), size
    return pair.high, sums, change


def _shifted_gram(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, intercept: bool
) -> tuple["_Shifted", np.ndarray]:
    """The Gram matrix of the shifted rows: from products about the origin where they keep their digits."""
    found = products_of(rows, targets, None if (weights == 1).all() else weights)
    p, near = rows.shape[1], found.is_near(_NEAR) if intercept else bool(np.isfinite(found.products).all())
    if not near:
        shifted = _Shifted.of(rows, targets, weights, intercept)
        gram: Any = sum(z.T @ z for z in shifted.blocks())
        return shifted, gram
    if not intercept:
        zeros = np.zeros(p), np.zeros(targets.shape[1])
        return _Shifted(rows, targets, weights, False, *zeros, near=True), found.products
    gram = np.zeros((len(found.sums) + 1,) * 2)
    gram[0, 0], gram[1:, 1:] = found.count, found.centred
    return _Shifted(rows, targets, weights, True, found.mean[:p], found.mean[p:], near=True), gram


class _Shifted(NamedTuple):
    """Weighted blocks $(1, x - m, y - l)$ of the rows: the shift makes the columns nearly orthogonal to 1.

    Where the columns are `near` zero, the rows need not be shifted one by one.
    """

    rows: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    intercept: bool
    middle: np.ndarray
    level: np.ndarray
    near: bool = False

    @classmethod
    def of(cls, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, intercept: bool) -> "_Shifted":
        first = next(row_blocks(rows.shape[0], rows.shape[1] + 2))
        middle = rows[first].mean(0) if intercept else np.zeros(rows.shape[1])
        level = targets[first].mean(0) if intercept else np.zeros(targets.shape[1])
        return cls(rows, targets, weights, intercept, middle, level)

    def blocks(self) -> Any:
        n, p = self.rows.shape
        roots = None if (self.weights == 1).all() else np.sqrt(self.weights)
        for part in row_blocks(n, p + self.targets.shape[1] + 1):
            block = np.empty((part.stop - part.start, self.intercept + p + self.targets.shape[1]))
            if self.intercept:
                block[:, 0] = 1.0
            np.subtract(self.rows[part], self.middle, out=block[:, int(self.intercept) : self.intercept + p])
            np.subtract(self.targets[part], self.level, out=block[:, self.intercept + p :])
            if roots is not None:
                block *= roots[part, None]
            yield block

    def misfit(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""The sums of squared residuals $r$ of coefficients of shifted rows $Z$, and $Z^\top W r$."""
        if not self.near:
            sums, slope, q = np.zeros(x.shape[1]), np.zeros_like(x), len(x)
            for z in self.blocks():
                residual = z[:, q:] - z[:, :q] @ x
                sums, slope = sums + (residual**2).sum(0), slope + z[:, :q].T @ residual
            return sums, slope
        slopes = x[int(self.intercept) :]
        constant = (x[0] if self.intercept else 0.0) + self.level - self.middle @ slopes

        def part(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            sums, total, slope = np.zeros(x.shape[1]), np.zeros(x.shape[1]), np.zeros_like(slopes)
            for start in range(low, high, _BLOCK):
                cut = slice(start, min(start + _BLOCK, high))
                residual = self.targets[cut] - self.rows[cut] @ slopes - constant
                weighted = self.weights[cut, None] * residual
                sums, total = sums + (weighted * residual).sum(0), total + weighted.sum(0)
                slope = slope + self.rows[cut].T @ weighted
            return sums, total, slope

        found = over_rows(part, len(self.rows))
        sums, total, slope = (np.sum(each, axis=0) for each in zip(*found))
        if not self.intercept:
            return sums, slope
        return sums, np.concatenate([total[None], slope - np.outer(self.middle, total)])

    def back(self) -> np.ndarray:
        """The map from coefficients of shifted rows to those of the rows themselves."""
        back = np.eye(self.rows.shape[1] + self.intercept)
        if self.intercept:
            back[0, 1:] = -self.middle
        return back

    def unshift(self, x: np.ndarray) -> np.ndarray:
        result = self.back() @ x
        if self.intercept:
            result[0] += self.level
        return result


def _ones(rows: np.ndarray, intercept: bool) -> list[np.ndarray]:
    return [np.ones(len(rows))] if intercept else []


def _size(x: np.ndarray) -> np.ndarray:
    size = np.abs(x).max(0)
    return np.where(size > 0, size, 1.0)
