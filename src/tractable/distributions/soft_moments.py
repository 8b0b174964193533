r"""Soft assignment by quadratic scores, and the weighted moments that it gives: one pass over the rows.

Scores.      $s_k(x) = a_k - \frac12\|W_k^\top(x - m_k)\|^2$: the log-joint of a Gaussian mixture, or its
             expectation under a posterior of the parameters; $W_k$ is a matrix, or the diagonal of one.
Sums.        With $r_{nk} = e^{s_k(x_n)}/\sum_j e^{s_j(x_n)}$ and a fixed centre $c$: $\sum_n w_n r_{nk}$
             times $(1,\; x_n - c,\; (x_n - c)(x_n - c)^\top)$, and $\sum_n w_n\log\sum_k e^{s_k(x_n)}$. All
             add over rows.
Features.    $s_k$ is linear in $\phi(x) = (1, x - c, \{(x_i - c_i)(x_j - c_j)\}_{i \le j})$, and the sums are
             $R^\top\Phi$: two matrix products per block of rows that fits the cache. Expanding the square
             loses $\sum_i P_{ii}\mathrm{Var}[x_i]$ units of rounding, so where that is large the scores are
             found by whitening.
Cost.        $O(nkd^2)$, half of it with features; $O(nkd)$ for diagonals. Memory for one block per thread.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import namespace
from tractable.core.interrupts import in_threads
from tractable.core.module import Module
from tractable.core.numerics import logsumexp
from tractable.core.types import Values

__all__ = [
    "Quadratics", "SoftMoments", "lower_factors", "precision_roots", "scores", "soft_moments",
    "weigh_moments",
]  # fmt: skip

_BLOCK = 2048  # rows whose features fit the cache
_PART = 8 * _BLOCK  # rows of one task; fixed, so that sums round alike however many threads there are
_NARROW = 64  # rows below which blocks cost more than they save
_LOSS = 1e6  # units of rounding that scores by features may lose


class Quadratics(NamedTuple):
    r"""$s_k(x) = a_k - \frac12\|W_k^\top(x - m_k)\|^2$: $a$ = `offset` (k,), $m$ = `mean` (k, d), $W$ =
    `root` (k, d, d), or (k, d) for diagonals."""

    offset: Any
    mean: Any
    root: Any


class SoftMoments(Module):
    """Sums over rows, weighted by their shares: `count` (k,), `first` (k, d) and `second` (k, d, d), or (k,
    d) for diagonals, about one fixed centre."""

    count: Any
    first: Any
    second: Any


def scores(quadratics: Quadratics, rows: Any) -> Values:
    """Each score of each row, `(n, k)`, by whitening: every digit that the rows have.

    >>> two = Quadratics(np.zeros(2), np.array([[0.0], [3.0]]), np.ones((2, 1, 1)))
    >>> scores(two, np.array([[1.0]])).tolist()
    [[-0.5, -2.0]]
    """
    xp = namespace(quadratics, rows)
    offset, mean, root = (xp.asarray(a) for a in quadratics)
    rows = xp.asarray(rows)
    if xp is np and len(rows) > _NARROW:
        return _host_scores(offset, mean, root, rows)

    def distance(k: int) -> Any:
        away = rows - mean[k][None]
        return ((away @ root[k] if root.ndim == 3 else away * root[k][None]) ** 2).sum(-1)

    return offset[None] - 0.5 * xp.stack([distance(k) for k in range(len(mean))], -1)


def _host_scores(offset: np.ndarray, mean: np.ndarray, root: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same in blocks with one column after the other: sums run along whole columns, not along rows."""
    found = np.empty((len(rows), len(mean)))
    half = np.sqrt(0.5) * root
    for i in range(0, len(rows), _BLOCK):
        block = np.array(rows[i : i + _BLOCK].T, order="C")
        part = found[i : i + _BLOCK]
        for k in range(len(mean)):
            if root.ndim == 3:
                white = half[k].T @ (block - mean[k][:, None])
                distance = np.square(white, out=white).sum(0)
            else:
                distance = np.zeros(block.shape[1])
                for column, place, share in zip(block, mean[k], half[k]):
                    away = column - place
                    away *= share
                    distance += np.square(away, out=away)
            np.subtract(offset[k], distance, out=part[:, k])
    return found


