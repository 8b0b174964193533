r"""Leading directions of a table: by eigenvectors, singular vectors, power iteration or random projections.

Eigen.       $\Sigma u_i = \lambda_i u_i$ of the covariance, which adds over rows. Variances below $10^{-16}$
             of the largest are rounding.
SVD.         $X - 1\bar x^\top = U S V^\top$: $\lambda_i = s_i^2/n$, to full relative precision of $s_i$.
Power.       $u \leftarrow \Sigma u/\|\Sigma u\|$, then $\Sigma \leftarrow \Sigma - \lambda u u^\top$
             (deflation): one direction after the other, at the rate of the ratio of two variances.
Randomised.  An orthonormal basis $Q$ of $[A\Omega, (AA^\top)A\Omega, \dots, (AA^\top)^q A\Omega]$, with
             Gaussian $\Omega$ of $k + p$ columns, then the SVD of $Q^\top A$. Keeping the powers (a Krylov
             space) finds what the last one alone would need $q^2$ of.
Signs.       The entry of largest modulus of each direction is positive, in every solver.
Cost.        Eigen $O(nd^2 + d^3)$, SVD $O(nd\min(n, d))$, power $O(d^2)$ a step, randomised $O(nd(k + p)q)$.
References.  Jolliffe (2002); Halko, Martinsson and Tropp (2011); Musco and Musco (2015).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, namespace
from tractable.core.host_random import generator
from tractable.core.iterate import Status
from tractable.core.spectral import dominant_eigenpair
from tractable.core.types import Key, Values

__all__ = ["Directions", "by_eigen", "by_power", "by_randomised", "by_svd", "leading_eigen", "signed"]

_OVERSAMPLES, _POWERS = 10, 4  # further columns of the random basis; how often it is multiplied


class Directions(NamedTuple):
    """Orthonormal rows, with the variance along each, the largest first."""

    components: Values
    variances: Values


def signed(components: Values) -> Values:
    """Each row with its entry of largest modulus positive: the same answer from every solver."""
    xp = namespace(components)
    places = xp.abs(components).argmax(-1)
    signs = xp.sign(xp.take_along_axis(components, places[..., None], -1))
    return components * xp.where(signs == 0, 1.0, signs)


def leading_eigen(cov: Values, count: int) -> Directions:
    """The `count` largest eigenvalues of a symmetric matrix (none below zero by rounding) with directions.

    >>> leading_eigen(np.array([[2.0, 1.0], [1.0, 2.0]]), 1).variances.round(12).tolist()
    [3.0]
    """
    xp = namespace(cov)
    d = cov.shape[-1]
    if xp is np and 4 * count < d and d > 100:
        import scipy.linalg

        values, vectors = scipy.linalg.eigh(cov, subset_by_index=[d - count, d - 1], check_finite=False)
    else:
        values, vectors = xp.linalg.eigh(cov)
    values, rows = values[::-1][:count], vectors.T[::-1][:count]
    return Directions(signed(rows), xp.maximum(values, 0.0))


def by_eigen(cov: np.ndarray, count: int) -> Directions:
    """From the covariance."""
    scale = float(np.abs(np.diag(cov)).max())
    if scale == 0:
        return Directions(np.eye(len(cov))[:count], np.zeros(count))
    found = leading_eigen(cov / scale, count)
    return Directions(found.components, found.variances * scale)


def by_svd(rows: np.ndarray, total: float, count: int) -> Directions:
    """From centred rows, each times the root of its weight; `total` is what divides their scatter."""
    import scipy.linalg

    most = min(rows.shape)
    check(count <= most, "num_components", f"at most min(n, d) = {most} for an SVD", count)
    values, right = scipy.linalg.svd(rows, full_matrices=False, check_finite=False)[1:]
    return Directions(signed(right[:count]), values[:count] ** 2 / total)


def by_power(cov: np.ndarray, count: int, *, max_steps: int, tol: float | int) -> tuple[Directions, Status]:
    """One direction after the other; where two variances are nearly equal a step gains little, and the status
    says that `max_steps` was not enough."""
    left, directions, values = cov.copy(), [], []
    status, scale = Status.converged, float(np.trace(cov))
    for _ in range(count):
        if np.trace(left) <= 1e-14 * scale:  # nothing but rounding: any direction that is left
            basis = np.linalg.svd(np.array([*directions, np.zeros(len(cov))]))[2]
            directions += list(basis[len(directions) : count])
            values += [0.0] * (count - len(values))
            break
        run = dominant_eigenpair(left, max_steps=max_steps, tol=tol)
        status = status if run.status is Status.converged else run.status
        vector = np.asarray(run.state.vector)
        for other in directions:  # rounding puts a little of what was deflated back
            vector = vector - (other @ vector) * other
        vector = vector / np.linalg.norm(vector)
        value = float(vector @ cov @ vector)
        left = left - value * np.outer(vector, vector)
        directions.append(vector)
        values.append(value)
    order = np.argsort(np.negative(values), kind="stable")
    return Directions(signed(np.array(directions)[order]), np.array(values)[order]), status


def by_randomised(
    rows: Any, mean: np.ndarray, weights: np.ndarray | None, total: float, count: int, key: Key
) -> Directions:
    """From products with the table alone, which is never centred (nor made dense): `rows` may be sparse."""
    n, d = rows.shape
    root = np.ones(n) if weights is None else np.sqrt(weights)
    width = min(count + _OVERSAMPLES, n, d)
    check(count <= min(n, d), "num_components", f"at most min(n, d) = {min(n, d)}", count)

    def times(block: np.ndarray) -> np.ndarray:
        return root[:, None] * (rows @ block - (mean @ block)[None])

    def transposed(block: np.ndarray) -> np.ndarray:
        scaled = root[:, None] * block
        return rows.T @ scaled - mean[:, None] * scaled.sum(0)[None]

    powers = [np.linalg.qr(times(generator(key).standard_normal((d, width))))[0]]
    for _ in range(_POWERS):
        powers.append(np.linalg.qr(times(transposed(powers[-1])))[0])
    basis = np.linalg.qr(np.concatenate(powers, 1))[0]
    values, right = np.linalg.svd(transposed(basis).T, full_matrices=False)[1:]
    return Directions(signed(right[:count]), values[:count] ** 2 / total)