def soft_moments(quadratics: Quadratics, rows: Any, weights: Any, centre: Any) -> tuple[SoftMoments, Any]:
    """The moments of each component, and the log-evidence; additive over rows.

    >>> two = Quadratics(np.zeros(2), np.array([[-9.0], [9.0]]), np.ones((2, 1, 1)))
    >>> moments, _ = soft_moments(two, np.array([[-9.0], [-8.0], [9.0]]), np.ones(3), np.zeros(1))
    >>> moments.count.round(6).tolist(), moments.first.round(6).tolist()
    ([2.0, 1.0], [[-17.0], [9.0]])
    """
    if namespace(quadratics, rows, weights, centre) is not np:
        joint = scores(quadratics, rows)
        evidence = logsumexp(joint, axis=-1)
        xp = namespace(joint)
        possible = evidence[:, None] > -xp.inf
        shares = xp.where(possible, xp.exp(joint - xp.where(possible, evidence[:, None], 0.0)), 0.0)
        full = quadratics.root.ndim == 3
        counted = xp.where(weights > 0, evidence, 0.0)
        return weigh_moments(rows, weights[:, None] * shares, centre, full), weights @ counted
    sums = _Sums.of(quadratics, np.asarray(centre))
    rows, weights = np.asarray(rows), np.asarray(weights)
    starts = range(0, len(rows), _PART)
    with one_blas_thread(len(starts) > 1):
        parts = in_threads(lambda i: sums.part(rows[i : i + _PART], weights[i : i + _PART]), starts)
        totals, evidences = zip(*parts)
    return sums.unpack(np.sum(totals, axis=0)), np.float64(sum(evidences))


def weigh_moments(rows: Any, shares: Any, centre: Any, full: bool = True) -> SoftMoments:
    """The moments of rows of which each component owns the given share `(n, k)`."""
    xp = namespace(rows, shares, centre)
    if xp is np and not full and len(rows) > _NARROW:
        return _host_moments(np.asarray(rows), np.asarray(shares), np.asarray(centre))
    shares, away = xp.asarray(shares), xp.asarray(rows) - xp.asarray(centre)[None]
    with one_blas_thread(xp is np):  # products of a few columns: several threads only wait for each other
        first = shares.T @ away
        if not full:
            return SoftMoments(shares.sum(0), first, shares.T @ away**2)
        second = xp.stack([(shares[:, k : k + 1] * away).T @ away for k in range(shares.shape[1])])
    return SoftMoments(shares.sum(0), first, second)


def _host_moments(rows: np.ndarray, shares: np.ndarray, centre: np.ndarray) -> SoftMoments:
    """The moments of diagonals: ones, rows and their squares beside each other, one product per block."""
    d = rows.shape[1]
    features = np.ones((1 + 2 * d, min(len(rows), _BLOCK)))
    total = np.zeros((1 + 2 * d, shares.shape[1]))
    with one_blas_thread():
        for i in range(0, len(rows), _BLOCK):
            block = rows[i : i + _BLOCK]
            part = features[:, : len(block)]
            np.subtract(block.T, centre[:, None], out=part[1 : 1 + d])
            np.square(part[1 : 1 + d], out=part[1 + d :])
            total += part @ shares[i : i + _BLOCK]
    return SoftMoments(total[0], total[1 : 1 + d].T.copy(), total[1 + d :].T.copy())


def precision_roots(cov: Any) -> tuple[Any, Any]:
    r"""$W$ with $WW^\top = \Sigma^{-1}$ (the inverse of a Cholesky factor, transposed) and $\log|\Sigma|$
    of each matrix of a stack; NaN where one has none."""
    xp, lower = namespace(cov), lower_factors(cov)
    if xp is np:
        eye = np.eye(cov.shape[-1])
        inverse = np.linalg.solve(lower, np.broadcast_to(eye, cov.shape))
    else:
        eye = jnp.broadcast_to(jnp.eye(cov.shape[-1]), cov.shape)
        inverse = jsl.solve_triangular(lower, eye, lower=True)
    diagonal = xp.diagonal(lower, axis1=-2, axis2=-1)
    return inverse.swapaxes(-1, -2), 2 * xp.log(diagonal).sum(-1)


def lower_factors(cov: Any) -> Any:
    """Cholesky factors of a matrix or of each of a stack; NaN where one has none."""
    if namespace(cov) is not np:
        return jnp.linalg.cholesky(cov)
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        if np.ndim(cov) == 2:
            return np.full_like(cov, np.nan)
        return np.stack([lower_factors(one) for one in cov])


class _Sums(NamedTuple):
    """What one pass needs: the scores, and where they can be trusted their coefficients on the features."""

    quadratics: Quadratics
    centre: np.ndarray
    coefficients: np.ndarray | None
    absent: np.ndarray  # components of weight zero: an infinite factor makes NaN in some kernels of products

    @staticmethod
    def of(quadratics: Quadratics, centre: np.ndarray) -> "_Sums":
        offset, mean, root = (np.asarray(a) for a in quadratics)
        away, absent = mean - centre, np.flatnonzero(np.isneginf(offset))
        quadratics = Quadratics(offset, away, root)
        full = root.ndim == 3
        precision = root @ root.swapaxes(1, 2) if full else root**2
        diagonal = np.diagonal(precision, axis1=1, axis2=2) if full else precision
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            spread = (1 / diagonal).max(0) + (away**2).max(0)  # at least the variance of each column
            loss = (diagonal * spread).sum(1).max()
        if not loss < _LOSS:
            return _Sums(quadratics, centre, None, absent)
        shift = (precision @ away[:, :, None])[:, :, 0] if full else precision * away
        constant = np.where(np.isneginf(offset), 0.0, offset) - 0.5 * (shift * away).sum(1)
        return _Sums(quadratics, centre, np.column_stack([constant, shift, _packed(precision)]), absent)

    @property
    def full(self) -> bool:
        return self.quadratics.root.ndim == 3

    def part(self, rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Sums of features, and the log-evidence, of some rows."""
        dim = rows.shape[1]
        size = 1 + dim + (dim * (dim + 1) // 2 if self.full else dim)
        features, total, evidence = np.empty((size, min(_BLOCK, len(rows)))), 0.0, 0.0
        features[0] = 1.0
        for i in range(0, len(rows), _BLOCK):
            away = np.subtract(rows[i : i + _BLOCK].T, self.centre[:, None], order="C")
            block = self._features(away, features[:, : away.shape[1]])
            joint = (
                scores(self.quadratics, away.T).T if self.coefficients is None else self.coefficients @ block
            )
            joint[self.absent] = -np.inf
            heights = _normalise(joint)
            share = weights[i : i + _BLOCK]
            joint *= share
            evidence += float(share @ np.where(share > 0, heights, 0.0))
            total = total + joint @ block.T
        return np.asarray(total), evidence

    def _features(self, away: np.ndarray, out: np.ndarray) -> np.ndarray:
        dim = len(away)
        out[1 : 1 + dim] = away
        if not self.full:
            np.square(away, out=out[1 + dim :])
            return out
        place = 1 + dim
        for i in range(dim):
            np.multiply(away[i], away[i:], out=out[place : place + dim - i])
            place += dim - i
        return out

    def unpack(self, totals: np.ndarray) -> SoftMoments:
        """Sums of features as moments."""
        dim = len(self.centre)
        count, first, rest = totals[:, 0], totals[:, 1 : 1 + dim], totals[:, 1 + dim :]
        if not self.full:
            return SoftMoments(count, first, rest)
        second = np.empty((len(totals), dim, dim))
        upper = np.triu_indices(dim)
        second[:, upper[0], upper[1]] = second[:, upper[1], upper[0]] = rest
        return SoftMoments(count, first, second)


def _packed(precision: np.ndarray) -> np.ndarray:
    """The coefficients of $-\\frac12 x^\\top P x$ on the products of entries."""
    if precision.ndim == 2:
        return -0.5 * precision
    upper = np.triu_indices(precision.shape[1])
    return np.where(upper[0] == upper[1], -0.5, -1.0) * precision[:, upper[0], upper[1]]


def _normalise(joint: np.ndarray) -> np.ndarray:
    """Shares along the first axis in place of scores; returns their log-sum. Where nothing is possible the
    shares are zero and the sum is -inf."""
    top = joint.max(0)
    safe = np.where(top > -math.inf, top, 0.0)
    joint -= safe
    np.exp(joint, out=joint)
    total = joint.sum(0)
    with np.errstate(divide="ignore"):
        heights = safe + np.log(total)
    joint /= np.where(total > 0, total, 1.0)
    return heights
